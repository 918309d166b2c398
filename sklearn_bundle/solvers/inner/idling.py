"""When a solver stops gaining: it is idle, and only rounding errors are left."""

from sklearn_bundle.solvers._certificate import Best

_PROGRESS = 1e-6  # of the gap: what gap or bound gain at least where there is something to gain
_ROUNDED = 1e-13  # of the objective: a dual that rises by less may do so by rounding


class Idling:
    """Counts looks in a row after which gap and bound are what they were, and the dual too.

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

    def note(self, best: Best, gained: float = 0.0) -> None:
        """After a look; ``gained`` is by how much the dual of a method has risen since the last."""
        gap, bound = best.gap, best.bound
        moved = self._gap is None or gap < (1.0 - _PROGRESS) * self._gap
        moved = moved or bound > self._bound + _PROGRESS * gap
        moved = moved or gained > _ROUNDED * abs(best.primal)
        self._count = 0 if moved else self._count + 1
        self._gap, self._bound = gap, bound
