"""Kernel machines with squared losses outside a tube: regression and one-class."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sklearn_bundle.core.roundoff import SIX_DIGITS
from sklearn_bundle.kernel._compiled.decomposition import INDEFINITE_SINGLE
from sklearn_bundle.kernel.problems.l2svm import ADDED
from sklearn_bundle.kernel.values._points import SUMMED
from sklearn_bundle.kernel.values.kernel_data import OF_CACHE, KernelData

Array = NDArray[np.float64]

_FEW = 0.5  # share of the points; products of fewer do not gain from symmetry
# Products with all kernel values after which these are kept: computing and storing them costs about
# as much, and a product with kept values costs a third (12 features) to a seventh (48) of one.
_RECOMPUTED = 4


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
