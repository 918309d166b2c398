"""Scores of classes, and the class that attains the multiclass hinge loss of a row."""

import numpy as np

from sklearn_bundle.jit.decorators import jit


@jit
def class_scores(scores, starts, nodes, out):
    """The sum of its nodes' scores for each class, row by row."""
    for i in range(scores.shape[0]):
        for k in range(starts.shape[0] - 1):
            total = 0.0
            for j in range(starts[k], starts[k + 1]):
                total += scores[i, nodes[j]]
            out[i, k] = total


@jit
def highest(scores, row, label, costs, slack):
    """Loss of a row, and the class k that attains it: the label itself if the loss is zero.

    ``costs`` has a row per class, or one row of ones for all. The loss is NaN if a score is. NaN is
    tracked separately, since the comparison of a class waits for that of the class before.
    """
    c = min(label, costs.shape[0] - 1)
    own = scores[row, label]
    best = 0.0
    at = label
    broken = False
    for k in range(scores.shape[1]):
        cost = costs[c, k] * (k != label)
        gamma = cost if slack else 1.0
        v = gamma * (scores[row, k] - own) + cost
        higher = v > best
        broken |= v != v
        best = v if higher else best
        at = k if higher else at
    return (np.nan if broken else best), at
