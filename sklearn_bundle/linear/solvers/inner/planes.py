"""The planes of a bundle method and its inner problem."""

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.jit.decorators import frozen
from sklearn_bundle.linear._compiled import design, simplex_qp
from sklearn_bundle.linear.regularizers import L2, Regularizer
from sklearn_bundle.linear.regularizers.base import WithIntercept
from sklearn_bundle.linear.solvers.inner import simplex_newton
from sklearn_bundle.linear.solvers.inner.master import Center, Inner, master_for

Array = NDArray[np.float64]

# Most steps of the quadratic program. It starts from the last solution, and any alpha proves a
# bound: stopping early makes the bound lower, but not false.
_QP_STEPS = 500


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
        pull: float = 1.0,
    ) -> Array:
        """The dual over the simplex, with the term of ``center`` if there is one."""
        t = self.size
        offsets, balance = self._offsets[:t], self._balance[:t] / np.sqrt(pull)
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
                _QP_STEPS,
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
