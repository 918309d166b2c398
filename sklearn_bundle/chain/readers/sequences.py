"""Checks of the CRF's input: sequences, labels and weights, packed into one CSR matrix."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, pairwise
from numbers import Real
from reprlib import repr as short
from typing import Any

import joblib
import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import assert_all_finite, column_or_1d
from sklearn.utils.validation import check_consistent_length

from sklearn_bundle.chain.readers import features, packing
from sklearn_bundle.chain.readers.features import place
from sklearn_bundle.chain.readers.forbidden import bars_of, check_allowed
from sklearn_bundle.chain.readers.packing import TOKEN_FORMS, nature
from sklearn_bundle.core.estimator import features_of
from sklearn_bundle.core.validation import (
    X_CHECKS,
    arrays_of,
    check_discrete,
    check_sample_weight,
    checked_data,
    normalized,
    total_of,
)
from sklearn_bundle.core.values import refuse_misread, require_y, shown

_NUMBERS = Real, np.bool_
_ROUNDING = 1e-9  # relative, of sums of weights
_OPTIONAL = "feature_names_in_", "attribute_names_", "_vocabulary"  # depending on the kind of X


@dataclass
class Sequences:
    """Sequences in the form for solvers, with stacked positions.

    X is CSR, float32 or float64, its indices sorted, without duplicates or explicit zeros;
    ``lengths`` may be 0 in prediction; ``plain`` means that X was a 2-D matrix: chains of length
    one.
    """

    X: sp.csr_array
    lengths: NDArray[np.int64]
    plain: bool

    @property
    def starts(self) -> NDArray[np.int64]:
        """The first position of every sequence, and the number of positions."""
        return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(self.lengths)])

    def sequences(self, which: NDArray[np.intp]) -> Sequences:
        """Only these sequences, in this order."""
        return Sequences(self.X[self._tokens(which)], self.lengths[which], self.plain)

    def _tokens(self, which: NDArray[np.intp]) -> NDArray[np.int64]:
        """All positions of these sequences."""
        lengths = self.lengths[which]
        before = np.cumsum(lengths) - lengths
        return np.arange(lengths.sum()) + np.repeat(self.starts[which] - before, lengths)


@dataclass
class TrainingSequences(Sequences):
    """Training sequences, without those of weight zero and empty ones.

    ``labels[t]`` is an index into the sorted ``classes``; ``weights``, one per sequence, are
    positive and sum to one, ``total`` is their previous sum; ``kept`` are the remaining sequences
    of the caller; ``bars`` say what is forbidden, see :func:`~.forbidden.bars_of`; ``fitted`` are
    attributes of the estimator, including those that prediction needs.
    """

    labels: NDArray[np.intp]
    classes: np.ndarray
    weights: NDArray[np.float64]
    total: float
    kept: NDArray[np.intp]
    bars: NDArray[np.float64]
    fitted: dict[str, Any]

    def fingerprint(self) -> Any:
        """A hash of X, bounds of sequences, labels, what is forbidden, and weights."""
        parts = self.lengths, self.labels, self.classes, self.bars, self.weights
        return joblib.hash((arrays_of(self.X), *parts))

    def part(self, which: NDArray[np.intp]) -> TrainingSequences:
        """Only these sequences, with classes and weights as if no others had been given.

        All attributes stay: the optimal weights of those without tokens are 0.
        """
        part, weights = self.sequences(which), self.weights[which]
        present, labels = np.unique(self.labels[self._tokens(which)], return_inverse=True)
        return TrainingSequences(
            part.X,
            part.lengths,
            part.plain,
            labels,
            self.classes[present],
            normalized(weights),
            float(weights.sum()) * self.total,
            self.kept[which],
            self.bars[np.append(present, [-2, -1])][:, present],
            self.fitted,
        )


def check_training_sequences(
    estimator: BaseEstimator,
    X: Any,
    y: Any,
    sample_weight: ArrayLike | float | None,
    least_classes: int = 2,
    min_frequency: int | None = None,
    forbidden: Any = None,
) -> TrainingSequences:
    """Check training data completely before any work starts.

    Named attributes whose tokens have a total weight below ``min_frequency`` are left out. No
    sequence may use what is ``forbidden``. Only scikit-learn's ``validate_data`` writes to the
    estimator; attributes of an earlier fit that this one lacks are removed.
    """
    name, sequences = type(estimator).__name__, packing.sequences_in(X)
    require_y(f"This {name} estimator", y)
    if sequences is None:
        X, y = checked_data(estimator, X, y, **X_CHECKS)
        check_discrete(y)
        X, lengths = features.csr(X), np.ones(X.shape[0], np.int64)
        classes, labels = _encoded(y.tolist(), lengths)
    else:
        lengths = packing.lengths_of(sequences)
        classes, labels = _encoded(_all_labels(y, lengths), lengths)
        if not lengths.any():
            raise ValueError("Found no position in X, while a minimum of 1 is required.")
    given = check_sample_weight(sample_weight, len(lengths)) * (lengths > 0)
    weights = normalized(given)
    kept = np.flatnonzero(weights)
    present, labels = np.unique(labels[np.repeat(weights > 0.0, lengths)], return_inverse=True)
    classes, lengths, weights = classes[present], lengths[kept], normalized(weights[kept])
    if len(classes) < least_classes:
        raise ValueError(
            f"{name} needs labels of at least 2 classes in y (in sequences with a positive weight),"
            f" but got only one class: {classes.tolist()[0]!r}."
        )
    bars = bars_of(forbidden, classes)
    check_allowed(bars, labels, lengths, classes, kept)
    form, X = "plain", X[kept] if sequences is None and len(kept) < X.shape[0] else X
    if sequences is not None:
        form, X = packing.packed(estimator, sequences, kept, None)
    columns = {}
    if form in TOKEN_FORMS:
        X, columns = _columns(form, X, np.repeat(given[kept], lengths), min_frequency)
    fitted = {"_form": form} | (columns or features_of(estimator))
    for attribute in _OPTIONAL:
        if attribute not in fitted:
            vars(estimator).pop(attribute, None)
    own = labels, classes, weights, total_of(given), kept, bars, fitted
    return TrainingSequences(X, lengths, form == "plain", *own)


def _columns(
    form: str, tokens: list, weights: NDArray, least: int | None
) -> tuple[sp.csr_array, dict[str, Any]]:
    """The matrix of all positions, and what prediction needs to know of named attributes."""
    names, X = features.fit_vocabulary(form, tokens)
    assert_all_finite(X, input_name="X")
    if least is not None:
        of_entries = np.repeat(weights, np.diff(X.indptr))
        found = np.bincount(X.indices, of_entries, len(names))
        frequent = found >= least * (1.0 - _ROUNDING)
        if not frequent.any():
            raise ValueError(f"min_frequency={least} leaves none of {len(names)} attributes.")
        names, X = names[frequent], X[:, frequent]
    fitted = {"n_features_in_": len(names), "attribute_names_": names}
    return X, fitted | {"_vocabulary": features.places_of(names)}


def check_prediction_sequences(estimator: BaseEstimator, X: Any) -> Sequences:
    """X for predict, of the kind used in fit; attributes that fit has not seen are ignored."""
    if isinstance(X, Sequences):  # of a search
        return X
    form = estimator._form
    sequences = packing.sequences_in(X)
    if sequences is None and form != "plain":
        given = f"a {type(X).__name__} that is not a list of sequences. Write one sequence as [X]."
        raise ValueError(packing.another_kind(estimator, form, given))
    if sequences is None:
        X = features.csr(checked_data(estimator, X, reset=False, **X_CHECKS))
        return Sequences(X, np.ones(X.shape[0], np.int64), True)
    lengths = packing.lengths_of(sequences)
    kept = np.flatnonzero(lengths)
    if not len(kept):
        return Sequences(sp.csr_array((0, estimator.n_features_in_)), lengths, False)
    form, X = packing.packed(estimator, sequences, kept, form)
    if form in TOKEN_FORMS:
        X = features.vectorized(estimator._vocabulary, form, X)
        assert_all_finite(X, input_name="X")
    return Sequences(X, lengths, False)


def check_labels(estimator: BaseEstimator, sequences: Sequences, y: Any) -> NDArray[np.intp]:
    """The true labels of sequences as indices into ``classes_``."""
    name = type(estimator).__name__
    require_y(name, y)
    if sequences.plain:
        refuse_misread("y", y, dates=True)
        flat = column_or_1d(y, warn=True).tolist()
        check_consistent_length(sequences.X, flat)
    else:
        flat = _all_labels(y, sequences.lengths)
    index = {label: k for k, label in enumerate(estimator.classes_.tolist())}
    labels = np.fromiter((index.get(label, -1) for label in flat), np.intp, len(flat))
    wrong = np.flatnonzero(labels < 0)
    if len(wrong):
        t = int(wrong[0])
        where = f"row {t}" if sequences.plain else place(t, sequences.lengths)
        raise ValueError(
            f"y holds the label {shown(flat[t])} ({where}), which {name} was not fitted on; "
            f"its classes_ are {short(list(index))}."
        )
    return labels


class PerSequence(list):
    """A list with one entry per sequence, which numpy treats as a vector of objects.

    numpy would refuse entries of different lengths, and make a matrix of equally long ones.
    """

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if dtype is not None and np.dtype(dtype) != object:
            return np.array(list(self), dtype=dtype)
        vector = np.empty(len(self), dtype=object)
        for k, value in enumerate(self):
            vector[k] = value
        return vector


def shaped(values: np.ndarray, sequences: Sequences) -> np.ndarray | PerSequence:
    """Values of all positions in the shape of X: a list by sequences, or one array."""
    if sequences.plain:
        return values
    starts = sequences.starts.tolist()
    return PerSequence(values[start:stop] for start, stop in pairwise(starts))


def _all_labels(y: Any, lengths: NDArray[np.int64]) -> list:
    """The labels of all positions."""
    if nature(y) not in ("list", "matrix") or hasattr(y, "columns"):
        raise TypeError(
            f"y must be a list with a sequence of labels for each sequence of X, got "
            f"{short(y)} of type {type(y).__name__}."
        )
    refuse_misread("y", y, dates=True)
    sequences = list(y)
    check_consistent_length(lengths, sequences)
    for i, (labels, length) in enumerate(zip(sequences, lengths.tolist(), strict=True)):
        if nature(labels) != "list" or len(labels) != length:
            raise ValueError(
                f"Sequence {i} of y must be a list of {length} labels, one for each position in X, "
                f"got {short(labels)} of type {type(labels).__name__}."
            )
    return list(chain.from_iterable(sequences))


def _encoded(labels: list, lengths: NDArray[np.int64]) -> tuple[np.ndarray, NDArray]:
    """Sorted classes, all strings or all whole numbers, and indices into them."""
    kinds = set(map(type, labels))
    strings = any(issubclass(kind, str) for kind in kinds)
    if all(issubclass(kind, str if strings else _NUMBERS) for kind in kinds):
        ordered = sorted(set(labels))
        if all(_is_label(label, strings) for label in ordered):
            index = {label: k for k, label in enumerate(ordered)}
            indices = np.fromiter(map(index.__getitem__, labels), np.intp, len(labels))
            return np.array(ordered, dtype=str if strings else None), indices
    t = next(t for t, label in enumerate(labels) if not _is_label(label, strings))
    raise ValueError(
        "Labels must be strings, or else whole numbers, not both: y holds "
        f"{shown(labels[t])} of type {type(labels[t]).__name__} ({place(t, lengths)})."
    )


def _is_label(label: Any, strings: bool) -> bool:
    """Whether it is a string, or else a whole number of at most 64 bits."""
    if strings:
        return isinstance(label, str)
    size = abs(float(label)) if isinstance(label, _NUMBERS) else np.inf
    return size.is_integer() and size < 2.0**63
