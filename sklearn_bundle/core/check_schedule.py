"""When a dual method computes its certificate from the data, and when it has come to its end."""

from math import inf, sqrt

import numpy as np

from sklearn_bundle.core.certificate import Best
from sklearn_bundle.core.limits import TINY

_CAUTION = 0.9  # times tol: a check is made once the estimate of the gap is below this
_FALL = 0.25  # of the gap at the last check: the same without a tol, or once tol was met
_SHARE = 0.1  # of the work: what checks may cost if the estimate stays above
_PROGRESS = 1e-6  # of the gap: the least gain of gap or bound that counts as progress
_ROUNDED = 1e-13  # of the objective: a dual that rises by less may do so by rounding


class Checks:
    """The estimate of the gap between checks, and whether a check is due.

    A method knows parts of the gap, one per block, as they were when it last visited the blocks.
    Their sum, times the ratio that earlier checks found, is the estimate.

    Parameters
    ----------
    tol : float or None
        The requested relative gap; without it checks are more frequent.
    cost : float
        Of a check, in the unit of the work.
    ratio : float
        A first guess of the ratio.
    pause : float
        Of all work so far: as long is the pause before a check that the estimate does not call for.

    Attributes
    ----------
    estimate : float
        About the relative gap.
    at_check : float
        The relative gap that the last check found for its dual point.
    work : float
        Since the last check.
    """

    def __init__(self, tol: float | None, cost: float, ratio: float = 1.0, pause: float = 0.0):
        self.estimate = self.at_check = inf
        self.work = self._work_so_far = 0.0
        self._tol, self._cost, self._pause = tol, cost, pause
        self._first_ratio = self._ratio = ratio

    def note(self, gap: float, dual: float, work: float = 0.0) -> None:
        """Note the sum of the parts, about the dual's value, and the work that was done."""
        gap = self._ratio * max(gap, 0.0)
        self.estimate = gap / max(dual + gap, TINY)
        self.work += work
        self._work_so_far += work

    @property
    def target(self) -> float:
        """The estimate that triggers a check."""
        if self._tol is not None and self.at_check > self._tol:
            return _CAUTION * self._tol
        return _FALL * self.at_check

    @property
    def is_within(self) -> bool:
        """Whether the estimate says that ``tol`` is reached."""
        return self.estimate <= self.target

    @property
    def is_due(self) -> bool:
        """Whether a check is due."""
        waited = self._cost <= _SHARE * self.work and self.work >= self._pause * self._work_so_far
        return self.work > 0.0 and (self.is_within or waited)

    def made(self, primal: float, bound: float, *, calibrates: bool = True) -> None:
        """Note what a check found for the dual point to which the estimate belongs.

        The ratio moves halfway, in logarithms: single checks fluctuate.
        """
        self.at_check = max(primal - bound, 0.0) / max(primal, TINY)
        if calibrates and 0.0 < self.estimate < inf and self.at_check > 0.0:
            self._ratio *= sqrt(self.at_check / self.estimate)
        self.work = 0.0

    def forget(self) -> None:
        """Forget the ratio: the parts are now those of other steps."""
        self._ratio = self._first_ratio


class Idling:
    """Counts checks in a row after which gap, bound and dual have not changed.

    Then only rounding errors are left.

    Parameters
    ----------
    limit : int
        The number of such checks that is enough.
    """

    def __init__(self, limit: int):
        self._limit, self._count = limit, 0
        self._gap: float | None = None  # None before the first check
        self._bound = -np.inf

    @property
    def enough(self) -> bool:
        """Whether there were ``limit`` such checks in a row."""
        return self._count >= self._limit

    def note(self, best: Best, gained: float = 0.0) -> None:
        """Record a check; ``gained`` is the rise of the method's dual since the last check."""
        gap, bound = best.gap, best.bound
        moved = self._gap is None or gap < (1.0 - _PROGRESS) * self._gap
        moved = moved or bound > self._bound + _PROGRESS * gap
        moved = moved or gained > _ROUNDED * abs(best.primal)
        self._count = 0 if moved else self._count + 1
        self._gap, self._bound = gap, bound
