"""Fits of the five methods of Allende et al. (2013), to a certified gap."""

from functools import partial
from statistics import median
from typing import Any

import numpy as np
from _measure import cpu_seconds
from _svm import Data, accuracy, relative_gap, status, warm_up

from sklearn_bundle import SwapSVC

SOLVERS = ("fw", "mfw", "swap", "swap-2o", "cvm")
TOL = 1e-3  # certified relative gap
MOST_STEPS = 400_000  # of a two-class problem
_MOST_STEPS_OF_PAIR = 40_000  # where there are more classes: FW takes them all on every pair
_SHORT, _REPEAT = 1.0, 3  # seconds of a fit that is repeated, and how often it runs
_SEARCHED = 5_000  # rows at most that C is searched on
_GRID = tuple(2.0**k for k in range(0, 13, 2))


def values(results: list[dict[str, Any]], solver: str, quantity: str) -> np.ndarray:
    """Of every set."""
    return np.array([result["fits"][solver][quantity] for result in results], np.float64)


def compared(results: list[dict[str, Any]], solver: str, quantity: str) -> np.ndarray:
    """The same, but a fit that did not get to its gap takes for ever."""
    found = values(results, solver, quantity)
    if quantity == "seconds":
        found[[result["fits"][solver]["limited"] for result in results]] = np.inf
    return found


def make(solver: str, C: float, n_classes: int, **settings: Any) -> SwapSVC:
    most = MOST_STEPS if n_classes == 2 else _MOST_STEPS_OF_PAIR
    fixed = {"solver": solver, "n_jobs": 1, "random_state": 0, "tol": TOL}
    return SwapSVC(C, **{**fixed, "max_iter": most, "cache_size": 1500, **settings})


def measure(solver: str, data: Data, C: float, gamma: float, **settings: Any) -> dict[str, Any]:
    """What a solver takes and reaches."""
    maker = partial(make, solver, C, len(np.unique(data.y)), gamma=gamma, **settings)
    warm_up(partial(maker, max_iter=64), data)

    def fit() -> SwapSVC:
        return maker().fit(data.X, data.y)

    first, model = cpu_seconds(fit)
    runs = [first]
    if first < _SHORT:
        runs += [cpu_seconds(fit)[0] for _ in range(_REPEAT - 1)]
    return {
        "solver": solver,
        "seconds": median(runs),
        "steps": int(np.sum(model.n_iter_)),
        "n_support": len(model.support_),
        "accuracy": accuracy(model.predict(data.X_test), data.y_test),
        "gap": relative_gap(model),
        "status": status(model),
        "limited": "max_" in status(model),
    }


def search_C(data: Data, gamma: float) -> float:
    """The C of 2^0, 2^2, ..., 2^12 that is best on 30 % of the training part."""
    n = min(len(data.y), _SEARCHED)
    cut = round(0.7 * n)
    order = np.random.default_rng(0).permutation(len(data.y))[:n]
    train, test = order[:cut], order[cut:]
    scores = {}
    for C in _GRID:
        model = make("swap-2o", C, len(np.unique(data.y)), gamma=gamma)
        model.fit(data.X[train], data.y[train])
        scores[C] = accuracy(model.predict(data.X[test]), data.y[test])
    return max(scores, key=scores.get)
