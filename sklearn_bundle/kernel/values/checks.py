"""Whether values that the caller gives or computes are those of a kernel.

Two triangles that differ, or a negative eigenvalue, leave no convex problem, and so no certificate.
What rounding in their type explains is allowed.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from sklearn_bundle.core.parallel import blas_threads

Array = NDArray[np.float64]

# Roundings of a value k(x, z), in units of sqrt(k(x, x) k(z, z)): sums of 10,000 products have some
# hundreds, and a power of them a few times as many.
_OF_VALUE = 1e3
# Roundings of an eigenvalue, in units of the largest k(x, x), are this times n + 100. Errors of
# opposite signs move the eigenvalues of n points by about sqrt(n) times the error of a value.
_OF_EIGENVALUE, _AT_LEAST = 30.0, 100
# Of the largest k(x, x): distances between points far from the origin leave this in float64.
_OF_DISTANCES = 1e-9
_TILE = 512  # rows compared with columns at a time


def refuse_asymmetric(K: np.ndarray, kernel: Any, samples: np.ndarray) -> None:
    """Raise if the square matrix K is not symmetric; ``samples`` are the names of its points."""
    lengths = np.sqrt(np.abs(np.diagonal(K).astype(np.float64)))
    lengths *= np.sqrt(_OF_VALUE * _precision(K.dtype))
    for top in range(0, len(K), _TILE):
        stop = min(top + _TILE, len(K))
        tile, mirrored = K[top:stop, :stop], K[:stop, top:stop].T
        if np.array_equal(tile, mirrored):
            continue
        apart = np.abs(tile.astype(np.float64) - mirrored)
        apart -= np.outer(lengths[top:stop], lengths[:stop])
        i, j = np.unravel_index(apart.argmax(), apart.shape)
        if apart[i, j] > 0.0:
            a, b = samples[top + i], samples[j]
            raise ValueError(
                f"kernel={kernel!r} is not symmetric: k(x, z) is {tile[i, j]} for the samples "
                f"{a} and {b} (row {a}, column {b}), but {mirrored[i, j]} for {b} and {a}."
            )


def refuse_indefinite(K: np.ndarray, kernel: Any, n: int, ridge: np.ndarray | None = None) -> None:
    """Raise if the symmetric matrix K, of some of n points, has a negative eigenvalue.

    Rounding is allowed; with a ``ridge``, only so much that ``K + diag(ridge)`` still has none
    beyond rounding in float64.
    """
    exact = K.astype(np.float64)
    shift = np.full(len(K), allowance(np.diagonal(exact), K.dtype))
    if ridge is not None:
        shift = np.maximum(np.minimum(shift, ridge), _of_sums(np.diagonal(exact), exact.dtype))
    shifted = exact.copy().T  # as LAPACK has its matrices
    np.fill_diagonal(shifted, np.diagonal(exact) + shift)
    with blas_threads(1):  # on so few points threads wait longer than they work
        _, failed = lapack.dpotrf(shifted, lower=1, clean=0, overwrite_a=1)
        if not failed:
            return
        least = float(np.linalg.eigvalsh(exact)[0])
        np.fill_diagonal(exact, np.diagonal(exact) + shift)
        of_ridge = ridge is not None and np.linalg.eigvalsh(exact)[0] < 0.0
    if least < -shift.max() or of_ridge:
        why = "below what rounding explains"
        if ridge is not None:
            why = f"which is too large for 1/C of {ridge.min():.3g}: use a smaller C, or float64"
        raise ValueError(negative(kernel, f"{least:.6g}", len(K), n, why))


def negative(kernel: Any, eigenvalue: str, size: int, n: int, why: str) -> str:
    """The message about a negative eigenvalue of the values between ``size`` of n points."""
    among = "the samples" if size == n else f"{size} of the {n} samples"
    return (
        f"kernel={kernel!r} is not positive semidefinite: the matrix of its values between {among} "
        f"has the eigenvalue {eigenvalue}, {why}. There is no convex problem. Add as much to the "
        "diagonal, or use another kernel."
    )


def allowance(diagonal: np.ndarray, dtype: np.dtype) -> float:
    """How far below 0 rounding may have moved eigenvalues of a matrix with this diagonal."""
    return max(_of_sums(diagonal, dtype), _OF_DISTANCES * _largest(diagonal))


def _of_sums(diagonal: np.ndarray, dtype: np.dtype) -> float:
    n_roundings = _OF_EIGENVALUE * (len(diagonal) + _AT_LEAST)
    return n_roundings * _precision(dtype) * _largest(diagonal)


def _largest(diagonal: np.ndarray) -> float:
    return float(np.abs(diagonal).max(initial=0.0))


def some_points(n: int, most: int) -> np.ndarray:
    """All of n points, or so many of them at random, the same for equal n."""
    if n <= most:
        return np.arange(n)
    return np.sort(np.random.default_rng(n).choice(n, most, replace=False))


def _precision(dtype: np.dtype) -> float:
    return float(np.finfo(dtype if dtype.kind == "f" else np.float64).eps)
