"""Frank-Wolfe methods for the L2-SVM (Allende, Frandi, Nanculef and Sartori, 2013)."""

from collections.abc import Iterator
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle._compiled import swap
from sklearn_bundle.solvers._run import State

Array = NDArray[np.float64]

ALGORITHMS = {
    "fw": swap.USE_FW,
    "cvm": swap.USE_CVM,
    "mfw": swap.USE_MFW,
    "swap": swap.USE_SWAP,
    "swap-2o": swap.USE_SWAP_2O,
}
_CHUNK = 64  # steps between two looks at the certificate: fixed, so that equal seeds agree
_ROUNDING = 1e-15


class SimplexProblem(Protocol):
    """What the solver asks for: ``K = M + diag(ridge)``, M by rows."""

    n: int
    ridge: Array
    diagonal: Array

    def fill(self, i: int, out: np.ndarray) -> None:
        """Row i of M into ``out``, in the dtype of ``out``."""

    def products(self, a: Array) -> Array:
        """``K a`` afresh in float64."""

    def primal_value(self, a: Array, q: Array, value: float) -> float:
        """Objective of the model that belongs to a, with ``q = K a`` and ``value = a'q``."""


class SwapSolver:
    """Maximises ``-a'Ka`` over the unit simplex.

    Parameters
    ----------
    problem : SimplexProblem
    algorithm : {"fw", "cvm", "mfw", "swap", "swap-2o"}
    capacity : int
        Rows of M that may be kept, at least 2.
    dtype : numpy dtype
        Of the kept rows.
    start : ndarray of shape (n,)
        Point of the simplex; the first vertex by default.
    n_candidates : int
        Random vertices among which to look for the next one; 0 looks at all.
    seed : int
    """

    def __init__(
        self,
        problem: SimplexProblem,
        *,
        algorithm: str = "swap-2o",
        capacity: int,
        dtype: type = np.float32,
        start: Array | None = None,
        n_candidates: int = 0,
        seed: int = 0,
    ):
        self._problem = problem
        self._algorithm = ALGORITHMS[algorithm]
        self._n_candidates, self._seed = n_candidates, seed
        n = problem.n
        self.a = np.zeros(n) if start is None else start.copy()
        if start is None:
            self.a[0] = 1.0
        self._slots = np.full(n, -1, dtype=np.int64)  # of every row; -1 is not kept
        self._used = np.zeros(n, dtype=np.int64)
        self._owners: list[int] = []  # of every slot
        self._rows = np.empty((min(max(2, capacity), n), n), dtype=dtype)
        self.n_steps = 0
        self.kinds = np.zeros(6, dtype=np.int64)  # steps of every kind so far
        self.n_rows = 0  # rows computed
        self._primal = np.inf
        self._bound = -np.inf
        self.best = self.a
        self._refresh()

    def states(self) -> Iterator[State]:
        """One state for every 64 steps; ends when no step is left."""
        while True:
            steps = self._advance()
            self._offer()
            yield self._state()
            if steps == 0:
                return

    def confirm(self) -> State:
        """Objective at the best point and bound at the newest, with ``q = K a`` in float64."""
        self._refresh()
        self._bound = 0.5 / self.value
        best, self._primal = self.best, np.inf
        self._offer()
        q = self._problem.products(best)
        primal = self._problem.primal_value(best, q, float(np.sum(best * q)))
        if primal < self._primal:
            self._primal, self.best = primal, best
        return self._state()

    def _refresh(self) -> None:
        self._support = np.zeros(len(self.a), dtype=np.int64)
        self._where = np.full(len(self.a), -1, dtype=np.int64)
        active = np.flatnonzero(self.a)
        self._size = len(active)
        self._support[: self._size] = active
        self._where[active] = np.arange(self._size)
        self.q = self._problem.products(self.a)
        self.value = float(np.sum(self.a * self.q))

    def _advance(self) -> int:
        """Up to 64 steps; returns their number."""
        kinds = np.zeros(_CHUNK, dtype=np.int8)
        done, missing = 0, 0
        while missing >= 0:
            self.value, self._size, done, missing = swap.run(
                self._algorithm,
                self._rows,
                self._slots,
                self._used,
                self._problem.ridge,
                self._problem.diagonal,
                self.q,
                self.value,
                self.a,
                self._support,
                self._where,
                self._size,
                _ROUNDING,
                kinds,
                self.n_steps,
                done,
                self._n_candidates,
                self._seed,
            )
            if missing >= 0:
                self._load(missing)
        self.n_steps += done
        self.kinds += np.bincount(kinds[:done], minlength=6)
        return done

    def _load(self, i: int) -> None:
        """Compute row i, in place of the one that has not been used for longest."""
        slot = len(self._owners)
        if slot < len(self._rows):
            self._owners.append(i)
        else:
            slot = int(np.argmin(self._used[self._owners]))
            self._slots[self._owners[slot]] = -1
            self._owners[slot] = i
        self._problem.fill(i, self._rows[slot])
        self._slots[i] = slot
        self.n_rows += 1

    def _offer(self) -> None:
        """The newest point may be the best one, and its bound the best bound."""
        primal = self._problem.primal_value(self.a, self.q, self.value)
        self._bound = max(self._bound, 0.5 / self.value)
        if primal < self._primal:
            self._primal, self.best = primal, self.a.copy()

    def _state(self) -> State:
        bound = min(self._bound, self._primal)  # crossed by no more than rounding
        return State(self._primal, bound, self.best, None, self.n_rows)
