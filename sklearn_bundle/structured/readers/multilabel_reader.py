"""Reader of sets of labels: rows of X, and an indicator matrix for y."""

from functools import partial
from typing import Any

import joblib
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from sklearn_bundle.core.base import features_of
from sklearn_bundle.core.sparse import arrays_of
from sklearn_bundle.core.validation import (
    X_CHECKS,
    check_prediction_data,
    checked_data,
    drop_weightless,
)
from sklearn_bundle.core.values import as_numbers, require_y
from sklearn_bundle.core.weights import check_sample_weight, total_of
from sklearn_bundle.structured.models.multilabel import Multilabel, WeightedRows
from sklearn_bundle.structured.readers.structures import Array, Reader, Reading, reader_of

Numbers = NDArray[np.int64]


class MultilabelReader(Reader):
    """Rows of X, each with a row of 0 and 1 in y."""

    def read(self, estimator, X, y, sample_weight) -> Reading:
        X, y = checked_data(estimator, X, y, **X_CHECKS, multi_output=True)
        sets = _sets(estimator, y)
        weights = check_sample_weight(sample_weight, len(sets))
        total = total_of(weights)
        X, weights, left = drop_weightless(X, weights)
        sets = sets if left is None else sets[left]
        fitted = features_of(estimator)
        hashed = partial(joblib.hash, (arrays_of(X), sets, weights))
        return Reading(WeightedRows(X, weights), sets, weights, total, fitted, hashed)

    def attributes(self, model, reading, w) -> dict[str, Any]:
        L, d = model.n_labels_, reading.X.X.shape[1]
        coef, intercept, pairs = np.split(w, [L * d, L * (d + 1)])
        parts = {"coef_": coef.reshape(L, d), "intercept_": intercept}
        return parts | {"pairs_": pairs.reshape(-1, 2, 2)} | super().attributes(model, reading, w)

    def predict(self, estimator, X) -> Any:
        check_is_fitted(estimator)
        return estimator.model_.best_sets(check_prediction_data(estimator, X), estimator.w_)

    def losses(self, estimator, X, y) -> tuple[Array, Array]:
        found = self.predict(estimator, X)
        sets = _sets(estimator, y)
        if sets.shape != found.shape:
            raise ValueError(
                f"y must have shape {found.shape}, one row per sample and one column per label of "
                f"fit, got {sets.shape}."
            )
        wrong = np.count_nonzero(sets != found, axis=1).astype(np.float64)
        return wrong, np.full(len(wrong), estimator.model_.max_loss(None))


@reader_of.register
def _(model: Multilabel) -> Reader:
    return MultilabelReader()


def _sets(estimator: BaseEstimator, y: Any) -> Numbers:
    require_y(f"This {type(estimator).__name__} estimator", y)
    sets = as_numbers("y", y.toarray() if sp.issparse(y) else y)
    if sets.ndim != 2:
        raise ValueError(
            "y must be an indicator matrix of shape (n_samples, n_labels) for a multilabel model, "
            f"got shape {sets.shape}. Convert lists with sklearn.preprocessing.MultiLabelBinarizer."
        )
    wrong = np.argwhere((sets != 0.0) & (sets != 1.0))
    if len(wrong):
        i, j = wrong[0]
        raise ValueError(f"y must hold 0 and 1, but row {i} has {sets[i, j]:g} in column {j}.")
    return np.ascontiguousarray(sets, dtype=np.int64)
