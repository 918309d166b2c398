"""Checks of the CRF's input: sequences, labels and weights, packed into one CSR matrix."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, pairwise
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
from sklearn_bundle.chain.readers.packing import TOKEN_FORMS, X_CHECKS, Packed, listed, nature
from sklearn_bundle.core.estimator import features_of
from sklearn_bundle.core.misread import refuse_misread
from sklearn_bundle.core.validation import (
    arrays_of,
    check_discrete,
    check_sample_weight,
    checked_data,
    normalized,
)
from sklearn_bundle.core.values import is_missing, mixed, require_y, shown

_NUMPY_KINDS = "biufUS"  # kinds that sort and compare like Python's own values
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
    name = type(estimator).__name__
    require_y(f"This {name} estimator", y)
    packed, classes, labels = _read(estimator, X, y)
    given = check_sample_weight(sample_weight, len(packed.lengths)) * (packed.lengths > 0)
    with np.errstate(over="ignore"):
        total = float(given.sum())
    weights = normalized(given)
    kept = np.flatnonzero(weights)
    places = packing.positions_of(kept, packed.lengths)
    present, labels = np.unique(labels[places], return_inverse=True)
    packed, classes, weights = packed.take(kept), classes[present], normalized(weights[kept])
    if len(classes) < least_classes:
        raise ValueError(
            f"{name} needs labels of at least 2 classes in y (in sequences with a positive weight),"
            f" but got only one class: {classes.tolist()[0]!r}."
        )
    X, columns = _columns(packed, kept, given[kept], min_frequency)
    fitted = {"_form": packed.form} | (columns or features_of(estimator))
    for attribute in _OPTIONAL:
        if attribute not in fitted:
            vars(estimator).pop(attribute, None)
    plain = packed.form == "plain"
    return TrainingSequences(
        X, packed.lengths, plain, labels, classes, weights, total, kept, fitted
    )


def _read(estimator: BaseEstimator, X: Any, y: Any) -> tuple[Packed, np.ndarray, NDArray]:
    """Packed X, sorted classes, and their places for all positions."""
    sequences, name = packing.sequences_in(X), type(estimator).__name__
    if sequences is not None:
        packed = packing.pack_sequences(estimator, sequences, None)
        return packed, *_encoded(_all_labels(y, packed.lengths), packed.lengths)
    if nature(X) in ("list", "matrix"):  # otherwise X is wrong
        _refuse_several_labels(name, y)
    if mixed(y):
        _sorted_labels(np.asarray(y, dtype=object).tolist(), None)  # raises the error
    X, y = checked_data(estimator, X, y, **X_CHECKS)
    if y.dtype.kind == "O":
        _sorted_labels(y.tolist(), None)  # for a more precise error than scikit-learn's
    check_discrete(y)
    return packing.pack_plain(X), *np.unique(y, return_inverse=True)


def _columns(
    packed: Packed, kept: NDArray[np.intp], weights: NDArray[np.float64], least: int | None
) -> tuple[sp.csr_array, dict[str, Any]]:
    """The matrix of all positions, and what prediction needs to know of named attributes."""
    if packed.form not in TOKEN_FORMS:
        return packed.positions, {}
    names, X = features.fit_vocabulary(packed.form, packed.positions)
    features.check_finite(X, packed.lengths, names, kept)
    if least is not None:
        frequent = features.are_frequent(X, np.repeat(weights, packed.lengths), least)
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
        packed = packing.pack_plain(checked_data(estimator, X, reset=False, **X_CHECKS))
    else:
        packed = packing.pack_sequences(estimator, sequences, form)
    X = packed.positions
    if not len(packed.lengths.nonzero()[0]):
        X = sp.csr_array((0, estimator.n_features_in_))
    elif packed.form in TOKEN_FORMS:
        X = features.vectorized(estimator._vocabulary, packed.form, packed.positions)
        features.check_finite(X, packed.lengths, estimator.attribute_names_)
    return Sequences(X, packed.lengths, form == "plain")


def check_labels(
    estimator: BaseEstimator, sequences: Sequences, y: Any, *, all_known: bool = True
) -> NDArray[np.intp]:
    """The true labels of sequences as indices into ``classes_``; -1 for others, if allowed."""
    name, y = type(estimator).__name__, listed(y)
    require_y(name, y)
    if sequences.plain:
        refuse_misread("y", y, dates=True)
        _refuse_several_labels(name, y)
        y = column_or_1d(y, warn=True)
        check_consistent_length(sequences.X, y)
        flat = y
    else:
        flat = _all_labels(y, sequences.lengths)
    flat = flat.tolist() if isinstance(flat, np.ndarray) else flat
    index = {label: k for k, label in enumerate(estimator.classes_.tolist())}

    def number(label: Any) -> int:
        return index.get(label, -1) if _is_hashable(label) else -2

    labels = np.fromiter(map(number, flat), np.intp, len(flat))
    wrong = np.flatnonzero(labels < (0 if all_known else -1))
    if len(wrong):
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
        return _vector(self)


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


def _all_labels(y: Any, lengths: NDArray[np.int64]) -> list | np.ndarray:
    """The labels of all positions: an array if all sequences are arrays of the same kind."""
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
    kinds = {getattr(labels, "dtype", np.dtype(object)).kind for labels in sequences if len(labels)}
    if len(kinds) == 1 and kinds < set(_NUMPY_KINDS):
        return np.concatenate([np.asarray(labels) for labels in sequences if len(labels)])
    return list(chain.from_iterable(sequences))


def _encoded(labels: list | np.ndarray, lengths: NDArray[np.int64]) -> tuple[np.ndarray, NDArray]:
    """Sorted classes, and indices into them."""
    if isinstance(labels, np.ndarray):
        if labels.dtype.kind == "f" and np.isnan(labels).any():
            raise _missing_label(labels, lengths)
        classes, indices = np.unique(labels, return_inverse=True)
    else:
        ordered = _sorted_labels(labels, lengths)
        index = {label: k for k, label in enumerate(ordered)}
        indices = np.fromiter(map(index.__getitem__, labels), np.intp, len(labels))
        classes = _class_array(ordered)
    if classes.dtype.kind == "f":
        odd = classes[~np.isfinite(classes) | (classes != np.floor(classes))]
        if len(odd):
            raise ValueError(
                f"Unknown label type: continuous. y holds {odd[0]}; labels must be whole numbers, "
                "strings or other discrete values."
            )
    return classes, indices


def _sorted_labels(labels: list, lengths: NDArray[np.int64] | None) -> list:
    try:
        present = set(labels)
    except TypeError:
        t, label = next((t, label) for t, label in enumerate(labels) if not _is_hashable(label))
        raise ValueError(
            f"Labels must be hashable, got {short(label)} of type {type(label).__name__} "
            f"({place(t, lengths)} of y)."
        ) from None
    if any(map(is_missing, present)):
        raise _missing_label(labels, lengths)
    try:
        return sorted(present)
    except TypeError as error:
        kinds = ", ".join(sorted({type(label).__name__ for label in present}))
        raise ValueError(
            f"Labels must be sortable, but y holds labels of the types {kinds}: {error}."
        ) from error


def _missing_label(labels: list | np.ndarray, lengths: NDArray[np.int64] | None) -> ValueError:
    t, label = next((t, label) for t, label in enumerate(labels) if is_missing(label))
    return ValueError(f"Input y contains NaN or None: {shown(label)} ({place(t, lengths)}).")


def _is_hashable(label: Any) -> bool:
    try:
        hash(label)
    except TypeError:
        return False
    return True


def _class_array(labels: list) -> np.ndarray:
    """An array of numbers or of strings if it holds nothing else, otherwise of objects."""
    values = [
        x.item() if isinstance(x, np.generic) and x.dtype.kind in _NUMPY_KINDS else x
        for x in labels
    ]
    try:
        classes = np.array(values)
    except ValueError:  # tuples of different lengths
        return _vector(values)
    kinds = set(map(type, values))
    same = set(map(type, classes.tolist())) == kinds or kinds == {int, float}
    plain = classes.dtype.kind in _NUMPY_KINDS and classes.ndim == 1
    return classes if plain and same and classes.tolist() == values else _vector(values)


def _vector(values: list) -> np.ndarray:
    """A one-dimensional array of objects."""
    vector = np.empty(len(values), dtype=object)
    for k, value in enumerate(values):
        vector[k] = value
    return vector
