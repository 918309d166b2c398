"""Linear models with the L2 norm: every loss beside the fastest peer of the same problem."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
from _cell import ITERATIONS, TOL, TOLERANCES, Cell, Data, Peer, Sides
from _data import Sets
from _objectives import judge
from _skglm import skglm_peers
from sklearn.linear_model import (
    HuberRegressor,
    LogisticRegression,
    PoissonRegressor,
    QuantileRegressor,
    Ridge,
)
from sklearn.svm import SVC, LinearSVC, LinearSVR

from sklearn_bundle import BMRMClassifier, BMRMRegressor, PragamSVC

_TIGHT = 1e-12  # a peer's tol that never ends it
_ENDLESS = 10_000_000  # iterations, of what tol is to end
_MOST_HESSIAN = 2_000  # weights of a peer that factorizes a Hessian
_MOST_NORMAL = 6_000  # features of a direct method

_SETS = {
    "ijcnn1": (1e-5, 1e-6),
    "a9a": (1e-4, 1e-5, 1e-6),
    "covtype2": (1e-3, 1e-4),
    "mnist_even": (1e-3, 1e-4, 1e-5),
    "news20_bigrams": (1e-4, 1e-5),
    "w8a": (1e-4, 1e-5),
}
_SMALL = {"breast_cancer": (1e-2, 1e-4), "digits_odd": (1e-2, 1e-4), "made_sparse": (1e-2, 1e-4)}
_KERNEL_ROWS = 10_000  # of the sets that SVC(kernel="linear") gets
_QUANTILE_ROWS = 10_000  # for HiGHS


def linear_svc_peers(C: float, loss: str) -> dict[str, Peer]:
    """LIBLINEAR over max_iter and over tol; with one that it never reaches it shrinks too far."""
    form = {"C": C, "loss": loss, "fit_intercept": False, "random_state": 0}

    def make(name: str, dual: bool, setting: Any) -> LinearSVC:
        limits = {"tol": _TIGHT, "max_iter": _ENDLESS, name: setting}
        return LinearSVC(dual=dual, **form, **limits)

    peers = {
        "max_iter": Peer(partial(make, "max_iter", True), ITERATIONS),
        "tol": Peer(partial(make, "tol", True), TOLERANCES),
    }
    if loss == "squared_hinge":
        peers["primal"] = Peer(partial(make, "tol", False), TOLERANCES)
    return {f"LinearSVC {name}": peer for name, peer in peers.items()}


def logistic_peers(C: float) -> dict[str, Peer]:
    """Not liblinear, which penalizes the intercept."""

    def make(solver: str, max_iter: int) -> LogisticRegression:
        return LogisticRegression(C=C, solver=solver, tol=_TIGHT, max_iter=max_iter, random_state=0)

    def few_weights(data: Data) -> bool:
        n_classes = len(np.unique(data.y))
        return data.X.shape[1] * (n_classes if n_classes > 2 else 1) <= _MOST_HESSIAN

    solvers = ("lbfgs", "newton-cholesky", "newton-cg", "sag", "saga")
    takes = {"newton-cholesky": few_weights}
    return {
        name: Peer(partial(make, name), ITERATIONS, takes=takes.get(name, lambda data: True))
        for name in solvers
    }


def ridge_peers(alpha: float) -> dict[str, Peer]:
    def make(solver: str, max_iter: int | None) -> Ridge:
        return Ridge(alpha, solver=solver, tol=_TIGHT, max_iter=max_iter, random_state=0)

    def is_dense(data: Data) -> bool:
        return isinstance(data.X, np.ndarray)

    def is_direct(data: Data) -> bool:
        return is_dense(data) and data.X.shape[1] <= _MOST_NORMAL

    direct = {
        name: Peer(partial(make, name), (None,), takes=is_direct) for name in ("cholesky", "svd")
    }
    saga = Peer(partial(make, "saga"), ITERATIONS, takes=is_dense)  # on CSR without an intercept
    iterative = {
        name: Peer(partial(make, name), ITERATIONS) for name in ("sparse_cg", "lsqr", "sag")
    }
    return {f"Ridge {name}": peer for name, peer in (direct | iterative | {"saga": saga}).items()}


def poisson_peers(alpha: float) -> dict[str, Peer]:
    def make(solver: str, max_iter: int) -> PoissonRegressor:
        return PoissonRegressor(alpha=alpha, solver=solver, tol=_TIGHT, max_iter=max_iter)

    few = {"newton-cholesky": lambda data: data.X.shape[1] <= _MOST_NORMAL}
    return {
        f"Poisson {name}": Peer(
            partial(make, name), ITERATIONS, takes=few.get(name, lambda data: True)
        )
        for name in ("lbfgs", "newton-cholesky")
    }


def sides(
    data: Data,
    peers: dict[str, Peer],
    estimator: Callable[..., Any],
    loss: str,
    reg_lambda: float,
    mend: bool = False,
    **params: Any,
) -> Sides:
    """Our estimator beside the peers, by the objective that all of them minimize."""
    form = {} if estimator is PragamSVC else {"loss": loss}
    form |= {"reg_lambda": reg_lambda, "tol": TOL, "n_jobs": 1} | params

    def ours(**changes: Any) -> Any:
        return estimator(**form | changes).fit(data.X, data.y)

    further = {k: params[k] for k in ("delta", "quantile") if k in params}
    l1_ratio = float(params.get("regularizer") == "l1")
    return Sides(ours, peers, judge(data, loss, reg_lambda, l1_ratio, mend, **further))


def _hinge(value: float, data: Data) -> Sides:
    peers = linear_svc_peers(1.0 / (len(data.y) * value), "hinge")
    return sides(data, peers, BMRMClassifier, "hinge", value, fit_intercept=False)


def _squared_hinge(value: float, data: Data) -> Sides:
    peers = linear_svc_peers(0.5 / (len(data.y) * value), "squared_hinge")  # no factor 1/2
    return sides(data, peers, BMRMClassifier, "squared_hinge", value, fit_intercept=False)


def _logistic(loss: str, value: float, data: Data) -> Sides:
    peers = logistic_peers(1.0 / (len(data.y) * value))
    return sides(data, peers, BMRMClassifier, loss, value)


def linear(sets: Sets) -> Iterable[Cell]:
    """Two classes: LinearSVC without intercepts, LogisticRegression with free ones."""
    rows = {
        "hinge": _hinge,
        "squared_hinge": _squared_hinge,
        "log_loss": partial(_logistic, "log_loss"),
    }
    for name, strengths in (_SMALL if sets.tasks is None else _SETS | _SMALL).items():
        for row, made in rows.items():
            for value in strengths:
                yield Cell(row, name, value, sets("binary", name), partial(made, value))


def _svc(estimator: Any, value: float, data: Data) -> Sides:
    C = 1.0 / (len(data.y) * value)
    make = partial(SVC, C=C, kernel="linear", cache_size=1000)
    peers = {"SVC": Peer(lambda tol: make(tol=tol), (1e-1, 1e-2, 1e-3))}
    return sides(data, peers, estimator, "hinge", value, mend=True)


def svc(sets: Sets) -> Iterable[Cell]:
    """The hinge and a free intercept beside SVC(kernel="linear"), which gets the best intercept."""
    for name in sets.names("a9a", "ijcnn1", "covtype2"):
        load = sets("binary", name, _KERNEL_ROWS)
        for row, estimator in (("svc", BMRMClassifier), ("pragam", PragamSVC)):
            for value in (1e-3, 1e-4):
                yield Cell(row, name, value, load, partial(_svc, estimator, value))


def _squared_error(value: float, data: Data) -> Sides:
    peers = ridge_peers(len(data.y) * value)
    return sides(data, peers, BMRMRegressor, "squared_error", value)


def _huber(value: float, data: Data) -> Sides:
    return sides(data, skglm_peers("huber", value), BMRMRegressor, "huber", value)


def _huber_scale(value: float, data: Data) -> Sides:
    """HuberRegressor estimates a scale s as well: our delta is its epsilon s, our reg_lambda its s.

    It has one unknown more to find.
    """
    make = partial(HuberRegressor, alpha=len(data.y) * value, tol=1e-10)
    scale = make(max_iter=10_000).fit(data.X, data.y).scale_
    peers = {"HuberRegressor": Peer(lambda k: make(max_iter=k), ITERATIONS)}
    delta = make().epsilon * scale
    return sides(data, peers, BMRMRegressor, "huber", value * scale, delta=delta)


def _poisson(value: float, data: Data) -> Sides:
    return sides(data, poisson_peers(value), BMRMRegressor, "poisson", value)


def _absolute(value: float, data: Data) -> Sides:
    """Without intercepts, since LIBLINEAR penalizes its own."""

    def make(parameter: str, setting: Any) -> LinearSVR:
        limits = {"tol": _TIGHT, "max_iter": _ENDLESS, parameter: setting}
        form = {"epsilon": 0.0, "fit_intercept": False, "random_state": 0}
        return LinearSVR(C=1.0 / (len(data.y) * value), **form, **limits)

    peers = {
        f"LinearSVR {key}": Peer(partial(make, key), ladder)
        for key, ladder in {"max_iter": ITERATIONS, "tol": TOLERANCES}.items()
    }
    return sides(data, peers, BMRMRegressor, "absolute_error", value, fit_intercept=False)


def _quantile(quantile: float, value: float, data: Data) -> Sides:
    """HiGHS solves it to its end."""
    make = partial(QuantileRegressor, quantile=quantile, alpha=value, solver="highs")
    form = {"quantile": quantile, "regularizer": "l1"}
    peers = {"QuantileRegressor": Peer(lambda _: make())}
    return sides(data, peers, BMRMRegressor, "quantile", value, **form)


def losses(sets: Sets) -> Iterable[Cell]:
    """Regression and softmax, with a free intercept on both sides but for absolute errors."""
    tall = sets.names("cadata", "casp", "pol", shipped=("diabetes",))
    all_sets = (*tall, *sets.names("movie_reviews", "news20_bigrams", shipped=()), "made_wide")
    rows = {
        "squared_error": (_squared_error, all_sets, "regression"),
        "huber": (_huber, all_sets, "regression"),
        # A scale of its own is 0 where all targets can be met.
        "huber_scale": (_huber_scale, tall, "regression"),
        "absolute_error": (_absolute, tall, "regression"),
        "poisson": (_poisson, (*tall, "made_wide"), "counts"),
        "softmax": (
            partial(_logistic, "softmax"),
            sets.names("pendigits", "usps", "letter", "shuttle", "news20", shipped=("digits",)),
            "classes",
        ),
    }
    for row, (made, names, kind) in rows.items():
        for name in names:
            for value in (1e-2, 1e-4, 1e-6):
                yield Cell(row, name, value, sets(kind, name), partial(made, value))
    for name in tall[:2]:
        load = sets("regression", name, _QUANTILE_ROWS)
        for quantile, value in ((0.5, 1e-2), (0.9, 1e-3)):
            yield Cell("quantile", name, value, load, partial(_quantile, quantile, value))
