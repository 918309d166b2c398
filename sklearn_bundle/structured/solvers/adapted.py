"""L-BFGS and the excessive gap technique on structured risks."""

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.certificate import Best
from sklearn_bundle.core.contract import ABSENT, State
from sklearn_bundle.core.lbfgs import MEMORY, LBFGSSolver
from sklearn_bundle.linear.solvers.excessive_gap import PATIENCE, ExcessiveGap, Series
from sklearn_bundle.structured.problems.marginal_chain import MarginalDual
from sklearn_bundle.structured.problems.structured import StructuredProblem
from sklearn_bundle.structured.problems.structured_log import LikelihoodProblem

Array = NDArray[np.float64]


class StructuredLBFGS:
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
    history_fields: ClassVar[tuple] = (("oracle_calls", np.int64),)

    def __init__(
        self,
        problem: LikelihoodProblem,
        *,
        n_cached_outputs: int | None = None,
        kept: Array | None = None,
    ):
        self._problem = problem
        memory = MEMORY if n_cached_outputs is None else n_cached_outputs
        self._solver = LBFGSSolver(_Smooth(problem), kept, memory=memory)

    @property
    def kept(self) -> Array:
        """Where a new solver may start."""
        return self._solver.kept

    def attach(self, problem: LikelihoodProblem) -> None:
        """Continue with the same problem in another object."""
        self._problem = problem
        self._solver.attach(_Smooth(problem))

    def detach(self) -> None:
        """Release the problem."""
        self._problem = ABSENT
        self._solver.detach()

    def states(self) -> Iterator[State]:
        """The solver's states, with the oracle calls of the problem."""
        return map(self._counted, self._solver.states())

    def confirm(self, *, moving: bool = True) -> State:
        """The best point and bound, recomputed."""
        return self._counted(self._solver.confirm(moving=moving))

    def _counted(self, state: State) -> State:
        return self._problem.with_errors(replace(state, further=(self._problem.oracle_calls,)))


class _Smooth:
    """The problem in the form that L-BFGS needs."""

    def __init__(self, problem: LikelihoodProblem):
        self.n_parameters = problem.dimension
        self.evaluate = problem.objective


class MarginalGapSolver:
    """The excessive gap technique over marginals of chains, with its own counts in the history.

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
        self._dual, self._idle = MarginalDual(problem), 0
        self._best = Best(least=0.0, advice=ExcessiveGap.advice)  # losses are nonnegative
        start = self._dual.origin() if kept is None else kept
        self._series = Series(self._dual, None, start, self._best)
        self._best.raise_bound(self._series.highest.value)

    @property
    def kept(self) -> Array:
        """Where a new solver may start."""
        return self._series.highest.u

    def attach(self, problem: StructuredProblem) -> None:
        """Continue with the same problem in another object."""
        self._dual = self._series.dual = MarginalDual(problem)

    def detach(self) -> None:
        """Release the problem."""
        self._dual = self._series.dual = ABSENT

    def states(self) -> Iterator[State]:
        """One state per step; they end when rounding leaves nothing to gain."""
        while self._idle < PATIENCE:
            self._idle = 0 if self._series.step() else self._idle + 1
            yield self._state()

    def confirm(self, *, moving: bool = True) -> State:
        """Objective from the data at the best point, bound from the data at the best u."""
        series, dual, w = self._series, self._dual, self._best.point
        series.highest = series.evaluated(dual.feasible(series.highest.u))
        taken = dual.rounding(series.highest.combined)
        self._best.recompute(dual.objective(w), w, series.highest.value, None, rounding=taken)
        return self._state()

    def _state(self) -> State:
        dual, problem, w = self._dual, self._dual.problem, self._best.point
        counts = problem.oracle_calls, dual.projections, dual.projection_passes
        return problem.with_errors(self._best.state(w, None, problem.passes, None, counts))
