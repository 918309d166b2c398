"""L-BFGS for smooth losses, whose metric becomes a Cholesky factor once that pays.

The metric of the first steps is diagonal. As soon as the steps since the last one have taken as
long as a Hessian of enough rows and its factor, the factor becomes the metric; pairs of steps and
changes of the gradient correct it. With few features that is Newton's method, with many L-BFGS.
"""

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, lapack

from sklearn_bundle.core.lbfgs import Corrections
from sklearn_bundle.core.limits import CONSTANT, MEMORY, MOST_SIDE, REFRESHED, RIDGES, SLOPE_LEFT
from sklearn_bundle.linear.certificate import Proof
from sklearn_bundle.linear.risk import Point
from sklearn_bundle.linear.rows import factor_passes
from sklearn_bundle.linear.score_risk import ScoreRisk
from sklearn_bundle.linear.solvers.base import (
    NOT_FINITE,
    At,
    Solver,
    Start,
    Task,
    add_form,
    step_length,
)

Array = NDArray[np.float64]
SLOW = 0.02  # share to which the gain of a step falls above which a new factor is wanted,
COARSE = 0.1  # and above which it takes twice the rows


class Descent(Solver):
    """A point that moves along corrected directions; its derivatives prove the bound."""

    advice = "center and scale the features"
    yields_start = True

    def __init__(self, task: Task, start: Start):
        super().__init__(task, start)
        self.name = "lbfgs"
        self.pairs = Corrections(MEMORY)
        self.n_steps = 0
        self.gain, self.fall = np.inf, 1.0  # of the last step, and over that of the one before

    def begin(self) -> None:
        """Go to the start: the next steps lead away from a bad one."""
        self.start_moving()
        self.go(*self.first())
        self.slopes = self.differentiate()
        self.offer()

    def step(self) -> None:
        """A step along the corrected gradient; without progress the pairs are forgotten."""
        gap, before, value = self.best.gap, self.slopes, self.value
        self.renew_metric()
        along = self._downhill()
        if along is None:
            self.count_idle(gap, moved=False)
            return
        length = self.move(along, SLOPE_LEFT * -blas.ddot(along, before))
        self.n_steps += 1
        if not length > 0.0:
            self.pairs.clear()
        if not length > 0.0 or self.n_steps % REFRESHED == 0:
            self.go(self.point.w, self.point.b)
        self.slopes = self.differentiate()
        if length > 0.0:
            self.remember(length * along, self.slopes - before)
        gain = max(value - self.value, 0.0)
        self.fall = gain / self.gain if 0.0 < self.gain < np.inf else 1.0
        self.gain = gain
        self.offer()
        self.count_idle(gap, moved=length > 0.0)

    def remember(self, step: Array, change: Array) -> None:
        """Keep the pair of a step and the change of the slopes."""
        self.pairs.remember(step, change)

    def arrive(self, point: Point) -> None:
        """Be at a point."""
        self.point = point
        self.value = self.objective(point.w, point.risk)
        if self.best.point is None and not np.isfinite(self.value):
            raise ValueError(NOT_FINITE)

    def offer(self) -> None:
        """Offer the point, and the bound of its derivatives."""
        point = self.point
        self.best.offer(self.value, At(point.w, point.b))
        found = self.proof()
        if found is not None:
            self.prove(*found)

    def _downhill(self) -> Array | None:
        """The corrected gradient; None if there is no such direction without pairs either."""
        for _ in range(2):
            along = self.pairs.correct(-self.slopes, self.solve)
            if -np.inf < blas.ddot(along, self.slopes) < 0.0:
                return along
            self.pairs.clear()
        return None

    point: Point
    value: float  # of the objective at the point

    @abstractmethod
    def start_moving(self) -> None:
        """Prepare the metric of the first steps."""

    @abstractmethod
    def go(self, w: Array, b: Any) -> None:
        """Go to a point: a product with X."""

    @abstractmethod
    def differentiate(self) -> Array:
        """The gradient of the objective at the point: a product with X'."""

    @abstractmethod
    def move(self, along: Array, left: float) -> float:
        """Move along a direction to where its slope is small; the step, 0 for none."""

    @abstractmethod
    def proof(self) -> tuple[Proof, float] | None:
        """What the derivatives at the point prove; None if that is too little to compute it."""

    @abstractmethod
    def renew_metric(self) -> None:
        """Compute a better metric if that pays, and forget the pairs that corrected the last."""

    @abstractmethod
    def solve(self, x: Array) -> Array:
        """The inverse of the metric times x."""


class ScoreDescent(Descent):
    """One score per row and a quadratic Omega; the best intercept goes along with w."""

    risk: ScoreRisk

    def start_moving(self) -> None:
        risk, (n, d) = self.risk, self.risk.rows.shape
        self._factor: Array | None = None
        self._mean = np.zeros(d)
        self._detail, self._scale = 1, 1.0
        # of the first Hessian: 4 a feature, or as many as take two passes
        rows = min(n, max(4 * d, risk.rows.rows_in(2.0)))
        self._cost = rows / max(risk.rows.rows_in(1.0), 1) + factor_passes(d, risk.rows.n_entries)
        possible = d <= MOST_SIDE and self.task.solver != "lbfgs" and risk.has_curvature
        self._cost = self._cost if possible else np.inf
        # a first Hessian and its factor may cost 20 passes before any step
        at_once = self._cost <= 20.0 or (possible and self.task.solver == "newton")
        self._spent = np.inf if at_once else 0.0
        self._diagonal: Array | float | None = None

    def go(self, w: Array, b: Any) -> None:
        b = self.risk.units.intercept if b is None else b
        self.arrive(self.risk.arrive(w, self.risk.scores(w), b, left=self._left))

    def differentiate(self) -> Array:
        # passes of a step: scores of the direction, and the gradient
        self._spent += 2.0
        return self.risk.gradient(self.point) + self.reg_lambda * self.omega.image(self.point.w)

    def proof(self) -> tuple[Proof, float]:
        """The gap of a point and its own plane is ``lam Omega*`` of the slopes over lam."""
        excess = self.reg_lambda * self.omega.conjugate(self.slopes / self.reg_lambda)
        if self.risk.is_compiled:
            return Proof(derivatives=self.point.g), self.value - excess
        return Proof(plane=self.risk.plane(self.point)), self.value - excess

    def move(self, along: Array, left: float) -> float:
        risk, point, lam = self.risk, self.point, self.reg_lambda
        direction, along_b = risk.scores(along), self._move_of_best(along)
        image = self.omega.image(along)
        across, square = lam * blas.ddot(image, point.w), lam * blas.ddot(image, along)

        def derivative(t: float) -> tuple[float, float]:
            first, second = risk.slopes(point, direction, along_b, 0.0, t)
            return first + across + t * square, second + square

        t = step_length(derivative, left)
        if t > 0.0:
            w, b = point.w + t * along, point.b + t * along_b
            scores = point.scores + t * direction
            self.arrive(risk.arrive(w, scores, b, left=self._left))
        return t

    def renew_metric(self) -> None:
        if self._spent < self._cost or not (self._factor is None or self.fall > SLOW):
            return
        if self._factor is not None and self.fall > COARSE:
            self._detail *= 2
        rows, coefs = self.risk.curvature(self.point)
        if len(rows) == 0 and self._factor is not None:  # it says nothing of where rows bend again
            self._spent = 0.0
            return
        d, every = self.risk.dimension, 1
        if not self.risk.loss.quadratic:
            enough = max(4 * d, self.risk.rows.rows_in(2.0))
            every = max(1, len(rows) // (self._detail * enough))
        sampled = rows[::every].copy(), every * coefs[::every]
        H, mean = self.risk.rows.hessian(*sampled, self.risk.free)
        if every > 1:  # rare features may be out: at least the diagonal of all rows
            bend = np.zeros(self.risk.rows.shape[0])
            bend[rows] = coefs
            squares = self.risk.rows.squares(bend)
            if self.risk.free:
                squares -= self.risk.rows.gradient(bend) ** 2 / float(coefs.sum())
            np.maximum(np.einsum("ii->i", H), squares, out=np.einsum("ii->i", H))
        factor = cholesky(H, self.reg_lambda, self.omega)
        if factor is not None:
            self._factor, self._mean, self._spent, self.name = factor, mean, 0.0, "newton"
            self.pairs.clear()
        else:
            self._spent, self._cost = 0.0, np.inf

    def solve(self, x: Array) -> Array:
        if self._factor is not None:
            return lapack.dpotrs(self._factor, x, lower=0)[0]
        if self._diagonal is None:
            self._diagonal = self._first_metric()
        return (self._scale if len(self.pairs) else 1.0) * x / self._diagonal

    def remember(self, step: Array, change: Array) -> None:
        """Keep the pair, and the scale of the diagonal that fits it."""
        super().remember(step, change)
        if self._factor is None and self._diagonal is not None:
            product, square = blas.ddot(step, change), blas.ddot(change, change / self._diagonal)
            self._scale = product / square if product > 0.0 and square > 0.0 else self._scale

    def _first_metric(self) -> Array | float:
        """The diagonal of a Hessian as if all rows had the same curvature."""
        risk, (n, d) = self.risk, self.risk.rows.shape
        penalty = self.reg_lambda * self.omega.diagonal
        if d >= n:
            return np.maximum(penalty, np.finfo(float).tiny)
        squares = risk.rows.squares(risk.weights)
        if risk.free:
            self._mean = risk.rows.gradient(risk.weights)
            squares = np.maximum(squares - self._mean**2, CONSTANT * squares)
        bend = float(risk.curvature(self.point)[1].sum())
        return bend * squares + penalty + np.finfo(float).tiny

    def _move_of_best(self, along: Array) -> float:
        """The change of the best b along the direction: it keeps the mean score of bent rows."""
        return -blas.ddot(self._mean, along) if self.risk.free else 0.0

    @property
    def _left(self) -> float:
        """The largest derivative in b that is left: balancing the plane costs about that.

        It is in objectives per unit of the scores, between limits in typical slopes: with 1e-12
        nearly separable data stalled.
        """
        units, value = self.risk.units, getattr(self, "value", np.inf)
        left = 1e-9 * value / units.unit if np.isfinite(value) else np.inf
        return min(max(left, 1e-14 * units.slope), 1e-6 * units.slope)


def cholesky(H: Array, reg_lambda: float, omega: Any) -> Array | None:
    """The upper Cholesky factor of ``H + reg_lambda B``, with the least ridge that allows one."""
    add_form(H, reg_lambda, omega)
    diagonal = np.einsum("ii->i", H)
    flat = diagonal.copy()
    for ridge in RIDGES:
        diagonal[:] = flat * (1.0 + ridge)
        factor, failed = lapack.dpotrf(H.T, lower=0)  # in LAPACK's order, without a copy
        if not failed and np.isfinite(factor.diagonal()).all():
            return factor
    return None
