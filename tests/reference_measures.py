"""References for losses of measures and of orders, without code of the package.

Each function writes a risk out by its definition, as a sum of maxima of explicit planes: a list of
blocks (share v, gradients G of shape (k, n), offsets c of shape (k,)), with
``R(f) = sum over blocks of v max_k (G f + c)_k``. They grow fast: all pairs, all 2^n labelings,
all m! lists of a query.
"""

from itertools import permutations, product

import numpy as np
import scipy.sparse as sp

from tests.reference_cones import by_clarabel, halflines

DISCOUNTS = {
    "log2": lambda position: 1.0 / np.log2(position + 1),
    "reciprocal": lambda position: 1.0 / position,
    "flat": lambda position: 1.0,
}
GAINS = {
    "exp2": lambda relevance: 2.0**relevance - 1.0,
    "linear": lambda relevance: float(relevance),
    "binary": lambda relevance: float(relevance > 0),
}
COSTS = {
    "constant": lambda low, high: 1.0,
    "absolute": lambda low, high: high - low,
    "squared": lambda low, high: (high - low) ** 2,
}


def risk(blocks, scores):
    return sum(share * np.max(G @ scores + c) for share, G, c in blocks)


def optimum(blocks, X, reg_lambda, fit_intercept=False):
    """Smallest reg_lambda/2 ||w||^2 + R(X w + b), by clarabel: a slack a block."""
    n, d = X.shape
    Z = np.c_[X, np.ones(n)] if fit_intercept else X
    p, m = Z.shape[1], len(blocks)
    rows, sides = [], []
    for q, (_, G, c) in enumerate(blocks):  # G Z v - xi_q <= -c
        slack = np.zeros((len(c), m))
        slack[:, q] = -1.0
        rows.append(np.hstack([G @ Z, slack]))
        sides.append(-c)
    quadratic = np.r_[np.full(d, reg_lambda), np.zeros(p - d + m)]
    linear = np.r_[np.zeros(p), [share for share, _, _ in blocks]]
    side = np.concatenate(sides)
    v = by_clarabel(sp.diags(quadratic), linear, np.vstack(rows), side, halflines(len(side)))[:p]
    return 0.5 * reg_lambda * v[:d] @ v[:d] + risk(blocks, Z @ v)


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


def f_beta_table(scores, y, beta):
    """R(f) from all numbers of true and false positives, in O(n^2) instead of 2^n."""
    n = len(y)
    positives, negatives = (np.sort(scores[part])[::-1] for part in (y > 0, y < 0))
    missed = np.r_[0.0, np.cumsum(positives)] - positives.sum()
    added = np.r_[0.0, np.cumsum(negatives)]
    p, q = np.ogrid[: len(positives) + 1, : len(negatives) + 1]
    delta = 1.0 - (1 + beta**2) * p / (beta**2 * len(positives) + p + q)
    return np.max(delta + 2.0 * (missed[:, None] + added) / n)


def position_measure(relevance, group, weights, discount, gain, k):
    """``discount`` and ``gain`` are functions of one position 1, 2, ... and one relevance."""
    n = len(relevance)
    blocks = []
    for query in dict.fromkeys(group):
        rows = [i for i in range(n) if group[i] == query]
        rows.sort(key=lambda i: -gain(relevance[i]))
        b = [gain(relevance[i]) for i in rows]
        m = len(rows)
        if b[0] == b[-1]:
            continue
        count = m if k is None else min(k, m)
        a = [discount(i + 1) if i < count else 0.0 for i in range(m)]
        step = discount(count + 1) if count < m else 0.0
        bound = [discount(i + 1) + step * (i < count) for i in range(m)]
        c = [(i + 1) ** -0.25 for i in range(m)]
        c = [np.mean([c[j] for j in range(m) if b[j] == b[i]]) for i in range(m)]
        best = sum(a[i] * b[i] for i in range(m))
        gradients, offsets = [], []
        for listed in permutations(range(m)):
            g = np.zeros(n)
            for i in range(m):
                g[rows[listed[i]]] += c[i]
                g[rows[i]] -= c[i]
            gradients.append(g)
            offsets.append(sum(bound[i] * (b[i] - b[listed[i]]) for i in range(m)) / best)
        blocks.append((np.mean(weights[rows]), np.array(gradients), np.array(offsets)))
    total = sum(share for share, _, _ in blocks)
    return [(share / total, G, c) for share, G, c in blocks]
