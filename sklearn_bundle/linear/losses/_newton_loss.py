"""The contract of losses for Newton's method: cuts, derivatives along a line, rows with curvature.

A kinked loss is smoothed over a width. The derivatives of the smoothed loss are slopes of the loss
itself, so they give a valid cutting plane of it. Scores are given without the intercept b.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.limits import MOST_STEPS

Array = NDArray[np.float64]
Part = Callable[[slice], tuple[float, ...]]  # sums over some rows
Sums = Callable[[Part], tuple[float, ...]]  # makes of them the sums over all rows

_REACH = 4.0  # factor between steps in b while no row has curvature


class Start(NamedTuple):
    """What follows from the targets alone.

    Parameters
    ----------
    intercept : float
        A good b at w = 0.
    unit : float
        Unit of the scores: the widest useful smoothing; positive.
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
    """The contract; ``width`` is that of the smoothing, if there is any.

    If there are ``sums``, all that is computed row by row is left to them: they may sum blocks of
    rows in several threads.
    """

    #: Whether the loss is smooth by itself, so that ``width`` is ignored.
    smooth = True
    #: Whether second derivatives are the same everywhere.
    quadratic = False

    def start(self, y: Array, weights: Array, free: bool) -> Start:
        """The start and the units; for labels 0 and 1."""
        return Start()

    @abstractmethod
    def suffices(self, y: Array) -> bool:
        """Whether the solution for a sample with these targets is useful."""

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
        """The risk, and the offset of a plane with the derivatives written to ``out``.

        With ``free`` these sum to zero; they hardly change if b is nearly the best.
        """
        center = self.center(y, weights) if free else 0.0

        def part(rows: slice) -> tuple[float, ...]:
            args = scores[rows], y[rows], weights[rows], width, b, center
            return self.cut_part(*args, out[rows])

        risk, offset, *further = sums(part)
        if free:
            offset = self.make_balanced(scores, y, weights, b, center, out, offset, *further)
        return risk, offset

    def center(self, y: Array, weights: Array) -> float:
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
        center: float,
        out: Array,
    ) -> tuple[float, ...]:
        """Fill the derivatives of these rows; returns their risk, offset and further sums.

        The further sums are for :meth:`make_balanced`.
        """

    @abstractmethod
    def make_balanced(
        self,
        scores: Array,
        y: Array,
        weights: Array,
        b: float,
        center: float,
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
        """Number of rows with curvature; writes their indices."""

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
        """The best b of the smoothed risk, by Newton's method from b; writes to ``scratch``.

        Its derivative there is at most ``precision``. The first steps, while no row has curvature,
        have the length ``unit``.
        """
        still = scratch
        still[:] = 0.0
        low, high, reach = -np.inf, np.inf, unit
        for _ in range(MOST_STEPS):  # usually two or three, since the last b is near
            first, second = sums(
                lambda rows, b=b: self.slope(
                    scores[rows], still[rows], y[rows], weights[rows], width, b, 1.0, 0.0
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
