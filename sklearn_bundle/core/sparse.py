"""Sparse matrices: checks of users' index arrays, what hashes need of them, lengths of rows."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

_COMPRESSED = ("csr", "csc", "bsr")
_FEW_ROWS = 1 << 14  # squared at a time


def well_formed(X: Any, name: str) -> Any:
    """A sparse matrix whose index arrays match its shape, or ValueError; dense arrays unchanged.

    Compiled code, including scipy's, does not check bounds: an index out of range ends the process
    or reads foreign memory. scipy checks lengths when it creates a matrix, but indices only on
    request. CSR, CSC, BSR and COO are checked before scipy converts them, the other formats as CSR.
    Room that scipy allows behind the last entry is cut off, since numpy functions would sum it.
    """
    if not sp.issparse(X) or X.ndim != 2:
        return X
    if X.format not in (*_COMPRESSED, "coo"):
        X = X.tocsr()
    fault = _fault_of_coo(X) if X.format == "coo" else _fault_of_compressed(X)
    if fault:
        raise ValueError(f"{name} is a malformed {X.format.upper()} matrix: {fault}.")
    if X.format in _COMPRESSED and X.indptr[-1] < len(X.indices):
        n = X.indptr[-1]
        return type(X)((X.data[:n], X.indices[:n], X.indptr), shape=X.shape)
    return X


def _fault_of_compressed(X: Any) -> str:
    """What is wrong with CSR, CSC or BSR; "" if nothing."""
    rows, columns = (n // b for n, b in zip(X.shape, _block(X), strict=True))
    n_starts, n_indices = (columns, rows) if X.format == "csc" else (rows, columns)
    for part in ("indptr", "indices"):
        array = getattr(X, part)
        if array.ndim != 1 or array.dtype.kind not in "iu":
            return f"{part} must be a vector of integers, but is of {_kind(array)}"
    indptr, indices = X.indptr, X.indices
    if len(indptr) != n_starts + 1:
        return f"indptr must have {n_starts + 1} entries for its shape, but has {len(indptr)}"
    if len(indices) != len(X.data):
        return f"it has {len(indices)} indices, but {len(X.data)} values"
    if indptr[0] != 0:
        return f"indptr must begin with 0, but begins with {indptr[0]}"
    falls = indptr[1:] < indptr[:-1]
    if falls.any():
        k = int(np.argmax(falls))
        return f"indptr must not fall, but is {indptr[k]} and then {indptr[k + 1]} at {k + 1}"
    if indptr[-1] > len(indices):
        return f"indptr ends at {indptr[-1]}, but there are {len(indices)} indices"
    return _fault_of_indices("indices", indices[: indptr[-1]], n_indices)


def _fault_of_coo(X: Any) -> str:
    for part, size in zip(("row", "col"), X.shape, strict=True):
        indices = getattr(X, part)
        if indices.ndim != 1 or indices.dtype.kind not in "iu":
            return f"{part} must be a vector of integers, but is of {_kind(indices)}"
        if len(indices) != len(X.data):
            return f"{part} has {len(indices)} entries, but there are {len(X.data)} values"
        fault = _fault_of_indices(part, indices, size)
        if fault:
            return fault
    return ""


def _fault_of_indices(part: str, indices: np.ndarray, size: int) -> str:
    """In one pass: as unsigned integers, negative numbers are the largest."""
    unsigned = indices.view(indices.dtype.str.replace("i", "u"))
    if not len(unsigned) or unsigned.max() < size:
        return ""
    k = int(np.argmax(unsigned >= size))
    return f"{part} must be >= 0 and must be < {size}, but {part}[{k}] is {indices[k]}"


def _block(X: Any) -> tuple[int, int]:
    return X.blocksize if X.format == "bsr" else (1, 1)


def _kind(array: np.ndarray) -> str:
    return f"type {array.dtype} and shape {array.shape}"


def arrays_of(X: Any) -> Any:
    """What a hash of X needs: the arrays of a sparse matrix, since the object has cached flags."""
    return (X.shape, X.data, X.indices, X.indptr) if sp.issparse(X) else X


def squared_lengths(X: Any) -> NDArray[np.float64]:
    """``||x||^2`` of rows, in double precision whatever X has."""
    if not sp.issparse(X):
        return np.einsum("ij,ij->i", X, X, dtype=np.float64)
    X, lengths = sp.csr_array(X), np.zeros(X.shape[0])
    filled = np.flatnonzero(np.diff(X.indptr))  # np.add.reduceat knows no empty sums
    for start in range(0, len(filled), _FEW_ROWS):  # squares of all entries are 8 bytes of each
        rows = filled[start : start + _FEW_ROWS]
        first, stop = X.indptr[rows[0]], X.indptr[rows[-1] + 1]
        squares = np.square(X.data[first:stop], dtype=np.float64)
        lengths[rows] = np.add.reduceat(squares, X.indptr[rows] - first)
    return lengths
