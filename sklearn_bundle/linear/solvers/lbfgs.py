"""L-BFGS for smooth losses of one score: of rows in memory, and of rows on workers."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas

from sklearn_bundle.core.contract import ABSENT
from sklearn_bundle.core.lbfgs import Corrections
from sklearn_bundle.core.limits import CONSTANT, MEMORY, REFRESHED, SLOPE_LEFT
from sklearn_bundle.core.one_variable import Bracket, search_in_rounds, search_zero
from sklearn_bundle.linear._compiled import design
from sklearn_bundle.linear.problems.linear import LinearProblem
from sklearn_bundle.linear.problems.newton_model import NewtonModel
from sklearn_bundle.linear.problems.row_blocks import RowBlocks
from sklearn_bundle.linear.solvers._descent import COARSEST
from sklearn_bundle.linear.solvers.rounds import MOST_MOVES, WIDER, without_rounding
from sklearn_bundle.linear.solvers.solver import PointToStart

Array = NDArray[np.float64]

# Largest derivative in b that is left, in objectives per unit of the scores. Balancing the plane
# costs about that derivative times the unit.
_BALANCED = 1e-9
# The least, in typical slopes: with 1e-12 nearly separable data stalled at gaps of 5e-3.
_FINEST = 1e-14

# In rounds.
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


class ScoreDescent:
    """A point w, at its best intercept, that moves along L-BFGS directions of the objective.

    The objective is ``reg_lambda/2 ||w||^2 + min_b R(w, b)``. With fewer features than samples a
    direction begins with the curvature's diagonal; otherwise most eigenvalues are reg_lambda, and
    the newest pair gives its length. The line search uses only scores: a step costs one product
    with X and one with X'.

    Parameters
    ----------
    problem : LinearProblem
    reg_lambda : float
    start : (ndarray of shape (d,), intercept)
        A point whose objective is above that of w = 0 is not used.

    Attributes
    ----------
    w : ndarray of shape (d,)
        The point; arrays are not written to again.
    intercept, objective : float
    n_steps : int
    """

    def __init__(
        self,
        problem: LinearProblem,
        reg_lambda: float,
        start: PointToStart,
    ):
        self._model: NewtonModel
        self.attach(problem)
        model = self._model
        self._lambda = reg_lambda
        self._units = model.loss.start(model.y, model.weights, model.free)
        n, d = model.rows.shape
        self._derivatives, self._scratch = np.empty((2, n))
        self._pairs = Corrections(MEMORY)
        self.n_steps, self.objective = 0, np.inf
        self._zero = np.zeros(d)
        self._move_to(self._zero)
        if start[0].any():
            highest = self.objective
            self._move_to(start[0])
            if not self.objective <= highest:
                self._move_to(self._zero)
        self._diagonal = self._curvature_of_columns() if d < n else None
        self._slopes = self._differentiate()

    @property
    def predicted_gap(self) -> float:
        """The gap to the plane at the point."""
        return blas.ddot(self._slopes, self._slopes) / (2.0 * self._lambda)

    def plane(self) -> tuple[Array, float]:
        """A plane of the risk from the derivatives at the point."""
        return self._gradient, self._offset

    def attach(self, problem: LinearProblem) -> None:
        """Continue with the same data in another object."""
        self._model = problem.newton_model()

    def detach(self) -> None:
        """Release the data."""
        self._model = ABSENT

    def step(self) -> bool:
        """Take a step; False if no descent direction is left, up to rounding."""
        along = _downhill(self._pairs, self._slopes, self._solved)
        if along is None:
            return False
        model = self._model
        direction = model.rows.scores(along)
        across = self._lambda * blas.ddot(along, self.w)
        square = self._lambda * blas.ddot(along, along)
        along_b = self._move_of_intercept(direction)
        args = self._scores, direction, *self._args, along_b

        def derivative(t: float) -> tuple[float, float]:
            first, second = model.loss.smoothed_slope(*args, t)
            return first + across + t * square, second + square

        length = search_zero(derivative, precision=SLOPE_LEFT)
        self.n_steps += 1
        if not length > 0.0:
            self._pairs.clear()
            self._move_to(self.w)
            self._slopes = self._differentiate()
            return False
        change, before = length * along, self._slopes
        if self.n_steps % REFRESHED == 0:
            self._move_to(self.w + change)
        else:
            self.w = self.w + change
            design.add(length, direction, self._scores)
            self.intercept += length * along_b
            self._evaluate()
        self._slopes = self._differentiate()
        self._pairs.remember(change, self._slopes - before)
        return True

    @property
    def _args(self) -> tuple:
        model = self._model
        return model.y, model.weights, self._units.unit, self.intercept

    def _move_to(self, w: Array) -> None:
        """Move to w, with its scores from the data and the intercept that fits the targets."""
        n = len(self._model.y)
        self.w = w
        self._scores = self._model.rows.scores(w) if w.any() else np.zeros(n)
        self.intercept = self._units.intercept
        self._evaluate()

    def _evaluate(self) -> None:
        """Compute the best intercept, the objective, and derivatives that balance."""
        model, units = self._model, self._units
        if model.free:
            left = units.slope
            if np.isfinite(self.objective):
                left = _BALANCED * self.objective / units.unit
            precision = min(max(left, _FINEST * units.slope), COARSEST * units.slope)
            args = self._scores, *self._args, units.unit, precision, self._scratch
            self.intercept = model.loss.smoothed_intercept(*args)
        risk, self._offset = model.loss.smoothed_cut(
            self._scores, *self._args, model.free, self._derivatives
        )
        self.objective = risk + 0.5 * self._lambda * blas.ddot(self.w, self.w)

    def _differentiate(self) -> Array:
        """Gradient of the objective; that of the risk is the plane's."""
        self._gradient = self._model.rows.gradient(self._derivatives)
        return self._gradient + self._lambda * self.w

    def _solved(self, x: Array) -> Array:
        if self._diagonal is not None:
            return x / self._diagonal
        return x * (self._pairs.scale if len(self._pairs) else 1.0 / self._lambda)

    def _curvature(self) -> tuple[NDArray[np.int64], Array]:
        """The rows with curvature, and their curvature."""
        rows, coefs = self._scratch.view(np.int64), np.empty(len(self._scratch))
        size = self._model.loss.curved(self._scores, *self._args, rows, coefs)
        return rows[:size], coefs[:size]

    def _move_of_intercept(self, direction: Array) -> float:
        """The change of the best intercept along the direction, to first order."""
        if not self._model.free:
            return 0.0
        rows, curvature = self._curvature()
        total = float(curvature.sum())
        move = -float(curvature @ direction[rows]) / total if total > 0.0 else 0.0
        return move if np.isfinite(move) else 0.0

    def _curvature_of_columns(self) -> Array:
        """Diagonal of the Hessian, as if all rows had the same curvature."""
        model = self._model
        _, curvature = self._curvature()
        variances = squares = model.rows.column_squares(model.weights)
        if model.free:
            means = model.rows.gradient(model.weights)
            variances = np.maximum(squares - means**2, CONSTANT * squares)
        return float(curvature.sum()) * variances + self._lambda


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

    A :class:`~.descent_solver.SmoothDescent`. A round returns risk and gradient at the end of a
    whole step, slopes at other steps, and derivatives in b at other b; if one of these is better,
    a second round goes there. The derivative in b is then small, but not zero. A plane proves a
    bound only if it is zero, so planes of both signs are mixed.
    """

    def __init__(self, problem: RowBlocks, reg_lambda: float, start: PointToStart):
        self._problem, self._lambda = problem, reg_lambda
        self._free = problem.n_free > 0
        _, self._units = problem.sample(0)
        d = problem.n_features
        self.w, b = start
        self.b = self._units.intercept if b is None else float(np.ravel(b)[0])
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

    def attach(self, problem: RowBlocks) -> None:
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
        along = _downhill(self._pairs, before, self._solved)
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

    def _solved(self, x: Array) -> Array:
        return self._scale * x / self._metric

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


def _downhill(pairs: Corrections, slopes: Array, solve: Callable[[Array], Array]) -> Array | None:
    """The corrected gradient, downhill; None if there is no such direction without pairs either."""
    for _ in range(2):
        along = pairs.correct(-slopes, solve)
        if -np.inf < blas.ddot(along, slopes) < 0.0:
            return along
        pairs.clear()
    return None
