"""Small sequences, and an estimator that only checks them."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator

from sklearn_bundle.chain.readers.sequences import (
    Sequences,
    check_prediction_sequences,
    check_training_sequences,
)

FIRST, SECOND = [[1.0, 0.0, 2.0], [0.0, 0.0, 3.0]], [[4.0, 5.0, 0.0]]
ROWS = np.array(FIRST + SECOND)
Y = [["B", "A"], ["B"]]
STRINGS = [[["w=a", "t=x"], ["w=b"]], [["w=a", "end"]]]
DICTS = [[{"w": "a", "n": 2}, {"w": "b", "up": True}], [{"n": 0.5, "up": False}]]


class Model(BaseEstimator):
    """Checks as an estimator would; needs no labels for its fit to be tried on X alone."""

    def fit(self, X, y=Y, sample_weight=None, **further):
        self.data = check_training_sequences(self, X, y, sample_weight, **further)
        vars(self).update(self.data.fitted, classes_=self.data.classes)
        return self

    def __call__(self, X) -> Sequences:
        return check_prediction_sequences(self, X)


def train(X, y=Y, sample_weight=None):
    return Model().fit(X, y, sample_weight).data


def frames():
    pd = pytest.importorskip("pandas")
    return [pd.DataFrame(rows, columns=["a", "b", "c"]) for rows in (FIRST, SECOND)]
