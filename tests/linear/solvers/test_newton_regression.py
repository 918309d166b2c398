"""Newton's method for losses of a real target: kernels against plain numpy, planes, optima."""

import numpy as np
import pytest
import scipy.sparse as sp

from sklearn_bundle.core.contract import Status, run
from sklearn_bundle.linear.losses.scores import score_loss
from sklearn_bundle.linear.problems.linear import LinearProblem
from sklearn_bundle.linear.rows.memory_rows import rows_in_memory
from sklearn_bundle.linear.solvers.newton import NewtonSolver
from sklearn_bundle.linear.solvers.solver import Task
from sklearn_bundle.losses import REGRESSION_LOSSES
from tests.reference_regression import LOSSES, drawn, objective, optimum

pytestmark = [
    pytest.mark.filterwarnings("error::RuntimeWarning"),
    pytest.mark.usefixtures("by_steps"),
]

#: Name, parameters, and (low, high, half) of slopes of those that are functions of the residual.
CASES = {
    "absolute_error": ({}, (-1.0, 1.0, 0.0)),
    "quantile": ({"quantile": 0.8}, (-0.8, 0.2, 0.0)),
    "epsilon_insensitive": ({"epsilon": 0.3}, (-1.0, 1.0, 0.3)),
    "squared_epsilon_insensitive": ({"epsilon": 0.3}, (-np.inf, np.inf, 0.3)),
    "huber": ({"delta": 0.7}, (-0.7, 0.7, 0.0)),
    "poisson": ({}, None),
}
NAMES = list(CASES)
SMOOTH = ["squared_epsilon_insensitive", "huber", "poisson"]


def loss_of(name):
    return REGRESSION_LOSSES[name](**CASES[name][0])


def targets(name, y):
    return np.round(np.abs(y)) if name == "poisson" else y


def problem_of(name, X, y, weights, free):
    return LinearProblem(rows_in_memory(X, 1), y, weights, loss_of(name), free)


@pytest.fixture
def line():
    """Scores, a direction, targets, weights; of a number of rows that no block divides."""
    rng = np.random.default_rng(1)
    n = 203
    scores, direction = rng.normal(size=(2, n))
    weights = rng.uniform(0.1, 1.0, size=n)
    return scores, direction, 2.0 + rng.normal(size=n), weights / weights.sum()


def smoothed(name, width, f, y):
    """Slopes and bends in the scores of what Newton's method minimizes."""
    if name == "poisson":
        return np.exp(f) - y, np.exp(f)
    low, high, half = CASES[name][1]
    steepness = 1.0 if name in SMOOTH else 1.0 / width
    r = f - y
    u = np.sign(r) * np.maximum(np.abs(r) - half, 0.0) * steepness
    return np.clip(u, low, high), steepness * ((low < u) & (u < high) & (np.abs(r) >= half))


@pytest.mark.parametrize("width", [1.0, 0.03])
@pytest.mark.parametrize("name", NAMES)
def test_kernels_against_numpy(line, name, width):
    scores, direction, y, weights = line
    y, kind, b, out = targets(name, y), score_loss(loss_of(name)), 1.9, np.empty(len(line[0]))
    slopes, bends = smoothed(name, width, scores + b, y)
    risk, _ = kind.smoothed_cut(scores, y, weights, width, b, False, out)
    np.testing.assert_allclose(out, weights * slopes, rtol=1e-10, atol=1e-17)
    assert risk == pytest.approx(weights @ LOSSES[name](scores + b, y, **CASES[name][0]), rel=1e-12)
    rows, coefs = np.empty(len(y), dtype=np.int64), np.empty(len(y))
    size = kind.curved(scores, y, weights, width, b, rows, coefs)
    rows, coefs = rows[:size], coefs[:size]
    assert np.array_equal(rows, np.flatnonzero(bends))
    np.testing.assert_allclose(coefs, (weights * bends)[rows], rtol=1e-10)
    move = direction - 0.7
    slopes, bends = smoothed(name, width, scores + b + 0.4 * move, y)
    first, second = kind.smoothed_slope(scores, direction, y, weights, width, b, -0.7, 0.4)
    assert first == pytest.approx(weights @ (slopes * move), rel=1e-10)
    assert second == pytest.approx(weights @ (bends * move**2), rel=1e-10)


@pytest.mark.parametrize("b", [None, 0.0, 2.3, -4.0, 30.0])
@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_a_cut_is_a_plane_of_the_risk(line, name, free, b):
    """Below the risk wherever it is cut, of sum zero with a free intercept; tight at the best b."""
    scores, _, y, weights = line
    y, kind, out = targets(name, y) + (name != "poisson") * 1e3, score_loss(loss_of(name)), None
    out, start = np.empty(len(y)), kind.start(y, weights, True)
    width = 1e-4 if b is None else 0.3
    shift = 1e3 if name != "poisson" else 0.0
    if b is None:
        args = scores, y, weights, width, start.intercept, start.unit, 1e-14
        b = kind.smoothed_intercept(*args, np.empty(len(y))) - shift
    risk, offset = kind.smoothed_cut(scores, y, weights, width, b + shift, free, out)
    assert not free or abs(out.sum()) <= 1e-14
    if free and width == 1e-4:  # what the smoothing leaves
        assert risk == pytest.approx(out @ scores + offset, abs=width)
    rng = np.random.default_rng(2)
    for scale in (0.1, 1.0, 10.0):
        for _ in range(20):
            others = scores + scale * rng.normal(size=len(y)) + free * scale * rng.normal()
            others += shift if free else 0.0
            here = weights @ LOSSES[name](others, y, **CASES[name][0])
            assert here >= out @ others + offset - 1e-12 * (scale + shift)


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_optimum_against_clarabel(name, free):
    """With every bound on the way below it."""
    X, y, weights = drawn()
    y = targets(name, y)
    best = optimum(name, X, y, weights, 0.02, free, **CASES[name][0])
    for A in (X, sp.csr_array(X)):
        solver = NewtonSolver(Task(problem_of(name, A, y, weights, free), 0.02, tol=1e-7))
        result = run(solver, tol=1e-7, max_iter=500)
        assert result.status is Status.CONVERGED and set(result.history["solver"]) == {"newton"}
        assert result.primal == pytest.approx(best, rel=2e-7)
        assert (result.history["lower_bound"] <= best * (1 + 1e-9)).all()
        fresh = result.point, result.intercept
        value = objective(name, X, y, weights, 0.02, *fresh, **CASES[name][0])
        assert result.primal == pytest.approx(value, rel=1e-12)
        gradient, offset = solver.plane
        assert result.lower_bound == pytest.approx(
            offset - gradient @ gradient / 0.04, rel=1e-9, abs=1e-14
        )


def hard(kind, rng):
    n, d = {"wide": (20, 60), "one row": (1, 3), "two rows": (2, 3)}.get(kind, (90, 5))
    X = rng.normal(size=(n, d))
    y = X[:, 0] + rng.standard_t(2, size=n)
    if kind == "constant":
        X[:, 1], X[:, 2] = 3.0, 0.0
    elif kind == "far":
        y += 1e6
    elif kind == "tiny":
        y *= 1e-6
    elif kind == "scales":
        X *= np.array([1e6, 1e-6, 1, 1e3, 1])
    elif kind == "exact":
        y = X[:, 0] + 1.0
    elif kind == "ties":
        y = np.where(y > 0.0, 1.0, 0.0)
    elif kind == "equal":
        y[:] = 3.0
    elif kind == "outlier":
        y[3] = 1e9
    return X, y


HARD = ["wide", "one row", "two rows", "constant", "far", "tiny", "scales", "exact", "ties"]
HARD += ["equal", "outlier"]


@pytest.mark.matrix
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", HARD)
def test_hard_data_end_with_a_true_certificate(kind, name):
    """Numbers of numpy that overflow, or are divided by 0, are errors here."""
    rng = np.random.default_rng(5)
    X, y = hard(kind, rng)
    if name == "poisson":
        y = np.abs(y)
    n = len(y)
    for reg_lambda in (1e-8, 1e-3, 1e3):
        for free, s in [(True, np.ones(n)), (False, 10.0 ** rng.uniform(-5, 5, size=n))]:
            s = s / s.sum()
            solver = NewtonSolver(Task(problem_of(name, X, y, s, free), reg_lambda, tol=1e-5))
            result = run(solver, tol=1e-5, max_iter=400)
            fresh = result.point, result.intercept
            value = objective(name, X, y, s, reg_lambda, *fresh, **CASES[name][0])
            assert result.primal == pytest.approx(value, rel=1e-9, abs=1e-9 * np.abs(y).max())
            gradient, offset = solver.plane
            bound = max(0.0, offset - gradient @ gradient / (2.0 * reg_lambda))
            rounding = 1e-12 * (1.0 + abs(offset))
            # Off for rounding: most where columns are far from 0, or where terms of Poisson cancel.
            taken = 4e-5 * bound + 1e-8
            assert bound - rounding - taken <= result.lower_bound <= bound + rounding
            assert 0.0 <= result.lower_bound <= result.primal
            easy = reg_lambda > 1e-8 and free and kind not in ("scales", "outlier", "far")
            assert result.status is Status.CONVERGED or not easy


def test_poisson_on_features_with_heavy_tails():
    """Rows far out make steps far too long; from there up an exponential the way back is long too.

    Searches that gave up there left the fit to line searches, in 69 iterations.
    """
    rng = np.random.default_rng(0)
    X = rng.standard_t(2.2, size=(23000, 16))
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    scores = np.clip(X @ (0.15 * rng.normal(size=16)), -4.0, 4.0)
    y = rng.poisson(np.exp(scores) / np.exp(scores).mean()).astype(np.float64)
    weights = np.full(23000, 1 / 23000)
    solver = NewtonSolver(Task(problem_of("poisson", X, y, weights, True), 1e-3, tol=1e-3))
    result = run(solver, tol=1e-3, max_iter=100)
    assert result.status is Status.CONVERGED and set(result.history["solver"]) == {"newton"}
    assert len(result.history) <= 20
