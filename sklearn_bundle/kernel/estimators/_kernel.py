"""Base of kernel machines: checked kernels, attributes in SVC's shapes, scores and labels."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import combinations
from numbers import Integral, Number, Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy.sparse as sp
from joblib import effective_n_jobs
from numpy.typing import NDArray
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted

from sklearn_bundle.core.contract import SolverResult, Status
from sklearn_bundle.core.estimator import CertifiedEstimator
from sklearn_bundle.core.limits import DOUBLE
from sklearn_bundle.core.mixins import ClassifierMixin
from sklearn_bundle.core.optimum import CertainClassifier, known_regions
from sklearn_bundle.core.parallel import blas_threads
from sklearn_bundle.core.parameters import OF_FITS, Interval, Names
from sklearn_bundle.core.validation import (
    ClassificationData,
    TrainingData,
    check_classification_data,
    check_prediction_data,
    num_samples,
)
from sklearn_bundle.kernel.estimators._machine import Coefficients
from sklearn_bundle.kernel.problems.box import BoxProblem
from sklearn_bundle.kernel.values.kernel import FAR
from sklearn_bundle.kernel.values.kernel_data import KernelData
from sklearn_bundle.kernel.values.kernel_function import Kernel, Matrix, resolve_gamma
from sklearn_bundle.kernel.values.kernel_scores import KernelScores

_LARGEST_COST = 1e100  # of C_i: the squares of it and of its inverse are finite
SINGLE_TOL = 1e-6  # below this, rounding of single precision is too large from the start


@dataclass
class MachineTraining:
    """Samples, and kernel values between them.

    ``shape`` is that of the caller's X; each solver may keep values of ``cache_bytes``; ``shared``
    says that several fits use the kernel values.
    """

    samples: Any
    values: KernelData
    shape: tuple[int, ...]
    cache_bytes: int = field(default=0, kw_only=True)
    shared: bool = field(default=False, kw_only=True)

    def divide_cache(self, megabytes: float, n_threads: int) -> None:
        """Memory for kernel values per solver, if this many solvers run at a time."""
        left = megabytes * 2**20 - self.values.bytes_kept
        self.cache_bytes = int(left / n_threads) - self.values.bytes_shared


@dataclass
class KernelTraining(MachineTraining):
    """Samples with labels, and kernel values between them."""

    samples: ClassificationData

    @property
    def classes(self) -> np.ndarray:
        return self.samples.classes


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
    """Checks of a kernel and its values; scores by support vectors.

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
    intercept_: NDArray[np.float64]
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

    def _score_bounds(self, X: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Bounds of the scores of the pairs, of shape (n_pairs, n_samples)."""
        regions = known_regions(self, KernelRegion, "there is no lower bound of the objective.")
        if is_precomputed(self):
            raise ValueError(
                "Bounds of scores need k(x, x) of the samples, which a matrix of kernel values "
                "between them and the training samples does not have. Use kernel='rbf', 'linear', "
                "'poly' or a callable."
            )
        objects = objects_of(self, X)
        X = check_prediction_data(self, X) if objects is None else objects
        with blas_threads(1):
            scores, rounding = self._scores.bounded_scores(X, effective_n_jobs(self.n_jobs))
            diagonal = self._scores.diagonal(X)
        radii, constants, below, above = np.array(regions).T[:, :, None]
        reach = radii * np.sqrt(np.maximum(diagonal + constants, 0.0))
        reach = reach * (1.0 + 8.0 * DOUBLE) + rounding
        return scores - (reach + below), scores + (reach + above)

    def _pair_scores(self, X: Any, signs_only: bool = False) -> NDArray[np.float64]:
        check_is_fitted(self)
        objects = objects_of(self, X)
        X = check_prediction_data(self, X) if objects is None else objects
        threads = effective_n_jobs(self.n_jobs)
        with blas_threads(1):
            if signs_only:
                return self._scores.sure_scores(X, threads)
            single = self.support_vectors_.dtype == np.float32 and not is_precomputed(self)
            return self._scores.scores(X, np.float32 if single else np.float64, threads)

    @property
    def coef_(self) -> Coefficients:
        """Weights w of shape (1, n_features) or (n_pairs, n_features), CSR if X was sparse.

        Raises AttributeError unless the kernel is linear.
        """
        if self.kernel != "linear":
            raise AttributeError("coef_ is only available with kernel='linear'.")
        check_is_fitted(self)
        weights = self._scores.weights()
        kind = type(self.support_vectors_)
        return kind(weights) if sp.issparse(self.support_vectors_) else weights

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = not is_precomputed(self)
        tags.input_tags.pairwise = is_precomputed(self)
        return tags


def hints(name: str, value: Any) -> str:
    """What to add to the message about a wrong parameter."""
    if name != "kernel" or value != "sigmoid":
        return ""
    return " kernel='sigmoid' is not positive definite, so there may be no optimum."


def seed_of(params: KernelMachine) -> int:
    return int(check_random_state(params.random_state).randint(np.iinfo(np.int32).max))


def is_precomputed(params: KernelMachine) -> bool:
    return isinstance(params.kernel, str) and params.kernel == "precomputed"


def objects_of(params: KernelMachine, X: Any) -> np.ndarray | None:
    """X as an array of objects for a callable kernel; None if X holds rows of numbers."""
    if not callable(params.kernel) or sp.issparse(X):
        return None
    if isinstance(X, np.ndarray):
        return X if X.ndim == 1 and X.dtype.kind in "OUST" else None
    if not isinstance(X, list | tuple) or len(X) == 0 or np.ndim(X[0]) > 0:
        return None
    if isinstance(X[0], Number):
        return None
    objects = np.empty(len(X), dtype=object)
    for i, item in enumerate(X):
        objects[i] = item
    return objects


def checked_samples(
    params: KernelMachine, check: Callable[..., Any], X: Any, *arguments: Any
) -> tuple[Any, tuple[int, ...]]:
    """``check(params, X, ...)`` without a check of objects, as in SVC; and the shape of X.

    Objects without a shape have one dimension.
    """
    if is_precomputed(params) and sp.issparse(X):
        raise ValueError("kernel='precomputed' needs a dense matrix X, got a sparse one.")
    objects = objects_of(params, X)
    if objects is None:
        samples = check(params, X, *arguments)
        return samples, (num_samples(X), params.n_features_in_)
    samples = check(params, np.arange(float(len(objects)))[:, np.newaxis], *arguments)
    del params.n_features_in_
    samples.X = objects[samples.rows]
    return samples, (len(X),)


def kernel_values(
    params: KernelMachine,
    samples: TrainingData,
    n_samples: int,
    weights: NDArray[np.float64],
    gamma: float | None = None,
) -> KernelData:
    """Kernel values of checked data; ``n_samples`` is that of the caller's X.

    A gamma that depends on the data has these weights, unless one is given.
    """
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


def checked_costs(C: float, total: float, weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """C_i: C times the weights, which sum to ``total`` before they are normalized."""
    with np.errstate(over="ignore"):
        costs = C * total * weights
    if not (costs.min() >= 1.0 / _LARGEST_COST and costs.max() <= _LARGEST_COST):
        raise ValueError(
            f"C times the sample weights must lie between {1.0 / _LARGEST_COST:g} and "
            f"{_LARGEST_COST:g}; got C={C!r} and products from {costs.min()} to {costs.max()}."
        )
    return costs


def bounded(
    result: SolverResult,
    least: float,
    indefinite_at: Callable[[], tuple[KernelData, NDArray, NDArray]],
) -> SolverResult:
    """The result with a lower bound, which rounding or an indefinite kernel may have cost it.

    ``indefinite_at`` returns kernel values, points, and the coefficients at which they do not seem
    to be definite; ``least`` is a bound of all objectives.
    """
    if result.lower_bound > -np.inf or result.status is Status.INTERRUPTED:
        return result
    values, points, coef = indefinite_at()
    values.refuse_indefinite(points, coef)
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


def located(
    result: SolverResult,
    tol: float,
    gap_by_rows: Callable[[], float],
    box: BoxProblem | None,
    has_intercept: bool = True,
) -> SolverResult:
    """The result with the region of the optimum's scores.

    The objective has the modulus 1 in w, or in w and b together where b is penalized. In double
    precision a sum over rows says more than the gap, of which rounding leaves more. With a ``box``
    the intercept is not penalized.
    """
    if not np.isfinite(result.gap):
        return result
    square = 2.0 * max(result.gap, 0.0)
    if tol < SINGLE_TOL:
        by_rows = gap_by_rows()
        square = min(square, by_rows) if np.isfinite(by_rows) else square
    radius = float(np.sqrt(square)) * (1.0 + 4.0 * DOUBLE)
    if box is None:
        return replace(result, region=KernelRegion(radius, float(has_intercept)))
    least, most = box.intercepts(result.point, radius)
    region = KernelRegion(radius, 0.0, result.intercept - least, most - result.intercept)
    return replace(result, region=region)


class KernelClassifier(CertainClassifier, ClassifierMixin, KernelMachine):
    """Prediction of labels by one machine, or by one for each pair of classes."""

    classes_: np.ndarray

    _kernel_constraints: ClassVar[dict[str, list[Any]]] = {
        **KernelMachine._kernel_constraints,
        "decision_function_shape": [Names({"ovr", "ovo"})],
        "break_ties": ["boolean"],
    }

    def _checked(
        self, X: Any, y: Any, sample_weight: Any, gamma: float | None = None
    ) -> KernelTraining:
        """The checked data; as in SVC, class weights don't count in a gamma of its own."""
        if self.break_ties and self.decision_function_shape == "ovo":
            raise ValueError(
                "break_ties=True needs decision_function_shape='ovr', got 'ovo': ties are broken "
                "by the one-versus-rest scores."
            )
        check = check_classification_data
        samples, shape = checked_samples(self, check, X, y, sample_weight, self.class_weight)
        values = kernel_values(self, samples, shape[0], samples.sample_weight, gamma)
        return KernelTraining(samples, values, shape)

    def _bounds(self, X: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        low, high = self._score_bounds(X)
        if len(self.classes_) == 2:
            return low[0], high[0]
        if self.decision_function_shape == "ovo":
            return np.ascontiguousarray(low.T), np.ascontiguousarray(high.T)
        return self._votes(low, high)

    def _votes(self, low: NDArray, high: NDArray) -> tuple[NDArray, NDArray]:
        """The least and the largest score of each class: votes, plus less than half of one.

        Of a pair the first class gains what the second one loses.
        """
        n_classes = len(self.classes_)
        sums, votes = np.zeros((2, low.shape[1], n_classes)), np.zeros((2, low.shape[1], n_classes))
        for (i, j), worst, best in zip(combinations(range(n_classes), 2), low, high, strict=True):
            for end, of_i, of_j in ((0, worst, best), (1, best, worst)):
                sums[end, :, i] += of_i
                sums[end, :, j] -= of_j
                votes[end, :, i] += of_i > 0.0
                votes[end, :, j] += of_j <= 0.0
        rounding = n_classes * DOUBLE * np.abs(sums)
        sums += np.array([-1.0, 1.0])[:, None, None] * rounding
        least, most = votes + sums / (3.0 * (np.abs(sums) + 1.0))
        return least, most

    def _possible(self, X: Any) -> NDArray[np.bool_]:
        low, high = self._score_bounds(X)
        if len(self.classes_) == 2:
            return np.column_stack([low[0] <= 0.0, high[0] > 0.0])
        least, most = self._votes(low, high)
        possible = np.ones(least.shape, dtype=bool)
        if not self.break_ties:  # whole votes, and ties go to the first class
            least, most = np.floor(least + 0.5), np.floor(most + 0.5)
            before = np.maximum.accumulate(least[:, :-1], axis=1)
            possible[:, 1:] = most[:, 1:] > before
        return possible & (most >= least.max(axis=1, keepdims=True))

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Scores of the samples.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Data; for ``kernel="precomputed"``, of shape (n_samples, n_samples_fit).

        Returns
        -------
        scores : ndarray of shape (n_samples,), (n_samples, n_classes) or (n_samples, n_pairs)
            In single precision if the X of fit was. For two classes f(x), positive if the second
            class is predicted. For more classes, ``decision_function_shape="ovr"`` gives votes plus
            a monotone function of the sum of the scores, and "ovo" gives the scores of the pairs,
            positive if the first class wins.
        """
        scores = self._pair_scores(X)
        if len(self.classes_) == 2:
            return scores[0]
        if self.decision_function_shape == "ovo":
            return np.ascontiguousarray(scores.T)
        votes, n_classes = np.zeros((scores.shape[1], len(self.classes_))), len(self.classes_)
        sums = np.zeros_like(votes)
        for (i, j), of_pair in zip(combinations(range(n_classes), 2), scores, strict=True):
            sums[:, i] += of_pair
            sums[:, j] -= of_pair
            votes[:, i] += of_pair >= 0.0
            votes[:, j] += of_pair < 0.0
        return votes + sums / (3.0 * (np.abs(sums) + 1.0))

    def predict(self, X: Any) -> np.ndarray:
        """Labels, by votes of the pairs.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Data; for ``kernel="precomputed"``, of shape (n_samples, n_samples_fit).

        Returns
        -------
        y : ndarray of shape (n_samples,)
            Elements of ``classes_``. Ties go to the first class, or with ``break_ties=True`` to the
            class with the largest score.
        """
        check_is_fitted(self)
        n_classes = len(self.classes_)
        if n_classes > 2 and self.break_ties:
            return self.classes_[self.decision_function(X).argmax(axis=1)]
        scores = self._pair_scores(X, signs_only=True)
        if n_classes == 2:
            return self.classes_[(scores[0] > 0.0).astype(np.intp)]
        votes = np.zeros((n_classes, scores.shape[1]), dtype=np.int32)
        for (i, j), won in zip(combinations(range(n_classes), 2), scores > 0.0, strict=True):
            votes[i] += won
            votes[j] += ~won
        return self.classes_[votes.argmax(axis=0)]
