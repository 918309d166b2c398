"""The shell of every solver: best point and bound, states, confirmation, what is kept."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import lapack

from sklearn_bundle.core.certificate import CROSSED, Best
from sklearn_bundle.core.contract import State
from sklearn_bundle.core.limits import IDLE_LIMIT, LAST_PLACE, MOST_STEPS, SEARCH_STEPS
from sklearn_bundle.linear.certificate import Certified, Proof, bound_of, certify, flattened
from sklearn_bundle.linear.losses import MulticlassHinge, Softmax
from sklearn_bundle.linear.regularizers import Regularizer
from sklearn_bundle.linear.risk import Risk
from sklearn_bundle.linear.rows import DenseRows, rows_of
from sklearn_bundle.linear.score_risk import ScoreRisk

Array = NDArray[np.float64]
# Least part of a row outside the others' span, of the largest: squares of it keep 12 digits.
_INDEPENDENT = 1e-2
NOT_FINITE = "The loss is not finite at the start: check the loss, and the scale of X and y."


class At(NamedTuple):
    """A point of the objective."""

    w: Array
    b: Any


@dataclass
class Start:
    """What a solver keeps for the next one on the same data and loss; reg_lambda may differ.

    ``state`` belongs to one kind of solver: planes, a dual point, columns of X.
    """

    at: At | None = None
    proof: Proof | None = None
    reg_lambda: float | None = None  # that the proof is for
    state: Any = None

    def of(self, kind: type) -> Any:
        """The state if it is of this kind."""
        return self.state if isinstance(self.state, kind) else None


@dataclass
class Task:
    """A linear problem with its regularization, and how it is to be solved.

    Steps are taken with ``risk``. If that has other rows (see :func:`in_span`), ``lift`` makes of
    its weights those of ``whole``, from which certificates are computed.
    """

    risk: Any
    reg_lambda: float
    omega: Any
    tol: float
    solver: str = "auto"
    whole: Any = None
    lift: "Lift | None" = None


class Lift(NamedTuple):
    """``w = B' A u`` of n coordinates u, with orthonormal columns of ``B' A``."""

    B: Array
    A: Array

    def weights(self, u: Array) -> Array:
        return self.B.T @ (self.A @ u)

    def coordinates(self, w: Array) -> Array:
        return self.A.T @ (self.B @ w)


def in_span(task: Task) -> Task:
    """The task with rows in the span of the rows, for wide dense data: n columns in place of d.

    With ``XX' = LL'`` the optimum is ``w = X' L'^-1 u``, and ``||w|| = ||u||``: X may be replaced
    by L. Where rows are too nearly dependent for that, L comes from ``X' = Q L'``, and ``w = Q u``.
    """
    risk, (n, d) = task.risk, task.risk.rows.shape
    wide = isinstance(risk, ScoreRisk) and isinstance(risk.rows, DenseRows) and 2 * n < d
    if not (wide and task.omega.is_euclidean):
        return task
    if risk.span is None:
        X = risk.rows.dense(np.arange(n))
        with np.errstate(over="ignore"):  # then there is no factor
            L, failed = lapack.dpotrf(X @ X.T, lower=1)
        if not failed and L.diagonal().min() > _INDEPENDENT * L.diagonal().max():
            lift = Lift(X, lapack.dtrtri(L, lower=1)[0].T)
        else:
            Q, R = np.linalg.qr(X.T)
            L, lift = R.T, Lift(Q.T, np.eye(n))
        risk.span = lift, rows_of(np.ascontiguousarray(L))
    lift, rows = risk.span
    small = ScoreRisk(rows, risk.y, risk.weights, risk.loss, risk.free)
    return replace(task, risk=small, whole=risk, lift=lift)


def opposite(risk: Any, omega: Any, at: At) -> At:
    """Of two classes, the point with opposite weights: ``coef_`` of one row stands for that.

    Losses see differences of scores alone. Where its penalty would be larger, as with weights that
    may not be negative, the point stays.
    """
    if risk.n_outputs != 2 or not isinstance(risk.loss, Softmax | MulticlassHinge):
        return at
    w, b = at
    half, half_b = (0.5 * np.diff(v.reshape(2, -1), axis=0).ravel() for v in (w, b + np.zeros(2)))
    found = At(np.concatenate([-half, half]), np.concatenate([-half_b, half_b]))
    return found if omega.value(found.w) <= (1.0 + 1e-9) * omega.value(w) else at


class Solver(ABC):
    """Begins, takes steps, and keeps the best point and the best bound, each from some step."""

    name: str
    #: The name goes into the history, since another solver may continue.
    history_fields: ClassVar[tuple] = (("solver", "U18"),)
    #: Why recomputed bounds may cross, and what a user can do.
    advice: ClassVar[str] = "the features are too far apart in scale: scale them"
    #: Whether the first state is the start itself.
    yields_start: ClassVar[bool] = False
    #: Whether a start that is no better than none does no harm: Newton's method stalls from one on
    #: nearly separable data. Planes without the best point gain nothing on it for long.
    starts_anywhere: ClassVar[bool] = False
    patience: int = IDLE_LIMIT

    def __init__(self, task: Task, start: Start):
        self.task, self.risk = task, task.risk
        self.whole: Risk = task.risk if task.whole is None else task.whole
        self.omega, self.reg_lambda, self.tol = task.omega, task.reg_lambda, task.tol
        self.start, self.idle, self.has_begun = start, 0, False
        self._least_confirmed, self._in_vain = np.inf, 0  # confirmations in a row
        least = 0.0 if task.risk.loss.nonnegative else -np.inf
        self.best = Best(least=least, advice=self.advice)
        if start.proof is not None and start.reg_lambda == task.reg_lambda and task.lift is None:
            plane = self.whole.proved(start.proof)
            self.best.raise_bound(bound_of(plane, self.omega, self.reg_lambda), start.proof)

    @abstractmethod
    def begin(self) -> None:
        """Evaluate the start."""

    @abstractmethod
    def step(self) -> None:
        """Take a step, and count it as idle if it gained nothing."""

    @property
    def kept(self) -> Start:
        """Where the next solver of the same problem may start."""
        w, b = self.best.point
        given = self.best.dual_certificate, self.reg_lambda, self.reusable
        return Start(At(self.lifted(w), b), *given)

    @property
    def reusable(self) -> Any:
        """What a solver of this kind may use at the next value of reg_lambda."""
        return None

    @property
    def is_at_end(self) -> bool:
        """Whether only rounding is left."""
        return max(self.idle, self._in_vain) >= self.patience

    def states(self) -> Iterator[State]:
        """One state per step; ends by itself only when rounding leaves nothing to gain."""
        if not self.has_begun:
            self.begin()
            self.has_begun = True
            if self.yields_start:
                yield self.state()
        elif self.is_at_end:
            yield self.state()
        while not self.is_at_end:
            self.step()
            yield self.state()

    def confirm(self, *, moving: bool = True) -> State:
        """The best point and bound, both from the data, less their rounding."""
        self.prepare_confirmation(moving)
        (w, b), proof = opposite(self.risk, self.omega, self.best.point), self.best.dual_certificate
        found = certify(self.whole, self.omega, self.reg_lambda, self.lifted(w), b, proof, moving)
        return self.confirmed(found, w, proof)

    def confirmed(self, found: Certified, w: Array, proof: Proof | None) -> State:
        """Take a certificate of the weights w as the best one, and its state."""
        best = self.best
        if found.objective < best.least and -found.objective > CROSSED * found.terms:
            raise ValueError(
                f"The objective is {found.objective:.8g}, although its risk is said to be nowhere "
                "negative: add a constant to the loss, or set nonnegative = False."
            )
        given = found.objective, At(w, found.b), found.bound, proof
        best.recompute(*given, rounding=found.rounding)
        # A gap that steps take back, and the data do not confirm, is no progress. One that is
        # smaller by a hundredth is.
        self._in_vain = 0 if best.gap < 0.99 * self._least_confirmed else self._in_vain + 1
        self._least_confirmed = min(best.gap, self._least_confirmed)
        state = self.state()
        state.ball = found.ball
        return state

    def prepare_confirmation(self, moving: bool) -> None:
        """Prove what the last steps have gained; the point may change if it is moving."""
        return

    def state(self) -> State:
        """The best point and bound so far."""
        (w, b), passes = self.best.point, self.whole.rows.passes
        if self.task.lift is None:
            return self.best.state(w, b, passes, further=(self.name,))
        state = self.best.state(w, b, passes + self.risk.rows.passes, further=(self.name,))
        return _Lifted(state, self.lifted)

    def lifted(self, w: Array) -> Array:
        """The weights of the features."""
        return w if self.task.lift is None else self.task.lift.weights(w)

    def first(self) -> At:
        """The start, in the coordinates of the steps."""
        at, d = self.start.at, self.risk.dimension
        if at is None:
            return At(np.zeros(d), None)
        w = at.w if self.task.lift is None else self.task.lift.coordinates(at.w)
        return At(w, at.b)

    def objective(self, w: Array, risk: float) -> float:
        return self.reg_lambda * self.omega.value(w) + risk

    def prove(self, proof: Proof, bound: float) -> bool:
        """Keep the bound if it is the best, and its proof: flat where nothing is penalized."""
        if self.omega.unpenalized is not None and proof.derivatives is not None:
            proof = Proof(derivatives=flattened(self.risk, self.omega, proof.derivatives))
            bound = bound_of(self.risk.proved(proof), self.omega, self.reg_lambda)
        return self.best.raise_bound(bound, proof)

    def count_idle(self, gap_before: float, *, moved: bool = True) -> None:
        """Count steps after which the gap is no smaller than before, up to rounding."""
        gained = gap_before - self.best.gap
        progress = moved and gained > LAST_PLACE * abs(self.best.primal)
        self.idle = 0 if progress else self.idle + 1


class Followed(Solver):
    """Steps of one method, and from its best point those of another one that follows it."""

    _following: Solver | None = None

    @property
    @abstractmethod
    def has_had_its_turn(self) -> bool:
        """Whether a gap that is still too large is for the other method."""

    @property
    @abstractmethod
    def successor(self) -> "type[Solver] | None":
        """The other method, if one can follow."""

    @property
    def is_at_end(self) -> bool:
        following = self._following
        if following is None:
            return super().is_at_end
        return following.is_at_end or self._in_vain >= following.patience

    def step(self) -> None:
        if self._following is not None:
            self._following.step()
            return
        super().step()  # type: ignore[safe-super]
        unmet, kind = self.best.gap > self.tol * abs(self.best.primal), self.successor
        if unmet and kind is not None and (self.has_had_its_turn or super().is_at_end):
            self._follow(kind)

    def _follow(self, kind: "type[Solver]") -> None:
        following, best = kind(self.task, Start()), self.best
        if kind.starts_anywhere or best.gap <= 0.7 * best.primal:
            following.start.at = At(self.lifted(best.point.w), best.point.b)
        following.best = best
        following.begin()
        self._following, self.name = following, following.name

    def prepare_confirmation(self, moving: bool) -> None:
        if self._following is None:
            super().prepare_confirmation(moving)


class _Lifted(State):
    """A state whose weights are computed on first use."""

    def __init__(self, state: State, lift: Callable[[Array], Array]):
        vars(self).update(vars(state))
        self._small, self._lift = vars(self).pop("point"), lift

    @cached_property
    def point(self) -> Array:  # type: ignore[override]
        return self._lift(self._small)


def step_length(
    derivative: Callable[[float], tuple[float, float]], left: float, t: float = 1.0
) -> float:
    """The step at which a rising derivative is at most ``left`` in size, by Newton's method from t.

    A derivative that is not a number counts as too far. Without such a step it is the longest one
    found at which the derivative is negative, or 0.
    """
    low, high, moves = 0.0, np.inf, (np.inf, np.inf)
    for _ in range(SEARCH_STEPS):
        first, second = derivative(t)
        if abs(first) <= left:
            return t
        low, high = (t, high) if first < 0.0 else (low, t)
        newton = t - first / second if second > 0.0 else np.nan
        slow = np.isfinite(high) and abs(newton - t) > 0.5 * moves[0]
        if slow or not low < newton < min(high, 4.0 * t):
            newton = 0.5 * (low + high) if np.isfinite(high) else 4.0 * t
        if newton in (t, low, high):
            break
        moves, t = (moves[1], abs(newton - t)), newton
    return low


def lowest(
    function: Callable[[float], tuple[float, float]], bend: float, precision: float, worth: float
) -> float:
    """The step t >= 0 at which a convex function, which may have kinks, is about lowest.

    It returns a value and a slope; where the value is not finite, t is too far. Its curvature is at
    least ``bend``: between a point where it falls and one where it rises it is above a parabola
    that touches it at either. Next is where the higher of these is lowest, which finds kinks, and
    in turn where the cubic through both points is. A gain that can be no more than the share
    ``worth`` of that so far ends the search.
    """
    first, slope = function(0.0)
    if not slope < 0.0:
        return 0.0
    t, low, high, widths = 1.0, (0.0, first, slope), (np.inf,) * 3, (np.inf, np.inf)
    for k in range(MOST_STEPS):
        if high[0] == np.inf:
            t = max(1.0, 10.0 * low[0])
            t = min(t, low[0] - low[2] / bend) if bend > 0.0 else t  # it does not fall there
        value, slope = function(t)
        if not np.isfinite(value):
            high = (t, np.inf, np.inf)
        else:
            low, high = ((t, value, slope), high) if slope < 0.0 else (low, (t, value, slope))
        width, best, along = high[0] - low[0], min(low[1], high[1]), np.nan
        # the square of no longer step is finite
        if low[0] > 1e100:
            break
        if high[2] < np.inf:
            along, floor = _between(low, high, bend)
            if best - floor <= max(worth * (first - best), LAST_PLACE * abs(best)):
                break
            along = _cubic(low, high) if k % 2 else along
        if width <= precision * high[0] < np.inf:
            break
        t = low[0] + (along if 0.0 < along < width <= 0.5 * widths[0] else 0.5 * width)
        widths = widths[1], width
    return low[0] if low[1] <= high[1] else high[0]


def _between(low: tuple, high: tuple, bend: float) -> tuple[float, float]:
    """How far beyond ``low`` the higher of both parabolas is lowest, and its value there."""
    (t, value, slope), (end, above, rise) = low, high
    width = end - t
    turn = rise - slope - bend * width
    x = (value - above + (rise - 0.5 * bend * width) * width) / turn if turn > 0.0 else width
    if bend > 0.0:
        x = min(max(x, width - rise / bend), -slope / bend)
    x = min(max(x, 0.0), width)
    left, right = slope + 0.5 * bend * x, rise - 0.5 * bend * (width - x)
    return x, max(value + left * x, above - right * (width - x))


def _cubic(low: tuple, high: tuple) -> float:
    """How far beyond ``low`` the cubic with both values and slopes is lowest."""
    (t, value, slope), (end, above, rise) = low, high
    turn = slope + rise + 3.0 * (value - above) / (end - t)
    root = np.sqrt(max(turn * turn - slope * rise, 0.0))
    return (end - t) * (1.0 - (rise + root - turn) / (rise - slope + 2.0 * root))


def add_form(H: Array, reg_lambda: float, omega: Regularizer) -> None:
    """Add ``reg_lambda B`` of a quadratic Omega to a Hessian."""
    matrix = omega.matrix
    if matrix is None or np.ndim(matrix) == 1:
        np.einsum("ii->i", H)[:] += reg_lambda * (1.0 if matrix is None else matrix)
    else:
        H += reg_lambda * (matrix.toarray() if sp.issparse(matrix) else matrix)


WHOLE = 0.5  # a step after which the ridge falls
LEAST_RIDGE, MOST_RIDGE = 1e-6, 10.0  # times the mean of the Hessian's diagonal


def next_ridge(ridge: float, step: float) -> float:
    """The ridge after a step of this length."""
    if step < 0.1:
        return min(max(10.0 * ridge, LEAST_RIDGE), MOST_RIDGE)
    if step > WHOLE:
        return ridge / 10.0 if ridge > 0.1 * LEAST_RIDGE else 0.0
    return ridge


def narrower(allowed: float, hidden: float) -> float:
    """The factor on the width, at least 0.3, that makes of a gap that it hides the allowed one."""
    return max(0.3, 0.95 * min(float(np.sqrt(allowed / hidden)), 1.0))
