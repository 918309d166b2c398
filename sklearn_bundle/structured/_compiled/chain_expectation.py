"""The conditional likelihood of a chain's true labels, for the logistic loss of structures."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.chain._compiled.chain import add_features, scores, transitions
from sklearn_bundle.chain._compiled.chain_dual import largest
from sklearn_bundle.chain._compiled.chain_rounding import (
    largest_of,
    path_error,
    share,
    sum_of_largest,
)
from sklearn_bundle.chain._compiled.forward_backward import Workspace, loss_of, marginals, new_work
from sklearn_bundle.core.roundoff import DOUBLE
from sklearn_bundle.jit.decorators import inlined, inner, registered
from sklearn_bundle.structured._compiled import structures
from sklearn_bundle.structured._compiled.chain_oracle import ChainOutputs

_BIASES = 3  # per token: for its label at any, the first and the last position
_OTHERS = 8.0  # bounds the norms of a token's pairs and biases, see chain_rounding.py


class ExpectationRoom(NamedTuple):
    """Memory to work in, and sizes of w.

    ``unary`` and ``nodes`` have a row per position, ``edges`` is a matrix. ``rows``, ``reach``,
    ``norms`` and ``counts`` have a number per position. ``envelope`` has the largest weight of each
    attribute, ``bias`` is the largest of all biases of a position, ``pair`` that of a pair.
    """

    recursion: Workspace
    unary: NDArray[np.float64]
    nodes: NDArray[np.float64]
    edges: NDArray[np.float64]
    rows: NDArray[np.float64]
    reach: NDArray[np.float64]
    norms: NDArray[np.float64]
    counts: NDArray[np.int64]
    envelope: NDArray[np.float64]
    bias: float
    pair: float


@registered(structures.new_expectation_work, ChainOutputs)
def _new_work(outputs, w):
    chains, S = outputs.chains, outputs.chains.width
    T, bias, first = largest(chains.tokens), 0.0, (chains.n_attributes + S) * S
    for x in range(first, first + _BIASES * S, S):
        bias += largest_of(w[x : x + S], S)
    pair = largest_of(transitions(chains, w), S * S)
    arrays = np.empty(T * S), np.empty(T * S), np.empty(S * S)
    of_tokens = np.empty(T), np.empty(T), np.empty(T), np.empty(T, np.int64)
    return ExpectationRoom(new_work(T, S), *arrays, *of_tokens, envelope_of(chains, w), bias, pair)


@registered(structures.expect, ChainOutputs)
def _expect(outputs, i, w, work, weight, gradient):
    chains, labels = outputs.chains, outputs.labels
    K, S, start = chains.n_labels, chains.width, chains.tokens[i]
    T = chains.tokens[i + 1] - start
    unary, nodes, edges, pairs = work.unary, work.nodes, work.edges, transitions(chains, w)
    scores(chains, i, w, unary)
    log_z = marginals(chains, unary, pairs, T, work.recursion, nodes, edges)
    loss = loss_of(labels, start, T, K, S, unary, pairs, log_z, work.recursion, nodes)
    in_all = sum_of_largest(unary, T, S, work.rows) + T * work.pair * (T > 1)
    shift = path_error(T, K, in_all, work.recursion) + errors_of_scores(chains, i, T, work)
    size = float(T)  # of pairs, including the one subtracted for the true pair
    for t in range(T):
        # One minus the marginal of the true label is the sum of the others, without cancellation.
        own, wrong = t * S + labels[start + t], 0.0
        for x in range(t * S, t * S + K):
            wrong += nodes[x] * (x != own)
        nodes[own] = -wrong
        size += 4.0 * wrong * work.norms[t]
        if t > 0:
            edges[labels[start + t - 1] * S + labels[start + t]] -= 1.0
    add_features(chains, i, weight, nodes, edges, gradient)
    return max(loss, 0.0), shift + share(T, K), size


@inner
def envelope_of(chains, w):
    """The largest weight of each attribute."""
    envelope, W = np.empty(chains.n_attributes), chains.width
    for a in range(envelope.shape[0]):
        envelope[a] = largest_of(w[a * W : a * W + W], W)
    return envelope


@inlined
def errors_of_scores(chains, i, T, work):
    """Bounds of the errors of a sequence's scores, summed over its tokens; fills ``norms``.

    A sum of m products has an error of ``(m + 4) u`` times the sum of their absolute values.
    """
    reach, norms, counts = work.reach, work.norms, work.counts
    for t in range(T):
        reach[t], norms[t], counts[t] = work.bias, 0.0, _BIASES + 4
    first = chains.blocks[i]
    for e in range(chains.entries[i], chains.entries[i + 1]):
        t, value = chains.positions[e], np.float64(chains.values[e])
        reach[t] += abs(value) * work.envelope[chains.attributes[first + chains.slots[e]]]
        norms[t] += value * value
        counts[t] += 1
    errors = 0.0
    for t in range(T):
        errors += DOUBLE * counts[t] * reach[t]
        norms[t] = np.sqrt(norms[t]) + _OTHERS
    return errors
