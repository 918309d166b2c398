"""Base class of solvers that ascend in the dual of a linear problem, row after row."""

from typing import Any

from sklearn_bundle.core.contract import ABSENT, State
from sklearn_bundle.linear.regularizers import L2
from sklearn_bundle.linear.solvers.bundle import ADVICE
from sklearn_bundle.linear.solvers.linear_start import Proof
from sklearn_bundle.linear.solvers.linear_task import LinearSolver
from sklearn_bundle.linear.solvers.protocols import ClassSteps, DualSteps


class DualAscentSolver(LinearSolver):
    """A problem with steps in its dual, the best point and bound, and an estimate of the gap.

    Parameters
    ----------
    problem : DualSteps or ClassSteps
    reg_lambda : float
        The regularizer is ``||w||^2 / 2``.
    steps : DualAscent or ClassAscent
    proof : Proof
        Proof of a bound to start from, if its reg_lambda is the same.
    """

    name = "dual-coordinate"
    estimate: float  #: about the relative gap; the certificate is that of the state
    _problem: DualSteps | ClassSteps

    def __init__(
        self, problem: DualSteps | ClassSteps, reg_lambda: float, steps: Any, proof: Proof | None
    ):
        super().__init__(problem, reg_lambda, L2(), proof, advice=ADVICE)
        self._problem, self._steps = problem, steps
        self._spent = 0  # passes, as of the last problem that was released
        self._passes_before = problem.passes

    def attach(self, problem: DualSteps | ClassSteps) -> None:
        """Continue with the same problem in another object."""
        self._problem = problem
        self._passes_before = problem.passes - self._spent
        self._steps.attach(problem.rows)

    def detach(self) -> None:
        """Release the problem and its data."""
        self._spent = self.n_passes
        self._problem = ABSENT
        self._steps.detach()

    @property
    def n_passes(self) -> int:
        """Number of products with X or X' of these steps and their checks."""
        return self._problem.passes - self._passes_before

    def gap_of(self, state: State) -> float:
        """The estimate: a state has the certificate of the last check."""
        return self.estimate
