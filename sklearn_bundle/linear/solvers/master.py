"""The inner problem of the bundle method, for any Omega and any free intercepts.

    max  c'alpha - lam Omega*(-A'alpha / lam)   over alpha >= 0, sum alpha = 1, E'alpha = 0

An active-set method solves it where Omega is quadratic, beginning with the last weights, of which
few change from one plane to the next. Other regularizers take Newton steps, each such a problem
with the curvature of the conjugate, and line searches. With ``w = grad Omega*(-A'alpha / lam)``, b
and the level t, the gap is the largest of ``A w + E b + c - t`` less its mean under alpha.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from sklearn_bundle.core.limits import LAST_PLACE, TINY

Array = NDArray[np.float64]
_MOST_STEPS = 60  # of Newton's method for an Omega that is not quadratic; usually 2 to 5
_MOST_CHANGES = 200  # of a face in one of these; usually 3 to 10
_MOST_SECANTS, _LEFT, _SHORTEST = 20, 0.02, 0.1  # of a line search, as shares of slope and step
_RIDGE = 1e-13  # of equations, in units of the largest entry
_BALANCED = 1e-9  # E'alpha over the largest entries of E, after which there is no solution
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
    B = np.column_stack([np.ones(len(c)), -E])
    scale = np.abs(B).max(axis=0)
    scale[scale == 0.0] = 1.0  # an intercept that no plane has
    B, alpha, y = B / scale, start / start.sum(), None
    for _ in range(_MOST_STEPS):
        v, m = _heights(A, c, omega, lam, gram, alpha)
        if y is not None and float((v - B[:, 1:] @ y[1:]).max() - alpha @ v) <= tol:
            break
        Q = (gram if gram is not None else omega.conjugate_curvature(m, A)) / lam
        changed, y = _on_faces(Q, v + Q @ alpha, B, alpha, 0.5 * tol)
        step = changed - alpha
        if gram is None:
            step *= _step_length(A, c, omega, lam, alpha, step, v)
        alpha = alpha + step
        if not np.abs(step).max() > LAST_PLACE:
            break
    alpha /= alpha.sum()
    w = omega.conjugate_gradient(-(alpha @ A) / lam)
    return Solution(rebalanced(alpha, E), w, (y / scale)[1:])


def _heights(
    A: Array, c: Array, omega: Any, lam: float, gram: Array | None, alpha: Array
) -> tuple[Array, Any]:
    """The planes at the w that alpha stands for, and ``m = -A'alpha / lam`` if it is needed."""
    if gram is not None:
        return c - gram @ alpha / lam, None
    m = -(alpha @ A) / lam
    return A @ omega.conjugate_gradient(m) + c, m


def _step_length(
    A: Array, c: Array, omega: Any, lam: float, alpha: Array, step: Array, v: Array
) -> float:
    """A share of the step at which the dual objective no longer rises much, by secants."""
    first, t = float(v @ step), 1.0
    for _ in range(_MOST_SECANTS if first > 0.0 else 0):
        slope = float(_heights(A, c, omega, lam, None, alpha + t * step)[0] @ step)
        if slope >= -_LEFT * first:
            break
        t *= max(first / (first - slope), _SHORTEST) if np.isfinite(slope) else _SHORTEST
    return t


def _on_faces(Q: Array, c: Array, B: Array, start: Array, tol: float) -> tuple[Array, Array]:
    """Alpha and y of ``max c'alpha - alpha'Q alpha / 2``, by an active-set method.

    Few planes gain or lose their weight at a time. On a face, where the others are 0, a step solves
    the equations; it ends where a weight would be negative.
    """
    alpha, face, y = start.copy(), np.flatnonzero(start), np.zeros(B.shape[1])
    unit, c = float(Q.diagonal().max()), c - c.max()
    unit = unit if unit > 0.0 else max(float(np.abs(c).max()), TINY)
    Q, c = Q / unit, c / unit  # ridges are for entries of about 1
    for _ in range(_MOST_CHANGES):
        step, y_there = _step_on_face(Q, c - Q @ alpha, B, face, alpha)
        if not np.isfinite(step).all():
            break
        x, y = alpha[face], y_there
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
        if unit * (above[highest] - alpha @ above) <= tol:
            break
        if alpha[highest] == 0.0:
            face = np.append(face, highest)
    return alpha, unit * y


def _step_on_face(Q: Array, v: Array, B: Array, face: Any, alpha: Array) -> tuple[Array, Array]:
    """The step in the weights of a face to where ``v = B y`` and ``B'alpha = e_1``, and y."""
    size, n, missing = len(face), len(face) + B.shape[1], -(alpha @ B)
    missing[0] += 1.0
    K = np.zeros((n, n), order="F")
    K[:size, :size] = Q[np.ix_(face, face)]
    K[size:, :size] = B[face].T
    diagonal = np.einsum("ii->i", K)
    diagonal[:size] += _RIDGE
    diagonal[size:] -= _RIDGE
    _, _, found, _ = lapack.dsysv(K, np.concatenate([v[face], missing]), lower=1)
    return found[:size], found[size:]


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
