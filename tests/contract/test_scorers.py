"""Scorers in searches, with weights and pickled; that of flat labels is scikit-learn's."""

import pickle
from collections import Counter

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.metrics import f1_score, make_scorer
from sklearn.model_selection import GridSearchCV, cross_validate

from sklearn_bundle import metrics
from sklearn_bundle.metrics import span_f1_score


class Tagger(BaseEstimator):
    """Tags a word with the label that it had most often, "O" if seen less than ``minimum``."""

    def __init__(self, minimum=1):
        self.minimum = minimum

    def fit(self, X, y):
        counts = {}
        for words, labels in zip(X, y, strict=True):
            for word, label in zip(words, labels, strict=True):
                counts.setdefault(word, Counter())[label] += 1
        self.known_ = {
            word: seen.most_common(1)[0][0]
            for word, seen in counts.items()
            if seen.total() >= self.minimum
        }
        return self

    def predict(self, X):
        return [[self.known_.get(word, "O") for word in words] for words in X]


SCORERS = {
    "token_accuracy": metrics.token_accuracy_scorer,
    "sequence_accuracy": metrics.sequence_accuracy_scorer,
    "flat_f1": metrics.flat_f1_scorer,
    "span_f1": metrics.span_f1_scorer,
}


def test_scorers_in_a_search():
    rng = np.random.default_rng(0)
    X = [rng.choice(["a", "dog", "runs", "far"], size=n).tolist() for n in rng.integers(1, 9, 40)]
    tags = {"a": "B-NP", "dog": "I-NP", "runs": "B-VP", "far": "O"}
    y = [[tags[word] for word in words] for words in X]
    search = GridSearchCV(
        Tagger(),
        {"minimum": [1, 1000]},
        scoring=SCORERS,
        refit="span_f1",
        cv=3,
        error_score="raise",
    ).fit(X, y)
    assert search.best_params_ == {"minimum": 1}
    assert search.score(X, y) == search.best_score_ == 1.0
    results = search.cv_results_
    for name in SCORERS:
        assert results[f"mean_test_{name}"][0] == 1.0
    assert results["mean_test_span_f1"][1] == 0.0 < results["mean_test_token_accuracy"][1] < 1.0
    macro = make_scorer(span_f1_score, scheme="IOB1", average="macro")
    assert cross_validate(Tagger(), X, y, scoring=macro)["test_score"].mean() == 1.0


@pytest.mark.parametrize("name", sorted(SCORERS))
def test_scorers_take_weights_and_are_pickled(name):
    X, y = [["a"], ["b", "c"]], [["B-NP"], ["B-NP", "O"]]
    model = Tagger().fit(X, [["B-NP"], ["O", "B-VP"]])
    scorer = pickle.loads(pickle.dumps(SCORERS[name]))
    assert scorer(model, X, y, sample_weight=[1.0, 0.0]) == 1.0
    assert scorer(model, X, y, sample_weight=[0.0, 1.0]) == 0.0


def test_flat_f1_is_that_of_all_tokens_weighted_by_the_frequency_of_their_labels():
    rng = np.random.default_rng(0)
    X = [rng.choice(list("abc"), n).tolist() for n in rng.integers(1, 6, 20)]
    y = [rng.choice(list("BIO"), len(x)).tolist() for x in X]
    model, weights = Tagger().fit(X, y), rng.uniform(size=20)
    tokens = np.concatenate(y), np.concatenate(model.predict(X))
    expected = f1_score(*tokens, average="weighted")
    assert metrics.flat_f1_scorer(model, X, y) == pytest.approx(expected, rel=1e-14)
    of_tokens = np.repeat(weights, list(map(len, X)))
    expected = f1_score(*tokens, average="weighted", sample_weight=of_tokens)
    found = metrics.flat_f1_scorer(model, X, y, sample_weight=weights)
    assert found == pytest.approx(expected, rel=1e-14)
