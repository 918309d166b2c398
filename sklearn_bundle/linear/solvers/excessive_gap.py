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

from sklearn_bundle.core.limits import ROUNDING
from sklearn_bundle.linear.certificate import Proof
from sklearn_bundle.linear.score_risk import ScoreRisk
from sklearn_bundle.linear.solvers.base import At, Solver, Start, Task
from sklearn_bundle.linear.solvers.interior import scale_heavier_down
from sklearn_bundle.linear.solvers.multiplier import projected

Array = NDArray[np.float64]
_LEAST_LIPSCHITZ = 1e-6  # gradients are of size 1 and u at most 1: a longer step is the same step


class DualPoint(NamedTuple):
    """u with ``combined``, which is ``X'(s y u)``, and D(u)."""

    u: Array
    combined: Array
    value: float


class Primal(NamedTuple):
    """w with its scores, which are linear in it."""

    w: Array
    scores: Array


class ExcessiveGap(Solver):
    """Series of steps, each from the best u; without a given L it is tested along each step.

    An L that is tested falls between steps, and a new series starts when the gap has fallen to a
    tenth. A given one is that of Algorithm 1, whose ``mu = 4 L / ((k + 1)(k + 2))`` after k steps.
    Distances have the weights s.
    """

    name = "excessive-gap"
    advice = "the features are too large for double precision; scale them"
    patience = 1000  # steps in a row that change nothing: then only rounding is left
    risk: ScoreRisk

    def __init__(self, task: Task, start: Start, lipschitz: Any):
        super().__init__(task, start)
        risk, n = self.risk, len(self.risk.y)
        self._signed, self._box = risk.weights * risk.y, (np.zeros(n), np.ones(n))
        self._adaptive = lipschitz == "adaptive"
        self._L = 0.0 if self._adaptive else lipschitz
        known = isinstance(start.state, np.ndarray) and self._adaptive
        self._highest = self._evaluated(start.state if known else np.zeros(n))  # the best u
        self._starting, self._gap_at_start = True, np.inf

    @property
    def reusable(self) -> Array:
        """The best u."""
        return self._highest.u

    def begin(self) -> None:
        """Nothing: the first step evaluates the start."""

    def step(self) -> None:
        """A step of the series, which may be the first of a new one."""
        first, before = self._starting, (self.best.primal, self._highest.value)
        if first:
            self._restart()
        self._move()
        gap = self.best.primal - self._highest.value
        self._gap_at_start = gap if first else self._gap_at_start
        # a quarter of the gap after the last start took up to 15 % more products
        self._starting = self._adaptive and gap < 0.1 * self._gap_at_start
        moved = before != (self.best.primal, self._highest.value)
        self.idle = 0 if moved else self.idle + 1

    def prepare_confirmation(self, moving: bool) -> None:
        """Make the best u feasible again despite rounding."""
        signed = self._signed
        g = -signed * self._highest.u
        if self.risk.free:
            scale_heavier_down(g)
            u = np.divide(-g, signed, out=np.zeros_like(g), where=signed != 0.0)
            self._highest = self._evaluated(np.clip(u, 0.0, 1.0))
        self.best.dual_certificate = Proof(derivatives=g)

    # ---- a series ------------------------------------------------------------------------------

    def _restart(self) -> None:
        """Set points for which the invariant holds with mu = L, or 2 L for Algorithm 1."""
        start = self._highest
        self._center, self._point = start.u, self._primal(start.combined)
        self._offer(self._point)
        if self._adaptive and self._L == 0.0:  # a first L, which is rather too small
            self._L = self._curvature(start, self._projected(start.u, self._point, 1.0)) or 1.0
        self._L = max(self._L, _LEAST_LIPSCHITZ)
        while True:
            self._u = self._projected(start.u, self._point, 1.0 / self._L)
            if self._accepts(start, self._u):
                break
        self._mu = self._L if self._adaptive else 2.0 * self._L
        self._count = 0

    def _move(self) -> None:
        """The w and u of (23) to (26)."""
        smooth = self._projected(self._center, self._point, 1.0 / self._mu)
        while True:
            share = self._share()
            middle = self._between(self._u, smooth, share)
            point = self._primal(middle.combined)
            u = self._projected(middle.u, point, 1.0 / self._L)
            if self._accepts(middle, u):
                break
        blends = ((1.0 - share) * x + share * y for x, y in zip(self._point, point, strict=True))
        self._point, self._u = Primal(*blends), u
        self._mu *= 1.0 - share
        self._count += 1
        if self._adaptive:
            # so that it follows a decreasing curvature
            self._L = max(_LEAST_LIPSCHITZ, 0.9 * self._L)
        self._offer(self._point)
        self._offer(point)
        self._raise_towards(u)
        self._raise_towards(smooth)

    def _share(self) -> float:
        """tau: how far the step goes. ``tau^2 = (1 - tau) mu/L`` keeps the invariant for any L."""
        if not self._adaptive:
            return 2.0 / (self._count + 3.0)
        q = self._mu / self._L
        return 2.0 * q / (q + np.sqrt(q * q + 4.0 * q))

    def _accepts(self, start: DualPoint, end: DualPoint) -> bool:
        """Whether L bounds the curvature of D from start to end; raises L if not."""
        if not self._adaptive:
            return True
        curvature = self._curvature(start, end)
        change = np.abs(end.combined - start.combined).max(initial=0.0)
        rounded = change <= ROUNDING * np.abs(end.combined).max(initial=0.0)
        # a curvature that is above L by rounding passes its test
        if curvature <= self._L * (1.0 + 1e-12) or rounded:
            return True
        # each try costs two products
        self._L = max(1.5 * self._L, curvature)
        return False

    def _curvature(self, start: DualPoint, end: DualPoint) -> float:
        """Curvature of -D from start to end, over the squared distance; 0 if they are equal."""
        distance = float(self.risk.weights @ (start.u - end.u) ** 2)
        return self._bend(end.combined - start.combined) / distance if distance > 0.0 else 0.0

    def _raise_towards(self, u: DualPoint) -> None:
        """Move the best u to the best point towards ``u``: a better bound without a product."""
        best = self._highest
        bend = self._bend(u.combined - best.combined)
        slope = u.value - best.value + 0.5 * bend  # D is quadratic on the line
        if slope > 0.0:
            found = self._between(best, u, min(1.0, slope / bend) if bend > 0.0 else 1.0)
            if found.value > best.value:
                self._highest = found
                self.best.raise_bound(found.value)

    # ---- points --------------------------------------------------------------------------------

    def _evaluated(self, u: Array) -> DualPoint:
        """u with its combination: a product with X'."""
        return self._dual_point(u, self.risk.rows.gradient(self._signed * u))

    def _dual_point(self, u: Array, combined: Array) -> DualPoint:
        return DualPoint(u, combined, float(self.risk.weights @ u) - 0.5 * self._bend(combined))

    def _between(self, start: DualPoint, end: DualPoint, share: float) -> DualPoint:
        u = (1.0 - share) * start.u + share * end.u
        return self._dual_point(u, (1.0 - share) * start.combined + share * end.combined)

    def _bend(self, change: Array) -> float:
        """``-<v, D'' v>`` of a change of ``combined``."""
        return float(change @ change) / self.reg_lambda

    def _primal(self, combined: Array) -> Primal:
        """w(u): a product with X."""
        w = combined / self.reg_lambda
        return Primal(w, self.risk.scores(w))

    def _offer(self, point: Primal) -> None:
        risk, w = self.risk, point.w
        b = risk.best_intercept(point.scores, 0.0) if risk.free else 0.0
        self.best.offer(self.objective(w, risk.value(point.scores, b)), At(w, b))

    def _projected(self, center: Array, point: Primal, step: float) -> DualPoint:
        """The end of a step from ``center`` along the gradient of D at the point, projected.

        (23) and (25): the gradient in this norm is ``1 - y f``, the projection the O(n) one.
        """
        moved = center + step * (1.0 - self.risk.y * point.scores)
        if not self.risk.free:
            return self._evaluated(np.clip(moved, 0.0, 1.0))
        return self._evaluated(projected(moved, self.risk.y, self._signed, *self._box, 0.0)[0])
