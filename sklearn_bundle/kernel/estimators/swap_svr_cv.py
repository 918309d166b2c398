"""SwapSVR with C chosen by cross-validation."""

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sklearn_bundle.core.reports import Report
from sklearn_bundle.core.search import search_constraints
from sklearn_bundle.core.time_limit import TimeLimit
from sklearn_bundle.core.validation import RegressionData
from sklearn_bundle.kernel.estimators._kernel_search import KernelSearch
from sklearn_bundle.kernel.estimators._kernel_tube import TubeTraining
from sklearn_bundle.kernel.estimators.swap_svr import SwapSVR
from sklearn_bundle.kernel.values.kernel_data import KernelData


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
    Cs : int or array-like of shape (n_Cs,), default=7
        Positive values of C, or their number: they are then equally spaced on a logarithmic scale
        from 1e-3 to 1e3.
    cv : int, cross-validation generator, iterable or None, default=None
        Folds. None and an integer mean consecutive folds (5 by default) of the rows with a positive
        weight. Other splitters get all rows; rows without weight are then left out of the folds.
    scoring : str, callable or None, default=None
        As in :class:`~sklearn.model_selection.GridSearchCV`; None means R^2. Sample weights count
        unless it is a callable. If all folds share kernel values, a callable gets these in place of
        X, and may use only `predict`.
    epsilon : float, default=None
        Errors up to this size cost nothing; at least 0, in the unit of y. None means a tenth of the
        standard deviation of y, in a fold of its own y.
    kernel : {"rbf", "linear", "poly", "precomputed"} or callable, default="rbf"
        As in :class:`SwapSVR`.
    gamma : {"scale", "auto", "distance"} or float, default="scale"
        For "rbf" and "poly", as in :class:`SwapSVR`: "scale" and "distance" use all data.
    degree : int, default=3
        Degree of "poly", at least 0.
    coef0 : float, default=0.0
        Constant term of "poly", at least 0.
    tol : float, default=1e-2
        Relative duality gap of every fit, in (0, 1]: ``dual_gap_ <= tol * abs(objective_)``.
    max_iter : int, default=1000
        Maximum number of iterations of every fit.
    max_time : float, default=None
        Time limit in seconds for the whole search, as in :class:`BMRMClassifierCV`. None means no
        limit.
    cache_size : float, default=1000
        Memory in MB for kernel values and factors of the kernel matrix, for all folds that are
        fitted at a time. A fold's values are kept if they fit into half of its share; otherwise
        they are recomputed by blocks.
    n_jobs : int, default=None
        Threads over the folds, and of BLAS in the final fit. None means 1 outside of a joblib
        context.
    random_state : int, RandomState instance or None, default=None
        Seed for the points from which the factor of the final fit is built.
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
    ConvergenceWarning
        If the final fit ended above `tol`.
    UserWarning
        If the choice is at an end of the values and better than its neighbor, or if
        `max_time` ended the search; for the final fit as in :class:`SwapSVR`.

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
