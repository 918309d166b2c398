"""BMRMRegressor: optima against other solvers, weights, and what its users see."""

from fractions import Fraction

import numpy as np
import pytest
from sklearn.base import clone

from sklearn_bundle import BMRMRegressor
from sklearn_bundle.losses import (
    Poisson,
    Quantile,
    RegressionLoss,
    SquaredError,
)
from tests.contract.fits import quiet

ROWS = 80
PARAMETERS = {
    "huber": {"delta": 1.0},
    "quantile": {"quantile": 0.8},
    "epsilon_insensitive": {"epsilon": 0.3},
    "squared_epsilon_insensitive": {"epsilon": 0.3},
}


@pytest.fixture(scope="module")
def X():
    return np.random.default_rng(0).normal(size=(ROWS, 5))


@pytest.fixture(scope="module")
def targets(X):
    """Heavy tails and ties; counts for "poisson"; two columns for the multivariate loss."""
    rng = np.random.default_rng(1)
    y = X @ [1.0, -2.0, 0.0, 0.5, 0.0] + 3.0 + rng.standard_t(2, size=ROWS)
    y = np.round(y, 1)
    return {"real": y, "poisson": rng.poisson(np.exp(X[:, 0])), "two": np.c_[y, X[:, 1] - y / 2]}


def target(targets, loss):
    return targets["poisson" if loss == "poisson" else "real"].astype(float)


def model(loss, **parameters):
    return BMRMRegressor(loss, **({"reg_lambda": 1e-2} | PARAMETERS.get(loss, {}) | parameters))


# ---- optima ------------------------------------------------------------------------------------


# HuberRegressor has no row here: it estimates the scale with the weights, which is another problem.


def exact_ridge(X, y, reg_lambda):
    """The least ``reg_lambda/2 |w|^2 + mean (X w - y)^2 / 2``, without rounding up to the end."""
    n, d = X.shape
    A = [[Fraction(x) for x in row] for row in np.c_[X, y].tolist()]
    rows = [[sum(r[j] * r[k] for r in A) / n for k in range(d + 1)] for j in range(d + 1)]
    for j in range(d):
        rows[j][j] += Fraction(reg_lambda)
    for j in range(d):  # what elimination leaves in the corner is the least square of (w, -1)
        for k in range(j + 1, d + 1):
            share = rows[k][j] / rows[j][j]
            rows[k] = [a - share * b for a, b in zip(rows[k], rows[j], strict=True)]
    return float(rows[d][d] / 2)


@pytest.mark.wide
@pytest.mark.parametrize("large", [1e6, 1e8])
@pytest.mark.parametrize("solver", ["line-search", "cutting-plane"])
def test_raw_columns(solver, large):
    """An id beside features of size 1: fits stalled with a gap of up to 100 %."""
    rng = np.random.default_rng(0)
    X = np.c_[rng.normal(size=(30, 2)), large * rng.integers(1, 4, 30)]
    y = X[:, 0] + 0.5 * rng.normal(size=30)
    ours = BMRMRegressor(reg_lambda=1e-4, tol=1e-6, solver=solver, fit_intercept=False).fit(X, y)
    best = exact_ridge(X, y, 1e-4)
    assert ours.status_ == "converged"
    assert ours.lower_bound_ <= best * (1 + 1e-12) and best <= ours.objective_ * (1 + 1e-12)


class PlainAbsolute(RegressionLoss):
    """Without the centered formulas of the package's own loss."""

    def value(self, scores, y):
        return np.abs(scores - y)

    def gradient(self, scores, y):
        return np.sign(scores - y)


@pytest.mark.parametrize("loss", ["poisson", PlainAbsolute()])
def test_a_fit_to_the_last_digit_is_no_broken_loss(loss):
    """The optimum is reg_lambda w^2 / 2 nearly; the terms that cancel are 1e11 times as large.

    Bounds that rounding had put above the objective were taken for a loss that is not convex.
    """
    X = np.arange(5.0)[:, None]
    scores = 0.2 * X[:, 0] - 0.1
    y = np.exp(scores) if loss == "poisson" else scores
    # of rounding, the plain loss may end
    ours = quiet(BMRMRegressor(loss, reg_lambda=1e-10, tol=1e-6), X, y)
    assert ours.lower_bound_ <= 2e-12
    assert ours.objective_ == pytest.approx(2e-12, rel=1e-5, abs=0.0)
    assert ours.dual_gap_ <= 1e-14  # the rounding of terms of size 1, which is told


# ---- weights -----------------------------------------------------------------------------------


# ---- errors ------------------------------------------------------------------------------------


def test_tags_are_those_of_the_loss_named_or_not():
    losses = "poisson", Poisson(), "squared_error", SquaredError(), "huber", "unknown"
    tags = [BMRMRegressor(loss).__sklearn_tags__().target_tags for loss in losses]
    assert [tag.positive_only for tag in tags] == [True, True, False, False, False, False]
    assert [tag.multi_output for tag in tags] == [False, False, True, True, True, False]


# ---- living with scikit-learn ------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["squared_error", "absolute_error", "poisson"])
def test_few_planes(X, targets, loss):
    y = target(targets, loss)
    all_planes = model(loss, tol=1e-6, solver="line-search").fit(X, y)
    few = clone(all_planes).set_params(bundle_size=5, max_iter=20_000, warm_start=True).fit(X, y)
    assert few._warm.kept[0].bundle.size <= 5
    assert few.objective_ == pytest.approx(all_planes.objective_, rel=2e-6)


@pytest.mark.parametrize("loss", ["absolute_error", "poisson", Quantile(0.8)], ids=str)
def test_several_targets_are_a_problem_each(X, targets, loss):
    Y = np.c_[targets["poisson"], np.abs(targets["two"])]
    ours = model(loss, tol=1e-6).fit(X, Y)
    alone = [model(loss, tol=1e-6).fit(X, y.astype(float)) for y in Y.T]
    assert np.array_equal(ours.coef_, [one.coef_ for one in alone])
    assert ours.intercept_.tolist() == [one.intercept_ for one in alone]
    assert ours.dual_gap_.tolist() == [one.dual_gap_ for one in alone]
    assert ours.status_ == ["converged"] * 3 and [len(h) for h in ours.history_] == [*ours.n_iter_]
    np.testing.assert_allclose(ours.predict(X).T, [one.predict(X) for one in alone], atol=1e-12)
    in_threads = clone(ours).set_params(n_jobs=2).fit(X, Y)
    assert np.array_equal(in_threads.coef_, ours.coef_)


def test_one_column_of_targets_is_a_vector(X, targets):
    with pytest.warns(UserWarning, match="column-vector"):
        ours = model("huber").fit(X, targets["real"][:, None])
    assert ours.predict(X).shape == (ROWS,) and isinstance(ours.intercept_, float)
