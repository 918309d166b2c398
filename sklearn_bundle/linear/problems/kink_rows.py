"""The end of a fit with a kinked loss: an interior-point method on the rows near their kinks.

Near the optimum all other rows have a derivative that does not change, and a plane stands for them.
What is left has a few times as many rows as features. An interior-point method solves that to the
last digits in about twenty steps, however many rows are at their kinks in the end.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from sklearn_bundle.core.roundoff import DOUBLE
from sklearn_bundle.linear.losses.scores import ScoreLoss, scale_heavier_down
from sklearn_bundle.linear.problems.linear import LinearProblem

Array = NDArray[np.float64]

_ROWS = 8  # per unknown: rows near their kinks to begin with
_MOST_ROWS = 4  # times as many: with more the gap is still too large for this
_ENTRIES = 1 << 22  # of their copy: 32 MB
_MOST_ROUNDS = 8  # usually one or two, since few rows cross their kinks
_MOST_STEPS = 60  # usually 10 to 25
_TO_THE_WALL = 0.995  # of the longest step
_STALLED = 1e-3  # length of a step from which little comes
_ROUNDED = 4.0  # roundings of a term that may be left
_TINY = np.finfo(np.float64).tiny


class AtKinks(NamedTuple):
    """A point (w, b), derivatives of the rows that belong to it, and the plane that they make."""

    w: Array
    b: float
    derivatives: Array
    plane: tuple[Array, float]


def solved_at_kinks(
    problem: LinearProblem, loss: ScoreLoss, reg_lambda: float, w: Array, b: float, scores: Array
) -> AtKinks | None:
    """A better point than (w, b), for a loss with one kink and the regularizer of l2.

    ``scores`` are X w. The plane proves what it proves, whichever rows were left out. None if too
    many rows may be near their kinks, or a copy of them is too large.
    """
    y, weights, free, rows = problem.target, problem.weights, problem.fit_intercept, problem.rows
    low, high = (weights * end for end in loss.end_slopes(y))
    (n, d), unknowns = rows.shape, rows.shape[1] + free
    first = _ROWS * unknowns
    if _MOST_ROWS * first * unknowns > _ENTRIES:
        return None
    r = scores + b - y
    near = np.zeros(n, dtype=bool)
    near[np.argpartition(np.abs(r), first)[:first] if first < n else slice(None)] = True
    v = np.append(w, b) if free else w
    penalty = np.full(unknowns, reg_lambda)
    penalty[d:] = 0.0
    g = np.empty(n)
    for _ in range(_MOST_ROUNDS):
        above = r > 0.0
        np.copyto(g, np.where(above, high, low))
        g[near] = 0.0
        places = np.flatnonzero(near)
        Z, plane = rows.dense(places), rows.gradient(g)
        if free:
            Z = np.concatenate([Z, np.ones((len(places), 1))], axis=1)
            plane = np.append(plane, g.sum())
        v, g[places] = interior_point(Z, y[places], low[places], high[places], plane, penalty, v)
        if not np.isfinite(v).all():
            return None
        w, b = v[:d], float(v[d:].sum())
        r = rows.scores(w) + b - y
        crossed = ((r > 0.0) != above) & ~near
        if not crossed.any():
            break
        near |= crossed
        if np.count_nonzero(near) > _MOST_ROWS * first:
            return None
    if free:
        scale_heavier_down(g, g > 0.0)
    offset = loss.offset(g, y, weights, loss.center(y, weights) if free else 0.0)
    return AtKinks(w, b, g, (rows.gradient(g), offset))


class Iterate(NamedTuple):
    """A point of the method, and the system that its steps solve.

    ``inverse`` are the rows' weights in its matrix, ``factor`` is that of the matrix, ``residual``
    and ``left`` are what is missing to feasible points; the others as in :func:`interior_point`.
    """

    Z: Array
    inverse: Array
    factor: Array
    residual: Array
    left: Array
    above: Array
    below: Array
    p: Array
    q: Array

    def move(self, up: Array, down: Array) -> tuple[Array, Array, Array, Array]:
        """Steps in v, g, ``above`` and ``below``, after which the products are less by these."""
        Z, inverse, p, q = self.Z, self.inverse, self.p, self.q
        c = self.residual + up / p - down / q
        dv = lapack.dpotrs(self.factor, -(self.left + Z.T @ (inverse * c)), lower=1)[0]
        dg = inverse * (c + Z @ dv)
        return dv, dg, (self.above * dg - up) / p, -(self.below * dg + down) / q


def interior_point(
    Z: Array, kinks: Array, low: Array, high: Array, plane: Array, penalty: Array, v: Array
) -> tuple[Array, Array]:
    """The v that minimizes ``1/2 <penalty, v^2> + <plane, v>`` and losses of ``Z v - kinks``.

    And their derivatives g; by Mehrotra's method from v. The residual is the difference of two
    positive numbers, whose products with ``high - g`` and ``g - low`` become 0 together.
    """
    r, span = Z @ v - kinks, high - low
    wide = float(np.abs(r).mean()) + _TINY
    above, below = np.maximum(r, 0.0) + wide, np.maximum(-r, 0.0) + wide
    p = span * below / (above + below)  # high - g
    q = span - p  # g - low
    diagonal = np.arange(len(v))
    for _ in range(_MOST_STEPS):
        residual = Z @ v - kinks - (above - below)
        left = penalty * v + plane + Z.T @ (low + q)
        total = float(above @ p + below @ q)
        size = float(np.abs(v) @ (np.abs(penalty * v) + np.abs(plane))) + total
        if not total > _ROUNDED * DOUBLE * len(v) * size:
            break
        inverse = 1.0 / (above / p + below / q)
        H = (Z * inverse[:, None]).T @ Z
        H[diagonal, diagonal] += penalty
        factor, failed = lapack.dpotrf(H, lower=1)
        if failed:
            break
        at = Iterate(Z, inverse, factor, residual, left, above, below, p, q)
        _, dg, da, db = at.move(above * p, below * q)
        t = min(_longest(p, -dg), _longest(q, dg))
        s = min(_longest(above, da), _longest(below, db))
        after = float((above + s * da) @ (p - t * dg) + (below + s * db) @ (q + t * dg))
        mu = total / (2 * len(r)) * (after / total) ** 3
        # Products of the changes count as far as this step would get.
        of_changes = s * t * dg
        dv, dg, da, db = at.move(above * p - of_changes * da - mu, below * q + of_changes * db - mu)
        t = min(_longest(p, -dg), _longest(q, dg), _longest(above, da), _longest(below, db))
        t = min(1.0, _TO_THE_WALL * t)
        v = v + t * dv
        above, below, p, q = above + t * da, below + t * db, p - t * dg, q + t * dg
        if t < _STALLED:
            break
    return v, np.clip(low + q, low, high)


def _longest(values: Array, change: Array) -> float:
    """The longest step along the change that leaves the values positive; at most about 1."""
    return 1.0 / max(float(-(change / values).min()), _TO_THE_WALL)
