"""The elastic net of chains: its value, its conjugate, and scales of dual points that fit it."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_NEWTON_STEPS = 30  # for the scale: each one passes kinks; 3 to 8 were needed in trials


class ElasticPenalty(NamedTuple):
    """``Omega(w) = l1 ||w||_1 + ridge/2 ||w||^2``, and what is known of its conjugate.

    ``Omega*(v) = sum_j max(|v_j| - l1, 0)^2 / (2 ridge)``; without ridge it is 0 where ``|v_j| <=
    l1`` for all j, and infinity elsewhere.
    """

    l1: float
    ridge: float

    def value(self, w: Array) -> float:
        """Omega of w."""
        value = 0.5 * self.ridge * float(w @ w)
        return value + self.l1 * float(np.sum(np.abs(w))) if self.l1 else value

    def bound(self, v: Array, entropy: float, error: float = 0.0) -> tuple[float, float, float]:
        """The largest ``s entropy - Omega*(s v)`` for s in [0, 1], s, and what an error costs.

        ``error`` bounds the error of v. Its cost is that in the 2-norm; without ridge s allows for
        it.
        """
        sizes = np.abs(v)
        sizes = sizes[sizes > self.l1 - error]
        s = self._scale(sizes, entropy, error)
        if not self.ridge:
            return s * entropy, s, 0.0
        above = np.maximum(s * sizes - self.l1, 0.0)
        whole = float(np.sum(above * above)) ** 0.5
        cost = (whole + 0.5 * s * error) * s * error / self.ridge
        return s * entropy - 0.5 * whole * (whole / self.ridge), s, cost

    def _scale(self, sizes: Array, entropy: float, error: float) -> float:
        if not self.ridge:
            return min(1.0, self.l1 / (float(sizes.max()) + error)) if len(sizes) else 1.0
        if not self.l1 or not len(sizes):
            return 1.0
        units = sizes / self.l1  # so that no square of one is 0
        s, strength = 1.0, self.l1 * (self.l1 / self.ridge)
        for _ in range(_NEWTON_STEPS):
            above = np.maximum(s * units - 1.0, 0.0)
            slope = entropy - strength * float(np.sum(above * units))
            curvature = strength * float(np.sum(units * units, where=above > 0.0))
            if not slope < 0.0 or not curvature > 0.0:
                break
            s, last = s + slope / curvature, s
            if not s < last:
                break
        return max(s, 0.0) if np.isfinite(slope) else min(1.0, 1.0 / float(units.max()))


def shrunk(raw: Array, threshold: float) -> Array:
    """Soft thresholding: entries moved by the threshold towards 0."""
    return raw - np.clip(raw, -threshold, threshold)
