"""Packing of users' sequences into one matrix or one list of tokens."""

from collections.abc import Mapping
from itertools import chain
from reprlib import repr as short
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from sklearn_bundle.chain.readers.features import FORMS, check_tokens, csr
from sklearn_bundle.core.validation import X_CHECKS, well_formed
from sklearn_bundle.core.values import refuse_misread

TOKEN_FORMS = {"strings", "dicts"}


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


def _size(value: Any) -> int:
    """The number of items or rows; 1 for what has none."""
    shape = getattr(value, "shape", None)
    if shape is None:
        return len(value) if hasattr(value, "__len__") else 1
    return shape[0] if shape else 1


def sequences_in(X: Any) -> list | None:
    """The sequences in X, or None if X is 2-D or scikit-learn will refuse it."""
    if isinstance(X, np.ndarray) and X.ndim > 1:
        return None if X.ndim == 2 else list(X)
    kind = nature(X)
    if kind in ("mapping", "string", "set", "other") and not hasattr(X, "__array__"):
        raise TypeError(f"Expected a 2-D X or a list of sequences, got a {type(X).__name__}.")
    if kind != "list":
        return None
    sequences = list(X)
    first = next(filter(_size, sequences), [])
    return None if nature(first) == "scalar" or _is_row(first) else sequences


def lengths_of(sequences: list) -> NDArray[np.int64]:
    """The numbers of tokens of sequences, which have to be lists or matrices."""
    for i, sequence in enumerate(sequences):
        kind = nature(sequence)
        if kind not in ("matrix", "list"):
            error = ValueError if kind in ("mapping", "string", "scalar") else TypeError
            raise error(
                f"Sequence {i} of X must be a list of tokens, each a dict or a list of strings, or "
                f"rows of numbers of shape (T, d); got {short(sequence)} of type "
                f"{type(sequence).__name__}. A single sequence is written [sequence]."
            )
    return np.fromiter(map(_size, sequences), np.int64, len(sequences))


def packed(
    estimator: BaseEstimator, sequences: list, which: NDArray[np.intp], fitted: str | None
) -> tuple[str, Any]:
    """The form of these sequences, which are not empty, and their tokens: a list, or CSR.

    ``fitted`` is the form used in fit, None in fit itself.
    """
    form = _form(sequences[which[0]], f"Sequence {which[0]} of X")
    if fitted not in (None, form) and not {form, fitted} <= TOKEN_FORMS:
        raise ValueError(another_kind(estimator, fitted, f"sequences of {FORMS[form]}."))
    if form == "arrays":
        X = _stacked([_matrix(sequences[i], f"Sequence {i} of X") for i in which], which)
        return form, csr(validate_data(estimator, X, reset=fitted is None, **X_CHECKS))
    tokens = list(chain.from_iterable(sequences[i] for i in which))
    check_tokens(form, tokens, np.array([_size(sequences[i]) for i in which]), which)
    return form, tokens


def another_kind(estimator: BaseEstimator, fitted: str, given: str) -> str:
    known = f"sequences of {FORMS[fitted]}" if fitted in FORMS else "a 2-D X with one label per row"
    return f"{type(estimator).__name__} was fitted on {known}, but X is of another kind: {given}"


def _form(sequence: Any, name: str) -> str:
    """What the tokens of a sequence are, judged by the first one that is not empty."""
    if nature(sequence) == "matrix":
        return "arrays"
    token = next(filter(_size, sequence), sequence[0])
    kind = nature(token)
    if kind in ("string", "scalar"):
        raise ValueError(
            f"{name} holds {short(token)} as a token. A word is written ['word'] or {{'word': "
            "'word'}, a number as a row of its own: shape (T, 1). If X is one sequence, write [X]."
        )
    if kind == "matrix" or _is_row(token):
        return "arrays"
    return "dicts" if kind == "mapping" else "strings"


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
    return sequence


def _stacked(matrices: list[Any], numbers: NDArray[np.intp]) -> Any:
    """One matrix of sequences, whose ``numbers`` are for messages."""
    for i, matrix in zip(numbers, matrices, strict=True):
        if matrix.ndim != 2 or matrix.shape[1] != matrices[0].shape[1]:
            raise ValueError(
                f"Sequence {i} of X has the shape {matrix.shape}; all must have the shape (T, d) "
                "with the same d."
            )
    if any(map(sp.issparse, matrices)):
        return sp.vstack([sp.csr_array(matrix) for matrix in matrices], "csr")
    return np.concatenate(matrices)
