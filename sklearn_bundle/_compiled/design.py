"""Products with the data: scores X w, gradients X'g, on a block of rows.

X comes as C-ordered dense rows or as the three arrays of CSR with unsigned indices (unsigned, so
that LLVM drops the test for a negative index: 2 to 3 times faster). X is float32 or float64, all
else float64. Sums have several accumulators in a fixed order: the same bits on every run.
"""

import numpy as np

from sklearn_bundle._jit import jit


@jit
def dense_scores(X, w, start, stop, out):
    """out[i] = <X[i], w> for start <= i < stop; eight rows at a time hide the adders' latency."""
    d = X.shape[1]
    head = stop - (stop - start) % 8
    for i in range(start, head, 8):
        s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = 0.0
        for j in range(d):
            wj = w[j]
            s0 += X[i, j] * wj
            s1 += X[i + 1, j] * wj
            s2 += X[i + 2, j] * wj
            s3 += X[i + 3, j] * wj
            s4 += X[i + 4, j] * wj
            s5 += X[i + 5, j] * wj
            s6 += X[i + 6, j] * wj
            s7 += X[i + 7, j] * wj
        out[i] = s0
        out[i + 1] = s1
        out[i + 2] = s2
        out[i + 3] = s3
        out[i + 4] = s4
        out[i + 5] = s5
        out[i + 6] = s6
        out[i + 7] = s7
    for i in range(head, stop):
        s0 = 0.0
        for j in range(d):
            s0 += X[i, j] * w[j]
        out[i] = s0


@jit
def dense_gradient(X, g, skip, start, stop, out):
    """out = sum of g[i] X[i] over start <= i < stop; with ``skip``, g[i] = 0 is not read."""
    out[:] = 0.0
    for i in range(start, stop):
        gi = g[i]
        if gi != 0.0 or not skip:
            for j in range(X.shape[1]):
                out[j] += gi * X[i, j]


@jit
def csr_scores(data, indices, indptr, w, start, stop, out):
    """out[i] = <X[i], w> for start <= i < stop."""
    for i in range(start, stop):
        k = indptr[i]
        end = indptr[i + 1]
        s0 = 0.0
        s1 = 0.0
        s2 = 0.0
        s3 = 0.0
        while k + np.uint64(4) <= end:
            s0 += data[k] * w[indices[k]]
            s1 += data[k + np.uint64(1)] * w[indices[k + np.uint64(1)]]
            s2 += data[k + np.uint64(2)] * w[indices[k + np.uint64(2)]]
            s3 += data[k + np.uint64(3)] * w[indices[k + np.uint64(3)]]
            k += np.uint64(4)
        while k < end:
            s0 += data[k] * w[indices[k]]
            k += np.uint64(1)
        out[i] = (s0 + s1) + (s2 + s3)


@jit
def csr_gradient(data, indices, indptr, g, skip, start, stop, out):
    """out = sum of g[i] X[i] over start <= i < stop; with ``skip``, g[i] = 0 is not read."""
    out[:] = 0.0
    for i in range(start, stop):
        gi = g[i]
        if gi != 0.0 or not skip:
            for k in range(indptr[i], indptr[i + 1]):
                out[indices[k]] += gi * data[k]


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
