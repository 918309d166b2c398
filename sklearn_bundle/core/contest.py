"""A solver in competition with others: its cost so far, and an estimate of the remaining cost.

It gives way to another one if it seems to need more work than that one, for some states in a row.
"""

from math import exp, inf, log
from typing import Any

from sklearn_bundle.core.limits import TINY

# Of the other solver's expected work, after which a solver is judged by its rate: early rates make
# dual steps look too good. Whatever the verdict then, little is lost.
JUDGED_FROM = 0.15
# Judgments in a row: the rate of one state may be chance, and a check that finds larger gaps than
# the steps before looks like no progress once.
JUDGMENTS = 3


class Contestant:
    """Costs are counted, never timed, so that equal fits make equal choices.

    Parameters
    ----------
    name : str
        The public name.
    prior : float
        Expected cost of a solver of this name from its start.
    step : float, default=0.0
        Cost of a step: a solver that begins near the end needs at least one.

    Attributes
    ----------
    solver : object
        None before the start.
    work : float
        Its cost so far.
    budget : float
        The work up to which it is not judged.
    history : list of (float, float)
        Work and logarithm of the gap, after each state.
    ended : bool
        Whether it can gain nothing more.
    """

    def __init__(self, name: str, prior: float, step: float = 0.0):
        self.name, self.prior, self.step = name, prior, step
        self.solver: Any = None
        self.work = self.budget = 0.0
        self.ended = False
        self.history: list[tuple[float, float]] = []
        self._slow_for = 0  # judgments in a row
        self._half = 0  # index where the later half of the work begins

    def record(self, work: float, gap: float) -> None:
        """Record a state that cost ``work``, with about this relative gap."""
        self.work += work
        self.history.append((self.work, log(max(gap, TINY))))
        while 2.0 * self.history[self._half][0] < self.work:
            self._half += 1

    def is_slower(self, cost: float, tol: float) -> bool:
        """Whether more work remains than ``cost``, that of the other solver, as far as known."""
        return self.work >= self.budget and self.remaining(tol) > cost

    def judge(self, slower: bool) -> None:
        """Note whether it is slower."""
        self._slow_for = self._slow_for + 1 if slower else 0

    @property
    def gives_way(self) -> bool:
        """Whether it was found slower for several states in a row."""
        return self._slow_for >= JUDGMENTS

    def return_with(self, budget: float) -> None:
        """Run again, and be judged after so much work."""
        self.budget, self._slow_for = budget, 0

    @property
    def gap(self) -> float:
        """About the last relative gap."""
        return exp(self.history[-1][1]) if self.history else inf

    def remaining(self, tol: float) -> float:
        """The work until the relative gap is ``tol``, at the rate of the later half."""
        if self.ended or not self.history:
            return inf
        (first, before), (last, now) = self.history[self._half], self.history[-1]
        fall, to_fall = before - now, now - log(tol)
        if to_fall <= 0.0:
            return 0.0
        return to_fall * (last - first) / fall if fall > 0.0 and last > first else inf

    def expected(self, tol: float, gap: float) -> float:
        """The expected work of a waiting solver, after another one has reached this gap.

        Before its start this is a share of the prior. Later it is at most the larger of its work so
        far and the prior, whatever the rate: a gap that has not moved for long, as Newton's at
        first, may fall suddenly.
        """
        if self.ended:
            return inf
        if not self.history:
            share = log(max(gap, TINY) / tol) / -log(tol) if tol < 1.0 else 1.0
            return min(max(share * self.prior, self.step), self.prior)
        return min(self.remaining(tol), max(self.work, self.prior))
