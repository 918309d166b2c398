"""Conversion of matrices and of tokens with named attributes (as in CRFsuite) to CSR."""

import warnings
from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import chain, repeat
from numbers import Real
from reprlib import repr as short
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

FORMS = {"arrays": "rows of numbers", "strings": "lists of strings", "dicts": "dicts"}
_HOLDERS = list, tuple, set, frozenset  # containers of the attribute strings of a token
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


def bare_string(token: str | bytes) -> str:
    word = short(token if isinstance(token, bytes) else str.__str__(token))
    return (
        f"the bare string {word} as a token; a token must be a list of strings or a dict: write "
        f"[{word}] or {{'word': {word}}}. (If X is meant as a single sequence, write [X].)"
    )


def checked_strings(tokens: list, lengths: NDArray[np.int64]) -> list:
    """Tokens as containers of plain strings."""
    if any(issubclass(kind, np.ndarray) for kind in set(map(type, tokens))):
        tokens = [t.tolist() if isinstance(t, np.ndarray) and t.ndim else t for t in tokens]
    if not all(issubclass(kind, _HOLDERS) for kind in set(map(type, tokens))):
        k = next(k for k, token in enumerate(tokens) if not isinstance(token, _HOLDERS))
        raise ValueError(_stranger(tokens[k], place(k, lengths), "strings"))
    kinds = set(map(type, chain.from_iterable(tokens)))
    if not all(issubclass(kind, str | bytes) for kind in kinds):
        k, wrong = next(
            (k, s) for k, t in enumerate(tokens) for s in t if not isinstance(s, str | bytes)
        )
        raise ValueError(
            f"X holds {short(wrong)} of type {type(wrong).__name__} in a list of strings "
            f"({place(k, lengths)}); attributes with values are given as dicts, all tokens alike."
        )
    if kinds <= {str}:
        return tokens
    result = []
    for k, token in enumerate(tokens):
        try:
            result.append(list(map(_text, token)))
        except UnicodeDecodeError as error:
            raise ValueError(f"X ({place(k, lengths)}): {error}.") from None
    return result


def _text(value: str | bytes) -> str:
    """A plain string; bytes are read as UTF-8, as in CRFsuite."""
    return str.__str__(value) if isinstance(value, str) else value.decode()


def _stranger(token: Any, where: str, form: str) -> str:
    if isinstance(token, str):
        return f"X ({where}) holds {bare_string(token)}"
    return (
        f"X mixes kinds of features: {short(token)} of type {type(token).__name__} ({where}) "
        f"among {FORMS[form]}; all tokens must be of one kind."
    )


def checked_dicts(tokens: list, lengths: NDArray[np.int64], *, warn: bool) -> list:
    """Tokens as dicts of numbers and strings, which scikit-learn reads like CRFsuite.

    ``warn``: whether keys with both kinds of values cause a warning.
    """
    if not all(issubclass(kind, Mapping) for kind in set(map(type, tokens))):
        k = next(k for k, token in enumerate(tokens) if not isinstance(token, Mapping))
        raise ValueError(_stranger(tokens[k], place(k, lengths), "dicts"))
    keys = set(map(type, chain.from_iterable(tokens)))
    values = set(map(type, chain.from_iterable(token.values() for token in tokens)))
    if warn:
        _warn_of_mixed_values(tokens, {kind: issubclass(kind, _NUMBERS) for kind in values})
    if keys <= {str} and all(kind is str or issubclass(kind, Real) for kind in values):
        return tokens
    return _expanded(tokens, lengths)


def _warn_of_mixed_values(tokens: list, are_numbers: dict[type, bool]) -> None:
    """Warn of keys whose values are numbers at some tokens, and strings at others."""
    if len(set(are_numbers.values())) < 2:
        return
    kinds: tuple[set, set] = set(), set()
    for token in tokens:
        for key, value in token.items():
            kinds[are_numbers[type(value)]].add(key)
    mixed = sorted(map(str, kinds[0] & kinds[1]))
    if mixed:
        key, more = mixed[0], len(mixed) - 1
        also = f" (also of {', '.join(map(repr, mixed[1:4]))})" if more else ""
        warnings.warn(
            f"The values of {key!r} in X are numbers at some tokens and not at others{also}. A "
            f"number is the value of the attribute {key!r}; a string such as '4' is an attribute "
            f"of its own, {key + ':4'!r}, of value 1. Make all values float or all of them str.",
            UserWarning,
            stacklevel=2,
        )


def _expanded(tokens: list, lengths: NDArray[np.int64]) -> list:
    """Tokens as dicts str -> float, with nested dicts and collections of strings expanded."""
    result: list[dict[str, float]] = []
    for k, token in enumerate(tokens):
        result.append({})
        try:
            _expand(token, "", result[-1])
        except (TypeError, OverflowError, UnicodeDecodeError) as error:
            raise ValueError(f"X ({place(k, lengths)}): {error}") from None
    return result


def _expand(token: Mapping, prefix: str, result: dict[str, float]) -> None:
    for key, value in token.items():
        if not isinstance(key, str | bytes):
            raise TypeError(f"the key {short(key)} of type {type(key).__name__} is not a string.")
        name = prefix + _text(key)
        if isinstance(value, Mapping):
            _expand(value, f"{name}:", result)
        elif isinstance(value, _NUMBERS):
            _add(result, name, float(value))
        elif isinstance(value, str | bytes):
            _add(result, f"{name}:{_text(value)}", 1.0)
        elif isinstance(value, _HOLDERS) and all(isinstance(v, str | bytes) for v in value):
            for v in value:
                _add(result, f"{name}:{_text(v)}", 1.0)
        else:
            raise TypeError(
                f"the value of {name!r} must be a number, a bool, a string, a list of strings or a "
                f"dict, got {short(value)} of type {type(value).__name__}."
            )


def _add(result: dict[str, float], name: str, value: float) -> None:
    """Values of an attribute that occurs several times are summed, as in CRFsuite."""
    result[name] = result.get(name, 0.0) + value


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
        before = np.concatenate([np.zeros(1, np.int64), np.cumsum(known)])
        counts = np.diff(before[np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])])
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
    total = int(counts.sum())
    if form == "strings":
        return counts, np.ones(total, np.float32)
    values = [value for token in tokens for value in token.values()]
    if set(map(type, values)) <= {str}:
        return counts, np.ones(total, np.float32)
    try:
        numbers = (1.0 if type(value) is str else float(value) for value in values)
        return counts, np.fromiter(numbers, np.float64, total)
    except OverflowError as error:
        raise ValueError(f"X holds a number beyond the range of float64: {error}.") from error


def _index_dtype(counts: NDArray[np.int64]) -> type:
    return np.int32 if counts.sum() <= np.iinfo(np.int32).max else np.int64


def _matrix(counts: NDArray, columns: NDArray, values: NDArray, n_columns: int) -> sp.csr_array:
    """The matrix with sorted indices, without duplicates (which are summed) and zeros."""
    indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)]).astype(columns.dtype)
    X = sp.csr_array((values, columns, indptr), shape=(len(counts), n_columns))
    X.sum_duplicates()
    if not X.data.all():
        X.eliminate_zeros()
    return X


def csr(X: Any) -> sp.csr_array:
    """X with sorted indices, without duplicates or zeros; copied only if needed."""
    if not sp.issparse(X):
        return sp.csr_array(X)
    n = X.indptr[-1]
    # a new object, since the caller's must not change and its cached flags may be wrong
    X = sp.csr_array((X.data[:n], X.indices[:n], X.indptr), shape=X.shape)
    if not (X.has_canonical_format and X.data.all()):
        X = X.copy()
        X.sum_duplicates()
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
