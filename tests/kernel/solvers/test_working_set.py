"""Working sets: two-variable steps against plain numpy, the optimum, starts, and rounding."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sklearn_bundle.core.contract import Status, run
from sklearn_bundle.kernel._compiled import working_set
from sklearn_bundle.kernel._compiled.working_set import LANES
from sklearn_bundle.kernel.problems.box import Box, BoxProblem
from sklearn_bundle.kernel.solvers import working_set as solvers
from sklearn_bundle.kernel.solvers.working_set import BoxPoints, WorkingSetSolver, working_sets
from sklearn_bundle.kernel.values.kernel_data import KernelData
from sklearn_bundle.kernel.values.kernel_function import Kernel
from tests.reference_box import BoxMachine
from tests.reference_kernel import kernel_values
from tests.reference_programme import LONG

KINDS = ["SVC", "SVR", "OneClassSVM"]


def machine(kind, n=60, C=5.0, seed=0, dtype=np.float64, **limits):
    """A problem, and its reference at 0."""
    rng = np.random.default_rng(seed)
    X, zeros = rng.normal(size=(n, 2)).astype(dtype), np.zeros(n)
    y = np.where(X[:, 0] + rng.normal(size=n) > 0, 1.0, -1.0)
    costs = np.full(n, C)
    if kind == "SVC":
        box = Box(y, np.minimum(0.0, y * costs), np.maximum(0.0, y * costs))
    elif kind == "SVR":
        box = Box(X[:, 0] + rng.normal(size=n), -costs, costs, 0.3)
    else:
        box = Box(zeros, zeros, costs, total=0.2 * float(costs.sum()))
    data = KernelData(X, Kernel("rbf", 0.5), dtype)
    problem = BoxProblem(data, np.arange(n), box, cache_bytes=limits.get("cache_bytes", 1e8))
    K, sizes = kernel_values("rbf", X, 0.5)
    return problem, BoxMachine(K, sizes, *box, zeros, 0.0)


# ---- the compiled steps -------------------------------------------------------------------------


def plain_steps(K, target, beta, low, high, width, enough):
    """The same two-variable steps, said with arrays; of equals another may come first."""
    beta = beta.copy()
    for _ in range(100_000):
        g = K @ beta - target
        up = g + np.where(beta >= high, np.inf, np.where(beta >= 0, width, -width))
        down = g + np.where(beta <= low, -np.inf, np.where(beta > 0, width, -width))
        i = int(np.argmin(up))
        if not down.max() - up[i] > enough:
            return beta
        bend = np.maximum(np.diag(K) + K[i, i] - 2 * K[i], 1e-6 * K.max())
        j = int(np.argmax(np.maximum(down - up[i], 0) ** 2 / bend))
        top = 0.0 if width > 0 and beta[i] < 0 else high[i]
        bottom = 0.0 if width > 0 and beta[j] > 0 else low[j]
        step = min((down[j] - up[i]) / bend[j], top - beta[i], beta[j] - bottom)
        beta[i] += step
        beta[j] -= step
    raise AssertionError("no end")


def solve(K, diagonal, g, of_box, beta, enough, most_steps):
    """Steps on a matrix; their number, and whether it is indefinite."""
    rows = working_set.Rows(K, np.arange(len(K)))
    limits = enough, 0.0, most_steps
    steps, n_rows, indefinite = working_set.solve(
        None, rows, len(K), diagonal, g, of_box, beta, *limits
    )
    assert n_rows == len(K)
    return steps, indefinite


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", KINDS)
def test_steps_are_those_of_plain_numpy(kind, dtype):
    problem, exact = machine(kind, n=20)
    box, n, side = problem.box, 20, LANES
    start = box.inside(np.zeros(n))
    K = np.asarray(exact.K, float) + 0.1 * np.eye(n)
    padded, diagonal = np.zeros((side, side), dtype), np.ones(side, dtype)
    padded[:n, :n], diagonal[:n] = K, np.diag(K)
    g, (beta, low, high) = np.zeros(side, dtype), np.zeros((3, side))
    g[:n], beta[:n], low[:n], high[:n] = K @ start - box.target, start, box.low, box.high
    enough = 1e-4 if dtype == np.float32 else 1e-9
    of_box = low, high, box.target, box.width, box.total, 0.0
    steps, indefinite = solve(padded, diagonal, g, of_box, beta, enough, 100_000)
    expected = plain_steps(K, box.target, start, box.low, box.high, box.width, enough)
    assert not indefinite and steps > 5
    # No eigenvalue of K is below 0.1: ten times what is left of n slopes moves beta at most.
    assert_allclose(beta[:n], expected, atol=10.0 * n**0.5 * enough)
    assert (beta[n:] == 0.0).all()
    assert (beta[:n] >= box.low).all() and (beta[:n] <= box.high).all()
    assert beta.sum() == pytest.approx(box.total, abs=1e-12 * np.abs(beta).sum())
    up, down = problem.slopes(beta[:n], K @ beta[:n])
    assert down.max() - up.min() <= enough + (1e-5 if dtype == np.float32 else 1e-12)


@pytest.mark.parametrize("tol", [0.0, 1e-2])
@pytest.mark.parametrize("capacity", [3, 5, 60])
@pytest.mark.parametrize("kind", KINDS)
def test_rows_on_demand_are_those_of_the_kernel(kind, capacity, tol):
    """Steps end where there is no space for another row, or at the gap."""
    problem, exact = machine(kind, dtype=np.float32)
    source, box, n = problem.source(), problem.box, problem.n
    side = len(source.tiled.norms)
    values, slots = np.full((capacity, side), np.nan, np.float32), np.full(side, -1)
    diagonal, g = np.ones(side, np.float32), np.zeros(side, np.float32)
    beta, low, high = np.zeros((3, side))
    low[:n], high[:n] = box.low, box.high
    beta[:n] = start = box.inside(np.zeros(n))
    g[:n] = np.asarray(exact.K, float) @ start - box.target
    of_box = low, high, box.target, box.width, box.total, 0.0
    steps, n_rows, indefinite = working_set.solve(
        source, working_set.Rows(values, slots), 0, diagonal, g, of_box, beta, 1e-4, tol, 10_000
    )
    assert not indefinite and n_rows <= capacity
    known = np.flatnonzero(slots >= 0)
    assert sorted(slots[known]) == list(range(n_rows))
    assert_allclose(values[slots[known], :n], np.asarray(exact.K[known], float), atol=1e-6)
    assert set(np.flatnonzero(beta[:n] != start)) <= set(known)
    scores = np.asarray(exact.K, float) @ beta[:n]
    assert_allclose(g[:n], scores - box.target, atol=1e-4)
    if capacity < n:
        assert n_rows == capacity and steps < 100
        return
    up, down = problem.slopes(beta[:n], scores)
    primal, dual = problem.values(beta[:n], scores, -0.5 * float(down.max() + up.min()))
    assert primal - dual <= max(tol, 1e-4) * abs(primal) + 1e-4 * np.abs(box.high).sum()
    assert tol == 0.0 or down.max() - up.min() > 1e-4  # or the gap has ended no steps


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_steps_whose_gain_underflows_are_not_taken(dtype):
    """The partner would be any variable, and the step infinite."""
    K, diagonal = np.eye(LANES, dtype=dtype), np.ones(LANES, dtype)
    g, (beta, low, high) = np.zeros(LANES, dtype), np.zeros((3, LANES))
    g[:2], high[:3] = [1e-30, 2e-30] if dtype == np.float32 else [1e-200, 2e-200], 1.0
    beta[1] = 0.5
    of_box = low, high, np.zeros(3), 0.0, 0.5, 0.0
    assert solve(K, diagonal, g, of_box, beta, 0.0, 100) == (0, False)
    assert_array_equal(beta[:3], [0.0, 0.5, 0.0])


def test_sets_are_no_larger_than_the_memory_for_rows():
    """But for a few, whose matrix costs little."""
    for rows, size in ((0, LANES), (100, 100), (10**6, 1024)):
        problem, _ = machine("SVC", n=1500, cache_bytes=rows * 1500 * 8)
        solver = WorkingSetSolver(problem)
        assert solver._size == size
        assert solver._cache.values.nbytes <= max(rows, size) * 1500 * 8


def test_passes_are_counted_on_in_double_precision():
    problem, _ = machine("SVC", dtype=np.float32)
    solver = WorkingSetSolver(problem)
    passes = []
    for state in solver.states():
        passes.append(state.passes)
        solver.confirm()
        if problem.dtype == np.float64 and len(passes) > 8:
            break
    assert problem.dtype == np.float64 and passes == sorted(passes) and passes[-1] > problem.n


def test_slopes_are_those_of_the_objective():
    """At a bound, at the kink and between, by small steps of the dual objective."""
    problem, exact = machine("SVR", n=6)
    box, small = problem.box, 1e-6
    beta = np.array([0.0, box.low[1], box.high[2], 2.0, -2.0, 0.0])
    scores = np.asarray(exact.K @ beta.astype(LONG), float)
    up, down = problem.slopes(beta, scores)
    assert up[2] == np.inf and down[1] == -np.inf

    def value(i, step):
        moved = beta.copy()
        moved[i] += step
        moved = moved.astype(LONG)
        linear = exact.y @ moved - exact.width * np.abs(moved).sum()
        return linear - moved @ exact.K @ moved / 2

    for i in range(6):
        if i != 2:
            assert up[i] == pytest.approx(float(value(i, 0) - value(i, small)) / small, abs=1e-5)
        if i != 1:
            assert down[i] == pytest.approx(float(value(i, -small) - value(i, 0)) / small, abs=1e-5)


def test_rows_are_added_and_gathered():
    rng = np.random.default_rng(0)
    rows, slots = rng.normal(size=(7, 5000)), np.array([4, 0, 6])
    change, scores = rng.normal(size=3), rng.normal(size=5000)
    expected = scores + change @ rows[slots]
    working_set.add_rows(rows, slots, change, scores)
    assert_allclose(scores, expected, atol=1e-13)
    chosen, out = np.array([10, 4999, 0]), np.full((32, 32), 9.0)
    working_set.gather(rows, slots, chosen, out)
    assert_array_equal(out[:3, :3], rows[np.ix_(slots, chosen)])
    assert not out[3:].any() and not out[:, 3:].any()


# ---- the solver ---------------------------------------------------------------------------------


@pytest.mark.parametrize("whole", [0, 5000])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [8, 32, 1024])
@pytest.mark.parametrize("kind", KINDS)
def test_the_optimum(monkeypatch, kind, size, dtype, whole):
    """In sets of few points as well, whose rows give way to others."""
    monkeypatch.setattr(solvers, "MOST", size)
    monkeypatch.setattr(solvers, "WHOLE_SET", whole)
    problem, exact = machine(kind, dtype=dtype, cache_bytes=1.0)
    best = exact.optimum()
    result = run(WorkingSetSolver(problem), tol=1e-9, max_iter=5000)
    assert result.status is Status.CONVERGED
    assert result.lower_bound <= best.value <= result.primal + 1e-14 * abs(best.value)
    assert result.primal == pytest.approx(float(best.value), rel=2e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_every_state_is_feasible_and_every_confirmed_bound_true(kind):
    problem, exact = machine(kind, C=50.0, dtype=np.float32)
    best, box, n_states = exact.optimum().value, problem.box, 0
    solver = WorkingSetSolver(problem)
    for k, state in enumerate(solver.states()):
        assert (state.point >= box.low).all() and (state.point <= box.high).all()
        assert abs(state.point.sum() - box.total) <= 1e-12 * np.abs(state.point).sum()
        confirmed = solver.confirm()
        value = exact.objective(np.r_[confirmed.point.astype(LONG), LONG(confirmed.intercept)])
        assert confirmed.lower_bound <= best
        assert value - best <= confirmed.primal - confirmed.lower_bound
        n_states += 1
        if k == 6:
            break
    assert n_states > 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("factor", [1e-3, 0.5, 3.0, 30.0])
def test_other_costs_from_the_last_solver(kind, factor):
    first, _ = machine(kind)
    last = WorkingSetSolver(first)
    run(last, tol=1e-3, max_iter=100)
    problem, exact = machine(kind, C=5.0 * factor)
    solver = working_sets(problem, last, 1e-7, 0)
    assert solver._cache is last._cache
    result = run(solver, tol=1e-7, max_iter=1000)
    best = exact.optimum().value
    assert result.status is Status.CONVERGED
    assert result.lower_bound <= best <= result.primal + 1e-14 * abs(best)  # in float64


def test_the_points_that_another_left():
    """The best model too, if it is not the newest; an end at once where they are good enough."""
    problem, _ = machine("SVC")
    last = WorkingSetSolver(problem)
    result = run(last, tol=1e-8, max_iter=1000)
    again = working_sets(problem, BoxPoints(np.zeros(problem.n), result.point), 0.0, 0)
    assert next(iter(again.states())).primal <= result.primal * (1 + 1e-9)
    again = run(working_sets(problem, last.kept, 1e-7, 0), tol=1e-7, max_iter=1000)
    assert again.n_iter == 1 and again.status is Status.CONVERGED
    assert_allclose(again.primal, result.primal, rtol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_an_indefinite_kernel_leaves_no_bound(kind):
    """Not even that no objective is negative."""
    rng = np.random.default_rng(0)
    A = rng.normal(size=(40, 40))
    data = KernelData(A + A.T, Kernel("precomputed"), np.float64)
    problem = BoxProblem(data, np.arange(40), machine(kind, 40)[0].box, cache_bytes=1e8)
    result = run(WorkingSetSolver(problem), tol=1e-6, max_iter=100)
    assert result.lower_bound == -np.inf and result.status is Status.STALLED


def test_the_excess_is_in_the_gap_of_a_negative_objective():
    """Off the bound or, below the least objective, added to the objective."""
    problem, _ = machine("OneClassSVM")
    solver = WorkingSetSolver(problem)
    least = problem.least
    assert solver._attained(-1.0, 0.25, -2.0) == (-1.0, -2.25)
    primal, bound = solver._attained(-1.0, 0.25, least + 0.125)
    assert (primal, bound) == (-0.875, least)
    assert solver._attained(-1.0, 0.25, least - 5.0) == (-0.75, least)


def test_a_step_ends_at_the_kink():
    """Targets of both signs are far off, but the slopes change where a variable is 0."""
    for start, end in (([-1.0, 30.0], [0.0, 29.0]), ([-30.0, 1.0], [-29.0, 0.0])):
        K, diagonal = np.eye(LANES), np.ones(LANES)
        beta, low, high = np.zeros((3, LANES))
        beta[:2], low[:2], high[:2] = start, -50.0, 50.0
        g = K @ beta
        g[:2] -= [20.0, -20.0]
        of_box = low, high, np.array([20.0, -20.0]), 0.5, 0.0, 0.0
        steps, _ = solve(K, diagonal, g, of_box, beta, 1e-9, 1)
        assert steps == 1
        assert_array_equal(beta[:2], end)
