"""The excessive gap technique on chains: max-margin Markov networks (Saha et al., appendix E)."""

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.contract import State
from sklearn_bundle.linear.solvers.excessive_gap import ExcessiveGapSolver
from sklearn_bundle.structured.problems.marginal_chain import MarginalDual
from sklearn_bundle.structured.problems.structured import StructuredProblem
from sklearn_bundle.structured.solvers._adapted import AdaptedSolver

Array = NDArray[np.float64]


class MarginalGapSolver(AdaptedSolver):
    """:class:`ExcessiveGapSolver` over marginals of chains, with its own counts in the history.

    Parameters
    ----------
    problem : StructuredProblem
        As in :class:`MarginalDual`.
    kept : ndarray
        Marginals from a solver of the same problem; reg_lambda may differ.
    """

    name = "excessive-gap"
    history_fields: ClassVar[tuple] = (
        ("oracle_calls", np.int64),
        ("projections", np.int64),
        ("projection_passes", np.int64),
    )

    def __init__(self, problem: StructuredProblem, *, kept: Array | None = None):
        super().__init__(problem)
        self._solver = ExcessiveGapSolver(self._adapted(problem), None, kept)

    @property
    def kept(self) -> Array:
        """Where a new solver may start."""
        return self._solver.dual_point.u

    def detach(self) -> None:
        self._dual: Any = None
        super().detach()

    def _adapted(self, problem: StructuredProblem) -> MarginalDual:
        self._dual = MarginalDual(problem)
        return self._dual

    def _counted(self, state: State) -> State:
        dual = self._dual
        counts = dual.problem.oracle_calls, dual.projections, dual.projection_passes
        return replace(super()._counted(state), further=counts)
