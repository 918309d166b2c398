"""The excessive gap technique: its invariant, its rates, its bounds."""

from functools import partial
from itertools import islice

import numpy as np
import pytest

from sklearn_bundle.core.contract import Status, run
from sklearn_bundle.linear.problems.linear import LinearProblem
from sklearn_bundle.linear.rows.memory_rows import rows_in_memory
from sklearn_bundle.linear.solvers.excessive_gap import ExcessiveGapSolver
from sklearn_bundle.linear.solvers.hinge_gap import HingeDual
from sklearn_bundle.losses import Hinge
from tests.reference import objective


def dual_of(X, y, weights, reg_lambda, fit_intercept):
    problem = LinearProblem(rows_in_memory(X), y, weights, Hinge(), fit_intercept)
    return HingeDual(problem, reg_lambda)


def made(data, reg_lambda=1e-2, fit_intercept=True, weighted=True):
    """X, y, weights and the problem."""
    X, y = data[0], np.where(data[1] == 1, 1.0, -1.0)
    weights = np.random.default_rng(0).uniform(0.1, 3.0, len(y)) if weighted else np.ones(len(y))
    weights /= weights.sum()
    return X, y, weights, dual_of(X, y, weights, reg_lambda, fit_intercept)


def project_by_bisection(moved, y, weights, fit_intercept):
    """argmin of sum s (u - moved)^2 over 0 <= u <= 1, sum s y u = 0, in plain numpy."""
    if not fit_intercept:
        return np.clip(moved, 0.0, 1.0)
    low, high = -np.abs(moved).max() - 2.0, np.abs(moved).max() + 2.0
    for _ in range(200):
        t = 0.5 * (low + high)
        total = np.sum(weights * y * np.clip(moved + t * y, 0.0, 1.0))
        low, high = (t, high) if total < 0.0 else (low, t)
    return np.clip(moved + 0.5 * (low + high) * y, 0.0, 1.0)


def smoothed(X, y, weights, reg_lambda, fit_intercept, w, center, mu):
    """J_mu(w), by the maximizer's closed form."""
    slack = 1.0 - y * (X @ w)
    u = project_by_bisection(center + slack / mu, y, weights, fit_intercept)
    prox = 0.5 * mu * np.sum(weights * (u - center) ** 2)
    return 0.5 * reg_lambda * w @ w + np.sum(weights * u * slack) - prox


def dual(X, y, weights, reg_lambda, u):
    p = X.T @ (weights * y * u)
    return np.sum(weights * u) - p @ p / (2.0 * reg_lambda)


def best_risk(X, y, weights, reg_lambda, fit_intercept, w):
    """J with the best b, which is one of the kinks."""
    kinks = y - X @ w if fit_intercept else [0.0]
    return min(objective("hinge", X, y, weights, reg_lambda, w, b) for b in kinks)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("lipschitz", ["adaptive", "fixed"])
def test_invariant_at_every_step(data, lipschitz, fit_intercept):
    X, y, weights, problem = made(data, fit_intercept=fit_intercept)
    radius = np.linalg.norm(X, axis=1).max()
    solver = ExcessiveGapSolver(problem, None if lipschitz == "adaptive" else radius**2 / 1e-2)
    starts = set()
    for _ in islice(solver.states(), 150):
        starts.add(id(solver.center))
        u = solver.u.u
        assert (u >= 0.0).all() and (u <= 1.0).all()
        assert abs(np.sum(weights * y * u)) < 1e-15 or not fit_intercept
        value = dual(X, y, weights, 1e-2, u)
        assert value == pytest.approx(solver.u.value, abs=1e-12)
        assert (
            smoothed(X, y, weights, 1e-2, fit_intercept, solver.point.w, solver.center, solver.mu)
            <= value + 1e-12
        )
    assert len(starts) > 1 or lipschitz == "fixed"


@pytest.mark.matrix
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_rate_of_algorithm_1(data, fit_intercept, weighted):
    """gap_k <= 2 R^2 / (reg_lambda (k+1)(k+2)) for the newest points and for the best ones."""
    X, y, weights, problem = made(data, 1e-2, fit_intercept, weighted)
    radius = np.linalg.norm(X, axis=1).max()
    solver = ExcessiveGapSolver(problem, radius**2 / 1e-2)
    for k, state in enumerate(islice(solver.states(), 200), start=1):
        bound = 2.0 * radius**2 / (1e-2 * (k + 1) * (k + 2))
        assert solver.mu == pytest.approx(2.0 * bound, rel=1e-9)
        J = best_risk(X, y, weights, 1e-2, fit_intercept, solver.point.w)
        assert J - dual(X, y, weights, 1e-2, solver.u.u) <= bound
        assert state.gap <= bound


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_rate_of_the_adaptive_rule(data, fit_intercept):
    """gap <= mu/2, and mu <= 4 L/(k+1)^2 with the largest L that was met since the last start."""
    X, y, weights, problem = made(data, 1e-2, fit_intercept)
    solver = ExcessiveGapSolver(problem, None)
    center, k, largest = None, 0, 0.0
    for state in islice(solver.states(), 150):
        k, largest = (k + 1, largest) if solver.center is center else (1, 0.0)
        center, largest = solver.center, max(largest, solver._lipschitz / 0.9)
        J = best_risk(X, y, weights, 1e-2, fit_intercept, solver.point.w)
        assert J - dual(X, y, weights, 1e-2, solver.u.u) <= 0.5 * solver.mu + 1e-12
        assert state.gap <= 0.5 * solver.mu + 1e-12
        assert solver.mu <= 4.0 * largest / (k + 1) ** 2


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_power_iteration_bounds_the_curvature(data, fit_intercept):
    X, y, weights, problem = made(data, 1e-2, fit_intercept)
    centered = X - weights @ X if fit_intercept else X
    exact = np.linalg.norm(np.sqrt(weights)[:, None] * centered, 2) ** 2 / 1e-2
    assert exact <= problem.lipschitz_constant(0) <= 1.06 * exact
    assert exact <= (np.linalg.norm(X, axis=1).max() ** 2) / 1e-2
    rng = np.random.default_rng(0)
    for _ in range(20):
        u, v = rng.uniform(size=(2, len(y)))
        assert problem.curvature(u, problem.combine(u), v, problem.combine(v)) <= (
            np.linalg.norm(np.sqrt(weights)[:, None] * X, 2) ** 2 / 1e-2
        )


@pytest.mark.matrix
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("lipschitz", [None, "fixed"])
def test_iterations_grow_like_the_root_of_1_over_reg_lambda(cancer, lipschitz, fit_intercept):
    """To the same absolute gap with reg_lambda 100 times smaller: 10 times, not 100 times more."""
    X, y = cancer
    weights = np.full(len(y), 1.0 / len(y))
    radius = np.linalg.norm(X, axis=1).max()
    needed = []
    for reg_lambda in (1.0, 1e-2, 1e-4):
        problem = dual_of(X, y, weights, reg_lambda, fit_intercept)
        solver = ExcessiveGapSolver(problem, lipschitz and radius**2 / reg_lambda)
        k = next(k for k, state in enumerate(solver.states(), start=1) if state.gap <= 1e-2)
        assert (k - 1) ** 2 <= 2.0 * radius**2 / (reg_lambda * 1e-2) or lipschitz is None
        needed.append(k)
    growth = np.array(needed[1:]) / needed[:-1]
    assert (growth < 15.0).all(), needed


def test_bounds_never_cross_and_are_monotone(data):
    *_, problem = made(data)
    states = list(islice(ExcessiveGapSolver(problem, None).states(), 300))
    primal = np.array([s.primal for s in states])
    bound = np.array([s.lower_bound for s in states])
    assert (np.diff(primal) <= 0.0).all() and (np.diff(bound) >= 0.0).all()
    assert (bound <= primal).all()
    assert [s.passes for s in states] == sorted({s.passes for s in states})


def test_start_from_a_dual_point(data):
    *_, problem = made(data)
    solver = ExcessiveGapSolver(problem, None)
    first = run(solver, tol=1e-4, max_iter=10_000)
    again = run(ExcessiveGapSolver(problem, None, solver.dual_point.u), tol=1e-4, max_iter=10_000)
    assert again.n_iter < 0.5 * first.n_iter
    assert again.history["lower_bound"][0] >= first.lower_bound - 1e-12


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("what", ["X", "y_mean"])
def test_nothing_to_separate(fit_intercept, what):
    """All rows alike, or all zero: the optimum is w = 0, and no step may divide by zero."""
    X = np.zeros((6, 2)) if what == "X" else np.ones((6, 2))
    y = np.array([1.0, -1.0, 1.0, -1.0, 1.0, 1.0])
    problem = dual_of(X, y, np.full(6, 1.0 / 6.0), 1e-3, fit_intercept)
    result = run(ExcessiveGapSolver(problem, None), tol=1e-6, max_iter=10_000)
    assert result.status is Status.CONVERGED
    if fit_intercept:
        assert result.primal == pytest.approx(2.0 * 2.0 / 6.0, rel=1e-6)


@pytest.mark.parametrize("lipschitz", [None, 1e-16, 1e-10, 1.0])
@pytest.mark.parametrize("scale", [1e-160, 1e-10, 1.0, 1e4])
def test_the_dual_point_is_feasible_however_long_the_steps(data, scale, lipschitz):
    X, y, weights, _ = made(data)
    problem = dual_of(X * scale, y, weights, 10.0, True)
    solver = ExcessiveGapSolver(problem, lipschitz)
    result = run(solver, tol=1e-6, max_iter=200)
    u = solver.dual_point.u
    assert (u >= 0.0).all() and (u <= 1.0).all() and abs(np.sum(weights * y * u)) < 1e-15
    taken_off = dual(X * scale, y, weights, 10.0, u) - result.lower_bound  # for rounding
    assert -1e-12 <= taken_off <= 1e-12 + 2e-13 * scale
    if scale <= 1.0:
        tight = run(ExcessiveGapSolver(problem, None), tol=1e-9, max_iter=20_000)
        assert result.lower_bound <= tight.primal * (1.0 + 1e-12)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("X", [np.zeros((10, 3)), np.full((10, 3), 0.1), np.full((10, 3), 1e5)])
def test_power_iteration_on_data_without_spread(X, fit_intercept):
    y = np.where(np.arange(10) % 2 == 0, 1.0, -1.0)
    problem = dual_of(X, y, np.full(10, 0.1), 1e-4, fit_intercept)
    solver = ExcessiveGapSolver(problem, partial(problem.lipschitz_constant, 0))
    assert run(solver, tol=1e-3, max_iter=1000).primal == pytest.approx(1.0)


def test_stalled_where_rounding_has_the_last_word(data):
    *_, problem = made(data)
    result = run(ExcessiveGapSolver(problem, None), tol=1e-300, max_iter=100_000)
    assert result.status in (Status.STALLED, Status.CONVERGED)
    assert result.relative_gap < 1e-12
