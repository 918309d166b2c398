"""Cutting planes over the risk of all examples together: one slack variable, one plane a pass."""

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.problems.structured import StructuredProblem
from sklearn_bundle.solvers.bundle import BundleSolver
from sklearn_bundle.solvers.contract import State
from sklearn_bundle.solvers.inner.planes import Bundle
from sklearn_bundle.solvers.linear_start import LinearStart

Array = NDArray[np.float64]


class OneSlackSolver:
    """Algorithm 2 of the BMRM paper on a structured risk, with oracle calls in the history.

    Parameters
    ----------
    problem : StructuredProblem
        Without a cone.
    kept : LinearStart
        What :attr:`kept` was of a solver of the same problem; reg_lambda may differ.
    """

    name = "bundle"
    history_fields: ClassVar[tuple] = (("oracle_calls", np.int64),)

    def __init__(self, problem: StructuredProblem, *, kept: LinearStart | None = None):
        start = LinearStart() if kept is None else kept
        bundle = Bundle(problem.dimension) if start.bundle is None else start.bundle
        self._problem = problem
        self._point = start.point
        self._solver = BundleSolver(
            _Remembering(problem, bundle),
            problem.reg_lambda,
            algorithm="cutting-plane",
            bundle=bundle,
            start=start.point,
            proof=start.proof,
        )

    @property
    def kept(self) -> LinearStart:
        """What a new solver may start from."""
        return self._solver.kept(self._point)

    def attach(self, problem: StructuredProblem) -> None:
        """Go on with the same problem in another object."""
        self._problem = problem
        self._solver.attach(_Remembering(problem, self._solver.bundle))

    def detach(self) -> None:
        """Let go of the problem."""
        self._problem = None
        self._solver.detach()

    def states(self) -> Iterator[State]:
        """One state per plane; ends when rounding leaves nothing to gain."""
        return map(self._counted, self._solver.states())

    def confirm(self, *, moving: bool = True) -> State:
        """Objective by a pass at the best point, bound from the kept aggregate plane."""
        return self._counted(self._solver.confirm(moving=moving))

    def _counted(self, state: State) -> State:
        self._point = state.point, None
        return replace(state, further=(self._problem.oracle_calls,))


class _Remembering:
    """A risk that is nowhere below its planes, even if the oracle misses there what it once found.

    Else the bound would rise above the objective of an oracle that is not exact.
    """

    nonnegative = True

    def __init__(self, problem: StructuredProblem, bundle: Bundle):
        self._problem, self._bundle = problem, bundle
        self.dimension = problem.dimension

    @property
    def passes(self) -> int:
        return self._problem.passes

    def evaluate(self, w: Array) -> tuple[float, Array]:
        """R(w) and a subgradient."""
        risk, gradient = self._problem.evaluate(w)
        if not self._problem.examples.exact and self._bundle.size:
            heights = self._bundle.planes @ w + self._bundle.offsets
            highest = int(np.argmax(heights))
            if heights[highest] > risk:
                return float(heights[highest]), self._bundle.planes[highest].copy()
        return risk, gradient
