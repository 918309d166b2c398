"""The certificate of a dual point, against plain numpy in extended precision."""

from typing import NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from sklearn.metrics.pairwise import rbf_kernel

from sklearn_bundle.core.contract import run
from sklearn_bundle.kernel.problem import Dual, Point, Problem
from sklearn_bundle.kernel.solvers.working_sets import WorkingSets
from sklearn_bundle.kernel.values.data import KernelData
from sklearn_bundle.kernel.values.kernel_function import Kernel
from sklearn_bundle.kernel.values.scores import KernelScores

LONG, N = np.longdouble, 30
MACHINES = ["SVC", "L2-SVM", "SVR", "squared tube", "OneClassSVM", "squared novelty"]


def machine(name, rng, n=N):
    """A row of the table in problem.py."""
    y, t = np.sign(rng.normal(size=n)), rng.normal(size=n)
    y[:2] = -1.0, 1.0
    C, zeros, infinite = rng.uniform(0.5, 4.0, n), np.zeros(n), np.full(n, np.inf)
    if name == "SVC":
        return Dual(y, np.minimum(y * C, 0.0), np.maximum(y * C, 0.0), zeros)
    if name == "L2-SVM":
        low, high = np.where(y > 0, 0.0, -np.inf), np.where(y > 0, np.inf, 0.0)
        return Dual(y, low, high, 1.0 / C, s=1.0)
    if name == "SVR":
        return Dual(t, -C, C, zeros, 0.2)
    if name == "squared tube":
        return Dual(t, -infinite, infinite, 1.0 / C, 0.2)
    if name == "OneClassSVM":
        return Dual(zeros, zeros, C, zeros, total=0.4 * float(C.sum()))
    return Dual(np.ones(n), zeros, infinite, 1.0 / C, s=0.0)


class Reference:
    """The numbers of a dual by its definition, in extended precision."""

    def __init__(self, K, dual):
        self.K, self.dual = K.astype(LONG), dual
        self.target, self.low, self.high = (v.astype(LONG) for v in dual[:3])
        self.ridge, self.width = dual.ridge.astype(LONG), LONG(dual.width)

    def losses(self, f):
        """``max over b in the box of b r - width |b| - ridge/2 b^2`` for the residuals r."""
        r, values = self.target - f, np.zeros(len(f), LONG)
        for sign, end in ((1, self.high), (-1, -self.low)):
            left = np.maximum(sign * r - self.width, 0) * (end > 0)
            inner = left / self.ridge if self.dual.is_squared else np.where(left > 0, end, 0)
            values += inner * left - self.ridge / 2 * inner**2
        return values

    def primal(self, beta, b):
        """Objective of ``w = sum_i beta_i phi(x_i)`` and b."""
        f, s = self.K @ beta, LONG(self.dual.s)
        of_b = self.dual.total * b if s == np.inf else (b * b / s / 2 if s > 0 else LONG(0))
        return beta @ f / 2 + np.sum(self.losses(f + b)) + of_b

    def bound(self, beta):
        """The dual's value, at its best scale where there is neither a bound nor a total."""
        f = self.K @ beta + self.ridge * beta
        if self.dual.s < np.inf:
            f = f + LONG(self.dual.s) * beta.sum()
        linear = self.target @ beta - self.width * np.abs(beta).sum()
        if self.dual.s < np.inf:
            return linear**2 / (beta @ f) / 2 if linear > 0 else LONG(0)
        return linear - beta @ f / 2

    def intercepts(self, beta):
        """The least and the largest b that is best for beta: by the slope of the objective."""
        f = self.K @ beta
        kinks = np.sort(np.r_[self.target - f - self.width, self.target - f + self.width])
        if not self.dual.is_squared:
            values = np.array([self.primal(beta, b) for b in kinks])
            best = kinks[values <= values.min() + LONG(1e-15) * np.abs(values).max()]
            return best.min(), best.max()
        low, high = kinks[0] - 1, kinks[-1] + 1
        for _ in range(90):
            middle, h = (low + high) / 2, LONG(1e-6)
            slope = self.primal(beta, middle + h) - self.primal(beta, middle - h)
            low, high = (middle, high) if slope < 0 else (low, middle)
        return low, high


class Case(NamedTuple):
    problem: Problem
    reference: Reference
    best: np.ndarray  # of the dual
    b: LONG
    optimum: LONG  # attained, above its true value by 1e-9 of it at most


def case(name, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, 2))
    K, dual = rbf_kernel(X), machine(name, rng)
    data = KernelData(K, Kernel("precomputed"), np.float64)
    problem = Problem(data, np.arange(N), dual, cache_bytes=1e8)
    reference = Reference(K, dual)
    found = run(WorkingSets(problem, tol=1e-12), tol=1e-12, max_iter=1000)
    beta, b = found.point.astype(LONG), LONG(found.intercept)
    if dual.s < np.inf:
        b = LONG(dual.s) * beta.sum()
    best = reference.primal(beta, b)
    missing = abs(beta.sum() - LONG(dual.total)) if dual.s == np.inf else LONG(0)
    assert best - reference.bound(beta) <= 1e-9 * abs(best) + missing * 1e3  # weak duality
    return Case(problem, reference, found.point, b, best)


def feasible(dual, rng, near=None, share=1.0):
    """A random point of the dual, or one near another."""
    top = np.where(np.isfinite(dual.high), dual.high, 2.0)
    bottom = np.where(np.isfinite(dual.low), dual.low, -2.0)
    beta = rng.uniform(bottom, top) * (rng.random(N) < 0.7)
    beta = beta if near is None else (1.0 - share) * near + share * beta
    return dual.inside(beta)


def certified(of, beta, scores=None, errors=None, b=None):
    scores = of.problem.data.X @ beta if scores is None else scores
    errors = np.zeros(N) if errors is None else errors
    b = float(of.b) if b is None else b
    return of.problem.certified(Point(beta, scores, b), errors)


def slack(value):
    """Rounding of the reference."""
    return 1e-16 * (1.0 + abs(value))


@pytest.mark.parametrize("name", MACHINES)
def test_numbers_of_the_definition(name):
    """Objective and bound of any point, to rounding, and the better side of it."""
    of, rng = case(name), np.random.default_rng(1)
    for share in (1.0, 0.3, 1e-2, 1e-4):
        beta = feasible(of.problem.dual, rng, of.best, share)
        found = certified(of, beta)
        b = of.b if of.problem.dual.s == np.inf else LONG(of.problem.dual.s) * beta.sum()
        primal, bound = of.reference.primal(beta, LONG(b)), of.reference.bound(beta)
        assert_allclose(found.primal, float(primal), rtol=1e-12)
        expected = max(float(bound), of.problem.least)
        assert_allclose(found.bound, expected, rtol=1e-12, atol=1e-12 * abs(float(primal)))
        assert found.b == pytest.approx(float(b), rel=1e-13)
        assert found.primal - found.bound >= primal - max(bound, of.problem.least)


@pytest.mark.parametrize("name", MACHINES)
def test_weak_duality(name):
    """No bound is above any objective, in extended precision: not above the optimum's."""
    of, rng = case(name), np.random.default_rng(2)
    objectives = [of.optimum]
    for _ in range(20):
        w = of.best + rng.normal(size=N) * 10.0 ** rng.uniform(-6, 0)
        b = of.b if of.problem.dual.s == np.inf else LONG(of.problem.dual.s) * w.sum()
        objectives.append(of.reference.primal(w.astype(LONG), LONG(b)))
    for share in [0.0, *10.0 ** rng.uniform(-12, 0, 40)]:
        found = certified(of, feasible(of.problem.dual, rng, of.best, share))
        assert found.bound <= min(objectives) + slack(of.optimum)
        assert found.bound <= found.primal


@pytest.mark.parametrize("size", [1e-10, 1e-5, 1e-2, 1.0])
@pytest.mark.parametrize("name", MACHINES)
def test_scores_that_are_off_by_as_much_as_is_said(name, size):
    """Up, down, at random, and so that the bound, or the gap, looks best."""
    of, rng = case(name), np.random.default_rng(3)
    K, dual = of.problem.data.X, of.problem.dual
    for share in (0.0, 1e-3, 0.3):
        beta = feasible(dual, rng, of.best, share)
        errors = size * rng.uniform(0.1, 1.0, N)
        b = of.b if dual.s == np.inf else LONG(dual.s) * beta.sum()
        left = dual.target - K @ beta - float(b)
        kinds = np.ones(N), -np.ones(N), np.sign(rng.normal(size=N)), -np.sign(beta), np.sign(left)
        truth, true_bound = of.reference.primal(beta, LONG(b)), of.reference.bound(beta)
        for sign in kinds:
            found = certified(of, beta, K @ beta + sign * errors, errors)
            assert found.bound <= of.optimum + slack(of.optimum)
            assert found.bound <= max(true_bound, of.problem.least) + slack(truth)
            assert found.primal - found.bound >= truth - of.optimum - slack(truth)


@pytest.mark.parametrize("name", ["SVC", "SVR", "squared tube", "OneClassSVM"])
def test_off_the_hyperplane(name):
    """A sum that is not the total costs as much as the intercept may be."""
    of, rng = case(name), np.random.default_rng(4)
    for size in 10.0 ** rng.uniform(-12, 0, 30):
        moved = of.best + size * rng.normal(size=N)
        beta = np.clip(moved, of.problem.dual.low, of.problem.dual.high)
        for b in (float(of.b), 0.0):
            found = certified(of, beta, b=b)
            assert found.bound <= of.optimum + slack(of.optimum)


def test_no_coefficient_at_all_is_no_proof_of_a_total():
    """OneClassSVM's optimum is negative: 0, the objective of w = 0, is no bound."""
    of = case("OneClassSVM")
    assert of.optimum < 0.0
    for b in (0.0, float(of.b)):
        found = certified(of, np.zeros(N), b=b)
        assert of.problem.least <= found.bound <= of.optimum
    for k in range(N):  # all of the total on one point is not in the box
        beta = np.zeros(N)
        beta[k] = of.problem.dual.total
        assert certified(of, beta).bound <= of.optimum


@pytest.mark.parametrize("name", MACHINES)
def test_outside_of_the_box_there_is_no_proof(name):
    of = case(name)
    if name == "squared tube":
        pytest.skip("it has no box")
    beta = of.best.copy()
    place = int(np.argmax(of.problem.dual.target * (of.problem.dual.high > 0)))
    beta[place] = of.problem.dual.low[place] - 0.1
    assert np.isfinite(beta[place])
    assert certified(of, beta).bound == of.problem.least


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", MACHINES)
def test_where_the_optimum_lies(name, seed):
    """w within the radius, every best intercept between the ends: of rough points and the best."""
    of, rng = case(name, seed), np.random.default_rng(seed)
    K, s = of.reference.K, of.problem.dual.s
    for share in (0.5, 1e-2, 1e-5, 0.0):
        beta = feasible(of.problem.dual, rng, of.best, share)
        found = certified(of, beta)
        off = of.best - beta
        square = off @ K @ off + (LONG(s) * off.sum() ** 2 if s < np.inf else 0)
        assert found.radius >= np.sqrt(max(square, 0)) - 1e-5 * float(
            np.sqrt(of.best @ K @ of.best)
        )
        if s < np.inf:
            assert found.below == found.above == 0.0
            continue
        least, largest = of.reference.intercepts(of.best.astype(LONG))
        assert found.b - found.below <= least + 1e-9 and found.b + found.above >= largest - 1e-9
    if s == np.inf:  # no further than the radius reaches
        reach = found.radius + 1e-9
        assert found.b - found.below >= least - 3.0 * reach
        assert found.b + found.above <= largest + 3.0 * reach


def test_an_indefinite_matrix_has_no_bound():
    K = np.array([[0.0, 1.0], [1.0, 0.0]])
    dual = machine("squared tube", np.random.default_rng(0), 2)
    problem = Problem(KernelData(K, Kernel("precomputed"), np.float64), np.arange(2), dual,
                      cache_bytes=1e6)  # fmt: skip
    beta = np.array([1.0, -1.0])
    assert problem.certified(Point(beta, K @ beta), np.zeros(2)).bound == -np.inf


# ---- from the data -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MACHINES)
def test_scores_that_may_hide_a_loss_are_summed_again(name):
    """Rough scores lead to the objective of exact ones, also where they look free of loss."""
    of, rng = case(name), np.random.default_rng(5)
    beta = feasible(of.problem.dual, rng, of.best, 0.1)
    path = float(np.abs(beta).sum())
    vars(of.problem.data)["error_of_value"] = 0.5 / path
    left = of.problem.dual.target - of.problem.data.X @ beta - float(of.b)
    expected = certified(of, beta)
    for sign in (np.sign(left), -np.sign(left), np.zeros(N)):
        scores = of.problem.data.X @ beta + 0.499 * sign
        found, point = of.problem.certify(Point(beta, scores, float(of.b), path))
        assert_allclose([found.primal, found.bound], [expected.primal, expected.bound], rtol=1e-11)
        lossy = of.reference.losses(of.reference.K @ beta + LONG(found.b)) > 0
        exact = of.problem.data.X @ beta
        assert_allclose(point.scores[lossy], exact[lossy], rtol=1e-12, atol=1e-13)


KERNELS = {
    "rbf": (Kernel("rbf", 0.3), lambda D, G: np.exp(-LONG(0.3) * D)),
    "linear": (Kernel("linear"), lambda D, G: G),
    "poly": (Kernel("poly", 0.5, 3, 1.0), lambda D, G: (LONG(0.5) * G + 1) ** 3),
    "precomputed": (Kernel("precomputed"), lambda D, G: G),
    "callable": (Kernel(lambda X, Z: X @ Z.T), lambda D, G: G),
}


@pytest.mark.parametrize("name", ["rbf", "linear", "poly"])
def test_scores_with_the_bounds_of_their_rounding(name):
    """Of coefficients that cancel: what is left of the scores is rounding."""
    rng, (kernel, value) = np.random.default_rng(0), KERNELS[name]
    X, Z = 1.0 + rng.random((40, 5)), rng.normal(size=(25, 5))
    X[20:] = X[:20] + 1e-9 * rng.normal(size=(20, 5))
    coef = np.r_[np.full(20, 1e6), np.full(20, -1e6)][np.newaxis]
    scores, errors = KernelScores(X, kernel, coef, np.array([0.25]), [40, 0]).bounded(Z)
    exact, given = X.astype(LONG), Z.astype(LONG)
    D = ((given[:, None] - exact) ** 2).sum(axis=2)
    K = value(D, given @ exact.T)
    off = np.abs(scores[:, 0] - K @ coef[0].astype(LONG) - 0.25)
    assert (off <= errors[:, 0]).all() and off.max() > 1e-11
    assert errors.max() <= 1e-12 * 4e7 * max(np.abs(K).max(), 1.0)


@pytest.mark.parametrize("shift", [0.0, 30.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("layout", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("name", KERNELS)
def test_exact_sums(name, layout, dtype, shift):
    """No sum is off by more than is said, and that is little."""
    if name in ("precomputed", "callable") and layout is sp.csr_matrix:
        pytest.skip("dense only")
    rng, (kernel, value) = np.random.default_rng(0), KERNELS[name]
    X, coef = shift + rng.normal(size=(90, 5)), rng.normal(size=40)
    given = X @ X.T if name == "precomputed" else X
    data = KernelData(layout(given.astype(dtype)), kernel, dtype)
    exact = given.astype(dtype).astype(LONG)
    G = exact if name == "precomputed" else exact @ exact.T
    D = sum((x[:, None] - x) ** 2 for x in exact.T)
    columns, rows = rng.permutation(90)[:40], rng.permutation(90)[:70]
    K = value(D, G)[np.ix_(rows, columns)]
    sums, errors = data.exact_sums(coef, columns, rows)
    off = np.abs(sums - K @ coef.astype(LONG))
    assert (off <= errors).all() and off.max() > 0.0
    value_error = 1e-11 if shift else 1e-12  # distances by norms lose digits, up to 1e-11
    assert (errors <= value_error * np.abs(K).max() * np.abs(coef).sum()).all()
