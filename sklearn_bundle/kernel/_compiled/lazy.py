"""Frank-Wolfe steps that compute the kernel rows they need: dense points in float32.

What :func:`~.swap.run` leaves to its caller is done here without a return
to Python, which would cost more than a row of a small problem.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.jit.decorators import inner, jit
from sklearn_bundle.kernel._compiled import rows as passes
from sklearn_bundle.kernel._compiled import swap

LINEAR, RBF = 0, 1  # the kernels that :func:`fill` knows
_BLOCK = 4  # rows computed together at most, two for each read of the columns


class Source(NamedTuple):
    """Points and a kernel, from which rows ``y_i y (k(x_i, x) + 1)`` are computed.

    Point i is ``values[points[i]]`` and column i of ``columns``. ``kernel`` is LINEAR or RBF,
    ``norms`` are ``gamma |x|^2``, ``own`` is the diagonal without rounding. The first class has the
    points before ``split``. Every pair of classes to which a point belongs needs the point's values
    with its own class: ``store`` (which may have no rows) keeps them for the points ``known``.
    """

    kernel: int
    gamma: np.float32
    values: NDArray[np.float32]
    points: NDArray[np.intp]
    columns: NDArray[np.float32]
    norms: NDArray[np.float32]
    y: NDArray[np.float32]
    own: NDArray[np.float32]
    split: int
    store: NDArray[np.float32]
    known: NDArray[np.bool_]


@jit
def promising(q, value, slots, i, chosen):
    """Choose i, then the missing rows with the smallest q below ``value``; returns their number."""
    chosen[0] = i
    count = 1
    if chosen.shape[0] == 1:
        return count
    for k in range(q.shape[0]):
        if q[k] >= value or slots[k] >= 0 or k == i:
            continue
        if count < chosen.shape[0]:
            count += 1
        elif q[chosen[count - 1]] <= q[k]:
            continue
        p = count - 1
        while p > 1 and q[chosen[p - 1]] > q[k]:
            chosen[p] = chosen[p - 1]
            p -= 1
        chosen[p] = k
    return count


@jit
def least_recently_used(used, owners):
    """The slot whose row was needed least recently."""
    slot = 0
    for s in range(1, owners.shape[0]):
        if used[owners[s]] < used[owners[slot]]:
            slot = s
    return slot


@jit
def gather(transposed, points, out):
    """Columns ``points`` of a matrix."""
    for k in range(transposed.shape[0]):
        source, row = transposed[k], out[k]
        for c in range(points.shape[0]):
            row[c] = source[points[c]]


@inner
def _products(x, y, columns, first, last, out_x, out_y):
    """Inner products of two points with columns first to last.

    Both read ``columns`` together, four rows at a time; rows past the last have factors of 0.
    """
    d, n = columns.shape[0], last - first
    for c in range(n):
        out_x[c] = 0.0
        out_y[c] = 0.0
    for k in range(0, d, 4):
        k1, k2, k3 = min(k + 1, d - 1), min(k + 2, d - 1), min(k + 3, d - 1)
        in1, in2, in3 = np.float32(k + 1 < d), np.float32(k + 2 < d), np.float32(k + 3 < d)
        x0, x1, x2, x3 = x[k], in1 * x[k1], in2 * x[k2], in3 * x[k3]
        y0, y1, y2, y3 = y[k], in1 * y[k1], in2 * y[k2], in3 * y[k3]
        p0, p1 = columns[k, first:last], columns[k1, first:last]
        p2, p3 = columns[k2, first:last], columns[k3, first:last]
        for c in range(n):
            a0, a1, a2, a3 = p0[c], p1[c], p2[c], p3[c]
            out_x[c] += (x0 * a0 + x1 * a1) + (x2 * a2 + x3 * a3)
            out_y[c] += (y0 * a0 + y1 * a1) + (y2 * a2 + y3 * a3)


@inner
def _values(source, chosen, todo, count, first, last, out, spare):
    """Kernel values of the first ``count`` rows ``todo`` of ``out``, in columns first to last.

    Blocks are too small for BLAS, which would spend its time copying ``columns``.
    """
    values, points, columns, norms = source.values, source.points, source.columns, source.norms
    for t in range(0, count, 2):
        r, s = todo[t], todo[min(t + 1, count - 1)]
        x, y = values[points[chosen[r]]], values[points[chosen[s]]]
        second = out[s, first:last] if s != r else spare[: last - first]
        _products(x, y, columns, first, last, out[r, first:last], second)
    if source.kernel == RBF:
        scale = np.float32(2.0) * source.gamma
        for t in range(count):
            r = todo[t]
            i = chosen[r]
            left, right = norms[i : i + 1], norms[first:last]
            passes.rbf_single(out[r : r + 1], first, last, left, right, scale)


@jit
def fill(source, chosen, out):
    """Write the rows of the chosen points to ``out``."""
    points, split, store, known = source.points, source.split, source.store, source.known
    todo = np.empty(out.shape[0], dtype=np.int64)
    spare = np.empty(out.shape[1], dtype=np.float32)
    for side in range(2):
        first, last = (0, split) if side == 0 else (split, out.shape[1])
        count = 0
        for r in range(out.shape[0]):
            i = chosen[r]
            if store.shape[0] > 0 and first <= i < last and known[points[i]]:
                for c in range(first, last):
                    out[r, c] = store[points[i], c - first]
            else:
                todo[count] = r
                count += 1
        _values(source, chosen, todo, count, first, last, out, spare)
        for t in range(count):
            i = chosen[todo[t]]
            if store.shape[0] > 0 and first <= i < last:
                for c in range(first, last):
                    store[points[i], c - first] = out[todo[t], c]
                known[points[i]] = True
    for r in range(out.shape[0]):
        swap.sign(out[r], source.y, source.y[chosen[r]])
        out[r, chosen[r]] = source.own[chosen[r]]


@jit
def run(rule, matrix, source, n_kept, point, value, size, kinds, first):
    """Take the steps of ``swap.run``, and compute missing rows, up to four at a time.

    The first ``n_kept`` slots are in use. Returns Q, the size of the support, the number of steps
    done, the slots in use, the rows computed, and DONE or INDEFINITE.
    """
    rows, slots, owners = matrix.rows, matrix.slots, matrix.owners
    chosen = np.empty(_BLOCK, dtype=np.int64)
    done, n_rows = np.int64(0), 0
    while True:
        value, size, done, missing = swap.run(rule, matrix, point, value, size, kinds, first, done)
        if missing < 0:
            return value, size, done, n_kept, n_rows, missing
        free = owners.shape[0] - n_kept
        if free > 0:
            count = promising(point.q, value, slots, missing, chosen[: min(_BLOCK, free)])
            slot = n_kept
            n_kept += count
        else:
            count = 1
            chosen[0] = missing
            slot = least_recently_used(matrix.used, owners)
            slots[owners[slot]] = -1
        out = rows[slot : slot + count]
        fill(source, chosen[:count], out)
        for c in range(count):
            owners[slot + c] = chosen[c]
            slots[chosen[c]] = slot + c
        n_rows += count
