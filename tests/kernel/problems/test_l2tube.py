"""Objectives and bounds of kernel machines with a tube, where sums of kernel values cancel."""

import numpy as np
import pytest

from sklearn_bundle import SwapNoveltyDetector, SwapSVC, SwapSVR
from sklearn_bundle.kernel.problems.l2tube import L2Tube, Tube
from sklearn_bundle.kernel.solvers.kernel_gradients import KernelGradients
from sklearn_bundle.kernel.values.kernel_data import KernelData
from sklearn_bundle.kernel.values.kernel_function import Kernel
from tests.contract.fits import quiet
from tests.contract.judge import judge
from tests.contract.subproblems import subproblems
from tests.reference_kernel import kernel_values
from tests.reference_programme import LONG
from tests.reference_tube import TubeMachine


def cancelling(seed, offset=30.0, C=10.0):
    """A polynomial kernel of points far from the origin, with its machine in extended precision."""
    rng = np.random.default_rng(seed)
    X = offset + rng.normal(size=(12, 2))
    tube = Tube(rng.normal(size=12), 0.05, 0.05)
    kernel = Kernel("poly", 1.0, 2, 1.0)
    problem = L2Tube(
        KernelData(X, kernel, np.float64), tube, np.full(12, C), intercept=True, cache_bytes=1e6
    )
    K, sizes = kernel_values("poly", X, 1.0, 1.0, 2)
    C = np.full(12, LONG(C))
    point = np.zeros(12, LONG)
    exact = TubeMachine(K + 1, sizes + 1, tube.y.astype(LONG), C, 0.05, 0.05, point)
    return rng, problem, exact


def test_rounding_of_the_square_is_taken_off_the_bound():
    """That of ``c'Kc``: sums of sizes 1e6 cancel."""
    n_close = 0
    for seed in range(30):
        rng, problem, exact = cancelling(seed)
        coef = problem.tube.y + 1e-3 * rng.normal(size=12)
        coef -= coef.mean()
        bound, _ = problem.certified_bound(coef)
        value = exact.bound(coef.astype(LONG))
        assert bound <= value
        n_close += value - bound <= 1e-6 * value
    assert n_close == 30


def test_the_gap_counts_the_rounding_of_the_objective():
    """The model is at most the gap above what the dual point proves."""
    above = 0
    for seed in range(12):
        _, problem, exact = cancelling(seed)
        solver = KernelGradients(problem)
        for _, _ in zip(range(4), solver.states(), strict=False):
            state = solver.confirm()
            proved, _ = problem.certified_bound(solver._dual.coef)
            value = exact.objective(state.point.astype(LONG))
            assert value - state.gap <= proved
            above += value > state.primal
    assert above > 0


def column_far_away(n=7):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 6))
    X[:, 2] = 25478.0
    return X, 50.0 * rng.normal(size=n)


@pytest.mark.parametrize("C", [1e3, 1e6])
@pytest.mark.parametrize("degree", [1, 2, 3])
@pytest.mark.parametrize("kind", [SwapSVR, SwapNoveltyDetector, SwapSVC])
def test_no_objective_is_below_that_of_the_model(kind, degree, C):
    """A constant column makes kernel values of 1e9 to 1e13, whose differences matter."""
    X, y = column_far_away()
    y = (y > 0).astype(int) if kind is SwapSVC else y
    settings = {"kernel": "poly", "gamma": 0.125, "degree": degree, "coef0": 1.0}
    model = quiet(kind(C, **settings, max_iter=2000), X, y)
    (part,) = subproblems(model, X, y)
    assert model.objective_ >= part.objective(part.point) * (1 - 1e-6)
    assert model.lower_bound_ >= 0.0
    judge(model, X, y)


@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf", "precomputed"])
def test_extended_sums_are_exact(kernel):
    """To the rounding of their result, with bounds on the errors that hold."""
    X, _ = column_far_away()
    coef = np.random.default_rng(1).normal(size=7)
    K, _ = kernel_values("poly" if kernel == "precomputed" else kernel, X, 1e-9, 1.0, 2)
    data = KernelData(
        K.astype(float) if kernel == "precomputed" else X, Kernel(kernel, 1e-9, 2, 1.0)
    )
    if kernel == "precomputed":
        K = K.astype(float).astype(LONG)
    found = data.extended_sums(coef, np.arange(7), np.arange(7))
    if np.finfo(LONG).eps > 1e-18:
        assert found is None
        return
    sums, errors = found
    exact = (K + 1) @ coef.astype(LONG)
    assert (np.abs(sums - exact) <= errors).all()
    assert (errors <= 1e-15 * np.abs(exact) + 1e-17 * (np.abs(K) @ np.abs(coef))).all()
