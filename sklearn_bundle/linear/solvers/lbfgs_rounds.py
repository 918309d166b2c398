"""L-BFGS for rows on workers and smooth losses of many features: usually one round per step."""

from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas

from sklearn_bundle.core.contract import ABSENT
from sklearn_bundle.core.lbfgs import Corrections
from sklearn_bundle.core.limits import CONSTANT, MEMORY, MOST_SIDE, SLOPE_LEFT
from sklearn_bundle.core.numeric.roots import Bracket, search_in_rounds
from sklearn_bundle.linear.losses.base import Loss
from sklearn_bundle.linear.losses.scores import score_loss
from sklearn_bundle.linear.regularizers import Regularizer
from sklearn_bundle.linear.solvers._descent_solver import DescentSolver
from sklearn_bundle.linear.solvers.linear_start import PointToStart
from sklearn_bundle.linear.solvers.linear_task import Task
from sklearn_bundle.linear.solvers.protocols import NewtonRounds
from sklearn_bundle.linear.solvers.rounds import MOST_MOVES, WIDER, without_rounding

Array = NDArray[np.float64]

# Steps whose slopes a round returns: near a whole step, and without knowledge of the curvature.
_NEAR = np.array([0.1, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 4.0])
_ANY = np.append(np.geomspace(1e-8, 1.0, 17), [3.0, 10.0])
_MIXED = 0.3  # share of the predicted gap that mixing with another plane may lose
# Moves of b at which a round returns the derivative, as multiples of a reach on both sides. The
# reach becomes twice the last move, and at least this share of a unit.
_MOVES_OF_B = np.concatenate([-np.geomspace(8.0, 0.125, 7), np.geomspace(0.125, 8.0, 7)])
_SHORTEST = 1e-6
_USEFUL_GAIN = 0.1  # of a step's gain: a better b that gains more takes another round
_NONE = np.empty(0)


class _Evaluation(NamedTuple):
    """The result of a round: a plane of the risk, slopes along a line, derivatives at other b."""

    risk: float
    offset: float
    balance: float
    gradient: Array
    slopes: Array
    balances: Array


class RoundsGradientDescent:
    """A point (w, b) that moves along L-BFGS directions of the objective with the best b.

    A :class:`~._descent_solver.SmoothDescent`. A round returns risk and gradient at the end of a
    whole step, slopes at other steps, and derivatives in b at other b; if one of these is better,
    a second round goes there. The derivative in b is then small, but not zero. A plane proves a
    bound only if it is zero, so planes of both signs are mixed.
    """

    def __init__(self, problem: NewtonRounds, reg_lambda: float, start: PointToStart | None):
        self._problem, self._lambda = problem, reg_lambda
        self._free = problem.n_free > 0
        _, self._units = problem.sample(0)
        d = problem.n_features
        w, b = (np.zeros(d), None) if start is None else start
        self.w, self.b = w, self._units.intercept if b is None else float(np.ravel(b)[0])
        self._pairs = Corrections(MEMORY)
        self._scale = 1.0 / reg_lambda  # the inverse of a curvature
        means, squares = problem.column_moments()
        self._means = means * self._free
        # With fewer features than samples the Hessian begins with the columns' variances.
        curvature = self._units.slope / self._units.unit
        variances = np.maximum(squares - self._means**2, CONSTANT * squares)
        wide = d >= problem.n_samples
        self._metric = np.ones(d) if wide else 1.0 + curvature / reg_lambda * variances
        self._reach = self._units.unit  # of moves of b
        self._kept: dict[float, _Evaluation] = {}  # the last plane of each sign of balance
        self.n_steps = 0
        self._here = self._evaluate([(self.w, self.b)])
        self._improve_intercept(np.inf)

    @property
    def intercept(self) -> float | Array:
        """The intercept in the form in which the problem has it."""
        return np.array([self.b]) if self._free else 0.0

    @property
    def objective(self) -> float:
        """At the point."""
        return self._here.risk + 0.5 * self._lambda * blas.ddot(self.w, self.w)

    @property
    def predicted_gap(self) -> float:
        """The gap to the plane at the point, if its derivative in b were zero."""
        slopes = self._slopes()
        return blas.ddot(slopes, slopes) / (2.0 * self._lambda)

    def attach(self, problem: NewtonRounds) -> None:
        """Continue with the same data in another object."""
        self._problem = problem

    def detach(self) -> None:
        """Release the data."""
        self._problem = ABSENT

    def plane(self) -> tuple[Array, float]:
        """A plane of the risk from the derivatives at the point."""
        here, sign = self._here, np.sign(self._here.balance)
        if sign == 0.0:
            return here.gradient, here.offset
        other, move = self._kept.get(-sign), abs(here.balance) / self._units.slope
        if other is None or self._lost(other) > _MIXED * self.predicted_gap:
            for _ in range(MOST_MOVES):
                move *= WIDER
                self._evaluate([(self.w, self.b - sign * move)])
                if self._kept.get(-sign) is not other:
                    break
            other = self._kept.get(-sign)
        if other is None:
            return np.zeros_like(here.gradient), 0.0
        share = here.balance / (here.balance - other.balance)
        gradient = (1.0 - share) * here.gradient + share * other.gradient
        return gradient, (1.0 - share) * here.offset + share * other.offset

    def _lost(self, other: _Evaluation) -> float:
        """By how much the mixed plane is below the risk at the point."""
        height = blas.ddot(other.gradient, self.w) + other.offset + other.balance * self.b
        share = self._here.balance / (self._here.balance - other.balance)
        return share * (self._here.risk - height)

    def step(self) -> bool:
        """Take a step; False if no descent direction is left, up to rounding."""
        before, objective = self._slopes(), self.objective
        along = self._direction(before)
        self.n_steps += 1
        if along is None:
            return False
        along_b = -blas.ddot(along, self._means)  # keeps the mean score
        slope = blas.ddot(along, before) + along_b * self._here.balance
        if not slope < 0.0:
            along_b, slope = 0.0, blas.ddot(along, before)
        end = self.w + along, self.b + along_b
        steps = _NEAR if len(self._pairs) else _ANY
        found = self._evaluate([(self.w, self.b), end], steps)
        slopes = self._with_regularizer(found.slopes, along, steps)
        length, whole = 1.0, float(slopes[steps == 1.0][0])
        if not (abs(whole) <= SLOPE_LEFT * -slope and np.isfinite(found.risk)):
            ends, bracket = [(self.w, self.b), end], Bracket((0.0, slope))
            bracket.narrow(steps, slopes)

            def farther(steps: Array) -> Array:
                raw = self._problem.newton_slopes(ends, steps, self._units.unit)
                return self._with_regularizer(raw, along, steps)

            length = search_in_rounds(farther, bracket, precision=SLOPE_LEFT * -slope)
            if not length > 0.0:
                self._pairs.clear()
                self._scale = 1.0 / self._lambda
                return False
            end = self.w + length * along, self.b + length * along_b
            found = self._evaluate([end])
        (self.w, self.b), self._here = end, found
        self._improve_intercept(objective - self.objective)
        change, bend = length * along, self._slopes() - before
        self._pairs.remember(change, bend)
        product, square = blas.ddot(change, bend), blas.ddot(bend, bend / self._metric)
        if product > 0.0 and square > 0.0:
            self._scale = product / square
        return True

    def _improve_intercept(self, gained: float) -> None:
        """Go to the best b, if that gains more than a share of what the step has gained."""
        balance, moves = self._here.balance, self._reach * _MOVES_OF_B
        balances = self._here.balances
        if balance == 0.0 or not (len(balances) and np.isfinite(balances).all()):
            return
        half = len(moves) // 2
        moves, balances = np.insert(moves, half, 0.0), np.insert(balances, half, balance)
        rising = balances >= 0.0
        k = int(np.argmax(rising)) if rising.any() else len(moves)
        if 0 < k < len(moves):
            low, high = balances[k - 1], balances[k]
            move = moves[k - 1] - low * (moves[k] - moves[k - 1]) / (high - low)
        else:
            move = moves[min(k, len(moves) - 1)]
        self._reach = max(2.0 * abs(move), _SHORTEST * self._units.unit)
        if 0.5 * abs(balance * move) > _USEFUL_GAIN * gained or gained == np.inf:
            self.b += move
            self._here = self._evaluate([(self.w, self.b)])

    def _direction(self, slopes: Array) -> Array | None:
        """The corrected gradient, downhill; None where there is none."""
        for _ in range(2):
            along = self._pairs.correct(-slopes, lambda x: self._scale * x / self._metric)
            if -np.inf < blas.ddot(along, slopes) < 0.0:
                return along
            self._pairs.clear()
        return None

    def _with_regularizer(self, slopes: Array, along: Array, steps: Array) -> Array:
        across = self._lambda * blas.ddot(along, self.w)
        square = self._lambda * blas.ddot(along, along)
        return slopes + across + square * steps

    def _slopes(self) -> Array:
        """Of the objective in w."""
        return self._here.gradient + self._lambda * self.w

    def _evaluate(self, ends: list, steps: Array = _NONE) -> _Evaluation:
        """One round, for the point at the end of a line; its plane is kept."""
        moves = self._reach * _MOVES_OF_B if self._free else _NONE
        slopes, balances, sums, gradient = self._problem.plane_sums(
            ends, steps, moves, self._units.unit
        )
        risk, offset, balance = sums.tolist()
        if not self._free:
            balance = 0.0
        offset, balance = without_rounding(offset, balance, self._units.slope, abs(ends[-1][1]))
        found = _Evaluation(risk, offset, balance, gradient, slopes, balances)
        if balance != 0.0 and np.isfinite(sums).all():
            self._kept[np.sign(balance)] = found
        return found


class LBFGSRoundsSolver(DescentSolver[RoundsGradientDescent]):
    """L-BFGS in w and b for smooth losses of rows on workers, where Hessians are too large."""

    needs: ClassVar[type] = NewtonRounds
    name = "lbfgs"
    _problem: NewtonRounds

    @classmethod
    def supports(cls, loss: Loss, omega: Regularizer) -> bool:
        """Whether the loss is one of the smooth losses that have L-BFGS in memory too."""
        form = score_loss(loss)
        smooth = form is not None and form.smooth and not form.quadratic
        return omega.is_euclidean and smooth

    @classmethod
    def is_best(cls, task: Task) -> bool:
        """Always: Newton's method, which is better for few features, comes before it."""
        return True

    def _begin(self, start: PointToStart | None) -> RoundsGradientDescent:
        return RoundsGradientDescent(self._problem, self._lambda, start)


class SquaresRoundsSolver(LBFGSRoundsSolver):
    """L-BFGS for squared errors, for "auto" only: in memory "lbfgs" does not support them."""

    @classmethod
    def supports(cls, loss: Loss, omega: Regularizer) -> bool:
        """Whether the loss is a squared error."""
        form = score_loss(loss)
        return omega.is_euclidean and form is not None and form.quadratic

    @classmethod
    def is_best(cls, task: Task) -> bool:
        """Where Hessians are too large."""
        return task.problem.n_features > MOST_SIDE
