"""The elastic net of chains: its value, its conjugate, and scales of dual points that fit it."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_NEWTON_STEPS = 30  # for the scale: each one passes kinks; 3 to 8 were needed in trials


class ElasticPenalty(NamedTuple):
    """``Omega(w) = l1 ||w||_1 + ridge/2 ||w||^2``, and what is known of its conjugate.

    ``Omega*(v) = sum_j max(|v_j| - l1, 0)^2 / (2 ridge)``; without ridge it is 0 where ``|v_j| <=
    l1`` for all j, and infinity elsewhere. It depends only on the sizes ``|v_j|`` above l1.
    """

    l1: float
    ridge: float

    def value(self, w: NDArray, squared: float) -> float:
        """Omega of w, given ``||w||^2``."""
        value = 0.5 * self.ridge * squared
        return value + self.l1 * float(np.sum(np.abs(w))) if self.l1 else value

    def largest_norm(self, squared: float, size: int) -> float:
        """A bound of ``||v||`` for the v that gives w, with ``size`` entries and this square."""
        return self.ridge * squared**0.5 + self.l1 * float(size) ** 0.5

    def beyond(self, v: NDArray, error: float = 0.0) -> Array:
        """The sizes ``|v_j|`` above ``l1 - error``."""
        sizes = np.abs(v)
        return sizes[sizes > self.l1 - error].astype(np.float64)

    def scale(self, sizes: Array, entropy: float, error: float = 0.0) -> float:
        """The s in [0, 1] where ``s entropy - Omega*(s v)`` is largest, from these sizes.

        Without ridge it allows for an ``error`` of each entry of v.
        """
        if not self.ridge:
            return self.l1 / (float(sizes.max()) + error) if len(sizes) else 1.0
        with np.errstate(all="ignore"):
            units = sizes / self.l1  # so that no square of one is 0
            s, strength = 1.0, self.l1 * self.l1 / self.ridge
            for _ in range(_NEWTON_STEPS):
                above = np.maximum(s * units - 1.0, 0.0)
                slope = entropy - strength * float(np.sum(above * units))
                curvature = strength * float(np.sum(units * units, where=above > 0.0))
                if not slope < 0.0 or not curvature > 0.0:
                    break
                s, last = s + slope / curvature, s
                if not s < last:
                    break
            finite = np.isfinite(strength * float(np.sum(above * units)))
            return max(s, 0.0) if finite else 1.0 / float(units.max())

    def conjugate(self, sizes: Array, scale: float) -> tuple[float, float]:
        """Omega* of ``scale v`` if it is finite, and the norm of its gradient there."""
        if not self.ridge:
            return 0.0, 0.0
        above = np.maximum(scale * sizes - self.l1, 0.0)
        largest = float(above.max(initial=0.0))
        if not largest:
            return 0.0, 0.0
        with np.errstate(over="ignore"):
            above /= largest  # so that not all squares are 0
            whole = largest * float(np.sum(above * above)) ** 0.5
            return 0.5 * whole * (whole / self.ridge), whole / self.ridge

    def mixed(self, v: NDArray, entropy: float) -> float:
        """The largest ``s entropy - Omega*(s v)``."""
        sizes = self.beyond(v)
        s = self.scale(sizes, entropy)
        return s * entropy - self.conjugate(sizes, s)[0]

    def lagrangian(self, w: NDArray, v: NDArray) -> float:
        """``Omega(w) - <w, v>``: minus Omega* at v for the w that minimizes it."""
        support = np.flatnonzero(w)
        w, v = w[support].astype(np.float64), v[support].astype(np.float64)
        return self.value(w, float(np.sum(w * w))) - float(np.sum(w * v))


def shrunk(raw: NDArray, threshold: float) -> NDArray:
    """Soft thresholding, in the same precision: entries moved by the threshold towards 0."""
    return raw - np.clip(raw, -threshold, threshold)
