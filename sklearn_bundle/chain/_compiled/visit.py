"""All that a fit does with sequences, compiled once: passes over them, and steps of dual ascent."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.chain._compiled import features, recursion
from sklearn_bundle.chain._compiled.features import add, copy, dot, most
from sklearn_bundle.chain._compiled.recursion import aligned, largest_size, marginals
from sklearn_bundle.jit.decorators import jit
from sklearn_bundle.jit.vector import WIDTH, load, store

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
    # Scores and marginals of pairs, and then of tokens.
    move, theta, point = aligned(m + n), aligned(m + n), aligned(m + n)
    mu, nu = aligned(m + n), aligned(m + n)
    move_nodes, theta_nodes, point_nodes = move[m:], theta[m:], point[m:]
    mu_nodes, nu_nodes = mu[m:], nu[m:]
    for v in range(order.shape[0]):
        i = order[v]
        start, T = chains.tokens[i], chains.tokens[i + 1] - chains.tokens[i]
        size, at, of_pairs = m + T * S, start * S, m if T > 1 else 0
        features.scores(chains, i, w, move_nodes)
        for x in range(0, m, WIDTH):
            store(move, x, load(w, chains.n_attributes * S + x))
        log_z_w = marginals(move_nodes, move, T, K, S, work, nu_nodes, nu)[0]
        if task != STEPS:
            losses[i] = log_z_w - features.score_of(labels, start, T, S, move_nodes, move)
            losses[i] = max(losses[i], 0.0)
            sizes[i] = T * (largest_size(move, m) + largest_size(move_nodes, T * S))
        if task == GRADIENT:
            others[i] = features.subtract_truth(chains, i, labels, nu_nodes, nu)
            features.aggregate(chains, i, nu_nodes, nu, rows)
            features.add_rows(chains, i, -weights[i], rows, target)
            continue
        pairs_at = blocks.pairs_at[i] * m
        for x in range(m):
            theta[x] = 0.0
        copy(blocks.pairs, pairs_at, of_pairs, theta, 0)
        copy(blocks.nodes, at, T * S, theta, m)
        log_z = marginals(theta_nodes, theta, T, K, S, work, mu_nodes, mu)[0]
        entropy = log_z - dot(theta, mu, size)
        if task == GAPS:
            own_sizes[i] = T * (largest_size(theta, m) + largest_size(theta_nodes, T * S))
        add(move, 0, -1.0, theta, 0, size, move)
        with_mu = dot(move, mu, size)
        gaps[i] = max(log_z_w - log_z - with_mu, 0.0)
        if task == GAPS:
            entropies[i] = entropy
            others[i] = features.subtract_truth(chains, i, labels, mu_nodes, mu)
            features.aggregate(chains, i, mu_nodes, mu, rows)
            features.add_rows(chains, i, -weights[i], rows, target)
            continue
        calls += 2
        slope = dot(move, nu, size) - with_mu
        if not slope > 0.0:
            continue
        add(nu, 0, -1.0, mu, 0, size, nu)
        scale = weights[i] / strength
        bend = scale * couplings[i] * dot(nu_nodes, nu_nodes, T * S)
        step = min(1.0, _OVER * slope / (slope + bend))
        numbers = 1.0 + abs(log_z) + abs(log_z_w) + abs(with_mu)
        for _ in range(_ATTEMPTS):
            add(theta, 0, step, move, 0, size, point)
            calls += 1
            new_log_z = marginals(point_nodes, point, T, K, S, work, nu_nodes, nu)[0]
            gain = new_log_z - dot(point, nu, size) - entropy
            add(nu, 0, -1.0, mu, 0, size, nu)
            gain += dot(move, nu, size) + dot(theta, nu, size)  # <w, features>
            n_rows = features.aggregate(chains, i, nu_nodes, nu, rows)
            squared, distance = dot(rows, rows, n_rows), dot(nu_nodes, nu_nodes, T * S)
            if distance > 0.0:
                couplings[i] = squared / distance
            if gain - 0.5 * scale * squared >= -_ROUNDING * numbers:
                features.add_rows(chains, i, -scale, rows, raw)
                if threshold > 0.0:
                    features.shrink_rows(chains, i, threshold, raw, w)
                copy(point, 0, of_pairs, blocks.pairs, pairs_at)
                copy(point, m, T * S, blocks.nodes, at)
                break
            step *= 0.5
    return calls
