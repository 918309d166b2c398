"""All that a fit does with sequences, compiled once: passes over them, and steps of dual ascent."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.chain._compiled import features, recursion
from sklearn_bundle.chain._compiled.features import add_excess, dot, most
from sklearn_bundle.chain._compiled.recursion import aligned, largest_size, marginals
from sklearn_bundle.jit.decorators import inner, jit
from sklearn_bundle.jit.vector import WIDTH, load, splat, store

STEPS, GAPS, GRADIENT = 0, 1, 2  # what a visit is for
_ATTEMPTS = 10  # trial steps, each half of the last: down to 1/512 of the first
_ROUNDING = 1e-13  # relative to the numbers whose difference a gain is: smaller losses are ignored
_OVER = 1.5  # times the step of the quadratic model: this took fewer epochs in a trial


class Potentials(NamedTuple):
    """A dual point: for each sequence a distribution of its labelings, by log-potentials.

    ``nodes`` has one row per token, ``pairs`` one matrix (width, width) per sequence of at least
    two tokens, number ``pairs_at[i]``.
    """

    pairs_at: NDArray[np.int64]
    nodes: NDArray[np.float64]
    pairs: NDArray[np.float64]


@jit
def visit(task, chains, labels, weights, blocks, parameters, order, couplings, results, target):
    """Visit the sequences in this order.

    ``parameters`` are the strength of the ridge, w, raw weights, and the threshold by which w is
    nearer to 0 than these; without one, both are the same array.

    STEPS: exponentiated gradient on the dual with ``strength/2 ||w||^2``. A block moves from its
    log-potentials theta towards the scores at w, as far as a quadratic model says, and half as far
    until the dual does not fall. ``couplings[i]`` is the squared change of the features over that
    of the marginals at the last step. Returns how often marginals were computed.

    GAPS and GRADIENT: ``results`` are, per sequence, ``-log p(y|x; w)``, the gap of its block, the
    block's entropy, the sizes of all scores of a labeling and of its log-potentials, and the sum
    over tokens of the probability of wrong labels; ``target`` gets weighted true minus expected
    features, expected under the block for GAPS and under w for GRADIENT.
    """
    strength, w, raw, threshold = parameters
    losses, gaps, entropies, sizes, own_sizes, others = results
    K, S, T = chains.n_labels, chains.width, most(chains.tokens)
    n, m, calls = T * S, S * S, 0
    work = recursion.new_workspace(T, S, chains.bars)
    rows = np.empty((most(chains.blocks) + S + 3) * S)
    move, theta, mu, nu = aligned(n), aligned(n), aligned(n), aligned(n)
    move_pairs, theta_pairs, mu_edges, nu_edges = aligned(m), aligned(m), aligned(m), aligned(m)
    point, pairs = aligned(n), aligned(m)
    for v in range(order.shape[0]):
        i = order[v]
        start, T = chains.tokens[i], chains.tokens[i + 1] - chains.tokens[i]
        size, at, pairs_at = T * S, start * S, 0
        features.scores(chains, i, w, move)
        _copy(features.transitions(chains, w), 0, m, move_pairs)
        log_z_w = marginals(move, move_pairs, T, K, S, work, nu, nu_edges)[0]
        if task != STEPS:
            losses[i] = log_z_w - features.score_of(labels, start, T, S, move, move_pairs)
            losses[i] = max(losses[i], 0.0)
            sizes[i] = T * (largest_size(move, size) + largest_size(move_pairs, m))
        if task == GRADIENT:
            others[i] = add_excess(chains, i, labels, nu, nu_edges, -weights[i], rows, target)
            continue
        pairs_at = blocks.pairs_at[i] * m
        _copy(blocks.nodes, at, size, theta)
        for x in range(0, m, WIDTH):
            own = load(blocks.pairs, pairs_at + x) if T > 1 else splat(0.0)
            store(theta_pairs, x, own)
            store(pairs, x, own)
        log_z = marginals(theta, theta_pairs, T, K, S, work, mu, mu_edges)[0]
        entropy = log_z - dot(theta, mu, size) - dot(theta_pairs, mu_edges, m)
        if task == GAPS:
            own_sizes[i] = T * (largest_size(theta, size) + largest_size(theta_pairs, m))
        _subtract(move, theta, size)
        _subtract(move_pairs, theta_pairs, m)
        with_mu = dot(move, mu, size) + dot(move_pairs, mu_edges, m)
        gaps[i] = max(log_z_w - log_z - with_mu, 0.0)
        if task == GAPS:
            entropies[i] = entropy
            others[i] = add_excess(chains, i, labels, mu, mu_edges, -weights[i], rows, target)
            continue
        calls += 2
        slope = dot(move, nu, size) + dot(move_pairs, nu_edges, m) - with_mu
        if not slope > 0.0:
            continue
        _subtract(nu, mu, size)
        scale = weights[i] / strength
        bend = scale * couplings[i] * dot(nu, nu, size)
        step = min(1.0, _OVER * slope / (slope + bend))
        numbers = 1.0 + abs(log_z) + abs(log_z_w) + abs(with_mu)
        for attempt in range(_ATTEMPTS + 1):
            step = step if attempt < _ATTEMPTS else 0.0
            _along(theta, step, move, size, point, blocks.nodes, at)
            _along(theta_pairs, step, move_pairs, m * (T > 1), pairs, blocks.pairs, pairs_at)
            if step == 0.0:
                break
            calls += 1
            new_log_z = marginals(point, pairs, T, K, S, work, nu, nu_edges)[0]
            gain = new_log_z - dot(point, nu, size) - dot(pairs, nu_edges, m) - entropy
            _subtract(nu, mu, size)
            _subtract(nu_edges, mu_edges, m)
            gain += dot(move, nu, size) + dot(move_pairs, nu_edges, m)  # <w, features>
            gain += dot(theta, nu, size) + dot(theta_pairs, nu_edges, m)
            n_rows = features.aggregate(chains, i, nu, nu_edges, rows)
            squared, distance = dot(rows, rows, n_rows), dot(nu, nu, size)
            if distance > 0.0:
                couplings[i] = squared / distance
            if gain - 0.5 * scale * squared >= -_ROUNDING * numbers:
                features.add_rows(chains, i, -scale, rows, raw)
                if threshold > 0.0:
                    features.shrink_rows(chains, i, threshold, raw, w)
                break
            step *= 0.5
    return calls


@inner
def _copy(source, at, size, out):
    for x in range(0, size, WIDTH):
        store(out, x, load(source, at + x))


@inner
def _subtract(a, b, size):
    for x in range(0, size, WIDTH):
        store(a, x, load(a, x) - load(b, x))


@inner
def _along(source, step, move, size, out, kept, at):
    """Write ``source + step move`` to ``out`` and to ``kept[at:]``."""
    for x in range(0, size, WIDTH):
        moved = step * load(move, x) + load(source, x)
        store(out, x, moved)
        store(kept, at + x, moved)
