"""Base class of solvers that ascend in the dual of a linear problem, row after row."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.certificate import Best
from sklearn_bundle.core.contract import ABSENT, State
from sklearn_bundle.linear.problems.linear import Point
from sklearn_bundle.linear.problems.linear_rounding import Certified, rounding, size_of_terms
from sklearn_bundle.linear.regularizers import L2
from sklearn_bundle.linear.solvers.bundle import ADVICE
from sklearn_bundle.linear.solvers.linear_start import Proof
from sklearn_bundle.linear.solvers.linear_task import LinearSolver
from sklearn_bundle.linear.solvers.protocols import ClassSteps, DualSteps

Array = NDArray[np.float64]


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

    def __init__(
        self, problem: DualSteps | ClassSteps, reg_lambda: float, steps: Any, proof: Proof | None
    ):
        self._problem, self._lambda, self._steps = problem, reg_lambda, steps
        self._omega = L2()
        self._best = Best(least=0.0, advice=ADVICE)
        self._best.proof = Proof(reg_lambda, (np.zeros(problem.dimension), 0.0))  # losses are >= 0
        if proof is not None and proof.reg_lambda == reg_lambda:
            self._best.prove(proof.bound(self._omega), proof)
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
    def proof(self) -> Proof:
        """The proof of the best bound."""
        return self._best.proof

    @property
    def plane(self) -> tuple[Array, float]:
        """The plane of the proof."""
        return self._best.proof.plane

    @property
    def n_passes(self) -> int:
        """Number of products with X or X' of these steps and their checks."""
        return self._problem.passes - self._passes_before

    def gap_of(self, state: State) -> float:
        """The estimate: a state has the certificate of the last check."""
        return self.estimate

    def size_of_terms(self) -> float:
        """See :func:`~.linear_rounding.size_of_terms`."""
        return size_of_terms(self._problem, self._best.point, self.plane[1], self._lambda)

    def _renew(self, point: Point, objective: float) -> None:
        """Keep recomputed values, with the bound of the kept plane."""
        best, omega = self._best, self._omega
        certified = Certified(point.w, point.intercept, objective, self.plane)
        best.renew(
            *(objective, point, best.proof.bound(omega), best.proof),
            terms=self.size_of_terms,
            rounding=rounding(self._problem, point, certified, omega, self._lambda),
        )

    def _state(self) -> State:
        point = self._best.point
        passes = self._problem.passes
        return self._best.state(point.w, point.intercept, passes, further=(self.name,))
