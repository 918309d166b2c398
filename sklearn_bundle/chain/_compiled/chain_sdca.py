"""Algorithm 2 of Le Priol et al.: blocks kept as marginals, and an exact line search."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.chain._compiled.chain import scores, transitions
from sklearn_bundle.chain._compiled.chain_dual import add_rows, aggregate, dot, largest, shrink_rows
from sklearn_bundle.chain._compiled.forward_backward import marginals, new_work, pair_marginals
from sklearn_bundle.jit.decorators import inner, jit
from sklearn_bundle.jit.elementary import log
from sklearn_bundle.jit.sampling import pick, put
from sklearn_bundle.jit.vector import WIDTH, load, plus, splat, store, total

_TINY = 1e-300  # the smallest probability whose logarithm is taken: it is finite
_ITERATIONS = 50  # of the line search; halvings alone would narrow [0, 1] to 1e-15


class _Buffers(NamedTuple):
    unary: NDArray[np.float64]
    matrix: NDArray[np.float64]
    nodes: NDArray[np.float64]
    edges: NDArray[np.float64]
    pairs: NDArray[np.float64]
    values: NDArray[np.float64]
    slopes: NDArray[np.float64]
    curvatures: NDArray[np.float64]
    rows: NDArray[np.float64]


@jit
def epoch(chains, weights, strength, w, raw, threshold, blocks, gaps, precision, sampling, steps):
    """Visit ``steps`` blocks, one after the other, of the dual with ``strength/2 ||w||^2``.

    w is ``raw`` with all entries moved by ``threshold`` towards 0; without a threshold it is
    ``raw``. With one, the returned gain is a lower bound of the dual's.

    Returns the gain of the dual, the oracle calls, and the sum of the numbers whose differences
    the gains are.
    """
    S = chains.width
    T = largest(chains.tokens)
    work = new_work(T, S)
    long = max(T - 1, 1) * S * S
    buffers = _Buffers(
        np.empty(T * S),
        np.empty(S * S),
        np.empty(T * S),
        np.empty(S * S),
        np.empty(long),
        np.empty(long),
        np.empty(long),
        np.empty(long),
        np.empty((largest(chains.blocks) + S + 3) * S),
    )
    gained = of_numbers = 0.0
    for _ in range(steps):
        i = pick(sampling)
        scale = weights[i] / strength
        with_w, squared = _direction(chains, i, w, blocks, gaps, work, buffers)
        of_numbers += weights[i] * (1.0 + abs(gaps[i]) + abs(with_w) + scale * squared)
        step, gain, entropy = _search(
            chains, i, blocks, with_w, scale * squared, precision, buffers
        )
        gaps[i] = max(gaps[i] - entropy, 0.0)
        if step > 0.0:
            _move(chains, i, blocks, step, buffers)
            add_rows(chains, i, -scale * step, buffers.rows, raw)
            if threshold > 0.0:
                shrink_rows(chains, i, threshold, raw, w)
            gained += weights[i] * gain
        put(sampling, i, weights[i] * gaps[i])
    return gained, steps, of_numbers


@inner
def _direction(chains, i, w, blocks, gaps, work, b):
    """``nu - mu`` of block i, the product of its features with w, and their squared norm.

    ``gaps[i]`` is the gap before the entropy of mu is subtracted.
    """
    S = chains.width
    T = chains.tokens[i + 1] - chains.tokens[i]
    at, pairs_at = chains.tokens[i] * S, blocks.pairs_at[i] * S * S
    pairs = transitions(chains, w)
    for x in range(0, S * S, WIDTH):
        store(b.matrix, x, load(pairs, x))
    scores(chains, i, w, b.unary)
    log_z = marginals(chains, b.unary, b.matrix, T, work, b.nodes, b.edges)
    gaps[i] = log_z
    if T > 1:
        gaps[i] -= dot(b.matrix, b.edges, S * S)
        pair_marginals(chains, b.unary, b.matrix, T, work, b.pairs)
        for x in range((T - 1) * S * S):
            b.pairs[x] -= blocks.pairs[pairs_at + x]
        for x in range(S * S):
            b.edges[x] = 0.0
        for t in range(T - 1):
            for x in range(S * S):
                b.edges[x] += b.pairs[t * S * S + x]
        gaps[i] += dot(b.matrix, b.edges, S * S)
    for x in range(T * S):
        b.nodes[x] -= blocks.nodes[at + x]
    for x in range(T * S):
        gaps[i] -= b.unary[x] * blocks.nodes[at + x]
    with_w = dot(b.unary, b.nodes, T * S)
    if T > 1:
        with_w += dot(b.matrix, b.edges, S * S)
    return with_w, aggregate(chains, i, b.nodes, b.edges, b.rows)


@inner
def _search(chains, i, blocks, with_w, squared, precision, b):
    """The step in [0, 1] with the largest gain, by Newton's method in a shrinking interval.

    Stops when Newton's next step is below ``precision``, at a point that was evaluated, so that its
    gain is known. Returns step, gain and the entropy at 0.
    """
    entropy, slope, _ = _entropy_along(chains, i, blocks, 0.0, b)
    slope += with_w
    if not slope > 0.0:
        return 0.0, 0.0, entropy
    low, high = 0.0, 1.0
    step = min(1.0, slope / (slope + squared))
    best, gain = 0.0, 0.0
    for _ in range(_ITERATIONS):
        value, slope, curvature = _entropy_along(chains, i, blocks, step, b)
        value += step * (with_w - 0.5 * step * squared) - entropy
        slope += with_w - step * squared
        curvature -= squared
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
    return best, gain, entropy


@inner
def _entropy_along(chains, i, blocks, step, b):
    """Entropy (18) of ``mu + step delta``, and its first two derivatives by ``step``."""
    S = chains.width
    T = chains.tokens[i + 1] - chains.tokens[i]
    at, pairs_at = chains.tokens[i] * S, blocks.pairs_at[i] * S * S
    if T == 1:
        return _along(blocks.nodes[at:], b.nodes, S, step, b)
    size = (T - 1) * S * S
    value, slope, curvature = _along(blocks.pairs[pairs_at:], b.pairs, size, step, b)
    if T > 2:
        inner = _along(blocks.nodes[at + S :], b.nodes[S:], (T - 2) * S, step, b)
        value, slope, curvature = value - inner[0], slope - inner[1], curvature - inner[2]
    return value, slope, curvature


@inner
def _along(mu, delta, size, step, b):
    for x in range(size):
        d = delta[x]
        m = max(mu[x] + step * d, _TINY)
        logarithm = log(m)
        b.values[x] = m * logarithm
        b.slopes[x] = d * logarithm
        b.curvatures[x] = d * d / m if abs(d) > 1e-290 else 0.0
    return -_total(b.values, size), -_total(b.slopes, size), -_total(b.curvatures, size)


@inner
def _total(values, size):
    sums = splat(0.0)
    for x in range(0, size, WIDTH):
        sums = plus(load(values, x), sums)
    return total(sums)


@inner
def _move(chains, i, blocks, step, b):
    S = chains.width
    T = chains.tokens[i + 1] - chains.tokens[i]
    at, pairs_at = chains.tokens[i] * S, blocks.pairs_at[i] * S * S
    for x in range(T * S):
        blocks.nodes[at + x] = max(blocks.nodes[at + x] + step * b.nodes[x], 0.0)
    for x in range((T - 1) * S * S):
        blocks.pairs[pairs_at + x] = max(blocks.pairs[pairs_at + x] + step * b.pairs[x], 0.0)
