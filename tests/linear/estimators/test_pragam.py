"""PragamSVC as its users see it."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris, make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC

from sklearn_bundle import BMRMClassifier, PragamSVC
from sklearn_bundle.linear.solvers.hinge_gap import HingeDual
from tests.contract.fits import quiet
from tests.contract.interrupts import interrupt
from tests.reference import objective, optimum

TIGHT = {"tol": 1e-8, "max_iter": 100_000}


def weights_of(n, weighted):
    weights = np.random.default_rng(0).integers(1, 5, n) if weighted else np.ones(n)
    return weights / weights.sum()


# ---- the optimum ------------------------------------------------------------------------------


@pytest.mark.wide
@pytest.mark.matrix
@pytest.mark.parametrize("reg_lambda", [1e-3, 1e-1])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_optimum_of_a_cone_solver(data, fit_intercept, weighted, reg_lambda):
    X, y = data[0], np.where(data[1] == 1, 1.0, -1.0)
    s = weights_of(len(y), weighted)
    model = PragamSVC(reg_lambda=reg_lambda, fit_intercept=fit_intercept, **TIGHT).fit(X, y, s)
    best = optimum("hinge", X, y, s, reg_lambda, fit_intercept)
    assert model.status_ == "converged"
    assert model.lower_bound_ <= best * (1.0 + 1e-9)
    assert model.objective_ == pytest.approx(best, rel=2e-8)


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


@pytest.mark.wide
@pytest.mark.parametrize("lipschitz", ["adaptive", "power", 1e5])
@pytest.mark.parametrize("classes", [2, 3])
def test_certificate_in_plain_numpy(lipschitz, classes):
    X, y = load_iris(return_X_y=True)
    X, y = X[y < classes], y[y < classes]
    weights = np.random.default_rng(0).integers(0, 4, len(y)).astype(float)
    model = PragamSVC(reg_lambda=1e-2, lipschitz=lipschitz, max_iter=300, tol=1e-4)
    quiet(model, X, y, weights)
    s = weights / weights.sum()
    assert model.dual_coef_.shape == (len(model.coef_), len(model.support_))
    for k, (w, b) in enumerate(zip(model.coef_, model.intercept_, strict=True)):
        signs = np.where(y == (1 if classes == 2 else k), 1.0, -1.0)
        J = objective("hinge", X, signs, s, 1e-2, w, b)
        assert np.atleast_1d(model.objective_)[k] == pytest.approx(J, rel=1e-12)
        signed = np.zeros(len(y))
        signed[model.support_] = model.dual_coef_[k]
        alpha = signed * signs
        assert (alpha >= 0.0).all() and (alpha <= s * (1.0 + 1e-12)).all()
        assert abs(signed.sum()) < 1e-14
        p = X.T @ signed
        D = alpha.sum() - p @ p / (2.0 * 1e-2)
        # What rounding may add is taken off: more of it at a larger gap.
        assert (1.0 - 1e-8) * D <= np.atleast_1d(model.lower_bound_)[k] <= (1.0 + 1e-14) * D <= J


def test_dual_point_gives_the_weights(data):
    X, y = data
    model = PragamSVC(reg_lambda=1e-2, **TIGHT).fit(X, y)
    w = model.dual_coef_ @ X[model.support_] / 1e-2
    np.testing.assert_allclose(w, model.coef_, atol=2e-3)


@pytest.mark.wide
@pytest.mark.parametrize("shift", [5.0, 20.0, 100.0])
def test_shift_of_the_features_changes_nothing(cancer, shift):
    X, y = cancer
    model = PragamSVC(reg_lambda=1e-2, tol=1e-6)
    expected = clone(model).fit(X, y).objective_
    assert clone(model).fit(X + shift, y).objective_ == pytest.approx(expected, rel=1e-6)


@pytest.mark.wide
@given(seed=st.integers(0, 1000), weighted=st.booleans())
@settings(deadline=None, max_examples=15)
def test_objective_of_bmrm(seed, weighted):
    X, y = make_classification(60, 4, random_state=seed, flip_y=0.1)
    s = weights_of(60, weighted)
    ours = PragamSVC(reg_lambda=1e-2, tol=1e-7, max_iter=50_000).fit(X, y, s)
    theirs = BMRMClassifier(reg_lambda=1e-2, tol=1e-7, max_iter=5000).fit(X, y, s)
    assert ours.objective_ == pytest.approx(theirs.objective_, rel=2e-7)


# ---- weights ----------------------------------------------------------------------------------


@pytest.mark.parametrize("lipschitz", ["adaptive", 1e3])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_a_weight_is_a_repeated_row_in_every_iteration(data, fit_intercept, lipschitz):
    X, y = data
    counts = np.random.default_rng(0).integers(0, 4, len(y))
    model = PragamSVC(reg_lambda=1e-2, fit_intercept=fit_intercept, lipschitz=lipschitz)
    model.set_params(max_iter=100, tol=1e-12)
    weighted = quiet(clone(model), X, y, counts).history_
    repeated = quiet(clone(model), X.repeat(counts, axis=0), y.repeat(counts)).history_
    # The curvature that adapts L is a quotient of small differences: it has 8 digits or so.
    rtol = 1e-7 if lipschitz == "adaptive" else 1e-11
    for name in ("objective", "lower_bound"):
        np.testing.assert_allclose(weighted[name][:-1], repeated[name][:-1], rtol=rtol)
        # What is taken off the confirmed bound for rounding depends on the number of rows.
        np.testing.assert_allclose(weighted[name][-1], repeated[name][-1], rtol=max(rtol, 1e-9))
    assert np.array_equal(weighted["passes"], repeated["passes"])


def test_support_counts_the_rows_of_the_callers_data(data):
    X, y = data
    weight = np.ones(len(y))
    weight[:50] = 0.0
    model = PragamSVC(reg_lambda=1e-2).fit(X, y, weight)
    without = PragamSVC(reg_lambda=1e-2).fit(X[50:], y[50:])
    assert np.array_equal(model.support_, without.support_ + 50)
    assert np.array_equal(model.dual_coef_, without.dual_coef_)


# ---- living with scikit-learn -----------------------------------------------------------------


def test_history_counts_products(data):
    h = PragamSVC(reg_lambda=1e-2, tol=1e-6).fit(*data).history_
    assert (np.diff(h["objective"]) <= 0).all() and (np.diff(h["lower_bound"]) >= -1e-15).all()
    assert (np.diff(h["passes"])[:-1] >= 3).all()
    fixed = PragamSVC(reg_lambda=1e-2, lipschitz=1e4, tol=0.1).fit(*data).history_
    assert (np.diff(fixed["passes"])[:-1] == 3).all()


@pytest.mark.wide
@pytest.mark.matrix
@pytest.mark.parametrize("lipschitz", ["adaptive", "power"])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("classes", [2, 10])
def test_n_jobs_does_not_change_a_bit(classes, sparse, lipschitz, monkeypatch):
    monkeypatch.setattr("sklearn_bundle.core.parallel._BLOCK_ENTRIES", 5000)
    X, y = load_digits(return_X_y=True)
    X, y = (sp.csr_matrix(X) if sparse else X) / 16.0, y % classes
    model = PragamSVC(reg_lambda=1e-2, tol=1e-2, lipschitz=lipschitz, random_state=0)
    one = clone(model).fit(X, y)
    for n_jobs in (2, 3):
        many = clone(model).set_params(n_jobs=n_jobs).fit(X, y)
        assert np.array_equal(one.coef_, many.coef_)
        assert np.array_equal(one.dual_coef_, many.dual_coef_)


def test_random_state_is_the_start_of_the_power_iteration(data):
    model = PragamSVC(reg_lambda=1e-2, lipschitz="power", random_state=0)
    assert np.array_equal(clone(model).fit(*data).coef_, clone(model).fit(*data).coef_)
    other = clone(model).set_params(random_state=1).fit(*data)
    assert other.objective_ == pytest.approx(clone(model).fit(*data).objective_, rel=2e-3)


def test_warm_start_from_the_dual_point(data):
    X, y = data
    warm = PragamSVC(reg_lambda=1e-2, tol=1e-5, warm_start=True).fit(X, y)
    first = warm.n_iter_
    assert warm.fit(X, y).n_iter_ < 0.5 * first
    warm.set_params(reg_lambda=0.9e-2).fit(X, y)
    cold = PragamSVC(reg_lambda=0.9e-2, tol=1e-5).fit(X, y)
    assert warm.n_iter_ <= cold.n_iter_
    assert warm.objective_ == pytest.approx(cold.objective_, rel=2e-5)
    other = clone(warm).fit(X[:100], y[:100]).objective_
    assert warm.fit(X[:100], y[:100]).objective_ == pytest.approx(other, rel=2e-5)
    assert "_warm" not in vars(pickle.loads(pickle.dumps(warm)))


@pytest.mark.parametrize(
    "parameters",
    [
        {"reg_lambda": 0.0},
        {"lipschitz": "newton"},
        {"lipschitz": 0.0},
        {"lipschitz": np.inf},
        {"lipschitz": None},
        {"tol": -1.0},
        {"max_iter": 0},
        {"max_time": 0.0},
        {"fit_intercept": "yes"},
        {"class_weight": "even"},
        {"n_jobs": 1.5},
        {"random_state": "seed"},
        {"warm_start": None},
        {"verbose": -1},
    ],
    ids=str,
)
def test_bad_parameter_is_named(data, parameters):
    (name,) = parameters
    model = PragamSVC(**parameters)
    with pytest.raises(ValueError, match=f"The '{name}' parameter of PragamSVC must be"):
        model.fit(*data)
    assert not hasattr(model, "coef_")


def test_a_miss_warns_once_and_says_what_to_change(data):
    message = r"'max_iter' after 3 iterations at a relative duality gap of .*, above tol"
    with pytest.warns(ConvergenceWarning, match=message) as record:
        model = PragamSVC(max_iter=3, tol=1e-9).fit(*data)
    assert len(record) == 1 and model.status_ == "max_iter" and model.n_iter_ == 3


@pytest.mark.parametrize("classes", [2, 10])
def test_ctrl_c_keeps_the_best_point(classes, monkeypatch):
    """In the middle of a step."""
    X, y = load_digits(return_X_y=True)
    interrupt(monkeypatch, 12, (HingeDual, "project"))
    model = PragamSVC(tol=1e-12)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y % classes)
    assert "interrupted" in model.status_
    assert np.isfinite(model.dual_gap_).all() and model.predict(X).shape == y.shape
    assert model.dual_coef_.shape == (len(model.coef_), len(model.support_))


def test_a_small_lipschitz_constant_leaves_the_certificate_true(data):
    X, y = data
    model = PragamSVC(reg_lambda=1e-2, lipschitz=1e-2, max_iter=200, tol=1e-6)
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        model.fit(X, y)
    best = BMRMClassifier(reg_lambda=1e-2, tol=1e-8, max_iter=5000).fit(X, y).objective_
    assert model.lower_bound_ <= best * (1 + 1e-8) and model.objective_ >= best * (1 - 1e-8)
