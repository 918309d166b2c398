"""Exponentiated gradient for chain CRFs, and L-BFGS if that would take too long."""

from collections.abc import Iterator
from math import inf
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.chain._compiled.chain_dual import Blocks
from sklearn_bundle.chain.problem import ChainProblem
from sklearn_bundle.chain.solvers.dual_ascent import DualSolver
from sklearn_bundle.core.contest import JUDGED_FROM, Contestant
from sklearn_bundle.core.contract import State
from sklearn_bundle.core.lbfgs import LBFGSSolver
from sklearn_bundle.core.limits import TINY

# What L-BFGS is expected to cost, in epochs: estimates. With accelerated steps, it took the time of
# 360 epochs on 3,000 sentences of CoNLL-2000 at c2 = .001.
_LBFGS, _LBFGS_OR_ACCELERATED = 100.0, 300.0
LBFGS_ITERATIONS = 3  # of L-BFGS, which take about as long as an epoch
_MOST_PARAMETERS = 5_000_000  # L-BFGS keeps 20 vectors of them: 0.8 GB


class ChainAutoSolver:
    """Begins with exponentiated gradient, and switches to L-BFGS if the gap falls too slowly.

    With a small reg_lambda the dual steps are accelerated. L-BFGS takes over, from the point
    reached, if more than 100 further epochs would be needed, or 300 accelerated ones. Sequences
    that share features move the same weights: the more strongly they are coupled, and the weaker
    the regularization, the shorter the steps in the dual. This shows after a few epochs.

    Parameters
    ----------
    dual : DualSolver
    tol : float
    """

    history_fields: ClassVar[tuple] = DualSolver.history_fields

    def __init__(self, dual: DualSolver, tol: float):
        self._dual, self._tol = dual, tol
        self._lbfgs: LBFGSSolver | None = None
        self._cost = _LBFGS_OR_ACCELERATED if dual.accelerated else _LBFGS  # of L-BFGS, in epochs
        self._epochs_so_far = Contestant("exponentiated", inf)
        self._epochs_so_far.budget = JUDGED_FROM * self._cost

    def attach(self, problem: ChainProblem) -> None:
        """Attach the current solver."""
        (self._lbfgs or self._dual).attach(problem)

    def detach(self) -> None:
        """Detach the current solver."""
        (self._lbfgs or self._dual).detach()

    @property
    def name(self) -> str:
        """The name of the current solver."""
        return "exponentiated" if self._lbfgs is None else "lbfgs"

    @property
    def kept(self) -> Blocks | NDArray[np.float64]:
        """Where the next fit can start."""
        return self._dual.kept if self._lbfgs is None else self._lbfgs.kept

    def states(self) -> Iterator[State]:
        """One state per epoch, or per L-BFGS iterations that take as long."""
        if self._lbfgs is None:
            yield from self._epochs()
            best = self._dual.confirm()  # at worst w = 0
            self._lbfgs = LBFGSSolver(self._dual.problem, best.point, LBFGS_ITERATIONS, best)
            self._dual.release()
            self._dual.detach()
        yield from self._lbfgs.states()

    def _epochs(self) -> Iterator[State]:
        """Epochs, as long as they pay."""
        epochs, few = self._epochs_so_far, self._dual.problem.n_parameters <= _MOST_PARAMETERS
        if epochs.gives_way:
            return
        for state in self._dual.states():
            estimate = state.further[0]
            epochs.record(1.0, estimate / max(abs(state.lower_bound + estimate), TINY))
            epochs.judge(few and epochs.is_slower(self._cost, self._tol))
            yield state
            if epochs.gives_way:
                return

    def confirm(self, *, moving: bool = True) -> State:
        """Best point and bound, recomputed."""
        return (self._lbfgs or self._dual).confirm(moving=moving)
