"""Predictions of a fitted SDCACRF: probabilities, labelings, shapes, forms of the same data."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import cross_val_predict, learning_curve

from sklearn_bundle import SDCACRF
from sklearn_bundle.metrics import token_accuracy_score
from tests import reference_chain as reference
from tests.reference_chain import made

NAMES = ["left", "right", "up", "down"]
LABELS = np.array(["B", "I", "O"])


@pytest.fixture(scope="module")
def chains():
    X, y = made(20, longest=5)
    X = [np.round(x, 3) for x in X]  # numbers that text can hold
    return X, [LABELS[labels].tolist() for labels in y]


@pytest.fixture(scope="module")
def model(chains):
    return SDCACRF(reg_lambda=0.05, tol=1e-6, random_state=0).fit(*chains)


@pytest.fixture(scope="module")
def joints(chains, model):
    """The distributions of all labelings, from the fitted attributes."""
    result = []
    for x in chains[0]:
        scores = x @ model.coef_.T + model.intercept_
        scores[0] += model.start_
        scores[-1] += model.end_
        result.append(reference.from_scores(scores, model.transitions_))
    return result


# ---- probabilities, against enumeration -------------------------------------------------------


def test_marginals(chains, model, joints):
    marginals = model.predict_marginals(chains[0])
    assert isinstance(marginals, list)
    for ours, joint in zip(marginals, joints, strict=True):
        assert_allclose(ours, joint.nodes, atol=1e-13)


def test_predict_is_the_best_labeling(chains, model, joints):
    predicted = model.predict(chains[0])
    assert predicted == [LABELS[joint.paths[joint.p.argmax()]].tolist() for joint in joints]
    assert all(type(label) is str for labels in predicted for label in labels)


def test_log_probability(chains, model, joints):
    X, y = chains
    given, best = model.predict_log_proba(X, y), model.predict_log_proba(X)
    assert given.shape == best.shape == (20,) and given.dtype == best.dtype == float
    for i, joint in enumerate(joints):
        row = (LABELS[joint.paths] == y[i]).all(axis=1)
        assert given[i] == pytest.approx(joint.log_p[row].item(), abs=1e-12)
        assert best[i] == pytest.approx(joint.log_p.max(), abs=1e-12)


def test_score_is_the_accuracy_of_tokens(chains, model):
    X, y = chains
    predicted, weights = model.predict(X), np.arange(20)
    assert model.score(X, y) == pytest.approx(token_accuracy_score(y, predicted))
    right = [np.mean(np.array(a) == b) for a, b in zip(y, predicted, strict=True)]
    lengths = [len(x) for x in X]
    expected = np.average(right, weights=weights * lengths)
    assert model.score(X, y, weights) == pytest.approx(expected)


# ---- shapes and types -------------------------------------------------------------------------


def test_shapes_of_attributes(model):
    assert model.coef_.shape == (3, 4) and model.transitions_.shape == (3, 3)
    assert model.intercept_.shape == model.start_.shape == model.end_.shape == (3,)
    assert_array_equal(model.classes_, LABELS)
    assert model.n_features_in_ == 4
    for part in (model.coef_, model.transitions_, model.intercept_, model.start_, model.end_):
        assert part.dtype == np.float64 and part.flags.writeable


@pytest.mark.parametrize("convert", [np.asarray, sp.csr_array, np.ndarray.tolist])
@pytest.mark.parametrize("labels", [LABELS, np.array([3, 5, 9]), np.array([0.0, 1.0, 2.0])])
def test_a_matrix_gives_arrays(convert, labels):
    X, y = made(30, longest=1)
    X, y = np.concatenate(X), labels[np.concatenate(y)]
    model = SDCACRF(tol=1e-6).fit(convert(X), y)
    X = convert(X[:7])
    assert model.predict(X).shape == (7,) and model.predict(X).dtype == labels.dtype
    assert model.predict_marginals(X).shape == (7, 3)
    assert_allclose(model.predict_marginals(X).sum(axis=1), 1.0, rtol=1e-14)
    assert_array_equal(labels[model.predict_marginals(X).argmax(axis=1)], model.predict(X))
    assert_allclose(
        model.predict_log_proba(X), np.log(model.predict_marginals(X).max(axis=1)), atol=1e-13
    )
    assert model.score(X, y[:7]) == np.mean(model.predict(X) == y[:7])


@pytest.mark.parametrize("labels", [["a", "b", "c"], [1, 2, 3], [True, False]], ids=str)
def test_labels_come_back_as_they_were(labels):
    X, y = made(20, len(labels), longest=4)
    y = [[labels[k] for k in sequence] for sequence in y]
    model = SDCACRF().fit(X, y)
    assert model.classes_.tolist() == sorted(labels)
    for predicted, x in zip(model.predict(X), X, strict=True):
        assert isinstance(predicted, list) and len(predicted) == len(x)
        assert all(type(p) is type(labels[0]) and p in labels for p in predicted)
    assert model.score(X, y) > 0.4


def test_a_single_sequence(model, chains):
    x = chains[0][4]
    assert model.predict([x]) == [model.predict(chains[0])[4]]


def test_one_sequence_at_a_time():
    """A sequence that has few of many attributes is looked at with their weights alone."""
    rng = np.random.default_rng(0)
    _, y = made(40, 3, longest=4)
    X = [[[f"a{label + 3 * k}" for k in rng.permutation(30)[:3]] for label in part] for part in y]
    model = SDCACRF(random_state=0).fit(X, y)
    predicted, marginals = model.predict(X), model.predict_marginals(X)
    for i, x in enumerate(X):
        assert model.predict([x]) == [predicted[i]]
        assert_allclose(model.predict_marginals([x])[0], marginals[i], atol=1e-14)


# ---- forms of the same data -------------------------------------------------------------------


def dicts(X):
    return [[dict(zip(NAMES, row.tolist(), strict=True)) for row in x] for x in X]


def frames(X):
    pd = pytest.importorskip("pandas")
    return [pd.DataFrame(x, columns=NAMES) for x in X]


FORMS = {
    "lists": lambda X: [x.tolist() for x in X],
    "csr": lambda X: [sp.csr_array(x) for x in X],
    "csc matrices": lambda X: [sp.csc_matrix(x) for x in X],
    "fortran": lambda X: [np.asfortranarray(x) for x in X],
    "frames": frames,
    "tuples": lambda X: tuple(tuple(map(tuple, x.tolist())) for x in X),
}


@pytest.mark.parametrize("form", FORMS)
def test_any_form_of_numbers_gives_the_same_model(form, chains, model):
    X, y = chains
    other = clone(model).fit(FORMS[form](X), y)
    assert_array_equal(other.coef_, model.coef_)
    assert other.predict(FORMS[form](X)) == model.predict(X)


def test_dicts_give_the_same_model(chains, model):
    """To the certificate: attributes are sorted by their names, so that sums round otherwise."""
    X, y = chains
    other = clone(model).fit(dicts(X), y)
    assert other.attribute_names_.tolist() == sorted(NAMES)
    assert_allclose(other.coef_, model.coef_[:, np.argsort(NAMES)], atol=1e-2)
    assert other.objective_ == pytest.approx(model.objective_, rel=1e-6)
    assert other.predict(dicts(X)) == model.predict(X)


def test_strings_are_attributes_of_value_one(chains):
    X, y = chains
    strings = [[[n for n, v in zip(NAMES, row, strict=True) if v > 0] for row in x] for x in X]
    numbers = [(x > 0.0).astype(float)[:, np.argsort(NAMES)] for x in X]
    one, two = (SDCACRF(tol=1e-8, random_state=0).fit(data, y) for data in (strings, numbers))
    assert one.attribute_names_.tolist() == sorted(NAMES)
    assert_array_equal(one.coef_, two.coef_)
    assert one.predict(strings) == two.predict(numbers)


def test_single_precision(chains, model):
    X, y = chains
    other = clone(model).fit([x.astype(np.float32) for x in X], y)
    assert other.coef_.dtype == np.float64
    assert other.objective_ == pytest.approx(model.objective_, rel=2e-6)


# ---- attributes -------------------------------------------------------------------------------


def test_unseen_attributes_are_ignored(chains):
    X, y = chains
    model = SDCACRF(random_state=0).fit(dicts(X), y)
    more = [[{**token, "new": 7.0, "up to": "now"} for token in x] for x in dicts(X)]
    assert model.predict(more) == model.predict(dicts(X))
    assert_array_equal(
        np.concatenate(model.predict_marginals(more)),
        np.concatenate(model.predict_marginals(dicts(X))),
    )
    (nothing,) = model.predict_marginals([[{}, {"new": 1}]])
    (empty,) = model.predict_marginals([[{"left": 0.0}, {}]])
    assert_array_equal(nothing, empty)


@pytest.mark.parametrize("longest", [2, 7])
def test_scikit_learn_puts_predictions_together(longest):
    """Where all are equally long numpy would make a matrix of them."""
    X, y = made(40, longest=7)
    pairs = [(x[:longest], labels[:longest]) for x, labels in zip(X, y, strict=True)]
    X, y = zip(*[pair for pair in pairs if len(pair[1]) > 1], strict=True)
    model = SDCACRF(random_state=0)
    predicted = cross_val_predict(model, X, y, cv=2)
    assert predicted.shape == (len(X),) and predicted.dtype == object
    half = len(X) // 2
    assert predicted[:half].tolist() == model.fit(X[half:], y[half:]).predict(X[:half])
    sizes, _, scores = learning_curve(model, X, y, cv=2, train_sizes=[0.5, 1.0])
    assert sizes.tolist() == [half // 2, half] and np.all(scores > 0.0)
    assert np.asarray(model.predict_marginals(X)).shape == (len(X),)


def test_features_in_the_form_of_sklearn_crfsuite(chains):
    X, y = chains
    model = SDCACRF().fit(dicts(X), y)
    assert dict(model.state_features_) == {
        (name, label): weight
        for name, row in zip(sorted(NAMES), model.coef_.T, strict=True)
        for label, weight in zip(model.classes_, row, strict=True)
    }
    assert model.transition_features_["B", "O"] == model.transitions_[0, 2]
    model.coef_[1, 2] = 0.0
    gone = ("right", "I")
    assert gone not in model.state_features_ and len(model.state_features_) == 11
    assert 3 not in model.transition_features_
    with pytest.raises(TypeError, match="item assignment"):
        model.state_features_[gone] = 1.0
    assert (3, "O") in SDCACRF().fit(X, y).state_features_
