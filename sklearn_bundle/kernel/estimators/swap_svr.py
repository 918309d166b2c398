"""Kernel machines with squared losses outside a tube, and regression as one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from numbers import Real
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_bundle.core import contract
from sklearn_bundle.core.contract import SolverResult, Status, TimeLimit
from sklearn_bundle.core.docs import fill_doc
from sklearn_bundle.core.estimator import (
    Fit,
    OneCertificate,
    Points,
    points_of,
    with_callbacks,
)
from sklearn_bundle.core.misread import gathered
from sklearn_bundle.core.mixins import RegressorMixin
from sklearn_bundle.core.optimum import CertainRegressor
from sklearn_bundle.core.parallel import split_threads
from sklearn_bundle.core.parameters import Interval, Names
from sklearn_bundle.core.validation import (
    RegressionData,
    TrainingData,
    check_regression_data,
    check_sample_weight,
    normalized,
    spread,
    total_of,
)
from sklearn_bundle.kernel.estimators._kernel import (
    KernelMachine,
    MachineTraining,
    bounded,
    checked_costs,
    checked_samples,
    hints,
    kernel_values,
    located,
    seed_of,
)
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

    def costs(self, C: float) -> NDArray[np.float64]:
        """C_i, in their range."""
        return checked_costs(C, self.total, self.samples.weights)


class TubeForm(NamedTuple):
    """The losses of a machine: outside of a tube, squared unless the dual has a box."""

    tube: Tube  # targets, and the limits between which residuals cost nothing
    box: Callable[[NDArray[np.float64]], Box] | None  # for costs; the intercept is then free
    has_intercept: bool  # one that is penalized

    def problem(self, data: TubeTraining, C: float, n_threads: int) -> L2Tube | BoxProblem:
        """The problem of these data."""
        costs, everything = data.costs(C), np.arange(data.samples.n_samples)
        data.values.check_costs(everything, costs)
        memory: dict[str, Any] = {"cache_bytes": data.cache_bytes}
        if self.box is not None:
            box = self.box(costs)
            return BoxProblem(data.values, everything, box, n_threads=n_threads, **memory)
        memory |= {"intercept": self.has_intercept, "shared": data.shared}
        return L2Tube(data.values, self.tube, costs, **memory)


def tube_training(
    params: KernelMachine,
    check: Callable[..., Any],
    X: Any,
    *y: Any,
    sample_weight: Any,
    gamma: float | None = None,
) -> TubeTraining:
    """The checked data."""
    samples, shape = checked_samples(params, check, X, *y, sample_weight)
    values = kernel_values(params, samples, shape[0], samples.weights, gamma)
    total = total_of(check_sample_weight(sample_weight, shape[0]))
    return TubeTraining(samples, values, shape, total=total)


def solved_tube(
    run: Fit,
    params: KernelMachine,
    data: TubeTraining,
    form: TubeForm,
    model: Callable[[Points], dict[str, Any]],
) -> tuple[SolverResult, Any]:
    """The result, and the point that the solver kept."""
    seed, kept = seed_of(params), []
    data.costs(params.C)  # which have to be in their range
    data.divide_cache(params.cache_size, 1)
    n_threads = split_threads(params.n_jobs, 1)[1]
    # A callable kernel may have changed: its last point is only a start, not a result.
    scale = object() if callable(params.kernel) else params.C * data.total
    box = form.box is None or form.box(data.costs(params.C)).total
    settings = scale, form.tube.above, form.tube.below, params.cache_size, box
    run.reuse(lambda: (data.samples.fingerprint(), data.values.kernel), settings)

    def solve(k: int, observe: Any, seconds: float | None) -> SolverResult:
        problem = form.problem(data, params.C, n_threads)
        new = partial(_solver, params, problem, seed=seed)
        solver, result = run.minimize(k, problem, new, observe, seconds)
        kept.append(solver.kept)
        result = bounded(result, _least(problem), partial(_indefinite_at, problem, solver))
        box = problem if isinstance(problem, BoxProblem) else None
        by_rows = partial(_gap_by_rows, problem, result, form)
        return located(result, params.tol, by_rows, box, form.has_intercept)

    (result,) = run.solve(solve, model, blas=n_threads, max_time=params.max_time)
    return result, kept[-1] if kept else run.warm.start(0)


def along_tube(
    params: KernelMachine,
    data: TubeTraining,
    form: TubeForm,
    Cs: NDArray[np.float64],
    limit: TimeLimit,
) -> Iterator[list[SolverResult]]:
    """Solutions at ascending C, each started from the last; the limit may end them early."""
    last = None
    for C in Cs:
        problem = form.problem(data, float(C), 1)
        last = _solver(params, problem, last, seed=0)
        limits = {"tol": params.tol, "max_iter": params.max_iter, "max_time": limit.left}
        result = contract.run(last, **limits)
        result = bounded(result, _least(problem), partial(_indefinite_at, problem, last))
        if result.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        if limit.left is not None and result.status is Status.MAX_TIME:
            return
        yield [result]


def _solver(
    params: KernelMachine, problem: L2Tube | BoxProblem, kept: Any, *, seed: int
) -> _AnySolver:
    """A solver that starts from an earlier one, from what that kept, or from None."""
    if isinstance(problem, BoxProblem):
        return working_sets(problem, kept, params.tol, seed)
    if isinstance(kept, KernelGradients):
        return KernelGradients(problem, last=kept, seed=seed)
    start = kept if isinstance(kept, Functions) else None
    return KernelGradients(problem, start=start, seed=seed)


def _least(problem: L2Tube | BoxProblem) -> float:
    """A lower bound of all objectives."""
    return problem.least if isinstance(problem, BoxProblem) else 0.0


def _gap_by_rows(problem: L2Tube | BoxProblem, result: SolverResult, form: TubeForm) -> float:
    if not form.has_intercept:  # novelty: thresholds between scores do not count what rounding is
        return np.inf
    if isinstance(problem, L2Tube):
        return problem.gap_by_rows(result.point)
    return problem.gap_by_rows(result.point, result.intercept)


def _indefinite_at(
    problem: L2Tube | BoxProblem, solver: _AnySolver
) -> tuple[KernelData, NDArray, NDArray]:
    """Kernel values, points, and the coefficients at which they do not seem to be definite."""
    in_box = isinstance(solver, WorkingSetSolver)
    coef = solver.kept.newest if in_box else solver.indefinite_coef
    return problem.data, np.arange(problem.n), coef


def tube_attributes(
    data: TubeTraining, coef: NDArray[np.float64], b: float | None, has_intercept: bool = True
) -> dict[str, Any]:
    """Fitted attributes in SVR's shapes; without b it is the sum of the coefficients, or 0."""
    support = np.flatnonzero(coef)
    dual_coef = coef[support][np.newaxis]
    if b is None:
        b = dual_coef.sum() if has_intercept else 0.0
    n_support = np.array([len(support), 0], dtype=np.int32)
    shapes = dual_coef, np.array([b]), n_support
    fitted = attributes_of(data.samples, data.values.kernel, support, *shapes)
    return fitted | {"n_support_": n_support[:1].copy(), "shape_fit_": data.shape}


@fill_doc
class SwapSVR(CertainRegressor, RegressorMixin, OneCertificate, KernelMachine):
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

    _allowed: ClassVar[dict[str, Any]] = {
        **KernelMachine._kernel_constraints,
        "loss": [Names({"squared_epsilon_insensitive", "epsilon_insensitive"})],
        "epsilon": [Interval(Real, 0, None, closed="left"), None],
    }
    epsilon_: float

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
        data = run.params._checked(X, y, sample_weight)
        return run.finish(*run.params._solved(run, data))

    def _checked(
        self, X: Any, y: Any, sample_weight: Any, gamma: float | None = None
    ) -> TubeTraining:
        """The checked data."""
        given = {"sample_weight": sample_weight, "gamma": gamma}
        return tube_training(self, _check_one_target, X, y, **given)

    def _solved(self, run: Fit, data: TubeTraining) -> tuple[dict[str, Any], list[SolverResult]]:
        """Fitted attributes and the result; parameters are checked."""
        model = partial(self._attributes, data)
        result, _ = solved_tube(run, self, data, self._form(data), model)
        return model(points_of([result])), [result]

    def _targets(self, data: TubeTraining) -> list[None]:
        """One per subproblem."""
        return [None]

    def _along(
        self, data: TubeTraining, target: None, Cs: NDArray[np.float64], limit: TimeLimit
    ) -> Iterator[list[SolverResult]]:
        """Solutions at ascending C, each started from the last; the limit may end them early."""
        return along_tube(self, data, self._form(data), Cs, limit)

    def _form(self, data: TubeTraining[RegressionData]) -> TubeForm:
        y, width = data.samples.y, self._width(data)
        box = None if self.loss.startswith("squared") else lambda c: Box(y, -c, c, width)
        return TubeForm(Tube(y, width, width), box, True)

    def _width(self, data: TubeTraining[RegressionData]) -> float:
        """The epsilon that was given or, if none was, the default for these targets."""
        if self.epsilon is not None:
            return self.epsilon
        samples = data.samples
        return _TUBE * spread(samples.y, normalized(samples.weights), True)

    def _attributes(self, data: TubeTraining[RegressionData], points: Points) -> dict[str, Any]:
        """Fitted attributes of the coefficients and the intercept."""
        return tube_attributes(data, *points[0]) | {"epsilon_": self._width(data)}

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

    def _bounds(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        low, high = self._score_bounds(X)
        return low[0], high[0]


def _check_one_target(estimator: Any, X: Any, y: Any, sample_weight: Any) -> RegressionData:
    data = check_regression_data(estimator, X, y, sample_weight)
    if data.y.ndim > 1:
        raise ValueError(
            f"{type(estimator).__name__} takes one number per sample, y of shape (n_samples,); got "
            f"y of shape {data.y.shape}. Wrap the estimator in "
            "sklearn.multioutput.MultiOutputRegressor."
        )
    return data
