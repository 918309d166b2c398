"""Exponentiated gradient for chain CRFs, and L-BFGS if that would take too long."""

from collections.abc import Iterator
from itertools import pairwise
from math import log
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.chain._compiled.chain_dual import Blocks
from sklearn_bundle.chain.problem import ChainProblem
from sklearn_bundle.chain.solvers.sdca import DualSolver
from sklearn_bundle.core.contract import State
from sklearn_bundle.core.lbfgs import LBFGSSolver

_TRIAL = 10  # epochs before the rate is judged: an estimate
_WINDOW = 5  # last epochs over which the rate is measured: an estimate
# The same with acceleration, whose gap rises at first: with a trial of 10 epochs it was abandoned
# on Dutch NER at c2 = .005, where it converges in 28.
_ACCELERATED_TRIAL, _ACCELERATED_WINDOW = 30, 12
# Times the estimate before: if a full pass finds a gap that much larger than the steps had seen,
# the rate means nothing until the window is past it. On 3,000 sentences of CoNLL-2000 at c2 = .001
# the gap has recovered after 12 epochs; switching to L-BFGS took four times as long.
_FOUND_MORE = 2.0
# Epochs in a row with this verdict: a full pass that finds larger gaps than earlier steps looks
# like no progress once.
_VERDICTS = 3
# Further epochs in which L-BFGS is expected to end, an estimate. With accelerated steps, it took
# the time of 360 epochs on the 3,000 sentences above.
_TOO_MANY, _ACCELERATED_TOO_MANY = 100, 300
LBFGS_ITERATIONS = 3  # of L-BFGS, which take about as long as an epoch
_MOST_PARAMETERS = 5_000_000  # L-BFGS keeps 20 vectors of them: 0.8 GB
_TINY = 1e-300  # replaces an estimate or a gap of 0, in logarithms


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
        self._estimates: list[float] = []
        self._slow_for = 0  # epochs

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
        if self._is_slow:
            return
        for state in self._dual.states():
            self._estimates.append(state.further[0])
            self._slow_for = self._slow_for + 1 if self._too_slow(self._estimates, state) else 0
            yield state
            if self._is_slow:
                return

    @property
    def _is_slow(self) -> bool:
        return self._slow_for >= _VERDICTS

    def confirm(self, *, moving: bool = True) -> State:
        """Best point and bound, recomputed."""
        return (self._lbfgs or self._dual).confirm(moving=moving)

    def _too_slow(self, estimates: list[float], state: State) -> bool:
        trial, window, many = _TRIAL, _WINDOW, _TOO_MANY
        if self._dual.accelerated:
            trial, window = _ACCELERATED_TRIAL, _ACCELERATED_WINDOW
            many = _ACCELERATED_TOO_MANY
        if len(estimates) < trial or len(state.point) > _MOST_PARAMETERS:
            return False
        recent = estimates[-1 - window :]
        if self._dual.accelerated and any(
            after > _FOUND_MORE * before for before, after in pairwise(recent)
        ):
            return False
        target = max(self._tol * abs(state.lower_bound + estimates[-1]), _TINY)
        rate = log(max(estimates[-1 - window], _TINY) / max(estimates[-1], _TINY)) / window
        return log(max(estimates[-1], _TINY) / target) > many * rate
