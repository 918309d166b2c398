"""Planes by the derivatives that the quadratic model of a Newton step has at its end."""

from typing import NamedTuple

import numpy as np
import pytest
from scipy.optimize import minimize

from sklearn_bundle.core.contract import Status, run
from sklearn_bundle.jit.decorators import registered
from sklearn_bundle.jit.elementary import exp
from sklearn_bundle.linear._compiled import scores as loops
from sklearn_bundle.linear.losses.scores import score_loss
from sklearn_bundle.linear.problems.linear import LinearProblem
from sklearn_bundle.linear.rows.memory_rows import rows_in_memory
from sklearn_bundle.linear.solvers import _descent
from sklearn_bundle.linear.solvers.newton import NewtonSolver
from sklearn_bundle.linear.solvers.solver import Task
from sklearn_bundle.losses import BINARY_LOSSES, REGRESSION_LOSSES
from tests.reference_regression import LOSSES

pytestmark = [
    pytest.mark.filterwarnings("error::RuntimeWarning"),
    pytest.mark.usefixtures("by_steps"),
]

PARAMETERS = {"huber": {"delta": 0.7}, "squared_epsilon_insensitive": {"epsilon": 0.3}}
TYPES = {**BINARY_LOSSES, **REGRESSION_LOSSES}
SMOOTH = [
    *("log_loss", "squared_hinge", "exponential"),
    *("huber", "squared_epsilon_insensitive", "poisson"),
]


def loss_of(name):
    return TYPES[name](**PARAMETERS.get(name, {}))


def risk(name, scores, y, weights):
    """In plain numpy."""
    if name == "log_loss":
        return weights @ np.logaddexp(0.0, -y * scores)
    if name == "squared_hinge":
        return weights @ np.maximum(0.0, 1.0 - y * scores) ** 2 / 2.0
    if name == "exponential":
        return weights @ np.exp(-y * scores)
    return weights @ LOSSES[name](scores, y, **PARAMETERS.get(name, {}))


def targets(name, numbers):
    if name in BINARY_LOSSES:
        return np.where(numbers > numbers.mean(), 1.0, -1.0)
    if name == "poisson":
        numbers = np.round(np.abs(numbers))
        numbers[:5] += 1.0  # those of one row, and of one weight, are not all 0
    return numbers


@pytest.mark.matrix
@pytest.mark.parametrize("far", [0.0, 0.3, 40.0])
@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("name", SMOOTH)
def test_they_are_below_the_risk(name, free, far):
    """However far the step goes; of sum zero with a free intercept, the cut's with no step."""
    rng = np.random.default_rng(5)
    scores, direction = rng.normal(size=(2, 203))
    y, weights = targets(name, rng.normal(size=203)), rng.uniform(0.1, 1.0, size=203)
    weights /= weights.sum()
    kind, out, still = score_loss(loss_of(name)), np.empty(203), np.empty(203)
    start = kind.start(y, weights, True)
    b = kind.smoothed_intercept(
        scores, y, weights, 1.0, start.intercept, start.unit, 1e-15, np.empty(203)
    )
    args = scores, far * direction, y, weights, b, far * 0.2
    offset = kind.modeled_plane(*args, free, out)
    assert not free or abs(out.sum()) <= 1e-14
    if far == 0.0:
        _, expected = kind.smoothed_cut(scores, y, weights, 1.0, b, free, still)
        assert offset == pytest.approx(expected, rel=1e-11, abs=1e-14)
        np.testing.assert_allclose(out, still, rtol=1e-9, atol=1e-15)
    for scale in (0.1, 1.0, 5.0):
        for _ in range(20):
            others = scores + b + scale * rng.normal(size=203) + free * scale * rng.normal()
            assert risk(name, others, y, weights) >= out @ others + offset - 1e-12 * (1.0 + scale)


def shapes(rng):
    """(X, weights) of plain shapes."""
    X, even = rng.normal(size=(30, 3)), np.full(30, 1.0 / 30.0)
    one, two = np.zeros(30), np.zeros(30)
    one[4], two[[4, 5]] = 1.0, 0.5
    return {
        "some rows": (X, even),
        "one row": (X[:1], np.ones(1)),
        "one column": (X[:, :1].copy(), even),
        "constant column": (np.c_[X, np.full(30, 0.1)], even),
        "one weight": (X, one),
        "two weights": (X, two),
        "column of 1e8": (X * [1.0, 1e8, 1.0], even),
    }


def reached(name, X, y, weights, reg_lambda, free):
    """An objective that is reached: the optimum but for what scipy leaves."""

    def objective(v):
        w, b = (v[:-1] / scale, v[-1]) if free else (v / scale, 0.0)
        return reg_lambda / 2.0 * w @ w + risk(name, X @ w + b, y, weights)

    scale = np.maximum(np.abs(X).max(axis=0), 1.0)
    start = np.zeros(X.shape[1] + free)
    return minimize(objective, start, method="BFGS", options={"gtol": 1e-9}).fun


PLAIN = [
    (name, shape)
    for name in SMOOTH
    for shape in shapes(np.random.default_rng(0))
    if name not in BINARY_LOSSES or shape not in ("one row", "one weight")  # two classes
]


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize(("name", "shape"), PLAIN)
def test_certificates_where_each_step_has_a_model(name, shape, free, monkeypatch):
    monkeypatch.setattr(_descent, "_GAP_PER_SQUARE", 0.0)
    monkeypatch.setattr(_descent, "_STEP_PASSES", np.inf)
    monkeypatch.setattr(_descent.NewtonDescent, "learn_from_model", lambda self, gap: None)
    rng = np.random.default_rng(7)
    X, weights = shapes(rng)[shape]
    y = targets(name, X[:, 0] + rng.normal(size=len(X)))
    if name in BINARY_LOSSES:
        y[4:6] = -1.0, 1.0
    problem = LinearProblem(rows_in_memory(X), y, weights, loss_of(name), free)
    solver = NewtonSolver(Task(problem, 1e-3, tol=1e-6))
    result = run(solver, tol=1e-6, max_iter=200)
    # Of a single row the optimum is 0.
    assert result.status is Status.CONVERGED or result.primal <= 1e-14
    found = 1e-3 / 2.0 * result.point @ result.point
    found += risk(name, X @ result.point + result.intercept, y, weights)
    assert result.primal == pytest.approx(found + result.excess, rel=1e-9, abs=1e-12)
    best = reached(name, X, y, weights, 1e-3, free)
    assert result.lower_bound <= best * (1.0 + 1e-9) + 1e-12


class Steep(NamedTuple):
    """``|f - y|`` rounded off, whose slope overflows to no number far away."""


@registered(loops.slope, Steep)
def _slope(loss, f, r, y, steepness):
    e = exp(min(2.0 * r, 2e3))
    return (e - 1.0) / (e + 1.0)


@registered(loops.curvature, Steep)
def _curvature(loss, f, r, y, steepness):
    u = np.tanh(r)
    return 1.0 - u * u


@registered(loops.conjugate, Steep)
def _conjugate(loss, u, y, center):
    v = min(abs(u), 1.0 - 1e-15)
    return 0.5 * ((1.0 + v) * np.log1p(v) + (1.0 - v) * np.log1p(-v)) + u * (y - center)


def test_slopes_that_are_no_numbers_far_away_hold_nothing_back():
    """The slope here is taken in place of one that may be beyond what the loss has."""
    scores, out = np.array([0.0, 1.0, -1.0]), np.empty(3)
    y, weights, still = np.zeros(3), np.full(3, 1.0 / 3.0), np.zeros(3)
    args = scores, np.full(3, 9.0), y, weights, 1.0, 0.0, 0.0, 0.0, out
    offset = loops.modeled(Steep(), *args)
    for others in np.random.default_rng(0).normal(size=(50, 3)) * 5.0:
        risk = weights @ (np.logaddexp(others, -others) - np.log(2.0))
        assert risk >= out @ others + offset - 1e-12
    np.testing.assert_allclose(out, np.tanh(scores) / 3.0, rtol=1e-12, atol=still[0])


@pytest.mark.parametrize("size", [1e-110, 1e-80, 1e80, 1e100])
@pytest.mark.parametrize("name", ["huber", "squared_epsilon_insensitive"])
def test_targets_whose_squares_are_out_of_range(name, size):
    rng = np.random.default_rng(9)
    X = rng.normal(size=(200, 3))
    y = size * (X[:, 0] + rng.standard_cauchy(size=200))
    parameter = {"huber": "delta", "squared_epsilon_insensitive": "epsilon"}[name]
    loss = TYPES[name](**{parameter: 0.5 * size})
    problem = LinearProblem(rows_in_memory(X), y, np.full(200, 1 / 200), loss, True)
    result = run(NewtonSolver(Task(problem, 1e-4, tol=1e-3)), tol=1e-3, max_iter=50)
    assert result.lower_bound <= result.primal < np.inf
    assert result.status is Status.CONVERGED


@pytest.mark.parametrize("name", ["log_loss", "poisson"])
def test_a_gap_does_not_grow_as_regularization_gets_weak(name):
    """The same few steps; a plane at the point would have a gap of 1 / reg_lambda."""
    rng = np.random.default_rng(8)
    X = rng.normal(size=(2000, 5))
    y = targets(name, X[:, 0] + rng.normal(size=2000))
    steps = []
    for reg_lambda in (1e-3, 1e-6, 1e-9):
        weights = np.full(2000, 1.0 / 2000.0)
        problem = LinearProblem(rows_in_memory(X), y, weights, loss_of(name), True)
        solver = NewtonSolver(Task(problem, reg_lambda, tol=1e-3))
        result = run(solver, tol=1e-3, max_iter=50)
        assert result.status is Status.CONVERGED
        steps.append(result.n_iter)
    # The plane of a model is that of the optimum of the model.
    np.testing.assert_allclose(solver.plane[0] / -1e-9, result.point, rtol=1e-4, atol=1e-5)
    assert max(steps) <= 4
