"""The contracts of the bundle method: rates, weak duality, aggregation, stopping."""

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning

from sklearn_bundle import BMRMClassifier
from sklearn_bundle.core.contract import Status, run
from sklearn_bundle.linear.problems.linear import LinearProblem
from sklearn_bundle.linear.rows.memory_rows import rows_in_memory
from sklearn_bundle.linear.solvers.bundle import BundleSolver
from sklearn_bundle.linear.solvers.inner.planes import Bundle
from sklearn_bundle.losses import BINARY_LOSSES, Hinge
from tests.contract.interrupts import interrupting
from tests.reference import objective, optimum


class LargestCoordinate:
    """R(w) = max_i w_i, ties broken towards a coordinate that was not used yet."""

    def __init__(self, d):
        self.dimension, self.passes, self._used = d, 0, np.zeros(d, dtype=bool)

    def evaluate(self, w):
        ties = np.flatnonzero(w >= w.max() - 1e-12)
        fresh = ties[~self._used[ties]]
        i = (fresh if len(fresh) else ties)[0]
        self._used[i] = True
        return w.max(), np.eye(self.dimension)[i]


@pytest.fixture
def problem(cancer):
    X, y = cancer

    def make(loss="hinge", fit_intercept=True, rows=slice(None)):
        n = len(y[rows])
        return LinearProblem(
            rows_in_memory(X[rows]),
            y[rows],
            np.full(n, 1 / n),
            BINARY_LOSSES[loss](),
            fit_intercept,
        )

    return make


@pytest.mark.parametrize("reg_lambda", [1.0, 0.01])
def test_lower_bound_of_the_rate(reg_lambda):
    """METHODS section 1: the gap is exactly 1/(2 reg_lambda t) for t < d, and 0 at t = d."""
    d = 12
    solver = BundleSolver(LargestCoordinate(d), reg_lambda, algorithm="cutting-plane")
    states = solver.states()
    for t in range(1, d):
        assert next(states).gap == pytest.approx(1 / (2 * reg_lambda * t), rel=1e-12)
    assert next(states).gap == pytest.approx(0.0, abs=1e-12 / reg_lambda)


@pytest.mark.matrix
@pytest.mark.parametrize("algorithm", ["line-search", "cutting-plane"])
@pytest.mark.parametrize("max_size", [None, 2, 10])
@pytest.mark.parametrize("loss", BINARY_LOSSES)
def test_weak_duality_at_every_iteration(problem, cancer, loss, algorithm, max_size):
    X, y = cancer
    rows, reg_lambda = slice(0, 120), 1e-2
    best = optimum(loss, X[rows], y[rows], np.full(120, 1 / 120), reg_lambda, True)
    bundle = Bundle(X.shape[1], max_size)
    solver = BundleSolver(problem(loss, rows=rows), reg_lambda, algorithm=algorithm, bundle=bundle)
    last = np.inf
    for _, state in zip(range(150), solver.states(), strict=False):
        assert state.lower_bound <= best * (1 + 1e-8) and state.primal >= best * (1 - 1e-8)
        assert state.gap <= last
        assert bundle.size <= (max_size or 1000)
        last = state.gap


def test_line_search_steps_beyond_w_t(problem, monkeypatch):
    """METHODS: the step is not clamped to 1; the state follows it exactly."""
    p, steps = problem("hinge", rows=slice(0, 120)), []
    search = p.line_search

    def spy(start, end, *parabola):
        steps.append((start.w, end.w, search(start, end, *parabola)))
        return steps[-1][-1]

    monkeypatch.setattr(p, "line_search", spy)
    solver = BundleSolver(p, 0.1)
    followed = []
    for _, state in zip(range(20), solver.states(), strict=False):
        start, end, step = steps[-1]
        if step > 1.0:
            reached = start + step * (end - start)
            followed.append(np.allclose(state.point, reached, rtol=1e-12, atol=0))
    assert any(followed)


@pytest.mark.parametrize("reg_lambda", [1e-6, 1e-10])
@pytest.mark.parametrize("algorithm", ["line-search", "cutting-plane"])
def test_separable_data(algorithm, reg_lambda):
    """The optimum goes to zero with reg_lambda; it scales, so that a larger one tells it."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 5))
    y = np.where(X[:, 0] > 0.0, 1.0, -1.0)
    X[:, 0] += y
    p = LinearProblem(rows_in_memory(X), y, np.full(100, 0.01), Hinge(), True)
    result = run(BundleSolver(p, reg_lambda, algorithm=algorithm), tol=1e-3, max_iter=200)
    assert result.status is Status.CONVERGED
    margin = optimum("hinge", X, y, np.full(100, 0.01), 1e-3, True) / 1e-3
    assert result.primal == pytest.approx(margin * reg_lambda, rel=2e-3)


@pytest.mark.matrix
@pytest.mark.parametrize("loss", BINARY_LOSSES)
@pytest.mark.parametrize("algorithm", ["line-search", "cutting-plane"])
@pytest.mark.parametrize("reg_lambda", [1e-4, 1e-7])
def test_small_reg_lambda_keeps_the_certificate_true(problem, cancer, loss, algorithm, reg_lambda):
    """w_t is 1e4 and more away at first, where exponentials overflow and slopes underflow."""
    X, y = cancer
    rows = slice(0, 80)
    best = optimum(loss, X[rows], y[rows], np.full(80, 1 / 80), reg_lambda, True)
    p = problem(loss, rows=rows)
    result = run(BundleSolver(p, reg_lambda, algorithm=algorithm), tol=1e-3, max_iter=300)
    assert result.lower_bound <= best * (1 + 1e-6) + 1e-12
    assert result.primal >= best * (1 - 1e-6) - 1e-12


def test_aggregate_plane_proves_the_bound(problem, cancer):
    X, y = cancer
    solver = BundleSolver(problem(), 1e-3)
    result = run(solver, tol=1e-6, max_iter=1000)
    a, c = solver.plane
    bound = c - a @ a / (2 * 1e-3)
    assert (
        (1.0 - 1e-11) * bound <= result.lower_bound <= bound
    )  # what rounding may add is taken off
    rng = np.random.default_rng(0)
    weights = np.full(len(y), 1 / len(y))
    for scale in 20 * [0.0, 0.01, 0.1, 1.0]:
        w = result.point + scale * rng.normal(size=len(result.point))
        # the risk is piecewise linear in b: its minimum lies at one of the kinks
        kinks = y - X @ w
        risk = min(objective("hinge", X, y, weights, 0.0, w, b) for b in kinks)
        assert a @ w + c <= risk + 1e-14


def test_two_planes_are_algorithm_4(problem):
    """Against the algorithm as printed, with METHODS' correction of its line 11."""
    reg_lambda, steps = 1e-2, 40
    plain = problem(fit_intercept=False)
    w, best = np.zeros(plain.dimension), np.inf
    value, a = plain.evaluate(w)
    best = value
    w, b_hat = -a / reg_lambda, value
    expected = []
    for _ in range(steps):
        bound = -0.5 * reg_lambda * (w @ w) + b_hat
        value, a = plain.evaluate(w)
        best = min(best, value + 0.5 * reg_lambda * (w @ w))
        expected.append((best, max(bound, 0.0)))  # no objective is negative
        b = value - w @ a
        numerator = b - b_hat + w @ a + reg_lambda * (w @ w)
        denominator = np.sum((a + reg_lambda * w) ** 2) / reg_lambda
        eta = np.clip(numerator / denominator, 0.0, 1.0)
        w, b_hat = (1 - eta) * w - eta / reg_lambda * a, (1 - eta) * b_hat + eta * b
    solver = BundleSolver(
        problem(fit_intercept=False),
        reg_lambda,
        algorithm="cutting-plane",
        bundle=Bundle(plain.dimension, 2),
    )
    found = [(s.primal, s.lower_bound) for _, s in zip(range(steps), solver.states(), strict=False)]
    np.testing.assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.parametrize("loss", BINARY_LOSSES)
def test_gap_of_1e_8(problem, loss):
    result = run(BundleSolver(problem(loss), 1e-4), tol=1e-8, max_iter=3000)
    assert result.status is Status.CONVERGED
    assert result.gap <= 1e-8 * result.primal


def test_planes_of_another_reg_lambda(problem):
    bundle = Bundle(problem().dimension)
    first = BundleSolver(problem(), 1e-2, bundle=bundle)
    start = run(first, tol=1e-4, max_iter=500).point, None
    cold = run(BundleSolver(problem(), 5e-3), tol=1e-4, max_iter=500)
    warm = run(BundleSolver(problem(), 5e-3, bundle=bundle, start=start), tol=1e-4, max_iter=500)
    assert warm.n_iter < cold.n_iter
    assert abs(warm.primal - cold.primal) <= 1e-4 * cold.primal


def test_two_products_an_iteration(problem):
    p = problem()
    run(BundleSolver(p, 1e-2), tol=1e-12, max_iter=10)
    # ten with X, ten with X' (one at the start, none after the last step), one to confirm
    assert p.passes == 21


@pytest.mark.parametrize("loss", BINARY_LOSSES)
def test_rounding_ends_the_run(problem, loss):
    """No tolerance is so small that the iterations go on for ever."""
    result = run(BundleSolver(problem(loss), 1e-2), tol=1e-300, max_iter=5000)
    assert result.status is (Status.STALLED if result.gap > 0.0 else Status.CONVERGED)
    assert 0.0 <= result.gap <= 1e-12 * result.primal


def test_without_progress_the_cut_moves_to_w_t(problem, monkeypatch):
    p, steps = problem("log_loss"), []
    blend = p.blend
    monkeypatch.setattr(p, "blend", lambda a, b, step: steps.append(step) or blend(a, b, step))
    for _ in BundleSolver(p, 1e-2, theta=0.25).states():
        pass
    # the last iterations before rounding ends the run bring nothing
    assert [step for step in steps if step in (0.25, 0.5, 1.0)][-3:] == [1.0, 1.0, 1.0]
    assert 0.5 in steps


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_scores_do_not_drift(problem, cancer, fit_intercept):
    """Near the optimum w_t is the best point but for rounding, and a step along that is 1e14."""
    X, y = cancer
    p = problem("log_loss", fit_intercept, rows=slice(0, 120))
    solver = BundleSolver(p, 1e-2, bundle=Bundle(p.dimension, 2))
    for _, state in zip(range(300), solver.states(), strict=False):
        b = state.intercept if fit_intercept else 0.0
        fresh = objective("log_loss", X[:120], y[:120], np.full(120, 1 / 120), 1e-2, state.point, b)
        assert state.primal == pytest.approx(fresh, rel=1e-11)


def test_limits(problem):
    assert run(BundleSolver(problem(), 1e-5), tol=1e-9, max_iter=3).status is Status.MAX_ITER
    late = run(BundleSolver(problem(), 1e-5), tol=1e-9, max_iter=10**6, max_time=1e-9)
    assert late.status is Status.MAX_TIME and late.n_iter == 1


def test_line_search_refuses_a_bare_problem():
    with pytest.raises(ValueError, match=r"LargestCoordinate lacks; use 'cutting-plane'"):
        BundleSolver(LargestCoordinate(3), 1.0)


def test_interruption_keeps_the_best_point(problem):
    p = problem()
    p.loss = interrupting(Hinge, 4)
    result = run(BundleSolver(p, 1e-3), tol=1e-9, max_iter=100)
    assert result.status is Status.INTERRUPTED
    assert result.n_iter == 3
    assert np.isfinite(result.gap)


def test_a_fit_that_goes_on_does_not_stall_while_its_model_rises():
    """A confirmed bound is at least 0; the model's minimum is still far below that."""
    X, y = make_classification(300, 10, flip_y=0.1, random_state=1)
    model = BMRMClassifier("squared_hinge", solver="cutting-plane", tol=1e-4, reg_lambda=1e-4)
    model.set_params(warm_start=True, max_iter=20)
    with pytest.warns(ConvergenceWarning):
        model.fit(X, y)
    assert model.set_params(max_iter=4000).fit(X, y).status_ == "converged"
