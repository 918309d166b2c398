"""L-BFGS on the likelihood of structured outputs, with oracle calls in the history."""

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.lbfgs import MEMORY, LBFGSSolver
from sklearn_bundle.structured.problems.structured_log import LikelihoodProblem
from sklearn_bundle.structured.solvers._adapted import AdaptedSolver

Array = NDArray[np.float64]


class StructuredLBFGS(AdaptedSolver):
    """L-BFGS from w = 0, or from where the last solver of the problem ended.

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
