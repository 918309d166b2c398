"""Descent for a smooth loss of several scores: multinomial logistic regression, squared errors."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, eigh, lapack

from sklearn_bundle.core.lbfgs import Corrections
from sklearn_bundle.core.limits import CONSTANT, MEMORY, MOST_SIDE
from sklearn_bundle.linear.certificate import Proof, bound_of
from sklearn_bundle.linear.losses.regression import SquaredErrors
from sklearn_bundle.linear.risk import ClassRisk, Point
from sklearn_bundle.linear.solvers.base import step_length
from sklearn_bundle.linear.solvers.descent import Descent, cholesky

Array = NDArray[np.float64]


class ClassDescent(Descent):
    """Moves W, and the intercepts where these are coordinates of their own."""

    risk: ClassRisk

    def start_moving(self) -> None:
        risk = self.risk
        half_of_X = risk.rows.n_entries // (4 * risk.dimension)
        # As many pairs beyond the usual 10 as take no more than half the memory of X: fits of
        # hundreds of steps end up to 1.4 times sooner.
        self.pairs = Corrections(min(max(MEMORY, half_of_X), 80))
        self._metric = KroneckerMetric(risk, self.reg_lambda, self.omega)
        self._next = 0

    def go(self, w: Array, b: Any) -> None:
        if b is None:
            b = self.risk.first_intercepts()
        self.arrive(self.risk.arrive(w, self.risk.scores(w), b))

    def differentiate(self) -> Array:
        point, lam = self.point, self.reg_lambda
        slopes = self.risk.gradient(point) + lam * self.omega.image(point.w)
        return np.append(slopes, self.risk.balance(point)) if self.risk.n_free else slopes

    def proof(self) -> tuple[Proof, float] | None:
        best, lam, risk = self.best, self.reg_lambda, self.risk
        predicted = lam * self.omega.conjugate(self.slopes[: risk.dimension] / lam)
        # a plane that promises no less than a tenth of the gap is not computed: with half of it
        # softmax took an eighth more passes, in as many steps
        useful = predicted <= max(0.1 * best.gap, self.tol * best.primal)
        if not (useful or self.idle or self.n_steps == 0):
            return None
        if isinstance(self.point.g, np.ndarray):  # in memory, where all is computed from them anew
            point = risk.balanced_point(self.point) if risk.n_free else self.point
            return Proof(derivatives=point.g), bound_of(risk.plane(point), self.omega, lam)
        plane = risk.balanced_plane(self.point) if risk.n_free else risk.plane(self.point)
        return Proof(plane=plane), bound_of(plane, self.omega, lam)

    def move(self, along: Array, left: float) -> float:
        risk, point, lam, p = self.risk, self.point, self.reg_lambda, self.risk.dimension
        w, b = along[:p], along[p:]
        if not risk.n_free:  # intercepts that are minimized out keep the mean scores
            b = -w.reshape(risk.shape) @ self._metric.means * risk.free
        direction, image = risk.scores(w), self.omega.image(w)
        across, square = lam * blas.ddot(image, point.w), lam * blas.ddot(image, w)
        end = Point(point.w + w, point.scores + direction, point.b + b)
        line = risk.line(point, end)

        def derivative(t: float) -> tuple[float, float]:
            _, first, second = line(t)
            return first + across + t * square, second + square

        t = step_length(derivative, left)
        if t > 0.0:
            scores = point.scores + t * direction
            self.arrive(risk.arrive(point.w + t * w, scores, point.b + t * b))
        return t

    def renew_metric(self) -> None:
        if self.n_steps >= self._next:
            self._metric.refresh(self.point)
            # the metric is computed anew after 5, 20, 80, ... steps
            self._next = max(4 * self.n_steps, 5)
            self.pairs.clear()

    def solve(self, x: Array) -> Array:
        p, W = self.risk.dimension, x[: self.risk.dimension].reshape(self.risk.shape)
        W, b = self._metric.solve(W, x[p:])
        return np.append(W.ravel(), b)


class KroneckerMetric:
    """``C (x) G + reg_lambda B``: C the mean covariance of the scores' slopes, G of the features.

    G is the covariance of the features, of some rows that suffice, or only its diagonal. With
    intercepts, a move of W moves them so that the mean score stays. For squared errors it is the
    Hessian itself, if G is that of all rows.
    """

    def __init__(self, risk: ClassRisk, reg_lambda: float, omega: Any):
        self._risk, self._lambda, self._omega = risk, reg_lambda, omega
        self._own, self._exact = risk.n_free > 0, isinstance(risk.loss, SquaredErrors)
        self._gram: Array | None = None
        if risk.rows.shape[1] <= MOST_SIDE:
            self._gram, self.means = risk.feature_moments(True, self._exact)
            return
        squares, self.means = risk.feature_moments(False, self._exact)
        self._variances = np.maximum(squares - self.means**2, CONSTANT * squares)

    def refresh(self, point: Point) -> None:
        """Take C of the derivatives at a point."""
        values, self._classes = eigh(self._risk.covariance(point))
        # Lower limit of eigenvalues for the intercepts, relative to those of equally likely
        # classes: without it, intercepts would take huge steps when all probabilities are certain.
        self._inverse = 1.0 / np.maximum(values, 1e-4 / len(values))
        if self._own and not self._exact:
            self._inverse[0] = 0.0  # a common change of all intercepts has no effect
            # lower limit for rare classes, whose curvature grows most
            values = np.maximum(values, 0.25 * values.mean())
        self._values = np.maximum(values, 0.0)
        if self._gram is not None:
            self._factors = self._factored(self._gram)

    def solve(self, W: Array, b: Array) -> tuple[Array, Array]:
        """The inverse times (W, b); b sums to zero."""
        classes, means = self._classes, self.means
        found = classes @ self._solve_each(classes.T @ (W - np.outer(b, means) if self._own else W))
        if not self._own:
            return found, b
        return found, classes @ (self._inverse * (classes.T @ b)) - found @ means

    def _factored(self, gram: Array) -> list[tuple[NDArray[np.intp], Array]]:
        """A Cholesky factor for each group of similar eigenvalues of C; of equal ones if exact."""
        # eigenvalues within a factor of 2 share a Cholesky factor
        alike = 1.0 if self._exact else 2.0
        order, groups = np.argsort(self._values)[::-1], []
        while len(order):
            among = self._values[order] * alike >= self._values[order[0]]
            members, order = order[among], order[~among]
            H = self._values[members].mean() * gram
            factor = cholesky(H, self._lambda, self._omega)
            if factor is None:
                raise ValueError("The features are too large for double precision: scale them.")
            groups.append((members, factor))
        return groups

    def _solve_each(self, right: Array) -> Array:
        """Each row's solution with ``value G + reg_lambda B`` of its eigenvalue of C."""
        found = np.empty_like(right)
        if self._gram is None:
            penalty = self._lambda * self._omega.diagonal
            for k, value in enumerate(self._values):
                found[k] = right[k] / (value * self._variances + penalty)
            return found
        for members, factor in self._factors:
            found[members] = lapack.dpotrs(factor, right[members].T, lower=0)[0].T
        return found
