"""The planes of a bundle method and its inner problem."""

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle._compiled import design, simplex_qp

Array = NDArray[np.float64]

_QP_STEPS = 500


class Bundle:
    """Planes ``R(w) >= <a_i, w> + c_i``, their Gram matrix, and the inner problem (Corollary 3)

        maximise  -||A alpha||^2 / (2 reg_lambda) + c' alpha   over the simplex,

    whose value is a lower bound D of the objective for every alpha. Planes do not depend on
    reg_lambda. The best bound is kept with the aggregate plane (A alpha, c' alpha) that proves it.
    """

    def __init__(self, n_features: int, max_size: int | None = None):
        self.size = 0
        self.max_size = max_size
        self._planes = np.empty((0, n_features))
        self._offsets = np.empty(0)
        self._gram = np.empty((0, 0))
        self._alpha = np.empty(0)
        self._reserve(8)

    def add(self, gradient: Array, offset: float) -> None:
        """Append a plane; at ``max_size`` planes make room first, without losing the bound."""
        if self.size == self.max_size:
            self._make_room()
        if self.size == len(self._offsets):
            self._reserve(2 * self.size)
        t = self.size
        self._planes[t] = gradient
        self._offsets[t] = offset
        self._alpha[t] = 1.0 if t == 0 else 0.0
        self.size = t + 1
        self._fill_gram(t)

    def solve(self, reg_lambda: float, tolerance: float) -> tuple[Array, float]:
        """Aggregate plane (A alpha, c' alpha) at a nearly optimal alpha."""
        t = self.size
        simplex_qp.solve(
            self._gram,
            reg_lambda * self._offsets[:t],  # all times reg_lambda: the Gram matrix is not divided
            self._alpha,
            t,
            reg_lambda * tolerance,
            _QP_STEPS,
            self._support,
            self._factor,
            self._work,
        )
        aggregate = np.empty(self._planes.shape[1])
        design.dense_gradient(self._planes, self._alpha, True, 0, t, aggregate)
        return aggregate, float(np.sum(self._alpha[:t] * self._offsets[:t]))

    def resize(self, max_size: int | None) -> None:
        """Set the largest number of planes, merging those that are too many."""
        self.max_size = max_size
        while max_size is not None and self.size > max_size:
            self._make_room()

    def _make_room(self) -> None:
        """Drop the oldest plane without weight, or merge the two oldest into their average."""
        t = self.size
        idle = np.flatnonzero(self._alpha[:t] == 0.0)
        if len(idle):
            drop = idle[0]
        else:
            drop, share = 1, self._alpha[1] / (self._alpha[0] + self._alpha[1])
            self._planes[0] += share * (self._planes[1] - self._planes[0])
            self._offsets[0] += share * (self._offsets[1] - self._offsets[0])
            self._alpha[0] += self._alpha[1]
        for array in (self._planes, self._offsets, self._alpha, self._gram, self._gram.T):
            array[drop : t - 1] = array[drop + 1 : t].copy()
        self.size = t - 1
        if not len(idle):
            self._fill_gram(0)

    def _fill_gram(self, row: int) -> None:
        products = np.empty(self.size)
        design.dense_scores(self._planes, self._planes[row], 0, self.size, products)
        self._gram[row, : self.size] = products
        self._gram[: self.size, row] = products

    def _reserve(self, capacity: int) -> None:
        t, d = self.size, self._planes.shape[1]
        planes, offsets, alpha = np.empty((capacity, d)), np.empty(capacity), np.empty(capacity)
        gram = np.empty((capacity, capacity))
        planes[:t], offsets[:t], alpha[:t] = self._planes[:t], self._offsets[:t], self._alpha[:t]
        gram[:t, :t] = self._gram[:t, :t]
        self._planes, self._offsets, self._alpha, self._gram = planes, offsets, alpha, gram
        self._support = np.empty(capacity, dtype=np.int64)
        self._factor = np.empty((capacity, capacity))
        self._work = np.empty((3, capacity))
