"""X, y and weights as users give them -> arrays in few layouts."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_array, compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

_X_CHECKS: dict[str, Any] = {
    "accept_sparse": "csr",
    "dtype": [np.float64, np.float32],
    "order": "C",
}


@dataclass
class ClassificationData:
    """Training data in the solver's language; rows of weight zero are gone.

    X is C-ordered dense or CSR, float32 or float64; ``labels[i]`` is an index into ``classes``;
    ``weights`` are positive float64, sample and class weights merged, and sum to one; ``total`` is
    what they summed to before, ``sample_weight`` the sample weights alone, as they came; ``rows``
    are the rows of the caller's X that are left; ``all_labels`` is y of all rows.
    """

    X: np.ndarray | sp.spmatrix | sp.sparray
    labels: NDArray[np.intp]
    classes: np.ndarray
    weights: NDArray[np.float64]
    rows: NDArray[np.intp]
    total: float
    sample_weight: NDArray[np.float64]
    all_labels: np.ndarray


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
    X, y = validate_data(estimator, X, y, **_X_CHECKS)
    all_labels = y
    check_classification_targets(y)
    weights = check_sample_weight(sample_weight, len(y))
    present = np.flatnonzero(weights)
    classes, labels = np.unique(y[present], return_inverse=True)
    merged = np.zeros(len(y))
    merged[present] = (
        weights[present] * _class_weights(class_weight, classes, labels, weights[present])[labels]
    )
    with np.errstate(over="ignore"):  # only some estimators need the total
        total = float(merged.sum())
    merged = normalised(merged)
    kept = np.flatnonzero(merged)
    if len(kept) < len(y):
        X, y, merged = X[kept], y[kept], normalised(merged[kept])
    classes, labels = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(
            f"{type(estimator).__name__} needs samples of at least 2 classes in y (with a positive "
            f"weight), but got only one class: {classes[0]!r}."
        )
    return ClassificationData(X, labels, classes, merged, kept, total, weights[kept], all_labels)


def check_prediction_data(estimator: BaseEstimator, X: Any) -> np.ndarray:
    """X for predict: same checks as in fit, and the same features."""
    return validate_data(estimator, X, reset=False, **_X_CHECKS)


def check_sample_weight(sample_weight, n_samples: int) -> NDArray[np.float64]:
    """Weights of the samples or sequences: finite, none negative, not all of them zero."""
    if sample_weight is None or np.isscalar(sample_weight):
        weights = np.full(n_samples, 1.0 if sample_weight is None else float(sample_weight))
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


def _class_weights(class_weight, classes, labels, weights) -> NDArray[np.float64]:
    """A factor a class; "balanced" gives all classes the same total of sample weights."""
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
