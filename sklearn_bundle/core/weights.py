"""Users' sample weights."""

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_array

from sklearn_bundle.core.values import as_numbers


def check_sample_weight(
    sample_weight, n_samples: int, *, all_zero: bool = False
) -> NDArray[np.float64]:
    """Weights of samples or sequences: finite, not negative, and not all zero unless allowed."""
    if sample_weight is None and n_samples > 0:
        return np.broadcast_to(1.0, n_samples)  # takes no memory
    weights = as_numbers("sample_weight", 1.0 if sample_weight is None else sample_weight)
    if weights.ndim == 0:
        weights = np.broadcast_to(weights, n_samples)
    else:
        kind = {"ensure_2d": False, "ensure_min_samples": 0, "input_name": "sample_weight"}
        weights = check_array(weights, **kind)
    if weights.shape != (n_samples,):
        raise ValueError(
            f"sample_weight.shape == {weights.shape}, expected {(n_samples,)}: one weight per "
            "sample."
        )
    wrong = ~np.isfinite(weights)
    if wrong.any():
        raise ValueError(f"sample_weight must be finite, got {weights[np.argmax(wrong)]}.")
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
