"""Where the scores of the exact optimum lie, for any x: a ball for w, an interval for b."""

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.extmath import safe_sparse_dot

from sklearn_bundle.core.optimum import Ball
from sklearn_bundle.core.roundoff import DOUBLE, likely
from sklearn_bundle.core.sparse import squared_lengths
from sklearn_bundle.linear._compiled import scores as loops
from sklearn_bundle.linear.losses.multiclass import dual_hinge
from sklearn_bundle.linear.losses.novelty import NuNovelty
from sklearn_bundle.linear.losses.regression import squared_errors
from sklearn_bundle.linear.losses.samples import RegressionLoss, SampleLoss
from sklearn_bundle.linear.losses.scores import score_loss
from sklearn_bundle.linear.losses.softmax import Softmax, class_covariance, softmax_loss
from sklearn_bundle.linear.problems.class_intercepts import MOST_CLASSES, hinge_intercepts
from sklearn_bundle.linear.problems.curved_region import CurvedRegion, curved_region
from sklearn_bundle.linear.problems.kinked_region import kinked_region
from sklearn_bundle.linear.problems.linear import LinearProblem
from sklearn_bundle.linear.rows.amid_rows import lengths_of, score_rounding
from sklearn_bundle.linear.rows.rows import RowOperator

Array = NDArray[np.float64]

_FEW = 4.0  # roundings of a score beside those of its products
_MOST_STEPS = 60  # that double: beyond these an end is infinite
_NEWTON_STEPS = 20  # for intercepts of several classes, which start near the best
_ROUNDED_TWICE = 1.5  # times sqrt(2) it is above 2: both scores of a difference are rounded
_CLOSE = 0.1  # of the reach of the rows: what is left of shares may cost that


class MeasuredRows:
    """Checked rows with their lengths, which bounds of many models need and one pass gives."""

    def __init__(self, X: Any):
        self.X, self.shape = X, X.shape
        self._center = np.zeros(0)

    @cached_property
    def norms(self) -> Array:
        """``||x||^2``."""
        return squared_lengths(self.X)

    def around(self, center: Array) -> tuple[Array, Array]:
        """``||x - c||``, rounded up, and ``||x|| + ||c||``; those of the last center are kept."""
        if not np.array_equal(center, self._center):
            products = safe_sparse_dot(self.X, center, dense_output=True)
            squares = self.norms - 2.0 * products + center @ center
            sizes: Array = np.sqrt(self.norms) + float(np.linalg.norm(center))
            self._lengths = lengths_of(squares, sizes, self.shape[1]), sizes
            self._center = center
        return self._lengths


class ScoreRegion(NamedTuple):
    """``f*(x)`` is in ``<w_m, x - c> + [low, high] +- r ||x - c||``, output by output.

    w_m and r are center and radius of a ball that contains w*, c is a point amid the training rows,
    and ``low, high`` contain the optimum's score of c.

    Parameters
    ----------
    weights : ndarray of shape (k, d)
        w_m.
    radius : float
        r, of the weights of all outputs together.
    center : ndarray of shape (d,)
        c; zeros without an intercept.
    low, high : ndarray of shape (k,)
        Infinite if the gap is too large to say anything, and NaN if no gap would be small enough.
    apart : float
        How far the difference of two best intercepts may be from that of the middles of their
        intervals.
    curved : tuple
        Fields of a :class:`~.curved_region.CurvedRegion` that holds the optimum too, if known.
    """

    weights: Array
    radius: float
    center: Array
    low: Array
    high: Array
    apart: float = 0.0
    curved: tuple[Any, ...] | None = None

    @property
    def is_known(self) -> bool:
        """Whether a gap says anything of the intercept."""
        return not np.isnan(self.low).any()

    def intervals(self, X: Any, maps: Array | None = None) -> tuple[Array, Array]:
        """Lower and upper bounds of the scores of rows, of shape (n, k).

        ``maps`` of shape (K, k) makes them bounds of ``maps @ f``, of shape (n, K).
        """
        X = X if isinstance(X, MeasuredRows) else MeasuredRows(X)
        middle, reach, rounding = self._scores(X, maps)
        low, high = self.low, self.high
        if maps is not None and np.isfinite(low).all():
            up, down = np.maximum(maps, 0.0), np.minimum(maps, 0.0)
            low, high = up @ low + down @ high, up @ high + down @ low
        elif maps is not None:
            low, high = np.full((2, len(maps)), [[-np.inf], [np.inf]])
        if maps is not None:
            reach = reach * np.linalg.norm(maps, axis=1)
        reach = reach + rounding
        low, high = middle + low - reach, middle + high + reach
        if self.curved is not None and maps is None:
            ends = CurvedRegion(*self.curved).intervals(X.X, X.norms)
            low, high = np.maximum(low, ends[0][:, None]), np.minimum(high, ends[1][:, None])
        return low, high

    def may_be_largest(self, X: Any, maps: Array) -> NDArray[np.bool_]:
        """Whether a row of ``maps @ f*`` may have its largest entry there, of shape (n, K)."""
        middle, reach, rounding = self._scores(X, maps)
        if not np.isfinite(self.low).all():
            return np.ones(middle.shape, dtype=bool)
        middle += 0.5 * maps @ (self.low + self.high)
        possible = np.empty(middle.shape, dtype=bool)
        for k, own in enumerate(maps):
            sizes = np.linalg.norm(own - maps, axis=1)
            above = middle[:, [k]] - middle + reach * sizes + self.apart * (sizes > 0.0)
            possible[:, k] = (above + rounding[:, [k]] + rounding >= 0.0).all(axis=1)
        return possible

    def _scores(self, X: Any, maps: Array | None) -> tuple[Array, Array, Array]:
        """``<w_m, x - c>`` or its map, ``r ||x - c||`` of shape (n, 1), and their rounding."""
        rows = X if isinstance(X, MeasuredRows) else MeasuredRows(X)
        weights = self.weights if maps is None else maps @ self.weights
        middle = safe_sparse_dot(rows.X, weights.T, dense_output=True) - weights @ self.center
        lengths, sizes = rows.around(self.center)
        reach = self.radius * lengths[:, None]
        rounding = score_rounding(weights, sizes, rows.shape[1])
        return middle, reach, rounding + DOUBLE * (np.abs(middle) + reach)


def score_region(problem: LinearProblem, ball: Ball, intercept: Any) -> ScoreRegion:
    """The region of a problem with its rows in memory: one pass over X with an intercept.

    ``intercept`` is the fitted one.
    """
    k, d = problem.n_outputs, problem.n_features
    weights, nothing = ball.center.reshape(k, d), np.zeros(k)
    loss, radius = problem.loss, ball.radius
    quantile = isinstance(loss, NuNovelty)
    if not (quantile or problem.fit_intercept or problem.n_free):
        return ScoreRegion(weights, radius, np.zeros(d), nothing, nothing)
    if squared_errors(loss) is not None:
        mean = problem.rows.mean(problem.weights)
        region = ScoreRegion(weights, radius, mean, nothing, nothing)
        return region._replace(**_of_means(problem, region))
    amid = problem.rows.amid
    some, center = amid.some, amid.center
    region = ScoreRegion(weights, radius, center, nothing + np.nan, nothing + np.nan)
    joint = softmax_loss(loss)
    hinge = dual_hinge(loss) if k <= MOST_CLASSES else None
    of_rows = k == 1 and problem.fit_intercept and isinstance(loss, SampleLoss)
    if not (joint is not None or hinge is not None or quantile or of_rows):
        return region
    at_center = intercept + weights @ center
    shift = 0.0 if isinstance(loss, RegressionLoss) else at_center
    # Differences of the intercepts of k classes may be off by so much: see _of_classes.
    factor = 1.0 if joint is None else (k - 1) * np.sqrt(2.0)
    if _is_hopeless(region, some, shift, factor):
        return region._replace(low=nothing - np.inf, high=nothing + np.inf)
    scores, reach = _reaches(problem, region, at_center)
    if joint is not None:
        return region._replace(**_of_classes(problem, joint, scores, reach, at_center))
    if hinge is not None:
        given = scores, problem.target, problem.weights, reach, at_center
        return region._replace(**hinge_intercepts(hinge, *given))
    interval = _of_quantile if quantile else _of_one
    low, high = interval(problem, scores[:, 0], reach, float(np.ravel(at_center)[0]))
    return region._replace(low=np.array([low]), high=np.array([high]))


def _reaches(problem: LinearProblem, region: ScoreRegion, at_center: Array) -> tuple[Array, Array]:
    """``<w_k, x_i - c>`` of all rows, and by how much each may be off, rounding included."""
    scores = problem.rows.around(region.center, region.weights)
    amid, centered = problem.rows.amid, region.center.any()
    lengths = amid.lengths(problem.rows)
    longest = region.weights[[np.argmax(np.linalg.norm(region.weights, axis=1))]]
    reach = np.empty(len(scores))

    def part(rows: slice) -> tuple[float, ...]:
        values = np.abs(scores[rows] + at_center)
        largest = values[:, 0] if len(region.weights) == 1 else values.max(axis=1)
        sizes = amid.sizes(lengths[rows])
        rounded = score_rounding(longest, sizes, problem.n_features)[:, 0]
        rounded += _FEW * DOUBLE * largest
        # Without an intercept rows are not centered, and no longer than their sizes.
        reach[rows] = region.radius * (lengths[rows] if centered else sizes)
        reach[rows] += _ROUNDED_TWICE * rounded
        return ()

    problem.rows.sums(part)
    return scores, reach


def with_curvature(
    problem: LinearProblem, reg_lambda: float, region: ScoreRegion, point: tuple[Array, Any]
) -> ScoreRegion:
    """The region with what the loss says of it, for a fitted (w, b) with the regularizer of l2.

    Second derivatives of a smooth loss, in about the time of a Newton step, or rows at the kinks of
    others.
    """
    loss, (w, b) = score_loss(problem.loss), point
    given = w, 0.0 if b is None else float(np.ravel(b)[0])
    if loss is None:
        return region
    if not loss.smooth:
        return region._replace(curved=kinked_region(problem, reg_lambda, given))
    if not loss.least_at_ends or not np.isfinite(region.low + region.high).all():
        return region
    scores, reach = _reaches(problem, region, region.low)
    ends = scores[:, 0] + region.low - reach, scores[:, 0] + region.high + reach
    return region._replace(curved=curved_region(problem, reg_lambda, given, ends))


def _is_hopeless(
    region: ScoreRegion, some: RowOperator, at_center: Array | float, factor: float
) -> bool:
    """Whether the scores of some rows may be off by as much as their size.

    The interval of the intercept is about as wide again (of classes, ``factor`` times), so that no
    more than one label in twenty would be certain: not worth a pass over all rows, which may be a
    fifth of a fit. Of a regression the size is that of their differences to the center's score: an
    interval would be four times as wide as the scores are apart.
    """
    scores, squares = some.around(region.center, region.weights), some.distances(region.center)
    reach = factor * region.radius * float(np.sqrt(np.maximum(squares, 0.0)).mean())
    return reach > float(np.sqrt(np.square(scores + at_center).mean(axis=0).max()))


def _of_means(problem: LinearProblem, region: ScoreRegion) -> dict[str, Array]:
    """Of squared errors: the mean target, whatever w is."""
    target = problem.target.reshape(problem.n_samples, -1)
    best, n = problem.weights @ target, problem.n_samples
    sizes = problem.weights @ np.abs(target)
    # The weights sum to one but for rounding, and so the rows to their mean.
    sizes = sizes + (np.linalg.norm(region.weights, axis=1) + region.radius) * (
        np.linalg.norm(region.center) + np.sqrt(problem.rows.mean_square(problem.weights))
    )
    rounded = (likely(n) + _FEW) * DOUBLE * sizes
    return {"low": best - rounded, "high": best + rounded}


def _of_one(
    problem: LinearProblem, scores: Array, reach: Array, start: float
) -> tuple[float, float]:
    """The interval of the best b, if each score may be off by its reach.

    The best b falls where scores rise: the derivative in b, a sum of functions that rise with their
    scores, is negative below the first number and positive above the second. The search goes out
    from ``start`` in steps that double, from the mean reach on.
    """
    first = max(float(problem.weights @ reach), DOUBLE * abs(start), np.finfo(float).tiny)

    def end(sign: float) -> float:
        step = first
        for _ in range(_MOST_STEPS):
            if sign * _slope(problem, scores, -sign, reach, start + sign * step) > 0.0:
                return start + sign * step
            step *= 2.0
        return sign * np.inf

    return end(-1.0), end(1.0)


def _slope(problem: LinearProblem, scores: Array, sign: float, reach: Array, b: float) -> float:
    """Derivative in b of the risk of ``scores + sign reach + b``; 0 if its sign may be rounding."""
    loss, y, weights = problem.loss, problem.target, problem.weights
    assert isinstance(loss, SampleLoss)
    known = score_loss(loss)
    formula = None if known is None else known.formula()

    def part(rows: slice) -> tuple[float, ...]:
        there = sign * reach[rows]
        there += scores[rows]
        there += b
        if formula is not None:
            _, size, _, slope = loops.sizes(formula, there, y[rows], weights[rows], 0.0, 0.0)
            return slope, size
        slopes = weights[rows] * loss.gradient(there, y[rows])
        return float(slopes.sum()), float(np.abs(slopes).sum())

    slope, size = problem.rows.sums(part)
    return slope if abs(slope) > (likely(len(scores)) + _FEW) * DOUBLE * size else 0.0


def _of_quantile(
    problem: LinearProblem, scores: Array, reach: Array, start: float
) -> tuple[float, float]:
    """The interval of minus the best offset, a quantile that rises with each score."""
    loss, weights = problem.loss, problem.weights
    assert isinstance(loss, NuNovelty)
    low, high = (loss.offsets(moved, weights) for moved in (scores - reach, scores + reach))
    return -high[1], -low[0]


def _of_classes(
    problem: LinearProblem, loss: Softmax, scores: Array, reach: Array, start: Array
) -> dict[str, Any]:
    """The interval of the best intercepts of softmax, near ``start`` and of its mean.

    Let the best intercepts for the optimum be ``b + t``. Let every t in a set of classes be larger
    by g than those outside. The odds of the set then rise in each row by at least ``exp(g - v_i)``,
    where v_i is how far differences of its scores may be off, while its mean probability stays: the
    classes' shares. So g is at most the largest v_i, plus h, where h makes up for what b leaves of
    the shares: ``(1 - exp(-h)) Q <= left``, Q the mean of ``P (1 - P)`` for the set. Sorted by t, K
    classes have K - 1 such sets. Q is at least ``(K - 1) / K`` times the second eigenvalue of the
    mean of ``diag(p) - p p'``.
    """
    data, k = (problem.target, problem.weights), problem.n_outputs
    of_rows = float(np.sqrt(2.0) * reach.max())
    allowed, b = (likely(len(scores)) + _FEW) * DOUBLE, start
    apart = np.inf
    by_class, derivatives = np.ascontiguousarray(scores.T), np.empty(scores.shape[::-1])
    for _ in range(_NEWTON_STEPS):
        moved = by_class + b[:, None]
        loss.along_classes(moved, moved, *data, 0.0, derivatives)
        left = derivatives.sum(axis=1)
        hessian = class_covariance(derivatives, *data)
        missing = 0.5 * float(np.abs(left).sum()) + allowed
        mass = float(np.linalg.eigvalsh(hessian)[1]) * (k - 1) / k - allowed
        used = missing / mass if mass > missing else 1.0
        more = -np.log1p(-used) if used < 1.0 else np.inf
        improved = (k - 1) * (of_rows + more) < apart
        if improved:
            apart, best = (k - 1) * (of_rows + more), b
        if more <= _CLOSE * of_rows or not (improved or apart == np.inf):
            break
        b = b - np.linalg.lstsq(hessian, left, rcond=None)[0]
    if not np.isfinite(apart):
        return {"low": start - np.inf, "high": start + np.inf, "apart": np.inf}
    best = best - best.mean() + start.mean()
    return {"low": best - apart, "high": best + apart, "apart": apart}
