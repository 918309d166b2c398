"""What solvers of kernel machines share: precision, points to continue from, methods in turn."""

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.certificate import Best, attained
from sklearn_bundle.core.contract import Solver, State
from sklearn_bundle.kernel.problems.l2svm import L2SVM, Candidate

Array = NDArray[np.float64]

MOST_REFINEMENTS = 12  # failed confirmations in all: by then more no longer help
REFINEMENTS = 3  # confirmations that may fail before values are computed in double precision
SLACK = 0.95  # of tol, for steps in single precision: rounding may take the rest


class KernelSolver(Solver):
    """Steps in single precision, confirmed in float64: iterative refinement.

    After a confirmation that failed, steps continue from scores in float64, so that rounded kernel
    values only affect the moves from there. Where that does not help, all values become exact.

    Parameters
    ----------
    problem : L2SVM or L2Tube
    tol : float
    max_steps : int, default=infinity
    first_step : int
        Number of steps of earlier fits, which led to the start.

    Attributes
    ----------
    n_steps, passes : int
        Steps taken, and kernel rows computed or products with the kernel matrix, so far.
    indefinite : bool
        Whether the kernel was found not to be positive semidefinite, which ends the steps.
    """

    history_fields: tuple[tuple[str, type], ...]

    def __init__(
        self, problem: Any, tol: float = 0.0, max_steps: float = np.inf, first_step: int = 0
    ):
        self._problem, self._tol, self._max_steps = problem, tol, max_steps
        self._first_step = first_step
        self.n_steps = self.passes = 0
        self.indefinite = False
        self._missed, self._stale = 0, False  # confirmations that failed; whether one just did
        self._best = Best(provisional=True)

    @property
    @abstractmethod
    def kept(self) -> Any:
        """Where the next fit may start."""

    @abstractmethod
    def _state(self) -> State:
        """The best point and the best bound."""

    def _confirmed(self, primal: float, point: Any, bound: float) -> State:
        """The state with these values, which were recomputed in float64."""
        self._best.recompute(primal, point, bound)
        self.indefinite = self.indefinite or self._best.bound == -np.inf
        self._stale = True
        return self._state()

    def _state_at(self, coef: Array, *further: Any) -> State:
        """The state with these coefficients of the best point, and values of history_fields."""
        if self.indefinite:  # there is no bound
            self._best.drop_bound()
        return self._best.state(coef, None, self.passes, self.n_steps, further)

    def _promote(self) -> None:
        """Use kernel values in double precision from now on."""
        self._problem.promote()

    def _promote_if_due(self) -> None:
        """Use them if a few confirmations have failed."""
        if self._missed > REFINEMENTS and self._problem.dtype == np.float32:
            self._promote()

    def _leave_single_precision(self) -> None:
        """Confirm what single precision has given, which is all that it has to give."""
        self.confirm()
        self._missed = max(self._missed, REFINEMENTS)


class SimplexPoints(NamedTuple):
    """Points of the simplex from which to continue: the newest, and the one of lowest objective.

    ``n_steps`` steps led there.
    """

    newest: Array
    best: Array | None = None
    n_steps: int = 0

    @property
    def different(self) -> list[Array]:
        """The points, the newest last."""
        return [self.newest] if self.best is None else [self.best, self.newest]

    @classmethod
    def after(cls, n_steps: int, newest: Array, best: Array) -> "SimplexPoints":
        """The points that so many steps led to; a best point that is the newest is left out."""
        return cls(newest, None if np.array_equal(best, newest) else best, n_steps)


def vertex(n: int) -> Array:
    """The first vertex of the simplex."""
    a = np.zeros(n)
    a[0] = 1.0
    return a


def evaluated(problem: L2SVM, a: Array) -> tuple[float, Candidate]:
    """The objective of the model of a, and a as a candidate."""
    q = problem.products(a)
    value = float(np.sum(a * q))
    primal = problem.primal_value(a, q, value) if value > 0.0 else np.inf
    return primal, Candidate(a, q, a / value)


def confirmed(
    problem: L2SVM, best: Candidate, newest: Candidate, moving: bool
) -> tuple[float, Candidate, float]:
    """Lowest objective with its point, and the highest bound, both in float64.

    The point is no farther from the optimum than the gap says, despite rounding: see
    :func:`~.certificate.attained`. The bound is -inf if K seems to be
    indefinite. Unless ``moving``, the point is ``best``.
    """
    same = np.array_equal(best.a, newest.a)
    candidates = [newest if moving else best] if same else [best, newest]
    certificates = problem.certify(*candidates)
    certified = list(zip(certificates, candidates, strict=True))
    reached, found = min(
        certified if moving else certified[:1], key=lambda pair: pair[0].primal + pair[0].excess
    )
    bounds = [certificate.bound for certificate in certificates]
    primal, bound = attained(reached.primal, reached.excess, max(bounds))
    indefinite = min(bounds) == -np.inf or bound > primal
    return primal, found, -np.inf if indefinite else bound


class HandoverSolver:
    """Takes steps of one solver until they reach ``tol`` or stall, then another's from there.

    Blocks first: steps in two variables of the dual without its simplex need far fewer steps on
    ill-conditioned kernels. Then SWAP steps, which make the scores more accurate: the last states
    are always theirs.

    Parameters
    ----------
    first : KernelSolver
    then : callable
        Makes the second solver from the points that the first one leaves, and the steps it took.
    history_fields : tuple
        Those of the second solver; the first one has zeros there.
    tol : float
        Relative gap at which the second one begins.
    """

    def __init__(
        self,
        first: KernelSolver,
        then: Callable[[SimplexPoints, int], KernelSolver],
        history_fields: tuple,
        tol: float,
    ):
        self.current = self._first = first
        self._then, self.history_fields, self._tol = then, history_fields, tol
        self._steps = self._passes = 0  # of the solver that does not run
        self._further = (0,) * len(history_fields)  # of the second one, while the first runs

    @property
    def kept(self) -> SimplexPoints:
        """Where the next fit may start."""
        return self.current.kept

    def states(self) -> Iterator[State]:
        """The states of both; ends when the second one does, at the smaller gap of the two."""
        first, last = self.current, None
        for last in first.states():
            if last.relative_gap <= self._tol and first.confirm().relative_gap <= self._tol:
                break
            yield self._as_one(last)
        if last is None:
            return
        last = first.confirm()
        self._steps, self._passes = last.n_steps or 0, last.passes
        self.current = self._then(first.kept, self._steps)
        state = None
        for state in self.current.states():
            yield self._as_one(state)
        if state is None or self.current.confirm().gap > last.gap:
            if state is not None:
                self._steps, self._passes = state.n_steps or 0, state.passes
                self._further = state.further
            self.current = first
            yield self._as_one(last)

    def confirm(self, *, moving: bool = True) -> State:
        """Objective and bound, recomputed by the solver that runs."""
        return self._as_one(self.current.confirm(moving=moving))

    def _as_one(self, state: State) -> State:
        steps, passes = self._steps + (state.n_steps or 0), self._passes + state.passes
        further = self._further if self.current is self._first else state.further
        return replace(state, n_steps=steps, passes=passes, further=further)
