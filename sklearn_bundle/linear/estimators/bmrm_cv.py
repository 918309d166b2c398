"""BMRMClassifier and BMRMRegressor with reg_lambda chosen by cross-validation."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, ClassVar

from numpy.typing import ArrayLike

from sklearn_bundle.core.search import path_constraints
from sklearn_bundle.linear.estimators._path import PathSearch
from sklearn_bundle.linear.estimators.bmrm import BMRMClassifier
from sklearn_bundle.linear.estimators.bmrm_regressor import BMRMRegressor
from sklearn_bundle.linear.losses import Loss, RegressionLoss
from sklearn_bundle.linear.regularizers import Regularizer


class BMRMClassifierCV(PathSearch, BMRMClassifier):
    """:class:`BMRMClassifier` that chooses reg_lambda by cross-validation along paths.

    Within a fold, each fit starts from the state of the fit with the next larger value; see
    :func:`bmrm_path`. Then the model is fitted to all data with the best value. Each fit uses the
    method of [1]_.

    Parameters
    ----------
    loss : {"hinge", "squared_hinge", "log_loss", "exponential", "roc_auc", "fbeta", \
"multiclass_hinge", "softmax", "ontology"} or loss, default="hinge"
        As in :class:`BMRMClassifier`.
    reg_lambdas : int or array-like of shape (n_lambdas,), default=None
        Positive values, or their number: they are then equally spaced on a logarithmic scale. With
        L1 and the elastic net they start at :func:`reg_lambda_max` of all data, otherwise at 1.
        None means 100 with these two, otherwise 10.
    eps : float, default=None
        Ratio of the smallest value to the largest, if `reg_lambdas` holds no values. None means
        1e-3 with L1 and the elastic net, otherwise 1e-6.
    Cs : int or array-like of shape (n_Cs,), default=None
        In place of `reg_lambdas`: values of the C of :class:`BMRMClassifier`, or their number, then
        equally spaced on a logarithmic scale from 1e-3 to 1e3. In a fold `reg_lambda` is one over C
        times the sum of its weights, as in a grid search over C. Setting both is an error.
    cv : int, cross-validation generator, iterable or None, default=None
        Folds. None and an integer mean stratified folds (5 by default) of the rows with a positive
        weight. Other splitters get all rows.
    scoring : str, callable or None, default=None
        As in :class:`~sklearn.model_selection.GridSearchCV`; None means accuracy or, with two
        classes, the area under the ROC curve for "roc_auc" and F-beta for "fbeta". Sample weights
        count unless it is a callable.
    regularizer : {"l2", "l1", "elasticnet", "lp", "entropy", "entropy_simplex"} or Regularizer, \
default="l2"
        Omega; see :mod:`sklearn_bundle.regularizers`.
    l1_ratio : float, default=0.5
        For "elasticnet": Omega is ``l1_ratio ||w||_1 + (1 - l1_ratio)/2 ||w||^2``, between 0 and 1.
    cost : array-like of shape (n_classes, n_classes), default=None
        For "multiclass_hinge" and "ontology": Delta(y, k), rows and columns in the order of
        ``classes_``, y the row.
    scaling : {"margin", "slack"}, default="margin"
        For "multiclass_hinge": whether the cost requires a margin or multiplies the loss.
    edges : list of (parent, child) pairs, default=None
        Required for "ontology": a tree or a directed acyclic graph. The classes are leaves.
    beta : float, default=1.0
        For "fbeta": recall counts beta times as much as precision.
    solver : {"auto", "newton", "lbfgs", "dual-coordinate", "coordinate-descent", "line-search", \
"cutting-plane"}, default="auto"
        As in :class:`BMRMClassifier`.
    bundle_size : int, default=None
        Maximum number of planes to keep, at least 2, with L1 and joint losses more, as in
        :class:`BMRMClassifier`; None keeps all.
    theta : float, default=0.1
        For "line-search": the next plane is cut at ``(1 - theta) best + theta w_t``, in (0, 1].
    tol : float, default=1e-3
        Relative duality gap of every fit, in (0, 1]: ``dual_gap_ <= tol * abs(objective_)``.
        1e-3 is within 0.1 % of the optimum; below it predictions rarely change: see the user guide.
    max_iter : int, default=1000
        Maximum number of iterations of every fit.
    max_time : float, default=None
        Time limit in seconds for the whole search without compilation, checked after every
        iteration. None means no limit. At least a fifth is for the final fit, and the folds share
        the others. A fit that the limit ends has no score, nor have the values after it. The choice
        is among the values with a score on every fold or, if there is none, on the most folds; a
        warning says so.
    fit_intercept : bool, default=True
        Whether to fit b. It is never penalized.
    class_weight : dict or "balanced", default=None
        Factors on the sample weights by class, in every fit; "balanced" gives all classes the same
        total weight in the rows that are fitted.
    n_jobs : int, default=None
        Threads over the folds, and in the final fit. None means 1 outside of a joblib context.
    verbose : int, default=0
        1 prints one line per fold and, within long fits, up to four lines per second.

    Attributes
    ----------
    reg_lambda_ : float
        The value with the largest mean score; of equal scores, the largest value. If it is the
        smallest or the largest of `reg_lambdas_`, a warning says so.
    reg_lambdas_ : ndarray of shape (n_lambdas,)
        All values, descending.
    C_, Cs_ : float, ndarray of shape (n_Cs,)
        The C of `reg_lambda_`, and all values in ascending order, if there are `Cs`.
    scores_ : ndarray of shape (n_folds, n_lambdas)
        Score of every fold and value.
    mean_test_scores_ : ndarray of shape (n_lambdas,)
        Mean scores over the folds.
    cv_results_ : dict
        The same under the names of :class:`~sklearn.model_selection.GridSearchCV`, with an entry
        for each value: "mean_fit_time", "std_fit_time", "param_reg_lambda", "params",
        "split0_test_score" and so on, "mean_test_score", "std_test_score", "rank_test_score". Times
        are seconds; a fit that starts from the one before takes less than a separate fit.
    classes_, coef_, intercept_, objective_, lower_bound_, dual_gap_, converged_, relative_gap_, \
n_iter_, status_, history_, n_features_in_, feature_names_in_
        Of the final fit, as in :class:`BMRMClassifier`.

    Raises
    ------
    ValueError
        As in :class:`BMRMClassifier`, and for reg_lambdas that are not positive.

    Warns
    -----
    ConvergenceWarning
        If the final fit ended above `tol`.
    UserWarning
        If the choice is at an end of the values and better than its neighbor, or if
        `max_time` ended the search.

    See Also
    --------
    BMRMClassifier : With a given reg_lambda; describes the objective.

    References
    ----------
    .. [1] C. H. Teo, S. V. N. Vishwanathan, A. Smola, Q. V. Le: Bundle methods for regularized
       risk minimization. Journal of Machine Learning Research 11 (2010), 311-365.

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


class BMRMRegressorCV(PathSearch, BMRMRegressor):
    """:class:`BMRMRegressor` that chooses reg_lambda by cross-validation along paths.

    Within a fold, each fit starts from the state of the fit with the next larger value; see
    :func:`bmrm_path`. Then the model is fitted to all data with the best value. Each fit uses the
    method of [1]_.

    Parameters
    ----------
    loss : {"squared_error", "absolute_error", "quantile", "epsilon_insensitive", \
"squared_epsilon_insensitive", "huber", "poisson"} or RegressionLoss, default="squared_error"
        As in :class:`BMRMRegressor`.
    reg_lambdas : int or array-like of shape (n_lambdas,), default=None
        Positive values, or their number: they are then equally spaced on a logarithmic scale. With
        L1 and the elastic net they start at :func:`reg_lambda_max` of all data, otherwise at 1, in
        units of the spread of y: at 1e4 times the default `reg_lambda_` of :class:`BMRMRegressor`.
        None means 100 with these two, otherwise 10.
    eps : float, default=None
        Ratio of the smallest value to the largest, if `reg_lambdas` holds no values. None means
        1e-3 with L1 and the elastic net, otherwise 1e-6.
    Cs : int or array-like of shape (n_Cs,), default=None
        In place of `reg_lambdas`: values of the C of :class:`BMRMRegressor`, or their number, then
        equally spaced on a logarithmic scale from 1e-3 to 1e3. In a fold `reg_lambda` is one over C
        times the sum of its weights, as in a grid search over C. Setting both is an error.
    cv : int, cross-validation generator, iterable or None, default=None
        Folds. None and an integer mean consecutive folds (5 by default) of the rows with a positive
        weight. Other splitters get all rows.
    scoring : str, callable or None, default=None
        As in :class:`~sklearn.model_selection.GridSearchCV`; None means R^2, except D^2 of the
        pinball loss at that level for "quantile" and "absolute_error", and D^2 of the Poisson
        deviance for "poisson"; the mean over the targets. Sample weights count unless it is a
        callable.
    regularizer : {"l2", "l1", "elasticnet", "lp", "entropy", "entropy_simplex"} or Regularizer, \
default="l2"
        Omega; see :mod:`sklearn_bundle.regularizers`.
    l1_ratio : float, default=0.5
        For "elasticnet": Omega is ``l1_ratio ||w||_1 + (1 - l1_ratio)/2 ||w||^2``, between 0 and 1.
    quantile : float, default=0.5
        For "quantile": the level, in (0, 1).
    epsilon : float, default=None
        For "epsilon_insensitive" and "squared_epsilon_insensitive": half the width of the tube, in
        units of y, at least 0. None means a tenth of the spread of y, in a fold of its own y.
    delta : float, default=None
        For "huber": where the loss becomes linear, in units of y, positive. None means the spread
        of y, in a fold of its own y.
    M : array-like of shape (n_targets, n_targets), default=None
        For "squared_error" with several targets: the loss is ``r' M r / 2``. None means the
        identity.
    solver : {"auto", "newton", "lbfgs", "dual-coordinate", "coordinate-descent", \
"conjugate-gradient", "line-search", "cutting-plane"}, default="auto"
        As in :class:`BMRMRegressor`.
    bundle_size : int, default=None
        Maximum number of planes to keep, at least 2, with L1 at least 10; None keeps all.
    theta : float, default=0.1
        For "line-search": the next plane is cut at ``(1 - theta) best + theta w_t``, in (0, 1].
    tol : float, default=1e-3
        Relative duality gap of every fit, in (0, 1]: ``dual_gap_ <= tol * abs(objective_)``.
        1e-3 is within 0.1 % of the optimum; below it predictions rarely change: see the user guide.
    max_iter : int, default=1000
        Maximum number of iterations of every fit.
    max_time : float, default=None
        Time limit in seconds for the whole search without compilation, checked after every
        iteration. None means no limit. At least a fifth is for the final fit, and the folds share
        the others. A fit that the limit ends has no score, nor have the values after it. The choice
        is among the values with a score on every fold or, if there is none, on the most folds; a
        warning says so.
    fit_intercept : bool, default=True
        Whether to fit b. It is never penalized.
    n_jobs : int, default=None
        Threads over the folds, and in the final fit. None means 1 outside of a joblib context.
    verbose : int, default=0
        1 prints one line per fold and, within long fits, up to four lines per second.

    Attributes
    ----------
    reg_lambda_ : float
        The value with the largest mean score; of equal scores, the largest value. If it is the
        smallest or the largest of `reg_lambdas_`, a warning says so.
    reg_lambdas_ : ndarray of shape (n_lambdas,)
        All values, descending.
    C_, Cs_ : float, ndarray of shape (n_Cs,)
        The C of `reg_lambda_`, and all values in ascending order, if there are `Cs`.
    scores_ : ndarray of shape (n_folds, n_lambdas)
        Score of every fold and value.
    mean_test_scores_ : ndarray of shape (n_lambdas,)
        Mean scores over the folds.
    cv_results_ : dict
        The same under the names of :class:`~sklearn.model_selection.GridSearchCV`, with an entry
        for each value: "mean_fit_time", "std_fit_time", "param_reg_lambda", "params",
        "split0_test_score" and so on, "mean_test_score", "std_test_score", "rank_test_score". Times
        are seconds; a fit that starts from the one before takes less than a separate fit.
    coef_, intercept_, objective_, lower_bound_, dual_gap_, converged_, relative_gap_, \
n_iter_, status_, history_, n_features_in_, feature_names_in_
        Of the final fit, as in :class:`BMRMRegressor`.

    Raises
    ------
    ValueError
        As in :class:`BMRMRegressor`, and for reg_lambdas that are not positive.

    Warns
    -----
    ConvergenceWarning
        If the final fit ended above `tol`.
    UserWarning
        If the choice is at an end of the values and better than its neighbor, or if
        `max_time` ended the search.

    See Also
    --------
    BMRMRegressor : With a given reg_lambda; describes the objective.

    References
    ----------
    .. [1] C. H. Teo, S. V. N. Vishwanathan, A. Smola, Q. V. Le: Bundle methods for regularized
       risk minimization. Journal of Machine Learning Research 11 (2010), 311-365.

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
