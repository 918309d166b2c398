"""When a solver whose gap no longer falls is done: rounding has the last word."""

from sklearn_bundle.solvers._certificate import Best

_PROGRESS = 1e-6  # of the gap: what gap or bound gain at least where there is something to gain


class Idling:
    """Counts looks in a row after which neither the gap is smaller nor the bound higher.

    Parameters
    ----------
    limit : int
        So many are enough.
    """

    def __init__(self, limit: int):
        self._limit, self._count = limit, 0
        self._gap = self._bound = None

    @property
    def enough(self) -> bool:
        """Whether there were so many."""
        return self._count >= self._limit

    def note(self, best: Best) -> None:
        """After a look."""
        gap, bound = best.gap, best.bound
        moved = self._gap is None or gap < (1.0 - _PROGRESS) * self._gap
        moved = moved or bound > self._bound + _PROGRESS * gap
        self._count = 0 if moved else self._count + 1
        self._gap, self._bound = gap, bound
