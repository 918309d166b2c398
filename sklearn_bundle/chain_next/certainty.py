"""Whether the best labels of chains stay best for all weights near the fitted ones."""

import itertools
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.extmath import safe_sparse_dot

from sklearn_bundle.chain_next.model import Weights
from sklearn_bundle.core.limits import DOUBLE, likely
from sklearn_bundle.core.validation import squared_lengths

Array = NDArray[np.float64]

_FEW = 8.0  # roundings of a score beside those of its products


def possible_labels(
    X: sp.csr_array,
    starts: NDArray[np.int64],
    weights: Weights,
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
    starts : ndarray of shape (n_sequences + 1,)
        Where sequences begin among the tokens.
    weights : Weights
    labels : ndarray of shape (n_tokens,)
        The best labels.
    radius : float
        Of the ball around the weights.
    biased : bool
        Whether there are biases, which the ball then includes.
    """
    coef, transitions, intercept, start, end = weights
    scores = safe_sparse_dot(X, coef.T, dense_output=True) + intercept
    nonempty = np.diff(starts) > 0
    heads, tails = starts[:-1][nonempty], starts[1:][nonempty] - 1
    scores[heads] += start
    scores[tails] += end
    squares = squared_lengths(X) + float(biased)
    np.add.at(squares, heads, float(biased))
    np.add.at(squares, tails, float(biased))
    costs = radius * np.sqrt(2.0 * squares) * (1.0 + likely(X.shape[1]) * DOUBLE)
    sizes = np.sqrt(squares) * _longest_row(coef) + np.abs(scores).max(axis=1, initial=0.0)
    errors = (likely(X.shape[1]) + _FEW) * DOUBLE * (sizes + np.abs(transitions).max(initial=0.0))
    possible = np.empty(scores.shape, dtype=bool)
    for first, last in itertools.pairwise(starts):
        part = slice(first, last)
        known = scores[part], transitions, labels[part], costs[part], np.sqrt(2.0) * radius
        slack = (4.0 + last - first) * float(errors[part].sum())
        possible[part] = _of_sequence(*known, slack)
    return possible


def certain_tokens(*args: Any) -> NDArray[np.bool_]:
    """Whether no other label is possible at a token; the arguments of :func:`possible_labels`."""
    return possible_labels(*args).sum(axis=1) == 1


def _longest_row(coef: Any) -> float:
    squares = squared_lengths(sp.csr_array(coef) if sp.issparse(coef) else coef)
    return float(np.sqrt(squares.max(initial=0.0)))


def _of_sequence(
    scores: Array,
    transitions: Array,
    labels: NDArray[np.int64],
    costs: Array,
    cost_of_pair: float,
    slack: float,
) -> NDArray[np.bool_]:
    n, places = len(labels), np.arange(len(labels))
    if n == 0:
        return np.zeros(scores.shape, dtype=bool)
    best = float(scores[places, labels].sum() + transitions[labels[:-1], labels[1:]].sum())
    nodes = scores + costs[:, None]
    nodes[places, labels] -= costs
    forward, backward = np.empty_like(nodes), np.zeros_like(nodes)
    forward[0] = nodes[0]
    moves = transitions + cost_of_pair
    for t in range(1, n):
        pairs = moves.copy()
        pairs[labels[t - 1], labels[t]] -= cost_of_pair
        forward[t] = nodes[t] + (forward[t - 1][:, None] + pairs).max(axis=0)
    for t in range(n - 2, -1, -1):
        pairs = moves.copy()
        pairs[labels[t], labels[t + 1]] -= cost_of_pair
        backward[t] = (pairs + (nodes[t + 1] + backward[t + 1])).max(axis=1)
    highest = forward + backward
    possible = ~(highest + slack < best)
    possible[places, labels] = True
    return possible
