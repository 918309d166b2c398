"""Linear chains as a structured model."""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sklearn_bundle._compiled.chain import Chains
from sklearn_bundle._compiled.chain_oracle import ChainOutputs
from sklearn_bundle.models.base import StructuredModel
from sklearn_bundle.models.chain import pack
from sklearn_bundle.models.examples import CompiledExamples


class TokenRows(NamedTuple):
    """Sequences, all tokens one below the other.

    ``X`` is CSR, its columns sorted and without duplicates; ``lengths`` are all >= 1.
    """

    X: sp.csr_array
    lengths: NDArray[np.int64]
    n_labels: int


class Chain(StructuredModel):
    """Labels of the positions of a sequence."""

    def __init__(self, *, cost: Any = None, fit_intercept: bool = True):
        self.cost = cost
        self.fit_intercept = fit_intercept

    def examples(self, X: TokenRows, y: NDArray[np.int64], scaling: str) -> CompiledExamples:
        """See :class:`StructuredModel`."""
        chains = pack(X.X, X.lengths, X.n_labels, self.fit_intercept)
        S = chains.width
        costs = np.full((X.n_labels, S), -np.inf)
        costs[:, : X.n_labels] = 1.0 - np.eye(X.n_labels) if self.cost is None else self.cost
        structure = ChainOutputs(np.ascontiguousarray(y, np.int64), costs.ravel(), chains)
        return CompiledExamples(structure, (X.X.shape[1] + S + 3) * S, _longest(chains))


def _longest(chains: Chains) -> NDArray[np.int64]:
    """Entries that a difference of features can have at most: two where a label is wrong."""
    T, K = np.diff(chains.tokens), chains.n_labels
    first = np.repeat(chains.blocks[:-1], np.diff(chains.entries))
    repeats = np.bincount(first + chains.slots, minlength=int(chains.blocks[-1]))
    until = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.minimum(2 * repeats, K))])
    longest = until[chains.blocks[1:]] - until[chains.blocks[:-1]]
    longest += np.minimum(2 * (T - 1), K * K)
    return longest + chains.intercept * (np.minimum(2 * T, K) + 4)
