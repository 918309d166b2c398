"""The box and its hyperplane: intercepts, points in it, and certificates without a false bound."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sklearn_bundle.kernel.problems.box import Box, BoxProblem
from sklearn_bundle.kernel.values.kernel_data import KernelData
from sklearn_bundle.kernel.values.kernel_function import Kernel
from tests.reference_box import BoxMachine
from tests.reference_kernel import kernel_values
from tests.reference_programme import EPS, LONG

KINDS = ["SVC", "SVR", "SVR without a tube", "OneClassSVM"]
KERNELS = {"rbf": (0.3, 0.0, 1), "linear": (1.0, 0.0, 1), "poly": (0.2, 1.0, 2)}


def box_of(kind, rng, n, C=10.0):
    """Costs of three orders of magnitude."""
    costs, zeros = C * 10.0 ** rng.uniform(-1, 1, n), np.zeros(n)
    y = rng.permutation(np.where(np.arange(n) % 2, 1.0, -1.0))
    if kind == "SVC":
        return Box(y, np.minimum(0.0, y * costs), np.maximum(0.0, y * costs))
    if kind == "OneClassSVM":
        return Box(zeros, zeros, costs, total=0.3 * float(costs.sum()))
    return Box(rng.normal(size=n), -costs, costs, 0.3 if kind == "SVR" else 0.0)


def problem_of(kind, kernel="rbf", n=14, seed=0, dtype=np.float64, scale=1.0, offset=0.0, C=10.0):
    """A problem with its reference, both at the point 0."""
    rng = np.random.default_rng(seed)
    X = (offset + scale * rng.normal(size=(n, 3))).astype(dtype)
    box = box_of(kind, rng, n, C)
    gamma, coef0, degree = KERNELS[kernel]
    data = KernelData(X, Kernel(kernel, gamma, degree, coef0), dtype)
    problem = BoxProblem(data, np.arange(n), box, cache_bytes=1e6)
    K, sizes = kernel_values(kernel, X, gamma, coef0, degree)
    return problem, BoxMachine(K, sizes, *box, np.zeros(n), 0.0), rng


def feasible(box, rng):
    """A point with some variables at each bound."""
    share = np.clip(rng.normal(0.5, 0.6, len(box.low)), 0.0, 1.0)
    return box.inside(box.low + share * (box.high - box.low))


# ---- the box ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_inside_is_in_the_box_and_on_the_hyperplane(kind):
    for seed in range(30):
        rng = np.random.default_rng(seed)
        box = box_of(kind, rng, 11)
        beta = box.inside(10.0 ** rng.uniform(-3, 3) * rng.normal(size=11))
        assert (beta >= box.low).all() and (beta <= box.high).all()
        sums = beta.astype(LONG).sum() - box.total
        assert abs(sums) <= EPS * max(np.abs(beta).max(), box.total)  # a last place
        assert_allclose(box.inside(beta), beta, rtol=1e-14)  # it is there


def test_inside_moves_a_free_variable_first():
    """One that is at a bound, or at 0, stays there: it is no support vector for rounding."""
    box = Box(np.ones(4), np.full(4, -2.0), np.full(4, 2.0))
    assert_array_equal(box.inside(np.array([0.0, 2.0, -1.0, -0.5])), [0.0, 2.0, -1.0, -1.0])


@pytest.mark.parametrize("nu", [1e-12, 0.5, 1.0])
def test_inside_from_nothing(nu):
    weights = np.array([1e-6, 3.0, 0.5, 1e6])
    box = Box(np.zeros(4), np.zeros(4), weights, total=nu * float(weights.sum()))
    beta = box.inside(np.zeros(4))
    assert beta.sum() == pytest.approx(box.total, rel=1e-15) and (beta <= weights).all()


def slopes_at(box, scores, b):
    """Slopes of the primal objective in b to the left and to the right, one kink after another."""
    slopes = [float(box.total)] * 2
    for y, f, low, high in zip(box.target, scores, box.low, box.high, strict=True):
        over, under = y - f - box.width, y - f + box.width  # kinks in b
        slopes[0] -= high * (b <= over) + low * (b > under)
        slopes[1] -= high * (b < over) + low * (b >= under)
    return slopes


@pytest.mark.parametrize("kind", KINDS)
def test_intercepts_are_all_that_minimize(kind):
    """At each end one slope changes its sign; costs of 1 make minimizers that are intervals."""
    wide = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        box, scores = box_of(kind, rng, 8), rng.normal(size=8)
        if seed % 2:  # sums of costs are exact
            unit = Box(box.target, np.sign(box.low), np.sign(box.high), box.width)
            box = unit._replace(total=3.0 * (kind == "OneClassSVM"))
        least, most = box.intercepts(scores, scores)
        wide += most > least
        small = 1e-9
        assert slopes_at(box, scores, least - small)[1] < -1e-9
        assert slopes_at(box, scores, most + small)[0] > 1e-9
        assert slopes_at(box, scores, least)[1] >= -1e-9
        assert slopes_at(box, scores, most)[0] <= 1e-9
        assert box.intercept(scores) == pytest.approx(0.5 * (least + most), rel=1e-14)
    assert wide > 0


@pytest.mark.parametrize("kind", KINDS)
def test_intercepts_at_scores_between_two_are_between_theirs(kind):
    for seed in range(20):
        rng = np.random.default_rng(seed)
        box, scores, reach = box_of(kind, rng, 9), rng.normal(size=9), rng.random(9)
        least, most = box.intercepts(scores + reach, scores - reach)
        for _ in range(10):
            some = box.intercepts(*[scores + rng.uniform(-1.0, 1.0, 9) * reach] * 2)
            assert least <= some[0] <= some[1] <= most


def test_an_intercept_without_an_end():
    """With nu = 1 every rho above the largest score minimizes, with no total one below."""
    box = Box(np.zeros(3), np.zeros(3), np.ones(3), total=3.0)
    scores = np.array([1.0, 4.0, 2.0])
    assert box.intercepts(scores, scores) == (-np.inf, -4.0)
    assert box.intercept(scores) == -4.0
    box = box._replace(total=0.0)
    assert box.intercepts(scores, scores) == (-1.0, np.inf)


# ---- certificates -------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("kind", KINDS)
def test_weak_duality_at_random_points(kind, kernel):
    """The values are those of extended precision; no bound is above the optimum."""
    problem, exact, rng = problem_of(kind, kernel)
    best = exact.optimum()
    assert best.error <= 1e-12 * abs(best.value)
    for _ in range(10):
        beta = feasible(problem.box, rng)
        scores, errors = problem.scores(beta)
        certified, b = problem.certify(beta, scores, errors, 0.0)
        point = np.r_[beta.astype(LONG), LONG(b)]
        size = exact._size(point)
        assert certified.primal == pytest.approx(float(exact.objective(point)), abs=1e-13 * size)
        assert exact.objective(point) <= certified.primal + certified.excess
        at_point = exact.bound(beta.astype(LONG))
        assert certified.bound <= at_point
        assert certified.bound >= at_point - 1e-11 * size
        assert certified.bound <= best.value
        for other in (b - 1e-3, b + 1e-3):
            assert exact.objective(np.r_[point[:-1], other]) >= exact.objective(point) - EPS * size


@pytest.mark.parametrize("kind", KINDS)
def test_the_optimum_by_three_methods(kind):
    """Interior points in extended precision, clarabel, and ours in ``test_working_set``."""
    for kernel in KERNELS:
        _, exact, _ = problem_of(kind, kernel)
        best = exact.optimum()
        assert float(best.value) == pytest.approx(float(exact.by_clarabel()), rel=1e-8)


@pytest.mark.parametrize("kind", KINDS)
def test_rounding_where_sums_cancel(kind):
    """Points far from the origin: scores of 1e6 times the costs, whose differences matter."""
    above = 0
    for seed in range(25):
        problem, exact, rng = problem_of(kind, "poly", seed=seed, offset=300.0)
        beta = feasible(problem.box, rng)
        scores, errors = problem.scores(beta)
        certified, b = problem.certify(beta, scores, errors, 0.0)
        value = exact.objective(np.r_[beta.astype(LONG), LONG(b)])
        assert value <= certified.primal + certified.excess
        assert certified.bound <= exact.bound(beta.astype(LONG))
        above += value > certified.primal
    assert above > 0


@pytest.mark.parametrize("kind", KINDS)
def test_what_leaves_the_hyperplane_is_taken_off(kind):
    """The dual value rises with what is missing, times an intercept that is far away."""
    problem, exact, rng = problem_of(kind, seed=1)
    problem.box = problem.box._replace(target=problem.box.target + 1e3)
    exact.y = exact.y + 1000
    value = exact.optimum().value
    beta = exact.optimum().point[:-1].astype(float)
    for sign in (-1.0, 1.0):
        moved = beta + sign * 1e-6 * (problem.box.high - problem.box.low) * rng.random(len(beta))
        moved = np.clip(moved, problem.box.low, problem.box.high)
        scores, errors = problem.scores(moved)
        assert problem.certify(moved, scores, errors, 0.0)[0].bound <= value


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", KINDS)
def test_scores_that_are_not_computed_again_cost_nothing(kind, dtype):
    """Given scores that are off by as much as their bound says, all points with a loss count."""
    problem, exact, rng = problem_of(kind, n=40, dtype=dtype, C=0.1)
    for _ in range(20):
        beta = feasible(problem.box, rng)
        beta[rng.random(40) < 0.7] = 0.0
        beta = problem.box.inside(beta)
        right = (exact.K @ beta.astype(LONG)).astype(float)
        off = 0.5 * rng.random(40)
        b = problem.box.intercept(right)
        for wrong in (right + off, right - off):
            certified, found = problem.certify(beta, wrong, off + 1e-12, b)
            point = np.r_[beta.astype(LONG), LONG(found)]
            size = exact._size(point)
            assert float(exact.objective(point)) == pytest.approx(
                certified.primal, abs=1e-13 * size
            )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kernel", KERNELS)
def test_errors_of_scores(kernel, dtype):
    problem, exact, rng = problem_of("SVR", kernel, n=60, dtype=dtype, offset=2.0)
    for _ in range(5):
        beta = feasible(problem.box, rng)
        scores, errors = problem.scores(beta)
        assert (np.abs(scores - exact.K @ beta.astype(LONG)) <= errors).all()
    assert (problem._lengths**2 >= np.diag(exact.K)).all()


@pytest.mark.parametrize("kind", KINDS)
def test_no_objective_is_below_the_least(kind):
    problem, exact, rng = problem_of(kind, "linear", dtype=np.float32, offset=50.0)
    assert problem.least <= exact.optimum().value
    rng = np.random.default_rng(0)  # one point: the least is half of the optimum
    data = KernelData(np.float32(rng.normal(size=(1, 3))), Kernel("linear"), np.float32)
    box = Box(np.zeros(1), np.zeros(1), np.ones(1), total=0.7)
    single = BoxProblem(data, np.arange(1), box, cache_bytes=1e6)
    k = float(data.X[0].astype(float) @ data.X[0])
    assert_allclose(single.least, -(0.7**2) * k, rtol=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_interval_holds_every_best_intercept(kind, kernel, dtype):
    """For a radius that is just the distance of the two functions, in any direction."""
    for seed in range(3):
        problem, exact, rng = problem_of(kind, kernel, seed=seed, dtype=dtype)
        best = exact.optimum().point[:-1]
        ends = exact.intercepts(exact.K @ best)
        for _ in range(5):
            beta = feasible(problem.box, rng)
            change = best - beta.astype(LONG)
            radius = float(np.sqrt(change @ exact.K @ change))
            least, most = problem.intercepts(beta, radius)
            assert least <= ends[0] + 1e-12 and ends[1] - 1e-12 <= most
        beta = problem.box.inside(best.astype(float))
        least, most = problem.intercepts(beta, 0.0)
        close = 1e-9 if dtype == np.float64 else 1e-2
        assert least <= ends[0] + 1e-12 and most >= ends[1] - 1e-12
        assert_allclose([least, most], np.array(ends, float), atol=close)
