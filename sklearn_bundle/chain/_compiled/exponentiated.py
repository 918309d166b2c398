"""Exponentiated gradient on the dual of chain CRFs: blocks kept as log-potentials."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.chain._compiled.chain import scores, transitions
from sklearn_bundle.chain._compiled.chain_dual import add_rows, aggregate, dot, largest, shrink_rows
from sklearn_bundle.chain._compiled.forward_backward import marginals, new_work
from sklearn_bundle.jit.decorators import inlined, inner, jit
from sklearn_bundle.jit.sampling import pick, put
from sklearn_bundle.jit.vector import WIDTH, fma, load, minus, splat, store

_ATTEMPTS = 10  # trial steps, each half of the last: down to 1/512 of the first
_ROUNDING = 1e-13  # relative to the numbers whose difference a gain is: smaller losses are ignored
_OVER = 1.5  # times the step of the quadratic model: this took fewer epochs in a trial


class _Buffers(NamedTuple):
    theta: NDArray[np.float64]
    theta_pairs: NDArray[np.float64]
    move: NDArray[np.float64]
    move_pairs: NDArray[np.float64]
    mu: NDArray[np.float64]
    mu_edges: NDArray[np.float64]
    nu: NDArray[np.float64]
    nu_edges: NDArray[np.float64]
    rows: NDArray[np.float64]


@jit
def epoch(chains, weights, strength, w, raw, threshold, blocks, gaps, couplings, sampling, steps):
    """Visit ``steps`` blocks, one after the other, of the dual with ``strength/2 ||w||^2``.

    w is ``raw`` with all entries moved by ``threshold`` towards 0; without a threshold it is
    ``raw``. With one, the returned gain is a lower bound of the dual's.

    Returns the gain of the dual, the oracle calls, and the sum of the numbers whose differences
    the gains are.

    ``gaps[i]`` is the gap of block i at its last visit. ``couplings[i]`` is the squared change of
    the features over that of the marginals in its last step.
    """
    S = chains.width
    T = largest(chains.tokens)
    size, square = T * S, S * S
    work = new_work(T, S)
    buffers = _Buffers(
        np.empty(size),
        np.empty(square),
        np.empty(size),
        np.empty(square),
        np.empty(size),
        np.empty(square),
        np.empty(size),
        np.empty(square),
        np.empty((largest(chains.blocks) + S + 3) * S),
    )
    gained = of_numbers = 0.0
    calls = 0
    for _ in range(steps):
        i = pick(sampling)
        scale = weights[i] / strength
        slope, step, entropy, numbers = _direction(
            chains, i, scale, w, blocks, gaps, couplings, work, buffers
        )
        of_numbers += weights[i] * numbers
        calls += 2
        if slope > 0.0:
            for _ in range(_ATTEMPTS):
                gain = _move(chains, i, scale, blocks, couplings, step, entropy, work, buffers)
                calls += 1
                if gain >= -_ROUNDING * numbers:
                    add_rows(chains, i, -scale, buffers.rows, raw)
                    if threshold > 0.0:
                        shrink_rows(chains, i, threshold, raw, w)
                    gained += weights[i] * gain
                    break
                step *= 0.5
            else:
                _move(chains, i, scale, blocks, couplings, 0.0, entropy, work, buffers)
        put(sampling, i, weights[i] * gaps[i])
    return gained, calls, of_numbers


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
def _move(chains, i, scale, blocks, couplings, step, entropy, work, b):
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
    squared = aggregate(chains, i, b.nu, b.nu_edges, b.rows)
    distance = dot(b.nu, b.nu, size)
    if distance > 0.0:
        couplings[i] = squared / distance
    return log_z - expected - entropy + along - 0.5 * scale * squared
