"""The solver of all kernel machines: sets of violating points reach the optimum of all at once."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from sklearn.metrics.pairwise import rbf_kernel

from sklearn_bundle.core.contract import run
from sklearn_bundle.kernel._compiled import steps
from sklearn_bundle.kernel.problem import Problem
from sklearn_bundle.kernel.solvers import working_sets
from sklearn_bundle.kernel.solvers.working_sets import WorkingSets
from sklearn_bundle.kernel.values.data import KernelData
from sklearn_bundle.kernel.values.kernel_function import Kernel
from tests.kernel.test_problem import LONG, MACHINES, Reference, machine

MANY = 2200  # more than the 2,048 points whose matrix is computed at once
KINDS = ["dense, tiles", "dense, kept rows", "sparse", "precomputed"]


def data_of(kind, n=MANY, dtype=np.float32):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 80 if "kept" in kind else 3))
    if kind == "sparse":
        X = sp.csr_matrix(np.where(np.abs(X) > 1.0, X, 0.0))
    if kind == "precomputed":
        return KernelData(rbf_kernel(X, gamma=0.5), Kernel("precomputed"), dtype)
    return KernelData(X, Kernel("rbf", 0.5 / X.shape[1]), dtype)


def solved(data, dual, tol, **given):
    problem = Problem(data, np.arange(len(dual.target)), dual, cache_bytes=4e7)
    solver = WorkingSets(problem, tol=tol, **given)
    return solver, run(solver, tol=tol, max_iter=3000)


@pytest.mark.wide
@pytest.mark.parametrize("name", ["SVC", "L2-SVM", "SVR", "squared tube", "OneClassSVM"])
@pytest.mark.parametrize("kind", KINDS)
def test_sets_reach_the_optimum_of_the_whole_matrix(kind, name, monkeypatch):
    dual, data = machine(name, np.random.default_rng(1), MANY), data_of(kind)
    solver, found = solved(data, dual, 1e-5)
    assert found.status == "converged" and solver._rows.everything is None
    assert solver.passes >= working_sets.SET // 2 or kind == "precomputed"
    monkeypatch.setattr(working_sets, "WHOLE", 1 << 20)
    problem = Problem(data, np.arange(MANY), dual, cache_bytes=1e9)
    whole = WorkingSets(problem, tol=1e-9)
    exact = run(whole, tol=1e-9, max_iter=3000)
    assert exact.status == "converged" and whole._rows.everything is not None
    assert found.lower_bound <= exact.primal and exact.lower_bound <= found.primal
    assert_allclose(found.primal, exact.primal, rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_sets_of_few_points(kind, monkeypatch):
    """Each row of the table, to a tol that single precision does not see."""
    monkeypatch.setattr(working_sets, "WHOLE", 16)
    monkeypatch.setattr(working_sets, "SET", 32)
    for name in MACHINES:
        data, dual = data_of(kind, 120), machine(name, np.random.default_rng(2), 120)
        _, found = solved(data, dual, 1e-9)
        assert found.status == "converged"
        K = data.rows(np.float64).gram().astype(LONG)
        reference, beta = Reference(K, dual), found.point.astype(LONG)
        b = LONG(found.intercept if dual.s == np.inf else dual.s * beta.sum())
        assert_allclose(found.primal, float(reference.primal(beta, b)), rtol=1e-12)
        monkeypatch.setattr(working_sets, "WHOLE", 2048)
        _, exact = solved(data, dual, 1e-11)
        monkeypatch.setattr(working_sets, "WHOLE", 16)
        assert found.lower_bound <= exact.primal and exact.lower_bound <= found.primal


@pytest.mark.parametrize("name", MACHINES)
def test_a_start_from_other_costs(name):
    """Along C, up and down, from the last solver: its rows are used again."""
    data, dual = data_of("dense, tiles", 90), machine(name, np.random.default_rng(3), 90)
    last = None
    for factor in (0.1, 3.0, 0.5):
        costs = dual._replace(
            ridge=dual.ridge / factor,
            low=dual.low if dual.is_squared else factor * dual.low,
            high=dual.high if dual.is_squared else factor * dual.high,
            total=factor * dual.total,
        )
        problem = Problem(data, np.arange(90), costs, cache_bytes=1e8)
        last = WorkingSets(problem, tol=1e-8, last=last)
        found = run(last, tol=1e-8, max_iter=1000)
        _, alone = solved(data, costs, 1e-8)
        assert found.status == "converged"
        assert_allclose(found.primal, alone.primal, rtol=2e-8)
        for end in (costs.low, costs.high):
            assert ((found.point - end) * np.sign(end) <= 0.0)[np.isfinite(end)].all()


def test_confirm_reports_what_the_data_say(monkeypatch):
    """Whatever the steps believed: objective, bound and scores are computed anew."""
    for whole in (2048, 16):
        monkeypatch.setattr(working_sets, "WHOLE", whole)
        data, dual = data_of("dense, kept rows", 60), machine("SVR", np.random.default_rng(5), 60)
        problem = Problem(data, np.arange(60), dual, cache_bytes=1e8)
        _, exact = solved(data, dual, 1e-10)
        solver = WorkingSets(problem, tol=1e-6)
        next(solver.states())
        solver._best.replace(0.0, solver._best.point)
        solver._best.bound = 1e9
        said = solver.confirm(moving=False)
        K = data.rows(np.float64).gram().astype(LONG)
        truth = Reference(K, dual).primal(said.point.astype(LONG), LONG(said.intercept))
        assert_allclose(said.primal, float(truth), rtol=1e-9)
        assert said.lower_bound <= exact.primal


@pytest.mark.parametrize("name", MACHINES)
def test_values_that_are_off_by_as_much_as_is_said(name):
    """A certificate by a matrix is true for every other one within its error."""
    rng = np.random.default_rng(7)
    K, error = rbf_kernel(rng.normal(size=(40, 2))), 1e-3
    dual = machine(name, rng, 40)
    _, best = solved(KernelData(K, Kernel("precomputed"), np.float64), dual, 1e-10)
    for sign in (-1.0, 1.0):
        off = np.outer(np.sign(best.point), np.sign(best.point)) + np.eye(40)  # where it counts
        data = KernelData(K + sign * error * np.clip(off, -1, 1), Kernel("precomputed"), np.float64)
        problem = Problem(data, np.arange(40), dual, cache_bytes=1e8)
        solver = WorkingSets(problem, tol=1e-10)
        solver._rows._error = error / (1.0 - error)  # of lengths that are off, too
        found = run(solver, tol=1e-10, max_iter=100)
        assert found.lower_bound <= best.primal
        truth = Reference(K, dual).primal(found.point.astype(LONG), LONG(found.intercept))
        assert float(truth) - best.primal <= found.primal - found.lower_bound


def test_a_surrounded_origin_ends_at_once():
    X = np.r_[np.eye(3), -np.eye(3)]
    dual = machine("OneClassSVM", np.random.default_rng(0), 6)
    dual = dual._replace(high=np.ones(6), total=3.0)
    _, found = solved(KernelData(X, Kernel("linear"), np.float64), dual, 1e-3)
    assert found.primal == 0.0 and -1e-5 <= found.lower_bound <= 0.0


def test_evaluate_is_the_definition():
    """Objective, bound and slopes, and the scale of a squared loss."""
    rng = np.random.default_rng(6)
    K = rbf_kernel(rng.normal(size=(30, 2)))
    for name in MACHINES:
        dual = machine(name, rng, 30)
        reference, beta = Reference(K, dual), dual.inside(rng.normal(size=30))
        scores, slopes = K @ beta, np.zeros((2, 30))
        given = Problem(KernelData(K, Kernel("precomputed")), np.arange(30), dual, cache_bytes=1.0)
        before = beta.copy()
        t, primal, bound, b, _ = steps.evaluate(
            beta, scores, given.variables, dual.s, dual.total, *slopes
        )
        assert_allclose(beta, t * before)
        assert_allclose(scores, K @ beta, atol=1e-12)
        assert primal == pytest.approx(float(reference.primal(beta.astype(LONG), LONG(b))))
        assert bound == pytest.approx(float(reference.bound(beta.astype(LONG))), abs=1e-12)
        g = scores + dual.ridge * beta - dual.target
        rises = np.where(beta >= 0.0, dual.width, -dual.width)
        falls = np.where(beta > 0.0, dual.width, -dual.width)
        assert_allclose(slopes[0], np.where(beta >= dual.high, np.inf, g + rises))
        assert_allclose(slopes[1], np.where(beta <= dual.low, -np.inf, g + falls))
