"""Kernel machines with squared losses outside a tube; their Hessian with a kernel of low rank."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve, lapack, solve_triangular

from sklearn_bundle.core.limits import ADDED, SIX_DIGITS
from sklearn_bundle.kernel._compiled.swap import INDEFINITE_SINGLE
from sklearn_bundle.kernel.problems.row_gaps import largest_sum, squared_gaps
from sklearn_bundle.kernel.values._points import SUMMED
from sklearn_bundle.kernel.values.kernel_data import OF_CACHE, KernelData

Array = NDArray[np.float64]

_FEW = 0.5  # share of the points; products of fewer do not gain from symmetry
# Products with all kernel values after which these are kept: computing and storing them costs about
# as much, and a product with kept values costs a third (12 features) to a seventh (48) of one.
_RECOMPUTED = 4

RIDGE = 1e-12  # of the largest entry: negligible in a Hessian, and makes its factor exist
_PIVOTS = 128  # pivots at a time: enough for BLAS to be fast
_NEGLIGIBLE = 0.01  # of 1/C: a remainder of k(x, x) below this hardly affects the curvature
_SETTLED = 0.01  # share of the points: fewer that cross the tube leave the Hessian as it is
_PRECISION = 16.0  # roundings of the largest k(x, x): a smaller pivot is rounding


class Tube(NamedTuple):
    """A target ``y`` per point, and how far above and below it residuals cost nothing.

    With the residual ``r = y - f`` the loss is ``C/2 max(0, r - above, -r - below)^2``; either may
    be infinite.
    """

    y: Array
    above: float
    below: float

    def excess(self, residuals: Array) -> Array:
        """How far residuals lie outside the tube, with their sign."""
        over = np.maximum(residuals - self.above, 0.0)
        if self.below == np.inf:
            return over
        return over - np.maximum(-residuals - self.below, 0.0)

    def linear(self, coef: Array) -> Array:
        """The terms of ``sum_i y_i c_i - above max(c_i, 0) - below max(-c_i, 0)``."""
        terms = self.y * coef - self.above * np.maximum(coef, 0.0)
        if self.below < np.inf:
            terms -= self.below * np.maximum(-coef, 0.0)
        return terms


class L2Tube:
    """``min 1/2 |w|^2 + s/2 b^2 + 1/2 sum_i C_i max(0, r_i - above, -r_i - below)^2``.

    With ``r = y - f``, ``f(x) = <w, phi(x)> + s b``, and s = 1 with an intercept, else 0. Functions
    are ``sum_i coef_i (k(x_i, x) + s)``. With ``H = K + s + diag(1/C)`` the dual is ``max sum_i
    [y_i c_i - above max(c_i, 0) - below max(-c_i, 0)] - 1/2 c'Hc``. Its only constraint is
    ``c >= 0`` if ``below`` is infinite.

    Parameters
    ----------
    data : KernelData
    tube : Tube
    C : ndarray of shape (n,), positive
    intercept : bool
    cache_bytes : float
        All kernel values are kept if they take at most half of this: from the start if they are
        expensive or other problems use the same data, else after a few products with them.
    shared : bool
        Whether other problems use the same data.
    """

    def __init__(
        self,
        data: KernelData,
        tube: Tube,
        C: Array,
        *,
        intercept: bool,
        cache_bytes: float,
        shared: bool = False,
    ):
        self.data, self.tube, self.C = data, tube, C
        self.n, self.cache_bytes = len(C), cache_bytes
        self.constant = 1.0 if intercept else 0.0
        self.dtype: np.dtype = data.dtype
        self._products = _RECOMPUTED if shared else 0  # number of products with all kernel values
        if callable(data.kernel.name) or sp.issparse(data.X):
            self._keep()

    def promote(self) -> None:
        """Use kernel values in double precision from now on."""
        self.dtype = np.dtype(np.float64)

    def _keep(self) -> None:
        """Keep all kernel values in memory, in single precision, if there is space."""
        data, work = self.data, OF_CACHE * self.cache_bytes
        cheap = data.precomputed or data.kernel.name == "linear" or data.kept is not None
        if not cheap and self.dtype == np.float32 and 4.0 * self.n**2 <= work:
            data.keep_all()

    @property
    def diagonal(self) -> Array:
        return self.data.rows(self.dtype).diagonal + self.constant

    def block(self, rows: np.ndarray) -> np.ndarray:
        """``k(x_r, x) + s`` for these rows and all points, in the working precision."""
        block = self.data.rows(self.dtype).block(rows)
        if callable(self.data.kernel.name) and len(rows) == self.n:
            self.data.check_values(block, rows)
        block += block.dtype.type(self.constant)
        return block

    def scores(self, coef: Array) -> Array:
        """f at all points, from kernel values in the working precision."""
        active = np.flatnonzero(coef)
        if len(active) == 0:
            return np.zeros(self.n)
        if self.data.kernel.name == "linear":
            return self.exact_scores(coef, np.arange(self.n))[0]
        few = len(active) < _FEW * self.n
        if self._products >= _RECOMPUTED:
            self._keep()
        kept = self.data.kept
        if kept is not None and kept.dtype == self.dtype:
            sums = _kept_sums(kept, coef, active if few else None)
        else:
            rows = self.data.rows(self.dtype)
            sums = rows.sums(coef[active], active) if few else rows.own_sums(coef)
            self._products += not few
        return sums + self.constant * coef.sum()

    def exact_scores(self, coef: Array, points: np.ndarray) -> tuple[Array, Array]:
        """f at ascending points, in float64, and bounds on the errors; c is 0 at all others."""
        active = np.flatnonzero(coef)
        if len(active) == 0:
            return np.zeros(len(points)), np.zeros(len(points))
        chosen = np.searchsorted(points, active)
        sums, errors = self.data.exact_sums(
            coef[np.newaxis, active], chosen, points, constant=self.constant
        )
        return sums[0], np.broadcast_to(errors[0], len(points))

    def loss(self, scores: Array) -> float:
        """``1/2 sum_i C_i max(0, ...)^2``."""
        return 0.5 * float(np.sum(self.C * self.tube.excess(self.tube.y - scores) ** 2))

    def bound(self, coef: Array, scores: Array) -> float:
        """The largest dual value on the ray of ``coef``, given its scores."""
        linear = float(np.sum(self.tube.linear(coef)))
        curvature = float(coef @ scores) + float(np.sum(coef**2 / self.C))
        return 0.5 * linear**2 / curvature if linear > 0.0 and curvature > 0.0 else 0.0

    def certified_objective(self, coef: Array) -> tuple[float, float, Array]:
        """The objective in float64, a bound on how far rounding lowered it, and the scores.

        If that leaves less than six digits, scores are summed in extended precision.
        """
        return self._in_enough_digits(coef, np.arange(self.n), self._objective)

    def gap_by_rows(self, coef: Array) -> float:
        """An upper bound of the sum of the gaps of the rows: of ``|w - w*|^2 + s (b - b*)^2``.

        As :meth:`L2SVM.gap_by_rows`.
        """
        scores, errors = self.exact_scores(coef, np.arange(self.n))
        errors = errors + ADDED * (np.abs(self.tube.y) + np.abs(scores))
        tube = {"above": self.tube.above, "below": self.tube.below}
        gaps = partial(squared_gaps, beta=coef, C=self.C, **tube)
        return largest_sum(gaps, self.tube.y - scores, errors)

    def _in_enough_digits(
        self,
        coef: Array,
        points: np.ndarray,
        evaluate: Callable[[Array, Array, Array], tuple[float, float]],
    ) -> tuple[float, float, Array]:
        """What ``evaluate`` makes of coefficients, scores and their errors, and these scores.

        That is a value and its rounding; if it leaves less than six digits, scores are summed in
        extended precision.
        """
        scores, errors = self.exact_scores(coef, points)
        value, rounding = evaluate(coef, scores, errors)
        if rounding > SIX_DIGITS * abs(value):
            active = np.flatnonzero(coef)
            chosen = np.searchsorted(points, active)
            sums = coef[active], chosen, points
            found = self.data.extended_sums(*sums, constant=self.constant)
            if found is not None:
                scores, errors = found
                value, rounding = evaluate(coef, scores, errors)
        return value, rounding, scores

    def _objective(self, coef: Array, scores: Array, errors: Array) -> tuple[float, float]:
        residuals = self.tube.y - scores
        rounding = errors + ADDED * (np.abs(self.tube.y) + np.abs(scores))
        losses = 0.5 * float(np.sum(self.C * self.tube.excess(residuals) ** 2))
        above, below = (
            self.tube.excess(residuals + rounding),
            self.tube.excess(residuals - rounding),
        )
        most = 0.5 * float(np.sum(self.C * np.maximum(np.abs(above), np.abs(below)) ** 2))
        square = float(np.sum(coef * scores))
        of_square = float(np.sum(np.abs(coef) * (errors + ADDED * np.abs(scores))))
        value = 0.5 * square + losses
        excess = 0.5 * of_square + (most - losses) + ADDED * (abs(value) + losses)
        return value, excess

    def certified_bound(self, coef: Array) -> tuple[float, Array]:
        """``bound`` in float64, minus what rounding may have added to it, and the scores.

        The scores are those of the points with a coefficient. The bound is -inf if K is indefinite.
        """
        bound, _, scores = self._in_enough_digits(coef, np.flatnonzero(coef), self._bound)
        return bound, scores

    def _bound(self, coef: Array, scores: Array, errors: Array) -> tuple[float, float]:
        """The bound, and about what rounding of the scores took off it."""
        active, terms = np.flatnonzero(coef), self.tube.linear(coef)
        sizes, coef = np.abs(self.tube.y * coef) + np.abs(terms), coef[active]
        linear = float(np.sum(terms)) - ADDED * float(np.sum(sizes))
        of_square = float(np.sum(np.abs(coef) * (errors + ADDED * np.abs(scores))))
        square, ridge = float(np.sum(coef * scores)), float(np.sum(coef**2 / self.C[active]))
        if square < -of_square:
            return -np.inf, 0.0
        curvature = max(square, 0.0) + of_square + (1.0 + ADDED) * ridge
        bound = (0.5 - ADDED) * linear**2 / curvature if linear > 0.0 and curvature > 0.0 else 0.0
        return bound, bound * of_square / curvature if curvature > 0.0 else 0.0

    def is_indefinite(self, coef: Array, scores: Array) -> bool:
        """Whether ``|w|^2`` is negative, beyond rounding of the working precision."""
        sizes = np.sum(np.abs(coef) * np.sqrt(np.abs(self.diagonal))) ** 2
        return float(coef @ scores) < -INDEFINITE_SINGLE * sizes


def _kept_sums(values: np.ndarray, coef: Array, rows: np.ndarray | None) -> Array:
    """``values @ coef`` by rows of the symmetric matrix, if all other coefficients are 0."""
    sums, coef = np.zeros(len(coef)), coef.astype(values.dtype)
    for start in range(0, len(coef) if rows is None else len(rows), SUMMED):
        part = slice(start, start + SUMMED)
        chosen = part if rows is None else rows[part]
        sums += coef[chosen] @ values[chosen]
    return sums


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
        size = min(_PIVOTS, most - rank, len(wanted))
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
