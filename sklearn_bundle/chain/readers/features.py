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
_HOLDERS = list, tuple, set, frozenset  # containers of the attribute strings of a token
_KINDS: dict[str, Any] = {"strings": (*_HOLDERS, np.ndarray), "dicts": Mapping}
_NUMBERS = Real, np.bool_
_ROUNDING = 1e-9  # relative, for sums of normalized weights


def place(
    position: int, lengths: NDArray[np.int64] | None, numbers: NDArray[np.intp] | None = None
) -> str:
    """Description of a position: a row of a 2-D X, or a sequence and position."""
    if lengths is None:
        return f"row {position}"
    ends = np.cumsum(lengths)
    i = int(np.searchsorted(ends, position, side="right"))
    number = i if numbers is None else numbers[i]
    return f"sequence {number}, position {position - ends[i] + lengths[i]}"


def checked_tokens(form: str, tokens: list, lengths: NDArray[np.int64]) -> list:
    """Tokens as containers of strings, or as dicts of numbers and strings, read like CRFsuite's."""
    if _are_plain(form, tokens):
        return tokens
    convert = _texts if form == "strings" else _expanded
    result = []
    for k, token in enumerate(tokens):
        try:
            if not isinstance(token, _KINDS[form]):
                raise TypeError(f"X mixes {FORMS[form]} with {_described(token)}")
            result.append(convert(token))
        except (TypeError, OverflowError) as error:
            raise ValueError(f"X ({place(k, lengths)}): {error}") from None
    return result


def _are_plain(form: str, tokens: list) -> bool:
    """Whether they can stay as they are, which their types say."""
    kinds = set(map(type, tokens))
    if np.ndarray in kinds or not all(issubclass(kind, _KINDS[form]) for kind in kinds):
        return False
    if not set(map(type, chain.from_iterable(tokens))) <= {str}:
        return False
    if form == "strings":
        return True
    kinds = set(map(type, chain.from_iterable(token.values() for token in tokens)))
    return all(kind is str or issubclass(kind, Real) for kind in kinds)


def _described(value: Any) -> str:
    bare = ": a word alone is written ['word'] or {'word': 'word'}" if type(value) is str else ""
    return f"{short(value)} of type {type(value).__name__}{bare}."


def _texts(token: Iterable[Any]) -> list[str]:
    wrong = [name for name in token if not isinstance(name, str)]
    if wrong:
        raise TypeError(
            f"a list of strings holds {_described(wrong[0])} Attributes with values are given as "
            "dicts, all tokens alike."
        )
    return list(map(str.__str__, token))


def _expanded(token: Mapping) -> dict[str, float]:
    """A dict str -> float, with nested dicts and collections of strings expanded.

    Values of an attribute that occurs several times are summed, as in CRFsuite.
    """
    result: defaultdict[str, float] = defaultdict(float)
    for name, value in _attributes(token, ""):
        result[name] += value
    return result


def _attributes(token: Mapping, prefix: str) -> Iterator[tuple[str, float]]:
    for key, value in token.items():
        if not isinstance(key, str):
            raise TypeError(f"the key {short(key)} of type {type(key).__name__} is not a string.")
        name = prefix + str.__str__(key)
        texts = [value] if isinstance(value, str) else value
        if isinstance(value, Mapping):
            yield from _attributes(value, f"{name}:")
        elif isinstance(value, _NUMBERS):
            yield name, float(value)
        elif isinstance(texts, _HOLDERS) and all(isinstance(v, str) for v in texts):
            yield from ((f"{name}:{str.__str__(v)}", 1.0) for v in texts)
        else:
            raise TypeError(
                f"the value of {name!r} must be a number, a bool, a string, a list of strings or a "
                f"dict, got {_described(value)}"
            )


def fit_vocabulary(form: str, tokens: list) -> tuple[NDArray, sp.csr_array]:
    """The sorted names of all attributes, and the matrix with one column for each."""
    if not any(tokens):
        raise ValueError("X holds no attribute: all its tokens are empty.")
    numbers: defaultdict[str, int] = defaultdict()
    numbers.default_factory = numbers.__len__  # a new name gets the next number
    counts, values = _sizes_and_values(form, tokens)
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
    counts, values = _sizes_and_values(form, tokens)
    columns = map(vocabulary.get, _names(form, tokens), repeat(-1))
    columns = np.fromiter(columns, _index_dtype(counts), counts.sum())
    known = columns >= 0
    if not known.all():
        before = np.append(0, np.cumsum(known))
        counts = np.diff(before[np.append(0, np.cumsum(counts))])
        columns, values = columns[known], values[known]
    return _matrix(counts, columns, values, len(vocabulary))


def are_frequent(
    X: sp.csr_array, token_weights: NDArray[np.float64], least: float
) -> NDArray[np.bool_]:
    """Columns whose tokens have at least this total weight."""
    weights = np.repeat(token_weights, np.diff(X.indptr))
    return np.bincount(X.indices, weights, X.shape[1]) >= least * (1.0 - _ROUNDING)


def _names(form: str, tokens: list) -> Iterator[str]:
    """The names of all attributes, token by token."""
    if form == "strings":
        return chain.from_iterable(tokens)
    items = chain.from_iterable(token.items() for token in tokens)
    return (f"{key}:{value}" if type(value) is str else key for key, value in items)


def _sizes_and_values(form: str, tokens: list) -> tuple[NDArray[np.int64], NDArray]:
    """The number of attributes per token, and all values; ones in single precision."""
    counts = np.fromiter(map(len, tokens), np.int64, len(tokens))
    values = [v for token in tokens for v in token.values()] if form == "dicts" else []
    if set(map(type, values)) <= {str}:
        return counts, np.ones(counts.sum(), np.float32)
    try:
        return counts, np.array([1.0 if type(v) is str else float(v) for v in values])
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


def check_finite(
    X: sp.csr_array,
    lengths: NDArray[np.int64],
    names: np.ndarray | None = None,
    numbers: NDArray[np.intp] | None = None,
) -> None:
    """scikit-learn's check, with an error that names the sequence by the caller's ``numbers``."""
    if np.isfinite(X.data).all():
        return
    k = int(np.argmin(np.isfinite(X.data)))
    what = "NaN" if np.isnan(X.data[k]) else "infinity"
    feature = X.indices[k] if names is None else repr(names[X.indices[k]])
    where = place(int(np.searchsorted(X.indptr, k, side="right")) - 1, lengths, numbers)
    raise ValueError(f"Input X contains {what}: {where}, feature {feature}.")
