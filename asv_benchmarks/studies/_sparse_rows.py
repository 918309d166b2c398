"""The rows of the study ``sparse``: a loss, a norm, our fit, and the peers of the same problem."""

from functools import partial
from typing import Any

import numpy as np
from _cells_rows import Row
from _contest import Peer
from _linear_objective import SLOPES, find_intercept
from _sparse_peers import log_loss_peers, squared_error_peers, squared_hinge_peers
from benchmarks.common import Array

from sklearn_bundle import BMRMClassifier, BMRMRegressor
from sklearn_bundle.regularizers import ElasticNet

_L1_RATIO = 0.5  # of the elastic net


def _ours(
    reg_lambda: float, loss: str, kind: str, l1_ratio: float, fit_intercept: bool, tol: float
) -> Any:
    estimator = BMRMRegressor if kind == "regression" else BMRMClassifier
    norm = "l1" if l1_ratio == 1.0 else ElasticNet(l1_ratio)
    settings = {"tol": tol, "fit_intercept": fit_intercept, "n_jobs": 1}
    return estimator(loss, reg_lambda=reg_lambda, regularizer=norm, **settings)


def _row(
    loss: str,
    kind: str,
    peers: dict[str, Peer],
    *,
    intercept: bool = True,
    l1_ratio: float = 1.0,
    asked_least: float | None = None,
) -> Row:
    form = {"loss": loss, "kind": kind, "l1_ratio": l1_ratio}
    norm = "L1" if l1_ratio == 1.0 else f"elastic net, l1_ratio {l1_ratio:g}"
    return Row(
        title=f"{loss}, {norm}, {'free' if intercept else 'no'} b",
        ours=partial(_ours, fit_intercept=intercept, **form),  # and of a tol
        peers=peers,
        required=(),
        fit_intercept=intercept,
        best_of=True,
        asked_mean=1.0,
        asked_least=asked_least,
        **form,
    )


REGRESSION = {
    "lasso": _row("squared_error", "regression", squared_error_peers(1.0)),
    "elasticnet": _row(
        "squared_error", "regression", squared_error_peers(_L1_RATIO), l1_ratio=_L1_RATIO
    ),
}
CLASSIFICATION = {
    "log_loss": _row("log_loss", "binary", log_loss_peers(False), intercept=False, asked_least=0.5),
    "log_loss_free": _row("log_loss", "binary", log_loss_peers(True), asked_least=0.5),
    "squared_hinge": _row(
        "squared_hinge", "binary", squared_hinge_peers(False), intercept=False, asked_least=0.5
    ),
    "squared_hinge_free": _row(
        "squared_hinge", "binary", squared_hinge_peers(True), asked_least=0.5
    ),
}
ROWS = REGRESSION | CLASSIFICATION


def largest_reg_lambda(
    X: Any, y: Array, loss: str, fit_intercept: bool, l1_ratio: float = 1.0
) -> float:
    """The least reg_lambda at which all weights are zero."""
    if loss == "squared_error":
        slopes = (y.mean() if fit_intercept else 0.0) - y
    else:
        none = np.zeros(X.shape[1])
        intercept = find_intercept(X, y, none, loss) if fit_intercept else 0.0
        slopes = y * SLOPES[loss](y * intercept)
    return float(np.max(np.abs(X.T @ slopes)) / (len(y) * l1_ratio))
