"""Quadratic regularizers: the squared norm, and any positive semidefinite form."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.sparse.linalg import splu

from sklearn_bundle.core.validation import well_formed
from sklearn_bundle.core.values import as_numbers, shown
from sklearn_bundle.linear.regularizers.base import Array, Regularizer, places, split_infinite


class L2(Regularizer):
    """``Omega(w) = ||w||^2 / 2``; its conjugate is ``Omega*(m) = ||m||^2 / 2`` with gradient m.

    Section 3.3.1 of [1]_.

    References
    ----------
    .. [1] Stephen Boyd, Lieven Vandenberghe: Convex optimization. Cambridge University Press, 2004.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_bundle.regularizers import L2
    >>> L2().value(np.array([3.0, 4.0])), L2().conjugate(np.array([3.0, 4.0]))
    (12.5, 12.5)
    """

    is_quadratic = True
    is_euclidean = True
    strong_convexity = 1.0
    diagonal = 1.0

    def value(self, w) -> float:
        return 0.5 * float(np.sum(w * w))

    def conjugate(self, m) -> float:
        return 0.5 * float(np.sum(m * m))

    def conjugate_gradient(self, m) -> Array:
        return m

    def conjugate_curvature(self, m, planes) -> Array:
        return planes @ planes.T

    def slope(self, w, direction) -> tuple[float, float]:
        return float(np.sum(w * direction)), float(np.sum(direction * direction))


_EIGENVALUE = 1e-12  # of the largest one: an error that computed eigenvalues do not exceed


@dataclass
class Form:
    """B in float64, and the function from M, whose columns are right-hand sides, to ``B^+ M``."""

    matrix: Any
    solve: Callable[[Array], Array]
    unpenalized: Array | NDArray[np.int64] | None = None
    excluded: NDArray[np.int64] | None = None

    @cached_property
    def least(self) -> float:
        """No more than the least eigenvalue, by Gershgorin's discs if sparse, and at least 0."""
        B = self.matrix
        if B.ndim == 1:
            return float(B.min())
        if sp.issparse(B):
            diagonal = B.diagonal()
            others = np.asarray(abs(B).sum(axis=1)).ravel() - np.abs(diagonal)
            return max(float((diagonal - others).min() - _EIGENVALUE * diagonal.max()), 0.0)
        values = np.linalg.eigvalsh(B)
        return max(float(values[0] - _EIGENVALUE * values[-1]), 0.0)


class Quadratic(Regularizer):
    """``Omega(w) = w' B w / 2``; its conjugate is ``m' B^-1 m / 2`` with gradient ``B^-1 m``.

    With k outputs, the sum of this over the outputs. Section 3.3.1 of [1]_. Directions w with
    ``B w = 0`` are not penalized: the conjugate is finite only for m that are orthogonal to them,
    and then has the pseudoinverse in place of the inverse.

    Parameters
    ----------
    B : array-like of shape (n_features,) or (n_features, n_features), or sparse
        Symmetric and positive semidefinite, and not all 0; positive definite if it is sparse. One
        dimension stands for a diagonal matrix, in which 0 is a feature that is not penalized, and
        infinity one that gets the weight 0. It is factored once per fit.

    Raises
    ------
    ValueError
        If `B` is not of one of these shapes, has an entry that is not a finite number, or is not
        symmetric or not semidefinite; raised by `fit`, and by the methods that factor it.

    References
    ----------
    .. [1] Stephen Boyd, Lieven Vandenberghe: Convex optimization. Cambridge University Press, 2004.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_bundle.regularizers import Quadratic
    >>> omega = Quadratic([1.0, 4.0])  # diagonal: the second weight is penalized four times as much
    >>> omega.value(np.array([1.0, 1.0])), omega.conjugate_gradient(np.array([1.0, 1.0]))
    (2.5, array([1.  , 0.25]))
    """

    is_quadratic = True

    _bound_to: Form | None = None

    def __init__(self, B: ArrayLike):
        self.B = B

    def bind(self, n_features, dimension) -> Regularizer:
        """A copy that keeps the factor of B."""
        bound = copy(self)
        bound._bound_to = factored(self.B, n_features)
        bound.excluded = bound._bound_to.excluded
        return bound

    @property
    def _form(self) -> Form:
        return factored(self.B, None) if self._bound_to is None else self._bound_to

    @property
    def matrix(self) -> Any:
        return self._form.matrix

    @property
    def diagonal(self) -> Array:
        matrix = self.matrix
        return matrix if matrix.ndim == 1 else matrix.diagonal()

    @property
    def unpenalized(self):
        return self._form.unpenalized

    @property
    def strong_convexity(self) -> float:
        return self._form.least

    def image(self, w) -> Array:
        matrix = self.matrix
        outputs = w.reshape(-1, matrix.shape[0]).T
        image = matrix[:, None] * outputs if matrix.ndim == 1 else matrix @ outputs
        return image.T.reshape(w.shape)

    def value(self, w) -> float:
        return 0.5 * float(np.sum(w * self.image(w)))

    def conjugate(self, m) -> float:
        return 0.5 * float(np.sum(m * self.conjugate_gradient(m)))

    def conjugate_gradient(self, m) -> Array:
        form = self._form
        outputs = m.reshape(-1, form.matrix.shape[0])
        return np.ascontiguousarray(form.solve(outputs.T).T).reshape(m.shape)

    def conjugate_curvature(self, m, planes) -> Array:
        products = planes @ self.conjugate_gradient(planes).T
        return 0.5 * (products + products.T)

    def slope(self, w, direction) -> tuple[float, float]:
        image = self.image(direction)
        return float(np.sum(w * image)), float(np.sum(direction * image))


def factored(B: Any, n_features: int | None) -> Form:
    """B with its factor; ValueError if it is not a positive semidefinite matrix of this size."""
    sparse = sp.issparse(B)
    matrix: Any = well_formed(B, "B").tocsc() if sparse else as_numbers("B", B)
    matrix = matrix.astype(np.float64)  # a copy
    if matrix.ndim not in (1, 2) or len(set(matrix.shape)) != 1:
        raise ValueError(
            f"B has shape {matrix.shape}; allowed are (n_features,) and (n_features, n_features). "
            f"Got {shown(B)}."
        )
    if n_features is not None and matrix.shape[0] != n_features:
        raise ValueError(
            f"B has shape {matrix.shape}, but X has {n_features} features: B must have one entry, "
            "or one row and one column, per feature."
        )
    if matrix.ndim == 1:
        return _diagonal(matrix)
    entries = matrix.data if sparse else matrix
    if not np.all(np.isfinite(entries)):
        raise ValueError("B has entries that are NaN or infinite; all must be finite.")
    asymmetry = abs(matrix - matrix.T).max()
    # the rounding of products such as A'A is less
    if asymmetry > 1e-10 * np.abs(entries).max(initial=0.0):
        raise ValueError(f"B must be symmetric, but |B - B'| is as large as {asymmetry}.")
    matrix = 0.5 * (matrix + matrix.T)
    return _sparse(matrix.tocsc()) if sparse else _dense(matrix)


def _diagonal(B: Array) -> Form:
    if not np.all(B >= 0.0):
        raise ValueError(
            f"B must be positive semidefinite, but its smallest diagonal entry is {B.min()}."
        )
    excluded, B = split_infinite(B)
    if not B.any():
        raise ValueError("B must have a diagonal entry that is positive and finite, but has none.")
    inverse = np.divide(1.0, B, out=np.zeros_like(B), where=B > 0.0)[:, None]
    return Form(B, lambda M: M * inverse, places(B == 0.0), excluded)


def _dense(B: Array) -> Form:
    """By Cholesky, or by eigenvalues if a pivot is no more than rounding."""
    rounding = len(B) * np.finfo(float).eps
    try:
        factor = cho_factor(B, lower=True)
        pivots = np.diagonal(factor[0]) ** 2
        if pivots.min() > rounding * pivots.max():
            return Form(B, lambda M: cho_solve(factor, M))
    except LinAlgError:
        pass
    values, vectors = np.linalg.eigh(B)
    if values[0] < -rounding * values[-1] or not values[-1] > 0.0:
        raise ValueError(
            "B must be positive semidefinite and not 0, but its smallest eigenvalue is "
            f"{values[0]:.3g}."
        )
    null = values <= rounding * values[-1]
    roots = vectors[:, ~null] / np.sqrt(values[~null])
    basis = np.ascontiguousarray(vectors[:, null]) if null.any() else None
    return Form(B, lambda M: roots @ (roots.T @ M), basis)


def _sparse(B: Any) -> Form:
    """LU with pivots on the diagonal, which is Cholesky: B is definite if all are positive."""
    try:
        factor = splu(
            B, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True}
        )
        on_diagonal = np.array_equal(factor.perm_r, factor.perm_c)
        least = factor.U.diagonal().min() if on_diagonal else 0.0
    except RuntimeError:  # a pivot is zero
        least = 0.0
    if not least > 0.0:
        raise ValueError(
            f"A sparse B must be positive definite, but a pivot of its factor is {least:.3g}; a "
            "dense B may be semidefinite."
        )
    return Form(B, lambda M: factor.solve(np.ascontiguousarray(M)))
