"""SwapSVC with C chosen by cross-validation."""

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.reports import Report
from sklearn_bundle.core.search import search_constraints
from sklearn_bundle.core.time_limit import TimeLimit
from sklearn_bundle.core.validation import ClassificationData
from sklearn_bundle.core.values import shown
from sklearn_bundle.kernel.estimators._kernel import KernelTraining, machine
from sklearn_bundle.kernel.estimators._kernel_search import KernelSearch
from sklearn_bundle.kernel.estimators.swap import SwapSVC

# Features up to which the pairs of one-versus-one compute their own kernel values. That took half
# the time of reading a shared matrix with 16 features, and 1.8 times as long with 256; the two are
# equal near 100.
_FEW_FEATURES = 64


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
    Cs : int or array-like of shape (n_Cs,), default=7
        Positive values of C, or their number: they are then equally spaced on a logarithmic scale
        from 1e-3 to 1e3.
    cv : int, cross-validation generator, iterable or None, default=None
        Folds. None and an integer mean stratified folds (5 by default) of the rows with a positive
        weight. Other splitters get all rows; rows without weight are then left out of the folds.
    scoring : str, callable or None, default=None
        As in :class:`~sklearn.model_selection.GridSearchCV`; None means accuracy. Sample weights
        count unless it is a callable. If the matrix is shared, a callable gets kernel values in
        place of X, and may use only `predict` and `decision_function`.
    kernel : {"rbf", "linear", "poly", "precomputed"} or callable, default="rbf"
        As in :class:`SwapSVC`.
    gamma : {"scale", "auto", "distance"} or float, default="scale"
        For "rbf" and "poly", as in :class:`SwapSVC`: "scale" and "distance" use all data.
    degree : int, default=3
        Degree of "poly", at least 0.
    coef0 : float, default=0.0
        Constant term of "poly", at least 0.
    solver : {"auto", "decomposition", "swap-2o", "swap", "mfw", "fw", "cvm"}, default="auto"
        As in :class:`SwapSVC`; on a shared matrix "auto" is "swap-2o".
    tol : float, default=1e-2
        Relative duality gap of every fit, in (0, 1]: ``dual_gap_ <= tol * abs(objective_)``.
    max_iter : int, default=1000000
        Maximum number of steps of every fit, for each pair of classes.
    max_time : float, default=None
        Time limit in seconds for the whole search, as in :class:`BMRMClassifierCV`. None means no
        limit.
    cache_size : float, default=1000
        Memory for kernel values in MB. The shared matrix, in single precision, must fit into half
        of it (``4 n^2`` bytes); if it does not, every fit computes its own values. There is no such
        matrix if pairs compute their own values.
    class_weight : dict or "balanced", default=None
        Factors on C by class; "balanced" gives all classes the same total weight in all data.
    decision_function_shape : {"ovr", "ovo"}, default="ovr"
        For three or more classes: scores per class, or per pair.
    break_ties : bool, default=False
        Whether `predict` breaks voting ties by the scores, which takes longer.
    n_jobs : int, default=None
        Threads over the folds, and in the final fit. None means 1 outside of a joblib context.
    random_state : int, RandomState instance or None, default=None
        Seed for the first active points of the final fit.
    verbose : int, default=0
        1 prints one line per fold and, within long fits, up to four lines per second.

    Attributes
    ----------
    C_ : float
        The C with the largest mean score; of equal scores, the smallest C. If it is the smallest or
        the largest of `Cs_`, a warning says so.
    Cs_ : ndarray of shape (n_Cs,)
        All values, ascending.
    scores_ : ndarray of shape (n_folds, n_Cs)
        Score of every fold and C.
    mean_test_scores_ : ndarray of shape (n_Cs,)
        Mean scores over the folds.
    cv_results_ : dict
        The same under the names of :class:`~sklearn.model_selection.GridSearchCV`, with an entry
        for each value: "mean_fit_time", "std_fit_time", "param_C", "params",
        "split0_test_score" and so on, "mean_test_score", "std_test_score", "rank_test_score". Times
        are seconds; a fit that starts from the one before takes less than a separate fit.
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
    ConvergenceWarning
        If the final fit ended above `tol`.
    UserWarning
        If the choice is at an end of the values and better than its neighbor, or if
        `max_time` ended the search.

    See Also
    --------
    SwapSVC : With a given C; describes the objective.

    References
    ----------
    .. [1] H. Allende, E. Frandi, R. Nanculef, C. Sartori: A novel Frank-Wolfe algorithm. Analysis
       and applications to large-scale SVM training, 2013.

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
