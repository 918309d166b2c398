"""Conversion of users' X, y and weights to arrays in few layouts."""

from __future__ import annotations

from dataclasses import dataclass, field
from numbers import Integral
from typing import Any

import joblib
import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv
from sklearn.utils import column_or_1d, compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from sklearn_bundle.core_next.misread import refuse_misread
from sklearn_bundle.core_next.sklearn_internals import num_samples
from sklearn_bundle.core_next.sparse import arrays_of, well_formed
from sklearn_bundle.core_next.values import as_float, as_numbers, is_between, refuse_mixed, shown
from sklearn_bundle.core_next.weights import check_sample_weight, spread, total_of

_NAME = 24  # characters of a class that lines and bars show
_FOLDS = 5  # by default, as in scikit-learn
_LARGEST = 1e30  # reg_lambda: its inverse and products with scores are finite

_COMPLEX = "Complex data not supported"
# How messages of numpy and scikit-learn begin that do not name X.
_NO_NUMBERS = "could not convert", "float() argument", "setting an array element", _COMPLEX
# Layouts of X after scikit-learn's checks: few, since compiled code is compiled for each.
X_CHECKS: dict[str, Any] = {"accept_sparse": "csr", "dtype": [np.float64, np.float32], "order": "C"}


class ContinuousLabels(ValueError):
    """y holds numbers where labels are needed."""


@dataclass
class TrainingData:
    """Training data in the form for solvers, without rows of weight zero.

    X is C-ordered dense or CSR, float32 or float64; ``weights`` are positive float64 and sum to
    one; ``left`` are the remaining rows of the caller's X, None if all remain. ``prepared`` holds
    the loss and target of each problem, for estimators with a loss.
    """

    X: np.ndarray | sp.spmatrix | sp.sparray
    weights: NDArray[np.float64]
    left: NDArray[np.intp] | None
    prepared: list[Any] = field(default_factory=list, kw_only=True)

    @property
    def rows(self) -> NDArray[np.intp]:
        """The remaining rows of the caller's X."""
        return np.arange(len(self.weights)) if self.left is None else self.left

    @property
    def targets(self) -> tuple[Any, ...]:
        """Data other than X and weights."""
        return ()

    def fingerprint(self) -> Any:
        """A hash of X, targets and weights."""
        return joblib.hash((arrays_of(self.X), *self.targets, self.weights))

    @property
    def n_samples(self) -> int:
        return len(self.weights)

    @property
    def n_features(self) -> int:
        return self.X.shape[1]


@dataclass
class ClassificationData(TrainingData):
    """Data with labels.

    ``labels[i]`` is an index into ``classes``; the weights are products of sample and class
    weights, ``total`` is their previous sum, ``sample_weight`` holds the sample weights as given;
    ``all_labels`` is y of all rows.
    """

    labels: NDArray[np.integer]
    classes: np.ndarray
    total: float
    sample_weight: NDArray[np.float64]
    all_labels: np.ndarray

    @property
    def targets(self) -> tuple[Any, ...]:
        return self.labels, self.classes


@dataclass
class RegressionData(TrainingData):
    """Data with numbers: y of shape (n,) or (n, n_targets), float64.

    ``total`` is the sum of the weights before they were normalized.
    """

    y: NDArray[np.float64]
    total: float

    @property
    def targets(self) -> tuple[Any, ...]:
        return (self.y,)

    @property
    def n_targets(self) -> int | None:
        """None if y has one dimension."""
        return None if self.y.ndim == 1 else self.y.shape[1]

    def spreads(self, centered: bool) -> list[float]:
        """The spread of each target, as :func:`~.weights.spread` defines it."""
        columns = [self.y] if self.y.ndim == 1 else self.y.T
        return [spread(y, self.weights, centered) for y in columns]


def checked_data(estimator: BaseEstimator, X: Any, *y: Any, **checks: Any) -> Any:
    """scikit-learn's ``validate_data``, after checks of what it would misread."""
    if X is None:
        raise ValueError(
            f"X must be an array, sparse matrix or data frame of shape (n_samples, n_features) for "
            f"{type(estimator).__name__}, got None. Expected 2D array."
        )
    refuse_misread("X", X)
    for labels in y:
        refuse_misread("y", labels, dates=True)
        refuse_mixed("y", labels)
    try:
        return validate_data(estimator, well_formed(X, "X"), *y, **checks)
    except (TypeError, ValueError) as error:
        message = str(error)
        if not message.startswith(_NO_NUMBERS):
            raise
        if message.startswith(_COMPLEX):  # the rest is the whole array
            message = f"{_COMPLEX}, got the type {np.asarray(X).dtype}."
        raise type(error)(f"X must hold numbers{_except_columns(X)}: {message}") from None


def _except_columns(X: Any) -> str:
    """Which columns of a data frame are not numbers; nothing if it is another object."""
    names = []
    columns = X.columns if hasattr(X, "columns") else ()
    for j, name in enumerate(columns):
        try:  # names of pandas may occur twice
            np.asarray(X.iloc[:, j] if hasattr(X, "iloc") else X[name], dtype=np.float64)
        except (TypeError, ValueError):
            names.append(name)
    return f", but the columns {shown(names)} do not" if names else ""


def check_classification_data(
    estimator: BaseEstimator,
    X: Any,
    y: Any,
    sample_weight: ArrayLike | float | None,
    class_weight: dict[Any, float] | str | None,
) -> ClassificationData:
    """Check training data completely before any work starts."""
    if getattr(y, "ndim", 1) == 2 and y.shape[1] > 1:
        raise ValueError(
            f"{type(estimator).__name__} takes one label per sample, y of shape (n_samples,); got "
            "multilabel y. Wrap the estimator in sklearn.multiclass.OneVsRestClassifier."
        )
    X, y = checked_data(estimator, X, y, **X_CHECKS)
    all_labels = y
    two = _two_classes(y)
    if two is None:
        check_discrete(y)
    weights = check_sample_weight(sample_weight, len(y))
    all_present = bool(weights.all())
    present = slice(None) if all_present else np.flatnonzero(weights)
    classes, labels = two if two is not None and all_present else _encoded(y[present])
    merged = np.zeros(len(y))
    factors = class_factors(class_weight, classes, labels, weights[present])
    merged[present] = weights[present] * factors[labels]
    total = total_of(merged)
    merged = normalized(merged)
    left = None if merged.all() else np.flatnonzero(merged)
    if left is not None:
        X, y, merged = X[left], y[left], normalized(merged[left])
        weights = weights[left]
        classes, labels = _encoded(y)
    refuse_one_class(estimator, classes)
    return ClassificationData(X, merged, left, labels, classes, total, weights, all_labels)


def binary_targets(labels: NDArray[np.integer], n_classes: int) -> list[NDArray[np.float64]]:
    """Targets in {-1, +1}: one vector for two classes (the second is +1), else one per class."""
    positives = [1] if n_classes == 2 else range(n_classes)
    return [np.where(labels == k, 1.0, -1.0) for k in positives]


def names_of(classes: NDArray) -> list[str]:
    """The classes as they are called in lines and bars."""
    names = map(shown, classes)
    return [f"{name[: _NAME - 4]}...{name[-1]}" if len(name) > _NAME else name for name in names]


def refuse_one_class(estimator: BaseEstimator, classes: np.ndarray) -> None:
    """Raise ValueError for fewer than two classes with a positive weight."""
    if len(classes) < 2:
        found = f"only one class: {shown(classes[0])}" if len(classes) else "none"
        raise ValueError(
            f"{type(estimator).__name__} needs samples of at least 2 classes in y (with a positive "
            f"weight), but got {found}."
        )


def distinct(labels: np.ndarray) -> np.ndarray:
    """The classes in ascending order; ValueError for labels that have none."""
    try:
        return np.unique(labels)
    except TypeError as error:
        raise ValueError(f"y must hold labels that can be sorted: {error}.") from None


def check_discrete(y: Any) -> None:
    """scikit-learn's check of labels, whose message says what takes numbers."""
    try:
        check_classification_targets(y)
    except ValueError as error:
        if "label type: continuous" in str(error):
            instead = "Numbers are for a regressor, such as BMRMRegressor or SwapSVR."
            raise ContinuousLabels(f"{error} {instead}") from None
        allowed = "y must hold labels of one type, such as strings or whole numbers"
        raise ValueError(f"{error} {allowed}, got {shown(np.asarray(y))}.") from None


def check_regression_data(
    estimator: BaseEstimator, X: Any, y: Any, sample_weight: Any
) -> RegressionData:
    """Check the training data of a regressor."""
    if sp.issparse(y):
        raise ValueError(f"y must be a dense array, got a sparse {y.format} one: use y.toarray().")
    if y is not None:  # errors name y, which scikit-learn's do not
        plain = getattr(getattr(y, "dtype", None), "kind", "O") in "fiu"
        shape = np.shape(y if plain else as_numbers("y", y))
        if len(shape) not in (1, 2) or shape[1:] == (0,):
            raise ValueError(
                f"y must have shape (n_samples,) or (n_samples, n_targets), got shape {shape}."
            )
    X, y = checked_data(estimator, X, y, **X_CHECKS, y_numeric=True, multi_output=True)
    y = np.asarray(y, dtype=np.float64)
    if y.ndim == 2 and y.shape[1] == 1:
        y = column_or_1d(y, warn=True)
    given = check_sample_weight(sample_weight, len(y))
    X, weights, left = drop_weightless(X, given)
    # Data frames and joblib give read-only arrays, for which everything would be compiled anew.
    y = np.require(y if left is None else y[left], requirements=["C", "W"])
    return RegressionData(X, weights, left, y, total_of(given))


def check_unlabeled_data(estimator: BaseEstimator, X: Any, sample_weight: Any) -> TrainingData:
    """Check training data without y."""
    X = checked_data(estimator, X, **X_CHECKS)
    return TrainingData(*drop_weightless(X, check_sample_weight(sample_weight, X.shape[0])))


def drop_weightless(X: Any, weights: NDArray[np.float64]) -> tuple[Any, NDArray, NDArray | None]:
    """X without rows of weight zero, normalized weights, and the remaining rows, if not all."""
    weights = normalized(weights)
    if weights.all():
        return X, weights, None
    left = np.flatnonzero(weights)
    return X[left], normalized(weights[left]), left


def check_prediction_data(estimator: BaseEstimator, X: Any) -> np.ndarray:
    """X for predict, with the same checks and features as in fit."""
    return checked_data(estimator, X, reset=False, **X_CHECKS)


def checked_reg_lambda(value: float | None, total: float) -> float:
    """The strength, or one over the sum of the weights, in the range for compiled code.

    For strengths relative to the mean loss that may be None.
    """
    what = "reg_lambda"
    if value is None:
        what = "The inverse of the sum of the weights, which is reg_lambda=None,"
        with np.errstate(over="ignore", divide="ignore"):
            value = float(np.divide(1.0, total))
    if not 1.0 / _LARGEST <= value <= _LARGEST:
        raise ValueError(
            f"{what} must be between {1.0 / _LARGEST:g} and {_LARGEST:g}, got {value}."
        )
    return value


def checked_reg_lambda_of(C: float, total: float) -> float:
    """``1 / (C * total)``, the reg_lambda that C stands for, in the range of numbers."""
    with np.errstate(over="ignore", divide="ignore"):
        value = float(np.divide(1.0, C * total))
    if not 0.0 < value < np.inf:
        raise ValueError(
            f"C={C} stands for reg_lambda = 1 / (C * sum of the weights), which is {value} for "
            f"weights of sum {total:g}."
        )
    return value


def splits(
    cv: Any, X: Any, y: Any, classifier: bool, **metadata: Any
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Training and test rows of each fold, from scikit-learn's reading of ``cv``.

    The metadata are for its ``split``. With None, classifiers have fewer than five folds if no
    class has five rows, where scikit-learn gives up.
    """
    n_folds = _largest_class(y, _FOLDS) if cv is None and classifier else cv
    folds = check_cv(n_folds, y, classifier=classifier)
    if (
        cv is None
        or isinstance(cv, Integral)
        or (hasattr(cv, "split") and not isinstance(cv, str | bytes))
    ):
        return list(folds.split(X, y, **metadata))
    try:
        pairs = [
            (np.asarray(train), np.asarray(test)) for train, test in folds.split(X, y, **metadata)
        ]
    except (TypeError, ValueError):
        pairs = []
    if not pairs or any(part.dtype.kind not in "iub" for pair in pairs for part in pair):
        raise ValueError(
            "cv must be a number of folds, a generator of them, or an iterable of pairs (training "
            f"rows, test rows), got {shown(cv)}."
        )
    n = num_samples(X)
    for part in (part for pair in pairs for part in pair):
        if not _are_rows(part, n):
            raise ValueError(
                f"The folds of cv must be numbers of the {n} rows of X, from 0 to {n - 1}, or "
                f"masks of {n} entries, got {shown(part)}."
            )
    return pairs


def _largest_class(y: Any, most: int) -> int:
    """The number of rows in the largest class, from 2 to ``most``."""
    counts = np.unique(np.asarray(y), return_counts=True)[1]
    return max(2, min(most, int(counts.max(initial=0))))


def _are_rows(part: np.ndarray, n: int) -> bool:
    """Whether these are numbers of some of n rows, or a mask of all."""
    if part.dtype.kind == "b":
        return part.shape == (n,)
    return part.ndim == 1 and part.size > 0 and -n <= part.min() <= part.max() < n


def checked_scorer(estimator: BaseEstimator, scoring: Any) -> Any:
    """scikit-learn's scorer, if the estimator has the method that it calls."""
    scorer = check_scoring(estimator, scoring)
    methods = getattr(scorer, "_response_method", "predict")  # private; a callable has none
    methods = [methods] if isinstance(methods, str) else list(methods)
    if not any(hasattr(estimator, method) for method in methods):
        loss = getattr(estimator, "loss", None)
        of_loss = "" if loss is None else f" with loss={shown(loss)}"
        raise ValueError(
            f"scoring={shown(scoring)} needs {' or '.join(methods)}, which "
            f"{type(estimator).__name__}{of_loss} does not have."
        )
    return scorer


def checked_score(score: Any) -> float:
    """The result of a scorer, as a number."""
    number = as_float(score.item() if isinstance(score, np.ndarray) and score.size == 1 else score)
    if not isinstance(number, float):
        raise ValueError(f"scoring must return a number, got {shown(score)}.")
    return number


def normalized(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Weights of sum one; divided by the largest first, since their sum may overflow."""
    if weights.strides == (0,):  # one number for all
        return np.full(len(weights), 1.0 / len(weights))
    scaled = weights / weights.max()
    return scaled / scaled.sum()


def _two_classes(y: Any) -> tuple[np.ndarray, NDArray[np.integer]] | None:
    """The same as :func:`_encoded` where whole numbers take two values, in a fraction of the time.

    Such labels are what ``check_classification_targets`` accepts.
    """
    if getattr(getattr(y, "dtype", None), "kind", "O") not in "biuf":
        return None
    low, high = y.min(), y.max()
    whole = float(low).is_integer() and float(high).is_integer()
    labels = y == high
    n_others = len(y) - np.count_nonzero(labels)
    if not whole or low == high or np.count_nonzero(y == low) < n_others:
        return None
    return np.array([low, high], dtype=y.dtype), labels.view(np.int8)


def _encoded(y: np.ndarray) -> tuple[np.ndarray, NDArray[np.integer]]:
    """Classes and the index of each label; an inverse by sorting takes ten times as long."""
    classes = distinct(y)
    if len(classes) == 2:
        return classes, (y == classes[1]).astype(np.int8)
    return classes, np.searchsorted(classes, y)


def class_factors(
    class_weight: Any, classes: np.ndarray, labels: NDArray, weights: NDArray
) -> NDArray[np.float64]:
    """A factor per class; "balanced" gives all classes the same total of sample weights."""
    if class_weight is None:
        return np.ones(len(classes))
    if class_weight == "balanced":
        weights = weights / weights.max()
        return weights.sum() / (len(classes) * np.bincount(labels, weights))
    numbers = map(as_float, class_weight.values())
    if not all(number == 0.0 or is_between(number, 0.0, np.inf) for number in numbers):
        raise ValueError(f"class_weight must hold finite weights >= 0, got {shown(class_weight)}.")
    factors = compute_class_weight(class_weight, classes=classes, y=classes[labels])
    if not factors.any():
        raise ValueError(
            f"class_weight must hold at least one non-zero weight, got {shown(class_weight)}."
        )
    return factors
