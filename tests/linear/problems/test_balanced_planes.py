"""Planes that no intercept of a joint loss changes: they prove what small classes make hard."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.linalg import block_diag, null_space
from scipy.special import logsumexp, softmax
from scipy.stats import entropy

from sklearn_bundle import BMRMClassifier
from sklearn_bundle.linear.problems.balance import balancing_shares
from sklearn_bundle.linear.problems.linear import LinearProblem
from sklearn_bundle.linear.problems.row_block import RowBlock
from sklearn_bundle.linear.problems.row_blocks import RowBlocks, formulation
from sklearn_bundle.linear.rows.memory_rows import rows_in_memory
from sklearn_bundle.losses import FBeta, Hinge, MulticlassHinge, MulticlassLoss, Ontology, Softmax
from tests.contract.fits import Here
from tests.contract.judge import judge
from tests.contract.user_losses import SquaredMargins

COST = np.array([[0, 1, 2, 3], [0.5, 0, 1, 2], [2, 1, 0, 0], [3, 1, 0.2, 0]])
EDGES = [("a", 0), ("a", 1), ("b", 1), ("b", 2), ("b", 3), ("root", "a"), ("root", "b")]
SIZES = (53, 3, 3, 1)
K, N, D = len(SIZES), sum(SIZES), 10
LOSSES = {
    "softmax": Softmax(),
    "hinge": MulticlassHinge(),
    "slack": MulticlassHinge(COST, scaling="slack"),
    "ontology": Ontology(EDGES).bind(range(K)),
    "user": SquaredMargins(),
}


class Written(MulticlassLoss):
    """Softmax as a user would write it."""

    def value(self, scores, y):
        return logsumexp(scores, axis=1) - scores[np.arange(len(y)), y]

    def gradient(self, scores, y):
        return softmax(scores, axis=1) - np.eye(scores.shape[1])[y]


PENALTIES = {
    "l1": {"regularizer": "l1"},
    "elasticnet": {"regularizer": "elasticnet", "l1_ratio": 0.99},
}


def small_classes(seed=0):
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.repeat(np.arange(K), SIZES))
    return rng.standard_normal((N, D)) + 0.3 * np.eye(K, D)[y], y, rng.dirichlet(5.0 * np.ones(N))


def in_memory(loss):
    X, y, weights = small_classes()
    return LinearProblem(rows_in_memory(X), y, weights, loss, True)


def in_blocks(loss):
    """The same; the last class is in one block only."""
    X, y, weights = small_classes()
    blocks = [RowBlock(X[a:b], y[a:b], weights[a:b]) for a, b in pairwise((0, 7, 40, N))]
    form = formulation(loss, n_outputs=loss.n_outputs(y))
    return RowBlocks(Here(blocks), form, (N, D), N * D, 1.0, np.ones(D), True)


@pytest.mark.parametrize("make", [in_memory, in_blocks])
@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_a_balanced_plane_lies_below_the_risk_at_every_intercept(loss, make):
    X, y, weights = small_classes()
    problem, rng = make(loss), np.random.default_rng(1)
    for size in (0.0, 0.1, 1.0):
        w = size * rng.standard_normal(problem.dimension)
        b = 0.3 * rng.standard_normal(problem.n_free)
        plane = problem.cut_balanced(problem.point(w, b))
        assert np.abs(plane.balance).max() <= 1e-16 and plane.gradient.any()
        for far in 10.0 ** rng.uniform(-2.0, 3.0, 30):
            moved = w + rng.uniform(0.0, 1.0) * rng.standard_normal(len(w))
            scores = X @ moved.reshape(-1, D).T + far * rng.standard_normal(problem.n_free)
            risk = weights @ loss.value(scores, y)
            assert plane.gradient @ moved + plane.offset <= risk * (1.0 + 1e-12)


@pytest.mark.parametrize("make", [in_memory, in_blocks])
@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_of_a_plane_that_is_balanced_nothing_is_lost(loss, make):
    """It touches the risk where b is the best one. Blocks give the same planes."""
    problem = make(loss)
    if isinstance(loss, Softmax):
        _, y, weights = small_classes()
        b = np.log(np.bincount(y, weights))
        point = problem.point(np.zeros(problem.dimension), b)
        plane = problem.cut_balanced(point)
        assert plane.offset == pytest.approx(problem.risk(point), rel=1e-14)
    again = problem.cut_balanced(problem.point(np.zeros(problem.dimension), None))
    memory = in_memory(loss)
    same = memory.cut_balanced(memory.point(np.zeros(memory.dimension)))
    assert again.offset == pytest.approx(same.offset, rel=1e-13)
    assert again.gradient == pytest.approx(same.gradient, rel=1e-10, abs=1e-14)


@pytest.mark.parametrize("sizes", [(4,), (2, 3)])
def test_shares_are_a_null_vector_of_which_the_largest_is_one(sizes):
    """Classes that are mistaken only for one another are balanced apart from the others."""
    rng, k = np.random.default_rng(0), sum(sizes) + 1
    flows = block_diag(*(rng.uniform(0.1, 1.0, (size, size)) for size in sizes), 0.0)
    flows[-1, :-1] = 0.2  # a class for which no other is mistaken has to go
    np.fill_diagonal(flows, 0.0)
    np.fill_diagonal(flows, -flows.sum(axis=1))
    shares = balancing_shares(np.column_stack([np.ones(k), flows]))
    expected = []
    for size in sizes:
        part = slice(len(expected), len(expected) + size)
        (null,) = null_space(flows[part, part].T).T
        expected += list(null / null[np.abs(null).argmax()])
    assert shares == pytest.approx([*expected, 0.0], rel=1e-12)


def test_without_a_score_per_class_there_is_none():
    X, y, weights = small_classes()
    signs = np.where(y == 0, 1.0, -1.0)
    for loss in (Hinge(), FBeta()):
        problem = LinearProblem(rows_in_memory(X), signs, weights, loss, True)
        assert problem.cut_balanced(problem.point(np.zeros(D))) is None
    with_no_intercept = LinearProblem(rows_in_memory(X), y, weights, Softmax(), False)
    assert with_no_intercept.cut_balanced(with_no_intercept.point(np.zeros(K * D))) is None
    # A class that no row is mistaken for: the other classes cannot be balanced with it.
    problem = in_memory(MulticlassHinge())
    apart = problem.point(np.zeros(K * D), np.array([9.0, 0.0, 0.0, 0.0]))
    assert problem.cut_balanced(apart) is None


@pytest.mark.parametrize(
    "solver", ["line-search", pytest.param("cutting-plane", marks=pytest.mark.wide)]
)
@pytest.mark.parametrize("penalty", PENALTIES.values(), ids=PENALTIES)
@pytest.mark.parametrize("loss", ["softmax", Written()], ids=["softmax", "user"])
def test_a_constant_model_of_small_classes_is_proved_to_be_the_best(loss, penalty, solver):
    """The optimum is w = 0, with b of the class shares, and the entropy of these."""
    X, y, _ = small_classes()
    shares = np.bincount(y) / N
    reach = np.abs(X.T @ (shares - np.eye(K)[y])).max() / N
    assert reach < 0.99 * 0.5
    model = BMRMClassifier(loss, reg_lambda=0.5, tol=1e-6, solver=solver, **penalty).fit(X, y)
    if loss == "softmax":
        judge(model, X, y)
    assert model.status_ == "converged" and not model.coef_.any()
    assert model.objective_ == pytest.approx(entropy(shares), rel=1e-6)
    assert model.n_iter_ <= (30 if loss == "softmax" else 80)
