"""The paper's algorithms of the L2-SVM: the optimum of working sets, and their steps by numpy."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.metrics.pairwise import rbf_kernel

from sklearn_bundle.core.contract import run
from sklearn_bundle.kernel.problem import Problem
from sklearn_bundle.kernel.solvers.frank_wolfe import ALGORITHMS, KINDS, FrankWolfe
from sklearn_bundle.kernel.solvers.working_sets import WorkingSets
from sklearn_bundle.kernel.values.data import KernelData
from sklearn_bundle.kernel.values.kernel_function import Kernel
from tests.kernel.test_problem import LONG, Reference, machine

N = 60


def problem(cache_bytes=1e8):
    rng = np.random.default_rng(0)
    X, dual = rng.normal(size=(N, 3)), machine("L2-SVM", rng, N)
    return Problem(
        KernelData(X, Kernel("rbf", 0.4)), np.arange(N), dual, cache_bytes=cache_bytes
    ), X


@pytest.mark.parametrize("cache_bytes", [1e8, 1.0])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_optimum_of_working_sets(algorithm, cache_bytes):
    tol = 1e-2 if algorithm == "fw" else 1e-6
    of, X = problem(cache_bytes)
    solver = FrankWolfe(of, algorithm=algorithm, tol=tol, max_steps=200_000)
    found = run(solver, tol=tol, max_iter=200_000)
    exact = run(WorkingSets(problem()[0], tol=1e-10), tol=1e-10, max_iter=1000)
    assert found.status == "converged" and exact.status == "converged"
    assert found.lower_bound <= exact.primal and exact.lower_bound <= found.primal
    assert_allclose(found.primal, exact.primal, rtol=tol)
    reference, beta = Reference(rbf_kernel(X, gamma=0.4), of.dual), found.point.astype(LONG)
    assert_allclose(found.primal, float(reference.primal(beta, beta.sum())), rtol=1e-10)
    taken = {kind: int(found.history[kind][-1]) for kind in KINDS}
    assert sum(taken.values()) == solver.n_steps == found.n_iter
    others = {"fw": (), "mfw": ("away", "away_drop")}.get(algorithm, ("swap_add", "swap_drop"))
    assert {kind for kind in KINDS if taken[kind]} <= {"fw", *others}


def step_of_numpy(algorithm, M, a):
    """One step of the paper's Algorithms 1, 3 and 4, as they are printed."""
    q, value = M @ a, a @ M @ a
    i = int(np.argmin(q))
    forward = (value - q[i]) / (M[i, i] - 2.0 * q[i] + value)
    toward = (1.0 - forward) * a + forward * np.eye(len(a))[i]
    if algorithm == "fw":
        return toward
    j = max(np.flatnonzero(a > 0.0), key=lambda k: q[k])
    if q[j] <= q[i]:
        return toward
    if algorithm == "mfw":
        if value - q[i] >= q[j] - value:
            return toward
        most = a[j] / (1.0 - a[j])
        step = min((q[j] - value) / (M[j, j] - 2.0 * q[j] + value), most)
        return (1.0 + step) * a - step * np.eye(len(a))[j]
    between = M[i, i] - 2.0 * M[i, j] + M[j, j]
    swapped, gain = (q[j] - q[i]) ** 2 / between, (value - q[i]) ** 2 / (M[i, i] - 2 * q[i] + value)
    if swapped < gain:
        return toward
    step = min((q[j] - q[i]) / between, a[j])
    return a + step * (np.eye(len(a))[i] - np.eye(len(a))[j])


@pytest.mark.parametrize("algorithm", ["fw", "mfw", "swap"])
def test_steps_of_the_paper(algorithm):
    of, X = problem()
    y, K = of.dual.target, rbf_kernel(X, gamma=0.4) + 1.0
    M = np.outer(y, y) * K + np.diag(of.dual.ridge)
    for most in (1, 2, 5, 20, 60):
        solver = FrankWolfe(problem()[0], algorithm=algorithm, tol=1e-12, max_steps=most)
        solver._advance()
        a = np.eye(N)[0]
        for _ in range(most):
            a = step_of_numpy(algorithm, M, a)
        assert_allclose(solver._a, a, atol=1e-9)
        assert_allclose(solver._q, M @ solver._a, rtol=1e-9)
        assert solver._a.sum() == pytest.approx(1.0) and (solver._a >= 0.0).all()
