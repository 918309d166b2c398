"""StructuredSVM against SDCACRF, and with scikit-learn's tools, as common checks do on 2-D X."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics import accuracy_score, get_scorer
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from sklearn_bundle import SDCACRF, StructuredSVM, metrics
from sklearn_bundle.models import Chain, Multiclass
from tests.contract.chains import FORMS, named_chains
from tests.contract.user_models import Ranking, ranked_items

COST = [[0.0, 1.0, 2.0], [3.0, 0.0, 1.0], [1.0, 2.0, 0.0]]


@pytest.fixture(scope="module")
def chains():
    return named_chains(12, longest=4)


@pytest.fixture(scope="module")
def rows():
    X, y = load_iris(return_X_y=True)
    return X[::3], y[::3]


@pytest.fixture(scope="module")
def ranked():
    return ranked_items()


# ---- beside SDCACRF ---------------------------------------------------------------------------


@pytest.mark.parametrize("form", [*FORMS, "rows"])
def test_a_chain_has_the_attributes_of_the_crf(chains, form):
    X, y = (np.concatenate(part) for part in chains) if form == "rows" else chains
    X = X if form == "rows" else FORMS[form](X)
    svm, crf = StructuredSVM(random_state=0).fit(X, y), SDCACRF(random_state=0).fit(X, y)
    svms, crfs = {"w_", "model_", "exact_"}, {"_ridge"}
    of_svm, of_crf = set(vars(svm)) - set(svm.get_params()), set(vars(crf)) - set(crf.get_params())
    assert of_svm - svms == of_crf - crfs and svms < of_svm and crfs < of_crf
    for name in ("classes_", "coef_", "transitions_", "intercept_", "start_", "end_"):
        assert getattr(svm, name).shape == getattr(crf, name).shape
        assert getattr(svm, name).dtype == getattr(crf, name).dtype
    assert_array_equal(getattr(svm, "attribute_names_", []), getattr(crf, "attribute_names_", []))
    parts = svm.coef_, svm.transitions_, svm.intercept_, svm.start_, svm.end_
    assert_array_equal(svm.w_, np.concatenate([part.ravel() for part in parts]))
    ours, theirs = svm.predict(X), crf.predict(X)
    assert type(ours) is type(theirs)
    assert [np.shape(part) for part in ours] == [np.shape(part) for part in theirs]
    assert set(np.concatenate(ours, None)) <= set(svm.classes_)


def test_score_of_a_chain_is_the_share_of_tokens(chains):
    X, y = chains
    weights = np.arange(12) + 1.0
    model = StructuredSVM(random_state=0).fit(X[:6], y[:6])
    expected = metrics.token_accuracy_score(y, model.predict(X))
    assert model.score(X, y) == pytest.approx(expected, rel=1e-14)
    expected = metrics.token_accuracy_score(y, model.predict(X), sample_weight=weights)
    assert model.score(X, y, weights) == pytest.approx(expected, rel=1e-14)


def test_score_with_costs(chains, rows):
    """One less the cost of mistakes, over that of the worst ones."""
    cost = np.array(COST)
    X, y = chains
    model = StructuredSVM(Chain(cost=COST), random_state=0).fit(X[:4], y[:4])
    labels, found = (
        np.searchsorted(model.classes_, np.concatenate(z)) for z in (y, model.predict(X))
    )
    expected = 1.0 - cost[labels, found].sum() / cost.max(axis=1)[labels].sum()
    assert model.score(X, y) == pytest.approx(expected, rel=1e-14)
    X, y = rows
    model = StructuredSVM(Multiclass(cost=COST), reg_lambda=10.0, random_state=0).fit(X, y)
    weights = np.arange(len(y)) % 3 + 1.0
    expected = weights @ cost[y, model.predict(X)] / (weights @ cost.max(axis=1)[y])
    assert 0.0 < expected < 1.0
    assert model.score(X, y, weights) == pytest.approx(1.0 - expected, rel=1e-14)


# ---- what a kind of model has -------------------------------------------------------------------


def test_decision_values_of_classes(rows):
    X, y = rows
    three = StructuredSVM("multiclass", random_state=0).fit(X, y)
    scores = three.decision_function(X)
    assert_allclose(scores, X @ three.coef_.T, atol=1e-12)
    assert_array_equal(three.predict(X), three.classes_[scores.argmax(axis=1)])
    two = StructuredSVM("multiclass", random_state=0).fit(X[y > 0], y[y > 0])
    scores = two.decision_function(X)
    assert scores.shape == (50,) and two.coef_.shape == (1, 4)
    assert_allclose(scores, X @ two.coef_[0], atol=1e-12)
    assert_array_equal(two.predict(X), two.classes_[(scores > 0.0).astype(int)])


def test_a_classifier_among_scikit_learn_s(rows):
    X, y = rows
    y = np.array(["a", "b", "c"])[y]
    pipeline = make_pipeline(StandardScaler(), StructuredSVM("multiclass", random_state=0))
    scores = cross_val_score(pipeline, X, y, cv=3)  # stratified, as rows are sorted by label
    assert (scores > 0.8).all()
    pipeline.fit(X, y)
    assert pipeline.score(X, y) == pytest.approx(accuracy_score(y, pipeline.predict(X)))
    calibrated = CalibratedClassifierCV(pipeline, cv=3).fit(X, y)
    assert get_scorer("roc_auc_ovr")(calibrated, X, y) > 0.9


@pytest.mark.parametrize("method", ["predict", "score"])
def test_errors_of_prediction_have_the_number_of_the_example(method):
    good, wrong = np.ones((2, 2, 1)), np.ones((2, 2, 3))
    model = StructuredSVM("matching", random_state=0).fit([good], [[0, 1]])
    with pytest.raises(ValueError) as raised:
        if method == "predict":
            model.predict([good, wrong])
        else:
            model.score([good, good], [[0, 1], [1, 1]])
    assert raised.value.__notes__ == ["This is example 1 of those given."]


def test_a_users_model_predicts_a_list(ranked):
    X, y = ranked
    model = StructuredSVM(Ranking(), random_state=0).fit(X, y)
    found = model.predict(tuple(X))
    assert isinstance(found, list)
    for x, order in zip(X, found, strict=True):
        assert_array_equal(order, np.argsort(-x @ model.w_))
    losses = [model.model_.loss(*pair) for pair in zip(y, found, strict=True)]
    assert model.score(X, y) == pytest.approx(1.0 - sum(losses) / (12 * 4))
    assert not hasattr(model, "classes_") and not hasattr(model, "n_features_in_")
    stacked = StructuredSVM(Ranking(), random_state=0).fit(np.array(X), np.array(y))
    assert_array_equal(stacked.w_, model.w_)


# ---- searches, pipelines, routing --------------------------------------------------------------


def test_search_over_models_in_a_pipeline(ranked):
    double = FunctionTransformer(lambda X: [2.0 * x for x in X])
    pipeline = make_pipeline(double, StructuredSVM(Ranking(), random_state=0))
    grid = {"structuredsvm__model__decay": [0.3, 0.6], "structuredsvm__reg_lambda": [0.1]}
    search = GridSearchCV(pipeline, grid, cv=2).fit(*ranked)
    best = search.best_params_["structuredsvm__model__decay"]
    alone = StructuredSVM(Ranking(best), reg_lambda=0.1, random_state=0)
    alone.fit([2.0 * x for x in ranked[0]], ranked[1])
    assert_array_equal(search.best_estimator_[-1].w_, alone.w_)


def test_weights_reach_fit_and_score_through_a_search(chains):
    weights = np.arange(12) % 4 + 1.0
    with config_context(enable_metadata_routing=True):
        model = StructuredSVM(random_state=0).set_fit_request(sample_weight=True)
        model.set_score_request(sample_weight=True)
        search = GridSearchCV(model, {"reg_lambda": [0.1]}, cv=3)
        search.fit(*chains, sample_weight=weights)
    expected = StructuredSVM(random_state=0, reg_lambda=0.1).fit(*chains, weights)
    assert_array_equal(search.best_estimator_.w_, expected.w_)


# ---- objects ----------------------------------------------------------------------------------


def test_parameters_of_the_model_are_the_estimators_too():
    model = StructuredSVM(Chain(fit_intercept=False), reg_lambda=0.1)
    assert model.get_params()["model__fit_intercept"] is False
    copy = clone(model).set_params(model__cost=COST)
    assert model.model.cost is None and copy.model.cost is COST
    assert repr(model) == "StructuredSVM(model=Chain(fit_intercept=False), reg_lambda=0.1)"
    assert model._repr_html_()


def test_a_fit_forgets_the_one_before(chains, rows, ranked):
    """Of another kind: what it had and the next one has not is gone."""
    kinds = [
        ("chain", FORMS["dicts"](chains[0]), chains[1]),
        (Ranking(), *ranked),
        ("multiclass", *rows),
        ("chain", *chains),
    ]
    model = StructuredSVM(random_state=0)
    for kind, X, y in [*kinds, *kinds[::-1]]:
        model.set_params(model=kind).fit(X, y)
        fresh = StructuredSVM(kind, random_state=0).fit(X, y)
        assert set(vars(model)) == set(vars(fresh))
        assert_array_equal(
            np.concatenate(model.predict(X), None), np.concatenate(fresh.predict(X), None)
        )


# ---- errors -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "model, error, message",
    [
        ("crf", ValueError, r"one of 'chain', .*, or an instance .* Got 'crf' instead"),
        (Chain, TypeError, r"Got <class .* instead\. Pass an instance: Chain\(\.\.\.\)"),
        (StandardScaler(), TypeError, r"derived from .*models.StructuredModel.*Standard"),
        (None, TypeError, "Got None instead"),
    ],
    ids=str,
)  # fmt: skip
def test_what_is_no_model(chains, model, error, message):
    with pytest.raises(error, match=message):
        StructuredSVM(model).fit(*chains)


@pytest.mark.parametrize(
    "change, error, message",
    [
        (lambda X, y: (X[:-1], y), ValueError, r"inconsistent numbers of samples: \[11, 12\]"),
        (lambda X, y: ([], []), ValueError, "Found no structure in X, while a minimum of 1"),
        (lambda X, y: (X, None), ValueError, "requires y to be passed, but the target y is None"),
        (lambda X, y: (X, "abcdefghijkl"), TypeError, "y must be a list of structures.* 'abc.*str"),
    ],
)
def test_what_is_no_list_of_structures(ranked, change, error, message):
    model = StructuredSVM(Ranking())
    with pytest.raises(error, match=message):
        model.fit(*change(*ranked))
    assert vars(model).keys() == model.get_params(deep=False).keys()
    with pytest.raises(error, match=message):
        model.fit(*ranked).score(*change(*ranked))


def test_labels_that_fit_has_not_seen(rows):
    X, y = rows
    model = StructuredSVM("multiclass", random_state=0).fit(X[y > 0], y[y > 0])
    with pytest.raises(ValueError, match=r"y holds the label 0 \(row 0\), which StructuredSVM was"):
        model.score(X, y)


class Broken(Ranking):
    def loss_augmented_inference(self, x, y, w):
        raise RuntimeError("a user's model failed")


@pytest.mark.parametrize("fail", ["data", "model", "warning"])
def test_error_leaves_a_fitted_model_as_it_was(ranked, fail):
    X, y = ranked
    model = StructuredSVM(Ranking(), random_state=0).fit(X, y)
    before = set(vars(model)), model.w_.copy(), model.objective_
    if fail == "data":
        with pytest.raises(ValueError, match="inconsistent"):
            model.fit(X[1:], y)
    elif fail == "model":
        with pytest.raises(RuntimeError, match="user's model"):
            model.set_params(model=Broken()).fit(X, y)
    else:
        with warnings.catch_warnings(), pytest.raises(ConvergenceWarning):
            warnings.simplefilter("error")
            model.set_params(tol=1e-14, max_iter=1).fit(X, y)
    assert set(vars(model)) == before[0]
    assert_array_equal(model.w_, before[1])
    assert model.objective_ == before[2] and len(model.predict(X)) == 12


@pytest.mark.parametrize("method", ["predict", "certain"])
def test_unfitted(chains, method):
    with pytest.raises(NotFittedError):
        getattr(StructuredSVM(), method)(chains[0])
