"""What kernel machines share: checked kernels, one way to solve, attributes in SVC's shapes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted

from sklearn_bundle.core import contract
from sklearn_bundle.core.contract import SolverResult, Status, TimeLimit
from sklearn_bundle.core.estimator import CertifiedEstimator, Fit, Points
from sklearn_bundle.core.limits import DOUBLE
from sklearn_bundle.core.optimum import known_regions
from sklearn_bundle.core.parallel import split_threads
from sklearn_bundle.core.parameters import OF_FITS, Interval, Names
from sklearn_bundle.core.validation import (
    TrainingData,
    check_prediction_data,
    check_sample_weight,
    num_samples,
    total_of,
)
from sklearn_bundle.kernel.problem import Dual, Problem
from sklearn_bundle.kernel.solvers.working_sets import Start, WorkingSets
from sklearn_bundle.kernel.values.data import KernelData
from sklearn_bundle.kernel.values.kernel import FAR
from sklearn_bundle.kernel.values.kernel_function import Kernel, Matrix, resolve_gamma
from sklearn_bundle.kernel.values.scores import KernelScores

Array = NDArray[np.float64]
Coefficients = Array | Any  # or in CSR, of which scipy has no types

LARGEST_COST = 1e100  # of C_i: the squares of it and of its inverse are finite
SINGLE_TOL = 1e-6  # below this, rounding of single precision is too large from the start


@dataclass
class Training:
    """Checked samples, the kernel values between them, and the shape of the caller's X.

    ``total`` is what the weights summed to before they were normalized.
    """

    samples: Any
    values: KernelData
    shape: tuple[int, ...]
    total: float

    def costs(self, C: float) -> Array:
        """C_i: C times the weights as they were given."""
        with np.errstate(over="ignore"):
            costs = C * self.total * self.samples.weights
        if not (costs.min() >= 1.0 / LARGEST_COST and costs.max() <= LARGEST_COST):
            raise ValueError(
                f"C times the sample weights must lie between {1.0 / LARGEST_COST:g} and "
                f"{LARGEST_COST:g}; got C={C!r} and products from {costs.min()} to {costs.max()}."
            )
        return costs


class KernelRegion(NamedTuple):
    """The scores of the optimum are within ``radius sqrt(k(x, x) + constant)`` of the fitted ones.

    ``constant`` is 1 where an intercept is penalized, as a coordinate of w that is 1 everywhere.
    One that is not may be lower by ``below``, or higher by ``above``.
    """

    radius: float
    constant: float
    below: float = 0.0
    above: float = 0.0

    @property
    def is_known(self) -> bool:
        """Whether it says anything."""
        return bool(np.isfinite(self.radius))


class KernelMachine(CertifiedEstimator):
    """Parameters of a kernel, and scores by support vectors.

    A subclass has the parameters of :class:`CertifiedEstimator` and ``C``, ``kernel``, ``gamma``,
    ``degree``, ``coef0``, ``cache_size`` and ``random_state``, and when fitted
    ``support_vectors_`` and ``_scores``. Where the kernel leaves no convex problem, fit raises.
    """

    C: float
    kernel: Any
    gamma: str | float
    degree: int
    coef0: float
    cache_size: float
    random_state: int | np.random.RandomState | None

    support_: NDArray[np.int32]
    support_vectors_: Matrix
    n_support_: NDArray[np.int32]
    dual_coef_: Coefficients
    intercept_: Array
    gamma_: float
    shape_fit_: tuple[int, ...]
    _scores: KernelScores

    _used_with: ClassVar[dict[str, tuple[str, tuple[Any, ...]]]] = {
        "gamma": ("kernel", ("rbf", "poly")),
        "degree": ("kernel", ("poly",)),
        "coef0": ("kernel", ("poly",)),
    }
    _kernel_constraints: ClassVar[dict[str, list[Any]]] = {
        "kernel": [Names({"rbf", "linear", "poly", "precomputed"}), callable],
        "gamma": [
            Names({"scale", "auto", "distance"}),
            Interval(Real, 0, None, closed="neither"),
        ],
        "degree": [Interval(Integral, 0, None, closed="left")],
        "coef0": [Interval(Real, 0, None, closed="left")],
        "C": [Interval(Real, 0, None, closed="neither")],
        "cache_size": [Interval(Real, 0, None, closed="neither")],
        "random_state": ["random_state"],
        **OF_FITS,
    }
    _advice: ClassVar[dict[Status, str]] = {
        Status.MAX_ITER: "Increase max_iter or tol, or use a smaller C.",
        Status.MAX_TIME: "Increase max_time or tol, or use a smaller C.",
        Status.STALLED: "Rounding prevents further progress: increase tol, or scale the features.",
    }

    def _score_bounds(self, X: Any) -> tuple[Array, Array]:
        """Bounds of the scores of the pairs, of shape (n_samples, n_pairs)."""
        regions = known_regions(self, KernelRegion, "there is no lower bound of the objective.")
        if is_precomputed(self):
            raise ValueError(
                "Bounds of scores need k(x, x) of the samples, which a matrix of kernel values "
                "between them and the training samples does not have. Use kernel='rbf', 'linear', "
                "'poly' or a callable."
            )
        X = check_prediction_data(self, X)
        scores, rounding = self._scores.bounded(X, self.n_jobs)
        radii, constants, below, above = np.array(regions).T
        lengths = np.sqrt(np.maximum(self._scores.diagonal(X)[:, np.newaxis] + constants, 0.0))
        reach = radii * lengths * (1.0 + 8.0 * DOUBLE) + rounding
        return scores - (reach + below), scores + (reach + above)

    def _pair_scores(self, X: Any) -> Array:
        """Scores of shape (n_samples, n_pairs)."""
        check_is_fitted(self)
        _refuse_sparse_values(self, X)
        return self._scores.scores(check_prediction_data(self, X), self.n_jobs)

    @property
    def coef_(self) -> Coefficients:
        """Weights w of shape (1, n_features) or (n_pairs, n_features), CSR if X was sparse.

        Raises AttributeError unless the kernel is linear.
        """
        if self.kernel != "linear":
            raise AttributeError("coef_ is only available with kernel='linear'.")
        check_is_fitted(self)
        weights = self._scores.weights()
        kind: Any = type(self.support_vectors_)
        return kind(weights) if sp.issparse(self.support_vectors_) else weights

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = not is_precomputed(self)
        tags.input_tags.pairwise = is_precomputed(self)
        return tags


# ---- input ---------------------------------------------------------------------------------------


def hints(name: str, value: Any) -> str:
    """What to add to the message about a wrong parameter."""
    if name != "kernel" or value != "sigmoid":
        return ""
    return " kernel='sigmoid' is not positive definite, so there may be no optimum."


def is_precomputed(params: KernelMachine) -> bool:
    return isinstance(params.kernel, str) and params.kernel == "precomputed"


def _refuse_sparse_values(params: KernelMachine, X: Any) -> None:
    if is_precomputed(params) and sp.issparse(X):
        raise ValueError("kernel='precomputed' needs a dense matrix X, got a sparse one.")


def training(
    params: KernelMachine,
    check: Callable[..., Any],
    X: Any,
    *arguments: Any,
    weights: Callable[[Any], Array] = lambda samples: samples.weights,
    gamma: float | None = None,
) -> Training:
    """The checked data of ``check(params, X, ...)``.

    A gamma that depends on the data has these ``weights``, unless one is given.
    """
    _refuse_sparse_values(params, X)
    samples = check(params, X, *arguments)
    shape = num_samples(X), params.n_features_in_
    values = _kernel_values(params, samples, shape[0], weights(samples), gamma)
    total = getattr(samples, "total", None)
    total = total_of(check_sample_weight(arguments[-1], shape[0])) if total is None else total
    return Training(samples, values, shape, total)


def _kernel_values(
    params: KernelMachine,
    samples: TrainingData,
    n_samples: int,
    weights: Array,
    gamma: float | None,
) -> KernelData:
    """Kernel values of checked data; ``n_samples`` is that of the caller's X."""
    if is_precomputed(params):
        n_columns = samples.X.shape[1]
        if n_columns != n_samples:
            raise ValueError(
                "kernel='precomputed' needs a square matrix X of kernel values between the "
                f"training samples, got one of shape {(n_samples, n_columns)}."
            )
        if len(samples.rows) < n_columns:
            samples.X = samples.X[:, samples.rows]
    if gamma is None:
        used = isinstance(params.kernel, str) and params.kernel in ("rbf", "poly")
        gamma = resolve_gamma(params.gamma, samples.X, weights) if used else 1.0
    kernel = Kernel(params.kernel, gamma, int(params.degree), float(params.coef0))
    dtype = np.float64 if params.tol < SINGLE_TOL else np.float32
    values = KernelData(samples.X, kernel, dtype, samples.rows)
    with np.errstate(over="ignore", invalid="ignore"):
        values.choose_dtype()
        largest = values.largest
    if not largest <= FAR:
        raise ValueError(
            f"The values of kernel={params.kernel!r} are too large, up to {largest}. Scale the "
            "features, or use a smaller gamma."
        )
    values.check()
    return values


# ---- the fit -------------------------------------------------------------------------------------


def solved(
    fit: Fit,
    params: KernelMachine,
    data: Training,
    problem_of: Callable[[int], tuple[NDArray[np.intp], Dual]],
    model: Callable[[Points], dict[str, Any]],
    names: Sequence[str] = ("",),
    solver_of: Callable[..., Any] = WorkingSets,
    settings: tuple[Any, ...] = (),
) -> list[SolverResult]:
    """The results of the problems ``problem_of(k)``: the points that take part, and the dual.

    ``settings`` has what beside C determines a solver and its result.
    """
    outer, inner = split_threads(params.n_jobs, len(names))
    # A callable kernel may have changed: its last point is only a start, not a result.
    scale = object() if callable(params.kernel) else params.C * data.total
    fit.reuse(lambda: (data.samples.fingerprint(), data.values.kernel), (scale, *settings))
    memory = params.cache_size * 2**20 / outer
    seed = check_random_state(params.random_state).randint(np.iinfo(np.int32).max)
    further = {"seed": seed} if solver_of is WorkingSets else {}

    def solve(k: int, observe: Any, seconds: float | None) -> SolverResult:
        points, dual = problem_of(k)
        problem = Problem(data.values, points, dual, cache_bytes=memory, n_threads=inner)

        def new(start: Any) -> Any:
            start = start if isinstance(start, Start) else None
            return solver_of(problem, tol=params.tol, start=start, **further)

        return finished(problem, fit.minimize(k, problem, new, observe, seconds)[1])

    return fit.solve(
        solve, model, names=names, unit="pair", threads=outer, blas=inner, max_time=params.max_time
    )


def run_next(
    params: KernelMachine, problem: Problem, last: Any, limit: TimeLimit
) -> tuple[Any, SolverResult | None]:
    """Solver and result at the next C of a path; no result where the time limit has passed."""
    solver = WorkingSets(problem, tol=params.tol, last=last)
    limits = {"tol": params.tol, "max_iter": params.max_iter, "max_time": limit.left}
    result = contract.run(solver, **limits)
    if result.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    if limit.left is not None and result.status is Status.MAX_TIME:
        return solver, None
    return solver, finished(problem, result)


def finished(problem: Problem, result: SolverResult) -> SolverResult:
    """The result with its region, and with a bound, which an indefinite kernel may have cost it."""
    if result.lower_bound == -np.inf and result.status is not Status.INTERRUPTED:
        result = _bounded(problem, result)
    ball = result.ball
    if ball is None or not np.isfinite(ball.radius):
        return result
    free = problem.dual.s == np.inf
    ends = (ball.below, ball.above) if free else (0.0, 0.0)
    return replace(result, region=KernelRegion(ball.radius, 0.0 if free else problem.dual.s, *ends))


def _bounded(problem: Problem, result: SolverResult) -> SolverResult:
    values, least = problem.data, problem.least
    values.refuse_indefinite(problem.points, result.point)
    if result.primal < least:
        below = "negative" if least == 0.0 else f"below {least:.6g}"
        raise ValueError(
            f"The values of kernel={values.kernel.name!r} are too rough for these costs: an "
            f"objective is {result.primal:.6g}, and none can be {below}. Scale the features, "
            "use float64, or a smaller C."
        )
    # It was rounding. No objective is below the least.
    history = result.history.copy()
    history["lower_bound"] = np.maximum(history["lower_bound"], least)
    return replace(result, lower_bound=least, history=history)


# ---- attributes ----------------------------------------------------------------------------------


def attributes_of(data: Training, coef: Array, intercept: Array, labels: Any = None) -> dict:
    """Fitted attributes in SVC's shapes, from coefficients of all samples in these shapes.

    ``labels`` of classes sort the support vectors; without them there are as many as in SVR.
    """
    samples, kernel = data.samples, data.values.kernel
    support = np.flatnonzero(coef.any(axis=0))
    n_support = np.array([len(support), 0], dtype=np.int32)
    if labels is not None:
        support = support[np.argsort(labels[support], kind="stable")]
        n_support = np.bincount(labels[support], minlength=labels.max() + 1).astype(np.int32)
    coef, rows = np.ascontiguousarray(coef[:, support]), samples.rows[support]
    given = kernel.name == "precomputed"
    vectors = np.empty((0, 0)) if given else samples.X[support]
    return {
        "support_": rows.astype(np.int32),
        "support_vectors_": vectors,
        "n_support_": n_support if labels is not None else n_support[:1].copy(),
        "dual_coef_": _shaped_like(samples.X, coef),
        "intercept_": intercept,
        "gamma_": kernel.gamma,
        "shape_fit_": data.shape,
        "_scores": KernelScores(rows if given else vectors, kernel, coef, intercept, n_support),
    }


def _shaped_like(X: Any, coef: Array) -> Coefficients:
    """``coef`` as it is or, for sparse X, in CSR of the same class with all entries, as in SVC."""
    if not sp.issparse(X):
        return coef
    n_rows, width = coef.shape
    indices = np.tile(np.arange(width, dtype=np.int32), n_rows)
    starts = np.arange(n_rows + 1, dtype=np.int32) * np.int32(width)
    return type(X)((coef.ravel().copy(), indices, starts), shape=coef.shape)
