"""Rules of Newton's method on smoothed losses, in memory and on workers: its ridge, its width."""

import numpy as np

_SHORT, WHOLE = 0.1, 0.5  # steps after which the ridge rises, and falls
LEAST_RIDGE, MOST_RIDGE = 1e-6, 10.0  # times the mean of the Hessian's diagonal
_NARROWER = 0.3  # least factor on the width at a time,
_BELOW = 0.95  # and what it aims at, of the width that leaves so much


def next_ridge(ridge: float, step: float) -> float:
    """The ridge after a step of this length."""
    if step < _SHORT:
        return min(max(10.0 * ridge, LEAST_RIDGE), MOST_RIDGE)
    if step > WHOLE:
        return ridge / 10.0 if ridge > 0.1 * LEAST_RIDGE else 0.0
    return ridge


def narrower(allowed: float, hidden: float) -> float:
    """The factor on the width that makes of a gap that it hides the allowed one."""
    return max(_NARROWER, _BELOW * min(float(np.sqrt(allowed / hidden)), 1.0))
