"""Segmentations of sequences into labeled segments: semi-Markov models."""

from itertools import pairwise
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

import sklearn_bundle.structured._compiled.segment_expectation  # noqa: F401 - registers expect
from sklearn_bundle.core.score_rounding import ScoreRounding
from sklearn_bundle.core.values import shown
from sklearn_bundle.structured._compiled import segment_oracle
from sklearn_bundle.structured.models.base import StructuredModel
from sklearn_bundle.structured.models.chain_structure import TokenRows
from sklearn_bundle.structured.models.examples import CompiledExamples
from sklearn_bundle.structured.models.segment_layout import (
    Array,
    SegmentWeights,
    TokenSegments,
    joined,
    longest_entries,
    n_flat,
    split,
    structure,
)

Segmentation = list[tuple[int, int, int]]

_COSTS = {
    "tags": segment_oracle.TAGS,
    "labels": segment_oracle.LABELS,
    "segments": segment_oracle.SEGMENTS,
}


class Segments(StructuredModel):
    """Labeled segments that cover a sequence, with scores of whole segments.

    x has shape (T, d), one row of attributes for each of its T positions; y is a list of segments
    (label, start, stop) that follow one another from 0 to T: label is a number in 0..K-1, and the
    segment has the positions from start to stop - 1. With w = (coef, first, last, transitions,
    lengths, start, end), joined in this order and of shapes (K, d) three times, (K, K), (K, L),
    (K,) and (K,)::

        <w, phi(x, y)> = sum_j [sum_(t in segment j) <coef[k_j], x_t> + lengths[k_j, n_j - 1]
                                + <first[k_j], x_(first of j)> + <last[k_j], x_(last of j)>]
                         + sum_(j > 0) transitions[k_(j-1), k_j] + start[k_0] + end[k_m]

    where segment j has the label k_j and the length n_j, and m is the last one. So phi(x, y) holds
    sums of the x_t over segments by label, the x_t of their first and last positions, and counts.
    All parameters are regularized. With ``max_length=1`` and without `boundaries` this is
    :class:`~sklearn_bundle.models.Chain`, with lengths for its intercept.

    A fitted :class:`~sklearn_bundle.StructuredSVM` has these parts as attributes: ``coef_``,
    ``first_``, ``last_``, ``transitions_``, ``lengths_``, ``start_`` and ``end_``. Its y and its
    predictions are, for each sequence, a list of segments (label, start, stop) with labels of any
    sortable type.

    `cost` defines l(y, y'). There are ``K (3 d + K + L + 2)`` parameters, ``K (d + K + L + 2)``
    without `boundaries`. L is the largest length of a segment; :meth:`n_parameters` sets K to the
    largest label in its y plus one.

    Parameters
    ----------
    max_length : int, default=None
        The largest length of a segment, in positions. None means, for each label, its largest
        length in the training data.
    boundaries : bool, default=True
        Whether to fit first and last, the weights of the positions where a segment begins and ends.
    cost : {"tags", "labels", "segments"}, default="tags"
        Definition of a mistake. "tags": a position with a wrong label, or where a segment begins in
        only one of the two; this is the number of wrong IOB2 tags if all labels have segments.
        "labels": a position with a wrong label. "segments": a segment in only one of the two,
        missed or invented.

    Attributes
    ----------
    n_labels_ : int
        K, after :meth:`n_parameters`.
    max_lengths_ : ndarray of int of shape (K,)
        The largest length of a segment with each label, after :meth:`n_parameters`.

    Raises
    ------
    ValueError
        By :meth:`n_parameters` and :meth:`examples`, and thus by `fit`, for a `max_length` that is
        not a positive integer, or below the length of a segment in y; for another `cost`; for slack
        rescaling; for 2^32 or more parameters.

    See Also
    --------
    sklearn_bundle.StructuredSVM : Learns w; ``model="segments"`` is this model.
    sklearn_bundle.metrics.segments : Makes segments from IOB2 tags.
    Chain : Labels of positions, with scores of pairs of successive labels.

    Notes
    -----
    These are the semi-Markov models of [1]_, with sums over positions for the features of a
    segment. The methods handle one example each and are written to be read. `fit` uses compiled
    dynamic programming over all sequences: ``T (L K + K^2)`` steps for each, since the best label
    before a segment does not depend on its length.

    References
    ----------
    .. [1] S. Sarawagi, W. W. Cohen: Semi-Markov conditional random fields for information
       extraction. Advances in Neural Information Processing Systems 17, 2004; equations (2) to (4).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_bundle.models import Segments
    >>> X = [np.eye(2)[[0, 0, 1]], np.eye(2)[[0, 0, 0, 0, 1]]]
    >>> y = [[(0, 0, 2), (1, 2, 3)], [(0, 0, 2), (0, 2, 4), (1, 4, 5)]]
    >>> other = [(1, 0, 1), (0, 1, 2), (0, 2, 4), (0, 4, 5)]
    >>> model = Segments(boundaries=False)
    >>> model.n_parameters(X, y), model.max_lengths_
    (16, array([2, 1]))
    >>> w = model.joint_feature(X[1], y[1]) - model.joint_feature(X[1], other)
    >>> model.inference(X[0], w)
    [(0, 0, 2), (1, 2, 3)]
    >>> model.loss(y[1], other)
    3.0
    """

    def __init__(
        self, max_length: int | None = None, *, boundaries: bool = True, cost: str = "tags"
    ):
        self.max_length = max_length
        self.boundaries = boundaries
        self.cost = cost

    def n_parameters(self, X: Any, y: Any) -> int:
        if isinstance(X, TokenRows):
            begins = np.flatnonzero(y.sizes)
            labels, sizes = y.labels[begins], y.sizes[begins]
            numbers = np.repeat(y.numbers, X.lengths)[begins]
            self.n_labels_, d = X.n_labels, X.X.shape[1]
        else:
            numbers = np.repeat(np.arange(len(y)), list(map(len, y)))
            labels, starts, stops = np.concatenate(y).T
            sizes = stops - starts
            self.n_labels_, d = 1 + int(labels.max()), X[0].shape[1]
        self._check_parameters()
        self._set_limits(labels, sizes, numbers)
        parts = 3 if self.boundaries else 1
        return self.n_labels_ * (parts * d + self.n_labels_ + self._longest + 2)

    def joint_feature(self, x: Array, y: Segmentation) -> Array:
        pieces = np.zeros((len(x), self._longest, self.n_labels_))
        transitions = np.zeros((self.n_labels_, self.n_labels_))
        for label, start, stop in y:
            pieces[start, stop - start - 1, label] = 1.0
        for (before, _, _), (label, _, _) in pairwise(y):
            transitions[before, label] += 1.0
        return self._features(x, pieces, transitions)

    def loss(self, y: Segmentation, y_hat: Segmentation) -> float:
        if self.cost == "segments":
            return float(len(set(map(tuple, y)) ^ set(map(tuple, y_hat))))
        (labels, begins), (others, other_begins) = _by_position(y), _by_position(y_hat)
        wrong = labels != others
        if self.cost == "tags":
            wrong |= begins != other_begins
        return float(wrong.sum())

    def max_loss(self, y: Segmentation) -> float:
        T = y[-1][2]
        return float(T + len(y) if self.cost == "segments" else T)

    def inference(self, x: Array, w: Array) -> Segmentation:
        return _best(*self._scores(x, w))

    def loss_augmented_inference(self, x: Array, y: Segmentation, w: Array) -> Segmentation:
        pieces, weights = self._scores(x, w)
        return _best(pieces + self._costs(y), weights)

    def expected_features(self, x: Array, w: Array) -> tuple[float, Array]:
        """The log-partition function, and the mean of phi(x, y) over all segmentations y of x.

        Parameters
        ----------
        x : ndarray of shape (T, d)
            Attributes of the positions.
        w : ndarray of shape (n_parameters,)
            Parameters.

        Returns
        -------
        log_partition : float
            ``log sum_y exp <w, phi(x, y)>``.
        expectation : ndarray of shape (n_parameters,)
            Mean of phi(x, y), with y drawn in proportion to ``exp <w, phi(x, y)>``.
        """
        pieces, weights = self._scores(x, w)
        T, L, _ = pieces.shape
        # Scores of everything before a segment at t, up to a segment's end, and after either.
        entered, reached = np.full((2, T + 1, self.n_labels_), -np.inf)
        left, begun = np.full((2, T + 1, self.n_labels_), -np.inf)
        entered[0], left[T] = weights.start, weights.end
        for e in range(1, T + 1):
            ways = [entered[e - n] + pieces[e - n, n - 1] for n in range(1, min(L, e) + 1)]
            reached[e] = logsumexp(ways, axis=0)
            entered[e] = logsumexp(reached[e][:, None] + weights.transitions, axis=0)
        for s in range(T - 1, -1, -1):
            ways = [pieces[s, n - 1] + left[s + n] for n in range(1, min(L, T - s) + 1)]
            begun[s] = logsumexp(ways, axis=0)
            left[s] = logsumexp(weights.transitions + begun[s], axis=1)
        log_z = float(logsumexp(reached[T] + weights.end))
        marginals = np.zeros_like(pieces)
        for n in range(1, min(L, T) + 1):
            ways = entered[: T + 1 - n] + pieces[: T + 1 - n, n - 1] + left[n:]
            marginals[: T + 1 - n, n - 1] = np.exp(ways - log_z)
        pairs = reached[1:T, :, None] + weights.transitions + begun[1:T, None]
        return log_z, self._features(x, marginals, np.exp(pairs - log_z).sum(axis=0))

    def examples(self, X: TokenRows, y: TokenSegments, scaling: str) -> CompiledExamples:
        """All sequences bound to the model, for solvers, with parameters in padded rows."""
        if scaling == "slack":
            raise ValueError(
                "scaling='slack' needs a method slack_rescaled_inference, which Segments does not "
                "have; use scaling='margin'."
            )
        self.n_parameters(X, y)
        d, K = X.X.shape[1], X.n_labels
        n_parameters = n_flat(d, K, self._longest, self.boundaries)
        if n_parameters >= 1 << 32:
            raise ValueError(
                f"Segments takes at most 2^32 - 1 parameters, but {d} attributes, {K} labels and "
                f"segments of {self._longest} positions make {n_parameters}."
            )
        given = self.max_lengths_, bool(self.boundaries), y, _COSTS[self.cost]
        outputs = structure(X.X, X.lengths, *given)
        longest, terms = longest_entries(outputs), np.diff(outputs.chains.tokens)
        examples = CompiledExamples(outputs, n_parameters, longest, likelihood=True, terms=terms)
        size = d * outputs.chains.width
        rounding = ScoreRounding(
            X.X,
            outputs.chains.tokens,
            lambda w: (w[:size].reshape(d, -1), w[size:]),
            columns=3 if self.boundaries else 1,
            others=4,  # a transition, a length, and biases at both ends
        )
        examples.roundings = (rounding,)
        return examples

    @property
    def _longest(self) -> int:
        return int(self.max_lengths_.max())

    def _check_parameters(self) -> None:
        if not (isinstance(self.cost, str) and self.cost in _COSTS):
            raise ValueError(f"cost must be one of {list(_COSTS)}, got {shown(self.cost)}.")
        given = self.max_length
        is_length = isinstance(given, Integral) and not isinstance(given, bool) and given >= 1
        if given is not None and not is_length:
            raise ValueError(
                f"max_length must be an integer of at least 1, or None, got {shown(given)}."
            )

    def _set_limits(
        self, labels: NDArray[np.int64], sizes: NDArray[np.int64], numbers: NDArray[np.int64]
    ) -> None:
        if self.max_length is None:
            self.max_lengths_ = np.ones(self.n_labels_, np.int64)
            np.maximum.at(self.max_lengths_, labels, sizes)
            return
        self.max_lengths_ = np.full(self.n_labels_, self.max_length, np.int64)
        longer = np.flatnonzero(sizes > self.max_length)
        if len(longer):
            raise ValueError(
                f"Sequence {numbers[longer[0]]} of y has a segment of {sizes[longer[0]]} positions,"
                f" but max_length is {self.max_length}: it must be at least {sizes.max()}, the "
                "length of the longest segment in y, or None."
            )

    def _scores(self, x: Array, w: Array) -> tuple[Array, SegmentWeights]:
        """Scores of each segment, by its start, length minus one and label; and the parameters."""
        K, L, T = self.n_labels_, self._longest, len(x)
        weights = split(w, K, L, self.boundaries)
        until = np.vstack([np.zeros(K), np.cumsum(x @ weights.coef.T, axis=0)])
        pieces = np.full((T, L, K), -np.inf)
        for n in range(1, min(L, T) + 1):
            pieces[: T + 1 - n, n - 1] = until[n:] - until[: T + 1 - n] + weights.lengths[:, n - 1]
            if self.boundaries:
                pieces[: T + 1 - n, n - 1] += x[: T + 1 - n] @ weights.first.T
                pieces[: T + 1 - n, n - 1] += x[n - 1 :] @ weights.last.T
        pieces[:, np.arange(1, L + 1)[:, None] > self.max_lengths_] = -np.inf
        return pieces, weights

    def _costs(self, y: Segmentation) -> Array:
        """What each segment adds to the loss, and the cost of each true segment that is missed."""
        labels, begins = _by_position(y)
        T, L, K = len(labels), self._longest, self.n_labels_
        costs = np.zeros((T, L, K))
        if self.cost == "segments":
            costs += 1.0
            for label, start, stop in y:
                if stop - start <= self.max_lengths_[label]:
                    costs[start, stop - start - 1, label] = -1.0
            return costs
        wrong = labels[:, None] != np.arange(K)
        counts = self.cost == "tags"
        opening, inside = (wrong | (counts & (begins != own))[:, None] for own in (True, False))
        for s in range(T):
            for n in range(1, min(L, T - s) + 1):
                costs[s, n - 1] = opening[s] + inside[s + 1 : s + n].sum(axis=0)
        return costs

    def _features(self, x: Array, pieces: Array, transitions: Array) -> Array:
        """Joint features from weights of segments (in the order of :meth:`_scores`) and pairs."""
        T, L, _ = pieces.shape
        first = pieces.sum(axis=1)
        inside, last = np.zeros_like(first), np.zeros_like(first)
        for n in range(1, min(L, T) + 1):
            weights = pieces[: T + 1 - n, n - 1]
            last[n - 1 :] += weights
            for t in range(n):
                inside[t : T + 1 - n + t] += weights
        none = np.empty((self.n_labels_, 0))
        ends = (first.T @ x, last.T @ x) if self.boundaries else (none, none)
        lengths = pieces.sum(axis=0).T
        return joined(SegmentWeights(inside.T @ x, *ends, transitions, lengths, first[0], last[-1]))


def _by_position(y: Segmentation) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The label of each position, and whether a segment begins there."""
    labels, begins = np.empty(y[-1][2], np.int64), np.zeros(y[-1][2], bool)
    for label, start, stop in y:
        labels[start:stop], begins[start] = label, True
    return labels, begins


def _best(pieces: Array, weights: SegmentWeights) -> Segmentation:
    """Viterbi's algorithm over segments."""
    T, L, _ = pieces.shape
    entered = [weights.start]
    before, sizes = [], []
    for e in range(1, T + 1):
        ways = np.array([entered[e - n] + pieces[e - n, n - 1] for n in range(1, min(L, e) + 1)])
        reached = ways.max(axis=0)
        sizes.append(1 + ways.argmax(axis=0))
        ways = reached[:, None] + weights.transitions
        before.append(ways.argmax(axis=0))
        entered.append(ways.max(axis=0))
    label, stop, found = int((reached + weights.end).argmax()), T, []
    while stop > 0:
        start = stop - int(sizes[stop - 1][label])
        found.append((label, start, stop))
        label, stop = int(before[start - 1][label]), start
    return found[::-1]
