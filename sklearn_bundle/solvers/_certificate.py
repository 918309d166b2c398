"""What every solver has: its best point, its best bound, what proves it, and when bounds cross."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.solvers.asks import Points
from sklearn_bundle.solvers.contract import State, uncrossed

# Relative to the objective: a bound that is higher above it is no rounding of a sum of its size.
# Sums of 1e8 terms of one sign are right to 1e-8, and sums with cancellation say so themselves.
CROSSED = 1e-6
# Relative to the terms that objective and bound are differences of: 5,000 times the precision.
ROUNDED = 1e-12
_FAR = (
    "since products with features that are far from 0 beside their spread are rounded: center and "
    "scale the features, or ask for a larger tol"
)
_TINY = 1e-100  # in place of terms of size 0


def confirmed(
    bound: float,
    primal: float,
    advice: str,
    terms: Callable[[], float] | None = None,
    products: Callable[[], float] | None = None,
) -> float:
    """A bound that was computed afresh beside an objective that was: never above it.

    ``terms`` gives the size of what objective and bound are differences of, if that may be far
    larger than they are; ``advice`` says why they may cross and what a user can do. ``products``
    gives the size of the terms of products with X: where their rounding is why, no bound is known
    to be true, and the advice is to center the features.

    Raises
    ------
    ValueError
        If the bound is above the objective by more than rounding explains.
    """
    crossed = bound - primal
    if crossed > CROSSED * abs(primal) and not (terms and crossed <= ROUNDED * terms()):
        why = f"by more than rounding explains: {advice}"
        if products and crossed <= ROUNDED * products():
            why = _FAR
        raise ValueError(
            f"The lower bound {bound:.8g} lies above the objective {primal:.8g}, {why}."
        )
    return uncrossed(bound, primal)


def size_of_terms(problem: Points, point: Any, offset: float, reg_lambda: float) -> float:
    """Of what objective and bound are differences of: terms of the loss, and of the plane.

    The objective is as small as scores are like targets; the risk at 0 is as large as targets.
    """
    zeros = np.zeros_like(point.w)
    risk = problem.risk(problem.point(zeros, None))
    return risk + abs(offset) + reg_lambda * len(zeros) + _TINY


class Best:
    """The best point and the best bound of a solver so far.

    A bound above the objective is false. Rounding may do that, by up to 1e-6 of the objective: the
    bound is then taken to be as far below, as in :func:`~.contract.uncrossed`. If it is farther
    above, no state claims more than a gap of 0, so that the values are confirmed; where fresh
    values cross by as much, that is an error.

    Parameters
    ----------
    least : float
        No objective is below, whatever is proved: 0 where the risk is known not to be negative.
    provisional : bool
        Whether values are of a working precision until they are computed afresh: a bound above the
        objective then stays, and says that there is no more to see in that precision.
    advice : str
        Why fresh values may cross, and what a user can do: the end of a sentence.

    Attributes
    ----------
    primal : float
        Objective of the best point, infinity before the first.
    point : object
        The best point as the solver keeps it, None before the first.
    bound : float
        The best bound that was proved, minus infinity before the first. With a crossing that
        rounding does not explain it is above the objective.
    proof : object
        What proves the bound: a dual point or an aggregate plane; None where nothing does.
    """

    def __init__(
        self,
        *,
        least: float = -np.inf,
        provisional: bool = False,
        advice: str = "scale the features",
    ):
        self.least = least
        self._provisional, self._advice = provisional, advice
        self.primal, self.point = np.inf, None
        self.withdraw()

    @property
    def gap(self) -> float:
        """Objective less what is proved; below 0 where the two have crossed."""
        return self.primal - self.bound

    def offer(self, primal: float, point: Any) -> bool:
        """Keep the point if its objective is lower; whether it is."""
        better = primal < self.primal
        if better:
            self.primal, self.point = primal, point
        return better

    def prove(self, bound: float, proof: Any = None) -> bool:
        """Keep the bound with its proof if it is higher; whether it is."""
        if not self._provisional and bound - self.primal <= CROSSED * abs(self.primal):
            bound = uncrossed(bound, self.primal)
        better = bound > self.bound
        if better:
            self.bound, self.proof = bound, proof
        return better

    def renew(
        self,
        primal: float,
        point: Any,
        bound: float,
        proof: Any = None,
        *,
        terms: Callable[[], float] | None = None,
        products: Callable[[], float] | None = None,
    ) -> None:
        """Fresh values, which replace the kept ones whether they are better or not.

        Raises
        ------
        ValueError
            As :func:`confirmed`, which says what ``terms`` and ``products`` are.
        """
        self.primal, self.point = primal, point
        fresh = confirmed(bound, primal, self._advice, terms, products)
        self.bound = max(fresh, self.least)
        self.proof = proof

    def withdraw(self) -> None:
        """Forget the bound and its proof."""
        self.bound, self.proof = -np.inf, None

    def state(
        self,
        point: NDArray[np.float64],
        intercept: float | None,
        passes: int,
        n_steps: int | None = None,
        further: tuple = (),
    ) -> State:
        """Objective and bound as a :class:`State`, the bound between ``least`` and objective.

        An objective below ``least`` is so by rounding: ``least`` is the truth.
        """
        bound = max(min(self.bound, self.primal), self.least)
        return State(self.primal, bound, point, intercept, passes, n_steps, further)
