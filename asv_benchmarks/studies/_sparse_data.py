"""The sets of the study ``sparse``, with a part for tests; those of the folder, or shipped ones.

cadata, casp, pol  all products of up to three of the columns that vary, standardized; of pol
                   4,592 rows to train on
news20_bydate      regression: log of 1 + the number of words; binary: the first class or another
made_wide          500 x 20,000 standard normal entries, 50 of which tell the target

Targets of regression have mean 0 and deviation 1 in the training part. The test part is that of the
set, or a fifth of the rows.
"""

from typing import Any

import numpy as np
from _cells_data import Sets, made_wide
from _measure import MissingError
from _svm import Data
from benchmarks.common import DATASETS, Array, dataset
from scipy.sparse import issparse
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

SETS = {
    "regression": ("cadata", "casp", "pol", "news20_bydate", "made_wide", "movie_reviews"),
    "binary": ("news20_bydate", "news20_bigrams", "movie_reviews", "a9a", "mnist_even"),
}
SHIPPED = {"regression": ("diabetes", "made_wide_small"), "binary": tuple(DATASETS)}

_DEGREE = 3
_MOST_ENTRIES = 1 << 24  # of the products to train on: rows beyond them are left out
_WIDE_SHAPE, _SMALL_SHAPE = (625, 20_000), (250, 2_000)
_TEST_PART = 0.2


class SparseSets(Sets):
    """With a part for tests: what it loads is Data."""

    SETS, SHIPPED = SETS, SHIPPED

    def _prepared(self, kind: str, name: str) -> Data:
        if kind == "binary":
            return self._labeled(name)
        if name == "movie_reviews":
            raise MissingError("the folder has labels of them, but no ratings")
        if name.startswith("made_wide"):
            shape = _SMALL_SHAPE if name.endswith("small") else _WIDE_SHAPE
            return _scaled(_split(*made_wide("regression", shape)))
        if name == "news20_bydate":
            X, _, X_test, _ = self.tasks.load("news20_bydate_counts", tfidf=True)
            counts, _, counts_test, _ = self.tasks.load("news20_bydate_counts")
            lengths = (np.log1p(np.ravel(c.sum(axis=1))) for c in (counts, counts_test))
            y, y_test = lengths
            return _scaled(Data(X, y, X_test, y_test))
        X, y = load_diabetes(return_X_y=True) if self.tasks is None else self.tasks.regression(name)
        return _scaled(_cubic(_split(X, y)))

    def _labeled(self, name: str) -> Data:
        if self.tasks is None:
            return _split(*dataset(name))
        if name == "a9a":
            return Data(*self.tasks.load(name))
        if name == "movie_reviews":
            return _split(*self.tasks.load("movie_reviews_counts", tfidf=True)[:2])
        if name == "news20_bydate":
            X, y, X_test, y_test = self.tasks.load("news20_bydate_counts", tfidf=True)
            return Data(X, _signs(y == 0), X_test, _signs(y_test == 0))
        if name == "mnist_even":
            _, _, X_test, y_test = self.tasks.load("mnist")
            test = (X_test / 255.0).tocsr(), _signs(y_test % 2 == 0)
            return Data(*self.tasks.linear(name), *test)
        return _split(*self.tasks.linear(name))


def _signs(positive: Array) -> Array:
    return np.where(positive, 1.0, -1.0)


def _split(X: Any, y: Array) -> Data:
    X, X_test, y, y_test = train_test_split(X, y, test_size=_TEST_PART, random_state=0)
    return Data(X, y, X_test, y_test)


def _cubic(data: Data) -> Data:
    varying = data.X.std(axis=0) > 0.0
    products = PolynomialFeatures(_DEGREE, include_bias=False).fit(data.X[:1, varying])
    rows = slice(_MOST_ENTRIES // products.n_output_features_)
    X, X_test = (products.transform(part[rows, varying]) for part in (data.X, data.X_test))
    scaler = StandardScaler().fit(X)
    X, X_test = (np.ascontiguousarray(scaler.transform(part)) for part in (X, X_test))
    return Data(X, data.y[rows], X_test, data.y_test[rows])


def _scaled(data: Data) -> Data:
    mean, deviation = data.y.mean(), data.y.std()
    y, y_test = ((part - mean) / deviation for part in (data.y, data.y_test))
    return Data(data.X, y, data.X_test, y_test)


def by_columns(X: Any) -> Any:
    """A copy as the coordinate descent of the peers wants it: F-ordered or CSC."""
    return X.tocsc() if issparse(X) else np.asfortranarray(X)
