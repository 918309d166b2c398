"""Empty sequences, and none."""

import numpy as np
import pytest

from sklearn_bundle import SDCACRF, SDCACRFCV, StructuredSVM
from sklearn_bundle.metrics import flat_f1_scorer, sequence_accuracy_scorer, token_accuracy_scorer

X = [[{"w": "a"}, {"w": "b"}], [], [{"w": "b"}], [{"w": "a"}], []]
Y = [["A", "B"], [], ["B"], ["A"], []]
WEIGHTS, KEPT = np.array([1.0, 5.0, 2.0, 1.0, 3.0]), [0, 2, 3]
SEGMENTS = [[("A", 0, 1), ("B", 1, 2)], [], [("B", 0, 1)], [("A", 0, 1)], []]
MODELS = {
    "SDCACRF": (SDCACRF(random_state=0), Y),
    "lbfgs": (SDCACRF(solver="lbfgs"), Y),
    "structured": (StructuredSVM("chain", random_state=0), Y),
    "segments": (StructuredSVM("segments", random_state=0), SEGMENTS),
}


@pytest.mark.parametrize("kind", ["SDCACRF", "lbfgs", "structured", "segments"])
def test_a_fit_leaves_empty_sequences_out(kind):
    """With their labels and weights; predictions have empty ones in their places."""
    model, y = MODELS[kind]
    without = [X[i] for i in KEPT], [y[i] for i in KEPT], WEIGHTS[KEPT]
    expected = model.fit(*without)
    coef, objective, reg_lambda = expected.coef_, expected.objective_, expected.reg_lambda_
    model.fit(X, y, WEIGHTS)
    assert (model.objective_, model.reg_lambda_) == (objective, reg_lambda)
    np.testing.assert_array_equal(model.coef_, coef)
    assert model.predict(X) == y
    assert model.predict([]) == [] and model.predict([[]]) == [[]]
    assert model.score(X, y, WEIGHTS) == 1.0


def test_nothing_to_score():
    model = SDCACRF(random_state=0).fit(X, Y)
    with pytest.raises(ValueError, match="y_true has 1 sequences and y_pred 0"):
        model.score([], [[]])
    with pytest.raises(ValueError, match=r"inconsistent numbers of samples: \[0, 1\]"):
        model.predict_log_proba([], [[]])


def test_a_score_of_no_position_is_refused():
    with pytest.raises(ValueError, match="There is no token"):
        SDCACRF(random_state=0).fit(X, Y).score([[]], [[]])


def test_probabilities_of_empty_sequences():
    model = SDCACRF(random_state=0).fit(X, Y)
    assert [p.shape for p in model.predict_marginals(X)] == [(len(x), 2) for x in X]
    assert [p == 0.0 for p in model.predict_log_proba(X, Y)] == [not x for x in X]
    assert model.predict_marginals([]) == []
    assert len(model.predict_log_proba([])) == 0


@pytest.mark.parametrize("empty", [np.empty((0, 2)), [], np.empty((0, 5))], ids=str)
def test_empty_arrays(empty):
    """Among arrays; an array of no sequence, too."""
    arrays = [empty, np.ones((2, 2)), np.zeros((1, 2))]
    model = SDCACRF().fit(arrays, [[], [0, 1], [1]])
    assert list(map(len, model.predict(arrays))) == [0, 2, 1]
    assert model.predict([empty]) == [[]]
    assert model.predict(np.empty((0, 3, 2))) == model.predict(np.empty(0, object)) == []


@pytest.mark.parametrize(
    "scorer", [token_accuracy_scorer, sequence_accuracy_scorer, flat_f1_scorer], ids=str
)
def test_scorers_take_empty_sequences(scorer):
    model = SDCACRF(random_state=0).fit(X, Y)
    assert scorer(model, X, Y, sample_weight=WEIGHTS) == 1.0


def test_folds_are_of_the_others():
    settings = {"cv": 2, "reg_lambdas": [1.0, 0.1], "random_state": 0}
    found = SDCACRFCV(**settings).fit(X * 3, Y * 3)
    without = [x for x in X if x] * 3, [y for y in Y if y] * 3
    np.testing.assert_array_equal(found.scores_, SDCACRFCV(**settings).fit(*without).scores_)
