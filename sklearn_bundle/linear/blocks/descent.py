"""Solvers on blocks: descent of a loss of one score in few rounds, and what all fits there need."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, lapack

from sklearn_bundle.core.contract import OutOfTime, State
from sklearn_bundle.core.limits import CONSTANT, MOST_SIDE
from sklearn_bundle.linear.blocks.risk import BlockPoint, BlockRisk, split
from sklearn_bundle.linear.blocks.rounds import ClusterTimeout
from sklearn_bundle.linear.certificate import Proof, bound_of
from sklearn_bundle.linear.solvers.base import Solver, narrower, next_ridge, step_length
from sklearn_bundle.linear.solvers.descent import COARSE, SLOW, Descent, cholesky

Array = NDArray[np.float64]


class BlockDescent(Descent):
    """Newton's method up to 2,000 features, else L-BFGS; kinked losses bend over a width.

    The width is narrowed as soon as a step promises less than the smoothing hides. Each step is a
    round, if its length is accepted, with the Hessian where that is wanted.
    """

    risk: BlockRisk  # type: ignore[assignment]
    point: BlockPoint
    patience = 30

    def start_moving(self) -> None:
        risk, known = self.risk, self.start.of(float)
        self._newton = risk.dimension <= MOST_SIDE and self.task.solver != "lbfgs"
        # in units of the scores; every row bends at w = 0
        self._width = (known or 2.0 * risk.units.unit) if risk.kinked else 0.0
        self._ridge, self._detail, self._n_bent = 0.0, 1, risk.rows.shape[0]
        self._factor: Array | None = None
        self._mean, self._total, self._scale = np.zeros(0), 1.0, 1.0
        self._every = self._next_every()

    @property
    def reusable(self) -> float | None:
        return self._width or None

    def go(self, w: Array, b: Any) -> None:
        b = np.full(max(self.risk.n_free, 1), self.risk.units.intercept) if b is None else b
        self.arrive(self.risk.arrive(w, w, b, self._width, self._every))

    def differentiate(self, point: BlockPoint | None = None) -> Array:
        point = self.point if point is None else point
        slopes = point.gradient + self.reg_lambda * self.omega.image(point.w)
        return np.append(slopes, self.risk.balance(point)) if self.risk.n_free else slopes

    def proof(self) -> tuple[Proof, float]:
        plane = self.risk.balanced_plane(self.point)
        return Proof(plane=plane), bound_of(plane, self.omega, self.reg_lambda, self.point.b)

    def move(self, along: Array, left: float) -> float:
        """A whole step with a narrower width if that is due; else a step of this width."""
        here, promised = self.point, -blas.ddot(along, self.slopes)
        # the smoothing may leave 0.3 of the gap asked for
        hidden, wanted = self._hidden(), 0.3 * self.tol * abs(self.best.primal)
        if self._width > 0.0 and hidden > wanted and promised <= hidden:
            share = narrower(wanted, hidden)
            width = share * self._width
            end = self._at(here, self._narrowing(share, along), 1.0, width)
            if self.objective(end.w, end.risk) <= self.value + hidden:
                self._width = width
                self.arrive(end)
                return 1.0
        at: dict[float, BlockPoint] = {}

        def derivative(t: float) -> tuple[float, float]:
            """By secants, each in a round."""
            at[t] = self._at(here, along, t, here.width)
            first = blas.ddot(along, self.differentiate(at[t]))
            return first, (first + promised) / t

        t = step_length(derivative, left)
        self._ridge = next_ridge(self._ridge, t)
        if t > 0.0:
            self.arrive(at[t])
        return t

    def _at(self, here: BlockPoint, along: Array, t: float, width: float) -> BlockPoint:
        p = len(here.w)
        w, b = here.w + t * along[:p], here.b + (t * along[p:] if self.risk.n_free else 0.0)
        return self.risk.arrive(w, w, b, width, self._every)

    def _narrowing(self, share: float, along: Array) -> Array:
        """The step that keeps the derivatives of the rows that bend, in a share of the width.

        These are proportional to the distance to the kink, over the width.
        """
        factor, mean, total = self._factored(1.0 / share)
        if factor is None:
            return along
        steeper = (1.0 / share - 1.0) * self.point.bent[: len(self.slopes)]
        return -self._solved(self.slopes + steeper, factor, mean, total)

    def _hidden(self) -> float:
        """What the smoothing alone leaves of the gap of the point and its plane."""
        point, plane = self.point, self.risk.plane(self.point)
        free = float(plane.balance @ point.b) if self.risk.n_free else 0.0
        return point.risk - plane.offset - float(plane.gradient @ point.w) - free

    def remember(self, step: Array, change: Array) -> None:
        """Of a kinked loss every step has its own Hessian; a diagonal is scaled to fit the pair."""
        if self._width > 0.0:
            return
        super().remember(step, change)
        if self._factor is None:
            product, square = blas.ddot(step, change), blas.ddot(change, self.solve(change))
            good = product > 0.0 and square > 0.0
            self._scale = self._scale * product / square if good else self._scale

    def renew_metric(self) -> None:
        if len(self.point.curved):
            self._n_bent = self.point.bent[-1] if len(self.point.bent) else self._n_bent
            self._factor, self._mean, self._total = self._factored(1.0, self._ridge)
            self.name = "newton"
            self.pairs.clear()
        if self.n_steps > 1 and self.fall > COARSE:
            self._detail *= 2
        self._every = self._next_every()

    def _factored(self, steeper: float, ridge: float = 0.0) -> tuple[Array | None, Array, float]:
        """The factor of the Hessian times a number, the mean row, the sum of the coefficients."""
        H, mean, total = split(steeper * self.point.curved)
        np.einsum("ii->i", H)[:] += ridge * (float(H.diagonal().mean()) + np.finfo(float).tiny)
        return cholesky(H, self.reg_lambda, self.omega), mean, total

    def _next_every(self) -> int:
        """Of how many curved rows the next Hessian takes one; 0 if there is none."""
        rows, loss, known = self.risk.rows, self.risk.loss, self._factor is not None
        (n, d), entries = rows.shape, max(rows.n_entries / rows.shape[0], 1.0)
        if not (self._newton and self.risk.has_curvature):
            return 0
        near = self.best.gap**2 <= self.tol * self.best.primal**2  # Newton's steps square the gap
        # in the first steps nothing is known of the gain
        near = near and (self.n_steps < 3 or self.fall <= COARSE)
        if loss.smooth and known and (loss.quadratic or near or self.fall <= SLOW):
            return 0
        if loss.quadratic:
            return 1
        # 4 rows a feature, or as many as take as long as two passes over all rows, or 10 ms
        enough = max(4 * d, 4 * n / entries, 1e8 / entries**2)
        return max(1, int(self._n_bent / (self._detail * enough)))

    def solve(self, x: Array) -> Array:
        if self._factor is not None:
            return self._solved(x, self._factor, self._mean, self._total)
        squares, mean = self.risk.feature_moments(False, False)
        variances = np.maximum(squares - mean**2, CONSTANT * squares)
        diagonal = self._total * variances + self.reg_lambda * self.omega.diagonal
        scale = self._scale if len(self.pairs) else 1.0
        return scale * self._solved(x, diagonal + np.finfo(float).tiny, mean, self._total)

    def _solved(self, x: Array, factor: Array, mean: Array, total: float) -> Array:
        """The metric's inverse times x; b keeps the mean score of the rows that bend.

        It has a curvature in b with which no step is longer than the unit of scores.
        """
        p = len(mean)
        b = x[p:]
        w = x[:p] - mean * b if len(b) else x
        w = lapack.dpotrs(factor, w, lower=0)[0] if factor.ndim == 2 else w / factor
        if not len(b):
            return w
        balance = float(np.abs(self.risk.balance(self.point)).sum())
        total = max(total, balance / self.risk.units.unit, np.finfo(float).tiny)
        return np.append(w, b / total - float(mean @ w))


class OnBlocks:
    """A solver whose history has the number of rounds, and which ends in time whatever waits.

    A round that is not answered by then ends it with its last state, which was computed from the
    data. What rounding has added to its bound is not known: a nonnegative risk has the bound 0.
    """

    def __init__(self, solver: Solver):
        self._solver, self._last = solver, None
        self.history_fields = (*solver.history_fields, ("rounds", np.int64))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._solver, name)

    def states(self) -> Iterator[State]:
        with self._in_time():
            for state in self._solver.states():
                yield self._counted(state)

    def confirm(self, *, moving: bool = True) -> State:
        self._solver.risk.rounds.confirming()
        with self._in_time():
            return self._counted(self._solver.confirm(moving=moving))

    @contextmanager
    def _in_time(self) -> Iterator[None]:
        try:
            yield
        except ClusterTimeout as error:
            if self._last is None:
                raise
            raise OutOfTime(replace(self._last, lower_bound=self._solver.best.least)) from error

    def _counted(self, state: State) -> State:
        """The state with rounds; an intercept of one coordinate is a number."""
        if np.shape(state.intercept) == (1,):
            state.intercept = float(state.intercept[0])
        state.further = (*state.further, self._solver.risk.rounds.n_rounds)
        self._last = state
        return state
