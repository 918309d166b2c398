"""Steps of dual ascent for chain CRFs: exponentiated gradient, and SDCA with an exact line search.

Exponentiated gradient keeps blocks as log-potentials; Algorithm 2 of Le Priol et al. keeps them as
marginals.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.chain._compiled.chain import scores, transitions
from sklearn_bundle.chain._compiled.chain_dual import (
    Marginals,
    Potentials,
    add_rows,
    aggregate,
    dot,
    largest,
    shrink_rows,
)
from sklearn_bundle.chain._compiled.forward_backward import marginals, new_work, pair_marginals
from sklearn_bundle.jit.decorators import inlined, inner, jit, registered
from sklearn_bundle.jit.elementary import log
from sklearn_bundle.jit.sampling import pick, put
from sklearn_bundle.jit.vector import WIDTH, fma, load, minus, plus, splat, store, total

_ATTEMPTS = 10  # trial steps, each half of the last: down to 1/512 of the first
_ROUNDING = 1e-13  # relative to the numbers whose difference a gain is: smaller losses are ignored
_OVER = 1.5  # times the step of the quadratic model: this took fewer epochs in a trial
_TINY = 1e-300  # the smallest probability whose logarithm is taken: it is finite
_ITERATIONS = 50  # of the line search; halvings alone would narrow [0, 1] to 1e-15


@jit
def epoch(chains, weights, strength, w, raw, threshold, blocks, gaps, memory, sampling, steps):
    """Visit ``steps`` blocks, one after the other, of the dual with ``strength/2 ||w||^2``.

    w is ``raw`` with all entries moved by ``threshold`` towards 0; without a threshold it is
    ``raw``. With one, the returned gain is a lower bound of the dual's.

    Returns the gain of the dual, the oracle calls, and the sum of the numbers whose differences
    the gains are.

    ``gaps[i]`` is the gap of block i at its last visit. ``memory`` is what steps of this kind of
    blocks need: see below.
    """
    T = largest(chains.tokens)
    work = new_work(T, chains.width)
    buffers = new_buffers(blocks, T, chains.width)
    rows = np.empty((largest(chains.blocks) + chains.width + 3) * chains.width)
    gained = of_numbers = 0.0
    calls = 0
    for _ in range(steps):
        i = pick(sampling)
        scale = weights[i] / strength
        moved, gain, n_calls, numbers = move_block(
            blocks, chains, i, scale, w, gaps, memory, work, buffers, rows
        )
        of_numbers += weights[i] * numbers
        calls += n_calls
        if moved > 0.0:
            add_rows(chains, i, -scale * moved, rows, raw)
            if threshold > 0.0:
                shrink_rows(chains, i, threshold, raw, w)
            gained += weights[i] * gain
        put(sampling, i, weights[i] * gaps[i])
    return gained, calls, of_numbers


def new_buffers(blocks, T, S):
    """Memory to work in, for sequences of up to T positions."""
    raise NotImplementedError  # a name for compiled code: see the two kinds of blocks below


def move_block(
    blocks, chains, i, scale, w, gaps, memory, work, buffers, rows
) -> tuple[float, float, int, float]:
    """Move block i, and write the features' change to ``rows``.

    Returns the share of these rows that w changes by, 0 if the block stays; the gain; the oracle
    calls; and the size of the numbers whose difference the gain is.
    """
    raise NotImplementedError  # as above


# ---- log-potentials ------------------------------------------------------------------------------


class _Logarithms(NamedTuple):
    theta: NDArray[np.float64]
    theta_pairs: NDArray[np.float64]
    move: NDArray[np.float64]
    move_pairs: NDArray[np.float64]
    mu: NDArray[np.float64]
    mu_edges: NDArray[np.float64]
    nu: NDArray[np.float64]
    nu_edges: NDArray[np.float64]


@registered(new_buffers, Potentials)
def _logarithms(blocks, T, S):
    n, m = T * S, S * S
    theta, move = (np.empty(n), np.empty(m)), (np.empty(n), np.empty(m))
    mu, nu = (np.empty(n), np.empty(m)), (np.empty(n), np.empty(m))
    return _Logarithms(theta[0], theta[1], move[0], move[1], mu[0], mu[1], nu[0], nu[1])


@registered(move_block, Potentials)
def _step_of_logarithms(blocks, chains, i, scale, w, gaps, couplings, work, b, rows):
    """``couplings[i]`` is the squared change of the features over that of the marginals."""
    slope, step, entropy, numbers = _direction(
        chains, i, scale, w, blocks, gaps, couplings, work, b
    )
    if not slope > 0.0:
        return 0.0, 0.0, 2, numbers
    for attempt in range(_ATTEMPTS):
        gain = _move(chains, i, scale, blocks, couplings, step, entropy, work, b, rows)
        if gain >= -_ROUNDING * numbers:
            return 1.0, gain, 3 + attempt, numbers
        step *= 0.5
    _move(chains, i, scale, blocks, couplings, 0.0, entropy, work, b, rows)
    return 0.0, 0.0, 2 + _ATTEMPTS, numbers


@inlined
def _direction(chains, i, scale, w, blocks, gaps, couplings, work, b):
    """The direction from the log-potentials theta of block i to the scores at w, and its length."""
    S = chains.width
    T = chains.tokens[i + 1] - chains.tokens[i]
    size, square = T * S, (S * S if T > 1 else 0)
    at, pairs_at = chains.tokens[i] * S, blocks.pairs_at[i] * S * S
    pairs = transitions(chains, w)
    for x in range(0, square, WIDTH):
        store(b.move_pairs, x, load(pairs, x))
    scores(chains, i, w, b.move)
    log_z_w = marginals(chains, b.move, b.move_pairs, T, work, b.nu, b.nu_edges)
    for x in range(0, size, WIDTH):
        old = load(blocks.nodes, at + x)
        store(b.theta, x, old)
        store(b.move, x, minus(load(b.move, x), old))
    for x in range(0, square, WIDTH):
        old = load(blocks.pairs, pairs_at + x)
        store(b.theta_pairs, x, old)
        store(b.move_pairs, x, minus(load(b.move_pairs, x), old))
    log_z = marginals(chains, b.theta, b.theta_pairs, T, work, b.mu, b.mu_edges)
    entropy = log_z - dot(b.theta, b.mu, size) - dot(b.theta_pairs, b.mu_edges, square)
    along = dot(b.move, b.mu, size) + dot(b.move_pairs, b.mu_edges, square)
    slope = dot(b.move, b.nu, size) + dot(b.move_pairs, b.nu_edges, square) - along
    gaps[i] = max(log_z_w - log_z - along, 0.0)
    for x in range(0, size, WIDTH):
        store(b.nu, x, minus(load(b.nu, x), load(b.mu, x)))
    squared = couplings[i] * dot(b.nu, b.nu, size)
    step = min(1.0, _OVER * slope / (slope + scale * squared))
    return slope, step, entropy, 1.0 + abs(log_z) + abs(log_z_w) + abs(along)


@inner
def _move(chains, i, scale, blocks, couplings, step, entropy, work, b, rows):
    """Move block i by ``step`` times ``move``; returns the dual's gain and the features' change.

    The new log-potentials are read back as they are stored, so that w agrees with them.
    """
    S = chains.width
    T = chains.tokens[i + 1] - chains.tokens[i]
    size, square = T * S, (S * S if T > 1 else 0)
    at, pairs_at = chains.tokens[i] * S, blocks.pairs_at[i] * S * S
    factor = splat(step)
    for x in range(0, size, WIDTH):
        store(blocks.nodes, at + x, fma(factor, load(b.move, x), load(b.theta, x)))
        store(work.nodes, x, load(blocks.nodes, at + x))
    for x in range(0, square, WIDTH):
        moved = fma(factor, load(b.move_pairs, x), load(b.theta_pairs, x))
        store(blocks.pairs, pairs_at + x, moved)
        store(work.pairs, x, load(blocks.pairs, pairs_at + x))
    log_z = marginals(chains, work.nodes, work.pairs, T, work, b.nu, b.nu_edges)
    expected = dot(work.nodes, b.nu, size) + dot(work.pairs, b.nu_edges, square)
    for x in range(0, size, WIDTH):
        store(b.nu, x, minus(load(b.nu, x), load(b.mu, x)))
    for x in range(0, square, WIDTH):
        store(b.nu_edges, x, minus(load(b.nu_edges, x), load(b.mu_edges, x)))
    along = dot(b.move, b.nu, size) + dot(b.move_pairs, b.nu_edges, square)  # <w, features>
    along += dot(b.theta, b.nu, size) + dot(b.theta_pairs, b.nu_edges, square)
    squared = aggregate(chains, i, b.nu, b.nu_edges, rows)
    distance = dot(b.nu, b.nu, size)
    if distance > 0.0:
        couplings[i] = squared / distance
    return log_z - expected - entropy + along - 0.5 * scale * squared


# ---- marginals -----------------------------------------------------------------------------------


class _Change(NamedTuple):
    unary: NDArray[np.float64]
    matrix: NDArray[np.float64]
    nodes: NDArray[np.float64]
    edges: NDArray[np.float64]
    pairs: NDArray[np.float64]
    values: NDArray[np.float64]
    slopes: NDArray[np.float64]
    curvatures: NDArray[np.float64]


@registered(new_buffers, Marginals)
def _change(blocks, T, S):
    n, m, long = T * S, S * S, max(T - 1, 1) * S * S
    unary, matrix, nodes, edges = np.empty(n), np.empty(m), np.empty(n), np.empty(m)
    pairs, values = np.empty(long), np.empty(long)
    return _Change(unary, matrix, nodes, edges, pairs, values, np.empty(long), np.empty(long))


@registered(move_block, Marginals)
def _step_of_marginals(blocks, chains, i, scale, w, gaps, precision, work, b, rows):
    """``precision`` is that of the line search."""
    with_w, squared = _toward(chains, i, w, blocks, gaps, work, b, rows)
    numbers = 1.0 + abs(gaps[i]) + abs(with_w) + scale * squared
    step, gain, entropy = _search(chains, i, blocks, with_w, scale * squared, precision, b)
    gaps[i] = max(gaps[i] - entropy, 0.0)
    if step > 0.0:
        _move_marginals(chains, i, blocks, step, b)
    return step, gain, 1, numbers


@inner
def _toward(chains, i, w, blocks, gaps, work, b, rows):
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
    return with_w, aggregate(chains, i, b.nodes, b.edges, rows)


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
def _move_marginals(chains, i, blocks, step, b):
    S = chains.width
    T = chains.tokens[i + 1] - chains.tokens[i]
    at, pairs_at = chains.tokens[i] * S, blocks.pairs_at[i] * S * S
    for x in range(T * S):
        blocks.nodes[at + x] = max(blocks.nodes[at + x] + step * b.nodes[x], 0.0)
    for x in range((T - 1) * S * S):
        blocks.pairs[pairs_at + x] = max(blocks.pairs[pairs_at + x] + step * b.pairs[x], 0.0)
