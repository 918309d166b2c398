"""Dual coordinate epochs whose aggregate planes make the certificate."""

from collections import deque
from collections.abc import Iterator
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr

from sklearn_bundle._compiled import coordinate
from sklearn_bundle.losses import Hinge, LogLoss, SquaredHinge
from sklearn_bundle.losses.base import Loss
from sklearn_bundle.problems.linear import LinearProblem, Point
from sklearn_bundle.solvers.asks import LineSearch
from sklearn_bundle.solvers.bundle import BundleSolver
from sklearn_bundle.solvers.contract import State
from sklearn_bundle.solvers.inner.planes import Bundle
from sklearn_bundle.solvers.linear_start import LinearStart, Proof

Array = NDArray[np.float64]

_KINDS = {
    Hinge: coordinate.HINGE,
    SquaredHinge: coordinate.SQUARED_HINGE,
    LogLoss: coordinate.LOG_LOSS,
}
# How far a step moves the intercept, relative to its row's own score. Below 0.03 the centre
# overshoots on some sets; with 1 all rows disturb each other: 2 to 5 times the epochs.
_PULL = 0.1
_SEED = 88172645463325252
_PLANES = 2  # of a bundle of its own, for another solver
# A w of more numbers does not fit into the caches of one core (1 MB). Neighbouring rows are then
# taken together, so that X is read as a stream, and w is kept in single precision until the gap
# is small: the misses on w are what an epoch costs.
_FAR = 1 << 17
_BLOCK = 8
_SINGLE = 1e-4  # relative gap down to which single precision will do
_MET = 0.8  # the gap of the mean of dual points, over that of the rows as met: a first guess
_TIGHT = 0.2  # times the largest squared gradients of the last epoch: beyond, a row is left out
_CAUTION = 0.9  # times tol: what the estimate of the gap has to be for a check
_FALL = 0.25  # of the estimate since the last check: then there is one without a tol
_LONGEST = 20.0  # passes over all rows without a check
_RECENT = 6  # epochs that tell the rate
_NEAR = 2.5  # times the estimate that makes a check: from there on dual points are averaged
_SHARPNESS = 3.0  # the faster the gap falls, the shorter the memory of the mean of dual points
_LONGEST_MEMORY = 0.1
_TINY = 1e-300
_PROGRESS = 1e-3  # of the gap of the dual point itself, between checks
_IDLE_CHECKS = 4  # without progress, after which rounding has the last word


def has_dual_steps(loss: Loss) -> bool:
    """Whether there is a coordinate step for the loss."""
    return type(loss) in _KINDS


class DualCoordinateSolver(BundleSolver):
    """Coordinate ascent in the dual, one number alpha_i a row, certified now and then.

    An epoch maximises the dual over one alpha_i after the other, in random order; rows whose
    alpha_i seems to have settled at a bound are left out (Hsieh, Chang, Lin, Keerthi and
    Sundararajan, 2008). The rows' parts of the duality gap, as an epoch meets them, estimate the
    gap. Where the estimate says that it is worth it, a check computes from the data the plane
    ``a = -X'(y alpha)`` with its offset, the objective at ``w = -a / reg_lambda`` and at the best
    multiple of it: two passes. Its alpha is a running mean of those after the last epochs: the
    scores of rows with 0 < alpha_i < s_i jump to and fro, and a sum of hinges sees every jump.
    All else that a state shows is as of the last check.

    A free intercept asks for ``y'alpha = 0``, which no single step keeps. It is a coordinate with
    a quadratic term around a centre instead, which follows it after every epoch (the method of
    multipliers); in a check alpha is balanced exactly, by scaling the heavier class.

    Parameters
    ----------
    problem : LinearProblem
        With a loss of which ``has_dual_steps`` is true.
    reg_lambda : float
        The regularizer is ``||w||^2 / 2``.
    tol_hint : float, default=None
        The relative gap that is asked for; without it checks are more frequent.
    bundle : Bundle
        Gets the plane of the best bound when it is read.
    start : (ndarray, intercept)
        A point to begin with; the steps start from ``alpha``.
    proof : Proof
        As of :class:`BundleSolver`.
    alpha : ndarray of shape (n,), default=None
        Dual point to start from, 0 by default.

    Attributes
    ----------
    plane : (ndarray of shape (d,), float)
        As of :class:`BundleSolver`.
    """

    needs: ClassVar[dict[str, type]] = {"dual-coordinate": LineSearch}
    needs_euclidean: ClassVar[bool] = True

    def __init__(
        self,
        problem: LinearProblem,
        reg_lambda: float,
        *,
        tol_hint: float | None = None,
        bundle: Bundle | None = None,
        start: tuple[Array, float | None] | None = None,
        proof: Proof | None = None,
        alpha: Array | None = None,
    ):
        if bundle is None:
            bundle = Bundle(problem.dimension, _PLANES)
        super().__init__(problem, reg_lambda, bundle=bundle, start=start, proof=proof)
        y, weights, self._free = problem.target, problem.weights, problem.fit_intercept
        self.name = "dual-coordinate"
        self._kind = _KINDS[type(problem.loss)]
        self._tol = tol_hint
        n, d = problem.rows.shape
        self._y, self._weights = y, weights
        self._far = problem.rows.stored().width == 0 and d > _FAR
        self._block = _BLOCK if self._far else 1
        squares = problem.rows.squared_norms() / reg_lambda
        self._pull = _PULL * float(weights @ squares) if self._free else 0.0
        self._numbers = np.column_stack([y, weights, squares + self._pull, np.zeros(n)])
        self._alpha = self._numbers[:, coordinate.ALPHA]
        if alpha is not None:
            top = weights if self._kind != coordinate.SQUARED_HINGE else np.inf
            self._alpha[:] = np.clip(alpha, 0.0, top)
        self._mean: Array | None = None
        index = np.int32 if n < 2**31 else np.int64
        self._active, self._order = np.arange(n, dtype=index), np.empty(n, dtype=index)
        self._size, self._limits = n, (np.inf, np.inf)
        self._seed = np.array([_SEED], dtype=np.uint64)
        self._b, self._off = 0.0, self._pull * float(y @ self._alpha)  # the second from y'alpha
        self._ratio = _MET
        self._dual = 0.0  # its value, about
        self._estimates: deque[float] = deque(maxlen=_RECENT)
        self._trail: list[tuple[int, float]] = []  # passes and estimates
        self._spent = 0  # passes, as of the last problem that was let go
        self.attach(problem)
        self._w: Array | None = None  # the working copy: there is none before the first epoch
        self._at_check, self._since, self._passed = np.inf, 0.0, 0.0
        self._single = self._far and (tol_hint is None or tol_hint > _SINGLE)
        self._fresh: Point | None = None  # whose scores are a product of the data with its w

    def attach(self, problem: LinearProblem) -> None:
        """As of :class:`BundleSolver`."""
        super().attach(problem)
        self._rows = problem.rows
        self._passes_before = self._rows.passes - self._spent
        self._stored = self._rows.stored()

    def detach(self) -> None:
        """As of :class:`BundleSolver`."""
        self._spent = self.n_passes
        super().detach()
        self._rows = self._stored = None

    def kept(self, point: tuple[Array, float | None]) -> LinearStart:
        """As of :class:`BundleSolver`."""
        return LinearStart(point, self.proof, alpha=self.alpha)

    @property
    def alpha(self) -> Array:
        """The dual point, shape (n,); that of the next solver on these data may start from it."""
        return self._alpha.copy()

    @property
    def rate(self) -> float:
        """By how much the logarithm of the estimated gap fell in an epoch, of the recent ones."""
        if len(self._estimates) < 2:
            return np.inf
        first, last = self._estimates[0], self._estimates[-1]
        return float(np.log(max(first, _TINY) / max(last, _TINY))) / (len(self._estimates) - 1)

    @property
    def n_passes(self) -> int:
        """Products with X or X' of these epochs and their checks."""
        return self._rows.passes - self._passes_before

    @property
    def rate_a_pass(self) -> float:
        """By how much the logarithm of the estimated gap fell in a pass, of the later half."""
        last, estimate = self._trail[-1]
        first, before = next(at for at in self._trail if 2 * at[0] >= last)
        return float(np.log(before / estimate)) / max(last - first, 1)

    @property
    def estimate(self) -> float:
        """The relative gap after the last epoch, about; the certificate is that of the state."""
        return self._estimates[-1] if self._estimates else np.inf

    @property
    def active_share(self) -> float:
        """Share of the rows that the next epoch takes: what it costs."""
        return self._size / len(self._y)

    def states(self) -> Iterator[State]:
        """One state an epoch; ends when rounding leaves nothing to gain."""
        if self._w is None:
            self._begin_here()
        elif self._idle >= _IDLE_CHECKS:  # the last run has ended so
            yield self._state()
            return
        while self._idle < _IDLE_CHECKS:
            self._epoch()
            if self._is_time():
                self._check()
            yield self._state()

    def confirm(self, *, moving: bool = True) -> State:
        """As of :class:`BundleSolver`; if the point may move, with the epochs since the check.

        The epochs go on as if nothing had been looked at, and its passes are none of theirs.
        """
        spent = self.n_passes
        if moving and self._since > 0.0:
            self._prove(self._newest())
        state = super().confirm(moving=moving)
        self._passes_before += self.n_passes - spent
        return state

    @property
    def bundle(self) -> Bundle:
        """Planes for another solver: to add one takes as long as an epoch where d is large."""
        if self._new_plane is not None:
            self._bundle.add(*self._new_plane)
            self._new_plane = None
        return self._bundle

    @bundle.setter
    def bundle(self, bundle: Bundle) -> None:
        self._bundle, self._new_plane = bundle, None

    def _fresh_point(self, point: Point) -> Point:
        return point if point is self._fresh else super()._fresh_point(point)

    def _begin_here(self) -> None:
        w, b = self._start
        point = self._point(w, b) if w.any() else Point(w, np.zeros(len(self._y)), 0.0)
        self._offer(point, self._fresh_risk(point))
        if not self.bundle.is_empty:
            self._solve_inner()
        precision = np.float32 if self._single else np.float64
        self._w = np.zeros(self._problem.dimension, dtype=precision)
        if self._alpha.any():
            if self._kind != coordinate.LOG_LOSS:
                self._shorten()
            self._check()

    def _shorten(self) -> None:
        """Scale alpha down as far as the hinge's dual rises: it may be of another reg_lambda."""
        gradient = self._rows.gradient(self._y * self._alpha)
        square = max(float(gradient @ gradient), _TINY)
        self._alpha *= min(self._lambda * float(self._alpha.sum()) / square, 1.0)

    def _epoch(self) -> None:
        size, (high, low) = self._size, self._limits
        size, largest, smallest, gap, gained, b = coordinate.epoch(
            *(*self._stored, self._numbers.ravel(), self._active, size, self._block),
            *(self._order, self._far, self._kind, self._w, 1.0 / self._lambda),
            *(high, low, self._b, self._pull, self._seed),
        )
        work = self._size / len(self._y)
        self._since += work
        self._count(2.0 * work)
        self._size = size
        self._limits = tuple(_TIGHT * x if x > 0.0 else np.inf for x in (largest, smallest))
        self._off += b - self._b
        self._b = b + self._off
        self._dual += gained
        gap = max(gap, 0.0) * self._ratio
        self._estimates.append(gap / max(self._dual + gap, _TINY))
        self._trail.append((self.n_passes, max(self.estimate, _TINY)))
        self._average()

    def _average(self) -> None:
        """Begin the running mean when a check is near, or move it."""
        if self._mean is not None:
            newest = max(1.0 - np.exp(-_SHARPNESS * self.rate), _LONGEST_MEMORY)
            coordinate.follow(self._numbers.ravel(), newest, self._mean)
        elif self.estimate <= _NEAR * self._wanted():
            self._mean = self.alpha

    def _count(self, passes: float) -> None:
        """Of parts of passes the whole ones."""
        self._passed += passes
        whole = int(self._passed)
        self._rows.passes += whole
        self._passed -= whole

    def _is_time(self) -> bool:
        """Whether a check is worth two passes."""
        if self._size == 0 or self._since > _LONGEST:
            return True
        if self._single and self.estimate <= _SINGLE:
            return True
        return self.estimate <= self._wanted()

    def _wanted(self) -> float:
        """The estimate at which there is a check."""
        if self._tol is not None and self._at_check > self._tol:
            return _CAUTION * self._tol
        return _FALL * self._at_check

    def _check(self) -> None:
        """Plane, bound and objective from alpha and the data; the next epoch begins from there."""
        gap, before = self._best.gap, self._at_check
        alpha = self._newest()
        self._alpha[:], self._mean = alpha, None
        self._go_on_from(*self._prove(alpha))
        self._count_idle(gap)
        if self._at_check < (1.0 - _PROGRESS) * before:  # from far behind a point to start from
            self._idle = 0

    def _newest(self) -> Array:
        """The mean of the last dual points if there is one, feasible."""
        alpha = self.alpha if self._mean is None else self._mean
        return self._balanced(alpha) if self._free else alpha

    def _prove(self, alpha: Array) -> tuple[Point, float]:
        """The point that belongs to alpha, offered as the best one, and the bound."""
        gradient = self._rows.gradient(-self._y * alpha)
        offset = self._offset(alpha)
        square = float(gradient @ gradient)
        bound = offset - square / (2.0 * self._lambda)
        if self._best.prove(bound, Proof(self._lambda, (gradient, offset), 0.0)):
            self._new_plane = self.plane
        w = gradient / -self._lambda
        point = self._problem.point(w)
        self._offer_fresh(point, self._problem.minimise_intercept(point))
        if not self._within():
            self._search_ray(point, square / self._lambda)
        return point, bound

    def _within(self) -> bool:
        return self._tol is not None and self._best.gap <= self._tol * self._best.primal

    def _offer_fresh(self, point: Point, risk: float) -> None:
        self._offer(point, risk)
        if self._best.point is point:
            self._fresh = point

    def _search_ray(self, point: Point, curvature: float) -> None:
        """The best multiple of w: its scores are the same multiple, and as good as a product."""
        start = Point(np.zeros(0), np.zeros_like(point.scores), 0.0)
        step = self._problem.line_search(start, point, 0.0, curvature)
        if 0.0 < step < np.inf and step != 1.0:
            scaled = Point(point.w, step * point.scores, step * point.intercept)
            risk = self._problem.minimise_intercept(scaled)
            objective = 0.5 * step * step * curvature + risk
            if objective < self._best.primal:
                scaled.w = step * point.w
                self._offer_fresh(scaled, risk)

    def _go_on_from(self, point: Point, bound: float) -> None:
        """Working w, intercept and active rows as the check found them."""
        met = self.estimate / self._ratio if self._estimates else np.inf
        self._b, self._off, self._dual = float(point.intercept), 0.0, bound
        risk = self._problem.risk(point)
        objective = self._objective(point.w, risk)
        found = max(objective - bound, 0.0) / max(objective, _TINY)
        if 0.0 < met < np.inf and found > 0.0:
            self._ratio *= found / self.estimate
        if self._single and (found <= 2.0 * _SINGLE or found > 0.5 * self._at_check):
            self._single = False
            self._w = np.empty_like(point.w)
        self._w[:] = point.w
        self._at_check, self._since = found, 0.0
        if self._kind == coordinate.LOG_LOSS:
            return
        margins = self._y * (point.scores + point.intercept)
        numbers = self._numbers.ravel()
        self._size, _ = coordinate.keep_active(
            self._kind, margins, numbers, *self._limits, self._active
        )

    def _balanced(self, alpha: Array) -> Array:
        """A dual point with its heavier class scaled down."""
        positive = self._y > 0.0
        of_positive = float(alpha[positive].sum())
        of_negative = float(alpha[~positive].sum())
        larger = max(of_positive, of_negative)
        if larger == 0.0:
            return alpha
        share = min(of_positive, of_negative) / larger
        return alpha * np.where(positive == (of_positive > of_negative), share, 1.0)

    def _offset(self, alpha: Array) -> float:
        if self._kind == coordinate.HINGE:
            return float(np.sum(alpha))
        if self._kind == coordinate.SQUARED_HINGE:
            return float(np.sum(alpha - 0.5 * alpha * alpha / self._weights))
        p = alpha / self._weights
        return float(np.sum(self._weights * (entr(p) + entr(1.0 - p))))
