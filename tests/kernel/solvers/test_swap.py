"""Frank-Wolfe steps for the L2-SVM: optimum, laws of every step, bounded rows."""

from itertools import islice

import numpy as np
import pytest
from sklearn.metrics.pairwise import linear_kernel, rbf_kernel
from sklearn.svm import OneClassSVM

from sklearn_bundle.core.contract import Status, run
from sklearn_bundle.kernel._compiled import lazy
from sklearn_bundle.kernel.problems.l2svm import Candidate, Certified
from sklearn_bundle.kernel.solvers.base import SimplexPoints, confirmed
from sklearn_bundle.kernel.solvers.swap import ALGORITHMS, KINDS, SwapSolver


class DenseProblem:
    """The L2-SVM of a given kernel matrix, in plain numpy."""

    def __init__(self, kernel, y, C, dtype=np.float64):
        self.exact_matrix = np.outer(y, y) * (kernel + 1.0)
        self.ridge = 1.0 / C
        self.diagonal = np.diag(self.exact_matrix) + self.ridge
        self.n = len(y)
        self.y = y
        self._set_dtype(dtype)

    def _set_dtype(self, dtype):
        self.dtype = np.dtype(dtype)
        self.matrix = self.exact_matrix.astype(dtype)

    def fill(self, indices, out):
        out[:] = self.matrix[indices]

    def space(self, n_rows):
        return np.empty((n_rows, self.n), self.dtype)

    def compiled(self):
        return None

    def promote(self):
        self._set_dtype(np.float64)

    def products(self, a):
        return self.exact_matrix @ a + self.ridge * a

    def certify(self, *candidates):
        return [self._proof(a, alpha) for a, _, alpha, *_ in candidates]

    def _proof(self, a, alpha):
        q = self.products(a)
        value = float(a @ q)
        bound = 0.5 / value if value > 0.0 else -np.inf
        return Certified(self.primal_value(a, q, 1.0 / alpha.sum()), 0.0, bound)

    def primal_value(self, a, q, value):
        """1/2 alpha'(Y(k+1)Y)alpha + 1/2 sum C_i [1 - y_i f_i]_+^2 at alpha = a/Q."""
        alpha = a / value
        scores = (q - self.ridge * a) / value
        slack = np.maximum(0.0, 1.0 - scores)
        return 0.5 * alpha @ scores + 0.5 * np.sum(slack**2 / self.ridge)


def problem(data, C=10.0, kernel="rbf", weighted=False, dtype=np.float64):
    X, y = data[0], np.where(data[1] == 1, 1.0, -1.0)
    K = rbf_kernel(X, gamma=0.05) if kernel == "rbf" else linear_kernel(X)
    weights = np.random.default_rng(0).integers(1, 4, len(y)) if weighted else np.ones(len(y))
    return DenseProblem(K, y, C * weights, dtype)


def optimum(p):
    """1/(2 Q) at the optimum: with nu = 1/n LIBSVM's one-class problem is the same one."""
    K = p.exact_matrix + np.diag(p.ridge)
    model = OneClassSVM(kernel="precomputed", nu=1.0 / p.n, tol=1e-12).fit(K)
    a = np.zeros(p.n)
    a[model.support_] = model.dual_coef_[0]
    a /= a.sum()
    return 0.5 / (a @ K @ a)


@pytest.fixture
def every_step(monkeypatch):
    """A state per step."""
    monkeypatch.setattr("sklearn_bundle.kernel.solvers.swap.CHUNK", 1)


@pytest.mark.parametrize("algorithm", [a for a in ALGORITHMS if a != "fw"])
@pytest.mark.parametrize("kernel", ["rbf", "linear"])
@pytest.mark.parametrize("weighted", [False, True])
def test_optimum(data, algorithm, kernel, weighted):
    p = problem(data, kernel=kernel, weighted=weighted, C=1.0)
    result = run(SwapSolver(p, algorithm=algorithm, tol=1e-7), tol=1e-7, max_iter=1_000_000)
    assert result.status is Status.CONVERGED
    best = optimum(p)
    assert result.lower_bound <= best * (1.0 + 1e-9)
    assert result.primal == pytest.approx(best, rel=2e-7)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_step_keeps_the_laws(data, algorithm, every_step):
    """Weak duality, a rising dual, the simplex, ``q = K a``, exact zeros after a drop."""
    p = problem(data)
    solver = SwapSolver(p, algorithm=algorithm)
    best, value, size, kinds = optimum(p), np.inf, 1, solver.kinds.copy()
    for state in islice(solver.states(), 1200):
        a = solver.a
        assert (a >= 0.0).all() and a.sum() == pytest.approx(1.0, abs=1e-12)
        np.testing.assert_allclose(solver.q, p.products(a), atol=1e-11)
        assert solver.value == pytest.approx(a @ p.products(a), rel=1e-10)
        assert solver.value <= value * (1.0 + 1e-14)
        assert state.lower_bound <= best * (1.0 + 1e-9) and best <= state.primal * (1.0 + 1e-9)
        dropped = solver.kinds - kinds
        if dropped[KINDS.index("away_drop")]:
            assert np.count_nonzero(a) == size - 1
        if dropped[KINDS.index("swap_drop")]:
            assert np.count_nonzero(a) in (size - 1, size)  # i may be new
        value, size, kinds = solver.value, np.count_nonzero(a), solver.kinds.copy()
    drops = kinds[KINDS.index("swap_drop")] + kinds[KINDS.index("away_drop")]
    assert drops <= 0.5 * solver.n_steps + 1  # Proposition 3
    assert drops > 0 or algorithm == "fw"


def test_swap_converges_linearly_where_fw_does_not(data):
    """K + 1/C is positive definite: the gap falls by a factor a step, that of FW as 1/steps."""
    p = problem(data)
    gaps = {}
    for algorithm in ("swap", "swap-2o", "mfw", "fw"):
        solver = SwapSolver(p, algorithm=algorithm)
        gaps[algorithm] = np.array([s.relative_gap for s in islice(solver.states(), 60)])
    for algorithm in ("swap", "swap-2o", "mfw"):
        assert gaps[algorithm].min() < 1e-6
    assert 1e-4 < gaps["fw"][-1] < gaps["fw"][29]


@pytest.mark.parametrize("capacity", [1, 2, 3, 20, 10_000])
@pytest.mark.parametrize("started", [False, True])
def test_few_rows_give_the_same_result(data, capacity, started):
    p = problem(data)
    start = SimplexPoints(np.full(p.n, 1.0 / p.n)) if started else None
    all_rows = run(SwapSolver(p, start=start), tol=1e-9, max_iter=1_000_000)
    solver = SwapSolver(p, cache_bytes=8 * p.n * capacity, start=start)
    few = run(solver, tol=1e-9, max_iter=1_000_000)
    assert np.array_equal(few.point, all_rows.point)
    assert capacity > 3 or solver.passes > p.n  # rows are computed again


def test_rows_that_are_there_already(data):
    p = problem(data)
    given = SwapSolver(p, rows=p.matrix)
    expected = run(SwapSolver(p), tol=1e-9, max_iter=1_000_000)
    assert np.array_equal(run(given, tol=1e-9, max_iter=1_000_000).point, expected.point)
    assert given.passes == 0


@pytest.mark.parametrize("tol", [1e-4, 1e-9])
def test_rows_in_single_precision(data, tol):
    """They lead to any tol: by refinement, and at last by rows in double precision."""
    p = problem(data, dtype=np.float32)
    result = run(SwapSolver(p, tol=tol), tol=tol, max_iter=1_000_000)
    assert result.status is Status.CONVERGED
    best = optimum(problem(data))
    assert result.lower_bound <= best * (1.0 + 1e-9)
    assert result.primal == pytest.approx(best, rel=tol + 1e-9)


def test_the_point_is_the_one_that_was_certified(data):
    p = problem(data, dtype=np.float32, C=100.0)
    result = run(SwapSolver(p, tol=1e-3), tol=1e-3, max_iter=1_000_000)
    scores = p.exact_matrix @ result.point
    slack = np.maximum(0.0, 1.0 - scores)
    objective = 0.5 * result.point @ scores + 0.5 * np.sum(slack**2 / p.ridge)
    assert result.primal == pytest.approx(objective, rel=1e-10)


def test_max_steps_is_exact(data):
    solver = SwapSolver(problem(data), max_steps=300)
    assert [s.n_steps for s in solver.states()][:3] == [128, 256, 300] and solver.n_steps == 300


def test_candidates_and_start(data):
    p = problem(data)
    solver = SwapSolver(p, n_candidates=60, seed=3)
    result = run(solver, tol=1e-6, max_iter=1_000_000)
    assert result.status is Status.CONVERGED
    same = SwapSolver(p, n_candidates=60, seed=3)
    assert np.array_equal(run(same, tol=1e-6, max_iter=1_000_000).point, result.point)
    again = SwapSolver(p, start=SimplexPoints(result.point / result.point.sum()), tol=1e-6)
    assert len(run(again, tol=1e-6, max_iter=1_000_000).history) == 1


def test_an_indefinite_matrix_ends_the_steps(data):
    p = problem(data)
    p.exact_matrix = -p.exact_matrix + 2.5 * np.eye(p.n)
    p.diagonal = np.diag(p.exact_matrix) + p.ridge
    p.promote()
    solver = SwapSolver(p)
    states = list(islice(solver.states(), 1000))
    assert len(states) < 1000 and solver.indefinite


class Proofs:
    """Returns given certificates."""

    def __init__(self, *proofs):
        self._proofs = list(proofs)

    def certify(self, *candidates):
        return self._proofs[: len(candidates)]


@pytest.mark.parametrize(
    "proofs",
    [
        (Certified(2.0, 0.0, 1.0), Certified(3.0, 0.0, -np.inf)),
        (Certified(2.0, 0.0, 1.0), Certified(3.0, 0.0, 2.5)),
    ],
    ids=["negative", "crossed"],
)
def test_no_bound_where_either_point_shows_an_indefinite_kernel(proofs):
    points = np.eye(2)
    best, newest = (Candidate(a, a, a) for a in points)
    primal, _, bound = confirmed(Proofs(*proofs), best, newest, True)
    assert (primal, bound) == (2.0, -np.inf)


def test_the_rounding_of_the_objective_is_taken_off_the_bound():
    """Or added to the objective, where it leaves less than six digits."""
    candidates = [Candidate(a, a, a) for a in np.eye(2)]
    few, many = Certified(2.0, 1e-6, 1.5), Certified(2.0, 0.5, 1.5)
    primal, _, bound = confirmed(Proofs(few, Certified(3.0, 0.0, 1.0)), *candidates, True)
    assert (primal, bound) == (2.0, 1.5 - 1e-6)
    primal, _, bound = confirmed(Proofs(many, Certified(3.0, 0.0, 1.0)), *candidates, True)
    assert (primal, bound) == (2.5, 1.5)


def test_the_least_recently_used_slot():
    owners, used = np.array([5, 1, 3]), np.array([0, 4, 0, 2, 0, 9])
    assert lazy.least_recently_used(used, owners) == 2


def test_promising_rows_are_the_missing_ones_with_the_lowest_scores():
    q, slots = np.array([0.5, 0.1, 0.9, 0.3, 0.2, 0.4]), np.array([-1, 7, -1, -1, -1, -1])
    chosen = np.zeros(4, dtype=np.int64)
    assert lazy.promising(q, 0.6, slots, 2, chosen) == 4
    assert chosen.tolist() == [2, 4, 3, 5]
    assert lazy.promising(q, 0.25, slots, 3, chosen) == 2 and chosen[:2].tolist() == [3, 4]
