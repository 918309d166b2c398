"""Blocks of random points for the dual of the L2-SVM: optimum, laws of every block, memory."""

import tracemalloc
from itertools import islice

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import nnls
from sklearn.metrics.pairwise import linear_kernel

from sklearn_bundle import SwapSVC
from sklearn_bundle.core.contract import Status, run
from sklearn_bundle.kernel._compiled import decomposition as compiled
from sklearn_bundle.kernel.solvers import decomposition
from sklearn_bundle.kernel.solvers.decomposition import DecompositionSolver
from sklearn_bundle.kernel.values._exact_sums import rbf_sums
from sklearn_bundle.kernel.values.kernel import KernelRows
from tests.kernel_problems import KERNELS, minimum_of, problem_of

LIMIT = {"tol": 1e-7, "max_iter": 1_000_000}


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(
    "weighted, dtype, layout",
    [
        (False, np.float32, np.asarray),
        pytest.param(True, np.float32, np.asarray, marks=pytest.mark.wide),
        (True, np.float64, np.asarray),
        (True, np.float32, sp.csr_matrix),
    ],
)
def test_optimum(data, kernel, weighted, dtype, layout, monkeypatch):
    """That of LIBSVM's one-class problem on the whole matrix."""
    monkeypatch.setattr(decomposition, "_BLOCK", 40)
    p = problem_of(data, kernel, 1.0, weighted, dtype, layout)
    result = run(DecompositionSolver(p, tol=LIMIT["tol"]), **LIMIT)
    best = minimum_of(p, data, kernel)
    assert result.status is Status.CONVERGED
    assert result.lower_bound <= best * (1.0 + 1e-9)
    assert result.primal == pytest.approx(best, rel=2e-7)


@pytest.mark.parametrize("kernel", KERNELS)
def test_every_block_keeps_the_laws(data, kernel, monkeypatch):
    """Weak duality, a dual that rises, an objective that falls and is that of the point."""
    monkeypatch.setattr(decomposition, "_BLOCK", 16)
    p = problem_of(data, kernel)
    K = KERNELS[kernel][1](data[0], data[0]) + 1.0
    best, last = minimum_of(p, data, kernel), (np.inf, 0.0)
    for state in islice(DecompositionSolver(p).states(), 60):
        assert state.lower_bound <= best * (1.0 + 1e-5) and best <= state.primal * (1.0 + 1e-5)
        assert state.primal <= last[0] and state.lower_bound >= last[1]
        assert (state.point >= 0.0).all()
        scores = K @ (state.point * p.y)
        losses = np.maximum(0.0, 1.0 - p.y * scores) ** 2 / p.ridge
        objective = 0.5 * (state.point * p.y) @ scores + 0.5 * losses.sum()
        assert state.primal == pytest.approx(objective, rel=1e-4)  # float32 values
        last = state.primal, state.lower_bound


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_block_is_solved(dtype):
    """Its optimum is that of non-negative least squares on the factor of H."""
    rng = np.random.default_rng(0)
    A = rng.normal(size=(60, 40))
    H = A.T @ A + 5.0 * np.eye(40)
    roots = np.sqrt(np.diagonal(H))
    H /= np.outer(roots, roots)
    g, u = rng.normal(size=40), np.maximum(0.0, rng.normal(size=40))
    factor = np.linalg.cholesky(H).T
    expected = nnls(factor, np.linalg.solve(factor.T, g + H @ u))[0]
    padded, of_g, of_u = np.eye(64, dtype=dtype), np.zeros(64, dtype), np.zeros(64, dtype)
    padded[:40, :40], of_g[:40], of_u[:40] = H, g, u
    steps, indefinite = compiled.solve(padded, of_g, of_u, dtype(1e-20), 10_000)
    assert steps < 10_000 and not indefinite and (of_u[40:] == 0.0).all()
    np.testing.assert_allclose(of_u[:40], expected, atol=1e-4 if dtype == np.float32 else 1e-6)


def test_an_indefinite_block_is_noticed():
    H = np.eye(64)
    H[0, 1] = H[1, 0] = -1.5
    assert compiled.solve(H, np.ones(64), np.zeros(64), 1e-6, 100)[1]


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("shape", [(333, 5), (64, 1), (130, 70)])
def test_sums_without_a_matrix(kernel, shape):
    """Within the bound on their rounding, which is no more than it must be; in threads too."""
    rng = np.random.default_rng(1)
    X, columns = rng.normal(size=shape), np.sort(rng.permutation(shape[0])[:45])
    rows, coef = KernelRows(X, KERNELS[kernel][0], np.float32), np.zeros(shape[0])
    coef[columns] = rng.exponential(size=45)
    sums, threaded = np.zeros((2, shape[0]))
    rows.add_sums(coef[columns], columns, sums)
    rows.add_sums(coef[columns], columns, threaded, n_threads=3)
    exact = KERNELS[kernel][1](X, X) @ coef
    sizes = np.abs(KERNELS[kernel][1](X, X)) @ coef
    bound = rows.rounding_of_sums(coef, sizes, coef.sum(), float(np.linalg.norm(coef)))
    assert (np.abs(sums - exact) <= bound).all() and np.array_equal(sums, threaded)
    assert kernel != "rbf" or (bound <= 1e-3 * coef.sum()).all()
    H = np.empty((64, 64), np.float32)
    rows.square(columns, H)
    expected = KERNELS[kernel][1](X[columns], X[columns])
    np.testing.assert_allclose(H[:45, :45], expected, rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize("n, m, d", [(333, 200, 3), (40, 3, 1), (1100, 700, 20)])
def test_exact_sums(n, m, d):
    """Within the bound on their rounding, the same in several threads, two sums at a time."""
    rng = np.random.default_rng(2)
    X, rows = rng.normal(size=(n + 9, d)), rng.permutation(n + 9)[:n]
    chosen, coef = np.sort(rng.permutation(n)[:m]), rng.normal(size=(2, m))
    sums, errors = rbf_sums(X, 0.3, coef, chosen, rows)
    Z = X[rows].astype(np.longdouble)
    D = sum((z[:, None] - z[chosen]) ** 2 for z in Z.T)
    expected = coef @ np.exp(-np.longdouble(0.3) * D).T
    assert (np.abs(sums - expected) <= errors[:, None]).all() and (errors <= 1e-10).all()
    assert np.array_equal(rbf_sums(X, 0.3, coef, chosen, rows, 3)[0], sums)


def made(n, d=5):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    return X, (X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=n) > 0).astype(int)


def test_memory_does_not_grow_with_the_square_of_the_points():
    """The block's matrix has 4 MB; that of all points would have 144 MB."""
    X, y = made(6000)
    model = SwapSVC(solver="decomposition", tol=3e-2, random_state=0)
    model.fit(X[:4000], y[:4000])
    tracemalloc.start()
    model.fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert model.status_ == "converged" and peak < 24 * 2**20


def test_equal_seeds_agree_in_threads_too_and_max_iter_is_exact(monkeypatch):
    monkeypatch.setattr("sklearn_bundle.kernel.estimators.swap._WHOLE", 0)
    X, y = made(3500)
    fits = [SwapSVC(tol=3e-2, random_state=3, n_jobs=n).fit(X, y) for n in (1, 2)]
    assert np.array_equal(fits[0].dual_coef_, fits[1].dual_coef_)
    assert fits[0].objective_ == fits[1].objective_
    with pytest.warns(UserWarning, match="max_iter"):
        assert SwapSVC(tol=1e-6, random_state=3, max_iter=301).fit(X, y).n_iter_ == 301


@pytest.mark.parametrize(
    "parameters, blocks",
    [
        ({}, True),
        ({"kernel": "poly"}, True),
        ({"kernel": linear_kernel}, False),
        ({"active_set": 20}, False),
        ({"n_candidates": 10}, False),
        ({"tol": 1e-8}, False),
    ],
    ids=str,
)
def test_auto(data, parameters, blocks):
    model = SwapSVC(**parameters).fit(*data)
    assert ("blocks" in model.history_.dtype.names) == blocks
