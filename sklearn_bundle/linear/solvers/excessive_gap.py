"""Pragam: Nesterov's excessive gap technique for the hinge loss (Saha et al., 2010).

The dual of ``J(w) = reg_lambda/2 ||w||^2 + min_b sum_i s_i max(0, 1 - y_i (x_i w + b))`` is

    D(u) = sum_i s_i u_i - ||X'(s y u)||^2 / (2 reg_lambda),  0 <= u <= 1,  sum_i s_i y_i u_i = 0,

without the equation if there is no intercept; ``w(u) = X'(s y u) / reg_lambda`` is (24). A series
of steps keeps ``J_mu(w) <= D(u)``, J_mu the smoothed objective, while mu falls: the gap is at most
mu/2.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.certificate import Best
from sklearn_bundle.core.limits import ROUNDING
from sklearn_bundle.linear.certificate import Proof
from sklearn_bundle.linear.score_risk import ScoreRisk
from sklearn_bundle.linear.solvers.base import At, Solver, Start, Task
from sklearn_bundle.linear.solvers.interior import scale_heavier_down
from sklearn_bundle.linear.solvers.multiplier import projected

Array = NDArray[np.float64]
_LEAST_LIPSCHITZ = 1e-6  # gradients are of size 1 and u at most 1: a longer step is the same step
PATIENCE = 1000  # steps in a row that change nothing: then only rounding is left


class DualPoint(NamedTuple):
    """u with ``combined``, which is ``X'(s y u)``, and D(u)."""

    u: Array
    combined: Array
    value: float


class Primal(NamedTuple):
    """w with its scores, which are linear in it."""

    w: Array
    scores: Array


class HingeDual:
    """D, with w and D(u) from ``combined``, which is linear in u; distances have the weights s."""

    def __init__(self, risk: ScoreRisk, reg_lambda: float):
        self._risk, self._lambda = risk, reg_lambda
        self.signed = risk.weights * risk.y
        self._box = np.zeros(len(risk.y)), np.ones(len(risk.y))

    def combine(self, u: Array) -> Array:
        """``X'(s y u)``: a product with X'."""
        return self._risk.rows.gradient(self.signed * u)

    def value(self, u: Array, combined: Array) -> float:
        """D(u)."""
        return float(self._risk.weights @ u) - 0.5 * self.bend(combined)

    def point(self, combined: Array) -> Primal:
        """w(u): a product with X."""
        w = combined / self._lambda
        return Primal(w, self._risk.scores(w))

    def blend(self, start: Primal, end: Primal, share: float) -> Primal:
        """The point ``start + share (end - start)``."""
        return Primal(*((1.0 - share) * x + share * y for x, y in zip(start, end, strict=True)))

    def offer(self, best: Best, point: Primal) -> None:
        """Offer the objective of the point."""
        risk, w = self._risk, point.w
        b = risk.best_intercept(point.scores, 0.0) if risk.free else 0.0
        penalty = 0.5 * self._lambda * float(w @ w)
        best.offer(penalty + risk.value(point.scores, b), At(w, b))

    def project(self, center: Array, point: Primal, step: float) -> Array:
        """The end of a step from ``center`` along the gradient of D at the point, projected.

        (23) and (25): the gradient in this norm is ``1 - y f``, the projection the O(n) one.
        """
        moved = center + step * (1.0 - self._risk.y * point.scores)
        if not self._risk.free:
            return np.clip(moved, 0.0, 1.0)
        return projected(moved, self._risk.y, self.signed, *self._box, 0.0)[0]

    def bend(self, change: Array) -> float:
        """``-<v, D'' v>`` of a change of ``combined``."""
        return float(change @ change) / self._lambda

    def distance(self, u: Array, v: Array) -> float:
        """Squared, in the prox-function."""
        return float(self._risk.weights @ (u - v) ** 2)


class Series:
    """Series of steps, each from the best u; without a given L it is tested along each step.

    An L that is tested falls between steps, and a new series starts when the gap has fallen to a
    tenth. A given one is that of Algorithm 1, whose ``mu = 4 L / ((k + 1)(k + 2))`` after k steps.
    """

    def __init__(self, dual: HingeDual, lipschitz: float | None, start: Array, best: Best):
        self.dual, self.best = dual, best
        self._adaptive, self.L = lipschitz is None, lipschitz or 0.0
        self.highest = self.evaluated(start)  # the best u, which proves the bound
        self._starting, self._gap_at_start = True, np.inf

    def step(self) -> bool:
        """A step of the series, which may be the first of a new one; whether anything changed."""
        first = self._starting
        if first:
            self._restart()
        before = self.best.primal, self.highest.value
        self._move()
        gap = self.best.primal - self.highest.value
        self._gap_at_start = gap if first else self._gap_at_start
        # a quarter of the gap after the last start took up to 15 % more products
        self._starting = self._adaptive and gap < 0.1 * self._gap_at_start
        return before != (self.best.primal, self.highest.value)

    def evaluated(self, u: Array) -> DualPoint:
        """u with its combination."""
        combined = self.dual.combine(u)
        return DualPoint(u, combined, self.dual.value(u, combined))

    def _restart(self) -> None:
        """Set points for which the invariant holds with mu = L, or 2 L for Algorithm 1."""
        start = self.highest
        self.center, self.point = start.u, self.dual.point(start.combined)
        self.dual.offer(self.best, self.point)
        if self._adaptive and self.L == 0.0:  # a first L, which is rather too small
            self.L = self._curvature(start, self._projected(start.u, self.point, 1.0)) or 1.0
        self.L = max(self.L, _LEAST_LIPSCHITZ)
        while True:
            self.u = self._projected(start.u, self.point, 1.0 / self.L)
            if self._accepts(start, self.u):
                break
        self.mu = self.L if self._adaptive else 2.0 * self.L
        self._count = 0

    def _move(self) -> None:
        """The w and u of (23) to (26)."""
        dual = self.dual
        smooth = self._projected(self.center, self.point, 1.0 / self.mu)
        while True:
            share = self._share()
            middle = self._between(self.u, smooth, share)
            point = dual.point(middle.combined)
            u = self._projected(middle.u, point, 1.0 / self.L)
            if self._accepts(middle, u):
                break
        self.point, self.u = dual.blend(self.point, point, share), u
        self.mu *= 1.0 - share
        self._count += 1
        if self._adaptive:
            # so that it follows a decreasing curvature
            self.L = max(_LEAST_LIPSCHITZ, 0.9 * self.L)
        dual.offer(self.best, self.point)
        dual.offer(self.best, point)
        self._raise_towards(u)
        self._raise_towards(smooth)

    def _share(self) -> float:
        """tau: how far the step goes. ``tau^2 = (1 - tau) mu/L`` keeps the invariant for any L."""
        if not self._adaptive:
            return 2.0 / (self._count + 3.0)
        q = self.mu / self.L
        return 2.0 * q / (q + np.sqrt(q * q + 4.0 * q))

    def _accepts(self, start: DualPoint, end: DualPoint) -> bool:
        """Whether L bounds the curvature of D from start to end; raises L if not."""
        if not self._adaptive:
            return True
        curvature = self._curvature(start, end)
        change = np.abs(end.combined - start.combined).max(initial=0.0)
        rounded = change <= ROUNDING * np.abs(end.combined).max(initial=0.0)
        # a curvature that is above L by rounding passes its test
        if curvature <= self.L * (1.0 + 1e-12) or rounded:
            return True
        # each try costs two products
        self.L = max(1.5 * self.L, curvature)
        return False

    def _curvature(self, start: DualPoint, end: DualPoint) -> float:
        """Curvature of -D from start to end, over the squared distance; 0 if they are equal."""
        distance = self.dual.distance(start.u, end.u)
        bend = self.dual.bend(end.combined - start.combined)
        return bend / distance if distance > 0.0 else 0.0

    def _projected(self, center: Array, point: Primal, step: float) -> DualPoint:
        return self.evaluated(self.dual.project(center, point, step))

    def _between(self, start: DualPoint, end: DualPoint, share: float) -> DualPoint:
        u = (1.0 - share) * start.u + share * end.u
        combined = (1.0 - share) * start.combined + share * end.combined
        return DualPoint(u, combined, self.dual.value(u, combined))

    def _raise_towards(self, u: DualPoint) -> None:
        """Move the best u to the best point towards ``u``: a better bound without a product."""
        best = self.highest
        bend = self.dual.bend(u.combined - best.combined)
        slope = u.value - best.value + 0.5 * bend  # D is quadratic on the line
        if slope > 0.0:
            found = self._between(best, u, min(1.0, slope / bend) if bend > 0.0 else 1.0)
            if found.value > best.value:
                self.highest = found
                self.best.raise_bound(found.value)


class ExcessiveGap(Solver):
    """The series for the hinge loss; ``lipschitz`` is L, or "adaptive"."""

    name = "excessive-gap"
    history_fields = ()
    advice = "the features are too large for double precision; scale them"
    patience = PATIENCE
    risk: ScoreRisk

    def __init__(self, task: Task, start: Start, lipschitz: Any):
        super().__init__(task, start)
        self._dual = HingeDual(self.risk, self.reg_lambda)
        given = None if lipschitz == "adaptive" else lipschitz
        known = isinstance(start.state, np.ndarray) and given is None
        u = start.state if known else np.zeros(len(self.risk.y))
        self._series = Series(self._dual, given, u, self.best)

    @property
    def reusable(self) -> Array:
        """The best u."""
        return self._series.highest.u

    def begin(self) -> None:
        """Nothing: the first step evaluates the start."""

    def step(self) -> None:
        self.idle = 0 if self._series.step() else self.idle + 1

    def prepare_confirmation(self, moving: bool) -> None:
        """Make the best u feasible again despite rounding."""
        signed = self._dual.signed
        g = -signed * self._series.highest.u
        if self.risk.free:
            scale_heavier_down(g)
            u = np.divide(-g, signed, out=np.zeros_like(g), where=signed != 0.0)
            self._series.highest = self._series.evaluated(np.clip(u, 0.0, 1.0))
        self.best.dual_certificate = Proof(derivatives=g)

    def state(self) -> Any:
        state = super().state()
        state.further = ()
        return state
