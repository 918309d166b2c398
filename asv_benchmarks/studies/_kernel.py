"""Kernel machines beside SVC, SVR and OneClassSVM at the same parameters.

``kernel``: our fit ends at the certified relative gap 1e-3, theirs by the default rule, a violation
of 1e-3. The rows are SVC's objective for two classes ("hinge") and one-versus-one ("pairs"), the
squared hinge of the paper at its default gap 1e-2 ("squared"), "svr" and "novelty". Beside the
ratio of the fits stand that of predictions of all test rows and of one row, the share of equal
labels, and our number of support vectors over theirs.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
from _cell import TOL, Cell, Data, Peer, Sides
from _data import Sets
from scipy.sparse import csr_matrix, issparse
from sklearn.metrics.pairwise import linear_kernel
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.svm import SVC, SVR, OneClassSVM

from sklearn_bundle import SwapNoveltyDetector, SwapSVC, SwapSVCCV, SwapSVR

_OURS = {"n_jobs": 1, "random_state": 0, "cache_size": 1000}
_SQUARED_TOL = 1e-2  # the default of the squared hinge, whose gap is a stricter measure
_SEARCH_ROWS = 3_000
_CS, _FACTORS = tuple(10.0**k for k in range(-2, 5)), tuple(3.0**k for k in range(-2, 3))


def scale_gamma(X: Any) -> float:
    """The number that SVC takes for gamma="scale": 1 / (d times the variance of all entries)."""
    variance = X.multiply(X).mean() - X.mean() ** 2 if issparse(X) else X.var()
    return float(1.0 / (X.shape[1] * variance))


def _sides(data: Data, ours: Callable[..., Any], peer: Callable[[], Any], **params: Any) -> Sides:
    def fit(**changes: Any) -> Any:
        return ours(**_OURS | params | changes).fit(data.X, data.y)

    return Sides(fit, {type(peer()).__name__: Peer(lambda _: peer())})


def _classifier(loss: str, tol: float, C: float, data: Data) -> Sides:
    gamma = scale_gamma(data.X)
    peer = partial(SVC, C=C, gamma=gamma, cache_size=1000)
    return _sides(data, SwapSVC, peer, C=C, gamma=gamma, loss=loss, tol=tol)


def _regressor(C: float, data: Data) -> Sides:
    form = {"C": C, "epsilon": 0.1, "gamma": scale_gamma(data.X)}
    return _sides(data, SwapSVR, partial(SVR, cache_size=1000, **form), tol=TOL, **form)


def _detector(nu: float, data: Data) -> Sides:
    form = {"nu": nu, "gamma": scale_gamma(data.X)}
    peer = partial(OneClassSVM, cache_size=1000, **form)
    return _sides(data, SwapNoveltyDetector, peer, tol=TOL, **form)


_ALSO = {
    "predict": lambda model, data: model.predict(data.X_test),
    "one": lambda model, data: model.predict(data.X_test[:1]),
}


def _agreement(ours: Any, peer: Any, data: Data) -> dict[str, Any]:
    a, b = (model.predict(data.X_test) for model in (ours, peer))
    figures = {"vectors": len(ours.support_) / max(len(peer.support_), 1)}
    if isinstance(ours, SwapSVR):
        return figures
    scores = {"score": np.mean(a == data.y_test), "peer_score": np.mean(b == data.y_test)}
    return figures | {"equal": float(np.mean(a == b)), **{k: float(v) for k, v in scores.items()}}


_HINGE, _SQUARED = (
    partial(_classifier, "hinge", TOL),
    partial(_classifier, "squared_hinge", _SQUARED_TOL),
)
_TWO = ("usps_odd", "a5a", "mushrooms", "phishing", "covtype2", "a9a", "ijcnn1", "w8a")


def kernel(sets: Sets) -> Iterable[Cell]:
    """RBF kernel, gamma "scale", C (of novelty detection nu) as the cell says."""
    two = sets.names(*_TWO, shipped=("breast_cancer",))
    many = sets.names("pendigits", "usps", "letter", shipped=("digits",))
    numbers = sets.names("abalone", "cpusmall", "pol", "casp", "cadata", shipped=("diabetes",))
    normal = sets.names("shuttle", "kddcup99", "mnist", shipped=("breast_cancer",))
    rows = (
        ("hinge", two, "kernel", (0.1, 1.0, 10.0, 100.0), _HINGE),
        ("pairs", many, "kernel", (1.0, 10.0), _HINGE),
        ("squared", many, "kernel", (1.0, 10.0), _SQUARED),
        ("svr", numbers, "targets", (1.0, 10.0, 100.0), _regressor),
        ("novelty", normal, "normal", (0.01, 0.1, 0.3), _detector),
    )
    for row, names, kind, settings, made in rows:
        for name in names:
            for setting in settings:
                yield Cell(
                    *(row, name, setting, sets(kind, name), partial(made, setting)),
                    also=_ALSO,
                    figures=_agreement,
                )
    if sets.tasks is not None:
        cell = ("hinge", "kddcup99", 1.0, sets("kernel", "kddcup99"), partial(_HINGE, 1.0))
        yield Cell(*cell, also=_ALSO, figures=_agreement)


def _with_kernel(kind: str, loss: str, data: Data) -> Sides:
    tol = TOL if loss == "hinge" else _SQUARED_TOL
    form: dict[str, Any] = {"C": 1.0, "kernel": "rbf" if kind == "sparse" else kind}
    if kind in ("rbf", "poly", "sparse"):
        form["gamma"] = scale_gamma(data.X)
    return _sides(data, SwapSVC, partial(SVC, cache_size=1000, **form), loss=loss, tol=tol, **form)


def _given(kind: str, load: Callable[[], Data]) -> Data:
    data = load()
    if kind == "sparse":
        return data._replace(X=csr_matrix(data.X), X_test=csr_matrix(data.X_test))
    if kind == "precomputed":
        X, X_test = (linear_kernel(part, data.X) / 20.0 for part in (data.X, data.X_test))
        return data._replace(X=X, X_test=X_test)
    return data


def classes(sets: Sets) -> Iterable[Cell]:
    """Many classes of few rows, one-versus-one: "KxM" is K classes of M rows of 20 features."""
    for n_classes, per_class in ((10, 5), (10, 100), (26, 5), (26, 100), (100, 5), (400, 5)):
        load = sets("kernel", f"made_classes_{n_classes}_{per_class}")
        for kind in ("rbf", "poly", "linear", "precomputed", "sparse"):
            for loss in ("hinge", "squared_hinge"):
                row = f"{kind} {loss}"
                given = partial(_given, kind, load)
                yield Cell(
                    *(
                        row,
                        f"{n_classes}x{per_class}",
                        1.0,
                        given,
                        partial(_with_kernel, kind, loss),
                    ),
                    also={"one": _ALSO["one"]},
                )


def _search(loss: str, gammas: bool, ours_too: bool, data: Data) -> Sides:
    gamma, folds = scale_gamma(data.X), StratifiedKFold(3)
    values = [gamma * factor for factor in _FACTORS] if gammas else [gamma]
    tol = TOL if loss == "hinge" else _SQUARED_TOL

    def ours(**changes: Any) -> Any:
        settings = _OURS | {"loss": loss, "tol": tol, "cv": folds, "gammas": values}
        return SwapSVCCV(list(_CS), **settings | changes).fit(data.X, data.y)

    machine = SwapSVC(loss=loss, tol=tol, **_OURS) if ours_too else SVC(cache_size=1000)
    grid = {"C": list(_CS), "gamma": values}
    name = f"GridSearchCV({type(machine).__name__})"
    return Sides(ours, {name: Peer(lambda _: GridSearchCV(machine, grid, cv=folds))})


def _same_choice(ours: Any, peer: Any, data: Data) -> dict[str, Any]:
    scores = (float(np.max(m.cv_results_["mean_test_score"])) for m in (ours, peer))
    found = dict(zip(("score", "peer_score"), scores, strict=True))
    return {"equal_C": bool(peer.best_params_["C"] == ours.C_), **found}


def searches(sets: Sets) -> Iterable[Cell]:
    """SwapSVCCV, 7 C and 1 or 5 gammas in 3 folds, beside GridSearchCV(SVC) and of SwapSVC."""
    two = sets.names("usps_odd", "a5a", "covtype2", "ijcnn1", shipped=("breast_cancer",))
    many = sets.names("pendigits", "usps", shipped=("digits",))
    for name in (*two, *many):
        for loss in ("hinge", "squared_hinge"):
            for gammas in (False, True):
                for ours_too in (True, False):
                    row = f"{loss} beside {'SwapSVC' if ours_too else 'SVC'}"
                    made = partial(_search, loss, gammas, ours_too)
                    load = sets("kernel", name, _SEARCH_ROWS)
                    n_gammas = float(len(_FACTORS) if gammas else 1)
                    yield Cell(row, name, n_gammas, load, made, figures=_same_choice)
