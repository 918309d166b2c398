"""The bundle's inner problem for ``Omega(w) = ||w||_1``, or a sum with a weight per feature.

    maximize  c' alpha
    over      alpha >= 0,  sum(alpha) = 1,  -lam <= A' alpha <= lam,  E' alpha = 0

Its multipliers are the w and b that minimize ``lam'|w| + max_i <a_i, w> + <e_i, b> + c_i``. The
limits lam are reg_lambda times the weights: an array, or one number for all features.
Plane 0 is zero, so that alpha = e_0 is feasible. :func:`solve` is that linear program where there
are no intercepts. The w of successive programs jump from vertex to vertex; :func:`solve_near` keeps
them near the best point so far, which takes fewer planes if there are many features, and no linear
program.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from sklearn_bundle.linear.regularizers import Regularizer
from sklearn_bundle.linear.solvers.inner import simplex_newton

Array = NDArray[np.float64]
Limits = float | Array

_FEASIBLE = 1e-10  # the smallest tolerance that HiGHS accepts
_VIOLATED = 1e-9  # relative to lam; a remaining violation costs this share of the bound
_MORE = 50  # constraints at first, with one per plane, and added in each round, which doubles them
_ROUNDING = 4e-16  # of a sum of products, relative to their sizes: two units in the last place

_FIRST_SHARE = 0.1  # of the weight at which one plane's step would reach an objective of 0
_SMALLER = 0.5  # factor between one weight and the next
_COSTLY = 0.5  # a weight that causes more than this share of the gap is too large


def solve(
    planes: Array, offsets: Array, limits: Limits, start: Array
) -> tuple[Array, Array] | None:
    """Alpha and w if there are no intercepts; None if HiGHS cannot solve it.

    ``planes`` (t, p) and ``offsets`` (t,) are the a_i and c_i. ``start``, an earlier alpha,
    indicates which constraints may be active.

    Alpha is :func:`scaled`: ``c' alpha`` is a lower bound of the program's value to the last digit.
    """
    reach = np.abs(start @ planes)
    features = _largest((reach + np.abs(planes).max(axis=0)) / limits, _MORE + len(offsets))
    while True:
        found = _solve_among(planes, offsets, limits, features)
        if found is None:
            return None
        alpha, multipliers = found
        reach = np.abs(alpha @ planes) / limits
        reach[features] = 0.0
        violated = np.flatnonzero(reach > 1.0 + _VIOLATED)
        if len(violated) == 0:
            break
        most = _largest(reach[violated], _MORE + len(features))
        features = np.union1d(features, violated[most])
    w = np.zeros(planes.shape[1])
    w[features] = multipliers
    return scaled(alpha, planes, limits), w


def solve_near(
    planes: Array,
    offsets: Array,
    balance: Array | None,
    limits: Limits,
    start: Array,
    tolerance: float,
    *,
    center: Array,
    weight: float,
    intercept: Array | None = None,
) -> tuple[Array, Array, Array | None]:
    """Alpha, w and b of the minimum of ``lam ||w||_1 + model + weight/2 ||w - center||^2``.

    Center and intercept are the best point so far. ``|A' alpha|`` may exceed lam by
    ``weight |w - center|``; :func:`scaled` makes the alpha that proves a bound. The rest is as in
    :func:`~.simplex_newton.solve`.
    """
    omega = NearL1(limits, weight, center)
    alpha, b, _ = simplex_newton.solve(
        planes, offsets, balance, omega, 1.0, start, tolerance, center=intercept
    )
    return alpha, omega.conjugate_gradient(-(alpha @ planes)), b


def first_weight(gradient: Array, limits: Limits, objective: float) -> float:
    """A weight to start from: ``gradient`` is that of the risk at w = 0, ``objective`` J there."""
    slope = np.maximum(np.abs(gradient) - limits, 0.0)
    weight = _FIRST_SHARE * float(slope @ slope) / (2.0 * objective) if objective > 0.0 else 0.0
    return weight if weight > 0.0 else float(np.min(limits))


def next_weight(weight: float, step: float, objective: float, offset: float, bound: float) -> float:
    """The weight for the next iteration, which is never larger.

    ``step`` is the best step from the center towards w: above 1, w was kept too near. ``objective``
    is the best one, ``offset`` is ``c' alpha`` and ``bound`` the same with the scaled alpha: the
    cost of scaling vanishes with the weight.
    """
    costly = offset - bound > _COSTLY * (objective - bound)
    return _SMALLER * weight if step > 1.0 or costly else weight


def scaled(alpha: Array, planes: Array, limits: Limits) -> Array:
    """Alpha scaled down to ``|A' alpha| <= lam``, rounding included; the rest goes to plane 0."""
    rounding = _ROUNDING * len(alpha) * float(alpha @ np.abs(planes).max(axis=1, initial=0.0))
    reach = float(((np.abs(alpha @ planes) + rounding) / limits).max(initial=0.0))
    share = min(1.0, 1.0 / reach) if reach > 0.0 else 1.0
    alpha = share * alpha
    alpha[0] += max(0.0, 1.0 - alpha.sum())
    return alpha


class NearL1(Regularizer):
    """``lam ||w||_1 + weight/2 ||w - center||^2``, whose minimum is not 0."""

    def __init__(self, limits: Limits, weight: float, center: Array):
        self._limits, self._weight, self._center = limits, weight, center

    def value(self, w) -> float:
        off = w - self._center
        return float(np.sum(self._limits * np.abs(w))) + 0.5 * self._weight * float(off @ off)

    def conjugate(self, m) -> float:
        w = self.conjugate_gradient(m)
        return float(w @ m) - self.value(w)

    def conjugate_gradient(self, m) -> Array:
        raw = self._center + m / self._weight
        return np.sign(raw) * np.maximum(np.abs(raw) - self._limits / self._weight, 0.0)

    def conjugate_curvature(self, m, planes) -> Array:
        active = planes[:, self.conjugate_gradient(m) != 0.0]
        return active @ active.T / self._weight

    def slope(self, w, direction) -> tuple[float, float]:
        at_kink = np.where(w == 0.0, np.abs(direction), np.sign(w) * direction)
        first = np.sum(self._limits * at_kink) + self._weight * ((w - self._center) @ direction)
        return float(first), self._weight * float(direction @ direction)


def _solve_among(
    planes: Array, offsets: Array, limits: Limits, features: NDArray[np.intp]
) -> tuple[Array, Array] | None:
    """Solve with these constraints; None if HiGHS fails, as it does on extreme numbers."""
    limits = np.broadcast_to(limits, planes.shape[1])[features]
    rows = planes[:, features].T / limits[:, None]
    size = np.abs(offsets).max()
    size = size if size > 0.0 else 1.0
    result = linprog(
        -offsets / size,
        A_ub=np.vstack([rows, -rows]),
        b_ub=np.ones(2 * len(features)),
        A_eq=np.ones((1, len(offsets))),
        b_eq=np.ones(1),
        method="highs",
        options={
            "primal_feasibility_tolerance": _FEASIBLE,
            "dual_feasibility_tolerance": _FEASIBLE,
        },
    )
    if result.x is None:
        return None
    alpha = np.maximum(result.x, 0.0)
    above, below = -size / limits * result.ineqlin.marginals.reshape(2, -1)
    return alpha / alpha.sum(), below - above


def _largest(values: Array, count: int) -> NDArray[np.intp]:
    if count >= len(values):
        return np.arange(len(values))
    return np.argpartition(values, -count)[-count:]
