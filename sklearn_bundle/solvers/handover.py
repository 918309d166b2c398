"""Two solvers of a kernel machine in turn: blocks of points, then single steps."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from sklearn_bundle.solvers.active_set import ActiveSetSolver
from sklearn_bundle.solvers.contract import State
from sklearn_bundle.solvers.decomposition import DecompositionSolver
from sklearn_bundle.solvers.swap import SimplexPoints, SwapSolver
from sklearn_bundle.solvers.whole import WholeSolver


class HandoverSolver:
    """Takes steps by blocks while they gain, then SWAP steps from where these ended.

    Steps in two variables of the dual without its simplex need far fewer steps on ill-conditioned
    kernels, and SWAP steps settle the scores further than blocks do.

    Parameters
    ----------
    first : WholeSolver or DecompositionSolver
    then : callable
        Makes the second solver from the points that the first one leaves.
    history_fields : tuple
        Those of the second solver; the first one has zeros there.
    """

    def __init__(
        self,
        first: WholeSolver | DecompositionSolver,
        then: Callable[[SimplexPoints], SwapSolver | ActiveSetSolver],
        history_fields: tuple,
    ):
        self.current: WholeSolver | DecompositionSolver | SwapSolver | ActiveSetSolver = first
        self._then, self.history_fields = then, history_fields
        self._before: State | None = None  # the last state of the first solver, once it has ended

    @property
    def kept(self) -> SimplexPoints:
        """Where a next fit may go on."""
        return self.current.kept

    def states(self) -> Iterator[State]:
        """The states of both; ends when the second one does."""
        last = None
        for last in self.current.states():
            yield self._as_one(last)
        if last is None:
            return
        self.current, self._before = self._then(self.current.kept), last
        for state in self.current.states():
            yield self._as_one(state)

    def confirm(self, *, moving: bool = True) -> State:
        """Objective and bound, recomputed by the solver that runs."""
        return self._as_one(self.current.confirm(moving=moving))

    def _as_one(self, state: State) -> State:
        before = self._before
        if before is None:
            return replace(state, further=(0,) * len(self.history_fields))
        steps = (before.n_steps or 0) + (state.n_steps or 0)
        return replace(state, passes=before.passes + state.passes, n_steps=steps)
