"""J = reg_lambda/2 ||w||^2 + the mean loss at the weights of any side, in numpy and scipy alone."""

from collections.abc import Callable
from typing import Any

import numpy as np
from benchmarks.common import Array, best_intercept, objective
from scipy.optimize import brentq
from scipy.sparse import issparse
from scipy.special import expit

# Derivatives of the smooth losses in the margin z = y f.
SLOPES: dict[str, Callable[[Array], Array]] = {
    "squared_hinge": lambda margins: -np.maximum(0.0, 1.0 - margins),
    "log_loss": lambda margins: -expit(-margins),
}


def model_objective(
    model: Any, X: Any, y: Array, reg_lambda: float, loss: str, mend_intercept: bool = False
) -> float:
    """J of a fitted model; with ``mend_intercept`` at the best intercept for w, if that is lower.

    The best one is a gift to a peer whose own intercept is behind its weights.
    """
    w = (model.coef_.toarray() if issparse(model.coef_) else np.asarray(model.coef_)).ravel()
    intercepts = [float(np.ravel(model.intercept_)[0])]
    if mend_intercept:
        intercepts.append(find_intercept(X, y, w, loss))
    return min(objective(X, y, w, b, reg_lambda, loss) for b in intercepts)


def find_intercept(X: Any, y: Array, w: Array, loss: str) -> float:
    """argmin over b of the mean loss; there are labels of both signs."""
    if loss == "hinge":
        return best_intercept(X, y, w)
    scores = X @ w
    # At the ends all margins of one class are right by 40, and the other class pulls back.
    ends = -np.max(scores) - 40.0, -np.min(scores) + 40.0
    return float(brentq(lambda b: np.mean(y * SLOPES[loss](y * (scores + b))), *ends))
