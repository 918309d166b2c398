"""A symmetric positive definite matrix given by the user, and its factor."""

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.sparse.linalg import splu

from sklearn_bundle.core.sparse import well_formed
from sklearn_bundle.core.values import as_numbers, shown

Array = NDArray[np.float64]

_ASYMMETRY = 1e-10  # of the largest entry of B: the rounding of products such as A'A is less


def factored(B: Any, n_features: int | None) -> tuple[Any, Callable[[Array], Array]]:
    """B in float64, and the function from M, whose columns are right-hand sides, to ``B^-1 M``."""
    sparse = sp.issparse(B)
    matrix = well_formed(B, "B").tocsc() if sparse else as_numbers("B", B)
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
