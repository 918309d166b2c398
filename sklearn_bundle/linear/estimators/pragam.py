"""Support vector classification by the excessive gap technique."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_bundle.core.contract import SolverResult
from sklearn_bundle.core.docs import fill_doc
from sklearn_bundle.core.estimator import Fit, Observe, Points, points_of, with_callbacks
from sklearn_bundle.core.parameters import POSITIVE, Names
from sklearn_bundle.core.validation import check_classification_data
from sklearn_bundle.core.values import gathered
from sklearn_bundle.linear.estimators.fitting import (
    MemoryData,
    located,
    one_versus_rest,
    strengths_of,
)
from sklearn_bundle.linear.estimators.linear import CertifiedLinear, LinearClassifier
from sklearn_bundle.linear.losses import Hinge, Prepared
from sklearn_bundle.linear.regularizers import L2
from sklearn_bundle.linear.solvers.base import Start, Task
from sklearn_bundle.linear.solvers.excessive_gap import ExcessiveGap


@fill_doc
class PragamSVC(LinearClassifier):
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
    lipschitz : "adaptive" or float, default="adaptive"
        Constant L of the gradient of D in the norm of the prox-function
        ``1/2 sum_i alpha_i^2/s_i``. "adaptive" follows the local curvature, and needs far fewer
        products. A float is for Algorithm 1 of [1]_: the largest eigenvalue of the weighted,
        centered ``X'X/n`` over `reg_lambda`;
        ``max ||x_i||^2 / reg_lambda`` is safe. With less the gap is valid but may not close.
    %(tol: 1e-3)s
    max_iter : int, default=10000
        Maximum number of iterations per class, of three to four products with X or X' each.
    %(max_time)s
    %(class_weight: the sample weights)s
    warm_start : bool, default=False
        Whether the next fit on the same X, y and weights starts from this one.
    %(n_jobs_exact: the classes or blocks of rows)s
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
    dual_coef_: NDArray[np.float64]
    support_: NDArray[np.integer]

    _allowed: ClassVar[dict[str, Any]] = {
        **CertifiedLinear._common,
        "lipschitz": [Names({"adaptive"}), POSITIVE],
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
        verbose: int = 0,
    ):
        self._store(locals())

    @with_callbacks
    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Training data. C-ordered arrays, and CSR whose indices are sorted, are used without a
            copy if they hold float32 or float64.
        y : array-like of shape (n_samples,)
            Labels of any type.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights >= 0. A weight of 2 counts as a repeated row, a weight of 0 as a missing one.

        Returns
        -------
        self : object
            The fitted estimator.

        Raises
        ------
        ValueError
            As listed for the class. Nothing is fitted then.
        """
        X, y, sample_weight = gathered(type(self).__name__, X, y, sample_weight)
        run = Fit(self, X, y, sample_weight=sample_weight)
        params = run.params
        samples = check_classification_data(params, X, y, sample_weight, params.class_weight)
        signs, names = one_versus_rest(samples)
        prepared = [Prepared(Hinge(), one) for one in signs]
        data = MemoryData(samples, prepared, params.n_jobs, names)
        strength = strengths_of(params, data)[0]
        run.reuse(lambda: (data.fingerprint(), params.fit_intercept), (strength, params.lipschitz))
        duals: dict[int, NDArray[np.float64]] = {}

        def solve(k: int, observe: Observe, seconds: float | None) -> SolverResult:
            risk = data.risk(k, params.fit_intercept)
            task = Task(risk, strength, L2(), params.tol)

            def new(start: Start | None) -> ExcessiveGap:
                return ExcessiveGap(task, start or Start(), params.lipschitz)

            solver, result = run.minimize(k, task, new, observe, seconds)
            duals[k] = solver.reusable
            return located(risk, result)

        model = partial(_attributes, data)
        results = run.solve(solve, model, names=names, threads=data.threads[0])
        duals |= {k: run.warm.left[k].start.state for k in range(len(signs)) if k not in duals}
        signed = np.array([data.weights * duals[k] * y for k, y in enumerate(signs)])
        support = np.flatnonzero(signed.any(axis=0))
        fitted = model(points_of(results)) | {
            "dual_coef_": signed[:, support],
            "support_": samples.rows[support],
            "reg_lambda_": strength,
        }
        return run.finish(fitted, results, advice=_advice(params, strength))


def _advice(params: Any, strength: float) -> dict[Any, str]:
    """What to change, and what solves the same problem to any gap."""
    given = {"reg_lambda": float(strength)} if params.C is None else {"C": float(params.C)}
    given |= {"fit_intercept": params.fit_intercept, "class_weight": params.class_weight}
    values = ", ".join(f"{name}={value!r}" for name, value in given.items() if value is not None)
    same = f'BMRMClassifier("hinge", {values}) solves the same problem to any gap.'
    return {status: f"{advice} {same}" for status, advice in params._advice.items()}


def _attributes(data: MemoryData, points: Points) -> dict[str, Any]:
    """Fitted attributes of the points of all problems."""
    return {
        "classes_": data.classes,
        "coef_": np.array([w for w, _ in points]),
        "intercept_": np.array([np.ravel(b)[0] for _, b in points], dtype=np.float64),
    }
