"""Gaps of rows against Fenchel's inequality, and the balls that follow against exact optima."""

from fractions import Fraction
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp

from sklearn_bundle import SwapSVC, SwapSVR
from sklearn_bundle.core.optimum import known_regions
from sklearn_bundle.kernel.estimators._kernel import KernelRegion
from sklearn_bundle.kernel.problems.box import Box, BoxProblem
from sklearn_bundle.kernel.problems.row_gaps import box_gaps, largest_sum, squared_gaps
from sklearn_bundle.kernel.values.kernel_data import KernelData
from sklearn_bundle.kernel.values.kernel_function import Kernel
from tests.contract.fits import quiet
from tests.reference_box import BoxMachine
from tests.reference_kernel import L2SVM, kernel_values
from tests.reference_programme import LONG
from tests.reference_tube import TubeMachine

RNG = np.random.default_rng(0)
N = 400


def excess(r, above, below):
    return np.maximum(r - above, 0) - np.maximum(-r - below, 0)


@pytest.mark.parametrize("above, below", [(0.3, 0.5), (0.0, 0.0), (0.0, np.inf)])
def test_squared_gaps_are_those_of_fenchel(above, below):
    r, C = RNG.normal(size=N).astype(LONG), RNG.uniform(0.1, 10.0, N)
    beta = RNG.normal(size=N) if np.isfinite(below) else np.abs(RNG.normal(size=N))
    beta[:40] = 0.0
    beta[40:80] = np.asarray(C * excess(r, above, below), float)[40:80]  # no gap
    cost = above * np.maximum(beta, 0)
    if np.isfinite(below):
        cost = cost + below * np.maximum(-beta, 0)
    loss = C * excess(r, above, below) ** 2 / 2
    expected = loss + cost + LONG(1) * beta**2 / (2 * C) - beta * r
    found = squared_gaps(np.asarray(r, float), beta, C, above, below)
    assert (found >= expected - 1e-15).all()
    np.testing.assert_allclose(found, np.asarray(expected, float), rtol=1e-9, atol=1e-13)
    assert found[40:80].max() < 1e-25  # where the terms themselves are of the order of 1


@pytest.mark.parametrize("width", [0.0, 0.3])
def test_box_gaps_are_those_of_fenchel(width):
    r = RNG.normal(size=N).astype(LONG)
    low, high = -RNG.uniform(0.0, 2.0, N), RNG.uniform(0.0, 2.0, N)
    low[:100], high[100:200] = 0.0, 0.0
    beta = RNG.uniform(low, high)
    beta[::3] = np.where(r > 0, high, low)[::3]
    loss = high * np.maximum(r - width, 0) - low * np.maximum(-r - width, 0)
    expected = loss + width * np.abs(beta) - beta * r
    found = box_gaps(np.asarray(r, float), beta, low, high, width)
    np.testing.assert_allclose(found, np.asarray(expected, float), rtol=1e-9, atol=1e-14)
    assert found.min() >= 0.0


def test_the_largest_sum_is_that_of_the_worst_residuals():
    r, errors = RNG.normal(size=N), RNG.uniform(0.0, 0.2, N)
    gaps = partial(box_gaps, beta=np.full(N, 0.5), low=-np.ones(N), high=np.ones(N), width=0.1)
    most = largest_sum(gaps, r, errors)
    ends = np.array([gaps(r + t * errors) for t in np.linspace(-1.0, 1.0, 21)]).max(axis=0)
    assert most == pytest.approx(ends.sum()) and most >= ends.sum()


def test_rounding_is_on_the_side_of_the_bound():
    """Slopes that differ from beta in their last digits only, and sums, in exact arithmetic."""
    r, C = RNG.normal(size=N), RNG.uniform(0.1, 10.0, N)
    beta = C * excess(r, 0.3, 0.5) * (1.0 + RNG.integers(-1, 2, N) * 2.0**-52)
    found = squared_gaps(r, beta, C, 0.3, 0.5)
    for got, *exact in zip(found.tolist(), *map(np.ndarray.tolist, (r, beta, C)), strict=True):
        r_i, beta_i, C_i = map(Fraction, exact)
        above, below = r_i - Fraction(0.3), -r_i - Fraction(0.5)
        slope = C_i * (max(above, 0) - max(below, 0))
        assert Fraction(got) >= (slope - beta_i) ** 2 / (2 * C_i)
    for _ in range(20):
        terms = RNG.uniform(0.0, 1.0, 1000)
        assert Fraction(largest_sum(lambda r: r, terms, 0.0)) >= sum(map(Fraction, terms.tolist()))


def test_coefficients_off_the_hyperplane_have_a_gap():
    """Without it the rows have none: w* is 1 away from the point."""
    box = Box(np.array([1.0, -1.0]), np.array([0.0, -1.0]), np.array([1.0, 0.0]))
    data = KernelData(np.eye(2), Kernel("precomputed"), np.float64)
    data.definite = True
    problem = BoxProblem(data, np.arange(2), box, cache_bytes=0)
    beta, b = np.array([1.0, 0.0]), -2.0
    assert box_gaps(box.target - beta - b, beta, box.low, box.high, 0.0).max() == 0.0
    assert problem.gap_by_rows(beta, b) >= 1.0
    assert problem.gap_by_rows(np.array([1.0, -1.0]), 0.0) < 1e-12  # the optimum


def shapes():
    X = RNG.normal(size=(24, 3))
    f = np.sin(2 * X[:, 0]) + 0.3 * RNG.normal(size=24)
    yield "plain", X, f
    yield "a constant column", np.column_stack([X, np.ones(24)]), f
    yield "columns of 1e8", X * [1e8, 1.0, 1e-8], f
    yield "equal rows", np.repeat(X[:8], 3, axis=0), f
    yield "one column", X[:, :1], f
    yield "three rows", X[:3], np.array([1.0, -1.0, -1.0])
    yield "sparse", sp.csr_array(np.where(np.abs(X) > 0.5, X, 0.0)), f


def exact_machine(model, X, f, weights):
    """The reference at the fitted point, and its optimum."""
    dense = X.toarray() if sp.issparse(X) else X
    K, sizes = kernel_values(model.kernel, dense, model.gamma_)
    C, coef = model.C * weights, np.zeros(len(f))
    fitted = model.dual_coef_
    coef[model.support_] = (fitted.toarray() if sp.issparse(fitted) else fitted)[0]
    b, y = model.intercept_[0], np.where(f > 0, 1.0, -1.0)
    if model.loss == "squared_hinge":
        return L2SVM(K, sizes, y.astype(LONG), C.astype(LONG), (coef * y).astype(LONG))
    if model.loss == "hinge":
        low, high = np.minimum(0, y * C), np.maximum(0, y * C)
        return BoxMachine(K, sizes, y, low, high, 0.0, 0.0, coef, b)
    width = LONG(model.epsilon_)
    if model.loss == "epsilon_insensitive":
        return BoxMachine(K, sizes, f, -C, C, width, 0.0, coef, b)
    of_tube = f.astype(LONG), C.astype(LONG), width, width, coef.astype(LONG)
    return TubeMachine(K + 1, sizes + 1, *of_tube)


LOSSES = "squared_hinge", "hinge", "squared_epsilon_insensitive", "epsilon_insensitive"


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("kernel", ["rbf", pytest.param("linear", marks=pytest.mark.wide)])
@pytest.mark.parametrize(
    "C, tol",
    [
        (1.0, 1e-12),
        *(pytest.param(*of, marks=pytest.mark.wide) for of in ((1.0, 1e-7), (1e4, 1e-12))),
    ],
)
def test_the_optimum_lies_in_the_ball_of_the_rows(loss, kernel, C, tol):
    kind = SwapSVC if "hinge" in loss else SwapSVR
    narrower = []
    for name, X, f in shapes():
        if kernel == "linear" and "1e8" in name:
            continue  # scores of 1e16 leave no digit
        y = (f > 0).astype(int) if kind is SwapSVC else f
        weights = np.random.default_rng(1).uniform(0.5, 2.0, len(f))
        model = quiet(kind(C, loss=loss, kernel=kernel, tol=tol, max_iter=20_000), X, y, weights)
        problem = exact_machine(model, X, f, weights)
        best, n = problem.optimum(), len(f)
        off = np.sqrt(2.0 * best.error)
        change = (best.point[:n] - problem.point[:n]) * getattr(problem, "signs", LONG(1))
        values = getattr(problem, "Z", None)
        values = problem.K if values is None else values
        apart = np.sqrt(max(float(change @ values @ change), 0.0))
        lost = np.sqrt(1e-16 * float(np.abs(change) @ np.abs(values) @ np.abs(change)))
        region = known_regions(model, KernelRegion, "")[0]
        assert apart <= region.radius + off + lost, name
        if isinstance(problem, BoxMachine):
            least, most = problem.intercepts(problem.K @ best.point[:n])
            moved = (off + lost) * float(np.sqrt(np.diag(problem.K).max())) + 1e-12
            b = model.intercept_[0]
            assert b - region.below <= least + moved and most - moved <= b + region.above, name
        narrower.append(region.radius / np.sqrt(2.0 * model.dual_gap_))
    assert max(narrower) <= 1.0 + 1e-9
    if tol == 1e-12 and kernel == "rbf":
        assert np.median(narrower) < (0.2 if "squared" in loss else 0.65)
