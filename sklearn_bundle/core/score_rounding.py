"""Bounds on the rounding of the scores of outputs, from the sizes of features and parameters."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sklearn_bundle.core.limits import DOUBLE, likely

Array = NDArray[np.float64]

_ENTRIES = 1 << 20  # of features that are squared at a time: 8 MB


class ScoreRounding:
    """How far rounding may move the score of any output of an example.

    An output consists of parts, such as the tokens of a sequence, each with a row x of features.
    The score of a part is ``<x, W_k>`` for a column k of W, or the sum of a few of them, plus a few
    other parameters. A sum of m products is off by at most ``m u sum_j |x_j W_jk|``, which is no
    larger than ``m u ||x / c|| ||c W_k||`` for any c > 0. With c the root mean squares of the
    features the bound does not depend on their scales. Sums of m terms count for at most m
    roundings, or 8 sqrt(m) as in :func:`~.roundoff.likely`.

    Parameters
    ----------
    X : CSR or ndarray of shape (n_parts, d)
    starts : ndarray of shape (n_examples + 1,)
        Where the parts of each example begin.
    taken_apart : callable
        ``taken_apart(w)`` returns W, of shape (d, k), and a vector of the other parameters.
    columns, others : int
        How many columns of W and how many other parameters a part may add up.
    factor : float
        The largest loss with slack rescaling, 1 with margin rescaling.
    """

    def __init__(
        self,
        X: NDArray | sp.csr_array,
        starts: NDArray[np.int64],
        taken_apart: Callable[[Array], tuple[Array, Array]],
        columns: int = 1,
        others: int = 0,
        factor: float = 1.0,
    ):
        self._taken_apart = taken_apart
        sizes, counts = RowSizes.of(X), np.diff(starts)
        self._scales = sizes.scales
        n, example = len(counts), np.repeat(np.arange(len(counts)), counts)
        # 4 roundings of a part's score when it joins the others: it is also compared
        steps = (columns + others + 4.0) * counts  # additions along an output
        # 4 sums: of an output and of the true one, each with a loss no larger than the two
        each = 4.0 * DOUBLE * factor
        reach = likely(sizes.entries + steps[example]) * sizes.lengths
        self._reach = each * columns * sizes.largest * np.bincount(example, reach, n)
        self._others = each * others * counts * likely(steps)

    def of(self, w: Array) -> Array:
        """The bound for each example at w; infinity where w is too large for one."""
        W, rest = self._taken_apart(w)
        with np.errstate(over="ignore", invalid="ignore"):
            lengths = np.linalg.norm(self._scales[:, None] * W, axis=0)
            errors = self._reach * lengths.max(initial=0.0)
            errors += self._others * np.abs(rest).max(initial=0.0)
        return np.where(np.isnan(errors), np.inf, errors)


class RowSizes(NamedTuple):
    """Sizes of the rows of X, relative to its largest value and to the scales of its columns."""

    largest: float
    scales: Array  # root mean squares of the stored values of each column, over the largest
    norms: Array  # of the rows
    lengths: Array  # norms of the rows after division of each column by its root mean square
    entries: Array  # stored values of each row

    @classmethod
    def of(cls, X: NDArray | sp.csr_array) -> "RowSizes":
        """The sizes; X is squared in blocks of rows."""
        n, d = X.shape
        if isinstance(X, np.ndarray):
            values, entries, counts = X, np.full(n, d), np.full(d, n)
        else:
            values, entries, counts = X.data, np.diff(X.indptr), column_counts(X)
        extremes = values.max(initial=0.0), values.min(initial=0.0)
        largest = max(*np.abs(np.asarray(extremes, np.float64)), np.finfo(float).tiny)
        rows = max(1, _ENTRIES * n // max(values.size, 1))
        sums, norms, lengths = np.zeros(d), np.empty(n), np.empty(n)
        for first in range(0, n, rows):
            sums += np.ones(min(rows, n - first)) @ _squares(X, largest, first, first + rows)
        scales = sums / np.maximum(counts, 1)
        inverses = np.divide(1.0, scales, out=np.zeros(d), where=scales > 0.0)
        for first in range(0, n, rows):
            squares = _squares(X, largest, first, first + rows)
            norms[first : first + rows] = squares @ np.ones(d)
            lengths[first : first + rows] = squares @ inverses
        sizes = np.sqrt(scales), largest * np.sqrt(norms), np.sqrt(lengths)
        return cls(float(largest), *sizes, entries.astype(np.float64))


def column_counts(X: sp.csr_array) -> NDArray[np.int64]:
    """Stored values of each column, counted in blocks: bincount makes its own copy of indices."""
    counts = np.zeros(X.shape[1], np.int64)
    for first in range(0, len(X.indices), _ENTRIES):
        counts += np.bincount(X.indices[first : first + _ENTRIES], minlength=len(counts))
    return counts


def _squares(X: NDArray | sp.csr_array, largest: float, first: int, last: int) -> Any:
    """The squares of some rows, each value divided by the largest."""
    rows = X[first:last].astype(np.float64)
    if isinstance(rows, np.ndarray):
        rows /= largest
        return np.square(rows, out=rows)
    rows.data /= largest
    np.square(rows.data, out=rows.data)
    return rows
