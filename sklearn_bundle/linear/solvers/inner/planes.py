"""The planes of a bundle method, its inner problem, and ways to solve it."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.limits import MOST_STEPS
from sklearn_bundle.jit.decorators import frozen
from sklearn_bundle.linear._compiled import design, simplex_qp
from sklearn_bundle.linear.problems.balance import FARTHEST
from sklearn_bundle.linear.regularizers import L2, Regularizer
from sklearn_bundle.linear.regularizers.base import WithIntercept
from sklearn_bundle.linear.solvers.inner import l1_master, simplex_newton, stiff_planes

Array = NDArray[np.float64]

QP_SHARE = 0.1  # of the outer gap, to which the inner problem is solved: more is wasted
# Times the tolerance, or the bound if that is more: a gap of the balanced problem that requires
# another way. Gaps left by rounding are far smaller.
_FAILED = 2.0
_SHARP_ROUNDING = 1e-13  # of its value may an exact solution leave: 500 times the precision


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
    """The best point so far, near which the next one is sought if the model alone is ambiguous.

    ``proximal`` weights moves of the intercept. ``step`` is the last one from the best point before
    towards the model's minimizer. No bound below ``least_bound`` is of interest.
    """

    w: Array
    intercept: Array | None
    objective: float
    least_bound: float = -np.inf
    proximal: float = 1.0
    step: float = 1.0


class Bundle:
    """Planes ``R(w) >= <a_i, w> + c_i`` and the inner problem (Theorem 2 of the BMRM paper)

        maximize  -reg_lambda Omega*(-A alpha / reg_lambda) + c' alpha   over the simplex,

    whose value is a lower bound D of the objective for every alpha. Planes do not depend on
    reg_lambda. The best bound is kept with the aggregate plane (A alpha, c' alpha) that proves it.

    If an intercept is a coordinate, ``R(w, b) >= <a_i, w> + <e_i, b> + c_i`` and alpha has to
    satisfy ``E alpha = 0``. The plane 0, which lies below every loss, is then among the planes, so
    that such an alpha exists. It also bounds the linear program of an L1 norm, and w if another
    plane alone would send it to the exponential of a large number.
    """

    def __init__(
        self,
        dimension: int,
        max_size: int | None = None,
        omega: Regularizer | None = None,
        n_free: int = 0,
    ):
        self.size = 0
        self.max_size = max_size
        self.omega = L2() if omega is None else omega
        self.multiplications = 0.0  # approximate, in quadratic programs
        self._n_free = n_free
        self._master = master_for(self.omega, n_free)
        self._planes = np.empty((0, dimension))
        self._offsets, self._alpha = np.empty((2, 0))
        self._balance = np.empty((0, n_free))
        self._gram = np.empty((0, 0))
        self._reserve(8)
        self.anchored = n_free > 0 or not self.omega.is_quadratic
        if self.anchored:
            self.add(np.zeros(dimension), 0.0, np.zeros(n_free))

    @property
    def is_empty(self) -> bool:
        """Whether no plane has been cut yet."""
        return self.size == self.anchored

    def add(self, gradient: Array, offset: float, balance: Array | None = None) -> None:
        """Append a plane; at ``max_size`` planes make room first, without losing the bound."""
        if self.max_size is not None and self.size >= self.max_size + self.anchored:
            self._make_room()
        if self.size == len(self._offsets):
            self._reserve(2 * self.size)
        t = self.size
        self._planes[t] = gradient
        self._offsets[t] = offset
        self._balance[t] = 0.0 if balance is None else balance
        self._alpha[t] = 1.0 if t == 0 else 0.0
        self.size = t + 1
        self._fill_gram(t)

    @property
    def planes(self) -> Array:
        """The a_i, shape (size, p)."""
        return self._planes[: self.size]

    @property
    def offsets(self) -> Array:
        """The c_i."""
        return self._offsets[: self.size]

    @property
    def balance(self) -> Array:
        """The e_i, shape (size, n_free)."""
        return self._balance[: self.size]

    @property
    def alpha(self) -> Array:
        """The last solution; 0 for newer planes."""
        return self._alpha[: self.size]

    @property
    def gram(self) -> Array | None:
        """Products of the planes if these are sufficient, else None."""
        return self._gram[: self.size, : self.size] if self.omega.is_quadratic else None

    def solve(self, reg_lambda: float, tolerance: float, center: Center) -> Inner:
        """The inner solution for a nearly optimal alpha."""
        return self._master.solve(self, reg_lambda, tolerance, center)

    def maximize(
        self,
        alpha: Array,
        omega: Regularizer,
        reg_lambda: float,
        tolerance: float,
        center: Array | None = None,
        proximal: float = 1.0,
    ) -> Array:
        """Maximize the dual over the simplex from alpha, with the term of ``center`` if given."""
        t = self.size
        offsets, balance = self._offsets[:t], self._balance[:t] / np.sqrt(proximal)
        if center is not None:
            offsets = offsets + self._balance[:t] @ center
        if self.omega.is_quadratic:
            gram = self._gram
            if center is not None:
                gram = gram[:t, :t] + balance @ balance.T
            _, steps = simplex_qp.solve(
                gram,
                reg_lambda * offsets,  # all times reg_lambda: no division of the Gram matrix
                alpha,
                t,
                reg_lambda * tolerance,
                MOST_STEPS,  # stopping early makes the bound lower, but not false
                self._support,
                self._factor,
                self._work,
            )
            m = float(np.count_nonzero(alpha))
            self.multiplications += steps * m * (t + m * m / 6.0)  # gradient, Cholesky factor
            return alpha
        planes = self._planes[:t]
        if center is not None:
            omega = WithIntercept(omega, self._n_free)
            planes = np.hstack([planes, balance])
        args = planes, offsets, None, omega, reg_lambda, alpha, tolerance
        return simplex_newton.solve(*args)[0]

    def point(self, alpha: Array, reg_lambda: float) -> tuple[Array, float, tuple[Array, float]]:
        """w, the value of the dual, and the aggregate plane."""
        plane = self.aggregate(alpha)
        m = -plane[0] / reg_lambda
        value = plane[1] - reg_lambda * self.omega.conjugate(m)
        return self.omega.conjugate_gradient(m), value, plane

    def aggregate(self, alpha: Array) -> tuple[Array, float]:
        t = self.size
        aggregate = np.empty(self._planes.shape[1])
        design.dense_gradient(frozen(self._planes), alpha, True, 0, t, aggregate)
        return aggregate, float(np.sum(alpha[:t] * self._offsets[:t]))

    def resize(self, max_size: int | None) -> None:
        """Set the largest number of planes, merging planes if there are too many."""
        self.max_size = max_size
        while max_size is not None and self.size > max_size + self.anchored:
            self._make_room()

    def _make_room(self) -> None:
        """Drop the oldest plane without weight, or merge the two oldest into their average."""
        t, first = self.size, int(self.anchored)
        arrays = self._planes, self._offsets, self._balance
        idle = np.flatnonzero(self._alpha[first:t] == 0.0)
        if len(idle):
            drop = first + idle[0]
        else:
            drop = first + 1
            pair = self._alpha[first : drop + 1]
            for array in arrays:
                array[first] += pair[1] / pair.sum() * (array[drop] - array[first])
            self._alpha[first] += self._alpha[drop]
        for array in (*arrays, self._alpha, self._gram, self._gram.T):
            array[drop : t - 1] = array[drop + 1 : t].copy()
        self.size = t - 1
        if not len(idle):
            self._fill_gram(first)

    def _fill_gram(self, row: int) -> None:
        if not self.omega.is_quadratic:
            return
        products = np.empty(self.size)
        image = self._image(self._planes[row])
        design.dense_scores(frozen(self._planes), image, 0, self.size, products)
        self._gram[row, : self.size] = products
        self._gram[: self.size, row] = products

    def _image(self, plane: Array) -> Array:
        """The vector whose inner products with the planes are their Gram entries with a plane."""
        return np.ascontiguousarray(self.omega.conjugate_gradient(plane))

    def _reserve(self, capacity: int) -> None:
        t = self.size
        for name in ("_planes", "_offsets", "_alpha", "_balance"):
            old = getattr(self, name)
            new = np.empty((capacity, *old.shape[1:]))
            new[:t] = old[:t]
            setattr(self, name, new)
        side = capacity if self.omega.is_quadratic else 0
        gram = np.empty((side, side))
        if self.omega.is_quadratic:
            gram[:t, :t] = self._gram[:t, :t]
        self._gram = gram
        self._support = np.empty(side, dtype=np.int64)
        self._factor = np.empty((side, side))
        self._work = np.empty((3, side))


class Master:
    """The dual over the simplex, for an intercept that is not a coordinate."""

    def solve(self, bundle: Bundle, reg_lambda: float, tolerance: float, center: Center) -> Inner:
        """The inner solution for a nearly optimal alpha, which becomes the bundle's alpha."""
        alpha = bundle.alpha
        alpha[:] = bundle.maximize(alpha, bundle.omega, reg_lambda, tolerance)
        w, bound, plane = bundle.point(alpha, reg_lambda)
        inner = Inner(w, None, bound, plane)
        if tolerance > 0.0 or not bundle.omega.is_euclidean:
            return inner
        return self._sharpened(bundle, inner, reg_lambda, center)

    def _sharpened(self, bundle: Bundle, inner: Inner, reg_lambda: float, center: Center) -> Inner:
        """Compute w and alpha without the Gram matrix where that has lost too many digits.

        Called when an exact solution is needed, which is when the last steps gained nothing.
        """
        planes, offsets, alpha = bundle.planes, bundle.offsets, bundle.alpha

        def value(w: Array) -> float:
            return reg_lambda * bundle.omega.value(w) + float((planes @ w + offsets).max())

        reached = value(inner.w)
        enough = max(QP_SHARE * (center.objective - inner.bound), _SHARP_ROUNDING * abs(reached))
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

    def solve(self, bundle: Bundle, reg_lambda: float, tolerance: float, center: Center) -> Inner:
        """Solve with a proximal term for the point, and with ``E alpha = 0`` for the bound."""
        omega = bundle.omega
        near, b, value = _solve_near(bundle, omega, reg_lambda, tolerance, center, center.proximal)
        w, _, plane = bundle.point(near, reg_lambda)
        if value + tolerance < center.least_bound:
            return Inner(w, b, -np.inf, plane)
        alpha, intercept, gap = simplex_newton.solve(
            bundle.planes,
            bundle.offsets,
            bundle.balance,
            omega,
            reg_lambda,
            bundle.alpha,
            tolerance,
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

    def solve(self, bundle: Bundle, reg_lambda: float, tolerance: float, center: Center) -> Inner:
        """Solve near the best point, or exactly if nothing else gains more."""
        planes, offsets, alpha = bundle.planes, bundle.offsets, bundle.alpha
        limits = l1_limits(bundle.omega, reg_lambda)
        if self._near is None or self._near[0] != reg_lambda:
            weight = l1_master.first_weight(planes[-1], limits, center.objective)
            self._near = reg_lambda, weight
        weight = self._near[1]
        w = b = intercept = None
        if self._n_free:
            omega = l1_master.NearL1(limits, weight, center.w)
            proximal = reg_lambda * center.proximal
            near, b, value = _solve_near(bundle, omega, 1.0, tolerance, center, proximal)
            w = omega.conjugate_gradient(-(near @ planes))
            if value + tolerance < center.least_bound:
                return Inner(w, b, -np.inf, bundle.aggregate(near))
            intercept = center.intercept
        exact = None
        if tolerance == 0.0 and not self._n_free:
            exact = l1_master.solve(planes, offsets, limits, alpha)
        if exact is not None:
            alpha[:], w = exact
        else:
            args = planes, offsets, bundle.balance if self._n_free else None, limits, alpha
            places = {"center": center.w, "weight": weight, "intercept": intercept}
            alpha[:], of_near, intercept = l1_master.solve_near(*args, tolerance, **places)
            w = of_near if w is None else w
        dual_certificate = l1_master.scaled(alpha, planes, limits)
        plane = bundle.aggregate(dual_certificate)
        bound = plane[1] - _imbalance(bundle, intercept, dual_certificate)
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


def l1_limits(omega: Regularizer, reg_lambda: float) -> l1_master.Limits:
    """What multiplies the ``|w_j|`` in ``reg_lambda Omega(w)``."""
    form = omega.lasso_form
    assert form is not None
    return reg_lambda * form.thresholds


def bound_of_plane(
    bundle: Bundle, index: int, reg_lambda: float, intercept: Array
) -> tuple[float, tuple[Array, float]]:
    """The bound of one balanced plane, scaled down for L1 if need be, and what proves it."""
    alpha = np.zeros(len(bundle.offsets))
    alpha[index] = 1.0
    if bundle.omega.is_l1:
        limits = l1_limits(bundle.omega, reg_lambda)
        alpha = l1_master.scaled(alpha, bundle.planes, limits)
    _, value, plane = bundle.point(alpha, reg_lambda)
    return value - _imbalance(bundle, intercept, alpha), plane


def _solve_near(
    bundle: Bundle,
    omega: Regularizer,
    lam: float,
    tolerance: float,
    center: Center,
    proximal: float,
) -> tuple[Array, Array, float]:
    """Alpha, b and the value of the model with ``lam proximal/2 ||b - best b||^2`` added.

    The model alone is flat in many directions of b until it has enough planes.
    """
    b = center.intercept
    assert b is not None  # it is a coordinate
    near = bundle.maximize(bundle.alpha.copy(), omega, lam, tolerance, b, proximal)
    balance = near @ bundle.balance
    move = -balance / (lam * proximal)
    aggregate, offset = bundle.aggregate(near)
    value = offset - lam * omega.conjugate(-aggregate / lam)
    return near, b + move, value + float(balance @ (b + 0.5 * move))


def _imbalance(bundle: Bundle, intercept: Array | None, alpha: Array) -> float:
    """The effect of rounding in ``E alpha = 0`` at any intercept that is not far away."""
    if intercept is None:
        return 0.0
    off = np.abs(alpha @ bundle.balance).sum()
    return FARTHEST * float(off) * (1.0 + float(np.abs(intercept).max()))
