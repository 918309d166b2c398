"""Linear chains as a structured model: max-margin sequence labeling."""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

import sklearn_bundle.structured._compiled.chain_expectation  # noqa: F401 - registers expect
from sklearn_bundle.chain._compiled.chain import Chains
from sklearn_bundle.chain.model import Weights, pack, padded
from sklearn_bundle.core.score_rounding import ScoreRounding
from sklearn_bundle.linear.losses.multiclass import check_cost
from sklearn_bundle.structured._compiled.chain_oracle import ChainOutputs, SlackChainOutputs
from sklearn_bundle.structured.models.base import StructuredModel
from sklearn_bundle.structured.models.examples import CompiledExamples

Array = NDArray[np.float64]

# Slack rescaling counts the loss of a sequence in integer steps, and needs time and memory for each
# possible step: with costs up to this, 100 times as much as with the Hamming loss.
_LARGEST_COST = 100


class TokenRows(NamedTuple):
    """Sequences with their positions stacked.

    ``X`` is CSR of shape (n_tokens, d), float32 or float64, without duplicate entries; ``lengths``
    are int64, all >= 1; labels are numbers below ``n_labels``.
    """

    X: sp.csr_array
    lengths: NDArray[np.int64]
    n_labels: int


def joined(weights: Weights) -> Array:
    """The parameters in one vector: coef, transitions, intercept, start, end."""
    return np.concatenate([part.ravel() for part in weights])


def split(w: Array, n_labels: int) -> Weights:
    """The inverse of :func:`joined`."""
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
    The methods handle one example each and are written to be read. `fit` uses compiled max-product
    over all sequences: Viterbi's algorithm [1]_, with the costs added to the scores of the labels,
    is the loss-augmented inference (4) of [2]_. Slack rescaling, the maximum above (21) there,
    keeps the best labeling for each possible loss up to a position. This takes T times the largest
    loss times K^2 steps, and T times the largest loss times K numbers.

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
        self._costs()
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
        return float(self._costs()[y, y_hat].sum())

    def max_loss(self, y: NDArray[np.int64]) -> float:
        return float(len(y) if self.cost is None else self._costs()[y].max(axis=1).sum())

    def inference(self, x: Array, w: Array) -> NDArray[np.int64]:
        return _best_path(*self._scores(x, w))

    def loss_augmented_inference(
        self, x: Array, y: NDArray[np.int64], w: Array
    ) -> NDArray[np.int64]:
        unary, pairs = self._scores(x, w)
        return _best_path(unary + self._costs()[y], pairs)

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
        unary, pairs = self._scores(x, w)
        steps = _whole(self._costs())[y]
        levels = 1 + int(steps.max(axis=1).sum())
        # best[c, k]: best score of the labelings up to a position with loss c and label k there.
        best = np.full((levels, self.n_labels_), -np.inf)
        best[steps[0], np.arange(self.n_labels_)] = unary[0]
        origins = []
        for scores, step in zip(unary[1:], steps[1:], strict=True):
            reached = best[:, :, None] + pairs
            origins.append(reached.argmax(axis=1))
            best = np.full_like(best, -np.inf)
            for k, c in enumerate(step):
                best[c:, k] = reached[: levels - c, :, k].max(axis=1) + scores[k]
        truth = w @ self.joint_feature(x, y)
        highest = best.max(axis=1)
        possible = np.flatnonzero(highest > -np.inf)
        level = possible[np.argmax(possible * (1.0 + highest[possible] - truth))]
        path = [int(best[level].argmax())]
        for step, origin in zip(steps[:0:-1], reversed(origins), strict=True):
            level -= step[path[-1]]
            path.append(int(origin[level, path[-1]]))
        return np.array(path[::-1])

    def examples(self, X: TokenRows, y: NDArray[np.int64], scaling: str) -> CompiledExamples:
        """All sequences bound to the model, for solvers, with parameters in padded rows.

        y has the labels of all positions, one sequence after the other.
        """
        K, (n, d), S = X.n_labels, X.X.shape, padded(X.n_labels)
        self.n_parameters(X, y)
        n_parameters = (d + S + 3) * S
        if n_parameters >= 1 << 32:
            raise ValueError(
                f"A chain takes at most 2^32 - 1 parameters, but {d} attributes and {K} labels, "
                f"padded to {S}, make {n_parameters}."
            )
        labels = np.ascontiguousarray(y, np.int64)
        if labels.shape != (n,) or labels.min() < 0 or labels.max() >= K:
            raise ValueError(
                f"y must hold {n} numbers of labels, from 0 to {K - 1}, got an array of shape "
                f"{labels.shape} with {labels.min()} to {labels.max()}."
            )
        costs = np.zeros((K, S))
        costs[:, :K] = self._costs()
        chains = pack(X.X, X.lengths, K, self.fit_intercept)
        structure = ChainOutputs(labels, costs.ravel(), chains)
        if scaling == "slack":
            most = _whole(costs[:, :K]).max(axis=1)[labels]
            levels = 1 + int(np.add.reduceat(most, chains.tokens[:-1]).max())
            structure = SlackChainOutputs(levels, *structure)
        given = n_parameters, _longest(chains)
        terms = np.diff(chains.tokens)
        examples = CompiledExamples(structure, *given, likelihood=True, terms=terms)
        examples.has_edges = True
        factor = levels - 1.0 if scaling == "slack" else 1.0
        rounding = ScoreRounding(
            X.X,
            chains.tokens,
            lambda w: (w[: d * S].reshape(d, S), w[d * S :]),
            others=3,  # a bias and a transition; two more per sequence
            factor=factor,
        )
        examples.roundings = (rounding,)
        return examples

    def _costs(self) -> Array:
        K = self.n_labels_
        check_cost(self.cost, K)
        return 1.0 - np.eye(K) if self.cost is None else np.asarray(self.cost, np.float64)

    def _scores(self, x: Array, w: Array) -> tuple[Array, Array]:
        """Scores of positions and labels, of shape (T, K), and the transitions."""
        weights = split(w, self.n_labels_)
        unary = np.asarray(x @ weights.coef.T)
        if self.fit_intercept:
            unary += weights.intercept
            unary[0] += weights.start
            unary[-1] += weights.end
        return unary, weights.transitions


def _best_path(unary: Array, pairs: Array) -> NDArray[np.int64]:
    """Viterbi's algorithm."""
    best, origins = unary[0], []
    for scores in unary[1:]:
        reached = best[:, None] + pairs
        origins.append(reached.argmax(axis=0))
        best = reached.max(axis=0) + scores
    path = [int(best.argmax())]
    for origin in reversed(origins):
        path.append(int(origin[path[-1]]))
    return np.array(path[::-1])


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


def _longest(chains: Chains) -> NDArray[np.int64]:
    """Upper bound on the entries of a difference of features, two per wrong label, plus one."""
    T, K = np.diff(chains.tokens), chains.n_labels
    first = np.repeat(chains.blocks[:-1], np.diff(chains.entries))
    repeats = np.bincount(first + chains.slots, minlength=int(chains.blocks[-1]))
    until = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.minimum(2 * repeats, K))])
    longest = until[chains.blocks[1:]] - until[chains.blocks[:-1]]
    longest += np.minimum(2 * (T - 1), K * K)
    return longest + chains.intercept * (np.minimum(2 * T, K) + 4) + 1
