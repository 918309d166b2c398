"""Segmentations of sequences into labeled segments: semi-Markov models."""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sklearn_bundle.chain.model import pack, padded
from sklearn_bundle.core.certificate import ScoreRounding
from sklearn_bundle.core.parallel import BlockRunner, row_blocks
from sklearn_bundle.jit.decorators import frozen
from sklearn_bundle.structured._compiled import segment_oracle
from sklearn_bundle.structured._compiled.segment_oracle import SegmentOutputs
from sklearn_bundle.structured.models.base import StructuredModel, check_size
from sklearn_bundle.structured.models.chain_structure import (
    TokenRows,
    attribute_entries,
    joined,
    sums_along,
)
from sklearn_bundle.structured.models.examples import CompiledExamples, check_scaling

Array = NDArray[np.float64]
Numbers = NDArray[np.int64]
Segmentation = list[tuple[Any, int, int]]


# ---- segments by tokens, parameters by parts -----------------------------------------------------


class TokenSegments(NamedTuple):
    """Segments of sequences, by tokens, one sequence after the other.

    ``labels`` has the label of each token, ``sizes`` the length of the segment whose last token it
    is, or 0.
    """

    labels: Any  # a list of labels, or an array of their numbers
    sizes: Numbers


def by_tokens(segmentations: list[Segmentation]) -> TokenSegments:
    """The segments of sequences by tokens, with their labels in a list."""
    segments = [segment for each in segmentations for segment in each]
    lengths = np.array([stop - start for _, start, stop in segments], np.int64)
    sizes = np.zeros(lengths.sum(), np.int64)
    sizes[np.cumsum(lengths) - 1] = lengths
    labels = [label for label, start, stop in segments for _ in range(start, stop)]
    return TokenSegments(labels, sizes)


def segments_of(labels: list, sizes: Numbers) -> Segmentation:
    """The inverse of :func:`by_tokens` for one sequence."""
    stops = np.flatnonzero(sizes) + 1
    starts = (stops - sizes[stops - 1]).tolist()
    return [(labels[s], s, stop) for s, stop in zip(starts, stops.tolist(), strict=True)]


class SegmentWeights(NamedTuple):
    """The parameters of a model of segments, by parts."""

    coef: Array  # (K, d)
    first: Array  # (K, d)
    last: Array  # (K, d)
    transitions: Array  # (K, K), from and to
    lengths: Array  # (K, L), of length 1 and longer
    start: Array  # (K,)
    end: Array  # (K,)


class Layout(NamedTuple):
    """Two orders of the parameters: that of the parts, and the rows of the compiled code."""

    n_labels: int
    n_attributes: int
    longest: int

    def split(self, w: Array) -> SegmentWeights:
        """The parts of w, as views: the inverse of :func:`~.chain_structure.joined`."""
        K, d, L = self
        ends = np.cumsum([K * d, K * d, K * d, K * K, K * L, K])
        *tables, start, end = np.split(np.asarray(w), ends)
        return SegmentWeights(*(table.reshape(K, -1) for table in tables), start, end)

    def flat(self, w: Array) -> Array:
        """The parameters in the rows of the compiled code."""
        (K, d, L), parts = self, self.split(w)
        rows, tail = np.zeros((d, padded(3 * K))), np.zeros((K + L + 2, padded(K)))
        rows[:, : 3 * K] = np.vstack(parts[:3]).T
        tail[:, :K] = np.vstack([parts.transitions, parts.lengths.T, parts.start, parts.end])
        return np.concatenate([rows.ravel(), tail.ravel()])

    def public(self, w: Array) -> Array:
        """The inverse of :meth:`flat`."""
        K, d, L = self
        rows, tail = np.split(w, [d * padded(3 * K)])
        rows, tail = rows.reshape(d, -1)[:, : 3 * K].T, tail.reshape(-1, padded(K))[:, :K]
        return joined((rows, tail[:K], tail[K : K + L].T, tail[K + L :]))


# ---- the model -----------------------------------------------------------------------------------


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
    All parameters are regularized.

    A fitted :class:`~sklearn_bundle.StructuredSVM` has these parts as attributes: ``coef_``,
    ``first_``, ``last_``, ``transitions_``, ``lengths_``, ``start_`` and ``end_``. Its y and its
    predictions are, for each sequence, a list of segments (label, start, stop) with labels of any
    sortable type.

    The loss l(y, y') is the number of positions with a wrong label, or where a segment begins in
    only one of the two: of wrong IOB2 tags, if all labels have segments. There are
    ``K (3 d + K + L + 2)`` parameters. L is the largest length of a segment.

    Attributes
    ----------
    n_labels_ : int
        K of the fitted model.
    max_lengths_ : ndarray of int of shape (K,)
        The largest length of a segment with each label in the training data, and in predictions.

    Raises
    ------
    ValueError
        By `fit`, for slack rescaling; for 2^32 or more parameters.

    See Also
    --------
    sklearn_bundle.StructuredSVM : Learns w; ``model="segments"`` is this model.
    sklearn_bundle.metrics.segments : Makes segments from IOB2 tags.
    Chain : Labels of positions, with scores of pairs of successive labels.

    Notes
    -----
    These are the semi-Markov models of [1]_, with sums over positions for the features of a
    segment. Dynamic programming takes ``T (L K + K^2)`` steps for a sequence, since the best label
    before a segment does not depend on its length. It is compiled: the methods of
    :class:`~sklearn_bundle.models.StructuredModel` for one example are not there.

    References
    ----------
    .. [1] S. Sarawagi, W. W. Cohen: Semi-Markov conditional random fields for information
       extraction. Advances in Neural Information Processing Systems 17, 2004; equations (2) to (4).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_bundle import StructuredSVM
    >>> X = [np.eye(2)[[0, 0, 1]], np.eye(2)[[0, 0, 0, 0, 1]]]
    >>> y = [[("a", 0, 2), ("b", 2, 3)], [("a", 0, 2), ("a", 2, 4), ("b", 4, 5)]]
    >>> model = StructuredSVM("segments", reg_lambda=0.01, random_state=0).fit(X, y)
    >>> model.predict(X[:1]), model.model_.max_lengths_
    ([[('a', 0, 2), ('b', 2, 3)]], array([2, 1]))
    """

    n_labels_: int
    max_lengths_: Numbers

    def best_segments(
        self, X: sp.csr_array, lengths: Numbers, w: Array, n_threads: int
    ) -> TokenSegments:
        """The segmentations of the highest scores.

        Parameters
        ----------
        X : CSR of shape (n_tokens, d)
            Sequences of at least one token, one after the other.
        lengths : ndarray of int
            Their numbers of tokens.
        w : ndarray of shape (n_parameters,)
            Parameters.
        n_threads : int
            Number of threads.

        Returns
        -------
        found : TokenSegments
            Segments with numbers of labels.
        """
        layout = self._layout(X.shape[1])
        if X.nnz < X.shape[1]:  # few sentences use only a few of many weights
            used, indices = np.unique(X.indices, return_inverse=True)
            indices = indices.astype(X.indices.dtype, copy=False)
            X = sp.csr_array((X.data, indices, X.indptr), shape=(X.shape[0], len(used)))
            parts, layout = layout.split(w), self._layout(len(used))
            w = joined((*(part[:, used] for part in parts[:3]), *parts[3:]))
        n, w = X.shape[0], layout.flat(w)
        found = TokenSegments(*np.zeros((2, n), np.int64))
        outputs = self._outputs(TokenRows(X, lengths, self.n_labels_), None)
        bounds = row_blocks(X.nnz + n * outputs.chains.width, len(lengths), 1)

        def task(k: int) -> None:
            segment_oracle.best_segments(outputs, w, bounds[k], bounds[k + 1], *found)

        with BlockRunner(n_threads) as runner:
            runner.run(task, len(bounds) - 1)
        return found

    def examples(self, X: TokenRows, y: TokenSegments, scaling: str) -> CompiledExamples:
        """All sequences bound to the model, for solvers, with parameters in padded rows."""
        check_scaling(self, scaling)
        self.n_labels_ = X.n_labels
        self.max_lengths_ = np.ones(self.n_labels_, np.int64)
        np.maximum.at(self.max_lengths_, y.labels, y.sizes)
        outputs, d, K, L = self._outputs(X, y), X.X.shape[1], self.n_labels_, self._longest
        chains = outputs.chains
        size = d * chains.width
        n_parameters = size + (K + L + 2) * outputs.width
        check_size(self, n_parameters, f"{d} attributes, {K} labels and segments of {L} positions")
        rounding = ScoreRounding(
            X.X,
            chains.tokens,
            lambda w: (w[:size].reshape(d, -1), w[size:]),
            columns=3,
            others=4,  # a transition, a length, and biases at both ends
        )
        T = np.diff(chains.tokens)
        pairs = np.minimum(2 * T, K * K) + np.minimum(2 * T, K * L)
        longest = attribute_entries(chains, 6) + pairs + 5  # two labels in three columns each
        sums = sums_along(chains, X.X, 2.0 * (L + K) + 64.0, 3)
        return CompiledExamples(outputs, n_parameters, longest, (rounding,), sums)

    def _outputs(self, X: TokenRows, y: TokenSegments | None) -> SegmentOutputs:
        """Sequences in the form for compiled code, without losses if there are no true segments."""
        labels, sizes = np.zeros((2, X.X.shape[0]), np.int64) if y is None else y
        arrays = self.max_lengths_, np.asarray(labels, np.int64), sizes
        K, chains = self.n_labels_, pack(X.X, X.lengths, 3 * self.n_labels_, False)
        sizes = K, self._longest, padded(K), float(y is not None)
        return SegmentOutputs(*sizes, *map(frozen, arrays), chains)

    @property
    def _longest(self) -> int:
        return int(self.max_lengths_.max())

    def _layout(self, n_attributes: int) -> Layout:
        return Layout(self.n_labels_, n_attributes, self._longest)
