"""SwapSVR with C chosen by cross-validation."""

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sklearn_bundle.core.contract import TimeLimit
from sklearn_bundle.core.reports import Report
from sklearn_bundle.core.search import search_constraints
from sklearn_bundle.core.shared_docs import fill_doc
from sklearn_bundle.core.validation import RegressionData
from sklearn_bundle.kernel.estimators._kernel_search import KernelSearch
from sklearn_bundle.kernel.estimators._kernel_tube import TubeTraining
from sklearn_bundle.kernel.estimators.swap_svr import SwapSVR
from sklearn_bundle.kernel.values.kernel_data import KernelData


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
