"""Products with the data: scores X w, gradients X'g, Hessians, on a block of rows.

X comes as C-ordered dense rows or as the three arrays of CSR with unsigned indices (unsigned, so
that LLVM drops the test for a negative index: 2 to 3 times faster). X is float32 or float64,
everything else float64. Sums have several accumulators in a fixed order, so that every run gives
the same bits.

Rows end in the middle of a vector. The last vector of a dense row begins early enough to end with
the row, and the lanes that it shares with the one before are left out. In CSR, entries of the next
row are read and not used. So there is no loop over single entries, which took most of the time for
short rows, because its end cannot be predicted.

Hessians are ``sum of c_r x_r x_r'`` over some rows; with ``free`` they have a last row for the
intercept, as for a column of ones.
"""

import numpy as np

from sklearn_bundle.jit import vector
from sklearn_bundle.jit.decorators import inner, jit

_WIDTH = vector.WIDTH  # doubles in a vector
_LONG = 128  # columns: from here on rows are processed one at a time; four fill a page
_TILE = 4096  # columns of very long rows that are processed at a time: 32 KB of w stay in cache
_BATCH = 512  # rows whose weights are checked before any of the rows is read
_MOMENT_ROWS = 128  # copied at a time: 24 KB of 24 columns stay in the first cache
_SPARSE_BATCH = 0.15  # share of a batch in use: below it, skipping the rest pays even for long rows


@jit
def dense_scores(X, w, start, stop, out):
    """out[i] = <X[i], w> for start <= i < stop.

    Short rows are processed four at a time, which hides the adders' latency; long ones one at a
    time, since prefetching works best along one stream.
    """
    d = X.shape[1]
    if d < _WIDTH:
        for i in range(start, stop):
            out[i] = 0.0
            for j in range(d):
                out[i] += X[i, j] * w[j]
        return
    body = d - d % _WIDTH
    tail = d - _WIDTH
    last = vector.last_of(vector.load(w, tail), d - body)
    head = start if d >= _LONG else stop - (stop - start) % 4
    for i in range(start, head, 4):
        at = i * d
        s0 = s1 = s2 = s3 = vector.splat(0.0)
        for j in range(0, body, _WIDTH):
            wj = vector.load(w, j)
            s0 = vector.fma(vector.load(X, at + j), wj, s0)
            s1 = vector.fma(vector.load(X, at + d + j), wj, s1)
            s2 = vector.fma(vector.load(X, at + 2 * d + j), wj, s2)
            s3 = vector.fma(vector.load(X, at + 3 * d + j), wj, s3)
        at += tail
        s0 = vector.fma(vector.load(X, at), last, s0)
        s1 = vector.fma(vector.load(X, at + d), last, s1)
        s2 = vector.fma(vector.load(X, at + 2 * d), last, s2)
        s3 = vector.fma(vector.load(X, at + 3 * d), last, s3)
        vector.store_totals(out, i, s0, s1, s2, s3)
    for left in range(0, body, _TILE):
        right = min(left + _TILE, body)
        middle = left if d < _LONG else right - (right - left) % (4 * _WIDTH)
        for i in range(head, stop):
            at = i * d
            s0 = s1 = s2 = s3 = vector.splat(0.0)
            for j in range(left, middle, 4 * _WIDTH):
                k = at + j
                s0 = vector.fma(vector.load(X, k), vector.load(w, j), s0)
                s1 = vector.fma(vector.load(X, k + 8), vector.load(w, j + 8), s1)
                s2 = vector.fma(vector.load(X, k + 16), vector.load(w, j + 16), s2)
                s3 = vector.fma(vector.load(X, k + 24), vector.load(w, j + 24), s3)
            for j in range(middle, right, _WIDTH):
                s0 = vector.fma(vector.load(X, at + j), vector.load(w, j), s0)
            if right == body:
                s0 = vector.fma(vector.load(X, at + tail), last, s0)
            part = vector.total(vector.plus(vector.plus(s0, s1), vector.plus(s2, s3)))
            out[i] = part if left == 0 else out[i] + part


@inner
def _rows_in_use(g, skip, start, stop, rows):
    """Write the rows that have to be read to ``rows``; returns their number.

    For long rows a few zeros do not pay: skipping rows breaks the stream that the processor
    prefetches.
    """
    size = 0
    for i in range(start, stop):
        rows[size] = i
        size += g[i] != 0.0  # no branch: it would be mispredicted
    if not skip and size >= _SPARSE_BATCH * (stop - start):
        for i in range(start, stop):
            rows[i - start] = i
        size = stop - start
    return size


@jit
def dense_gradient(X, g, skip, start, stop, out):
    """out = sum of g[i] X[i] over start <= i < stop.

    Rows with g[i] = 0 are not read; without ``skip``, only if they are most of their batch. Short
    rows are processed four at a time: ``out`` is read and written a quarter as often.
    """
    d = X.shape[1]
    out[:] = 0.0
    if d < _WIDTH:
        for i in range(start, stop):
            for j in range(d):
                out[j] += g[i] * X[i, j]
        return
    body = d - d % _WIDTH
    tail = d - _WIDTH
    last = vector.splat(0.0)  # sums of the last eight columns
    rows = np.empty(_BATCH, dtype=np.int64)
    for first in range(start, stop, _BATCH):
        size = _rows_in_use(g, skip, first, min(first + _BATCH, stop), rows)
        head = 0 if d >= _LONG else size - size % 4
        for q in range(0, head, 4):
            i0, i1, i2, i3 = rows[q], rows[q + 1], rows[q + 2], rows[q + 3]
            g0, g1 = vector.spread(g, i0), vector.spread(g, i1)
            g2, g3 = vector.spread(g, i2), vector.spread(g, i3)
            i0, i1, i2, i3 = i0 * d, i1 * d, i2 * d, i3 * d
            for j in range(0, body, _WIDTH):
                s = vector.fma(vector.load(X, i0 + j), g0, vector.load(out, j))
                s = vector.fma(vector.load(X, i1 + j), g1, s)
                s = vector.fma(vector.load(X, i2 + j), g2, s)
                vector.store(out, j, vector.fma(vector.load(X, i3 + j), g3, s))
            last = vector.fma(vector.load(X, i0 + tail), g0, last)
            last = vector.fma(vector.load(X, i1 + tail), g1, last)
            last = vector.fma(vector.load(X, i2 + tail), g2, last)
            last = vector.fma(vector.load(X, i3 + tail), g3, last)
        for left in range(0, body, _TILE):
            right = min(left + _TILE, body)
            middle = right - (right - left) % (4 * _WIDTH)
            for q in range(head, size):
                at = rows[q] * d
                gi = vector.spread(g, rows[q])
                for j in range(left, middle, 4 * _WIDTH):  # halves the time if memory is read
                    k = at + j
                    s0 = vector.fma(vector.load(X, k), gi, vector.load(out, j))
                    s1 = vector.fma(vector.load(X, k + 8), gi, vector.load(out, j + 8))
                    s2 = vector.fma(vector.load(X, k + 16), gi, vector.load(out, j + 16))
                    s3 = vector.fma(vector.load(X, k + 24), gi, vector.load(out, j + 24))
                    vector.store(out, j, s0)
                    vector.store(out, j + 8, s1)
                    vector.store(out, j + 16, s2)
                    vector.store(out, j + 24, s3)
                for j in range(middle, right, _WIDTH):
                    s = vector.fma(vector.load(X, at + j), gi, vector.load(out, j))
                    vector.store(out, j, s)
                if right == body:
                    last = vector.fma(vector.load(X, at + tail), gi, last)
    vector.store(out, tail, vector.plus(vector.load(out, tail), vector.last_of(last, d - body)))


@inner
def _last_safe(indptr, start, stop, width):
    """End of the rows after which ``width`` entries, of these or other rows, can be read."""
    while stop > start and indptr[stop] + np.uint64(width) > indptr[-1]:
        stop -= 1
    return stop


@inner
def _row_products(data, indices, k, end, w):
    total = vector.splat(0.0)
    while k < end:
        total = vector.gather_fma(data, indices, k, end - k, w, total)
        k += _WIDTH
    return total


@jit
def csr_scores(data, indices, indptr, w, start, stop, out):
    """out[i] = <X[i], w> for start <= i < stop."""
    safe = _last_safe(indptr, start, stop, _WIDTH)
    head = safe - (safe - start) % 4
    for i in range(start, head, 4):
        k0, k1, k2 = np.intp(indptr[i]), np.intp(indptr[i + 1]), np.intp(indptr[i + 2])
        k3, k4 = np.intp(indptr[i + 3]), np.intp(indptr[i + 4])
        vector.store_totals(
            out,
            i,
            _row_products(data, indices, k0, k1, w),
            _row_products(data, indices, k1, k2, w),
            _row_products(data, indices, k2, k3, w),
            _row_products(data, indices, k3, k4, w),
        )
    for i in range(head, stop):
        out[i] = 0.0
        for k in range(indptr[i], indptr[i + 1]):
            out[i] += data[k] * w[indices[k]]


@jit
def csr_gradient(data, indices, indptr, g, skip, start, stop, out):
    """out = sum of g[i] X[i] over start <= i < stop.

    Rows with g[i] = 0 are not read; without ``skip``, only if they are most of their batch.
    """
    out[:] = 0.0
    rows = np.empty(_BATCH, dtype=np.int64)
    safe = _last_safe(indptr, start, stop, vector.QUARTET)
    for first in range(start, safe, _BATCH):
        size = _rows_in_use(g, skip, first, min(first + _BATCH, safe), rows)
        for q in range(size):
            i = rows[q]
            k, end = np.intp(indptr[i]), np.intp(indptr[i + 1])
            while k < end:
                vector.scatter_add(data, indices, k, end - k, g[i], out)
                k += vector.QUARTET
    for i in range(safe, stop):
        for k in range(indptr[i], indptr[i + 1]):
            out[indices[k]] += g[i] * data[k]


@jit
def csr_gradient_columns(data, indices, indptr, g, skip, left, right, out):
    """out[j] = sum over all rows of g[i] X[i, j] for left <= j < right; other j do not change.

    The sums have the same bits as those of :func:`csr_gradient` over all rows.
    """
    out[left:right] = 0.0
    n = g.shape[0]
    rows = np.empty(_BATCH, dtype=np.int64)
    spare = np.zeros(64)
    safe = _last_safe(indptr, 0, n, vector.QUARTET)
    for first in range(0, safe, _BATCH):
        size = _rows_in_use(g, skip, first, min(first + _BATCH, safe), rows)
        for q in range(size):
            i = rows[q]
            k, end = np.intp(indptr[i]), np.intp(indptr[i + 1])
            while k < end:
                count = end - k
                vector.scatter_add_within(data, indices, k, count, g[i], out, left, right, spare)
                k += vector.QUARTET
    for i in range(safe, n):
        for k in range(indptr[i], indptr[i + 1]):
            j = np.intp(indices[k])
            if left <= j < right:
                out[j] += g[i] * data[k]


@jit
def dense_scores_many(X, W, start, stop, out):
    """out[i] = X[i] W, W of shape (d, k)."""
    for i in range(start, stop):
        for h in range(W.shape[1]):
            out[i, h] = 0.0
        for j in range(X.shape[1]):
            x = X[i, j]
            for h in range(W.shape[1]):
                out[i, h] += x * W[j, h]


@jit
def dense_gradient_many(X, G, skip, start, stop, out):
    """out = sum of X[i]' G[i], of shape (d, k)."""
    out[:] = 0.0
    for i in range(start, stop):
        if skip and not np.any(G[i]):
            continue
        for j in range(X.shape[1]):
            x = X[i, j]
            for h in range(G.shape[1]):
                out[j, h] += x * G[i, h]


@jit
def csr_scores_many(data, indices, indptr, W, start, stop, out):
    """out[i] = X[i] W, W of shape (d, k)."""
    for i in range(start, stop):
        for h in range(W.shape[1]):
            out[i, h] = 0.0
        for k in range(indptr[i], indptr[i + 1]):
            x = data[k]
            j = indices[k]
            for h in range(W.shape[1]):
                out[i, h] += x * W[j, h]


@jit
def csr_gradient_many(data, indices, indptr, G, skip, start, stop, out):
    """out = sum of X[i]' G[i], of shape (d, k)."""
    out[:] = 0.0
    for i in range(start, stop):
        if skip and not np.any(G[i]):
            continue
        for k in range(indptr[i], indptr[i + 1]):
            x = data[k]
            j = indices[k]
            for h in range(G.shape[1]):
                out[j, h] += x * G[i, h]


@jit
def blend(step, x, y, out):
    """out = (1 - step) x + step y; ``out`` may be ``x``."""
    for i in range(x.shape[0]):
        out[i] = (1.0 - step) * x[i] + step * y[i]


@jit
def line(start, end, shift, shift_end, moved, direction):
    """moved = start + shift, and nearly direction = (end + shift_end) - moved: b apart from f."""
    shift_along = shift_end - shift
    for i in range(start.shape[0]):
        moved[i] = start[i] + shift
        direction[i] = (end[i] - start[i]) + shift_along


@jit
def add(step, x, out):
    """out += step x."""
    for i in range(x.shape[0]):
        out[i] += step * x[i]


@jit
def csr_hessian(data, indices, indptr, rows, coefs, start, stop, free, H):
    """Add the products of ``rows[start:stop]``; each goes to (i, j) or to (j, i), not to both."""
    d = H.shape[0] - 1
    for r in range(start, stop):
        first, end = indptr[rows[r]], indptr[rows[r] + 1]
        for k in range(first, end):
            value = coefs[r] * data[k]
            row = H[indices[k]]
            for m in range(first, k + np.uint64(1)):
                row[indices[m]] += value * data[m]
            if free:
                H[d, indices[k]] += value
        if free:
            H[d, d] += coefs[r]


@jit
def has_parts(indices, indptr, n_columns):
    """Whether a row of CSR, sorted or not, has several entries in the same column."""
    met = np.full(n_columns, -1, dtype=np.int64)  # the last row with an entry there
    parts = 0
    for i in range(indptr.shape[0] - 1):
        for k in range(indptr[i], indptr[i + 1]):
            j = indices[k]
            parts += met[j] == i
            met[j] = i
    return parts > 0


@jit
def fold(H):
    """Add the strictly upper triangle to the lower one: rows of CSR need not be sorted."""
    for i in range(H.shape[0]):
        for j in range(i):
            H[i, j] += H[j, i]


@jit
def scaled_rows(X, rows, coefs, mean, start, stop, free, out):
    """(Rows minus ``mean``) times the roots of their coefficients: ``out' out`` is the Hessian."""
    d = X.shape[1]
    for r in range(start, stop):
        root = np.sqrt(coefs[r])
        for j in range(d):
            out[r - start, j] = root * (X[rows[r], j] - mean[j])
        if free:
            out[r - start, d] = root


@jit
def dense_moments(X, y, weights, center, y_center, start, stop, H, q, m, squares):
    """Add moments of rows about a center: H += Z'Z, q += Z'z, m += Z'root; squares += X's.

    Z has the rows x - center, and z is y - y_center, both times the roots of the weights. Rows are
    copied a few at a time into columns filled up to whole vectors; a tile of their products stays
    in registers and is then added to H, which also keeps rounding small. H is (P, P), the others
    have length P, a multiple of a vector's width. Tiles of H below the diagonal stay as they are.
    """
    d, P = X.shape[1], H.shape[1]
    body, flat_H = d - d % _WIDTH, H.reshape(-1)
    Z, z, roots = np.zeros(_MOMENT_ROWS * P), np.empty(_MOMENT_ROWS), np.empty(_MOMENT_ROWS)
    for first in range(start, stop, _MOMENT_ROWS):
        size = min(_MOMENT_ROWS, stop - first)
        for r in range(size):
            roots[r] = np.sqrt(weights[first + r])
            z[r] = roots[r] * (y[first + r] - y_center)
            from_, to, root = (first + r) * d, r * P, vector.splat(roots[r])
            for j in range(0, body, _WIDTH):
                x = vector.load(X, from_ + j)
                moved = vector.minus(x, vector.load(center, j))
                vector.store(Z, to + j, vector.times(moved, root))
                vector.store(squares, j, vector.fma(x, x, vector.load(squares, j)))
            for j in range(body, d):
                squares[j] += np.float64(X[first + r, j]) ** 2
                Z[to + j] = roots[r] * (X[first + r, j] - center[j])
        for k in range(0, P, _WIDTH):
            s0 = s1 = vector.splat(0.0)
            for r in range(size):
                a = vector.load(Z, r * P + k)
                s0 = vector.fma(a, vector.spread(z, r), s0)
                s1 = vector.fma(a, vector.spread(roots, r), s1)
            vector.store(q, k, vector.plus(vector.load(q, k), s0))
            vector.store(m, k, vector.plus(vector.load(m, k), s1))
            for j in range(0, k + 1, _WIDTH):
                s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = vector.splat(0.0)
                for r in range(size):
                    a, b = vector.load(Z, r * P + k), r * P + j
                    s0 = vector.fma(a, vector.spread(Z, b), s0)
                    s1 = vector.fma(a, vector.spread(Z, b + 1), s1)
                    s2 = vector.fma(a, vector.spread(Z, b + 2), s2)
                    s3 = vector.fma(a, vector.spread(Z, b + 3), s3)
                    s4 = vector.fma(a, vector.spread(Z, b + 4), s4)
                    s5 = vector.fma(a, vector.spread(Z, b + 5), s5)
                    s6 = vector.fma(a, vector.spread(Z, b + 6), s6)
                    s7 = vector.fma(a, vector.spread(Z, b + 7), s7)
                at = j * P + k
                vector.store(flat_H, at, vector.plus(vector.load(flat_H, at), s0))
                at += P
                vector.store(flat_H, at, vector.plus(vector.load(flat_H, at), s1))
                at += P
                vector.store(flat_H, at, vector.plus(vector.load(flat_H, at), s2))
                at += P
                vector.store(flat_H, at, vector.plus(vector.load(flat_H, at), s3))
                at += P
                vector.store(flat_H, at, vector.plus(vector.load(flat_H, at), s4))
                at += P
                vector.store(flat_H, at, vector.plus(vector.load(flat_H, at), s5))
                at += P
                vector.store(flat_H, at, vector.plus(vector.load(flat_H, at), s6))
                at += P
                vector.store(flat_H, at, vector.plus(vector.load(flat_H, at), s7))


@jit
def csr_column_sums(data, indices, squared, out):
    """Add the square of each entry to out[j], or its absolute value."""
    for k in range(data.shape[0]):
        value = np.float64(data[k])
        out[indices[k]] += value * value if squared else abs(value)


@jit
def csr_column_squares(data, indices, indptr, weights, out):
    """Add ``s_i x_ij^2`` of each entry to out[j]."""
    for i in range(weights.shape[0]):
        for k in range(indptr[i], indptr[i + 1]):
            value = np.float64(data[k])
            out[indices[k]] += weights[i] * value * value


@jit
def dense_column_sums(X, squared, out):
    for i in range(X.shape[0]):
        for j in range(X.shape[1]):
            value = np.float64(X[i, j])
            out[j] += value * value if squared else abs(value)


@jit
def ascend(center, y, scores, step, out):
    """``out = center + step (1 - y f)``."""
    for i in range(out.shape[0]):
        out[i] = center[i] + step * (1.0 - y[i] * scores[i])
