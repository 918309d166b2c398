"""Multinomial logistic regression for solvers with second derivatives: scores by class."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas

from sklearn_bundle.linear.losses.softmax import Softmax
from sklearn_bundle.linear.problems.balance import mixed, mixing
from sklearn_bundle.linear.rows.rows import RowOperator

Array = NDArray[np.float64]

_HESSIAN_ENTRIES = 1 << 17  # of rows times coordinates that are multiplied at a time: 1 MB
# Rows whose Gram matrix is close enough to that of all rows: this number times d, or as many as
# take no longer than so many passes over the data.
_GRAM_ROWS = 4
_GRAM_PASSES = 8.0


@dataclass
class SoftmaxModel:
    """``R(W, b)`` and its derivatives; W has shape (K, d), scores ``W X' + b`` have shape (K, n).

    Parameters
    ----------
    rows : RowOperator
    y : ndarray of shape (n,)
        Numbers of the classes, from 0.
    weights : ndarray of shape (n,)
        Positive, of sum one.
    loss : Softmax
    n_classes : int
    free : bool
        Whether there is an intercept per class.
    """

    rows: RowOperator
    y: NDArray[np.int64]
    weights: Array
    loss: Softmax
    n_classes: int
    free: bool

    @property
    def n_samples(self) -> int:
        return self.rows.shape[0]

    @property
    def n_features(self) -> int:
        return self.rows.shape[1]

    def class_shares(self) -> Array:
        """Weight of each class, shape (K,)."""
        return np.bincount(self.y, self.weights, self.n_classes).astype(np.float64, copy=False)

    def column_means(self) -> Array:
        """Weighted mean of each column, or zeros without intercepts, shape (d,)."""
        return self.rows.gradient(self.weights) if self.free else np.zeros(self.n_features)

    def scores(self, W: Array) -> Array:
        """``W X'``, without the intercepts: one product with X, none at W = 0."""
        if not W.any():
            return np.zeros((self.n_classes, self.n_samples))
        return self.rows.class_scores(W)

    def along(
        self, scores: Array, direction: Array, t: float, out: Array
    ) -> tuple[float, float, float]:
        """Risk at ``scores + t direction``, first and second derivative in t; fills ``out``."""
        return self.loss.along_classes(scores, direction, self.y, self.weights, t, out)

    def gradient(self, derivatives: Array) -> Array:
        """The gradient of R in W: one product with X'."""
        return self.rows.class_gradient(derivatives)

    def plane(self, derivatives: Array, gradient: Array) -> tuple[Array, float]:
        """A plane ``R(W, b) >= <A, W> + c`` for all W and b, from any derivatives s (P - Y).

        The columns of P have to balance, sum_i s_i P_i = sum_i s_i Y_i, for b to cancel: see
        :mod:`~.balance`. The plane is A = X'S(P' - Y), c = sum_i s_i H(P'_i)
        for any P.

        Parameters
        ----------
        derivatives : ndarray of shape (K, n)
        gradient : ndarray of shape (K, d)
            Their product with X.
        """
        moved, given = np.zeros((2, self.n_classes))
        A = gradient
        if self.free:
            moved, given = mixing(derivatives.sum(axis=1), self.class_shares())
            if given.any():
                A = mixed(gradient, self.class_sums(), moved, given)
        args = derivatives, self.y, self.weights, moved, given
        return A, self.loss.mixed_entropy(*args)

    def class_sums(self) -> Array:
        """``Y'SX``: the weighted sum of the rows of each class."""
        if self._sums is None:
            indicators = np.zeros((self.n_classes, self.n_samples))
            indicators[self.y, np.arange(self.n_samples)] = self.weights
            self._sums = self.rows.class_gradient(indicators)
        return self._sums

    _sums: Array | None = None

    def probabilities(self, derivatives: Array, samples: NDArray[np.intp]) -> Array:
        """P of some samples, shape (K, len(samples))."""
        P = derivatives[:, samples] / self.weights[samples]
        P[self.y[samples], np.arange(len(samples))] += 1.0
        return P

    def class_covariance(self, derivatives: Array) -> Array:
        """``sum_i s_i (diag P_i - P_i P_i')``: the curvature in b, shape (K, K)."""
        weighted = derivatives.copy()
        weighted[self.y, np.arange(self.n_samples)] += self.weights
        covariance = -(weighted / self.weights) @ weighted.T
        np.fill_diagonal(covariance, 0.0)
        np.fill_diagonal(covariance, -covariance.sum(axis=1))  # exact where P is nearly 0 or 1
        return covariance

    def gram(self) -> Array:
        """``sum_i s_i (x_i - mean)(x_i - mean)'``, from evenly drawn rows if they suffice."""
        enough = max(_GRAM_ROWS * self.n_features, self.rows.rows_in_passes(_GRAM_PASSES))
        every = max(1, self.n_samples // enough)
        drawn = np.arange(0, self.n_samples, every)
        coefs = self.weights[drawn] / self.weights[drawn].sum()
        lower = self.rows.hessian(drawn, coefs, self.free)
        gram = np.tril(lower) + np.tril(lower, -1).T
        if not self.free:
            return gram
        mean = gram[-1, :-1]
        return gram[:-1, :-1] - np.outer(mean, mean)

    def column_variances(self) -> Array:
        """Weighted variance per column, or mean square without intercepts, of shape (d,)."""
        return np.maximum(self.rows.column_squares(self.weights) - self.column_means() ** 2, 0.0)

    def hessian(self, derivatives: Array, n_drawn: int) -> Array:
        """The lower triangle of the Hessian of R in (W, b), class after class, each b_k last.

        If there are more than ``n_drawn`` rows, that many are drawn in proportion to the sums of
        their curvatures ``s_i (1 - ||P_i||^2)``, since rows with a certain label have none. The
        sampling is systematic, so it is the same every time.
        """
        drawn, coefs = self._drawn(derivatives, n_drawn)
        K, width = self.n_classes, self.n_features + self.free
        H = np.zeros((K * width,) * 2, order="F")
        blocks = np.zeros((K * width, width))
        step = max(1, _HESSIAN_ENTRIES // len(H))
        for start in range(0, len(drawn), step):
            piece = drawn[start : start + step]
            roots = np.sqrt(coefs[start : start + step])
            X = np.ones((width, len(piece)))
            X[: self.n_features] = self.rows.dense(piece).T
            X *= roots
            P = self.probabilities(derivatives, piece)
            products = (P[:, None, :] * X).reshape(len(H), -1)
            blocks += products @ X.T
            H = blas.dsyrk(-1.0, products.T, 1.0, H, trans=1, lower=1, overwrite_c=1)
        for k in range(K):
            of_class = slice(k * width, (k + 1) * width)
            H[of_class, of_class] += blocks[of_class]
        return H

    def _drawn(self, derivatives: Array, n_drawn: int) -> tuple[NDArray[np.intp], Array]:
        """Samples, and coefficients that replace their weights."""
        n = self.n_samples
        if n_drawn >= n:
            return np.arange(n), self.weights
        of_label = derivatives[self.y, np.arange(n)]
        squares = np.einsum("ki,ki->i", derivatives, derivatives)
        curvature = np.maximum(-2.0 * of_label - squares / self.weights, 0.0)
        ends = np.cumsum(curvature)
        if not ends[-1] > 0.0:
            return np.arange(n), self.weights
        marks = (np.arange(n_drawn) + 0.5) * (ends[-1] / n_drawn)
        drawn, counts = np.unique(np.searchsorted(ends, marks), return_counts=True)
        return drawn, counts * self.weights[drawn] * ends[-1] / (n_drawn * curvature[drawn])
