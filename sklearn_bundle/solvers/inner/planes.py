"""The planes of a bundle method and its inner problem."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle._compiled import design, simplex_qp
from sklearn_bundle._jit import frozen
from sklearn_bundle.regularizers import L2, Regularizer
from sklearn_bundle.regularizers.base import WithIntercept
from sklearn_bundle.solvers.inner import l1_master, simplex_newton, stiff_planes

Array = NDArray[np.float64]

_QP_STEPS = 500
_FAILED = 2.0  # times the tolerance: a gap of the balanced problem that calls for another way
_SHARP = 0.1  # share of the gap that an exact solution of the inner problem may leave
_SHARP_ROUNDING = 1e-13  # the same, relative to its value
_FARTHEST = 2.0  # times the size of the model's intercepts: how far the optimum's may be


class Inner(NamedTuple):
    """The minimiser of a model, and the aggregate plane (A alpha, c' alpha) that proves the bound.

    ``w`` minimises ``reg_lambda Omega + model`` nearly, with the intercept where that is a
    coordinate; no objective is below ``bound``.
    """

    w: Array
    intercept: Array | None
    bound: float
    plane: tuple[Array, float]


class Best(NamedTuple):
    """The best point so far: where to look for the next one if the model alone does not tell.

    ``pull`` weighs moves of the intercept, ``step`` is the last one from the best point before
    towards what the model gave. No bound below ``least_bound`` is of interest.
    """

    w: Array
    intercept: Array | float | None
    objective: float
    least_bound: float = -np.inf
    pull: float = 1.0
    step: float = 1.0


class Bundle:
    """Planes ``R(w) >= <a_i, w> + c_i`` and the inner problem (Theorem 2 of the BMRM paper)

        maximise  -reg_lambda Omega*(-A alpha / reg_lambda) + c' alpha   over the simplex,

    whose value is a lower bound D of the objective for every alpha. Planes do not depend on
    reg_lambda. The best bound is kept with the aggregate plane (A alpha, c' alpha) that proves it.

    Where an intercept is a coordinate, ``R(w, b) >= <a_i, w> + <e_i, b> + c_i`` and alpha has to
    fulfil ``E alpha = 0``. The plane 0, which lies below every loss, is then among the planes, so
    that there is such an alpha. It also bounds the linear programme of an L1 norm, and w where
    another plane alone would send it to the exponential of a large number.
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
        self._n_free = n_free
        self._gram_known = self.omega.inner == "gram"
        self._planes = np.empty((0, dimension))
        self._offsets, self._alpha = np.empty((2, 0))
        self._balance = np.empty((0, n_free))
        self._gram = np.empty((0, 0))
        self._reserve(8)
        self._near: tuple[float, float] | None = None  # reg_lambda, and the weight of nearness
        self._anchored = n_free > 0 or self.omega.inner != "gram"
        if self._anchored:
            self.add(np.zeros(dimension), 0.0, np.zeros(n_free))

    @property
    def is_empty(self) -> bool:
        """Whether no plane has been cut yet."""
        return self.size == self._anchored

    def add(self, gradient: Array, offset: float, balance: Array | None = None) -> None:
        """Append a plane; at ``max_size`` planes make room first, without losing the bound."""
        if self.max_size is not None and self.size >= self.max_size + self._anchored:
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

    def solve(self, reg_lambda: float, tolerance: float, best: Best) -> Inner:
        """A nearly optimal alpha, as what it means."""
        if self.omega.inner == "lp":
            return self._solve_linear(reg_lambda, tolerance, best)
        if self._n_free:
            return self._solve_balanced(reg_lambda, tolerance, best)
        alpha = self._alpha[: self.size]
        alpha[:] = self._maximise(alpha, self.omega, reg_lambda, tolerance)
        w, bound, plane = self._point(alpha, reg_lambda)
        inner = Inner(w, None, bound, plane)
        if tolerance > 0.0 or type(self.omega) is not L2:
            return inner
        return self._sharpened(inner, reg_lambda, best)

    def _sharpened(self, inner: Inner, reg_lambda: float, best: Best) -> Inner:
        """The same, with w and alpha by another way where the Gram matrix has lost too much.

        Asked when an exact solution is wanted, which is when the last steps gained nothing.
        """
        t = self.size
        planes, offsets, alpha = self._planes[:t], self._offsets[:t], self._alpha[:t]

        def value(w: Array) -> float:
            return reg_lambda * self.omega.value(w) + float((planes @ w + offsets).max())

        reached = value(inner.w)
        enough = max(_SHARP * (best.objective - inner.bound), _SHARP_ROUNDING * abs(reached))
        if reached - inner.bound <= enough:
            return inner
        other, w = stiff_planes.solve(planes, offsets, reg_lambda, alpha)
        _, bound, plane = self._point(other, reg_lambda)
        if bound > inner.bound:
            alpha[:] = other
            inner = inner._replace(bound=bound, plane=plane)
        return inner._replace(w=w) if value(w) < reached else inner

    def _solve_balanced(self, reg_lambda: float, tolerance: float, best: Best) -> Inner:
        """With an intercept as a coordinate; the bound is one for ``E alpha = 0``, or not there."""
        t, omega = self.size, self.omega
        near, b, value = self._look_near(omega, reg_lambda, tolerance, best, best.pull)
        w, _, plane = self._point(near, reg_lambda)
        if value + tolerance < best.least_bound:
            return Inner(w, b, -np.inf, plane)
        alpha, intercept, gap = simplex_newton.solve(
            *(self._planes[:t], self._offsets[:t], self._balance[:t], omega, reg_lambda),
            *(self._alpha[:t], tolerance),
            gram=self._gram[:t, :t] if self._gram_known else None,
            centre=best.intercept,
        )
        _, bound, plane = self._point(alpha, reg_lambda)
        bound -= self._imbalance(intercept, alpha)
        if gap > _FAILED * max(tolerance, abs(bound)):
            moved = simplex_newton.nearest_balanced(near, self._balance[:t])
            if moved is not None:
                _, value, of_moved = self._point(moved, reg_lambda)
                value -= self._imbalance(b, moved)
                if value > bound:
                    alpha, bound, plane = moved, value, of_moved
        self._alpha[:t] = alpha
        return Inner(w, b, bound, plane)

    def _solve_linear(self, reg_lambda: float, tolerance: float, best: Best) -> Inner:
        """With the L1 norm: near the best point, or exactly where that brings nothing any more."""
        t = self.size
        planes, offsets, alpha = self._planes[:t], self._offsets[:t], self._alpha[:t]
        if self._near is None or self._near[0] != reg_lambda:
            weight = l1_master.first_weight(planes[-1], reg_lambda, best.objective)
            self._near = reg_lambda, weight
        weight = self._near[1]
        args = planes, offsets, self._balance[:t] if self._n_free else None, reg_lambda
        w = b = intercept = None
        if self._n_free:
            omega = l1_master.NearL1(reg_lambda, weight, best.w)
            pull = reg_lambda * best.pull
            near, b, value = self._look_near(omega, 1.0, tolerance, best, pull)
            w = omega.conjugate_gradient(-(near @ planes))
            if value + tolerance < best.least_bound:
                return Inner(w, b, -np.inf, self._aggregate(near))
            intercept = best.intercept
        found = None
        if tolerance == 0.0 and not self._n_free:
            found = l1_master.solve(*args, start=alpha)
        if found is None:
            places = {"centre": best.w, "weight": weight, "intercept": intercept}
            found = l1_master.solve_near(*args, alpha, tolerance, **places)
        alpha[:], intercept = found[0], found[2]
        w = found[1] if w is None else w
        proof = l1_master.scaled(alpha, planes, reg_lambda)
        plane = self._aggregate(proof)
        bound = plane[1] - self._imbalance(intercept, proof)
        costs = float(alpha @ offsets), bound
        self._near = (
            reg_lambda,
            l1_master.next_weight(weight, best.step, best.objective, *costs),
        )
        return Inner(w, b, bound, plane)

    def _look_near(
        self, omega: Regularizer, lam: float, tolerance: float, best: Best, pull: float
    ) -> tuple[Array, Array, float]:
        """Alpha, b and the value of the model with ``lam pull/2 ||b - best b||^2`` added.

        The model alone is flat in many directions of b until it has enough planes.
        """
        t, centre = self.size, best.intercept
        near = self._maximise(self._alpha[:t].copy(), omega, lam, tolerance, centre, pull)
        balance = near @ self._balance[:t]
        move = -balance / (lam * pull)
        aggregate, offset = self._aggregate(near)
        value = offset - lam * omega.conjugate(-aggregate / lam)
        return near, centre + move, value + float(balance @ (centre + 0.5 * move))

    def _maximise(
        self,
        alpha: Array,
        omega: Regularizer,
        reg_lambda: float,
        tolerance: float,
        centre: Array | None = None,
        pull: float = 1.0,
    ) -> Array:
        """The dual over the simplex, with the term of ``centre`` if there is one."""
        t = self.size
        offsets, balance = self._offsets[:t], self._balance[:t] / np.sqrt(pull)
        if centre is not None:
            offsets = offsets + self._balance[:t] @ centre
        if self._gram_known:
            gram = self._gram
            if centre is not None:
                gram = gram[:t, :t] + balance @ balance.T
            simplex_qp.solve(
                gram,
                reg_lambda * offsets,  # all times reg_lambda: the Gram matrix is not divided
                alpha,
                t,
                reg_lambda * tolerance,
                _QP_STEPS,
                self._support,
                self._factor,
                self._work,
            )
            return alpha
        planes = self._planes[:t]
        if centre is not None:
            omega = WithIntercept(omega, self._n_free)
            planes = np.hstack([planes, balance])
        args = planes, offsets, None, omega, reg_lambda, alpha, tolerance
        return simplex_newton.solve(*args)[0]

    def _point(self, alpha: Array, reg_lambda: float) -> tuple[Array, float, tuple[Array, float]]:
        """w, the value of the dual, and the aggregate plane."""
        plane = self._aggregate(alpha)
        m = -plane[0] / reg_lambda
        value = plane[1] - reg_lambda * self.omega.conjugate(m)
        return self.omega.conjugate_gradient(m), value, plane

    def _aggregate(self, alpha: Array) -> tuple[Array, float]:
        t = self.size
        aggregate = np.empty(self._planes.shape[1])
        design.dense_gradient(frozen(self._planes), alpha, True, 0, t, aggregate)
        return aggregate, float(np.sum(alpha[:t] * self._offsets[:t]))

    def _imbalance(self, intercept: Array | None, alpha: Array) -> float:
        """What rounding in ``E alpha = 0`` may mean at any intercept that is not far away."""
        if intercept is None:
            return 0.0
        off = np.abs(alpha @ self._balance[: self.size]).sum()
        return _FARTHEST * float(off) * (1.0 + float(np.abs(intercept).max()))

    def resize(self, max_size: int | None) -> None:
        """Set the largest number of planes, merging those that are too many."""
        self.max_size = max_size
        while max_size is not None and self.size > max_size + self._anchored:
            self._make_room()

    def _make_room(self) -> None:
        """Drop the oldest plane without weight, or merge the two oldest into their average."""
        t, first = self.size, int(self._anchored)
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
        if not self._gram_known:
            return
        products = np.empty(self.size)
        image = self._image(self._planes[row])
        design.dense_scores(frozen(self._planes), image, 0, self.size, products)
        self._gram[row, : self.size] = products
        self._gram[: self.size, row] = products

    def _image(self, plane: Array) -> Array:
        """What the planes' products with a plane are products with, numbers by numbers."""
        return np.ascontiguousarray(self.omega.conjugate_gradient(plane))

    def _reserve(self, capacity: int) -> None:
        t = self.size
        for name in ("_planes", "_offsets", "_alpha", "_balance"):
            old = getattr(self, name)
            new = np.empty((capacity, *old.shape[1:]))
            new[:t] = old[:t]
            setattr(self, name, new)
        side = capacity if self._gram_known else 0
        gram = np.empty((side, side))
        if self._gram_known:
            gram[:t, :t] = self._gram[:t, :t]
        self._gram = gram
        self._support = np.empty(side, dtype=np.int64)
        self._factor = np.empty((side, side))
        self._work = np.empty((3, side))
