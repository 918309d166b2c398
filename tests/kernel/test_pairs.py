"""All pairs of classes in one call: as one solver for each, and as SVC."""

from itertools import combinations

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.svm import SVC

from sklearn_bundle.core.contract import run
from sklearn_bundle.kernel.estimators.swap import PairsOfClasses, problem_of_pair
from sklearn_bundle.kernel.problem import Problem
from sklearn_bundle.kernel.solvers import pairs as pairs_module
from sklearn_bundle.kernel.solvers.pairs import solve_all
from sklearn_bundle.kernel.solvers.working_sets import WorkingSets
from sklearn_bundle.kernel.values.data import KernelData
from sklearn_bundle.kernel.values.kernel import KernelRows
from sklearn_bundle.kernel.values.kernel_function import Kernel
from tests.kernel.test_problem import LONG, Reference

LOSSES = "hinge", "squared_hinge"
TOL, RATIOS = 1e-7, np.array([0.05, 1.0, 20.0])
FORMS = {
    "dense": (np.asarray, Kernel("rbf", 0.3)),
    "far apart": (lambda X: X + 1e6 * (np.arange(len(X)) % 2)[:, None], Kernel("rbf", 0.3)),
    "wide": (lambda X: np.tile(X, 70) / 8.0, Kernel("rbf", 0.3)),
    "linear": (np.asarray, Kernel("linear")),
    "poly": (np.asarray, Kernel("poly", 0.3, 3, 1.0)),
    "sparse": (sp.csr_matrix, Kernel("poly", 0.3, 2, 1.0)),
    "callable": (np.asarray, Kernel(lambda X, Z: (0.3 * X @ Z.T + 1.0) ** 2)),
    "precomputed": (lambda X: (0.3 * X @ X.T + 1.0) ** 2, Kernel("precomputed")),
}


def classes(K, n=70):
    """Points, labels in no order and of unequal counts, and costs."""
    rng = np.random.default_rng(K)
    labels = np.r_[np.arange(K), rng.integers(0, K, n - K) ** 2 // K]
    return rng.normal(size=(n, 4)) + labels[:, None] / K, labels, rng.uniform(0.5, 2.0, n)


@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize("large", [100, 0], ids=["blocks of rows", "single rows"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("K", [3, 5])
def test_one_solver_for_each_pair(K, form, large, squared, monkeypatch):
    """Certificates are true by the definition too, and contain the optimum."""
    monkeypatch.setattr(pairs_module, "_LARGE", large)
    monkeypatch.setattr(pairs_module, "_NARROW", 2 if K == 3 else 100)
    X, labels, costs = classes(K)
    convert, kernel = FORMS[form]
    data = KernelData(convert(X), kernel, np.float64)
    found = solve_all(data, labels, costs, RATIOS, squared=squared, tol=TOL)
    assert found.coef.shape == (3, K - 1, 70) and found.found.shape[:2] == (3, K * (K - 1) // 2)
    matrix, pairs = data.rows(np.float64).gram(), PairsOfClasses(labels)
    for r, ratio in enumerate(RATIOS):
        known = found.certificate(r, TOL)
        assert known["relative_gap_"] <= TOL and set(known["status_"]) == {"converged"}
        for k, _ in enumerate(combinations(range(K), 2)):
            members, dual = problem_of_pair(*pairs(k), ratio * costs, LOSSES[squared])
            solver = WorkingSets(Problem(data, members, dual, cache_bytes=1e8), tol=1e-10)
            alone = run(solver, tol=1e-10, max_iter=1000)
            beta, b = pairs.of(k, found.coef[r]), found.found[r, k, 2]
            objective, bound = known["objective_"][k], known["lower_bound_"][k]
            assert bound <= alone.primal and alone.lower_bound <= objective
            reference = Reference(matrix[np.ix_(members, members)], dual)
            truth = float(reference.primal(beta.astype(LONG), LONG(b)))
            assert_allclose(objective, truth, rtol=1e-11)
            assert ((dual.low <= beta) & (beta <= dual.high)).all()
            assert_allclose(beta.sum() if dual.s == np.inf else beta.sum() - b, 0.0, atol=1e-9)
            radius, constant, below, above = known["_regions"][k]
            off = alone.point - beta
            square = off @ reference.K @ off
            assert constant == reference.s and np.sqrt(max(float(square), 0.0)) <= radius + 1e-6
            if not squared:
                assert b - below <= alone.intercept + 1e-6 and alone.intercept <= b + above + 1e-6


@pytest.mark.parametrize("K", [3, 5])
def test_the_coefficients_of_svc(K):
    X, labels, costs = classes(K)
    order = np.argsort(labels, kind="stable")
    data = KernelData(X, Kernel("rbf", 2.0), np.float64)
    found = solve_all(data, labels, costs, RATIOS, squared=False, tol=1e-12)
    for r, ratio in enumerate(RATIOS):
        peer = SVC(C=ratio, gamma=2.0, tol=1e-10).fit(X, labels, costs)
        support = order[found.coef[r][:, order].any(axis=0)]
        assert_array_equal(support, peer.support_)
        assert_allclose(found.coef[r][:, support], peer.dual_coef_, atol=1e-5 * ratio)
        assert_allclose(found.found[r, :, 2], peer.intercept_, atol=1e-5)


def test_a_pair_that_is_not_within_tol_says_so():
    """At a tol below rounding: its gap is reported, its status is "stalled"."""
    X, labels, costs = classes(3)
    data = KernelData(X, Kernel("rbf", 0.3), np.float64)
    found = solve_all(data, labels, costs, RATIOS, squared=True, tol=1e-17)
    known = found.certificate(1, 1e-17)
    gaps = known["objective_"] - known["lower_bound_"]
    assert (gaps > 0.0).all() and known["status_"] == ["stalled"] * 3 and not known["converged_"]
    assert (gaps <= 1e-11 * known["objective_"]).all()
    assert [h["steps"][0] > 0 for h in known["history_"]] == [True] * 3


@pytest.mark.parametrize("squared", [False, True])
def test_values_that_are_off_by_as_much_as_is_said(squared, monkeypatch):
    """Bounds by a matrix are true for every other one within its error."""
    X, labels, costs = classes(3)
    K = FORMS["precomputed"][0](X)
    exact = solve_all(KernelData(K, Kernel("precomputed"), np.float64), labels, costs, RATIOS,
                      squared=squared, tol=1e-9)  # fmt: skip
    monkeypatch.setattr(KernelRows, "relative_error", 1e-3)
    lengths = np.sqrt(np.diag(K))
    data = KernelData(K - 1e-3 * np.outer(lengths, lengths), Kernel("precomputed"), np.float64)
    found = solve_all(data, labels, costs, RATIOS, squared=squared, tol=1e-9)
    assert (found.found[:, :, 1] <= exact.found[:, :, 0]).all()
    assert set(found.certificate(2, 1e-9)["status_"]) == {"stalled"}
