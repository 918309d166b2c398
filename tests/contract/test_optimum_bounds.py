"""Bounds of the exact optimum's scores, labels and test scores, against nearly exact optima."""

import numpy as np
import pytest
from sklearn.base import clone

from sklearn_bundle import (
    SDCACRF,
    BMRMClassifier,
    BMRMNoveltyDetector,
    BMRMRegressor,
    PragamSVC,
    StructuredSVM,
    SwapNoveltyDetector,
    SwapSVC,
    SwapSVR,
)
from sklearn_bundle.models import Chain
from sklearn_bundle.regularizers import ElasticNet, Quadratic
from tests import reference_chain as reference
from tests.contract.chains import parts
from tests.contract.fits import quiet

TOLS = 1e-2, 1e-3, 1e-6, 1e-9


def data(n=120, d=4, seed=0, noise=1.0):
    """Rows with offsets and scales, and scores that depend on them."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * np.geomspace(0.1, 3.0, d) + np.arange(d)
    f = (X - X.mean(axis=0)) @ (rng.normal(size=d) / X.std(axis=0))
    return X, f + noise * rng.normal(size=n)


X, F = data()
TEST = data(seed=1)[0]
LABELS, GRADES = (F > 0.3).astype(int), np.digitize(F, [-1.0, 1.0])
STRONG = {"reg_lambda": 1e-2}

CLASSIFIERS = [
    *(BMRMClassifier(loss, **STRONG) for loss in ("hinge", "squared_hinge", "log_loss")),
    BMRMClassifier("hinge", regularizer="elasticnet", **STRONG),
    BMRMClassifier("log_loss", fit_intercept=False, **STRONG),
    BMRMClassifier("multiclass_hinge", fit_intercept=False, **STRONG),
    BMRMClassifier("softmax", **STRONG),
    BMRMClassifier("roc_auc", **STRONG),
    PragamSVC(**STRONG),
    SwapSVC(),
    SwapSVC(decision_function_shape="ovo"),
    SwapSVC(kernel="linear", break_ties=True),
    SwapSVC(loss="hinge", C=3.0),
]
REGRESSORS = [
    *(BMRMRegressor(loss, **STRONG) for loss in ("squared_error", "absolute_error", "huber")),
    BMRMRegressor("squared_epsilon_insensitive", regularizer=ElasticNet(0.3), **STRONG),
    BMRMRegressor("quantile", quantile=0.8, regularizer=Quadratic([1.0, 2.0, 3.0, 4.0]), **STRONG),
    SwapSVR(),
    SwapSVR(loss="squared_epsilon_insensitive"),
]


def at(model, tol):
    return clone(model).set_params(tol=max(tol, 1e-7) if isinstance(model, PragamSVC) else tol)


def inside(low, values, high):
    slack = 1e-9 * (1.0 + np.abs(values).max())
    return bool((low - slack <= values).all() and (values <= high + slack).all())


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("model", CLASSIFIERS, ids=str)
def test_classifiers(model, n_classes):
    y = LABELS if n_classes == 2 else GRADES
    exact = quiet(at(model, 1e-12), X, y)
    chosen = getattr(model, "loss", None) == "roc_auc"  # an intercept that no objective has
    truth, widths = exact.decision_function(TEST) - chosen * exact.intercept_, []
    for tol in TOLS:
        fitted = quiet(at(model, tol), X, y)
        low, high = (end - chosen * fitted.intercept_ for end in fitted.decision_bounds(TEST))
        assert low.shape == high.shape == truth.shape
        assert inside(low, truth, high)
        widths.append(np.mean(high - low))
        if chosen:
            continue
        certain, same = fitted.certain(TEST), fitted.predict(TEST) == exact.predict(TEST)
        assert certain.dtype == bool and same[certain].all()
        least, most = fitted.score_bounds(X, y)
        assert 0.0 <= least <= exact.score(X, y) <= most <= 1.0
        assert least <= fitted.score(X, y) <= most
    assert widths[-1] < 0.1 and (chosen or certain.mean() > 0.9)


@pytest.mark.parametrize("model", REGRESSORS, ids=str)
def test_regressors(model):
    exact = quiet(at(model, 1e-12), X, F)
    for tol in TOLS:
        fitted = quiet(at(model, tol), X, F)
        low, high = fitted.predict_bounds(TEST)
        assert inside(low, exact.predict(TEST), high)
        least, most = fitted.score_bounds(X, F)
        assert least <= exact.score(X, F) + 1e-12 and exact.score(X, F) <= most + 1e-12
    assert np.mean(high - low) < 0.02 and most - least < 0.01


def test_poisson_and_several_targets():
    counts = np.random.default_rng(0).poisson(np.exp(0.3 * F))
    several = np.c_[F, -(F**2)]
    for y, loss in ((counts, "poisson"), (several, "squared_error"), (several, "huber")):
        model = BMRMRegressor(loss, **STRONG)
        exact, fitted = quiet(at(model, 1e-12), X, y), quiet(at(model, 1e-6), X, y)
        low, high = fitted.predict_bounds(TEST)
        assert low.shape == exact.predict(TEST).shape
        assert inside(low, exact.predict(TEST), high)


@pytest.mark.parametrize(
    "model",
    [
        BMRMNoveltyDetector(nu=0.2),
        BMRMNoveltyDetector(),
        SwapNoveltyDetector(nu=None),
        SwapNoveltyDetector(nu=None, contamination=0.1),
        SwapNoveltyDetector(nu=0.3),
    ],
    ids=str,
)
def test_detectors(model):
    rows, test = X + 4.0, TEST + 4.0
    exact = quiet(at(model, 1e-12), rows)
    for tol in TOLS:
        fitted = quiet(at(model, tol), rows)
        low, high = fitted.decision_bounds(test)
        assert inside(low, exact.decision_function(test), high)
        same = fitted.predict(test) == exact.predict(test)
        assert same[fitted.certain(test)].all()
    assert fitted.certain(test).mean() > 0.9


@pytest.mark.parametrize(
    "model",
    [
        SDCACRF(reg_lambda=0.05),
        SDCACRF(reg_lambda=0.05, fit_intercept=False),
        SDCACRF(reg_lambda=0.05, l1_ratio=0.4),
        StructuredSVM(Chain(), reg_lambda=0.05),
        StructuredSVM(Chain(fit_intercept=False), reg_lambda=0.05),
    ],
    ids=str,
)
def test_chains(model):
    """No w in the ball of the gap prefers a labeling with another label where it is certain."""
    X, y = reference.made()
    biased, ridge = getattr(model, "model", model).fit_intercept, 1 - getattr(model, "l1_ratio", 0)
    problem = reference.Model(X, y, 3, 0.05, intercept=biased)
    for tol in TOLS[1:]:
        fitted = quiet(clone(model).set_params(tol=tol, max_iter=2000), X, y)
        radius = np.sqrt(2.0 * fitted.dual_gap_ / (0.05 * ridge))
        w = problem.joined(*parts(fitted))
        certain = fitted.certain(X)
        for i, (labels, sure) in enumerate(zip(fitted.predict(X), certain, strict=True)):
            best = problem.features_of(i, labels)
            for other in reference.labelings(len(labels), 3):
                if (sure & (other != labels)).any():
                    change = best - problem.features_of(i, other)
                    assert w @ change > radius * np.linalg.norm(change)
    assert np.concatenate(certain).mean() > 0.9


LINEAR, KERNEL = "bounds no scores of the optimum: that takes", r"need k\(x, x\) of the samples"


@pytest.mark.parametrize(
    "model, message",
    [
        (BMRMClassifier(regularizer="l1"), LINEAR),
        (BMRMClassifier(regularizer="elasticnet", l1_ratio=1.0), LINEAR),
        (BMRMClassifier("fbeta"), LINEAR),
        (BMRMClassifier("multiclass_hinge"), LINEAR),
        (SwapSVC(kernel="precomputed"), KERNEL),
    ],
    ids=str,
)
def test_where_no_gap_says_anything(model, message):
    rows = X @ X.T if message is KERNEL else X
    quiet(model, rows, LABELS)
    for call in (model.decision_bounds, model.certain, lambda X: model.score_bounds(X, LABELS)):
        with pytest.raises(ValueError, match=message):
            call(rows)


def test_a_gap_that_is_too_large_says_nothing():
    model = quiet(BMRMClassifier(reg_lambda=1e-7, tol=0.5, max_iter=1), X, LABELS)
    low, high = model.decision_bounds(X)
    assert (low < -1e3).all() and (high > 1e3).all()
    assert model.score_bounds(X, LABELS) == (0.0, 1.0) and not model.certain(X).any()
    model = quiet(BMRMRegressor("huber", reg_lambda=1e-9, tol=0.5, max_iter=1), X, F)
    low, high = model.score_bounds(X, F)
    assert low < -1e3 and high == 1.0
