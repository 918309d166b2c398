"""Dual coordinate steps of the multiclass hinge: steps, bounds and optima against references."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import make_classification
from sklearn.svm import LinearSVC

from sklearn_bundle import BMRMClassifier
from sklearn_bundle.core.contract import Status, run
from sklearn_bundle.linear._compiled import classes
from sklearn_bundle.linear.losses.multiclass import dual_hinge
from sklearn_bundle.linear.problems.linear import LinearProblem
from sklearn_bundle.linear.rows.memory_rows import rows_in_memory
from sklearn_bundle.linear.solvers._class_dual import ClassAscent, balancing
from sklearn_bundle.linear.solvers.class_coordinate import ClassCoordinateSolver
from sklearn_bundle.linear.solvers.solver import LinearStart, Task
from sklearn_bundle.losses import MulticlassHinge, Ontology
from tests.reference_multiclass import objective, optimum

COST = np.array([[0.0, 1.0, 3.0], [2.0, 0.0, 1.0], [1.0, 0.5, 0.0]])
LAMBDA = 1e-2


def best_row(values, curvature):
    """The p on the simplex that maximizes ``<values, p> - curvature ||p||^2 / 2``, by sorting."""
    u = values / curvature
    ordered = np.sort(u)[::-1]
    thresholds = (np.cumsum(ordered) - 1) / np.arange(1, len(u) + 1)
    return np.maximum(u - thresholds[ordered > thresholds][-1], 0.0)


def reference_sweep(X, y, weights, reg_lambda, costs, alpha, order, b, pull, pulled=0.0):
    """With a proximal term: reg_lambda + kappa in place of reg_lambda, and ``pulled`` kappa Z."""
    Y = np.eye(len(costs))[y]
    W = (((Y - alpha) * weights[:, None]).T @ X + pulled) / reg_lambda
    alpha, b, gap = alpha.copy(), b.copy(), 0.0
    for i in order:
        v = W @ X[i] + b + costs[y[i]]
        gap += weights[i] * (v.max() - alpha[i] @ v)
        curvature = weights[i] * (X[i] @ X[i] / reg_lambda + pull)
        if curvature == 0.0:
            new = np.eye(len(costs))[np.argmax(v)]
        else:
            new = best_row(v + curvature * alpha[i], curvature)
        change = weights[i] * (alpha[i] - new)
        W += np.outer(change, X[i]) / reg_lambda
        b += pull * change
        alpha[i] = new
    return alpha, W, b, gap


def dual(X, y, weights, reg_lambda, costs, alpha):
    W = ((np.eye(len(costs))[y] - alpha) * weights[:, None]).T @ X / reg_lambda
    return weights @ (alpha * costs[y]).sum(axis=1) - 0.5 * reg_lambda * np.sum(W**2)


def rows_of(n, d, K, seed=0):
    """Rows with zeros, one of them all zeros, uneven weights, a class with a single row."""
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((n, d)) < 0.5, rng.normal(size=(n, d)), 0.0)
    y = rng.integers(0, K - 1, n)
    y[:K] = np.arange(K)
    X[n // 2] = 0.0
    X[np.arange(n), y % d] += 1.0 * (np.arange(n) != n // 2)
    weights = rng.uniform(0.2, 3.0, n)
    return X, y, weights / weights.sum()


def problem_of(X, y, weights, free, loss=None):
    loss = MulticlassHinge() if loss is None else loss
    return LinearProblem(rows_in_memory(X), y, weights, loss, free)


@pytest.mark.parametrize(
    ("d", "kind", "free"),
    [(5, np.array, True), (53, np.array, False), (9, sp.csr_array, True)],
    ids=["short", "wide", "csr"],
)
def test_sweep_against_numpy(d, kind, free):
    X, y, weights = rows_of(40, d, 11)
    costs = np.random.default_rng(1).uniform(0.5, 2.0, (11, 11)) * (1 - np.eye(11))
    problem = problem_of(kind(X), y, weights, free, MulticlassHinge(costs))
    alpha = np.random.default_rng(2).dirichlet(np.full(11, 0.2), 40)
    steps = ClassAscent(problem, LAMBDA, alpha)
    steps.begin(None)
    before, b = steps.alpha, steps.intercepts
    sweep = steps.sweep()
    pull = steps._pull
    order = steps._order
    assert np.array_equal(np.sort(order), np.arange(40)) and (pull > 0.0) == free
    found = reference_sweep(X, y, weights, LAMBDA, costs, before, order, b, pull)
    np.testing.assert_allclose(steps.alpha, found[0], atol=1e-9)
    assert sweep.gap == pytest.approx(found[3], rel=1e-8)
    W = problem.point(steps.plane(steps.alpha).scaled_weights / LAMBDA).w
    np.testing.assert_allclose(W.reshape(11, d), found[1], atol=1e-9)
    if not free:
        after = (dual(X, y, weights, LAMBDA, costs, a) for a in (steps.alpha, before))
        assert sweep.gained == pytest.approx(next(after) - next(after), rel=1e-8)


@pytest.mark.parametrize("d", [1, 5, 53])
def test_all_that_is_handed_out_is_a_copy(d):
    X, y, weights = rows_of(40, d, 3)
    steps = ClassAscent(problem_of(X, y, weights, True), LAMBDA)
    steps.begin(None)
    steps.sweep()
    steps.add_proximal_term(LAMBDA)
    plane = steps.plane(steps.newest())
    of_steps = steps._W, steps._center.mean, steps._alpha, steps._b, steps._center.intercepts
    for array in (steps.proximal_mean, steps.alpha, steps.newest(), steps.intercepts, *plane[::2]):
        assert not any(np.shares_memory(array, own) for own in (*of_steps, steps._label_sums))


@pytest.mark.parametrize(("d", "free"), [(5, True), (53, False)], ids=["short", "wide"])
def test_sweep_with_a_proximal_term_against_numpy(d, free):
    X, y, weights = rows_of(40, d, 11)
    costs, kappa = 1 - np.eye(11), 7 * LAMBDA
    steps = ClassAscent(problem_of(X, y, weights, free), LAMBDA)
    steps.begin(None)

    def working():
        return (steps._W.reshape(11, d) if d == 53 else steps._W.reshape(d, -1).T[:11]).copy()

    steps.sweep()
    last = working()
    steps.add_proximal_term(kappa)
    steps.sweep()
    W = working()
    root = np.sqrt(LAMBDA / (LAMBDA + kappa))
    Z = W + (1 - root) / (1 + root) * (W - last)
    steps.move_center()
    steps.activate_all()
    before, b = steps.alpha, steps._b[:11].copy()
    sweep = steps.sweep()
    numbers = LAMBDA + kappa, costs, before, steps._order, b, steps._pull
    alpha, W, _, gap = reference_sweep(X, y, weights, *numbers, pulled=kappa * Z)
    np.testing.assert_allclose(steps.alpha, alpha, atol=1e-9)
    np.testing.assert_allclose(working(), W, atol=1e-9)
    assert sweep.gap == pytest.approx(gap, rel=1e-8)
    pulled = steps.plane(steps.alpha).scaled_weights.reshape(11, d)
    away = W - pulled / LAMBDA
    assert steps.follow() == pytest.approx(0.5 * LAMBDA * np.sum(away**2), rel=1e-8)
    np.testing.assert_allclose(steps.proximal_mean.reshape(11, d), (last + W) / 2, atol=1e-9)
    steps.restart(steps.alpha, pulled.ravel())
    np.testing.assert_allclose(working(), W, atol=1e-9)
    steps.remove_proximal_term()
    steps.restart(steps.alpha, pulled.ravel())
    np.testing.assert_allclose(working(), pulled / LAMBDA, atol=1e-9)


def test_balance_moves_the_least():
    confusions = np.random.default_rng(0).random((4, 4))
    M = balancing(confusions)
    assert (M >= 0.0).all() and M.sum(axis=1) == pytest.approx(np.ones(4))
    assert (confusions @ M).sum(axis=0) == pytest.approx(confusions.sum(axis=1))
    assert np.array_equal(balancing(np.eye(3)), np.eye(3))


@pytest.mark.parametrize("cost", [None, COST], ids=["ones", "cost"])
@pytest.mark.parametrize("free", [True, False])
def test_weak_duality_at_every_iteration(free, cost):
    """And the plane lies below the risk, whatever the intercepts."""
    X, y, weights = rows_of(30, 4, 3)
    best = optimum(X, y, weights, LAMBDA, free, cost=cost)[0]
    solver = ClassCoordinateSolver(
        Task(problem_of(X, y, weights, free, MulticlassHinge(cost)), LAMBDA)
    )
    last, states = np.inf, solver.states()
    for _, state in zip(range(25), states, strict=False):
        assert state.lower_bound <= best * (1 + 1e-8) and state.primal >= best * (1 - 1e-8)
        assert state.gap <= last
        last = state.gap
    final = solver.confirm()
    assert final.gap <= 1e-6 * best
    gradient, offset = solver.plane
    assert offset - gradient @ gradient / (2 * LAMBDA) == pytest.approx(final.lower_bound, rel=1e-9)
    rng = np.random.default_rng(2)
    for _ in range(50):
        W, b = rng.normal(size=(3, 4)), 3.0 * rng.normal(size=3) * free
        risk = objective(X, y, weights, 0.0, W, b, cost=cost)
        assert risk >= gradient @ W.ravel() + offset - 1e-12


@pytest.mark.parametrize("free", [True, False])
def test_weak_duality_with_a_proximal_term(free):
    X, y, weights = rows_of(300, 4, 3)
    best = optimum(X, y, weights, 1e-5, free)[0]
    solver = ClassCoordinateSolver(Task(problem_of(X, y, weights, free), 1e-5, tol=1e-5))
    states = solver.states()
    for _, state in zip(range(25), states, strict=False):
        assert state.lower_bound <= best * (1 + 1e-8) and state.primal >= best * (1 - 1e-8)
    assert solver._before_proximal is not None
    assert solver.confirm().gap <= 1e-3 * best


def test_agrees_with_liblinear():
    X, y = make_classification(
        200, 6, n_informative=6, n_redundant=0, n_classes=5, n_clusters_per_class=1, random_state=0
    )
    peer = LinearSVC(
        multi_class="crammer_singer", C=1 / (200 * LAMBDA), fit_intercept=False, tol=1e-9
    )
    W = peer.set_params(max_iter=1_000_000).fit(X, y).coef_
    weights = np.full(200, 1 / 200)
    result = run(
        ClassCoordinateSolver(Task(problem_of(X, y, weights, False), LAMBDA)),
        tol=1e-8,
        max_iter=5000,
    )
    assert result.status is Status.CONVERGED
    assert result.primal == pytest.approx(objective(X, y, weights, LAMBDA, W, 0.0), rel=2e-8)


def many(K=120):
    return make_classification(
        *(4 * K, 8), n_informative=8, n_redundant=0, n_classes=K, n_clusters_per_class=1,
        random_state=0,
    )  # fmt: skip


def test_many_classes_get_a_bound_at_once():
    """Planes that balance need not be found one after the other."""
    X, y = many()
    model = BMRMClassifier("multiclass_hinge", reg_lambda=0.1, max_iter=1, tol=0.5).fit(X, y)
    assert model.lower_bound_ > 0.5 * model.objective_


@pytest.mark.parametrize(
    "data",
    [
        ([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]], [0, 1, 2]),
        (np.c_[np.ones((9, 1)), 1e3 * np.eye(9)], [0, 1, 2] * 3),
        (1e-6 * np.eye(9), [0, 1] * 4 + [2]),
        (np.zeros((4, 3)), [0, 1, 2, 2]),
        (sp.random_array((30, 60_000), density=1e-3, rng=0, format="csr"), [0, 1, 2] * 10),
        (np.random.default_rng(0).normal(size=(6, 70)).astype(np.float32), [0, 1] * 3),
    ],
    ids=["three rows", "constant column", "small", "nothing", "many columns", "float32, two"],
)
@pytest.mark.parametrize("free", [True, False])
def test_extremes_converge(data, free):
    model = BMRMClassifier("multiclass_hinge", reg_lambda=1e-2, fit_intercept=free).fit(*data)
    assert model.status_ == "converged"
    dense = data[0].toarray() if sp.issparse(data[0]) else np.asarray(data[0], float)
    n, y = len(data[1]), np.asarray(data[1])
    W, b = model.coef_, model.intercept_
    if len(W) == 1:  # two classes are told by one difference
        W, b = np.r_[-W, W] / 2, np.r_[-b, b] / 2
    value = objective(dense, y, np.full(n, 1 / n), 1e-2, W, b)
    assert value == pytest.approx(model.objective_, rel=1e-6)


def test_iterations_one_by_one_are_those_of_a_long_run():
    X, y = many(6)
    problem = problem_of(X, y, np.full(len(y), 1 / len(y)), True)
    long, short = (ClassCoordinateSolver(Task(problem, 1e-4, tol=1e-9)) for _ in range(2))
    run(long, tol=1e-9, max_iter=6)
    for _ in range(6):
        run(short, tol=1e-9, max_iter=1)
        short.detach()
        short.attach(problem)
    alphas = [solver.kept((None, None)).alpha for solver in (long, short)]
    assert np.array_equal(*alphas)
    assert long._before_proximal is not None  # with a proximal term


def test_starts_from_the_dual_point_of_another_reg_lambda():
    X, y, weights = rows_of(60, 6, 4)
    problem = problem_of(X, y, weights, True)
    first = ClassCoordinateSolver(Task(problem, 0.1, tol=1e-3))
    far = run(first, tol=1e-3, max_iter=1000)
    kept = first.kept((far.point, far.intercept))
    solver = ClassCoordinateSolver(
        Task(problem, 0.05, tol=1e-3), LinearStart(point=kept.point, alpha=kept.alpha)
    )
    state = next(solver.states())
    assert state.relative_gap < 0.5
    assert run(solver, tol=1e-3, max_iter=1000).status is Status.CONVERGED


def test_means_of_rows_that_were_left_out():
    """Rows that have stayed where they are catch up as if they had been followed."""
    rng = np.random.default_rng(0)
    alpha, first = rng.random((2, 3, 8))
    mean, stamps, stamp = first.copy(), np.zeros(3), 0.0
    for _ in range(5):
        stamp += np.log1p(-0.25)
        args = alpha.ravel(), 8, 0.25, mean.reshape(-1), stamps, stamp
        classes.follow(np.array([1], dtype=np.int32), *args)
    classes.catch_up(alpha.ravel(), 8, mean.reshape(-1), stamps, stamp)
    np.testing.assert_allclose(mean, alpha + 0.75**5 * (first - alpha), rtol=1e-12)


def test_which_losses():
    assert dual_hinge(MulticlassHinge(COST)) and dual_hinge(MulticlassHinge(None, "slack"))
    assert dual_hinge(MulticlassHinge(COST, "slack")) is None and dual_hinge(Ontology([])) is None
