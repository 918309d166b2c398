"""The one shell around all engines: best point and bound, states, confirmation, what is kept.

An engine is a subclass that says how it begins, what a step is and what it keeps for the next
solver. Everything else of a solver stands here, once.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.certificate import CROSSED, Best
from sklearn_bundle.core.contract import ABSENT, SolverResult, State
from sklearn_bundle.core.limits import IDLE_LIMIT, LAST_PLACE
from sklearn_bundle.linear.losses.base import Loss
from sklearn_bundle.linear.problems.linear import Point
from sklearn_bundle.linear.problems.linear_rounding import (
    Certified,
    optimum_ball,
    rounding,
    size_of_terms,
)
from sklearn_bundle.linear.regularizers import L2, Regularizer
from sklearn_bundle.linear.solvers.inner.planes import Bundle
from sklearn_bundle.linear.solvers.protocols import offers, require

Array = NDArray[np.float64]
S = TypeVar("S")
PointToStart = tuple[Array, float | Array | None]  # w and the intercept


class DualCertificate(NamedTuple):
    """The bound ``c - reg_lambda Omega*(-a/reg_lambda) - shortfall`` that a plane (a, c) proves.

    The shortfall is the possible cost of an intercept's coefficient that is not quite 0.
    """

    reg_lambda: float
    plane: tuple[Array, float]
    shortfall: float = 0.0

    def bound(self, omega: Regularizer) -> float:
        """The bound that it proves, without sums accumulated on the way."""
        gradient, offset = self.plane
        bound = offset - self.reg_lambda * omega.conjugate(-gradient / self.reg_lambda)
        return bound - self.shortfall

    def lowered(self, bound: float, omega: Regularizer) -> "DualCertificate":
        """A dual certificate by the same plane that claims at most this bound."""
        return self._replace(shortfall=self._replace(shortfall=0.0).bound(omega) - bound)


@dataclass
class LinearStart:
    """What a solver keeps for the next one on the same data and loss; reg_lambda may differ.

    A point with its intercept, and what else a solver may reuse; ``state`` is for one of the same
    kind alone.
    """

    point: PointToStart | None = None
    dual_certificate: DualCertificate | None = None
    bundle: Bundle | None = None
    alpha: Array | None = None
    width: float | None = None
    state: Any = None

    def of(self, kind: type[S]) -> S | None:
        """The state if it is of this kind."""
        return self.state if isinstance(self.state, kind) else None


NOTHING = LinearStart()  # of an earlier fit


@dataclass
class Task:
    """A linear problem with its regularization, and how it is to be solved.

    Parameters
    ----------
    problem : LinearProblem, or what else a solver takes
    reg_lambda : float
    omega : Regularizer
    tol : float
        The requested relative gap.
    theta : float
        See :class:`~.bundle.BundleSolver`.
    max_size : int, default=None
        The largest number of planes; None is no limit.
    solver : str
        The public name of the solver, for classes that have several.
    """

    problem: Any
    reg_lambda: float
    omega: Regularizer = field(default_factory=L2)
    tol: float = 1e-6
    theta: float = 0.1
    max_size: int | None = None
    solver: str = "auto"


@dataclass
class Along:
    """What is known about a path of values before any of them is solved separately.

    Parameters
    ----------
    results : list
        The result of each value, or None.
    start : LinearStart
        Where a remaining value may start, together with the point of the one before.
    """

    results: list[SolverResult | None]
    start: LinearStart


class Shell(ABC):
    """A :class:`~.contract.Resumable` solver around an engine, which begins and takes steps.

    Attributes
    ----------
    best : Best
        The best point and the best bound so far.
    idle : int
        Steps since the gap last became smaller.
    patience : int
        So many of them end the solver: then only rounding is left.
    """

    best: Best
    idle, patience = 0, IDLE_LIMIT

    #: Whether the first state is the start itself.
    yields_start: ClassVar[bool] = False

    _problem: Any
    _has_begun = False

    @abstractmethod
    def begin(self) -> None:
        """Do what comes before the first step."""

    @abstractmethod
    def step(self) -> None:
        """Take a step."""

    @abstractmethod
    def confirm(self, *, moving: bool = True) -> State:
        """The best point and bound, both recomputed from the data."""

    @abstractmethod
    def _state(self) -> State:
        """The best point and bound so far."""

    @property
    def is_at_end(self) -> bool:
        """Whether only rounding is left."""
        return self.idle >= self.patience

    def states(self) -> Iterator[State]:
        """One state per step; ends by itself only when rounding leaves nothing to gain.

        Another call continues; after the end it gives the last state once more.
        """
        if not self._has_begun:
            self.begin()
            self._has_begun = True
            if self.yields_start:
                yield self._state()
        elif self.is_at_end:
            yield self._state()
        while not self.is_at_end:
            self.step()
            yield self._state()

    def attach(self, problem: Any) -> None:
        """Continue with the same problem in another object."""
        self._problem = problem

    def detach(self) -> None:
        """Release the problem and its data."""
        self._problem = ABSENT


class LinearSolver(Shell):
    """A solver of linear problems with its certificate; subclasses are engines.

    Parameters
    ----------
    task : Task
    kept : LinearStart
        What the last solver on the same data left; an engine takes from it what it can use. A dual
        certificate counts if its reg_lambda is the same.

    Attributes
    ----------
    plane : (ndarray of shape (d,), float)
        The plane (a, c) that proves the bound ``c - reg_lambda Omega*(-a / reg_lambda)``.

    Raises
    ------
    ValueError
        For a problem that does not offer what is needed.
    """

    #: The public name, which goes into the history,
    name: str
    #: which has a further column for it, since another solver may continue.
    history_fields: ClassVar[tuple] = (("solver", "U16"),)

    #: Multiplications so far whose number per step grows, without the products with X and X'.
    multiplications: float = 0.0

    #: The Protocol that a problem has to offer, or its class.
    needs: ClassVar[type]
    #: Whether the regularizer has to be ``||w||^2 / 2``.
    needs_euclidean: ClassVar[bool] = True
    #: Why recomputed bounds may cross, and what a user can do.
    advice: ClassVar[str] = "the features are too far apart in scale: scale them"

    def __init__(self, task: Task, kept: LinearStart = NOTHING):
        problem, omega, reg_lambda = task.problem, task.omega, task.reg_lambda
        instead = "cutting-plane" if self.name == "line-search" else "line-search"
        self._problem = require(problem, self.needs, self.name, instead)
        loss = getattr(problem, "loss", None)
        if loss is not None and self.form(loss) is None:
            raise ValueError(
                f"{self.name!r} does not solve problems with {type(loss).__name__}; use "
                f"{instead!r}."
            )
        if self.needs_euclidean and not omega.is_euclidean:
            raise ValueError(
                f"{type(self).__name__} is for the L2 regularizer; got "
                f"{type(omega).__name__}. Use 'line-search'."
            )
        self._lambda, self._omega, self._tol = reg_lambda, omega, task.tol
        start = kept.point
        self._start = (omega.start(problem.dimension), None) if start is None else start
        least = 0.0 if problem.nonnegative else -np.inf
        self.best = Best(least=least, advice=self.advice)
        if problem.nonnegative:
            zero = np.zeros(problem.dimension), 0.0
            self.best.dual_certificate = DualCertificate(reg_lambda, zero)
        dual_certificate = kept.dual_certificate
        if dual_certificate is None or len(dual_certificate.plane[0]) != problem.dimension:
            return  # in sample space planes have another length
        if dual_certificate.reg_lambda == reg_lambda:
            self.best.raise_bound(dual_certificate.bound(omega), dual_certificate)

    @classmethod
    def of(cls, task: Task, kept: LinearStart) -> "LinearSolver":
        """The solver of a task."""
        return cls(task, kept)

    @classmethod
    def form(cls, loss: Loss) -> Any:
        """The loss as the engine uses it: itself, or what is known of it; None if not solved."""
        return loss

    @classmethod
    def supports(cls, name: str, loss: Loss, omega: Regularizer) -> bool:
        """Whether it solves problems with this loss and regularizer, before data are known."""
        suits = omega.is_euclidean or not cls.needs_euclidean
        return suits and cls.form(loss) is not None

    @classmethod
    def fits(cls, task: Task) -> bool:
        """Whether the data and what the problem offers also suit it."""
        return offers(task.problem, cls.needs)

    @classmethod
    def is_best(cls, task: Task) -> bool:
        """Whether "auto" uses it for this task without trying others."""
        return False

    @classmethod
    def along(
        cls, task: Task, reg_lambdas: Sequence[float], max_iter: int, max_time: float | None
    ) -> Along | None:
        """Solutions of a task for all or some of many values of reg_lambda in descending order.

        Limits are per value. None if values are better solved one after the other.
        """
        return None

    @abstractmethod
    def kept(self, point: PointToStart) -> LinearStart:
        """Where a new solver may start: this point, and what else it can use."""

    def start_of_next(self, start: LinearStart) -> LinearStart:
        """The start of a solver of another kind, with what this one can add to the point."""
        return start

    def gap_of(self, state: State) -> float:
        """The relative gap by which its rate is judged: that of the state, or a better guess."""
        return state.relative_gap

    @property
    def dual_certificate(self) -> DualCertificate | None:
        """The dual certificate of the best bound."""
        return self.best.dual_certificate

    @property
    def plane(self) -> tuple[Array, float]:
        """The plane of the dual certificate."""
        return self.best.dual_certificate.plane

    def size_of_terms(self) -> float:
        """Size of the terms whose differences objective and bound are."""
        return size_of_terms(self._problem, self.best.point, self.plane[1], self._lambda)

    def confirm(self, *, moving: bool = True) -> State:
        """Objective from the data at the best point, bound from what proves it.

        The point may become a better one if it may move; the engine then continues as if it had
        not been confirmed.
        """
        self._prepare_confirmation(moving)
        best = self.best
        point = self._fresh_point(best.point)
        best.replace(self._objective(point.w, self._problem.risk(point)), point)
        if moving:
            self._improve(point)
        self._check_sign()
        self._prove_again()
        point, objective = best.point, best.primal
        if best.dual_certificate is None:
            best.recompute(objective, point, -np.inf)
            return self._state()
        omega, w, certificate = self._in_features(point.w, best.dual_certificate)
        certified = Certified(w, point.intercept, objective, certificate.plane)
        bound, terms = certificate.bound(omega), self.size_of_terms
        taken = rounding(self._problem, point, certified, omega, self._lambda)
        best.recompute(objective, point, bound, best.dual_certificate, terms=terms, rounding=taken)
        state = self._state()
        state.ball = optimum_ball(certified, bound, state.gap, taken, omega, self._lambda)
        return state

    def _prepare_confirmation(self, moving: bool) -> None:
        """Hook before a confirmation; does nothing here."""
        return

    def _fresh_point(self, point: Point) -> Point:
        """The point with scores from the data."""
        return self._problem.point(point.w, point.intercept)

    def _improve(self, point: Point) -> None:
        """Give the best point the best intercept, if that is better."""
        if point.intercept is not None:
            centered = Point(point.w, point.scores, point.intercept, point.drift)
            self._offer(centered, self._fresh_risk(centered))

    def _prove_again(self) -> None:
        """Compute the plane of the best bound afresh; here it is from the data already."""
        return

    def _in_features(
        self, w: Array, dual_certificate: DualCertificate
    ) -> tuple[Regularizer, Array, DualCertificate]:
        """Regularizer, point and dual certificate in terms of the features."""
        return self._omega, w, dual_certificate

    def _check_sign(self) -> None:
        """Check that the risk is not negative, which would make the bound 0 false."""
        primal = self.best.primal
        if primal < self.best.least and -primal > CROSSED * abs(self.size_of_terms()):
            raise ValueError(
                f"The objective is {primal:.8g}, although its risk is said to be nowhere negative: "
                "add a constant to the loss, or set nonnegative = False on the problem."
            )

    def _objective(self, w: Array, risk: float) -> float:
        return self._lambda * self._omega.value(w) + risk

    def _fresh_risk(self, point: Point) -> float:
        """The risk at the best intercept, which becomes that of the point."""
        self._problem.set_intercept(point)
        return self._problem.risk(point)

    def _offer(self, point: Point, risk: float) -> bool:
        return self.best.offer(self._objective(point.w, risk), point)

    def _prove(self, plane: tuple[Array, float], bound: float | None = None) -> bool:
        """Keep the plane's bound if it is the best; at most ``bound`` if that is given."""
        certificate = DualCertificate(self._lambda, plane)
        if bound is None:
            bound = certificate.bound(self._omega)
        elif bound > self.best.bound:
            certificate = certificate.lowered(bound, self._omega)
        return self.best.raise_bound(bound, certificate)

    def _count_idle(self, gap_before: float, *, moved: bool = True) -> None:
        """Count steps after which the gap is no smaller than before, up to rounding."""
        gained = gap_before - self.best.gap
        progress = moved and gained > LAST_PLACE * abs(self.best.primal)
        self.idle = 0 if progress else self.idle + 1

    def _state(self) -> State:
        point = self.best.point
        return self.best.state(point.w, point.intercept, self._problem.passes, further=(self.name,))
