"""Users' sample weights."""

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_array

from sklearn_bundle._values import as_numbers


def check_sample_weight(sample_weight, n_samples: int) -> NDArray[np.float64]:
    """Weights of samples or sequences: finite, not negative, not all zero."""
    weights = as_numbers("sample_weight", 1.0 if sample_weight is None else sample_weight)
    if weights.ndim == 0:
        weights = np.broadcast_to(weights, n_samples)  # takes no memory
    else:
        weights = check_array(weights, ensure_2d=False, input_name="sample_weight")
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
    if not weights.any():
        raise ValueError("Sample weights must contain at least one non-zero number.")
    return weights
