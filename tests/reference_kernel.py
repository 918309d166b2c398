"""The kernel L2-SVM in extended precision: objective, dual, and the optimum by Newton's method.

It uses no code of the package. Distances are sums of squares of differences.
"""

from functools import lru_cache

import numpy as np
import scipy.sparse as sp

from tests.reference_cones import by_clarabel, halflines
from tests.reference_programme import EPS, LONG, LONG_EPS, SINGLE, Optimum, solved

# What may be taken off a bound: a share that nobody minds, and in proportion to the rounding of
# kernel values and scores, as bounds for the largest ones of a row are larger than typical errors.
# Far from the optimum that of the objective may be much beside the bound, but not beside the gap.
SHARE_TAKEN_OFF, TAKEN_OFF, OF_GAP = 1e-8, 32, 1e-2


class L2SVM:
    """``1/2 coef'(K + 1) coef + 1/2 sum C_i max(0, 1 - y_i f_i)^2``, ``f = (K + 1) coef``.

    Its point is ``alpha = coef y``; any other gives a bound of its own, ``1/(2 a'Ma)`` at ``a =
    alpha / sum alpha`` with ``M_ij = y_i y_j (K_ij + 1) + delta_ij / C_i``.
    """

    def __init__(self, K, sizes, y, C, alpha):
        """``sizes`` times eps is what float64 rounds in the values of the kernel."""
        self.Z, self.sizes, self.y, self.C = K + 1, sizes + 1, y, C
        self.signs = y  # from the point to coefficients
        self.point = alpha
        self.rounding = self._moved(alpha, len(alpha) * EPS)
        self.working = self._moved(alpha, SINGLE)  # rows of kernel values
        # What float64 rounds is taken off the bound; this is what the judge itself does not know.
        self.slack = 4 * EPS * float(self.objective(alpha)) + self._caveat(alpha)

    def objective(self, alpha):
        return self._objective(alpha, self.Z @ (alpha * self.y))

    def _objective(self, alpha, f):
        losses = np.maximum(0, 1 - self.y * f)
        return ((alpha * self.y) @ f + np.sum(self.C * losses**2)) / 2

    def bound(self, alpha):
        coef = alpha * self.y
        if not alpha.any():
            return LONG(0)
        return alpha.sum() ** 2 / (coef @ (self.Z @ coef) + np.sum(alpha**2 / self.C)) / 2

    def _moved(self, alpha, eps):
        """By a relative error of each of the n values that f sums up, and by float64's sums."""
        f = self.Z @ (alpha * self.y)
        sums = (len(alpha) + 2) * EPS * self._objective(alpha, f)
        return float(self._moved_by_values(alpha, f, eps) + sums)

    def _moved_by_values(self, alpha, f, eps):
        change = eps * (self.sizes @ np.abs(alpha))
        losses = np.maximum(0, 1 - self.y * f)
        return np.sum(self.C * (losses + change / 2) * change) + np.abs(alpha) @ change

    def _caveat(self, alpha):
        """What extended precision itself may lose where much larger numbers cancel."""
        f = self.Z @ (alpha * self.y)
        return float(self._moved_by_values(alpha, f, len(alpha) * LONG_EPS))

    def optimum(self):
        """The model on the points with a loss is that of a least-squares problem: until they stay.

        The objective is piecewise quadratic and strongly convex: with a line search, finite.
        """
        n = len(self.y)
        M = np.outer(self.y, self.y) * self.Z
        alpha, margins, before = np.zeros(n, LONG), np.zeros(n, LONG), None
        value = best = self._objective(alpha, margins)
        least = LONG(0)
        for _ in range(100):
            active = margins < 1
            if before is not None and (active == before).all():
                break
            newton = np.zeros(n, LONG)
            bend = M[np.ix_(active, active)] + np.diag(1 / self.C[active])
            with np.errstate(invalid="ignore"):  # no factors where rounding makes it indefinite
                newton[active] = solved(bend, np.ones(active.sum(), LONG))
            least = max(least, self.bound(np.maximum(newton, 0)))
            toward, step, before = M @ newton, LONG(1), active
            for _ in range(60):
                point, there = (a + step * (b - a) for a, b in ((alpha, newton), (margins, toward)))
                value = self._objective(point, self.y * there)
                if value < best:
                    break
                step /= 2
            else:
                break
            alpha, margins, best = point, there, value
        best = self._attained(alpha)  # the margins were moved along and have drifted
        if best - least > 1e-9 * best:  # factors of a matrix that rounding makes singular
            other = self._by_interior_points(M)
            least = max(least, self.bound(other))
            if self._attained(other) < best:
                alpha, best = other, self._attained(other)
        return Optimum(best, float(max(best - least, 0)), alpha)

    def _attained(self, alpha):
        """The objective, or what it may be: coefficients of both signs may be large."""
        return self.objective(alpha) + self._caveat(alpha)

    def _by_interior_points(self, M):
        """The dual quadratic programme by clarabel, at the scale of least objective."""
        n, bend = len(M), np.asarray(M + np.diag(1 / self.C), float)
        cones, eye = halflines(n), sp.identity(n)
        found = by_clarabel(bend, -np.ones(n), -eye, np.zeros(n), cones, tol=1e-12)
        alpha = np.maximum(found, 0).astype(LONG)
        return alpha * 2 * self.bound(alpha) / alpha.sum()

    def scores(self, best, off):
        """Between what the optimum's scores are, its function known to ``off``."""
        f, moved = self.Z @ (best.point * self.y), off * np.sqrt(np.diag(self.Z))
        return f - moved, f + moved

    def dual(self, bound):
        """The bound is that of the point, or of one that has a better one."""
        at_point = self.bound(self.point)
        unnoticed = OF_GAP * (self.objective(self.point) - at_point)
        return (
            bound >= at_point * (1 - SHARE_TAKEN_OFF) - TAKEN_OFF * self.rounding - unnoticed,
            f"lower_bound_ {bound}, but {at_point} at the point",
        )


def kernel_values(kernel, X, gamma=1.0, coef0=0.0, degree=1):
    """K in extended precision, and over eps what float64 rounds in its values."""
    if callable(kernel):
        K = np.asarray(kernel(np.asarray(X, float), np.asarray(X, float)), LONG)
        return K, X.shape[1] * np.abs(K)
    if kernel == "precomputed":
        return X.astype(LONG), np.abs(X).astype(LONG)
    X = np.asarray(X, float)  # float32 is exact in it
    return _kernel_values(kernel, X.shape, X.tobytes(), float(gamma), float(coef0), degree)


@lru_cache(maxsize=8)
def _kernel_values(kernel, shape, data, gamma, coef0, degree):
    X = np.frombuffer(data).reshape(shape).astype(LONG)
    if kernel == "rbf":
        K = np.exp(-LONG(gamma) * sum((x[:, None] - x) ** 2 for x in X.T))
        return K, np.ones_like(K)
    K, sizes = X @ X.T, np.abs(X) @ np.abs(X).T
    if kernel == "poly":
        K, sizes = (gamma * K + coef0) ** degree, (gamma * sizes + coef0) ** degree
    return K, max(degree, shape[1]) * sizes
