"""L-BFGS on the likelihood of structured outputs, with oracle calls in the history."""

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.problems.structured_log import LikelihoodProblem
from sklearn_bundle.solvers.contract import State
from sklearn_bundle.solvers.lbfgs import LBFGSSolver

Array = NDArray[np.float64]


class StructuredLBFGS:
    """L-BFGS from w = 0, or from where the last solver of the problem has ended.

    Parameters
    ----------
    problem : LikelihoodProblem
    cache_size : int or None
        Pairs of steps and changes of the gradient to keep; None is 10.
    kept : ndarray
        What :attr:`kept` was of a solver of the same problem; reg_lambda may differ.
    """

    name = "lbfgs"
    history_fields: ClassVar[tuple] = (("oracle_calls", np.int64),)

    def __init__(
        self,
        problem: LikelihoodProblem,
        *,
        cache_size: int | None = None,
        kept: Array | None = None,
    ):
        self._problem = problem
        memory = {} if cache_size is None else {"memory": cache_size}
        self._solver = LBFGSSolver(_Smooth(problem), kept, **memory)

    @property
    def kept(self) -> Array:
        """What a new solver may start from."""
        return self._solver.kept

    def attach(self, problem: LikelihoodProblem) -> None:
        """Go on with the same problem in another object."""
        self._problem = problem
        self._solver.attach(_Smooth(problem))

    def detach(self) -> None:
        """Let go of the problem."""
        self._problem = None
        self._solver.detach()

    def states(self) -> Iterator[State]:
        """An iteration each; ends when rounding leaves nothing to gain."""
        return map(self._counted, self._solver.states())

    def confirm(self, *, moving: bool = True) -> State:
        """P and its gradient at the best point once more."""
        return self._counted(self._solver.confirm(moving=moving))

    def _counted(self, state: State) -> State:
        return replace(state, further=(self._problem.oracle_calls,))


class _Smooth:
    """The problem as L-BFGS asks for it."""

    def __init__(self, problem: LikelihoodProblem):
        self.n_parameters = problem.dimension
        self.evaluate = problem.objective
