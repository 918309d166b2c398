"""The peers of the study ``sparse``: scikit-learn, celer and skglm at the setting of a ladder.

celer and skglm compete where they are installed (pip install celer skglm). All of them sum or
average the same losses: alpha is our reg_lambda, C is 1/(n reg_lambda), and half of that for
LIBLINEAR's squared hinge, which has no factor 1/2. celer's logistic regression has no intercept.
LIBLINEAR penalizes its own: |b| / intercept_scaling is a part of its norm, so that a large scaling
comes close to a free intercept.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import sklearn
from _contest import Peer
from _linear_losses import ENDLESS, PEER_ITERS
from benchmarks.common import Array
from sklearn.linear_model import ElasticNet, Lasso, LogisticRegression
from sklearn.svm import LinearSVC

try:
    import celer
except ImportError:
    celer = None
try:
    from skglm import GeneralizedLinearEstimator
    from skglm.datafits import Logistic, Quadratic
    from skglm.penalties import L1, L1_plus_L2
    from skglm.solvers import AndersonCD, ProxNewton
except ImportError:
    GeneralizedLinearEstimator = None

MISSING = tuple(
    name for name, found in (("celer", celer), ("skglm", GeneralizedLinearEstimator)) if not found
)
TOLERANCES = tuple(factor * 10.0**-k for k in range(13) for factor in (1.0, 0.3))
_MOST_ITERATIONS = 100_000  # what tol is to end
_MOST_GRAM_FEATURES = 6_000
_INTERCEPT_SCALING = 1e3
# scikit-learn 1.8 replaced the first of them by the second.
SPARSE = {"l1_ratio": 1.0} if sklearn.__version__ >= "1.8" else {"penalty": "l1"}


def _peer(make: Callable[..., Any], ladder: tuple = TOLERANCES, **conditions: Any) -> Peer:
    return Peer(make, ladder, ("J*",), monotone=True, own_intercept=True, **conditions)


# ---- squared error -----------------------------------------------------------------------------


def _make_lasso(
    reg_lambda: float, C: float, tol: float, l1_ratio: float, precompute: bool
) -> Lasso | ElasticNet:
    settings = {"alpha": reg_lambda, "tol": tol, "max_iter": _MOST_ITERATIONS}
    if l1_ratio == 1.0:
        return Lasso(precompute=precompute, **settings)
    return ElasticNet(l1_ratio=l1_ratio, precompute=precompute, **settings)


def _make_celer(reg_lambda: float, C: float, tol: float, l1_ratio: float) -> Any:
    if l1_ratio == 1.0:
        return celer.Lasso(reg_lambda, tol=tol, max_iter=_MOST_ITERATIONS)
    return celer.ElasticNet(reg_lambda, l1_ratio=l1_ratio, tol=tol, max_iter=_MOST_ITERATIONS)


def _is_tall(X: Any, y: Array) -> bool:
    return X.shape[1] <= min(X.shape[0], _MOST_GRAM_FEATURES)


def squared_error_peers(l1_ratio: float) -> dict[str, Peer]:
    """Lasso or ElasticNet by three packages, of which scikit-learn may compute the Gram matrix."""
    name = "Lasso" if l1_ratio == 1.0 else "ElasticNet"
    make = partial(_make_lasso, l1_ratio=l1_ratio)
    peers = {
        name: _peer(partial(make, precompute=False), by_columns=True),
        f"{name} Gram": _peer(partial(make, precompute=True), by_columns=True, takes=_is_tall),
    }
    if celer is not None:
        peers["celer"] = _peer(partial(_make_celer, l1_ratio=l1_ratio), by_columns=True)
    if GeneralizedLinearEstimator is not None:
        peers["skglm CD"] = _skglm_peer(Quadratic, AndersonCD, l1_ratio, True)
    return peers


# ---- losses of labels --------------------------------------------------------------------------


def _make_logistic(
    reg_lambda: float, C: float, setting: Any, solver: str, fit_intercept: bool
) -> LogisticRegression:
    settings = {"C": C, "fit_intercept": fit_intercept, "random_state": 0, **SPARSE}
    if solver == "saga":  # by its tol it ends at any distance from the optimum
        return LogisticRegression(solver=solver, tol=1e-12, max_iter=setting, **settings)
    settings["intercept_scaling"] = _INTERCEPT_SCALING if fit_intercept else 1.0
    return LogisticRegression(solver=solver, tol=setting, max_iter=_MOST_ITERATIONS, **settings)


def _make_celer_logistic(reg_lambda: float, C: float, tol: float) -> Any:
    return celer.LogisticRegression(C, tol=tol, max_iter=_MOST_ITERATIONS)


def log_loss_peers(fit_intercept: bool) -> dict[str, Peer]:
    """celer's has no intercept."""
    make = partial(_make_logistic, fit_intercept=fit_intercept)
    peers = {
        "liblinear": _peer(partial(make, solver="liblinear")),
        "saga": _peer(partial(make, solver="saga"), PEER_ITERS),
    }
    if celer is not None and not fit_intercept:
        peers["celer"] = _peer(_make_celer_logistic, by_columns=True)
    if GeneralizedLinearEstimator is not None:
        for name, solver in (("skglm CD", AndersonCD), ("skglm Newton", ProxNewton)):
            peers[name] = _skglm_peer(Logistic, solver, 1.0, fit_intercept)
    return peers


def _make_linear_svc(reg_lambda: float, C: float, tol: float, fit_intercept: bool) -> LinearSVC:
    return LinearSVC(
        penalty="l1",
        dual=False,
        C=C,
        tol=tol,
        max_iter=ENDLESS,
        fit_intercept=fit_intercept,
        intercept_scaling=_INTERCEPT_SCALING if fit_intercept else 1.0,
        random_state=0,
    )


def squared_hinge_peers(fit_intercept: bool) -> dict[str, Peer]:
    """LIBLINEAR alone: skglm has the dual of the L2 norm, and celer no hinge."""
    return {"LinearSVC": _peer(partial(_make_linear_svc, fit_intercept=fit_intercept))}


# ---- skglm -------------------------------------------------------------------------------------


def _make_skglm(
    reg_lambda: float,
    C: float,
    tol: float,
    datafit: Callable[[], Any],
    solver: Callable[..., Any],
    l1_ratio: float,
    fit_intercept: bool,
    max_iter: int = _MOST_ITERATIONS,
) -> Any:
    penalty = L1(reg_lambda) if l1_ratio == 1.0 else L1_plus_L2(reg_lambda, l1_ratio)
    limits = {"max_iter": max_iter, "tol": tol, "fit_intercept": fit_intercept}
    return GeneralizedLinearEstimator(datafit(), penalty, solver(**limits))


def _skglm_peer(
    datafit: Callable[[], Any], solver: Callable[..., Any], l1_ratio: float, fit_intercept: bool
) -> Peer:
    """It compiles in every process anew, which is not timed."""
    form = {"datafit": datafit, "solver": solver}
    make = partial(_make_skglm, **form, l1_ratio=l1_ratio, fit_intercept=fit_intercept)

    def compile_fit(X: Any, y: Array) -> None:
        make(1.0, 1.0, 1e-9, max_iter=2).fit(X, y)

    return _peer(make, by_columns=True, compile=compile_fit)
