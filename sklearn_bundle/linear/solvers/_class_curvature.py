"""Second derivatives of multinomial logistic regression, exact or rough, to start descent from."""

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, cho_factor, eigh, lapack

from sklearn_bundle.core.limits import MOST_SIDE, RIDGES, TINY
from sklearn_bundle.linear.losses.softmax import class_covariance
from sklearn_bundle.linear.problems.linear import LinearProblem
from sklearn_bundle.linear.problems.memory_risk import HESSIAN_PASSES

Array = NDArray[np.float64]

# L-BFGS takes so many steps before the first Hessian: from there on Newton's steps are long enough.
_FEWEST_STEPS = 8
_HESSIANS = 3.0  # or as many as take as long as so many Hessians
_FALLS = 0.5  # of the decrement in a step: if more is left, the Hessian is recomputed,
_WHOLE = 0.5  # and from twice the rows after a step of at least this length
_ROWS_A_COORDINATE = 3  # rows per coordinate of the first Hessian,
# Products of a Hessian in the time of one in a pass: BLAS forms half of them, many at a time.
_BLAS = 4.0
_SOFTMAX = 15  # products in a pass, in the time of an exponential
_FIRST_REFRESH, _LONGER = 5, 4  # steps with the first curvature, and growth of this number
_ALIKE = 2.0  # eigenvalues within this factor share a factorization
_LEAST_SHARE = 0.25  # of their mean: lower limit for rare classes, whose curvature grows most
# Lower limit of C's eigenvalues for the intercepts, relative to those for equally likely classes.
# Without it, intercepts would take huge steps when all probabilities are certain.
_FLATTEST = 1e-4
_HESSIAN_ENTRIES = 1 << 17  # of rows times coordinates that are multiplied at a time: 1 MB
# Rows whose Gram matrix is close enough to that of all rows: this number times d, or as many as
# take no longer than so many passes over the data.
_GRAM_ROWS = 4
_GRAM_PASSES = 8.0


class ClassCurvature(ABC):
    """A positive definite matrix close to the Hessian of the objective in (W, b)."""

    @abstractmethod
    def refresh(self, problem: LinearProblem, derivatives: Array) -> None:
        """Recompute the matrix from these derivatives."""

    @abstractmethod
    def solve(self, W: Array, b: Array) -> tuple[Array, Array]:
        """The matrix's inverse times (W, b); b sums to zero, or is zero without intercepts."""


class FullCurvature(ClassCurvature):
    """The Hessian itself, of all rows or of some."""

    def __init__(self, reg_lambda: float, n_drawn: int):
        self.n_drawn = n_drawn
        self._lambda = reg_lambda

    def refresh(self, problem: LinearProblem, derivatives: Array) -> None:
        H = hessian(problem, derivatives, self.n_drawn)
        K, d, free = problem.n_outputs, problem.n_features, problem.n_free > 0
        diagonal = np.einsum("ii->i", H).reshape(K, d + free)
        diagonal[:, :d] += self._lambda
        if free:
            # A common change of all intercepts has no effect: H is singular only along it.
            H[d :: d + 1, d :: d + 1] += diagonal[:, d].mean() + TINY
        self._factor, self._free = _factored(H), free

    def solve(self, W: Array, b: Array) -> tuple[Array, Array]:
        if not self._free:
            return _solved(self._factor, W.ravel()).reshape(W.shape), b
        right = np.column_stack([W, b]).ravel()
        found = _solved(self._factor, right).reshape(len(W), -1)
        return np.ascontiguousarray(found[:, :-1]), found[:, -1].copy()


class _KroneckerCurvature(ClassCurvature):
    """``C (x) G + reg_lambda I``, C the mean covariance of the indicators given the rows.

    G depends only on the rows and is centered, so that W and b separate. The matrix is exact if all
    rows have the same probabilities, as at W = 0.
    """

    def __init__(self, problem: LinearProblem, reg_lambda: float):
        self._lambda = reg_lambda
        self._free = problem.n_free > 0
        self._means = _column_means(problem)

    def refresh(self, problem: LinearProblem, derivatives: Array) -> None:
        of_classes = class_covariance(derivatives, problem.target, problem.weights)
        values, self._classes = eigh(of_classes)
        self._inverse = 1.0 / np.maximum(values, _FLATTEST / len(values))
        self._inverse[0] = 0.0  # a common change of all intercepts has no effect
        self._values = np.maximum(values, _LEAST_SHARE * values.mean())
        self._factor()

    def solve(self, W: Array, b: Array) -> tuple[Array, Array]:
        classes = self._classes
        centered = W - np.outer(b, self._means) if self._free else W
        found = classes @ self._solve_each(classes.T @ centered)
        if not self._free:
            return found, b
        return found, classes @ (self._inverse * (classes.T @ b)) - found @ self._means

    def _factor(self) -> None:
        """Prepare for solving with the new eigenvalues of C; does nothing here."""
        return

    @abstractmethod
    def _solve_each(self, right: Array) -> Array:
        """Each row's solution with ``value G + reg_lambda I`` of its eigenvalue of C."""


class GramCurvature(_KroneckerCurvature):
    """With the Gram matrix of the features: one Cholesky factor for similar eigenvalues of C."""

    def __init__(self, problem: LinearProblem, reg_lambda: float):
        super().__init__(problem, reg_lambda)
        self._gram = _gram(problem)

    def _factor(self) -> None:
        order = np.argsort(self._values)[::-1]
        self._groups: list[tuple[NDArray[np.intp], Array]] = []
        while len(order):
            alike = self._values[order] * _ALIKE >= self._values[order[0]]
            members, order = order[alike], order[~alike]
            H = self._values[members].mean() * self._gram
            np.einsum("ii->i", H)[:] += self._lambda
            self._groups.append((members, _factored(H)))

    def _solve_each(self, right: Array) -> Array:
        found = np.empty_like(right)
        for members, factor in self._groups:
            found[members] = _solved(factor, right[members].T).T
        return found


class DiagonalCurvature(_KroneckerCurvature):
    """With only the variances of the features."""

    def __init__(self, problem: LinearProblem, reg_lambda: float):
        super().__init__(problem, reg_lambda)
        self._variances = _column_variances(problem)

    def _solve_each(self, right: Array) -> Array:
        found = np.empty_like(right)
        for k, value in enumerate(self._values):
            found[k] = right[k] / (value * self._variances + self._lambda)
        return found


class RoughHessians:
    """The curvatures of L-BFGS: a rough one that is recomputed after 5, 20, 80, ... steps.

    It is the Kronecker product of the mean covariance of the classes and of the Gram matrix of the
    features or, with more than 2000 features, their variances.
    """

    def __init__(self, problem: LinearProblem, reg_lambda: float):
        self._lambda = reg_lambda
        self._rough: ClassCurvature | None = None
        self._next_refresh = _FIRST_REFRESH

    def due(
        self, problem: LinearProblem, n_steps: int, length: float, fall: float
    ) -> ClassCurvature | None:
        """What is to be recomputed before the next step; None to continue with the last one.

        ``length`` and ``fall`` are as in :class:`~._class_descent.ClassDescent`.
        """
        if self._rough is None:
            kind = GramCurvature if problem.n_features <= MOST_SIDE else DiagonalCurvature
            self._rough = kind(problem, self._lambda)
        elif n_steps >= self._next_refresh:
            self._next_refresh *= _LONGER
        elif length > 0.0:
            return None
        return self._rough


class Hessians(RoughHessians):
    """The curvatures of Newton's method: exact, from some of the rows, drawn by their curvature.

    It begins like L-BFGS: far from the optimum a Hessian is soon outdated. After at least eight
    steps, and as much time as a few Hessians take, Newton's method continues. As long as the
    decrement falls, a Hessian serves for several steps, corrected by the gradients of these steps
    as in L-BFGS. If the decrement falls by less than half after a new Hessian and a whole step, the
    next Hessian has twice the rows.
    """

    def __init__(self, problem: LinearProblem, reg_lambda: float):
        super().__init__(problem, reg_lambda)
        self._full: FullCurvature | None = None
        self._fresh = True  # whether the last step was the first one with its Hessian
        # The rows are enough for a rough Hessian, or as many as cost a few passes.
        n, K = problem.n_samples, problem.n_outputs
        m, a_pass = problem.dimension + problem.n_free, K * (problem.n_entries + _SOFTMAX * n)
        rows = max(_ROWS_A_COORDINATE * m, int(HESSIAN_PASSES * _BLAS * a_pass / m**2))
        passes = (min(rows, n) * m**2 + m**3 / 3.0) / (_BLAS * a_pass)
        self._rows, self._steps_before = rows, max(_FEWEST_STEPS, int(_HESSIANS * passes / 2.0))

    def due(
        self, problem: LinearProblem, n_steps: int, length: float, fall: float
    ) -> ClassCurvature | None:
        """See :meth:`RoughHessians.due`."""
        if n_steps < self._steps_before:
            return super().due(problem, n_steps, length, fall)
        if self._full is None:
            self._full = FullCurvature(self._lambda, self._rows)
            return self._full
        due = fall > _FALLS or not length > 0.0
        if due and self._fresh and length > _WHOLE:
            self._full.n_drawn *= 2
        self._fresh = due
        return self._full if due else None


def hessian(problem: LinearProblem, derivatives: Array, n_drawn: int) -> Array:
    """The lower triangle of the Hessian of R in (W, b), class after class, each b_k last.

    If there are more than ``n_drawn`` rows, that many are drawn in proportion to the sums of
    their curvatures ``s_i (1 - ||P_i||^2)``, since rows with a certain label have none. The
    sampling is systematic, so it is the same every time.
    """
    drawn, coefs = _drawn(problem, derivatives, n_drawn)
    K, d = problem.n_outputs, problem.n_features
    width = d + (problem.n_free > 0)
    H = np.zeros((K * width,) * 2, order="F")
    blocks = np.zeros((K * width, width))
    step = max(1, _HESSIAN_ENTRIES // len(H))
    for start in range(0, len(drawn), step):
        piece = drawn[start : start + step]
        roots = np.sqrt(coefs[start : start + step])
        X = np.ones((width, len(piece)))
        X[:d] = problem.rows.dense(piece).T
        X *= roots
        P = derivatives[:, piece] / problem.weights[piece]
        P[problem.target[piece], np.arange(len(piece))] += 1.0
        products = (P[:, None, :] * X).reshape(len(H), -1)
        blocks += products @ X.T
        H = blas.dsyrk(-1.0, products.T, 1.0, H, trans=1, lower=1, overwrite_c=1)
    for k in range(K):
        of_class = slice(k * width, (k + 1) * width)
        H[of_class, of_class] += blocks[of_class]
    return H


def _drawn(
    problem: LinearProblem, derivatives: Array, n_drawn: int
) -> tuple[NDArray[np.intp], Array]:
    """Samples, and coefficients that replace their weights."""
    n, weights = problem.n_samples, problem.weights
    if n_drawn >= n:
        return np.arange(n), weights
    of_label = derivatives[problem.target, np.arange(n)]
    squares = np.einsum("ki,ki->i", derivatives, derivatives)
    curvature = np.maximum(-2.0 * of_label - squares / weights, 0.0)
    ends = np.cumsum(curvature)
    if not ends[-1] > 0.0:
        return np.arange(n), weights
    marks = (np.arange(n_drawn) + 0.5) * (ends[-1] / n_drawn)
    drawn, counts = np.unique(np.searchsorted(ends, marks), return_counts=True)
    return drawn, counts * weights[drawn] * ends[-1] / (n_drawn * curvature[drawn])


def _column_means(problem: LinearProblem) -> Array:
    """Weighted mean of each column, or zeros without intercepts, shape (d,)."""
    if not problem.n_free:
        return np.zeros(problem.n_features)
    return problem.rows.gradient(problem.weights)


def _column_variances(problem: LinearProblem) -> Array:
    """Weighted variance per column, or mean square without intercepts, of shape (d,)."""
    squares = problem.rows.column_squares(problem.weights)
    return np.maximum(squares - _column_means(problem) ** 2, 0.0)


def _gram(problem: LinearProblem) -> Array:
    """``sum_i s_i (x_i - mean)(x_i - mean)'``, from evenly drawn rows if they suffice."""
    rows, n, free = problem.rows, problem.n_samples, problem.n_free > 0
    enough = max(_GRAM_ROWS * problem.n_features, rows.rows_in_passes(_GRAM_PASSES))
    drawn = np.arange(0, n, max(1, n // enough))
    coefs = problem.weights[drawn] / problem.weights[drawn].sum()
    lower = rows.hessian(drawn, coefs, free)
    gram = np.tril(lower) + np.tril(lower, -1).T
    if not free:
        return gram
    mean = gram[-1, :-1]
    return gram[:-1, :-1] - np.outer(mean, mean)


def _solved(factor: Array, right: Array) -> Array:
    """LAPACK itself: on few features scipy's checks take longer."""
    return lapack.dpotrs(factor, right, lower=1)[0]


def _factored(H: Array) -> Array:
    """The Cholesky factor of H with the least ridge that allows one; H is overwritten."""
    diagonal = np.einsum("ii->i", H)
    flat = diagonal.copy()
    for ridge in RIDGES:
        diagonal[:] = flat * (1.0 + ridge) + TINY
        try:
            return cho_factor(H, lower=True, check_finite=False)[0]
        except np.linalg.LinAlgError:
            continue
    return np.diag(np.sqrt(np.maximum(flat, 0.0) + TINY))
