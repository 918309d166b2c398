"""An epoch of dual coordinate steps over the rows, with shrinking.

The dual of ``reg_lambda/2 ||w||^2 + sum_i s_i l(y_i f_i)`` in alpha, one number a row, with
``w = X'(y alpha) / reg_lambda`` kept up to date. A step maximises the dual over one alpha_i: in
closed form for the hinge and the squared hinge, by Newton's method for the logistic loss.

An intercept is one more coordinate of w, drawn towards a centre, with the weight ``1 / pull``.
"""

import math

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from sklearn_bundle._compiled.vector import WIDTH, fma, load, plus, splat, total
from sklearn_bundle._jit import inner, jit

HINGE, SQUARED_HINGE, LOG_LOSS = 0, 1, 2
LABEL, WEIGHT, CURVATURE, ALPHA = 0, 1, 2, 3  # the four numbers of a row, in one cache line
_STRIDE = 4

_LEAD = 4  # blocks from the request for a row's first lines to its use
_LINES = 6  # of indices and twice as many of data that are asked for
_AHEAD = 64  # entries from the request for a number of w to its use
_NEWTON_STEPS = 50
_SETTLED = 1e-12


@intrinsic
def _prefetch(typing_context, array, index):
    """Ask for the cache line of ``array[index]``; any index will do, since none can fault."""

    def generate(context, builder, signature, arguments):
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        place = builder.bitcast(builder.gep(data, [arguments[1]]), ir.IntType(8).as_pointer())
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [place.type, number, number, number])
        function = builder.module.declare_intrinsic("llvm.prefetch", [place.type], kind)
        builder.call(function, [place, number(0), number(3), number(1)])  # read, keep, data
        return context.get_dummy_value()

    return types.void(array, types.uint64), generate


@inner
def _entropy(p):
    """``-p log p - (1 - p) log(1 - p)``."""
    if p <= 0.0 or p >= 1.0:
        return 0.0
    return -p * math.log(p) - (1.0 - p) * math.log1p(-p)


@inner
def _log_loss_step(margin, alpha, weight, curvature):
    """The new alpha, and the row's part of the duality gap before the step.

    Zero of ``margin + weight curvature (p - p_0) + t``, ``p = 1/(1 + exp(-t))``, which rises in t
    with a slope of 1 and more, by Newton steps between two bounds.
    """
    old = alpha / weight
    bend = weight * curvature
    low, high = -margin - bend * (1.0 - old), -margin + bend * old
    t = min(max(-margin, low), high)
    if 0.0 < old < 1.0:
        t = min(max(math.log(old) - math.log1p(-old), low), high)
    p = old
    for _ in range(_NEWTON_STEPS):
        e = math.exp(-abs(t))
        p = 1.0 / (1.0 + e) if t > 0.0 else e / (1.0 + e)
        value = margin + bend * (p - old) + t
        if value > 0.0:
            high = t
        else:
            low = t
        step = value / (1.0 + bend * e / ((1.0 + e) * (1.0 + e)))
        if abs(step) <= _SETTLED * (1.0 + abs(t)):
            break
        t -= step
        if not low < t < high:
            t = 0.5 * (low + high)
    loss = math.log1p(math.exp(-abs(margin))) + max(-margin, 0.0)
    return weight * p, weight * (loss - _entropy(old) + old * margin)


@inner
def _step(kind, margin, alpha, weight, curvature, high, low):
    """The new alpha, the projected gradient and the part of the gap before, whether it counts.

    A row does not where alpha is at a bound and its gradient points far enough outwards: relative
    to the row's length, since a change of w moves the scores of long rows more.
    """
    if kind == LOG_LOSS:
        new, gap = _log_loss_step(margin, alpha, weight, curvature)
        return new, 0.0, gap, True
    slack = 1.0 - margin
    excess = max(slack, 0.0)
    if kind == HINGE:
        top, bend = weight, 0.0
        gap = weight * excess - alpha * slack
    else:
        top, bend = np.inf, 1.0 / weight
        gap = 0.5 * (weight * excess * excess + bend * alpha * alpha) - alpha * slack
    gradient = bend * alpha - slack
    projected = gradient
    if alpha == 0.0:
        if gradient > 0.0 and gradient * gradient > high * curvature:
            return alpha, 0.0, gap, False
        projected = min(gradient, 0.0)
    elif alpha == top:
        if gradient < 0.0 and gradient * gradient > low * curvature:
            return alpha, 0.0, gap, False
        projected = max(gradient, 0.0)
    bend += curvature
    if bend > 0.0:
        return min(max(alpha - gradient / bend, 0.0), top), projected, gap, True
    return top if gradient < 0.0 else alpha, 0.0, gap, True  # a row of zeros


@inner
def _csr_dot(data, indices, start, end, last, w):
    """<x, w>; with ``last`` > 0 the numbers of w are asked for some entries ahead.

    ``last`` is the last position at which that reads an index that there is.
    """
    k = start
    s0 = s1 = s2 = s3 = 0.0
    far = min(end, last)
    while k + np.uint64(4) <= far:
        _prefetch(w, np.uint64(indices[k + np.uint64(_AHEAD)]))
        _prefetch(w, np.uint64(indices[k + np.uint64(_AHEAD + 1)]))
        _prefetch(w, np.uint64(indices[k + np.uint64(_AHEAD + 2)]))
        _prefetch(w, np.uint64(indices[k + np.uint64(_AHEAD + 3)]))
        s0 += data[k] * w[indices[k]]
        s1 += data[k + np.uint64(1)] * w[indices[k + np.uint64(1)]]
        s2 += data[k + np.uint64(2)] * w[indices[k + np.uint64(2)]]
        s3 += data[k + np.uint64(3)] * w[indices[k + np.uint64(3)]]
        k += np.uint64(4)
    while k + np.uint64(4) <= end:
        s0 += data[k] * w[indices[k]]
        s1 += data[k + np.uint64(1)] * w[indices[k + np.uint64(1)]]
        s2 += data[k + np.uint64(2)] * w[indices[k + np.uint64(2)]]
        s3 += data[k + np.uint64(3)] * w[indices[k + np.uint64(3)]]
        k += np.uint64(4)
    while k < end:
        s0 += data[k] * w[indices[k]]
        k += np.uint64(1)
    return (s0 + s1) + (s2 + s3)


@inner
def _dense_dot(data, start, width, w):
    a, b = splat(0.0), splat(0.0)
    whole = width - width % (2 * WIDTH)
    for j in range(0, whole, 2 * WIDTH):
        a = fma(load(data, start + j), load(w, j), a)
        b = fma(load(data, start + j + WIDTH), load(w, j + WIDTH), b)
    result = total(plus(a, b))
    for j in range(whole, width):
        result += data[start + j] * w[j]
    return result


@jit
def epoch(
    data,
    indices,
    indptr,
    width,
    rows,
    active,
    size,
    block,
    order,
    far,
    kind,
    w,
    scale,
    high,
    low,
    intercept,
    pull,
    seed,
):
    """One step for each of the first ``size`` rows of ``active``, in blocks in random order.

    ``data`` holds the rows one after the other, of ``width`` entries each; with ``width`` 0 they
    are those of CSR. ``rows`` holds label, weight, curvature and alpha of one row after the other;
    w changes by ``scale x`` times the change of y alpha, and the intercept by ``pull`` times it.
    A row leaves ``active``, whose order is kept, where the square of its gradient at a bound, over
    its curvature, is larger than ``high``, or ``low`` at the upper bound. ``far``: w does not fit
    into a cache that is near.

    Returns how many rows stay, the largest such squares of both signs, the sum of the rows' parts
    of the duality gap as they were met, what the dual gained, and the intercept.
    """
    random = seed[0]
    n_blocks = (size + block - 1) // block
    for a in range(n_blocks):
        order[a] = a
    last = np.uint64(0)
    if far and data.shape[0] > _AHEAD + 4:
        last = np.uint64(data.shape[0] - _AHEAD - 4)
    largest = smallest = 0.0
    gap = gained = 0.0
    for a in range(n_blocks - 1, -_LEAD - 1, -1):
        if a > 0:  # a shuffle, some places ahead of the steps
            random ^= random << np.uint64(13)
            random ^= random >> np.uint64(7)
            random ^= random << np.uint64(17)
            b = np.int64(((random >> np.uint64(32)) * np.uint64(a + 1)) >> np.uint64(32))
            order[a], order[b] = order[b], order[a]
        if a >= 0:
            i = active[order[a] * block]
            _prefetch(rows, np.uint64(_STRIDE * i))
            start = np.uint64(i * width) if width > 0 else indptr[i]
            for line in range(_LINES):
                if width == 0:
                    _prefetch(indices, start + np.uint64(16 * line))
                _prefetch(data, start + np.uint64(16 * line))
                _prefetch(data, start + np.uint64(16 * line + 8))
        if a + _LEAD >= n_blocks:
            continue
        first = order[a + _LEAD] * block
        for k in range(first, min(first + block, size)):
            i = active[k]
            at = _STRIDE * i
            y, alpha = rows[at + LABEL], rows[at + ALPHA]
            if width > 0:
                score = _dense_dot(data, i * width, width, w)
            else:
                score = _csr_dot(data, indices, indptr[i], indptr[i + 1], last, w)
            margin = y * (score + intercept)
            weight, curvature = rows[at + WEIGHT], rows[at + CURVATURE]
            new, projected, part, counts = _step(kind, margin, alpha, weight, curvature, high, low)
            gap += part
            if not counts:
                active[k] = -1
                continue
            square = projected * projected
            if projected > 0.0 and square > largest * curvature:
                largest = square / curvature
            elif projected < 0.0 and square > smallest * curvature:
                smallest = square / curvature
            if new == alpha:
                continue
            rows[at + ALPHA] = new
            change = new - alpha
            if kind == HINGE:
                gained += change * ((1.0 - margin) - 0.5 * curvature * change)
            elif kind == SQUARED_HINGE:
                both = curvature * change + (new + alpha) / weight
                gained += change * ((1.0 - margin) - 0.5 * both)
            else:
                gained += weight * (_entropy(new / weight) - _entropy(alpha / weight))
                gained -= change * (margin + 0.5 * curvature * change)
            change *= y
            intercept += pull * change
            change *= scale
            if width > 0:
                start = i * width
                for j in range(width):
                    w[j] += change * data[start + j]
            else:
                for p in range(indptr[i], indptr[i + 1]):
                    w[indices[p]] += change * data[p]
    seed[0] = random
    stay = 0
    for k in range(size):
        if active[k] >= 0:
            active[stay] = active[k]
            stay += 1
    return stay, largest, smallest, gap, gained, intercept


@jit
def follow(rows, newest, mean):
    """Move a running mean of alpha, giving the last one the weight ``newest``."""
    for i in range(mean.shape[0]):
        mean[i] += newest * (rows[_STRIDE * i + ALPHA] - mean[i])


@jit
def keep_active(kind, margins, rows, high, low, active):
    """Write the rows that an epoch with these limits would keep, all margins being known.

    Returns their number and the duality gap of all rows.
    """
    size = 0
    gap = 0.0
    for i in range(margins.shape[0]):
        at = _STRIDE * i
        weight, curvature = rows[at + WEIGHT], rows[at + CURVATURE]
        _, _, part, counts = _step(kind, margins[i], rows[at + ALPHA], weight, curvature, high, low)
        gap += part
        active[size] = i
        size += counts
    return size, gap
