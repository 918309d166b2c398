"""J of any side's model, in numpy and scipy alone.

J = reg_lambda (l1_ratio ||W||_1 + (1 - l1_ratio)/2 ||W||^2) + the mean loss.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from _cell import Data
from benchmarks.common import Array, best_intercept
from scipy.optimize import minimize_scalar
from scipy.sparse import issparse
from scipy.special import expit, logsumexp, xlogy

EPSILON = 0.1  # half the width of the tube, in units of y


def _hinge(y: Array, f: Array) -> Array:
    return np.maximum(0.0, 1.0 - y * f)


def _huber(y: Array, f: Array, delta: float = 1.0) -> Array:
    size = np.abs(y - f)
    inside = np.minimum(size, delta)
    return 0.5 * inside**2 + delta * (size - inside)


def _quantile(y: Array, f: Array, quantile: float) -> Array:
    return np.maximum(quantile * (y - f), (quantile - 1.0) * (y - f))


# The losses of all samples: of targets and scores, (n,) or for several classes (n, K).
_LOSSES: dict[str, Callable[..., Array]] = {
    "squared_error": lambda y, f: 0.5 * (y - f) ** 2,
    "huber": _huber,
    "absolute_error": lambda y, f: np.abs(y - f),
    "quantile": _quantile,
    "epsilon_insensitive": lambda y, f: np.maximum(0.0, np.abs(y - f) - EPSILON),
    "poisson": lambda y, f: np.exp(f) - y * f + xlogy(y, y) - y,  # half the deviance
    "hinge": _hinge,
    "squared_hinge": lambda y, f: 0.5 * _hinge(y, f) ** 2,
    "log_loss": lambda y, f: np.logaddexp(0.0, -y * f),
    "softmax": lambda y, F: logsumexp(F, axis=1) - F[np.arange(len(y)), y],
}
# Derivatives in the score of losses of a margin, times y.
_SLOPES = {
    "log_loss": lambda m: -expit(-m),
    "squared_hinge": lambda m: -np.maximum(0.0, 1.0 - m),
}


def judge(
    data: Data,
    loss: str,
    reg_lambda: float,
    l1_ratio: float = 0.0,
    mend: bool = False,
    **parameters: float,
) -> Callable[[Any], float]:
    """J of a model on the training part, at its own intercept or, for the hinge, the best one."""

    def objective(model: Any) -> float:
        W = model.coef_.toarray() if issparse(model.coef_) else np.asarray(model.coef_, dtype=float)
        W = np.atleast_2d(W)
        scores = data.X @ W.T
        b = np.ravel(model.intercept_)
        if mend:
            b = best_intercept(data.X, data.y, W[0])
        scores = scores + b
        if scores.shape[1] == 1:
            scores = scores[:, 0]
        risk = np.mean(_LOSSES[loss](data.y, scores, **parameters))
        penalty = l1_ratio * np.abs(W).sum() + 0.5 * (1.0 - l1_ratio) * np.vdot(W, W)
        return float(reg_lambda * penalty + risk)

    return objective


def largest_reg_lambda(data: Data, loss: str, fit_intercept: bool) -> float:
    """The least reg_lambda of the L1 norm at which all weights are zero."""
    X, y = data.X, data.y
    if loss == "squared_error":
        slopes = (y.mean() if fit_intercept else 0.0) - y
    else:
        b = 0.0
        if fit_intercept:
            b = minimize_scalar(lambda b: np.mean(_LOSSES[loss](y, np.full(len(y), b)))).x
        slopes = y * _SLOPES[loss](y * b)
    return float(np.max(np.abs(X.T @ slopes)) / len(y))
