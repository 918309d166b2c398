"""Fits of the five methods of Allende et al. (2013), under their stopping rule and ours."""

from collections.abc import Iterator
from functools import partial
from statistics import median
from typing import Any

import numpy as np
from _measure import cpu_seconds
from _svm import Data, accuracy, relative_gap, status, warm_up

from sklearn_bundle import SwapSVC

SOLVERS = ("fw", "mfw", "swap", "swap-2o", "cvm")
TOL = 1e-3  # certified relative gap
EPS = 1e-6  # the paper's, of the gap of the simplex problem
SAMPLE = 60  # points among which CVM's code looks for the ascent vertex
MOST_STEPS = 400_000  # of a two-class problem
_MOST_STEPS_OF_PAIR = 40_000  # where there are more classes: FW takes them all on every pair
_SHORT, _REPEAT = 1.0, 3  # seconds of a fit that is repeated, and how often it runs
_CHUNK = 128  # steps from one look of the solver to the next
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


class _PaperStop:
    """A solver that stops by (8): ``max_i grad_i - 2 g <= eps``, here ``2 (Q - min q)``.

    With ``sample`` the maximum is over as many random points. The paper's code would draw them
    before every step; here the draws for a chunk of steps are made at its end.
    """

    def __init__(self, solver: Any, eps: float, sample: int | None):
        self._solver, self._eps, self._sample = solver, eps, sample
        self._rng = np.random.default_rng(0)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._solver, name)

    def states(self) -> Iterator[Any]:
        for state in self._solver.states():
            yield state
            if 2.0 * (self._solver.value - self._least()) <= self._eps:
                return

    def _least(self) -> float:
        """The smallest q, or the one that ends the run if it is looked for among a few points."""
        q = self._solver.q
        if self._sample is None:
            return float(q.min())
        drawn = self._rng.integers(len(q), size=(_CHUNK, self._sample))
        return float(q[drawn].min(axis=1).max())


class PaperSVC(SwapSVC):
    """SwapSVC with that rule; a fit that it ends has the status "stalled"."""

    eps: float = EPS
    sample: int | None = None

    def _kernel_data(self, *arguments: Any) -> Any:
        values = super()._kernel_data(*arguments)
        values.dtype = np.dtype(np.float32)  # as in the other runs, whatever tol is
        return values

    def _solver(self, *arguments: Any) -> _PaperStop:
        return _PaperStop(super()._solver(*arguments), self.eps, self.sample)


def make(solver: str, C: float, n_classes: int, rule: str = "gap", **settings: Any) -> SwapSVC:
    """A rule is "gap", "eps" or "eps, sampled"."""
    most = MOST_STEPS if n_classes == 2 else _MOST_STEPS_OF_PAIR
    settings = {
        **{"solver": solver, "active_set": None, "n_jobs": 1, "random_state": 0},
        **{"max_iter": most, "cache_size": 1500},
        **settings,
    }
    if rule == "gap":
        return SwapSVC(C, tol=TOL, **settings)
    model = PaperSVC(C, tol=1e-15, **settings)  # no gap ends it
    model.sample = SAMPLE if rule == "eps, sampled" else None
    return model


def measure(
    solver: str, data: Data, C: float, gamma: float, rule: str = "gap", **settings: Any
) -> dict[str, Any]:
    """What a solver takes and reaches."""
    maker = partial(make, solver, C, len(np.unique(data.y)), rule, gamma=gamma, **settings)
    warm_up(partial(maker, max_iter=64), data)

    def fit() -> SwapSVC:
        return maker().fit(data.X, data.y)

    first, model = cpu_seconds(fit)
    runs = [first]
    if first < _SHORT:
        runs += [cpu_seconds(fit)[0] for _ in range(_REPEAT - 1)]
    bound = float(np.max(model.lower_bound_))
    return {
        "solver": solver,
        "rule": rule,
        "seconds": median(runs),
        "steps": int(np.sum(model.n_iter_)),
        "n_support": len(model.support_),
        "accuracy": accuracy(model.predict(data.X_test), data.y_test),
        "gap": relative_gap(model),
        "status": status(model).replace("stalled", "eps" if rule != "gap" else "stalled"),
        "limited": "max_" in status(model),
        "delta": EPS * bound,  # Q = 1 / (2 bound), and delta = eps / (2 Q)
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
