"""A kernel matrix of low rank, by randomly pivoted Cholesky factors."""

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack, solve_triangular

Array = NDArray[np.float64]

_BLOCK = 128  # pivots at a time: enough for BLAS to be fast
_WORTH = 0.01  # of 1/C: a remainder of k(x, x) below this hardly affects the curvature
_PRECISION = 16.0  # roundings of the largest k(x, x): a smaller pivot is rounding


class KernelBlocks(Protocol):
    """What low-rank factors need of a kernel matrix of n points."""

    n: int
    dtype: np.dtype

    @property
    def diagonal(self) -> Array:
        """Its diagonal."""
        ...

    def block(self, rows: np.ndarray) -> np.ndarray:
        """Some of its rows."""
        ...


class LowRank(NamedTuple):
    """``K ~ L'L``, exact in the rows and columns ``pivots``: ``K[pivots] = R'L``.

    L, of shape (rank, n), has the scores of orthonormal functions, which are spanned by the kernel
    functions of the pivots; R, of shape (rank, rank), is upper triangular. ``left`` is the rest of
    the diagonal of K.
    """

    L: np.ndarray
    R: Array
    pivots: NDArray[np.intp]
    left: Array

    def coefficients(self, u: np.ndarray) -> Array:
        """The coefficients on the pivots of the function with these coordinates."""
        return solve_triangular(self.R, u.astype(np.float64), check_finite=False)


def nothing(problem: KernelBlocks) -> LowRank:
    """Factors of rank 0."""
    L = np.empty((0, problem.n), problem.dtype)
    return LowRank(L, np.empty((0, 0)), np.empty(0, dtype=np.intp), problem.diagonal.copy())


def extended(
    problem: KernelBlocks, known: LowRank, C: Array, most: int, rng: np.random.Generator
) -> LowRank:
    """Factors of rank ``most`` or less that begin with the known ones, for a ridge of ``1/C``.

    Pivots are drawn in proportion to ``C_i`` times the rest of the diagonal, a block of them at a
    time (Chen, Epperly, Tropp and Webber, 2025, Randomly pivoted Cholesky, section 2.4).
    """
    rank, dtype, left = len(known.pivots), problem.dtype, known.left.copy()
    L, R = np.empty((most, problem.n), dtype), np.zeros((most, most))
    pivots = np.zeros(most, dtype=np.intp)
    L[:rank], R[:rank, :rank], pivots[:rank] = known.L, known.R, known.pivots
    smallest = _PRECISION * float(np.finfo(dtype).eps) * max(float(problem.diagonal.max()), 0.0)
    while rank < most:
        weights = np.where(left > smallest, C * left, 0.0)
        wanted = np.flatnonzero(weights > _WORTH)
        if len(wanted) == 0:
            break
        keys = np.log(weights[wanted]) + rng.gumbel(size=len(wanted))
        size = min(_BLOCK, most - rank, len(wanted))
        chosen = np.sort(wanted[np.argpartition(-keys, size - 1)[:size]])
        rows, before = problem.block(chosen), L[:rank, chosen].copy()
        rows -= before.T @ L[:rank]
        square = rows[:, chosen].astype(np.float64)
        least = max(smallest, _WORTH / float(C[chosen].max()))
        upper, order, found, _ = lapack.dpstrf(0.5 * (square + square.T), tol=least)
        if found == 0:
            break
        upper, order = np.triu(upper[:found, :found]), order[:found] - 1
        new = slice(rank, rank + found)
        lower = upper.T.astype(dtype)
        L[new] = solve_triangular(lower, rows[order], lower=True, check_finite=False)
        R[:rank, new], R[new, new] = before[:, order], upper
        pivots[new] = chosen[order]
        left -= np.einsum("ij,ij->j", L[new], L[new], dtype=np.float64)
        left[pivots[new]] = 0.0
        rank += found
    return LowRank(L[:rank], R[:rank, :rank], pivots[:rank], left)
