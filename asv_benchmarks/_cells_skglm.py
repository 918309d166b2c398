"""skglm's solvers of the study ``cells``, where it is installed (pip install skglm).

Its L1_plus_L2 with l1_ratio=0 is our l2, its alpha our reg_lambda. AndersonCD is its coordinate
descent, ProxNewton its Newton method; both leave the intercept free. PDCD_WS, its primal-dual
method for the pinball loss, has no intercept. celer has the L1 norm alone, so it has no cell here.

It compiles a loss in every process anew, which takes seconds: a peer of this module is fitted once
to a few rows before it is timed.
"""

from functools import partial
from typing import Any

import numpy as np
from _cells_objective import QUANTILE
from _contest import Peer
from _linear_losses import PEER_TOLERANCES

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


def _make(reg_lambda: float, C: float, tol: float, datafit: Any, solver: Any) -> Any:
    limits = {"max_iter": _MOST_ITERATIONS, "tol": tol, "fit_intercept": True}
    penalty = L1_plus_L2(reg_lambda, l1_ratio=0.0)
    return GeneralizedLinearEstimator(datafit(), penalty, solver(**limits))


class PinballRegression:
    """PDCD_WS as an estimator: its objective is n times ours."""

    intercept_ = 0.0

    def __init__(self, reg_lambda: float, C: float, tol: float):
        self.reg_lambda, self.tol = reg_lambda, tol

    def fit(self, X: Any, y: Any) -> "PinballRegression":
        datafit = compiled_clone(Pinball(QUANTILE))
        penalty = compiled_clone(L1_plus_L2(len(y) * self.reg_lambda, 0.0))
        solver = PDCD_WS(max_iter=_MOST_ITERATIONS, tol=self.tol)
        self.coef_ = solver.solve(np.asfortranarray(X), y, datafit, penalty)[0]
        return self


def _peer(datafit: Any, solver: Any) -> Peer:
    make = partial(_make, datafit=datafit, solver=solver)
    return Peer(make, PEER_TOLERANCES, ("J*",), monotone=True, compiles=True)


def skglm_peers(loss: str) -> dict[str, Peer]:
    """By name; none where it is not installed or does not have the loss."""
    if not INSTALLED:
        return {}
    peers = {
        "squared_error": {"skglm CD": _peer(Quadratic, AndersonCD)},
        "huber": {"skglm CD": _peer(partial(Huber, 1.0), AndersonCD)},
        "poisson": {"skglm Newton": _peer(Poisson, ProxNewton)},
        "log_loss": {
            "skglm CD": _peer(Logistic, AndersonCD),
            "skglm Newton": _peer(Logistic, ProxNewton),
        },
        "quantile": {
            "skglm PDCD_WS": Peer(
                *(PinballRegression, PEER_TOLERANCES, ("J*",)),
                monotone=True,
                compiles=True,
                takes=lambda X, y: isinstance(X, np.ndarray),
            )
        },
    }
    return peers.get(loss, {})
