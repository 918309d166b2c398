"""Kernel machines in extended precision: objective, dual, and the optimum by interior points.

They are the objectives of SVC, SVR and OneClassSVM, and those of squared losses, with an intercept
that is free, penalized or none. It uses no code of the package. Weak duality proves the optimum.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from tests.reference_programme import EPS, LONG, LONG_EPS, SINGLE, Optimum, factored

# What may be taken off a bound: a share that nobody minds, and in proportion to the rounding of
# kernel values and scores, as bounds for the largest ones of a row are larger than typical errors.
# Far from the optimum that of the objective may be much beside the bound, but not beside the gap.
SHARE_TAKEN_OFF, TAKEN_OFF, OF_GAP = 1e-8, 32, 1e-2
_STEPS = 120  # of the interior-point method; 20 to 60 are usual
_CLOSE = LONG(1e-17)  # relative gap at which it ends


class Terms(NamedTuple):
    """``1/2 beta'K beta + sum_i loss_i(K beta + b)`` and what b costs, by ``s``.

    ``loss_i(f)`` is the largest ``v (target_i - f) - width |v| - ridge_i v^2 / 2`` for v between
    ``low_i`` and ``high_i``. With s = 0 there is no b, with s = 1 it costs ``b^2 / 2``, and if s is
    infinite ``total b``.
    """

    target: np.ndarray
    low: np.ndarray
    high: np.ndarray
    ridge: np.ndarray
    width: float = 0.0
    total: float = 0.0
    s: float = np.inf


class Machine:
    """A dual: ``target'v - width |v|_1 - 1/2 v'(K + ridge + s) v`` for every v in the box.

    If s is infinite the sum of v is ``total``. Its point is beta, then b if that is free.
    """

    def __init__(self, K, sizes, terms, coef=None, b=0.0):
        """``sizes`` times eps is what float64 rounds in the values of the kernel."""
        parts = (np.asarray(part, LONG) for part in terms[:4])
        self.target, self.low, self.high, self.ridge = parts
        self.width, self.total, self.free = LONG(terms.width), LONG(terms.total), terms.s == np.inf
        self.s = LONG(0 if self.free else terms.s)
        self.K, self.sizes = np.asarray(K, LONG) + self.s, sizes + self.s
        if coef is not None:
            self._set(np.asarray(coef, LONG), LONG(b))

    def _set(self, coef, b):
        self.point = np.r_[coef, b] if self.free else coef
        n, f = len(coef), self.K @ coef
        terms = abs(coef @ f) / 2 + abs(self.total * b) + np.sum(self.losses(f + b * self.free))
        self.rounding = self._moved(self.point, EPS, n) + (n + 2) * EPS * float(terms)
        self.working = self._moved(self.point, SINGLE, 1)  # rows of kernel values
        # What float64 rounds is taken off the bound; this is what the judge itself does not know.
        self.slack = 4 * EPS * float(terms) + self._moved(self.point, LONG_EPS, n)
        if self.free:
            most = np.maximum(self.high, -self.low)
            most = np.where(np.isinf(most), np.abs(self.slopes(f + b)), most)
            sizes = np.abs(self.target) + np.abs(f) + abs(b) + self.width
            self.size = float(terms + most @ sizes)

    def _parted(self, point):
        return (point[:-1], point[-1]) if self.free else (point, LONG(0))

    def slopes(self, f):
        """The v at which the losses are largest: minus derivatives."""
        left, slopes = self.target - f, np.zeros(len(f), LONG)
        for sign, end in ((1, self.high), (-1, -self.low)):
            over = np.maximum(sign * left - self.width, 0)
            with np.errstate(divide="ignore", invalid="ignore"):
                most = np.where(self.ridge > 0, np.minimum(over / self.ridge, end), end)
            slopes += np.where((over > 0) & (end > 0), sign * most, 0)
        return slopes

    def losses(self, f):
        v = self.slopes(f)
        return v * (self.target - f) - self.width * np.abs(v) - self.ridge * v * v / 2

    def objective(self, point):
        coef, b = self._parted(point)
        f = self.K @ coef
        return coef @ f / 2 + self.total * b + np.sum(self.losses(f + b))

    def bound(self, coef):
        """The dual's value; at its best scale where there is neither a total nor a free b."""
        linear = self.target @ coef - self.width * np.abs(coef).sum()
        curved = coef @ (self.K @ coef) + coef @ (self.ridge * coef)
        if self.free:
            return linear - curved / 2
        return linear**2 / curved / 2 if linear > 0 else LONG(0)

    def intercepts(self, coef):
        """The least and the largest b of lowest objective."""
        f = self.K @ coef
        left = self.target - f
        ends = left.min() - self.width - 1, left.max() + self.width + 1
        out = []
        for sign in (1, -1):

            def rises(b, sign=sign):
                v = self.slopes(f + b)
                exact = 4 * len(v) * LONG_EPS * (np.abs(v).sum() + abs(self.total))
                return sign * (self.total - v.sum()) >= -exact

            (low, high) = ends[::sign]
            if rises(low):
                out.append(-sign * np.inf)
                continue
            for _ in range(100):
                middle = (low + high) / 2
                low, high = (low, middle) if rises(middle) else (middle, high)
            out.append(high)
        return tuple(out)

    def _moved(self, point, unit, n):
        """By a rounding error of each of the n values that f sums up, and of the differences."""
        coef, b = self._parted(point)
        change = unit * (n * (self.sizes @ np.abs(coef)) + np.abs(self.target) + abs(b))
        f = self.K @ coef + b
        here, there = self.losses(f), [self.losses(f + sign * change) for sign in (1, -1)]
        return float(np.sum(np.abs(there - here).max(axis=0)) + np.abs(coef) @ change)

    # ---- the optimum ----------------------------------------------------------------------------

    def optimum(self):
        """By interior points; the value is attained, and the error is its distance to a bound."""
        low, high = self._ends()
        coef = np.clip(self._by_interior_points(low, high), low, high)
        coef = self._on_plane(coef, low, high) if self.free else coef
        points = [self._with_intercept(v) for v in (coef, 0 * coef)]
        value, point = min(((self._attained(p), p) for p in points), key=lambda pair: pair[0])
        least = self.bound(coef)
        if self.free:
            farthest = abs(points[0][-1]) + np.abs(self.target).max() + self.width
            least -= abs(coef.sum() - self.total) * farthest
        least = max(least, 0) if self.total == 0 else least
        return Optimum(value, float(max(value - least, 0)), point)

    def _attained(self, point):
        """The objective, or what it may be: coefficients of both signs may be large."""
        return self.objective(point) + self._moved(point, LONG_EPS, len(self.target))

    def _with_intercept(self, coef):
        if not self.free:
            return coef
        ends = [b for b in self.intercepts(coef) if np.isfinite(b)]
        return np.r_[coef, sum(ends) / len(ends)]

    def _ends(self):
        """Of the box; those that are infinite, where squares alone would cost more than zeros."""
        nothing = self.objective(self._with_intercept(0 * self.target))
        with np.errstate(divide="ignore"):
            far = np.where(self.ridge > 0, 2 * np.sqrt(2 * nothing / self.ridge), np.inf)
        return np.maximum(self.low, -far), np.minimum(self.high, far)

    def _on_plane(self, coef, low, high):
        """With the sum ``total`` up to rounding: what is missing goes where room is."""
        for _ in range(3):
            missing = self.total - coef.sum()
            room = high - coef if missing > 0 else coef - low
            place = np.argmax(np.minimum(coef - low, high - coef))
            if room[place] >= abs(missing):
                coef[place] += missing
            else:
                coef = np.clip(coef + missing * room / room.sum(), low, high)
        return coef

    def _parts(self, low, high):
        """Signs, bounds and linear terms of variables x >= 0 whose signed sum is beta."""
        n, one, y = len(self.target), np.eye(len(self.target), dtype=LONG), self.target
        if self.width == 0 or not (low < 0).any() or not (high > 0).any():
            sign = np.where(high > 0, LONG(1), LONG(-1))
            if ((low < 0) & (high > 0)).any():  # x = beta - low
                return one, high - low, -y, low
            return one * sign, np.maximum(high, -low), self.width - sign * y, np.zeros(n, LONG)
        linear = np.r_[self.width - y, self.width + y]
        return np.hstack([one, -one]), np.r_[high, -low], linear, np.zeros(n, LONG)

    def _by_interior_points(self, low, high):
        """Each variable in units of its upper bound."""
        S, top, linear, shift = self._parts(low, high)
        bend = self.K + np.diag(self.ridge)
        if not top.any():
            return shift
        Q = top[:, None] * (S.T @ bend @ S) * top
        c, e = top * (linear + S.T @ (bend @ shift)), top * S.sum(axis=0)
        scale, unit = max(np.abs(c).max(), np.abs(Q).max(), LONG(1e-300)), np.abs(e).max()
        t = (self.total - shift.sum()) / unit
        plane = (e / unit, t) if self.free else (0 * e, LONG(0))
        return shift + S @ (top * interior(Q / scale, c / scale, *plane))

    # ---- what the judge asks --------------------------------------------------------------------

    def dual(self, bound):
        """The bound is no less than the point's, which steps without a free b have."""
        if self.free:
            return True, ""
        at_point = self.bound(self.point)
        unnoticed = OF_GAP * (self.objective(self.point) - at_point)
        return (
            bound >= at_point * (1 - SHARE_TAKEN_OFF) - TAKEN_OFF * self.rounding - unnoticed,
            f"lower_bound_ {bound}, but {at_point} at the point",
        )

    def scores(self, best, off):
        """Between what the optimum's scores are, its function known to ``off``."""
        coef, b = self._parted(best.point)
        f, moved = self.K @ coef, off * np.sqrt(np.diag(self.K))
        if not self.free:
            return f - moved, f + moved
        sizes = np.abs(f).max() + np.abs(self.target).max() + abs(b)
        moved = moved + off * np.sqrt(np.diag(self.K).max()) + 64 * EPS * sizes
        least, largest = self.intercepts(coef)
        return f + least - moved, f + largest + moved


def interior(Q, c, e, t):
    """argmin x'Qx/2 + c'x over 0 <= x <= 1, e'x = t: Mehrotra's predictor and corrector."""
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
        with np.errstate(all="ignore"):
            solve = factored(Q + np.diag(z / x + v / s))
            of_e = solve(e)

            def direction(of_z, of_v, at=(x, s, z, v), solve=solve, of_e=of_e,
                          of_dual=of_dual, of_plane=of_plane, of_top=of_top):  # fmt: skip
                x, s, z, v = at
                dx = solve(-of_dual + of_z / x - (of_v + v * of_top) / s)
                dy = (e @ dx + of_plane) / (e @ of_e) if e.any() else LONG(0)
                dx = dx - dy * of_e
                ds = -of_top - dx
                return dx, ds, dy, (of_z - z * dx) / x, (of_v - v * ds) / s

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


def _step(x, dx, s, ds):
    """The largest step up to 1 with which both stay positive."""
    values, changes = np.r_[x, s], np.r_[dx, ds]
    falling = changes < 0
    return min(LONG(1), (-values[falling] / changes[falling]).min(initial=LONG(1)))


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
