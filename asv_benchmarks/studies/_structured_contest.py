"""The contest of StructuredSVM with pystruct on one set of label sequences."""

from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from _measure import LONG
from _structured_pystruct import LEARNERS, Run, learn
from _structured_watch import SVMCurve, watch
from benchmarks.chains import chain_hinge_objective

from sklearn_bundle import StructuredSVM
from sklearn_bundle.models import Chain

TARGETS = (1e-1, 1e-2, 1e-3)
_BEST = 1e-6  # relative gap of the fit that tells the optimum
_MOST_STATES = 300  # of a peer's run whose objective is computed: each costs a pass in numpy


class Contest:
    """The same words for both sides, and one objective: ours, in numpy.

    pystruct minimizes ``1/2 ||w||^2 + C sum_i H_i(w)``, with no biases of labels: that is C n times
    our objective with ``reg_lambda = 1 / (C n)`` and ``Chain(fit_intercept=False)``, and its w is
    coef_, a row per label, and then transitions_.
    """

    def __init__(self, X: Sequence[Any], y: Sequence[Sequence[Any]], C: float = 1.0):
        classes, labels = np.unique([*chain.from_iterable(y)], return_inverse=True)
        self.n_classes, self.lengths = len(classes), np.array([len(words) for words in y])
        self.C, self.reg_lambda = C, 1.0 / (C * len(y))
        self.X = [np.ascontiguousarray(x, dtype=np.float64) for x in X]
        self.y = np.split(labels.ravel(), np.cumsum(self.lengths)[:-1])
        self._tokens = np.concatenate(self.X)

    def objective(self, w: np.ndarray) -> float:
        """Of weights in pystruct's order."""
        K = self.n_classes
        coef, transitions = w[: -K * K].reshape(K, -1), w[-K * K :].reshape(K, K)
        labels = np.concatenate(self.y)
        return chain_hinge_objective(
            self._tokens, labels, self.lengths, self.reg_lambda, coef, transitions
        )

    def compare(
        self, folder: Path, solver: str, names: Sequence[str], max_seconds: float, repeat: int
    ) -> dict[str, Any]:
        """Seconds of both sides to each suboptimality, and ours to each certified gap."""
        self._fit(solver, tol=0.1)  # compiles
        best, found = self._fit(solver, tol=_BEST, max_seconds=LONG)
        runs = [self._fit(solver, tol=min(TARGETS)) for _ in range(repeat)]
        models, curves = zip(*runs, strict=True)
        peers = {}
        for name in names:
            run = learn(folder, LEARNERS[name], self.X, self.y, self.C, max_seconds)
            peers[name] = _thinned(run)
        optimum, result = best.objective_, {"n": len(self.y), "reg_lambda": self.reg_lambda}
        w = np.concatenate([models[0].coef_.ravel(), models[0].transitions_.ravel()])
        result |= {"best": optimum, "gap": found.relative_gap, "solver": solver, "targets": []}
        result["off"] = self.objective(w) / models[0].objective_ - 1.0
        objectives = {n: [self.objective(w) for w in run.points] for n, run in peers.items()}
        result["lowest"] = {n: min(values) / optimum - 1.0 for n, values in objectives.items()}
        for eps in TARGETS:
            target = {"eps": eps, "gap": _timed(curves, [c.at(eps) for c in curves])}
            below = [c.below((1.0 + eps) * optimum) for c in curves]
            target["suboptimality"] = _timed(curves, below)
            target["peers"] = {
                name: _first(run, objectives[name], (1.0 + eps) * optimum)
                for name, run in peers.items()
            }
            result["targets"].append(target)
        return result

    def _fit(self, solver: str, **settings: Any) -> tuple[StructuredSVM, SVMCurve]:
        fixed = {"model": Chain(fit_intercept=False), "reg_lambda": self.reg_lambda}
        return watch(self.X, self.y, solver=solver, **fixed, **settings)


def _timed(curves: Sequence[SVMCurve], at: Sequence[int | None]) -> dict[str, float] | None:
    """The median over runs, which are equal but for the clock."""
    if None in at:
        return None
    seconds = median(curve.seconds[k] for curve, k in zip(curves, at, strict=True))
    return {"seconds": seconds, "calls": curves[0].calls[at[0]]}


def _thinned(run: Run) -> Run:
    rows = np.unique(np.linspace(0, len(run.seconds) - 1, _MOST_STATES).astype(int))
    return Run(*([values[k] for k in rows] for values in (run.seconds, run.passes, run.points)))


def _first(run: Run, objectives: Sequence[float], target: float) -> dict[str, Any]:
    """When it first was there; what it took in all where it never was."""
    reached = [k for k, value in enumerate(objectives) if value <= target]
    k = reached[0] if reached else -1
    return {"seconds": run.seconds[k], "passes": run.passes[k], "reached": bool(reached)}
