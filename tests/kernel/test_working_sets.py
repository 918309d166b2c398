"""The solver of all kernel machines: sets of violating points reach the optimum of all at once."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from sklearn.metrics.pairwise import rbf_kernel

from sklearn_bundle.core.contract import run
from sklearn_bundle.kernel.problem import Problem
from sklearn_bundle.kernel.solvers import working_sets
from sklearn_bundle.kernel.solvers.working_sets import WorkingSets
from sklearn_bundle.kernel.values.data import KernelData
from sklearn_bundle.kernel.values.kernel_function import Kernel
from tests.kernel.test_problem import LONG, MACHINES, Reference, machine

MANY = 2200  # more than the 2,048 points whose matrix is computed at once
KINDS = ["dense", "dense, kept rows", "sparse", "precomputed"]


def data_of(kind, n):
    X = np.random.default_rng(0).normal(size=(n, 80 if "kept" in kind else 3))
    if kind == "sparse":
        X = sp.csr_matrix(np.where(np.abs(X) > 1.0, X, 0.0))
    if kind == "precomputed":
        return KernelData(rbf_kernel(X, gamma=0.5), Kernel("precomputed"))
    return KernelData(X, Kernel("rbf", 0.5 / X.shape[1]))


def solved(data, dual, tol, cache_bytes=4e7, error=None, last=None):
    problem = Problem(data, np.arange(len(dual.target)), dual, cache_bytes=cache_bytes)
    solver = WorkingSets(problem, tol=tol, last=last)
    if error is not None:
        solver._rows._error = error
    return solver, run(solver, tol=tol, max_iter=3000)


@pytest.mark.wide
@pytest.mark.parametrize("name", ["SVC", "L2-SVM", "SVR", "squared tube", "OneClassSVM"])
@pytest.mark.parametrize("kind", KINDS)
def test_sets_reach_the_optimum_of_the_whole_matrix(kind, name, monkeypatch):
    dual, data = machine(name, np.random.default_rng(1), MANY), data_of(kind, MANY)
    solver, found = solved(data, dual, 1e-5)
    assert found.status == "converged" and solver._rows.everything is None
    assert solver.passes >= working_sets.SET // 2 or kind == "precomputed"
    monkeypatch.setattr(working_sets, "WHOLE", 1 << 20)
    whole, exact = solved(data, dual, 1e-9, 1e9)
    assert exact.status == "converged" and whole._rows.everything is not None
    assert found.lower_bound <= exact.primal and exact.lower_bound <= found.primal
    assert_allclose(found.primal, exact.primal, rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_sets_of_few_points(kind, monkeypatch):
    """Each row of the table, to a tol that single precision does not see; their true numbers."""
    monkeypatch.setattr(working_sets, "SET", 32)
    for name in MACHINES:
        data, dual = data_of(kind, 120), machine(name, np.random.default_rng(2), 120)
        _, exact = solved(data, dual, 1e-11)
        with monkeypatch.context() as patched:
            patched.setattr(working_sets, "WHOLE", 16)
            _, found = solved(data, dual, 1e-9)
        assert found.status == "converged"
        reference, beta = Reference(data.rows(np.float64).gram(), dual), found.point.astype(LONG)
        truth = reference.primal(beta, reference.b_of(beta, found.intercept))
        assert_allclose(found.primal, float(truth), rtol=1e-12)
        assert found.lower_bound <= exact.primal and exact.lower_bound <= found.primal


@pytest.mark.parametrize("name", MACHINES)
def test_a_start_from_other_costs(name):
    """Along C, up and down, from the last solver: its rows are used again."""
    data, dual = data_of("dense", 90), machine(name, np.random.default_rng(3), 90)
    last = None
    for factor in (0.1, 3.0, 0.5):
        low, high = (dual.low, dual.high) if dual.is_squared else factor * np.array(dual[1:3])
        total = factor * dual.total
        costs = dual._replace(ridge=dual.ridge / factor, low=low, high=high, total=total)
        last, found = solved(data, costs, 1e-8, last=last)
        _, alone = solved(data, costs, 1e-8)
        assert found.status == "converged"
        assert_allclose(found.primal, alone.primal, rtol=2e-8)
        assert ((low <= found.point) & (found.point <= high)).all()


@pytest.mark.parametrize("name", MACHINES)
def test_values_that_are_off_by_as_much_as_is_said(name):
    """A certificate by a matrix is true for every other one within its error."""
    rng, error = np.random.default_rng(7), 1e-3
    K, dual = rbf_kernel(rng.normal(size=(40, 2))), machine(name, rng, 40)
    _, best = solved(KernelData(K, Kernel("precomputed"), np.float64), dual, 1e-10)
    off = np.outer(np.sign(best.point), np.sign(best.point)) + np.eye(40)  # where it counts
    for change in (error * np.clip(off, -1, 1), -error * np.clip(off, -1, 1)):
        data = KernelData(K + change, Kernel("precomputed"), np.float64)
        of_longer = error / (1.0 - error)  # lengths are off, too
        _, found = solved(data, dual, 1e-10, error=of_longer)
        assert found.lower_bound <= best.primal
        truth = Reference(K, dual).primal(found.point.astype(LONG), LONG(found.intercept))
        assert float(truth) - best.primal <= found.primal - found.lower_bound
