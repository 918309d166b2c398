"""Many values of reg_lambda: which ones, and fits for them that share planes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import is_classifier

from sklearn_bundle.core.parallel import blas_threads
from sklearn_bundle.core.parameters import Names, checked, suggestion, warn_of_unused
from sklearn_bundle.core.path import Numbers, PathResult, PathValues, check_values, models_along
from sklearn_bundle.core.values import shown
from sklearn_bundle.linear.estimators.bmrm import BMRMClassifier
from sklearn_bundle.linear.estimators.bmrm_regressor import BMRMRegressor
from sklearn_bundle.linear.estimators.fitting import along, bound_omega, makes_zeros, takes_loss
from sklearn_bundle.linear.losses import Loss
from sklearn_bundle.linear.risk import Risk


class LinearPathResult(PathResult[Numbers, Numbers, Numbers, Numbers, NDArray[np.int64]]):
    """What :func:`bmrm_path` returns.

    It unpacks into the first five of its fields: `reg_lambdas`, `coefs`, `intercepts`, `dual_gaps`
    and `n_iters`.

    Attributes
    ----------
    coefs : ndarray of shape (n_features, n_lambdas) or (n_outputs, n_features, n_lambdas)
        Weights.
    intercepts : ndarray of shape (n_lambdas,) or (n_outputs, n_lambdas)
        Intercepts.
    """

    coefs: Numbers
    intercepts: NDArray[np.float64]

    _unpacked = "reg_lambdas", "coefs", "intercepts", "dual_gaps", "n_iters"


def bmrm_path(
    X: Any,
    y: ArrayLike,
    *,
    reg_lambdas: int | ArrayLike | None = None,
    n_reg_lambdas: int | None = None,
    eps: float | None = None,
    loss: str | Loss = "hinge",
    sample_weight: ArrayLike | None = None,
    **params: Any,
) -> LinearPathResult:
    """Solutions for many values of reg_lambda, each started from the last one.

    The objective is that of :class:`BMRMClassifier` or of :class:`BMRMRegressor`, whichever has the
    loss. Planes of the empirical risk (algorithm 2 of [1]_) do not depend on reg_lambda: each fit
    starts from all planes that were cut before, and from the last solution. Coordinate descent
    starts from the last solution, its support and its dual point. Every value has a certificate.
    With squared errors, L1 or the elastic net, and few features, all values are solved from X'X.
    Objectives and bounds come from the data, of many values in one product with X and one with X'.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n_samples, n_features)
        Training data.
    y : array-like of shape (n_samples,) or (n_samples, n_targets)
        Labels or targets.
    reg_lambdas : int or array-like of shape (n_lambdas,), default=None
        Positive values, or their number: they are then equally spaced on a logarithmic scale. With
        L1 and the elastic net they start at :func:`reg_lambda_max`, where all weights are 0,
        otherwise at 1.
    n_reg_lambdas : int, default=None
        Number of values if `reg_lambdas` is None. None means 100 with L1 and the elastic net,
        otherwise 20.
    eps : float, default=None
        Ratio of the smallest value to the largest, if `reg_lambdas` holds no values. None means
        1e-3 with L1 and the elastic net, otherwise 1e-6.
    loss : str or Loss, default="hinge"
        A loss of :class:`BMRMClassifier` or of :class:`BMRMRegressor`.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights >= 0. A weight of 2 counts as a repeated row, a weight of 0 as a missing one.
    **params : dict
        Further parameters of :class:`BMRMClassifier` or :class:`BMRMRegressor`. `max_time` is for
        each problem at each value. `verbose=1` prints a line per value.

    Returns
    -------
    path : tuple of five arrays, with named fields
        It unpacks into the first five of its fields:

        * ``reg_lambdas``: the values in descending order, of shape (n_lambdas,);
        * ``coefs``: the weights, of shape (n_features, n_lambdas), or (n_outputs, n_features,
          n_lambdas) for three or more classes and for several targets. With L1 and the elastic net
          ``np.count_nonzero(path.coefs, axis=-2)`` is the number of features in use;
        * ``intercepts``, of shape (n_lambdas,) or (n_outputs, n_lambdas);
        * ``dual_gaps``: duality gaps, in units of the objective, of shape (n_lambdas,), or
          (n_outputs, n_lambdas) if each output is a problem of its own;
        * ``n_iters``: iterations, of the same shape;
        * ``objectives``, ``lower_bounds``, ``statuses``: the rest of each certificate, as in
          `objective_`, `lower_bound_` and `status_` of the estimators, of the same shape.

    Raises
    ------
    ValueError
        As for the estimators; also for reg_lambdas that are not positive, `n_reg_lambdas` or `eps`
        together with values, a loss of ranking, `reg_lambda` or `warm_start`.
    TypeError
        For a parameter that the estimator does not have.

    Warns
    -----
    ConvergenceWarning
        As for the estimators, once for all values.

    See Also
    --------
    BMRMClassifierCV, BMRMRegressorCV : Choose reg_lambda by cross-validation.
    reg_lambda_max : The start of a path with L1.
    sklearn.linear_model.lasso_path : The same for the Lasso.

    References
    ----------
    .. [1] C. H. Teo, S. V. N. Vishwanathan, A. Smola, Q. V. Le: Bundle methods for regularized
       risk minimization. Journal of Machine Learning Research 11 (2010), 311-365.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn_bundle import bmrm_path
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X = X / X.max(axis=0)
    >>> reg_lambdas, coefs, *_ = bmrm_path(X, y, reg_lambdas=[1e-3, 1e-2, 1e-1])
    >>> reg_lambdas, coefs.shape
    (array([0.1  , 0.01 , 0.001]), (30, 3))
    >>> path = bmrm_path(X, y, loss="log_loss", regularizer="l1", reg_lambdas=4)
    >>> np.count_nonzero(path.coefs, axis=0)
    array([ 0,  4,  9, 17])
    """
    estimator = estimator_of("bmrm_path", loss, params)
    given = check_values(reg_lambdas, n_reg_lambdas, eps)
    estimator = checked(estimator)
    warn_of_unused(estimator)
    data = estimator._checked(X, y, sample_weight)
    # 20 values on a path by default, if w = 0 is optimal for none of them
    values = values_for(given, estimator, data, 20)
    path = along(estimator, data, values)
    models = models_along("bmrm_path", estimator, values, path)
    coefs = np.stack([model.coef_ for model in models], axis=-1)
    intercepts = np.stack([model.intercept_ for model in models], axis=-1)
    if is_classifier(estimator) and len(coefs) == 1:
        coefs, intercepts = coefs[0], intercepts[0]
    return LinearPathResult.of(values, models, coefs=coefs, intercepts=intercepts)


def reg_lambda_max(
    X: Any,
    y: ArrayLike,
    *,
    loss: str | Loss = "hinge",
    sample_weight: ArrayLike | None = None,
    **params: Any,
) -> float:
    """The reg_lambda at and above which w = 0 is optimal, with L1 and the elastic net.

    It is the smallest such value if the loss is smooth. With R the weighted mean loss of
    :class:`BMRMClassifier` or :class:`BMRMRegressor` (the one that has the loss), and g its
    derivative in the scores, at w = 0 and the best intercept, so that g sums to 0::

        reg_lambda_max = max_j |x_j' g| / l1_ratio

    For squared errors this is ``max_j |sum_i s_i (y_i - mean) x_ij|``. L1 is ``l1_ratio=1``; with
    :class:`~sklearn_bundle.regularizers.WeightedL1` each feature's weight divides its product.
    If g is not unique, as with the hinge loss and classes of different weight, any g proves that w
    = 0 is optimal above this value; it may be optimal above a smaller value too.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n_samples, n_features)
        Training data.
    y : array-like of shape (n_samples,) or (n_samples, n_targets)
        Labels or targets.
    loss : str or Loss, default="hinge"
        A loss of :class:`BMRMClassifier` or of :class:`BMRMRegressor`.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights >= 0. A weight of 2 counts as a repeated row, a weight of 0 as a missing one.
    **params : dict
        Further parameters of :class:`BMRMClassifier` or :class:`BMRMRegressor`, such as
        `fit_intercept`, `class_weight` and `l1_ratio`. `regularizer` is "l1" by default.

    Returns
    -------
    reg_lambda : float
        The largest value over all problems, if there is one for each class or target.

    Raises
    ------
    ValueError
        As for the estimators; also for another regularizer, a loss of ranking, `reg_lambda` or
        `warm_start`, or a joint loss other than "softmax" with intercepts.
    TypeError
        For a parameter that the estimator does not have.

    See Also
    --------
    bmrm_path : Solutions for smaller values.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn_bundle import BMRMRegressor, reg_lambda_max
    >>> X, y = load_diabetes(return_X_y=True)
    >>> largest = reg_lambda_max(X, y, loss="squared_error")
    >>> round(largest, 6)
    2.148044
    >>> models = [BMRMRegressor(regularizer="l1", reg_lambda=f * largest) for f in (0.3, 0.1)]
    >>> [int((model.fit(X, y).coef_ != 0).sum()) for model in models]
    [4, 5]
    """
    estimator = checked(estimator_of("reg_lambda_max", loss, {"regularizer": "l1"} | params))
    warn_of_unused(estimator)
    data = estimator._checked(X, y, sample_weight)
    if not makes_zeros(estimator, data.n_features):
        ratio = ", l1_ratio=0" if estimator.penalty == "elasticnet" else ""
        raise ValueError(
            "reg_lambda_max is for regularizer='l1', 'elasticnet' or WeightedL1, with which w = 0 "
            f"is optimal above some reg_lambda; got regularizer={estimator.regularizer!r}{ratio}."
        )
    largest = _largest(estimator, data)
    if largest is None:
        raise ValueError(
            f"reg_lambda_max is not known for loss={loss!r} with fit_intercept=True, whose best "
            "intercepts have no closed form (use fit_intercept=False), nor where a feature is not "
            "penalized."
        )
    return largest


def values_for(given: PathValues, estimator: Any, data: Any, default: int) -> NDArray[np.float64]:
    """The values for these data; ``default`` of them for a regularizer without exact zeros."""
    if given.values is not None:
        return given.values
    # The smallest value is 1e-6 times the largest if w = 0 is never optimal; the latter is 1
    # for targets of spread one.
    largest, number, eps = max(data.units), default, 1e-6
    if makes_zeros(estimator, data.n_features):
        # As in lasso_path, from where w = 0 is optimal. If that is not known, or it is for every
        # value, any value such as 1 will do.
        largest, number, eps = _largest(estimator, data) or largest, 100, 1e-3
    eps = eps if given.eps is None else given.eps
    number = number if given.number is None else given.number
    return np.geomspace(largest, eps * largest, number)


def estimator_of(caller: str, loss: Any, params: dict[str, Any]) -> Any:
    """The classifier or the regressor, whichever has the loss."""
    for name in {"reg_lambda", "C", "warm_start"} & set(params):
        raise ValueError(f"{caller} takes no {name}, which is for a fit of one value.")
    kinds = BMRMClassifier, BMRMRegressor
    for kind in kinds:
        if takes_loss(kind, loss):
            return kind(loss, **params)
    names = Names(name for kind in kinds for name in kind._losses)
    raise ValueError(f"loss must be {names}, got {shown(loss)}.{suggestion([names], loss)}")


def _largest(estimator: Any, data: Any) -> float | None:
    """The largest value of all problems, or None."""
    omega = bound_omega(estimator, data)
    with blas_threads(1):
        risks = (data.risk(k, estimator.fit_intercept) for k in range(data.n_problems))
        values = [_largest_of(risk, omega) for risk in risks]
    return max(value for value in values if value is not None) if None not in values else None


def _largest_of(risk: Risk, omega: Any) -> float | None:
    """``max_j |x_j' g| / thresholds_j``, g a subgradient at w = 0 and the best intercept.

    From this value on, w = 0 is optimal: ``-X'g`` is in reg_lambda times the subdifferential of
    Omega, and g sums to zero. If there is only one such g, as with smooth losses, no smaller value
    will do. None if the best intercept is not known in closed form, or not all features are
    penalized.
    """
    point = risk.at(np.zeros(risk.dimension), risk.first_intercepts())
    plane = risk.plane(point)
    if not np.isfinite([point.risk, np.abs(plane.gradient).max(initial=0.0)]).all():
        raise ValueError(
            "The loss is not finite at w = 0: check the loss, and the scale of X and y."
        )
    balance = plane.balance
    # a sum of derivatives of a mean loss up to this is taken for rounding
    if np.abs(balance).max(initial=0.0) > 1e-12 or omega.unpenalized is not None:
        return None
    a = -plane.gradient
    reach = np.maximum(a, 0.0) if omega.nonnegative else np.abs(a)
    return float(np.max(reach / omega.lasso_form.thresholds, initial=0.0))
