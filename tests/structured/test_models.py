"""Models of outputs against enumeration: what compiled code finds and expects, plain methods.

A :class:`Case` is a model bound to data, with all outputs of each example. The tests are contracts
over all cases: a further model adds a function that makes a case, and entries of ``CASES``.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from sklearn_bundle.chain.model import taken_apart
from sklearn_bundle.models import (
    Chain,
    Graph,
    Grid,
    Matching,
    Multiclass,
    Multilabel,
    PairwiseGraph,
    Segments,
)
from sklearn_bundle.structured.models.chain_structure import TokenRows, joined
from sklearn_bundle.structured.models.classes import Rows
from sklearn_bundle.structured.models.examples import ListedExamples
from sklearn_bundle.structured.models.multilabel import WeightedRows
from sklearn_bundle.structured.models.segments import Layout, TokenSegments
from tests import reference_chain, reference_segments
from tests.chains import sequences
from tests.contract import user_models
from tests.reference_programme import LONG
from tests.reference_structured import Outputs, chains, classes, graphs, matchings, sets
from tests.structures import in_rows

SIZES = [0.0, 0.1, 1.0, 30.0, "whole"]  # of weights; whole numbers make ties


@dataclass
class Case:
    """A model bound to examples, and all their outputs by enumeration.

    ``X`` and ``y`` are as the model's methods take them, ``listed`` has all outputs of each
    example, and ``outputs`` their features and losses in the same order. Solvers have w as
    ``packed`` has it. Bounds may be above the scores by ``tight``; infinity is for models that may
    miss the worst outputs.
    """

    model: Any
    X: Any
    y: Any
    examples: Any
    listed: list
    outputs: list[Outputs]
    scaling: str = "margin"
    packed: Callable = np.copy
    unpacked: Callable = np.copy
    tight: float = 0.0

    def weights(self, size, seed=0):
        """Weights of this size, in the cone."""
        w = np.random.default_rng(seed).normal(size=self.outputs[0].phi.shape[1])
        w = np.round(w) if size == "whole" else size * w
        return self.projected(w)

    def projected(self, w):
        cone = np.asarray(self.model.nonnegative(), int)
        w[cone] = np.abs(w[cone])
        return w

    def find(self, w, first=0, last=None):
        last = len(self.outputs) if last is None else last
        return self.examples.find(self.packed(w), first, last)


# ---- cases: sequences --------------------------------------------------------------------------

LENGTHS = 1, 3, 2, 4
COST = np.array([[0, 2, 1], [3, 0, 0], [0.5, 1.25, 0]])  # a mistake that is free too


def signs(X):
    return [np.sign(x) for x in X]  # entries that cancel


def token_rows(X, K, dtype=np.float64):
    rows = sp.csr_array(np.concatenate(X).astype(dtype))
    return TokenRows(rows, np.array(list(map(len, X))), K)


def chain(K=3, lengths=LENGTHS, dtype=np.float64, change=list, **settings):
    X, y = sequences(K, lengths)
    X, model = change([x.astype(dtype).astype(float) for x in X]), Chain(**settings)
    examples = model.examples(token_rows(X, K, dtype), np.concatenate(y), "margin")
    outputs = chains(X, y, K, model.cost, model.fit_intercept)
    for each in outputs:  # the model has biases of 0 where there are none
        each.phi = np.pad(each.phi, ((0, 0), (0, K * (6 + K) - each.phi.shape[1])))
    return Case(
        *(model, X, y, examples, [reference_chain.labelings(T, K) for T in lengths], outputs),
        *("margin", lambda w: in_rows(w, K), lambda w: joined(taken_apart(w, K))),
    )


def segments(K=3, lengths=(1, 3, 5, 2), dtype=np.float64, change=list, **settings):
    X, y = reference_segments.drawn(lengths, K)
    X, model = change([x.astype(dtype).astype(float) for x in X]), Segments(**settings)
    tokens = TokenSegments(
        np.array([k for each in y for k, start, stop in each for _ in range(start, stop)]),
        np.array(
            [
                (stop - start) * (t == stop - 1)
                for each in y
                for _, start, stop in each
                for t in range(start, stop)
            ]
        ),
    )
    examples = model.examples(token_rows(X, K, dtype), tokens, "margin")
    limits = reference_segments.longest(y, K)
    layout = Layout(K, X[0].shape[1], max(limits))
    return Case(
        *(model, X, y, examples, [reference_segments.segmentations(T, limits) for T in lengths]),
        *(reference_segments.examples(X, y, limits), "margin", layout.flat, layout.public),
    )


# ---- cases: rows -------------------------------------------------------------------------------

FIVE = np.array([[0, 1, 2, 3, 1], [0.5, 0, 1, 2, 0], [2, 1, 0, 0, 4], [3, 1, 0.2, 0, 1], [1] * 5])
FIVE[4, 4] = 0.0


def rows(n, d, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.6), rng


def duplicated(X):
    """CSR in which every entry is stored twice, with half its value."""
    X = sp.csr_matrix(X)
    indices, data = np.repeat(X.indices, 2), np.repeat(0.5 * X.data, 2)
    return sp.csr_matrix((data, indices, 2 * X.indptr), shape=X.shape)


def long(X):
    """CSR with 64-bit indices."""
    X = sp.csr_array(X)
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    return X


def with_zeros(X):
    """CSR that stores all entries."""
    filled = sp.csr_array(np.where(X == 0.0, 1.0, X))
    filled.data[X.ravel() == 0.0] = 0.0
    return filled


def float32(X):
    return X.astype(np.float32)


def of_classes(model, cost, scaling="margin", layout=np.array, d=3):
    K = len(cost)
    X, rng = rows(K + 4, d)
    y = rng.permutation(np.r_[np.arange(K), rng.integers(0, K, 4)])
    X = float32(X).astype(float) if layout is float32 else X
    examples, outputs = model.examples(Rows(layout(X), K), y, scaling), classes(X, y, cost)
    return Case(model, X, y, examples, [range(K)] * len(y), outputs, scaling)


multiclass = partial(of_classes, Multiclass(), 1.0 - np.eye(5))
costly = partial(of_classes, Multiclass(cost=FIVE), FIVE)


def many_classes(K, d, layout=np.array):
    return of_classes(Multiclass(), 1.0 - np.eye(K), layout=layout, d=d)


def multilabel(edges, layout=np.array, **settings):
    X, rng = rows(6, 3)
    Y = (X @ rng.normal(size=(3, 4)) + rng.normal(size=(6, 4)) > 0.0).astype(int)
    Y[:, 1] |= Y[:, 0]
    X = float32(X).astype(float) if layout is float32 else X
    model, every = Multilabel(edges, **settings), np.array(list(product([0, 1], repeat=4)))
    examples = model.examples(WeightedRows(layout(X), np.full(6, 1 / 6)), Y, "margin")
    outputs = sets(X, Y, model.edges_, model.fit_intercept)
    return Case(model, X, Y, examples, [every] * 6, outputs)


# ---- cases: graphs, matchings, users' models -----------------------------------------------------

FOREST = [(2, 0), (0, 4), (3, 2)]  # and a node without an edge
LOOPS = [(0, 1), (2, 1), (2, 3), (4, 3), (0, 4), (1, 3), (0, 1)]  # one of them twice
ALL = [(a, b) for a in range(5) for b in range(a)]
CUT_COST = np.array([[0.0, 0.5], [2.0, 0.0]])


def pairwise(*shapes, K=3, d=2, e=2, tight=1e-12, **settings):
    """Graphs of five nodes with these edges."""
    rng = np.random.default_rng(len(shapes))
    shapes = [np.array(edges, int).reshape(-1, 2) for edges in shapes]
    X = [(rng.normal(size=(5, d)), edges, rng.normal(size=(len(edges), e))) for edges in shapes]
    y = [rng.integers(0, K, 5) for _ in X]
    model = PairwiseGraph(K, **settings)
    listed = [np.array(list(product(range(K), repeat=5)))] * len(X)
    examples = model.examples(X, y, "margin")
    return Case(model, X, y, examples, listed, graphs(X, y, K), tight=tight)


def cut_outputs(X, y, cost=None):
    """Labels 0 and 1: features of nodes of label 1, minus those of edges of unequal labels."""
    for outputs, (nodes, _, z), labels in zip(graphs(X, y, 2), X, y, strict=True):
        d, every = nodes.shape[1], np.array(list(product([0, 1], repeat=len(nodes))))
        pairs = outputs.phi[:, 2 * d :].reshape(len(every), z.shape[1], 2, 2)
        phi = np.c_[outputs.phi[:, d : 2 * d], -pairs[:, :, 0, 1] - pairs[:, :, 1, 0]]
        losses = (1.0 - np.eye(2) if cost is None else cost)[labels, every].sum(axis=1)
        yield Outputs(phi, losses, outputs.truth)


def cuts(cost=None, d=3, e=2, whole=False, kind=float):
    """Graphs of one node, of no edge, in parts, dense, with edges that are there twice."""
    rng, X = np.random.default_rng(d), []
    for n, m in [(1, 0), (5, 0), (7, 3), (6, 9), (4, 20), (2, 6), (8, 12)]:
        edges = rng.integers(0, n, (m, 2))
        edges = edges[edges[:, 0] != edges[:, 1]]
        nodes, z = rng.normal(size=(n, d)), rng.uniform(-0.2, 1.0, (len(edges), e)).clip(0.0)
        X.append((np.round(nodes), edges, np.round(2.0 * z)) if whole else (nodes, edges, z))
    y = [rng.integers(0, 2, len(x[0])) for x in X]
    listed = [np.array(list(product([0, 1], repeat=len(labels)))) for labels in y]
    given = [tuple(np.asarray(part, kind) for part in x) for x in X]
    model = Graph(cost=cost)
    examples = model.examples(given, [labels.astype(kind) for labels in y], "margin")
    return Case(model, X, y, examples, listed, [*cut_outputs(X, y, cost)])


def edges_of_grid(h, w):
    numbers = np.arange(h * w).reshape(h, w)
    rows, columns = (numbers[:, :-1], numbers[:, 1:]), (numbers[:-1], numbers[1:])
    return np.concatenate([np.stack(ends, -1).reshape(-1, 2) for ends in (rows, columns)])


def as_graph(image, contrast):
    """Edges know whether they are in rows or in columns, and the contrast by mean squares."""
    (h, w, d), edges = image.shape, edges_of_grid(*image.shape[:2])
    z = np.eye(2)[(np.arange(len(edges)) >= h * (w - 1)).astype(int)]
    if contrast is not None:
        first, second = image.reshape(-1, d)[edges][:, :, contrast].transpose(1, 0, 2)
        squares = ((first - second) ** 2).sum(axis=1)
        z = np.c_[z, np.exp(-squares / (2.0 * (squares.sum() or 1.0) / max(len(squares), 1)))]
    return image.reshape(-1, d), edges, z


def grid(contrast=None, cost=None):
    rng, shapes = np.random.default_rng(0), [(1, 1), (1, 5), (4, 1), (2, 3), (3, 3)]
    X = [rng.normal(size=(*shape, 3)) for shape in shapes]
    y = [rng.integers(0, 2, shape) for shape in shapes]
    model, given = Grid(contrast=contrast, cost=cost), [as_graph(x, contrast) for x in X]
    outputs = [*cut_outputs(given, [labels.ravel() for labels in y], cost)]
    listed = [np.reshape(list(product([0, 1], repeat=h * w)), (-1, h, w)) for h, w in shapes]
    return Case(model, X, y, model.examples(X, y, "margin"), listed, outputs)


def matching():
    """Sets of several sizes; the first feature is higher for true pairs."""
    rng = np.random.default_rng(0)
    shapes = [(4, 4), (1, 1), (3, 5), (5, 5), (1, 3), (2, 2)]
    X, y = ([rng.normal(size=(*s, 3)) for s in shapes], [rng.permutation(m)[:n] for n, m in shapes])
    for x, truth in zip(X, y, strict=True):
        x[np.arange(len(x)), truth, 0] += 1.0
    examples = Matching().examples(X, y, "margin")
    examples.longest = np.full(len(X), 3)
    listed = [np.array(list(permutations(range(m), n))) for n, m in shapes]
    return Case(Matching(), X, y, examples, listed, matchings(X, y), tight=1e-12)


def own(model, X, y, scaling="margin"):
    """A user's model, of which the outputs of its own list are as its methods say."""
    n, listed, outputs = model.n_parameters(X, y), [model.outputs(x) for x in X], []
    for x, truth, every in zip(X, y, listed, strict=True):
        phi = np.array([model.joint_feature(x, other) for other in every], float)
        at = [np.array_equal(truth, other) for other in every].index(True)
        outputs.append(Outputs(phi, np.array([model.loss(truth, o) for o in every], float), at))
    examples = ListedExamples(model, X, y, scaling)
    examples.longest = np.full(len(X), n)
    return Case(
        model, X, y, examples, listed, outputs, scaling, tight=0.0 if model.exact else np.inf
    )


def orders(kind, scaling="margin"):
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(n, 3)) for n in (1, 4, 2, 3)]
    return own(kind(), X, [rng.permutation(len(x)) for x in X], scaling)


def pictures(kind, scaling="margin"):
    rng = np.random.default_rng(0)
    X, y = list(rng.normal(size=(4, 2, 3, 2))), list(rng.integers(0, 2, (4, 2, 3)))
    y[-1][:] = 1
    return own(kind(), X, y, scaling)


# ---- all cases ---------------------------------------------------------------------------------

CASES: dict[str, Callable[[], Case]] = {
    # Rows of chains are padded to multiples of 8: padding of all sizes and none, two vectors.
    "chain": chain,
    "chain: one label": partial(chain, 1),
    "chain: eight labels": partial(chain, 8, (2, 3)),
    "chain: nine labels": partial(chain, 9, (1, 3)),
    "chain: float32, no bias": partial(chain, fit_intercept=False, dtype=np.float32),
    "chain: costs": partial(chain, cost=COST),
    "chain: two labels, signs": partial(chain, 2, change=signs),
    "segments": segments,
    "segments: float32": partial(segments, dtype=np.float32),
    "segments: signs": partial(segments, change=signs),
    "segments: nine labels": partial(segments, 9, (3, 2, 3, 2, 3, 2, 3, 2)),
    "multiclass": multiclass,
    "multiclass: costs, slack": partial(costly, "slack"),
    "multiclass: duplicates": partial(costly, layout=duplicated),
    "multiclass: long indices": partial(costly, layout=long),
    "multiclass: two of one feature": partial(many_classes, 2, 1),
    "multiclass: many": partial(many_classes, 33, 130),
    "multiclass: many, csr": partial(many_classes, 33, 130, sp.csr_array),
    "multiclass: stored zeros": partial(multiclass, layout=with_zeros),
    "multilabel: tree": partial(multilabel, "tree"),
    "multilabel: no pairs, csr": partial(multilabel, None, sp.csr_array),
    "multilabel: a forest, no bias": partial(multilabel, [(2, 0), (1, 2)], fit_intercept=False),
    "multilabel: a star, float32": partial(multilabel, [(0, 3), (3, 1), (2, 3)], float32),
    "cut": cuts,
    "cut: ties, whole numbers": partial(cuts, whole=True, kind=int),
    "cut: costs, float32": partial(cuts, CUT_COST, whole=True, kind=np.float32),
    "cut: no edge features": partial(cuts, e=0),
    "cut: many features": partial(cuts, d=40, e=5),
    "grid": grid,
    "grid: contrast, costs": partial(grid, [0, 2], CUT_COST),
    "pairwise: forest": partial(pairwise, FOREST, [], FOREST[::-1]),
    "pairwise: loops": partial(pairwise, LOOPS, FOREST, ALL, max_branches=1000),
    "pairwise: two labels, no branches": partial(
        pairwise, LOOPS, ALL, K=2, max_branches=0, tight=np.inf
    ),
    "matching": matching,
    "own: orders": partial(orders, user_models.Ranking),
    "own: orders, slack": partial(orders, user_models.Ranking, "slack"),
    "own: pictures": partial(pictures, user_models.Grid),
    "own: pictures, slack": partial(pictures, user_models.Grid, "slack"),
    "own: bounded pictures": partial(pictures, user_models.BoundedGrid),
}
COMPILED = "chain", "segments", "multiclass", "multilabel"  # without plain methods
every_case = pytest.mark.parametrize("name", CASES)
every_size = pytest.mark.parametrize("size", SIZES)


@cache
def made(name):
    return CASES[name]()


def exact(outputs, scaling, w):
    """Loss-augmented scores of all outputs, in extended precision."""
    return outputs.losses - outputs.psi(scaling).astype(LONG) @ w


@every_case
@every_size
def test_the_worst_outputs(name, size):
    """The scores are the highest of all; features and loss are those of such an output.

    Those of a part of the examples are the same.
    """
    case = made(name)
    w = case.weights(size)
    found, errors = case.find(w), case.examples.errors(case.packed(w))
    assert (found.values != 0.0).all() and (found.scores >= 0.0).all()
    for i, outputs in enumerate(case.outputs):
        own = slice(*found.starts[i : i + 2])
        psi, indices = np.zeros(case.examples.n_parameters), found.indices[own]
        assert len(indices) == len(np.unique(indices)) <= case.examples.longest[i]
        psi[indices] = found.values[own]
        psi, scores = case.unpacked(psi), exact(outputs, case.scaling, w)
        size_of = 1.0 + abs(psi) @ abs(w) + abs(scores).max()
        assert abs(found.scores[i] - (found.losses[i] - psi @ w)) <= 1e-12 * size_of
        far = np.abs(outputs.psi(case.scaling) - psi).max(axis=1)
        far += np.abs(outputs.losses - found.losses[i])
        assert far.min() <= 1e-12 * (1.0 + abs(psi).max())
        assert found.bounds[i] >= scores.max() - errors[i] - 1e-15 * size_of
        if case.tight < np.inf:
            assert 0.0 <= found.bounds[i] - found.scores[i] <= case.tight * size_of
            assert scores.max() - scores[far.argmin()] <= 1e-12 * size_of
            assert abs(found.scores[i] - scores.max()) <= 1e-12 * size_of
    part = case.find(w, 1)
    assert_array_equal(part.values, found.values[found.starts[1] :])
    assert_array_equal(part.scores, found.scores[1:])


@every_case
def test_a_true_output_that_is_the_worst_has_no_entries(name):
    case, seen = made(name), 0
    for i, outputs in enumerate(case.outputs):
        w = case.projected(1e4 * (outputs.phi[outputs.truth] - outputs.phi.mean(axis=0)))
        others = (outputs.psi(case.scaling) != 0.0).any(axis=1) | (outputs.losses > 0.0)
        if others.any() and exact(outputs, case.scaling, w)[others].max() < 0.0:
            found, seen = case.find(w, i, i + 1), seen + 1
            assert len(found.values) == found.losses[0] == found.scores[0] == 0.0
    assert seen or len(case.listed[-1]) == 1


@pytest.mark.parametrize("name", [n for n in CASES if n.split(":")[0] not in COMPILED])
def test_plain_methods(name):
    """Features and losses of all outputs; inferences find the best; so do listed examples."""
    case = made(name)
    model, w = case.model, case.weights(1.0)
    assert model.n_parameters(case.X, case.y) == len(w)
    for x, y, listed, outputs in zip(case.X, case.y, case.listed, case.outputs, strict=True):
        phi = [model.joint_feature(x, other) for other in listed]
        assert_allclose(phi, outputs.phi, rtol=1e-13, atol=1e-13)
        losses = [model.loss(y, other) for other in listed]
        assert_allclose(losses, outputs.losses, rtol=1e-15)
        assert max(losses) <= model.max_loss(y)
        scores = outputs.phi @ w
        slack = case.scaling == "slack"
        infer = model.slack_rescaled_inference if slack else model.loss_augmented_inference
        worst = model.loss(y, infer(x, y, w)) - outputs.losses
        attained = np.flatnonzero(np.abs(worst) <= 1e-12)
        augmented = exact(outputs, case.scaling, w)
        if case.tight < np.inf:
            assert model.joint_feature(x, model.inference(x, w)) @ w >= scores.max() - 1e-12
            assert augmented[attained].max() >= augmented.max() - 1e-12
    plain = ListedExamples(model, case.X, case.y, case.scaling).find(w, 0, len(case.y))
    assert_allclose(plain.scores, case.find(w).scores, rtol=1e-12, atol=1e-12)


@every_case
@pytest.mark.parametrize("size", [0.0, 1.0, 30.0, 300.0])
def test_expectations(name, size):
    """Log-partition functions and expected features, no farther away than what is told."""
    case = made(name)
    if not case.examples.likelihood or case.scaling == "slack":
        return
    w, n = case.weights(size), len(case.outputs)
    weights, packed = np.linspace(0.5, 2.0, n), case.packed(w)
    gradient = np.zeros(case.examples.n_parameters)
    found = case.examples.expect(packed, 0, n, weights, gradient)
    shifts, expected = found.shifts + case.examples.errors(packed), np.zeros(len(w), LONG)
    for i, outputs in enumerate(case.outputs):
        differences = -outputs.psi("margin").astype(LONG)
        powers = np.exp(differences @ w - (differences @ w).max())
        loss = (differences @ w).max() + np.log(powers.sum())
        mean = powers / powers.sum() @ differences
        assert abs(found.losses[i] - loss) <= shifts[i] + 1e-15 * loss
        assert np.linalg.norm(mean) <= found.sizes[i] * (1.0 + 1e-12)
        expected += weights[i] * mean
    assert (shifts <= 1e-11 * (1.0 + size)).all()
    bound = weights @ ((np.expm1(2.0 * shifts) + 1e-15) * found.sizes)
    assert np.linalg.norm(case.unpacked(gradient) - expected) <= bound
