"""SwapSVC and SwapSVR with C chosen by cross-validation."""

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from joblib import effective_n_jobs
from numpy.typing import NDArray
from sklearn.base import is_classifier

from sklearn_bundle.core.contract import Status, TimeLimit
from sklearn_bundle.core.reports import Report
from sklearn_bundle.core.search import (
    Fold,
    ScoresOf,
    Search,
    folds_among,
    search_constraints,
    values_of_C,
)
from sklearn_bundle.core.shared_docs import fill_doc
from sklearn_bundle.core.validation import (
    ClassificationData,
    RegressionData,
    checked_score,
    checked_scorer,
)
from sklearn_bundle.core.values import shown
from sklearn_bundle.kernel.estimators._kernel import KernelTraining, MachineTraining
from sklearn_bundle.kernel.estimators._machine import machine
from sklearn_bundle.kernel.estimators.swap import SwapSVC
from sklearn_bundle.kernel.estimators.swap_svr import SwapSVR, TubeTraining
from sklearn_bundle.kernel.values.kernel_data import OF_CACHE, KernelData

# Features up to which the pairs of one-versus-one compute their own kernel values. That took half
# the time of reading a shared matrix with 16 features, and 1.8 times as long with 256; the two are
# equal near 100.
_FEW_FEATURES = 64


class KernelSearch(Search):
    """Cross-validation over C, in each fold from the smallest value to the largest."""

    Cs: Any
    cache_size: float
    C_: float
    Cs_: NDArray[np.float64]

    _chosen = "C"

    @abstractmethod
    def _shares(self, data: Any) -> bool:
        """Whether to compute one matrix of kernel values for all folds."""

    @abstractmethod
    def _scores_of_fold(
        self,
        data: Any,
        Cs: NDArray[np.float64],
        train: np.ndarray,
        test: np.ndarray,
        report: Report,
        limit: TimeLimit,
    ) -> list[float]:
        """The scores of every C on the test part of a fold; each fit is reported.

        There are fewer if the limit ends a fit.
        """

    def _values(self, data: Any) -> NDArray[np.float64]:
        """Values of C, ascending."""
        return values_of_C(self.Cs)

    def _folds_by(
        self, data: MachineTraining, y: Any, values: NDArray[np.float64], metadata: dict[str, Any]
    ) -> tuple[list[Fold], ScoresOf]:
        """What ``_folds`` returns, where ``y`` has an entry for each row of the caller's X."""
        X, rows = np.zeros(data.shape[0]), data.samples.rows
        folds = folds_among(self.cv, X, y, rows, is_classifier(self), metadata)
        shared = replace(data, values=self._shared_values(data))
        shared.divide_cache(self.cache_size, min(effective_n_jobs(self.n_jobs), len(folds)))
        return folds, partial(self._scores_of_fold, shared, values)

    def _shared_values(self, data: MachineTraining) -> KernelData:
        """One matrix of kernel values if there is space for it, which the final fit has too."""
        values, n_bytes = data.values, 4 * data.samples.n_samples**2
        if not self._shares(data) or n_bytes > OF_CACHE * self.cache_size * 2**20:
            return values
        return values.all_values() or values

    def _solutions(
        self,
        single: Any,
        data: Any,
        target: Any,
        Cs: NDArray[np.float64],
        report: Report,
        limit: TimeLimit,
    ) -> Iterator[Any]:
        """The solution of a subproblem for each C, which starts from the last; all are reported.

        The last is that before the fit that the limit ends.
        """
        kept = None
        for C in Cs:
            start = perf_counter()
            single.C, single.max_time = float(C), limit.left
            with single._problem(data, target, 1) as problem:
                solver, result = single._run_next_value(problem, kept, 0)
            if result.status is Status.MAX_TIME:
                return
            kept = single._next_start(solver, result, kept)
            report(C, [result], perf_counter() - start)
            yield result.point

    def _score_of(
        self,
        model: Any,
        Z: Any,
        y: NDArray,
        weights: NDArray[np.float64],
        test: np.ndarray,
    ) -> Callable[[], float]:
        """What scores the model, as it is then, on the test part of a fold.

        The weights are those of all samples: if they are equal, they do not count.
        """
        scorer, counted = checked_scorer(model, self.scoring), {}
        if not callable(self.scoring) and np.ptp(weights) > 0.0:
            counted = {"sample_weight": weights[test]}
        return lambda: checked_score(scorer(model, Z, y, **counted))


@fill_doc
class SwapSVCCV(KernelSearch, SwapSVC):
    """:class:`SwapSVC` that chooses C by cross-validation, on one matrix of kernel values.

    Only the diagonal of the problem that :class:`SwapSVC` solves depends on C, and a fold uses a
    part of the matrix. Kernel values are therefore computed once for all folds and values of C, and
    each fit of a fold starts from the one with the next smaller C. For three or more classes and
    dense X of at most 64 features, each pair of classes computes the values that it needs, which
    takes less time. Then the model is fitted to all data with the best C. gamma="scale" and
    "distance" and balanced class weights are computed from all data, not from each training part.
    Each fit uses the method of :class:`SwapSVC`; on a shared matrix the default is algorithm 5 of
    [1]_.

    Parameters
    ----------
    %(Cs)s
    %(cv: stratified)s
    %(scoring)s
        accuracy. If the matrix is shared, a callable gets kernel values in place of X, and may use
        only `predict` and `decision_function`.
    %(kernel)s
    %(SwapSVC.solver)s
        On a shared matrix "auto" is "swap-2o".
    %(search_tol: 1e-2)s
    max_iter : int, default=1000000
        Maximum number of steps of every fit, for each pair of classes.
    %(search_max_time)s
    cache_size : float, default=1000
        Memory for kernel values in MB. The shared matrix, in single precision, must fit into half
        of it (``4 n^2`` bytes); if it does not, every fit computes its own values. There is no such
        matrix if pairs compute their own values.
    class_weight : dict or "balanced", default=None
        Factors on C by class; "balanced" gives all classes the same total weight in all data.
    %(SwapSVC.decision_function_shape)s
    %(SwapSVC.break_ties)s
    %(n_jobs: over the folds, and in the final fit)s
    %(random_state: the first active points of the final fit)s
    %(search_verbose)s

    Attributes
    ----------
    %(best_C)s
    %(scores: n_Cs)s
    classes_, support_, support_vectors_, n_support_, dual_coef_, intercept_, coef_, gamma_, \
objective_, lower_bound_, dual_gap_, converged_, relative_gap_, n_iter_, status_, history_, \
n_features_in_, feature_names_in_, shape_fit_
        Of the final fit, as in :class:`SwapSVC`.

    Raises
    ------
    ValueError
        As in :class:`SwapSVC`, for Cs that are not positive, and if a class is missing in a
        training part.

    Warns
    -----
    %(search_warnings)s

    See Also
    --------
    SwapSVC : With a given C; describes the objective.

    References
    ----------
    %(swap_paper: 1)s

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn_bundle import SwapSVCCV
    >>> X, y = load_digits(return_X_y=True)
    >>> model = SwapSVCCV(Cs=[1, 10, 100], cv=3).fit(X[:600], y[:600] % 2)
    >>> model.scores_.shape
    (3, 3)
    >>> bool(model.C_ in model.Cs_)
    True
    """

    _kind = SwapSVC
    loss = "squared_hinge"
    _not_shared = "C", "n_candidates", "n_initial", "active_set", "warm_start"
    _parameter_constraints: ClassVar[dict[str, Any]] = search_constraints(
        SwapSVC, "Cs", _not_shared
    )

    def __init__(
        self,
        Cs: Any = 7,
        *,
        cv: Any = None,
        scoring: Any = None,
        kernel: Any = "rbf",
        gamma: str | float = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        solver: str = "auto",
        tol: float = 1e-2,
        max_iter: int = 1_000_000,
        max_time: float | None = None,
        cache_size: float = 1000,
        class_weight: dict[Any, float] | str | None = None,
        decision_function_shape: str = "ovr",
        break_ties: bool = False,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ):
        self.Cs = Cs
        self.cv = cv
        self.scoring = scoring
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.cache_size = cache_size
        self.class_weight = class_weight
        self.decision_function_shape = decision_function_shape
        self.break_ties = break_ties
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _folds(self, data, X, y, sample_weight, values, metadata):
        return self._folds_by(data, data.samples.all_labels, values, metadata)

    def _fits_per_value(self, data: KernelTraining) -> int:
        return len(self._single()._targets(data))

    def _shares(self, data: KernelTraining) -> bool:
        """Not if it is faster that pairs of classes compute the kernel values that they need."""
        single = self._single()
        targets = single._targets(data)
        with single._problem(data, targets[0], 1) as task:
            problem = task.problem
        if len(targets) == 1 or not problem.computed or problem.sparse:
            return True
        few = data.values.X.shape[1] <= _FEW_FEATURES
        return not (few and single._method(problem) == "decomposition")

    def _scores_of_fold(
        self,
        data: KernelTraining,
        Cs: NDArray[np.float64],
        train: np.ndarray,
        test: np.ndarray,
        report: Report,
        limit: TimeLimit,
    ) -> list[float]:
        samples, values, single = data.samples, data.values, self._single()
        part = replace(
            samples,
            X=np.empty((len(train), 0)) if values.precomputed else samples.X[train],
            labels=samples.labels[train],
            weights=samples.weights[train],
            left=train,
        )
        self._check_classes(part)
        Z = values.X[test]
        model = SwapSVC(
            kernel=values.kernel.name,
            decision_function_shape=self.decision_function_shape,
            break_ties=self.break_ties,
        )
        model._set_fitted({"n_features_in_": Z.shape[1]})
        y = samples.classes[samples.labels[test]]
        score = self._score_of(model, Z, y, samples.sample_weight, test)
        fold = replace(data, samples=part, places=train)
        targets = single._targets(fold)
        by_target = []
        for k, target in enumerate(targets):
            part_of_limit = limit.part(len(targets) - k, 0.0)
            alphas = self._solutions(single, fold, target, Cs, report, part_of_limit)
            by_target.append(list(alphas))
        scores = []
        for alphas in zip(*by_target, strict=False):  # the limit may have ended some earlier
            model._set_fitted(machine(part, values.kernel, [(alpha, None) for alpha in alphas]))
            scores.append(score())
        return scores

    def _check_classes(self, part: ClassificationData) -> None:
        missing = np.setdiff1d(np.arange(len(part.classes)), part.labels)
        if len(missing):
            label = shown(part.classes[missing[0]])
            raise ValueError(
                f"The class {label} has no sample in the training part of a fold of cv: use "
                "stratified or fewer folds."
            )


@fill_doc
class SwapSVRCV(KernelSearch, SwapSVR):
    """:class:`SwapSVR` that chooses C by cross-validation, on one matrix of kernel values per fold.

    Only the weight of the losses depends on C. Kernel values of a training part are therefore
    computed once for all values of C, and each fit of a fold starts from the one with the next
    smaller C. For sparse X and for a callable, whose kernel values take long, they are computed
    once for all folds. Then the model is fitted to all data with the best C. gamma="scale" and
    "distance" are computed from all data, not from each training part. To search over epsilon too,
    put :class:`~sklearn.model_selection.GridSearchCV` around this estimator. Each fit uses the
    method of :class:`SwapSVR`.

    Parameters
    ----------
    %(Cs)s
    %(cv: consecutive)s
    %(scoring)s
        R^2. If all folds share kernel values, a callable gets these in place of X, and may use only
        `predict`.
    %(SwapSVR.epsilon)s
        In a fold it is that of its own y.
    %(kernel)s
    %(search_tol: 1e-2)s
    %(search_max_iter: 1000)s
    %(search_max_time)s
    cache_size : float, default=1000
        Memory in MB for kernel values and factors of the kernel matrix, for all folds that are
        fitted at a time. A fold's values are kept if they fit into half of its share; otherwise
        they are recomputed by blocks.
    %(n_jobs: over the folds, and of BLAS in the final fit)s
    %(random_state: the points from which the factor of the final fit is built)s
    %(search_verbose)s

    Attributes
    ----------
    %(best_C)s
    %(scores: n_Cs)s
    support_, support_vectors_, n_support_, dual_coef_, intercept_, coef_, gamma_, epsilon_, \
objective_, lower_bound_, dual_gap_, converged_, relative_gap_, n_iter_, status_, history_, \
n_features_in_, feature_names_in_, shape_fit_
        Of the final fit, as in :class:`SwapSVR`.

    Raises
    ------
    ValueError
        As in :class:`SwapSVR`, and for Cs that are not positive.

    Warns
    -----
    %(search_warnings)s
        For the final fit as in :class:`SwapSVR`.

    See Also
    --------
    SwapSVR : With a given C; describes the objective and has the references.
    SwapSVCCV : The same for labels.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.preprocessing import scale
    >>> from sklearn_bundle import SwapSVRCV
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = SwapSVRCV(Cs=[0.01, 0.1, 1, 10], cv=3).fit(scale(X), scale(y))
    >>> model.scores_.shape, float(model.C_)
    ((3, 4), 1.0)
    """

    _kind = SwapSVR
    loss = "squared_epsilon_insensitive"
    _not_shared = "C", "warm_start"
    _parameter_constraints: ClassVar[dict[str, Any]] = search_constraints(
        SwapSVR, "Cs", _not_shared
    )

    def __init__(
        self,
        Cs: Any = 7,
        *,
        cv: Any = None,
        scoring: Any = None,
        epsilon: float | None = None,
        kernel: Any = "rbf",
        gamma: str | float = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        tol: float = 1e-2,
        max_iter: int = 1000,
        max_time: float | None = None,
        cache_size: float = 1000,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ):
        self.Cs = Cs
        self.cv = cv
        self.scoring = scoring
        self.epsilon = epsilon
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.cache_size = cache_size
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _folds(self, data, X, y, sample_weight, values, metadata):
        return self._folds_by(data, np.asarray(y), values, metadata)

    def _shares(self, data: TubeTraining) -> bool:
        """Whether kernel values are costly and single precision holds them."""
        values = data.values
        costly = callable(values.kernel.name) or sp.issparse(values.X)
        return costly and values.dtype == np.float32

    def _scores_of_fold(
        self,
        data: TubeTraining[RegressionData],
        Cs: NDArray[np.float64],
        train: np.ndarray,
        test: np.ndarray,
        report: Report,
        limit: TimeLimit,
    ) -> list[float]:
        samples, values = data.samples, data.values
        X, Z = (
            values.X[np.ix_(part, train) if values.precomputed else part] for part in (train, test)
        )
        part = replace(samples, X=X, weights=samples.weights[train], y=samples.y[train], left=None)
        values_of_fold = KernelData(X, values.kernel, values.dtype)
        fold = replace(data, samples=part, values=values_of_fold, shared=True)
        model = self._single(kernel=values.kernel.name, n_jobs=1)
        if Z.ndim > 1:
            model._set_fitted({"n_features_in_": Z.shape[1]})
        score = self._score_of(model, Z, samples.y[test], samples.weights, test)
        scores = []
        for point in self._solutions(model, fold, None, Cs, report, limit):
            model._set_fitted(model._model(fold, [(point, None)]))
            scores.append(score())
        return scores
