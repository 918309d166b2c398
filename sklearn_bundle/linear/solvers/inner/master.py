"""The inner problem of a bundle: ways to solve it, and the result."""

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.linear.regularizers import Regularizer
from sklearn_bundle.linear.solvers.inner import l1_master, simplex_newton, stiff_planes

Array = NDArray[np.float64]

# Times the tolerance, or the bound if that is more: a gap of the balanced problem that requires
# another way. Gaps left by rounding are far smaller.
_FAILED = 2.0
_SHARP = 0.1  # share of the outer gap that an exact solution of the inner problem may leave
_SHARP_ROUNDING = 1e-13  # the same, relative to its value: 500 times the precision
_FARTHEST = 2.0  # times the size of the model's intercepts: how far the optimum's may be


class Inner(NamedTuple):
    """The minimizer of a model, and the aggregate plane (A alpha, c' alpha) that proves the bound.

    ``w`` nearly minimizes ``reg_lambda Omega + model``, together with the intercept if that is a
    coordinate; no objective is below ``bound``.
    """

    w: Array
    intercept: Array | None
    bound: float
    plane: tuple[Array, float]


class Center(NamedTuple):
    """The best point so far: where to look for the next one if the model alone is ambiguous.

    ``pull`` weights moves of the intercept. ``step`` is the last one from the best point before
    towards the model's minimizer. No bound below ``least_bound`` is of interest.
    """

    w: Array
    intercept: Array | float | None
    objective: float
    least_bound: float = -np.inf
    pull: float = 1.0
    step: float = 1.0


class Planes(Protocol):
    """What a master needs of a bundle: its t planes, and a weight alpha for each.

    Attributes
    ----------
    omega : Regularizer
    planes : ndarray of shape (t, d)
        Their gradients a_i.
    offsets, alpha : ndarray of shape (t,)
        The c_i, and weights on the simplex, which the master sets.
    balance : ndarray of shape (t, n_free)
        Coefficients of an intercept that is a coordinate.
    gram : ndarray of shape (t, t) or None
        Products of the planes, if nothing else is needed.
    """

    omega: Regularizer
    planes: Array
    offsets: Array
    alpha: Array
    balance: Array
    gram: Array | None

    def point(self, alpha: Array, reg_lambda: float) -> tuple[Array, float, tuple[Array, float]]:
        """w, the value of the dual, and the aggregate plane."""
        ...

    def aggregate(self, alpha: Array) -> tuple[Array, float]:
        """The aggregate plane (A alpha, c' alpha)."""
        ...

    def maximize(
        self,
        alpha: Array,
        omega: Regularizer,
        reg_lambda: float,
        tolerance: float,
        center: Array | None = None,
        pull: float = 1.0,
    ) -> Array:
        """The dual over the simplex, from alpha; with a term of ``center`` if there is one."""
        ...


class Master:
    """The dual over the simplex, for an intercept that is not a coordinate."""

    def solve(self, bundle: Planes, reg_lambda: float, tolerance: float, center: Center) -> Inner:
        """The inner solution for a nearly optimal alpha, which becomes the bundle's alpha."""
        alpha = bundle.alpha
        alpha[:] = bundle.maximize(alpha, bundle.omega, reg_lambda, tolerance)
        w, bound, plane = bundle.point(alpha, reg_lambda)
        inner = Inner(w, None, bound, plane)
        if tolerance > 0.0 or not bundle.omega.is_euclidean:
            return inner
        return self._sharpened(bundle, inner, reg_lambda, center)

    def _sharpened(self, bundle: Planes, inner: Inner, reg_lambda: float, center: Center) -> Inner:
        """The same, with w and alpha computed in another way if the Gram matrix lost too much.

        Called when an exact solution is needed, which is when the last steps gained nothing.
        """
        planes, offsets, alpha = bundle.planes, bundle.offsets, bundle.alpha

        def value(w: Array) -> float:
            return reg_lambda * bundle.omega.value(w) + float((planes @ w + offsets).max())

        reached = value(inner.w)
        enough = max(_SHARP * (center.objective - inner.bound), _SHARP_ROUNDING * abs(reached))
        if reached - inner.bound <= enough:
            return inner
        other, w = stiff_planes.solve(planes, offsets, reg_lambda, alpha)
        _, bound, plane = bundle.point(other, reg_lambda)
        if bound > inner.bound:
            alpha[:] = other
            inner = inner._replace(bound=bound, plane=plane)
        return inner._replace(w=w) if value(w) < reached else inner


class BalancedMaster:
    """For an intercept that is a coordinate; a bound exists only with ``E alpha = 0``."""

    def solve(self, bundle: Planes, reg_lambda: float, tolerance: float, center: Center) -> Inner:
        """See :class:`Master`."""
        omega = bundle.omega
        near, b, value = _look_near(bundle, omega, reg_lambda, tolerance, center, center.pull)
        w, _, plane = bundle.point(near, reg_lambda)
        if value + tolerance < center.least_bound:
            return Inner(w, b, -np.inf, plane)
        alpha, intercept, gap = simplex_newton.solve(
            *(bundle.planes, bundle.offsets, bundle.balance, omega, reg_lambda),
            *(bundle.alpha, tolerance),
            gram=bundle.gram,
            center=center.intercept,
        )
        _, bound, plane = bundle.point(alpha, reg_lambda)
        bound -= _imbalance(bundle, intercept, alpha)
        if gap > _FAILED * max(tolerance, abs(bound)):
            moved = simplex_newton.nearest_balanced(near, bundle.balance)
            if moved is not None:
                _, value, of_moved = bundle.point(moved, reg_lambda)
                value -= _imbalance(bundle, b, moved)
                if value > bound:
                    alpha, bound, plane = moved, value, of_moved
        bundle.alpha[:] = alpha
        return Inner(w, b, bound, plane)


class L1Master:
    """For multiples of ``|w_j|``: solves near the best point, or exactly if that gains no more."""

    def __init__(self, n_free: int):
        self._n_free = n_free
        self._near: tuple[float, float] | None = None  # reg_lambda, and the weight of nearness

    def solve(self, bundle: Planes, reg_lambda: float, tolerance: float, center: Center) -> Inner:
        """See :class:`Master`."""
        planes, offsets, alpha = bundle.planes, bundle.offsets, bundle.alpha
        limits = reg_lambda * bundle.omega.lasso_form.thresholds
        if self._near is None or self._near[0] != reg_lambda:
            weight = l1_master.first_weight(planes[-1], limits, center.objective)
            self._near = reg_lambda, weight
        weight = self._near[1]
        args = planes, offsets, bundle.balance if self._n_free else None, limits
        w = b = intercept = None
        if self._n_free:
            omega = l1_master.NearL1(limits, weight, center.w)
            pull = reg_lambda * center.pull
            near, b, value = _look_near(bundle, omega, 1.0, tolerance, center, pull)
            w = omega.conjugate_gradient(-(near @ planes))
            if value + tolerance < center.least_bound:
                return Inner(w, b, -np.inf, bundle.aggregate(near))
            intercept = center.intercept
        found = None
        if tolerance == 0.0 and not self._n_free:
            found = l1_master.solve(*args, start=alpha)
        if found is None:
            places = {"center": center.w, "weight": weight, "intercept": intercept}
            found = l1_master.solve_near(*args, alpha, tolerance, **places)
        alpha[:], intercept = found[0], found[2]
        w = found[1] if w is None else w
        proof = l1_master.scaled(alpha, planes, limits)
        plane = bundle.aggregate(proof)
        bound = plane[1] - _imbalance(bundle, intercept, proof)
        costs = float(alpha @ offsets), bound
        self._near = (
            reg_lambda,
            l1_master.next_weight(weight, center.step, center.objective, *costs),
        )
        return Inner(w, b, bound, plane)


def master_for(omega: Regularizer, n_free: int) -> Master | BalancedMaster | L1Master:
    """The master for this regularizer and an intercept of ``n_free`` coordinates."""
    if omega.is_l1:
        return L1Master(n_free)
    return BalancedMaster() if n_free else Master()


def alone(
    bundle: Planes, index: int, reg_lambda: float, intercept: Array
) -> tuple[float, tuple[Array, float]]:
    """The bound of one balanced plane, scaled down for L1 if need be, and what proves it."""
    alpha = np.zeros(len(bundle.offsets))
    alpha[index] = 1.0
    if bundle.omega.is_l1:
        limits = reg_lambda * bundle.omega.lasso_form.thresholds
        alpha = l1_master.scaled(alpha, bundle.planes, limits)
    _, value, plane = bundle.point(alpha, reg_lambda)
    return value - _imbalance(bundle, intercept, alpha), plane


def _look_near(
    bundle: Planes, omega: Regularizer, lam: float, tolerance: float, center: Center, pull: float
) -> tuple[Array, Array, float]:
    """Alpha, b and the value of the model with ``lam pull/2 ||b - best b||^2`` added.

    The model alone is flat in many directions of b until it has enough planes.
    """
    b = center.intercept
    near = bundle.maximize(bundle.alpha.copy(), omega, lam, tolerance, b, pull)
    balance = near @ bundle.balance
    move = -balance / (lam * pull)
    aggregate, offset = bundle.aggregate(near)
    value = offset - lam * omega.conjugate(-aggregate / lam)
    return near, b + move, value + float(balance @ (b + 0.5 * move))


def _imbalance(bundle: Planes, intercept: Array | None, alpha: Array) -> float:
    """The effect of rounding in ``E alpha = 0`` at any intercept that is not far away."""
    if intercept is None:
        return 0.0
    off = np.abs(alpha @ bundle.balance).sum()
    return _FARTHEST * float(off) * (1.0 + float(np.abs(intercept).max()))
