"""Scores of all pairs of classes from kernel values, and the votes of these scores."""

import numpy as np

from sklearn_bundle.jit.decorators import SUMS, jit


def _pair_scores(block, coef, ends, intercept, out):
    """``out[a, p]``, the score of row a by the pair p of classes i < j.

    ``block[a, c]`` is the kernel value with support vector c. Class i has those from ``ends[i]`` to
    ``ends[i + 1]``, and ``coef[c]`` has the coefficients against class j in place j, or j - 1 if
    j > i.
    """
    n_classes = ends.shape[0] - 1
    sums = np.empty((n_classes, n_classes - 1))
    for a in range(block.shape[0]):
        row, of_row = block[a], out[a]
        for i in range(n_classes):
            of_class = sums[i]
            for r in range(n_classes - 1):
                of_class[r] = 0.0
            for c in range(ends[i], ends[i + 1]):
                value, of_c = np.float64(row[c]), coef[c]
                for r in range(n_classes - 1):
                    of_class[r] += value * of_c[r]
        p = 0
        for i in range(n_classes):
            for j in range(i + 1, n_classes):
                of_row[p] = sums[i, j - 1] + sums[j, i] + intercept[p]
                p += 1


def _pair_score(block, coef, intercept, out):
    """The same of two classes, or of a machine without classes."""
    for a in range(block.shape[0]):
        row, total = block[a], 0.0
        for c in range(coef.shape[0]):
            total += np.float64(row[c]) * coef[c]
        out[a] = total + intercept


pair_scores, pair_score = jit(_pair_scores), jit(_pair_score, **SUMS)


@jit
def count_votes(scores, ties, votes, sums):
    """Votes of the pairs for each class, and the sums of their scores.

    Of a pair the first class gains what the second one loses. A score of 0 is a vote for the first
    class with ``ties``, otherwise for the second.
    """
    n_classes = votes.shape[1]
    for a in range(scores.shape[0]):
        of_row, row, total = scores[a], votes[a], sums[a]
        for i in range(n_classes):
            row[i], total[i] = 0, 0.0
        p = 0
        for i in range(n_classes):
            for j in range(i + 1, n_classes):
                score = of_row[p]
                won = score > 0.0 or (ties and score == 0.0)
                row[i] += won
                row[j] += not won
                total[i] += score
                total[j] -= score
                p += 1
