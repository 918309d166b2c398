"""Linear chains as a structured model: max-margin sequence labeling."""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sklearn_bundle.chain._compiled.features import Chains
from sklearn_bundle.chain.model import Weights, flat, pack, padded
from sklearn_bundle.core.score_rounding import ScoreRounding
from sklearn_bundle.core.validation import squared_lengths
from sklearn_bundle.structured._compiled.chain_oracle import (
    ChainOutputs,
    LeveledOutputs,
    best_labels,
)
from sklearn_bundle.structured.models.base import (
    StructuredModel,
    check_size,
    checked_labels,
    cost_matrix,
)
from sklearn_bundle.structured.models.examples import CompiledExamples, Sums, ends_of

Array = NDArray[np.float64]

# Slack rescaling counts the loss of a sequence in integer steps, and needs time and memory for each
# possible step: with costs up to this, 100 times as much as with the Hamming loss.
_LARGEST_COST = 100


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


def split(w: Array, n_labels: int) -> Weights:
    """The parts of w, as views: the inverse of :func:`joined`."""
    K = n_labels
    d = len(w) // K - K - 3
    coef, transitions, *biases = np.split(w, np.cumsum([K * d, K * K, K, K]))
    return Weights(coef.reshape(K, d), transitions.reshape(K, K), *biases)


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

    There are ``K (d + K + 3)`` parameters, with K the number of classes; :meth:`n_parameters` sets
    K to the largest label in its y plus one.

    Parameters
    ----------
    cost : array-like of shape (n_classes, n_classes), default=None
        Cost of predicting the class of the column for the class of the row, at least 0 and 0 on the
        diagonal; classes in the order of `classes_`. None means 1 for each wrong label: the Hamming
        loss. With slack rescaling the costs must be integers, at most 100: inference takes time and
        memory in proportion to the largest possible loss of a sequence.
    fit_intercept : bool, default=True
        Whether to fit intercept, start and end; otherwise they are 0.

    Attributes
    ----------
    n_labels_ : int
        K, after :meth:`n_parameters`.

    Raises
    ------
    ValueError
        By :meth:`n_parameters` and :meth:`examples`, and thus by `fit`, if the costs are not a
        matrix with one row and one column per class, are negative or not 0 on the diagonal; with
        slack rescaling, if a cost is not an integer or above 100; for 2^32 or more parameters.

    See Also
    --------
    sklearn_bundle.StructuredSVM : Learns w; ``model="chain"`` is this model.
    sklearn_bundle.SDCACRF : The same parameters by maximum likelihood, with probabilities.

    Notes
    -----
    The inferences and `fit` use the same compiled max-product: Viterbi's algorithm [1]_, with the
    costs added to the scores of the labels, is the loss-augmented inference (4) of [2]_. Slack
    rescaling, the maximum above (21) there, keeps the best labeling for each possible loss up to a
    position. This takes T times the largest loss times K^2 steps, and T times the largest loss
    times K numbers.

    References
    ----------
    .. [1] L. R. Rabiner: A tutorial on hidden Markov models and selected applications in speech
       recognition. Proceedings of the IEEE 77 (1989), 257-286; equations (32) to (35).
    .. [2] H. Yu, J. Rousu: An efficient method for large margin parameter optimization in
       structured prediction problems. University of Helsinki, 2007.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_bundle.models import Chain
    >>> X = [np.eye(2), np.eye(2)[[0, 0, 1]]]
    >>> y = [np.array([0, 1]), np.array([0, 0, 1])]
    >>> model = Chain()
    >>> model.n_parameters(X, y)
    14
    >>> w = model.joint_feature(X[0], y[0]) - model.joint_feature(X[0], np.array([1, 0]))
    >>> model.inference(X[1], w)
    array([0, 0, 1])
    >>> model.loss_augmented_inference(X[1], y[1], 0.1 * w)
    array([1, 1, 0])
    """

    def __init__(self, *, cost: Any = None, fit_intercept: bool = True):
        self.cost = cost
        self.fit_intercept = fit_intercept

    def n_parameters(self, X: Any, y: Any) -> int:
        if isinstance(X, TokenRows):
            self.n_labels_, d = X.n_labels, X.X.shape[1]
        else:
            self.n_labels_, d = 1 + max(int(np.max(labels)) for labels in y), X[0].shape[1]
        cost_matrix(self.cost, self.n_labels_)
        return self.n_labels_ * (d + self.n_labels_ + 3)

    def joint_feature(self, x: Array, y: NDArray[np.int64]) -> Array:
        K = self.n_labels_
        is_label = np.eye(K)[y]
        biases = is_label.sum(axis=0), is_label[0], is_label[-1]
        return joined(
            Weights(
                is_label.T @ x,
                is_label[:-1].T @ is_label[1:],
                *(bias * self.fit_intercept for bias in biases),
            )
        )

    def loss(self, y: NDArray[np.int64], y_hat: NDArray[np.int64]) -> float:
        return float(cost_matrix(self.cost, self.n_labels_)[y, y_hat].sum())

    def max_loss(self, y: NDArray[np.int64]) -> float:
        if self.cost is None:  # with a single label too, whose loss is 0
            return float(len(y))
        return float(cost_matrix(self.cost, self.n_labels_)[y].max(axis=1).sum())

    def inference(self, x: Array, w: Array) -> NDArray[np.int64]:
        return self._best(x, None, w, "margin")

    def loss_augmented_inference(
        self, x: Array, y: NDArray[np.int64], w: Array
    ) -> NDArray[np.int64]:
        return self._best(x, y, w, "margin")

    def slack_rescaled_inference(
        self, x: Array, y: NDArray[np.int64], w: Array
    ) -> NDArray[np.int64]:
        """The labels y' of the highest ``l(y, y') (1 + <w, phi(x, y') - phi(x, y)>)``.

        Parameters
        ----------
        x : ndarray of shape (T, d)
            Attributes of the positions.
        y : ndarray of int of shape (T,)
            Numbers of their labels.
        w : ndarray of shape (n_parameters,)
            Parameters.

        Returns
        -------
        y_hat : ndarray of int of shape (T,)
            Numbers of labels.
        """
        return self._best(x, y, w, "slack")

    def examples(self, X: TokenRows, y: NDArray[np.int64], scaling: str) -> CompiledExamples:
        """All sequences bound to the model, for solvers, with parameters in padded rows.

        y has the labels of all positions, one sequence after the other.
        """
        K, (n, d) = X.n_labels, X.X.shape
        self.n_parameters(X, y)
        outputs = self._outputs(X, checked_labels(y, n, K), cost_matrix(self.cost, K), scaling)
        chains, S = outputs.chains, outputs.chains.width
        n_parameters = (d + S + 3) * S
        rounding = ScoreRounding(
            X.X,
            chains.tokens,
            lambda w: (w[: d * S].reshape(d, S), w[d * S :]),
            others=3,  # a bias and a transition; two more per sequence
            factor=max(outputs.levels - 1.0, 1.0),
        )
        given = n_parameters, _longest(chains), (rounding,)
        examples = CompiledExamples(outputs, *given, sums_along(chains, X.X, 2 * K + _FEW))
        examples.has_edges = True
        return examples

    def _outputs(
        self, X: TokenRows, labels: NDArray[np.int64], costs: Array, scaling: str
    ) -> ChainOutputs | LeveledOutputs:
        """Sequences in the form for compiled code."""
        K, S = X.n_labels, padded(X.n_labels)
        check_size(
            self,
            (X.X.shape[1] + S + 3) * S,
            f"{X.X.shape[1]} attributes and {K} labels, padded to {S},",
        )
        chains, levels = pack(X.X, X.lengths, K, bool(self.fit_intercept)), 0
        if scaling == "slack":
            most = _whole(costs).max(axis=1)[labels]
            levels = 1 + int(np.add.reduceat(most, chains.tokens[:-1]).max())
        costs = np.pad(costs, ((0, 0), (0, S - K)))
        kind = LeveledOutputs if levels > 0 else ChainOutputs
        return kind(levels, labels, costs.ravel(), chains)

    def _best(self, x: Array, y: Any, w: Array, scaling: str) -> NDArray[np.int64]:
        """The best labels of a sequence, with losses if y is given."""
        K, found = self.n_labels_, np.zeros(len(x), np.int64)
        costs = np.zeros((K, K)) if y is None else cost_matrix(self.cost, K)
        truth = found if y is None else checked_labels(y, len(x), K)
        rows = TokenRows(sp.csr_array(x, dtype=np.float64), np.array([len(x)]), K)
        outputs = self._outputs(rows, truth.copy(), costs, scaling)
        best_labels(outputs, flat(split(np.asarray(w, np.float64), K)), found)
        return found


def _whole(costs: Array) -> NDArray[np.int64]:
    """Costs as integers, for slack rescaling."""
    wrong = (costs != np.floor(costs)) | (costs > _LARGEST_COST)
    if wrong.any():
        i, j = np.argwhere(wrong)[0]
        raise ValueError(
            f"cost must have whole numbers from 0 to {_LARGEST_COST} with scaling='slack', since "
            f"inference counts the loss, but cost[{i}, {j}] is {costs[i, j]}. With "
            "scaling='margin' all costs >= 0 are allowed."
        )
    return costs.astype(np.int64)


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
