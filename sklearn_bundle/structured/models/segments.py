"""Segmentations of sequences into labeled segments: semi-Markov models."""

from itertools import pairwise
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sklearn_bundle.core.score_rounding import ScoreRounding
from sklearn_bundle.core.values import shown
from sklearn_bundle.structured._compiled import segment_oracle
from sklearn_bundle.structured.models.base import StructuredModel, check_size
from sklearn_bundle.structured.models.chain_structure import TokenRows, joined, sums_along
from sklearn_bundle.structured.models.examples import CompiledExamples, check_scaling
from sklearn_bundle.structured.models.segment_layout import (
    Array,
    Segmentation,
    SegmentWeights,
    TokenSegments,
    best_segments,
    by_tokens,
    flat,
    longest_entries,
    n_flat,
    segments_of,
    split,
    structure,
    taken_apart,
)

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
    segment. The inferences and `fit` use the same compiled dynamic programming: ``T (L K + K^2)``
    steps for a sequence, since the best label before a segment does not depend on its length.

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
        return self._size(d)

    def joint_feature(self, x: Array, y: Segmentation) -> Array:
        phi = np.zeros(self._size(x.shape[1]))
        parts = self._split(phi)
        for label, start, stop in y:
            parts.coef[label] += x[start:stop].sum(axis=0)
            parts.lengths[label, stop - start - 1] += 1.0
            if self.boundaries:
                parts.first[label] += x[start]
                parts.last[label] += x[stop - 1]
        for (before, _, _), (label, _, _) in pairwise(y):
            parts.transitions[before, label] += 1.0
        parts.start[y[0][0]] = parts.end[y[-1][0]] = 1.0
        return phi

    def loss(self, y: Segmentation, y_hat: Segmentation) -> float:
        if self.cost == "segments":
            return float(len(set(map(tuple, y)) ^ set(map(tuple, y_hat))))
        (labels, sizes), (others, other_sizes) = by_tokens([y]), by_tokens([y_hat])
        wrong = np.not_equal(labels, others)
        if self.cost == "tags":
            wrong |= (sizes > 0) != (other_sizes > 0)
        return float(wrong.sum())

    def max_loss(self, y: Segmentation) -> float:
        T = y[-1][2]
        return float(T + len(y) if self.cost == "segments" else T)

    def inference(self, x: Array, w: Array) -> Segmentation:
        return self._best(x, w)

    def loss_augmented_inference(self, x: Array, y: Segmentation, w: Array) -> Segmentation:
        return self._best(x, w, _tokens(y), _COSTS[self.cost])

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
        x, truth = np.asarray(x, np.float64), [(0, t, t + 1) for t in range(len(x))]
        rows = sp.csr_array(x), np.array([len(x)]), self.max_lengths_, bool(self.boundaries)
        outputs = structure(*rows, _tokens(truth), segment_oracle.NOTHING)
        at, gradient = flat(self._split(w)), np.zeros(n_flat(outputs))
        sums = sums_along(outputs.chains, rows[0], 0.0)
        examples = CompiledExamples(outputs, len(gradient), longest_entries(outputs), (), sums)
        found = examples.expect(at, 0, 1, np.ones(1), gradient)
        parts = taken_apart(gradient, self.n_labels_, self._longest, bool(self.boundaries))
        phi = self.joint_feature(x, truth)  # of the output that all others were compared with
        return float(found.losses[0] + w @ phi), joined(parts) + phi

    def examples(self, X: TokenRows, y: TokenSegments, scaling: str) -> CompiledExamples:
        """All sequences bound to the model, for solvers, with parameters in padded rows."""
        check_scaling(self, scaling)
        self.n_parameters(X, y)
        given = self.max_lengths_, bool(self.boundaries), y, _COSTS[self.cost]
        outputs = structure(X.X, X.lengths, *given)
        d, chains, n_parameters = X.X.shape[1], outputs.chains, n_flat(outputs)
        parts = f"{d} attributes, {X.n_labels} labels and segments of {self._longest} positions"
        check_size(self, n_parameters, parts)
        size = d * chains.width
        rounding = ScoreRounding(
            X.X,
            chains.tokens,
            lambda w: (w[:size].reshape(d, -1), w[size:]),
            columns=3 if self.boundaries else 1,
            others=4,  # a transition, a length, and biases at both ends
        )
        steps = 2.0 * (self._longest + X.n_labels) + 64.0
        sums = sums_along(chains, X.X, steps, 3 if self.boundaries else 1)
        return CompiledExamples(outputs, n_parameters, longest_entries(outputs), (rounding,), sums)

    def _size(self, n_attributes: int) -> int:
        parts, K = 3 if self.boundaries else 1, self.n_labels_
        return K * (parts * n_attributes + K + self._longest + 2)

    def _split(self, w: Array) -> SegmentWeights:
        return split(np.asarray(w), self.n_labels_, self._longest, bool(self.boundaries))

    def _best(
        self,
        x: Array,
        w: Array,
        truth: TokenSegments | None = None,
        cost: int = segment_oracle.NOTHING,
    ) -> Segmentation:
        rows = sp.csr_array(x, dtype=np.float64), np.array([len(x)])
        given = self._split(w), self.max_lengths_, 1, truth, cost
        found = best_segments(*rows, *given)
        return segments_of(found.labels.tolist(), found.sizes)

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


def _tokens(y: Segmentation) -> TokenSegments:
    labels, sizes = by_tokens([y])
    return TokenSegments(np.array(labels, np.int64), sizes, np.zeros(1, np.int64))
