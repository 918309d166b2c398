"""Norms and quadratic forms."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.sparse.linalg import splu

from sklearn_bundle.core.sparse import well_formed
from sklearn_bundle.core.values import as_float, as_numbers, shown
from sklearn_bundle.linear.regularizers.base import Array, Regularizer

_ASYMMETRY = 1e-10  # of the largest entry of B: the rounding of products such as A'A is less
_EIGENVALUE = 1e-12  # of the largest one: an error that computed eigenvalues do not exceed


def factored(B: Any, n_features: int | None) -> tuple[Any, Callable[[Array], Array]]:
    """B in float64, and the function from M, whose columns are right-hand sides, to ``B^-1 M``."""
    sparse = sp.issparse(B)
    matrix: Any = well_formed(B, "B").tocsc() if sparse else as_numbers("B", B)
    matrix = matrix.astype(np.float64)  # a copy
    entries = matrix.data if sparse else matrix
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
    if not np.all(np.isfinite(entries)):
        raise ValueError("B has entries that are NaN or infinite; all must be finite.")
    if matrix.ndim == 1:
        if matrix.min(initial=np.inf) <= 0.0:
            raise ValueError(
                f"B must be positive definite, but its smallest diagonal entry is {matrix.min()}."
            )
        return matrix, lambda M: M / matrix[:, None]
    asymmetry = abs(matrix - matrix.T).max()
    if asymmetry > _ASYMMETRY * np.abs(entries).max(initial=0.0):
        raise ValueError(f"B must be symmetric, but |B - B'| is as large as {asymmetry}.")
    matrix = 0.5 * (matrix + matrix.T)
    return (matrix.tocsc(), _sparse_solver(matrix.tocsc())) if sparse else (matrix, _dense(matrix))


def _dense(B: Array) -> Callable[[Array], Array]:
    try:
        factor = cho_factor(B, lower=True)
    except LinAlgError:
        least = np.linalg.eigvalsh(B)[0]
        raise ValueError(
            f"B must be positive definite, but its smallest eigenvalue is {least:.3g}."
        ) from None
    return lambda M: cho_solve(factor, M)


def _sparse_solver(B: Any) -> Callable[[Array], Array]:
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
        raise ValueError(f"B must be positive definite, but a pivot of its factor is {least:.3g}.")
    return lambda M: factor.solve(np.ascontiguousarray(M))


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

    @property
    def is_euclidean(self) -> bool:
        return type(self) is L2

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


class Lp(Regularizer):
    """``Omega(w) = ||w||_p^2 / 2``; its conjugate is ``||m||_q^2 / 2``, ``1/p + 1/q = 1``.

    The conjugate's gradient is ``w = sign(m) |m|^(q-1) ||m||_q^(2-q)``: section 3.3.1 of [1]_. All
    powers are of entries divided by the norm, which are at most 1, so no finite result overflows.

    Parameters
    ----------
    p : float, default=1.5
        Order of the norm, ``1 < p <= 2``. Near 1 the solution is almost sparse.

    Raises
    ------
    ValueError
        If `p` is not greater than 1 and at most 2; raised by `fit`, and by :meth:`bind`.

    References
    ----------
    .. [1] Stephen Boyd, Lieven Vandenberghe: Convex optimization. Cambridge University Press, 2004.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_bundle.regularizers import Lp
    >>> round(Lp(p=1.5).value(np.array([1.0, 1.0])), 6)  # 2^(4/3) / 2
    1.259921
    >>> round(Lp(p=1.5).conjugate(np.array([1.0, 1.0])), 6)  # q = 3: 2^(2/3) / 2
    0.793701
    """

    def __init__(self, p: float = 1.5):
        self.p = as_float(p)

    @property
    def degree(self) -> float:
        return 2.0

    @property
    def strong_convexity(self) -> float:
        """``p - 1`` in the p-norm, which is at least as large as the Euclidean one."""
        return self.p - 1.0 if type(self) is Lp else 0.0

    def bind(self, n_features, dimension) -> Regularizer:
        if not (isinstance(self.p, float) and 1.0 < self.p <= 2.0):
            raise ValueError(f"p={shown(self.p)} must be greater than 1 and at most 2.")
        return self

    def value(self, w) -> float:
        norm = _norm(w, self.p)[0]
        return 0.5 * norm * norm

    def conjugate(self, m) -> float:
        norm = _norm(m, self._q)[0]
        return 0.5 * norm * norm

    def conjugate_gradient(self, m) -> Array:
        norm, share = _norm(m, self._q)
        return np.sign(m) * share ** (self._q - 1.0) * norm

    def conjugate_curvature(self, m, planes) -> Array:
        """``(q-1) diag(u^(q-2)) + (2-q) v v'`` with ``u = |m| / ||m||_q``, ``v = sign(m) u^(q-1)``.

        It depends only on the direction of m, and has no limit at m = 0 unless q = 2. The value
        there is ``(q-1) I``, an upper bound everywhere.
        """
        q = self._q
        norm, share = _norm(m, q)
        if norm == 0.0:
            return (q - 1.0) * (planes @ planes.T)
        along = planes @ (np.sign(m) * share ** (q - 1.0))
        bent = planes * np.sqrt((q - 1.0) * share ** (q - 2.0))
        return bent @ bent.T + (2.0 - q) * np.outer(along, along)

    def slope(self, w, direction) -> tuple[float, float]:
        p = self.p
        norm, share = _norm(w, p)
        if norm == 0.0:
            length = _norm(direction, p)[0]
            return 0.0, length * length
        along = float(np.sum(direction * np.sign(w) * share ** (p - 1.0)))
        moving = direction != 0.0
        if p < 2.0 and np.any(share[moving] == 0.0):
            return norm * along, np.nan
        bend = np.sum(direction[moving] ** 2 * share[moving] ** (p - 2.0))
        return norm * along, (p - 1.0) * float(bend) + (2.0 - p) * along**2

    @property
    def _q(self) -> float:
        return self.p / (self.p - 1.0)


class Quadratic(Regularizer):
    """``Omega(w) = w' B w / 2``; its conjugate is ``m' B^-1 m / 2`` with gradient ``B^-1 m``.

    With k outputs, the sum of this over the outputs. Section 3.3.1 of [1]_.

    Parameters
    ----------
    B : array-like of shape (n_features,) or (n_features, n_features), or sparse
        Symmetric and positive definite; one dimension stands for a diagonal matrix. It is factored
        once per fit.

    Raises
    ------
    ValueError
        If `B` is not of one of these shapes, has an entry that is not finite, or is not symmetric
        or not positive definite; raised by `fit`, and by the methods that factor it.

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

    _bound_to: tuple[Any, Callable[[Array], Array]] | None = None
    _least: float | None = None  # eigenvalue of B, once it is known

    def __init__(self, B: ArrayLike):
        self.B = B

    @property
    def has_form(self) -> bool:
        return type(self) is Quadratic

    @property
    def form(self) -> Any:
        return self._factored()[0]

    def bind(self, n_features, dimension) -> Regularizer:
        """A copy that keeps the factor of B."""
        bound = copy(self)
        bound._bound_to = factored(self.B, n_features)
        return bound

    def value(self, w) -> float:
        return 0.5 * float(np.sum(w * self._times(w)))

    def conjugate(self, m) -> float:
        return 0.5 * float(np.sum(m * self.conjugate_gradient(m)))

    def conjugate_gradient(self, m) -> Array:
        matrix, solve = self._factored()
        outputs = m.reshape(-1, matrix.shape[0])
        return np.ascontiguousarray(solve(outputs.T).T).reshape(m.shape)

    def conjugate_curvature(self, m, planes) -> Array:
        products = planes @ self.conjugate_gradient(planes).T
        return 0.5 * (products + products.T)

    def slope(self, w, direction) -> tuple[float, float]:
        image = self._times(direction)
        return float(np.sum(w * image)), float(np.sum(direction * image))

    @property
    def strong_convexity(self) -> float:
        """The least eigenvalue of B, by Gershgorin's discs if B is sparse: 0 if these reach 0."""
        if not self.has_form:
            return 0.0
        if self._least is not None:  # a fit asks at every confirmation
            return self._least
        least = _least_eigenvalue(self._factored()[0])
        if self._bound_to is not None:
            self._least = least
        return least

    def _times(self, w: Array) -> Array:
        matrix, _ = self._factored()
        outputs = w.reshape(-1, matrix.shape[0]).T
        image = matrix[:, None] * outputs if matrix.ndim == 1 else matrix @ outputs
        return image.T.reshape(w.shape)

    def _factored(self) -> tuple[Any, Callable[[Array], Array]]:
        return factored(self.B, None) if self._bound_to is None else self._bound_to


def _least_eigenvalue(B: Any) -> float:
    """No more than the least eigenvalue, and at least 0."""
    if B.ndim == 1:
        return float(B.min())
    if sp.issparse(B):
        diagonal = B.diagonal()
        others = np.asarray(abs(B).sum(axis=1)).ravel() - np.abs(diagonal)
        return max(float((diagonal - others).min() - _EIGENVALUE * diagonal.max()), 0.0)
    values = np.linalg.eigvalsh(B)
    return max(float(values[0] - _EIGENVALUE * values[-1]), 0.0)


def _norm(x: Array, order: float) -> tuple[float, Array]:
    """``||x||_order`` and ``|x| / ||x||_order``, zeros for x = 0."""
    size = np.abs(x)
    largest = float(size.max(initial=0.0))
    if largest == 0.0:
        return 0.0, size
    size = size / largest
    norm = float(np.sum(size**order)) ** (1.0 / order)
    return largest * norm, size / norm
