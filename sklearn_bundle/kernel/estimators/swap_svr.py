"""Kernel machines with squared losses outside a tube, and regression as one of them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, Generic, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_bundle.core.base import RegressorMixin
from sklearn_bundle.core.certainty import CertainRegressor
from sklearn_bundle.core_next.contract import SolverResult
from sklearn_bundle.core.fit import OneCertificate, fit_certified
from sklearn_bundle.core_next.parameters import Names
from sklearn_bundle.core_next.docs import fill_doc
from sklearn_bundle.core.sklearn_internals import Interval, num_samples
from sklearn_bundle.core_next.validation import (
    RegressionData,
    TrainingData,
    check_regression_data,
    normalized,
)
from sklearn_bundle.core_next.validation import check_sample_weight, spread, total_of
from sklearn_bundle.kernel.estimators._kernel import KernelMachine, MachineTraining
from sklearn_bundle.kernel.estimators._machine import attributes_of
from sklearn_bundle.kernel.problems.box import Box, BoxProblem
from sklearn_bundle.kernel.problems.l2tube import L2Tube, Tube
from sklearn_bundle.kernel.solvers.kernel_gradients import Functions, KernelGradients
from sklearn_bundle.kernel.solvers.working_set import WorkingSetSolver, working_sets
from sklearn_bundle.kernel.values.kernel_data import KernelData

_TUBE = 0.1  # default of epsilon, in standard deviations of y

_AnySolver = KernelGradients | WorkingSetSolver

Samples = TypeVar("Samples", bound=TrainingData)


@dataclass
class TubeTraining(MachineTraining, Generic[Samples]):
    """Samples with or without targets, and kernel values between them.

    ``total`` is what the weights sum to before they are normalized.
    """

    samples: Samples
    total: float = field(kw_only=True)


class KernelTubeEstimator(KernelMachine, OneCertificate):
    """A kernel machine with losses outside of a tube, squared unless there is a box."""

    @abstractmethod
    def _tube(self, data: TubeTraining) -> Tube:
        """Targets, and the limits between which residuals cost nothing."""

    def _box(self, data: TubeTraining) -> Box | None:
        """The dual's box if losses are not squared, so that the intercept is not penalized."""
        return None

    def _training(
        self, check: Callable[..., Samples], X: Any, *y: Any, sample_weight: Any
    ) -> TubeTraining[Samples]:
        samples, n_samples = self._checked(check, X, *y, sample_weight), num_samples(X)
        values = self._kernel_values(samples, n_samples)
        total = total_of(check_sample_weight(sample_weight, n_samples))
        return TubeTraining(samples, values, self._shape_of(X), total=total)

    def _costs(self, data: TubeTraining) -> NDArray[np.float64]:
        return self._checked_costs(data.total, data.samples.weights)

    def _prepare(self, data: TubeTraining, n_threads: int) -> None:
        """Costs out of range are refused."""
        self._costs(data)
        data.divide_cache(self.cache_size, 1)

    def _problem(
        self, data: TubeTraining, target: None, n_threads: int
    ) -> AbstractContextManager[L2Tube | BoxProblem]:
        costs, everything, box = (
            self._costs(data),
            np.arange(data.samples.n_samples),
            self._box(data),
        )
        data.values.check_costs(everything, costs)
        if box is not None:
            memory = {"cache_bytes": data.cache_bytes, "n_threads": n_threads}
            return nullcontext(BoxProblem(data.values, everything, box, **memory))
        problem = L2Tube(
            data.values,
            self._tube(data),
            costs,
            intercept=self._has_intercept,
            cache_bytes=data.cache_bytes,
            shared=data.shared,
        )
        return nullcontext(problem)

    def _settings(self, data: TubeTraining) -> tuple[Any, ...]:
        """A callable kernel may have changed: its last point is only a start, not a result."""
        tube, box = self._tube(data), self._box(data)
        scale = object() if callable(self.kernel) else self.C * data.total
        return scale, tube.above, tube.below, self.cache_size, box is None or box.total

    def _solver(self, problem: L2Tube | BoxProblem, kept: Any, seed: int) -> _AnySolver:
        if isinstance(problem, BoxProblem):
            return working_sets(problem, kept, self.tol, seed)
        if isinstance(kept, KernelGradients):
            return KernelGradients(problem, last=kept, seed=seed)
        return KernelGradients(
            problem, start=kept if isinstance(kept, Functions) else None, seed=seed
        )

    def _released(self, solver: _AnySolver) -> Any:
        """Working sets keep kernel rows: the next solver starts from their points."""
        return None if isinstance(solver, WorkingSetSolver) else super()._released(solver)

    def _next_start(self, solver: _AnySolver, result: SolverResult, last: Any) -> Any:
        """The solver, with its factors or its kernel rows."""
        return solver

    def _machine(
        self, data: TubeTraining, coef: NDArray[np.float64], b: float | None
    ) -> dict[str, Any]:
        """Fitted attributes in SVR's shapes; without b it is the sum of the coefficients, or 0."""
        support = np.flatnonzero(coef)
        dual_coef = coef[support][np.newaxis]
        if b is None:
            b = dual_coef.sum() if self._has_intercept else 0.0
        intercept = np.array([b])
        n_support = np.array([len(support), 0], dtype=np.int32)
        machine = dual_coef, intercept, n_support
        fitted = attributes_of(data.samples, data.values.kernel, support, *machine)
        return fitted | {"n_support_": n_support[:1].copy()}

    def _indefinite_at(
        self, task: L2Tube | BoxProblem, solver: _AnySolver
    ) -> tuple[KernelData, NDArray, NDArray]:
        if isinstance(solver, WorkingSetSolver):
            return task.data, np.arange(task.n), solver.kept.newest
        return task.data, np.arange(task.n), solver.indefinite_coef


@fill_doc
class SwapSVR(CertainRegressor, RegressorMixin, KernelTubeEstimator):
    """Kernel support vector regression with a certificate; the objective of SVR as an option.

    Take it in place of :class:`~sklearn.svm.SVR`, up to some 100,000 rows. For linear models take
    :class:`BMRMRegressor`. With ``f(x) = <w, phi(x)> + b``, where ``<phi(x), phi(z)>`` is the
    kernel, and C_i = C times the sample weight, it minimizes::

        J(w, b) = 1/2 ||w||^2 + 1/2 b^2 + 1/2 sum_i C_i max(0, |y_i - f(x_i)| - epsilon)^2
        J(w, b) = 1/2 ||w||^2 + sum_i C_i max(0, |y_i - f(x_i)| - epsilon)

    The second, with the loss "epsilon_insensitive", is the objective of SVR; predictions at equal C
    and epsilon are the same. The first penalizes the intercept.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the losses: try 1e-3 to 1e3; smaller is simpler. With the squared loss it does not
        depend on the unit of y. The best C of the two losses differs.
    loss : {"squared_epsilon_insensitive", "epsilon_insensitive"}, \
default="squared_epsilon_insensitive"
        "epsilon_insensitive" is what SVR minimizes; single outliers matter less to it.
    epsilon : float, default=None
        Errors up to this size cost nothing; at least 0, in the unit of y. None means a tenth of the
        weighted standard deviation of y, or 0.1 if that is 0.
    %(kernel)s
    %(tol: 1e-2)s
    %(max_iter_kernel)s
        With "epsilon_insensitive" each solves a working set.
    %(max_time)s
    %(cache_size_factors)s
    %(warm_start_function: X, y, weights and kernel)s
    %(n_jobs: of BLAS and of `predict`)s
    %(random_state: the factor of the kernel matrix)s
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
    %(history: products with the kernel matrix so far)s
        ``rank`` (of the factor), or ``steps`` with "epsilon_insensitive", a row per working set.
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

    The bounds are dual values, for the squared loss of the problem of section 2 of [1]_. It is
    solved by conjugate gradients in the space of functions, preconditioned as in [2]_; the other
    loss by working sets. See :doc:`/user_guide/kernels_theory`.

    References
    ----------
    %(swap_paper: 1)s
    .. [2] Y. Chen, E. N. Epperly, J. A. Tropp, R. J. Webber: Randomly pivoted Cholesky. Practical
       approximation of a kernel matrix with few entry evaluations, 2025.

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

    _parameter_constraints: dict[str, Any] = {  # noqa: RUF012 - scikit-learn's convention
        **KernelTubeEstimator._kernel_constraints,
        "loss": [Names({"squared_epsilon_insensitive", "epsilon_insensitive"})],
        "epsilon": [Interval(Real, 0, None, closed="left"), None],
    }
    epsilon_: float

    _has_intercept = True

    def __init__(
        self,
        C: float = 1.0,
        *,
        loss: str = "squared_epsilon_insensitive",
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
        self.C = C
        self.loss = loss
        self.epsilon = epsilon
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.cache_size = cache_size
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

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
        return fit_certified(self, X, y, sample_weight)

    def predict(self, X: Any) -> np.ndarray:
        """Predicted numbers ``f(x)``.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Data; for ``kernel="precomputed"``, of shape (n_samples, n_samples_fit).

        Returns
        -------
        y : ndarray of shape (n_samples,)
            In float64, from kernel values in single precision if the X of fit was.
        """
        return self._pair_scores(X)[0]

    def _predict_bounds(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        low, high = self._score_bounds(X)
        return low[0], high[0]

    def _check(self, X: Any, y: Any, sample_weight: Any) -> TubeTraining[RegressionData]:
        return self._training(_check_one_target, X, y, sample_weight=sample_weight)

    def _tube(self, data: TubeTraining[RegressionData]) -> Tube:
        epsilon = self._width(data)
        return Tube(data.samples.y, epsilon, epsilon)

    def _box(self, data: TubeTraining[RegressionData]) -> Box | None:
        if self.loss == "squared_epsilon_insensitive":
            return None
        costs = self._costs(data)
        return Box(data.samples.y, -costs, costs, self._width(data))

    def _width(self, data: TubeTraining[RegressionData]) -> float:
        """The epsilon that was given or, if none was, the default for these targets."""
        if self.epsilon is not None:
            return self.epsilon
        samples = data.samples
        return _TUBE * spread(samples.y, normalized(samples.weights), True)

    def _model(
        self, data: TubeTraining[RegressionData], points: list[tuple[Any, Any]]
    ) -> dict[str, Any]:
        return self._machine(data, *points[0]) | {"epsilon_": self._width(data)}


def _check_one_target(estimator: Any, X: Any, y: Any, sample_weight: Any) -> RegressionData:
    data = check_regression_data(estimator, X, y, sample_weight)
    if data.y.ndim > 1:
        raise ValueError(
            f"{type(estimator).__name__} takes one number per sample, y of shape (n_samples,); got "
            f"y of shape {data.y.shape}. Wrap the estimator in "
            "sklearn.multioutput.MultiOutputRegressor."
        )
    return data
