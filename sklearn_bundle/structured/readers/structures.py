"""Readers of structures, one for each kind of model, found by the model's class.

A reader checks training data, converts w to fitted attributes, predicts, and computes the costs of
predictions. It has no state: fitted attributes belong to the estimator.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from reprlib import repr as short
from typing import Any, ClassVar

import joblib
import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils import check_consistent_length

from sklearn_bundle.chain.estimators._labeling import bound_chain, labels_like
from sklearn_bundle.chain.model import taken_apart
from sklearn_bundle.chain.readers.packing import nature
from sklearn_bundle.chain.readers.sequences import Sequences, check_labels, check_training_sequences
from sklearn_bundle.core.estimator import features_of
from sklearn_bundle.core.parameters import Names, suggestion
from sklearn_bundle.core.validation import (
    X_CHECKS,
    arrays_of,
    check_classification_data,
    check_prediction_data,
    check_sample_weight,
    checked_data,
    drop_weightless,
    total_of,
)
from sklearn_bundle.core.values import require_y, shown
from sklearn_bundle.core.warm import fingerprint_of
from sklearn_bundle.jit.decorators import frozen
from sklearn_bundle.structured.models.base import StructuredModel, cost_matrix
from sklearn_bundle.structured.models.chain_structure import Chain, TokenRows, joined
from sklearn_bundle.structured.models.classes import Multiclass, Rows
from sklearn_bundle.structured.models.graph import Graph, Grid
from sklearn_bundle.structured.models.matching import Matching
from sklearn_bundle.structured.models.multilabel import Multilabel, WeightedRows, as_sets
from sklearn_bundle.structured.models.segments import Segments

Array = NDArray[np.float64]

_PRIVATE = "_form", "_vocabulary"  # fitted attributes of chains that are not public

#: Models that need no parameter, by name.
MODELS: dict[str, type[StructuredModel]] = {
    "chain": Chain,
    "multiclass": Multiclass,
    "graph": Graph,
    "grid": Grid,
    "segments": Segments,
    "matching": Matching,
    "multilabel": Multilabel,
}


def checked_model(caller: str, model: Any) -> StructuredModel:
    """A clone of the model, or of the model of that name.

    Raises
    ------
    TypeError, ValueError
        For anything else.
    """
    if isinstance(model, str) and model in MODELS:
        return MODELS[model]()
    if isinstance(model, StructuredModel):
        return clone(model)
    what, error = shown(model), ValueError if isinstance(model, str) else TypeError
    hint = suggestion([Names(MODELS), StructuredModel], model)
    names = ", ".join(map(repr, MODELS))
    raise error(
        f"The 'model' parameter of {caller} must be one of {names}, or an instance of a class that "
        f"is derived from sklearn_bundle.models.StructuredModel. Got {what} instead.{hint}"
    )


def forget(estimator: BaseEstimator) -> None:
    """Remove attributes of another fit, since the next one may be of another kind."""
    parameters = estimator.get_params(deep=False)
    for name in set(vars(estimator)) - set(parameters):
        if name.endswith("_") or name in _PRIVATE:
            delattr(estimator, name)


@dataclass
class Reading:
    """Training data checked by a reader, without examples of weight zero.

    ``X`` and ``y`` are the arguments of the model's ``examples``. The weights are positive and sum
    to one, ``total`` is their previous sum. ``fitted`` are attributes that do not depend on w;
    ``fingerprint`` returns a hash of the data.
    """

    X: Any
    y: Any
    weights: Array
    total: float
    fitted: dict[str, Any]
    fingerprint: Callable[[], Any]


class Reader(ABC):
    """The parts of an estimator that depend only on the kind of model.

    The estimator has the method ``decision_function`` if its reader defines it.
    """

    #: Whether the estimator is a classifier for scikit-learn.
    is_classifier: ClassVar[bool] = False

    @abstractmethod
    def read(self, estimator: BaseEstimator, X: Any, y: Any, sample_weight: Any) -> Reading:
        """Check training data completely before any work starts."""

    def attributes(self, model: StructuredModel, reading: Reading, w: Array) -> dict[str, Any]:
        """Fitted attributes for a point."""
        return {"w_": w}

    @abstractmethod
    def predict(self, estimator: BaseEstimator, X: Any) -> Any:
        """The best outputs."""

    @abstractmethod
    def losses(self, estimator: BaseEstimator, X: Any, y: Any) -> tuple[Array, Array]:
        """Loss of the best output of each example, and its divisor."""


# ---- chains -----------------------------------------------------------------------------------


class ChainReader(Reader):
    """Sequences, as in SDCACRF."""

    def read(self, estimator, X, y, sample_weight) -> Reading:
        data = check_training_sequences(estimator, X, y, sample_weight)
        return Reading(
            TokenRows(data.X, data.lengths, len(data.classes)),
            data.labels.astype(np.int64, copy=False),
            data.weights,
            data.total,
            {"classes_": data.classes, **data.fitted},
            data.fingerprint,
        )

    def attributes(self, model, reading, w) -> dict[str, Any]:
        parts = taken_apart(w, reading.X.n_labels)
        named = {f"{name}_": part for name, part in parts._asdict().items()}
        return named | super().attributes(model, reading, joined(parts))

    def predict(self, estimator, X) -> Any:
        sequences, bound = bound_chain(estimator, X)
        return labels_like(estimator, sequences, bound.best_labels())

    def losses(self, estimator, X, y) -> tuple[Array, Array]:
        sequences, bound = bound_chain(estimator, X)
        labels = check_labels(estimator, sequences, y)
        cost = cost_matrix(estimator.model_.cost, len(estimator.classes_))
        tokens = cost[labels, bound.best_labels()], cost.max(axis=1)[labels]
        until = np.cumsum(np.pad(tokens, ((0, 0), (1, 0))), axis=1)[:, sequences.starts]
        return until[0, 1:] - until[0, :-1], until[1, 1:] - until[1, :-1]


# ---- classes ----------------------------------------------------------------------------------


class ClassReader(Reader):
    """One row of X per example, and one label per output."""

    is_classifier = True

    def read(self, estimator, X, y, sample_weight) -> Reading:
        data = check_classification_data(estimator, X, y, sample_weight, None)
        return Reading(
            Rows(data.X, len(data.classes)),
            data.labels.astype(np.int64),
            data.weights,
            data.total,
            {"classes_": data.classes, **features_of(estimator)},
            data.fingerprint,
        )

    def attributes(self, model, reading, w) -> dict[str, Any]:
        coef = w.reshape(reading.X.n_classes, -1)
        coef = np.diff(coef, axis=0) if len(coef) == 2 else coef
        return {"coef_": coef} | super().attributes(model, reading, w)

    def decision_function(self, estimator: BaseEstimator, X: Any) -> Array:
        """Scores of the classes; for two classes, the second minus the first."""
        scores = self._scores(estimator, X)
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def predict(self, estimator, X) -> Any:
        return estimator.classes_[self._scores(estimator, X).argmax(axis=1)]

    def losses(self, estimator, X, y) -> tuple[Array, Array]:
        found = self._scores(estimator, X).argmax(axis=1)
        rows = Sequences(X, np.ones(len(found), np.int64), plain=True)
        labels, model = check_labels(estimator, rows, y), estimator.model_
        largest = np.array([model.max_loss(k) for k in range(len(estimator.classes_))])
        return model.costs_[labels, found], largest[labels]

    def _scores(self, estimator: Any, X: Any) -> Array:
        X = check_prediction_data(estimator, X)
        return X @ estimator.w_.reshape(len(estimator.classes_), -1).T


# ---- sets of labels ---------------------------------------------------------------------------


class MultilabelReader(Reader):
    """Rows of X, each with a row of 0 and 1 in y."""

    def read(self, estimator, X, y, sample_weight) -> Reading:
        X, y = checked_data(estimator, X, y, **X_CHECKS, multi_output=True)
        require_y(f"This {type(estimator).__name__} estimator", y)
        sets = as_sets(y)
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
        return estimator.model_.best_sets(check_prediction_data(estimator, X), estimator.w_)

    def losses(self, estimator, X, y) -> tuple[Array, Array]:
        found = self.predict(estimator, X)
        require_y(f"This {type(estimator).__name__} estimator", y)
        sets = as_sets(y)
        if sets.shape != found.shape:
            raise ValueError(
                f"y must have shape {found.shape}, one row per sample and one column per label of "
                f"fit, got {sets.shape}."
            )
        wrong = np.count_nonzero(sets != found, axis=1).astype(np.float64)
        return wrong, np.full(len(wrong), float(sets.shape[1]))


# ---- all others -------------------------------------------------------------------------------


class StructureReader(Reader):
    """Lists of objects that the model accepts."""

    def read(self, estimator, X, y, sample_weight) -> Reading:
        X, y = _same_length(estimator, X, y)
        weights = check_sample_weight(sample_weight, len(X))
        total = total_of(weights)
        kept, weights, _ = drop_weightless(np.arange(len(X)), weights)
        X, y = [X[i] for i in kept], [y[i] for i in kept]
        data = [(Reading, {"X": X, "y": y, "weights": weights})]
        return Reading(X, y, weights, total, {}, partial(fingerprint_of, data))

    def predict(self, estimator, X) -> Any:
        model, w = estimator.model_, frozen(estimator.w_)
        return list(_each(lambda x: model.inference(x, w), _listed("X", X)))

    def losses(self, estimator, X, y) -> tuple[Array, Array]:
        X, y = _same_length(estimator, X, y)
        outputs, model = self.predict(estimator, X), estimator.model_
        losses = _each(lambda truth, x: (model.loss(truth, x), model.max_loss(truth)), y, outputs)
        own, largest = np.array(list(losses), np.float64).T
        return own, largest


def _each(function: Callable[..., Any], *parts: list) -> Iterator[Any]:
    """Values for one example after the other, whose number exceptions get: models do not see it."""
    for i, arguments in enumerate(zip(*parts, strict=True)):
        try:
            yield function(*arguments)
        except Exception as error:  # a user's model may raise anything; it is raised again
            error.add_note(f"This is example {i} of those given.")
            raise


def _same_length(estimator: BaseEstimator, X: Any, y: Any) -> tuple[list, list]:
    require_y(f"This {type(estimator).__name__} estimator", y)
    X, y = _listed("X", X), _listed("y", y)
    check_consistent_length(X, y)
    return X, y


def _listed(name: str, values: Any) -> list:
    if not (nature(values) == "list" or (isinstance(values, np.ndarray) and values.ndim)):
        raise TypeError(
            f"{name} must be a list of structures, or an array with one in each row; got "
            f"{short(values)} of type {type(values).__name__}."
        )
    values = list(values)
    if not values:
        raise ValueError(f"Found no structure in {name}, while a minimum of 1 is required.")
    return values
