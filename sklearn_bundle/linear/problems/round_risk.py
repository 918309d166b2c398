"""The smoothed risk at a point that moves, of rows on workers: a step is a round, or two."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas

from sklearn_bundle.core.contract import ABSENT
from sklearn_bundle.core.limits import SLOPE_LEFT
from sklearn_bundle.core.one_variable import Bracket, search_in_rounds
from sklearn_bundle.linear.problems.balance import MOST_MOVES, WIDER, without_rounding
from sklearn_bundle.linear.problems.linear import LARGEST_RISK
from sklearn_bundle.linear.problems.memory_risk import MemoryRisk
from sklearn_bundle.linear.problems.row_blocks import End, RowBlocks
from sklearn_bundle.linear.problems.score_risk import (
    LARGEST_SAMPLE,
    ROWS_A_FEATURE,
    Line,
    ScoreRisk,
    column_variances,
)

Array = NDArray[np.float64]

_HESSIAN_ROWS = 400  # times d: with these the Hessian of a smooth loss begins
_NARROWER = 0.4  # times the width: the second one that a round evaluates
_BEYOND = 2.0  # times the move of b that would balance the derivatives
_MIXED = 0.3  # share of the predicted gap that mixing with another plane may lose
# Moves of b at which a round returns the derivative, as multiples of a reach on both sides. The
# reach becomes twice the last move, and at least this share of a unit.
_MOVES_OF_B = np.concatenate([-np.geomspace(8.0, 0.125, 7), np.geomspace(0.125, 8.0, 7)])
_SHORTEST = 1e-6
_USEFUL_GAIN = 0.1  # of a step's gain: a better b that gains more takes another round
_SHARE = 32  # one row out of so many for a sample, which travels, and waits for the client alone
_NONE: tuple[()] = ()  # steps along a line, or moves of b


class _Answer(NamedTuple):
    """Of a round: slopes along a line, derivatives in b after moves, and the ends by width."""

    slopes: Array
    balances: Array
    ends: dict[float, End]


class RoundRisk(ScoreRisk):
    """:class:`~.score_risk.ScoreRisk` of rows on workers.

    With ``hessians``, for Newton's method, a round returns the Hessian at the end of a line, and
    planes go to a bundle with their balance. Otherwise it returns derivatives in b at other b; if
    one of these is better, a second round goes there. The derivative in b is then small, but not
    zero. A plane proves a bound only if it is zero, so planes of both signs are mixed.

    Parameters
    ----------
    problem : RowBlocks
    hessians : bool
    sampled : bool, default=False
        Whether to draw a sample of the rows, in the round that draws some of the targets.
    """

    keeps_scores = False

    def __init__(self, problem: RowBlocks, hessians: bool, sampled: bool = False):
        loss = problem.newton_loss
        assert loss is not None
        self._problem, self._hessians = problem, hessians
        # With a quadratic loss a step from anywhere leads to the optimum.
        n_rows = _rows_of_sample(problem) if sampled and not loss.quadratic else 0
        self._sample, units = problem.sample(n_rows)
        super().__init__(loss, problem.n_free > 0, units, problem.shape)
        self._reach = units.unit  # of moves of b
        self._planes: list[tuple[Array, float, Array | None]] = []
        self._kept: dict[float, End] = {}  # the last end of each sign of balance
        self._forget()

    def _forget(self) -> None:
        self._here: dict[float, End] = {}  # at the point, by width
        self._balances = np.empty(0)  # there, after moves of b

    def attach(self, problem: Any) -> None:
        self._problem = problem

    def detach(self) -> None:
        self._problem = ABSENT

    @property
    def scale(self) -> Array:
        return self._problem.column_scale

    def sample(self) -> tuple[MemoryRisk, int] | None:
        """That which came with the targets; it is handed out once."""
        sampled, self._sample = self._sample, None
        if sampled is None:
            return None
        sampled.scale = self.scale
        return sampled, self._problem.n_samples // len(sampled.y)

    def curvature_of_columns(self, reg_lambda: float) -> Array | None:
        """As if all rows had a typical curvature: one round."""
        means, squares = self._problem.column_moments()
        self._means = means * self.free
        if self.is_wide:
            return None
        curvature = self.units.slope / self.units.unit
        return curvature * column_variances(self._means, squares) + reg_lambda

    # ---- the point -----------------------------------------------------------------------------

    def go(self, w: Array, b: float) -> None:
        self.w, self.b = w, b
        self._forget()

    @property
    def intercept(self) -> float | Array:
        return np.array([self.b]) if self.free else 0.0

    def evaluate(self, width: float, precision: float = 0.0) -> None:
        """Take what the round that led here found; one round if it was not at this width."""
        if width not in self._here:
            self._arrive(self._look([(self.w, self.b)], _NONE, width))
        end = self._here[width]
        self.risk, self.offset, self.balance = end.risk, end.offset, end.balance
        self.n_curved, self._gradient = int(end.n_curved), end.gradient

    @property
    def gradient(self) -> Array:
        return self._gradient

    def hessian(self, width: float) -> Array:
        return self._here[width].hessian.copy()

    def nearest_width(self, width: float, before: float) -> float:
        """One that was evaluated, if it is not far below what would do."""
        return max((known for known in self._here if known < before), default=width)

    def improve_intercept(self, gained: float) -> None:
        """Go to the best b, if that gains more than a share of what the step has gained."""
        balance, moves, balances = self.balance, self._reach * _MOVES_OF_B, self._balances
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
        self._reach = max(2.0 * abs(move), _SHORTEST * self.units.unit)
        if 0.5 * abs(balance * move) > _USEFUL_GAIN * gained or gained == np.inf:
            self.go(self.w, self.b + move)
            self.evaluate(self.units.unit)

    # ---- lines ---------------------------------------------------------------------------------

    def step(self, line: Line, width: float) -> float:
        b, slope = self._move_of_best(line) if line.b is None else (line.b, line.slope)
        start, end, length = (self.w, self.b), (self.w + line.w, self.b + b), 1.0
        found = self._look([start, end], line.steps, width)
        slopes = found.slopes + line.across + line.square * line.steps
        whole = float(slopes[line.steps == 1.0][0])
        if not (abs(whole) <= SLOPE_LEFT * -slope and np.isfinite(found.ends[width].risk)):
            bracket, ends = Bracket((0.0, slope)), [start, end]
            bracket.narrow(line.steps, slopes)

            def farther(steps: Array) -> Array:
                (raw,) = self._problem.look(ends, steps, [width])
                return raw + line.across + line.square * steps

            length = search_in_rounds(farther, bracket, precision=line.left * -slope)
            if not length > 0.0:
                return 0.0
            end = start[0] + length * line.w, start[1] + length * b
            found = self._look([end], _NONE, width)
        self.w, self.b = end
        self._arrive(found)
        return length

    def _move_of_best(self, line: Line) -> tuple[float, float]:
        """The b that keeps the mean score, and the slope with it; 0 if that is not downhill."""
        b = -blas.ddot(line.w, self._means)
        slope = line.slope + b * self.balance
        return (b, slope) if slope < 0.0 else (0.0, line.slope)

    def _arrive(self, found: _Answer) -> None:
        """Keep what a round found; second derivatives that are the same everywhere come once."""
        if self.loss.quadratic and self._here:
            hessian = next(iter(self._here.values())).hessian
            found = found._replace(
                ends={width: end._replace(hessian=hessian) for width, end in found.ends.items()}
            )
        self._here, self._balances = found.ends, found.balances

    def _look(
        self, ends: list, steps: Array | tuple[()], width: float, beyond: bool = False
    ) -> _Answer:
        """One round at the end of a line; ``beyond`` the point it is for a plane alone."""
        narrower = self._hessians and not (beyond or self.loss.smooth)
        widths = [width, _NARROWER * width] if narrower else [width]
        every = 0
        if self._hessians and not beyond and not (self.loss.quadratic and self._here):
            every = 1
            if self.loss.smooth and not self.loss.quadratic:
                enough = self.detail * _HESSIAN_ROWS * len(self.w)
                every = self.every = max(1, self._problem.n_samples // enough)
        moves = _NONE if self._hessians or not self.free else self._reach * _MOVES_OF_B
        along, *found = self._problem.look(ends, steps, widths, moves, every)
        for k, end in enumerate(found):
            found[k] = self._without_rounding(end, max(abs(b) for _, b in ends))
        slopes, balances = np.split(along, [len(steps)])
        return _Answer(slopes, balances, dict(zip(widths, found, strict=True)))

    # ---- planes --------------------------------------------------------------------------------

    def _without_rounding(self, end: End, farthest: float) -> End:
        """The end with a plane whose balance is no rounding, which is kept."""
        offset, balance = end.offset, end.balance if self.free else 0.0
        offset, balance = without_rounding(offset, balance, self.units.slope, farthest)
        end = end._replace(offset=offset, balance=balance)
        if not (end.risk <= LARGEST_RISK and np.isfinite([offset, balance]).all()):
            return end
        if self._hessians:
            self._planes.append((end.gradient, offset, np.array([balance]) if self.free else None))
        elif balance != 0.0:
            self._kept[np.sign(balance)] = end
        return end

    def take_planes(self) -> list[tuple[Array, float, Array | None]]:
        planes, self._planes = self._planes, []
        return planes

    def cut_on_other_side(self, width: float) -> None:
        """Cut it beyond the best b: one round."""
        bend = self._here[width].hessian[-1, -1]
        if self.balance and bend > 0.0:
            beyond = self.b - _BEYOND * self.balance / bend
            self._look([(self.w, beyond)], _NONE, width, beyond=True)

    def balanced_plane(self, promised: float) -> tuple[Array, float]:
        """The plane mixed with another one, which takes rounds if none is near."""
        width, sign = self.units.unit, np.sign(self.balance)
        here = self._here[width]
        if sign == 0.0:
            return here.gradient, here.offset
        other, move = self._kept.get(-sign), abs(here.balance) / self.units.slope
        if other is None or self._lost(here, other) > _MIXED * promised:
            for _ in range(MOST_MOVES):
                move *= WIDER
                self._look([(self.w, self.b - sign * move)], _NONE, width)
                if self._kept.get(-sign) is not other:
                    break
            other = self._kept.get(-sign)
        if other is None:
            return np.zeros_like(here.gradient), 0.0
        share = here.balance / (here.balance - other.balance)
        gradient = (1.0 - share) * here.gradient + share * other.gradient
        return gradient, (1.0 - share) * here.offset + share * other.offset

    def _lost(self, here: End, other: End) -> float:
        """By how much the mixed plane is below the risk at the point."""
        height = blas.ddot(other.gradient, self.w) + other.offset + other.balance * self.b
        share = here.balance / (here.balance - other.balance)
        return share * (here.risk - height)


def _rows_of_sample(problem: RowBlocks) -> int:
    """Rows of a sample to begin with; 0 if there are too few to learn from."""
    n, d = problem.n_samples, problem.n_features
    affordable = LARGEST_SAMPLE * n // max(8 * problem.n_entries, 1)
    least = ROWS_A_FEATURE * d
    desired = max(n // _SHARE, least)
    return min(desired, affordable) if least <= min(n // 2, affordable) else 0
