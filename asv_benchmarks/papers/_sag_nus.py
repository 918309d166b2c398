"""SAG-NUS for chain CRFs: stochastic average gradient with non-uniform sampling.

M. Schmidt, R. Babanezhad, M. O. Ahmed, A. Defazio, A. Clifton, A. Sarkar, Non-uniform stochastic
average gradient method for training conditional random fields, AISTATS 2015. A step on sequence i
replaces its stored gradient g_i of the loss f_i, and moves w along their mean over the m sequences
that were seen so far, with the regularizer exactly as it is:

    w <- (1 - alpha reg_lambda) w - alpha / m * sum_j g_j

* What is stored of a gradient are marginals of the tokens, and of the pairs their sum.
* L_i is halved at each visit, and doubled until ``f_i(w - g_i / L_i) <= f_i(w) - ||g_i||^2 / (2
  L_i)``, unless ``||g_i||^2`` is below 1e-8. Each trial costs an oracle call.
* With r = m / n, ``alpha = (1 - r) / (L_max + reg_lambda) + r/2 [1 / (L_max + reg_lambda) + 1 /
  (L_mean + reg_lambda)]``, the largest and the mean of the L_i so far.
* The next sequence is a new one with probability ``1 - r``; else it is drawn from those seen, half
  of the time uniformly and half of the time in proportion to L_i. A new one begins with the mean.

The last two are the rules of Schmidt's published code for generalized linear models (SAG with
Lipschitz line search). SAG-NUS*, ``skipping``, leaves a search out where they find what is known:
after k searches in a row that left L_i as it was, i is visited ``2^(k-1)`` times without one.

Rows of w whose attributes sequence i lacks move only when they are next needed.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numba import njit

from sklearn_bundle.chain._compiled.features import (
    add_rows,
    aggregate,
    dot,
    less_truth,
    most,
    score_of,
    scores,
)
from sklearn_bundle.chain._compiled.recursion import marginals, new_workspace
from sklearn_bundle.core.contract import State
from sklearn_bundle.jit.sampling import Sampling, pick, put, uniform

Array = np.ndarray

_FLAT = 1e-8  # squared norm of a gradient: along a smaller one, rounding decides
_FIRST = 1.0  # L of the first sequence, before its search
_SMALLEST = 1e-100  # scale of w at which it is multiplied out
SCALE, PATH, SEEN, CALLS = range(4)  # of the counts that steps keep


compiled = njit(nogil=True, error_model="numpy")  # a few seconds in each run, and no cache


@compiled
def bring_up(first, last, attributes, S, path, left, total, point):
    """Rows of attributes to where all steps so far have moved them."""
    for u in range(first, last):
        a = np.int64(attributes[u])
        way = path - left[a]
        if way != 0.0:
            for x in range(a * S, a * S + S):
                point[x] -= way * total[x]
            left[a] = path


@compiled
def multiply_out(chains, counts, left, total, point):
    """w itself in ``point``."""
    S = chains.width
    for a in range(chains.n_attributes):
        way = counts[PATH] - left[a]
        left[a] = 0.0
        for x in range(a * S, a * S + S):
            point[x] = counts[SCALE] * (point[x] - way * total[x])
    for x in range(chains.n_attributes * S, point.shape[0]):
        point[x] *= counts[SCALE]
    counts[SCALE], counts[PATH] = 1.0, 0.0


@compiled
def scores_of_rows(chains, i, rows, out):
    """Scores of the positions of sequence i by weights in rows, as ``aggregate`` has them."""
    S = chains.width
    T = chains.tokens[i + 1] - chains.tokens[i]
    rest = (chains.blocks[i + 1] - chains.blocks[i]) * S + S * S * (T > 1)
    for t in range(T):
        for c in range(S):
            out[t * S + c] = rows[rest + c] if chains.intercept else 0.0
    if chains.intercept:
        for c in range(S):
            out[c] += rows[rest + S + c]
            out[(T - 1) * S + c] += rows[rest + 2 * S + c]
    for e in range(chains.entries[i], chains.entries[i + 1]):
        source = np.int64(chains.places[e, 0]) * S
        target = np.int64(chains.places[e, 1]) * S
        value = chains.values[e * chains.step]
        for c in range(S):
            out[target + c] += value * rows[source + c]


@compiled
def epoch(
    chains, labels, reg_lambda, order, drawn, tops, point, total, left, stored, memory, counts, skip
):
    """As many steps as there are sequences; then ``point`` is w.

    ``total`` is the sum of the stored gradients and ``stored`` what is kept of each, nodes and
    edges. ``memory`` has L_i, searches in a row that left it, and visits to come without a search.
    """
    K, S, n = chains.n_labels, chains.width, order.shape[0]
    T = most(chains.tokens)
    of_nodes, of_edges = stored
    lipschitz, quiet, wait = memory
    work = new_workspace(T, S, chains.bars)
    unary, nodes, trial = np.empty(T * S), np.empty(T * S), np.empty(T * S)
    change, along = np.empty(T * S), np.empty(T * S)
    pairs, edges, changed = np.empty(S * S), np.empty(S * S), np.empty(S * S)
    trial_pairs, unused = np.empty(S * S), np.empty(S * S)
    rows = np.empty(most(chains.blocks) * S + S * S + 3 * S)
    dense = chains.n_attributes * S
    for _ in range(n):
        seen = np.int64(counts[SEEN])
        is_new = uniform(drawn.state) * n < n - seen
        if is_new:
            i = order[seen]
            lipschitz[i] = drawn.tree[1] / seen if seen > 0 else _FIRST
            seen += 1
            counts[SEEN] = seen
        elif uniform(drawn.state) < 0.5:
            i = order[min(np.int64(uniform(drawn.state) * seen), seen - 1)]
        else:
            i = pick(drawn)
        start = chains.tokens[i]
        T = chains.tokens[i + 1] - start
        first, last = chains.blocks[i], chains.blocks[i + 1]
        bring_up(first, last, chains.attributes, S, counts[PATH], left, total, point)
        scores(chains, i, point, unary)
        for x in range(T * S):
            unary[x] *= counts[SCALE]
        for x in range(S * S):
            pairs[x] = counts[SCALE] * point[dense + x]
        log_z = marginals(unary, pairs, T, K, S, work, nodes, edges)[0]
        loss = log_z - score_of(labels, start, T, S, unary, pairs)
        counts[CALLS] += 1.0
        less_truth(labels, start, T, S, nodes, edges)
        for x in range(T * S):
            change[x] = nodes[x] - of_nodes[start * S + x]
            of_nodes[start * S + x] = nodes[x]
        for x in range(S * S):
            changed[x] = edges[x] - of_edges[i * S * S + x]
            of_edges[i * S * S + x] = edges[x]
        aggregate(chains, i, change, changed, rows)
        add_rows(chains, i, 1.0, rows, total)

        n_rows = aggregate(chains, i, nodes, edges, rows)
        squared = dot(rows, rows, n_rows)
        if skip and wait[i] > 0:
            wait[i] -= 1
        elif squared > _FLAT:
            limit = lipschitz[i] if is_new else 0.5 * lipschitz[i]
            scores_of_rows(chains, i, rows, along)
            while True:
                for x in range(T * S):
                    trial[x] = unary[x] - along[x] / limit
                for x in range(S * S):
                    trial_pairs[x] = pairs[x] - edges[x] / limit
                log_z = marginals(trial, trial_pairs, T, K, S, work, change, unused)[0]
                found = log_z - score_of(labels, start, T, S, trial, trial_pairs)
                counts[CALLS] += 1.0
                if found <= loss - 0.5 * squared / limit:
                    break
                limit *= 2.0
            if limit == lipschitz[i] and not is_new:
                quiet[i] += 1
                wait[i] = 1 << min(quiet[i] - 1, 30)
            else:
                quiet[i] = 0
            lipschitz[i] = limit
        put(drawn, i, lipschitz[i])
        put(tops, i, lipschitz[i])

        share = seen / n
        slow = 1.0 / (tops.tree[1] + reg_lambda)
        fast = 1.0 / (drawn.tree[1] / seen + reg_lambda)
        alpha = (1.0 - share) * slow + share * 0.5 * (slow + fast)
        counts[SCALE] *= 1.0 - alpha * reg_lambda
        if not counts[SCALE] > _SMALLEST:
            counts[SCALE] /= 1.0 - alpha * reg_lambda
            multiply_out(chains, counts, left, total, point)
            counts[SCALE] = max(1.0 - alpha * reg_lambda, _SMALLEST)
        way = alpha / (seen * counts[SCALE])
        counts[PATH] += way
        for x in range(dense, point.shape[0]):
            point[x] -= way * total[x]
    multiply_out(chains, counts, left, total, point)


class SAGSolver:
    """A state per epoch of as many steps as there are sequences, from w = 0.

    A state's point is w; its objective is infinite, since the method knows none. The estimate of
    the gap is ``||mean of the stored gradients + reg_lambda w||^2 / (2 reg_lambda)``, which the
    method has for nothing.

    Parameters
    ----------
    problem : ChainProblem
        Whose sequences have equal weights.
    skipping : bool
        SAG-NUS*.
    seed : int
    """

    name = "sag-nus"
    kept = None

    def __init__(self, problem: Any, *, skipping: bool, seed: int):
        n, S = problem.n_sequences, problem.chains.width
        if np.ptp(problem.weights) > 1e-12 / n:
            raise ValueError("SAG-NUS is for sequences of equal weights.")
        self._problem, self._skipping = problem, skipping
        self._order = np.random.default_rng(seed).permutation(n)
        self._drawn, self._tops = _tree(n, False, seed), _tree(n, True, seed)
        self._w, self._total = np.zeros(problem.n_parameters), np.zeros(problem.n_parameters)
        self._left = np.zeros(problem.chains.n_attributes)
        self._stored = np.zeros(len(problem.labels) * S), np.zeros(n * S * S)
        self._memory = np.zeros(n), np.zeros(n, np.int64), np.zeros(n, np.int64)
        self._counts = np.array([1.0, 0.0, 0.0, 0.0])

    def states(self) -> Iterator[State]:
        problem = self._problem
        while True:
            epoch(
                *(problem.chains, problem.labels, problem.reg_lambda, self._order),
                *(self._drawn, self._tops, self._w, self._total, self._left),
                *(self._stored, self._memory, self._counts, self._skipping),
            )
            yield self._state()

    def _state(self) -> State:
        reg_lambda, seen = self._problem.reg_lambda, self._counts[SEEN]
        mean = self._total / seen + reg_lambda * self._w
        estimate = float(mean @ mean) / (2.0 * reg_lambda)
        passes = int(self._counts[CALLS]) // self._problem.n_sequences
        return State(np.inf, 0.0, self._w.copy(), None, passes, None, (estimate,))


def _tree(n: int, of_largest: bool, seed: int) -> Sampling:
    size = 1 << max(1, (n - 1).bit_length())
    state = np.array([seed], np.uint64)
    return Sampling(n, 1.0, of_largest, True, np.zeros(2 * size), np.ones(n), state)
