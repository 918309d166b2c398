"""The negative log-probability of a labeling, even if it is far below the rounding of log Z."""

import numpy as np

from sklearn_bundle.chain._compiled.chain import score_of
from sklearn_bundle.jit.decorators import inner
from sklearn_bundle.jit.elementary import log, log1p_unit
from sklearn_bundle.jit.sums import added

_SMALL = 1.0  # nats: a smaller loss would be a small difference of large numbers


@inner
def loss_of(labels, start, T, K, S, scores, pairs, log_z, work, nodes):
    """After ``marginals``: ``-log p(labels[start : start + T])``.

    Log Z minus the score is a difference of numbers that grow with T. If it is small, it is instead
    computed to full precision as a sum of ``log(1 + odds of another label here, given the labels
    before)``.
    """
    loss = log_z - score_of(labels, start, T, S, scores, pairs)
    if not loss < _SMALL:
        return loss
    scaled = T > 1 and work.scales[0] > 0.0
    loss = carry = 0.0
    for t in range(T):
        at, label = t * S, labels[start + t]
        if t == 0:
            term = _log_of_odds(nodes, 0, nodes, 0, False, label, K)
        elif scaled:
            row = labels[start + t - 1] * S
            term = _log_of_odds(work.weighted, at, work.table, row, True, label, K)
        else:
            row = labels[start + t - 1] * S
            for k in range(K):
                work.row[k] = scores[at + k] + work.weighted[at + k] + pairs[row + k]
            term = _log_of_sum(work.row, label, K)
        loss, carry = added(loss, carry, term)
    return loss + carry


@inner
def _log_of_odds(values, at, factors, row, multiplied, label, K):
    """``log(sum / own)`` of the K products, where ``own`` is that of ``label``."""
    own = others = 0.0
    for k in range(K):
        value = values[at + k] * (factors[row + k] if multiplied else 1.0)
        if k == label:
            own = value
        else:
            others += value
    return _log1p(others / own)


@inner
def _log_of_sum(values, label, K):
    """``log(sum of exp) - own`` of the K values."""
    highest = -np.inf
    for k in range(K):
        if k != label:
            highest = max(highest, values[k] - values[label])
    others = 0.0
    shift = max(highest, 0.0)
    for k in range(K):
        if k != label:
            others += np.exp(values[k] - values[label] - shift)
    return _log1p(others) if shift == 0.0 else shift + log(others + np.exp(-shift))


@inner
def _log1p(odds):
    return log1p_unit(odds) if odds <= 1.0 else log(1.0 + odds)
