"""Where the scores of the exact optimum lie, for any x: a ball for w, an interval for b."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.extmath import safe_sparse_dot

from sklearn_bundle.core.certificate import DOUBLE, likely
from sklearn_bundle.core.contract import SolverResult
from sklearn_bundle.core.validation import squared_lengths
from sklearn_bundle.linear.losses import NuNovelty, RegressionLoss, Softmax
from sklearn_bundle.linear.risk import Risk
from sklearn_bundle.linear.rows import Rows
from sklearn_bundle.linear.score_risk import ScoreRisk

Array = NDArray[np.float64]

_FEW = 4.0  # roundings of a score beside those of its products


def lengths_of(squares: Array, sizes: Any, d: int) -> Array:
    """``||x - c||`` from its square, rounded up; ``sizes`` are ``||x|| + ||c||``."""
    rounded = (likely(d) + _FEW) * 2.0 * DOUBLE * sizes**2
    return np.sqrt(np.maximum(squares, 0.0) + rounded)


def score_rounding(weights: Array, sizes: Any, d: int) -> Array:
    """What rounding may add to ``<w_k, x - c>``, of shape (n, k); ``sizes`` as above."""
    return (likely(d) + _FEW) * DOUBLE * np.outer(sizes, np.linalg.norm(weights, axis=1))


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
    """

    weights: Array
    radius: float
    center: Array
    low: Array
    high: Array
    apart: float = 0.0

    @property
    def is_known(self) -> bool:
        """Whether a gap says anything of the intercept."""
        return not np.isnan(self.low).any()

    @property
    def difference(self) -> ScoreRegion:
        """Of two outputs, that of the second less the first."""
        radius, weights = np.sqrt(2.0) * self.radius, np.diff(self.weights, axis=0)
        low, high = self.low[1:] - self.high[:1], self.high[1:] - self.low[:1]
        return ScoreRegion(weights, radius, self.center, low, high)

    def intervals(self, X: Any) -> tuple[Array, Array]:
        """Lower and upper bounds of the scores of rows, of shape (n, k)."""
        middle, reach, rounding = self._scores(X)
        reach = reach + rounding
        return middle + self.low - reach, middle + self.high + reach

    def may_be_largest(self, X: Any) -> NDArray[np.bool_]:
        """Whether the score of a row may be the largest of its k, of shape (n, k)."""
        middle, reach, rounding = self._scores(X)
        if not np.isfinite(self.low).all():
            return np.ones(middle.shape, dtype=bool)
        middle += 0.5 * (self.low + self.high)
        highest = middle + np.sqrt(2.0) * reach + self.apart + rounding
        return highest >= (middle - rounding).max(axis=1, keepdims=True)

    def _scores(self, X: Any) -> tuple[Array, Array, Array]:
        """``<w_m, x - c>``, ``r ||x - c||`` of shape (n, 1), and their rounding."""
        weights = self.weights
        middle = safe_sparse_dot(X, weights.T, dense_output=True) - weights @ self.center
        norms, products = squared_lengths(X), safe_sparse_dot(X, self.center, dense_output=True)
        sizes = np.sqrt(norms) + float(np.linalg.norm(self.center))
        lengths = lengths_of(norms - 2.0 * products + self.center @ self.center, sizes, X.shape[1])
        reach = self.radius * lengths[:, None]
        rounding = score_rounding(weights, sizes, X.shape[1])
        return middle, reach, rounding + DOUBLE * (np.abs(middle) + reach)


def score_region(risk: Any, result: SolverResult) -> ScoreRegion | None:
    """The region of a problem with its rows in memory: one pass over X with an intercept.

    None without a ball.
    """
    loss, (n, d), k, ball = risk.loss, risk.rows.shape, risk.n_outputs or 1, result.ball
    if ball is None:
        return None
    weights, nothing = ball.center.reshape(k, d), np.zeros(k)
    quantile = isinstance(loss, NuNovelty)
    if not (quantile or risk.free or risk.n_free):
        return ScoreRegion(weights, ball.radius, np.zeros(d), nothing, nothing)
    if getattr(loss, "quadratic", False):
        center = risk.rows.gradient(risk.weights)
        region = ScoreRegion(weights, ball.radius, center, nothing, nothing)
        return region._replace(**_of_means(risk, region))
    # the center is the mean of 256 rows
    some = risk.rows.take(np.linspace(0, n - 1, min(n, 256)).astype(np.intp))
    center = some.gradient(np.full(some.shape[0], 1.0 / some.shape[0]))
    region = ScoreRegion(weights, ball.radius, center, nothing + np.nan, nothing + np.nan)
    of_classes = isinstance(loss, Softmax)
    if not (of_classes or quantile or (isinstance(risk, ScoreRisk) and risk.free)):
        return region
    if _is_hopeless(risk, result, some, center):
        return region._replace(low=nothing - np.inf, high=nothing + np.inf)
    at_center = result.intercept + weights @ center
    scores, reach = _reaches(risk, region, at_center)
    if of_classes:
        given = loss, scores, risk.y, risk.weights, reach, at_center
        return region._replace(**_of_softmax(*given))
    if quantile:  # minus the best offset, which rises with each score
        of_scores = (scores - reach, scores + reach)
        low, high = (risk.loss.offsets(end, risk.weights) for end in of_scores)
        ends = -high[1], -low[0]
    else:
        ends = _of_one(risk, scores, reach, float(np.ravel(at_center)[0]))
    return region._replace(low=np.array(ends[:1]), high=np.array(ends[1:]))


def _is_hopeless(risk: Risk, result: SolverResult, some: Rows, center: Array) -> bool:
    """Whether the scores of some rows may be off by as much as their size.

    The interval of the intercept is about as wide again (of the K classes of softmax, see there, by
    a factor), so that no more than one label in twenty would be certain: not worth passes over all
    rows, which take a third of some fits. Of a regression the size is that of their differences to
    the center's score.
    """
    w = result.point.reshape(-1, some.shape[1])
    level = -w @ center if isinstance(risk.loss, RegressionLoss) else result.intercept
    scores = some.scores(w) + np.reshape(level, (-1, 1))
    factor = (len(w) - 1) * np.sqrt(2.0) if isinstance(risk.loss, Softmax) else 1.0
    reach = result.ball.radius * float(np.sqrt(np.maximum(some.distances(center), 0.0)).mean())
    return factor * reach > float(np.sqrt(np.square(scores).mean(axis=1).max()))


def _reaches(risk: Risk, region: ScoreRegion, at_center: Array) -> tuple[Array, Array]:
    """``<w_k, x_i - c>`` of all rows, and by how much each may be off, rounding included.

    Scores have shape (n,) or (k, n).
    """
    weights, center, d = region.weights, region.center, risk.rows.shape[1]
    scores = risk.rows.scores(weights) - (weights @ center)[:, None]
    squares, distance = risk.rows.distances(center), float(np.linalg.norm(center))
    sizes = np.sqrt(np.maximum(squares, 0.0)) + 2.0 * distance  # no less than ||x|| + ||c||
    lengths = lengths_of(squares, sizes, d)
    largest = np.abs(scores + np.reshape(at_center, (-1, 1))).max(axis=0)
    longest = weights[[np.argmax(np.linalg.norm(weights, axis=1))]]
    rounded = score_rounding(longest, lengths + 2.0 * distance, d)[:, 0] + _FEW * DOUBLE * largest
    # 1.5 times sqrt(2) is above 2: both scores of a difference are rounded
    reach = region.radius * lengths + 1.5 * rounded
    return (scores[0] if risk.n_outputs is None else scores), reach


def _of_means(risk: Risk, region: ScoreRegion) -> dict[str, Array]:
    """Of squared errors: the mean target, whatever w is."""
    target, n = risk.y.reshape(len(risk.weights), -1), risk.rows.shape[0]
    best, sizes = risk.weights @ target, risk.weights @ np.abs(target)
    # The weights sum to one but for rounding, and so the rows to their mean.
    longest = float(np.linalg.norm(risk.rows.column_norms)) * float(np.sqrt(risk.weights.max()))
    norms = np.linalg.norm(region.weights, axis=1) + region.radius
    sizes = sizes + norms * (float(np.linalg.norm(region.center)) + longest)
    rounded = (likely(n) + _FEW) * DOUBLE * sizes
    return {"low": best - rounded, "high": best + rounded}


def _of_one(risk: ScoreRisk, scores: Array, reach: Array, start: float) -> tuple[float, float]:
    """The interval of the best b, if each score may be off by its reach.

    The best b falls where scores rise: the derivative in b, a sum of functions that rise with their
    scores, is negative below the first number and positive above the second. The search goes out
    from ``start`` in steps that double, from the mean reach on.
    """
    first = max(float(risk.weights @ reach), DOUBLE * abs(start), np.finfo(float).tiny)

    def end(sign: float) -> float:
        step = first
        # steps that double: beyond these an end is infinite
        for _ in range(60):
            if sign * _slope(risk, scores - sign * reach + (start + sign * step)) > 0.0:
                return start + sign * step
            step *= 2.0
        return sign * np.inf

    return end(-1.0), end(1.0)


def _of_softmax(
    loss: Softmax, scores: Array, y: Any, weights: Array, reach: Array, start: Array
) -> dict[str, Any]:
    """The interval of the best intercepts, near ``start`` and of its mean.

    Let the best intercepts for the optimum be ``b + t``. Let every t in a set of classes be larger
    by g than those outside. The odds of the set then rise in each row by at least ``exp(g - v_i)``,
    where v_i is how far differences of its scores may be off, while its mean probability stays: the
    classes' shares. So g is at most the largest v_i, plus h, where h makes up for what b leaves of
    the shares: ``(1 - exp(-h)) Q <= left``, Q the mean of ``P (1 - P)`` for the set. Sorted by t, K
    classes have K - 1 such sets. Q is at least ``(K - 1) / K`` times the second eigenvalue of the
    mean of ``diag(p) - p p'``.
    """
    K, n = scores.shape
    of_rows = float(np.sqrt(2.0) * reach.max())
    allowed, b, apart = (likely(n) + 2.0 * _FEW) * DOUBLE, start, np.inf
    derivatives = np.empty_like(scores)
    # Newton's steps from intercepts that are near the best
    for _ in range(20):
        loss.cut(scores + b[:, None], y, weights, derivatives)
        left = derivatives.sum(axis=1)
        hessian = loss.covariance(derivatives, y, weights)
        missing = 0.5 * float(np.abs(left).sum()) + allowed
        mass = float(np.linalg.eigvalsh(hessian)[1]) * (K - 1) / K - allowed
        used = missing / mass if mass > missing else 1.0
        more = -np.log1p(-used) if used < 1.0 else np.inf
        improved = (K - 1) * (of_rows + more) < apart
        if improved:
            apart, best = (K - 1) * (of_rows + more), b
        # what is left of shares may cost 0.1 of the reach of the rows
        if more <= 0.1 * of_rows or not (improved or apart == np.inf):
            break
        b = b - np.linalg.lstsq(hessian, left, rcond=None)[0]
    best = best - best.mean() + start.mean() if np.isfinite(apart) else start
    return {"low": best - apart, "high": best + apart, "apart": apart}


def _slope(risk: ScoreRisk, scores: Array) -> float:
    """Derivative in b of the risk at these scores; 0 if its sign may be rounding."""
    slopes = risk.weights * risk.loss.gradient(scores, risk.y)
    slope, size = float(slopes.sum()), float(np.abs(slopes).sum())
    return slope if abs(slope) > (likely(len(scores)) + _FEW) * DOUBLE * size else 0.0
