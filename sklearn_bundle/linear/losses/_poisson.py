"""Compiled functions of the Poisson loss; ``m = exp(f)`` is the mean that the score f predicts."""

import numpy as np

from sklearn_bundle.jit.decorators import inner, jit
from sklearn_bundle.jit.elementary import exp, log
from sklearn_bundle.linear.losses._sums import LANES

_SMALL = 0.5  # of x, a logarithm: up to here exp(x) - 1 - x uses its series, to avoid cancellation
_SAME = 1e-15  # relative to score + 1: possible rounding from the logarithm of its target
_NEAR = 0.125  # of r, a relative error: the same for (1 + r) log(1 + r) - r
_TINY = 2.2250738585072014e-308  # smallest normal number, replaces 0 in x log(x)


@jit
def exp_remainder(x, e):
    """exp(x) - 1 - x given e = exp(x) - 1, by the series if x is small."""
    p = 1.0 / 1307674368000.0
    p = p * x + 1.0 / 87178291200.0
    p = p * x + 1.0 / 6227020800.0
    p = p * x + 1.0 / 479001600.0
    p = p * x + 1.0 / 39916800.0
    p = p * x + 1.0 / 3628800.0
    p = p * x + 1.0 / 362880.0
    p = p * x + 1.0 / 40320.0
    p = p * x + 1.0 / 5040.0
    p = p * x + 1.0 / 720.0
    p = p * x + 1.0 / 120.0
    p = p * x + 1.0 / 24.0
    p = p * x + 1.0 / 6.0
    p = p * x + 0.5
    return p * x * x if abs(x) < _SMALL else e - x


@jit
def is_apart(x, log_y):
    """Whether ``x = f - log(y)`` is more than rounding; otherwise the loss, about 1e-30, is 0."""
    return abs(x) > _SAME * (1.0 + abs(log_y))


@jit
def risk(scores, y, weights, b):
    """``sum_i s_i y_i (exp(x_i) - 1 - x_i)`` with x = f + b - log(y), and m for y = 0."""
    total = np.zeros(LANES)
    n = scores.shape[0]
    for start in range(0, n, LANES):
        for k in range(min(LANES, n - start)):
            i = start + k
            z = scores[i] + b
            m = exp(z)
            positive = max(y[i], _TINY)
            log_y = log(positive)
            x = z - log_y
            loss = positive * exp_remainder(x, (m - y[i]) / positive)
            loss = loss if is_apart(x, log_y) else 0.0
            total[k] += weights[i] * (loss if y[i] > 0.0 else m)
    return total.sum()


@jit
def slopes(scores, y, b, out):
    for i in range(scores.shape[0]):
        out[i] = exp(scores[i] + b) - y[i]


@jit
def slope(scores, direction, y, weights, b, along_b, t):
    """First and second derivative in t of the risk at scores + b + t (direction + along_b)."""
    first, second = np.zeros(LANES), np.zeros(LANES)
    n = scores.shape[0]
    for start in range(0, n, LANES):
        for k in range(min(LANES, n - start)):
            i = start + k
            move = direction[i] + along_b
            m = exp(scores[i] + b + t * move)
            first[k] += weights[i] * move * (m - y[i])
            second[k] += weights[i] * move * move * m
    return first.sum(), second.sum()


@inner
def _log_remainder(r):
    """(1 + r) log(1 + r) - r for |r| < _NEAR, from the series of atanh(s), s = r / (2 + r)."""
    s = r / (2.0 + r)
    z = s * s
    p = 1.0 / 15.0
    p = p * z + 1.0 / 13.0
    p = p * z + 1.0 / 11.0
    p = p * z + 1.0 / 9.0
    p = p * z + 1.0 / 7.0
    p = p * z + 1.0 / 5.0
    p = p * z + 1.0 / 3.0
    return 2.0 * z * (1.0 + s * p * (1.0 + s)) / (1.0 - s)


@jit
def plane_from_slopes(y, weights, center, out):
    """Offset ``-sum_i s_i l*(u_i)``, ``l*(u) = m log(m) - m - y log(y) + y`` with m = y + u.

    ``out`` holds the slopes u and becomes the derivatives s u. If the slopes sum to zero, a term
    ``-center u`` may be added: the log of the mean of y keeps the canceling terms small. If y > 0,
    ``l*(u) = u log(y) + m log(m/y) - u``: near the targets u is small, and so are all terms.
    """
    offset = np.zeros(LANES)
    n = out.shape[0]
    for start in range(0, n, LANES):
        for k in range(min(LANES, n - start)):
            i = start + k
            u = out[i]
            m, positive = max(y[i] + u, 0.0), max(y[i], _TINY)
            log_m, log_y = log(max(m, _TINY)), log(positive)
            r = u / positive
            near = positive * _log_remainder(r) if abs(r) < _NEAR else m * (log_m - log_y) - u
            conjugate = u * (log_y - center) + near if y[i] > 0.0 else m * (log_m - center) - u
            offset[k] -= weights[i] * conjugate
            out[i] = weights[i] * u
    return offset.sum()
