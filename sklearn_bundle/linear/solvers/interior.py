"""A primal-dual interior-point method on the rows near their kinks.

A kinked loss of one score is linear but for its kinks: with ``r = f - y`` and up to constants,
``s l(y, f) = s low f + sum_k s jump_k max(0, r - place_k)``. An item is a kink of a row. Items far
from r are linear too; with the others it is a quadratic program in few rows, which Mehrotra's
method solves.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from sklearn_bundle.core.limits import DOUBLE, TINY
from sklearn_bundle.linear.risk import Point
from sklearn_bundle.linear.score_risk import ScoreRisk
from sklearn_bundle.linear.solvers.base import add_form

Array = NDArray[np.float64]
_ROWS = 8  # items per unknown: near their kinks to begin with
_MOST_ROWS = 4  # times as many: with more the gap is still too large for this
_TO_THE_WALL = 0.995  # of the longest step


@dataclass
class Kinked:
    """The problem by items: where they are, and by how much the slope rises there."""

    risk: ScoreRisk
    reg_lambda: float
    omega: Any

    def __post_init__(self) -> None:
        y, s, loss = self.risk.y, self.risk.weights, self.risk.loss
        self.low = s * loss.end_slopes(y)[0]
        self.places = np.array([y + place for place, _ in loss.kinks])
        self.jumps = np.array([s * jump for _, jump in loss.kinks])


def takes_all_rows(risk: ScoreRisk) -> bool:
    """Whether all items count as near from the beginning: they are few, or steps cost little."""
    n, unknowns = risk.rows.shape[0], risk.dimension + risk.free
    # with so few entries the calls of a step cost more than its products
    small = n <= _MOST_ROWS * _ROWS * unknowns and n * unknowns <= 1 << 15
    return n <= _ROWS * unknowns or small


def solved_at_kinks(problem: Kinked, start: Point, tol: float) -> Point | None:
    """A better point, with derivatives that belong to it; None if too many items are near."""
    risk = problem.risk
    first = _ROWS * (unknowns := risk.dimension + risk.free)
    # of their copy: 32 MB
    if _MOST_ROWS * first * unknowns > (1 << 22):
        return None
    w, b, scores, r = start.w, start.b, start.scores, start.scores + start.b - problem.places
    near = np.zeros(r.shape, dtype=bool)
    if takes_all_rows(risk) or near.size <= first:
        near[:] = True
    else:
        near.flat[np.argpartition(np.abs(r), first, axis=None)[:first]] = True
    # usually one or two, since few rows cross their kinks
    for _ in range(8):
        above, v = r > 0.0, np.append(w, b) if risk.free else w
        found = _solve_among(problem, near, above, v, risk.value(scores, b), tol)
        if found is None:
            return None
        v, g = found
        w, b = v[: risk.dimension], float(v[risk.dimension :].sum())
        scores = risk.scores(w)
        r = scores + b - problem.places
        crossed = ((r > 0.0) != above) & ~near
        if not crossed.any():
            break
        near |= crossed
        if np.count_nonzero(near) > _MOST_ROWS * first:
            return None
    if risk.free:
        scale_heavier_down(g)
        b = risk.best_intercept(scores, b)
    return Point(w, scores, b, risk.value(scores, b), g, risk.offset(g))


def _solve_among(
    problem: Kinked, near: Any, above: Any, v: Array, value: float, tol: float
) -> tuple[Array, Array] | None:
    """The solution with these items near their kinks, and the derivatives of all rows.

    It starts from v, where the risk has this value.
    """
    risk, free = problem.risk, problem.risk.free
    g = problem.low + np.where(above & ~near, problem.jumps, 0.0).sum(axis=0)
    kinks, places = np.nonzero(near)
    Z, plane = risk.rows.dense(places), risk.rows.gradient(g)
    if free:
        Z, plane = np.column_stack([Z, np.ones(len(places))]), np.append(plane, g.sum())
    ends, jumps = problem.places[kinks, places], problem.jumps[kinks, places]
    constant = value - float(plane @ v) - float(jumps @ np.maximum(0.0, Z @ v - ends))
    penalty = problem.reg_lambda, problem.omega, len(v) - free
    program = Program(np.ascontiguousarray(Z), ends, jumps, plane, constant, *penalty)
    v, q = interior_point(program, v, tol)
    if not np.isfinite(v).all():
        return None
    np.add.at(g, places, q)
    return v, g


class Program(NamedTuple):
    """``lam/2 w'Bw + <plane, v> + sum_i jump_i max(0, z_i v - kink_i)``, w the first d of v.

    With the constant that is the objective.
    """

    Z: Array
    kinks: Array
    jumps: Array
    plane: Array
    constant: float
    reg_lambda: float
    omega: Any
    d: int


class _Iterate(NamedTuple):
    """A point of the method, and the system that its steps solve."""

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


def interior_point(program: Program, v: Array, tol: float) -> tuple[Array, Array]:
    """The v that minimizes the program, of which the share ``tol`` may be left.

    Also the multipliers q in [0, jump]. The residual is ``above - below``, both positive, with the
    multipliers ``p = jump - q`` and q; ``pairs`` holds all four.
    """
    Z, kinks, jumps, plane, constant, lam, omega, d = program
    r, image = Z @ v - kinks, np.zeros_like(v)
    # How far from the walls it begins: from 1 times the mean size of a residual it crept along them
    # for 25 to 60 steps at small reg_lambda; from 3 to 10 it took 10 to 25 everywhere.
    wide = 5.0 * float(np.abs(r).mean()) + TINY
    above, below = np.maximum(r, 0.0) + wide, np.maximum(-r, 0.0) + wide
    p = jumps * below / (above + below)
    pairs = np.array([above, below, p, jumps - p])
    above, below, p, q = pairs
    # usually 10 to 25
    for _ in range(60):
        r = above - below
        residual, image[:d] = Z @ v - kinks - r, lam * omega.image(v[:d])
        left = image + plane + Z.T @ q
        total = float(above @ p + below @ q)
        size = float(np.abs(v) @ (np.abs(image) + np.abs(plane))) + total
        value = constant + float(v @ (0.5 * image + plane)) + float(jumps @ np.maximum(0.0, r))
        missing = float(np.abs(residual) @ jumps) + float(np.abs(left) @ np.abs(v))
        # 4 roundings of a term may be left
        if not total > 4.0 * DOUBLE * len(v) * size or total + missing <= tol * value:
            break
        inverse = 1.0 / (above / p + below / q)
        S = Z * np.sqrt(inverse)[:, None]
        H = S.T @ S
        add_form(H[:d, :d], lam, omega)
        factor, failed = lapack.dpotrf(H, lower=1)
        if failed:
            break
        at = _Iterate(Z, inverse, factor, residual, left, pairs)
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
        # from a step this short little comes
        if t < 1e-3:
            break
    return v, np.clip(q, 0.0, jumps)


def _longest(values: Array, change: Array) -> float:
    """The longest step along the change that leaves the values positive; at most about 1."""
    return 1.0 / max(-float((change / values).min()), _TO_THE_WALL)


def scale_heavier_down(g: Array) -> None:
    """Scale the positive or the negative entries down, so that their sum is zero."""
    up, down = float(g[g > 0.0].sum()), -float(g[g < 0.0].sum())
    if up != down and min(up, down) >= 0.0:
        heavier = g > 0.0 if up > down else g < 0.0
        np.multiply(g, min(up, down) / max(up, down), out=g, where=heavier)
