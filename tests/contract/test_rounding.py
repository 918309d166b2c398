"""Where rounding is as large as the gap: columns far from zero, kernel values that cancel.

What rounding may have added to a bound has to be taken off. Integers plus a power of two: products
lose digits that the data have.
"""

import numpy as np
import pytest
from sklearn.base import clone

from sklearn_bundle import (
    SDCACRF,
    BMRMClassifier,
    BMRMRegressor,
    PragamSVC,
    StructuredSVM,
    SwapSVC,
    SwapSVR,
)
from tests.contract.fits import quiet
from tests.contract.judge import judge

WEAK = {"reg_lambda": 6.5e-7}
MODELS = [
    *(BMRMClassifier(loss, **WEAK) for loss in ("hinge", "squared_hinge", "log_loss")),
    BMRMClassifier("hinge", solver="line-search", **WEAK),
    BMRMClassifier("multiclass_hinge", solver="dual-coordinate", **WEAK),
    BMRMClassifier("softmax", **WEAK),
    BMRMRegressor("absolute_error", **WEAK),
    BMRMRegressor("quantile", solver="dual-coordinate", **WEAK),
    BMRMRegressor("huber", **WEAK),
    PragamSVC(**WEAK),
    *(SwapSVC(1e3, kernel="linear", loss=loss) for loss in ("squared_hinge", "hinge")),
    SwapSVC(1e6, kernel="poly", degree=2, gamma=1.0),
    SwapSVR(1e3, kernel="linear", loss="squared_epsilon_insensitive", epsilon=0.1),
    SwapSVR(1e3, kernel="linear", loss="epsilon_insensitive", epsilon=0.1),
    SDCACRF(random_state=0, **WEAK),
    StructuredSVM("multiclass", random_state=0, **WEAK),
]


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_no_bound_is_above_the_optimum(model):
    for seed in range(2):
        rng = np.random.default_rng(seed)
        X = np.round(4.0 * rng.normal(size=(9, 6))) + 2.0**20
        y = np.round(rng.normal(size=9), 2) if "R(" in str(model) else np.arange(9) % 2
        if isinstance(model, BMRMRegressor):
            y = np.round(rng.normal(size=9), 2)
        judge(quiet(clone(model).set_params(tol=1e-8, max_iter=30), X, y), X, y)


@pytest.mark.parametrize("offset", [0.0, 2.0**10])
def test_the_gap_has_what_rounding_may_hide_of_the_objective(offset):
    """The optimum has an objective of 10, in units of which the coefficients go up to 1e6."""
    for seed in range(2):
        rng = np.random.default_rng(seed)
        X = np.round(4.0 * rng.normal(size=(9, 6))) + offset
        y = np.arange(9) % 2
        judge(quiet(SwapSVC(1e6, loss="hinge", tol=1e-8, max_iter=3000), X, y), X, y)


def test_rounding_is_next_to_nothing_on_scaled_data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 10))
    y = X[:, 0] + rng.normal(size=500)
    for loss in ("squared_error", "huber"):
        assert BMRMRegressor(loss, reg_lambda=1e-3, tol=1e-12).fit(X, y).converged_
    assert BMRMClassifier("log_loss", reg_lambda=1e-3, tol=1e-12).fit(X, y > 0).converged_
    assert SwapSVC(tol=1e-9).fit(X, y > 0).converged_
