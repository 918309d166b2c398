"""The L1 penalty with a quadratic model whose matrix is formed: epochs, and Newton on nonzeros."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from sklearn_bundle.core.limits import LAST_PLACE, RIDGES
from sklearn_bundle.linear._compiled import lasso

Array = NDArray[np.float64]


class Quadratic(NamedTuple):
    """``a'(v - v0) + 1/2 (v - v0)'H(v - v0) + sum_j limits_j |v_j| + ridge/2 ||v||^2``, v >= low.

    ``low`` is 0 or -infinity. The methods begin at v0, move ``v`` in place, and keep ``slopes``,
    ``a + H(v - v0)``, up to date.
    """

    matrix: Array
    limits: Array
    ridge: float
    low: float

    def violation(self, slopes: Array, v: Array) -> float:
        """The largest violation of the optimality conditions of v."""
        return float(violations(slopes + self.ridge * v, v, self.limits, self.low).max(initial=0.0))

    def minimize(self, slopes: Array, v: Array, most: int, tol: float, rank: int) -> None:
        """Until no condition is violated by more than ``tol``, in at most ``most`` epochs.

        A matrix whose rank may be low gets a proximal term around the last point, ever smaller:
        without it hundreds of Newton steps would end at the first change of sign.
        """
        near = 1e-2 * float(self.matrix.diagonal().mean()) if 2 * len(v) > rank else 0.0
        while most > 0:
            worst = self.violation(slopes, v)
            if worst <= tol:
                return
            enough, center = 0.25 * max(worst, 2.0 * tol) if near > 0.0 else tol, v.copy()
            slopes -= near * center
            most = self._replace(ridge=self.ridge + near)._descend(slopes, v, most, enough)
            slopes += near * center
            near *= 0.25

    def _descend(self, slopes: Array, v: Array, most: int, tol: float) -> int:
        """Epochs with Newton steps in between; returns how many epochs are left."""
        sizes, allowed = np.abs(self.matrix), 0.25 * tol
        while most > 0:
            tol = max(tol, LAST_PLACE * float((sizes @ np.abs(v)).max(initial=0.0)))
            # at least 5, or as many as take as long as a Newton step
            epochs = min(max(5, int(0.3 * np.count_nonzero(v) ** 2 / len(v))), most)
            met, taken = lasso.matrix_epochs(
                self.matrix, slopes, v, self.limits, self.ridge, self.low, epochs, allowed
            )
            most -= taken
            if met <= allowed:  # before the last epoch, which may have left more
                left = self.violation(slopes, v)
                if left <= tol:
                    return most
                allowed *= min(0.25, tol / left)
            self._solve_for_nonzeros(slopes, v)
        return 0

    def _solve_for_nonzeros(self, slopes: Array, v: Array) -> None:
        """Newton steps on what is not 0, where signs may not change."""
        used, left = np.flatnonzero(v), np.zeros(1, dtype=bool)
        while len(used) and not left.all():
            square, x = self.matrix[np.ix_(used, used)], v[used]
            np.einsum("ii->i", square)[:] += self.ridge
            r = slopes[used] + self.ridge * x + np.sign(x) * self.limits[used]
            step, failed = _solved(square, -r)
            if failed:
                return
            change = np.where((x + step) * x > 0.0, step, -x)  # numbers end at 0, not beyond
            # otherwise all end where the first does
            if not change @ (r + 0.5 * (square @ change)) < 0.0:
                ends = np.where(step * x < 0.0, -x / step, np.inf)
                length = min(1.0, float(ends.min()))
                change = np.where(ends <= length, -x, length * step)
            v[used], moved = x + change, np.zeros_like(v)
            moved[used] = change
            slopes += self.matrix @ moved
            left = v[used] != 0.0
            used = used[left]


def reach(slopes: Array, low: float) -> Array:
    """How far slopes reach beyond 0 in directions that w may take."""
    return np.maximum(-slopes, 0.0) if low == 0.0 else np.abs(slopes)


def violations(slopes: Array, w: Array, limits: Array, low: float) -> Array:
    """By how much each w_j violates its optimality; slopes are of all but L1."""
    at_zero = np.maximum(reach(slopes, low) - limits, 0.0)
    return np.where(w == 0.0, at_zero, np.abs(slopes + np.sign(w) * limits))


def _solved(H: Array, right: Array) -> tuple[Array, int]:
    """The solution, with a ridge if columns are repeated, and whether it failed."""
    for ridge in RIDGES[:3]:
        M = H.copy()
        np.einsum("ii->i", M)[:] *= 1.0 + ridge
        _, x, failed = lapack.dposv(M, right, lower=1)
        if not failed:
            break
    return x, failed
