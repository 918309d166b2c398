"""SwapSVC with C chosen by cross-validation."""

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.contract import TimeLimit
from sklearn_bundle.core.reports import Report
from sklearn_bundle.core.search import search_constraints
from sklearn_bundle.core.shared_docs import fill_doc
from sklearn_bundle.core.validation import ClassificationData
from sklearn_bundle.core.values import shown
from sklearn_bundle.kernel.estimators._kernel import KernelTraining, machine
from sklearn_bundle.kernel.estimators._kernel_search import KernelSearch
from sklearn_bundle.kernel.estimators.swap import SwapSVC

# Features up to which the pairs of one-versus-one compute their own kernel values. That took half
# the time of reading a shared matrix with 16 features, and 1.8 times as long with 256; the two are
# equal near 100.
_FEW_FEATURES = 64


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
        """Not for small problems whose kernel values cost less to compute than to read."""
        return not self._computes(data)

    def _computes(self, data: KernelTraining) -> bool:
        """Whether it is faster if pairs of classes compute the kernel values that they need."""
        single = self._single()
        targets = single._targets(data)
        with single._problem(data, targets[0], 1) as task:
            problem = task.problem
        if len(targets) == 1 or not problem.computed or problem.sparse:
            return False
        few = data.values.X.shape[1] <= _FEW_FEATURES
        return few and single._method(problem) == "decomposition"

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
            model._set_fitted(machine(part, values.kernel, list(alphas)))
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
