"""The L1 penalty with a quadratic model whose matrix is formed: epochs, and Newton on nonzeros."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from sklearn_bundle.core.limits import LAST_PLACE, RIDGES
from sklearn_bundle.linear._compiled import lasso

Array = NDArray[np.float64]
LESS = 0.25  # of the violation before a step that it may leave, where the model is one
_EPOCHS_A_STEP, _OF_NEWTON = 5, 0.3  # epochs between Newton steps: at least, and of their cost
_LENGTHS = 1.0, 0.5, 0.25  # shares of a Newton step; then it ends at the first change of sign
# Of the mean diagonal of a matrix of more than half as many features as rows: a proximal term.
_NEAR = 1e-2


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
        return violation(slopes + self.ridge * v, v, self.limits, self.low)

    def minimize(self, slopes: Array, v: Array, most: int, tol: float, rank: int) -> None:
        """Until no condition is violated by more than ``tol``, in at most ``most`` epochs.

        A matrix whose rank may be low gets a proximal term around the last point, ever smaller:
        without it hundreds of Newton steps would end at the first change of sign.
        """
        near = _NEAR * float(self.matrix.diagonal().mean()) if 2 * len(v) > rank else 0.0
        while most > 0:
            worst = self.violation(slopes, v)
            if worst <= tol:
                return
            enough, center = LESS * max(worst, 2.0 * tol) if near > 0.0 else tol, v.copy()
            slopes -= near * center
            most = self._replace(ridge=self.ridge + near)._descend(slopes, v, most, enough)
            slopes += near * center
            near *= LESS

    def _descend(self, slopes: Array, v: Array, most: int, tol: float) -> int:
        """Epochs with Newton steps in between; returns how many epochs are left."""
        longer, sizes, allowed = 1.0, np.abs(self.matrix), LESS * tol
        while most > 0:
            tol = max(tol, LAST_PLACE * float((sizes @ np.abs(v)).max(initial=0.0)))
            of_step = _OF_NEWTON * np.count_nonzero(v) ** 2 / len(v)
            epochs = min(int(longer * max(_EPOCHS_A_STEP, of_step)), most)
            met, taken = lasso.matrix_epochs(
                self.matrix, slopes, v, self.limits, self.ridge, self.low, epochs, allowed
            )
            most -= taken
            if met <= allowed:  # before the last epoch, which may have left more
                left = self.violation(slopes, v)
                if left <= tol:
                    return most
                allowed *= min(LESS, tol / left)
            start = v.copy()
            if not self._solve_for_nonzeros(slopes, v):
                longer *= 2.0
            moved = np.flatnonzero(v != start)
            slopes += (v - start)[moved] @ self.matrix[moved]
        return 0

    def _solve_for_nonzeros(self, slopes: Array, v: Array) -> bool:
        """Newton steps on what is not 0, where signs may not change; whether they had a factor."""
        used = np.flatnonzero(v)
        square = self.matrix[np.ix_(used, used)]
        np.einsum("ii->i", square)[:] += self.ridge
        x = v[used]
        r = slopes[used] + self.ridge * x + np.sign(x) * self.limits[used]
        while len(x):
            step, failed = _solved(square, -r)
            if failed:
                return False
            change = _with_signs(square, r, x, step)
            x, r = x + change, r + square @ change
            v[used] = x
            left = x != 0.0
            if left.all():
                break
            used, x, r, square = used[left], x[left], r[left], square[np.ix_(left, left)]
        return True


def reach(slopes: Array, low: float) -> Array:
    """How far slopes reach beyond 0 in directions that w may take."""
    return np.maximum(-slopes, 0.0) if low == 0.0 else np.abs(slopes)


def violation(slopes: Array, w: Array, limits: Array, low: float) -> float:
    """The largest violation of the optimality conditions of w; slopes are of all but L1."""
    at_zero = np.maximum(reach(slopes, low) - limits, 0.0)
    off = np.where(w == 0.0, at_zero, np.abs(slopes + np.sign(w) * limits))
    return float(off.max(initial=0.0))


def _solved(H: Array, right: Array) -> tuple[Array, int]:
    """The solution, with a ridge if columns are repeated, and whether it failed."""
    for ridge in RIDGES[:3]:
        M = H.copy()
        np.einsum("ii->i", M)[:] *= 1.0 + ridge
        _, x, failed = lapack.dposv(M, right, lower=1)
        if not failed:
            break
    return x, failed


def _with_signs(H: Array, slopes: Array, x: Array, step: Array) -> Array:
    """A part of a Newton step that lowers the objective; numbers end at 0, not beyond."""
    for length in _LENGTHS:
        change = np.where((x + length * step) * x > 0.0, length * step, -x)
        if change @ (slopes + 0.5 * (H @ change)) < 0.0:
            return change
    ends = np.where(step * x < 0.0, -x / step, np.inf)
    length = min(1.0, float(ends.min()))
    return np.where(ends <= length, -x, length * step)
