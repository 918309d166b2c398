"""A loss of one's own whose gradient has the wrong sign, the commonest mistake."""

import numpy as np
import pytest

from sklearn_bundle import BMRMClassifier, BMRMRegressor, bmrm_path
from sklearn_bundle.losses import BinaryLoss, RegressionLoss
from tests.contract.user_losses import SquaredMargins

X = np.random.default_rng(0).normal(size=(60, 3))
MESSAGE = r"^{0}\.gradient is not the derivative of {0}\.value"


class Residual(RegressionLoss):
    def value(self, scores, y):
        return 0.5 * (scores - y) ** 2

    def gradient(self, scores, y):
        return y - scores


class Margin(BinaryLoss):
    def value(self, scores, y):
        return np.maximum(0.0, 1.0 - y * scores)

    def gradient(self, scores, y):
        return np.where(y * scores < 1.0, y, 0.0)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("regularizer", ["l2", "l1"])
def test_the_message_names_both_methods(regularizer, fit_intercept):
    settings = {"regularizer": regularizer, "fit_intercept": fit_intercept}
    with pytest.raises(ValueError, match=MESSAGE.format("Residual")):
        BMRMRegressor(Residual(), **settings).fit(X, X[:, 0] + 5.0)
    with pytest.raises(ValueError, match=MESSAGE.format("Margin")):
        BMRMClassifier(Margin(), **settings).fit(X, X[:, 0] > 0.0)


def test_a_path_says_the_same():
    with pytest.raises(ValueError, match=MESSAGE.format("Margin")):
        bmrm_path(X, X[:, 0] > 0.0, loss=Margin(), regularizer="l1")


def test_a_gradient_of_another_shape_is_called_that():
    class Flat(Residual):
        def gradient(self, scores, y):
            return scores[:, None]

    with pytest.raises(ValueError, match=r"Flat.gradient must return an array of shape \(60,\)"):
        BMRMRegressor(Flat()).fit(X, X[:, 0])


class SteepMargins(SquaredMargins):
    def gradient(self, scores, y):
        return 1.5 * super().gradient(scores, y)


@pytest.mark.parametrize("solver", ["line-search", "cutting-plane"])
def test_a_gradient_of_another_function_is_found_out(solver):
    """It converges, and the bound that it gives is false."""
    with pytest.raises(ValueError, match=MESSAGE.format("SteepMargins")):
        BMRMClassifier(SteepMargins(), solver=solver, reg_lambda=0.1).fit(X, np.arange(60) % 3)
