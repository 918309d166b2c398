"""Base class of solvers that ascend in the dual of a linear problem, row after row."""

from typing import Any

import numpy as np

from sklearn_bundle.core.contract import State
from sklearn_bundle.core.dual_methods import Checks, Idling
from sklearn_bundle.linear.regularizers import L2
from sklearn_bundle.linear.solvers.bundle import ADVICE
from sklearn_bundle.linear.solvers.linear_start import DualCertificate, PointToStart
from sklearn_bundle.linear.solvers.linear_task import LinearSolver
from sklearn_bundle.linear.solvers.protocols import ClassSteps, DualSteps

IDLE = 4  # checks in a row without progress, after which only rounding is left
_COST = 2.0  # of a check, in passes
# Gap of the mean of dual points over that of the rows when visited: a first guess.
_GAP_RATIO = 0.8


class DualAscentSolver(LinearSolver):
    """A problem with steps in its dual, the best point and bound, and an estimate of the gap.

    Parameters
    ----------
    problem : DualSteps or ClassSteps
    reg_lambda : float
        The regularizer is ``||w||^2 / 2``.
    steps : DualAscent or ClassAscent
    dual_certificate : DualCertificate
        A dual certificate to start from, if its reg_lambda is the same.
    tol : float or None
        The requested relative gap; without it checks are more frequent.
    start : (ndarray, intercept)
        A point to begin with.
    pause : float
        See :class:`~.checks.Checks`.
    """

    name = "dual-coordinate"
    _problem: DualSteps | ClassSteps

    def __init__(
        self,
        problem: DualSteps | ClassSteps,
        reg_lambda: float,
        steps: Any,
        dual_certificate: DualCertificate | None,
        tol: float | None,
        start: PointToStart | None,
        pause: float = 0.0,
    ):
        super().__init__(problem, reg_lambda, L2(), dual_certificate, advice=ADVICE)
        self._problem, self._steps, self._tol = problem, steps, tol
        self._start = (np.zeros(problem.dimension), None) if start is None else start
        self._dual = 0.0  # about the dual's value
        self._proved = -np.inf  # the same at the last check
        self._checks = Checks(tol, _COST, _GAP_RATIO, pause)
        self._idling = Idling(IDLE)

    @property
    def estimate(self) -> float:
        """About the relative gap; the certificate is that of the state."""
        return self._checks.estimate

    def attach(self, problem: DualSteps | ClassSteps) -> None:
        """Continue with the same problem in another object."""
        super().attach(problem)
        self._steps.attach(problem.rows)

    def detach(self) -> None:
        """Release the problem and its data."""
        super().detach()
        self._steps.detach()

    def gap_of(self, state: State) -> float:
        """The estimate: a state has the certificate of the last check."""
        return self.estimate

    def _made(self, objective: float, bound: float, *, calibrates: bool = True) -> None:
        """Note a check; the dual point may be far behind the starting point."""
        self._checks.made(objective, bound, calibrates=calibrates)
        self._idling.note(self._best, bound - self._proved)
        self._dual = self._proved = bound
