"""Defaults of the scores of all tokens."""

import numpy as np
import pytest
import sklearn.metrics

from sklearn_bundle import metrics

TRUE, PREDICTED = [["B", "I", "O"], ["O"]], [["B", "O", "O"], ["O"]]


@pytest.mark.parametrize("name", ["precision_score", "recall_score", "f1_score", "fbeta_score"])
def test_labels_count_by_their_number_unless_one_says_otherwise(name):
    flat, theirs = getattr(metrics, f"flat_{name}"), getattr(sklearn.metrics, name)
    settings = {"zero_division": 0.0} | ({"beta": 2.0} if name == "fbeta_score" else {})
    tokens = np.concatenate(TRUE), np.concatenate(PREDICTED)
    assert flat(TRUE, PREDICTED, **settings) == theirs(*tokens, average="weighted", **settings)
    settings["average"] = "macro"
    assert flat(TRUE, PREDICTED, **settings) == theirs(*tokens, **settings)
