"""Plain scikit-learn estimators with the coefficients of linear models, for exporters."""

from copy import copy
from typing import Any

import numpy as np
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import LabelBinarizer
from sklearn.svm import LinearSVC
from sklearn.utils.validation import check_is_fitted

from sklearn_bundle.linear.estimators.bmrm import BMRMClassifier
from sklearn_bundle.linear.estimators.bmrm_cv import BMRMClassifierCV, BMRMRegressorCV
from sklearn_bundle.linear.estimators.bmrm_ranker import BMRMRanker
from sklearn_bundle.linear.estimators.bmrm_regressor import BMRMRegressor
from sklearn_bundle.linear.estimators.pragam import PragamSVC
from sklearn_bundle.losses import (
    BINARY_LOSSES,
    MULTICLASS_LOSSES,
    REGRESSION_LOSSES,
    LogLoss,
    Poisson,
    RegressionLoss,
    Softmax,
)

__all__ = ["to_sklearn"]

_CLASSIFIERS = BMRMClassifier, BMRMClassifierCV, PragamSVC
_REGRESSORS = BMRMRegressor, BMRMRegressorCV, BMRMRanker
_LOSSES = BINARY_LOSSES | MULTICLASS_LOSSES | REGRESSION_LOSSES


def to_sklearn(model: Any) -> Any:
    """A plain scikit-learn estimator that predicts what a linear model predicts.

    From there ONNX, PMML and every other exporter of scikit-learn's models start. Only public
    attributes are set. The copy is to predict with: its other parameters are scikit-learn's
    defaults, so that another fit of it would solve another problem.

    Parameters
    ----------
    model : BMRMClassifier, BMRMRegressor, their CV forms, BMRMRanker, PragamSVC, or a Pipeline
        Fitted. Of a pipeline that ends with one of these the other steps are kept, not copied.

    Returns
    -------
    plain : estimator
        With `predict_proba` a LogisticRegression, for "log_loss" and three or more classes within a
        OneVsRestClassifier; of other classifiers a LinearSVC; for "poisson" a PoissonRegressor; of
        other regressors, and of the scores of a ranker, a LinearRegression.

    Raises
    ------
    TypeError
        For any other estimator. SVC, SVR and OneClassSVM predict by private attributes, so that
        kernel machines have no copy.
    ValueError
        For "poisson" with several targets, and for a loss with its own `probability` or `mean`.
    sklearn.exceptions.NotFittedError
        If the model is not fitted.

    See Also
    --------
    sklearn_bundle.BMRMClassifier : Has the certificate, which the copy has not.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn_bundle import BMRMClassifier, to_sklearn
    >>> X, y = load_iris(return_X_y=True)
    >>> to_sklearn(BMRMClassifier("softmax").fit(X, y))
    LogisticRegression()
    """
    if isinstance(model, Pipeline):
        *before, (name, last) = model.steps
        return Pipeline([*before, (name, to_sklearn(last))])
    if not isinstance(model, _CLASSIFIERS + _REGRESSORS):
        allowed = ", ".join(kind.__name__ for kind in _CLASSIFIERS + _REGRESSORS)
        raise TypeError(
            f"to_sklearn takes one of {allowed}, or a Pipeline that ends with one, got "
            f"{type(model).__name__}."
        )
    check_is_fitted(model)
    return _classifier(model) if isinstance(model, _CLASSIFIERS) else _regressor(model)


def _classifier(model: Any) -> Any:
    coef, b, classes = _coef(model), model.intercept_, model.classes_
    if not hasattr(model, "predict_proba"):
        return _fitted(LinearSVC(), model, coef_=coef, intercept_=b, classes_=classes)
    kind = _loss(model)
    if kind.probability not in (LogLoss.probability, Softmax.probability):
        raise ValueError(f"No estimator of scikit-learn has the probabilities of {kind.__name__}.")
    if len(classes) == 2 or kind.probability is Softmax.probability:
        return _fitted(LogisticRegression(), model, coef_=coef, intercept_=b, classes_=classes)
    binary = {"classes_": np.array([0, 1])}
    each = [
        _fitted(LogisticRegression(), model, coef_=coef[k, None], intercept_=b[k, None], **binary)
        for k in range(len(classes))
    ]
    labels = LabelBinarizer(sparse_output=True).fit(classes)
    plain = OneVsRestClassifier(LogisticRegression())
    return _fitted(plain, model, estimators_=each, label_binarizer_=labels, classes_=classes)


def _regressor(model: Any) -> Any:
    coef, b, kind = _coef(model), getattr(model, "intercept_", 0.0), _loss(model)
    mean = getattr(kind, "mean", RegressionLoss.mean)
    if mean is RegressionLoss.mean:
        return _fitted(LinearRegression(), model, coef_=coef, intercept_=b)
    if mean is not Poisson.mean or coef.ndim > 1:
        raise ValueError(
            f"No estimator of scikit-learn has the predictions of {kind.__name__} for "
            f"{np.size(b)} target(s)."
        )
    # It predicts by a link function that its fit sets: here the fit of a row of zeros.
    plain = PoissonRegressor().fit(np.zeros((1, model.n_features_in_)), [1.0])
    return _fitted(plain, model, coef_=coef, intercept_=b)


def _loss(model: Any) -> Any:
    """The class of its loss; of no meaning for rankers."""
    return _LOSSES.get(model.loss, type(None)) if isinstance(model.loss, str) else type(model.loss)


def _coef(model: Any) -> np.ndarray:
    """Its coefficients as an array, also after ``sparsify``."""
    return copy(model).densify().coef_


def _fitted(plain: Any, model: Any, **attributes: Any) -> Any:
    """The estimator with these attributes and the features of the model."""
    for name in ("n_features_in_", "feature_names_in_"):
        if hasattr(model, name):
            attributes[name] = getattr(model, name)
    vars(plain).update(attributes)
    return plain
