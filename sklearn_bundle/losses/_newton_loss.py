"""What Newton's method asks of a loss: its cut, derivatives along a line, and who has curvature.

A kinked loss is smoothed over a width. The derivatives of the smoothed loss, which are slopes of
the loss itself, make a valid cutting plane of it. Scores are given without the intercept b.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Part = Callable[[slice], tuple[float, ...]]  # sums over some rows
Sums = Callable[[Part], tuple[float, ...]]  # makes of them the sums over all rows

_CENTERINGS = 60  # steps in b at most: two or three as a rule, since the last b is near
_REACH = 4.0  # factor from step to step in b while no row bends


class Start(NamedTuple):
    """What the targets alone tell.

    Parameters
    ----------
    intercept : float
        A good b at w = 0.
    unit : float
        Of the scores: the widest smoothing that makes sense; positive.
    slope : float
        A typical derivative of the loss; positive.
    """

    intercept: float = 0.0
    unit: float = 1.0
    slope: float = 1.0


def at_once(part: Part) -> tuple[float, ...]:
    """Sums over all rows in one piece."""
    return part(slice(None))


class NewtonLoss(ABC):
    """The contract; ``width`` is that of the smoothing, if there is one.

    Where there are ``sums``, all that is computed row by row is left to them: blocks of rows may be
    summed up in several threads.
    """

    #: Whether the loss is smooth by itself, and ``width`` means nothing.
    smooth = True
    #: Whether second derivatives are the same everywhere.
    quadratic = False

    def start(self, y: Array, weights: Array, free: bool) -> Start:
        """Where to begin, and the units; for labels 0 and 1."""
        return Start()

    @abstractmethod
    def suffices(self, y: Array) -> bool:
        """Whether a sample with these targets has a solution that is of use."""

    def cut(
        self,
        scores: Array,
        y: Array,
        weights: Array,
        width: float,
        b: float,
        free: bool,
        out: Array,
        sums: Sums = at_once,
    ) -> tuple[float, float]:
        """The loss's risk, and the offset of a plane with the derivatives written to ``out``.

        With ``free`` these sum to zero, nearly their own values where b is nearly the best.
        """
        centre = self.centre(y, weights) if free else 0.0

        def part(rows: slice) -> tuple[float, ...]:
            args = scores[rows], y[rows], weights[rows], width, b, centre
            return self.cut_part(*args, out[rows])

        risk, offset, *further = sums(part)
        if free:
            offset = self.even_out(scores, y, weights, b, centre, out, offset, *further)
        return risk, offset

    def centre(self, y: Array, weights: Array) -> float:
        """What the targets in a plane's offset are counted from if the intercept is free."""
        return 0.0

    @abstractmethod
    def cut_part(
        self,
        scores: Array,
        y: Array,
        weights: Array,
        width: float,
        b: float,
        centre: float,
        out: Array,
    ) -> tuple[float, ...]:
        """Of these rows: risk, offset and further sums for :meth:`even_out`; the derivatives."""

    @abstractmethod
    def even_out(
        self,
        scores: Array,
        y: Array,
        weights: Array,
        b: float,
        centre: float,
        out: Array,
        offset: float,
        *further: float,
    ) -> float:
        """Make the derivatives sum to zero; returns the offset then."""

    @abstractmethod
    def slope(
        self,
        scores: Array,
        direction: Array,
        y: Array,
        weights: Array,
        width: float,
        b: float,
        along_b: float,
        t: float,
    ) -> tuple[float, float]:
        """First and second derivative of the smoothed risk at t along (direction, along_b)."""

    @abstractmethod
    def curved(
        self, scores: Array, y: Array, width: float, b: float, rows: NDArray[np.int64]
    ) -> int:
        """How many rows have curvature; writes which."""

    @abstractmethod
    def curvature(
        self,
        scores: Array,
        y: Array,
        weights: Array,
        width: float,
        b: float,
        rows: NDArray[np.int64],
    ) -> Array:
        """Second derivatives of the smoothed risk in the scores of these rows."""

    def intercept(
        self,
        scores: Array,
        y: Array,
        weights: Array,
        width: float,
        b: float,
        unit: float,
        precision: float,
        scratch: Array,
        sums: Sums = at_once,
    ) -> float:
        """The smoothed risk's best b, by Newton's method from b on; writes to ``scratch``.

        There its derivative is no more than ``precision``. The first steps while no row bends are
        of a ``unit``.
        """
        still = scratch
        still[:] = 0.0
        low, high, reach = -np.inf, np.inf, unit
        for _ in range(_CENTERINGS):
            first, second = sums(
                lambda rows, b=b: self.slope(
                    *(scores[rows], still[rows], y[rows], weights[rows]), width, b, 1.0, 0.0
                )
            )
            if abs(first) <= precision:
                break
            low, high = (b, high) if first < 0.0 else (low, b)
            if second > 0.0:
                move = -first / second
            else:
                move, reach = -np.copysign(reach, first), _REACH * reach
            moved = b + move
            if not low < moved < high:
                moved = 0.5 * (low + high) if np.isfinite(high - low) else b + 2.0 * move
            if moved == b:
                break
            b = moved
        return b
