"""Where the scores of the exact optimum lie, for any x: a ball for w, an interval for b."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import logsumexp, softmax
from sklearn.utils.extmath import safe_sparse_dot

from sklearn_bundle.core.optimum import Ball
from sklearn_bundle.core.roundoff import DOUBLE, SINGLE, likely
from sklearn_bundle.linear.losses.base import Loss
from sklearn_bundle.linear.losses.novelty import NuNovelty
from sklearn_bundle.linear.losses.regression import squared_errors
from sklearn_bundle.linear.losses.samples import SampleLoss
from sklearn_bundle.linear.losses.softmax import softmax_loss
from sklearn_bundle.linear.problems.linear import LinearProblem

Array = NDArray[np.float64]

_FEW = 4.0  # roundings of a score beside those of its products
_FIRST, _WIDER = 4.0, 8.0  # a step of the search for a root, in roundings, and its growth
_MOST_STEPS = 60  # of that search: beyond these a root is infinite
_CLOSE = 0.1  # of the mean reach of the rows: how close the search comes to a root
_NEWTON_STEPS = 50  # for intercepts of several classes, which start near the best


class ScoreRegion(NamedTuple):
    """``f*(x)`` is in ``<w_m, x - c> + [low, high] +- r ||x - c||``, output by output.

    w_m and r are center and radius of a ball that contains w*, c is the mean of the training rows,
    and ``low, high`` contain the best intercept at the mean.

    Parameters
    ----------
    weights : ndarray of shape (k, d)
        w_m.
    radius : float
        r, of the weights of all outputs together.
    mean : ndarray of shape (d,)
        c; zeros without an intercept.
    low, high : ndarray of shape (k,)
        Infinite if nothing is known of the intercept.
    apart : float
        How far the difference of two best intercepts may be from that of the middles of their
        intervals.
    """

    weights: Array
    radius: float
    mean: Array
    low: Array
    high: Array
    apart: float = 0.0

    @property
    def is_known(self) -> bool:
        """Whether anything is known of the intercept."""
        return bool(np.isfinite(self.high - self.low).all())

    def intervals(self, X: Any, maps: Array | None = None) -> tuple[Array, Array]:
        """Lower and upper bounds of the scores of rows, of shape (n, k).

        ``maps`` of shape (K, k) makes them bounds of ``maps @ f``, of shape (n, K).
        """
        middle, reach, rounding = self._scores(X, maps)
        low, high = self.low, self.high
        if maps is not None:
            up, down = np.maximum(maps, 0.0), np.minimum(maps, 0.0)
            low, high = up @ low + down @ high, up @ high + down @ low
            reach = reach * np.linalg.norm(maps, axis=1)
        reach = reach + rounding
        return middle + low - reach, middle + high + reach

    def may_be_largest(self, X: Any, maps: Array) -> NDArray[np.bool_]:
        """Whether a row of ``maps @ f*`` may have its largest entry there, of shape (n, K)."""
        middle, reach, rounding = self._scores(X, maps)
        middle += 0.5 * maps @ (self.low + self.high)
        possible = np.empty(middle.shape, dtype=bool)
        for k, own in enumerate(maps):
            sizes = np.linalg.norm(own - maps, axis=1)
            above = middle[:, [k]] - middle + reach * sizes + self.apart * (sizes > 0.0)
            possible[:, k] = (above + rounding[:, [k]] + rounding >= 0.0).all(axis=1)
        return possible

    def _scores(self, X: Any, maps: Array | None) -> tuple[Array, Array, Array]:
        """``<w_m, x - c>`` or its map, ``r ||x - c||`` of shape (n, 1), and their rounding."""
        d, squares = X.shape[1], squared_lengths(X)
        weights = self.weights if maps is None else maps @ self.weights
        at_mean = weights @ self.mean
        middle = safe_sparse_dot(X, weights.T, dense_output=True) - at_mean
        cross = safe_sparse_dot(X, self.mean, dense_output=True)
        reach = self.radius * distances(squares, cross, self.mean, d)[:, None]
        rounding = score_rounding(weights, squares, at_mean, d)
        return middle, reach, rounding + DOUBLE * (np.abs(middle) + reach)


def squared_lengths(X: Any) -> Array:
    """``||x||^2`` of rows, in double precision whatever X has."""
    if not sp.issparse(X):
        return np.einsum("ij,ij->i", X, X, dtype=np.float64)
    squares = sp.csr_array((X.data.astype(np.float64) ** 2, X.indices, X.indptr), shape=X.shape)
    return np.asarray(squares.sum(axis=1)).ravel()


def distances(squares: Array, cross: Array, mean: Array, d: int, unit: float = DOUBLE) -> Array:
    """``||x - c||`` from ``||x||^2`` and ``<x, c>``, rounded up."""
    of_mean = float(mean @ mean)
    rounded = (likely(d) + _FEW) * (unit * squares + 2.0 * DOUBLE * (squares + of_mean))
    return np.sqrt(np.maximum(squares - 2.0 * cross + of_mean, 0.0) + rounded)


def score_rounding(weights: Array, squares: Array, at_mean: Array, d: int) -> Array:
    """What rounding may add to ``<w_k, x - c>``, of shape (n, k)."""
    lengths = np.linalg.norm(weights, axis=1)
    sizes = np.sqrt(squares)[:, None] * lengths + np.abs(at_mean)
    return (likely(d) + _FEW) * DOUBLE * sizes


def score_region(problem: LinearProblem, ball: Ball, intercept: Any) -> ScoreRegion:
    """The region of a problem with its rows in memory: two products with X and one with X'.

    ``intercept`` is the fitted one: of several classes only differences are determined.
    """
    k, d = problem.n_outputs, problem.n_features
    weights = ball.center.reshape(k, d)
    nothing = np.zeros(k)
    quantile = isinstance(problem.loss, NuNovelty)
    if not quantile and not (problem.fit_intercept or problem.n_free):
        return ScoreRegion(weights, ball.radius, np.zeros(d), nothing, nothing)
    rows, loss = problem.rows, problem.loss
    mean = rows.gradient(problem.weights)
    region = ScoreRegion(weights, ball.radius, mean, nothing - np.inf, nothing + np.inf)
    if squared_errors(loss) is not None:
        return region._replace(**_of_means(problem, region))
    joint = softmax_loss(loss) is not None
    of_one = problem.fit_intercept and k == 1 and isinstance(loss, SampleLoss)
    if not (joint or of_one or quantile):
        return region
    both = rows.scores(np.concatenate([ball.center, mean]), k + 1)
    norms, at_mean = rows.squared_norms(), weights @ mean
    unit = SINGLE if norms.dtype == np.float32 else DOUBLE
    squares, middle = norms.astype(np.float64), both[:, :k] - at_mean
    reach = ball.radius * distances(squares, both[:, k], mean, d, unit)
    rounded = score_rounding(weights, squares, at_mean, d).max(axis=1)
    if joint:
        return region._replace(**_of_classes(problem, middle, reach, rounded, intercept))
    of_rows = _of_quantile if quantile else _of_one
    low, high = of_rows(problem, middle[:, 0], reach + rounded)
    return region._replace(low=np.array([low]), high=np.array([high]))


def _of_means(problem: LinearProblem, region: ScoreRegion) -> dict[str, Array]:
    """Of squared errors: the mean target, whatever w is."""
    target = problem.target.reshape(problem.n_samples, -1)
    best, n = problem.weights @ target, problem.n_samples
    sizes = problem.weights @ np.abs(target)
    # The weights sum to one but for rounding, and so the rows to their mean.
    sizes = sizes + (np.linalg.norm(region.weights, axis=1) + region.radius) * (
        np.linalg.norm(region.mean) + np.sqrt(problem.rows.mean_square(problem.weights))
    )
    rounded = (likely(n) + _FEW) * DOUBLE * sizes
    return {"low": best - rounded, "high": best + rounded}


def _of_one(problem: LinearProblem, scores: Array, reach: Array) -> tuple[float, float]:
    """The interval of the best b, if each score may be off by its reach.

    The best b falls where scores rise: the derivative in b, a sum of functions that rise with their
    scores, is negative below the first number and positive above the second.
    """
    loss, y, weights = problem.loss, problem.target, problem.weights
    scratch, out = np.empty((4, len(scores))), np.empty_like(scores)
    close = _CLOSE * float(weights @ reach)

    def end(moved: Array, sign: float) -> float:
        start = float(loss.intercept(moved, y, weights, scratch))
        unit = DOUBLE * (abs(start) + float(np.abs(moved).max()))

        def is_beyond(step: float) -> bool:
            return _slope(loss, moved + (start + sign * step), y, weights, out) * sign > 0.0

        return start + sign * _last_step(is_beyond, unit, close)

    return end(scores + reach, -1.0), end(scores - reach, 1.0)


def _of_quantile(problem: LinearProblem, scores: Array, reach: Array) -> tuple[float, float]:
    """The interval of minus the best offset, a quantile that rises with each score."""
    loss, weights = problem.loss, problem.weights
    assert isinstance(loss, NuNovelty)
    low, high = (loss.offsets(moved, weights) for moved in (scores - reach, scores + reach))
    return -high[1], -low[0]


def _of_classes(
    problem: LinearProblem, scores: Array, reach: Array, rounded: Array, intercept: Any
) -> dict[str, Any]:
    """The interval of the best intercepts of softmax, whose mean is that of ``intercept``.

    Let the best intercepts for the optimum be ``b + t``, b those for ``scores``. Let every t in a
    set of classes be larger by g than those outside. The odds of the set then rise in each row by
    at least ``exp(g - v_i)``, where v_i is how far differences of its scores may be off, while its
    mean probability stays: the classes' shares. So g is at most the largest v_i, plus h, where h
    makes up for what b leaves of the shares: ``(1 - exp(-h)) Q <= left``, Q the mean of ``P (1 -
    P)`` for the set. Sorted by t, K classes have K - 1 such sets. Q is at least ``(K - 1) / K``
    times the second eigenvalue of the mean of ``diag(p) - p p'``.
    """
    y, weights, k = problem.target, problem.weights, problem.n_outputs
    shares = np.bincount(y, weights, k)
    b, left, hessian = _best_intercepts(scores, weights, shares)
    allowed = (likely(len(y)) + _FEW) * DOUBLE
    missing = 0.5 * float(np.abs(left).sum()) + allowed
    mass = float(np.linalg.eigvalsh(hessian)[1]) * (k - 1) / k - allowed
    of_rows = float((np.sqrt(2.0) * reach + 2.0 * rounded).max())
    used = missing / mass if mass > missing else 1.0
    apart = (k - 1) * (of_rows - np.log1p(-used)) if used < 1.0 else np.inf
    b = b - b.mean() + np.mean(intercept)
    return {"low": b - apart, "high": b + apart, "apart": apart}


def _best_intercepts(scores: Array, weights: Array, shares: Array) -> tuple[Array, Array, Array]:
    """By Newton's method: b, what it leaves of the shares of classes, and the Hessian."""
    b = np.log(shares) - weights @ scores

    def at(b: Array) -> tuple[float, Array, Array]:
        moved = scores + b
        p = softmax(moved, axis=1)
        value = float(weights @ logsumexp(moved, axis=1) - shares @ b)
        return value, p, weights @ p - shares

    value, p, left = at(b)
    for _ in range(_NEWTON_STEPS):
        hessian = np.diag(weights @ p) - (p * weights[:, None]).T @ p
        step = -np.linalg.lstsq(hessian, left, rcond=None)[0]
        length = 1.0
        while length > DOUBLE:
            found = at(b + length * step)
            if found[0] < value or np.abs(found[2]).sum() < np.abs(left).sum():
                break
            length *= 0.5
        else:
            return b, left, hessian
        b = b + length * step
        value, p, left = found
    hessian = np.diag(weights @ p) - (p * weights[:, None]).T @ p
    return b, left, hessian


def _slope(loss: Loss, scores: Array, y: Any, weights: Array, out: Array) -> float:
    """Derivative in b, 0 if its sign may be rounding."""
    value = loss.evaluate(scores, y, weights, out)
    slope, size = float(out.sum()), float(np.abs(out).sum())
    if not np.isfinite(value):
        return 0.0
    return slope if abs(slope) > (likely(len(out)) + _FEW) * DOUBLE * size else 0.0


def _last_step(is_beyond: Callable[[float], bool], unit: float, close: float) -> float:
    """A step for which it holds, and within ``close`` one for which it does not; or infinity."""
    short, step = 0.0, _FIRST * max(unit, np.finfo(float).tiny)
    for _ in range(_MOST_STEPS):
        if is_beyond(step):
            break
        short, step = step, _WIDER * step
    else:
        return np.inf
    for _ in range(_MOST_STEPS):
        middle = 0.5 * (short + step)
        if step - short <= close or step <= _WIDER * _FIRST * unit or not short < middle < step:
            break
        short, step = (short, middle) if is_beyond(middle) else (middle, step)
    return step
