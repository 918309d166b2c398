"""Kernel machines whose intercept is not penalized, in extended precision.

They are the objectives of SVC, SVR and OneClassSVM. It uses no code of the package. A primal-dual
interior-point method in extended precision finds the optimum, and weak duality proves it.
"""

import numpy as np
import scipy.sparse as sp

from tests.reference_cones import by_clarabel, halflines, zeros
from tests.reference_programme import EPS, LONG, LONG_EPS, SINGLE, Optimum, solved

_STEPS = 120  # of the interior-point method; 20 to 60 are usual
_CLOSE = LONG(1e-17)  # relative gap at which it ends


class BoxMachine:
    """``1/2 beta'K beta + total b + sum_i loss_i(K beta + b)``; its point is beta, then b.

    ``loss_i(f) = max over low_i <= v <= high_i of v (y_i - f) - width |v|``. Every beta in the box
    with sum ``total`` proves the bound ``y'beta - width |beta|_1 - 1/2 beta'K beta``: with such a v
    the loss is at least ``beta_i (y_i - f_i - b) - width |beta_i|``, and b cancels.
    """

    def __init__(self, K, sizes, y, low, high, width, total, coef, b):
        """``sizes`` times eps is what float64 rounds in the values of the kernel."""
        self.K, self.sizes = K, sizes
        self.y, self.low, self.high = (np.asarray(v, LONG) for v in (y, low, high))
        self.width, self.total = LONG(width), LONG(total)
        self.point = np.r_[np.asarray(coef, LONG), LONG(b)]
        n, size = len(coef), self._size(self.point)
        self.size = size + self._of_losses(self.point)
        self.rounding = self._moved(self.point, n * EPS) + (n + 4) * EPS * size
        self.working = self._moved(self.point, SINGLE)
        self.slack = 4 * EPS * size + self._moved(self.point, n * LONG_EPS)

    def losses(self, f):
        left = self.y - f
        over, under = np.maximum(left - self.width, 0), np.maximum(-left - self.width, 0)
        return self.high * over - self.low * under

    def objective(self, point):
        coef, b = point[:-1], point[-1]
        f = self.K @ coef
        return coef @ f / 2 + self.total * b + np.sum(self.losses(f + b))

    def bound(self, coef):
        """Of a coef in the box; how far its sum is from the total counts, times the best b.

        That b is a kink of the optimum, whose function has ``|w|^2 <= 2 (P + total |b|)``.
        """
        coef = np.clip(coef, self.low, self.high)
        f = self.K @ coef
        return self.y @ coef - self.width * np.abs(coef).sum() - coef @ f / 2

    def intercepts(self, f):
        """The least and the largest b of lowest objective at these scores."""
        kinks = np.r_[self.y - f - self.width, self.y - f + self.width]
        costs = np.r_[self.high, -self.low]
        order = np.argsort(kinks, kind="stable")
        kinks, grown = kinks[order], np.cumsum(costs[order])
        needed = self.high.sum() - self.total  # minus the slope below all kinks
        exact = 4 * len(costs) * LONG_EPS * (costs.sum() + abs(self.total))
        least = kinks[np.argmax(grown >= needed - exact)] if needed > exact else -np.inf
        above = grown > needed + exact
        return least, kinks[np.argmax(above)] if above.any() else np.inf

    def best_point(self, coef):
        """With the best intercept."""
        ends = [b for b in self.intercepts(self.K @ coef) if np.isfinite(b)]
        return np.r_[coef, sum(ends) / len(ends)]

    def _size(self, point):
        coef, b = point[:-1], point[-1]
        losses = np.sum(self.losses(self.K @ coef + b))
        squares = np.abs(coef) @ (self.sizes @ np.abs(coef))
        return float(squares / 2 + abs(self.total * b) + losses)

    def _of_losses(self, point):
        """The terms whose differences are the losses."""
        coef, b = point[:-1], point[-1]
        terms = np.abs(self.y) + np.abs(self.K @ coef) + abs(b) + self.width
        return float(np.maximum(self.high, -self.low) @ terms)

    def _moved(self, point, eps):
        """By a relative error of each of the n values that f sums up."""
        coef, b = point[:-1], point[-1]
        change = eps * (self.sizes @ np.abs(coef) + np.abs(self.y) + abs(b))
        left, reach = self.y - self.K @ coef - b, change - self.width
        slopes = np.where(left + reach > 0, self.high, 0) - np.where(reach > left, self.low, 0)
        return float(np.sum(slopes * change) + np.abs(coef) @ change)

    # ---- the optimum ----------------------------------------------------------------------------

    def optimum(self):
        """By interior points; the value is attained, and the error is its distance to a bound."""
        coef = self.on_plane(self._by_interior_points())
        point = self.best_point(coef)
        value = self.objective(point) + self._moved(point, len(coef) * LONG_EPS)
        missing = abs(coef.sum() - self.total)
        least = self.bound(coef) - missing * (abs(point[-1]) + np.abs(self.y).max() + self.width)
        return Optimum(value, float(max(value - least, 0)), point)

    def on_plane(self, coef):
        """In the box, with the sum ``total`` up to rounding: what is missing goes where room is."""
        coef = np.clip(coef, self.low, self.high)
        for _ in range(3):
            missing = self.total - coef.sum()
            room = self.high - coef if missing > 0 else coef - self.low
            place = np.argmax(np.minimum(coef - self.low, self.high - coef))
            if room[place] >= abs(missing):
                coef[place] += missing
            else:
                coef = np.clip(coef + missing * room / room.sum(), self.low, self.high)
        return coef

    def _parts(self):
        """Signs, bounds and linear terms of variables x >= 0 whose signed sum is beta."""
        n, one = len(self.y), np.eye(len(self.y), dtype=LONG)
        if self.width == 0 or not (self.low < 0).any() or not (self.high > 0).any():
            sign = np.where(self.high > 0, LONG(1), LONG(-1))
            if ((self.low < 0) & (self.high > 0)).any():  # x = beta - low
                return one, self.high - self.low, -self.y, self.low
            top = np.maximum(self.high, -self.low)
            return one * sign, top, self.width - sign * self.y, np.zeros(n, LONG)
        linear = np.r_[self.width - self.y, self.width + self.y]
        return np.hstack([one, -one]), np.r_[self.high, -self.low], linear, np.zeros(n, LONG)

    def _by_interior_points(self):
        """Mehrotra's predictor and corrector, each variable in units of its upper bound."""
        S, top, linear, shift = self._parts()
        Q = top[:, None] * (S.T @ self.K @ S) * top
        c = top * (linear + S.T @ (self.K @ shift))
        e = top * S.sum(axis=0)
        scale = max(np.abs(c).max(), np.abs(Q).max(), LONG(1e-300))
        unit = np.abs(e).max()
        x = self._interior(Q / scale, c / scale, e / unit, (self.total - shift.sum()) / unit)
        return shift + S @ (top * x)

    @staticmethod
    def _interior(Q, c, e, t):
        """argmin x'Qx/2 + c'x over 0 <= x <= 1, e'x = t."""
        n = len(c)
        x, y = np.full(n, LONG(1) / 2), LONG(0)
        z, v = np.ones(n, LONG), np.ones(n, LONG)  # of the lower and the upper bound
        s = 1 - x
        kept, lowest = x, LONG(np.inf)
        for _ in range(_STEPS):
            of_dual = Q @ x + c + y * e - z + v
            of_plane, of_top = e @ x - t, x + s - 1
            mu = (x @ z + s @ v) / (2 * n)
            size = abs(c @ x) + x @ (Q @ x) + abs(y * t) + v.sum()
            error = np.abs(of_dual).max() + abs(of_plane) * max(abs(y), 1) + 2 * n * mu
            if np.isfinite(error) and error < lowest:
                kept, lowest = x, error
            if not error > _CLOSE * size:
                break
            bend = Q + np.diag(z / x + v / s)

            def direction(of_z, of_v, bend=bend, of_dual=of_dual, at=(x, s, z, v),
                          of_plane=of_plane, of_top=of_top):  # fmt: skip
                x, s, z, v = at
                side = -of_dual + of_z / x - (of_v + v * of_top) / s
                both = np.array([solved(bend, side), solved(bend, e)])
                dy = (e @ both[0] + of_plane) / (e @ both[1])
                dx = both[0] - dy * both[1]
                ds = -of_top - dx
                return dx, ds, dy, (of_z - z * dx) / x, (of_v - v * ds) / s

            with np.errstate(all="ignore"):
                aim = direction(-x * z, -s * v)
                reach = _step(x, aim[0], s, aim[1]), _step(z, aim[3], v, aim[4])
                there = (x + reach[0] * aim[0]) @ (z + reach[1] * aim[3])
                there += (s + reach[0] * aim[1]) @ (v + reach[1] * aim[4])
                center = mu * (there / (2 * n * mu)) ** 3
                dx, ds, dy, dz, dv = direction(
                    center - x * z - aim[0] * aim[3], center - s * v - aim[1] * aim[4]
                )
                step = LONG(0.995) * _step(x, dx, s, ds), LONG(0.995) * _step(z, dz, v, dv)
            if not (np.isfinite(dx).all() and np.isfinite(dy)):
                break
            x, s = x + step[0] * dx, s + step[0] * ds
            y, z, v = y + step[1] * dy, z + step[1] * dz, v + step[1] * dv
        return kept

    def by_clarabel(self):
        """The same programme by another method in float64: the bound that its solution proves."""
        S, top, linear, shift = self._parts()
        m, bend = len(top), np.asarray(S.T @ self.K @ S, float)
        linear = np.asarray(linear + S.T @ (self.K @ shift), float)
        A = sp.vstack([sp.csr_matrix(np.asarray(S.sum(axis=0), float)), -sp.identity(m),
                       sp.identity(m)])  # fmt: skip
        side = np.r_[float(self.total - shift.sum()), np.zeros(m), np.asarray(top, float)]
        found = by_clarabel(bend, linear, A, side, [*zeros(1), *halflines(2 * m)], tol=1e-12)
        return self.bound(self.on_plane(shift + S @ np.clip(found, 0, top)))

    # ---- what the judge asks --------------------------------------------------------------------

    def dual(self, bound):
        """The coefficients are a dual point, from which the bound may come: then it is no less."""
        return True, ""

    def scores(self, best, off):
        """Between what the optimum's scores are, with any of its best intercepts."""
        coef = best.point[:-1]
        f, lengths = self.K @ coef, np.sqrt(np.diag(self.K))
        # The reference's scores are off by no more than this, and so are its best intercepts.
        moved = off * (lengths + lengths.max())
        moved = moved + 64 * EPS * (np.abs(f).max() + np.abs(self.y).max() + abs(best.point[-1]))
        least, largest = self.intercepts(f)
        return f + least - moved, f + largest + moved


def _step(x, dx, s, ds):
    """The largest step up to 1 with which both stay positive."""
    values, changes = np.r_[x, s], np.r_[dx, ds]
    falling = changes < 0
    return min(LONG(1), (-values[falling] / changes[falling]).min(initial=LONG(1)))
