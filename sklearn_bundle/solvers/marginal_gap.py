"""The excessive gap technique on chains: max-margin Markov networks (Saha et al., appendix E)."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.problems.marginal_chain import MarginalDual
from sklearn_bundle.problems.structured import StructuredProblem
from sklearn_bundle.solvers.contract import State
from sklearn_bundle.solvers.excessive_gap import ExcessiveGapSolver

Array = NDArray[np.float64]


class MarginalGapSolver:
    """:class:`ExcessiveGapSolver` over marginals of chains, with counts of its own in the history.

    Parameters
    ----------
    problem : StructuredProblem
        As for :class:`MarginalDual`.
    kept : ndarray
        Marginals of a solver of the same problem; reg_lambda may differ.
    """

    name = "excessive-gap"
    history_fields: ClassVar[tuple] = (
        ("oracle_calls", np.int64),
        ("projections", np.int64),
        ("projection_passes", np.int64),
    )

    def __init__(self, problem: StructuredProblem, *, kept: Array | None = None):
        self._dual = MarginalDual(problem)
        self._solver = ExcessiveGapSolver(self._dual, None, kept)

    @property
    def kept(self) -> Array:
        """What a new solver may start from."""
        return self._solver.dual_point.u

    def attach(self, problem: StructuredProblem) -> None:
        """Go on with the same problem in another object."""
        self._dual = MarginalDual(problem)
        self._solver.attach(self._dual)

    def detach(self) -> None:
        """Let go of the problem."""
        self._dual: Any = None
        self._solver.detach()

    def states(self) -> Iterator[State]:
        """One state per step; ends when nothing has changed for long."""
        return map(self._counted, self._solver.states())

    def confirm(self, *, moving: bool = True) -> State:
        """Objective by a pass at the best point, bound from the best marginals."""
        return self._counted(self._solver.confirm(moving=moving))

    def _counted(self, state: State) -> State:
        dual = self._dual
        counts = dual.problem.oracle_calls, dual.projections, dual.projection_passes
        return replace(state, further=counts)
