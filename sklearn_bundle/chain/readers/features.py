"""Conversion of tokens with named attributes (as in CRFsuite), and of matrices, to CSR."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, repeat
from numbers import Real
from reprlib import repr as short
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

FORMS = {"arrays": "rows of numbers", "strings": "lists of strings", "dicts": "dicts"}
_KINDS: dict[str, Any] = {"strings": (list, tuple, set, frozenset), "dicts": Mapping}
_VALUES = str, Real, np.bool_


def place(
    position: int, lengths: NDArray[np.int64], numbers: NDArray[np.intp] | None = None
) -> str:
    """Description of a position, by the caller's ``numbers`` of the sequences."""
    ends = np.cumsum(lengths)
    i = int(np.searchsorted(ends, position, side="right"))
    number = i if numbers is None else numbers[i]
    return f"sequence {number}, position {position - ends[i] + lengths[i]}"


def check_tokens(
    form: str, tokens: list, lengths: NDArray[np.int64], numbers: NDArray[np.intp]
) -> None:
    """Refuse tokens that are no lists of strings, or no dicts of strings to strings and numbers."""
    if are_right(form, tokens):
        return
    k = next(k for k, token in enumerate(tokens) if not are_right(form, [token]))
    raise ValueError(
        f"X ({place(k, lengths, numbers)}) holds {short(tokens[k])} of type "
        f"{type(tokens[k]).__name__} among {FORMS[form]}. A token is a list of strings, or a dict "
        "of names to strings and numbers; a word alone is written ['word'] or {'word': 'word'}."
    )


def are_right(form: str, tokens: list) -> bool:
    """Whether all tokens have the form, by their types, which are few."""
    parts: list[tuple[Any, Iterable]] = [
        (_KINDS[form], tokens),
        (str, chain.from_iterable(tokens)),
        (_VALUES, _values(tokens) if form == "dicts" else ()),
    ]
    return all(issubclass(kind, right) for right, part in parts for kind in set(map(type, part)))


def fit_vocabulary(form: str, tokens: list) -> tuple[NDArray, sp.csr_array]:
    """The sorted names of all attributes, and the matrix with one column for each."""
    if not any(tokens):
        raise ValueError("X holds no attribute: all its tokens are empty.")
    numbers: defaultdict[str, int] = defaultdict()
    numbers.default_factory = numbers.__len__  # a new name gets the next number
    counts, values = _counts_and_values(form, tokens)
    columns = np.fromiter(map(numbers.__getitem__, _names(form, tokens)), np.int64, counts.sum())
    names = np.array(sorted(numbers), dtype=object)
    rank = np.empty(len(names), _index_dtype(counts))
    rank[[numbers[name] for name in names]] = np.arange(len(names))
    return names, _matrix(counts, rank[columns], values, len(names))


def places_of(names: NDArray) -> dict[Any, int]:
    """The column of each attribute."""
    return dict(zip(names.tolist(), range(len(names)), strict=True))


def vectorized(vocabulary: dict[str, int], form: str, tokens: list) -> sp.csr_array:
    """Attributes of tokens; those without a column are left out."""
    counts, values = _counts_and_values(form, tokens)
    columns = map(vocabulary.get, _names(form, tokens), repeat(-1))
    columns = np.fromiter(columns, _index_dtype(counts), counts.sum())
    known = columns >= 0
    if not known.all():
        before = np.append(0, np.cumsum(known))
        counts = np.diff(before[np.append(0, np.cumsum(counts))])
        columns, values = columns[known], values[known]
    return _matrix(counts, columns, values, len(vocabulary))


def _names(form: str, tokens: list) -> Iterator[str]:
    """The names of all attributes, token by token."""
    if form == "strings":
        return chain.from_iterable(tokens)
    items = chain.from_iterable(token.items() for token in tokens)
    return (f"{key}:{value}" if isinstance(value, str) else key for key, value in items)


def _values(tokens: list) -> Iterable:
    """The values of all attributes, token by token."""
    return chain.from_iterable(token.values() for token in tokens)


def _counts_and_values(form: str, tokens: list) -> tuple[NDArray[np.int64], NDArray]:
    """The number of attributes per token, and all values; of names alone in single precision."""
    counts = np.fromiter(map(len, tokens), np.int64, len(tokens))
    values = list(_values(tokens)) if form == "dicts" else []
    if set(map(type, values)) <= {str}:
        return counts, np.ones(counts.sum(), np.float32)
    try:
        return counts, np.array([1.0 if isinstance(v, str) else float(v) for v in values])
    except OverflowError as error:
        raise ValueError(f"X holds a number beyond the range of float64: {error}.") from error


def _index_dtype(counts: NDArray[np.int64]) -> type:
    return np.int32 if counts.sum() <= np.iinfo(np.int32).max else np.int64


def _matrix(counts: NDArray, columns: NDArray, values: NDArray, n_columns: int) -> sp.csr_array:
    indptr = np.append(0, np.cumsum(counts)).astype(columns.dtype)
    return _canonical(sp.csr_array((values, columns, indptr), shape=(len(counts), n_columns)))


def csr(X: Any) -> sp.csr_array:
    """X with sorted indices, without duplicates or zeros; copied only if needed."""
    if not sp.issparse(X):
        return sp.csr_array(X)
    n = X.indptr[-1]
    # a new object, since the caller's must not change and its cached flags may be wrong
    X = sp.csr_array((X.data[:n], X.indices[:n], X.indptr), shape=X.shape)
    return X if X.has_canonical_format and X.data.all() else _canonical(X.copy())


def _canonical(X: sp.csr_array) -> sp.csr_array:
    X.sum_duplicates()
    if not X.data.all():
        X.eliminate_zeros()
    return X
