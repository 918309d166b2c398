"""Whether the best labels of chains stay best for all weights near the fitted ones."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sklearn_bundle.core.limits import DOUBLE, likely
from sklearn_bundle.core.validation import squared_lengths

Array = NDArray[np.float64]

_FEW = 8.0  # roundings of a score beside those of its products


def possible_labels(
    X: sp.csr_array,
    lengths: NDArray[np.int64],
    coef: Any,
    scored: tuple[Array, Array],
    labels: NDArray[np.int64],
    radius: float,
    biased: bool,
) -> NDArray[np.bool_]:
    """Whether a labeling with a label at a token may have the highest score, by token and label.

    The score of a labeling y is ``<w, phi(x, y)>``, so that of y against the best one moves by at
    most ``radius ||phi(x, y) - phi(x, best)||``. That norm is at most the sum of the parts: of a
    token with another label ``sqrt(2) ||x_t||``, its biases included, and of another pair of labels
    ``sqrt(2)``. Parts add up along the chain, so the largest score with these costs, for each label
    of each token, is that of a search forward and one backward.

    Parameters
    ----------
    X : CSR of shape (n_tokens, n_attributes)
    lengths : ndarray of shape (n_sequences,)
        None is 0.
    coef : ndarray or CSR of shape (n_labels, n_attributes)
    scored : tuple of ndarray
        Scores of tokens and of pairs of labels, -inf where forbidden.
    labels : ndarray of shape (n_tokens,)
        The best labels.
    radius : float
        Of the ball around the weights.
    biased : bool
        Whether there are biases, which the ball then includes.
    """
    scores, moves = scored
    ends = np.cumsum(lengths)
    squares = squared_lengths(X) + float(biased)
    for at in (ends - lengths, ends - 1):
        squares[at] += float(biased)
    costs = radius * np.sqrt(2.0 * squares) * (1.0 + likely(X.shape[1]) * DOUBLE)
    longest = squared_lengths(sp.csr_array(coef) if sp.issparse(coef) else coef).max(initial=0.0)
    sizes = np.sqrt(squares) * np.sqrt(longest) + _largest(scores, 1) + _largest(moves, None)
    errors = (likely(X.shape[1]) + _FEW) * DOUBLE * sizes
    possible = np.empty(scores.shape, dtype=bool)
    for last, length in zip(ends.tolist(), lengths.tolist(), strict=True):
        part = slice(last - length, last)
        slack = (4.0 + length) * float(errors[part].sum())
        known = labels[part], costs[part], np.sqrt(2.0) * radius, slack
        possible[part] = _of_sequence(scores[part], moves, *known)
    return possible


def _largest(scores: Array, axis: int | None) -> Any:
    return np.abs(np.where(np.isneginf(scores), 0.0, scores)).max(axis=axis, initial=0.0)


def _of_sequence(
    scores: Array, moves: Array, labels: NDArray[np.int64], costs: Array, cost: float, slack: float
) -> NDArray[np.bool_]:
    n, places = len(labels), np.arange(len(labels))
    best = float(scores[places, labels].sum() + moves[labels[:-1], labels[1:]].sum())
    nodes = scores + costs[:, None]
    nodes[places, labels] -= costs
    pairs = np.repeat(moves[None] + cost, n - 1, axis=0)
    pairs[places[1:] - 1, labels[:-1], labels[1:]] -= cost
    forward, backward = nodes.copy(), np.zeros_like(nodes)
    for t in range(1, n):
        forward[t] += (forward[t - 1][:, None] + pairs[t - 1]).max(axis=0)
        backward[n - 1 - t] = (pairs[n - 1 - t] + (nodes[n - t] + backward[n - t])).max(axis=1)
    possible = ~(forward + backward + slack < best)
    possible[places, labels] = True
    return possible
