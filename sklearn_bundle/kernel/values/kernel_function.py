"""Kernel functions and their parameters."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sklearn_bundle.core.limits import DOUBLE
from sklearn_bundle.kernel._compiled import rows as passes

Matrix = np.ndarray | sp.spmatrix | sp.sparray
KernelName = str | Callable[[Any, Any], np.ndarray]

_CHUNK_ENTRIES = 1 << 18  # of X converted at a time: 2 MB in float64, which stay in a cache
_FLAT = 1e-28  # variance over the squared mean: deviations of 1e-14 are rounding


@dataclass(frozen=True)
class Kernel:
    """A kernel function k(x, z).

    Parameters
    ----------
    name : {"rbf", "linear", "poly", "precomputed"} or callable
        ``exp(-gamma |x - z|^2)``; ``<x, z>``; ``(gamma <x, z> + coef0)^degree``; X is the matrix of
        kernel values; a callable takes (X, Z) and returns the array of shape (n_X, n_Z).
    gamma : float, positive
    degree : int, at least 0
    coef0 : float
        0 makes the polynomial homogeneous; below 0 it is not positive definite.
    """

    name: KernelName = "rbf"
    gamma: float = 1.0
    degree: int = 3
    coef0: float = 0.0

    def of_squares(self, squares: NDArray[np.float64]) -> NDArray[np.float64]:
        """k(x, x) from |x|^2."""
        if self.name == "rbf":
            return np.ones(len(squares))
        if self.name == "linear":
            return squares.copy()
        return (self.gamma * squares + self.coef0) ** self.degree

    def rounding(self, unit: float, lengths, longest: float, d: float):
        """Bounds on the errors of k(x, z) for ``|x| = lengths`` and ``|z| <= longest``.

        ``unit`` is the unit roundoff. A sum of products has an error of at most d roundings of
        ``|x| |z|``, where d is their number or what their errors are likely to add up to
        (Higham, 2002, section 3.1). For "rbf" that is the error of the exponent. If one of the
        two is more than twice as long as the other, ``|x| |z|`` is at most 4 times the exponent,
        and the squared norms 5 times; ``t exp(-t)`` is at most 0.37. Norms are sums in float64.
        """
        product = (d + 4) * unit * lengths * longest
        if self.name == "rbf":
            near = np.where(lengths <= 2.0 * longest, lengths, 0.0)  # some z may be as long as x
            other = np.minimum(longest, 2.0 * near)
            alike = 2.0 * self.gamma * other * near
            norms = d * DOUBLE * np.maximum(self.gamma * (near**2 + other**2), 1.9)
            around = 4.0 * unit * (9.0 + 5.0 * self.gamma * near**2)
            return (d + 4) * unit * np.maximum(alike, 1.5) + norms + around
        if self.name == "linear":
            return product
        base = self.gamma * lengths * longest + abs(self.coef0)
        slope = self.degree * base ** max(self.degree - 1, 0)
        return slope * (self.gamma * product + 4.0 * unit * base) + 2.0 * unit * base**self.degree

    def roundings(self, d: float) -> float:
        """Error bound in units of ``unit sqrt(k(x, x) k(z, z))``, for kernels of inner products."""
        return d + 4.0 if self.name == "linear" else self.degree * (d + 8.0) + 2.0

    def of_products(self, out, start, stop, left, right) -> None:
        """Turn inner products in columns start to stop of ``out`` into kernel values, in place.

        ``left`` and ``right`` are ``gamma |x|^2`` of the points of its rows and of these columns.
        """
        scalar = out.dtype.type
        if self.name == "rbf":
            rbf = passes.rbf_single if scalar is np.float32 else passes.rbf_double
            rbf(out, start, stop, left, right, scalar(2.0 * self.gamma))
        elif self.name == "poly":
            passes.poly(out, start, stop, scalar(self.gamma), scalar(self.coef0), int(self.degree))


def resolve_gamma(gamma: str | float, X: Matrix, weights: np.ndarray | None = None) -> float:
    """The number that ``gamma`` stands for; a weight 2 in ``weights`` equals a repeated row.

    "scale": ``1/(d Var(X))`` over all entries of X, as in SVC; "auto": ``1/d``; "distance": one
    over the mean of ``|x - z|^2`` over all ordered pairs of rows, pairs of a row with itself
    included, ``2 (E|x|^2 - |E x|^2)``. If X does not vary, "scale" and "distance" are 1.
    """
    if not isinstance(gamma, str):
        return float(gamma)
    d = X.shape[1]
    if gamma == "auto":
        return 1.0 / d
    shares = np.ones(X.shape[0]) if weights is None else np.asarray(weights, np.float64)
    shares = shares / shares.max()  # first, since the sum of large ones may overflow
    shares = shares / shares.sum()
    mean = _mean(X, shares)
    center = np.full(d, mean.mean()) if gamma == "scale" else mean
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        spread, size = _mean_squared_distance(X, shares, center), center @ center
        value = np.float64(1.0 if gamma == "scale" else 0.5) / spread
    flat = spread <= _FLAT * size
    if not np.isfinite(spread + size) or not (flat or np.isfinite(value)):
        raise ValueError(
            f"gamma={gamma!r} needs features whose squares float64 can hold, got values up to "
            f"{abs(X).max():.3g}. Scale the features."
        )
    return 1.0 if flat else float(value)


def chunks(X):
    """Slices of rows of X; a chunk of float32 rows is cheap to convert."""
    step = max(1, _CHUNK_ENTRIES // X.shape[1])
    return (slice(start, start + step) for start in range(0, X.shape[0], step))


def _mean(X, weights) -> NDArray[np.float64]:
    if sp.issparse(X):
        return X.T @ weights
    mean = np.zeros(X.shape[1])
    for part in chunks(X):
        mean += weights[part] @ np.asarray(X[part], np.float64)
    return mean


def _mean_squared_distance(X, weights, center) -> float:
    """Weighted mean of |x - center|^2 over the rows of X, as a sum of squares: no cancellation."""
    if sp.issparse(X):
        X = canonical(X)
        entry_weights = np.repeat(weights, np.diff(X.indptr))
        stored = np.bincount(X.indices, entry_weights, minlength=X.shape[1])
        of_zeros = center**2 @ (weights.sum() - stored)
        return entry_weights @ (X.data - center[X.indices]) ** 2 + of_zeros
    total = 0.0
    for part in chunks(X):
        deviations = np.asarray(X[part]) - center
        total += weights[part] @ np.einsum("ij,ij->i", deviations, deviations)
    return total


def densified(X: Any) -> np.ndarray:
    """The values of a sparse matrix as an array; others as they are."""
    return X.toarray() if sp.issparse(X) else np.asarray(X)


def canonical(X):
    """CSR with sorted indices and no duplicates; a copy if X is not in this form."""
    if X.has_canonical_format:
        return X
    X = X.copy()
    X.sum_duplicates()
    return X
