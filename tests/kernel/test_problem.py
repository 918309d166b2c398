"""The certificate of a dual point, against plain numpy in extended precision."""

from types import SimpleNamespace

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
from tests.reference_kernel import Machine

LONG, N = np.longdouble, 30
MACHINES = ["SVC", "L2-SVM", "SVR", "squared tube", "OneClassSVM", "squared novelty"]
FREE = ["SVC", "SVR", "squared tube", "OneClassSVM"]  # their intercepts


def machine(name, rng, n=N):
    """A row of the table in problem.py."""
    y, t = np.sign(rng.normal(size=n)), rng.normal(size=n)
    y[:2] = -1.0, 1.0
    C, zeros, infinite = rng.uniform(0.5, 4.0, n), np.zeros(n), np.full(n, np.inf)
    low, high = np.where(y > 0, 0.0, -np.inf), np.where(y > 0, np.inf, 0.0)
    return {
        "SVC": lambda: Dual(y, np.maximum(low, -C), np.minimum(high, C), zeros),
        "L2-SVM": lambda: Dual(y, low, high, 1.0 / C, s=1.0),
        "SVR": lambda: Dual(t, -C, C, zeros, 0.2),
        "squared tube": lambda: Dual(t, -infinite, infinite, 1.0 / C, 0.2),
        "OneClassSVM": lambda: Dual(zeros, zeros, C, zeros, total=0.4 * float(C.sum())),
        "squared novelty": lambda: Dual(np.ones(n), zeros, infinite, 1.0 / C, s=0.0),
    }[name]()


class Reference(Machine):
    """The numbers of a dual by its definition, in extended precision."""

    def __init__(self, K, dual):
        super().__init__(K, np.abs(K), dual)

    def b_of(self, beta, free):
        return LONG(free) if self.free else self.s * beta.sum()

    def primal(self, beta, b):
        """Objective of ``w = sum_i beta_i phi(x_i)`` and b, which is in K if it is not free."""
        assert float(b) == pytest.approx(float(self.b_of(beta, b)), abs=1e-12)
        return self.objective(np.r_[beta, b] if self.free else beta)


def case(name, seed=0):
    """A problem, its reference, and its optimum, attained and proven by weak duality."""
    rng = np.random.default_rng(seed)
    K, dual = rbf_kernel(rng.normal(size=(N, 2))), machine(name, rng)
    data = KernelData(K, Kernel("precomputed"), np.float64)
    problem, reference = Problem(data, np.arange(N), dual, cache_bytes=1e8), Reference(K, dual)
    found = run(WorkingSets(problem, tol=1e-12), tol=1e-12, max_iter=1000)
    beta = found.point.astype(LONG)
    b = reference.b_of(beta, found.intercept)
    optimum = reference.primal(beta, b)
    assert optimum - reference.bound(beta) <= 1e-9 * abs(optimum)
    return SimpleNamespace(
        K=K, dual=dual, data=data, problem=problem, reference=reference, best=found.point, b=b,
        optimum=optimum, slack=1e-16 * (1.0 + abs(optimum)),  # of the reference
    )  # fmt: skip


def feasible(dual, rng, near, share):
    """A random point of the dual, or one near another."""
    top = np.where(np.isfinite(dual.high), dual.high, 2.0)
    bottom = np.where(np.isfinite(dual.low), dual.low, -2.0)
    beta = rng.uniform(bottom, top) * (rng.random(N) < 0.7)
    return dual.inside((1.0 - share) * near + share * beta)


def certified(of, beta, scores=None, errors=None, b=None):
    scores = of.K @ beta if scores is None else scores
    errors = np.zeros(N) if errors is None else errors
    return of.problem.certified(Point(beta, scores, float(of.b) if b is None else b), errors)


@pytest.mark.parametrize("name", MACHINES)
def test_numbers_of_the_definition(name):
    """Objective and bound of any point, to rounding; no bound above any objective."""
    of, rng = case(name), np.random.default_rng(1)
    others = of.best + rng.normal(size=(20, N)) * 10.0 ** rng.uniform(-6, 0, (20, 1))
    attained = [of.reference.primal(w, of.reference.b_of(w, of.b)) for w in others.astype(LONG)]
    for share in [0.0, 1.0, *10.0 ** rng.uniform(-12, 0, 40)]:
        beta = feasible(of.dual, rng, of.best, share)
        found, b = certified(of, beta), of.reference.b_of(beta, of.b)
        primal, bound = of.reference.primal(beta, b), of.reference.bound(beta)
        bound = max(bound, of.problem.least)
        assert_allclose(found.primal, float(primal), rtol=1e-12)
        assert_allclose(found.bound, float(bound), rtol=1e-12, atol=1e-12 * abs(float(primal)))
        assert found.b == pytest.approx(float(b), rel=1e-13)
        assert found.primal - found.bound >= primal - bound
        assert found.bound <= min(*attained, of.optimum) + of.slack


@pytest.mark.parametrize("size", [1e-10, 1e-5, 1e-2, 1.0])
@pytest.mark.parametrize("name", MACHINES)
def test_scores_that_are_off_by_as_much_as_is_said(name, size):
    """Up, down, at random, and so that the bound, or the gap, looks best."""
    of, rng = case(name), np.random.default_rng(3)
    for share in (0.0, 1e-3, 0.3):
        beta = feasible(of.dual, rng, of.best, share)
        b, errors = of.reference.b_of(beta, of.b), size * rng.uniform(0.1, 1.0, N)
        truth, bound = of.reference.primal(beta, b), of.reference.bound(beta)
        left = of.dual.target - of.K @ beta - float(b)
        for sign in (1.0, -1.0, np.sign(rng.normal(size=N)), -np.sign(beta), np.sign(left)):
            found = certified(of, beta, of.K @ beta + sign * errors, errors)
            assert found.bound <= min(of.optimum, max(bound, of.problem.least)) + of.slack
            assert found.primal - found.bound >= truth - of.optimum - of.slack


@pytest.mark.parametrize("name", FREE)
def test_off_the_hyperplane(name):
    """A sum that is not the total costs as much as the intercept may be; none at all, too."""
    of, rng = case(name), np.random.default_rng(4)
    sizes = 10.0 ** rng.uniform(-12, 0, (30, 1))
    moved = np.clip(of.best + sizes * rng.normal(size=(30, N)), of.dual.low, of.dual.high)
    for beta in [*moved, np.zeros(N)]:
        for b in (float(of.b), 0.0):
            found = certified(of, beta, b=b)
            assert of.problem.least <= found.bound <= of.optimum + of.slack
    assert (of.optimum < 0.0) == (name == "OneClassSVM")


@pytest.mark.parametrize("name", sorted({*MACHINES} - {"squared tube"}))
def test_outside_of_the_box_there_is_no_proof(name):
    of = case(name)
    beta = of.best.copy()
    place = int(np.argmax(of.dual.target * (of.dual.high > 0)))
    beta[place] = of.dual.low[place] - 0.1
    assert certified(of, beta).bound == of.problem.least


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", MACHINES)
def test_where_the_optimum_lies(name, seed):
    """w within the radius, every best intercept between the ends: of rough points and the best."""
    of, rng = case(name, seed), np.random.default_rng(seed)
    K, s = of.reference.K, of.dual.s
    least, largest = of.reference.intercepts(of.best.astype(LONG))
    for share in (0.5, 1e-2, 1e-5, 0.0):
        beta = feasible(of.dual, rng, of.best, share)
        found, off = certified(of, beta), of.best - beta
        square = off @ K @ off
        known = 1e-5 * float(np.sqrt(of.best @ K @ of.best))  # of a gap of 1e-12
        assert found.radius >= np.sqrt(max(square, 0)) - known
        if s < np.inf:
            assert found.below == found.above == 0.0
            continue
        assert found.b - found.below <= least + 1e-9 and found.b + found.above >= largest - 1e-9
        reach = 3.0 * found.radius + 1e-9
        assert share or found.b - found.below >= least - reach
        assert share or found.b + found.above <= largest + reach


def test_ends_of_the_intercept_where_costs_cancel():
    """Any b from -1 to 1 is best, but three costs of 0.1 less three others are not 0 as summed."""
    y = np.repeat([1.0, -1.0], 3)
    dual = Dual(y, np.minimum(0.1 * y, 0.0), np.maximum(0.1 * y, 0.0), np.zeros(6))
    data = KernelData(np.zeros((6, 6)), Kernel("precomputed"), np.float64)
    problem = Problem(data, np.arange(6), dual, cache_bytes=1e8)
    found = problem.certified(Point(0.1 * y, np.zeros(6)), np.zeros(6))
    assert found.b - found.below <= -1.0 and found.b + found.above >= 1.0


@pytest.mark.parametrize("name", MACHINES)
def test_scores_that_may_hide_a_loss_are_summed_again(name):
    """Rough scores lead to the objective of exact ones, also where they look free of loss."""
    of, rng = case(name), np.random.default_rng(5)
    beta = feasible(of.dual, rng, of.best, 0.1)
    exact, path, expected = of.K @ beta, float(np.abs(beta).sum()), certified(of, beta)
    vars(of.data)["error_of_value"] = 0.5 / path
    left = np.sign(of.dual.target - exact - float(of.b))
    for sign in (left, -left, 0.0):
        rough = Point(beta, exact + 0.499 * sign, float(of.b), path)
        found, point = of.problem.certify(rough)
        assert_allclose([found.primal, found.bound], [expected.primal, expected.bound], rtol=1e-11)
        lossy = of.reference.losses(of.K.astype(LONG) @ beta + LONG(found.b)) > 0
        assert_allclose(point.scores[lossy], exact[lossy], rtol=1e-12, atol=1e-13)


KERNELS = {
    "rbf": (Kernel("rbf", 0.3), lambda D, G: np.exp(-LONG(0.3) * D)),
    "linear": (Kernel("linear"), lambda D, G: G),
    "poly": (Kernel("poly", 0.5, 3, 1.0), lambda D, G: (LONG(0.5) * G + 1) ** 3),
    "precomputed": (Kernel("precomputed"), lambda D, G: G),
    "callable": (Kernel(lambda X, Z: X @ Z.T), lambda D, G: G),
}
CASES = [(name, np.asarray) for name in KERNELS]
CASES += [(name, sp.csr_matrix) for name in ("rbf", "linear", "poly")]


@pytest.mark.parametrize("name", ["rbf", "linear", "poly"])
def test_scores_with_the_bounds_of_their_rounding(name):
    """Of coefficients that cancel: what is left of the scores is rounding."""
    rng, (kernel, value) = np.random.default_rng(0), KERNELS[name]
    X, Z = 1.0 + rng.random((40, 5)), rng.normal(size=(25, 5))
    X[20:] = X[:20] + 1e-9 * rng.normal(size=(20, 5))
    coef = np.r_[np.full(20, 1e6), np.full(20, -1e6)][np.newaxis]
    scores, errors = KernelScores(X, kernel, coef, np.array([0.25]), [40, 0]).bounded(Z)
    exact, given = X.astype(LONG), Z.astype(LONG)
    K = value(((given[:, None] - exact) ** 2).sum(axis=2), given @ exact.T)
    off = np.abs(scores[:, 0] - K @ coef[0].astype(LONG) - 0.25)
    assert (off <= errors[:, 0]).all() and off.max() > 1e-11
    assert errors.max() <= 1e-12 * 4e7 * max(np.abs(K).max(), 1.0)


@pytest.mark.parametrize("shift", [0.0, 30.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name, layout", CASES)
def test_exact_sums(name, layout, dtype, shift):
    """No sum is off by more than is said, and that is little."""
    rng, (kernel, value) = np.random.default_rng(0), KERNELS[name]
    X, coef = shift + rng.normal(size=(90, 5)), rng.normal(size=40)
    given = (X @ X.T if name == "precomputed" else X).astype(dtype)
    exact = given.astype(LONG)
    G = exact if name == "precomputed" else exact @ exact.T
    D = sum((x[:, None] - x) ** 2 for x in exact.T)
    columns, rows = rng.permutation(90)[:40], rng.permutation(90)[:70]
    K = value(D, G)[np.ix_(rows, columns)]
    sums, errors = KernelData(layout(given), kernel, dtype).exact_sums(coef, columns, rows)
    off = np.abs(sums - K @ coef.astype(LONG))
    assert (off <= errors).all() and off.max() > 0.0
    value_error = 1e-11 if shift else 1e-12  # distances by norms lose digits, up to 1e-11
    assert (errors <= value_error * np.abs(K).max() * np.abs(coef).sum()).all()
