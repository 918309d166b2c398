"""Descent for multinomial logistic regression: curvature, corrections, line search on scores."""

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas

from sklearn_bundle.core.contract import ABSENT
from sklearn_bundle.core.lbfgs import Corrections
from sklearn_bundle.core.limits import (
    MEMORY,
    REFRESHED,
    ROUNDING,
    SEARCH_STEPS,
    SLOPE_LEFT,
    TINY,
)
from sklearn_bundle.linear.losses.softmax import Softmax
from sklearn_bundle.linear.problems.linear import LinearProblem
from sklearn_bundle.linear.solvers._class_curvature import ClassCurvature, RoughHessians
from sklearn_bundle.linear.solvers.solver import PointToStart

Array = NDArray[np.float64]

# Of L-BFGS: as many beyond the usual 10 as take no more than half the memory of X as doubles. Fits
# of hundreds of steps end up to 1.4 times sooner than with 10.
_MOST_PAIRS = 80
_FARTHER = 4.0  # largest factor of the step from one evaluation of a line search to the next


class ClassDescent:
    """A point (W, b) that moves along quasi-Newton directions of ``reg_lambda/2 ||W||^2 + R``.

    A direction begins with the inverse of a curvature, corrected by the changes of the gradient
    since then (L-BFGS). The line search along it uses only scores: a step costs one product with X
    and one with X'.

    Parameters
    ----------
    problem : LinearProblem
        With the softmax loss. Scores have shape (K, n) here.
    reg_lambda : float
    curvatures : RoughHessians
        What directions begin with: those of L-BFGS or of Newton's method.
    start : (ndarray of shape (K d,), ndarray of shape (K,))
        A point whose objective is above that of W = 0 is not used.

    Attributes
    ----------
    w, intercept : ndarrays of shapes (K d,) and (K,)
        The point; arrays are not written to again.
    objective : float
    derivatives : ndarray of shape (K, n)
        ``s_i (P_ik - Y_ik)``.
    gradient : ndarray of shape (K, d)
        The gradient of R in W.
    n_steps : int
    length : float
        Length of the last step.
    fall : float
        Predicted gain of the last direction, over that of the one before; 0 before there are two.
    """

    def __init__(
        self,
        problem: LinearProblem,
        reg_lambda: float,
        curvatures: RoughHessians,
        start: PointToStart,
    ):
        self._problem, self._lambda, self._curvatures = problem, reg_lambda, curvatures
        K, n = problem.n_outputs, problem.n_samples
        self._loss, self._free = Softmax(), problem.n_free > 0
        self._shape = K, problem.n_features
        self._size = problem.dimension
        self.derivatives, self._spare = np.empty((2, K, n))
        half_of_X = problem.n_entries // (4 * self._size)
        self._pairs = Corrections(min(max(MEMORY, half_of_X), _MOST_PAIRS))
        self._curvature: ClassCurvature = ABSENT  # until the first step
        self._decrement = 0.0
        self.n_steps, self.length, self.fall = 0, 1.0, 0.0
        self._x = self._at_zero()
        self._evaluate()
        if start[0].any():
            zero, highest = self._x, self.objective
            self._x = self._joined(start[0], start[1])
            self._evaluate()
            if not self.objective <= highest:
                self._x = zero
                self._evaluate()
        self._slopes = self._differentiate()

    @property
    def w(self) -> Array:
        return self._x[: self._size]

    @property
    def intercept(self) -> Array:
        return self._x[self._size :] if self._free else np.zeros(self._shape[0])

    @property
    def predicted_gap(self) -> float:
        """The gap to the plane at the point, if its probabilities balance."""
        slopes = self._slopes[: self._size]
        return blas.ddot(slopes, slopes) / (2.0 * self._lambda)

    def plane(self) -> tuple[Array, float]:
        """The plane of the balanced probabilities."""
        A, offset = self._problem.mixed_plane(self.derivatives, self.gradient)
        return A.ravel(), offset

    def attach(self, problem: LinearProblem) -> None:
        """Continue with the same data in another object."""
        self._problem = problem

    def detach(self) -> None:
        """Release the data."""
        self._problem = ABSENT

    def step(self) -> bool:
        """Take a step; False if no descent direction is left, up to rounding."""
        curvature = self._curvatures.due(self._problem, self.n_steps, self.length, self.fall)
        if curvature is not None:
            curvature.refresh(self._problem, self.derivatives)
            self._curvature = curvature
            self._pairs.clear()  # they corrected the last one
        along = self._direction()
        decrement = -float(along @ self._slopes)
        if not (decrement > 0.0 and np.isfinite(decrement)):
            self._pairs.clear()
            along = self._direction()
            decrement = -float(along @ self._slopes)
            if not (decrement > 0.0 and np.isfinite(decrement)):
                return False
        self.fall = decrement / self._decrement if self._decrement > 0.0 else 0.0
        self._decrement = decrement
        W, b = self._parts(along)
        direction = self._scores_of(W)
        if self._free:
            direction += b[:, None]
        self.length = self._search(direction, along)
        self.n_steps += 1
        if not self.length > 0.0:
            self._evaluate()
            return False
        before = self._slopes
        change = self.length * along
        self._x = self._x + change
        if self.n_steps % REFRESHED == 0:
            self._evaluate()
        else:
            direction *= self.length
            self._scores += direction
            self.objective = self._risk + self._penalty()
        self._slopes = self._differentiate()
        self._pairs.remember(change, self._slopes - before)
        return True

    def _at_zero(self) -> Array:
        """Set W = 0 and each intercept to the logarithm of the class's share."""
        x = np.zeros(self._size + self._shape[0] * self._free)
        if self._free:
            b = np.log(self._problem.class_shares())
            x[self._size :] = b - b.mean()
        return x

    def _joined(self, w: Array, intercept: float | Array | None) -> Array:
        if not self._free:
            return np.array(w)
        b = np.zeros(self._shape[0]) if intercept is None else np.asarray(intercept)
        return np.concatenate([w, b])

    def _parts(self, x: Array) -> tuple[Array, Array]:
        b = x[self._size :] if self._free else np.zeros(self._shape[0])
        return x[: self._size].reshape(self._shape), b

    def _penalty(self) -> float:
        return 0.5 * self._lambda * blas.ddot(self.w, self.w)

    def _scores_of(self, W: Array) -> Array:
        """``W X'``, without the intercepts: one product with X, none at W = 0."""
        if not W.any():
            return np.zeros(self.derivatives.shape)
        return self._problem.rows.class_scores(W)

    def _along(self, direction: Array, t: float, out: Array) -> tuple[float, float, float]:
        """Risk at ``scores + t direction``, first and second derivative in t; fills ``out``."""
        data = self._problem.target, self._problem.weights
        return self._loss.along_classes(self._scores, direction, *data, t, out)

    def _evaluate(self) -> None:
        """Recompute scores, risk and derivatives."""
        W, b = self._parts(self._x)
        self._scores = self._scores_of(W)
        if self._free:
            self._scores += b[:, None]
        self._risk = self._along(self._scores, 0.0, self.derivatives)[0]
        self.objective = self._risk + self._penalty()

    def _differentiate(self) -> Array:
        """Gradient of the objective in (W, b)."""
        self.gradient = self._problem.rows.class_gradient(self.derivatives)
        slopes = np.empty_like(self._x)
        slopes[: self._size] = self.gradient.ravel()
        slopes[: self._size] += self._lambda * self.w
        if self._free:
            slopes[self._size :] = self.derivatives.sum(axis=1)
        return slopes

    def _direction(self) -> Array:
        """The corrected gradient, downhill."""
        return self._pairs.correct(-self._slopes, self._solved)

    def _solved(self, x: Array) -> Array:
        """The curvature's inverse times x."""
        W, b = self._curvature.solve(*self._parts(x))
        x[: self._size] = W.ravel()
        if self._free:
            x[self._size :] = b
        return x

    def _search(self, direction: Array, along: Array) -> float:
        """Newton's method in one dimension; ``derivatives`` become those at its end."""
        w, way = self.w, along[: self._size]
        across = self._lambda * blas.ddot(w, way)
        square = self._lambda * blas.ddot(way, way)
        t, low, high = 1.0, 0.0, np.inf
        for _ in range(SEARCH_STEPS):
            risk, first, second = self._along(direction, t, self._spare)
            first += across + t * square
            gained = self._risk - risk - t * (across + 0.5 * t * square)
            # Before its minimum a convex function has fallen; beyond, it need not have.
            lower = first <= 0.0 or gained >= -ROUNDING * self.objective
            if np.isfinite(risk) and lower and abs(first) <= SLOPE_LEFT * self._decrement:
                self._risk = risk
                self.derivatives, self._spare = self._spare, self.derivatives
                return t
            if not np.isfinite(risk) or first > 0.0:
                high = t
            else:
                low = t
            newton = t - first / max(second + square, TINY) if np.isfinite(risk) else 0.0
            if not low < newton < min(high, _FARTHER * t):
                newton = 0.5 * (low + high) if np.isfinite(high) else _FARTHER * t
            if newton in (t, low, high):
                break
            t = newton
        return 0.0
