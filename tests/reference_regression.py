"""References for the losses of regression and novelty detection, without code of the package.

Formulas, objectives, and optima by clarabel's interior-point method on the cone program. A loss is
given by its name here, its parameters by keyword.
"""

import numpy as np
import scipy.sparse as sp
from scipy.special import xlogy

from tests.reference_cones import by_clarabel, exponential, halflines, zeros


def _huber(f, y, delta=1.0):
    r = np.abs(f - y)
    return np.where(r <= delta, 0.5 * r**2, delta * (r - 0.5 * delta))


def _multivariate(f, y, M=None):
    M = np.eye(y.shape[1]) if M is None else np.asarray(M)
    return np.array([0.5 * r @ M @ r for r in f - y])


LOSSES = {
    "squared_error": lambda f, y: 0.5 * (f - y) ** 2,
    "absolute_error": lambda f, y: np.abs(f - y),
    "quantile": lambda f, y, quantile=0.5: np.where(
        y > f, quantile * (y - f), (1 - quantile) * (f - y)
    ),
    "epsilon_insensitive": lambda f, y, epsilon=0.1: np.maximum(0.0, np.abs(f - y) - epsilon),
    "squared_epsilon_insensitive": lambda f, y, epsilon=0.1: (
        0.5 * np.maximum(0.0, np.abs(f - y) - epsilon) ** 2
    ),
    "huber": _huber,
    "poisson": lambda f, y: np.exp(f) - y * f + xlogy(y, y) - y,
    "multivariate_squared_error": _multivariate,
}


def objective(loss_name, X, y, weights, reg_lambda, w, b, **parameters):
    """reg_lambda/2 ||w||^2 + sum_i s_i l(y_i, <w, x_i> + b).

    For several outputs w has shape (d, k) and b shape (k,).
    """
    return 0.5 * reg_lambda * np.sum(w * w) + weights @ LOSSES[loss_name](
        X @ w + b, y, **parameters
    )


def optimum(loss_name, X, y, weights, reg_lambda, fit_intercept, **parameters):
    """Smallest objective."""
    return solution(loss_name, X, y, weights, reg_lambda, fit_intercept, **parameters)[2]


def solution(loss_name, X, y, weights, reg_lambda, fit_intercept, **parameters):
    """w, b and the smallest objective, by clarabel."""
    n, d = X.shape
    k = y.shape[1] if loss_name == "multivariate_squared_error" else 1
    columns = np.c_[X, np.ones(n)] if fit_intercept else X
    design = sp.csr_matrix(sp.kron(columns, sp.identity(k)))  # to the scores, row by row
    if loss_name in _PIECES:
        target, pieces = np.zeros(n) if y is None else y, _PIECES[loss_name](**parameters)
        x = _piecewise_linear(design, d, target, weights, reg_lambda, pieces)
    else:
        x = _PROGRAMMES[loss_name](design, d * k, y, weights, reg_lambda, **parameters)
    w, b = x[: d * k], x[d * k : design.shape[1]] if fit_intercept else np.zeros(k)
    if loss_name == "multivariate_squared_error":
        w = w.reshape(d, k)
    else:
        b = b[0]
    return w, b, objective(loss_name, X, y, weights, reg_lambda, w, b, **parameters)


# Piecewise linear losses: (slope, constant) of the lines in f - y whose maximum they are.
_PIECES = {
    "absolute_error": lambda: [(-1.0, 0.0), (1.0, 0.0)],
    "quantile": lambda quantile=0.5: [(-quantile, 0.0), (1.0 - quantile, 0.0)],
    "epsilon_insensitive": lambda epsilon=0.1: [(-1.0, -epsilon), (0.0, 0.0), (1.0, -epsilon)],
}


def _piecewise_linear(design, penalized, y, weights, reg_lambda, pieces):
    """xi_i >= slope (f_i - y_i) + constant for every piece."""
    n, p = design.shape
    quadratic = np.r_[np.full(penalized, reg_lambda), np.zeros(p - penalized + n)]
    A = sp.vstack([sp.hstack([slope * design, -sp.identity(n)]) for slope, _ in pieces])
    b = np.concatenate([slope * y - constant for slope, constant in pieces])
    cones = halflines(len(b))
    return by_clarabel(sp.diags(quadratic), np.r_[np.zeros(p), weights], A, b, cones)


def _squared(design, penalized, y, weights, reg_lambda, M=None):
    """r = f - y row by row, sum_i s_i r_i' M r_i / 2."""
    n, p = design.shape
    k = y.size // len(y)
    bend = sp.kron(sp.diags(weights), np.eye(k) if M is None else M)
    quadratic = np.r_[np.full(penalized, reg_lambda), np.zeros(p - penalized)]
    P = sp.block_diag([sp.diags(quadratic), bend])
    A = sp.hstack([design, -sp.identity(n)])
    return by_clarabel(P, np.zeros(p + n), A, y.ravel(), zeros(n))


def _huber_programme(design, penalized, y, weights, reg_lambda, delta=1.0):
    """f - y = u + v, |v_i| <= t_i, sum_i s_i (u_i^2/2 + delta t_i)."""
    n, p = design.shape
    eye, zero, blank = sp.identity(n), sp.csr_matrix((n, n)), sp.csr_matrix((n, p))
    quadratic = np.r_[np.full(penalized, reg_lambda), np.zeros(p - penalized), weights]
    linear = np.r_[np.zeros(p + 2 * n), delta * weights]
    A = sp.bmat(
        [
            [design, -eye, -eye, zero],
            [blank, zero, eye, -eye],
            [blank, zero, -eye, -eye],
        ]
    )
    P = sp.diags(np.r_[quadratic, np.zeros(2 * n)])
    cones = zeros(n) + halflines(2 * n)
    return by_clarabel(P, linear, A, np.r_[y, np.zeros(2 * n)], cones)


def _squared_tube(design, penalized, y, weights, reg_lambda, epsilon=0.1):
    """|f - y| <= epsilon + xi, sum_i s_i xi_i^2 / 2."""
    n, p = design.shape
    quadratic = np.r_[np.full(penalized, reg_lambda), np.zeros(p - penalized), weights]
    A = sp.vstack([sp.hstack([sign * design, -sp.identity(n)]) for sign in (1.0, -1.0)])
    b = np.r_[y + epsilon, epsilon - y]
    return by_clarabel(sp.diags(quadratic), np.zeros(p + n), A, b, halflines(2 * n))


def _poisson_programme(design, penalized, y, weights, reg_lambda):
    """(f_i, 1, t_i) in the exponential cone, sum_i s_i (t_i - y_i f_i)."""
    n, p = design.shape
    quadratic = np.r_[np.full(penalized, reg_lambda), np.zeros(p - penalized + n)]
    linear = np.r_[-design.T @ (weights * y), weights]
    rows = sp.vstack(
        [
            sp.hstack([-design, sp.csr_matrix((n, n))]),
            sp.csr_matrix((n, p + n)),
            sp.hstack([sp.csr_matrix((n, p)), -sp.identity(n)]),
        ]
    )
    A = sp.csr_matrix(rows)[np.arange(3 * n).reshape(3, n).T.ravel()]  # a triple a cone
    cones = exponential(n)
    return by_clarabel(sp.diags(quadratic), linear, A, np.tile([0.0, 1.0, 0.0], n), cones)


_PROGRAMMES = {
    "squared_error": _squared,
    "multivariate_squared_error": _squared,
    "squared_epsilon_insensitive": _squared_tube,
    "huber": _huber_programme,
    "poisson": _poisson_programme,
}


def drawn():
    """Rows, targets with heavy tails, and weights."""
    rng = np.random.default_rng(11)
    X = rng.normal(size=(60, 4))
    y = X @ rng.normal(size=4) + 2.0 + 0.5 * rng.standard_t(2, size=60)
    weights = rng.integers(1, 4, size=60).astype(float)
    return X, y, weights / weights.sum()
