"""Sums in compiled losses: how many side by side, and derivatives that sum to zero."""

from sklearn_bundle._jit import jit

LANES = 64  # partial sums side by side: one running sum would keep loops from being vectorized
WEIGHT_ROUNDING = 1e-15  # of a sum of weights that is one in all


@jit
def balance(y, derivatives, offset, signed_offset):
    """Scale one class so that all derivatives sum to zero; returns the new offset.

    A plane scaled down is a mean of it and the plane 0, which lies below a loss >= 0: it stays
    valid, sample by sample, however large the derivative in b is that rounding has left.
    ``signed_offset`` is the sum of y_i times sample i's part of the offset.
    """
    positive = 0.0
    negative = 0.0
    for i in range(derivatives.shape[0]):
        positive -= derivatives[i] * (y[i] > 0.0)
        negative += derivatives[i] * (y[i] < 0.0)
    if positive == negative:
        return offset
    larger = 1.0 if positive > negative else -1.0
    scale = min(positive, negative) / max(positive, negative)
    for i in range(derivatives.shape[0]):
        derivatives[i] *= scale if y[i] == larger else 1.0
    return offset - (1.0 - scale) * 0.5 * (offset + larger * signed_offset)
