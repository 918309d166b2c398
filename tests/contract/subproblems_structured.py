"""The problem of a StructuredSVM with all outputs of all examples, so only few of each."""

import copy

import numpy as np
import scipy.sparse as sp

from tests import reference_segments
from tests.reference_likelihood import Likelihood
from tests.reference_programme import EPS, LONG
from tests.reference_structured import Outputs, Structured, chains, classes, graphs, matchings, sets


class AtWeights:
    """What problems at a fitted ``w_`` have in common."""

    working = 0.0

    @property
    def modulus(self):
        """Of strong convexity."""
        return self.reg_lambda

    def at(self, model, w):
        """The fitted model at another w."""
        model = copy.copy(model)
        model.w_ = np.pad(np.asarray(w, float), (0, len(model.w_) - len(w)))
        return model

    def dual(self, bound):
        """The dual point is not exposed."""
        return True, ""


class EnumeratedLikelihood(AtWeights, Likelihood):
    """The conditional likelihood at the fitted ``w_``, in extended precision."""

    def __init__(self, model, X, y, sample_weight):
        examples, sizes, self.terms, reg_lambda, weights = _bound(model, X, y, sample_weight)
        super().__init__(examples, reg_lambda, weights)
        self._sizes = [e.phi + e.phi[e.truth] for e in sizes]  # of what is added up in a score
        self.point, rest = np.split(np.asarray(model.w_, LONG), [self.d])
        assert not rest.any(), "a chain without biases has some"
        self.rounding = self.slack = self._rounding(self.point)

    def _rounding(self, w):
        """As of the hinge; a logarithm of a sum moves by no more than its terms' logarithms do."""
        moved = [self.terms * EPS * (sizes @ np.abs(w) + 1).max() for sizes in self._sizes]
        penalty = (len(w) + 2) * EPS * self.reg_lambda * (w @ w) / 2
        return float(
            self.weights @ np.array(moved) + (len(moved) + 2) * EPS * self.risk(w) + penalty
        )


class Enumerated(AtWeights, Structured):
    """The reference's problem at the fitted ``w_``, in extended precision.

    A user's model lists the outputs of x in a method ``outputs``, which the package does not know;
    features and losses are then the model's own.
    """

    def __init__(self, model, X, y, sample_weight):
        examples, sizes, self.terms, *given = _bound(model, X, y, sample_weight)
        super().__init__(
            *(examples, *given),
            scaling=model.scaling,
            squared=model.loss == "squared_hinge",
            cone=model.model_.nonnegative(),
        )
        self.weights = self.weights.astype(LONG)
        self._sizes = [e.phi + e.phi[e.truth] for e in sizes]  # of what is added up in a score
        self._slack = model.scaling == "slack"
        self.point, rest = np.split(np.asarray(model.w_, LONG), [self.d])
        assert not rest.any(), "a chain without biases has some"
        assert self.feasible(self.point), "w_ is not in the cone"
        self.rounding = self.slack = self._rounding(self.point)

    def _rounding(self, w):
        """Scores of so many terms, then a sum over the examples and one over the parameters."""
        slacks, moved = self.slacks(w), []
        for sizes, losses in zip(self._sizes, self.losses, strict=True):
            change = sizes @ np.abs(w) * (losses if self._slack else 1.0) + losses
            moved.append(self.terms * EPS * change.max())
        moved = self.weights @ (np.array(moved) * (slacks if self.squared else 1.0))
        penalty = (len(w) + 2) * EPS * self.reg_lambda * (w @ w) / 2
        return float(moved + (len(slacks) + 2) * EPS * self.risk(w) + penalty)


def _bound(model, X, y, sample_weight):
    """Examples, their sizes and terms as :func:`_listed` has them, reg_lambda and weights."""
    weights = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight, float)
    reg_lambda = 1.0 / weights.sum() if model.reg_lambda is None else model.reg_lambda
    kept = np.flatnonzero(weights)
    X, y = _rows(X), [y[i] for i in kept]
    return *_listed(model, [X[i] for i in kept], y), reg_lambda, weights[kept]


def _rows(X):
    if isinstance(X, list):
        return [x.toarray() if sp.issparse(x) else x for x in X]
    return X.toarray() if sp.issparse(X) else np.asarray(X)


def _listed(model, X, y):
    """Examples, the same of absolute values, and how many terms a score is the sum of."""
    names = {"chain": "Chain", "multiclass": "Multiclass", "matching": "Matching"}
    kind = {**names, "segments": "Segments"}.get(model.model) or type(model.model).__name__
    cost = getattr(model.model_, "cost", None)
    if kind == "Chain":
        chained = isinstance(X, list) and np.ndim(X[0]) == 2
        X, y = (X, y) if chained else ([x[None] for x in X], [[label] for label in y])
        X = [np.asarray(x, LONG) for x in X]
        labels = [np.searchsorted(model.classes_, part) for part in y]
        settings = len(model.classes_), cost, model.model_.fit_intercept
        terms = 2 * max(map(len, X)) * (X[0].shape[1] + 4)
        both = [chains(part, labels, *settings) for part in (X, [np.abs(x) for x in X])]
        return *both, terms
    if kind == "Multiclass":
        X, labels = np.asarray(X, LONG), np.searchsorted(model.classes_, y)
        cost = 1.0 - np.eye(len(model.classes_)) if cost is None else np.asarray(cost)
        both = [classes(part, labels, cost) for part in (X, np.abs(X))]
        return *both, 2 * (X.shape[1] + 2)
    if kind == "Segments":
        return _segments(model, X, y)
    if kind == "PairwiseGraph":
        return _graphs(X, y, model.model_.n_labels_)
    if kind == "Multilabel":
        return _sets(X, y, model.model_)
    if kind == "Matching":
        n, _, d = np.max([np.shape(x) for x in X], axis=0)
        X = [np.asarray(x, LONG) for x in X]
        both = [matchings(part, y) for part in (X, [np.abs(x) for x in X])]
        return *both, 2 * int(n) * (int(d) + 2) + 8 * int(n) ** 2  # scores that are rounded
    examples = [_own(model.model_, x, truth) for x, truth in zip(X, y, strict=True)]
    sizes = [Outputs(np.abs(e.phi), e.losses, e.truth) for e in examples]
    return examples, sizes, 2 * examples[0].phi.shape[1] + 2


def _segments(model, X, y):
    """Segmentations, with the lengths that are allowed."""
    numbers = {label: k for k, label in enumerate(model.classes_.tolist())}
    y = [[(numbers[label], *rest) for label, *rest in segments] for segments in y]
    X, given = [np.asarray(x, LONG) for x in X], model.model_
    limits = given.max_lengths_.tolist()
    both = [reference_segments.examples(part, y, limits) for part in (X, map(np.abs, X))]
    return *both, 2 * max(map(len, X)) * (3 * X[0].shape[1] + 4)


def _graphs(X, y, K):
    X = [(np.asarray(x[0], LONG), x[1], np.asarray(x[2], LONG)) for x in X]
    sizes = [(np.abs(nodes), edges, np.abs(features)) for nodes, edges, features in X]
    terms = max(x[0].size + x[2].size for x in X)
    # A bound is up to 1e-13 of the sum of absolute scores above the labeling that it proves.
    return graphs(X, y, K), graphs(sizes, y, K), 2 * terms + int(2e-13 / EPS)


def _sets(X, Y, model):
    X, given = np.asarray(X, LONG), (model.edges_.tolist(), model.fit_intercept)
    terms = len(Y[0]) * (X.shape[1] + 1) + len(model.edges_)
    return sets(X, Y, *given), sets(np.abs(X), Y, *given), 2 * terms + 2


def _own(model, x, y):
    """An example of a user's model."""
    outputs = list(model.outputs(x))
    phi = np.array([model.joint_feature(x, output) for output in outputs], LONG)
    losses = np.array([model.loss(y, output) for output in outputs], float)
    truth = next(k for k, output in enumerate(outputs) if np.array_equal(output, y))
    return Outputs(phi, losses, truth)
