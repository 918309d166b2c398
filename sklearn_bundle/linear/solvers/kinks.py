"""Kinked losses of one score: Newton's method on the smoothed risk, then the rows at their kinks.

The loss bends over a width about each kink, which shrinks with the gap. When as much was spent as
that costs, or with a small tol near the end, an interior-point method takes over: it solves the
problem exactly, in which only rows near their kinks count as kinked and all others are linear.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from sklearn_bundle.core.limits import MOST_SIDE
from sklearn_bundle.linear.certificate import Proof
from sklearn_bundle.linear.risk import Point
from sklearn_bundle.linear.rows import LEAST_ENTRIES, factor_passes
from sklearn_bundle.linear.score_risk import ScoreRisk
from sklearn_bundle.linear.solvers.base import (
    LEAST_RIDGE,
    MOST_RIDGE,
    WHOLE,
    At,
    Solver,
    Start,
    Task,
    add_form,
    narrower,
    next_ridge,
    step_length,
)
from sklearn_bundle.linear.solvers.interior import Kinked, solved_at_kinks, takes_all_rows

Array = NDArray[np.float64]
_SMOOTHED = 0.3  # of the gap asked for may be left by the smoothing
_NEAR_END = 1e-3  # relative gap from which few rows cross their kinks
# Derivative in b that is left, in typical slopes: times the unit, it lowers the plane.
_LEFT, _LEFT_ON_SAMPLE = 1e-9, 1e-6


class Kinks(Solver):
    """Smoothed Newton steps on a sample and then on all rows, and the rows at their kinks."""

    name = "newton"
    patience = 60
    risk: ScoreRisk

    def __init__(self, task: Task, start: Start):
        super().__init__(task, start)
        d, entries = self.risk.dimension, max(self.risk.rows.n_entries, LEAST_ENTRIES)
        # steps before the interior-point method: 5, and more if that costs much
        self._next = 5 + int(20.0 * (d + 1.0) ** 3 / entries)
        self._tried_from, self._n_steps, self._smoothed = _NEAR_END, 0, None

    def begin(self) -> None:
        """Solve a small problem at once; otherwise start from the solution for a sample, if any."""
        risk, (w, b) = self.risk, self.first()
        b = risk.units.intercept if b is None else float(np.ravel(b)[0])
        self.here, width = risk.arrive(w, risk.scores(w), b, risk.units.unit), risk.units.unit
        self.best.offer(self.objective(w, self.here.risk), At(w, self.here.b))
        if takes_all_rows(risk) and self._solve_at_kinks(_SMOOTHED * self.tol):
            return
        sampled = risk.sample() if self.start.at is None else None
        if sampled is not None:
            w, b, width = self._of_sample(*sampled)
            self.here = risk.arrive(w, risk.scores(w), b, width)
        if self.best.gap > self.tol * self.best.primal:
            self._smoothed = Smoothed(risk, self.reg_lambda, self.omega, self.here, width)
            self.offer(self._smoothed.point)

    def step(self) -> None:
        """Try the interior-point method if that is due, or take a step and narrow the width."""
        gap, best = self.best.gap, self.best
        if self._smoothed is None:  # not made by begin, where all was solved at once
            width = 1e-3 * self.risk.units.unit
            self._smoothed = Smoothed(self.risk, self.reg_lambda, self.omega, self.here, width)
        newton = self._smoothed
        self.here, self._n_steps = newton.point, self._n_steps + 1
        relative = gap / best.primal if best.primal > 0.0 else np.inf
        # with ever new ridges, steps creep along data that a plane nearly separates
        stuck = self.idle > 0 and self.idle % 15 == 0
        due = self._n_steps >= self._next or stuck
        if due or (self.tol < _NEAR_END and relative <= self._tried_from):
            self._tried_from = 0.1 * relative  # from where it is tried again if it fails
            self._next = 2 * self._n_steps + 8 if due else self._next
            if self._solve_at_kinks(_SMOOTHED * self.tol):
                return
        length = newton.step(_LEFT)
        allowed = _SMOOTHED * self.tol * best.primal
        if newton.settled and newton.hidden > allowed:
            newton.narrow(narrower(allowed, newton.hidden), _LEFT)
            gap = np.inf  # a narrower width is progress, also where the start is still better
        self.offer(newton.point)
        self.count_idle(gap, moved=length > 0.0)

    def offer(self, point: Point) -> None:
        """Offer a point and the bound of its derivatives."""
        self.best.offer(self.objective(point.w, point.risk), At(point.w, point.b))
        a, lam = self.risk.gradient(point), self.reg_lambda
        self.prove(Proof(derivatives=point.g), point.offset - lam * self.omega.conjugate(-a / lam))

    def _solve_at_kinks(self, tol: float) -> bool:
        """Offer what the interior-point method finds; whether the gap asked for is reached."""
        here = self.here
        if len(here.w) > MOST_SIDE:
            return False
        found = solved_at_kinks(Kinked(self.risk, self.reg_lambda, self.omega), here, tol)
        if found is None:
            return False
        self.offer(found)
        return self.best.gap <= self.tol * self.best.primal

    def _of_sample(self, sampled: ScoreRisk, share: int) -> tuple[Array, float, float]:
        """Steps on a sample of the rows, to where it says no more of the full problem."""
        here, unit = self.here, self.risk.units.unit
        # features a row of the sample say what width is worth while
        narrowest = min(1.0, 8.0 * len(here.w) / sampled.rows.shape[0])
        start = sampled.arrive(here.w, sampled.scores(here.w), here.b, unit)
        newton = Smoothed(sampled, self.reg_lambda, self.omega, start, unit)
        # it is a start and not a solution
        for _ in range(10):
            moved = newton.step(_LEFT_ON_SAMPLE) > 0.0
            if not moved or (newton.settled and newton.width <= narrowest * unit):
                break
            if newton.settled:
                # at most 0.4 of the width at a time
                newton.narrow(max(0.4, narrowest * unit / newton.width), _LEFT_ON_SAMPLE)
        self.risk.rows.passes += sampled.rows.passes // share
        return newton.point.w, newton.point.b, newton.width


class Smoothed:
    """A point that moves by Newton steps on the smoothed risk, with a ridge if they are short."""

    def __init__(self, risk: ScoreRisk, reg_lambda: float, omega, point: Point, width: float):
        self._risk, self._lambda, self._omega = risk, reg_lambda, omega
        self.width, self._ridge, self.settled, self.point = width, 0.0, False, point
        self._be_at(point)

    def _be_at(self, point: Point) -> None:
        risk, last, self.point = self._risk, self.point, point
        if last.gradient is not None and point.gradient is None:  # where few derivatives change
            point.gradient = last.gradient + risk.rows.gradient(point.g - last.g)
        self._slopes = risk.gradient(point) + self._lambda * self._omega.image(point.w)
        #: What the smoothing alone leaves of the gap of the point and its plane.
        self.hidden = point.risk - point.offset - float(risk.gradient(point) @ point.w)

    def narrow(self, factor: float, left: float) -> None:
        """Take a share of the width."""
        self.width, point = factor * self.width, self.point
        left *= self._risk.units.slope
        self._be_at(self._risk.arrive(point.w, point.scores, point.b, self.width, left))

    def step(self, left: float) -> float:
        """One Newton step; its length, 0 if nothing came of it."""
        risk, point, lam = self._risk, self.point, self._lambda
        w, mean = self._direction()
        decrement, along_b = -float(self._slopes @ w), -float(mean @ w) if risk.free else 0.0
        direction, image = risk.scores(w), self._omega.image(w)
        across, square = lam * float(image @ point.w), lam * float(image @ w)

        def derivative(t: float) -> tuple[float, float]:
            first, second = risk.slopes(point, direction, along_b, self.width, t)
            return first + across + t * square, second + square

        # a tenth of the slope at 0 may be left: Newton's steps are exact
        t = step_length(derivative, 0.1 * decrement) if decrement > 0.0 else 0.0
        self._ridge = next_ridge(self._ridge, t)
        # A ridge makes the decrement small where the optimum is far away.
        straight = t >= WHOLE and self._ridge <= LEAST_RIDGE
        self.settled = straight and decrement <= self.hidden
        if t > 0.0:
            scores, b = point.scores + t * direction, point.b + t * along_b
            args = point.w + t * w, scores, b, self.width, left * risk.units.slope
            self._be_at(risk.arrive(*args))
        return t

    def _direction(self) -> tuple[Array, Array]:
        """The Newton direction in w, and the mean row along which the intercept makes up for it."""
        rows, coefs = self._risk.curvature(self.point, self.width)
        H, mean = self._risk.rows.hessian(rows, coefs, self._risk.free)
        add_form(H, self._lambda, self._omega)
        flat = np.einsum("ii->i", H).copy()
        unit = max(float(flat.mean()), np.finfo(float).tiny)
        while True:
            np.einsum("ii->i", H)[:] = flat + self._ridge * unit
            _, x, failed = lapack.dposv(H.T, -self._slopes, lower=0)
            if not failed or self._ridge > MOST_RIDGE:
                return (x if not failed else -self._slopes / unit), mean
            self._ridge = max(10.0 * self._ridge, 1e-8)


def passes_of_all(risk: ScoreRisk, tol: float) -> float:
    """About what the method costs in whole, in passes over the data; infinite for many features."""
    (n, d), rows = risk.rows.shape, risk.rows
    if d > MOST_SIDE:
        return np.inf
    decades = max(-np.log10(max(tol, 1e-15)), 1.0)
    steps = decades * (1.0 + 30.0 * np.sqrt(min(d / n, 1.0)))  # as counted on the benchmarks' sets
    hessian = min(4 * d, n) / max(rows.rows_in(1.0), 1)  # at an optimum few rows bend
    return steps * (2.0 + hessian + factor_passes(d, rows.n_entries))
