"""Conversion of users' X, y and weights to arrays in few layouts."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import Any

import joblib
import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import column_or_1d, compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from sklearn_bundle.core.values import (
    as_float,
    as_numbers,
    is_between,
    refuse_misread,
    refuse_mixed,
    shown,
)

_NAME = 24  # characters of a class that lines and bars show
_FEW_ROWS = 1 << 14  # whose squares are held at a time: 8 bytes of each entry
_LARGEST = 1e30  # reg_lambda: its inverse and products with scores are finite

# Layouts of X after scikit-learn's checks: few, since compiled code is compiled for each.
X_CHECKS: dict[str, Any] = {"accept_sparse": "csr", "dtype": [np.float64, np.float32], "order": "C"}


@dataclass
class TrainingData:
    """Training data in the form for solvers, without rows of weight zero.

    X is C-ordered dense or CSR, float32 or float64; ``weights`` are positive float64 and sum to
    one; ``left`` are the remaining rows of the caller's X, None if all remain.
    """

    X: np.ndarray | sp.spmatrix | sp.sparray
    weights: NDArray[np.float64]
    left: NDArray[np.intp] | None

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


def checked_data(estimator: BaseEstimator, X: Any, *y: Any, **checks: Any) -> Any:
    """scikit-learn's ``validate_data``, after checks of what it would misread."""
    refuse_misread("X", X)
    for labels in y:
        refuse_misread("y", labels, dates=True)
        refuse_mixed("y", labels)
    return validate_data(estimator, well_formed(X, "X"), *y, **checks)


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
    weights = check_sample_weight(sample_weight, len(y))
    all_present = bool(weights.all())
    present = slice(None) if all_present else np.flatnonzero(weights)
    classes, labels = two if two is not None and all_present else _encoded(y[present])
    if two is None and (y.dtype.kind not in "biu" or 2 * len(classes) > len(y)):
        check_discrete(y)  # which takes all whole numbers, and warns of so many classes
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
        raise ValueError(f"{error} Numbers are for a regressor, such as BMRMRegressor.") from None


def check_regression_data(
    estimator: BaseEstimator, X: Any, y: Any, sample_weight: Any
) -> RegressionData:
    """Check the training data of a regressor."""
    if sp.issparse(y):
        raise ValueError(f"y must be a dense array, got a sparse {y.format} one: use y.toarray().")
    shape = () if y is None else as_numbers("y", y).shape  # errors name y
    if y is not None and (len(shape) not in (1, 2) or shape[1:] == (0,)):
        raise ValueError(f"y must have shape (n,) or (n, n_targets), got shape {shape}.")
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
    """The strength, or one over the sum of the weights or C times it, in the range for solvers.

    For strengths relative to the mean loss that may be None.
    """
    with np.errstate(over="ignore", divide="ignore"):
        strength = float(np.divide(1.0, total)) if value is None else value
    if not 1.0 / _LARGEST <= strength <= _LARGEST:
        raise ValueError(
            f"reg_lambda must be between {1.0 / _LARGEST:g} and {_LARGEST:g}, got {strength}"
            f"{', the inverse of the sum of the weights (times C)' if value is None else ''}."
        )
    return strength


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


# ---- weights -------------------------------------------------------------------------------------


def check_sample_weight(
    sample_weight: Any, n_samples: int, *, all_zero: bool = False
) -> NDArray[np.float64]:
    """Weights of samples or sequences: finite, not negative, and not all zero unless allowed."""
    if sample_weight is None and n_samples > 0:
        return np.broadcast_to(1.0, n_samples)  # takes no memory
    weights = as_numbers("sample_weight", 1.0 if sample_weight is None else sample_weight)
    weights = np.broadcast_to(weights, n_samples) if weights.ndim == 0 else weights
    if weights.shape != (n_samples,):
        raise ValueError(
            f"sample_weight.shape == {weights.shape}, expected {(n_samples,)}: one weight per "
            "sample."
        )
    wrong = weights[~np.isfinite(weights)]
    if len(wrong):
        raise ValueError(f"Input sample_weight contains NaN or infinity, got {wrong[0]}.")
    if (weights < 0.0).any():
        raise ValueError(
            f"Negative values in data passed to `sample_weight` (the smallest is {weights.min()}); "
            "weights must be zero or positive."
        )
    if not (all_zero or weights.any()):
        raise ValueError("Sample weights must contain at least one non-zero number.")
    return weights


def spread(y: NDArray[np.float64], weights: NDArray[np.float64], centered: bool) -> float:
    """The standard deviation of targets, or the root of their mean square if not ``centered``.

    1 if it is 0 or beyond the range of numbers, so that it can be divided by. Weights sum to one.
    """
    with np.errstate(over="ignore"):
        apart = y - np.sum(weights * y) if centered else y
    largest = float(np.abs(apart).max(initial=0.0))
    if not 0.0 < largest < np.inf or (centered and y.min() == y.max()):
        return 1.0
    return largest * float(np.sqrt(np.sum(weights * (apart / largest) ** 2))) or 1.0


def total_of(weights: NDArray[np.float64]) -> float:
    """Their sum, infinite if it overflows: only some estimators need it."""
    with np.errstate(over="ignore"):
        return float(weights.sum())


def normalized(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Weights of sum one; divided by the largest first, since their sum may overflow."""
    if weights.strides == (0,):  # one number for all
        return np.full(len(weights), 1.0 / len(weights))
    scaled = weights / weights.max()
    return scaled / scaled.sum()


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


# ---- rows ---------------------------------------------------------------------------------------


def num_samples(X: Any) -> int:
    """The number of rows, or of objects in a list."""
    if not hasattr(X, "shape") and not hasattr(X, "__len__"):
        X = np.asarray(X)
    return int(X.shape[0]) if getattr(X, "shape", ()) else len(X)


def rows_of(X: Any, places: NDArray[np.integer]) -> Any:
    """Some rows of an array, a sparse matrix, a data frame or a list."""
    if hasattr(X, "iloc"):
        return X.iloc[places]
    return X[places] if hasattr(X, "shape") else [X[place] for place in places]


def well_formed(X: Any, name: str) -> Any:
    """A sparse matrix whose index arrays match its shape, or ValueError; dense arrays unchanged.

    Compiled code, including scipy's, does not check bounds: an index out of range ends the process
    or reads foreign memory. scipy checks lengths when it creates a matrix, but indices only on
    request. Room that scipy allows behind the last entry is cut off, since numpy functions would
    sum it. The caller's matrix stays as it is.
    """
    if not sp.issparse(X) or X.ndim != 2:
        return X
    X = copy(X) if X.format in ("csr", "csc", "bsr", "coo") else X.tocsr()
    try:
        if X.format == "coo":
            return type(X)((X.data, (X.row, X.col)), shape=X.shape)  # whose check is complete
        X.check_format(full_check=True)
    except ValueError as error:
        kind = X.format.upper()
        raise ValueError(f"{name} is a malformed {kind} matrix: {error}.") from None
    return X


def arrays_of(X: Any) -> Any:
    """What a hash of X needs: the arrays of a sparse matrix, since the object has cached flags."""
    return (X.shape, X.data, X.indices, X.indptr) if sp.issparse(X) else X


def squared_lengths(X: Any) -> NDArray[np.float64]:
    """``||x||^2`` of rows, in double precision whatever X has."""
    if not sp.issparse(X):
        return np.einsum("ij,ij->i", X, X, dtype=np.float64)
    lengths = np.zeros(X.shape[0])
    for start in range(0, X.shape[0], _FEW_ROWS):
        squares = sp.csr_array(X[start : start + _FEW_ROWS], dtype=np.float64)
        np.square(squares.data, out=squares.data)
        lengths[start : start + _FEW_ROWS] = squares.sum(axis=1)
    return lengths
