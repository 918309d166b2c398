"""References that share no code with the package: numpy formulas, an interior-point solver."""

import numpy as np
import scipy.sparse as sp

from tests.reference_cones import by_clarabel, exponential, halflines

LOSSES = {
    "hinge": lambda z: np.maximum(0.0, 1.0 - z),
    "squared_hinge": lambda z: 0.5 * np.maximum(0.0, 1.0 - z) ** 2,
    "log_loss": lambda z: np.logaddexp(0.0, -z),
}


def objective(loss, X, y, weights, reg_lambda, w, b):
    """reg_lambda/2 ||w||^2 + sum_i s_i l(y_i (<w, x_i> + b))."""
    return 0.5 * reg_lambda * (w @ w) + weights @ LOSSES[loss](y * (X @ w + b))


def optimum(loss, X, y, weights, reg_lambda, fit_intercept):
    """Smallest objective, by clarabel's interior-point method on the cone programme."""
    n, d = X.shape
    margins = sp.csc_matrix(y[:, None] * np.c_[X, np.ones(n)])  # z = margins @ (w, b)
    if not fit_intercept:
        margins = margins[:, :d]
    p = margins.shape[1]
    slacks = 3 * n if loss == "log_loss" else n
    eye, zero = sp.identity(n, format="csc"), sp.csc_matrix((n, n))
    quadratic = np.r_[np.full(d, reg_lambda), np.zeros(p - d), np.zeros(slacks)]
    linear = np.r_[np.zeros(p), weights, np.zeros(slacks - n)]
    if loss in ("hinge", "squared_hinge"):  # xi >= 1 - z, xi >= 0
        if loss == "squared_hinge":
            quadratic[p : p + n], linear[p : p + n] = weights, 0.0
        A = sp.bmat([[-margins, -eye], [sp.csc_matrix((n, p)), -eye]])
        b, cones = np.r_[-np.ones(n), np.zeros(n)], halflines(2 * n)
    else:  # exp(-t) <= u, exp(-z - t) <= v, u + v <= 1
        blank = 0 * margins
        first = _interleaved(
            [
                sp.hstack([blank, eye, zero, zero]),
                None,
                sp.hstack([blank, zero, -eye, zero]),
            ]
        )
        second = _interleaved(
            [
                sp.hstack([margins, eye, zero, zero]),
                None,
                sp.hstack([blank, zero, zero, -eye]),
            ]
        )
        A = sp.vstack([first, second, sp.hstack([blank, zero, eye, eye])])
        b = np.r_[np.tile([0.0, 1.0, 0.0], 2 * n), np.ones(n)]
        cones = exponential(2 * n) + halflines(n)
    x = by_clarabel(sp.diags(quadratic), linear, A, b, cones)
    return objective(loss, X, y, weights, reg_lambda, x[:d], x[d] if fit_intercept else 0.0)


def _interleaved(rows):
    """Rows of the three blocks in turn, one triple a cone; None is a block of zeros."""
    shape = next(block for block in rows if block is not None).shape
    blocks = [sp.csr_matrix(shape) if block is None else sp.csr_matrix(block) for block in rows]
    stacked = sp.vstack(blocks).tocsr()
    n = shape[0]
    return stacked[np.arange(3 * n).reshape(3, n).T.ravel()]
