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
from sklearn.utils import column_or_1d
from sklearn.utils.validation import check_consistent_length

from sklearn_bundle.chain.readers import features, packing
from sklearn_bundle.chain.readers.features import place
from sklearn_bundle.chain.readers.packing import TOKEN_FORMS, X_CHECKS, nature
from sklearn_bundle.core.estimator import features_of
from sklearn_bundle.core.validation import (
    arrays_of,
    check_discrete,
    check_sample_weight,
    checked_data,
    normalized,
)
from sklearn_bundle.core.values import is_missing, mixed, refuse_misread, require_y, shown

_NUMBERS = Real, np.bool_
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


class KnownSequences(list):
    """The caller's sequences, and their checked form for the estimators of one search."""

    def __init__(self, given: list, sequences: Sequences, fitted: dict[str, Any]):
        super().__init__(given)
        self._sequences, self._fitted = sequences, fitted

    def known_to(self, estimator: BaseEstimator) -> Sequences | None:
        """The checked form, if the estimator belongs to that search."""
        same = all(getattr(estimator, name, None) is self._fitted[name] for name in self._fitted)
        return self._sequences if same else None


@dataclass
class TrainingSequences(Sequences):
    """Training sequences, without those of weight zero and empty ones.

    ``labels[t]`` is an index into the sorted ``classes``; ``weights``, one per sequence, are
    positive and sum to one, ``total`` is their previous sum; ``kept`` are the remaining sequences
    of the caller; ``fitted`` are attributes of the estimator, including those that prediction
    needs.
    """

    labels: NDArray[np.intp]
    classes: np.ndarray
    weights: NDArray[np.float64]
    total: float
    kept: NDArray[np.intp]
    fitted: dict[str, Any]

    def fingerprint(self) -> Any:
        """A hash of X, bounds of sequences, labels and weights."""
        parts = self.lengths, self.labels, self.classes, self.weights
        return joblib.hash((arrays_of(self.X), *parts))

    def part(self, which: NDArray[np.intp], min_frequency: int | None = None) -> TrainingSequences:
        """Only these sequences, with classes and weights as if no others had been given.

        All attributes stay, but infrequent named attributes become empty: the optimal weights of
        attributes without tokens are 0.
        """
        part, weights = self.sequences(which), self.weights[which]
        if min_frequency is not None and "_vocabulary" in self.fitted:
            of_tokens = np.repeat(self.total * weights, part.lengths)
            part.X.data *= features.are_frequent(part.X, of_tokens, min_frequency)[part.X.indices]
            part.X.eliminate_zeros()
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
            self.fitted,
        )


def check_training_sequences(
    estimator: BaseEstimator,
    X: Any,
    y: Any,
    sample_weight: ArrayLike | float | None,
    least_classes: int = 2,
    min_frequency: int | None = None,
) -> TrainingSequences:
    """Check training data completely before any work starts.

    Named attributes whose tokens have a total weight below ``min_frequency`` are left out. Only
    scikit-learn's ``validate_data`` writes to the estimator; attributes of an earlier fit that this
    one lacks are removed.
    """
    name, sequences = type(estimator).__name__, packing.sequences_in(X)
    require_y(f"This {name} estimator", y)
    if sequences is None:
        X, (classes, labels) = _plain(estimator, X, y)
        lengths = np.ones(X.shape[0], np.int64)
    else:
        lengths = packing.lengths_of(sequences)
        classes, labels = _encoded(_all_labels(y, lengths), lengths)
        if not lengths.any():
            none = f"X has no position: all its {len(lengths)} sequences are empty."
            some = "Found no sequence in X, while a minimum of 1 is required."
            raise ValueError(none if sequences else some)
    given = check_sample_weight(sample_weight, len(lengths)) * (lengths > 0)
    with np.errstate(over="ignore"):
        total = float(given.sum())
    weights = normalized(given)
    kept = np.flatnonzero(weights)
    present, labels = np.unique(labels[np.repeat(weights > 0.0, lengths)], return_inverse=True)
    classes, lengths, weights = classes[present], lengths[kept], normalized(weights[kept])
    if len(classes) < least_classes:
        raise ValueError(
            f"{name} needs labels of at least 2 classes in y (in sequences with a positive weight),"
            f" but got only one class: {classes.tolist()[0]!r}."
        )
    form, X = "plain", X[kept] if sequences is None and len(kept) < X.shape[0] else X
    if sequences is not None:
        form, X = packing.packed(estimator, sequences, kept, None)
    columns = {}
    if form in TOKEN_FORMS:
        X, columns = _columns(form, X, lengths, kept, given[kept], min_frequency)
    fitted = {"_form": form} | (columns or features_of(estimator))
    for attribute in _OPTIONAL:
        if attribute not in fitted:
            vars(estimator).pop(attribute, None)
    plain = form == "plain"
    return TrainingSequences(X, lengths, plain, labels, classes, weights, total, kept, fitted)


def _plain(estimator: BaseEstimator, X: Any, y: Any) -> tuple[Any, tuple[np.ndarray, NDArray]]:
    """A 2-D X, with sorted classes and the places of labels among them."""
    if nature(X) in ("list", "matrix"):  # otherwise X is wrong
        _refuse_several_labels(type(estimator).__name__, y)
    if mixed(y):
        _encoded(np.asarray(y, dtype=object).tolist(), None)  # raises the error
    X, y = checked_data(estimator, X, y, **X_CHECKS)
    check_discrete(y)
    return features.csr(X), _encoded(y.tolist(), None)


def _columns(
    form: str, tokens: list, lengths: NDArray, kept: NDArray, weights: NDArray, least: int | None
) -> tuple[sp.csr_array, dict[str, Any]]:
    """The matrix of all positions, and what prediction needs to know of named attributes."""
    names, X = features.fit_vocabulary(form, tokens)
    features.check_finite(X, lengths, names, kept)
    if least is not None:
        frequent = features.are_frequent(X, np.repeat(weights, lengths), least)
        if not frequent.any():
            raise ValueError(f"min_frequency={least} leaves none of {len(names)} attributes.")
        names, X = names[frequent], X[:, frequent]
    fitted = {"n_features_in_": len(names), "attribute_names_": names}
    return X, fitted | {"_vocabulary": features.places_of(names)}


def check_prediction_sequences(estimator: BaseEstimator, X: Any) -> Sequences:
    """X for predict, of the kind used in fit; attributes that fit has not seen are ignored."""
    known = X.known_to(estimator) if isinstance(X, KnownSequences) else None
    if known is not None:
        return known
    form = estimator._form
    sequences = packing.sequences_in(X)
    if sequences is None and form != "plain" and np.shape(X) == (0,):
        sequences = []
    if sequences is None and form != "plain":
        given = f"a {type(X).__name__} that is not a list of sequences. Write one sequence as [X]."
        raise ValueError(packing.another_kind(estimator, form, given))
    if sequences is None:
        X = features.csr(checked_data(estimator, X, reset=False, **X_CHECKS))
        return Sequences(X, np.ones(X.shape[0], np.int64), True)
    if form == "plain" and not len(sequences):
        raise ValueError("Found no sequence in X, while a minimum of 1 is required.")
    lengths = packing.lengths_of(sequences)
    kept = np.flatnonzero(lengths)
    if not len(kept):
        return Sequences(sp.csr_array((0, estimator.n_features_in_)), lengths, False)
    form, X = packing.packed(estimator, sequences, kept, form)
    if form in TOKEN_FORMS:
        X = features.vectorized(estimator._vocabulary, form, X)
        features.check_finite(X, lengths[kept], estimator.attribute_names_, kept)
    return Sequences(X, lengths, False)


def check_labels(
    estimator: BaseEstimator, sequences: Sequences, y: Any, *, all_known: bool = True
) -> NDArray[np.intp]:
    """The true labels of sequences as indices into ``classes_``; -1 for others, if allowed."""
    name = type(estimator).__name__
    require_y(name, y)
    if sequences.plain:
        refuse_misread("y", y, dates=True)
        _refuse_several_labels(name, y)
        flat = column_or_1d(y, warn=True).tolist()
        check_consistent_length(sequences.X, flat)
    else:
        flat = _all_labels(y, sequences.lengths)
    index = {label: k for k, label in enumerate(estimator.classes_.tolist())}
    labels = np.fromiter((index.get(label, -1) for label in flat), np.intp, len(flat))
    wrong = np.flatnonzero(labels < 0)
    if all_known and len(wrong):
        where = place(int(wrong[0]), None if sequences.plain else sequences.lengths)
        raise ValueError(
            f"y holds the label {shown(flat[wrong[0]])} ({where}), which {name} was not fitted on; "
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


def _refuse_several_labels(name: str, y: Any) -> None:
    """Refuse multilabel y for a 2-D X; scikit-learn recognizes only arrays of numbers."""
    kind = nature(y)
    several = kind == "matrix" and y.shape[1] > 1
    if kind == "list":
        first: Any = next(iter(y), None)
        several = nature(first) == "list" and len(first) != 1
    if several:
        raise ValueError(
            f"{name} takes one label per row of a 2-D X, y of shape (n_rows,); got multilabel y, "
            "or sequences of labels. In a list of sequences X, a sequence of numbers must have the "
            "shape (T, d): (T, 1) for a single feature."
        )


def _all_labels(y: Any, lengths: NDArray[np.int64]) -> list:
    """The labels of all positions."""
    if nature(y) not in ("list", "matrix") or hasattr(y, "columns"):
        raise TypeError(
            f"y must be a list with a sequence of labels for each sequence of X, got "
            f"{short(y)} of type {type(y).__name__}."
        )
    refuse_misread("y", y, dates=True)
    sequences = list(y)
    if len(sequences) != len(lengths):
        raise ValueError(
            f"X and y have inconsistent numbers of sequences: {len(lengths)} in X, "
            f"{len(sequences)} in y."
        )
    for i, (labels, length) in enumerate(zip(sequences, lengths.tolist(), strict=True)):
        if type(labels) is not list and nature(labels) != "list":
            raise ValueError(
                f"Sequence {i} of y must be a list of labels, got {short(labels)} of type "
                f"{type(labels).__name__}."
            )
        if len(labels) != length:
            raise ValueError(
                f"Sequence {i} has {length} positions in X, but {len(labels)} labels in y."
            )
    return list(chain.from_iterable(sequences))


def _encoded(labels: list, lengths: NDArray[np.int64] | None) -> tuple[np.ndarray, NDArray]:
    """Sorted classes, all strings or all whole numbers, and indices into them."""
    kinds = set(map(type, labels))
    if all(issubclass(kind, str) for kind in kinds):
        ordered = sorted(set(labels))
        index = {label: k for k, label in enumerate(ordered)}
        indices = np.fromiter(map(index.__getitem__, labels), np.intp, len(labels))
        return np.array(ordered, dtype=str), indices
    if all(issubclass(kind, _NUMBERS) for kind in kinds):
        values = np.array(labels)
        whole = values.dtype.kind in "biuf" and np.isfinite(values) & (values == np.floor(values))
        if np.all(whole):
            return np.unique(values, return_inverse=True)
    string = any(issubclass(kind, str) for kind in kinds)
    for t, label in enumerate(labels):
        if is_missing(label):
            raise ValueError(f"Input y contains NaN or None: {shown(label)} ({place(t, lengths)}).")
        size = abs(float(label)) if isinstance(label, _NUMBERS) else np.inf
        whole = size.is_integer() and size < 2.0**63
        if not (isinstance(label, str) if string else whole):
            break
    raise ValueError(
        "Labels must be strings, or else whole numbers, not both: y holds "
        f"{shown(label)} of type {type(label).__name__} ({place(t, lengths)})."
    )
