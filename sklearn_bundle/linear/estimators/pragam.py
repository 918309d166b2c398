"""Support vector classification by the excessive gap technique."""

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from sklearn_bundle.core.contract import SolverResult, Status
from sklearn_bundle.core.parameters import Names
from sklearn_bundle.core.shared_docs import fill_doc
from sklearn_bundle.core.sklearn_internals import Interval
from sklearn_bundle.core.validation import ClassificationData
from sklearn_bundle.core.warm import WarmStart
from sklearn_bundle.linear.estimators._linear import CertifiedLinearClassifier
from sklearn_bundle.linear.losses import Hinge
from sklearn_bundle.linear.problems.linear import LinearProblem, Point
from sklearn_bundle.linear.rows.memory_rows import rows_in_memory
from sklearn_bundle.linear.solvers.hinge_gap import HingeDual, HingeGapSolver


@fill_doc
class PragamSVC(CertifiedLinearClassifier):
    """Linear support vector machine with a free intercept, by Nesterov's excessive gap technique.

    Take it for its dual variables and support vectors, or its guaranteed rate; otherwise
    :class:`BMRMClassifier` has the same optimum, usually in less time. For labels y_i in {-1, +1}
    it minimizes over w and b::

        J(w, b) = reg_lambda / 2 ||w||^2 + sum_i s_i max(0, 1 - y_i (<w, x_i> + b))

    where s_i is sample times class weight, normalized to the sum one. The intercept b is not
    penalized. Three or more classes are one problem per class, one-versus-rest. The dual, whose
    values are the bounds, is::

        D(alpha) = sum_i alpha_i - ||sum_i alpha_i y_i x_i||^2 / (2 reg_lambda)
        0 <= alpha_i <= s_i,   and with an intercept   sum_i alpha_i y_i = 0

    Parameters
    ----------
    %(reg_lambda)s
    %(mean_loss_C)s
    fit_intercept : bool, default=True
        Whether to fit b: True is Pragam-b of [1]_, False its Pragam.
    lipschitz : {"adaptive", "power"} or float, default="adaptive"
        Constant L of the gradient of D in the norm of the prox-function
        ``1/2 sum_i alpha_i^2/s_i``. "adaptive" follows the local curvature, and needs far fewer
        products. "power" and a float are Algorithm 1 of [1]_: the largest eigenvalue of the
        weighted, centered ``X'X/n`` over `reg_lambda`, estimated or given;
        ``max ||x_i||^2 / reg_lambda`` is safe. With less the gap is valid but may not close.
    %(tol: 1e-3)s
    max_iter : int, default=10000
        Maximum number of iterations per class, of three to four products with X or X' each.
    %(max_time)s
    %(class_weight: the sample weights)s
    warm_start : bool, default=False
        Whether the next fit on the same X, y and weights starts from this one.
    %(n_jobs_exact: the classes or blocks of rows)s
    %(random_state: the start of the power iteration)s
    %(verbose)s

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Weights w.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Intercepts b, the minimizers of J for these weights.
    dual_coef_ : ndarray of shape (1, n_support) or (n_classes, n_support)
        ``alpha_i y_i`` of the dual point whose D is ``lower_bound_``, one column per element of
        `support_`: `reg_lambda` times those of :class:`~sklearn.svm.SVC`.
    support_ : ndarray of shape (n_support,)
        Indices of the rows of X with a dual variable that is not zero, for any of the classes.
    classes_ : ndarray of shape (n_classes,)
        The labels; the second one is +1 when there are two.
    %(reg_lambda_)s
    %(certificates: classes)s
    history_ : structured ndarray of shape (`n_iter_`,), or list of them
        The fit by iterations: ``iteration``, ``seconds``, ``objective``, ``lower_bound``,
        ``passes`` over X.
    %(features)s

    Raises
    ------
    %(invalid)s
        both `reg_lambda` and `C`, a single class, multilabel y.

    Warns
    -----
    %(missed_tol)s

    See Also
    --------
    BMRMClassifier : The same objective, and others, by cutting planes; usually faster.

    Notes
    -----
    User guide: :ref:`pragam-svc`.

    The method is section 4 and appendices B and C of [1]_; the objective is its (20), the dual its
    (21) and (22). :doc:`/papers/pragam_theory` has the method, its rate (26), and the adaptive
    rule. At exit the objective and the bound are recomputed from the data.

    References
    ----------
    .. [1] A. Saha, X. Zhang, S. V. N. Vishwanathan: Lower bounds for BMRM and faster rates for
       training SVMs, 2010.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from sklearn_bundle import PragamSVC
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), PragamSVC(reg_lambda=1e-2)).fit(X, y)
    >>> model[-1].status_
    'converged'
    >>> model[-1].relative_gap_ <= 1e-3
    True
    """

    lipschitz: str | float
    random_state: int | np.random.RandomState | None
    dual_coef_: NDArray[np.float64]
    support_: NDArray[np.integer]

    _parameter_constraints: dict[str, Any] = {  # noqa: RUF012 - scikit-learn's convention
        **CertifiedLinearClassifier._common_constraints,
        **CertifiedLinearClassifier._cost_constraints,
        "lipschitz": [
            Names({"adaptive", "power"}),
            Interval(Real, 0, None, closed="neither"),
        ],
        "random_state": ["random_state"],
    }

    @property
    def _advice(self) -> dict[Status, str]:
        other = "" if self.lipschitz == "adaptive" else ', or use lipschitz="adaptive"'
        return CertifiedLinearClassifier._advice | {
            Status.MAX_ITER: f"Increase max_iter or tol, or reg_lambda{other}; scaling the "
            "features helps too.",
        }

    def __init__(
        self,
        *,
        reg_lambda: float | None = None,
        C: float | None = None,
        fit_intercept: bool = True,
        lipschitz: str | float = "adaptive",
        tol: float = 1e-3,
        max_iter: int = 10000,
        max_time: float | None = None,
        class_weight: dict[Any, float] | str | None = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ):
        self._store(locals())

    def _formulation(self) -> tuple[Hinge]:
        return (Hinge(),)

    def _problem(
        self, data: ClassificationData, target: np.ndarray, n_threads: int
    ) -> LinearProblem:
        rows = rows_in_memory(data.X, n_threads)
        problem = LinearProblem(rows, target, data.weights, Hinge(), self.fit_intercept)
        problem.reg_lambda = self._strength(data)
        return problem

    def _objective_at(self, problem: LinearProblem, point: Point) -> float:
        return HingeDual(problem, problem.reg_lambda).objective(point)

    def _seed(self) -> int | None:
        if self.lipschitz != "power":
            return None
        return check_random_state(self.random_state).randint(np.iinfo(np.int32).max)

    def _solver(
        self, problem: LinearProblem, kept: np.ndarray | None, seed: int | None
    ) -> HingeGapSolver:
        return HingeGapSolver(problem, problem.reg_lambda, self.lipschitz, kept, seed)

    def _settings(self, data: ClassificationData) -> tuple[Any, ...]:
        return self._strength(data), self.lipschitz

    def _keep(self, solver: HingeGapSolver, result: SolverResult) -> np.ndarray:
        return solver.dual_point.u

    def _further_attributes(self, data: ClassificationData, warm: WarmStart) -> dict[str, Any]:
        targets = self._targets(data)
        signed = np.array([data.weights * u * y for u, y in zip(warm.kept, targets, strict=True)])
        support = np.flatnonzero(signed.any(axis=0))
        dual = {"dual_coef_": signed[:, support], "support_": data.rows[support]}
        return dual | {"reg_lambda_": self._strength(data)}
