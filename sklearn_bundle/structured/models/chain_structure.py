"""Linear chains as a structured model: max-margin sequence labeling."""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sklearn_bundle.chain._compiled.features import Chains
from sklearn_bundle.chain.model import pack, padded
from sklearn_bundle.core.certificate import ScoreRounding
from sklearn_bundle.core.validation import squared_lengths
from sklearn_bundle.structured._compiled.chain_oracle import ChainOutputs
from sklearn_bundle.structured.models.base import (
    StructuredModel,
    check_size,
    checked_labels,
    cost_matrix,
)
from sklearn_bundle.structured.models.examples import CompiledExamples, Sums, check_scaling, ends_of

Array = NDArray[np.float64]

_FEW = 48.0  # roundings of a step of both recursions, beside those of sums over labels
_OTHERS = 8.0  # counts of pairs, lengths and biases per token, expected and true


class TokenRows(NamedTuple):
    """Sequences with their positions stacked.

    ``X`` is CSR of shape (n_tokens, d), float32 or float64, without duplicate entries; ``lengths``
    are int64, all >= 1; labels are numbers below ``n_labels``.
    """

    X: sp.csr_array
    lengths: NDArray[np.int64]
    n_labels: int


def joined(weights: tuple[Array, ...]) -> Array:
    """The parameters in one vector, in the public order of the parts, each row by row."""
    return np.concatenate([part.ravel() for part in weights])


class Chain(StructuredModel):
    """Labels of the positions of a sequence, with scores of pairs of successive labels.

    x has shape (T, d), one row of attributes for each of its T positions; y has shape (T,), with
    numbers of labels in 0..K-1. With w = (coef, transitions, intercept, start, end), joined in this
    order and of shapes (K, d), (K, K), (K,), (K,) and (K,)::

        <w, phi(x, y)> = sum_t <coef[y_t], x_t> + sum_(t > 0) transitions[y_(t-1), y_t]
                         + sum_t intercept[y_t] + start[y_0] + end[y_(T-1)]

    so phi(x, y) holds the sums of the x_t by label, and counts. These are the parameters of
    :class:`~sklearn_bundle.SDCACRF`, all regularized. The loss is a sum over positions::

        l(y, y') = sum_t cost[y_t, y'_t]        or, without costs, the number of wrong labels

    There are ``K (d + K + 3)`` parameters, with K the number of classes.

    Parameters
    ----------
    cost : array-like of shape (n_classes, n_classes), default=None
        Cost of predicting the class of the column for the class of the row, at least 0 and 0 on the
        diagonal; classes in the order of `classes_`. None means 1 for each wrong label: the Hamming
        loss.
    fit_intercept : bool, default=True
        Whether to fit intercept, start and end; otherwise they are 0.

    Raises
    ------
    ValueError
        By `fit`, if the costs are not a matrix with one row and one column per class, are negative
        or not 0 on the diagonal; for slack rescaling; for 2^32 or more parameters.

    See Also
    --------
    sklearn_bundle.StructuredSVM : Learns w; ``model="chain"`` is this model.
    sklearn_bundle.SDCACRF : The same parameters by maximum likelihood, with probabilities.

    Notes
    -----
    Viterbi's algorithm [1]_, with the costs added to the scores of the labels, is the
    loss-augmented inference (4) of [2]_. It is compiled: the methods of
    :class:`~sklearn_bundle.models.StructuredModel` for one example are not there.

    References
    ----------
    .. [1] L. R. Rabiner: A tutorial on hidden Markov models and selected applications in speech
       recognition. Proceedings of the IEEE 77 (1989), 257-286; equations (32) to (35).
    .. [2] H. Yu, J. Rousu: An efficient method for large margin parameter optimization in
       structured prediction problems. University of Helsinki, 2007.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_bundle import StructuredSVM
    >>> from sklearn_bundle.models import Chain
    >>> X, y = [np.eye(2), np.eye(2)[[0, 0, 1]]], [[0, 1], [0, 0, 1]]
    >>> model = StructuredSVM(Chain(cost=[[0, 2], [1, 0]]), random_state=0).fit(X, y)
    >>> model.predict(X), model.w_.shape
    ([[0, 1], [0, 0, 1]], (14,))
    """

    def __init__(self, *, cost: Any = None, fit_intercept: bool = True):
        self.cost = cost
        self.fit_intercept = fit_intercept

    def examples(self, X: TokenRows, y: NDArray[np.int64], scaling: str) -> CompiledExamples:
        """All sequences bound to the model, for solvers, with parameters in padded rows.

        y has the labels of all positions, one sequence after the other.
        """
        check_scaling(self, scaling)
        K, (n, d) = X.n_labels, X.X.shape
        S = padded(K)
        n_parameters = (d + S + 3) * S
        check_size(self, n_parameters, f"{d} attributes and {K} labels, padded to {S},")
        chains = pack(X.X, X.lengths, K, bool(self.fit_intercept))
        costs = np.pad(cost_matrix(self.cost, K), ((0, 0), (0, S - K))).ravel()
        outputs = ChainOutputs(checked_labels(y, n, K), costs, chains)
        rounding = ScoreRounding(
            X.X,
            chains.tokens,
            lambda w: (w[: d * S].reshape(d, S), w[d * S :]),
            others=3,  # a bias and a transition; two more per sequence
        )
        given = n_parameters, _longest(chains), (rounding,)
        examples = CompiledExamples(outputs, *given, sums_along(chains, X.X, 2 * K + _FEW))
        examples.has_edges = True
        return examples


def sums_along(chains: Chains, X: sp.csr_array, steps: float, columns: int = 1) -> Sums:
    """Roundings along sequences: so many steps and columns of features at a position."""
    T, sizes = np.diff(chains.tokens), 2.0 * columns * np.sqrt(squared_lengths(X)) + _OTHERS
    return Sums(T * steps, T, np.add.reduceat(sizes, chains.tokens[:-1]))


def _longest(chains: Chains) -> NDArray[np.int64]:
    """Upper bound on the entries of a difference of features, two per wrong label, plus one."""
    T, K = np.diff(chains.tokens), chains.n_labels
    longest = attribute_entries(chains, 2) + np.minimum(2 * (T - 1), K * K)
    return longest + chains.intercept * (np.minimum(2 * T, K) + 4) + 1


def attribute_entries(chains: Chains, changes: int) -> NDArray[np.int64]:
    """Upper bound on the entries for attributes, if a token differs in so many columns."""
    first = np.repeat(chains.blocks[:-1], np.diff(chains.entries))
    repeats = np.bincount(first + chains.places[:, 0], minlength=int(chains.blocks[-1]))
    until = ends_of(np.minimum(changes * repeats, chains.n_labels))
    return until[chains.blocks[1:]] - until[chains.blocks[:-1]]
