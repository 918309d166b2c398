"""Kernel support vector regression."""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_bundle.core.contract import SolverResult, TimeLimit
from sklearn_bundle.core.docs import fill_doc
from sklearn_bundle.core.estimator import (
    Fit,
    OneCertificate,
    Points,
    certificate,
    points_of,
    with_callbacks,
)
from sklearn_bundle.core.optimum import CertainRegressor, RegressorMixin
from sklearn_bundle.core.parameters import Interval, Names
from sklearn_bundle.core.validation import (
    RegressionData,
    check_regression_data,
    normalized,
    spread,
)
from sklearn_bundle.core.values import gathered
from sklearn_bundle.kernel.estimators.machine import (
    KernelMachine,
    Training,
    attributes_of,
    hints,
    run_next,
    solved,
    training,
)
from sklearn_bundle.kernel.estimators.swap import linear_advice
from sklearn_bundle.kernel.problem import Dual, Problem

Array = NDArray[np.float64]

_TUBE = 0.1  # default of epsilon, in standard deviations of y


@fill_doc
class SwapSVR(CertainRegressor, RegressorMixin, OneCertificate, KernelMachine):
    """Kernel support vector regression with a certificate.

    Take it in place of :class:`~sklearn.svm.SVR`, up to some 100,000 rows. For linear models take
    :class:`BMRMRegressor`. With ``f(x) = <w, phi(x)> + b``, where ``<phi(x), phi(z)>`` is the
    kernel, and C_i = C times the sample weight, it minimizes::

        J(w, b) = 1/2 ||w||^2 + sum_i C_i max(0, |y_i - f(x_i)| - epsilon)
        J(w, b) = 1/2 ||w||^2 + 1/2 sum_i C_i max(0, |y_i - f(x_i)| - epsilon)^2

    The first is the objective of SVR; predictions at equal C and epsilon are the same. The second
    has the loss "squared_epsilon_insensitive". The intercept b is not penalized.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the losses: try 1e-3 to 1e3; smaller is simpler. With the squared loss it does not
        depend on the unit of y. The best C of the two losses differs.
    loss : {"epsilon_insensitive", "squared_epsilon_insensitive"}, default="epsilon_insensitive"
        "epsilon_insensitive" is what SVR minimizes; single outliers matter less to it.
    epsilon : float, default=None
        Errors up to this size cost nothing; at least 0, in the unit of y. None means a tenth of the
        weighted standard deviation of y, or 0.1 if that is 0.
    %(kernel)s
    %(tol: 1e-2)s
    %(max_iter_kernel)s
    %(max_time)s
    %(cache_size_rows)s
    %(warm_start_function: X, y, weights and kernel)s
    %(n_jobs: of BLAS and of `predict`)s
    %(random_state: working sets)s
    %(verbose)s

    Attributes
    ----------
    %(machine)s
    dual_coef_ : ndarray or CSR of shape (1, n_support)
        Coefficients of the kernel values in f.
    intercept_ : ndarray of shape (1,)
        b.
    epsilon_ : float
        The epsilon used.
    %(certificate: J)s
        Where rounding leaves less than six digits of J, `objective_` is an upper bound of it.
    %(convergence)s
    %(history: kernel rows so far)s
        ``steps``, a row per working set.
    %(features)s

    Raises
    ------
    %(invalid_kernel)s
        Also for y of two dimensions.

    Warns
    -----
    %(missed_tol)s

    See Also
    --------
    SwapSVRCV : Chooses C and gamma by cross-validation.

    Notes
    -----
    User guide: :ref:`kernels`.

    The bounds are dual values: see :doc:`/user_guide/kernels_theory`. Working
    sets as in [1]_ and [2]_.

    References
    ----------
    .. [1] T. Joachims: Making large-scale SVM learning practical, 1999.
    .. [2] R.-E. Fan, P.-H. Chen, C.-J. Lin: Working set selection using second order information
       for training support vector machines, 2005.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.preprocessing import scale
    >>> from sklearn_bundle import SwapSVR
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = SwapSVR(C=0.1).fit(scale(X[:300]), scale(y[:300]))
    >>> model.status_, bool(model.dual_gap_ <= 1e-2 * model.objective_)
    ('converged', True)
    """

    _allowed: ClassVar[dict[str, Any]] = {
        **KernelMachine._kernel_constraints,
        "loss": [Names({"epsilon_insensitive", "squared_epsilon_insensitive"})],
        "epsilon": [Interval(Real, 0, None, closed="left"), None],
    }
    epsilon_: float

    def __init__(
        self,
        C: float = 1.0,
        *,
        loss: str = "epsilon_insensitive",
        epsilon: float | None = None,
        kernel: Any = "rbf",
        gamma: str | float = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        tol: float = 1e-2,
        max_iter: int = 1000,
        max_time: float | None = None,
        cache_size: float = 1000,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ):
        self._store(locals())

    @with_callbacks
    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Training data; for ``kernel="precomputed"``, the matrix of kernel values of shape
            (n_samples, n_samples).
        y : array-like of shape (n_samples,)
            Numbers.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights >= 0, which multiply C. A weight of 2 counts as a repeated row, a weight of 0 as
            a missing one.

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
        run = Fit(self, X, y, hints=hints, sample_weight=sample_weight)
        data = numbers_of(run.params, X, y, sample_weight)
        advice = linear_advice(run.params, "BMRMRegressor")
        return run.finish(*fit_numbers(run, run.params, data), advice=advice)

    def predict(self, X: Any) -> np.ndarray:
        """Predicted numbers ``f(x)``.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Data; for ``kernel="precomputed"``, of shape (n_samples, n_samples_fit).

        Returns
        -------
        y : ndarray of shape (n_samples,)
            In float64.
        """
        return self._pair_scores(X)[:, 0]

    def _bounds(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        low, high = self._score_bounds(X)
        return low[:, 0], high[:, 0]


# ---- the fit -------------------------------------------------------------------------------------


def numbers_of(
    params: Any, X: Any, y: Any, sample_weight: Any, gamma: float | None = None
) -> Training:
    """The checked data."""
    return training(params, _check_one_target, X, y, sample_weight, gamma=gamma)


def fit_numbers(run: Fit, params: Any, data: Training) -> tuple[dict[str, Any], list[SolverResult]]:
    """Fitted attributes and the result; parameters are checked."""
    everything, costs = np.arange(data.samples.n_samples), data.costs(params.C)
    data.values.check_costs(everything, costs)
    dual = dual_of(params, data, costs)

    def model(points: Points) -> dict[str, Any]:
        return attributes(params, data, points[0])

    settings = params.loss, dual.width
    results = solved(run, params, data, lambda _: (everything, dual), model, settings=settings)
    return model(points_of(results)), results


def along_numbers(
    params: Any, data: Training, Cs: Array, limit: TimeLimit
) -> Iterator[tuple[dict[str, Any], list[SolverResult]]]:
    """Attributes and results at ascending C; the time limit may end them early."""
    everything, solver = np.arange(data.samples.n_samples), None
    for C in Cs:
        costs = data.costs(float(C))
        data.values.check_costs(everything, costs)
        dual = dual_of(params, data, costs)
        problem = Problem(data.values, everything, dual, cache_bytes=params.cache_size * 2**20)
        solver, result = run_next(params, problem, solver, limit)
        if result is None:
            return
        found = attributes(params, data, (result.point, result.intercept))
        yield found | certificate([result]), [result]


def dual_of(params: Any, data: Training, costs: Array) -> Dual:
    """The dual of SVR, or of a squared tube; the intercept is free."""
    y, width = data.samples.y, _width(params, data)
    if params.loss == "epsilon_insensitive":
        return Dual(y, -costs, costs, np.zeros(len(y)), width)
    infinite = np.full(len(y), np.inf)
    return Dual(y, -infinite, infinite, 1.0 / costs, width)


def attributes(params: Any, data: Training, point: tuple[Array, float]) -> dict[str, Any]:
    """Fitted attributes of the coefficients and the intercept."""
    coef, b = point
    return attributes_of(data, coef[np.newaxis], np.array([b])) | {"epsilon_": _width(params, data)}


def _width(params: Any, data: Training) -> float:
    """The epsilon that was given or, if none was, the default for these targets."""
    if params.epsilon is not None:
        return params.epsilon
    samples = data.samples
    return _TUBE * spread(samples.y, normalized(samples.weights), True)


def _check_one_target(estimator: Any, X: Any, y: Any, sample_weight: Any) -> RegressionData:
    data = check_regression_data(estimator, X, y, sample_weight)
    if data.y.ndim > 1:
        raise ValueError(
            f"{type(estimator).__name__} takes one number per sample, y of shape (n_samples,); got "
            f"y of shape {data.y.shape}. Wrap the estimator in "
            "sklearn.multioutput.MultiOutputRegressor."
        )
    return data
