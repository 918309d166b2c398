"""Defaults of regressors in units of y: the model follows y if y is shifted and multiplied."""

import numpy as np
import pytest
from sklearn.linear_model import Lasso, QuantileRegressor
from sklearn.svm import LinearSVR

from sklearn_bundle import BMRMRegressor, BMRMRegressorCV, SwapSVR, SwapSVRCV
from sklearn_bundle.core.weights import spread
from sklearn_bundle.losses import AbsoluteError, Huber, RegressionLoss
from sklearn_bundle.regularizers import ElasticNet
from tests.contract.judge import judge

SCALE, SHIFT = 5e4, 2e5
LINEAR = "absolute_error", "quantile", "epsilon_insensitive"
QUADRATIC = "squared_error", "squared_epsilon_insensitive", "huber"
TIGHT = {"tol": 1e-6, "max_iter": 5000}


@pytest.fixture(scope="module")
def data():
    """Standardized columns; y of mean 0 and standard deviation 1 with heavy tails."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 4))
    y = X @ [0.5, -1.0, 0.0, 0.2] + rng.standard_t(3, size=150)
    return X, (y - y.mean()) / y.std()


def given(loss):
    """What the defaults are for a target of spread one, from the public description."""
    parameters = {"quantile": {"quantile": 0.95}, "huber": {"delta": 1.0}}
    tube = {"epsilon": 0.1}
    return parameters | {"epsilon_insensitive": tube, "squared_epsilon_insensitive": tube}


@pytest.mark.parametrize("regularizer", ["l2", "l1", pytest.param("lp", marks=pytest.mark.wide)])
@pytest.mark.parametrize("loss", [*LINEAR, *QUADRATIC])
def test_the_model_is_that_of_the_scaled_target(data, loss, regularizer):
    X, y = data
    kind = {"regularizer": regularizer} | TIGHT
    set_by_hand = BMRMRegressor(loss, reg_lambda=1e-4, **given(loss).get(loss, {}), **kind)
    quantile = {"quantile": 0.95} if loss == "quantile" else {}
    ours = BMRMRegressor(loss, **quantile, **kind).fit(X, SHIFT + SCALE * y)
    expected = SHIFT + SCALE * set_by_hand.fit(X, y).predict(X)
    # gaps of 1e-6 leave differences in w of about the root of that for losses without curvature
    assert np.abs(ours.predict(X) - expected).max() <= 2e-3 * SCALE
    p, q = 1 if loss in LINEAR else 2, 1 if regularizer == "l1" else 2
    assert ours.reg_lambda_ == pytest.approx(1e-4 * SCALE ** (p - q), rel=1e-12)
    if regularizer != "lp":
        judge(ours, X, SHIFT + SCALE * y)


def test_a_large_unit_no_longer_makes_constant_models(data):
    X, y = data
    for loss in ("huber", "absolute_error", "epsilon_insensitive"):
        assert BMRMRegressor(loss).fit(X, SHIFT + SCALE * y).score(X, SHIFT + SCALE * y) > 0.2


def test_the_values_are_attributes(data):
    X, y = data
    huber = BMRMRegressor("huber").fit(X, SCALE * y)
    tube = BMRMRegressor("epsilon_insensitive").fit(X, SCALE * y)
    assert huber.delta_ == pytest.approx(SCALE) and tube.epsilon_ == pytest.approx(0.1 * SCALE)
    assert not hasattr(huber, "epsilon_") and not hasattr(tube, "delta_")
    assert BMRMRegressor("huber", delta=3.0).fit(X, y).delta_ == 3.0
    for parameters in ({"loss": "poisson"}, {"loss": LogCosh()}, {"regularizer": "entropy"}):
        assert BMRMRegressor(**parameters).fit(X, np.abs(SCALE * y)).reg_lambda_ == 1e-4


class LogCosh(RegressionLoss):
    """Without a degree."""

    def value(self, scores, y):
        size = np.abs(scores - y)
        return size + np.log1p(np.exp(-2.0 * size)) - np.log(2.0)

    def gradient(self, scores, y):
        return np.tanh(scores - y)


def test_instances_keep_their_parameters(data):
    X, y = data
    assert BMRMRegressor(AbsoluteError()).fit(X, SCALE * y).reg_lambda_ == pytest.approx(
        1e-4 / SCALE
    )
    model = BMRMRegressor(Huber(2.0 * SCALE), **TIGHT).fit(X, SCALE * y)
    same = BMRMRegressor("huber", delta=2.0, **TIGHT).fit(X, y)
    assert not hasattr(model, "delta_")
    np.testing.assert_allclose(model.coef_, SCALE * same.coef_, rtol=1e-3, atol=1e-3 * SCALE)
    pure = BMRMRegressor(regularizer=ElasticNet(1.0)).fit(X, SCALE * y)
    assert pure.reg_lambda_ == pytest.approx(1e-4 * SCALE)


def test_a_weight_of_two_is_a_repeated_row(data):
    X, y = data
    weights = np.random.default_rng(1).integers(0, 3, len(y))
    repeated = np.repeat(np.arange(len(y)), weights)
    for loss in ("absolute_error", "huber", "epsilon_insensitive"):
        model = BMRMRegressor(loss, **TIGHT)
        ours = model.fit(X, SCALE * y, sample_weight=weights)
        values = ours.reg_lambda_, getattr(ours, "delta_", 1.0), getattr(ours, "epsilon_", 1.0)
        same = model.fit(X[repeated], SCALE * y[repeated])
        others = same.reg_lambda_, getattr(same, "delta_", 1.0), getattr(same, "epsilon_", 1.0)
        assert values == pytest.approx(others, rel=1e-12)


@pytest.mark.parametrize("loss", ["absolute_error", "huber"])
@pytest.mark.parametrize("free", [True, False])
@pytest.mark.parametrize(
    "y", [np.full(4, 3e5), np.zeros(4), [7.0], [1e30, -1e30], [1e-200, 3e-200]], ids=str
)
def test_plainest_targets(loss, free, y):
    """Of spread 0 (of which 1 is taken), one row, large and tiny numbers."""
    X, y = np.arange(len(y), dtype=float)[:, None] + 1.0, np.asarray(y)
    model = BMRMRegressor(loss, fit_intercept=free).fit(X, y)
    root = np.abs(y[0]) if len(y) != 2 else y[0] * np.sqrt(5.0) if y[1] > 0 else y[0]
    spread = root if not free else (y.max() - y.min()) / 2
    unit = 1.0 / (spread or 1.0) if loss == "absolute_error" else 1.0
    assert model.reg_lambda_ == pytest.approx(1e-4 * unit, rel=1e-12)
    if loss == "huber":
        assert model.delta_ == pytest.approx(spread or 1.0, rel=1e-12)
    assert np.isfinite(model.coef_).all() and model.converged_


@pytest.mark.parametrize(
    "y, expected",
    [([1e200, -1e200], 1e200), ([1e-200, -1e-200], 1e-200), ([1.7e308, -1.7e308], 1.7e308),
     ([5e-324, 5e-324], 1.0), ([0.1] * 7, 1.0)],
)  # fmt: skip
def test_squares_beyond_the_range_of_numbers(y, expected):
    assert spread(np.array(y), np.full(len(y), 1 / len(y)), True) == pytest.approx(expected)


def test_each_of_several_targets_has_its_own_unit(data):
    X, y = data
    Y = np.c_[y, SHIFT + SCALE * y]
    model = BMRMRegressor("huber", regularizer="l1", **TIGHT).fit(X, Y)
    judge(model, X, Y)
    assert model.reg_lambda_ == pytest.approx([1e-4, 1e-4 * SCALE])
    assert model.delta_ == pytest.approx([1.0, SCALE])
    np.testing.assert_allclose(model.coef_[1], SCALE * model.coef_[0], atol=1e-3 * SCALE)
    joint = BMRMRegressor(regularizer="l1").fit(X, Y)
    assert joint.reg_lambda_ == pytest.approx(1e-4 * np.sqrt((1.0 + SCALE**2) / 2.0))


def test_grids_of_a_search_follow_the_unit(data):
    X, y = data
    plain, scaled = (
        BMRMRegressorCV("absolute_error", reg_lambdas=4, cv=3).fit(X, c * y) for c in (1.0, SCALE)
    )
    np.testing.assert_allclose(scaled.reg_lambdas_, plain.reg_lambdas_ / SCALE, rtol=1e-12)
    np.testing.assert_allclose(scaled.scores_, plain.scores_, atol=2e-2)
    chosen = plain.reg_lambdas_ == plain.reg_lambda_  # scores of neighbors may differ by less
    assert scaled.mean_test_scores_[chosen] >= scaled.mean_test_scores_.max() - 2e-2


def test_kernels(data):
    """Its loss and its penalty grow alike, so that only epsilon has a unit."""
    X, y = data
    kind = {"C": 2.0, "tol": 1e-6, "random_state": 0}
    plain = SwapSVR(epsilon=0.1, **kind).fit(X, y)
    scaled = SwapSVR(**kind).fit(X, SCALE * y)
    assert scaled.epsilon_ == pytest.approx(0.1 * SCALE) and plain.epsilon_ == 0.1
    np.testing.assert_allclose(scaled.predict(X), SCALE * plain.predict(X), atol=1e-3 * SCALE)
    judge(scaled, X, SCALE * y)
    search = SwapSVRCV(Cs=[0.1, 1.0], cv=3).fit(X, SCALE * y)
    assert search.epsilon_ == pytest.approx(0.1 * SCALE)


# ---- C -----------------------------------------------------------------------------------------


def test_C_of_regression_is_that_of_linear_svr(data):
    X, y = data
    weights = np.random.default_rng(2).uniform(0.0, 2.0, len(y))
    for loss, theirs, factor in (
        ("epsilon_insensitive", "epsilon_insensitive", 1.0),
        ("squared_epsilon_insensitive", "squared_epsilon_insensitive", 2.0),
    ):
        other = LinearSVR(
            C=0.3, loss=theirs, epsilon=0.2, fit_intercept=False, tol=1e-10, max_iter=10**6
        ).fit(X, y, sample_weight=weights)
        ours = BMRMRegressor(
            loss, C=0.3 * factor, epsilon=0.2, fit_intercept=False, tol=1e-9, max_iter=5000
        ).fit(X, y, sample_weight=weights)
        assert ours.reg_lambda_ == pytest.approx(1.0 / (0.3 * factor * weights.sum()), rel=1e-12)
        np.testing.assert_allclose(ours.coef_, other.coef_, atol=1e-4)
        judge(ours, X, y, sample_weight=weights)


def test_reg_lambda_is_that_of_scikit_learn_in_units_of_y(data):
    """The default of 1e-4 for y of spread one, against other implementations on y as it is."""
    X, y = data
    lasso = Lasso(alpha=1e-4 * SCALE, tol=1e-10).fit(X, SCALE * y)
    ours = BMRMRegressor(regularizer="l1", tol=1e-9).fit(X, SCALE * y)
    np.testing.assert_allclose(ours.coef_, lasso.coef_, atol=1e-5 * SCALE)
    median = QuantileRegressor(quantile=0.5, alpha=1e-4).fit(X, SCALE * y)
    loss = {"loss": "quantile", "quantile": 0.5, "regularizer": "l1"}
    ours = BMRMRegressor(**loss, **TIGHT).fit(X, SCALE * y)
    np.testing.assert_allclose(ours.coef_, median.coef_, atol=1e-3 * SCALE)
