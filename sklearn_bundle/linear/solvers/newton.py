"""Rules of Newton's method on smoothed losses, in memory and on workers: its ridge, its width."""

import numpy as np

WHOLE = 0.5  # a step after which the ridge falls
LEAST_RIDGE, MOST_RIDGE = 1e-6, 10.0  # times the mean of the Hessian's diagonal


def next_ridge(ridge: float, step: float) -> float:
    """The ridge after a step of this length."""
    if step < 0.1:
        return min(max(10.0 * ridge, LEAST_RIDGE), MOST_RIDGE)
    if step > WHOLE:
        return ridge / 10.0 if ridge > 0.1 * LEAST_RIDGE else 0.0
    return ridge


def narrower(allowed: float, hidden: float) -> float:
    """The factor on the width, at least 0.3, that makes of a gap that it hides the allowed one."""
    return max(0.3, 0.95 * min(float(np.sqrt(allowed / hidden)), 1.0))
