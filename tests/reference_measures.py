"""References for losses of measures and of orders, without code of the package.

Each function writes a risk out by its definition, as a sum of maxima of explicit planes: a list of
blocks (share v, gradients G of shape (k, n), offsets c of shape (k,)), with
``R(f) = sum over blocks of v max_k (G f + c)_k``. They grow fast: all pairs, all 2^n labelings,
all m! lists of a query.
"""

from itertools import permutations, product

import numpy as np

COSTS = {
    "constant": lambda low, high: 1.0,
    "absolute": lambda low, high: high - low,
    "squared": lambda low, high: (high - low) ** 2,
}


def risk(blocks, scores):
    return sum(share * np.max(G @ scores + c) for share, G, c in blocks)


def _pairs(n, weighted_pairs, total):
    """Blocks v max(0, 1 - (f_better - f_worse)) of (better, worse, weight times cost)."""
    blocks = []
    for better, worse, weight in weighted_pairs:
        G = np.zeros((2, n))
        G[1, better] -= 1.0
        G[1, worse] += 1.0
        blocks.append((weight / total, G, np.array([0.0, 1.0])))
    return blocks


def roc_auc(y, weights):
    positives, negatives = np.flatnonzero(y > 0), np.flatnonzero(y < 0)
    pairs = [(i, j, weights[i] * weights[j]) for i in positives for j in negatives]
    return _pairs(len(y), pairs, sum(weight for *_, weight in pairs))


def ordinal(y, weights, cost, group):
    """``cost`` a function of the lower and the higher grade."""
    n = len(y)
    pairs = [(i, j) for i, j in product(range(n), range(n)) if y[i] > y[j] and group[i] == group[j]]
    total = sum(weights[i] * weights[j] for i, j in pairs)
    return _pairs(n, [(i, j, weights[i] * weights[j] * cost(y[j], y[i])) for i, j in pairs], total)


def f_beta(y, beta):
    n, gradients, offsets = len(y), [], []
    for labels in product([-1.0, 1.0], repeat=n):
        labels = np.array(labels)
        true_positive = np.sum((labels > 0) & (y > 0))
        false_positive = np.sum((labels > 0) & (y < 0))
        false_negative = np.sum((labels < 0) & (y > 0))
        score = (1 + beta**2) * true_positive
        score /= (1 + beta**2) * true_positive + beta**2 * false_negative + false_positive
        gradients.append((labels - y) / n)
        offsets.append(1.0 - score)
    return [(1.0, np.array(gradients), np.array(offsets))]


def ndcg(relevance, group, weights, k):
    n = len(relevance)
    gain, blocks = np.exp2(relevance) - 1.0, []
    for query in dict.fromkeys(group):
        rows = np.flatnonzero(np.asarray(group) == query)
        rows = rows[np.argsort(-gain[rows], kind="stable")]
        b, m = gain[rows], len(rows)
        if b[0] == b[-1]:
            continue
        count = m if k is None else min(k, m)
        discount = 1.0 / np.log2(np.arange(m + 1) + 2.0)
        step = discount[count] if count < m else 0.0
        bound = discount[:m] + step * (np.arange(m) < count)
        best = discount[:count] @ b[:count]
        c = (np.arange(m) + 1.0) ** -0.25
        c = np.array([c[b == value].mean() for value in b])
        gradients, offsets = [], []
        for listed in map(list, permutations(range(m))):
            g = np.zeros(n)
            g[rows[listed]] += c
            g[rows] -= c
            gradients.append(g)
            offsets.append(bound @ (b - b[listed]) / best)
        blocks.append((np.mean(weights[rows]), np.array(gradients), np.array(offsets)))
    total = sum(share for share, _, _ in blocks)
    return [(share / total, G, c) for share, G, c in blocks]
