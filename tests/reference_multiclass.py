"""References of the multiclass losses that share no code with the package."""

import numpy as np
import scipy.sparse as sp

from tests.reference_cones import by_clarabel, exponential, halflines


def loss(scores, label, kind="hinge", cost=None, scaling="margin"):
    """Loss of one sample, by enumeration of the classes; ``kind`` is "hinge" or "softmax"."""
    if kind == "softmax":
        top = max(scores)
        return top - scores[label] + np.log(sum(np.exp(f - top) for f in scores))
    pieces = [0.0]
    for k in range(len(scores)):
        if k != label:
            delta = 1.0 if cost is None else cost[label][k]
            margin = scores[k] - scores[label]
            pieces.append(delta * (margin + 1.0) if scaling == "slack" else margin + delta)
    return max(pieces)


def objective(X, y, weights, reg_lambda, W, b, *, ancestors=None, **parameters):
    """reg_lambda/2 ||W||^2 + sum_i s_i l(y_i, A (W x_i + b)), A of ones and zeros or None."""
    scores = X @ W.T + b
    if ancestors is not None:
        scores = scores @ ancestors.T
    losses = [loss(f, label, **parameters) for f, label in zip(scores, y, strict=True)]
    return 0.5 * reg_lambda * np.sum(W**2) + weights @ losses


def optimum(
    X,
    y,
    weights,
    reg_lambda,
    fit_intercept,
    *,
    kind="hinge",
    cost=None,
    scaling="margin",
    ancestors=None,
):
    """Smallest objective, its W (outputs, d) and b (outputs,), by clarabel on the cone programme.

    The intercept is not penalized, or zero without ``fit_intercept``.
    """
    n, d = X.shape
    K = y.max() + 1
    A = np.eye(K) if ancestors is None else ancestors
    rows = np.c_[X, np.ones(n)] if fit_intercept else X
    p = A.shape[1] * rows.shape[1]
    # margins: f_k - f_y of every sample and class, times the vector of (W, b), a row per output
    margins = np.vstack([np.kron(A - A[y[i]], rows[i]) for i in range(n)])
    samples = sp.csc_matrix(np.kron(np.eye(n), np.ones((K, 1))))
    if kind == "hinge":  # xi_i >= gamma (f_k - f_y) + delta; k = y is xi_i >= 0
        delta = ((1.0 - np.eye(K)) if cost is None else np.asarray(cost))[y].ravel()
        gamma = delta if scaling == "slack" else np.ones(n * K)
        constraints = sp.hstack([sp.csc_matrix(gamma[:, None] * margins), -samples])
        right, cones, extra = -delta, halflines(n * K), 0
    else:  # exp(f_k - f_y - xi_i) <= u_ik, sum_k u_ik <= 1
        extra = n * K
        first = sp.hstack([-sp.csc_matrix(margins), samples, sp.csc_matrix((extra, extra))])
        third = sp.hstack([sp.csc_matrix((extra, p + n)), -sp.identity(extra)])
        stacked = sp.vstack([first, 0.0 * first, third]).tocsr()
        cones_rows = stacked[np.arange(3 * extra).reshape(3, extra).T.ravel()]
        sums = sp.hstack([sp.csc_matrix((n, p + n)), samples.T])
        constraints = sp.vstack([cones_rows, sums])
        right = np.r_[np.tile([0.0, 1.0, 0.0], extra), np.ones(n)]
        cones = exponential(extra) + halflines(n)
    penalty = np.full((A.shape[1], rows.shape[1]), reg_lambda)
    penalty[:, d:] = 0.0
    quadratic = sp.diags(np.r_[penalty.ravel(), np.zeros(n + extra)])
    linear = np.r_[np.zeros(p), weights, np.zeros(extra)]
    found = by_clarabel(quadratic, linear, constraints, right, cones)[:p].reshape(A.shape[1], -1)
    W, b = found[:, :d], found[:, d] if fit_intercept else np.zeros(A.shape[1])
    parameters = {"kind": kind, "cost": cost, "scaling": scaling, "ancestors": ancestors}
    return objective(X, y, weights, reg_lambda, W, b, **parameters), W, b
