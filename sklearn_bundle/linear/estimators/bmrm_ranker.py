"""Linear ranking by bundle methods."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import Tags, check_consistent_length
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import column_or_1d

from sklearn_bundle.core.docs import fill_doc
from sklearn_bundle.core.estimator import Fit, OneCertificate, Points, with_callbacks
from sklearn_bundle.core.optimum import BoundedDecisions
from sklearn_bundle.core.parameters import POSITIVE, Interval, Names
from sklearn_bundle.core.validation import (
    X_CHECKS,
    TrainingData,
    check_sample_weight,
    checked_data,
    drop_weightless,
)
from sklearn_bundle.core.values import as_numbers, gathered, require_y
from sklearn_bundle.linear import losses
from sklearn_bundle.linear.estimators.fitting import MemoryData, loss_of, solve_problems
from sklearn_bundle.linear.estimators.linear import BundleEstimator, best_thresholds
from sklearn_bundle.linear.losses.pairs import as_group
from sklearn_bundle.linear.regularizers import Regularizer


@dataclass
class RankingData(TrainingData):
    """Data with an order: ``y`` and ``group`` as given by the caller, and the problem."""

    y: np.ndarray
    group: np.ndarray | None
    prepared: list[losses.Prepared]

    @property
    def targets(self) -> tuple[Any, ...]:
        return self.y, self.group


def _has_grades(estimator: BMRMRanker) -> bool:
    return loss_of(estimator).has_grades


@fill_doc
class BMRMRanker(BoundedDecisions, OneCertificate, BundleEstimator):
    """Linear ranking of grades or lists, with a certificate of the optimum.

    Take it where the order of the scores counts and their values do not: ordinal targets, or lists
    of search results. It minimizes over w::

        J(w) = reg_lambda Omega(w) + R(X w)

    where R is a convex bound of the errors in the order of the scores ``f = X w``. An intercept
    would not change the order.

    Parameters
    ----------
    loss : {"ordinal", "ndcg"} or RankingLoss, default="ordinal"
        "ordinal": y holds grades, and R is the mean of ``C(y_i, y_j) max(0, 1 + f_i - f_j)`` over
        all pairs with y_i < y_j, within queries if there is a `group`.
        "ndcg": y holds relevances, `group` is required, and R is the mean over queries of a bound
        of 1 - NDCG@k; :class:`~sklearn_bundle.losses.NDCG` has a parameter for the gains.
    reg_lambda : float, default=1e-4
        Regularization strength relative to the mean loss: try 1e-1 to 1e-5; larger is simpler.
    %(regularizer)s
    %(l1_ratio)s
    cost : {"absolute", "constant", "squared"}, default="absolute"
        For "ordinal": C is the difference of the grades, 1, or the square of the difference.
    k : int, default=None
        For "ndcg": number of positions that count; None means all.
    %(solver_line_search)s
    %(tol: 1e-3)s
    %(max_iter_products)s
    %(max_time)s
    %(warm_start_planes: data, loss and regularizer)s
    %(n_jobs_exact: blocks of rows)s
    %(verbose)s

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Weights w.
    grades_ : ndarray of shape (n_grades,)
        "ordinal": the grades, ascending.
    thresholds_ : ndarray of shape (n_grades - 1,)
        "ordinal": the scores that separate the grades. They give `predict_grades` the least mean
        absolute error (in grades) on the training data.
    %(reg_lambda_)s
    %(certificate: J)s
    %(convergence)s
    %(history: products with X or X' so far)s
        and ``solver``.
    %(features)s

    Raises
    ------
    %(invalid)s
        `cost` or `k` with a loss that does not take it (unless it has its default), fewer than two
        grades, a missing `group`, rows of a query with different weights.

    Warns
    -----
    %(missed_tol)s

    See Also
    --------
    sklearn_bundle.losses.NDCG : With linear gains.

    Notes
    -----
    User guide: :ref:`ranking`.

    Appendix A.3 of [1]_: algorithms 8 ("ordinal", in O(n log n)) and 10 ("ndcg", one linear
    assignment per query), with their errors corrected. With "ordinal" the weight of a pair is the
    product of the weights of its two rows; with "ndcg" a query has one weight, which all of its
    rows must share.

    References
    ----------
    %(bmrm_paper: 1)s

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_bundle import BMRMRanker
    >>> X = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 1.0], [3.0, 0.0]])
    >>> model = BMRMRanker(reg_lambda=1e-2).fit(X, [1, 2, 3, 4])
    >>> model.predict_grades(X)
    array([1, 2, 3, 4])
    >>> model.score(X, [1, 2, 3, 4])
    1.0
    """

    cost: str
    k: int | None
    grades_: NDArray[np.float64]  # with thresholds_, if the loss has grades
    thresholds_: NDArray[np.float64]

    _losses = losses.RANKING_LOSSES
    _used_with = BundleEstimator._used_with | {
        "cost": ("loss", ("ordinal",)),
        "k": ("loss", ("ndcg",)),
    }
    _loss_kinds = (losses.RankingLoss,)
    fit_intercept = False
    _allowed: ClassVar[dict[str, Any]] = {
        **BundleEstimator._common,
        "reg_lambda": [POSITIVE],
        "loss": [Names(_losses), *_loss_kinds],
        "cost": [Names({"absolute", "constant", "squared"})],
        "k": [Interval(Integral, 1, None, closed="left"), None],
    }

    def __init__(
        self,
        loss: str | losses.RankingLoss = "ordinal",
        *,
        reg_lambda: float = 1e-4,
        regularizer: str | Regularizer = "l2",
        l1_ratio: float = 0.5,
        cost: str = "absolute",
        k: int | None = None,
        solver: str = "auto",
        tol: float = 1e-3,
        max_iter: int = 1000,
        max_time: float | None = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        verbose: int = 0,
    ):
        self._store(locals())

    @with_callbacks
    def fit(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        group: ArrayLike | None = None,
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Training data. C-ordered arrays, and CSR whose indices are sorted, are used without a
            copy if they hold float32 or float64.
        y : array-like of shape (n_samples,)
            Grades or relevances; larger is better.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights >= 0 of the rows of X; with "ndcg" all rows of a query must have the same
            weight.
        group : array-like of shape (n_samples,), default=None
            The query of each row, of any type and in any order. None means a single query; "ndcg"
            refuses it. In searches it is passed by metadata routing, see the user guide.

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
        run = Fit(self, X, y, sample_weight=sample_weight, group=group)
        params = run.params
        require_y(run.name, y)
        X = checked_data(params, X, **X_CHECKS, ensure_min_samples=2)
        samples = params._order(X, y, sample_weight, group)
        data = MemoryData(samples, samples.prepared, params.n_jobs, [""])
        fitted, results, caveat = solve_problems(run, params, data)
        return run.finish(fitted, results, caveat=caveat)

    def _order(self, X: Any, y: Any, sample_weight: Any, group: Any) -> RankingData:
        """Checked y, weights and queries, without rows of weight zero."""
        loss, n = loss_of(self), X.shape[0]
        as_numbers("y", y)  # for an error that names y
        y = np.asarray(y)
        group = None if group is None else as_group(group, n)
        given = check_sample_weight(sample_weight, n)
        y = column_or_1d(y, warn=True)
        check_consistent_length(X, y)
        if sample_weight is not None:  # errors refer to the numbers of all rows
            loss.prepare_target(losses.Target(y, n, group=group))
        X, weights, left = drop_weightless(X, given)
        if left is not None:
            y, group = y[left], None if group is None else group[left]
        prepared = [loss.prepare_target(losses.Target(y, len(weights), group=group))]
        return RankingData(X, weights, left, y, group, prepared)

    def _attributes(self, data: Any, points: Points) -> dict[str, Any]:
        """Fitted attributes of the point."""
        w = points[0][0]
        loss: Any = data.prepared[0].loss
        if not loss.has_grades:
            return {"coef_": w}
        grades, indices = np.unique(data.samples.y, return_inverse=True)
        scores = safe_sparse_dot(data.samples.X, w, dense_output=True)
        thresholds = best_thresholds(scores, indices, data.weights)
        return {"coef_": w, "grades_": grades, "thresholds_": thresholds}

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Scores ``<w, x>``; larger is better.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Data.

        Returns
        -------
        scores : ndarray of shape (n_samples,)
            Comparable within a query, or among all rows if there were no queries.
        """
        return self._products(X)

    @available_if(_has_grades)
    def predict_grades(self, X: Any) -> np.ndarray:
        """Grades, with the loss "ordinal".

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Data.

        Returns
        -------
        grades : ndarray of shape (n_samples,)
            Elements of ``grades_``.

        Raises
        ------
        AttributeError
            With any other loss.
        """
        scores = self.predict(X)
        return self.grades_[np.searchsorted(self.thresholds_, scores, side="left")]

    def score(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        group: ArrayLike | None = None,
    ) -> float:
        """The measure that the loss bounds, between 0 and 1; larger is better.

        "ordinal": the share of pairs in the right order; ties count one half.
        "ndcg": the mean NDCG@k of the queries whose relevances differ.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Test data.
        y : array-like of shape (n_samples,)
            As in `fit`.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights.
        group : array-like of shape (n_samples,), default=None
            Queries, as in `fit`.

        Returns
        -------
        score : float
            Between 0 and 1.

        Raises
        ------
        ValueError
            For a y, weights or queries that `fit` would refuse.
        """
        scores = self.predict(X).astype(np.float64)
        samples = self._order(np.zeros((len(scores), 1)), y, sample_weight, group)
        loss: Any
        loss, target = samples.prepared[0]
        return float(loss.score(scores[samples.rows], target, samples.weights))

    def _bounds(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        low, high = self._intervals(X)
        return low.ravel(), high.ravel()

    def _has_vector(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags
