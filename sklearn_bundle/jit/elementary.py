"""exp, log and log(1 + e) as polynomials, which LLVM vectorizes: 6 to 7 times faster than libm.

Relative error below 4e-16 (log: absolute, near 1), checked in tests/jit/test_elementary.py.
They are inlined into loops.
"""

import numpy as np

from sklearn_bundle.jit.decorators import jit

_LOG2_E = 1.4426950408889634  # 1 / log 2
_LN2_HIGH = 6.93147180369123816490e-01  # 32 bits, so that k * _LN2_HIGH is exact
_LN2_LOW = 1.90821492927058770002e-10  # log 2 - _LN2_HIGH
_LN2 = 0.6931471805599453  # log 2
_ROUND = 6755399441055744.0  # 1.5 * 2^52: adding it leaves the nearest integer in the low bits


@jit
def exp(x):
    """exp(x); 0 below -708, infinite above 709."""
    clipped = min(max(x, -708.0), 709.0)
    shifted = clipped * _LOG2_E + _ROUND
    k = shifted - _ROUND
    r = (clipped - k * _LN2_HIGH) - k * _LN2_LOW
    p = 1.0 / 6227020800.0
    p = p * r + 1.0 / 479001600.0
    p = p * r + 1.0 / 39916800.0
    p = p * r + 1.0 / 3628800.0
    p = p * r + 1.0 / 362880.0
    p = p * r + 1.0 / 40320.0
    p = p * r + 1.0 / 5040.0
    p = p * r + 1.0 / 720.0
    p = p * r + 1.0 / 120.0
    p = p * r + 1.0 / 24.0
    p = p * r + 1.0 / 6.0
    p = p * r + 0.5
    p = p * r + 1.0
    p = p * r + 1.0
    bits = (np.float64(shifted).view(np.int64) + np.int64(1023)) << np.int64(52)
    value = p * np.int64(bits).view(np.float64)
    value = 0.0 if x < -708.0 else value
    return np.inf if x > 709.0 else value


@jit
def log1p_unit(e):
    """log(1 + e) for 0 <= e <= 1, as 2 atanh(s) with s at most 0.172."""
    large = e > 0.41421356237309503
    s = (e - 1.0) / (e + 3.0) if large else e / (e + 2.0)
    z = s * s
    p = 1.0 / 23.0
    p = p * z + 1.0 / 21.0
    p = p * z + 1.0 / 19.0
    p = p * z + 1.0 / 17.0
    p = p * z + 1.0 / 15.0
    p = p * z + 1.0 / 13.0
    p = p * z + 1.0 / 11.0
    p = p * z + 1.0 / 9.0
    p = p * z + 1.0 / 7.0
    p = p * z + 1.0 / 5.0
    p = p * z + 1.0 / 3.0
    log = 2.0 * s + 2.0 * s * z * p
    return log + _LN2 if large else log


@jit
def log(x):
    """log(x) of a positive normal number; the error is below 4e-16 times max(1, |log(x)|)."""
    bits = np.float64(x).view(np.int64)
    exponent = (bits >> np.int64(52)) - np.int64(1023)
    mantissa = (bits & np.int64(0xFFFFFFFFFFFFF)) | np.int64(0x3FF0000000000000)
    return np.float64(exponent) * _LN2 + log1p_unit(np.int64(mantissa).view(np.float64) - 1.0)
