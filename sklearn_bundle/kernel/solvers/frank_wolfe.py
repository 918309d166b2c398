"""The paper's solvers of the L2-SVM (Allende, Frandi, Nanculef and Sartori, 2013).

They maximize ``-a'Ka`` over the unit simplex, with ``K_ij = y_i y_j (k(x_i, x_j) + 1) + delta_ij /
C_i`` in double precision. With Q = a'Ka the dual point of a is ``y a / Q``, its bound ``1/(2Q)``.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.certificate import Best
from sklearn_bundle.core.contract import State
from sklearn_bundle.core.limits import IDLE_LIMIT
from sklearn_bundle.kernel._compiled import frank_wolfe
from sklearn_bundle.kernel.problem import Point, Problem
from sklearn_bundle.kernel.solvers.working_sets import Start
from sklearn_bundle.kernel.values.kernel import RowCache

Array = NDArray[np.float64]

ALGORITHMS = {  # names, and numbers in compiled code
    "fw": frank_wolfe.USE_FW,
    "cvm": frank_wolfe.USE_CVM,
    "mfw": frank_wolfe.USE_MFW,
    "swap": frank_wolfe.USE_SWAP,
    "swap-2o": frank_wolfe.USE_SWAP_2O,
}
KINDS = ("fw", "swap_add", "swap_drop", "away", "away_drop")  # of steps, by their numbers
_CHUNK = 128  # steps per state at most: fixed, so that equal seeds agree
_TOGETHER = 2  # rows that a step needs


class FrankWolfe:
    """Single steps; a :class:`~sklearn_bundle.core.contract.Solver`.

    Parameters
    ----------
    problem : Problem
        That of the squared hinge, with a penalized intercept.
    algorithm : {"fw", "cvm", "mfw", "swap", "swap-2o"}
    tol : float
        Relative gap at which a state ends early.
    start : Start, default=None
        Where to begin; at the first vertex by default.
    max_steps : int
    """

    name = "frank-wolfe"
    history_fields = tuple((kind, np.int64) for kind in KINDS)

    def __init__(
        self,
        problem: Problem,
        *,
        algorithm: str,
        tol: float,
        start: Start | None = None,
        max_steps: int = 1_000_000,
    ):
        problem.promote()
        self._problem, self._tol = problem, tol
        self._algorithm, self._most = ALGORITHMS[algorithm], max_steps
        n, dual = problem.n, problem.dual
        self._cache = RowCache(problem.rows, problem.cache_bytes, _TOGETHER)
        self._y = np.sign(dual.target)
        self._squares = problem.rows.diagonal + 1.0 + dual.ridge
        self.kinds, self.n_steps, self.indefinite = np.zeros(len(KINDS), np.int64), 0, False
        self._best, self._bound = Best(least=0.0, provisional=True), 0.0
        self._a = np.zeros(n)
        if start is not None and len(start.beta) == n and start.beta.any():
            self._a[:] = np.abs(start.beta) / np.abs(start.beta).sum()
        else:
            self._a[0] = 1.0
        self._set_q()
        self._offer()

    @property
    def kept(self) -> Start:
        """Where another solver may start."""
        return Start(self._y * self._a, self._problem.dual)

    @property
    def passes(self) -> int:
        """Rows of kernel values that were computed."""
        return self._cache.n_computed

    def states(self) -> Iterator[State]:
        """One state for at most 128 steps; ends when no step is left."""
        idle = 0
        while idle <= IDLE_LIMIT and not self.indefinite:
            reached = self._best.primal, self._best.bound
            taken = self._advance()
            self._offer()
            yield self._state()
            idle = 0 if (self._best.primal, self._best.bound) != reached else idle + 1
            if not taken:
                self._set_q()
                idle = idle or IDLE_LIMIT

    def confirm(self, *, moving: bool = True) -> State:
        """Objective of the best point and bound of the newest, recomputed in float64."""
        own, point = self._problem.certify(self._best.point)
        newest, _ = self._problem.certify(self._dual_point(self._a, self._q))
        bound = max(own.bound, newest.bound)
        if min(own.bound, newest.bound) == -np.inf:
            self.indefinite, bound = True, -np.inf
        self._best.replace(own.primal, point)
        self._best.bound = min(bound, own.primal)
        self._set_q()
        return replace(self._state(), ball=own if np.isfinite(bound) else None)

    def _advance(self) -> int:
        """Take up to 128 steps; returns their number."""
        kinds = np.zeros(int(min(_CHUNK, self._most - self.n_steps)), np.int8)
        done = 0
        while True:
            cache, ridge = self._cache, self._problem.dual.ridge
            matrix = frank_wolfe.Matrix(cache.values, cache.places, self._y, ridge, self._squares)
            done, missing = frank_wolfe.run(
                self._algorithm, matrix, self._a, self._q, kinds, done, self._tol
            )
            if missing < 0:
                break
            self._cache.slots(np.array([missing]))
        self.n_steps += done
        self.kinds += np.bincount(kinds[:done], minlength=len(KINDS))
        return done

    def _set_q(self) -> None:
        """``K a`` from the data."""
        scores, _ = self._problem.exact(self._y * self._a)
        total = float(np.sum(self._y * self._a))
        self._q = self._y * (scores + total) + self._problem.dual.ridge * self._a

    def _dual_point(self, a: Array, q: Array) -> Point:
        """The dual point of a, with its scores."""
        dual, value = self._problem.dual, float(np.sum(a * q))
        beta = self._y * a / value
        b = float(np.sum(beta))
        return Point(beta, self._y * (q - dual.ridge * a) / value - b, b, 1.0 / value)

    def _offer(self) -> None:
        """Keep the newest point if it is the best one, and its bound if it is the best bound."""
        primal, value = frank_wolfe.objective(self._a, self._q, self._problem.dual.ridge)
        if not value > 0.0:
            self.indefinite = True
            return
        if not (np.isfinite(primal) or np.isfinite(self._best.primal)):
            raise ValueError("The kernel values are too large, or NaN: scale the features.")
        self._best.raise_bound(0.5 / value)
        if primal < self._best.primal:
            self._best.offer(primal, self._dual_point(self._a, self._q), is_free=True)

    def _state(self) -> State:
        point = self._best.point
        further = tuple(self.kinds)
        state = self._best.state(point.beta, point.b, self.passes, self.n_steps, further)
        return replace(state, lower_bound=-np.inf) if self.indefinite else state
