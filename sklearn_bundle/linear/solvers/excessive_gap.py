"""Pragam: Nesterov's excessive gap technique (Saha, Zhang and Vishwanathan, 2010)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.certificate import Best, Rounding
from sklearn_bundle.core.contract import State
from sklearn_bundle.core.limits import ROUNDING
from sklearn_bundle.core.optimum import Ball
from sklearn_bundle.linear._compiled import design
from sklearn_bundle.linear.problems.linear import Point
from sklearn_bundle.linear.solvers.solver import Shell

Array = NDArray[np.float64]

_ADVICE = "the features are too large for double precision; scale them"
_GROWTH = 1.5  # times L if its test fails: each try costs two products
_DECAY = 0.9  # times L after every step, so that it follows a decreasing curvature
_RESTART = 0.1  # times the gap after the last start; a quarter took up to 15 % more products
_LEAST_LIPSCHITZ = 1e-6  # gradients are of size 1 and u at most 1: a longer step is the same step
_IDLE_LIMIT = 1000  # steps in which neither bound moves: then only rounding is left
_SLACK = 1.0 + 1e-12  # times L: a curvature that is above L by rounding passes its test


@dataclass
class DualPoint:
    """u with ``combine(u)``, which is ``X'(s y u)`` for the hinge loss, and D(u)."""

    u: Array
    combined: Array
    value: float


class ExcessiveGap(Protocol):
    """An objective P whose smooth dual D has a feasible set that can be projected onto.

    w is linear in ``combined``, which is linear in a dual point u; D(u) follows from both.
    """

    @property
    def passes(self) -> int:
        """The work so far."""
        ...

    def origin(self) -> tuple[Array, Array]:
        """A feasible u with D(u) = 0, and its ``combined``."""
        ...

    def point(self, w: Array, intercept: float | None) -> Point:
        """The point w."""
        ...

    def blend(self, start: Point, end: Point, step: float) -> Point:
        """The point ``start + step (end - start)``."""
        ...

    def combine(self, u: Array) -> Array:
        """The linear functions of u on which w and D depend."""
        ...

    def primal_point(self, combined: Array) -> Point:
        """w(u), the maximizer's counterpart: (24) of Saha, Zhang and Vishwanathan (2010)."""
        ...

    def primal_value(self, point: Point) -> float:
        """P at the point, whose intercept may become the best one."""
        ...

    def objective(self, point: Point) -> float:
        """P at the point, with its own intercept."""
        ...

    def rounding(self, point: Point, objective: float, combined: Array, bound: float) -> Rounding:
        """What rounding of P at the point and of D may hide: it is to be taken off the bound."""
        ...

    def ball(
        self, point: Point, objective: float, combined: Array, bound: float, taken: Rounding
    ) -> Ball | None:
        """A ball that contains the optimal w, None if it is not wanted."""
        ...

    def dual_value(self, u: Array, combined: Array) -> float:
        """D(u)."""
        ...

    def project(self, center: Array, point: Point, step: float, series: int) -> Array:
        """Project the end of a step from ``center`` along the gradient of D at w.

        Distances are those of the prox-function. Projections of a series, 0 or 1, change little
        from one to the next, so that one may start where the last one ended.
        """
        ...

    def feasible(self, u: Array) -> Array:
        """u, made feasible again despite rounding."""
        ...

    def curvature(self, u: Array, u_combined: Array, v: Array, v_combined: Array) -> float:
        """Curvature of -D from u to v, over the squared distance; 0 if u = v."""
        ...

    def best_between(self, u: Array, u_combined: Array, v: Array, v_combined: Array) -> float:
        """The t in [0, 1] at which ``D(u + t (v - u))`` is largest."""
        ...


class ExcessiveGapSolver(Shell):
    """Keeps ``J_mu(w) <= D(u)`` for a mu that falls with every step: the gap is at most mu/2.

    For the hinge loss ``J_mu(w) = reg_lambda/2 ||w||^2 + max_u sum_i s_i u_i (1 - y_i <w, x_i>)
    - mu/2 sum_i s_i (u_i - c_i)^2`` is J smoothed, with the prox-center c; it is at most mu/2 below
    J. The maximizer is the paper's (23), the ascent step on D its (25), the rate its (26). For
    another loss J_mu has the prox-function of its dual, and the gap is at most mu times the largest
    value of that.

    Parameters
    ----------
    problem : ExcessiveGap
    lipschitz : float, callable or None
        Constant L of the gradient of D for the paper's Algorithm 1, or a function that returns it;
        ``mu = 4 L / ((k + 1)(k + 2))`` after k steps. None adapts L, and starts again from the best
        u whenever the gap has fallen to a tenth of what it was after the last start.
    start : ndarray
        Feasible u to start from; the origin, which Algorithm 1 always takes, by default.

    Attributes
    ----------
    mu : float
        That of the newest step.
    center, point, u : ndarray, Point, DualPoint
        Prox-center, w and u of the newest step, for which the invariant holds.
    dual_point : DualPoint
        The best u, which proves the lower bound.
    """

    patience = _IDLE_LIMIT
    _problem: ExcessiveGap

    def __init__(
        self,
        problem: ExcessiveGap,
        lipschitz: float | Callable[[], float] | None,
        start: Array | None = None,
    ):
        self._problem = problem
        self._adaptive = lipschitz is None
        self._measure = lipschitz if callable(lipschitz) else None  # until L is known
        self._lipschitz = 0.0 if lipschitz is None or callable(lipschitz) else lipschitz
        origin = DualPoint(*problem.origin(), 0.0)
        self.dual_point = origin
        if start is not None and self._adaptive:
            self.dual_point = self._evaluated(start)
        self.best = Best(least=0.0, advice=_ADVICE)  # losses are nonnegative
        self.best.raise_bound(self.dual_point.value, self.dual_point)
        self._at_start: float | None = None  # the gap one step after the last start
        self._starting = True

    def begin(self) -> None:
        """Learn the constant of Algorithm 1 if it has to be computed."""
        if self._measure is not None:
            self._lipschitz, self._measure = self._measure(), None

    def step(self) -> None:
        """A step of the series, which may be the first of a new one."""
        if self._starting:
            self._restart()
            self._at_start = None
        before = self._values
        self._move()
        self.idle = self.idle + 1 if before == self._values else 0
        gap = self.best.primal - self.dual_point.value
        self._at_start = gap if self._at_start is None else self._at_start
        self._starting = self._adaptive and gap < _RESTART * self._at_start

    def confirm(self, *, moving: bool = True) -> State:
        """Objective from the data at the best point, bound from the data at the best u.

        The point is always that of the last state.
        """
        problem, w, b = self._problem, self.best.point.w, self.best.point.intercept
        point = problem.point(w, b)
        self.dual_point = self._evaluated(problem.feasible(self.dual_point.u))
        primal, bound = problem.objective(point), self.dual_point.value
        found = point, primal, self.dual_point.combined, bound
        taken = problem.rounding(*found)
        self.best.recompute(primal, point, bound, self.dual_point, rounding=taken)
        state = self._state()
        state.ball = problem.ball(*found, taken)
        return state

    @property
    def _values(self) -> tuple[float, float]:
        """Objective and D of the best points."""
        return self.best.primal, self.dual_point.value

    def _restart(self) -> None:
        """Set points for which the invariant holds with mu = L, or 2 L for Algorithm 1."""
        start = self.dual_point
        self.center = start.u
        self.point = self._problem.primal_point(start.combined)
        self._offer(self.point)
        if self._adaptive and self._lipschitz == 0.0:
            self._lipschitz = self._guess(start)
        self._lipschitz = max(self._lipschitz, _LEAST_LIPSCHITZ)
        self.u = self._climb(start, self.point)
        while not self._accepts(start, self.u):
            self.u = self._climb(start, self.point)
        self.mu = self._lipschitz if self._adaptive else 2.0 * self._lipschitz
        self._count = 0

    def _move(self) -> None:
        smooth = self._maximizer(self.center, self.point, self.mu, 0)
        while True:
            share = self._share()
            middle = self._blend(self.u, smooth, share)
            point = self._problem.primal_point(middle.combined)
            u = self._climb(middle, point)
            if self._accepts(middle, u):
                break
        self.point = self._problem.blend(self.point, point, share)
        self.u = u
        self.mu *= 1.0 - share
        self._count += 1
        if self._adaptive:
            self._lipschitz = max(_LEAST_LIPSCHITZ, _DECAY * self._lipschitz)
        self._offer(self.point)
        self._offer(point)
        self._search_towards(u)
        self._search_towards(smooth)

    def _share(self) -> float:
        """tau: how far the step goes. ``tau^2 = (1 - tau) mu/L`` keeps the invariant for any L."""
        if not self._adaptive:
            return 2.0 / (self._count + 3.0)
        q = self.mu / self._lipschitz
        return 2.0 * q / (q + np.sqrt(q * q + 4.0 * q))

    def _climb(self, start: DualPoint, point: Point) -> DualPoint:
        """A projected gradient step of length 1/L from ``start``, whose w(u) is ``point``."""
        return self._maximizer(start.u, point, self._lipschitz, 1)

    def _maximizer(self, center: Array, point: Point, mu: float, series: int) -> DualPoint:
        """The u of (23), in series 0, or of (25), in series 1."""
        return self._evaluated(self._problem.project(center, point, 1.0 / mu, series))

    def _accepts(self, start: DualPoint, end: DualPoint) -> bool:
        """Whether L bounds the curvature of D from start to end; raises L if not."""
        if not self._adaptive:
            return True
        curvature = self._problem.curvature(start.u, start.combined, end.u, end.combined)
        change = np.abs(end.combined - start.combined).max(initial=0.0)
        if curvature <= self._lipschitz * _SLACK:
            return True
        if change <= ROUNDING * np.abs(end.combined).max(initial=0.0):
            return True
        self._lipschitz = max(_GROWTH * self._lipschitz, curvature)
        return False

    def _guess(self, start: DualPoint) -> float:
        """A first L, which is rather too small: the curvature of D towards some other u."""
        end = self._maximizer(start.u, self.point, 1.0, 1)
        return self._problem.curvature(start.u, start.combined, end.u, end.combined) or 1.0

    def _search_towards(self, u: DualPoint) -> None:
        """Move the best u to the best point towards ``u``: a better bound without a product."""
        best = self.dual_point
        share = self._problem.best_between(best.u, best.combined, u.u, u.combined)
        if share > 0.0:
            found = self._blend(best, u, share)
            if found.value > best.value:
                self.dual_point = found
                self.best.raise_bound(found.value, found)

    def _offer(self, point: Point) -> None:
        self.best.offer(self._problem.primal_value(point), point)

    def _evaluated(self, u: Array) -> DualPoint:
        combined = self._problem.combine(u)
        return DualPoint(u, combined, self._problem.dual_value(u, combined))

    def _blend(self, start: DualPoint, end: DualPoint, share: float) -> DualPoint:
        u, combined = np.empty_like(start.u), np.empty_like(start.combined)
        design.blend(share, start.u, end.u, u)
        design.blend(share, start.combined, end.combined, combined)
        return DualPoint(u, combined, self._problem.dual_value(u, combined))

    def _state(self) -> State:
        point = self.best.point
        return self.best.state(point.w, point.intercept, self._problem.passes)
