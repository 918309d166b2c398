"""Dual coordinate steps for losses of real targets: against numpy and clarabel, in any unit."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize_scalar

from sklearn_bundle.core.contract import Status, run
from sklearn_bundle.linear._compiled import coordinate
from sklearn_bundle.linear.losses.scores import score_loss
from sklearn_bundle.linear.problems.linear import LinearProblem
from sklearn_bundle.linear.rows.memory_rows import rows_in_memory
from sklearn_bundle.linear.solvers._dual_steps import DualAscent
from sklearn_bundle.linear.solvers.dual_coordinate import DualCoordinateSolver
from sklearn_bundle.linear.solvers.solver import LinearStart, Task
from sklearn_bundle.losses import REGRESSION_LOSSES, Poisson
from tests.reference_regression import LOSSES, drawn, objective, optimum

PARAMETERS = {  # of every loss that has such steps
    "absolute_error": {},
    "quantile": {"quantile": 0.8},
    "epsilon_insensitive": {"epsilon": 0.5},
    "squared_epsilon_insensitive": {"epsilon": 0.5},
    "huber": {"delta": 0.7},
}
SQUARED = ("squared_epsilon_insensitive", "huber")
KINDS = ["dense", "csr"]
every_loss = pytest.mark.parametrize("loss", PARAMETERS)
every_intercept = pytest.mark.parametrize("free", [False, True])


def made(loss, unit=1.0):
    own = {k: v if k == "quantile" else unit * v for k, v in PARAMETERS[loss].items()}
    return REGRESSION_LOSSES[loss](**own)


def solver_of(X, y, weights, loss, free, reg_lambda, kind="dense", unit=1.0, alpha=None, **further):
    X = sp.csr_matrix(X) if kind == "csr" else np.ascontiguousarray(X)
    problem = LinearProblem(rows_in_memory(X), y, weights, made(loss, unit), free)
    return DualCoordinateSolver(Task(problem, reg_lambda, **further), LinearStart(alpha=alpha))


def conjugate(loss, u):
    """l*(u) of l(r), infinite outside of the slopes that there are."""
    low, high, half, bend = {
        "absolute_error": (-1.0, 1.0, 0.0, 0.0),
        "quantile": (-0.8, 0.2, 0.0, 0.0),
        "epsilon_insensitive": (-1.0, 1.0, 0.5, 0.0),
        "squared_epsilon_insensitive": (-np.inf, np.inf, 0.5, 1.0),
        "huber": (-0.7, 0.7, 0.0, 1.0),
    }[loss]
    inside = (u >= low - 1e-12) & (u <= high + 1e-12)
    return np.where(inside, half * np.abs(u) + 0.5 * bend * u * u, np.inf)


def part(loss, a, y, weight):
    """Of the dual, without its quadratic term."""
    return a * y - weight * conjugate(loss, -a / weight)


def reference_epoch(loss, X, y, weights, reg_lambda, alpha, order, b, pull):
    w = X.T @ alpha / reg_lambda
    alpha, gap, gained = alpha.copy(), 0.0, 0.0
    for i in order:
        f, square = X[i] @ w + b, X[i] @ X[i] / reg_lambda + pull

        def fall(a, i=i, f=f, square=square, old=alpha[i]):
            change = a - old
            value = part(loss, a, y[i], weights[i]) - part(loss, old, y[i], weights[i])
            return -(value - change * f - 0.5 * square * change**2)

        gap += weights[i] * LOSSES[loss](f, y[i], **PARAMETERS[loss]) + alpha[i] * f
        gap -= part(loss, alpha[i], y[i], weights[i])
        most = 1e3 if loss in SQUARED and loss != "huber" else weights[i]
        box = (-most, most)
        if loss == "quantile":
            box = (-0.2 * weights[i], 0.8 * weights[i])
        if loss == "huber":
            box = (-0.7 * weights[i], 0.7 * weights[i])
        # convex with one minimum: the halves apart, since there may be a kink at 0
        found = [
            minimize_scalar(fall, bounds=half, method="bounded", options={"xatol": 1e-14}).x
            for half in ((box[0], 0.0), (0.0, box[1]))
        ]
        best = min([*found, *box, 0.0], key=fall)
        gained -= fall(best)
        w += (best - alpha[i]) * X[i] / reg_lambda
        b += pull * (best - alpha[i])
        alpha[i] = best
    return alpha, w, b, gap, gained


@every_loss
@pytest.mark.parametrize("kind, pull", [("dense", 0.0), ("csr", 3.0)])
def test_epoch_against_numpy(loss, kind, pull):
    X, y, weights = drawn()
    n, d = X.shape
    X[np.abs(X) < 0.3] = 0.0
    X[7] = 0.0
    reg_lambda, b = 1e-2, 0.1 * (pull > 0.0)
    steps = score_loss(made(loss))
    low, high = (np.broadcast_to(a, n) for a in steps.bounds(y, weights))
    low, high = np.maximum(low, -weights), np.minimum(high, weights)
    shares = np.random.default_rng(1).uniform(0.0, 1.0, n)
    shares[:9] = np.repeat([0.0, 1.0, 0.5], 3)
    alpha = low + shares * (high - low)
    alpha[9:12] = 0.0
    order, active = np.empty(n, dtype=np.int64), np.arange(n)
    squares = (X**2).sum(axis=1) / reg_lambda + pull
    rows = np.column_stack([y, weights, squares, alpha]).ravel()
    w = X.T @ alpha / reg_lambda
    A = sp.csr_matrix(X)
    arrays = A.data, A.indices.view(np.uint32), A.indptr.astype(np.uint64), 0
    if kind == "dense":
        arrays = X.ravel(), np.zeros(0, np.uint32), np.zeros(0, np.uint64), d
    seed, limits = np.array([7], dtype=np.uint64), (np.inf, np.inf)
    args = active, n, 1, order, kind == "csr", steps.formula(), w, 1 / reg_lambda, *limits, b, pull
    size, _, _, gap, gained, new_b = coordinate.epoch(*arrays, rows, *args, seed)
    assert size == n
    expected = reference_epoch(loss, X, y, weights, reg_lambda, alpha, order[::-1], b, pull)
    np.testing.assert_allclose(rows[3::4], expected[0], atol=1e-9)
    np.testing.assert_allclose(w, expected[1], atol=1e-6)
    assert new_b == pytest.approx(expected[2], abs=1e-7)
    assert gap == pytest.approx(expected[3], rel=1e-6)
    assert gained == pytest.approx(expected[4], rel=1e-6)


@pytest.mark.matrix
@every_loss
@every_intercept
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reg_lambda", [1.0, 1e-2, 1e-3])
def test_optimum_and_certificate(loss, free, reg_lambda, kind):
    """Against an interior-point solver; objective and bound computed again in numpy."""
    X, y, weights = drawn()
    args, own = (loss, X, y, weights), PARAMETERS[loss]
    best = optimum(*args, reg_lambda, free, **own)
    solver = solver_of(X, y, weights, loss, free, reg_lambda, kind, tol=1e-4)
    result = run(solver, tol=1e-4, max_iter=20_000)
    assert result.status is Status.CONVERGED
    assert result.lower_bound <= best * (1 + 1e-8) <= result.primal * (1 + 2e-8)
    value = objective(*args, reg_lambda, result.point, result.intercept, **own)
    assert value == pytest.approx(result.primal, rel=1e-9)
    gradient, offset = solver.plane
    bound = offset - gradient @ gradient / (2 * reg_lambda)
    assert bound == pytest.approx(result.lower_bound, rel=1e-9)
    rng = np.random.default_rng(2)  # the plane lies below the risk, whatever the intercept
    for _ in range(50):
        w, b = rng.normal(size=X.shape[1]), rng.normal(scale=3.0) if free else 0.0
        risk = objective(*args, 0.0, w, b, **own)
        assert risk >= gradient @ w + offset - 1e-12 * (1 + abs(offset))


@every_loss
@every_intercept
def test_weak_duality_at_every_epoch(loss, free):
    X, y, weights = drawn()
    best = optimum(loss, X, y, weights, 1e-3, free, **PARAMETERS[loss])
    solver, last = solver_of(X, y, weights, loss, free, 1e-3), np.inf
    for _, state in zip(range(1000), solver.states(), strict=False):
        assert state.lower_bound <= best * (1 + 1e-8) and state.primal >= best * (1 - 1e-8)
        assert state.gap <= last
        last = state.gap
    assert last < 1e-2 * best


@every_loss
def test_the_aggregate_plane_lies_below_the_risk(loss):
    """Of any alpha in the box, made feasible: whatever the weights and the intercept."""
    X, y, weights = drawn()
    rng = np.random.default_rng(3)
    problem = LinearProblem(rows_in_memory(X), y, weights, made(loss), True)
    steps = DualAscent(problem, 1e-2)
    low, high = (np.broadcast_to(a, len(y)) for a in problem.loss.bounds(y, weights))
    alpha = rng.uniform(np.maximum(low, -2.0 * weights), np.minimum(high, 3.0 * weights))
    feasible = alpha.copy()
    steps.balance(feasible)
    assert abs(feasible.sum()) <= 1e-15 * np.abs(alpha).sum()
    assert (low <= feasible).all() and (feasible <= high).all()
    gradient, offset = steps.plane(feasible)
    for _ in range(20):
        w, b = rng.normal(size=X.shape[1]), rng.normal(scale=10.0)
        risk = objective(loss, X, y, weights, 0.0, w, b, **PARAMETERS[loss])
        assert gradient @ w + offset <= risk + 1e-12


@every_loss
@pytest.mark.parametrize("unit", [2.0**20, 2.0**-20])
def test_the_unit_of_the_targets_changes_nothing(loss, unit):
    """A power of 2 rounds nothing, and every epoch is the same but for it, bit by bit.

    Linear losses grow with the unit and ||w||^2 with its square; for squared ones both do.
    """
    X, y, weights = drawn()
    size, strength = (unit**2, 1.0) if loss in SQUARED else (unit, 1 / unit)
    plain = solver_of(X, y, weights, loss, True, 1e-3)
    scaled = solver_of(X, unit * y, weights, loss, True, strength * 1e-3, unit=unit)
    for _, a, b in zip(range(150), plain.states(), scaled.states(), strict=False):
        assert b.primal == size * a.primal and b.lower_bound == size * a.lower_bound
        assert b.intercept == unit * a.intercept
        np.testing.assert_array_equal(b.point, unit * a.point)


@every_loss
def test_targets_far_from_zero(loss):
    """A free intercept takes a shift of the targets; 1e5 costs as many digits, not epochs."""
    X, y, weights = drawn()
    results = [
        run(
            solver_of(X, y + shift, weights, loss, True, 1e-2, tol=1e-5),
            tol=1e-5,
            max_iter=5000,
        )
        for shift in (0.0, 1e5)
    ]
    assert {r.status for r in results} == {Status.CONVERGED}
    assert results[1].primal == pytest.approx(results[0].primal, rel=1e-5)
    assert results[1].n_iter <= 2 * results[0].n_iter


@pytest.mark.parametrize("loss", ["absolute_error", "epsilon_insensitive"])
def test_a_dual_point_of_another_reg_lambda(loss):
    X, y, weights = drawn()
    first = solver_of(X, y, weights, loss, True, 1e-2, tol=1e-5)
    result = run(first, tol=1e-5, max_iter=5000)
    again = solver_of(X, y, weights, loss, True, 1e-2, tol=1e-5, alpha=first.alpha)
    assert next(again.states()).lower_bound >= result.lower_bound * (1 - 1e-9)
    warm = solver_of(X, y, weights, loss, True, 2e-2, tol=1e-5, alpha=first.alpha)
    assert run(warm, tol=1e-5, max_iter=5000).status is Status.CONVERGED


def test_which_losses_have_steps():
    assert not Poisson().has_dual_steps
    assert all(made(loss).has_dual_steps for loss in PARAMETERS)
