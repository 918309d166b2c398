"""The L2-SVM of many points: Frank-Wolfe methods on an active set that grows."""

from collections.abc import Iterator
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.problems.l2svm import L2SVM
from sklearn_bundle.solvers._run import State
from sklearn_bundle.solvers.swap import KINDS, MOST_REFINEMENTS, REFINEMENTS, SwapSolver, confirmed

Array = NDArray[np.float64]

_LOOSEST = 1e-2  # relative gap of the first problems on the active set
_SHARE = 0.3  # of the gap left over all points, which the next active set is solved to
_SLACK = 0.5  # the same of tol
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
        self._active = self._first(size, start, np.random.default_rng(seed))
        self._open(np.zeros(len(self._active)) if start is None else start[self._active], None)
        self._look()

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

    def _first(self, size: int, start: Array | None, rng: np.random.Generator) -> np.ndarray:
        """Random points of both classes, as many of each as there are if they are few."""
        if start is not None:
            return np.flatnonzero(start)
        chosen = []
        for sign in (-1.0, 1.0):
            points = np.flatnonzero(self._problem.y == sign)
            chosen.append(rng.permutation(points)[: size // 2])
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
        return max(_SLACK * self._tol, min(_LOOSEST, _SHARE * gap))

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
        """Scores of all points, and the objective."""
        problem, solver = self._problem, self._solver
        a, q = np.zeros(problem.n), np.empty(problem.n)
        a[self._active], q[self._active] = solver.a, solver.q
        others = np.ones(problem.n, dtype=bool)
        others[self._active] = False
        others = np.flatnonzero(others)
        q[others] = problem.rough_products(a, others)
        primal = problem.primal_value(a, q, solver.value)
        self._bound = max(self._bound, 0.5 / solver.value)
        self._newest = a, q, a / solver.value
        if primal < self._primal:
            self._primal, self._best = primal, self._newest

    def _grow(self) -> bool:
        """Add the points whose scores are the lowest, at most as many as there are."""
        problem, solver = self._problem, self._solver
        q = self._newest[1]
        outside = q.copy()
        outside[self._active] = np.inf
        violators = np.flatnonzero(outside < solver.value)
        most = len(self._active)
        if len(violators) > most:
            violators = violators[np.argpartition(outside[violators], most)[:most]]
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
