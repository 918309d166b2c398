"""Algorithm 2 of Le Priol et al.: dual ascent on marginals, with an exact line search."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.chain._compiled import features, recursion
from sklearn_bundle.chain._compiled.features import dot, most
from sklearn_bundle.chain._compiled.recursion import largest_size, marginals
from sklearn_bundle.chain._compiled.visit import GAPS
from sklearn_bundle.jit.decorators import inner, jit
from sklearn_bundle.jit.elementary import log
from sklearn_bundle.jit.vector import WIDTH, larger, load, splat, total

_TINY = 1e-300  # the smallest probability whose logarithm is taken: it is finite
_ITERATIONS = 50  # of the line search; halvings alone would narrow [0, 1] to 1e-15


class Marginals(NamedTuple):
    """A dual point by marginals: for each sequence a row of labels per token, then pairs.

    Those of sequence i are ``cells[at[i]:at[i + 1]]``, with zeros up to full vectors.
    """

    at: NDArray[np.int64]
    cells: NDArray[np.float64]


@jit
def visit_marginals(task, chains, labels, weights, blocks, parameters, order, memory, results, to):
    """As :func:`~.visit`, for blocks kept as marginals; ``memory[0]`` is the search's precision.

    In passes the block is the chain with the conditional distributions of the kept numbers, so that
    their rounding does no harm.
    """
    strength, w, raw, threshold = parameters
    losses, gaps, entropies, sizes, _, others = results
    K, S, T, n = chains.n_labels, chains.width, most(chains.tokens), most(blocks.at)
    work = recursion.new_workspace(T, S, chains.bars)
    rows = np.empty((most(chains.blocks) + S + 3) * S)
    unary, nodes, matrix, edges = np.empty(T * S), np.empty(T * S), np.empty(S * S), np.empty(S * S)
    toward, signs, points, logs = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    for v in range(order.shape[0]):
        i = order[v]
        start, T = chains.tokens[i], chains.tokens[i + 1] - chains.tokens[i]
        size, kept = T * S, blocks.cells[blocks.at[i] : blocks.at[i + 1]]
        features.scores(chains, i, w, unary)
        features.copy(w, chains.n_attributes * S, S * S, matrix, 0)
        log_z, table, stride = marginals(unary, matrix, T, K, S, work, nodes, edges)
        if task == GAPS:
            losses[i] = max(log_z - features.score_of(labels, start, T, S, unary, matrix), 0.0)
            sizes[i] = T * (largest_size(unary, size) + largest_size(matrix, S * S))
            entropies[i] = _settled(kept, T, K, S, nodes, edges)
            with_mu = dot(unary, nodes, size) + dot(matrix, edges, S * S)
            gaps[i] = max(log_z - with_mu - entropies[i], 0.0)
            others[i] = features.subtract_truth(chains, i, labels, nodes, edges)
            features.aggregate(chains, i, nodes, edges, rows)
            features.add_rows(chains, i, -weights[i], rows, to)
            continue
        with_nu = dot(unary, nodes, size) + dot(matrix, edges, S * S)
        _toward(kept, T, K, S, work, table, stride, nodes, edges, toward, signs)
        along = dot(unary, nodes, size) + dot(matrix, edges, S * S)
        n_rows, scale = features.aggregate(chains, i, nodes, edges, rows), weights[i] / strength
        bend, of_entropy = scale * dot(rows, rows, n_rows), (kept, toward, signs, points, logs)
        step, entropy = _search(of_entropy, along, bend, memory[0])
        gaps[i] = max(log_z - (with_nu - along) - entropy, 0.0)
        if step > 0.0:
            features.add_rows(chains, i, -scale * step, rows, raw)
            if threshold > 0.0:
                features.shrink_rows(chains, i, threshold, raw, w)
            for x in range(kept.shape[0]):
                kept[x] = max(kept[x] + step * toward[x], 0.0)
    return order.shape[0]


@inner
def _settled(kept, T, K, S, nodes, edges):
    """Write marginals of the chain that the kept numbers make; returns its entropy."""
    mass = entropy = 0.0
    for x in range(T * S):
        nodes[x] = 0.0
    for x in range(S * S):
        edges[x] = 0.0
    for k in range(K):
        mass += kept[k]
    for k in range(K):
        nodes[k] = own = kept[k] / mass
        entropy -= own * log(max(own, _TINY))
    for t in range(1, T):
        for j in range(K):
            row, mass = (T + (t - 1) * K + j) * K, _TINY
            for k in range(K):
                mass += kept[row + k]
            for k in range(K):
                share = kept[row + k] / mass
                own = nodes[(t - 1) * S + j] * share
                edges[j * S + k] += own
                nodes[t * S + k] += own
                entropy -= own * log(max(share, _TINY))
    return entropy


@inner
def _toward(kept, T, K, S, work, table, stride, nodes, edges, toward, signs):
    """Marginals at w become their difference to the kept ones; signs of cells in the entropy."""
    for x in range(kept.shape[0]):
        toward[x], signs[x] = 0.0, 1.0
    for t in range(T):
        for k in range(K):
            toward[t * K + k] = nodes[t * S + k]
            if T > 1:
                signs[t * K + k] = -1.0 if 0 < t < T - 1 else 0.0
    recursion.pair_marginals(T, K, S, work, table, stride, toward, T * K)
    for x in range(kept.shape[0]):
        toward[x] -= kept[x]
    for x in range(T * K):
        nodes[x // K * S + x % K] = toward[x]
    for x in range(S * S):
        edges[x] = 0.0
    for x in range((T - 1) * K * K):
        edges[x // K % K * S + x % K] += toward[T * K + x]


@inner
def _search(of_entropy, along, bend, precision):
    """The step in [0, 1] with the largest gain, by Newton's method in a shrinking interval.

    It stops when Newton's next step is below ``precision``. Returns the step and the entropy at 0.
    """
    entropy, slope, _ = _entropy_along(of_entropy, 0.0)
    slope += along
    if not slope > 0.0:
        return 0.0, entropy
    low, high, step, best, gain = 0.0, 1.0, min(1.0, slope / (slope + bend)), 0.0, 0.0
    for _ in range(_ITERATIONS):
        value, slope, curvature = _entropy_along(of_entropy, step)
        value += step * (along - 0.5 * step * bend) - entropy
        slope, curvature = slope + along - step * bend, curvature - bend
        if value >= gain:
            best, gain = step, value
        if slope > 0.0:
            low = step
        else:
            high = step
        if low >= 1.0:
            break
        following = step - slope / curvature if curvature < 0.0 else 0.5 * (low + high)
        if not low < following < high:
            following = 1.0 if following >= 1.0 and high >= 1.0 else 0.5 * (low + high)
        if abs(following - step) <= precision:
            break
        step = following
    return best, entropy


@inner
def _entropy_along(of_entropy, step):
    """Entropy (18) of ``mu + step (nu - mu)``, and its first two derivatives by ``step``."""
    kept, toward, signs, points, logs = of_entropy
    for x in range(kept.shape[0]):
        points[x] = max(kept[x] + step * toward[x], _TINY)
        logs[x] = log(points[x])
    value, slope, curvature = splat(0.0), splat(0.0), splat(0.0)
    for x in range(0, kept.shape[0], WIDTH):
        own, by_sign = load(toward, x), load(signs, x) * load(logs, x)
        value = load(points, x) * by_sign + value
        slope = own * by_sign + slope
        ratio = own / larger(load(points, x), 1e-290)
        curvature = load(signs, x) * own * ratio + curvature
    return -total(value), -total(slope), -total(curvature)
