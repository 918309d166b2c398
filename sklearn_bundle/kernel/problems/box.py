"""Kernel machines with an intercept that is not penalized: a box and one hyperplane in the dual."""

from functools import cached_property, partial
from math import fsum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.limits import ADDED, DOUBLE, SINGLE, SIX_DIGITS, likely
from sklearn_bundle.jit.decorators import frozen
from sklearn_bundle.kernel._compiled import working_set
from sklearn_bundle.kernel.problems.l2svm import Certified
from sklearn_bundle.kernel.problems.row_gaps import box_gaps, largest_sum
from sklearn_bundle.kernel.values._exact_sums import LAST
from sklearn_bundle.kernel.values._points import SUMMED
from sklearn_bundle.kernel.values.kernel import KernelRows, function_of, suits_tiles, tiled
from sklearn_bundle.kernel.values.kernel_data import KernelData

Array = NDArray[np.float64]

_MOSTLY_ROUNDING = 4.0  # times its value without rounding: sums in more digits narrow a gap


class Box(NamedTuple):
    """``max <target, beta> - width |beta|_1 - 1/2 beta'K beta``, and where beta may lie.

    That is ``low <= beta <= high``, which holds 0, and ``sum beta = total``.
    """

    target: Array
    low: Array
    high: Array
    width: float = 0.0
    total: float = 0.0

    def linear(self, beta: Array) -> Array:
        """The terms of the linear part, one for each variable."""
        return self.target * beta - self.width * np.abs(beta)

    def losses(self, scores: Array) -> Array:
        """``max over beta in the box of beta (target - score) - width |beta|``."""
        left = self.target - scores
        over, under = np.maximum(left - self.width, 0.0), np.maximum(-left - self.width, 0.0)
        return self.high * over - self.low * under

    def intercept(self, scores: Array) -> float:
        """The b that minimizes ``total b + sum of the losses at scores + b``.

        In the middle if there are more than one, as in LIBSVM; at an end if the other is infinite.
        """
        ends = [b for b in self.intercepts(scores, scores) if np.isfinite(b)]
        return sum(ends) / len(ends)

    def intercepts(self, highest: Array, lowest: Array) -> tuple[float, float]:
        """The least b that minimizes it at the first scores, the largest one at the others.

        A minimizer at scores between them lies between these. With the largest total there is no
        least one, and with the least total no largest one.
        """
        upper, lower = float(self.high.sum()), float(-self.low.sum())
        needed = upper - self.total  # less is the slope at b from -inf on
        rounding = ADDED * 2 * len(self.high) * (upper + lower + abs(self.total))
        kinks, passed = self._kinks(highest)
        place = int(np.searchsorted(passed, needed - rounding))
        least = kinks[place] if needed > rounding else -np.inf
        if lowest is not highest:
            kinks, passed = self._kinks(lowest)
        place = int(np.searchsorted(passed, needed + rounding, side="right"))
        return float(least), float(kinks[place]) if place < len(kinks) else np.inf

    def _kinks(self, scores: Array) -> tuple[Array, Array]:
        """Where the slope in b grows, ascending, and by how much it has grown there."""
        kinks, costs = self.target - scores, self.high - self.low
        if self.width > 0.0:
            kinks = np.concatenate([kinks - self.width, kinks + self.width])
            costs = np.concatenate([self.high, -self.low])
        order = np.argsort(kinks)
        return kinks[order], np.cumsum(costs[order])

    def part(self, rows: NDArray[np.intp]) -> "Box":
        """Some of the variables, with the same total."""
        return self._replace(target=self.target[rows], low=self.low[rows], high=self.high[rows])

    def inside(self, beta: Array) -> Array:
        """beta moved into the box, and onto the hyperplane but for rounding of one variable.

        What is missing goes to a variable that is free to take it, else to one after another.
        """
        beta = np.clip(beta, self.low, self.high)
        for _ in range(2):  # the second time for rounding
            missing = self.total - fsum(beta)
            room = self.high - beta if missing > 0.0 else beta - self.low
            free = np.where((beta != 0.0) & (beta > self.low) & (beta < self.high), room, 0.0)
            place = int(np.argmax(free))
            if free[place] >= abs(missing):
                step = np.zeros(len(beta))
                step[place] = abs(missing)
            else:
                step = np.clip(abs(missing) - (np.cumsum(room) - room), 0.0, room)
            beta = np.clip(beta + np.copysign(step, missing), self.low, self.high)
        return beta


class BoxProblem:
    """``min 1/2 |w|^2 + total b + sum_i losses_i(<w, phi(x_i)> + b)``, with the dual :class:`Box`.

    With ``low = min(0, y C)``, ``high = max(0, y C)`` and the target y it is that of
    :class:`~sklearn.svm.SVC`; with ``-C``, C, the targets and epsilon as width that of SVR; with 0,
    the weights, no target and the total nu that of OneClassSVM (METHODS, section 8).

    Parameters
    ----------
    data : KernelData
    points : ndarray of shape (n,)
        Those of its points that take part.
    box : Box
    cache_bytes : float
        Memory for rows of kernel values.
    n_threads : int, default=1
        For sums over kernel values.
    """

    def __init__(
        self,
        data: KernelData,
        points: NDArray[np.intp],
        box: Box,
        *,
        cache_bytes: float,
        n_threads: int = 1,
    ):
        self.data, self.points, self.box = data, points, box
        self.cache_bytes, self.n_threads = cache_bytes, n_threads
        self.n = len(points)
        self.dtype: np.dtype = data.dtype
        self._known: tuple[Array, Array, Array] | None = None  # a beta, its scores, their rounding

    def promote(self) -> None:
        """From here on rows are in double precision."""
        self.dtype = np.dtype(np.float64)
        vars(self).pop("rows", None)

    @cached_property
    def rows(self) -> KernelRows:
        """Kernel values between the points."""
        values = self.data.rows(self.dtype)
        everything = np.array_equal(self.points, np.arange(values.n))
        return values if everything else values.take(self.points)

    def source(self) -> working_set.Source | None:
        """What compiled steps compute rows from: for dense float32 points of known kernels."""
        points = self.data.rows(self.dtype).dense
        if self.dtype != np.float32 or not suits_tiles(points):
            return None
        tiled_points = tiled(frozen(points.X), points.norms, self.points)
        return working_set.Source(function_of(points.kernel), tiled_points)

    @property
    def given(self) -> bool:
        """Whether a symmetric matrix in the working precision is the problem, without rounding."""
        data = self.data
        return data.precomputed and data.definite and data.X.dtype == self.dtype

    @property
    def least(self) -> float:
        """No objective is below this: 0 or, with a total, less than any dual objective.

        Then beta is not negative, and its function no longer than the total times the longest
        point: the dual objective is half of this or more, so that rounding is no matter.
        """
        longest = float(self._lengths.max())
        return 0.0 - (self.box.total * longest) ** 2

    def slopes(self, beta: Array, scores: Array) -> tuple[Array, Array]:
        """Slopes of minus the dual objective upward and downward, infinite at a bound."""
        up, down, box = np.empty(self.n), np.empty(self.n), self.box
        gradient = scores - box.target
        working_set.slopes(gradient, beta, box.low, box.high, box.width, up, down)
        return up, down

    def scores(self, beta: Array) -> tuple[Array, Array]:
        """``K beta`` from values, and some sums, in the working precision; bounds on the errors."""
        active, size = np.flatnonzero(beta), float(np.sum(np.abs(beta)))
        if not len(active):  # a callable may not take what is empty
            return np.zeros(self.n), np.zeros(self.n)
        of_values = self.data.rounding(self.dtype, self.points, self.points)
        unit = SINGLE if self.dtype == np.float32 else DOUBLE
        of_sums = unit * (likely(min(len(active), SUMMED)) + LAST + 1.0) * self.largest
        return self.rows.sums(beta[active], active), np.full(self.n, size) * (of_values + of_sums)

    def exact_scores(self, betas: Array, rows: NDArray[np.intp]) -> tuple[Array, Array]:
        """``K beta`` at some points in float64, for each row of ``betas``; bounds on the errors.

        Where a beta is not 0 is among the rows, which ascend.
        """
        active = np.flatnonzero(betas.any(axis=0))
        if not len(active):
            zeros = np.zeros((len(betas), len(rows)))
            return zeros, zeros
        chosen = np.searchsorted(rows, active)
        where = self.points[rows]
        sums, errors = self.data.exact_sums(
            betas[:, active], chosen, where, self.n_threads, constant=0.0
        )
        return sums, np.broadcast_to(errors, sums.shape)

    def rounding(self, path_length: float, n_sums: int) -> Array:
        """Bounds on the errors of scores from so many sums over values in the first precision.

        Changes of beta whose sizes have the sum ``path_length`` made them.
        """
        if path_length == 0.0:
            return np.zeros(self.n)
        of_values: Array | float = 0.0
        if not self.given:
            of_values = self.data.rounding(self.data.dtype, self.points, self.points)
        of_sums = DOUBLE * (likely(n_sums) + likely(working_set.MOST) + 4.0) * self.largest
        return path_length * (np.broadcast_to(of_values, self.n) + of_sums)

    @cached_property
    def _lengths(self) -> Array:
        """Upper bounds of sqrt(k(x, x)), of which there may be values in single precision alone."""
        rounding = self.data.rounding(self.data.dtype, self.points, self.points)
        return np.sqrt(np.maximum(self.data.diagonal[self.points] + rounding, 0.0))

    @property
    def largest(self) -> float:
        """An upper bound of all k(x, x)."""
        return float(self._lengths.max()) ** 2

    def intercepts(self, beta: Array, radius: float) -> tuple[float, float]:
        """The least and the largest that the optimum's can be, if its w is within a radius.

        Of scores in the working precision, whose rounding counts.
        """
        if self._known is not None and np.array_equal(self._known[0], beta):
            _, scores, errors = self._known
        else:
            scores, errors = self.scores(beta)
        reach = radius * self._lengths + errors
        reach += ADDED * (np.abs(scores) + np.abs(self.box.target) + self.box.width)
        return self.box.intercepts(scores + reach, scores - reach)

    def know(self, beta: Array, scores: Array, errors: Array) -> None:
        """Take scores of a certified beta from elsewhere, with bounds of their errors."""
        self._known = beta, scores, errors

    def gap_by_rows(self, beta: Array, b: float) -> float:
        """An upper bound of the sum of the gaps of the rows at beta and b.

        ``|w - w*|^2`` is no larger: the objective grows by half of it from w* to w, and the lower
        model of beta, which is least at w, by another half from w to w*.
        """
        if self._known is not None and np.array_equal(self._known[0], beta):
            _, scores, errors = self._known
        else:
            (scores,), (errors,) = self.exact_scores(beta[np.newaxis], np.arange(self.n))
        gap, least = self._gap_by_rows(beta, b, scores, errors)
        if gap > _MOSTLY_ROUNDING * least:
            rows = np.flatnonzero(beta)
            found = self.data.extended_sums(
                beta[rows], np.arange(len(rows)), self.points[rows], constant=0.0
            )
            if found is not None:
                scores, errors = scores.copy(), np.array(errors)
                scores[rows], errors[rows] = found
                gap, _ = self._gap_by_rows(beta, b, scores, errors)
        return gap

    def _gap_by_rows(
        self, beta: Array, b: float, scores: Array, errors: Array
    ) -> tuple[float, float]:
        """The bound, and what it would be without errors of the scores."""
        box, left = self.box, self.box.target - scores - b
        gaps = partial(box_gaps, beta=beta, low=box.low, high=box.high, width=box.width)
        reach = errors + ADDED * (np.abs(box.target) + np.abs(scores) + abs(b))
        gap = largest_sum(gaps, left, reach)
        # Off the hyperplane by rounding, the lower model also falls with the intercept.
        missing = abs(box.total - fsum(beta))
        if missing > 0.0:
            certified = self._certified(box, beta, scores, errors, b)
            square = float(np.sum(np.abs(beta) * (np.abs(scores) + errors)))
            gap += missing * (abs(b) + self._farthest(certified.primal + certified.excess, square))
        return gap, float(np.sum(gaps(left)))

    def values(self, beta: Array, scores: Array, b: float) -> tuple[float, float]:
        """Objective at ``scores + b``, and the dual objective."""
        square = float(np.sum(beta * scores))
        losses = float(np.sum(self.box.losses(scores + b)))
        primal = 0.5 * square + losses + self.box.total * b
        return primal, float(np.sum(self.box.linear(beta))) - 0.5 * square

    def certify(
        self, beta: Array, scores: Array, rounding: Array, b: float
    ) -> tuple[Certified, float]:
        """The certificate of beta in float64, and the best intercept.

        beta lies :meth:`Box.inside`. Scores that may be off by ``rounding``, and about the best
        intercept, say which points have no loss: those scores are not computed again.
        """
        if self.given:
            b, self._known = self.box.intercept(scores), (beta, scores, rounding)
            return self._certified(self.box, beta, scores, rounding, b), b
        near = beta != 0.0
        while True:
            near |= self._may_cost(self.box, scores + b, rounding)
            self._known = beta, scores.copy(), rounding.copy()
            certified, b = self._certify(np.flatnonzero(near), *self._known)
            if near.all() or not self._may_cost(self.box, scores + b, rounding)[~near].any():
                return certified, b

    def _certify(
        self, rows: NDArray[np.intp], beta: Array, scores: Array, rounding: Array
    ) -> tuple[Certified, float]:
        """The certificate, with exact scores at ``rows`` alone: at others there is no loss.

        They take the place of those that are known, which say how far the intercept may move.
        """
        sums, errors = self.exact_scores(beta[np.newaxis], rows)
        box, coef = self.box.part(rows), beta[rows]
        scores[rows], rounding[rows] = sums[0], errors[0]
        b = self.box.intercept(scores)
        certified = self._certified(box, coef, sums[0], errors[0], b)
        active = np.flatnonzero(coef)
        if len(active) and certified.excess > SIX_DIGITS * abs(certified.primal):
            extended = self.data.extended_sums(
                coef[active], active, self.points[rows], constant=0.0
            )
            if extended is not None:
                scores[rows], rounding[rows] = extended
                b = self.box.intercept(scores)
                certified = self._certified(box, coef, *extended, b)
        return certified, b

    def _certified(
        self, box: Box, beta: Array, scores: Array, errors: Array, b: float
    ) -> Certified:
        terms, sizes = beta * scores, np.abs(beta * scores)
        square = float(np.sum(terms))
        error = float(np.sum(np.abs(beta) * errors)) + ADDED * float(np.sum(sizes))
        losses = box.losses(scores + b)
        # The farthest that rounding can have moved a score from where its loss is zero.
        reach = errors + ADDED * (np.abs(box.target) + np.abs(scores) + abs(b))
        slope = np.maximum(box.high, -box.low)
        excess = float(np.sum(np.where(self._may_cost(box, scores + b, reach), slope * reach, 0.0)))
        excess += 0.5 * error + ADDED * (float(np.sum(losses)) + abs(box.total * b))
        primal = 0.5 * square + float(np.sum(losses)) + box.total * b
        linear = box.linear(beta)
        of_linear = ADDED * float(np.sum(np.abs(box.target * beta) + box.width * np.abs(beta)))
        bound = float(np.sum(linear)) - 0.5 * (square + error) - of_linear - ADDED * abs(square)
        # beta leaves the hyperplane by rounding: worth the intercept of the optimum, a kink.
        missing = abs(box.total - fsum(beta))
        if missing > 0.0:
            bound -= missing * self._farthest(primal + excess, square + error)
        if square < -error:
            bound = -np.inf  # K is not positive semidefinite
        return Certified(primal, excess, bound)

    def _farthest(self, primal: float, square: float) -> float:
        """How far from 0 the optimum's intercept, a kink, can be; ``square`` is ``|w|^2``."""
        longest = np.sqrt(max(2.0 * primal, square, 0.0))
        return (
            float(np.abs(self.box.target).max())
            + self.box.width
            + float(2.0 * longest * np.sqrt(self.largest))
        )

    @staticmethod
    def _may_cost(box: Box, scores: Array, reach: Array) -> NDArray[np.bool_]:
        """Whether a loss may be positive within ``reach`` of the scores."""
        left = box.target - scores
        over = (left - box.width + reach > 0.0) & (box.high > 0.0)
        return over | ((-left - box.width + reach > 0.0) & (box.low < 0.0))
