"""skglm and celer as peers, where they are installed (pip install skglm celer).

Their alpha is our reg_lambda; celer's logistic loss is a sum and has no intercept. skglm compiles
in every process anew, which is not timed.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from _cell import TOLERANCES, Peer

try:
    import celer
except ImportError:
    celer = None
try:
    from skglm import GeneralizedLinearEstimator, datafits, penalties, solvers
except ImportError:
    GeneralizedLinearEstimator = None

_MOST_ITERATIONS = 100_000  # what tol is to end


def skglm_peers(
    loss: str, reg_lambda: float, l1_ratio: float = 0.0, fit_intercept: bool = True
) -> dict[str, Peer]:
    """Coordinate descent, and the Newton method for the logistic loss."""
    if GeneralizedLinearEstimator is None:
        return {}
    known = {
        "squared_error": (("CD", datafits.Quadratic, solvers.AndersonCD),),
        "huber": (("CD", partial(datafits.Huber, 1.0), solvers.AndersonCD),),
        "log_loss": (
            ("CD", datafits.Logistic, solvers.AndersonCD),
            ("Newton", datafits.Logistic, solvers.ProxNewton),
        ),
    }

    def make(datafit: Callable[[], Any], solver: Callable[..., Any], tol: float) -> Any:
        if l1_ratio == 1.0:
            penalty = penalties.L1(reg_lambda)
        else:
            penalty = penalties.L1_plus_L2(reg_lambda, l1_ratio=l1_ratio)
        limits = {"max_iter": _MOST_ITERATIONS, "tol": tol, "fit_intercept": fit_intercept}
        return GeneralizedLinearEstimator(datafit(), penalty, solver(**limits))

    return {
        f"skglm {name}": Peer(
            partial(make, datafit, solver), TOLERANCES, by_columns=True, compiles=True
        )
        for name, datafit, solver in known.get(loss, ())
    }


def celer_peers(loss: str, reg_lambda: float, n: int) -> dict[str, Peer]:
    """The L1 norm alone; the logistic loss has no intercept."""
    if celer is None:
        return {}
    limits = {"max_iter": _MOST_ITERATIONS}
    known = {
        "squared_error": lambda tol: celer.Lasso(reg_lambda, tol=tol, **limits),
        "log_loss": lambda tol: celer.LogisticRegression(1.0 / (n * reg_lambda), tol=tol, **limits),
    }
    return {"celer": Peer(known[loss], TOLERANCES, by_columns=True)} if loss in known else {}
