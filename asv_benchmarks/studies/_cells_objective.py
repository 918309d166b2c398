"""J of any side's model, in numpy and scipy alone.

J = reg_lambda (l1_ratio ||W||_1 + (1 - l1_ratio)/2 ||W||^2) + the mean loss.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from benchmarks.common import Array
from scipy.sparse import issparse
from scipy.special import logsumexp, xlogy

EPSILON = 0.1  # half the width of the tube, in units of y
QUANTILE = 0.9


def _hinge(y: Array, f: Array) -> Array:
    return np.maximum(0.0, 1.0 - y * f)


def _tube(y: Array, f: Array) -> Array:
    return np.maximum(0.0, np.abs(y - f) - EPSILON)


def _huber(y: Array, f: Array, delta: float = 1.0) -> Array:
    size = np.abs(y - f)
    inside = np.minimum(size, delta)
    return 0.5 * inside**2 + delta * (size - inside)


def _own(y: Array, F: Array) -> Array:
    """Scores of the right classes."""
    return F[np.arange(len(y)), y]


def _multiclass_hinge(y: Array, F: Array) -> Array:
    losses = 1.0 + F - _own(y, F)[:, None]
    losses[np.arange(len(y)), y] = 0.0
    return losses.max(axis=1)


# The losses of all samples: of targets and scores, (n,) or for several classes (n, K).
_LOSSES: dict[str, Callable[..., Array]] = {
    "squared_error": lambda y, f: 0.5 * (y - f) ** 2,
    "huber": _huber,
    "absolute_error": lambda y, f: np.abs(y - f),
    "quantile": lambda y, f: np.maximum(QUANTILE * (y - f), (QUANTILE - 1.0) * (y - f)),
    "epsilon_insensitive": _tube,
    "squared_epsilon_insensitive": lambda y, f: 0.5 * _tube(y, f) ** 2,
    "poisson": lambda y, f: np.exp(f) - y * f + xlogy(y, y) - y,  # half the deviance
    "hinge": _hinge,
    "squared_hinge": lambda y, f: 0.5 * _hinge(y, f) ** 2,
    "log_loss": lambda y, f: np.logaddexp(0.0, -y * f),
    "softmax": lambda y, F: logsumexp(F, axis=1) - _own(y, F),
    "multiclass_hinge": _multiclass_hinge,
}


def objective_of(
    model: Any,
    X: Any,
    y: Array,
    reg_lambda: float,
    loss: str,
    l1_ratio: float = 0.0,
    **parameters: float,
) -> float:
    """J of a fitted model at the intercept that it returns."""
    W = model.coef_.toarray() if issparse(model.coef_) else np.asarray(model.coef_, dtype=float)
    W = np.atleast_2d(W)
    scores = X @ W.T + np.ravel(model.intercept_)
    if scores.shape[1] == 1:
        scores = scores[:, 0]
    risk = np.mean(_LOSSES[loss](y, scores, **parameters))
    penalty = l1_ratio * np.abs(W).sum() + 0.5 * (1.0 - l1_ratio) * np.vdot(W, W)
    return float(reg_lambda * penalty + risk)


def objective_at_zero(X: Any, y: Array, loss: str, **parameters: float) -> float:
    """The size of the terms of J, to which its rounding is relative."""
    shape = (len(y), len(np.unique(y))) if loss in ("softmax", "multiclass_hinge") else len(y)
    return float(np.mean(_LOSSES[loss](y, np.zeros(shape), **parameters)))
