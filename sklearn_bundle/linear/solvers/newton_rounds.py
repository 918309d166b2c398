"""Newton's method where rows lie on workers: a step is a round, or two."""

from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.contract import ABSENT
from sklearn_bundle.core.numeric.roots import Bracket
from sklearn_bundle.linear.losses._newton import curved_loss
from sklearn_bundle.linear.losses._newton_loss import Start
from sklearn_bundle.linear.losses.base import Loss
from sklearn_bundle.linear.problems.linear import LARGEST_RISK, Point
from sklearn_bundle.linear.regularizers import Regularizer
from sklearn_bundle.linear.solvers._descent import NewtonDescent
from sklearn_bundle.linear.solvers.linear_start import DualCertificate
from sklearn_bundle.linear.solvers.linear_task import Task
from sklearn_bundle.linear.solvers.newton import NewtonSolver
from sklearn_bundle.linear.solvers.protocols import NewtonRounds

Array = NDArray[np.float64]

MOST_FEATURES = 2000  # a Hessian of 32 MB, from each block
_WHOLE_STEP = 0.4  # of the slope at 0 may be left by a whole step: another round costs more
# A search for a shorter or longer step: of the slope at 0 that may be left below it, rounds at
# most, steps in each, and those near 0 as a power of these; the farthest of a round, where the
# slope still falls, as a factor to a power up to 2.
_SEARCHED, _SEARCHES, _INSIDE, _SHORTER, _FARTHER = 0.1, 4, 9, 4.0, 5.0
_NARROWER = 0.4  # times the width: planes of this one come along, for the next step
# Rows of the first steps, which are taken by the client: of all rows one in so many or fewer, no
# more bytes than these, and no fewer rows than one needs in so many features.
_SHARE, _LARGEST_SAMPLE = 16, 1 << 24
_FEWEST_ROWS, _ROWS_A_FEATURE = 2000, 100
_HESSIAN_ROWS = 400  # times d: with these the Hessian of a smooth loss begins
_ROUNDED = 1e-12  # of a typical slope: a derivative in b that is rounding
_FARTHEST = 2.0  # times the size of b: how far the optimum's may be, in what rounding takes
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
        problem: NewtonRounds,
        reg_lambda: float,
        units: Start,
        scale: Array,
        w: Array,
        b: float,
        width: float,
    ):
        self._problem, free = problem, problem.n_free > 0
        args = problem.newton_loss, free, reg_lambda, units, scale, w, b, width
        super().__init__(*args, n_curved=problem.n_samples)
        self.planes: list[tuple[Array, float, float]] = []
        self._found: dict[float, _Derivatives] = {}  # of the last round, by width
        self._none = np.empty(0)

    def attach(self, problem: NewtonRounds) -> None:
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
        if not abs(slope) <= _WHOLE_STEP * self.decrement:
            length = self._length([start, whole], across, square, slope)
            self._evaluate([(start[0] + length * w, start[1] + length * b)], self._none)
        self.w, self.b = start[0] + length * w, start[1] + length * b
        return length

    def _length(self, ends: list, across: float, square: float, slope: float) -> float:
        """The step at which the slope is nearly 0, each round at many steps between two."""
        inside = np.arange(1, _INSIDE + 1) / (_INSIDE + 1)
        bracket = Bracket((0.0, -self.decrement))
        bracket.narrow(np.ones(1), np.array([slope]))
        for _ in range(_SEARCHES):
            low, high = bracket.low[0], bracket.high[0]
            if bracket.closed:
                steps = low + (high - low) * inside
            else:
                steps = low * _FARTHER ** (1.0 + inside)
            if low == 0.0:  # near 0 as well: short steps where the model is far off
                steps = np.sort(np.append(steps, high * inside**_SHORTER))
            along = self._problem.newton_slopes(ends, steps, self.width)
            bracket.narrow(steps, along + across + square * steps)
            if bracket.closed and -bracket.low[1] <= _SEARCHED * self.decrement:
                break
        return bracket.zero()

    def _evaluate(self, ends: list, steps: Array, planes_only: bool = False) -> Array:
        """One round at the end of a line; with ``planes_only`` it keeps nothing but planes.

        Second derivatives that are the same everywhere come once.
        """
        problem, loss = self._problem, self._loss
        widths = (
            [self.width] if loss.smooth or planes_only else [self.width, _NARROWER * self.width]
        )
        every = 0 if planes_only or (loss.quadratic and self._found) else 1
        if every and loss.smooth and not loss.quadratic:
            enough = self._detail * _HESSIAN_ROWS * len(self.w)
            every = self._every = max(1, problem.n_samples // enough)
        along, *arrays = problem.newton_sums(ends, steps, widths, every)
        found = [_Derivatives(*arrays[k : k + 3]) for k in range(0, len(arrays), 3)]
        for sums, gradient, _ in found:
            if sums[0] <= LARGEST_RISK and np.isfinite(sums).all():
                farthest = max(abs(b) for _, b in ends)
                offset, balance = self._balanced(*sums[1:3].tolist(), farthest)
                self.planes.append((gradient, offset, balance))
        if planes_only:
            return along
        if not every:
            hessian = next(iter(self._found.values())).hessian
            found = [one._replace(hessian=hessian) for one in found]
        self._found = dict(zip(widths, found, strict=True))
        return along

    def _balanced(self, offset: float, balance: float, b: float) -> tuple[float, float]:
        """A coefficient of b that is rounding goes off the offset, for any b that is not far."""
        if not self._free:
            return offset, 0.0
        if abs(balance) > _ROUNDED * self._units.slope:
            return offset, balance
        return offset - _FARTHEST * abs(balance) * (1.0 + b), 0.0


class NewtonRoundsSolver(NewtonSolver):
    """:class:`NewtonSolver` for rows on workers: the first steps are on a sample of them.

    The intercept is a coordinate of the planes, and only planes whose coefficients of b cancel
    prove anything: where all have one sign, a round cuts one beyond the best b. After a round with
    a step of 1 the next step follows at once.
    """

    needs: ClassVar[type] = NewtonRounds
    _problem: NewtonRounds
    _descent: RoundsDescent | None

    @classmethod
    def supports(cls, loss: Loss, omega: Regularizer) -> bool:
        """Whether the loss has second derivatives, and the regularizer is ``||w||^2 / 2``."""
        return omega.is_euclidean and curved_loss(loss) is not None

    @classmethod
    def is_best(cls, task: Task) -> bool:
        """Up to 2000 features: rounds cost most, and Newton's method needs the fewest."""
        return task.problem.n_features <= MOST_FEATURES

    def _start_of_targets(self) -> Start:
        fresh = self.bundle.is_empty and not self._start[0].any()
        self._sampled, start = self._problem.sample(self._rows_of_sample() if fresh else 0)
        return start

    def _rows_of_sample(self) -> int:
        """Rows of the first sample; 0 if there are too few to learn from."""
        problem = self._problem
        n, d = problem.n_samples, problem.n_features
        affordable = _LARGEST_SAMPLE * n // max(8 * problem.n_entries, 1)
        least = max(_FEWEST_ROWS, _ROWS_A_FEATURE * d)
        desired = max(n // _SHARE, least)
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

    def _evaluate(self, descent: RoundsDescent) -> None:
        """Planes and bound at the descent's point, which is offered as the best one."""
        descent.differentiate()
        self._take_planes(descent)
        b = np.array([descent.b]) if self._problem.n_free else 0.0
        self._offer(Point(descent.w, None, b), descent.risk)
        gap_of_plane = descent.smoothed + descent.error
        if gap_of_plane <= self._best.primal:
            self._solve_inner()
        unbalanced = self.bundle.balance.any()
        if unbalanced and gap_of_plane <= _UNBALANCED * self._best.gap:
            descent.cut_on_other_side()
            self._take_planes(descent)
            self._solve_inner()

    def _take_planes(self, descent: RoundsDescent) -> None:
        """Into the bundle; one that is balanced proves a bound by itself."""
        for gradient, offset, balance in descent.planes:
            self.bundle.add(gradient, offset, np.array([balance]) if self._problem.n_free else None)
            if balance == 0.0:
                dual_certificate = DualCertificate(self._lambda, (gradient, offset))
                self._best.raise_bound(dual_certificate.bound(self._omega), dual_certificate)
        descent.planes.clear()
