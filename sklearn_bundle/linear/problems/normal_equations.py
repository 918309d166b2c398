"""Second derivatives of squared errors, and exact or approximate steps of normal equations."""

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, lapack

from sklearn_bundle.core.contract import ABSENT
from sklearn_bundle.core.limits import CONSTANT, MOST_SIDE, RIDGES
from sklearn_bundle.linear.regularizers import Regularizer
from sklearn_bundle.linear.rows.rows import RowOperator, factorization

Array = NDArray[np.float64]
Step = Callable[[Array], Array]


class NormalEquations:
    """``H = M x X'SX + reg_lambda B`` with the rows of X centered if there is an intercept.

    Matrices of the data are formed once, on first use, and serve any reg_lambda.

    Parameters
    ----------
    rows : RowOperator
    target : ndarray of shape (n,) or (n, k)
    weights : ndarray of shape (n,)
        The diagonal of S, of sum one.
    free : bool
        Whether there is an intercept.
    metric : ndarray of shape (k, k) or None
        M; None is the identity.
    omega : Regularizer
        Bound to the data; its ``form`` is B.
    """

    def __init__(
        self,
        rows: RowOperator,
        target: Array,
        weights: Array,
        free: bool,
        metric: Array | None,
        omega: Regularizer,
    ):
        self.attach(rows, target, weights)
        self._free = free
        self._metric, self._omega, self._form = metric, omega, omega.form
        self._matrix: Array | None = None  # X'SX, or for wide data its counterpart of rows
        self._diagonal: Array | None = None
        self._right: Array | None = None

    def attach(self, rows: RowOperator, target: Array, weights: Array) -> None:
        """Continue with the same data in another object."""
        self._rows, self._target, self._weights = rows, target, weights

    def detach(self) -> None:
        """Release the data."""
        self._rows = self._target = self._weights = ABSENT

    @property
    def by_samples(self) -> bool:
        """Whether to factor the matrix of the samples: for wide, dense data."""
        n, d = self._rows.shape
        return self._form is None and n < d and self._rows.outer_passes < np.inf

    @property
    def passes_to_factor(self) -> float:
        """Cost of the matrix and its factor, in passes over X; infinity if it is too large."""
        side = min(self._rows.shape) if self.by_samples else self._rows.shape[1]
        if side > MOST_SIDE:
            return np.inf
        products = self._rows.outer_passes if self.by_samples else self._rows.gram_passes
        if self._matrix is not None:
            products = 0.0
        return products + factorization(side, self._rows.n_entries)

    def bend(self, scores: Array) -> float:
        """``sum_i s_i f_i' M f_i`` of centered scores: the risk's second derivative along them."""
        weights = _as_column(self._weights, scores)
        if self._free:
            scores = scores - np.sum(weights * scores, axis=0)
        image = scores if self._metric is None else scores @ self._metric
        return float(np.sum(weights * scores * image))

    def form_times(self, w: Array) -> Array:
        """``B w`` for every output."""
        if self._form is None:
            return w
        outputs = w.reshape(-1, self._form.shape[0])
        image = outputs * self._form if self._form.ndim == 1 else (self._form @ outputs.T).T
        return np.ascontiguousarray(image).reshape(w.shape)

    def factored(self, reg_lambda: float) -> Step | None:
        """The function from a gradient to ``H^-1`` times it, up to rounding, by Cholesky.

        None if numbers overflow.
        """
        matrix, form = self._gram(), self._form

        def solver(share: float) -> Step:
            H = share * matrix
            if form is None or form.ndim == 1:
                H.flat[:: len(H) + 1] += reg_lambda * self._diagonal_of_form()
            else:
                H += reg_lambda * (form.toarray() if sp.issparse(form) else form)
            factor = _cholesky(H)
            return lambda G: lapack.dpotrs(factor, G.T)[0].T

        try:
            return self._per_output(solver)
        except LinAlgError:
            return None

    def right_side(self) -> Array:
        """``X'S y M`` with centered y if there is an intercept: minus the gradient at 0."""
        right = self._right
        if right is None:
            weights = _as_column(self._weights, self._target)
            g = self._target - np.sum(weights * self._target, axis=0) * self._free
            g *= weights
            right = self._rows.gradient(g if self._metric is None else g @ self._metric)
            self._right = right
        return right

    def _gram(self) -> Array:
        """``X'SX``, formed with the right side in one pass if there is one output."""
        matrix = self._matrix
        if matrix is None:
            if self._target.ndim == 1:
                matrix, self._right = self._rows.moments(self._weights, self._target, self._free)
            else:
                matrix = self._rows.gram(self._weights, self._free)
            self._matrix = matrix
        return matrix

    def sample_solution(self, reg_lambda: float) -> "SampleSolution | None":
        """The solver of the equations for wide data; None if numbers overflow."""
        matrix = self._matrix
        if matrix is None:
            self._matrix = matrix = self._rows.outer(self._weights, self._free)
        try:
            return SampleSolution(self, matrix, self._metric, reg_lambda)
        except LinAlgError:
            return None

    def residuals(self, scores: Array) -> Array:
        """``S^1/2 (y - f)``, centered if there is an intercept."""
        weights = _as_column(self._weights, scores)
        residuals = self._target - scores
        if self._free:
            residuals -= np.sum(weights * residuals, axis=0)
        return np.sqrt(weights) * residuals

    def combine(self, u: Array) -> Array:
        """``Z'u``, with Z the rows of :meth:`residuals`: one product with X'."""
        weights = _as_column(self._weights, u)
        g = np.sqrt(weights) * u
        if self._free:
            g -= weights * np.sum(g, axis=0)
        return self._rows.gradient(g)

    def scaled(self, reg_lambda: float) -> Step:
        """A function of a gradient that replaces ``H^-1`` and costs no product.

        It divides by the diagonal of H. For wide data it is ``B^-1``: most eigenvalues of
        ``B^-1 H`` are then reg_lambda, which makes conjugate gradients fast, and the diagonal would
        spread them.
        """
        n, d = self._rows.shape
        if n < d:
            return self._omega.conjugate_gradient
        if self._diagonal is None:
            squares = self._rows.column_squares(self._weights)
            mean = self._rows.mean(self._weights) if self._free else 0.0
            self._diagonal = np.maximum(squares - mean**2, CONSTANT * squares)
        diagonal, penalty = self._diagonal, reg_lambda * self._diagonal_of_form()

        def solver(share: float) -> Step:
            inverse = 1.0 / (share * diagonal + penalty)
            return lambda G: G * inverse

        return self._per_output(solver)

    def _diagonal_of_form(self) -> Array | float:
        if self._form is None:
            return 1.0
        return self._form if self._form.ndim == 1 else self._form.diagonal()

    def _per_output(self, solver: Callable[[float], Step]) -> Step:
        """In the eigenbasis of M outputs separate, each with X'SX times its eigenvalue."""
        d = self._rows.shape[1]
        if self._metric is None:
            solve = solver(1.0)
            return lambda g: solve(g.reshape(-1, d)).reshape(g.shape)
        shares, basis = np.linalg.eigh(self._metric)
        shares = np.maximum(shares, 0.0)
        solvers = {share: solver(share) for share in dict.fromkeys(shares)}

        def step(g: Array) -> Array:
            G = basis.T @ g.reshape(-1, d)
            for k, share in enumerate(shares):
                G[k : k + 1] = solvers[share](G[k : k + 1])
            return (basis @ G).reshape(g.shape)

        return step


class SampleSolution:
    """Solutions ``w = Z'u`` of wide data, Z the weighted rows: Newton steps in u, of length n.

    With ``K = ZZ'`` and M = 1 the equations are ``(K + reg_lambda I) u = S^1/2 y``. A step is
    ``Z'(K + reg_lambda I)^-1 (S^1/2 r - reg_lambda u)``, with the residuals r computed from the
    data: nothing is divided by reg_lambda, so that a small one costs no digits.
    """

    def __init__(
        self, equations: NormalEquations, K: Array, metric: Array | None, reg_lambda: float
    ):
        self._equations, self._lambda = equations, reg_lambda
        self._shares, self._basis = np.ones(1), None
        if metric is not None:
            shares, self._basis = np.linalg.eigh(metric)
            self._shares = np.maximum(shares, 0.0)
        self._factors = {}
        for share in dict.fromkeys(self._shares):
            H = share * K
            H.flat[:: len(H) + 1] += reg_lambda
            self._factors[share] = _cholesky(H)
        self._u = self._change = np.zeros(())  # in the eigenbasis of M

    def direction(self, scores: Array) -> Array:
        """The step in w at the point with these scores."""
        residuals = self._equations.residuals(scores)
        if self._basis is None:
            right = residuals - self._lambda * self._u
            self._change = lapack.dpotrs(self._factors[1.0], right)[0].reshape(scores.shape)
            return self._equations.combine(self._change)
        right = (residuals @ self._basis) * self._shares - self._lambda * self._u
        columns = zip(self._shares, right.T, strict=True)
        solved = [lapack.dpotrs(self._factors[share], column)[0] for share, column in columns]
        self._change = np.column_stack(solved)
        return self._equations.combine(self._change @ self._basis.T)

    def move(self, step: float) -> None:
        """Move along the last direction."""
        self._u = self._u + step * self._change


def _as_column(weights: Array, scores: Array) -> Array:
    return weights if scores.ndim == 1 else weights[:, None]


def _cholesky(H: Array) -> Array:
    """The upper factor of H, or of H with the smallest ridge for which it exists."""
    diagonal = H.diagonal().copy()
    for ridge in RIDGES:  # later steps undo its effect on the solution
        H.flat[:: len(H) + 1] = diagonal * (1.0 + ridge)
        factor, failed = lapack.dpotrf(H.T, clean=False)  # in LAPACK's memory order
        if not failed and np.isfinite(factor.diagonal()).all():
            return factor
    raise LinAlgError("No ridge made the matrix definite.")
