"""The best intercepts of losses by class, when each score may be off by its reach."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.certificate import DOUBLE, likely
from sklearn_bundle.linear.losses import MulticlassHinge, Softmax

Array = NDArray[np.float64]
Sets = NDArray[np.int64]

MOST_CLASSES = 14  # of the hinge: 16,382 sets, 0.02 s a fit beside the passes over its rows
_FEW = 8.0  # roundings of a score, and of a weight of sets beside those of its sums
_STEPS = 200  # of 2^(1/3): they cover 20 powers of ten
_FACTOR = 2.0 ** (1.0 / 3.0)  # at most 26 % too wide
_LOWER = 12  # steps below the mean reach, a sixteenth of it: rows at a kink may be near the center
_NEWTON_STEPS = 20  # for intercepts of softmax, which start near the best
_CLOSE = 0.1  # of the reach of the rows: what is left of shares may cost that


def softmax_intercepts(
    loss: Softmax, scores: Array, y: Sets, weights: Array, reach: Array, start: Array
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
    allowed, b, apart = (likely(n) + _FEW) * DOUBLE, start, np.inf
    derivatives = np.empty_like(scores)
    for _ in range(_NEWTON_STEPS):
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
        if more <= _CLOSE * of_rows or not (improved or apart == np.inf):
            break
        b = b - np.linalg.lstsq(hessian, left, rcond=None)[0]
    if not np.isfinite(apart):
        return _nothing_known(start)
    best = best - best.mean() + start.mean()
    return {"low": best - apart, "high": best + apart, "apart": apart}


def _nothing_known(start: Array) -> dict[str, Any]:
    return {"low": start - np.inf, "high": start + np.inf, "apart": np.inf}


def hinge_intercepts(
    loss: MulticlassHinge, scores: Array, y: Sets, weights: Array, reach: Array, start: Array
) -> dict[str, Any]:
    """The intervals of all best intercepts, of mean that of ``start``, around ``start``.

    Let S be some of the classes, neither none nor all. With v_ik a score plus its intercept and its
    cost, the loss of row i is ``max_k v_ik - v_iy``. Lower the intercepts of S together, a little.
    The loss of a row then falls at rate 1 if all its largest v_ik are in S, and rises at rate 1 if
    its label is in S. Let ``M_i = max of v_ik in S - max of v_ik outside``. The risk rises at the
    rate s(S), the weight of the rows with labels in S, less the weight of the rows with M_i > 0. At
    best intercepts no direction goes down: the rows with M_i > 0 weigh at most s(S).

    Now let some best intercepts for the exact scores be ``b + t``, and let each t in S be larger by
    at least g than each t outside. From the given scores and b to the exact ones, M_i rises by at
    least ``g - u_i``, where u_i is how far differences of the scores of row i may be off. So the
    given rows with ``M_i + g - u_i > 0`` weigh at most s(S) too. Their weight does not fall with
    g. So g is less than any number for which they weigh more than s(S): let G(S) be one. This holds
    for all best intercepts. Where there are many, G(S) is at least as large as they are apart,
    whatever the gap.

    Sort the classes by t. The first 1, 2, ..., K - 1 of them are sets S, each with one class more,
    and the differences of neighbors are at most their G(S). So the largest t is above the least by
    no more than the sum of G(S) over this chain of sets, nor than the largest such sum of all
    chains. A common shift of all intercepts changes nothing: with a t of mean 0, each one is at
    most ``(K - 1) / K`` times that sum.

    The proof takes one slope for all classes: it does not hold for costs as factors ("slack").

    Parameters
    ----------
    loss : MulticlassHinge
        With costs that are added.
    scores : ndarray of shape (K, n)
        Without intercepts.
    y : ndarray of shape (n,)
    weights : ndarray of shape (n,)
        They sum to 1.
    reach : ndarray of shape (n,)
        ``r ||x - c||``, where r is how far the weights of all classes together may be off, and
        rounding.
    start : ndarray of shape (K,)
        b.

    Returns
    -------
    low, high : ndarray of shape (K,)
        Infinite if nothing is known.
    apart : float
        How far a difference of two best intercepts may be from that of ``start``.
    """
    K, n = len(start), len(y)
    costs = loss.costs(K)
    values = scores.T + start + costs[y]
    tops = values.max(axis=1, keepdims=True)
    behind = tops - values
    sizes = np.abs(tops[:, 0]) + behind.max(axis=1) + np.abs(start).max() + costs.max()
    # The weights of all classes together are off by r, so those of two by at most sqrt(2) r.
    off = np.sqrt(2.0) * reach + _FEW * DOUBLE * sizes
    if not np.isfinite(off).all():  # where numbers overflow
        return _nothing_known(start)
    allowed = (likely(n) + K + _FEW) * 2.0 * DOUBLE
    needed = _sums_of_sets(_by_number(y, weights, K)) + allowed
    gaps = np.full(1 << K, np.inf)
    gaps[[0, -1]] = 0.0
    g = float(weights @ off) * _FACTOR**-_LOWER
    for _ in range(_STEPS):
        gaps[(_weights_above(behind, g - off, weights) > needed) & (gaps > g)] = g
        if np.isfinite(gaps).all():
            break
        g *= _FACTOR
    apart = _longest_chain(gaps, K) * (1.0 + K * _FEW * DOUBLE)
    far = apart * (K - 1) / K + _FEW * DOUBLE * np.abs(start).max()
    return {"low": start - far, "high": start + far, "apart": apart}


def _weights_above(behind: Array, shift: Array, weights: Array) -> Array:
    """For each set of classes, the weight of the rows with ``M_i + shift_i > 0``.

    Let a shift be positive. M_i is above minus the shift if S has a class that is behind the top by
    less. If it is not, M_i is above its size if all classes that are behind by no more are in S.
    """
    K = behind.shape[1]
    rising = shift > 0.0
    near = np.where(rising[:, None], behind < shift[:, None], behind <= -shift[:, None])
    codes = near @ (1 << np.arange(K))
    any_of = _by_number(codes[rising], weights[rising], 1 << K)
    all_of = _by_number(codes[~rising], weights[~rising], 1 << K)
    missed = _sums_of_subsets(any_of, K)[::-1]  # the complement of a set has the other bits
    return any_of.sum() - missed + _sums_of_subsets(all_of, K)


def _by_number(numbers: Sets, weights: Array, count: int) -> Array:
    return np.asarray(np.bincount(numbers, weights, count), dtype=np.float64)


def _sums_of_subsets(values: Array, K: int) -> Array:
    """For each set, the sum over all sets in it; a set is a number with a bit for each class."""
    sums = values.copy()
    for k in range(K):
        pairs = sums.reshape(-1, 2, 1 << k)
        pairs[:, 1] += pairs[:, 0]
    return sums


def _sums_of_sets(values: Array) -> Array:
    """For each set, the sum of the values of its classes."""
    sums = np.zeros(1)
    for value in values:
        sums = np.r_[sums, sums + value]
    return sums


def _longest_chain(gaps: Array, K: int) -> float:
    """The largest sum of gaps over a chain of sets, each with one class more than the last."""
    sets, bits = np.arange(1 << K), 1 << np.arange(K)
    sizes = ((sets[:, None] & bits) > 0).sum(axis=1)
    sums = np.zeros(1 << K)
    for size in range(1, K + 1):
        own = sets[sizes == size][:, None]
        before = np.where(own & bits, sums[own & ~bits], -np.inf)
        sums[own[:, 0]] = before.max(axis=1) + gaps[own[:, 0]]
    return float(sums[-1])
