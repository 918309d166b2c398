"""Support vector classification by the excessive gap technique."""

from collections.abc import Callable
from functools import partial
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from sklearn_bundle.core.contract import SolverResult, Status
from sklearn_bundle.core.parameters import Names
from sklearn_bundle.core.sklearn_internals import Interval
from sklearn_bundle.core.validation import ClassificationData
from sklearn_bundle.core.warm import WarmStart
from sklearn_bundle.linear.estimators._linear import CertifiedLinearClassifier
from sklearn_bundle.linear.losses import Hinge
from sklearn_bundle.linear.problems.hinge_dual import HingeDual
from sklearn_bundle.linear.problems.linear import Point
from sklearn_bundle.linear.rows.memory_rows import rows_in_memory
from sklearn_bundle.linear.solvers.excessive_gap import ExcessiveGapSolver


class PragamSVC(CertifiedLinearClassifier):
    """Linear support vector machine with a free intercept, by Nesterov's excessive gap technique.

    For labels y_i in {-1, +1} it minimizes over w and b::

        J(w, b) = reg_lambda / 2 ||w||^2 + sum_i s_i max(0, 1 - y_i (<w, x_i> + b))

    where the s_i are the products of sample and class weight, normalized to sum to one (1/n each
    without weights). The intercept b is not penalized. It solves the dual::

        D(alpha) = sum_i alpha_i - ||sum_i alpha_i y_i x_i||^2 / (2 reg_lambda)
        0 <= alpha_i <= s_i,   and with an intercept   sum_i alpha_i y_i = 0

    D at every feasible point is a lower bound of J, so every fit comes with its duality gap. Three
    or more classes are handled one-versus-rest.

    Parameters
    ----------
    reg_lambda : float, default=None
        Regularization strength relative to the mean loss: it does not scale with n as C does. None
        means 1e-4, unless C is set.
    C : float, default=None
        Another way to set the strength: `reg_lambda_` is ``1 / (C sum_i v_i)``, with v_i the
        product of sample and class weight before they are normalized; the sum is n without weights.
        The model then minimizes ``1/2 ||w||^2 + C sum_i v_i l_i``, as LIBLINEAR and LIBSVM do.
        `objective_` and the bound remain those of J, which is this divided by ``C sum_i v_i``.
        Setting both is an error.
    fit_intercept : bool, default=True
        Whether to fit b: True is Pragam-b of [1]_, False its Pragam.
    lipschitz : {"adaptive", "power"} or float, default="adaptive"
        Constant L of the gradient of D in the norm of the prox-function
        ``1/2 sum_i alpha_i^2/s_i``. "adaptive" follows the local curvature, and restarts from the
        best dual point each time the gap has fallen to a tenth; on our data it needs 1.5 to 8 times
        fewer products than "power" to a gap of 1e-3, 5 to over 40 times fewer to 1e-6. "power" and
        a float are Algorithm 1 of [1]_, whose gap is at most ``2 L / ((k + 1) (k + 2))`` after k
        iterations if L is no less than the largest eigenvalue of the weighted (with an intercept,
        centered) ``X'X/n`` over `reg_lambda`: "power" estimates this by power iteration; ``max
        ||x_i||^2 / reg_lambda`` is a safe float. If L is too small the gap may not close, but it
        remains valid. L is at least 1e-6.
    tol : float, default=1e-3
        Relative duality gap to reach, in (0, 1]: ``dual_gap_ <= tol * abs(objective_)``.
        1e-3 is within 0.1 % of the optimum; below it predictions rarely change: see the user guide.
    max_iter : int, default=10000
        Maximum number of iterations (three to four products with X or X' each), for each class.
    max_time : float, default=None
        Time limit in seconds for the whole fit, checked after every iteration (the power iteration
        is part of the first one). None means no limit.
    class_weight : dict or "balanced", default=None
        Factors on the sample weights by class. "balanced" gives all classes the same total
        weight, sample weights included.
    warm_start : bool, default=False
        Whether to keep the dual point and start from it when the next fit has the same X, y,
        weights and intercept; reg_lambda may differ. Algorithm 1 ignores it. With the same
        reg_lambda and lipschitz the fit continues with the next iteration; a fit that has reached
        `tol` is kept.
    n_jobs : int, default=None
        Threads: over the classes if there are three or more, otherwise over blocks of rows. The
        result does not depend on it, to the last bit. None means 1 outside of a joblib context.
    random_state : int, RandomState instance or None, default=None
        Seed for the start of the power iteration.
    verbose : int, default=0
        1 prints a line a few times per second.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Weights w of the best point found, whose objective is ``objective_``.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Intercepts b, the exact minimizers of J for these weights.
    dual_coef_ : ndarray of shape (1, n_support) or (n_classes, n_support)
        ``alpha_i y_i`` of the dual point whose D is ``lower_bound_``, one column per element of
        `support_`. Near the optimum ``coef_`` is close to ``dual_coef_ @ X[support_] /
        reg_lambda``. This is `reg_lambda` times the attribute of :class:`~sklearn.svm.SVC`.
    support_ : ndarray of shape (n_support,)
        Indices of the rows of X with a dual variable that is not zero, for any of the classes.
    classes_ : ndarray of shape (n_classes,)
        The labels; the second one is +1 when there are two.
    reg_lambda_ : float
        The `reg_lambda` of J, as given or from C or the default.
    objective_ : float, or ndarray of shape (n_classes,)
        J at the returned point. With three or more classes, this and the following attributes have
        one entry per class.
    lower_bound_ : float, or ndarray of shape (n_classes,)
        Lower bound of the minimum of J.
    dual_gap_ : float, or ndarray of shape (n_classes,)
        ``objective_ - lower_bound_``.
    converged_ : bool
        Whether `status_` is "converged", for all classes.
    relative_gap_ : float
        ``dual_gap_ / abs(objective_)``, the largest of all classes: what `tol` limits.
    n_iter_ : int, or ndarray of shape (n_classes,)
        Iterations.
    status_ : str, or list of str
        "converged", "max_iter", "max_time", "callback", "interrupted", or "stalled" (rounding
        prevents further progress).
    history_ : structured ndarray of shape (`n_iter_`,), or list of them
        Fields ``iteration``, ``seconds``, ``objective``, ``lower_bound``, ``passes`` (products
        with X or X' so far).
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, if X had string names.

    Raises
    ------
    ValueError
        For a parameter out of its range, both `reg_lambda` and `C`, a single class, NaN or
        infinity, negative or all-zero weights, multilabel y. Nothing is fitted then.

    Warns
    -----
    ConvergenceWarning
        If `max_iter`, `max_time` or rounding ended the fit above `tol`.

    See Also
    --------
    BMRMClassifier : The same objective, and others, by cutting planes; usually faster.

    Notes
    -----
    The method is section 4 and appendices B and C of [1]_; the objective is its (20), the dual its
    (21) and (22), the rate its (26).
    After every iteration the smoothed objective J_mu is at most D, the excessive gap condition;
    J exceeds J_mu by mu/2 at most and mu falls like 1/k^2. The number of iterations to a gap eps
    thus grows like ``1/sqrt(reg_lambda eps)``, where cutting planes may need
    ``1/(reg_lambda eps)``. With the weighted prox-function, a weight of 2 equals a repeated row in
    every iteration. At exit both values are recomputed from the data.

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
        self.reg_lambda = reg_lambda
        self.C = C
        self.fit_intercept = fit_intercept
        self.lipschitz = lipschitz
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.class_weight = class_weight
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _formulation(self) -> tuple[Hinge]:
        return (Hinge(),)

    def _problem(self, data: ClassificationData, target: np.ndarray, n_threads: int) -> HingeDual:
        rows = rows_in_memory(data.X, n_threads)
        return HingeDual(rows, target, data.weights, self._strength(data), self.fit_intercept)

    def _objective_at(self, problem: HingeDual, point: Point) -> float:
        return problem.objective(point)

    def _seed(self) -> int | None:
        if self.lipschitz != "power":
            return None
        return check_random_state(self.random_state).randint(np.iinfo(np.int32).max)

    def _solver(
        self, problem: HingeDual, kept: np.ndarray | None, seed: int | None
    ) -> ExcessiveGapSolver:
        lipschitz: Callable[[], float] | float | None = None
        if seed is not None:
            lipschitz = partial(problem.lipschitz_constant, seed)
        elif not isinstance(self.lipschitz, str):
            lipschitz = self.lipschitz
        return ExcessiveGapSolver(problem, lipschitz, kept)

    def _settings(self, data: ClassificationData) -> tuple[Any, ...]:
        return self._strength(data), self.lipschitz

    def _keep(self, solver: ExcessiveGapSolver, result: SolverResult) -> np.ndarray:
        return solver.dual_point.u

    def _further_attributes(self, data: ClassificationData, warm: WarmStart) -> dict[str, Any]:
        targets = self._targets(data)
        signed = np.array([data.weights * u * y for u, y in zip(warm.kept, targets, strict=True)])
        support = np.flatnonzero(signed.any(axis=0))
        dual = {"dual_coef_": signed[:, support], "support_": data.rows[support]}
        return dual | {"reg_lambda_": self._strength(data)}
