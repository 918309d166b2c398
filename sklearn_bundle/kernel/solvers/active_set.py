"""The L2-SVM of many points: Frank-Wolfe methods on a growing active set."""

from collections.abc import Iterator
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.contract import State
from sklearn_bundle.core.limits import IDLE_LIMIT
from sklearn_bundle.kernel.problems.l2svm import L2SVM, Candidate
from sklearn_bundle.kernel.solvers.base import (
    MOST_REFINEMENTS,
    SLACK,
    KernelSolver,
    SimplexPoints,
    confirmed,
    evaluated,
)
from sklearn_bundle.kernel.solvers.swap import KINDS, SwapSolver

Array = NDArray[np.float64]

# How far the problems on the active points are solved, as relative gaps. If too loose, there are
# more problems; if too tight, steps are spent on points that do not matter in the end. Estimates.
_SHARE = 0.1  # of the gap over all points: the next problem; and the gap of the first one
_NEAR = 30.0  # times tol: if the gap over all points is this small, the next problem is the last

# Which points are added. A violator is an inactive point whose score is below Q. Also estimates.
_SAMPLE, _SAMPLED = 0.1, 10.0  # least size of a sample, per point and per active point
_ENOUGH = 10  # violators in a sample with which a check of all points is unnecessary

_COPY = 1.25  # memory while a matrix is copied to one of twice the side, over that of the new one


class ActiveSetSolver(KernelSolver):
    """Solves on the active points, adds those that violate the solution, and repeats.

    Any point of the small simplex is one of the large one, so every bound holds for all points; the
    objective is known after each check of all of them.

    Parameters
    ----------
    problem : L2SVM
    size : int
        Number of points to begin with, chosen at random.
    tol : float
        The requested relative gap: the small problems are solved a little further.
    cache_bytes : int
        Memory for the kernel matrix of the active points, or for some of its rows if it is too
        large.
    start : SimplexPoints, default=None
        Where to begin; by default at the first of the active points.
    max_steps, algorithm, n_candidates, seed
        See :class:`~.swap.SwapSolver`.
    """

    history_fields = (*SwapSolver.history_fields, ("active", np.int64))

    def __init__(
        self,
        problem: L2SVM,
        *,
        size: int,
        tol: float,
        cache_bytes: int,
        start: SimplexPoints | None = None,
        max_steps: float = np.inf,
        algorithm: str = "swap-2o",
        n_candidates: int = 0,
        seed: int = 0,
    ):
        super().__init__(problem, tol, max_steps, 0 if start is None else start.n_steps)
        self._cache_bytes = cache_bytes
        self._settings = {"algorithm": algorithm, "n_candidates": n_candidates, "seed": seed}
        self.kinds = np.zeros(len(KINDS), dtype=np.int64)
        self._matrix = np.empty((0, 0), problem.dtype)
        self._filled = 0
        self._rng, self._sampling = np.random.default_rng(seed), False
        a = np.zeros(problem.n) if start is None else start.newest
        active = self._first(size, a)
        self._open(active, a[active], None)
        self._check_all()
        if start is not None:
            if start.best is not None:
                self._best.offer(*evaluated(problem, start.best))
            self._grow()  # or a fit of few steps would never reach other points
        self._sampling = True

    def states(self) -> Iterator[State]:
        """One state for at most 128 steps, and one for every check of all points."""
        idle = 0  # problems without progress
        while self._missed < MOST_REFINEMENTS and idle < IDLE_LIMIT:
            steps, reached = self.n_steps, (self._best.primal, self._best.bound)
            yield from self._solve()
            if self.indefinite:
                return
            self._check()
            yield self._state()
            grown = self._grow()
            progress = grown or (self._best.primal, self._best.bound) != reached
            idle = 0 if progress else idle + 1
            if self.n_steps == steps and not grown:
                return

    def confirm(self, *, moving: bool = True) -> State:
        """Objective of the best point and bound of the newest, from ``K a`` in float64."""
        if moving and not self._all_checked:
            self._check_all()
        self._missed += 1
        return self._confirmed(*confirmed(self._problem, self._best.point, self._newest, moving))

    @property
    def kept(self) -> SimplexPoints:
        """Where the next fit may start."""
        newest = np.zeros(self._problem.n)
        newest[self._active] = self._solver.a
        n_steps = self._first_step + self.n_steps
        return SimplexPoints.after(n_steps, newest, self._best.point.a)

    def _first(self, size: int, a: Array) -> np.ndarray:
        """Random points of both classes and those of a; all points of a class if they are few."""
        chosen = [np.flatnonzero(a)]
        for sign in (-1.0, 1.0):
            points = np.flatnonzero(self._problem.y == sign)
            chosen.append(self._rng.permutation(points)[: size // 2])
        return np.unique(np.concatenate(chosen))

    def _open(self, active: np.ndarray, a: Array, q: Array | None) -> None:
        """Make a solver for the active points that starts from a."""
        small = self._problem.part(active)
        solver = SwapSolver(
            small,
            cache_bytes=self._cache_bytes,
            start=SimplexPoints(a, n_steps=self._first_step + self.n_steps) if a.any() else None,
            q=q,
            rows=self._matrix_of(small),
            tol=self._wanted(),
            max_steps=self._max_steps - self.n_steps,
            **self._settings,
        )
        self._active, self._small, self._solver = active, small, solver

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
        self.passes += n - self._filled
        self._filled = n
        return self._matrix

    def _wanted(self) -> float:
        """The relative gap to reach on the active points."""
        if not np.isfinite(self._best.primal):
            return _SHARE
        gap = self._gap()
        if gap <= _NEAR * self._tol:
            return SLACK * self._tol
        return max(SLACK * self._tol, _SHARE * gap)

    def _solve(self) -> Iterator[State]:
        """Solve the problem on the active points as far as is useful before the next check."""
        wanted = self._wanted()
        steps, kinds, passes = self.n_steps, self.kinds, self.passes
        for state in self._solver.states():
            self._all_checked = False
            self.n_steps = steps + self._solver.n_steps
            self.kinds = kinds + self._solver.kinds
            self.passes = passes + self._solver.passes
            self._best.raise_bound(state.lower_bound)
            if state.relative_gap <= wanted:
                return
            yield self._state()
        self.indefinite = self._solver.indefinite
        if self._small.dtype != self._problem.dtype:
            self._promote()

    def _promote(self) -> None:
        super()._promote()
        self._best.drop_bound()  # the bound is of values in single precision
        self._best.raise_bound(0.0)
        self._matrix, self._filled = np.empty((0, 0), self._problem.dtype), 0

    def _check(self) -> None:
        """Check all points, or a sample as long as it shows enough violators."""
        outside = self._outside()
        size = max(_SAMPLE * self._problem.n, _SAMPLED * len(self._active))
        if self._sampling and size < 0.5 * len(outside):
            sample = np.unique(self._rng.integers(0, len(outside), int(size)))
            self._last = self._products(outside[sample])
            if len(self._violators()) > _ENOUGH:
                return
            self._sampling = False
        self._check_all()

    def _check_all(self) -> None:
        """Compute the scores of all points, and the objective."""
        self._last, value = self._products(self._outside()), self._solver.value
        if value > 0.0:  # or the kernel is indefinite
            self._newest = self._last
            primal = self._problem.primal_value(self._last.a, self._last.q, value)
            self._best.raise_bound(0.5 / value)
            self._best.offer(primal, self._newest)
        self._all_checked = True

    def _outside(self) -> np.ndarray:
        outside = np.ones(self._problem.n, dtype=bool)
        outside[self._active] = False
        return np.flatnonzero(outside)

    def _products(self, points: np.ndarray) -> Candidate:
        """a, ``K a`` at the active points and at these with infinity elsewhere, and alpha."""
        solver, n = self._solver, self._problem.n
        a, q = np.zeros(n), np.full(n, np.inf)
        a[self._active], q[self._active] = solver.a, solver.q
        q[points] = self._problem.working_products(a, points)
        return Candidate(a, q, a / solver.value)

    def _violators(self) -> np.ndarray:
        """Inactive points with a loss: those below Q by more than the gap, or all if none is."""
        value, outside = self._solver.value, self._last.q.copy()
        outside[self._active] = np.inf
        violators = np.flatnonzero(outside < value)
        clear = violators[outside[violators] < (1.0 - self._gap()) * value]
        return clear if len(clear) else violators

    def _gap(self) -> float:
        return self._best.gap / self._best.primal

    def _grow(self) -> bool:
        """Add the worst violators, as many as are active at most; whether there were any."""
        solver, q, n_active = self._solver, self._last.q, len(self._active)
        added = self._violators()
        if len(added) > n_active:
            added = added[np.argpartition(q[added], n_active)[:n_active]]
        active = np.concatenate([self._active, added])
        a = np.concatenate([solver.a, np.zeros(len(added))])
        if self._missed == 0:
            self._open(active, a, q[active])
        else:  # a confirmation failed: from exact scores, and at last with exact rows
            self._promote_if_due()
            self._open(active, a, None)
        return len(added) > 0

    def _state(self) -> State:
        return self._state_at(self._best.point.alpha, *self.kinds, len(self._active))
