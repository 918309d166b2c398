"""Rounding errors of the scores of tokens and of sums over all sequences."""

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sklearn_bundle.chain._compiled.forward_backward import BLOCK, STRIDE
from sklearn_bundle.core.roundoff import DOUBLE
from sklearn_bundle.core.score_rounding import RowSizes

_BIASES = 3  # per token: for its label at any, the first and the last position
_OTHERS = 8.0  # bounds the norms of a token's pairs and biases, see chain_rounding.py
_ENTRIES = 65_536  # of w, whose squares are summed at a time: 512 kB, which stay in the cache


class ChainRounding:
    """Sizes of the features, from which bounds on rounding follow.

    A score is the sum of m products and biases. Its error is ``(m + 4) u sum |x_j w_j|``, which is
    at most ``(m + 4) u ||x / c|| ||c w||`` for any c > 0. With c the root mean squares of the
    columns, the bound does not depend on their scales.

    Parameters
    ----------
    X : CSR of shape (n_tokens, n_attributes)
    tokens : ndarray of int64 of shape (n_sequences + 1,)
        Where sequences begin.
    width : int
        Entries of a row of w.

    Attributes
    ----------
    norms : ndarray of shape (n_tokens,)
        Norms of the features of each token, its pairs and biases included.
    depth : float
        Number of terms in an entry of a sum of features over all sequences.
    of_gains : float
        Error of a step's gain, relative to the numbers whose difference it is: twice the share of a
        position in chain_rounding.py.
    """

    def __init__(self, X: sp.csr_array, tokens: NDArray[np.int64], width: int):
        sizes = RowSizes.of(X)
        self._largest = sizes.largest
        self._scales = np.concatenate([sizes.scales**2, np.zeros(width)])
        self._width = width
        reach = (sizes.entries + _BIASES + 1.0) * np.sqrt(sizes.lengths**2 + _BIASES)
        self._reach = DOUBLE * np.add.reduceat(reach, tokens[:-1])
        self.norms = sizes.norms + _OTHERS
        counts = np.bincount(X.indices, minlength=X.shape[1])
        longest, n_sequences = np.diff(tokens).max(), len(tokens) - 1
        self.depth = float(max(counts.max(initial=0), longest + n_sequences))
        passed_on = STRIDE * (width + 24.0) + BLOCK + longest / BLOCK
        self.of_gains = 2.0 * DOUBLE * (passed_on + 80.0)

    def of(self, w: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """``||w||^2``, and the error of each sequence's scores at w, summed over tokens."""
        rows, step = w.reshape(-1, self._width), max(1, _ENTRIES // self._width)
        n = len(self._scales)
        parts, by_label = [], np.zeros(self._width)
        with np.errstate(over="ignore", invalid="ignore"):
            for first in range(0, len(rows), step):
                squares = np.square(rows[first : first + step])
                parts.append(squares.sum())
                if first < n:
                    by_label += self._scales[first : first + step] @ squares[: n - first]
            biases = np.square(rows[n:]).sum(axis=0)
            sizes = np.hypot(self._largest * np.sqrt(by_label), np.sqrt(biases))
            return float(np.sum(parts)), self._reach * sizes.max()
