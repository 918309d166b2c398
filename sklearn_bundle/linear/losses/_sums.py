"""Sums in compiled losses: the number of lanes, and derivatives that sum to zero."""

from sklearn_bundle.jit.decorators import jit

# Parallel partial sums: a single running sum would prevent vectorization. Loops over a block of so
# many rows take slices of the arrays: with an index from their beginning, which might be negative
# for all that the compiler knows, a hinge took six times as long.
LANES = 64
WEIGHT_ROUNDING = 1e-15  # of a sum of weights, relative to their total of one


@jit
def balance(y, derivatives, offset, signed_offset):
    """Scale one class so that all derivatives sum to zero; returns the new offset.

    A scaled-down plane is a mean of the plane and the plane 0, which lies below a loss >= 0. It is
    valid sample by sample, however large the derivative in b left by rounding. ``signed_offset`` is
    the sum of y_i times the part of sample i in the offset.
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
