"""Clocks and medians of the contests of linear classifiers."""

from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

from _measure import Rung

ENOUGH = 30.0  # seconds in all, after which a fit is not repeated

Clock = Callable[[Callable[[], Any]], tuple[float, Any]]


def time_rungs(
    fits: Sequence[tuple[Rung, Callable[[], Any]]],
    repeat: int,
    clock: Clock,
    enough: float = ENOUGH,
) -> None:
    """Set the medians of all rungs, whose fits take turns; a slow one has fewer of them, or none.

    Where a fit is not repeated its first run counts.
    """
    taken: list[list[float]] = [[] for _ in fits]
    for _ in range(repeat):
        for (rung, fit), seconds in zip(fits, taken, strict=True):
            if rung.first_seconds + sum(seconds) <= enough:
                seconds.append(clock(fit)[0])
    for (rung, _), seconds in zip(fits, taken, strict=True):
        rung.seconds = median(seconds or [rung.first_seconds])
