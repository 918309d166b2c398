"""Detects that a solver has stopped gaining, so that only rounding errors are left."""

import numpy as np

from sklearn_bundle.core.certificate import Best

_PROGRESS = 1e-6  # of the gap: the least gain of gap or bound that counts as progress
_ROUNDED = 1e-13  # of the objective: a dual that rises by less may do so by rounding


class Idling:
    """Counts checks in a row after which gap, bound and dual have not changed.

    Parameters
    ----------
    limit : int
        The number of such checks that is enough.
    """

    def __init__(self, limit: int):
        self._limit, self._count = limit, 0
        self._gap: float | None = None  # None before the first check
        self._bound = -np.inf

    @property
    def enough(self) -> bool:
        """Whether there were ``limit`` such checks in a row."""
        return self._count >= self._limit

    def note(self, best: Best, gained: float = 0.0) -> None:
        """Record a check; ``gained`` is the rise of the method's dual since the last check."""
        gap, bound = best.gap, best.bound
        moved = self._gap is None or gap < (1.0 - _PROGRESS) * self._gap
        moved = moved or bound > self._bound + _PROGRESS * gap
        moved = moved or gained > _ROUNDED * abs(best.primal)
        self._count = 0 if moved else self._count + 1
        self._gap, self._bound = gap, bound
