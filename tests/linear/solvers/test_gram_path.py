"""Paths of squared errors from products: certificates in exact arithmetic, and passes over X."""

from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp

from sklearn_bundle import bmrm_path
from sklearn_bundle.linear.problems.linear import LinearProblem
from sklearn_bundle.linear.rows.memory_rows import rows_in_memory
from sklearn_bundle.linear.solvers._columns import ColumnModel
from sklearn_bundle.linear.solvers.gram_path import GramPath
from sklearn_bundle.losses import SquaredError
from sklearn_bundle.regularizers import L1, ElasticNet, WeightedL1

N, D = 60, 4
RATIO = 0.5
LAMBDAS = np.geomspace(1.0, 1e-3, 8)


def draw(far, noise):
    """Two columns are nearly the same; the fit is good, and all is ``far`` from 0."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, D))
    X[:, 1] = X[:, 0] + 1e-3 * X[:, 1]
    y = X @ [1.0, 1.0, -1.0, 0.0] + noise * rng.normal(size=N)
    return X + far, y + far


def solve(X, y, omega, free, tol):
    problem = LinearProblem(rows_in_memory(X), y, np.full(N, 1.0 / N), SquaredError(), free)
    path = GramPath(ColumnModel(problem), omega.bind(D, D))
    return path.solve(LAMBDAS, tol, 100, None), problem


def exact_objective(X, y, w, b, reg_lambda, l1_ratio):
    """In rational numbers, so that nothing is rounded."""
    w, b, weight = [Fraction(v) for v in w], Fraction(b), Fraction(1.0 / N)
    risk = sum(
        weight * (Fraction(t) - b - sum(Fraction(x) * v for x, v in zip(row, w, strict=True))) ** 2
        for row, t in zip(X.tolist(), y.tolist(), strict=True)
    )
    ratio = Fraction(l1_ratio)
    omega = ratio * sum(map(abs, w)) + (1 - ratio) / 2 * sum(v * v for v in w)
    return Fraction(reg_lambda) * omega + risk / 2


@pytest.mark.parametrize("l1_ratio", [1.0, RATIO])
@pytest.mark.parametrize(
    "convert, far, noise, tol",
    [
        (np.asarray, 0.0, 1e-1, 1e-4),
        (sp.csr_array, 300.0, 1e-2, 1e-3),
        (np.asarray, 3e4, 1e-2, 1e-3),  # by the data
    ],
)
def test_certificates_are_true_in_exact_arithmetic(l1_ratio, convert, far, noise, tol):
    X, y = draw(far, noise)
    omega = L1() if l1_ratio == 1.0 else ElasticNet(l1_ratio)
    found, _ = solve(convert(X), y, omega, True, tol)
    best, _ = solve(X - far, y - far, omega, True, 1e-8)
    assert all(found) and all(best)
    for reg_lambda, one, other in zip(LAMBDAS, found, best, strict=True):
        reached = exact_objective(X, y, one.w, one.intercept, reg_lambda, l1_ratio)
        assert abs(one.objective - reached) <= 1e-7 * reached
        # Any point is above the bound: that of a far sharper path is hardly above the optimum.
        b = Fraction(other.intercept) + Fraction(far) * (1 - sum(map(Fraction, other.w)))
        lowest = exact_objective(X, y, other.w, b, reg_lambda, l1_ratio)
        assert one.lower_bound <= lowest * (1 + Fraction(1, 10**9))
        assert one.objective - one.lower_bound <= tol * one.objective


def test_ordinary_data_are_looked_at_once():
    found, problem = solve(*draw(0.0, 1e-1), L1(), True, 1e-4)
    assert all(found) and problem.passes <= 5


def test_where_rounding_matters_the_data_confirm_all_values_together():
    found, problem = solve(*draw(3e5, 1e-1), L1(), True, 1e-2)
    assert all(found) and 5 < problem.passes <= 7


def test_products_out_of_range_are_left_to_single_fits():
    X, y = draw(0.0, 1e-1)
    settings = {"loss": "squared_error", "regularizer": "l1", "reg_lambdas": [0.5, 0.1]}
    plain = bmrm_path(X, y, **settings)[1]
    tiny, large = 1e-130, 1e130
    for scale in (tiny, large):
        scaled = bmrm_path(X * scale, y * scale, **settings | {"reg_lambdas": [scale**2 / 2]})
        # ||w||_1 is of the order 1, and the risk of that of the scale's square
        np.testing.assert_allclose(scaled[1][:, 0], plain[:, 0], atol=1e-2)


def test_weights_of_features_in_a_path():
    X, y = draw(0.0, 1e-1)
    weights = np.array([1.0, 2.0, 3.0, 4.0])
    found, _ = solve(X, y, WeightedL1(weights), False, 1e-8)
    scaled, _ = solve(X / weights, y, L1(), False, 1e-8)
    for one, other in zip(found, scaled, strict=True):
        np.testing.assert_allclose(one.objective, other.objective, rtol=2e-8)


def test_a_limit_of_time_leaves_the_rest_of_the_path():
    X, y = draw(0.0, 1e-1)
    problem = LinearProblem(rows_in_memory(X), y, np.full(N, 1.0 / N), SquaredError(), True)
    path = GramPath(ColumnModel(problem), L1().bind(D, D))
    found = path.solve(LAMBDAS, 1e-4, 100, 0.0)
    assert found[0] is not None and not any(found[1:])


def test_a_bound_where_slopes_are_as_small_as_their_rounding():
    """At w = 0 only the allowance for rounding lowers the bound.

    With X = [a - e b, a + e b] and y = b, orthogonal and of length 1, w = (-t, t) / (2 e) has the
    objective reg_lambda t / e + (1 - t)^2 / 2. At 0 the dual point is y, and X'y = (-e, e); e is
    what rounding may amount to.
    """
    a, b = np.array([1.0, -1.0, 1.0, -1.0]), np.array([1.0, 1.0, -1.0, -1.0])
    e = (4 + 4 * 2 + 40) * np.finfo(float).eps  # a multiple of the precision: X is exact
    X, reg_lambda = np.c_[a - e * b, a + e * b], 0.2 * e
    problem = LinearProblem(rows_in_memory(X), b, np.full(4, 0.25), SquaredError(), False)
    path = GramPath(ColumnModel(problem), L1().bind(2, 2))
    bound, _ = path._prove(np.zeros(2), np.array([e, -e]), np.full(2, reg_lambda), reg_lambda)
    assert bound <= 0.2 * 0.8 + 0.2**2 / 2  # at t = 0.8
