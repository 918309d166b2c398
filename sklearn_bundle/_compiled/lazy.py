"""Frank-Wolfe steps that compute the kernel rows they need: dense points in float32.

What :func:`sklearn_bundle._compiled.swap.run` leaves to its caller is done here without a way
back to Python, which would cost more than a row of a small problem.
"""

import numpy as np

from sklearn_bundle._compiled import rows as passes
from sklearn_bundle._compiled import swap
from sklearn_bundle._jit import jit

LINEAR, RBF, POLY = 0, 1, 2


@jit
def promising(q, value, slots, i, chosen):
    """i, then those of the missing rows with the smallest q below ``value``; returns how many."""
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
def longest_unused(used, owners):
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


@jit
def _add_one(x, columns, first, last, out):
    """``out += x'columns[:, first:last]``, four rows of ``columns`` at a time."""
    d, n = columns.shape[0], last - first
    k = 0
    while k + 4 <= d:
        x0, x1, x2, x3 = x[k], x[k + 1], x[k + 2], x[k + 3]
        p0, p1 = columns[k, first:last], columns[k + 1, first:last]
        p2, p3 = columns[k + 2, first:last], columns[k + 3, first:last]
        for c in range(n):
            out[c] += (x0 * p0[c] + x1 * p1[c]) + (x2 * p2[c] + x3 * p3[c])
        k += 4
    while k < d:
        x0, p0 = x[k], columns[k, first:last]
        for c in range(n):
            out[c] += x0 * p0[c]
        k += 1


@jit
def _add_two(x, y, columns, first, last, out_x, out_y):
    """As ``_add_one`` for two points, which read ``columns`` together."""
    d, n = columns.shape[0], last - first
    k = 0
    while k + 4 <= d:
        x0, x1, x2, x3 = x[k], x[k + 1], x[k + 2], x[k + 3]
        y0, y1, y2, y3 = y[k], y[k + 1], y[k + 2], y[k + 3]
        p0, p1 = columns[k, first:last], columns[k + 1, first:last]
        p2, p3 = columns[k + 2, first:last], columns[k + 3, first:last]
        for c in range(n):
            a0, a1, a2, a3 = p0[c], p1[c], p2[c], p3[c]
            out_x[c] += (x0 * a0 + x1 * a1) + (x2 * a2 + x3 * a3)
            out_y[c] += (y0 * a0 + y1 * a1) + (y2 * a2 + y3 * a3)
        k += 4
    while k < d:
        x0, y0, p0 = x[k], y[k], columns[k, first:last]
        for c in range(n):
            out_x[c] += x0 * p0[c]
            out_y[c] += y0 * p0[c]
        k += 1


@jit
def _values(kernel, values, points, columns, norms, chosen, todo, first, last, out):
    """Kernel values of the rows ``todo`` of ``out``, in columns first to last.

    Blocks are too small for BLAS, which would spend its time on copying ``columns``.
    """
    name, gamma, coef0, degree = kernel
    count = todo.shape[0]
    for t in range(count):
        out[todo[t], first:last] = np.float32(0.0)
    for t in range(0, count - count % 2, 2):
        r, s = todo[t], todo[t + 1]
        x, y = values[points[chosen[r]]], values[points[chosen[s]]]
        _add_two(x, y, columns, first, last, out[r, first:last], out[s, first:last])
    if count % 2 == 1:
        r = todo[count - 1]
        _add_one(values[points[chosen[r]]], columns, first, last, out[r, first:last])
    for t in range(count):
        r = todo[t]
        row = out[r : r + 1]
        if name == RBF:
            own = norms[chosen[r] : chosen[r] + 1]
            passes.rbf_single(row, first, last, own, norms[first:last], np.float32(2.0) * gamma)
        elif name == POLY:
            passes.poly(row, first, last, gamma, coef0, degree)


@jit
def fill(kernel, values, points, columns, norms, y, split, store, known, chosen, out):
    """Rows ``y_i y (k(x_i, x) + 1)`` for the chosen i.

    Point i is ``values[points[i]]`` and column i of ``columns``; the first class has the points
    before ``split``. Values of a point with those of its own class are wanted by every pair of
    classes that it belongs to: they are kept in ``store`` (which may have no rows), those of the
    points ``known``.
    """
    todo = np.empty(out.shape[0], dtype=np.int64)
    for side in range(2):
        first, last = (0, split) if side == 0 else (split, out.shape[1])
        count = 0
        for r in range(out.shape[0]):
            i = chosen[r]
            own = store.shape[0] > 0 and first <= i < last
            if own and known[points[i]]:
                out[r, first:last] = store[points[i], : last - first]
            else:
                todo[count] = r
                count += 1
        _values(kernel, values, points, columns, norms, chosen, todo[:count], first, last, out)
        for t in range(count):
            i = chosen[todo[t]]
            if store.shape[0] > 0 and first <= i < last:
                store[points[i], : last - first] = out[todo[t], first:last]
                known[points[i]] = True
    for r in range(out.shape[0]):
        swap.sign(out[r], y, y[chosen[r]])


@jit
def run(
    algorithm,
    kernel,
    values,
    points,
    columns,
    norms,
    y,
    split,
    store,
    known,
    block,
    rows,
    owners,
    n_kept,
    slots,
    used,
    ridge,
    diagonal,
    q,
    value,
    a,
    single,
    support,
    where,
    size,
    tol,
    kinds,
    first,
    n_candidates,
    seed,
):
    """As ``swap.run`` from step 0 on, with missing rows computed, up to ``block`` at a time.

    ``kernel`` is (name, gamma, coef0, degree), numbers in float32; the first ``n_kept`` slots are
    taken. Returns Q, the size of the support, the number of steps done, the slots taken, the rows
    computed, and DONE or INDEFINITE.
    """
    chosen = np.empty(block, dtype=np.int64)
    done, n_rows = 0, 0
    while True:
        value, size, done, missing = swap.run(
            *(algorithm, rows, slots, used, ridge, diagonal, q, value, a, single),
            *(support, where, size),
            *(tol, kinds, first, done, n_candidates, seed),
        )
        if missing < 0:
            return value, size, done, n_kept, n_rows, missing
        free = owners.shape[0] - n_kept
        if free > 0:
            count = promising(q, value, slots, missing, chosen[: min(block, free)])
            slot = n_kept
            n_kept += count
        else:
            count = 1
            chosen[0] = missing
            slot = longest_unused(used, owners)
            slots[owners[slot]] = -1
        out = rows[slot : slot + count]
        fill(kernel, values, points, columns, norms, y, split, store, known, chosen[:count], out)
        for c in range(count):
            owners[slot + c] = chosen[c]
            slots[chosen[c]] = slot + c
        n_rows += count
