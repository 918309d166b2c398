"""Pragam: Nesterov's excessive gap technique for the hinge loss (Saha, Zhang and Vishwanathan, 2010).

The dual of ``J(w) = reg_lambda/2 ||w||^2 + min_b sum_i s_i max(0, 1 - y_i (x_i w + b))`` is

    D(u) = sum_i s_i u_i - ||X'(s y u)||^2 / (2 reg_lambda),  0 <= u <= 1,  sum_i s_i y_i u_i = 0,

without the equation if there is no intercept; ``w(u) = X'(s y u) / reg_lambda`` is (24). A series of
steps keeps ``J_mu(w) <= D(u)``, J_mu the smoothed objective, while mu falls: the gap is at most mu/2.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core_next.limits import MOST_STEPS, ROUNDING
from sklearn_bundle.core_next.multiplier import constant, multiplier, solution
from sklearn_bundle.jit.decorators import frozen
from sklearn_bundle.linear_next.certificate import Proof
from sklearn_bundle.linear_next.risk import ScoreRisk
from sklearn_bundle.linear_next.solvers.base import At, Solver, Start, Task
from sklearn_bundle.linear_next.solvers.interior import scale_heavier_down

Array = NDArray[np.float64]
_GROWTH = 1.5  # times L if its test fails: each try costs two products
_DECAY = 0.9  # times L after every step, so that it follows a decreasing curvature
_RESTART = 0.1  # times the gap after the last start; a quarter took up to 15 % more products
_LEAST_LIPSCHITZ = 1e-6  # gradients are of size 1 and u at most 1: a longer step is the same step
_SLACK = 1.0 + 1e-12  # times L: a curvature that is above L by rounding passes its test
_LEAST_POWER_STEPS = 30  # earlier, a plateau may come from many slightly smaller eigenvalues
_POWER_PRECISION = 1e-5  # relative change of the estimate in a step
_POWER_MARGIN = 1.05  # times the estimate, which comes from below


class Dual(NamedTuple):
    """u with ``combined = X'(s y u)``, which is linear in u, and D(u)."""

    u: Array
    combined: Array
    value: float


class Primal(NamedTuple):
    """w with its scores, which are linear in it."""

    w: Array
    scores: Array


class ExcessiveGap(Solver):
    """Series of steps, each from the best u; ``lipschitz`` is L or how it is found.

    "adaptive" tests L along each step and restarts when the gap has fallen to a tenth; "power"
    estimates it once, and a number is taken as it is: Algorithm 1 of the paper.
    """

    name = "excessive-gap"
    history_fields = ()
    advice = "the features are too large for double precision; scale them"
    patience = 1000
    risk: ScoreRisk

    def __init__(self, task: Task, start: Start, lipschitz: str | float, seed: int | None):
        super().__init__(task, start)
        risk = self.risk
        self._adaptive, self._L = lipschitz == "adaptive", 0.0
        self._measure: Callable[[], float] | None = None
        if lipschitz == "power":
            self._measure = partial(self._power_estimate, seed)
        elif not isinstance(lipschitz, str):
            self._L = lipschitz
        self._signed = risk.weights * risk.y
        self._signs = frozen(risk.y), frozen(risk.weights), frozen(self._signed)
        self.highest = self._evaluated(np.zeros(len(risk.y)))
        if isinstance(start.state, np.ndarray) and self._adaptive:
            self.highest = self._evaluated(start.state)
        self._starting, self._gap_at_start = True, np.inf

    @property
    def kept(self) -> Array:
        """The best u."""
        return self.highest.u

    def begin(self) -> None:
        """Learn the constant of Algorithm 1 if it has to be computed."""
        if self._measure is not None:
            self._L = self._measure()

    def step(self) -> None:
        """A step of the series, which may be the first of a new one."""
        first = self._starting
        if first:
            self._restart()
        before = self.best.primal, self.highest.value
        self._move()
        self.idle = self.idle + 1 if before == (self.best.primal, self.highest.value) else 0
        gap = self.best.primal - self.highest.value
        self._gap_at_start = gap if first else self._gap_at_start
        self._starting = self._adaptive and gap < _RESTART * self._gap_at_start

    def prepare_confirmation(self, moving: bool) -> None:
        """Make the best u feasible again despite rounding."""
        g = -self._signed * self.highest.u
        if self.risk.free:
            scale_heavier_down(g)
            u = np.divide(-g, self._signed, out=np.zeros_like(g), where=self._signed != 0.0)
            self.highest = self._evaluated(np.clip(u, 0.0, 1.0))
        self.best.dual_certificate = Proof(derivatives=g)

    def state(self) -> Any:
        state = super().state()
        state.further = ()
        return state

    # ---- the series ----------------------------------------------------------------------------

    def _restart(self) -> None:
        """Set points for which the invariant holds with mu = L, or 2 L for Algorithm 1."""
        start = self.highest
        self._center, self._point = start.u, self._primal(start.combined)
        self._offer(self._point)
        if self._adaptive and self._L == 0.0:  # a first L, which is rather too small
            self._L = self._curvature(start, self._projected(start.u, self._point, 1.0)) or 1.0
        self._L = max(self._L, _LEAST_LIPSCHITZ)
        self._u = self._climbed(start, self._point)
        self._mu = self._L if self._adaptive else 2.0 * self._L
        self._count = 0

    def _move(self) -> None:
        smooth, share = self._projected(self._center, self._point, 1.0 / self._mu), 0.0
        while True:
            share = self._share()
            middle = self._between(self._u, smooth, share)
            point = self._primal(middle.combined)
            u = self._projected(middle.u, point, 1.0 / self._L)
            if self._accepts(middle, u):
                break
        mixed = ((1.0 - share) * x + share * y for x, y in zip(self._point, point, strict=True))
        self._point, self._u = Primal(*mixed), u
        self._mu *= 1.0 - share
        self._count += 1
        if self._adaptive:
            self._L = max(_LEAST_LIPSCHITZ, _DECAY * self._L)
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

    def _climbed(self, start: Dual, point: Primal) -> Dual:
        """A projected gradient step of length 1/L, for an L that it proves."""
        while True:
            end = self._projected(start.u, point, 1.0 / self._L)
            if self._accepts(start, end):
                return end

    def _accepts(self, start: Dual, end: Dual) -> bool:
        """Whether L bounds the curvature of D from start to end; raises L if not."""
        if not self._adaptive:
            return True
        curvature = self._curvature(start, end)
        change = np.abs(end.combined - start.combined).max(initial=0.0)
        rounded = change <= ROUNDING * np.abs(end.combined).max(initial=0.0)
        if curvature <= self._L * _SLACK or rounded:
            return True
        self._L = max(_GROWTH * self._L, curvature)
        return False

    # ---- points --------------------------------------------------------------------------------

    def _primal(self, combined: Array) -> Primal:
        """w(u): a product with X."""
        w = combined / self.reg_lambda
        return Primal(w, self.risk.scores(w))

    def _offer(self, point: Primal) -> None:
        b = self.risk.best_intercept(point.scores, 0.0) if self.risk.free else 0.0
        value = self.objective(point.w, self.risk.value(point.scores, b))
        self.best.offer(value, At(point.w, b))

    def _evaluated(self, u: Array) -> Dual:
        """u with its combination: a product with X'."""
        combined = self.risk.rows.gradient(self._signed * u)
        return Dual(u, combined, self._value(u, combined))

    def _value(self, u: Array, combined: Array) -> float:
        square = float(combined @ combined)
        return float(self.risk.weights @ u) - square / (2.0 * self.reg_lambda)

    def _between(self, start: Dual, end: Dual, share: float) -> Dual:
        u = (1.0 - share) * start.u + share * end.u
        combined = (1.0 - share) * start.combined + share * end.combined
        return Dual(u, combined, self._value(u, combined))

    def _raise_towards(self, u: Dual) -> None:
        """Move the best u to the best point towards ``u``: a better bound without a product."""
        best = self.highest
        change = u.combined - best.combined
        slope = float(self.risk.weights @ (u.u - best.u))
        slope -= float(best.combined @ change) / self.reg_lambda
        bend = float(change @ change) / self.reg_lambda
        if slope > 0.0:
            found = self._between(best, u, min(1.0, slope / bend) if bend > 0.0 else 1.0)
            if found.value > best.value:
                self.highest = found
                self.prove(Proof(), found.value)

    def _projected(self, center: Array, point: Primal, step: float) -> Dual:
        """The projection of a step from ``center`` along the gradient of D at w: (23) and (25).

        In the norm with the weights s that is ``1 - y f``, and the multiplier of the equation is
        that of the O(n) projection.
        """
        moved = center + step * (1.0 - self.risk.y * point.scores)
        if not self.risk.free:
            return self._evaluated(np.clip(moved, 0.0, 1.0))
        y, weights, signed = self._signs
        box, moved = (constant(0.0), constant(1.0)), frozen(moved)
        t = multiplier(moved, y, weights, *box, 0.0)
        return self._evaluated(solution(moved, y, signed, *box, 0.0, t)[0])

    def _curvature(self, start: Dual, end: Dual) -> float:
        """Curvature of -D from start to end, over the squared distance; 0 if they are equal."""
        change = start.combined - end.combined
        distance = float(self.risk.weights @ (start.u - end.u) ** 2)
        return float(change @ change) / self.reg_lambda / distance if distance > 0.0 else 0.0

    def _power_estimate(self, seed: int | None) -> float:
        """L of the gradient of D: the largest eigenvalue of ``X'SX / reg_lambda``, centered."""
        risk, value = self.risk, 0.0
        w = np.random.default_rng(seed).standard_normal(risk.dimension)
        for step in range(MOST_STEPS):  # of two products each
            scores = risk.scores(w / np.linalg.norm(w))
            scores -= float(risk.weights @ scores) if risk.free else 0.0
            w = risk.rows.gradient(risk.weights * scores)
            before, value = value, float(np.linalg.norm(w))
            settled = value - before <= _POWER_PRECISION * value
            if not value > 0.0 or (settled and step >= _LEAST_POWER_STEPS):
                break
        return _POWER_MARGIN * value / self.reg_lambda
