"""Kernel machines with squared losses outside a tube, in extended precision.

It uses no code of the package. Newton's method in the primal finds the optimum, and the dual proves
it.
"""

import numpy as np
import scipy.sparse as sp

from tests.reference_cones import by_clarabel, halflines
from tests.reference_programme import EPS, LONG, LONG_EPS, SINGLE, Optimum, solved


class TubeMachine:
    """``1/2 c'Zc + 1/2 sum C_i max(0, r_i - above, -r_i - below)^2``, ``r = y - Zc``.

    Z is the kernel matrix, 1 added where there is an intercept. Its point is c.
    """

    def __init__(self, Z, sizes, y, C, above, below, coef):
        """``sizes`` times eps is what float64 rounds in the values of the kernel."""
        self.Z, self.sizes, self.y, self.C, self.point = Z, sizes, y, C, coef
        self.above, self.below = above, below
        self.rounding = self._moved(coef, len(coef) * EPS)
        self.working = self._moved(coef, SINGLE)
        self.slack = 4 * EPS * float(self.objective(coef)) + self._caveat(coef)

    def excess(self, f):
        over = np.maximum(self.y - f - self.above, 0)
        return over if np.isinf(self.below) else over - np.maximum(f - self.y - self.below, 0)

    def objective(self, coef):
        return self._objective(coef, self.Z @ coef)

    def _objective(self, coef, f):
        return (coef @ f + np.sum(self.C * self.excess(f) ** 2)) / 2

    def bound(self, coef):
        """The largest value of the dual on the ray of coef."""
        linear = self.y @ coef - self.above * np.maximum(coef, 0).sum()
        if not np.isinf(self.below):
            linear -= self.below * np.maximum(-coef, 0).sum()
        bend = coef @ (self.Z @ coef) + np.sum(coef**2 / self.C)
        return linear**2 / bend / 2 if linear > 0 else LONG(0)

    def _moved(self, coef, eps):
        """By a relative error of each of the n values that f sums up, and by float64's sums."""
        f = self.Z @ coef
        sums = (len(coef) + 2) * EPS * self._objective(coef, f)
        return float(self._moved_by_values(coef, f, eps) + sums)

    def _moved_by_values(self, coef, f, eps):
        change = eps * (self.sizes @ np.abs(coef) + np.abs(self.y))
        excess = np.abs(self.excess(f))
        return np.sum(self.C * (excess + change / 2) * change) + np.abs(coef) @ change

    def _caveat(self, coef):
        return float(self._moved_by_values(coef, self.Z @ coef, len(coef) * LONG_EPS))

    def optimum(self):
        """The machine of the points outside is that of a linear system: until they stay."""
        n = len(self.y)
        coef, f, before = np.zeros(n, LONG), np.zeros(n, LONG), None
        best, least = self._objective(coef, f), LONG(0)
        for _ in range(200):
            excess = self.excess(f)
            outside = np.sign(excess)
            active = outside != 0
            if before is not None and (outside == before).all():
                break
            newton = np.zeros(n, LONG)
            target = self.y - np.where(outside > 0, self.above, 0)
            if not np.isinf(self.below):
                target = target + np.where(outside < 0, self.below, 0)
            bend = self.Z[np.ix_(active, active)] + np.diag(1 / self.C[active])
            with np.errstate(invalid="ignore"):
                newton[active] = solved(bend, target[active])
            dual = newton if not np.isinf(self.below) else np.maximum(newton, 0)
            least = max(least, self.bound(dual), self.bound(self.C * excess))
            toward, step, before = self.Z @ newton, LONG(1), outside
            for _ in range(60):
                point, there = (a + step * (b - a) for a, b in ((coef, newton), (f, toward)))
                value = self._objective(point, there)
                if value < best:
                    break
                step /= 2
            else:
                break
            coef, f, best = point, there, value
        best = self.objective(coef) + self._caveat(coef)
        return Optimum(best, float(max(best - least, 0)), coef)

    def by_clarabel(self):
        """The dual quadratic programme in the two parts of c, by interior points: its value."""
        n, H = len(self.y), np.asarray(self.Z + np.diag(1 / self.C), float)
        y = np.asarray(self.y, float)
        if np.isinf(self.below):
            signs, linear = np.eye(n), self.above - y
        else:
            signs, linear = (
                np.hstack([np.eye(n), -np.eye(n)]),
                np.r_[self.above - y, self.below + y],
            )
        bend, m = signs.T @ H @ signs, len(linear)
        found = by_clarabel(bend, linear, -sp.identity(m), np.zeros(m), halflines(m))
        return float(self.bound(signs @ np.maximum(found, 0)))

    def scores(self, best, off):
        """Between what the optimum's scores are, its function known to ``off``."""
        f, moved = self.Z @ best.point, off * np.sqrt(np.diag(self.Z))
        return f - moved, f + moved

    def dual(self, bound):
        """The dual point is not exposed."""
        return True, ""


class FreeTube:
    """``1/2 c'Kc + 1/2 sum C_i max(0, |y_i - Kc - b| - width)^2``; its point is c, then b.

    Every c with sum 0 proves the bound ``y'c - width |c|_1 - 1/2 c'(K + diag(1/C))c``.
    """

    def __init__(self, K, sizes, y, C, width, coef, b):
        """``sizes`` times eps is what float64 rounds in the values of the kernel."""
        self.K, self.sizes, self.y, self.C, self.width = K, sizes, y, C, LONG(width)
        self.point = np.r_[np.asarray(coef, LONG), LONG(b)]
        n = len(coef)
        self.rounding = self._moved(self.point, n * EPS) + (n + 4) * EPS * float(self.size)
        self.working = self._moved(self.point, SINGLE)
        self.slack = 4 * EPS * float(self.size) + self._moved(self.point, n * LONG_EPS)

    @property
    def size(self):
        """Of the terms of the objective, and of those whose differences are the losses."""
        coef, b = self.point[:-1], self.point[-1]
        f = self.K @ coef
        terms = np.abs(self.y) + np.abs(f) + abs(b) + self.width
        return self.objective(self.point) + np.sum(self.C * np.abs(self.excess(f + b)) * terms)

    def excess(self, f):
        left = self.y - f
        return np.maximum(left - self.width, 0) - np.maximum(-left - self.width, 0)

    def objective(self, point):
        coef, b = point[:-1], point[-1]
        f = self.K @ coef
        return (coef @ f + np.sum(self.C * self.excess(f + b) ** 2)) / 2

    def bound(self, coef):
        """Of coef moved to the sum 0, at its best scale."""
        coef = coef - coef.sum() / len(coef)
        linear = self.y @ coef - self.width * np.abs(coef).sum()
        bend = coef @ (self.K @ coef) + np.sum(coef**2 / self.C)
        return linear**2 / bend / 2 if linear > 0 else LONG(0)

    def _moved(self, point, eps):
        """By a relative error of each of the n values that f sums up."""
        coef, b = point[:-1], point[-1]
        change = eps * (self.sizes @ np.abs(coef) + np.abs(self.y) + abs(b))
        excess = np.abs(self.excess(self.K @ coef + b))
        return float(np.sum(self.C * (excess + change / 2) * change) + np.abs(coef) @ change)

    def optimum(self):
        """Newton's method on what is outside of the tube, b with it: until that stays."""
        n = len(self.y)
        point, before, least = np.zeros(n + 1, LONG), None, LONG(0)
        point[-1] = np.median(self.y)
        best = self.objective(point)
        for _ in range(200):
            outside = np.sign(self.excess(self.K @ point[:-1] + point[-1]))
            if before is not None and (outside == before).all():
                break
            newton, before = self._newton(outside, point), outside
            least = max(least, self.bound(newton[:-1]))
            step = LONG(1)
            for _ in range(60):
                there = point + step * (newton - point)
                if self.objective(there) < best:
                    break
                step /= 2
            else:
                break
            point, best = there, self.objective(there)
        excess = self.excess(self.K @ point[:-1] + point[-1])
        least = max(least, self.bound(point[:-1]), self.bound(self.C * excess))
        best = best + self._moved(point, n * LONG_EPS)
        return Optimum(best, float(max(best - least, 0)), point)

    def _newton(self, outside, point):
        """The minimum of the piece on which these rows are outside."""
        active, newton = outside != 0, np.zeros_like(point)
        if not active.any():
            newton[-1] = point[-1]
            return newton
        size = np.count_nonzero(active)
        bend = np.ones((size + 1, size + 1), LONG)
        bend[:-1, :-1] = self.K[np.ix_(active, active)] + np.diag(1 / self.C[active])
        bend[-1, -1] = 0
        side = np.r_[(self.y - self.width * outside)[active], LONG(0)]
        shift = bend[:-1, :-1].trace() / size  # of a matrix that is positive on sums of 0
        bend[:-1, :-1] += shift
        found = solved_bordered(bend, side)
        newton[:-1][active], newton[-1] = found[:-1], found[-1]
        return newton

    def scores(self, best, off):
        """Between what the optimum's scores are, its function known to ``off``."""
        f, moved = self.K @ best.point[:-1], off * np.sqrt(np.diag(self.K))
        low, high = (self._root(f + sign * moved) for sign in (1, -1))
        return f - moved + low, f + moved + high

    def _root(self, f):
        """The best b at these scores."""
        low, high = (self.y - f).min() - self.width, (self.y - f).max() + self.width
        for _ in range(200):
            middle = (low + high) / 2
            if np.sum(self.C * self.excess(f + middle)) > 0:
                low = middle
            else:
                high = middle
        return (low + high) / 2

    def dual(self, bound):
        """The dual point is not exposed."""
        return True, ""


def solved_bordered(bend, side):
    """Of ``[[A, 1], [1', 0]]``, A positive definite, by two systems of A."""
    A, ones = bend[:-1, :-1], np.ones(len(bend) - 1, LONG)
    of_side, of_ones = solved(A, side[:-1]), solved(A, ones)
    b = (ones @ of_side - side[-1]) / (ones @ of_ones)
    return np.r_[of_side - b * of_ones, b]
