"""skglm's solvers of the study ``cells``, where it is installed (pip install skglm).

Its L1_plus_L2 with l1_ratio=0 is our l2, its alpha our reg_lambda. AndersonCD is its coordinate
descent, ProxNewton its Newton method; both leave the intercept free. PDCD_WS, its primal-dual
method for the pinball loss, has no intercept. celer has the L1 norm alone, so it has no cell here.

It compiles a loss in every process anew, which takes seconds: a peer of this module is fitted once
to a few rows before it is timed.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from _cells_objective import QUANTILE
from _contest import Peer
from _linear_losses import PEER_TOLERANCES
from benchmarks.common import Array

try:
    from skglm import GeneralizedLinearEstimator
    from skglm.datafits import Huber, Logistic, Poisson, Quadratic
    from skglm.experimental.pdcd_ws import PDCD_WS
    from skglm.experimental.quantile_regression import Pinball
    from skglm.penalties import L1_plus_L2
    from skglm.solvers import AndersonCD, ProxNewton
    from skglm.utils.jit_compilation import compiled_clone
except ImportError:
    INSTALLED = False
else:
    INSTALLED = True

_MOST_ITERATIONS = 100_000  # what tol is to end
_COMPILING = {"reg_lambda": 1.0, "C": 1.0, "tol": 1e-9, "max_iter": 2}


def _make(
    reg_lambda: float,
    C: float,
    tol: float,
    datafit: Callable[[], Any],
    solver: Callable[..., Any],
    max_iter: int = _MOST_ITERATIONS,
) -> Any:
    penalty = L1_plus_L2(reg_lambda, l1_ratio=0.0)
    limits = {"max_iter": max_iter, "tol": tol, "fit_intercept": True}
    return GeneralizedLinearEstimator(datafit(), penalty, solver(**limits))


class PinballRegression:
    """PDCD_WS as an estimator: its objective is n times ours."""

    intercept_ = 0.0

    def __init__(self, reg_lambda: float, C: float, tol: float, max_iter: int = _MOST_ITERATIONS):
        self.reg_lambda, self.tol, self.max_iter = reg_lambda, tol, max_iter

    def fit(self, X: Array, y: Array) -> "PinballRegression":
        datafit = compiled_clone(Pinball(QUANTILE))
        penalty = compiled_clone(L1_plus_L2(len(y) * self.reg_lambda, 0.0))
        solver = PDCD_WS(max_iter=self.max_iter, tol=self.tol)
        self.coef_ = solver.solve(np.asfortranarray(X), y, datafit, penalty)[0]
        return self


def _peer(make: Callable[..., Any], **conditions: Any) -> Peer:
    def compile_fit(X: Any, y: Array) -> None:
        make(**_COMPILING).fit(X, y)

    conditions |= {"monotone": True, "own_intercept": True, "compile": compile_fit}
    return Peer(make, PEER_TOLERANCES, ("J*",), **conditions)


def _glm(datafit: Callable[[], Any], solver: Callable[..., Any]) -> Peer:
    return _peer(partial(_make, datafit=datafit, solver=solver))


def skglm_peers(loss: str) -> dict[str, Peer]:
    """By name; none where it is not installed or does not have the loss."""
    if not INSTALLED:
        return {}
    peers = {
        "squared_error": {"skglm CD": _glm(Quadratic, AndersonCD)},
        "huber": {"skglm CD": _glm(partial(Huber, 1.0), AndersonCD)},
        "poisson": {"skglm Newton": _glm(Poisson, ProxNewton)},
        "log_loss": {
            "skglm CD": _glm(Logistic, AndersonCD),
            "skglm Newton": _glm(Logistic, ProxNewton),
        },
        "quantile": {
            "skglm PDCD_WS": _peer(PinballRegression, takes=lambda X, y: isinstance(X, np.ndarray))
        },
    }
    return peers.get(loss, {})
