"""The certificate of a linear problem: objective and bound from the data, and their rounding.

Nothing else in this family computes a number that is reported. A solver hands over a point and what
proves its bound: derivatives g in the scores, or a plane. With ``a = X'g``, ``v = grad Omega*(-a /
lam)``, column norms c and the largest derivatives G near the scores, the terms of all sums add up
to

    T = ||G|| sum_j c_j |w_j| + ||g|| sum_j c_j |v_j| + |b| sum (G_i + |g_i|) + sum |g_i y_i|
        + R + sum |s_i l*_i| + lam Omega + lam Omega*

and rounding changes the gap by no more than ``(gamma(n) + gamma(d) + gamma(p) + 16 u) T`` and what
an error of ``gamma(n) ||g|| c_j`` in a_j adds to the conjugate; ``gamma(m) = u min(m, 8 sqrt m)``,
``u = 2^-53``. The bounds hold for any order of summation.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.certificate import DOUBLE, Ball, Rounding, ball_of, likely
from sklearn_bundle.core.limits import TINY
from sklearn_bundle.linear.regularizers import Regularizer
from sklearn_bundle.linear.risk import Plane, Risk

Array = NDArray[np.float64]
_FEW = 16.0  # roundings of a term beside those of its sum
_SAME = 1e-12  # relative size of what is left of a sum that cancels


class Proof(NamedTuple):
    """What proves a bound: derivatives g of the risk, or a plane if these are not kept.

    The ``gradient`` X'g saves a product where it was just computed, of many g together.
    """

    derivatives: Array | None = None
    plane: Plane | None = None
    gradient: Array | None = None


class Certified(NamedTuple):
    """A point with its certificate."""

    w: Array
    b: Any
    objective: float
    bound: float  # rounding is not taken off yet
    rounding: Rounding
    terms: float  # the size T of what objective and bound are differences of
    ball: Ball | None


def is_l1(omega: Regularizer) -> bool:
    """Whether it is a weighted sum of the ``|w_j|``, and nothing else."""
    form = omega.lasso_form
    return form is not None and form.ridge == 0.0


def scaled(plane: Plane, omega: Any, reg_lambda: float, error: Any = 0.0) -> Plane:
    """With L1, the largest multiple that is feasible: ``|a_j| + error_j <= lam t_j``.

    A risk that is nowhere negative has the plane 0, and so all multiples between.
    """
    if not is_l1(omega):
        return plane
    limits = np.asarray(reg_lambda * omega.lasso_form.thresholds)
    a = (-plane.gradient if omega.nonnegative else np.abs(plane.gradient)) + error
    shares = np.divide(a, limits, out=np.zeros_like(a), where=limits > 0.0)
    reach = float(shares.max(initial=0.0))
    return plane if reach <= 1.0 else plane.times(1.0 / reach * (1.0 - 2.0 * DOUBLE))


def bound_of(plane: Plane, omega: Regularizer, reg_lambda: float, b: Any = 0.0) -> float:
    """``c - lam Omega*(-a / lam)``, less what balances that are rounding may be worth."""
    plane = scaled(plane, omega, reg_lambda)
    value = plane.offset - reg_lambda * omega.conjugate(-plane.gradient / reg_lambda)
    return value - _of_free(plane, omega, b)


def _of_free(plane: Plane, omega: Regularizer, b: Any, w: Array | None = None) -> float:
    """What the plane may lose in directions without a penalty, where it should be flat."""
    lost = 0.0
    if len(plane.balance):
        lost = float(np.abs(plane.balance).sum()) * (1.0 + float(np.abs(b).max(initial=0.0)))
    if omega.unpenalized is not None:
        farthest = 1.0 + (0.0 if w is None else float(np.abs(w).max(initial=0.0)))
        along = _along_free(plane.gradient, omega, plane.norms.size)
        lost += float(np.abs(along).sum()) * farthest
    # Unpenalized coordinates of the optimum are taken to be at most twice as far from 0 as the
    # point's, plus 2. Planes cancel there up to rounding, whose effect this multiplies.
    return 2.0 * lost


def _along_free(gradient: Array, omega: Regularizer, n_outputs: int) -> Array:
    """The slopes in the directions without a penalty, of all outputs."""
    free: Any = omega.unpenalized
    outputs = gradient.reshape(max(n_outputs, 1), -1)
    return outputs[:, free] if free.ndim == 1 else outputs @ free


def _is_flat(plane: Plane, omega: Regularizer, errors: Array) -> bool:
    """Whether slopes in directions without a penalty are no more than rounding."""
    if omega.unpenalized is None:
        return True
    along = _along_free(plane.gradient, omega, plane.norms.size)
    rounded = _along_free(errors, omega, plane.norms.size)
    # A plane that is steeper in a direction without a penalty proves nothing, since no one knows
    # how far the optimum is there.
    return bool((np.abs(along) <= 1e6 * np.abs(rounded)).all())


def flattened(risk: Risk, omega: Regularizer, g: Array) -> Array:
    """Derivatives whose plane is flat where nothing is penalized: row by row times ``1 - t_i``.

    A loss that is nowhere negative has the plane 0, and so all multiples of a plane between. Of all
    t in [0, 1] with ``A t = A 1``, where A has the slopes of each row, it takes the shortest one:
    ``t = clip(A'z, 0, 1)`` for the z of Newton's method on the dual. Without one the plane is 0.
    """
    free: Any = omega.unpenalized
    basis = np.eye(risk.rows.shape[1])[free] if free.ndim == 1 else np.ascontiguousarray(free.T)
    Z = risk.rows.scores(basis)
    if risk.free or risk.n_free:
        Z = np.vstack([Z, np.ones(Z.shape[1])])
    A = (np.atleast_2d(g)[:, None] * Z).reshape(-1, Z.shape[1])
    A = A / np.maximum(np.linalg.norm(A, axis=1), TINY)[:, None]
    _, sizes, bases = np.linalg.svd(A, full_matrices=False)
    A = bases[sizes > _SAME]  # slopes of several outputs may cancel
    wanted, z, t = A.sum(axis=1), np.zeros(len(A)), np.zeros(A.shape[1])
    # steps of Newton's method, usually two to five
    for _ in range(50):
        missing = wanted - A @ t
        if np.abs(missing).max(initial=0.0) <= _SAME:
            return g * (1.0 - t)
        inside = (t > 0.0) & (t < 1.0)
        used = A[:, inside] if inside.any() else A
        step = np.linalg.solve(used @ used.T + 1e-9 * np.eye(len(A)), missing)
        before, length = z @ wanted - t @ (z @ A - 0.5 * t), 1.0
        while length > 1e-6:
            there = z + length * step
            x = there @ A
            t = np.clip(x, 0.0, 1.0)
            if there @ wanted - t @ (x - 0.5 * t) > before:
                break
            length *= 0.5
        z = there
    return np.zeros_like(g)


def certify(
    risk: Risk,
    omega: Regularizer,
    reg_lambda: float,
    w: Array,
    b: Any,
    proof: Proof | None,
    moving: bool = True,
    scores: Array | None = None,
) -> Certified:
    """Objective at (w, b), or a better b if it may move, and the bound that is proved.

    What rounding may have done comes with them: :meth:`.Best.recompute` takes it off. ``scores``
    are X w, if they were just computed.
    """
    value, b, G = risk.reached(w, b, moving, scores)
    penalty = reg_lambda * omega.value(w)
    (n, d), p, c = risk.rows.shape, len(w), risk.rows.column_norms
    per_sum = DOUBLE * (likely(n) + likely(d) + likely(p) + _FEW)
    moved = float(G.norms @ (np.abs(w.reshape(-1, d)) @ c))
    size_b = float(np.sum(np.abs(b) * np.ones(len(G.norms)) * G.totals))
    size = moved + size_b + G.terms + abs(value) + penalty
    of_objective = per_sum * size
    if proof is None:
        return Certified(w, b, penalty + value, -np.inf, Rounding(of_objective), size, None)
    plane = risk.proved(proof)
    norms = np.broadcast_to(plane.norms, len(w) // d)  # the plane 0 has one for all outputs
    errors = DOUBLE * (likely(n) + _FEW) * np.outer(norms, c).ravel()
    unrounded = scaled(plane, omega, reg_lambda).offset
    plane = scaled(plane, omega, reg_lambda, errors)
    lost = max(unrounded - plane.offset, 0.0)
    m = -plane.gradient / reg_lambda
    v, conjugate = omega.conjugate_gradient(m), reg_lambda * omega.conjugate(m)
    along = float(errors @ np.abs(v))
    terms = float(norms @ (np.abs(v.reshape(-1, d)) @ c)) + abs(conjugate)
    terms += plane.terms + plane.total * float(np.abs(b).max(initial=0.0))
    rise = along
    if not is_l1(omega):
        shifted = m + np.where(v < 0.0, -errors, errors) / reg_lambda
        rise = max(reg_lambda * omega.conjugate(shifted) - conjugate, along)
    bound = plane.offset + lost - conjugate - _of_free(plane, omega, b, w)
    if not _is_flat(plane, omega, errors):
        bound = -np.inf
    taken = Rounding(of_objective, per_sum * terms + rise + lost, float(np.linalg.norm(errors)))
    objective, gap = penalty + value, penalty + value - bound + taken.total
    ball = None
    if omega.strong_convexity > 0.0 and np.isfinite(gap):
        modulus = reg_lambda * omega.strong_convexity
        ball = ball_of(w, v, gap, gap, modulus, taken.of_plane / modulus)
    return Certified(w, b, objective, bound, taken, size + terms, ball)
