"""Base of kernel machines: checked kernels, attributes in SVC's shapes, scores and labels."""

from abc import abstractmethod
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

from sklearn_bundle.core.base import ClassifierMixin
from sklearn_bundle.core.certainty import CertainClassifier, KnownOptimum
from sklearn_bundle.core_next.contract import Solver, SolverResult, Status
from sklearn_bundle.core.fit import CertifiedEstimator
from sklearn_bundle.core_next.parallel import blas_threads
from sklearn_bundle.core_next.parameters import OF_FITS, Names
from sklearn_bundle.core_next.certificate import DOUBLE
from sklearn_bundle.core.sklearn_internals import Interval, num_samples, ovr_decision_function
from sklearn_bundle.core_next.validation import (
    ClassificationData,
    TrainingData,
    check_classification_data,
    check_prediction_data,
)
from sklearn_bundle.core.warm import WarmStart
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


class KernelMachine(KnownOptimum, CertifiedEstimator):
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
    _has_intercept: ClassVar[bool] = True  # one that is penalized
    _region_kind = KernelRegion

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

    @abstractmethod
    def _indefinite_at(self, task: Any, solver: Any) -> tuple[KernelData, NDArray, NDArray]:
        """Kernel values, points, and the coefficients at which they do not seem to be definite."""

    def _run_solver(
        self, problem: Any, kept: Any, seed: int | None, **settings: Any
    ) -> tuple[Solver, SolverResult]:
        solver, result = super()._run_solver(problem, kept, seed, **settings)
        if result.lower_bound > -np.inf or result.status is Status.INTERRUPTED:
            return solver, result
        values, points, coef = self._indefinite_at(problem, solver)
        values.refuse_indefinite(points, coef)
        least = problem.least if isinstance(problem, BoxProblem) else 0.0
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
        return solver, replace(result, lower_bound=least, history=history)

    def _seed(self) -> int:
        return int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))

    def _fingerprint(self, data: MachineTraining) -> tuple[Any, ...]:
        return data.samples.fingerprint(), data.values.kernel

    def _further_attributes(self, data: MachineTraining, warm: WarmStart) -> dict[str, Any]:
        return {"shape_fit_": data.shape}

    def _validate_params(self) -> None:
        if isinstance(self.kernel, str) and self.kernel == "sigmoid":
            raise ValueError(
                f"kernel='sigmoid' is not positive definite, so {type(self).__name__} may have no "
                "optimum. Use 'rbf', 'linear', 'poly', 'precomputed' or a callable."
            )
        super()._validate_params()

    def _precomputed(self) -> bool:
        return isinstance(self.kernel, str) and self.kernel == "precomputed"

    def _objects(self, X: Any) -> np.ndarray | None:
        """X as an array of objects for a callable kernel; None if X holds rows of numbers."""
        if not callable(self.kernel) or sp.issparse(X):
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

    def _checked(self, check: Callable[..., Any], X: Any, *arguments: Any) -> Any:
        """``check(self, X, ...)`` without a check of objects, as in SVC."""
        if self._precomputed() and sp.issparse(X):
            raise ValueError("kernel='precomputed' needs a dense matrix X, got a sparse one.")
        objects = self._objects(X)
        if objects is None:
            return check(self, X, *arguments)
        data = check(self, np.arange(float(len(objects)))[:, np.newaxis], *arguments)
        del self.n_features_in_
        data.X = objects[data.rows]
        return data

    def _shape_of(self, X: Any) -> tuple[int, ...]:
        """Shape of the training data; objects without a shape have one dimension."""
        if self._objects(X) is None:
            return num_samples(X), self.n_features_in_
        return (len(X),)

    def _kernel_values(self, data: TrainingData, n_samples: int) -> KernelData:
        """Kernel values of checked data; ``n_samples`` is that of the caller's X."""
        if self._precomputed():
            n_columns = data.X.shape[1]
            if n_columns != n_samples:
                raise ValueError(
                    "kernel='precomputed' needs a square matrix X of kernel values between the "
                    f"training samples, got one of shape {(n_samples, n_columns)}."
                )
            if len(data.rows) < n_columns:
                data.X = data.X[:, data.rows]
        return self._kernel_data(data, self._kernel_of(data))

    def _checked_costs(self, total: float, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """C_i: C times the weights, which sum to ``total`` before they are normalized."""
        with np.errstate(over="ignore"):
            costs = self.C * total * weights
        if not (costs.min() >= 1.0 / _LARGEST_COST and costs.max() <= _LARGEST_COST):
            raise ValueError(
                f"C times the sample weights must lie between {1.0 / _LARGEST_COST:g} and "
                f"{_LARGEST_COST:g}; got C={self.C!r} and products from {costs.min()} to "
                f"{costs.max()}."
            )
        return costs

    def _gamma_weights(self, data: TrainingData) -> NDArray[np.float64]:
        """Weights of the samples in a gamma that depends on the data."""
        return data.weights

    def _kernel_of(self, data: TrainingData) -> Kernel:
        gamma = 1.0
        if isinstance(self.kernel, str) and self.kernel in ("rbf", "poly"):
            gamma = resolve_gamma(self.gamma, data.X, self._gamma_weights(data))
        return Kernel(self.kernel, gamma, int(self.degree), float(self.coef0))

    def _kernel_data(self, data: TrainingData, kernel: Kernel) -> KernelData:
        dtype = np.float64 if self.tol < SINGLE_TOL else np.float32
        values = KernelData(data.X, kernel, dtype, data.rows)
        with np.errstate(over="ignore", invalid="ignore"):
            values.choose_dtype()
            largest = values.largest
        if not largest <= FAR:
            raise ValueError(
                f"The values of kernel={self.kernel!r} are too large, up to {largest}. Scale the "
                "features, or use a smaller gamma."
            )
        values.check()
        return values

    def _first_solutions(
        self, data: Any, target: Any, Cs: NDArray[np.float64]
    ) -> list[SolverResult]:
        """Solutions at the first few of ascending C that can be found together; C changes."""
        return []

    def _region(self, problem: Any, result: SolverResult) -> KernelRegion | None:
        """The objective has the modulus 1 in w, or in w and b together where b is penalized.

        In double precision a sum over rows says more than the gap, of which rounding leaves more.
        """
        gap = result.gap
        if not np.isfinite(gap):
            return None
        square = 2.0 * max(gap, 0.0)
        if self.tol < SINGLE_TOL:
            by_rows = self._gap_by_rows(problem, result)
            square = min(square, by_rows) if np.isfinite(by_rows) else square
        radius = float(np.sqrt(square)) * (1.0 + 4.0 * DOUBLE)
        if isinstance(problem, BoxProblem):
            least, most = problem.intercepts(result.point, radius)
            return KernelRegion(radius, 0.0, result.intercept - least, most - result.intercept)
        return KernelRegion(radius, float(self._has_intercept))

    def _gap_by_rows(self, problem: Any, result: SolverResult) -> float:
        if isinstance(problem, BoxProblem):
            return problem.gap_by_rows(result.point, result.intercept)
        return problem.gap_by_rows(result.point)

    def _why_unknown(self) -> str:
        return "there is no lower bound of the objective."

    def _score_bounds(self, X: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Bounds of the scores of the pairs, of shape (n_pairs, n_samples)."""
        regions = self._known_regions()
        if self._precomputed():
            raise ValueError(
                "Bounds of scores need k(x, x) of the samples, which a matrix of kernel values "
                "between them and the training samples does not have. Use kernel='rbf', 'linear', "
                "'poly' or a callable."
            )
        objects = self._objects(X)
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
        objects = self._objects(X)
        X = check_prediction_data(self, X) if objects is None else objects
        threads = effective_n_jobs(self.n_jobs)
        with blas_threads(1):
            if signs_only:
                return self._scores.sure_scores(X, threads)
            single = self.support_vectors_.dtype == np.float32 and not self._precomputed()
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
        tags.input_tags.sparse = not self._precomputed()
        tags.input_tags.pairwise = self._precomputed()
        return tags


class KernelClassifier(CertainClassifier, ClassifierMixin, KernelMachine):
    """Prediction of labels by one machine, or by one for each pair of classes."""

    classes_: np.ndarray

    _kernel_constraints: ClassVar[dict[str, list[Any]]] = {
        **KernelMachine._kernel_constraints,
        "decision_function_shape": [Names({"ovr", "ovo"})],
        "break_ties": ["boolean"],
    }

    def _check(self, X: Any, y: Any, sample_weight: Any) -> KernelTraining:
        if self.break_ties and self.decision_function_shape == "ovo":
            raise ValueError(
                "break_ties=True needs decision_function_shape='ovr', got 'ovo': ties are broken "
                "by the one-versus-rest scores."
            )
        samples = self._checked(check_classification_data, X, y, sample_weight, self.class_weight)
        values = self._kernel_values(samples, num_samples(X))
        return KernelTraining(samples, values, self._shape_of(X))

    def _gamma_weights(self, data: ClassificationData) -> NDArray[np.float64]:
        """Sample weights without class weights, as in SVC."""
        return data.sample_weight

    def _decision_bounds(self, X: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
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
        return ovr_decision_function(scores.T < 0, -scores.T, len(self.classes_))

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
