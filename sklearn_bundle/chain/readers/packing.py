"""Packing of users' sequences into one matrix or one list of tokens."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, compress
from reprlib import repr as short
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from sklearn_bundle.chain.readers import features
from sklearn_bundle.chain.readers.features import FORMS
from sklearn_bundle.core.misread import refuse_misread
from sklearn_bundle.core.validation import well_formed

TOKEN_FORMS = {"strings", "dicts"}
X_CHECKS: dict[str, Any] = {"accept_sparse": "csr", "dtype": [np.float64, np.float32]}


@dataclass
class Packed:
    """Checked input: ``positions`` is CSR, or a list of tokens for "strings" and "dicts"."""

    form: str
    positions: Any
    lengths: NDArray[np.int64]

    def take(self, kept: NDArray[np.intp]) -> "Packed":
        """Only these sequences."""
        if len(kept) == len(self.lengths):
            return self
        mask = positions_of(kept, self.lengths)
        rows = isinstance(self.positions, list)
        positions = list(compress(self.positions, mask)) if rows else self.positions[mask]
        return Packed(self.form, positions, self.lengths[kept])


def positions_of(kept: NDArray[np.intp], lengths: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Mask of the positions that belong to the kept sequences."""
    return np.repeat(np.isin(np.arange(len(lengths)), kept), lengths)


def nature(value: Any) -> str:
    """The form of a part of X or y, decided by its first nonempty item."""
    if type(value) is list or isinstance(value, list | tuple):
        return "list"
    if sp.issparse(value):  # before mappings, since a dok_array is also a dict
        return "matrix"
    if isinstance(value, Mapping):
        return "mapping"
    if isinstance(value, str | bytes):
        return "string"
    if isinstance(value, set | frozenset):
        return "set"
    if hasattr(value, "shape"):
        return ("scalar", "list", "matrix")[min(len(value.shape), 2)]
    return "other" if hasattr(value, "__iter__") else "scalar"


def _is_row(value: Any) -> bool:
    """Whether it is a list of numbers, judged by the first item."""
    return nature(value) == "list" and len(value) > 0 and nature(next(iter(value))) == "scalar"


def listed(value: Any) -> Any:
    """The items of an iterator, which can be read only once; other objects unchanged."""
    return list(value) if isinstance(value, Iterator) else value


def sequences_in(X: Any) -> list | None:
    """The sequences in X, or None if X is 2-D or scikit-learn will refuse it."""
    X = listed(X)
    if isinstance(X, np.ndarray) and X.ndim > 1:
        return None if X.ndim == 2 and not _cells_are_tokens(X) else list(X)
    kind = nature(X)
    if kind in ("mapping", "string", "set", "other") and not hasattr(X, "__array__"):
        raise TypeError(f"Expected a 2-D X or a list of sequences, got a {type(X).__name__}.")
    if kind != "list" or (isinstance(X, np.ndarray) and not len(X)):
        return None
    sequences = list(X)
    first = next((s for s in sequences if not _is_empty(s)), [])
    return None if nature(first) == "scalar" or _is_row(first) else sequences


def _cells_are_tokens(X: np.ndarray) -> bool:
    """Whether X is numpy's 2-D array of equally long sequences of dicts or of lists of strings."""
    if X.dtype.kind != "O":
        return X.dtype.kind in "US"
    return X.size > 0 and {*map(nature, X.flat)} <= {"mapping", "string", "list", "set"}


def _is_empty(value: Any) -> bool:
    if type(value) is list:
        return not value
    shape = getattr(value, "shape", None)
    return hasattr(value, "__len__") and len(value) == 0 if shape is None else shape[:1] == (0,)


def pack_plain(X: Any) -> Packed:
    """A matrix checked by scikit-learn."""
    return Packed("plain", features.csr(X), np.ones(X.shape[0], dtype=np.int64))


def pack_sequences(estimator: BaseEstimator, sequences: list, fitted: str | None) -> Packed:
    """Check and concatenate sequences; ``fitted`` is the form used in fit, None in fit itself."""
    lengths, read = np.zeros(len(sequences), np.int64), {}
    for i, sequence in enumerate(sequences):
        if not (nature(sequence) in ("matrix", "list") and _is_empty(sequence)):
            read[i] = _read(sequence, f"Sequence {i} of X")
    if not read:
        if fitted in (None, "plain"):
            none = f"X has no position: all its {len(sequences)} sequences are empty."
            some = "Found no sequence in X, while a minimum of 1 is required."
            raise ValueError(none if sequences else some)
        return Packed(fitted, [], lengths)
    first, (form, _) = next(iter(read.items()))
    for i, (other, _) in read.items():
        if other != form:
            raise ValueError(
                f"X mixes kinds of features: sequence {first} holds {FORMS[form]}, sequence {i} "
                f"{FORMS[other]}; all must be of one kind."
            )
    if fitted not in (None, form) and not {form, fitted} <= TOKEN_FORMS:
        raise ValueError(another_kind(estimator, fitted, f"sequences of {FORMS[form]}."))
    values = [value for _, value in read.values()]
    if form == "arrays":
        lengths[list(read)] = [value.shape[0] for value in values]
        X = features.csr(_stacked(estimator, list(read), values, reset=fitted is None))
        features.check_finite(X, lengths)
        return Packed(form, X, lengths)
    lengths[list(read)] = list(map(len, values))
    tokens = list(chain.from_iterable(values))
    tokens = features.checked_tokens(form, tokens, lengths)
    return Packed(form, tokens, lengths)


def another_kind(estimator: BaseEstimator, fitted: str, given: str) -> str:
    known = f"sequences of {FORMS[fitted]}" if fitted in FORMS else "a 2-D X with one label per row"
    return f"{type(estimator).__name__} was fitted on {known}, but X is of another kind: {given}"


def _read(sequence: Any, name: str) -> tuple[str, Any]:
    """The form of a sequence, and its matrix or list of tokens."""
    kind = nature(sequence)
    if kind not in ("matrix", "list"):
        error = ValueError if kind in ("mapping", "string", "scalar") else TypeError
        raise error(
            f"{name} must be a list of tokens, each a dict or a list of strings, or rows of "
            f"numbers of shape (T, d); got {short(sequence)} of type {type(sequence).__name__}. A "
            "single sequence is written [sequence]."
        )
    if kind == "matrix" and getattr(getattr(sequence, "dtype", None), "kind", "f") not in "OUS":
        return "arrays", _matrix(sequence, name)
    sequence = list(sequence)
    token = next((t for t in sequence if not _is_empty(t)), sequence[0])
    kind = nature(token)
    if kind in ("string", "scalar"):
        raise ValueError(
            f"{name} holds {short(token)} as a token. A word is written ['word'] or {{'word': "
            "'word'}, a number as a row of its own: shape (T, 1). If X is one sequence, write [X]."
        )
    if kind == "matrix" or _is_row(token):
        return "arrays", _matrix(sequence, name)
    return ("dicts" if kind == "mapping" else "strings"), sequence


def _matrix(sequence: Any, name: str) -> Any:
    """A sequence of rows of numbers as a 2-D array or sparse matrix."""
    refuse_misread(name, sequence)
    if sp.issparse(sequence):
        return well_formed(sequence, name)
    try:
        sequence = np.asarray(sequence)
        if sequence.dtype.kind in "OUS":
            sequence = sequence.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} is not a matrix of numbers: {error}") from error
    if sequence.ndim != 2:
        raise ValueError(
            f"{name} has {sequence.ndim} dimensions; a sequence must have the shape (T, d)."
        )
    return sequence


def _stacked(estimator: Any, numbers: list[int], matrices: list[Any], *, reset: bool) -> Any:
    """One matrix, checked by scikit-learn except for NaN, since its row number means nothing.

    ``numbers`` are those of the sequences, for messages.
    """
    for i, matrix in enumerate(matrices):
        if matrix.shape[1] != matrices[0].shape[1]:
            raise ValueError(
                f"Sequence {numbers[i]} of X has {matrix.shape[1]} features, sequence {numbers[0]} "
                f"has {matrices[0].shape[1]}; all must have the same number."
            )
    if any(map(sp.issparse, matrices)):
        X = sp.vstack([sp.csr_array(matrix) for matrix in matrices], "csr")
    else:
        X = np.concatenate(matrices)
    return validate_data(estimator, X, reset=reset, ensure_all_finite=False, **X_CHECKS)
