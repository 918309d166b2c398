"""The seconds that several fits may take together."""

from time import perf_counter
from typing import Any, Self

from sklearn_bundle.jit.announce import seconds_compiled


class TimeLimit:
    """Seconds from now on, without those of compilation; a copy in another process goes on.

    Parameters
    ----------
    seconds : float
        None is no limit.
    """

    def __init__(self, seconds: float | None):
        self._seconds = seconds
        self._start, self._compiled = perf_counter(), seconds_compiled()

    @property
    def left(self) -> float | None:
        """Seconds that are left, at least 0; None without a limit."""
        if self._seconds is None:
            return None
        spent = perf_counter() - self._start - (seconds_compiled() - self._compiled)
        return max(self._seconds - spent, 0.0)

    def part(self, n: int, reserve: float) -> Self:
        """An nth of what is left, without this share of all seconds."""
        left = self.left
        if self._seconds is None or left is None:
            return type(self)(None)
        return type(self)(max(left - reserve * self._seconds, 0.0) / n)

    def __getstate__(self) -> dict[str, Any]:
        return {"seconds": self.left}

    def __setstate__(self, state: dict[str, Any]) -> None:
        TimeLimit.__init__(self, state["seconds"])
