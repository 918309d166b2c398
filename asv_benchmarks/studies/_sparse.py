"""L1 models, their paths of 100 values, and searches over them.

The setting of a cell of ``sparse`` divides the largest useful reg_lambda. Paths go from that to a
thousandth of it; nobody has an intercept there: targets and dense columns are centered. All sides
of a search fit the same folds and end by their own default tol.
"""

from collections.abc import Iterable
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
from _cell import ITERATIONS, TOL, TOLERANCES, Cell, Data, Peer, Sides
from _data import Sets
from _linear import sides
from _objectives import judge, largest_reg_lambda
from _skglm import celer_peers, skglm_peers
from scipy.sparse import issparse
from sklearn.linear_model import (
    Lasso,
    LassoCV,
    LogisticRegression,
    LogisticRegressionCV,
    lasso_path,
)
from sklearn.model_selection import KFold
from sklearn.svm import LinearSVC

from sklearn_bundle import (
    BMRMClassifier,
    BMRMClassifierCV,
    BMRMRegressor,
    BMRMRegressorCV,
    bmrm_path,
)

_MOST_ITERATIONS = 100_000  # what tol is to end
_MOST_GRAM = 6_000  # features
_SCALING = 1e3  # of LIBLINEAR's intercept, which it penalizes: so it comes close to a free one
_N_VALUES, _RANGE = 100, 1e-3
_FOLDS = KFold(5, shuffle=True, random_state=0)


def _logistic(fit_intercept: bool, divisor: float, data: Data) -> Sides:
    n, value = len(data.y), largest_reg_lambda(data, "log_loss", fit_intercept) / divisor
    form = {"C": 1.0 / (n * value), "l1_ratio": 1.0, "fit_intercept": fit_intercept}
    form |= {"random_state": 0, "max_iter": _MOST_ITERATIONS}
    scaling = {"intercept_scaling": _SCALING} if fit_intercept else {}
    peers = {
        "liblinear": Peer(
            lambda tol: LogisticRegression(solver="liblinear", tol=tol, **form, **scaling),
            TOLERANCES,
        ),
        "saga": Peer(
            lambda k: LogisticRegression(solver="saga", tol=1e-12, **form | {"max_iter": k}),
            ITERATIONS,
        ),
    }
    peers |= skglm_peers("log_loss", value, 1.0, fit_intercept)
    if not fit_intercept:
        peers |= celer_peers("log_loss", value, n)
    settings = {"fit_intercept": fit_intercept, "regularizer": "l1"}
    return sides(data, peers, BMRMClassifier, "log_loss", value, **settings)


def _squared_hinge(fit_intercept: bool, divisor: float, data: Data) -> Sides:
    """LIBLINEAR alone: skglm has the dual of the L2 norm, and celer no hinge."""
    value = largest_reg_lambda(data, "squared_hinge", fit_intercept) / divisor
    form = {"penalty": "l1", "dual": False, "C": 0.5 / (len(data.y) * value), "random_state": 0}
    form |= {"fit_intercept": fit_intercept, "max_iter": 10_000_000}
    form |= {"intercept_scaling": _SCALING if fit_intercept else 1.0}
    peers = {"LinearSVC": Peer(lambda tol: LinearSVC(tol=tol, **form), TOLERANCES)}
    settings = {"fit_intercept": fit_intercept, "regularizer": "l1"}
    return sides(data, peers, BMRMClassifier, "squared_hinge", value, **settings)


def _lasso(divisor: float, data: Data) -> Sides:
    value = largest_reg_lambda(data, "squared_error", True) / divisor
    make = partial(Lasso, value, max_iter=_MOST_ITERATIONS)

    def is_tall(data: Data) -> bool:
        return data.X.shape[1] <= min(data.X.shape[0], _MOST_GRAM)

    peers = {
        "Lasso": Peer(lambda tol: make(tol=tol), TOLERANCES, by_columns=True),
        "Lasso Gram": Peer(
            lambda tol: make(tol=tol, precompute=True), TOLERANCES, by_columns=True, takes=is_tall
        ),
        **skglm_peers("squared_error", value, 1.0),
        **celer_peers("squared_error", value, len(data.y)),
    }
    return sides(data, peers, BMRMRegressor, "squared_error", value, regularizer="l1")


def sparse(sets: Sets) -> Iterable[Cell]:
    """L1 norm, the largest useful reg_lambda over 10, 100 and 1,000."""
    texts = sets.names("news20_bydate", "movie_reviews")
    labeled = sets.names("news20_bydate", "movie_reviews", "a9a", "mnist_even")
    numbers = sets.names("cadata", "casp", "pol", shipped=("diabetes",))
    rows = {
        "log_loss": (partial(_logistic, False), labeled, "binary"),
        "squared_hinge": (partial(_squared_hinge, False), labeled, "binary"),
        "log_loss_free": (partial(_logistic, True), texts, "binary"),
        "squared_hinge_free": (partial(_squared_hinge, True), texts, "binary"),
        "lasso": (_lasso, numbers, "cubic"),
    }
    for row, (made, names, kind) in rows.items():
        for name in names:
            for divisor in (10.0, 100.0, 1000.0):
                yield Cell(row, name, divisor, sets(kind, name), partial(made, divisor))
    for divisor in (10.0, 100.0, 1000.0):
        load = sets("regression", "made_wide_20000")
        yield Cell("lasso", "made_wide_20000", divisor, load, partial(_lasso, divisor))


def _path(data: Data) -> Sides:
    y = data.y - data.y.mean()
    X = data.X if issparse(data.X) else data.X - data.X.mean(axis=0)
    values = largest_reg_lambda(Data(X, y), "squared_error", False) * _values()
    columns = X.tocsc() if issparse(X) else np.asfortranarray(X)
    objectives = [judge(Data(X, y), "squared_error", value, 1.0) for value in values]

    def ours(**changes: Any) -> Any:
        settings = {"loss": "squared_error", "regularizer": "l1", "fit_intercept": False}
        settings |= {"tol": TOL, "max_iter": _MOST_ITERATIONS} | changes
        path = bmrm_path(X, y, reg_lambdas=values, **settings)
        gap = np.max(path.dual_gaps / path.objectives)
        return SimpleNamespace(coefs=path.coefs, relative_gap_=gap, converged_=gap <= TOL)

    def scikit_learn(_: Data, tol: float) -> Any:
        coefs = lasso_path(columns, y, alphas=values, tol=tol, max_iter=_MOST_ITERATIONS)[1]
        return SimpleNamespace(coefs=coefs)

    def all_of(path: Any) -> np.ndarray:
        models = (SimpleNamespace(coef_=w, intercept_=0.0) for w in path.coefs.T)
        return np.array([J(model) for J, model in zip(objectives, models, strict=True)])

    return Sides(ours, {"lasso_path": Peer(fit_data=scikit_learn, ladder=TOLERANCES)}, all_of)


def _values() -> np.ndarray:
    return np.geomspace(1.0, _RANGE, _N_VALUES)


def paths(sets: Sets) -> Iterable[Cell]:
    """Squared errors, 100 values of reg_lambda, each within 1e-3: lasso_path."""
    for kind, name in _of_numbers(sets):
        yield Cell("lasso_path", f"{name} {kind}", _N_VALUES, sets(kind, name), _path)


def _of_numbers(sets: Sets) -> list[tuple[str, str]]:
    names = sets.names("cadata", "casp", shipped=("diabetes",))
    pairs = [(kind, name) for name in names for kind in ("regression", "cubic")]
    return pairs + ([] if sets.tasks is None else [("regression", "pol")])


def _lasso_search(data: Data) -> Sides:
    values = largest_reg_lambda(data, "squared_error", True) * _values()

    def ours(**changes: Any) -> Any:
        settings = {"regularizer": "l1", "reg_lambdas": values, "cv": _FOLDS, "n_jobs": 1}
        return BMRMRegressorCV("squared_error", **settings | changes).fit(data.X, data.y)

    make = partial(LassoCV, alphas=values, cv=_FOLDS, max_iter=_MOST_ITERATIONS)
    return Sides(ours, {"LassoCV": Peer(lambda _: make(), by_columns=True)})


def _logistic_search(data: Data) -> Sides:
    values = np.geomspace(1e-1, 1e-6, 10)

    def ours(**changes: Any) -> Any:
        settings = {"reg_lambdas": values, "cv": _FOLDS, "n_jobs": 1} | changes
        return BMRMClassifierCV("log_loss", **settings).fit(data.X, data.y)

    Cs = 1.0 / (len(data.y) * values)
    form = {"Cs": Cs, "cv": _FOLDS, "l1_ratios": (0.0,), "use_legacy_attributes": False}
    form |= {"scoring": "accuracy", "max_iter": 10_000}
    return Sides(ours, {"LogisticRegressionCV": Peer(lambda _: LogisticRegressionCV(**form))})


def _chosen(ours: Any, peer: Any, data: Data) -> dict[str, Any]:
    value = getattr(peer, "alpha_", None)
    if value is None:
        value = 1.0 / (len(data.y) * float(np.ravel(peer.C_)[0]))
    return {"chosen_over_ours": float(value / ours.reg_lambda_)}


def searches(sets: Sets) -> Iterable[Cell]:
    """Five folds: 100 values of the Lasso, and 10 of the L2 logistic regression, default tols."""
    for kind, name in _of_numbers(sets):
        yield Cell(
            *("LassoCV", f"{name} {kind}", _N_VALUES, sets(kind, name), _lasso_search),
            figures=_chosen,
        )
    for name in sets.names("a9a", "ijcnn1", "covtype2", shipped=("breast_cancer",)):
        yield Cell(
            *("LogisticRegressionCV", name, 10.0, sets("binary", name), _logistic_search),
            figures=_chosen,
        )
