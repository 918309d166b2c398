"""The unit roundoffs, and how many of them the error of a sum may have.

One rounding to nearest is off by at most the unit's share of the result.
"""

from typing import Any

import numpy as np

SINGLE = 2.0**-24  # of float32
DOUBLE = 2.0**-53  # of float64
SIX_DIGITS = 1e-6  # of an objective: rounding that may be larger leaves less than six digits
# Relative error of numpy's sums and of their terms: sums in pairs of blocks of 128 have about 40
# roundings for 1e9 numbers, 64 are allowed.
ADDED = 64.0 * DOUBLE


def likely(d: Any) -> Any:
    """Bound, in roundings, on the sum of the errors of d products or additions.

    The worst case is d; the probability of more than 8 sqrt(d) is below 1e-13 (Higham and Mary,
    2019, A new approach to probabilistic rounding error analysis, Theorem 2.4 with lambda = 8).
    """
    return np.minimum(d, 8.0 * np.sqrt(d))
