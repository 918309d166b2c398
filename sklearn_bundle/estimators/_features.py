"""Tokens with named attributes, with CRFsuite's meaning, and matrices -> CSR."""

from collections.abc import Callable, Mapping
from itertools import chain
from numbers import Real
from reprlib import repr as short
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.feature_extraction import DictVectorizer
from sklearn.feature_extraction.text import CountVectorizer

FORMS = {"arrays": "rows of numbers", "strings": "lists of strings", "dicts": "dicts"}
_HOLDERS = list, tuple, set, frozenset  # what may hold the attribute strings of a token


def place(
    position: int, lengths: NDArray[np.int64] | None, numbers: NDArray[np.intp] | None = None
) -> str:
    """In words, where this one of all positions is: of a 2-D X a row, of sequences these."""
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
    if not all(issubclass(kind, str) for kind in kinds):
        k, wrong = next((k, s) for k, t in enumerate(tokens) for s in t if not isinstance(s, str))
        raise ValueError(
            f"X holds {short(wrong)} of type {type(wrong).__name__} in a list of strings "
            f"({place(k, lengths)}); attributes with values are given as dicts, all tokens alike."
        )
    return tokens if kinds <= {str} else [list(map(str.__str__, token)) for token in tokens]


def _stranger(token: Any, where: str, form: str) -> str:
    if isinstance(token, str):
        return f"X ({where}) holds {bare_string(token)}"
    return (
        f"X mixes kinds of features: {short(token)} of type {type(token).__name__} ({where}) "
        f"among {FORMS[form]}; all tokens must be of one kind."
    )


def checked_dicts(tokens: list, lengths: NDArray[np.int64]) -> list:
    """Tokens as dicts that scikit-learn reads as CRFsuite does: of numbers and strings."""
    if not all(issubclass(kind, Mapping) for kind in set(map(type, tokens))):
        k = next(k for k, token in enumerate(tokens) if not isinstance(token, Mapping))
        raise ValueError(_stranger(tokens[k], place(k, lengths), "dicts"))
    keys = set(map(type, chain.from_iterable(tokens)))
    values = set(map(type, chain.from_iterable(token.values() for token in tokens)))
    if keys <= {str} and all(kind is str or issubclass(kind, Real) for kind in values):
        return tokens
    return _expanded(tokens, lengths)


def _expanded(tokens: list, lengths: NDArray[np.int64]) -> list:
    """Tokens as dicts str -> float, nested dicts and collections of strings written out."""
    result: list[dict[str, float]] = []
    for k, token in enumerate(tokens):
        result.append({})
        try:
            _expand(token, "", result[-1])
        except (TypeError, OverflowError) as error:
            raise ValueError(f"X ({place(k, lengths)}): {error}") from None
    return result


def _expand(token: Mapping, prefix: str, result: dict[str, float]) -> None:
    for key, value in token.items():
        if not isinstance(key, str):
            raise TypeError(f"the key {short(key)} of type {type(key).__name__} is not a string.")
        name = prefix + key
        if isinstance(value, Mapping):
            _expand(value, f"{name}:", result)
        elif isinstance(value, Real | np.bool_):
            _add(result, name, float(value))
        elif isinstance(value, str):
            _add(result, f"{name}:{str.__str__(value)}", 1.0)
        elif isinstance(value, _HOLDERS) and all(isinstance(v, str) for v in value):
            for v in value:
                _add(result, f"{name}:{str.__str__(v)}", 1.0)
        else:
            raise TypeError(
                f"the value of {name!r} must be a number, a bool, a string, a list of strings or a "
                f"dict, got {short(value)} of type {type(value).__name__}."
            )


def _add(result: dict[str, float], name: str, value: float) -> None:
    """An attribute that occurs several times has the sum of its values, as in CRFsuite."""
    result[name] = result.get(name, 0.0) + value


def fit_vectorizer(form: str, tokens: list) -> tuple[Any, sp.csr_array]:
    """scikit-learn's vectorizer for such tokens, and the matrix of their attributes."""
    if not any(tokens):
        raise ValueError("X holds no attribute: all its tokens are empty.")
    vectorizer = _vectorizer(form)
    return vectorizer, csr(_in_range(vectorizer.fit_transform, tokens))


def vectorized(vectorizer: Any, form: str, tokens: list) -> sp.csr_array:
    """Attributes of tokens; of the other form than that of fit, they are read all the same."""
    if not isinstance(vectorizer, type(_vectorizer(form))):
        names = vectorizer.get_feature_names_out()
        vectorizer = _vectorizer(form)
        vectorizer.fit([names if form == "strings" else dict.fromkeys(names, 1.0)])
    return csr(_in_range(vectorizer.transform, tokens))


def _vectorizer(form: str) -> CountVectorizer | DictVectorizer:
    if form == "dicts":
        return DictVectorizer(separator=":")
    # counts are exact in float32
    return CountVectorizer(analyzer=_same, lowercase=False, dtype=np.float32)


def _same(token: Any) -> Any:
    return token


def _in_range(transform: Callable, tokens: list) -> Any:
    try:
        return transform(tokens)
    except OverflowError as error:
        raise ValueError(f"X holds a number beyond the range of float64: {error}.") from error


def csr(X: Any) -> sp.csr_array:
    """X with sorted indices, without duplicates or zeros; a copy only where it is not so."""
    if not sp.issparse(X):
        return sp.csr_array(X)
    n = X.indptr[-1]
    # an object of our own: the caller's stays as it is, and its cached flags may be wrong
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
    """scikit-learn's check, that names the sequence; ``numbers`` are the caller's, if not all."""
    if np.isfinite(X.data).all():
        return
    k = int(np.argmin(np.isfinite(X.data)))
    what = "NaN" if np.isnan(X.data[k]) else "infinity"
    feature = X.indices[k] if names is None else repr(names[X.indices[k]])
    where = place(int(np.searchsorted(X.indptr, k, side="right")) - 1, lengths, numbers)
    raise ValueError(f"Input X contains {what}: {where}, feature {feature}.")
