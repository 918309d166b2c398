"""Solvers of other problems, adapted to structured risks: L-BFGS and the excessive gap."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.contract import ABSENT, State
from sklearn_bundle.core.lbfgs import MEMORY, LBFGSSolver
from sklearn_bundle.linear.solvers.excessive_gap import ExcessiveGapSolver
from sklearn_bundle.structured.problems.marginal_chain import MarginalDual
from sklearn_bundle.structured.problems.structured import StructuredProblem, StructuredRisk
from sklearn_bundle.structured.problems.structured_log import LikelihoodProblem

Array = NDArray[np.float64]


class AdaptedSolver(ABC):
    """The other solver's states, with the oracle calls of the problem in the history.

    A subclass sets ``_solver``, which works on what :meth:`_adapted` makes of the problem.
    """

    history_fields: ClassVar[tuple] = (("oracle_calls", np.int64),)
    _solver: Any

    def __init__(self, problem: StructuredRisk):
        self._problem = problem

    @property
    @abstractmethod
    def kept(self) -> Any:
        """Where a new solver may start."""

    @abstractmethod
    def _adapted(self, problem: StructuredRisk) -> Any:
        """The problem in the form that the other solver needs."""

    def attach(self, problem: StructuredRisk) -> None:
        """Continue with the same problem in another object."""
        self._problem = problem
        self._solver.attach(self._adapted(problem))

    def detach(self) -> None:
        """Release the problem."""
        self._problem = ABSENT
        self._solver.detach()

    def states(self) -> Iterator[State]:
        """The states of the other solver; they end when rounding leaves nothing to gain."""
        return map(self._counted, self._solver.states())

    def confirm(self, *, moving: bool = True) -> State:
        """The other solver's best point and bound, recomputed."""
        return self._counted(self._solver.confirm(moving=moving))

    def _counted(self, state: State) -> State:
        return self._problem.with_errors(replace(state, further=(self._problem.oracle_calls,)))


class StructuredLBFGS(AdaptedSolver):
    """L-BFGS on the likelihood, from w = 0 or from where the last solver of the problem ended.

    Parameters
    ----------
    problem : LikelihoodProblem
    n_cached_outputs : int or None
        Pairs of steps and changes of the gradient to keep; None is 10.
    kept : ndarray
        :attr:`kept` of a solver of the same problem; reg_lambda may differ.
    """

    name = "lbfgs"

    def __init__(
        self,
        problem: LikelihoodProblem,
        *,
        n_cached_outputs: int | None = None,
        kept: Array | None = None,
    ):
        super().__init__(problem)
        memory = MEMORY if n_cached_outputs is None else n_cached_outputs
        self._solver = LBFGSSolver(self._adapted(problem), kept, memory=memory)

    @property
    def kept(self) -> Array:
        """Where a new solver may start."""
        return self._solver.kept

    def _adapted(self, problem: LikelihoodProblem) -> "_Smooth":
        return _Smooth(problem)


class _Smooth:
    """The problem in the form that L-BFGS needs."""

    def __init__(self, problem: LikelihoodProblem):
        self.n_parameters = problem.dimension
        self.evaluate = problem.objective


class MarginalGapSolver(AdaptedSolver):
    """:class:`ExcessiveGapSolver` over marginals of chains, with its own counts in the history.

    These are max-margin Markov networks: appendix E of Saha, Zhang and Vishwanathan (2010).

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
        self._dual = ABSENT
        super().detach()

    def _adapted(self, problem: StructuredProblem) -> MarginalDual:
        self._dual = MarginalDual(problem)
        return self._dual

    def _counted(self, state: State) -> State:
        dual = self._dual
        counts = dual.problem.oracle_calls, dual.projections, dual.projection_passes
        return replace(super()._counted(state), further=counts)
