"""A kernel matrix of low rank by randomly pivoted Cholesky factors, and Hessians with it."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve, lapack, solve_triangular

from sklearn_bundle.kernel.problems.l2tube import L2Tube
from sklearn_bundle.kernel.values.kernel_data import OF_CACHE

Array = NDArray[np.float64]

RIDGE = 1e-12  # of the largest entry: negligible in a Hessian, and makes its factor exist

_BLOCK = 128  # pivots at a time: enough for BLAS to be fast
_NEGLIGIBLE = 0.01  # of 1/C: a remainder of k(x, x) below this hardly affects the curvature
_SETTLED = 0.01  # share of the points: fewer that cross the tube leave the Hessian as it is
_PRECISION = 16.0  # roundings of the largest k(x, x): a smaller pivot is rounding


class LowRank(NamedTuple):
    """``K ~ L'L``, exact in the rows and columns ``pivots``: ``K[pivots] = R'L``.

    L, of shape (rank, n), has the scores of orthonormal functions, which are spanned by the kernel
    functions of the pivots; R, of shape (rank, rank), is upper triangular. ``left`` is the rest of
    the diagonal of K, empty without pivots.
    """

    L: np.ndarray
    R: Array
    pivots: NDArray[np.intp]
    left: Array

    def coefficients(self, u: np.ndarray) -> Array:
        """The coefficients on the pivots of the function with these coordinates."""
        return solve_triangular(self.R, u.astype(np.float64), check_finite=False)


def of_rank_0(problem: L2Tube) -> LowRank:
    """Factors without pivots."""
    L, no_pivots = np.empty((0, problem.n), problem.dtype), np.empty(0, dtype=np.intp)
    return LowRank(L, np.empty((0, 0)), no_pivots, np.empty(0))


def extended(
    problem: L2Tube, known: LowRank, C: Array, most: int, rng: np.random.Generator
) -> LowRank:
    """Factors of rank ``most`` or less that begin with the known ones, for a ridge of ``1/C``.

    Pivots are drawn in proportion to ``C_i`` times the rest of the diagonal, a block of them at a
    time (Chen, Epperly, Tropp and Webber, 2025, Randomly pivoted Cholesky, section 2.4).
    """
    rank, dtype = len(known.pivots), problem.dtype
    left = (known.left if rank else problem.diagonal).copy()
    L, R = np.empty((most, problem.n), dtype), np.zeros((most, most))
    pivots = np.zeros(most, dtype=np.intp)
    L[:rank], R[:rank, :rank], pivots[:rank] = known.L, known.R, known.pivots
    smallest = _PRECISION * float(np.finfo(dtype).eps) * max(float(problem.diagonal.max()), 0.0)
    while rank < most:
        weights = np.where(left > smallest, C * left, 0.0)
        wanted = np.flatnonzero(weights > _NEGLIGIBLE)
        if len(wanted) == 0:
            break
        keys = np.log(weights[wanted]) + rng.gumbel(size=len(wanted))
        size = min(_BLOCK, most - rank, len(wanted))
        chosen = np.sort(wanted[np.argpartition(-keys, size - 1)[:size]])
        rows, before = problem.block(chosen), L[:rank, chosen].copy()
        rows -= before.T @ L[:rank]
        square = rows[:, chosen].astype(np.float64)
        least = max(smallest, _NEGLIGIBLE / float(C[chosen].max()))
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


class Preconditioner:
    """The Hessian of a problem with a kernel of low rank, which is extended now and then.

    In the coordinates of the orthonormal functions that the pivots span it is ``I + sum_i C_i L_i
    L_i'`` over the points outside of the tube.

    Parameters
    ----------
    problem : L2Tube
        Of the factors; it may be promoted.
    seed : int
        Of the pivots.

    Attributes
    ----------
    low : LowRank
        Without pivots before :meth:`extend`.
    extended_at : int
        The step of the last call of :meth:`extend`.
    """

    _hessian: np.ndarray
    _factor: Any  # of the Hessian, as cho_solve takes it

    def __init__(self, problem: L2Tube, seed: int):
        self.low, self.extended_at = of_rank_0(problem), 0
        self._random = np.random.default_rng(seed)
        self._outside: np.ndarray | None = None  # the points of the Hessian, once it is known

    @property
    def rank(self) -> int:
        return len(self.low.pivots)

    def extend(self, problem: L2Tube, share: float, wanted: np.ndarray, step: int) -> None:
        """Factors with up to ``share sqrt(n)`` pivots, new ones among the points ``wanted``."""
        work = OF_CACHE * problem.cache_bytes / (problem.n * problem.dtype.itemsize)
        most = int(max(1, min(share * np.sqrt(problem.n), work, problem.n)))
        known = self.low if self.low.L.dtype == problem.dtype else of_rank_0(problem)
        self.extended_at, self._outside = step, None
        if most > len(known.pivots):
            weights = np.where(wanted, problem.C, 0.0)
            self.low = extended(problem, known, weights, most, self._random)

    def update(self, C: Array, outside: np.ndarray) -> bool:
        """Make the factor of the Hessian that of these points outside; whether it has changed.

        Where few points cross the tube it stays as it is.
        """
        L, known = self.low.L, self._outside
        changed = outside if known is None else outside ^ known
        n_changed = np.count_nonzero(changed)
        if known is not None and n_changed <= _SETTLED * len(C):
            return False
        if known is None or n_changed > 0.5 * np.count_nonzero(outside):
            self._hessian = np.eye(len(L), dtype=L.dtype) + _gram(L, C, outside)
        else:
            self._hessian += _gram(L, C, outside & changed)
            self._hessian -= _gram(L, C, known & changed)
        self._outside = outside
        try:
            self._factor = cho_factor(self._hessian, check_finite=False)
        except LinAlgError:  # rounding, of many updates or of large numbers
            hessian = np.eye(len(L)) + _gram(L.astype(np.float64), C, outside)
            self._hessian = hessian.astype(L.dtype)
            hessian += RIDGE * np.max(np.diagonal(hessian)) * np.eye(len(L))
            self._factor = cho_factor(hessian, check_finite=False)
        return True

    def solve(self, u: np.ndarray) -> Array:
        """The inverse of the Hessian times u."""
        u = u.astype(self._factor[0].dtype)
        return cho_solve(self._factor, u, check_finite=False).astype(np.float64)


def _gram(L: np.ndarray, C: Array, points: np.ndarray) -> np.ndarray:
    """``sum_i C_i L_i L_i'`` over some of the points."""
    scaled = L[:, points] * np.sqrt(C[points]).astype(L.dtype)
    return scaled @ scaled.T
