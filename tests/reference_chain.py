"""Chain CRFs in plain numpy: enumeration of all labelings, log-sum-exp, an optimum by scipy.

Nothing of the package is used. Sequences are dense arrays (T, d), labels are 0 to K - 1, and a
model is one vector: coef (K, d), transitions (K, K) and, with biases, intercept, start and end.
"""

from itertools import pairwise, product

import numpy as np
from scipy.optimize import minimize


def made(n=30, K=3, d=4, longest=6, seed=0):
    """Sequences whose labels depend on the features and on the label before, and on chance."""
    rng = np.random.default_rng(seed)
    coef, transitions = rng.normal(size=(K, d)), rng.normal(size=(K, K))
    X = [rng.normal(size=(T, d)) for T in 1 + np.arange(n) % longest]
    y = []
    for x in X:
        scores = x @ coef.T + rng.gumbel(size=(len(x), K))
        labels = [int(scores[0].argmax())]
        for row in scores[1:]:
            labels.append(int((row + transitions[labels[-1]]).argmax()))
        y.append(labels)
    return X, y


def logsumexp(values, axis=None):
    highest = values.max(axis=axis, keepdims=True)
    sums = np.log(np.exp(values - highest).sum(axis=axis, keepdims=True)) + highest
    return sums.item() if axis is None else sums.squeeze(axis)


def times_log(p):
    """``p log p``, 0 at 0, in the precision of p."""
    return p * np.log(np.where(p > 0.0, p, 1.0))


def softmax(values, axis):
    values = np.exp(values - values.max(axis=axis, keepdims=True))
    return values / values.sum(axis=axis, keepdims=True)


def labelings(T, K):
    """All K^T of them, a row each."""
    return np.array(list(product(range(K), repeat=T)))


def totals(scores, transitions, paths):
    """Score of each path."""
    nodes = scores[np.arange(len(scores)), paths].sum(axis=1)
    return nodes + transitions[paths[:, :-1], paths[:, 1:]].sum(axis=1)


class Joint:
    """The distribution of all labelings of a sequence, from their log-weights."""

    def __init__(self, T, K, log_weights):
        self.K, self.paths = K, labelings(T, K)
        self.log_z = logsumexp(log_weights)
        self.log_p = log_weights - self.log_z
        self.p = np.exp(self.log_p)
        self.one_hot = np.eye(K)[self.paths]

    @property
    def nodes(self):
        return np.einsum("m,mtk->tk", self.p, self.one_hot)

    @property
    def pairs(self):
        first, second = self.one_hot[:, :-1], self.one_hot[:, 1:]
        return np.einsum("m,mtj,mtk->tjk", self.p, first, second)

    @property
    def entropy(self):
        return -np.sum(times_log(self.p))

    def divergence(self, other):
        """KL(self || other)."""
        return np.sum(times_log(self.p)) - self.p @ other.log_p


def from_scores(scores, transitions):
    """p proportional to exp(sum of scores and transitions)."""
    T, K = scores.shape
    return Joint(T, K, totals(scores, transitions, labelings(T, K)))


def forward_values(scores, transitions):
    forward = scores.copy()
    for t in range(1, len(scores)):
        forward[t] += logsumexp(forward[t - 1][:, None] + transitions, axis=0)
    return forward


def forward_backward(scores, transitions):
    """log Z, marginals (T, K) and the sum of the pairs' marginals (K, K), for any length."""
    forward, backward = forward_values(scores, transitions), np.zeros_like(scores)
    for t in range(len(scores) - 1, 0, -1):
        backward[t - 1] = logsumexp(transitions + scores[t] + backward[t], axis=1)
    joint = forward[:-1, :, None] + transitions + (scores + backward)[1:, None, :]
    return logsumexp(forward[-1]), softmax(forward + backward, 1), softmax(joint, (1, 2)).sum(0)


class Model:
    """``P(w) = l1 ||w||_1 + ridge/2 ||w||^2 + sum_i s_i (-log p(y_i|x_i; w))`` of given data.

    ``l1 = reg_lambda l1_ratio`` and ``ridge = reg_lambda (1 - l1_ratio)``.
    With ``dtype=np.longdouble``, and w of that type, all is in extended precision.
    """

    def __init__(
        self, X, y, K, reg_lambda, weights=None, intercept=True, dtype=float, l1_ratio=0.0
    ):
        self.X, self.y = [np.asarray(x, dtype) for x in X], [np.asarray(labels) for labels in y]
        self.dtype = dtype
        self.K, self.d, self.reg_lambda, self.intercept = K, X[0].shape[1], reg_lambda, intercept
        self.l1, self.ridge = reg_lambda * l1_ratio, reg_lambda * (1.0 - l1_ratio)
        weights = np.ones(len(X)) if weights is None else np.asarray(weights, float)
        self.weights = weights / weights.sum()
        bounds = np.cumsum([0, K * self.d, K * K, K, K, K])
        self._slices = [slice(*pair) for pair in pairwise(bounds)]
        self.size = bounds[-1] if intercept else bounds[2]

    def parts(self, w):
        """coef, transitions, intercept, start, end."""
        w = np.concatenate([w, np.zeros(3 * self.K)])
        coef, transitions, *biases = (w[s] for s in self._slices)
        return coef.reshape(self.K, self.d), transitions.reshape(self.K, self.K), *biases

    def joined(self, coef, transitions, intercept, start, end):
        """The inverse of ``parts``."""
        w = np.concatenate([coef.ravel(), transitions.ravel(), intercept, start, end])
        return w[: self.size]

    def scores(self, i, w):
        """(T, K), with biases, and transitions."""
        coef, transitions, intercept, start, end = self.parts(w)
        scores = self.X[i] @ coef.T + intercept
        scores[0] += start
        scores[-1] += end
        return scores, transitions

    def features(self, i, nodes, edges):
        """What a labeling, or a distribution of them, makes of each feature."""
        biases = nodes.sum(axis=0), nodes[0], nodes[-1]
        return self.joined(nodes.T @ self.X[i], edges, *biases)

    def features_of(self, i, labels):
        nodes, edges = np.eye(self.K, dtype=self.dtype)[labels], np.zeros((self.K, self.K))
        np.add.at(edges, (labels[:-1], labels[1:]), 1.0)
        return self.features(i, nodes, edges)

    def true_features(self, i):
        return self.features_of(i, self.y[i])

    def objective_and_gradient(self, w):
        """Of all but the L1 norm."""
        value, gradient = 0.5 * self.ridge * (w @ w), self.ridge * w
        for i, s in enumerate(self.weights):
            log_z, nodes, edges = forward_backward(*self.scores(i, w))
            truth = self.true_features(i)
            value += s * (log_z - w @ truth)
            gradient = gradient + s * (self.features(i, nodes, edges) - truth)
        return value, gradient

    def log_probability(self, i, w, labels):
        scores, transitions = self.scores(i, w)
        total = totals(scores, transitions, np.asarray(labels)[None])[0]
        return total - logsumexp(forward_values(scores, transitions)[-1])

    def objective(self, w):
        losses = [-self.log_probability(i, w, labels) for i, labels in enumerate(self.y)]
        return self.l1 * np.abs(w).sum() + 0.5 * self.ridge * (w @ w) + self.weights @ losses

    def dual(self, joints):
        """w and D of a distribution of the labelings of each sequence, without L1."""
        w, entropy = np.zeros(self.size), 0.0
        for i, (s, joint) in enumerate(zip(self.weights, joints, strict=True)):
            expected = self.features(i, joint.nodes, joint.pairs.sum(axis=0))
            w += s / self.reg_lambda * (self.true_features(i) - expected)
            entropy += s * joint.entropy
        return w, entropy - 0.5 * self.reg_lambda * (w @ w)

    def optimum(self):
        """The point that minimizes P; its gradient is zero to 1e-9 or so.

        With L1 it is the difference of two vectors that are not negative.
        """
        if self.l1:
            return self._sparse_optimum()
        w = np.zeros(self.size)
        for _ in range(3):  # scipy's line search may give up near the end: start anew
            w = minimize(
                self.objective_and_gradient,
                *(w,),
                jac=True,
                method="L-BFGS-B",
                options={"maxiter": 5000, "maxcor": 30, "ftol": 0.0, "gtol": 1e-10},
            ).x
        return w

    def _sparse_optimum(self):
        def split(both):
            up, down = np.split(both, 2)
            value, gradient = self.objective_and_gradient(up - down)
            return value + self.l1 * both.sum(), np.r_[gradient, -gradient] + self.l1

        both = np.zeros(2 * self.size)
        for _ in range(3):
            both = minimize(
                split,
                *(both,),
                jac=True,
                method="L-BFGS-B",
                bounds=[(0.0, None)] * len(both),
                options={"maxiter": 5000, "maxcor": 30, "ftol": 0.0, "gtol": 1e-10},
            ).x
            common = np.minimum(*np.split(both, 2))
            both = both - np.r_[common, common]
        up, down = np.split(both, 2)
        return up - down
