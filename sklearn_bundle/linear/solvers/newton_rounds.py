"""Newton's method where rows lie on workers: a step is a round, or two."""

from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.contract import ABSENT
from sklearn_bundle.core.limits import MOST_SIDE, NEWTON_SLOPE_LEFT, SLOPE_LEFT
from sklearn_bundle.core.one_variable import Bracket, search_in_rounds
from sklearn_bundle.linear.losses.base import Loss
from sklearn_bundle.linear.losses.scores import ScoreLoss, Start, score_loss
from sklearn_bundle.linear.problems.linear import LARGEST_RISK, Point
from sklearn_bundle.linear.problems.row_blocks import RowBlocks
from sklearn_bundle.linear.solvers._descent import NewtonDescent
from sklearn_bundle.linear.solvers.newton import (
    LARGEST_SAMPLE,
    ROWS_A_FEATURE,
    SHARES,
    SHRINK,
    NewtonSolver,
)
from sklearn_bundle.linear.solvers.rounds import without_rounding
from sklearn_bundle.linear.solvers.solver import Task

Array = NDArray[np.float64]

_HESSIAN_ROWS = 400  # times d: with these the Hessian of a smooth loss begins
_BEYOND = 2.0  # times the move of b that would balance the derivatives
_UNBALANCED = 0.5  # of the gap: a point that promises no more gets a plane to balance its own with


class _Derivatives(NamedTuple):
    """Those of the smoothed risk: risk, offset, balance and curved rows; gradient; Hessian."""

    sums: Array
    gradient: Array
    hessian: Array


class RoundsDescent(NewtonDescent):
    """:class:`NewtonDescent` where b moves with w, and each round evaluates two widths.

    Attributes
    ----------
    planes : list of (gradient, offset, balance)
        Of the loss, from the rounds since they were last taken.
    """

    def __init__(
        self,
        problem: RowBlocks,
        reg_lambda: float,
        units: Start,
        scale: Array,
        w: Array,
        b: float,
        width: float,
    ):
        self._problem, loss, free = problem, problem.newton_loss, problem.n_free > 0
        assert loss is not None
        args = loss, free, reg_lambda, units, scale, w, b, width
        super().__init__(*args, n_curved=problem.n_samples)
        self.planes: list[tuple[Array, float, float]] = []
        self._found: dict[float, _Derivatives] = {}  # of the last round, by width
        self._none = np.empty(0)

    def attach(self, problem: RowBlocks) -> None:
        """Continue with the same rows in another object."""
        self._problem = problem

    def detach(self) -> None:
        """Release the rows."""
        self._problem = ABSENT

    def differentiate(self) -> None:
        """Compute risk, plane and gradient, unless the round that led here did at this width."""
        if self.width not in self._found:
            self._evaluate([(self.w, self.b)], self._none)
        sums, self.gradient, _ = self._found[self.width]
        self.risk, self.offset, self.balance, size = sums.tolist()
        self.balance *= self._free
        self._n_curved = int(size)

    def narrow(self, allowed: float) -> bool:
        """Shrink to a width that was evaluated, if it is not far below what would do."""
        width = self.width
        if not super().narrow(allowed):
            return False
        narrower = [known for known in self._found if known < width]
        if narrower:
            self.width = max(narrower)
        return True

    def cut_on_other_side(self) -> None:
        """Add the plane at a b on the other side of the best one: one round."""
        bend = self._found[self.width].hessian[-1, -1]
        if not (self.balance and bend > 0.0):
            return
        beyond = self.b - _BEYOND * self.balance / bend
        self._evaluate([(self.w, beyond)], self._none, planes_only=True)

    def _hessian(self) -> Array:
        return self._found[self.width].hessian.copy()

    def _move(self, w: Array, b: float) -> float:
        across, square = self._strength * float(w @ self.w), self._strength * float(w @ w)
        start, steps = (self.w, self.b), np.ones(1)
        whole = start[0] + w, start[1] + b
        slope = self._evaluate([start, whole], steps)[0, 0] + across + square
        length = 1.0
        if not abs(slope) <= SLOPE_LEFT * self.decrement:
            length = self._length([start, whole], across, square, slope)
            self._evaluate([(start[0] + length * w, start[1] + length * b)], self._none)
        self.w, self.b = start[0] + length * w, start[1] + length * b
        return length

    def _length(self, ends: list, across: float, square: float, slope: float) -> float:
        """The step at which the slope is nearly 0."""
        bracket = Bracket((0.0, -self.decrement))
        bracket.narrow(np.ones(1), np.array([slope]))

        def slopes(steps: Array) -> Array:
            along = self._problem.newton_slopes(ends, steps, self.width)
            return along + across + square * steps

        return search_in_rounds(slopes, bracket, precision=NEWTON_SLOPE_LEFT * self.decrement)

    def _evaluate(self, ends: list, steps: Array, planes_only: bool = False) -> Array:
        """One round at the end of a line; with ``planes_only`` it keeps nothing but planes.

        Second derivatives that are the same everywhere come once.
        """
        problem, loss = self._problem, self._loss
        widths = [self.width] if loss.smooth or planes_only else [self.width, SHRINK * self.width]
        every = 0 if planes_only or (loss.quadratic and self._found) else 1
        if every and loss.smooth and not loss.quadratic:
            enough = self._detail * _HESSIAN_ROWS * len(self.w)
            every = self._every = max(1, problem.n_samples // enough)
        along, *arrays = problem.newton_sums(ends, steps, widths, every)
        found = [_Derivatives(*arrays[k : k + 3]) for k in range(0, len(arrays), 3)]
        for sums, gradient, _ in found:
            if sums[0] <= LARGEST_RISK and np.isfinite(sums).all():
                farthest = max(abs(b) for _, b in ends)
                offset, balance = sums[1:3].tolist() if self._free else (float(sums[1]), 0.0)
                offset, balance = without_rounding(offset, balance, self._units.slope, farthest)
                self.planes.append((gradient, offset, balance))
        if planes_only:
            return along
        if not every:
            hessian = next(iter(self._found.values())).hessian
            found = [one._replace(hessian=hessian) for one in found]
        self._found = dict(zip(widths, found, strict=True))
        return along


class NewtonRoundsSolver(NewtonSolver):
    """:class:`NewtonSolver` for rows on workers: the first steps are on a sample of them.

    The intercept is a coordinate of the planes, and only planes whose coefficients of b cancel
    prove anything: where all have one sign, a round cuts one beyond the best b. After a round with
    a step of 1 the next step follows at once.
    """

    needs: ClassVar[type] = RowBlocks
    _problem: RowBlocks
    _descent: RoundsDescent | None

    @classmethod
    def form(cls, loss: Loss) -> ScoreLoss | None:
        """The loss if its formula is known."""
        return score_loss(loss)

    @classmethod
    def is_best(cls, task: Task) -> bool:
        """Up to 2000 features: rounds cost most, and Newton's method needs the fewest."""
        return task.problem.n_features <= MOST_SIDE

    def _start_of_targets(self) -> Start:
        fresh = self.bundle.is_empty and not self._start[0].any()
        self._sampled, start = self._problem.sample(self._rows_of_sample() if fresh else 0)
        return start

    def _rows_of_sample(self) -> int:
        """Rows of the first sample; 0 if there are too few to learn from."""
        problem = self._problem
        n, d = problem.n_samples, problem.n_features
        affordable = LARGEST_SAMPLE * n // max(8 * problem.n_entries, 1)
        least = ROWS_A_FEATURE * d
        desired = max(n // SHARES[0], least)
        return min(desired, affordable) if least <= min(n // 2, affordable) else 0

    def _first_descent(self) -> RoundsDescent:
        problem, (w, b) = self._problem, self._start
        b = self._units.intercept if b is None else float(np.ravel(b)[0])
        width, scale, model = self.width, problem.column_scale, self._sampled
        if model is not None:
            share = problem.n_samples // len(model.y)
            descent = self._descended(model, scale, w, b, share)
            w, b, width = descent.w, descent.b, descent.width
            self._sampled = None
        return RoundsDescent(problem, self._lambda, self._units, scale, w, b, width)

    def _cut(self, descent: RoundsDescent) -> None:
        """Planes and bound at the descent's point, which is offered as the best one."""
        descent.differentiate()
        self._take_planes(descent)
        b = np.array([descent.b]) if self._problem.n_free else 0.0
        self._offer(Point(descent.w, None, b), descent.risk)
        gap_of_plane = descent.smoothed + descent.error
        if gap_of_plane <= self.best.primal:
            self._planes.solve_inner()
        unbalanced = self.bundle.balance.any()
        if unbalanced and gap_of_plane <= _UNBALANCED * self.best.gap:
            descent.cut_on_other_side()
            self._take_planes(descent)
            self._planes.solve_inner()

    def _take_planes(self, descent: RoundsDescent) -> None:
        """Into the bundle; one that is balanced proves a bound by itself."""
        for gradient, offset, balance in descent.planes:
            self.bundle.add(gradient, offset, np.array([balance]) if self._problem.n_free else None)
            if balance == 0.0:
                self._prove((gradient, offset))
        descent.planes.clear()
