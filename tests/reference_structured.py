"""Structured hinge losses by enumeration of all outputs, and their optima by interior points.

Nothing of the package is used. An example is the list of its outputs, with their features and
losses; a problem is a list of examples. The cone programs are the primal problem with one slack per
example, and the dual with one weight per output: neither is derived from the other here.
"""

from dataclasses import dataclass
from itertools import permutations, product

import numpy as np
import scipy.sparse as sp

from tests import reference_chain
from tests.reference_cones import by_clarabel, halflines, zeros
from tests.reference_programme import Optimum

# The grid of 2 x 3 nodes, numbered by rows, and its edges.
GRID = [(0, 1), (1, 2), (3, 4), (4, 5), (0, 3), (1, 4), (2, 5)]

# Relative, of interior points: they may give up far from the sharper one and reach the other.
ASKED = 1e-11, 1e-9


@dataclass
class Outputs:
    """All outputs of an example: joint features, a row each, losses, and the true one's row."""

    phi: np.ndarray
    losses: np.ndarray
    truth: int = 0

    def psi(self, scaling):
        """``phi(x, y_i) - phi(x, y)``, with slack rescaling l(y) times."""
        psi = self.phi[self.truth] - self.phi
        return self.losses[:, None] * psi if scaling == "slack" else psi


# ---- structures -------------------------------------------------------------------------------


def chains(X, y, K, cost=None, intercept=True):
    """All K^T labelings of each sequence; the loss is a sum over tokens, 1 for a wrong label."""
    cost = 1.0 - np.eye(K) if cost is None else np.asarray(cost)
    model = reference_chain.Model(X, y, K, 1.0, intercept=intercept, dtype=X[0].dtype)
    examples = []
    for i, labels in enumerate(model.y):
        paths = reference_chain.labelings(len(labels), K)
        phi = []
        for path in paths:
            edges = np.zeros((K, K))
            np.add.at(edges, (path[:-1], path[1:]), 1.0)
            phi.append(model.features(i, np.eye(K)[path], edges))
        truth = int(np.flatnonzero((paths == labels).all(axis=1))[0])
        examples.append(Outputs(np.array(phi), cost[labels, paths].sum(axis=1), truth))
    return examples


def classes(X, y, cost):
    """``phi(x, k)``: x in row k of a matrix."""
    return [
        Outputs(np.array([np.outer(a, x).ravel() for a in np.eye(len(cost))]), cost[k], int(k))
        for x, k in zip(X, y, strict=True)
    ]


def grids(nodes, edges, y):
    """Binary labels of 2 x 3 nodes (paper, section 4.1).

    ``nodes`` (n, 6, p) count for label 1, ``edges`` (n, 7, r) are not negative and count against
    neighbors of unequal labels. The last r weights must not be negative.
    """
    examples, labelings = [], np.array(list(product([0, 1], repeat=6)))
    first, second = np.transpose(GRID)
    unequal = labelings[:, first] != labelings[:, second]
    for x, z, labels in zip(nodes, edges, y, strict=True):
        phi = np.c_[labelings @ x, -(unequal @ z)]
        truth = int(np.flatnonzero((labelings == labels).all(axis=1))[0])
        examples.append(Outputs(phi, np.sum(labelings != labels, axis=1, dtype=float), truth))
    return examples


def matchings(X, y):
    """All injections of n points into m: BMRM's (19) and (20), by 0/1 matrices.

    x has shape (n, m, d), y the true numbers; the matrices' products stand for all indexing.
    """
    examples = []
    for x, truth in zip(X, y, strict=True):
        n, m = x.shape[:2]
        chosen = np.array(list(permutations(range(m), n)))
        matrices = np.eye(m)[chosen]
        right = np.einsum("kij,ij->k", matrices, np.eye(m)[np.asarray(truth)])
        phi = np.einsum("kij,ijd->kd", matrices, x)
        place = int(np.flatnonzero((chosen == truth).all(axis=1))[0])
        examples.append(Outputs(phi, 1.0 - right / n, place))
    return examples


def graphs(X, y, K):
    """All K^n labelings of graphs: features of nodes by label, of edges by pairs of labels."""
    examples = []
    for (nodes, edges, features), labels in zip(X, y, strict=True):
        outputs = np.array(list(product(range(K), repeat=len(nodes))))
        is_label = np.eye(K)[outputs]
        tails, heads = np.reshape(edges, (-1, 2)).T
        of_nodes = np.einsum("mnk,nd->mkd", is_label, nodes)
        of_edges = np.einsum("mek,mel,ef->mfkl", is_label[:, tails], is_label[:, heads], features)
        phi = np.hstack([of_nodes.reshape(len(outputs), -1), of_edges.reshape(len(outputs), -1)])
        truth = int(np.flatnonzero((outputs == labels).all(axis=1))[0])
        examples.append(Outputs(phi, np.sum(outputs != labels, axis=1, dtype=float), truth))
    return examples


def sets(X, Y, pairs, intercept=True):
    """All 2^L sets of labels of rows, with four indicators for each pair of labels."""
    outputs, examples = np.array(list(product([0, 1], repeat=len(Y[0])))), []
    states = [np.eye(4)[2 * outputs[:, a] + outputs[:, b]] for a, b in pairs]
    for x, labels in zip(X, Y, strict=True):
        rows = np.einsum("ml,d->mld", outputs, x).reshape(len(outputs), -1)
        phi = np.hstack([rows, outputs * float(intercept), *states])
        truth = int(np.flatnonzero((outputs == labels).all(axis=1))[0])
        examples.append(Outputs(phi, np.sum(outputs != labels, axis=1, dtype=float), truth))
    return examples


# ---- problems ---------------------------------------------------------------------------------


class Structured:
    """``P(w) = reg_lambda/2 ||w||^2 + sum_i s_i H_i(w)``, or H_i^2 / 2 with ``squared``.

    ``H_i(w) = max_y [l_i(y) - <w, psi_i(y)>]``, the s_i of sum one, w not negative where the cone
    is.
    """

    def __init__(
        self, examples, reg_lambda, weights=None, *, scaling="margin", squared=False, cone=()
    ):
        self.examples, self.reg_lambda = examples, reg_lambda
        self.scaling, self.squared = scaling, squared
        weights = np.ones(len(examples)) if weights is None else np.asarray(weights, float)
        self.weights = weights / weights.sum()
        self.psi = [example.psi(scaling) for example in examples]
        self.losses = [example.losses for example in examples]
        self.d = self.psi[0].shape[1]
        self.cone = np.asarray(cone, int)

    def slacks(self, w):
        """H_i(w)."""
        return np.array([np.max(c - psi @ w) for psi, c in zip(self.psi, self.losses, strict=True)])

    def risk(self, w):
        slacks = self.slacks(w)
        return self.weights @ (slacks**2 / 2 if self.squared else slacks)

    def objective(self, w):
        """P, infinity outside the cone."""
        return self.reg_lambda * (w @ w) / 2 + self.risk(w) if self.feasible(w) else np.inf

    def feasible(self, w):
        return (w[self.cone] >= 0).all()

    def projected(self, w):
        w = np.array(w)
        w[self.cone] = np.maximum(w[self.cone], 0)
        return w

    def primal_point(self, q):
        """The w of dual weights, an array for each example."""
        parts = zip(self.weights, q, self.psi, strict=True)
        return self.projected(sum(s * (q_i @ psi) for s, q_i, psi in parts) / self.reg_lambda)

    def dual_objective(self, q):
        """D of weights q >= 0; without ``squared`` they sum to one in each example."""
        sums = np.array([np.sum(q_i) for q_i in q])
        assert all(np.min(q_i) >= 0 for q_i in q)
        assert self.squared or np.abs(sums - 1).max() <= 1e-12
        w = self.primal_point(q)
        gains = np.array([q_i @ c for q_i, c in zip(q, self.losses, strict=True)])
        value = self.weights @ gains - self.reg_lambda * (w @ w) / 2
        return value - self.weights @ sums**2 / 2 if self.squared else value

    def primal_optimum(self):
        """w, by a cone programme over sqrt(reg_lambda) w and the slacks."""
        n, d, unit = len(self.psi), self.d, np.sqrt(self.reg_lambda)
        weights = self.weights.astype(float)
        sizes = [len(c) for c in self.losses]
        own = sp.csr_matrix(sp.identity(n))[np.repeat(np.arange(n), sizes)]
        bend = np.r_[np.ones(d), weights if self.squared else np.zeros(n)]
        linear = np.r_[np.zeros(d), np.zeros(n) if self.squared else weights]
        A = sp.hstack([-np.vstack(self.psi).astype(float) / unit, -own])
        side = -np.concatenate(self.losses)
        if len(self.cone):
            signs = sp.hstack([-sp.identity(d), sp.csr_matrix((d, n))]).tocsr()[self.cone]
            A, side = sp.vstack([A, signs]), np.r_[side, np.zeros(len(self.cone))]
        programme = sp.diags(bend), linear, A, side, halflines(len(side))
        points = [self.projected(by_clarabel(*programme, tol)[:d] / unit) for tol in ASKED]
        return min(points, key=self.objective)

    def dual_optimum(self):
        """q, by a cone programme over q, sqrt(reg_lambda) w and the sums of q."""
        n, d, unit = len(self.psi), self.d, np.sqrt(self.reg_lambda)
        weights = self.weights.astype(float)
        sizes = [len(c) for c in self.losses]
        ends, m = np.cumsum(sizes)[:-1], sum(sizes)
        shares = np.repeat(weights, sizes)
        own = sp.csr_matrix(sp.identity(n))[np.repeat(np.arange(n), sizes)].T
        raw = sp.csr_matrix(shares * np.vstack(self.psi).T.astype(float) / unit)
        curved = weights if self.squared else np.zeros(n)
        bend = np.r_[np.zeros(m), np.ones(d), curved]
        linear = np.r_[-shares * np.concatenate(self.losses), np.zeros(d + n)]
        free = np.setdiff1d(np.arange(d), self.cone)
        defined = sp.hstack([raw, -sp.identity(d), sp.csr_matrix((d, n))]).tocsr()
        sums = sp.hstack([own, sp.csr_matrix((n, d)), -sp.identity(n)])
        ones = sp.hstack([sp.csr_matrix((n, m + d)), sp.identity(n)])
        signs = -sp.identity(m + d + n, format="csr")[np.r_[np.arange(m), m + self.cone]]
        fixed = [defined[free], sums] + ([] if self.squared else [ones])
        n_fixed = sum(part.shape[0] for part in fixed)
        A = sp.vstack([*fixed, defined[self.cone], signs])
        side = np.zeros(A.shape[0])
        if not self.squared:
            side[n_fixed - n : n_fixed] = 1.0
        cones = zeros(n_fixed) + halflines(A.shape[0] - n_fixed)
        points = []
        for tol in ASKED:
            x = by_clarabel(sp.diags(bend), linear, A, side, cones, tol)
            q = np.split(np.maximum(x[:m], 0.0), ends)
            points.append(q if self.squared else [q_i / q_i.sum() for q_i in q])
        return max(points, key=self.dual_objective)

    def optimum(self):
        """P that is attained, and how far below the dual value is that is."""
        point = self.primal_optimum()
        value, bound = self.objective(point), self.dual_objective(self.dual_optimum())
        return Optimum(value, float(max(value - bound, 0)), point)
