"""Outputs that an oracle found, kept with their weights in the dual, and steps on them.

An output y of an example enters risk and dual as a sparse vector psi, the difference between the
features of the true output and its own, and as a loss (section 3.3 of Yu and Rousu).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.jit.decorators import inner, jit, registered
from sklearn_bundle.jit.sampling import pick, put
from sklearn_bundle.structured._compiled import structures

STEPS, CHECK, CACHED, GAPS, SUM = 0, 1, 2, 3, 4  # what a visit is for
SCORES, BOUNDS, HIGHEST = 0, 1, 2  # rows of what a visit has found
DRAWN = -1  # in the order of a visit: an example that is drawn
_PAIRS = 8  # limit of pairwise steps on an example, times the number of its outputs
_SHARE = 1e-2  # an example is solved until its gap is this share of the gap it began with


class Kept(NamedTuple):
    """A row per example, a column per kept output; the first output is the true one, of zeros.

    An output has the weight q, the entries ``begin`` to ``begin + length``, and ``idle``, the
    number of visits for which q has been 0. ``gram`` has the products of an example's psi.
    ``used`` has the number of entries in use, and an example that lacked a place. There are more
    columns if an example needs them, up to ``limit``; beyond that an output without weight gives up
    its place.
    """

    limit: int
    count: NDArray[np.int64]
    q: NDArray[np.float64]
    loss: NDArray[np.float64]
    begin: NDArray[np.int64]
    length: NDArray[np.int64]
    idle: NDArray[np.int64]
    gram: NDArray[np.float64]
    indices: NDArray[np.uint32]
    values: NDArray[np.float64]
    used: NDArray[np.int64]


class Dual(NamedTuple):
    """What steps change, w and raw, the gaps as last seen, and what they need for it.

    ``w = factor * sum_i s_i sum_y q_i(y) psi_i(y)`` plus what the solver adds; negative entries of
    the cone are 0 in w and keep their value in ``raw``. Without a cone both are the same array.
    ``counts`` holds the gain of the dual and the number of entries that were read for it.
    """

    squared: bool
    factor: float
    patience: int
    weights: NDArray[np.float64]
    w: NDArray[np.float64]
    raw: NDArray[np.float64]
    cone: NDArray[np.bool_]
    gaps: NDArray[np.float64]
    counts: NDArray[np.float64]


class Given(NamedTuple):
    """Outputs found elsewhere, for the examples from ``first`` on, as a structure."""

    first: int
    starts: NDArray[np.int64]
    indices: NDArray[np.uint32]
    values: NDArray[np.float64]
    losses: NDArray[np.float64]
    scores: NDArray[np.float64]
    bounds: NDArray[np.float64]


@registered(structures.new_work, Given)
def _new_work(given):
    return 0


@registered(structures.worst, Given)
def _worst(given, i, w, work, indices, values):
    row = i - given.first
    begin, length = given.starts[row], given.starts[row + 1] - given.starts[row]
    for e in range(length):
        indices[e], values[e] = given.indices[begin + e], given.values[begin + e]
    return length, given.losses[row], given.scores[row], given.bounds[row]


@inner
def _product(kept, i, k, w):
    """``<w, psi>``, in four sums that do not wait for each other."""
    begin, end = kept.begin[i, k], kept.begin[i, k] + kept.length[i, k]
    indices, values = kept.indices, kept.values
    a = b = c = d = 0.0
    whole = end - (end - begin) % 4
    for e in range(begin, whole, 4):
        a += values[e] * w[np.int64(indices[e])]
        b += values[e + 1] * w[np.int64(indices[e + 1])]
        c += values[e + 2] * w[np.int64(indices[e + 2])]
        d += values[e + 3] * w[np.int64(indices[e + 3])]
    for e in range(whole, end):
        a += values[e] * w[np.int64(indices[e])]
    return (a + b) + (c + d)


@inner
def _add(kept, i, k, amount, dual):
    """``w += amount * psi``."""
    for e in range(kept.begin[i, k], kept.begin[i, k] + kept.length[i, k]):
        at = np.int64(kept.indices[e])
        value = dual.raw[at] + amount * kept.values[e]
        dual.raw[at] = value
        if dual.cone.shape[0] > 0:
            dual.w[at] = max(value, 0.0) if dual.cone[at] else value


@inner
def _find(kept, i, indices, values, length, loss):
    """The place of an output of example i, or -1."""
    for k in range(kept.count[i]):
        if kept.length[i, k] == length and kept.loss[i, k] == loss:
            e, begin = 0, kept.begin[i, k]
            while e < length and kept.indices[begin + e] == indices[e]:
                if kept.values[begin + e] != values[e]:
                    break
                e += 1
            if e == length:
                return k
    return -1


@inner
def _free_place(kept, i, patience):
    """A place for an output of example i, or -1."""
    idle, count = -1, kept.count[i]
    for k in range(1, count):  # the true output stays
        if kept.q[i, k] == 0.0 and (idle < 0 or kept.idle[i, k] > kept.idle[i, idle]):
            idle = k
    if idle > 0 and kept.idle[i, idle] > patience:
        return idle
    if count < kept.q.shape[1]:
        return count
    return idle if count >= kept.limit else -1


@inner
def _keep(kept, i, indices, values, length, loss, patience, table):
    """Keep an output of example i, with weight 0 if it is new; False if there is no place for it.

    ``table`` is a vector of zeros like w.
    """
    k = _find(kept, i, indices, values, length, loss)
    if k >= 0:
        kept.idle[i, k] = 0
        return True
    k, begin = _free_place(kept, i, patience), kept.used[0]
    if k < 0:
        return False
    kept.count[i] = max(kept.count[i], k + 1)
    kept.used[0] = begin + length
    kept.begin[i, k], kept.length[i, k], kept.loss[i, k] = begin, length, loss
    kept.q[i, k], kept.idle[i, k] = 0.0, 0
    for e in range(length):
        kept.indices[begin + e], kept.values[begin + e] = indices[e], values[e]
        table[np.int64(indices[e])] = values[e]
    for other in range(kept.count[i]):
        product = _product(kept, i, other, table)
        kept.gram[i, k, other] = kept.gram[i, other, k] = product
    for e in range(length):
        table[np.int64(indices[e])] = 0.0
    return True


@inner
def _gap(q, scores, count, squared, highest):
    """An example's part of the duality gap if its worst output has the score ``highest``."""
    mean = weight = 0.0
    for k in range(count):
        if q[k] > 0.0:
            mean += q[k] * scores[k]
            weight += q[k]
    if squared:
        highest = max(highest, 0.0)
        return max(0.5 * highest * highest + 0.5 * weight * weight - mean, 0.0)
    return max(highest - mean, 0.0)


@inner
def _improve(gram, q, scores, count, scale, squared):
    """Nearly the best weights of an example, in place in q and the scores; the dual's gain.

    Each step moves weight from an output with the lowest score to one with the highest. With
    ``squared`` the sum of weights is free: steps change one output, and the true one, whose psi is
    0, stands for the derivative of half of the squared sum.
    """
    gain, start = 0.0, -1.0
    if squared:
        scores[0] = 0.0
        for k in range(1, count):
            scores[0] += q[k]
    for _ in range(_PAIRS * count):
        to, low, mean = 0, -1, 0.0
        for k in range(count):
            if scores[k] > scores[to]:
                to = k
            if q[k] > 0.0:
                mean += q[k] * scores[k]
                if low < 0 or scores[k] < scores[low]:
                    low = k
        if squared:
            falls = low >= 0 and scores[0] - scores[low] > scores[to] - scores[0]
            to, low = (0, low) if falls else (to, 0)
        slope = scores[to] - scores[low]
        gap = slope if squared else scores[to] - mean
        start = gap if start < 0.0 else start
        if gap <= _SHARE * start or not slope > 0.0:
            break
        bend = scale * (gram[to, to] + gram[low, low] - 2.0 * gram[to, low])
        bend += 1.0 if squared else 0.0
        most = np.inf if squared and low == 0 else q[low]
        step = slope / bend if slope < most * bend else most
        gain += step * slope - 0.5 * step * step * bend
        if not (squared and low == 0):
            q[low] = q[low] - step if step < most else 0.0
        if not (squared and to == 0):
            q[to] += step
        for k in range(count):
            scores[k] -= step * scale * (gram[to, k] - gram[low, k])
        if squared:
            scores[0] += step if low == 0 else -step
    return gain


@jit
def visit(task, structure, kept, dual, sampling, order, longest, found):
    """Visit the examples in this order; returns how many of them the memory was enough for.

    STEPS: ask the oracle, keep its output, move the weights of the example. CACHED: move them, over
    the outputs that there are. GAPS: ``found[SCORES]`` gets the gaps over these. CHECK: ask and
    keep; ``found`` gets scores and bounds of the oracle's outputs, and the highest score of all
    kept. SUM: add what makes up raw. Returns ``-1 - n`` if there is no place for an output of the
    example that is number n.
    """
    most = 0
    for n in range(longest.shape[0]):
        most = max(most, longest[n])
    indices, values = np.empty(most, np.uint32), np.empty(most)
    asks = task < CACHED
    work, table = structures.new_work(structure), np.zeros(dual.w.shape[0] * asks)
    scores, before = np.empty(kept.q.shape[1]), np.empty(kept.q.shape[1])
    for n in range(order.shape[0]):
        if asks and kept.used[0] + most > kept.indices.shape[0]:
            return n
        i = order[n] if order[n] >= 0 else pick(sampling)
        count, q, highest, top = kept.count[i], kept.q[i], -np.inf, -np.inf
        if task == SUM:
            weight = 0.0
            for k in range(count):
                weight += q[k]
            weight = 1.0 if dual.squared else weight
            for k in range(count):
                if q[k] > 0.0:
                    _add(kept, i, k, dual.weights[i] * q[k] / weight, dual)
            continue
        if asks:
            length, loss, highest, bound = structures.worst(
                structure, i, dual.w, work, indices, values
            )
            output = indices, values, length, loss
            if (length > 0 or loss > 0.0) and not _keep(kept, i, *output, dual.patience, table):
                kept.used[1] = i
                return -1 - n
            if task == CHECK:
                found[SCORES, i], found[BOUNDS, i] = highest, bound
            count = kept.count[i]
        for k in range(count):
            scores[k] = -np.inf
            if k == 0 or q[k] > 0.0 or kept.idle[i, k] <= dual.patience:
                scores[k] = kept.loss[i, k] - _product(kept, i, k, dual.w)
                dual.counts[1] += kept.length[i, k]
            before[k], top = q[k], max(top, scores[k])
        gap = _gap(q, scores, count, dual.squared, highest if task == CHECK else top)
        if task == GAPS:
            found[SCORES, i] = gap
            continue
        if asks:
            dual.gaps[i] = gap
        if task == CHECK:
            found[HIGHEST, i] = top
            continue
        if gap > 0.0:
            scale = dual.factor * dual.weights[i]
            gain = _improve(kept.gram[i], q, scores, count, scale, dual.squared)
            dual.counts[0] += dual.weights[i] * gain
        for k in range(count):
            if q[k] != before[k]:
                _add(kept, i, k, dual.factor * dual.weights[i] * (q[k] - before[k]), dual)
            kept.idle[i, k] = 0 if q[k] > 0.0 else kept.idle[i, k] + 1
        if task == STEPS:
            put(sampling, i, dual.weights[i] * gap)
    return order.shape[0]
