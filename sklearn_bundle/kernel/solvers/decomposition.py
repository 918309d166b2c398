"""The dual of the kernel L2-SVM by blocks of random points: no matrix of kernel values."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.contract import State
from sklearn_bundle.core.limits import IDLE_LIMIT, MOST_STEPS, TINY
from sklearn_bundle.kernel._compiled import decomposition
from sklearn_bundle.kernel._compiled.tiles import TILE
from sklearn_bundle.kernel.problems.l2svm import L2SVM, Accumulated, Candidate
from sklearn_bundle.kernel.solvers.base import (
    MOST_REFINEMENTS,
    KernelSolver,
    SimplexPoints,
    confirmed,
    vertex,
)

Array = NDArray[np.float64]

_BLOCK = 1024  # points at most: their matrix, 4 MB in float32, is about what a core's cache holds
# How far a block is solved: to this share of its first gain, by so many steps per point at most.
# Its other points move as well, so that more is wasted; estimates.
_SHARE, STEPS = 1e-2, 20
SLOW = 0.999  # share of the gap: blocks that leave more of it hardly progress
_SEARCH_TOL = 1e-6  # accuracy of a line search's step: the objective is off by the square of it


class _Point(NamedTuple):
    """A dual point alpha, ``margins_i = y_i f(x_i)`` of its model, and that model's ``|w|^2``.

    Margins are differences of the scores of both classes, which ``accumulated`` describes.
    """

    alpha: Array
    margins: Array
    square: float
    accumulated: Accumulated

    def scaled(self, t: float) -> "_Point":
        sizes, path_length, spread = self.accumulated
        accumulated = Accumulated(t * sizes, t * path_length, t * spread)
        return _Point(t * self.alpha, t * self.margins, t * t * self.square, accumulated)


class DecompositionSolver(KernelSolver):
    """Maximizes ``sum alpha - 1/2 alpha'K alpha`` over alpha >= 0, a block of points at a time.

    That is the dual of the L2-SVM at a free scale: the point of the simplex is ``alpha / sum
    alpha``. A block is drawn at random, a point with a probability that grows with what it gains
    alone, and solved by steps in two variables each on its own matrix. Then the scores of all
    points are updated, for which kernel values are computed and not kept.

    The bound is that of the newest point at its best scale. The model is the best one on the
    segment from the last model to that of the newest point, block after block.

    Parameters
    ----------
    problem : L2SVM
    start : SimplexPoints, default=None
        Where to begin; by default at the first point alone.
    tol : float
        Relative gap at which no more blocks are solved.
    max_steps : int, default=infinity
    seed : int
    """

    history_fields = (("blocks", np.int64),)

    def __init__(
        self,
        problem: L2SVM,
        *,
        start: SimplexPoints | None = None,
        tol: float = 0.0,
        max_steps: float = np.inf,
        seed: int = 0,
    ):
        super().__init__(problem, tol, max_steps, 0 if start is None else start.n_steps)
        self.n_blocks = 0
        self._rng = np.random.default_rng([seed, self._first_step])
        self._ended = False
        self._alpha, self._scores = np.zeros(problem.n), np.zeros((2, problem.n))
        self._path_length = self._spread = 0.0  # of the newest point
        self._space = np.empty(0, problem.dtype)
        self._started = start is not None
        self._begin(SimplexPoints(vertex(problem.n)) if start is None else start)

    def _begin(self, start: SimplexPoints) -> None:
        """Continue from the points, and from the best model between them."""
        problem = self._problem
        for a in start.different:
            self._alpha, self._scores = a.copy(), np.zeros((2, problem.n))
            active = np.flatnonzero(a)
            problem.add_scores(a[active], active, self._scores)
            self._path_length, self._spread = 1.0, float(np.linalg.norm(a))
            self._update_model()

    def states(self) -> Iterator[State]:
        """One state per block; ends when no step is left."""
        slow, last = 0, np.inf  # blocks that hardly shrank the gap; the gap before them
        while self._missed < MOST_REFINEMENTS:
            if self._stale:
                self._refine()
                slow, last = 0, np.inf
            steps = self.n_steps
            if not (self._started and self._best.gap <= self._tol * self._best.primal):
                self._solve_block()
            self._started = False
            yield self._state()
            if self.indefinite or self._ended:
                return
            slow = 0 if self._best.gap < SLOW * last else slow + 1
            last = last if slow else self._best.gap
            if self._stale or (self.n_steps > steps and slow <= IDLE_LIMIT):
                continue
            if self.n_steps >= self._max_steps or self._problem.dtype != np.float32:
                return
            self._leave_single_precision()

    def confirm(self, *, moving: bool = True) -> State:
        """Objective of the model and bound of the newest point, recomputed in float64."""
        point = self._best.point
        model = self._candidate(point)
        newest = model if self._suffices(model) else self._candidate(self._newest())
        primal, _, bound = confirmed(self._problem, model, newest, moving=False)
        return self._confirmed(primal, point, bound)

    @property
    def kept(self) -> SimplexPoints:
        """Where the next fit may start."""
        model = self._best.point.alpha
        n_steps, newest = self._first_step + self.n_steps, self._alpha / self._alpha.sum()
        return SimplexPoints.after(n_steps, newest, model / model.sum())

    def _suffices(self, model: Candidate) -> bool:
        """Whether the model's own dual point gives a bound within ``tol``: one instead of two."""
        value = float(np.sum(model.a * model.q))
        return (1.0 - self._tol) * self._best.primal <= 0.5 / value

    def _candidate(self, point: _Point) -> Candidate:
        total, (sizes, path_length, spread) = point.alpha.sum(), point.accumulated
        q = (point.margins + self._problem.ridge * point.alpha) / total
        accumulated = Accumulated(sizes / total, path_length / total, spread / total)
        return Candidate(point.alpha / total, q, point.alpha, accumulated)

    def _newest(self) -> _Point:
        margins, sizes = self._margins(), self._scores[0] + self._scores[1]
        square = float(np.sum(self._alpha * margins))
        accumulated = Accumulated(sizes, self._path_length, self._spread)
        return _Point(self._alpha, margins, square, accumulated)

    def _margins(self) -> Array:
        return self._problem.y * (self._scores[0] - self._scores[1])

    def _exact(self, point: _Point) -> _Point:
        """The point with margins recomputed in float64."""
        total = point.alpha.sum()
        a = point.alpha / total
        margins = (self._problem.products(a) - self._problem.ridge * a) * total
        square = float(np.sum(point.alpha * margins))
        spread = float(np.linalg.norm(point.alpha))
        accumulated = point.accumulated._replace(path_length=total, spread=spread)
        return _Point(point.alpha, margins, square, accumulated)

    def _refine(self) -> None:
        """Continue from scores in float64; blocks in single precision only add what alpha moves."""
        self._missed += 1
        self._stale = False
        self._promote_if_due()
        model = self._best.point = self._exact(self._best.point)
        same = np.array_equal(model.alpha, self._alpha)
        newest = model if same else self._exact(self._newest())
        # What is missing goes to the class whose scores it makes larger.
        missing = self._problem.y * newest.margins - (self._scores[0] - self._scores[1])
        self._scores += np.maximum(0.0, np.array([missing, -missing]))
        _, self._path_length, self._spread = newest.accumulated
        self._update_model()

    def _solve_block(self) -> None:
        """Draw a block, solve it, and bring scores, model and bound up to date."""
        problem = self._problem
        curvature, alpha = problem.diagonal, self._alpha
        slope = 1.0 - self._margins() - problem.ridge * alpha
        block = self._draw(slope, curvature)
        if not len(block):
            return
        slope, curvature, alpha = slope[block], curvature[block], alpha[block]
        scale = 1.0 / np.sqrt(curvature)
        slope *= scale
        unit = float(np.abs(slope).max())
        g, u = np.zeros((2, -(-len(slope) // TILE) * TILE), problem.dtype)
        g[: len(slope)] = slope / unit
        u[: len(slope)] = alpha / (scale * unit)
        before = u.copy()
        most = int(min(STEPS * len(slope), self._max_steps - self.n_steps))
        H, share = self._matrix(block, scale), problem.dtype.type(_SHARE)
        steps, indefinite = decomposition.solve(H, g, u, share, most)
        self.n_steps += steps
        self.n_blocks += 1
        if indefinite:
            self._handle_indefinite(certain=True)
            return
        changed = np.flatnonzero(u != before)
        moved = block[changed]
        change = (u - before)[changed].astype(np.float64) * scale[changed] * unit
        alpha = np.where(u[changed] > 0.0, np.maximum(self._alpha[moved] + change, 0.0), 0.0)
        change = alpha - self._alpha[moved]
        if change.any():
            self._alpha[moved] = alpha
            problem.add_scores(change, moved, self._scores)
            self._path_length += float(np.sum(np.abs(change)))
            self._spread = float(np.hypot(self._spread, np.linalg.norm(change)))
            self.passes += len(moved)
        self._update_model()

    def _draw(self, slope: Array, curvature: Array) -> np.ndarray:
        """Points that gain something, by weights that are the square roots of their gains."""
        step = np.maximum(slope / curvature, -self._alpha)
        gains = step * (slope - 0.5 * curvature * step)
        useful = np.flatnonzero(gains > 0.0)
        if len(useful) <= _BLOCK:
            return useful
        weights = np.sqrt(gains[useful] / gains.max())
        # The smallest of exponential variables over weights: drawn without replacement.
        times = self._rng.standard_exponential(len(useful)) / np.maximum(weights, TINY)
        return np.sort(useful[np.argpartition(times, _BLOCK)[:_BLOCK]])

    def _matrix(self, block: np.ndarray, scale: Array) -> np.ndarray:
        """That of the block, scaled to a diagonal of ones, padded."""
        side = -(-len(block) // TILE) * TILE
        if len(self._space) < side**2:
            self._space = np.empty(side**2, self._problem.dtype)
        H = self._space[: side**2].reshape(side, side)
        self._problem.square(block, scale, H)
        np.fill_diagonal(H, 1.0)
        return H

    def _update_model(self) -> None:
        """Take the best scale of alpha, whose bound that is; then the best model with it."""
        ridge, newest = self._problem.ridge, self._newest()
        total = float(self._alpha.sum())
        value = newest.square + float(np.sum(ridge * self._alpha**2))
        if not value > 0.0:
            self._handle_indefinite(certain=False)
            return
        scale = total / value
        newest, model = newest.scaled(scale), self._best.point
        self._alpha = newest.alpha.copy()
        _, self._path_length, self._spread = newest.accumulated
        self._scores *= scale
        self._best.raise_bound(0.5 * scale * total)
        if model is not None:
            newest = self._between(model, newest)
        slack = np.maximum(0.0, 1.0 - newest.margins)
        primal = 0.5 * newest.square + 0.5 * float(np.sum(slack**2 / ridge))
        if not (np.isfinite(primal) or np.isfinite(self._best.primal)):
            raise ValueError("The kernel values are too large, or NaN: scale the features.")
        self._best.offer(primal, newest)

    def _between(self, start: _Point, end: _Point) -> _Point:
        """The point of least objective on a segment."""
        ridge = self._problem.ridge
        toward = end.margins - start.margins
        product = float(np.sum(start.alpha * end.margins))
        slope_0 = product - start.square
        curvature_0 = max(start.square - 2.0 * product + end.square, 0.0)
        low, high, step = 0.0, 1.0, 0.5
        for _ in range(MOST_STEPS):
            slack = np.maximum(0.0, 1.0 - start.margins - step * toward) / ridge
            slope = slope_0 + step * curvature_0 - float(np.sum(slack * toward))
            curvature = curvature_0 + float(np.sum(np.where(slack > 0.0, toward**2 / ridge, 0.0)))
            low, high = (low, step) if slope > 0.0 else (step, high)
            newton = step - slope / curvature if curvature > 0.0 else 0.5 * (low + high)
            last, step = step, min(max(newton, low), high)
            if abs(step - last) <= _SEARCH_TOL:
                break
        if step == 1.0:
            return end
        square = start.square + 2.0 * step * slope_0 + step**2 * curvature_0
        alpha = (1.0 - step) * start.alpha + step * end.alpha
        first, last = start.accumulated, end.accumulated
        sizes = (1.0 - step) * first.sizes + step * last.sizes
        path_length = (1.0 - step) * first.path_length + step * last.path_length
        spread = (1.0 - step) * first.spread + step * last.spread
        accumulated = Accumulated(sizes, path_length, spread)
        return _Point(alpha, start.margins + step * toward, square, accumulated)

    def _handle_indefinite(self, certain: bool) -> None:
        """Handle a K that does not seem positive semidefinite: often rounding, mainly in float32.

        In float64, unless that is ``certain``, the certificate of the newest point decides.
        """
        if self._best.point is None:
            self._promote()
            self._begin(SimplexPoints(vertex(self._problem.n)))  # rounding cannot spoil this one
        elif self._problem.dtype == np.float32:
            self._leave_single_precision()
        else:
            (certificate,) = self._problem.certify(self._candidate(self._newest()))
            self.indefinite = certain or certificate.bound == -np.inf
            self._ended = True

    def _promote(self) -> None:
        super()._promote()
        self._space = np.empty(0, self._problem.dtype)

    def _state(self) -> State:
        return self._state_at(self._best.point.alpha, self.n_blocks)
