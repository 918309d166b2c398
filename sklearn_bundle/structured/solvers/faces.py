"""Conjugate gradients on the outputs that have weight, of many blocks together.

Steps on one block after the other are slow if many blocks affect the same few weights: with few
features, or with some that all examples share. These steps see them all. They stay on the face of
the outputs that have weight now, and end where the face does. They replace the projected Newton
method that section 2.1 of Yu and Rousu recommends for master problems.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.structured._compiled import block_steps
from sklearn_bundle.structured._compiled.block_steps import Dual
from sklearn_bundle.structured._compiled.outputs import Outputs

Array = NDArray[np.float64]

_STEPS = 20  # most steps: then other outputs should have weight
_SETTLED = 1e-3  # of the first squared gradient: the face is solved well enough


def slots_of(o: Outputs, blocks: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The slots of these blocks' outputs, and the place in ``blocks`` of each one's block."""
    counts = o.count[blocks]
    owner = np.repeat(np.arange(len(blocks)), counts)
    first = o.at[blocks] - (np.cumsum(counts) - counts)
    return first[owner] + np.arange(len(owner)), owner


class Face:
    """The outputs with weight, and the gradient of the dual on their face.

    Parameters
    ----------
    outputs : Outputs
    dual : Dual
        Steps update w, raw and ``counts``.
    blocks : ndarray of int64
    """

    def __init__(self, outputs: Outputs, dual: Dual, blocks: NDArray[np.int64]):
        slots, owner = slots_of(outputs, blocks)
        used = outputs.q[slots] > 0.0
        self._outputs, self._dual = outputs, dual
        self._slots, self._owner = slots[used], owner[used]
        self._sizes = np.bincount(self._owner, minlength=len(blocks))
        self._of_blocks = dual.weights[blocks]
        self._weights = self._of_blocks[self._owner]
        self._q = outputs.q[self._slots]
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
        self._outputs.q[self._slots] = self._q

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
        if self._dual.squared:
            target = np.maximum(target, 0.0)
        else:
            block_steps.onto_simplexes(target, self._sizes)
        direction = target - self._q
        change, bend = self._curvature(direction)
        slope = self._inner(direction, self._gradient())
        if slope > 0.0 and bend > 0.0:
            self._move(min(slope / bend, 1.0), direction, change, slope, bend)
        return False

    def _gradient(self) -> Array:
        """The gradient of the dual in q, over the weights of examples, along the face."""
        if self._dual.squared:
            return self._scores - self._totals(self._q)[self._owner]
        means = self._totals(self._scores) / np.maximum(self._sizes, 1)
        return self._scores - means[self._owner]

    def _totals(self, values: Array) -> Array:
        """The sum for each block."""
        totals: Any = np.bincount(self._owner, values, len(self._of_blocks))
        return totals

    def _inner(self, a: Array, b: Array) -> float:
        return float(np.sum(self._weights * a * b))

    def _curvature(self, direction: Array) -> tuple[Array, float]:
        """The change of w, and the dual's curvature, which a cone can only reduce."""
        dual = self._dual
        change = np.zeros(len(dual.w))
        amounts = dual.factor * self._weights * direction
        block_steps.combination(self._outputs, self._slots, amounts, change)
        bend = float(change @ change) / dual.factor
        if dual.squared:
            totals = self._totals(direction)
            bend += float(np.sum(self._of_blocks * totals * totals))
        return change, bend

    def _move(
        self, step: float, direction: Array, change: Array, slope: float, bend: float
    ) -> None:
        dual = self._dual
        q = self._q + step * direction
        self._q = np.where(q > 0.0, q, 0.0)
        dual.counts[0] += step * slope - 0.5 * step * step * bend
        if dual.raw is not dual.w:
            np.add(dual.raw, step * change, out=dual.raw)
            dual.w[:] = np.where(dual.cone, np.maximum(dual.raw, 0.0), dual.raw)
        else:
            np.add(dual.w, step * change, out=dual.w)
        self._update_scores()

    def _update_scores(self) -> None:
        """Compute the scores at w."""
        self._scores = np.empty(len(self._slots))
        read = block_steps.scores_of(self._outputs, self._slots, self._dual.w, self._scores)
        self._dual.counts[1] += 2 * read  # the step has added up as many
