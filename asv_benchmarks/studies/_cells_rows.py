"""The rows of the study ``cells``: a loss, our fit, and the peers that solve the same problem.

A peer of LIBLINEAR penalizes its intercept, so its rows have none, on both sides. Three peers solve
something else, and are left out or made to agree: QuantileRegressor has the L1 norm alone (it is a
linear programme); celer too; and HuberRegressor estimates a scale s as well. At its optimum its
weights are those of our "huber" with delta = 1.35 s and reg_lambda s, which is the problem of the
row "huber_scale" then: the peer has one unknown more to find.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from _cells_objective import EPSILON, QUANTILE
from _cells_skglm import skglm_peers
from _contest import MAX_ITERS, TOLERANCES, Part, Peer, make_svc
from _linear_losses import (
    ENDLESS,
    LOGISTIC,
    MOST_HESSIAN_FEATURES,
    PEER_ITERS,
    PEER_TOLERANCES,
    PRIMAL,
    svc_peers,
)
from benchmarks.common import Array
from sklearn.linear_model import HuberRegressor, PoissonRegressor, Ridge
from sklearn.svm import SVR, LinearSVC, LinearSVR

from sklearn_bundle import BMRMClassifier, BMRMRegressor

_TOL = 1e-3  # relative: our certified gap, and the suboptimality at which peers are timed
_EXACT = (1,)  # the ladder of a direct method, which has nothing to set
_MOST_NORMAL_FEATURES = 6_000  # of a direct method in memory


@dataclass(frozen=True, kw_only=True)
class Row(Part):
    """A contest of all peers of a loss, on the sets of a kind."""

    kind: str  # of the targets, as in _cells_data
    asked_least: float | None = None  # of the ratio of any cell
    # Of X, y and reg_lambda: those of ours, and the loss's parameters, for the problem of the peer.
    restate: Callable[[Any, Array, float], tuple[float, dict[str, float]]] | None = None
    tall_alone: bool = False  # on fewer features than samples
    l1_ratio: float = 0.0  # of the penalty, as in _cells_objective


def _regressor(loss: str, reg_lambda: float, fit_intercept: bool, **parameters: float) -> Any:
    form = {"epsilon": EPSILON} if "epsilon" in loss else {}
    form |= {"quantile": QUANTILE} if loss == "quantile" else {}
    settings = {"tol": _TOL, "fit_intercept": fit_intercept, "n_jobs": 1}
    return BMRMRegressor(loss, reg_lambda=reg_lambda, **settings, **form, **parameters)


def _classifier(loss: str, reg_lambda: float, fit_intercept: bool) -> Any:
    settings = {"tol": _TOL, "fit_intercept": fit_intercept, "n_jobs": 1}
    return BMRMClassifier(loss, reg_lambda=reg_lambda, **settings)


def _is_dense(X: Any, y: Array) -> bool:
    return isinstance(X, np.ndarray)


def _few_scores(X: Any, y: Array) -> bool:
    """Whether a Hessian of all classes' weights is not too large."""
    return X.shape[1] * len(np.unique(y)) <= MOST_HESSIAN_FEATURES


def _ladder(make: Callable[..., Any], settings: tuple, **conditions: Any) -> Peer:
    return Peer(make, settings, ("J*",), monotone=True, own_intercept=True, **conditions)


# ---- peers -----------------------------------------------------------------------------------


def _make_ridge(reg_lambda: float, C: float, max_iter: int, solver: str) -> Ridge:
    return Ridge(alpha=1.0 / C, solver=solver, tol=1e-12, max_iter=max_iter, random_state=0)


def _ridge_peers() -> dict[str, Peer]:
    direct = {"takes": _is_dense, "max_features": _MOST_NORMAL_FEATURES}
    known = {
        "cholesky": (_EXACT, direct),
        "svd": (_EXACT, direct),
        "lsqr": (MAX_ITERS, {}),
        "sparse_cg": (MAX_ITERS, {}),
        "sag": (MAX_ITERS, {}),
        "saga": (MAX_ITERS, {"takes": _is_dense}),  # on CSR data it has no intercept
    }
    return {
        f"Ridge {solver}": _ladder(partial(_make_ridge, solver=solver), settings, **conditions)
        for solver, (settings, conditions) in known.items()
    }


def _make_huber(reg_lambda: float, C: float, max_iter: int) -> HuberRegressor:
    return HuberRegressor(alpha=1.0 / C, tol=1e-10, max_iter=max_iter)


def _huber_problem(X: Any, y: Array, reg_lambda: float) -> tuple[float, dict[str, float]]:
    model = _make_huber(reg_lambda, 1.0 / (len(y) * reg_lambda), 10_000).fit(X, y)
    return reg_lambda * model.scale_, {"delta": model.epsilon * model.scale_}


def _make_poisson(reg_lambda: float, C: float, max_iter: int, solver: str) -> PoissonRegressor:
    return PoissonRegressor(alpha=reg_lambda, solver=solver, tol=1e-12, max_iter=max_iter)


def _poisson_peers() -> dict[str, Peer]:
    most = {"lbfgs": {}, "newton-cholesky": {"max_features": _MOST_NORMAL_FEATURES}}
    return {
        f"Poisson {solver}": _ladder(partial(_make_poisson, solver=solver), MAX_ITERS, **limit)
        for solver, limit in most.items()
    }


def _make_svr(
    reg_lambda: float,
    C: float,
    setting: Any,
    parameter: str,
    epsilon: float,
    squared: bool = False,
    dual: bool = True,
) -> LinearSVR:
    limits = {"tol": 1e-12, "max_iter": ENDLESS, parameter: setting}
    form = {"epsilon": epsilon, "dual": dual, "fit_intercept": False, "random_state": 0}
    if squared:  # LIBLINEAR's has no factor 1/2
        return LinearSVR(loss="squared_epsilon_insensitive", C=0.5 * C, **form, **limits)
    return LinearSVR(C=C, **form, **limits)


def _svr_peers(epsilon: float, squared: bool = False) -> dict[str, Peer]:
    ladders = {"max_iter": PEER_ITERS, "tol": PEER_TOLERANCES}
    make = partial(_make_svr, epsilon=epsilon, squared=squared)
    peers = {f"SVR {k}": _ladder(partial(make, parameter=k), v) for k, v in ladders.items()}
    if squared:
        primal = partial(make, parameter="tol", dual=False)
        peers["SVR primal"] = _ladder(primal, PEER_TOLERANCES)
    return peers


def _make_kernel_svr(reg_lambda: float, C: float, tol: float) -> SVR:
    return SVR(kernel="linear", C=C, epsilon=EPSILON, tol=tol, cache_size=1000)


def _make_crammer_singer(reg_lambda: float, C: float, setting: Any, parameter: str) -> LinearSVC:
    limits = {"tol": 1e-12, "max_iter": ENDLESS, parameter: setting}
    form = {"multi_class": "crammer_singer", "fit_intercept": False, "random_state": 0}
    return LinearSVC(C=C, **form, **limits)


def _crammer_singer_peers() -> dict[str, Peer]:
    ladders = {"max_iter": PEER_ITERS, "tol": PEER_TOLERANCES}
    return {
        f"CS {k}": _ladder(partial(_make_crammer_singer, parameter=k), v)
        for k, v in ladders.items()
    }


def _liblinear_peers(loss: str) -> dict[str, Peer]:
    return {f"SVC {name}": peer for name, peer in svc_peers(loss).items()}


def _softmax_peers() -> dict[str, Peer]:
    conditions = {"newton-cholesky": {"takes": _few_scores}}
    return {
        name: _ladder(peer.make, peer.ladder, **conditions.get(name, {}))
        for name, peer in LOGISTIC.items()
    }


# ---- rows ------------------------------------------------------------------------------------


def _row(loss: str, kind: str, peers: dict[str, Peer], *, intercept: bool = True, **further) -> Row:
    fit = _regressor if kind in ("regression", "counts") else _classifier
    return Row(
        title=f"{loss}, {'free' if intercept else 'no'} b",
        ours=partial(fit, loss, fit_intercept=intercept),
        peers={**peers, **(skglm_peers(loss) if further.get("restate") is None else {})},
        required=(),
        loss=loss,
        fit_intercept=intercept,
        best_of=True,
        kind=kind,
        **further,
    )


_SMOOTH = {"asked_mean": 2.0, "asked_least": 0.8}

ROWS = {
    "squared_error": _row("squared_error", "regression", _ridge_peers(), asked_least=0.6),
    "huber": _row("huber", "regression", {}, **_SMOOTH),
    "huber_scale": _row(
        "huber",
        "regression",
        {"HuberRegressor": _ladder(_make_huber, MAX_ITERS)},
        restate=_huber_problem,
        tall_alone=True,
        **_SMOOTH,
    ),
    "poisson": _row("poisson", "counts", _poisson_peers(), **_SMOOTH),
    "absolute_error": _row(
        "absolute_error", "regression", _svr_peers(0.0), intercept=False, **_SMOOTH
    ),
    "quantile": _row("quantile", "regression", {}, intercept=False),
    "epsilon_insensitive": _row(
        "epsilon_insensitive", "regression", _svr_peers(EPSILON), intercept=False, **_SMOOTH
    ),
    "epsilon_insensitive_free": _row(
        "epsilon_insensitive", "regression", {"SVR": _ladder(_make_kernel_svr, TOLERANCES)}
    ),
    "squared_epsilon_insensitive": _row(
        "squared_epsilon_insensitive", "regression", _svr_peers(EPSILON, True), intercept=False
    ),
    "hinge": _row("hinge", "binary", _liblinear_peers("hinge"), intercept=False),
    "hinge_free": _row("hinge", "binary", {"SVC": _ladder(make_svc, TOLERANCES)}),
    "squared_hinge": _row(
        "squared_hinge",
        "binary",
        {**_liblinear_peers("squared_hinge"), "SVC primal": _ladder(PRIMAL, PEER_TOLERANCES)},
        intercept=False,
        **_SMOOTH,
    ),
    "log_loss": _row("log_loss", "binary", LOGISTIC, **_SMOOTH),
    "softmax": _row("softmax", "multiclass", _softmax_peers(), asked_mean=1.5, asked_least=0.8),
    "multiclass_hinge": _row(
        "multiclass_hinge",
        "multiclass",
        _crammer_singer_peers(),
        intercept=False,
        asked_mean=1.3,
        asked_least=0.5,
    ),
}
