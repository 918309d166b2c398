"""L-BFGS for smooth losses of one score."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas

from sklearn_bundle.core.lbfgs import Corrections
from sklearn_bundle.core.limits import MEMORY, REFRESHED, SLOPE_LEFT
from sklearn_bundle.linear.problems.score_risk import Line, ScoreRisk
from sklearn_bundle.linear.solvers._descent import COARSEST
from sklearn_bundle.linear.solvers.solver import PointToStart

Array = NDArray[np.float64]

# Largest derivative in b that is left, in objectives per unit of the scores. Balancing the plane
# costs about that derivative times the unit.
_BALANCED = 1e-9
# The least, in typical slopes: with 1e-12 nearly separable data stalled at gaps of 5e-3.
_FINEST = 1e-14
# Steps that a line search may try at once: near a whole step, and without knowledge of the
# curvature.
_NEAR = np.array([0.1, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 4.0])
_ANY = np.append(np.geomspace(1e-8, 1.0, 17), [3.0, 10.0])


class ScoreDescent:
    """A point w that moves along L-BFGS directions of the objective, with the best intercept.

    The objective is ``reg_lambda/2 ||w||^2 + min_b R(w, b)``. With fewer features than samples a
    direction begins with the curvature's diagonal; otherwise most eigenvalues are reg_lambda, and
    the newest pair gives its length. In memory a step costs one product with X and one with X', on
    workers a round, or two if it is no whole step or if another b is much better.

    Parameters
    ----------
    point : ScoreRisk
    reg_lambda : float
    start : (ndarray of shape (d,), intercept)
        Of rows in memory, a point whose objective is above that of w = 0 is not used.

    Attributes
    ----------
    objective : float
    n_steps : int
    """

    def __init__(self, point: ScoreRisk, reg_lambda: float, start: PointToStart):
        self.point, self._lambda = point, reg_lambda
        self._units, (w, b) = point.units, start
        b = self._units.intercept if b is None else float(np.ravel(b)[0])
        self._pairs = Corrections(MEMORY)
        self.n_steps, self.objective = 0, np.inf
        if w.any() and point.keeps_scores:
            self._go(np.zeros_like(w), self._units.intercept)
        highest = self.objective
        self._go(w, b)
        if not self.objective <= highest and point.keeps_scores:
            self._go(np.zeros_like(w), self._units.intercept)
        columns = point.curvature_of_columns(reg_lambda)
        self._metric = reg_lambda if columns is None else columns  # of a direction without pairs
        self._scale = 1.0
        self._slopes = self._differentiate(np.inf)

    @property
    def w(self) -> Array:
        """The point; arrays are not written to again."""
        return self.point.w

    @property
    def intercept(self) -> float | Array:
        """The intercept in the form in which the problem has it."""
        return self.point.intercept

    @property
    def predicted_gap(self) -> float:
        """The gap to the plane at the point, if it balances."""
        return blas.ddot(self._slopes, self._slopes) / (2.0 * self._lambda)

    def plane(self) -> tuple[Array, float]:
        """A plane of the risk from the derivatives at the point."""
        return self.point.balanced_plane(self.predicted_gap)

    def attach(self, problem: Any) -> None:
        """Continue with the same data in another object."""
        self.point.attach(problem)

    def detach(self) -> None:
        """Release the data."""
        self.point.detach()

    def step(self) -> bool:
        """Take a step; False if no descent direction is left, up to rounding."""
        before, objective = self._slopes, self.objective
        along = _downhill(self._pairs, before, self._solved)
        self.n_steps += 1
        if along is None:
            return False
        across = self._lambda * blas.ddot(along, self.w)
        square = self._lambda * blas.ddot(along, along)
        steps = _NEAR if len(self._pairs) else _ANY
        slope = blas.ddot(along, before)
        line = Line(along, None, slope, across, square, SLOPE_LEFT, steps)
        length = self.point.step(line, self._units.unit)
        moved = length > 0.0
        if not moved:
            self._pairs.clear()
        if not moved or self.n_steps % REFRESHED == 0:
            self.point.refresh()
        self._evaluate()
        self._slopes = self._differentiate(objective - self.objective if moved else np.nan)
        if moved:
            self._remember(length * along, self._slopes - before)
        return moved

    def _remember(self, change: Array, bend: Array) -> None:
        self._pairs.remember(change, bend)
        product, square = blas.ddot(change, bend), blas.ddot(bend, bend / self._metric)
        if product > 0.0 and square > 0.0:
            self._scale = product / square

    def _go(self, w: Array, b: float) -> None:
        self.point.go(w, b)
        self._evaluate()

    def _evaluate(self) -> None:
        units, left = self._units, self._units.slope
        if np.isfinite(self.objective):
            left = _BALANCED * self.objective / units.unit
        precision = min(max(left, _FINEST * units.slope), COARSEST * units.slope)
        self.point.evaluate(units.unit, precision)
        self.objective = self._objective()

    def _objective(self) -> float:
        return self.point.risk + 0.5 * self._lambda * blas.ddot(self.w, self.w)

    def _differentiate(self, gained: float) -> Array:
        """Gradient of the objective at the best b, as far as that pays."""
        self.point.improve_intercept(gained)
        self.objective = self._objective()
        return self.point.gradient + self._lambda * self.w

    def _solved(self, x: Array) -> Array:
        return (self._scale if len(self._pairs) else 1.0) * x / self._metric


def _downhill(pairs: Corrections, slopes: Array, solve: Callable[[Array], Array]) -> Array | None:
    """The corrected gradient, downhill; None if there is no such direction without pairs either."""
    for _ in range(2):
        along = pairs.correct(-slopes, solve)
        if -np.inf < blas.ddot(along, slopes) < 0.0:
            return along
        pairs.clear()
    return None
