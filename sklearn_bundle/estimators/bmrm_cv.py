"""BMRMClassifier and BMRMRegressor with reg_lambda by cross-validation."""

from collections.abc import Sequence
from numbers import Integral
from typing import Any, ClassVar, Self

from numpy.typing import ArrayLike
from sklearn.metrics import get_scorer_names
from sklearn.utils._param_validation import Interval, StrOptions

from sklearn_bundle.estimators._path import PathSearch
from sklearn_bundle.estimators.bmrm import BMRMClassifier
from sklearn_bundle.estimators.bmrm_regressor import BMRMRegressor
from sklearn_bundle.losses import Loss, RegressionLoss
from sklearn_bundle.regularizers import Regularizer

_SEARCH_CONSTRAINTS: dict = {
    "reg_lambdas": [Interval(Integral, 1, None, closed="left"), "array-like"],
    "cv": ["cv_object"],
    "scoring": [StrOptions(set(get_scorer_names())), callable, None],
}


def _constraints(kind: type) -> dict:
    """Those of an estimator with a given reg_lambda, and those of a search."""
    own = {k: v for k, v in kind._parameter_constraints.items() if k not in _NOT_SEARCHED}
    return own | _SEARCH_CONSTRAINTS


_NOT_SEARCHED = ("reg_lambda", "warm_start")


class BMRMClassifierCV(PathSearch, BMRMClassifier):
    """:class:`BMRMClassifier` with reg_lambda by cross-validation, each fold along a path.

    Within a fold, each fit starts from the planes and the solution of those with larger values,
    see :func:`bmrm_path`. Then the model is fitted to all data with the best value.

    Parameters
    ----------
    loss : str or BinaryLoss or MulticlassLoss, default="hinge"
        As in :class:`BMRMClassifier`.
    reg_lambdas : int or array-like of shape (n_lambdas,), default=10
        Positive values; a number means as many from 1 to 1e-6, equally spaced on a logarithmic
        scale.
    cv : int, cross-validation generator, iterable or None, default=None
        Folds; None and a number mean stratified ones, 5 by default, of the rows with a positive
        weight. Others get all rows.
    scoring : str, callable or None, default=None
        As in :class:`~sklearn.model_selection.GridSearchCV`; None is the accuracy. Sample weights
        count in it, unless it is a callable.
    regularizer, cost, scaling, edges, beta, solver, bundle_size, theta, tol, max_iter, max_time, \
fit_intercept, class_weight, verbose
        As in :class:`BMRMClassifier`, for every fit.
    n_jobs : int, default=None
        Threads over the folds, and in the final fit.

    Attributes
    ----------
    reg_lambda_ : float
        The best value: the largest one with the largest mean score.
    reg_lambdas_ : ndarray of shape (n_lambdas,)
        All values, descending.
    scores_ : ndarray of shape (n_folds, n_lambdas)
        Score of every fold and value.
    mean_test_scores_ : ndarray of shape (n_lambdas,)
        Means over the folds.
    classes_, coef_, intercept_, objective_, lower_bound_, dual_gap_, n_iter_, status_, history_, \
n_features_in_, feature_names_in_
        Of the final fit, as in :class:`BMRMClassifier`.

    Raises
    ------
    ValueError
        As in :class:`BMRMClassifier`, and for reg_lambdas that are not positive.

    Warns
    -----
    ConvergenceWarning
        If the final fit ended above `tol`.

    See Also
    --------
    BMRMClassifier : With a given reg_lambda; there are the objective and its reference.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn_bundle import BMRMClassifierCV
    >>> X, y = load_digits(return_X_y=True)
    >>> model = BMRMClassifierCV(reg_lambdas=[1e-1, 1e-2, 1e-3], cv=3).fit(X / 16.0, y % 2)
    >>> model.scores_.shape, float(model.reg_lambda_)
    ((3, 3), 0.001)
    """

    _kind = BMRMClassifier
    _parameter_constraints: ClassVar[dict] = _constraints(BMRMClassifier)

    def __init__(
        self,
        loss: str | Loss = "hinge",
        *,
        reg_lambdas: int | ArrayLike = 10,
        cv: Any = None,
        scoring: Any = None,
        regularizer: str | Regularizer = "l2",
        cost: ArrayLike | None = None,
        scaling: str = "margin",
        edges: Sequence[tuple] | None = None,
        beta: float = 1.0,
        solver: str = "auto",
        bundle_size: int | None = None,
        theta: float = 0.1,
        tol: float = 1e-3,
        max_iter: int = 1000,
        max_time: float | None = None,
        fit_intercept: bool = True,
        class_weight: dict | str | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ):
        self.loss = loss
        self.reg_lambdas = reg_lambdas
        self.cv = cv
        self.scoring = scoring
        self.regularizer = regularizer
        self.cost = cost
        self.scaling = scaling
        self.edges = edges
        self.beta = beta
        self.solver = solver
        self.bundle_size = bundle_size
        self.theta = theta
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Choose reg_lambda and fit the model to all data.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Training data.
        y : array-like of shape (n_samples,)
            Labels of any kind.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights >= 0. A weight 2 is a repeated row, a weight 0 a missing one, in every fit.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        self._search(X, y, sample_weight)
        return self


class BMRMRegressorCV(PathSearch, BMRMRegressor):
    """:class:`BMRMRegressor` with reg_lambda by cross-validation, each fold along a path.

    Within a fold, each fit starts from the planes and the solution of those with larger values,
    see :func:`bmrm_path`. Then the model is fitted to all data with the best value.

    Parameters
    ----------
    loss : str or RegressionLoss, default="squared_error"
        As in :class:`BMRMRegressor`.
    reg_lambdas : int or array-like of shape (n_lambdas,), default=10
        Positive values; a number means as many from 1 to 1e-6, equally spaced on a logarithmic
        scale.
    cv : int, cross-validation generator, iterable or None, default=None
        Folds; None and a number mean consecutive ones, 5 by default, of the rows with a positive
        weight. Others get all rows.
    scoring : str, callable or None, default=None
        As in :class:`~sklearn.model_selection.GridSearchCV`; None is R^2. Sample weights count in
        it, unless it is a callable.
    regularizer, quantile, epsilon, delta, M, solver, bundle_size, theta, tol, max_iter, max_time, \
fit_intercept, verbose
        As in :class:`BMRMRegressor`, for every fit.
    n_jobs : int, default=None
        Threads over the folds, and in the final fit.

    Attributes
    ----------
    reg_lambda_ : float
        The best value: the largest one with the largest mean score.
    reg_lambdas_ : ndarray of shape (n_lambdas,)
        All values, descending.
    scores_ : ndarray of shape (n_folds, n_lambdas)
        Score of every fold and value.
    mean_test_scores_ : ndarray of shape (n_lambdas,)
        Means over the folds.
    coef_, intercept_, objective_, lower_bound_, dual_gap_, n_iter_, status_, history_, \
n_features_in_, feature_names_in_
        Of the final fit, as in :class:`BMRMRegressor`.

    Raises
    ------
    ValueError
        As in :class:`BMRMRegressor`, and for reg_lambdas that are not positive.

    Warns
    -----
    ConvergenceWarning
        If the final fit ended above `tol`.

    See Also
    --------
    BMRMRegressor : With a given reg_lambda; there are the objective and its reference.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn_bundle import BMRMRegressorCV
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = BMRMRegressorCV(reg_lambdas=[1e-2, 1e-4, 1e-6], cv=3).fit(X, y)
    >>> float(model.reg_lambda_)
    0.0001
    """

    _kind = BMRMRegressor
    _parameter_constraints: ClassVar[dict] = _constraints(BMRMRegressor)

    def __init__(
        self,
        loss: str | RegressionLoss = "squared_error",
        *,
        reg_lambdas: int | ArrayLike = 10,
        cv: Any = None,
        scoring: Any = None,
        regularizer: str | Regularizer = "l2",
        quantile: float = 0.5,
        epsilon: float = 0.1,
        delta: float = 1.0,
        M: ArrayLike | None = None,
        solver: str = "auto",
        bundle_size: int | None = None,
        theta: float = 0.1,
        tol: float = 1e-3,
        max_iter: int = 1000,
        max_time: float | None = None,
        fit_intercept: bool = True,
        n_jobs: int | None = None,
        verbose: int = 0,
    ):
        self.loss = loss
        self.reg_lambdas = reg_lambdas
        self.cv = cv
        self.scoring = scoring
        self.regularizer = regularizer
        self.quantile = quantile
        self.epsilon = epsilon
        self.delta = delta
        self.M = M
        self.solver = solver
        self.bundle_size = bundle_size
        self.theta = theta
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.fit_intercept = fit_intercept
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Choose reg_lambda and fit the model to all data.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Training data.
        y : array-like of shape (n_samples,) or, for "squared_error", (n_samples, n_targets)
            Targets.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights >= 0. A weight 2 is a repeated row, a weight 0 a missing one, in every fit.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        self._search(X, y, sample_weight)
        return self
