"""exp, log and log(1 + e) as polynomials, which LLVM vectorizes: 6 to 7 times faster than libm.

Relative error below 4e-16 (log: absolute, near 1), checked in tests/jit/test_elementary.py.
They are inlined into loops.
"""

import numpy as np

from sklearn_bundle.jit.decorators import inner
from sklearn_bundle.jit.vector import larger, power_of_two, where_above

_LOG2_E = 1.4426950408889634  # 1 / log 2
_LN2_HIGH = 6.93147180369123816490e-01  # 32 bits, so that k * _LN2_HIGH is exact
_LN2_LOW = 1.90821492927058770002e-10  # log 2 - _LN2_HIGH
_LN2 = 0.6931471805599453  # log 2
_ROUND = 6755399441055744.0  # 1.5 * 2^52: adding it leaves the nearest integer in the low bits
# The same for float32. The polynomial is that of Cephes' expf, up to log(2)/2, the highest power
# first and without the last two, whose coefficients are 1: relative error below 1.2e-7.
_LOWEST_SINGLE = np.float32(-87.33654)  # log of the smallest normal number
_LN2_PARTS = np.float32(0.693359375), np.float32(-2.12194440e-4)  # 10 bits, and the rest of log 2
_ROUND_SINGLE = np.float32(12582912.0)  # 1.5 * 2^23
_EXP = tuple(map(np.float32, (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3)))
_EXP += tuple(map(np.float32, (4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)))
_LOG2_E_SINGLE, _ZERO, _ONE = np.float32(_LOG2_E), np.float32(0.0), np.float32(1.0)


@inner
def exp(x):
    """exp(x); 0 below -708, infinite above 709."""
    clipped = min(max(x, -708.0), 709.0)
    shifted = clipped * _LOG2_E + _ROUND
    k = shifted - _ROUND
    r = (clipped - k * _LN2_HIGH) - k * _LN2_LOW
    p = (1.0 / 6227020800.0 * r + 1.0 / 479001600.0) * r + 1.0 / 39916800.0
    p = (p * r + 1.0 / 3628800.0) * r + 1.0 / 362880.0
    p = (p * r + 1.0 / 40320.0) * r + 1.0 / 5040.0
    p = (p * r + 1.0 / 720.0) * r + 1.0 / 120.0
    p = (p * r + 1.0 / 24.0) * r + 1.0 / 6.0
    p = ((p * r + 0.5) * r + 1.0) * r + 1.0
    value = 0.0 if x < -708.0 else p * power_of_two(shifted)
    return np.inf if x > 709.0 else value


@inner
def exp_single(x):
    """exp(min(x, 0)) in float32, of a number or a vector; 0 where that is not a normal number.

    A NaN counts as 0.
    """
    x = where_above(_ZERO, x, x, _ZERO)
    clipped = larger(x, _LOWEST_SINGLE)
    shifted = clipped * _LOG2_E_SINGLE + _ROUND_SINGLE
    k = shifted - _ROUND_SINGLE
    r = (clipped - k * _LN2_PARTS[0]) - k * _LN2_PARTS[1]
    p = ((_EXP[0] * r + _EXP[1]) * r + _EXP[2]) * r + _EXP[3]
    p = ((p * r + _EXP[4]) * r + _EXP[5]) * r + _ONE
    return where_above(_LOWEST_SINGLE, x, _ZERO, (p * r + _ONE) * power_of_two(shifted))


@inner
def log1p_unit(e):
    """log(1 + e) for 0 <= e <= 1, as 2 atanh(s) with s at most 0.172."""
    large = e > 0.41421356237309503
    s = (e - 1.0) / (e + 3.0) if large else e / (e + 2.0)
    z = s * s
    p = (1.0 / 23.0 * z + 1.0 / 21.0) * z + 1.0 / 19.0
    p = (p * z + 1.0 / 17.0) * z + 1.0 / 15.0
    p = (p * z + 1.0 / 13.0) * z + 1.0 / 11.0
    p = (p * z + 1.0 / 9.0) * z + 1.0 / 7.0
    p = (p * z + 1.0 / 5.0) * z + 1.0 / 3.0
    log = 2.0 * s + 2.0 * s * z * p
    return log + _LN2 if large else log


@inner
def log(x):
    """log(x) of a positive normal number; the error is below 4e-16 times max(1, |log(x)|)."""
    bits = np.float64(x).view(np.int64)
    exponent = (bits >> np.int64(52)) - np.int64(1023)
    mantissa = (bits & np.int64(0xFFFFFFFFFFFFF)) | np.int64(0x3FF0000000000000)
    return np.float64(exponent) * _LN2 + log1p_unit(np.int64(mantissa).view(np.float64) - 1.0)
