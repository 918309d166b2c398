"""The L2-SVM of many points: Frank-Wolfe methods on an active set that grows."""

from collections.abc import Iterator
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.problems.l2svm import L2SVM
from sklearn_bundle.solvers._run import State
from sklearn_bundle.solvers.swap import KINDS, MOST_REFINEMENTS, REFINEMENTS, SwapSolver, confirmed

Array = NDArray[np.float64]

_LOOSEST = 3e-2  # relative gap of the first problems on the active set
_SHARE = 0.1  # of the gap left over all points, which the next active set is solved to
_SLACK = 0.9  # the same of tol
_MANY = 0.25  # violators per active point
_CLEAR = 0.5  # largest share of Q by which a clear violator falls short of it
_SAMPLE, _SAMPLED = 0.1, 10.0  # size of a sample, of all points and of the active ones
_ENOUGH = 30  # violators in a sample that make it do
_EXACT_SLACK = 0.01  # the same with rows in float64, where it is cheap
_NEAR = 30.0  # times tol: so near that one more problem should do
_COPY = 1.25  # a matrix that grows needs this much of its final space


class ActiveSetSolver:
    """Solves on the active points, adds those that the solution violates, and goes on from there.

    Any point of the small simplex is one of the large one, so every bound holds for all points; the
    objective is known after each look at all of them.

    Parameters
    ----------
    problem : L2SVM
    size : int
        Points to begin with, chosen at random.
    tol : float
        Relative gap that is wanted: the small problems are solved a little further.
    cache_bytes : int
        For the kernel matrix of the active points, or if that is too large for some of its rows.
    start : ndarray of shape (n,), default=None
        Point of the simplex.
    max_steps, algorithm, n_candidates, seed
        As for :class:`~sklearn_bundle.solvers.swap.SwapSolver`.
    """

    history_fields = (*SwapSolver.history_fields, ("active", np.int64))

    def __init__(
        self,
        problem: L2SVM,
        *,
        size: int,
        tol: float,
        cache_bytes: int,
        start: Array | None = None,
        max_steps: int | None = None,
        algorithm: str = "swap-2o",
        n_candidates: int = 0,
        seed: int = 0,
    ):
        self._problem, self._tol, self._cache_bytes = problem, tol, cache_bytes
        self._max_steps = np.inf if max_steps is None else max_steps
        self._settings = {"algorithm": algorithm, "n_candidates": n_candidates, "seed": seed}
        self.indefinite = False
        self.n_steps = self.n_rows = 0
        self.kinds = np.zeros(len(KINDS) + 1, dtype=np.int64)
        self._matrix = np.empty((0, 0), problem.dtype)
        self._filled = self._missed = 0
        self._primal, self._bound = np.inf, -np.inf
        self._rng, self._sampling = np.random.default_rng(seed), False
        self._active = self._first(size, start)
        self._open(np.zeros(len(self._active)) if start is None else start[self._active], None)
        self._look()
        self._sampling = True

    def states(self) -> Iterator[State]:
        """One state for every 128 steps or less, and one for every look at all points."""
        while self._missed < MOST_REFINEMENTS:
            before = self.n_steps
            yield from self._solve()
            self._look()
            yield self._state()
            grown = self._grow()
            if self.n_steps == before and not grown:
                return

    def confirm(self) -> State:
        """Objective of the best point and bound of the newest, from ``K a`` in float64."""
        self._primal, self._best, self._bound = confirmed(self._problem, self._best, self._newest)
        self._missed += 1
        return self._state()

    def _first(self, size: int, start: Array | None) -> np.ndarray:
        """Random points of both classes, as many of each as there are if they are few."""
        if start is not None:
            return np.flatnonzero(start)
        chosen = []
        for sign in (-1.0, 1.0):
            points = np.flatnonzero(self._problem.y == sign)
            chosen.append(self._rng.permutation(points)[: size // 2])
        return np.sort(np.concatenate(chosen))

    def _open(self, a: Array, q: Array | None) -> None:
        """A solver for the active points that starts from a."""
        small = self._problem.part(self._active)
        if not a.any():
            a, q = None, None
        rows = self._matrix_of(small)
        self._small = small
        self._solver = SwapSolver(
            small,
            cache_bytes=self._cache_bytes,
            start=a,
            q=q,
            rows=rows,
            tol=self._wanted(),
            max_steps=self._max_steps - self.n_steps,
            **self._settings,
        )

    def _matrix_of(self, small: L2SVM) -> np.ndarray | None:
        """The kernel matrix of the active points, the new ones last; None if it is too large."""
        n, item = small.n, small.dtype.itemsize
        most = isqrt(int(self._cache_bytes / (item * _COPY)))
        if n > most:
            self._matrix = np.empty((0, 0), small.dtype)
            return None
        if n > len(self._matrix):
            larger = np.empty((min(2 * n, most),) * 2, small.dtype)
            larger[: self._filled, : self._filled] = self._matrix[: self._filled, : self._filled]
            self._matrix = larger
        small.gram(self._matrix, self._filled)
        self._filled = n
        return self._matrix

    def _wanted(self) -> float:
        """Relative gap on the active points."""
        if not np.isfinite(self._primal):
            return _LOOSEST
        gap = (self._primal - self._bound) / self._primal
        least = _SLACK if self._problem.dtype == np.float32 else _EXACT_SLACK
        if gap <= _NEAR * self._tol:
            return least * self._tol
        return max(least * self._tol, min(_LOOSEST, _SHARE * gap))

    def _solve(self) -> Iterator[State]:
        """The problem on the active points, as far as is useful before the next look."""
        wanted = self._wanted()
        steps, kinds, rows = self.n_steps, self.kinds, self.n_rows
        for state in self._solver.states():
            self.n_steps = steps + self._solver.n_steps
            self.kinds = kinds + self._solver.kinds
            self.n_rows = rows + self._solver.n_rows
            self._bound = max(self._bound, state.lower_bound)
            if state.relative_gap <= wanted:
                return
            yield self._state()
        self.indefinite = self._solver.indefinite

    def _look(self) -> None:
        """Scores of all points, and the objective; of a sample, while that shows enough."""
        outside = np.ones(self._problem.n, dtype=bool)
        outside[self._active] = False
        outside = np.flatnonzero(outside)
        size = max(_SAMPLE * self._problem.n, _SAMPLED * len(self._active))
        if self._sampling and size < 0.5 * len(outside):
            sample = self._rng.choice(outside, int(size), replace=False)
            self._look_at(np.sort(sample))
            if len(self._violators()) > _ENOUGH:
                return
            self._sampling = False
        self._look_at(outside)
        a, q, _ = self._newest
        primal = self._problem.primal_value(a, q, self._solver.value)
        self._bound = max(self._bound, 0.5 / self._solver.value)
        if primal < self._primal:
            self._primal, self._best = primal, self._newest

    def _look_at(self, points: np.ndarray) -> None:
        solver, n = self._solver, self._problem.n
        a, q = np.zeros(n), np.full(n, np.inf)  # unknown scores are no violations
        a[self._active], q[self._active] = solver.a, solver.q
        q[points] = self._problem.rough_products(a, points)
        self._newest = a, q, a / solver.value

    def _violators(self) -> np.ndarray:
        """Inactive points with a loss; only the clear cases while they are many."""
        value, outside = self._solver.value, self._newest[1].copy()
        outside[self._active] = np.inf
        violators = np.flatnonzero(outside < value)
        if len(violators) > _MANY * len(self._active):
            gap = (self._primal - self._bound) / self._primal
            clear = violators[outside[violators] < (1.0 - min(gap, _CLEAR)) * value]
            return clear if len(clear) else violators
        return violators

    def _grow(self) -> bool:
        """Add the points whose scores are the lowest, at most as many as there are."""
        problem, solver, q = self._problem, self._solver, self._newest[1]
        violators, most = self._violators(), len(self._active)
        if len(violators) > most:
            violators = violators[np.argpartition(q[violators], most)[:most]]
        a = np.zeros(len(self._active) + len(violators))
        a[: len(self._active)] = solver.a
        self._active = np.concatenate([self._active, violators])
        if self._missed == 0:
            self._open(a, q[self._active])
        else:  # a confirmation failed: from exact scores, and at last with exact rows
            if self._missed > REFINEMENTS and problem.dtype == np.float32:
                problem.promote()
                self._matrix, self._filled = np.empty((0, 0), problem.dtype), 0
            self._open(a, None)
        return len(violators) > 0

    def _state(self) -> State:
        bound, alpha = min(self._bound, self._primal), self._best[2]
        further = (*self.kinds[1:], len(self._active))
        return State(self._primal, bound, alpha, None, self.n_rows, self.n_steps, further)
