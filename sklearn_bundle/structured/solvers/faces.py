"""Conjugate gradients on the outputs that have weight, of many examples together.

Steps on one example after the other are slow if many examples affect the same few weights: with few
features, or with some that all examples share. These steps see them all. They stay on the face of
the outputs that have weight now, and end where the face does. They replace the projected Newton
method that section 2.1 of Yu and Rousu recommends for master problems.
"""

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sklearn_bundle.structured._compiled.kept import Dual, Kept

Array = NDArray[np.float64]

_STEPS = 20  # most steps: then other outputs should have weight
_SETTLED = 1e-3  # of the first squared gradient: the face is solved well enough


class Face:
    """The outputs with weight, and the gradient of the dual on their face.

    Parameters
    ----------
    kept : Kept
    dual : Dual
        Steps update w, raw and ``counts``.
    examples : ndarray of int64
    """

    def __init__(self, kept: Kept, dual: Dual, examples: NDArray[np.int64]):
        self._kept, self._dual = kept, dual
        q = kept.q[examples]
        self._owner, self._place = np.nonzero(q > 0.0)
        self._at = examples[self._owner], self._place
        self._shape, self._q = q.shape, kept.q[self._at]
        self._of_examples = dual.weights[examples]
        self._weights = self._of_examples[self._owner]
        length = kept.length[self._at]
        ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(length)])
        places = np.arange(ends[-1]) + np.repeat(kept.begin[self._at] - ends[:-1], length)
        entries = kept.values[places], kept.indices[places].astype(np.int64), ends
        self._psi = sp.csr_array(entries, shape=(len(length), len(dual.w)))
        self._update_scores()

    def climb(self) -> None:
        """Take steps until the face is solved, or one of them leads to another face."""
        gradient = self._gradient()
        direction, norm = gradient, self._inner(gradient, gradient)
        enough = _SETTLED * norm
        for _ in range(_STEPS):
            inside = norm > enough and self._step(direction, self._inner(direction, gradient))
            if not inside:
                break
            last, before = gradient, norm
            gradient = self._gradient()
            norm = self._inner(gradient, gradient)
            turn = (norm - self._inner(gradient, last)) / before
            direction = gradient + max(turn, 0.0) * direction
        self._kept.q[self._at] = self._q

    def _step(self, direction: Array, slope: float) -> bool:
        """Take the best step along ``direction``; False if it leaves the face or gains nothing.

        If it would leave the face, take the best step towards the projection of its end instead.
        """
        change, bend = self._curvature(direction)
        if not (slope > 0.0 and bend > 0.0):
            return False
        target = self._q + (slope / bend) * direction
        if (target > 0.0).all():
            self._move(slope / bend, direction, change, slope, bend)
            return True
        direction = self._feasible(target) - self._q
        change, bend = self._curvature(direction)
        slope = self._inner(direction, self._gradient())
        if slope > 0.0 and bend > 0.0:
            self._move(min(slope / bend, 1.0), direction, change, slope, bend)
        return False

    def _feasible(self, target: Array) -> Array:
        """The projection onto the simplexes of the examples, or onto the cone."""
        if self._dual.squared:
            return np.maximum(target, 0.0)
        table = np.full(self._shape, -np.inf)
        table[self._owner, self._place] = target
        top = table.max(axis=1)  # a common shift changes no projection, and far ones lose no digits
        table, target = table - top[:, None], target - top[self._owner]
        falling = -np.sort(-table, axis=1)
        with np.errstate(invalid="ignore"):
            excess = np.cumsum(falling, axis=1) - 1.0
            excess /= np.arange(1, self._shape[1] + 1)
            count = np.maximum((falling > excess).sum(axis=1), 1)
        level = excess[np.arange(len(count)), count - 1]
        q = np.maximum(target - level[self._owner], 0.0)
        return q / self._totals(q)[self._owner]

    def _gradient(self) -> Array:
        """The gradient of the dual in q, over the weights of examples, along the face."""
        if self._dual.squared:
            return self._scores - self._totals(self._q)[self._owner]
        sizes = np.maximum(np.bincount(self._owner, minlength=self._shape[0]), 1)
        return self._scores - (self._totals(self._scores) / sizes)[self._owner]

    def _totals(self, values: Array) -> Array:
        """The sum for each example."""
        totals: Any = np.bincount(self._owner, values, self._shape[0])
        return totals

    def _inner(self, a: Array, b: Array) -> float:
        return float(np.sum(self._weights * a * b))

    def _curvature(self, direction: Array) -> tuple[Array, float]:
        """The change of w, and the dual's curvature, which a cone can only reduce."""
        dual = self._dual
        change = self._psi.T @ (dual.factor * self._weights * direction)
        bend = float(change @ change) / dual.factor
        if dual.squared:
            totals = self._totals(direction)
            bend += float(np.sum(self._of_examples * totals * totals))
        return change, bend

    def _move(
        self, step: float, direction: Array, change: Array, slope: float, bend: float
    ) -> None:
        dual = self._dual
        self._q = np.maximum(self._q + step * direction, 0.0)
        dual.counts[0] += step * slope - 0.5 * step * step * bend
        np.add(dual.raw, step * change, out=dual.raw)
        if len(dual.cone):
            dual.w[:] = np.where(dual.cone, np.maximum(dual.raw, 0.0), dual.raw)
        self._update_scores()

    def _update_scores(self) -> None:
        """Compute the scores at w; a step has read as many entries again."""
        self._scores = self._kept.loss[self._at] - self._psi @ self._dual.w
        self._dual.counts[1] += 2 * self._psi.nnz
