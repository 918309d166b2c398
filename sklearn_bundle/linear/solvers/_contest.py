"""A solver in competition with others: its cost so far, and an estimate of the remaining cost."""

from math import exp, inf, log

from sklearn_bundle.linear.solvers.linear_task import LinearSolver

_TINY = 1e-300  # replaces a gap of 0
_LEAST_SHARE = 0.2  # of the work from scratch, for a solver that begins near the end


class Contestant:
    """Costs are in products with X or X', so that equal fits make equal choices.

    Parameters
    ----------
    name : str
        The public name.
    prior : float
        Expected cost of a solver of this name from its start.

    Attributes
    ----------
    solver : LinearSolver
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

    def __init__(self, name: str, prior: float):
        self.name, self.prior = name, prior
        self.solver: LinearSolver | None = None
        self.work = self.budget = 0.0
        self.ended = False
        self.history: list[tuple[float, float]] = []
        self._half = 0  # index where the later half of the work begins

    def record(self, work: float, gap: float) -> None:
        """Record a state that cost ``work``, with about this relative gap."""
        self.work += work
        self.history.append((self.work, log(max(gap, _TINY))))
        while 2.0 * self.history[self._half][0] < self.work:
            self._half += 1

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
            share = log(max(gap, _TINY) / tol) / -log(tol) if tol < 1.0 else 1.0
            return min(max(share, _LEAST_SHARE), 1.0) * self.prior
        return min(self.remaining(tol), max(self.work, self.prior))
