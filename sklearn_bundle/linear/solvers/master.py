"""The inner problem of the bundle method, for any Omega and any free intercepts.

    max  c'alpha - lam Omega*(-A'alpha / lam)   over alpha >= 0, sum alpha = 1, E'alpha = 0

One primal-dual interior-point method solves it: with multipliers y of the equations and z of the
signs, ``B'alpha = e_1`` for ``B = [1, -E]``, ``A w + c - B y + z = 0`` at ``w = grad
Omega*(-A'alpha / lam)``, and products ``alpha z`` that fall to 0. Its gap is ``alpha'z`` and what
the equations lack.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from sklearn_bundle.core.limits import LAST_PLACE, TINY

Array = NDArray[np.float64]
_MOST_STEPS = 60  # usually 10 to 20
_TO_THE_WALL = 0.995  # of the longest step
_STALLED = 1e-8  # length of a step from which nothing comes
_SPREAD = 0.1  # share of equal weights that the start gets, so that it is inside
_FAR_BELOW, _LEAST_SPREAD = 10.0, 1e-13  # in values of the start; the smallest share
_MOST_CHANGES, _FACE_RIDGE = 100, 1e-13  # of a face; and times its diagonal entries
_RIDGES = 1e-15, 1e-13  # of diagonal entries: rounding of the factors
_BALANCED = 1e-9  # E'alpha over the largest entries of E, after which it is repaired
_REPAIRS = 8  # most corrections: each is followed by another if planes were dropped
_NEGLIGIBLE = 1e-18  # a weight that is dropped: it is below the rounding of their sum
# Of NearL1: the first weight is this share of the one at which one plane's step would reach an
# objective of 0; it falls by this factor after steps that were too short, or if it causes more than
# this share of the gap.
_FIRST_SHARE, _SMALLER, _COSTLY = 0.1, 0.5, 0.5


class Solution(NamedTuple):
    """Weights of the planes, the minimizer w of the model, and its intercepts."""

    alpha: Array
    w: Array
    b: Array


def solve(
    A: Array,
    c: Array,
    E: Array,
    omega: Any,
    lam: float,
    gram: Array | None,
    start: Array,
    tol: float,
) -> Solution:
    """A solution with a gap of about ``tol``; ``gram`` is ``A B^-1 A'`` of a quadratic Omega."""
    if len(c) == 1 and not E.shape[1]:
        return Solution(np.ones(1), omega.conjugate_gradient(-A[0] / lam), np.zeros(0))
    t, B = len(c), np.column_stack([np.ones(len(c)), -E])
    scale = np.abs(B).max(axis=0)
    scale[scale == 0.0] = 1.0  # an intercept that no plane has
    B, target = B / scale, np.eye(B.shape[1])[0] / scale
    if gram is not None:
        found = _on_faces(gram / lam, c, B, start / start.sum(), tol)
        if found is not None:
            alpha, y = found
            w = omega.conjugate_gradient(-(alpha @ A) / lam)
            return Solution(rebalanced(alpha / alpha.sum(), E), w, (y / scale)[1:])
    start, share, is_far = start / start.sum(), _SPREAD, _far_below(A, c, omega, lam, start)
    while is_far((1.0 - share) * start + share / t) and share > _LEAST_SPREAD:
        share *= _SPREAD
    alpha = (1.0 - share) * start + share / t
    v, _ = _heights(A, c, omega, lam, gram, alpha)
    spread = max(float(np.ptp(v)), 1e-12 * float(np.abs(v).max()), tol, np.finfo(float).tiny)
    y = np.zeros(B.shape[1])
    y[0] = v.max() + _SPREAD * spread
    z = y[0] - v
    for _ in range(_MOST_STEPS):
        v, m = _heights(A, c, omega, lam, gram, alpha)
        r_dual, r_primal = B @ y - v - z, B.T @ alpha - target
        gap = float((v - B[:, 1:] @ y[1:]).max() - alpha @ v)
        uneven = np.abs(r_primal[1:])
        if not np.isfinite(gap) or (gap <= tol and uneven.max(initial=0.0) <= _BALANCED):
            break
        Q = (gram if gram is not None else omega.conjugate_curvature(m, A)) / lam
        system, mu = _System.of(Q, B, alpha, z, r_dual, r_primal), float(alpha @ z) / t
        if system is None or not mu > np.finfo(float).tiny:
            break
        da, _, dz = system.move(0.0)
        after = (alpha + _longest(alpha, da) * da) @ (z + _longest(z, dz) * dz)
        da, dy, dz = system.move(min((float(after) / (t * mu)) ** 3, 1.0) * mu)
        step = min(1.0, _TO_THE_WALL * min(_longest(alpha, da), _longest(z, dz)))
        while is_far(alpha + step * da) and step > _STALLED:
            step *= 0.5
        alpha, y, z = alpha + step * da, y + step * dy, z + step * dz
        if step < _STALLED:
            break
    w = omega.conjugate_gradient(-(alpha @ A) / lam)
    alpha = np.maximum(alpha, 0.0)
    return Solution(rebalanced(alpha / alpha.sum(), E), w, (y / scale)[1:])


def _on_faces(
    Q: Array, c: Array, B: Array, start: Array, tol: float
) -> tuple[Array, Array] | None:
    """Alpha and y by an active-set method: few planes gain or lose their weight at a time.

    On a face, where the others are 0, a step solves the equations; it ends where a weight would be
    negative. None if that takes too long, as where planes are nearly dependent.
    """
    alpha, face = start.copy(), np.flatnonzero(start)
    for _ in range(_MOST_CHANGES):
        found = _step_on_face(Q, c - Q @ alpha, B, face)
        if found is None:
            return None
        step, y = found
        x = alpha[face]
        lengths = np.where(step < 0.0, -x / np.minimum(step, -TINY), np.inf)
        blocking = int(lengths.argmin())
        if lengths[blocking] <= 1.0:
            alpha[face] = np.maximum(x + lengths[blocking] * step, 0.0)
            alpha[face[blocking]] = 0.0
            face = np.delete(face, blocking)
            continue
        alpha[face] = x + step
        above = c - Q @ alpha - B @ y
        highest = int(above.argmax())
        if above[highest] - alpha @ above <= tol:
            return alpha, y
        if alpha[highest] == 0.0:
            face = np.append(face, highest)
    return None


def _step_on_face(Q: Array, v: Array, B: Array, face: Any) -> tuple[Array, Array] | None:
    """The step in the weights of a face to where ``v = B y`` on it, and y; None if it fails."""
    H, right = Q[np.ix_(face, face)], np.column_stack([v, B])[face]
    np.einsum("ii->i", H)[:] += _FACE_RIDGE * max(float(Q.diagonal().max()), TINY)
    _, solved, failed = lapack.dposv(H, right, lower=1)
    if failed:
        return None
    x, MB = solved[:, 0], solved[:, 1:]
    S, rest = B[face].T @ MB, B[face].T @ x
    y = rest / S[0] if len(rest) == 1 else np.linalg.lstsq(S, rest, rcond=None)[0]
    return x - MB @ y, y


def _heights(
    A: Array, c: Array, omega: Any, lam: float, gram: Array | None, alpha: Array
) -> tuple[Array, Any]:
    """The planes at the w that alpha stands for, and ``m = -A'alpha / lam`` if it is needed."""
    if gram is not None:
        return c - gram @ alpha / lam, None
    m = -(alpha @ A) / lam
    return A @ omega.conjugate_gradient(m) + c, m


def _far_below(A: Array, c: Array, omega: Any, lam: float, start: Array) -> Callable[[Array], bool]:
    """Tells where the value is far below that of the start: a step too far for an exponential.

    The conjugate of an entropy is one, and the way back takes a step for each factor of e.
    """
    if omega.is_quadratic:
        return lambda alpha: False

    def value(alpha: Array) -> float:
        return float(c @ alpha) - lam * omega.conjugate(-(alpha @ A) / lam)

    there = value(start)
    lowest = there - _FAR_BELOW * (abs(there) + float(np.abs(c).max()))
    return lambda alpha: not value(alpha) >= lowest


class _System(NamedTuple):
    """The Newton system at an iterate, factored."""

    factor: Array
    MB: Array
    S: Array
    B: Array
    alpha: Array
    z: Array
    r_dual: Array
    r_primal: Array

    @classmethod
    def of(cls, Q, B, alpha, z, r_dual, r_primal) -> "_System | None":
        M = Q.copy()
        diagonal = np.einsum("ii->i", M)
        diagonal += z / alpha
        diagonal *= 1.0 + _RIDGES[0]
        factor, failed = lapack.dpotrf(M, lower=1)
        if failed:
            return None
        MB = lapack.dpotrs(factor, B, lower=1)[0].reshape(B.shape)
        S = B.T @ MB
        np.einsum("ii->i", S)[:] *= 1.0 + _RIDGES[1]
        if not np.isfinite(S).all():
            return None
        return cls(factor, MB, S, B, alpha, z, r_dual, r_primal)

    def move(self, mu: float) -> tuple[Array, Array, Array]:
        """Steps in alpha, y and z, after which the products are mu."""
        alpha, z = self.alpha, self.z
        x = lapack.dpotrs(self.factor, mu / alpha - self.r_dual - z, lower=1)[0]
        right = self.B.T @ x + self.r_primal
        few = len(right) == 1
        dy = right / self.S[0] if few else np.linalg.lstsq(self.S, right, rcond=None)[0]
        da = x - self.MB @ dy
        return da, dy, (mu - alpha * z - z * da) / alpha


def _longest(u: Array, du: Array) -> float:
    """The longest step up to 1 that leaves u nonnegative."""
    return 1.0 / max(1.0, float((-du / u).max()))


def rebalanced(alpha: Array, E: Array) -> Array:
    """A point of the simplex near alpha with ``E'alpha = 0``, by multiplicative corrections."""
    if not E.shape[1]:
        return alpha
    size = np.abs(E).max(axis=0)
    rows = np.vstack([np.ones(len(alpha)), (E / np.where(size > 0.0, size, 1.0)).T])
    target, found = np.eye(len(rows))[0], alpha.copy()
    for _ in range(_REPAIRS):
        support = np.flatnonzero(found)
        x = found[support]
        weighted = rows[:, support] * x
        missing = target - weighted.sum(axis=1)
        if np.abs(missing).max() <= LAST_PLACE:
            return found
        x += x * np.linalg.lstsq(weighted, missing, rcond=None)[0]
        found[support] = np.where(x > _NEGLIGIBLE, x, 0.0)
    return found if np.abs(rows @ found - target).max() <= _BALANCED else np.eye(len(alpha))[0]


class NearL1:
    """``sum_j limits_j |w_j| + weight/2 ||w - center||^2``: L1 has no minimizer of its own."""

    is_quadratic = True  # between kinks: no step is too far

    def __init__(self, limits: Array, weight: float, center: Array, nonnegative: bool):
        self._limits, self._weight, self._center = limits, weight, center
        self._nonnegative = nonnegative

    def conjugate_gradient(self, m: Array) -> Array:
        raw = self._center + m / self._weight
        if self._nonnegative:
            return np.maximum(raw - self._limits / self._weight, 0.0)
        return np.sign(raw) * np.maximum(np.abs(raw) - self._limits / self._weight, 0.0)

    def conjugate_curvature(self, m: Array, planes: Array) -> Array:
        active = planes[:, self.conjugate_gradient(m) != 0.0]
        return active @ active.T / self._weight


def first_weight(gradient: Array, limits: Array, objective: float) -> float:
    """The weight of nearness to start from, given a gradient of the risk."""
    slope = np.maximum(np.abs(gradient) - limits, 0.0)
    weight = _FIRST_SHARE * float(slope @ slope) / (2.0 * objective) if objective > 0.0 else 0.0
    return weight if weight > 0.0 else float(np.min(limits[limits > 0.0], initial=1.0))


def next_weight(weight: float, step: float, objective: float, offset: float, bound: float) -> float:
    """The weight for the next iteration, which is never larger."""
    costly = offset - bound > _COSTLY * (objective - bound)
    return _SMALLER * weight if step > 1.0 or costly else weight
