"""Models of structured outputs as a user would write them, in plain numpy."""

from itertools import permutations, product

import numpy as np
from scipy.optimize import linear_sum_assignment

from sklearn_bundle.models import StructuredModel


class Ranking(StructuredModel):
    """Items in an order, best first: phi is the sum of their features, the first counting most.

    x is a matrix with a row an item, y the numbers of the rows; the loss is how many places the
    items are away from where they belong.
    """

    def __init__(self, decay=0.5):
        self.decay = decay

    def n_parameters(self, X, y):
        return X[0].shape[1]

    def joint_feature(self, x, y):
        return self._shares(x) @ x[list(y)]

    def loss(self, y, y_hat):
        return np.abs(np.argsort(y) - np.argsort(y_hat)).sum()

    def max_loss(self, y):
        return len(y) ** 2 // 2 or 1

    def inference(self, x, w):
        return np.argsort(-x @ w)

    def loss_augmented_inference(self, x, y, w):
        places = np.arange(len(x))
        away = np.abs(np.argsort(y)[:, None] - places)
        items, places = linear_sum_assignment(np.outer(x @ w, self._shares(x)) + away, True)
        return items[np.argsort(places)]

    def slack_rescaled_inference(self, x, y, w):
        def score(order):
            return self.loss(y, order) * (
                1.0 + w @ (self.joint_feature(x, order) - self.joint_feature(x, y))
            )

        return max(self.outputs(x), key=score)

    def outputs(self, x):
        return list(permutations(range(len(x))))

    def _shares(self, x):
        return self.decay ** np.arange(len(x))


def ranked_items():
    """Items and their orders by a linear score."""
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(3, 4)) for _ in range(12)]
    return X, [np.argsort(-x @ [1.0, 0.5, 0.0, -1.0]) for x in X]


class Grid(StructuredModel):
    """Two labels for the cells of a small picture, where neighbors like to be equal.

    x has shape (rows, columns, d), y shape (rows, columns) with 0 and 1. phi is the sum of the
    features of the cells labeled 1, and minus the numbers of unequal neighbors in rows and in
    columns, whose weights must not be negative. The loss is the number of wrong cells.
    """

    def n_parameters(self, X, y):
        self.n_features_ = X[0].shape[2]
        return self.n_features_ + 2

    def nonnegative(self):
        return [self.n_features_, self.n_features_ + 1]

    def joint_feature(self, x, y):
        return self._features(x, np.asarray(y)[None])[0]

    def loss(self, y, y_hat):
        return np.count_nonzero(np.asarray(y) != y_hat)

    def max_loss(self, y):
        return np.size(y)

    def inference(self, x, w):
        labels = self.outputs(x)
        return labels[np.argmax(self._features(x, labels) @ w)]

    def loss_augmented_inference(self, x, y, w):
        labels = self.outputs(x)
        return labels[np.argmax(self._features(x, labels) @ w + (labels != y).sum(axis=(1, 2)))]

    def slack_rescaled_inference(self, x, y, w):
        labels = self.outputs(x)
        margins = 1.0 + (self._features(x, labels) - self.joint_feature(x, y)) @ w
        return labels[np.argmax((labels != y).sum(axis=(1, 2)) * margins)]

    def outputs(self, x):
        shape = x.shape[:2]
        return np.array(list(product((0, 1), repeat=np.prod(shape)))).reshape(-1, *shape)

    def _features(self, x, labels):
        return np.c_[
            np.einsum("nij,ijk->nk", labels, x),
            -np.count_nonzero(np.diff(labels, axis=2), axis=(1, 2)),
            -np.count_nonzero(np.diff(labels, axis=1), axis=(1, 2)),
        ]


class HastyGrid(Grid):
    """The same, one cell at a time changed while that is of use: it may miss the best."""

    exact = False
    slack_rescaled_inference = None

    def inference(self, x, w):
        return self._climb(x, w, np.zeros(x.shape[:2]))

    def loss_augmented_inference(self, x, y, w):
        return self._climb(x, w, 1.0 - 2.0 * np.asarray(y))

    def _climb(self, x, w, further):
        """A local maximum of the score, plus ``further`` in the cells labeled 1."""
        labels = (x @ w[:-2] + further > 0.0).astype(int)
        better = True
        while better:
            better = False
            for cell in np.ndindex(*labels.shape):
                both = np.stack([labels, labels])
                both[:, *cell] = 0, 1
                scores = self._features(x, both) @ w + both[:, *cell] * further[cell]
                best = int(scores[1] > scores[0])
                better |= scores[best] > scores[labels[cell]]
                labels[cell] = best
        return labels


class BoundedGrid(HastyGrid):
    """And a bound of what it may have missed: all cells by themselves, all neighbors equal."""

    def upper_bound(self, x, y, w):
        ones = x @ w[:-2]
        return np.maximum(ones + (np.asarray(y) == 0), np.asarray(y) == 1).sum()
