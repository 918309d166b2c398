"""Base class of solvers that ascend in the dual of a linear problem, row after row."""

from typing import Any

import numpy as np

from sklearn_bundle.core.contract import State
from sklearn_bundle.linear.regularizers import L2
from sklearn_bundle.linear.solvers.bundle import ADVICE
from sklearn_bundle.linear.solvers.linear_start import DualCertificate, PointToStart
from sklearn_bundle.linear.solvers.linear_task import LinearSolver
from sklearn_bundle.linear.solvers.protocols import ClassSteps, DualSteps

IDLE_CHECKS = 4  # without progress, after which only rounding is left
_CAUTION = 0.9  # times tol: a check is made once the estimate of the gap is below this
_FALL = 0.25  # of the gap at the last check: the same without a tol
_PROGRESS = 1e-3  # of the gap of the dual point itself, between checks


class DualAscentSolver(LinearSolver):
    """A problem with steps in its dual, the best point and bound, and an estimate of the gap.

    Parameters
    ----------
    problem : DualSteps or ClassSteps
    reg_lambda : float
        The regularizer is ``||w||^2 / 2``.
    steps : DualAscent or ClassAscent
    dual_certificate : DualCertificate
        DualCertificate of a bound to start from, if its reg_lambda is the same.
    tol : float or None
        The requested relative gap; without it checks are more frequent.
    start : (ndarray, intercept)
        A point to begin with.
    """

    name = "dual-coordinate"
    estimate: float  #: about the relative gap; the certificate is that of the state
    _problem: DualSteps | ClassSteps

    def __init__(
        self,
        problem: DualSteps | ClassSteps,
        reg_lambda: float,
        steps: Any,
        dual_certificate: DualCertificate | None,
        tol: float | None,
        start: PointToStart | None,
    ):
        super().__init__(problem, reg_lambda, L2(), dual_certificate, advice=ADVICE)
        self._problem, self._steps, self._tol = problem, steps, tol
        self._start = (np.zeros(problem.dimension), None) if start is None else start
        self._dual = 0.0  # about the dual's value
        self._at_check = np.inf  # relative gap of the last check's dual point with its own w
        self._passes_since_check = 0.0  # over all rows

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

    def _target(self) -> float:
        """The estimate that triggers a check."""
        if self._tol is not None and self._at_check > self._tol:
            return _CAUTION * self._tol
        return _FALL * self._at_check

    def _count_idle_check(self, gap_before: float, at_check_before: float) -> None:
        """Count checks without progress; the dual point may be far behind the starting point."""
        self._count_idle(gap_before)
        if self._at_check < (1.0 - _PROGRESS) * at_check_before:
            self._idle = 0
