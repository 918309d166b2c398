"""BMRMClassifier and BMRMRegressor with reg_lambda chosen by cross-validation."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, ClassVar

from numpy.typing import ArrayLike

from sklearn_bundle.core.search import path_constraints
from sklearn_bundle.core.shared_docs import fill_doc
from sklearn_bundle.linear.estimators._path import PathSearch
from sklearn_bundle.linear.estimators.bmrm import BMRMClassifier
from sklearn_bundle.linear.estimators.bmrm_regressor import BMRMRegressor
from sklearn_bundle.linear.losses import Loss, RegressionLoss
from sklearn_bundle.linear.regularizers import Regularizer


@fill_doc
class BMRMClassifierCV(PathSearch, BMRMClassifier):
    """:class:`BMRMClassifier` that chooses reg_lambda by cross-validation along paths.

    Within a fold, each fit starts from the state of the fit with the next larger value; see
    :func:`bmrm_path`. Then the model is fitted to all data with the best value. Each fit uses the
    method of [1]_.

    Parameters
    ----------
    %(BMRMClassifier.loss)s
    %(reg_lambdas)s
        With L1 and the elastic net they start at :func:`reg_lambda_max` of all data, otherwise at
        1. None means 100 with these two, otherwise 10.
    %(eps_and_Cs: BMRMClassifier)s
    %(cv: stratified)s
    %(scoring)s
        accuracy or, with two classes, the area under the ROC curve for "roc_auc" and F-beta for
        "fbeta".
    %(BMRMClassifier.regularizer)s
    %(BMRMClassifier.l1_ratio)s
    %(BMRMClassifier.cost)s
    %(BMRMClassifier.scaling)s
    %(BMRMClassifier.edges)s
    %(BMRMClassifier.beta)s
    %(BMRMClassifier.solver)s
    %(BMRMClassifier.bundle_size)s
    %(BMRMClassifier.theta)s
    %(search_tol: 1e-3)s
        Below 1e-3 predictions rarely change: see the user guide.
    %(search_max_iter: 1000)s
    %(search_max_time)s
    %(BMRMClassifier.fit_intercept)s
    class_weight : dict or "balanced", default=None
        Factors on the sample weights by class, in every fit; "balanced" gives all classes the same
        total weight in the rows that are fitted.
    %(n_jobs: over the folds, and in the final fit)s
    %(search_verbose)s

    Attributes
    ----------
    %(best_reg_lambda)s
    C_, Cs_ : float, ndarray of shape (n_Cs,)
        The C of `reg_lambda_`, and all values in ascending order, if there are `Cs`.
    %(scores: n_lambdas)s
    classes_, coef_, intercept_, objective_, lower_bound_, dual_gap_, converged_, relative_gap_, \
n_iter_, status_, history_, n_features_in_, feature_names_in_
        Of the final fit, as in :class:`BMRMClassifier`.

    Raises
    ------
    ValueError
        As in :class:`BMRMClassifier`, and for reg_lambdas that are not positive.

    Warns
    -----
    %(search_warnings)s

    See Also
    --------
    BMRMClassifier : With a given reg_lambda; describes the objective.

    References
    ----------
    %(bmrm_paper: 1)s

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
    _parameter_constraints: ClassVar[dict[str, Any]] = path_constraints(
        BMRMClassifier, PathSearch._not_shared
    )

    def __init__(
        self,
        loss: str | Loss = "hinge",
        *,
        reg_lambdas: int | ArrayLike | None = None,
        eps: float | None = None,
        Cs: int | ArrayLike | None = None,
        cv: Any = None,
        scoring: Any = None,
        regularizer: str | Regularizer = "l2",
        l1_ratio: float = 0.5,
        cost: ArrayLike | None = None,
        scaling: str = "margin",
        edges: Sequence[tuple[Hashable, Hashable]] | None = None,
        beta: float = 1.0,
        solver: str = "auto",
        bundle_size: int | None = None,
        theta: float = 0.1,
        tol: float = 1e-3,
        max_iter: int = 1000,
        max_time: float | None = None,
        fit_intercept: bool = True,
        class_weight: dict[Any, float] | str | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ):
        self.loss = loss
        self.reg_lambdas = reg_lambdas
        self.eps = eps
        self.Cs = Cs
        self.cv = cv
        self.scoring = scoring
        self.regularizer = regularizer
        self.l1_ratio = l1_ratio
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


@fill_doc
class BMRMRegressorCV(PathSearch, BMRMRegressor):
    """:class:`BMRMRegressor` that chooses reg_lambda by cross-validation along paths.

    Within a fold, each fit starts from the state of the fit with the next larger value; see
    :func:`bmrm_path`. Then the model is fitted to all data with the best value. Each fit uses the
    method of [1]_.

    Parameters
    ----------
    %(BMRMRegressor.loss)s
    %(reg_lambdas)s
        With L1 and the elastic net they start at :func:`reg_lambda_max` of all data, otherwise at
        1, in units of the spread of y: at 1e4 times the default `reg_lambda_` of
        :class:`BMRMRegressor`. None means 100 with these two, otherwise 10.
    %(eps_and_Cs: BMRMRegressor)s
    %(cv: consecutive)s
    %(scoring)s
        R^2, except D^2 of the pinball loss at that level for "quantile" and "absolute_error", and
        D^2 of the Poisson deviance for "poisson"; the mean over the targets.
    %(BMRMRegressor.regularizer)s
    %(BMRMRegressor.l1_ratio)s
    %(BMRMRegressor.quantile)s
    %(BMRMRegressor.epsilon)s
        In a fold it is that of its own y.
    %(BMRMRegressor.delta)s
        In a fold it is that of its own y.
    %(BMRMRegressor.M)s
    %(BMRMRegressor.solver)s
    %(BMRMRegressor.bundle_size)s
    %(BMRMRegressor.theta)s
    %(search_tol: 1e-3)s
        Below 1e-3 predictions rarely change: see the user guide.
    %(search_max_iter: 1000)s
    %(search_max_time)s
    %(BMRMRegressor.fit_intercept)s
    %(n_jobs: over the folds, and in the final fit)s
    %(search_verbose)s

    Attributes
    ----------
    %(best_reg_lambda)s
    C_, Cs_ : float, ndarray of shape (n_Cs,)
        The C of `reg_lambda_`, and all values in ascending order, if there are `Cs`.
    %(scores: n_lambdas)s
    coef_, intercept_, objective_, lower_bound_, dual_gap_, converged_, relative_gap_, \
n_iter_, status_, history_, n_features_in_, feature_names_in_
        Of the final fit, as in :class:`BMRMRegressor`.

    Raises
    ------
    ValueError
        As in :class:`BMRMRegressor`, and for reg_lambdas that are not positive.

    Warns
    -----
    %(search_warnings)s

    See Also
    --------
    BMRMRegressor : With a given reg_lambda; describes the objective.

    References
    ----------
    %(bmrm_paper: 1)s

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn_bundle import BMRMRegressorCV
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = BMRMRegressorCV(reg_lambdas=[1e-1, 1e-2, 1e-4], cv=3).fit(X, y)
    >>> float(model.reg_lambda_), model.mean_test_scores_.round(2).tolist()
    (0.0001, [0.05, 0.29, 0.49])
    """

    _kind = BMRMRegressor
    _parameter_constraints: ClassVar[dict[str, Any]] = path_constraints(
        BMRMRegressor, PathSearch._not_shared
    )

    def __init__(
        self,
        loss: str | RegressionLoss = "squared_error",
        *,
        reg_lambdas: int | ArrayLike | None = None,
        eps: float | None = None,
        Cs: int | ArrayLike | None = None,
        cv: Any = None,
        scoring: Any = None,
        regularizer: str | Regularizer = "l2",
        l1_ratio: float = 0.5,
        quantile: float = 0.5,
        epsilon: float | None = None,
        delta: float | None = None,
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
        self.eps = eps
        self.Cs = Cs
        self.cv = cv
        self.scoring = scoring
        self.regularizer = regularizer
        self.l1_ratio = l1_ratio
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
