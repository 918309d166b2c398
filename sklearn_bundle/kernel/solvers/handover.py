"""Two solvers of a kernel machine in turn: blocks of points, then single steps."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from sklearn_bundle.core.contract import State
from sklearn_bundle.kernel.solvers.active_set import ActiveSetSolver
from sklearn_bundle.kernel.solvers.decomposition import DecompositionSolver
from sklearn_bundle.kernel.solvers.swap import SimplexPoints, SwapSolver
from sklearn_bundle.kernel.solvers.whole import WholeSolver


class HandoverSolver:
    """Takes steps by blocks until they reach ``tol`` or stall, then SWAP steps from there.

    Steps in two variables of the dual without its simplex need far fewer steps on ill-conditioned
    kernels, and SWAP steps make the scores more accurate: the last states are always theirs.

    Parameters
    ----------
    first : WholeSolver or DecompositionSolver
    then : callable
        Makes the second solver from the points that the first one leaves.
    history_fields : tuple
        Those of the second solver; the first one has zeros there.
    tol : float
        Relative gap at which the second one begins.
    """

    def __init__(
        self,
        first: WholeSolver | DecompositionSolver,
        then: Callable[[SimplexPoints], SwapSolver | ActiveSetSolver],
        history_fields: tuple,
        tol: float,
    ):
        self.current: WholeSolver | DecompositionSolver | SwapSolver | ActiveSetSolver = first
        self._then, self.history_fields, self._tol = then, history_fields, tol
        self._first = first
        self._steps = self._passes = 0  # of the solver that does not run
        self._further = (0,) * len(history_fields)  # of the second one, while the first runs

    @property
    def kept(self) -> SimplexPoints:
        """Where the next fit may start."""
        return self.current.kept

    def states(self) -> Iterator[State]:
        """The states of both; ends when the second one does, at the smaller gap of the two."""
        first, last = self.current, None
        for last in first.states():
            if last.relative_gap <= self._tol and first.confirm().relative_gap <= self._tol:
                break
            yield self._as_one(last)
        if last is None:
            return
        last = first.confirm()
        self._steps, self._passes = last.n_steps or 0, last.passes
        self.current = self._then(first.kept)
        state = None
        for state in self.current.states():
            yield self._as_one(state)
        if state is None or self.current.confirm().gap > last.gap:
            if state is not None:
                self._steps, self._passes = state.n_steps or 0, state.passes
                self._further = state.further
            self.current = first
            yield self._as_one(last)

    def confirm(self, *, moving: bool = True) -> State:
        """Objective and bound, recomputed by the solver that runs."""
        return self._as_one(self.current.confirm(moving=moving))

    def _as_one(self, state: State) -> State:
        steps, passes = self._steps + (state.n_steps or 0), self._passes + state.passes
        further = self._further if self.current is self._first else state.further
        return replace(state, n_steps=steps, passes=passes, further=further)
