"""Frank-Wolfe steps for the L2-SVM: optimum, laws of every step, bounded rows."""

from itertools import islice

import numpy as np
import pytest
from sklearn.metrics.pairwise import linear_kernel, rbf_kernel
from sklearn.svm import OneClassSVM

from sklearn_bundle._compiled import swap
from sklearn_bundle.solvers._run import Status, run
from sklearn_bundle.solvers.swap import ALGORITHMS, SwapSolver


class DenseProblem:
    """The L2-SVM of a given kernel matrix, in plain numpy."""

    def __init__(self, kernel, y, C):
        self.matrix = np.outer(y, y) * (kernel + 1.0)
        self.ridge = 1.0 / C
        self.diagonal = np.diag(self.matrix) + self.ridge
        self.n = len(y)

    def fill(self, i, out):
        out[:] = self.matrix[i]

    def products(self, a):
        return self.matrix @ a + self.ridge * a

    def primal_value(self, a, q, value):
        """1/2 alpha'(Y(k+1)Y)alpha + 1/2 sum C_i [1 - y_i f_i]_+^2 at alpha = a/Q."""
        alpha = a / value
        scores = (q - self.ridge * a) / value
        slack = np.maximum(0.0, 1.0 - scores)
        return 0.5 * alpha @ scores + 0.5 * np.sum(slack**2 / self.ridge)


def problem(data, C=10.0, kernel="rbf", weighted=False):
    X, y = data[0], np.where(data[1] == 1, 1.0, -1.0)
    K = rbf_kernel(X, gamma=0.05) if kernel == "rbf" else linear_kernel(X)
    weights = np.random.default_rng(0).integers(1, 4, len(y)) if weighted else np.ones(len(y))
    return DenseProblem(K, y, C * weights)


def optimum(p):
    """1/(2 Q) at the optimum: with nu = 1/n LIBSVM's one-class problem is the same one."""
    K = p.matrix + np.diag(p.ridge)
    model = OneClassSVM(kernel="precomputed", nu=1.0 / p.n, tol=1e-12).fit(K)
    a = np.zeros(p.n)
    a[model.support_] = model.dual_coef_[0]
    a /= a.sum()
    return 0.5 / (a @ K @ a)


@pytest.mark.parametrize("algorithm", [a for a in ALGORITHMS if a != "fw"])
@pytest.mark.parametrize("kernel", ["rbf", "linear"])
@pytest.mark.parametrize("weighted", [False, True])
def test_optimum(data, algorithm, kernel, weighted):
    p = problem(data, kernel=kernel, weighted=weighted, C=1.0)
    solver = SwapSolver(p, algorithm=algorithm, capacity=p.n, dtype=np.float64)
    result = run(solver, tol=1e-7, max_iter=20_000)
    assert result.status is Status.CONVERGED
    best = optimum(p)
    assert result.lower_bound <= best * (1.0 + 1e-9)
    assert result.primal == pytest.approx(best, rel=2e-7)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_look_keeps_the_laws(data, algorithm):
    """Weak duality, rising bound, the simplex, q = K a, exact zeros after a drop."""
    p = problem(data)
    solver = SwapSolver(p, algorithm=algorithm, capacity=p.n, dtype=np.float64)
    bound = -np.inf
    for state in islice(solver.states(), 40):
        a = solver.a
        assert (a >= 0.0).all() and a.sum() == pytest.approx(1.0, abs=1e-12)
        np.testing.assert_allclose(solver.q, p.products(a), atol=1e-12)
        assert solver.value == pytest.approx(a @ solver.q, rel=1e-10)
        assert bound * (1.0 - 1e-12) <= state.lower_bound <= state.primal
        bound = state.lower_bound
    drops = solver.kinds[swap.SWAP_DROP] + solver.kinds[swap.AWAY_DROP]
    assert drops <= 0.5 * solver.n_steps + 1  # Proposition 3


def test_swap_converges_linearly_where_fw_does_not(data):
    p = problem(data)
    gaps = {}
    for algorithm in ("swap", "swap-2o", "fw"):
        solver = SwapSolver(p, algorithm=algorithm, capacity=p.n, dtype=np.float64)
        gaps[algorithm] = [s.relative_gap for s in islice(solver.states(), 60)][-1]
    assert gaps["swap-2o"] < 1e-10 and gaps["swap"] < 1e-6 and gaps["fw"] > 1e-4


@pytest.mark.parametrize("capacity", [1, 2, 3, 20, 10_000])
def test_few_rows_give_the_same_result(data, capacity):
    p = problem(data)
    all_rows = run(SwapSolver(p, capacity=p.n, dtype=np.float64), tol=1e-9, max_iter=1000)
    solver = SwapSolver(p, capacity=capacity, dtype=np.float64)
    few = run(solver, tol=1e-9, max_iter=1000)
    assert np.array_equal(few.w, all_rows.w)
    assert capacity > 3 or solver.n_rows > p.n  # rows are computed again


def test_rows_in_single_precision(data):
    p = problem(data)
    result = run(SwapSolver(p, capacity=p.n, dtype=np.float32), tol=1e-4, max_iter=1000)
    assert result.status is Status.CONVERGED
    assert result.primal == pytest.approx(optimum(p), rel=1e-4)


def test_candidates_and_start(data):
    p = problem(data)
    solver = SwapSolver(p, capacity=p.n, dtype=np.float64, n_candidates=60, seed=3)
    result = run(solver, tol=1e-6, max_iter=1000)
    assert result.status is Status.CONVERGED
    again = SwapSolver(p, capacity=p.n, dtype=np.float64, start=solver.best)
    assert run(again, tol=1e-6, max_iter=1000).n_iter == 1
