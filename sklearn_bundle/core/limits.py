"""Numbers that many modules share, compiled ones too: units and limits, and no tuning knobs.

Half and twice each of the limits changes the work of no fit that was tried by more than 5 %.
"""

from typing import Any

import numpy as np

# The unit roundoffs: one rounding to nearest is off by at most this share of the result.
SINGLE = 2.0**-24  # of float32
DOUBLE = 2.0**-53  # of float64
SIX_DIGITS = 1e-6  # of an objective: rounding that may be larger leaves less than six digits
TINY = 1e-300  # in place of a 0 in a denominator or a logarithm: far below any number of data
LAST_PLACE = 1e-15  # of the sizes of a sum's terms: a few units in the last place of a double
# Of an objective: sums of many terms differ by that if they are added in another order. A rise up
# to this is no rise.
ROUNDING = 1e-14
CONSTANT = 1e-12  # of a column's mean square: a variance below it is rounding
IDLE_LIMIT = 10  # steps without progress, after which only rounding is left
# Steps after which sums that steps update are formed anew. What is taken off bounds for rounding
# grows with it.
REFRESHED = 32
SEARCH_STEPS = 40  # of a step that is halved, or made ten times shorter: beyond these it is 0
MOST_STEPS = 500  # of an inner loop, which usually ends after a few dozen: a limit for safety
MEMORY = 10  # pairs of a step and a change of the gradient in L-BFGS, as in SciPy
SLOPE_LEFT = 0.4  # share of the slope at 0 that a line search may leave
# Of each diagonal entry of a matrix, tried in turn until it has a factor in spite of rounding.
RIDGES = (0.0, 1e-12, 1e-9, 1e-6, 1e-3)
MOST_SIDE = 2000  # of a matrix to factor: 32 MB, about 0.1 s


def likely(d: Any) -> Any:
    """Bound, in roundings, on the sum of the errors of d products or additions.

    The worst case is d; the probability of more than 8 sqrt(d) is below 1e-13 (Higham and Mary,
    2019, A new approach to probabilistic rounding error analysis, Theorem 2.4 with lambda = 8).
    """
    return min(d, 8.0 * d**0.5) if isinstance(d, int) else np.minimum(d, 8.0 * np.sqrt(d))
