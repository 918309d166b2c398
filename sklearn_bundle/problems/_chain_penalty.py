"""The elastic net of chains: its value, its conjugate, and dual points scaled to where it ends."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_NEWTON_STEPS = 30  # of the scale: each one leaves kinks behind, 3 to 8 were seen


class ElasticPenalty(NamedTuple):
    """``Omega(w) = l1 ||w||_1 + ridge/2 ||w||^2``, and what is known of its conjugate.

    ``Omega*(v) = sum_j max(|v_j| - l1, 0)^2 / (2 ridge)``; without ridge 0 where ``|v_j| <= l1``
    for all j and infinity elsewhere.
    """

    l1: float
    ridge: float

    def value(self, w: Array, squared: float) -> float:
        """Omega of w, whose square is known."""
        value = 0.5 * self.ridge * squared
        return value + self.l1 * float(np.sum(np.abs(w))) if self.l1 else value

    def largest_image(self, squared: float, size: int) -> float:
        """A bound of ``||v||`` for the v whose w this is: ``size`` entries of this square."""
        return self.ridge * squared**0.5 + self.l1 * float(size) ** 0.5

    def scale(self, v: Array, entropy: float, error: float) -> float:
        """The s in [0, 1] where ``s entropy - Omega*(s v)`` is largest.

        Without ridge it leaves room for an ``error`` of each entry of v.
        """
        sizes = np.abs(v)
        if not self.ridge:
            return min(1.0, self.l1 / (float(sizes.max()) + error))
        sizes, s = sizes[sizes > self.l1], 1.0
        for _ in range(_NEWTON_STEPS):
            beyond = s * sizes - self.l1
            inside = beyond > 0.0
            slope = entropy - float(np.sum(beyond * sizes, where=inside)) / self.ridge
            if not slope < 0.0:
                break
            step = slope * self.ridge / float(np.sum(sizes * sizes, where=inside))
            s, last = max(s + step, 0.0), s
            if s == last:
                break
        return s

    def conjugate(self, v: Array) -> tuple[float, float]:
        """Omega* of a v where it is finite, and the norm of its gradient there."""
        if not self.ridge:
            return 0.0, 0.0
        beyond = np.maximum(np.abs(v) - self.l1, 0.0)
        norm = float(np.sum(beyond * beyond)) ** 0.5 / self.ridge
        return 0.5 * self.ridge * norm * norm, norm

    def mixed(self, v: Array, entropy: float) -> float:
        """The largest ``s entropy - Omega*(s v)``."""
        s = self.scale(v, entropy, 0.0)
        return s * entropy - self.conjugate(s * v)[0]

    def lagrangian(self, w: Array, v: Array) -> float:
        """``Omega(w) - <w, v>``: minus Omega* at v for the w where it is least."""
        return self.value(w, float(np.sum(w * w))) - float(np.sum(w * v))


def shrunk(raw: NDArray, threshold: float) -> NDArray:
    """Entries moved by the threshold towards 0, those within it to 0; in the same precision."""
    return raw - np.clip(raw, -threshold, threshold)
