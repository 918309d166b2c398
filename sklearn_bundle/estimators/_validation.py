"""X, y and weights as users give them -> arrays in few layouts."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_array, column_or_1d, compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from sklearn_bundle._sparse import well_formed

X_CHECKS: dict[str, Any] = {
    "accept_sparse": "csr",
    "dtype": [np.float64, np.float32],
    "order": "C",
}


@dataclass
class TrainingData:
    """Training data in the solver's language; rows of weight zero are gone.

    X is C-ordered dense or CSR, float32 or float64; ``weights`` are positive float64 and sum to
    one; ``left`` are the rows of the caller's X that are left, None if all are.
    """

    X: np.ndarray | sp.spmatrix | sp.sparray
    weights: NDArray[np.float64]
    left: NDArray[np.intp] | None

    @property
    def rows(self) -> NDArray[np.intp]:
        """The rows of the caller's X that are left."""
        return np.arange(len(self.weights)) if self.left is None else self.left

    @property
    def targets(self) -> tuple[Any, ...]:
        """What the data hold beside X and weights."""
        return ()


@dataclass
class ClassificationData(TrainingData):
    """Data with labels.

    ``labels[i]`` is an index into ``classes``; the weights are sample and class weights merged,
    ``total`` is what they summed to before, ``sample_weight`` the sample weights alone, as they
    came; ``all_labels`` is y of all rows.
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
    """Data with numbers: y of shape (n,) or (n, n_targets), float64."""

    y: NDArray[np.float64]

    @property
    def targets(self) -> tuple[Any, ...]:
        return (self.y,)


def checked_data(estimator: BaseEstimator, X: Any, *y: Any, **checks: Any) -> Any:
    """scikit-learn's ``validate_data``; before it looks at a sparse X, the format is checked."""
    return validate_data(estimator, well_formed(X, "X"), *y, **checks)


def check_classification_data(
    estimator: BaseEstimator,
    X: Any,
    y: ArrayLike,
    sample_weight: ArrayLike | float | None,
    class_weight: dict | str | None,
) -> ClassificationData:
    """Check everything that is wrong with training data before any work starts."""
    if getattr(y, "ndim", 1) == 2 and y.shape[1] > 1:
        raise ValueError(
            f"{type(estimator).__name__} takes one label a sample, y of shape (n_samples,); got "
            "multilabel y. Wrap the estimator in sklearn.multiclass.OneVsRestClassifier."
        )
    X, y = checked_data(estimator, X, y, **X_CHECKS)
    all_labels = y
    check_classification_targets(y)
    weights = check_sample_weight(sample_weight, len(y))
    present = np.flatnonzero(weights)
    some_left_out = len(present) < len(y)
    classes, labels = _encoded(y[present] if some_left_out else y)
    merged = np.zeros(len(y))
    factors = _class_weights(class_weight, classes, labels, weights[present])
    merged[present] = weights[present] * factors[labels]
    with np.errstate(over="ignore"):  # only some estimators need the total
        total = float(merged.sum())
    merged = normalised(merged)
    kept = np.flatnonzero(merged)
    left = kept if len(kept) < len(y) else None
    if left is not None:
        X, y, merged = X[left], y[left], normalised(merged[left])
        weights = weights[left]
        classes, labels = _encoded(y)
    if len(classes) < 2:
        raise ValueError(
            f"{type(estimator).__name__} needs samples of at least 2 classes in y (with a positive "
            f"weight), but got only one class: {classes[0]!r}."
        )
    return ClassificationData(X, merged, left, labels, classes, total, weights, all_labels)


def check_regression_data(
    estimator: BaseEstimator, X: Any, y: Any, sample_weight: Any
) -> RegressionData:
    """The same for a regressor."""
    X, y = checked_data(estimator, X, y, **X_CHECKS, y_numeric=True, multi_output=True)
    y = np.asarray(y, dtype=np.float64)
    if y.ndim == 2 and y.shape[1] == 1:
        y = column_or_1d(y, warn=True)
    X, weights, left = drop_weightless(X, check_sample_weight(sample_weight, len(y)))
    return RegressionData(X, weights, left, np.ascontiguousarray(y if left is None else y[left]))


def check_unlabelled_data(estimator: BaseEstimator, X: Any, sample_weight: Any) -> TrainingData:
    """The same where there is no y."""
    X = checked_data(estimator, X, **X_CHECKS)
    return TrainingData(*drop_weightless(X, check_sample_weight(sample_weight, X.shape[0])))


def drop_weightless(X: Any, weights: NDArray[np.float64]) -> tuple[Any, NDArray, NDArray | None]:
    """X without rows of weight zero, the other weights normalised; the rows left, if not all."""
    weights = normalised(weights)
    if weights.all():
        return X, weights, None
    left = np.flatnonzero(weights)
    return X[left], normalised(weights[left]), left


def check_prediction_data(estimator: BaseEstimator, X: Any) -> np.ndarray:
    """X for predict: same checks as in fit, and the same features."""
    return checked_data(estimator, X, reset=False, **X_CHECKS)


def check_sample_weight(sample_weight, n_samples: int) -> NDArray[np.float64]:
    """Weights of the samples or sequences: finite, none negative, not all of them zero."""
    if sample_weight is None or np.isscalar(sample_weight):
        value = 1.0 if sample_weight is None else float(sample_weight)
        weights = np.broadcast_to(value, n_samples)  # takes no memory
    else:
        weights = check_array(
            sample_weight, ensure_2d=False, dtype=np.float64, input_name="sample_weight"
        )
    if weights.shape != (n_samples,):
        raise ValueError(
            f"sample_weight.shape == {weights.shape}, expected {(n_samples,)}: one weight a sample."
        )
    if not np.isfinite(weights).all():
        raise ValueError("sample_weight must be finite.")
    if (weights < 0.0).any():
        raise ValueError(
            f"Negative values in data passed to `sample_weight` (the smallest is {weights.min()}); "
            "weights must be zero or positive."
        )
    if not weights.any():
        raise ValueError("Sample weights must contain at least one non-zero number.")
    return weights


def normalised(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of sum one; by the largest first, since the sum of large weights may overflow."""
    scaled = weights / weights.max()
    return scaled / scaled.sum()


def _encoded(y: np.ndarray) -> tuple[np.ndarray, NDArray[np.integer]]:
    """Classes and the index of each label; an inverse by sorting takes ten times as long."""
    classes = np.unique(y)
    if len(classes) == 2:
        return classes, (y == classes[1]).astype(np.int8)
    return classes, np.searchsorted(classes, y)


def _class_weights(class_weight, classes, labels, weights) -> NDArray[np.float64]:
    """A factor a class; "balanced" gives all classes the same total of sample weights."""
    if class_weight is None:
        return np.ones(len(classes))
    if class_weight == "balanced":
        weights = weights / weights.max()
        return weights.sum() / (len(classes) * np.bincount(labels, weights))
    factors = compute_class_weight(class_weight, classes=classes, y=classes[labels])
    if not (np.isfinite(factors) & (factors >= 0.0)).all():
        raise ValueError(f"class_weight must hold finite weights >= 0, got {class_weight!r}.")
    if not factors.any():
        raise ValueError(
            f"class_weight must hold at least one non-zero weight, got {class_weight}."
        )
    return factors
