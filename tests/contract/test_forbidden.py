"""Forbidden transitions: fits and predictions against the reference of the allowed labelings."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sklearn_bundle import SDCACRF, SDCACRFCV, crf_path
from tests import reference_chain as reference
from tests.contract.chains import SOLVERS, parts

LABELS = ["B-X", "I-X", "O"]


@pytest.fixture(scope="module")
def data():
    """Sequences of up to four tokens whose labels are BIO."""
    X, y = reference.made(24, 3, 3, longest=4, seed=2)
    tags = []
    for labels in y:
        tags.append([])
        for k in labels:
            inside = k == 1 and tags[-1] and tags[-1][-1] != "O"
            tags[-1].append("I-X" if inside else ("O" if k == 2 else "B-X"))
    return X, tags


def allowed(paths):
    """Rows whose labels are BIO: no I-X after O or at the beginning."""
    before = np.column_stack([np.full(len(paths), 2), paths[:, :-1]])
    return ~((paths == 1) & (before == 2)).any(axis=1)


class Allowed(reference.Model):
    """Labelings that are not BIO have probability 0."""

    def scores(self, i, w):
        scores, transitions = super().scores(i, w)
        scores[0, 1] = transitions[2, 1] = -np.inf
        return scores, transitions


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("forbidden", ["bio", [("O", "I-X"), (None, "I-X")]], ids=["bio", "pairs"])
def test_a_fit_is_that_of_the_allowed_labelings(data, solver, forbidden):
    X, y = data
    weights = np.random.default_rng(0).uniform(0.5, 2.0, len(X))
    settings = {"reg_lambda": 0.05, "tol": 1e-9, "max_iter": 2000, "random_state": 0}
    model = SDCACRF(solver=solver, forbidden=forbidden, **settings).fit(X, y, weights)
    index = [[LABELS.index(tag) for tag in tags] for tags in y]
    problem = Allowed(X, index, 3, 0.05, weights)
    best = problem.objective(problem.optimum())
    assert model.status_ == "converged"
    assert model.lower_bound_ <= best * (1.0 + 1e-13)
    own = problem.joined(*(np.maximum(part, -1e9) * (part > -1e9) for part in parts(model)))
    assert_allclose(problem.objective(own), model.objective_, rtol=1e-13)
    assert_array_equal(np.isneginf(model.transitions_), [[0, 0, 0], [0, 0, 0], [0, 1, 0]])
    assert_array_equal(np.isneginf(model.start_), [0, 1, 0])
    assert np.isfinite(model.end_).all()
    expected = [problem.log_probability(i, own, labels) for i, labels in enumerate(index)]
    assert_allclose(model.predict_log_proba(X, y), expected, atol=1e-12)
    for tags in model.predict(X):
        assert allowed(np.array([[LABELS.index(tag) for tag in tags]])).all()
    assert [c.dtype for c in model.certain(X)] == [bool] * len(X)


def test_marginals_and_labels_after_editing_by_hand(data):
    X, y = data
    model = SDCACRF(reg_lambda=0.05, random_state=0).fit(X, y)
    model.transitions_[0, 1] = model.transitions_[2, 1] = model.start_[1] = -np.inf
    for x, nodes, tags in zip(X, model.predict_marginals(X), model.predict(X), strict=True):
        scores = x @ model.coef_.T + model.intercept_
        scores[0] += model.start_
        scores[-1] += model.end_
        joint = reference.from_scores(scores, model.transitions_)
        assert_allclose(nodes, joint.nodes, atol=1e-13)
        assert tags == [LABELS[k] for k in joint.paths[joint.p.argmax()]]
    assert not any("I-X" in tags for tags in model.predict(X))


@pytest.mark.parametrize(
    "scheme, good, bad, message",
    [
        ("bio", ["B-X", "I-X", "O", "B-Y"], ["B-Y", "I-X", "O", "B-Y"], "'I-X' after 'B-Y' .*seq"),
        ("bio", ["O", "B-X"], ["I-X", "O"], r"'I-X' at the beginning \(sequence 1, position 0\)"),
        ("bioes", ["B-X", "I-X", "E-X", "S-Y"], ["B-X", "O", "S-Y"], "'O' after 'B-X'"),
        ("bioes", ["B-X", "E-X", "O"], ["O", "B-X"], r"'B-X' at the end \(sequence 1, position 1"),
        ("bioes", ["S-X", "O"], ["E-X", "O"], "'E-X' at the beginning"),
        ("bilou", ["B-X", "I-X", "L-X", "U-Y"], ["U-X", "L-X"], "'L-X' after 'U-X'"),
        ("bilou", ["U-X", "O"], ["B-X", "U-X"], "'U-X' after 'B-X'"),
        ([("O", "O")], ["O", "A"], ["O", "O"], "'O' after 'O'"),
        ([("A", None)], ["A", "O"], ["O", "A"], "'A' at the end"),
    ],
)
def test_training_sequences_that_use_what_is_forbidden(scheme, good, bad, message):
    X = [[[f"{k}"] for k in range(len(labels))] for labels in (good, bad)]
    model = SDCACRF(forbidden=scheme, max_iter=1, tol=1.0)
    model.fit(X[:1] * 2, [good] * 2)
    with pytest.raises(ValueError, match=message):
        model.fit(X, [good, bad])
    with pytest.raises(ValueError, match="sequence 2"):
        model.fit([*X[:1] * 2, X[1]], [good, good, bad], [0.0, 1.0, 1.0])


@pytest.mark.parametrize(
    "forbidden, message",
    [
        ("bio", "needs such labels: .* got 'A'"),
        ([("A", "C")], "the label 'C', which y does not hold"),
        (["AB"], r"pairs \(label, next label\).*got 'AB'"),
        ([(None, None)], "pairs"),
        ("iob", "forbidden"),
    ],
)
def test_what_is_refused(forbidden, message):
    with pytest.raises(ValueError, match=message):
        SDCACRF(forbidden=forbidden).fit([[["a"], ["b"]]], [["A", "B"]])


def test_paths_and_searches(data):
    X, y = data
    settings = {"forbidden": "bio", "random_state": 0, "tol": 1e-8, "max_iter": 1000}
    _, models = crf_path(X, y, reg_lambdas=[0.5, 0.05], **settings)
    alone = SDCACRF(reg_lambda=0.05, **settings).fit(X, y)
    assert_allclose(models[1].objective_, alone.objective_, rtol=1e-7)
    assert_array_equal(np.isneginf(models[1].transitions_), np.isneginf(alone.transitions_))
    search = SDCACRFCV(reg_lambdas=[0.5, 0.05], cv=3, **settings).fit(X, y)
    assert np.isfinite(search.scores_).all() and search.start_[1] == -np.inf


def test_a_sequence_without_an_allowed_labeling():
    X, y = [[["a"], ["b"]], [["c"], ["b"]]], [["B-X", "E-X"], ["B-X", "E-X"]]
    model = SDCACRF(forbidden="bioes", random_state=0).fit(X, y)
    assert model.predict([[["a"], ["b"]]]) == [["B-X", "E-X"]]
    for call in (model.predict, model.predict_marginals, model.predict_log_proba):
        with pytest.raises(ValueError, match="Sequence 1 of X, of length 1, has no labeling"):
            call([X[0], [["a"]]])
    with pytest.raises(ValueError, match="Sequence 0 of X, of length 1, has no labeling"):
        model.predict([[["a"]]])
