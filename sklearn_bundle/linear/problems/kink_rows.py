"""Fits with a kinked loss by an interior-point method on the rows near their kinks.

Near the optimum all other rows have a derivative that does not change, and a plane stands for them.
What is left has a few times as many rows as features. An interior-point method solves that to the
last digits in about twenty steps, however many rows are at their kinks in the end. A problem that
has no more rows from the beginning is solved by it alone.
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
_SMALL = 1 << 15  # entries: so few make the calls of a step cost more than its products
_MOST_ROUNDS = 8  # usually one or two, since few rows cross their kinks
_MOST_STEPS = 60  # usually 10 to 25
# Times the mean size of a residual: how far from the walls it begins. From 1 it crept along them
# for 25 to 60 steps at small reg_lambda; from 3 to 10 it took 10 to 25 everywhere.
_WIDE = 5.0
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


def is_small(problem: LinearProblem) -> bool:
    """Whether steps on all rows cost little, and all may be near their kinks."""
    n, unknowns = problem.n_samples, problem.n_features + problem.fit_intercept
    return n <= _MOST_ROWS * _ROWS * unknowns and n * unknowns <= _SMALL


def takes_all_rows(problem: LinearProblem) -> bool:
    """Whether all rows count as near their kinks from the beginning."""
    unknowns = problem.n_features + problem.fit_intercept
    return problem.n_samples <= _ROWS * unknowns or is_small(problem)


def solved_at_kinks(
    problem: LinearProblem,
    loss: ScoreLoss,
    reg_lambda: float,
    w: Array,
    b: float,
    scores: Array,
    tol: float = 0.0,
) -> AtKinks | None:
    """A better point than (w, b), for a loss with one kink and the regularizer of l2.

    ``scores`` are X w. The plane proves what it proves, whichever rows were left out. None if too
    many rows may be near their kinks, or a copy of them is too large. ``tol`` is the relative gap
    at which it may end.
    """
    y, weights, free, rows = problem.target, problem.weights, problem.fit_intercept, problem.rows
    low, high = (weights * end for end in loss.end_slopes(y))
    (n, d), unknowns = rows.shape, rows.shape[1] + free
    first = _ROWS * unknowns
    if _MOST_ROWS * first * unknowns > _ENTRIES:
        return None
    r = scores + b - y
    near = np.zeros(n, dtype=bool)
    if takes_all_rows(problem):
        near[:] = True
    else:
        near[np.argpartition(np.abs(r), first)[:first]] = True
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
        ends = y[places], low[places], high[places]
        v, g[places] = interior_point(Z, *ends, plane, penalty, v, tol)
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
    pairs: Array

    def move(self, up: Array, down: Array) -> tuple[Array, Array]:
        """Steps in v and ``pairs``, after which the products are less by these."""
        Z, inverse, (above, below, p, q) = self.Z, self.inverse, self.pairs
        c = self.residual + up / p - down / q
        dv = lapack.dpotrs(self.factor, -(self.left + Z.T @ (inverse * c)), lower=1)[0]
        dg = inverse * (c + Z @ dv)
        return dv, np.array([(above * dg - up) / p, -(below * dg + down) / q, -dg, dg])


def interior_point(
    Z: Array,
    kinks: Array,
    low: Array,
    high: Array,
    plane: Array,
    penalty: Array,
    v: Array,
    tol: float = 0.0,
) -> tuple[Array, Array]:
    """The v that minimizes ``1/2 <penalty, v^2> + <plane, v>`` and losses of ``Z v - kinks``.

    And their derivatives g; by Mehrotra's method from v. The residual is the difference of two
    positive numbers ``above`` and ``below``, whose products with ``p = high - g`` and
    ``q = g - low`` become 0 together. It ends once they, and what is missing to feasible points,
    are a share ``tol`` of the objective.
    """
    r, span = Z @ v - kinks, high - low
    wide = _WIDE * float(np.abs(r).mean()) + _TINY
    above, below = np.maximum(r, 0.0) + wide, np.maximum(-r, 0.0) + wide
    p = span * below / (above + below)
    pairs = np.array([above, below, p, span - p])
    above, below, p, q = pairs
    diagonal = np.arange(len(v))
    for _ in range(_MOST_STEPS):
        r = above - below
        residual = Z @ v - kinks - r
        left = penalty * v + plane + Z.T @ (low + q)
        total = float(above @ p + below @ q)
        size = float(np.abs(v) @ (np.abs(penalty * v) + np.abs(plane))) + total
        value = 0.5 * float(penalty @ v**2) + float(np.maximum(low * r, high * r).sum())
        missing = float(np.abs(residual) @ span) + float(np.abs(left) @ np.abs(v))
        if not total > _ROUNDED * DOUBLE * len(v) * size or total + missing <= tol * value:
            break
        inverse = 1.0 / (above / p + below / q)
        S = Z * np.sqrt(inverse)[:, None]
        H = S.T @ S
        H[diagonal, diagonal] += penalty
        factor, failed = lapack.dpotrf(H, lower=1)
        if failed:
            break
        at = Iterate(Z, inverse, factor, residual, left, pairs)
        _, change = at.move(above * p, below * q)
        t, s = _longest(pairs[2:], change[2:]), _longest(pairs[:2], change[:2])
        da, db, dp, dq = change
        after = float((above + s * da) @ (p + t * dp) + (below + s * db) @ (q + t * dq))
        mu = total / (2 * len(r)) * (after / total) ** 3
        # Products of the changes count as far as this step would get.
        up, down = above * p + s * t * dp * da - mu, below * q + s * t * dq * db - mu
        dv, change = at.move(up, down)
        t = min(1.0, _TO_THE_WALL * _longest(pairs, change))
        v = v + t * dv
        pairs += t * change
        if t < _STALLED:
            break
    return v, np.clip(low + q, low, high)


def _longest(values: Array, change: Array) -> float:
    """The longest step along the change that leaves the values positive; at most about 1."""
    return 1.0 / max(-float((change / values).min()), _TO_THE_WALL)
