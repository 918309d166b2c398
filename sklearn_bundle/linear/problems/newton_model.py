"""A linear problem for Newton's method: the rows, or a sample of them, and Hessians."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.linear._compiled import design
from sklearn_bundle.linear.losses.scores import ScoreLoss
from sklearn_bundle.linear.rows.rows import RowOperator

Array = NDArray[np.float64]


@dataclass
class NewtonModel:
    """Rows with targets, and weights that sum to one.

    Parameters
    ----------
    rows : RowOperator
    y : ndarray of shape (n,)
    weights : ndarray of shape (n,)
    loss : ScoreLoss
    free : bool
        Whether there is an intercept, whose coordinate comes last.
    """

    rows: RowOperator
    y: Array
    weights: Array
    loss: ScoreLoss
    free: bool

    def rows_in_passes(self, passes: float) -> int:
        """The number of rows whose Hessian takes as long as ``passes`` passes over the data."""
        return self.rows.rows_in_passes(passes)

    def sample(self, share: int, seed: int) -> "NewtonModel | None":
        """One row out of every ``share`` neighbors; None if these are of no use to the loss."""
        n = len(self.y) // share
        drawn = np.random.default_rng(seed).integers(0, share, n)
        rows = np.arange(n) * share + drawn
        y, weights = self.y[rows], self.weights[rows]
        if not self.loss.suffices(y):
            return None
        sampled = self.rows.sample(rows)
        return NewtonModel(sampled, y, weights / weights.sum(), self.loss, self.free)

    def cut(self, scores: Array, width: float, b: float, out: Array) -> tuple[float, float]:
        """The risk, and the offset of a plane with the derivatives written to ``out``."""
        args = scores, self.y, self.weights, width, b, self.free, out
        return self.loss.smoothed_cut(*args, self.rows.sums)

    def slope(
        self, scores: Array, direction: Array, width: float, b: float, along_b: float, t: float
    ) -> tuple[float, float]:
        """First and second derivative of the smoothed risk at t along a direction."""

        def part(rows: slice) -> tuple[float, float]:
            args = scores[rows], direction[rows], self.y[rows], self.weights[rows]
            return self.loss.smoothed_slope(*args, width, b, along_b, t)

        first, second = self.rows.sums(part)
        return first, second

    def intercept(
        self, scores: Array, width: float, b: float, unit: float, precision: float, scratch: Array
    ) -> float:
        """The best b of the smoothed risk, by Newton's method from b; writes to ``scratch``."""
        args = scores, self.y, self.weights, width, b, unit, precision, scratch
        return self.loss.smoothed_intercept(*args, self.rows.sums)

    def add(self, step: float, direction: Array, scores: Array) -> None:
        """Move the scores along the direction."""

        def part(rows: slice) -> tuple[float, ...]:
            design.add(step, direction[rows], scores[rows])
            return ()

        self.rows.sums(part)

    def hessian(self, rows: NDArray[np.intp], coefs: Array) -> Array:
        """The lower triangle of ``sum_r c_r x_r x_r'``; with an intercept x has a last entry 1."""
        return self.rows.hessian(rows, coefs, self.free)
