"""Frank-Wolfe methods for the L2-SVM (Allende, Frandi, Nanculef and Sartori, 2013)."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.contract import State
from sklearn_bundle.core.limits import IDLE_LIMIT
from sklearn_bundle.kernel._compiled import lazy, swap
from sklearn_bundle.kernel.problems.l2svm import L2SVM, Candidate
from sklearn_bundle.kernel.solvers.base import (
    MOST_REFINEMENTS,
    KernelSolver,
    SimplexPoints,
    confirmed,
    evaluated,
    vertex,
)

Array = NDArray[np.float64]

# Name -> its number in compiled code.
ALGORITHMS = {
    "fw": swap.USE_FW,
    "cvm": swap.USE_CVM,
    "mfw": swap.USE_MFW,
    "swap": swap.USE_SWAP,
    "swap-2o": swap.USE_SWAP_2O,
}
KINDS = ("fw", "swap_add", "swap_drop", "away", "away_drop")  # of steps, in the order of swap.FW
CHUNK = 128  # steps per state at most: fixed, so that equal seeds agree
_BLOCK = 8  # rows computed together, most of which will be needed: BLAS is several times faster


class SwapSolver(KernelSolver):
    """Maximizes ``-a'Ka`` over the unit simplex.

    Parameters
    ----------
    problem : L2SVM
    algorithm : {"fw", "cvm", "mfw", "swap", "swap-2o"}
    cache_bytes : int
        Memory for the rows of M that are kept, at least two.
    start : SimplexPoints, default=None
        Where to begin; at the first vertex by default. Random vertices depend on the number of
        steps that led there.
    q : ndarray of shape (n,), default=None
        ``K a`` of the newest of these points, if it is known.
    rows : ndarray, default=None
        All rows of M, if they are known.
    last : SwapSolver, default=None
        A solver for the same M with another ridge. This one continues with its point and its
        rows, so it must not be used again.
    tol : float
        Relative gap at which a state ends early.
    max_steps : int, default=infinity
    n_candidates : int
        Number of random vertices among which the next one is chosen; 0 means all.
    seed : int

    Attributes
    ----------
    a, q, value : the point, ``K a`` and ``a'Ka``
    kinds : steps of each kind
    """

    history_fields = tuple((kind, np.int64) for kind in KINDS)

    def __init__(
        self,
        problem: L2SVM,
        *,
        algorithm: str = "swap-2o",
        cache_bytes: int = 1 << 30,
        start: SimplexPoints | None = None,
        q: Array | None = None,
        rows: np.ndarray | None = None,
        last: "SwapSolver | None" = None,
        tol: float = 0.0,
        max_steps: float = np.inf,
        n_candidates: int = 0,
        seed: int = 0,
    ):
        super().__init__(problem, tol, max_steps, 0 if start is None else start.n_steps)
        self._algorithm = ALGORITHMS[algorithm]
        self._cache_bytes = cache_bytes
        self._n_candidates = n_candidates if n_candidates < problem.n else 0
        self._seed = seed
        self.kinds = np.zeros(len(KINDS), dtype=np.int64)
        if last is None:
            self._open_cache(rows)
        else:
            self._reuse(last)
            start = SimplexPoints(last.a)
            q = last.q + last.a * (problem.ridge - last._problem.ridge)
        if start is None:
            start = SimplexPoints(vertex(problem.n))
            if self._matrix.slots[0] < 0:
                self._load(0)
            q = self._matrix.rows[self._matrix.slots[0], : problem.n].astype(np.float64)
            q[0] += problem.ridge[0]
        a = start.newest
        self._set(a.copy(), problem.products(a) if q is None else q.copy())
        self._offer()
        if start.best is not None:
            self._best.offer(*evaluated(problem, start.best))
        if not np.isfinite(self._best.primal):
            raise ValueError("The kernel values are too large, or NaN: scale the features.")

    def states(self) -> Iterator[State]:
        """One state for at most 128 steps; ends when no step is left."""
        idle = 0  # states without progress
        while self._missed < MOST_REFINEMENTS:
            if self._stale:
                self._refine()
            steps, reached = self.n_steps, (self._best.primal, self._best.bound)
            self._advance()
            self._offer()
            yield self._state()
            idle = 0 if (self._best.primal, self._best.bound) != reached else idle + 1
            if idle > IDLE_LIMIT and self._problem.dtype == np.float32:
                idle = 0
                self._leave_single_precision()
            if self.indefinite or idle > IDLE_LIMIT:
                return
            if self.n_steps == steps and not self._stale:
                return

    def confirm(self, *, moving: bool = True) -> State:
        """Objective of the best point and bound of the newest, from ``K a`` in float64.

        Steps continue from this ``K a``.
        """
        self.value = float(np.sum(self.a * self.q))  # Ctrl-C may have left an older one
        newest = self._newest() if self.value > 0.0 else self._best.point
        return self._confirmed(*confirmed(self._problem, self._best.point, newest, moving))

    @property
    def kept(self) -> SimplexPoints:
        """Where the next fit may start."""
        return SimplexPoints.after(self._number, self.a.copy(), self._best.point.a)

    @property
    def _number(self) -> int:
        """Number of steps so far, including those of earlier fits."""
        return self._first_step + self.n_steps

    @property
    def a(self) -> Array:
        return self._point.a

    @property
    def q(self) -> Array:
        return self._point.q

    def _set(self, a: Array, q: Array) -> None:
        active = np.flatnonzero(a)
        self._size = len(active)
        support = np.zeros(len(a), dtype=np.int64)
        support[: self._size] = active
        where = np.full(len(a), -1, dtype=np.int64)
        where[active] = np.arange(self._size)
        self._point, self.value = swap.Point(a, q, support, where), float(np.sum(a * q))

    def _refine(self) -> None:
        """Continue from ``K a`` in float64."""
        self._missed += 1
        self._stale = False
        self._promote_if_due()
        self._set(self.a, self._problem.products(self.a))

    def _promote(self) -> None:
        super()._promote()
        self._open_cache()

    def _open_cache(self, rows: np.ndarray | None = None) -> None:
        """Allocate space for rows of M, or use all of them if they are known."""
        n, problem = self._problem.n, self._problem
        if rows is not None:
            self._source, self._n_kept = None, n
            self._matrix = self._matrix_of(rows, np.arange(n), np.arange(n))
            return
        capacity = self._cache_bytes // (n * problem.dtype.itemsize)
        capacity = int(min(max(2, capacity), n))
        owners = np.zeros(capacity, dtype=np.int64)
        self._matrix = self._matrix_of(problem.space(capacity), np.full(n, -1, np.int64), owners)
        self._source, self._n_kept = problem.compiled(), 0

    def _reuse(self, last: "SwapSolver") -> None:
        if last._problem.dtype != self._problem.dtype:
            self._problem.promote()
        matrix = last._matrix
        self._matrix = self._matrix_of(matrix.rows, matrix.slots, matrix.owners)
        self._source, self._n_kept = last._source, last._n_kept

    def _matrix_of(self, rows: np.ndarray, slots: np.ndarray, owners: np.ndarray) -> swap.Matrix:
        """The matrix with these rows, none of them used yet, and the problem's diagonal."""
        problem = self._problem
        largest = np.finfo(np.float32).max
        single = np.minimum(problem.diagonal, largest).astype(np.float32)
        used = np.zeros(problem.n, dtype=np.int64)
        return swap.Matrix(slots, owners, used, problem.ridge, problem.diagonal, single, rows)

    def _advance(self) -> None:
        """Take up to 128 steps; with rows in float32, fewer if ``tol`` is reached."""
        tol = self._tol if self._problem.dtype == np.float32 else 0.0
        self.value = float(np.sum(self.a * self.q))  # updates accumulate rounding
        kinds = np.zeros(int(min(CHUNK, self._max_steps - self.n_steps)), dtype=np.int8)
        rule = swap.Rule(self._algorithm, tol, self._n_candidates, self._seed)
        if self._source is None:
            done, end = self._steps(rule, kinds)
        else:
            state = self._n_kept, self._point, self.value, self._size
            self.value, self._size, done, self._n_kept, n_rows, end = lazy.run(
                rule, self._matrix, self._source, *state, kinds, self._number
            )
            self.passes += n_rows
        if end == swap.INDEFINITE:
            self._handle_indefinite()
        self.n_steps += done
        self.kinds += np.bincount(kinds[:done], minlength=len(self.kinds))

    def _handle_indefinite(self) -> None:
        """Handle a K that does not seem positive definite: often rounding, mainly in float32."""
        if self._problem.dtype == np.float32:
            self._leave_single_precision()
        else:
            (certificate,) = self._problem.certify(Candidate(self.a, self.q, self.a))
            self.indefinite = self.value > 0.0 or certificate.bound == -np.inf

    def _steps(self, rule: swap.Rule, kinds: np.ndarray) -> tuple[int, int]:
        """Take steps with rows that the problem computes; their number, and what ended them."""
        done = 0
        while True:
            state = self._point, self.value, self._size
            self.value, self._size, done, missing = swap.run(
                rule, self._matrix, *state, kinds, self._number, done
            )
            if missing < 0:
                return done, missing
            self._load(missing)

    def _load(self, i: int) -> None:
        """Compute row i and others that may be needed soon, or only row i in place of another."""
        rows, slots, owners = self._matrix.rows, self._matrix.slots, self._matrix.owners
        free = len(owners) - self._n_kept
        if free > 0 and self.passes > 0:
            chosen = np.empty(min(_BLOCK, free), dtype=np.int64)
            chosen = chosen[: lazy.promising(self.q, self.value, slots, i, chosen)]
        else:
            chosen = np.array([i])
        if free > 0:
            slot = self._n_kept
            self._n_kept += len(chosen)
        else:
            slot = lazy.least_recently_used(self._matrix.used, owners)
            slots[owners[slot]] = -1
        part = slice(slot, slot + len(chosen))
        if self._source is None:
            self._problem.fill(chosen, rows[part])
        else:
            lazy.fill(self._source, chosen, rows[part])
        owners[part] = chosen
        slots[chosen] = np.arange(slot, slot + len(chosen))
        self.passes += len(chosen)

    def _offer(self) -> None:
        """Keep the newest point if it is the best one, and its bound if it is the best bound."""
        if not self.value > 0.0:  # an indefinite kernel
            return
        primal = self._problem.primal_value(self.a, self.q, self.value)
        self._best.raise_bound(0.5 / self.value)
        if primal < self._best.primal:
            self._best.offer(primal, self._newest())

    def _newest(self) -> Candidate:
        return Candidate(self.a.copy(), self.q.copy(), self.a / self.value)

    def _state(self) -> State:
        return self._state_at(self._best.point.alpha, *self.kinds)
