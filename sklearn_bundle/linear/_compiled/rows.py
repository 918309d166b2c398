"""Passes over the rows of X: scores, gradients, Hessians, sums of columns.

A pass takes a block of rows, from ``start`` to ``stop``, so that threads share the work; sums may
be added in any order. CSR has unsigned indices, which need no check for negative ones.
"""

import numpy as np

from sklearn_bundle.jit.decorators import SUMS, jit


def _sum(function):
    """Compile a loop whose sums may be added in any order, so that it becomes vector code."""
    return jit(function, **SUMS)


@_sum
def dense_scores(X, w, start, stop, out):
    """out[i] = <x_i, w>."""
    for i in range(start, stop):
        total = 0.0
        for j in range(X.shape[1]):
            total += X[i, j] * w[j]
        out[i] = total


@_sum
def dense_gradient(X, g, start, stop, out):
    """out = sum_i g_i x_i."""
    for j in range(X.shape[1]):
        out[j] = 0.0
    for i in range(start, stop):
        factor = g[i]
        if factor != 0.0:
            for j in range(X.shape[1]):
                out[j] += factor * X[i, j]


@_sum
def csr_scores(data, indices, indptr, w, start, stop, out):
    for i in range(start, stop):
        total = 0.0
        for k in range(indptr[i], indptr[i + 1]):
            total += data[k] * w[indices[k]]
        out[i] = total


@_sum
def csr_gradient(data, indices, indptr, g, start, stop, out):
    for j in range(out.shape[0]):
        out[j] = 0.0
    for i in range(start, stop):
        factor = g[i]
        if factor != 0.0:
            for k in range(indptr[i], indptr[i + 1]):
                out[indices[k]] += factor * data[k]


@_sum
def csr_class_scores(data, indices, indptr, W, start, stop, out):
    """out[i] = W' x_i, W of shape (d, K)."""
    for i in range(start, stop):
        for h in range(W.shape[1]):
            out[i, h] = 0.0
        for k in range(indptr[i], indptr[i + 1]):
            x, j = data[k], indices[k]
            for h in range(W.shape[1]):
                out[i, h] += x * W[j, h]


@_sum
def csr_class_gradient(data, indices, indptr, G, start, stop, out):
    """out = sum_i x_i G_i', of shape (d, K)."""
    for j in range(out.shape[0]):
        for h in range(out.shape[1]):
            out[j, h] = 0.0
    for i in range(start, stop):
        for k in range(indptr[i], indptr[i + 1]):
            x, j = data[k], indices[k]
            for h in range(G.shape[1]):
                out[j, h] += x * G[i, h]


@_sum
def dense_scaled(X, rows, coefs, center, start, stop, out):
    """Rows less the center, times the roots of their coefficients: ``out' out`` is a Hessian."""
    for r in range(start, stop):
        root = np.sqrt(coefs[r])
        for j in range(X.shape[1]):
            out[r - start, j] = root * (X[rows[r], j] - center[j])


@_sum
def csr_hessian(data, indices, indptr, rows, coefs, start, stop, H, sums):
    """Add the lower triangle of c_i x_i x_i' to H, and c_i x_i to ``sums``: indices are sorted."""
    for r in range(start, stop):
        first, end = indptr[rows[r]], indptr[rows[r] + 1]
        for k in range(first, end):
            value, row = coefs[r] * data[k], H[indices[k]]
            sums[indices[k]] += value
            for m in range(first, k + np.uint64(1)):
                row[indices[m]] += value * data[m]


@_sum
def csr_squares(data, indices, indptr, weights, out):
    for i in range(weights.shape[0]):
        for k in range(indptr[i], indptr[i + 1]):
            value = np.float64(data[k])
            out[indices[k]] += weights[i] * value * value
