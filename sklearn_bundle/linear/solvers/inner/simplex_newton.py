"""The bundle's inner problem for a smooth conjugate, with or without free intercepts.

    maximize  D(alpha) = c' alpha - lam Omega*(-A' alpha / lam)
    over      alpha >= 0,  sum(alpha) = 1,  E' alpha = 0

The method is sequential quadratic programming: :mod:`~.simplex_qp`
maximizes the second-order model of D on the planes that have weight or are violated, and a line
search of D follows towards its solution. Near the optimum, linear systems on the face of alpha's
support take over.

``E' alpha = 0`` comes from the minimum over b of ``max_i <a_i, w> + <e_i, b> + c_i``, which may be
attained on an unbounded set. The proximal point method adds ``delta / 2 ||b - center||^2`` and
moves the center to the solution: in D that is a quadratic term instead of a constraint. Its b stay
bounded, because no step leads farther away from any of the best b (Rockafellar, SIAM J. Control
Optim. 14, 1976). :func:`balanced` removes the rest of ``E' alpha``.
"""

from copy import copy
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dsysv
from scipy.optimize import linprog

from sklearn_bundle.core.limits import LAST_PLACE, MOST_STEPS, NEWTON_SLOPE_LEFT, TINY
from sklearn_bundle.core.one_variable import search_zero
from sklearn_bundle.linear._compiled import simplex_qp
from sklearn_bundle.linear.regularizers import Regularizer

Array = NDArray[np.float64]

_DAMPING = 1e-10  # times the gap: curvature of D where there is none
_MOST_NEAR = 5  # linear systems in a row, and steps without progress, near the optimum
_PROGRESS = 0.9  # a gap that falls to this share counts as smaller
_SETTLED = 1e-8  # ascent of a step, relative to the terms of D: the optimum is near

# Share of the gap to which a quadratic model is solved, and below which the part that is not due to
# E' alpha counts as solved.
_QP_SHARE = 0.01

_STIFFER = 10.0  # the proximal term at first over the curvature of D, and a factor on it later
_STIFF, _STIFFEST = 1e3, 1e10  # limits of stiffening, for either reason
_HARDLY_LESS = 0.25  # E' alpha after a step, relative to that before

_REPAIRS = 8  # most corrections of alpha: each is followed by another if planes were dropped
_NEARLY = 1e-6  # E' alpha over the largest e_i at which steps on the face begin: they correct it
_NEGLIGIBLE = 1e-18  # a weight that is dropped: it is below the rounding of their sum


def solve(
    planes: Array,
    offsets: Array,
    balance: Array | None,
    omega: Regularizer,
    reg_lambda: float,
    start: Array,
    tolerance: float,
    *,
    gram: Array | None = None,
    center: Array | None = None,
) -> tuple[Array, Array | None, float]:
    """A nearly optimal alpha, the intercepts b that belong to it, and the gap.

    Parameters
    ----------
    planes, offsets : ndarray of shape (t, p) and (t,)
        The a_i and c_i.
    balance : ndarray of shape (t, k) or None
        The e_i; plane 0 must be zero. None if there are no intercepts.
    omega, reg_lambda : Regularizer, float
    start : ndarray of shape (t,)
        Point of the simplex. ``E' start`` need not be zero.
    tolerance : float
        The requested gap; 0 for the smallest that rounding allows.
    gram : ndarray of shape (t, t), optional
        ``A H A'`` if Omega* is the quadratic form of a constant H; computed if not given.
    center : ndarray of shape (k,), optional
        The b are sought near it; 0 by default.

    Returns
    -------
    alpha : ndarray of shape (t,)
        ``E' alpha`` is at most 1e-15 of the largest ``|E|``, column by column.
    intercept : ndarray of shape (k,) or None
    gap : float
        ``lam Omega(w) + max_i <a_i, w> + <e_i, b> + c_i - D(alpha)`` with
        ``w = grad Omega*(-A' alpha / lam)``: no alpha is better by more.
    """
    if omega.is_quadratic and gram is None:
        gram = omega.conjugate_curvature(planes[0], planes)
    if gram is None:
        model = _SmoothDual(planes, offsets, omega, reg_lambda)
    else:
        model = _QuadraticDual(gram, offsets, reg_lambda)
    prox = None if balance is None else _Proximal(balance, center)
    return _maximize(model, prox, model.better_start(start), tolerance)


def balanced(alpha: Array, balance: Array) -> Array | None:
    """A point of the simplex near ``alpha`` with ``E' alpha = 0``; None if it finds none.

    The correction is the smallest one relative to alpha, on alpha's support. Weights that become
    negative are dropped, and the rest is corrected again.
    """
    scale = np.abs(balance).max(axis=0)
    rows = np.vstack([np.ones(len(alpha)), (balance / np.where(scale > 0.0, scale, 1.0)).T])
    target = np.eye(len(rows))[0]
    alpha = alpha.copy()
    for _ in range(_REPAIRS):
        support = np.flatnonzero(alpha)
        x = alpha[support]
        weighted = rows[:, support] * x
        missing = target - weighted.sum(axis=1)
        if np.abs(missing).max() <= LAST_PLACE:
            return alpha
        if not np.all(np.isfinite(weighted)):
            return None
        x += x * np.linalg.lstsq(weighted, missing, rcond=None)[0]
        alpha[support] = np.where(x > _NEGLIGIBLE, x, 0.0)
    return None


class _Point(NamedTuple):
    alpha: Array
    intercept: Array | None
    gap: float


def nearest_balanced(alpha: Array, balance: Array) -> Array | None:
    """The point of the simplex with ``E' alpha = 0`` that is nearest in the sum of differences.

    It solves a linear program, for cases in which :func:`balanced` fails: the columns of E are
    scaled by the planes that have weight, which may be tiny compared with others.
    """
    t = len(alpha)
    scale = np.maximum(alpha @ np.abs(balance), np.finfo(float).tiny)
    rows = np.vstack([(balance / scale).T, np.ones(t)])
    near = np.r_[-rows[:-1] @ alpha, 1.0 - alpha.sum()]
    found = linprog(  # the difference, upwards and downwards
        np.r_[np.ones(t), np.ones(t)],
        A_eq=np.hstack([rows, -rows]),
        b_eq=near,
        bounds=[(0.0, None)] * t + [(0.0, weight) for weight in alpha],
    )
    if found.status != 0:
        return None
    moved = np.maximum(alpha + found.x[:t] - found.x[t:], 0.0)
    return moved / moved.sum()


def _dot(x: Array, y: Array) -> float:
    """The product; after an overflow, infinity or NaN without a warning: the search steps back."""
    with np.errstate(over="ignore", invalid="ignore"):
        return float(x @ y)


class _QuadraticDual:
    """D without the intercepts' part, for a quadratic form Omega*: from products of the planes."""

    def __init__(self, gram: Array, offsets: Array, reg_lambda: float):
        self.offsets = offsets
        self._gram = gram / reg_lambda

    def better_start(self, alpha: Array) -> Array:
        return alpha.copy()

    def losses(self, alpha: Array) -> Array:
        """``<a_i, w> + c_i`` at the w of alpha: the gradient of D."""
        return self.offsets - self._gram @ alpha

    def among(self, alpha: Array, rise: Array) -> NDArray[np.intp]:
        return np.arange(len(alpha))

    def second_order(self, alpha, losses, among) -> tuple[Array, Array]:
        """Q and q of ``q' beta - beta' Q beta / 2``, D up to a constant."""
        return self._gram[np.ix_(among, among)], self.offsets[among]

    def search(self, alpha, direction, prox) -> float:
        """A full step: the model is D itself."""
        return 1.0


class _SmoothDual:
    """D without the intercepts' part, for an Omega* that is twice differentiable."""

    def __init__(self, planes: Array, offsets: Array, omega: Regularizer, reg_lambda: float):
        self.offsets = offsets
        self._planes, self._omega, self._lambda = planes, omega, reg_lambda

    def better_start(self, alpha: Array) -> Array:
        """Alpha, or the flattest plane if that is better: -D may be huge, or infinite."""
        flattest = np.eye(len(alpha))[np.abs(self._planes).max(axis=1).argmin()]
        return (flattest if self._value(flattest) > self._value(alpha) else alpha).copy()

    def _value(self, alpha: Array) -> float:
        conjugate = self._omega.conjugate(self._slope_of(alpha))
        return float(alpha @ self.offsets) - self._lambda * conjugate

    def losses(self, alpha: Array) -> Array:
        """``<a_i, w> + c_i`` at the w of alpha: the gradient of D."""
        w = self._omega.conjugate_gradient(self._slope_of(alpha))
        with np.errstate(over="ignore", invalid="ignore"):  # far out, where no step ends
            return self._planes @ w + self.offsets

    def among(self, alpha: Array, rise: Array) -> NDArray[np.intp]:
        """Planes with weight or violated; computing their curvature is the cost of a step."""
        return np.flatnonzero((rise > 0.0) | (alpha > 0.0))

    def second_order(self, alpha, losses, among) -> tuple[Array, Array]:
        """Q and q of ``q' beta - beta' Q beta / 2``, the second-order model of D at alpha.

        It is centered at the aggregate plane, which changes nothing on the simplex: Q alpha = 0.
        """
        centered = self._planes[among] - alpha @ self._planes
        Q = self._omega.conjugate_curvature(self._slope_of(alpha), centered) / self._lambda
        Q[np.diag_indices_from(Q)] += _DAMPING * max(0.0, float(losses.max()) - _dot(alpha, losses))
        return Q, losses[among]

    def search(self, alpha, direction, prox) -> float:
        """Step in [0, 1] at which the slope of D along the direction is small."""
        m, along = self._slope_of(alpha), self._slope_of(direction)
        constant, bend = -float(direction @ self.offsets), 0.0
        if prox is not None:
            constant, bend = constant + prox.slope(alpha, direction), prox.bend(direction)

        def slope(s):
            w = self._omega.conjugate_gradient(m + s * along)
            return self._lambda * _dot(along, w) + constant + s * bend, np.nan

        return min(1.0, search_zero(slope, precision=NEWTON_SLOPE_LEFT))

    def _slope_of(self, alpha: Array) -> Array:
        return (alpha @ self._planes) / -self._lambda


def _maximize(
    model: _SmoothDual | _QuadraticDual, prox: "_Proximal | None", alpha: Array, tolerance: float
) -> tuple[Array, Array | None, float]:
    losses = model.losses(alpha)
    best = point = _certified(model, prox, alpha, losses)
    idle = 0
    for _ in range(MOST_STEPS if np.all(np.isfinite(losses)) else 0):
        scale = float(alpha @ (np.abs(model.offsets) + np.abs(losses)))
        if best.gap <= max(tolerance, LAST_PLACE * scale) or idle >= _MOST_NEAR:
            break
        before = best.gap
        alpha, losses, ascent = _step(model, prox, alpha, losses, tolerance, point.gap)
        point = _certified(model, prox, alpha, losses)
        best = min(best, point, key=_gap)
        # Before that the gap may rise while D rises.
        if ascent <= _SETTLED * scale and (prox is None or prox.is_near(alpha)):
            for _ in range(_MOST_NEAR):
                on_face, end, end_losses = _face_step(model, prox, alpha, losses)
                next_point = _certified(model, on_face, end, end_losses)
                if not next_point.gap < _PROGRESS * best.gap:
                    break
                best = point = next_point
                prox, alpha, losses = on_face, end, end_losses
            idle = 0 if best.gap < _PROGRESS * before else idle + 1
    return best.alpha, best.intercept, best.gap


def _certified(model, prox, alpha, losses) -> _Point:
    """A balanced point: alpha, or one near it."""
    if prox is None:
        return _Point(alpha, None, _excess(losses, _dot(alpha, losses)))
    b = prox.intercept(alpha)
    point = balanced(alpha, prox.balance)
    if point is None:
        point = np.eye(len(alpha))[0]
    losses = model.losses(point)
    with np.errstate(over="ignore", invalid="ignore"):
        return _Point(point, b, _excess(losses + prox.balance @ b, _dot(point, losses)))


def _excess(values: Array, mean: float) -> float:
    """The largest value minus the mean; infinity, and so no certificate, after an overflow."""
    if not (np.isfinite(mean) and np.all(np.isfinite(values))):
        return np.inf
    return max(0.0, float(values.max() - mean))


def _gap(point: _Point) -> float:
    return point.gap


def _rise(prox, alpha, losses) -> Array:
    """What each plane offers above the average: the gradient of D minus a constant."""
    if prox is not None:
        losses = losses + prox.balance @ prox.intercept(alpha)
    return losses - float(alpha @ losses)


def _step(model, prox, alpha, losses, tolerance, gap) -> tuple[Array, Array, float]:
    """Step towards the maximizer of the second-order model of D on some of the planes.

    Returns the new alpha, its losses, and the ascent that the gradient promised.
    """
    rise = _rise(prox, alpha, losses)
    among = model.among(alpha, rise)
    Q, linear = model.second_order(alpha, losses, among)
    if prox is not None:
        # If the gap is mostly due to E' alpha, the rest is optimal.
        slow = float(rise.max()) < _QP_SHARE * gap
        size = float(np.median(np.abs(model.offsets) + np.abs(losses)))
        prox.set_stiffness(Q, among, size, slow)
        prox.add_to(Q, linear, among)
        rise = _rise(prox, alpha, losses)
    x = alpha[among] / alpha[among].sum()
    enough = max(_QP_SHARE * float(rise.max()), 0.5 * tolerance if prox is None else 0.0)
    end = np.zeros_like(alpha)
    end[among] = _maximize_quadratic(Q, linear, x, enough)
    direction = end - alpha
    end_losses = model.losses(end)
    # Slopes of -D as sums of differences: those of its two terms cancel near the optimum.
    first, last = -float(direction @ rise), -_dot(direction, end_losses - losses + rise)
    if prox is not None:
        last += prox.bend(direction)
    step = 1.0 if last <= NEWTON_SLOPE_LEFT * abs(first) else model.search(alpha, direction, prox)
    if step == 1.0:
        if prox is not None:
            prox.move(end)
        return end, end_losses, abs(first)
    alpha = alpha + step * direction
    return alpha, model.losses(alpha), abs(first)


def _maximize_quadratic(Q: Array, linear: Array, x: Array, tolerance: float) -> Array:
    """Maximizer of ``linear' x - x' Q x / 2`` over the simplex, starting from x."""
    size = len(x)
    tolerance = max(tolerance, LAST_PLACE * float((np.abs(Q) @ x).max()))
    for start in (x, np.eye(size)[x.argmax()]):
        end = start.copy()
        simplex_qp.solve(
            Q,
            linear,
            end,
            size,
            tolerance,
            MOST_STEPS,
            np.empty(size, dtype=np.int64),
            np.empty((size, size)),
            np.empty((3, size)),
        )
        # Its factor may overflow on a support with far more planes than dimensions.
        if np.all(np.isfinite(end)):
            return end
    return x


def _face_step(model, prox, alpha, losses) -> "tuple[_Proximal | None, Array, Array]":
    """Step to the maximizer of the second-order model on the face of alpha's support.

    It solves one linear system, which has less rounding than the quadratic program; E' alpha = 0 is
    among its rows. The ridges matter if planes, or columns of E, are dependent.
    """
    rise = _rise(prox, alpha, losses)
    face = np.flatnonzero(alpha)
    x, size = alpha[face], len(face)
    Q, _ = model.second_order(alpha, losses, face)
    rows = np.ones((1, size)) if prox is None else np.vstack([np.ones(size), prox.balance[face].T])
    diagonal = np.diag(Q)
    unit = 1.0 / np.sqrt(np.maximum(diagonal, LAST_PLACE * diagonal.max()) + TINY)
    norms = np.sqrt(np.sum((rows * unit) ** 2, axis=1))
    row_unit = 1.0 / np.where(norms > 0.0, norms, np.inf)
    border = rows * unit * row_unit[:, None]
    k = len(rows)
    system = np.zeros((size + k, size + k))
    system[:size, :size] = Q * unit[:, None] * unit
    system[size:, :size], system[:size, size:] = border, border.T
    system[np.diag_indices_from(system)] += LAST_PLACE * np.r_[np.ones(size), -np.ones(k)]
    missing = np.eye(k)[0] - rows @ x
    solution = dsysv(system, np.r_[rise[face] * unit, missing * row_unit])[2]
    if not np.all(np.isfinite(solution)):
        return prox, alpha, losses
    direction = solution[:size] * unit
    falling = direction < 0.0
    length = 1.0 / np.max(-direction[falling] / x[falling], initial=1.0)
    moved = x + length * direction
    end = np.zeros_like(alpha)
    end[face] = np.where(falling & (moved <= _NEGLIGIBLE), 0.0, moved)
    end /= end.sum()
    if prox is not None:
        prox = prox.moved_to(prox.intercept(alpha) - (solution[size:] * row_unit)[1:])
    return prox, end, model.losses(end)


class _Proximal:
    """``delta / 2 ||b - center||^2``; in D, ``center' E' alpha - ||E' alpha||^2 / (2 delta)``.

    Its stiffness, 1 / delta, follows the curvature of D, and is larger if ``E' alpha`` falls
    slowly.
    """

    def __init__(self, balance: Array, center: Array | None):
        self._largest = np.abs(balance).max(axis=0)
        # A sum of derivatives that is only rounding of zero is not a constraint.
        self.balance = np.where(np.abs(balance) > LAST_PLACE * self._largest, balance, 0.0)
        self._center = np.zeros(balance.shape[1]) if center is None else center
        self._imbalance = np.inf
        self._relative, self._unit, self._stiffness = _STIFFER, np.inf, 0.0

    def intercept(self, alpha: Array) -> Array:
        """The b that belongs to alpha."""
        imbalance = alpha @ self.balance
        rounding = np.abs(imbalance) <= LAST_PLACE * self._largest
        return self._center - self._stiffness * np.where(rounding, 0.0, imbalance)

    def set_stiffness(self, Q: Array, among: NDArray[np.intp], size: float, slow: bool) -> None:
        """Set it from the curvature of the rest of D, or the size of its terms where D is flat."""
        if slow and self._relative < _STIFFEST:
            self._relative *= _STIFFER
        longest = float(np.sum(self.balance[among] ** 2, axis=1).max())
        if longest > 0.0:
            # The smallest so far: far from the optimum both may be huge, and steps would go in
            # circles if the value went up and down.
            self._unit = min(self._unit, (float(np.median(np.diag(Q))) + size) / longest)
            self._stiffness = self._relative * self._unit

    def add_to(self, Q: Array, linear: Array, among: NDArray[np.intp]) -> None:
        """Add its share to the second-order model of D."""
        rows = self.balance[among]
        Q += self._stiffness * (rows @ rows.T)
        linear += rows @ self._center

    def slope(self, alpha: Array, direction: Array) -> float:
        """First derivative of its share of -D along the direction."""
        return -float((direction @ self.balance) @ self.intercept(alpha))

    def bend(self, direction: Array) -> float:
        """Second derivative of its share of -D along the direction."""
        return self._stiffness * float(np.sum((direction @ self.balance) ** 2))

    def move(self, alpha: Array) -> None:
        """Move the center to the b of alpha: a step of the proximal point method."""
        self._center = self.intercept(alpha)
        imbalance = float(np.abs(alpha @ self.balance).max())
        if imbalance > _HARDLY_LESS * self._imbalance and self._relative < _STIFF:
            self._relative *= _STIFFER
        self._imbalance = imbalance

    def moved_to(self, center: Array) -> "_Proximal":
        """A copy with another center."""
        other = copy(self)
        other._center = center
        return other

    def is_near(self, alpha: Array) -> bool:
        """Whether E' alpha is nearly zero."""
        return bool(np.all(np.abs(alpha @ self.balance) <= _NEARLY * self._largest))
