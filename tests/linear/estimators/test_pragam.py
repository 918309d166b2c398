"""PragamSVC as its users see it."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC

from sklearn_bundle import BMRMClassifier, PragamSVC
from tests.reference import objective

TIGHT = {"tol": 1e-8, "max_iter": 100_000}


def weights_of(n, weighted):
    weights = np.random.default_rng(0).integers(1, 5, n) if weighted else np.ones(n)
    return weights / weights.sum()


# ---- the optimum ------------------------------------------------------------------------------


@pytest.mark.wide
@pytest.mark.parametrize("class_weight", [None, "balanced", {0: 1.0, 1: 5.0}])
@pytest.mark.parametrize("weighted", [False, True])
def test_optimum_and_intercept_of_svc(data, weighted, class_weight):
    """b and w agree to the freedom that a relative gap of 1e-8 leaves: ||dw||^2 <= 2 gap/lambda."""
    X, y = data
    reg_lambda = 1e-2
    s = weights_of(len(y), weighted)
    model = PragamSVC(reg_lambda=reg_lambda, class_weight=class_weight, **TIGHT).fit(X, y, s)
    factors = class_weight or {0: 1.0, 1: 1.0}
    if class_weight == "balanced":
        factors = {k: 1.0 / s[y == k].sum() for k in (0, 1)}
    merged = s * np.where(y == 1, factors[1], factors[0])
    merged /= merged.sum()
    peer = SVC(kernel="linear", C=1.0 / reg_lambda, tol=1e-9).fit(X, y, sample_weight=merged)
    signs = np.where(y == 1, 1.0, -1.0)
    theirs = objective("hinge", X, signs, merged, reg_lambda, peer.coef_[0], peer.intercept_[0])
    assert model.lower_bound_ <= theirs  # SVC itself ends about 1e-7 above the optimum
    assert model.objective_ == pytest.approx(theirs, rel=2e-7)
    np.testing.assert_allclose(model.coef_, peer.coef_, atol=2e-3)
    np.testing.assert_allclose(model.intercept_, peer.intercept_, atol=2e-3)


def test_dual_point_gives_the_weights(data):
    X, y = data
    model = PragamSVC(reg_lambda=1e-2, **TIGHT).fit(X, y)
    w = model.dual_coef_ @ X[model.support_] / 1e-2
    np.testing.assert_allclose(w, model.coef_, atol=2e-3)


# ---- weights ----------------------------------------------------------------------------------


# ---- living with scikit-learn -----------------------------------------------------------------


def test_random_state_is_the_start_of_the_power_iteration(data):
    model = PragamSVC(reg_lambda=1e-2, lipschitz="power", random_state=0)
    assert np.array_equal(clone(model).fit(*data).coef_, clone(model).fit(*data).coef_)
    other = clone(model).set_params(random_state=1).fit(*data)
    assert other.objective_ == pytest.approx(clone(model).fit(*data).objective_, rel=2e-3)


def test_a_small_lipschitz_constant_leaves_the_certificate_true(data):
    X, y = data
    model = PragamSVC(reg_lambda=1e-2, lipschitz=1e-2, max_iter=200, tol=1e-6)
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        model.fit(X, y)
    best = BMRMClassifier(reg_lambda=1e-2, tol=1e-8, max_iter=5000).fit(X, y).objective_
    assert model.lower_bound_ <= best * (1 + 1e-8) and model.objective_ >= best * (1 - 1e-8)
