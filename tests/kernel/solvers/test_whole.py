"""A small L2-SVM as one block: optimum, certificate, memory, other costs on the same rows."""

import numpy as np
import pytest

from sklearn_bundle.core.contract import Status, run
from sklearn_bundle.kernel.problems.l2svm import L2SVM
from sklearn_bundle.kernel.solvers.whole import WholeSolver
from tests.kernel_problems import KERNELS, minimum_of, problem_of

LIMIT = {"tol": 1e-7, "max_iter": 1_000_000}


def objective_of(p, kernel, X, alpha):
    scores = (KERNELS[kernel][1](X, X) + 1.0) @ (alpha * p.y)
    losses = np.maximum(0.0, 1.0 - p.y * scores) ** 2 / p.ridge
    return 0.5 * (alpha * p.y) @ scores + 0.5 * losses.sum()


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("weighted", [False, pytest.param(True, marks=pytest.mark.wide)])
@pytest.mark.parametrize("cache_bytes", [1 << 30, 4 * 128 * 9], ids=["all rows", "few rows"])
def test_optimum(data, kernel, weighted, cache_bytes):
    """That of LIBSVM's one-class problem; with few rows and a small tol another solver goes on."""
    p = problem_of(data, kernel, 1.0, weighted)
    result = run(WholeSolver(p, tol=LIMIT["tol"], cache_bytes=cache_bytes), **LIMIT)
    best = minimum_of(p, data, kernel)
    assert result.status is Status.CONVERGED
    assert result.lower_bound <= best * (1.0 + 1e-9)
    assert result.primal == pytest.approx(best, rel=2e-7)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("tol", [0.3, 1e-3])
def test_certificate(data, kernel, tol):
    """One call gets there; the objective is that of the point, the bound below the minimum."""
    p = problem_of(data, kernel)
    solver = WholeSolver(p, tol=tol)
    result = run(solver, tol=tol, max_iter=100_000)
    assert solver.alone and 0.0 < result.gap <= tol * result.primal
    assert len(result.history) == 1 or kernel == "linear"  # which takes more steps than a call
    expected = objective_of(p, kernel, data[0], result.point)
    assert result.primal == pytest.approx(expected, rel=1e-12)
    assert result.lower_bound <= minimum_of(p, data, kernel)


@pytest.mark.parametrize("kernel", KERNELS)
def test_other_costs_begin_with_the_rows_that_are_there(data, kernel):
    first = problem_of(data, kernel, 1.0)
    solver = WholeSolver(first, tol=1e-3)
    before = run(solver, tol=1e-3, max_iter=100_000).point.copy()
    p = L2SVM(first.data, first.points, first.y, np.linspace(1.0, 30.0, first.n))
    further, fresh = WholeSolver(p, last=solver, tol=1e-4), WholeSolver(p, tol=1e-4)
    results = [run(each, tol=1e-4, max_iter=100_000) for each in (further, fresh)]
    assert results[0].history["passes"][-1] < results[1].history["passes"][-1]
    for result in results:
        expected = objective_of(p, kernel, data[0], result.point)
        assert result.status is Status.CONVERGED
        assert result.primal == pytest.approx(expected, rel=1e-11)
        assert result.lower_bound <= minimum_of(p, data, kernel)
    np.testing.assert_allclose(solver.kept.newest, before / before.sum(), rtol=1e-12)


def test_limits_are_kept(data):
    p = problem_of(data, C=1e4)
    result = run(WholeSolver(p, tol=1e-9, max_steps=37), tol=1e-9, max_iter=37)
    assert result.status is Status.MAX_ITER and result.n_iter == 37
