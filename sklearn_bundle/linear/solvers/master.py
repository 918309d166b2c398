"""The inner problem of the bundle method, for any Omega and any free intercepts.

    max  c'alpha - lam Omega*(-A'alpha / lam)   over alpha >= 0, sum alpha = 1, E'alpha = 0

An active-set method solves it, beginning with the last weights, of which few change from one plane
to the next. With ``w = grad Omega*(-A'alpha / lam)`` the planes have the heights ``v = A w + c``;
at the solution they are ``B y`` for planes with a weight and no higher for others, ``B = [1, -E]``,
and ``y`` holds the level and the intercepts.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from sklearn_bundle.core.limits import LAST_PLACE, TINY

Array = NDArray[np.float64]
_RIDGE = 1e-13  # of equations, in units of the largest entry


class Solution(NamedTuple):
    """Weights of the planes, the minimizer w of the model, and its intercepts."""

    alpha: Array
    w: Array
    b: Array


def solve(model: "Model", E: Array, start: Array, tol: float) -> Solution:
    """A solution with a gap of about ``tol``.

    On a face, where the other weights are 0, a Newton step ends where a weight would be negative.
    Where its planes are equally high, the highest of all joins them.
    """
    B = np.column_stack([np.ones(len(start)), -E])
    scale = np.abs(B).max(axis=0)
    scale[scale == 0.0] = 1.0  # an intercept that no plane has
    B, alpha, y, repeated = B / scale, start / start.sum(), np.zeros(B.shape[1]), 0
    face, (v, m) = np.flatnonzero(alpha), model.heights(alpha)
    # changes of the face, or steps on one: usually 3 to 10
    for _ in range(1000):
        step, there = _step_on_face(model.curvature(m, face), v, B, face, alpha)
        if not np.isfinite(step).all():
            break
        x, y = alpha[face], there
        lengths = np.where(step < 0.0, -x / np.minimum(step, -TINY), np.inf)
        blocking = int(lengths.argmin())
        longest = min(1.0, float(lengths[blocking]))
        t = model.step_length(alpha, face, step, v, longest)
        alpha[face] = np.maximum(x + t * step, 0.0)
        if t == lengths[blocking] and len(face) > 1:
            alpha[face[blocking]] = 0.0
            face, repeated = np.delete(face, blocking), 0
            v, m = model.heights(alpha)
            continue
        v, m = model.heights(alpha)
        above = v - B @ y
        above -= alpha @ above
        highest = int(above.argmax())
        repeated += 1
        if above[highest] <= tol or repeated > 100:
            break
        # 0.3 of the gap may be left on a face before a plane joins it
        if alpha[highest] == 0.0 and above[face].max() <= 0.3 * above[highest]:
            face, repeated = np.append(face, highest), 0
    alpha /= alpha.sum()
    w = model.omega.conjugate_gradient(-(alpha @ model.A) / model.lam)
    b = (y / scale)[1:]
    if len(b) > 1:  # what no plane sees of it is rounding, over the ridge
        b = np.linalg.lstsq(E, E @ b, rcond=None)[0]
    return Solution(rebalanced(alpha, E), w, b)


class Model(NamedTuple):
    """The dual objective: its derivatives are the heights of the planes.

    ``gram`` is ``A B^-1 A'`` of a quadratic Omega.
    """

    A: Array
    c: Array
    omega: Any
    lam: float
    gram: Array | None

    def heights(self, alpha: Array) -> tuple[Array, Any]:
        """At the w that alpha stands for, and ``m = -A'alpha / lam`` if it is needed."""
        if self.gram is not None:
            return self.c - self.gram @ alpha / self.lam, None
        m = -(alpha @ self.A) / self.lam
        return self.A @ self.omega.conjugate_gradient(m) + self.c, m

    def curvature(self, m: Any, face: Any) -> Array:
        """Minus the second derivatives in the weights of the face."""
        if self.gram is not None:
            return self.gram[face[:, None], face] / self.lam
        return self.omega.conjugate_curvature(m, self.A[face]) / self.lam

    def step_length(self, alpha: Array, face: Any, step: Array, v: Array, t: float) -> float:
        """Up to t, where the objective no longer rises, by secants; quadratic ones rise until 1."""
        first, moved = float(v[face] @ step), alpha.copy()
        for _ in range(20 if self.gram is None and first > 0.0 else 0):
            moved[face] = alpha[face] + t * step
            slope = float(self.heights(moved)[0][face] @ step)
            if slope >= -0.1 * first:
                break
            t *= max(first / (first - slope), 0.1) if np.isfinite(slope) else 0.1
        return t


def _step_on_face(H: Array, v: Array, B: Array, face: Any, alpha: Array) -> tuple[Array, Array]:
    """The step in the weights of a face to where ``v = B y`` and ``B'alpha = e_1``, and y."""
    size, n, missing = len(face), len(face) + B.shape[1], -(alpha @ B)
    missing[0] += 1.0
    v = v[face] - v[face].max()
    unit = max(float(H.diagonal().max()), -float(v.min()), TINY)  # ridges are for entries of 1
    K = np.zeros((n, n), order="F")
    K[:size, :size] = H / unit
    K[size:, :size] = B[face].T
    diagonal = np.einsum("ii->i", K)
    diagonal[:size] += _RIDGE
    diagonal[size:] -= _RIDGE
    _, _, found, _ = lapack.dsysv(K, np.concatenate([v / unit, missing]), lower=1)
    return found[:size], unit * found[size:]


def rebalanced(alpha: Array, E: Array) -> Array:
    """A point of the simplex near alpha with ``E'alpha = 0``, by multiplicative corrections."""
    if not E.shape[1]:
        return alpha
    size = np.abs(E).max(axis=0)
    rows = np.vstack([np.ones(len(alpha)), (E / np.where(size > 0.0, size, 1.0)).T])
    target, found = np.eye(len(rows))[0], alpha.copy()
    # each is followed by another if planes were dropped
    for _ in range(8):
        support = np.flatnonzero(found)
        x = found[support]
        weighted = rows[:, support] * x
        missing = target - weighted.sum(axis=1)
        if np.abs(missing).max() <= LAST_PLACE:
            return found
        x += x * np.linalg.lstsq(weighted, missing, rcond=None)[0]
        # a smaller weight is below the rounding of their sum
        found[support] = np.where(x > 1e-18, x, 0.0)
    # E'alpha over the largest entries of E, after which there is no solution
    return found if np.abs(rows @ found - target).max() <= 1e-9 else np.eye(len(alpha))[0]


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
    """The weight of nearness to start from, given a gradient of the risk.

    It is a tenth of the one at which one plane's step would reach an objective of 0.
    """
    slope = np.maximum(np.abs(gradient) - limits, 0.0)
    weight = 0.1 * float(slope @ slope) / (2.0 * objective) if objective > 0.0 else 0.0
    return weight if weight > 0.0 else float(np.min(limits[limits > 0.0], initial=1.0))


def next_weight(weight: float, step: float, objective: float, offset: float, bound: float) -> float:
    """The weight for the next iteration: half after a step that was too short, or half the gap."""
    costly = offset - bound > 0.5 * (objective - bound)
    return 0.5 * weight if step > 1.0 or costly else weight
