"""Fits of chain CRFs, looked at on the way, for the figures of Le Priol et al. (2018).

A look costs a pass over the data, and counts nowhere: neither as an epoch nor in the seconds.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from _chains import ChainTask
from _crf_watch import watch
from _sag_nus import SAGSolver

from sklearn_bundle import SDCACRF
from sklearn_bundle.chain.model import taken_apart

TOL = 1e-6  # relative gap at which a fit ends
CURVE = ("epochs", "oracle_calls", "objective", "lower_bound", "gap", "estimate")
_STRIDE, _TEST_STRIDE = 1.2, 1.5  # epochs from a look to the next, and from a test to the next
_LBFGS = 3  # times as many iterations as epochs: one costs little


class Kind(NamedTuple):
    """What is fitted; without a share, sampling is uniform."""

    solver: str
    sampling: str = "-"
    share: float = 0.0

    @property
    def label(self) -> str:
        share = "" if self.share in (0.0, 0.8) else f" {self.share:g}"
        return f"{self.solver}, {self.sampling}{share}" if self.sampling != "-" else self.solver


UNIFORM, GAP = Kind("sdca", "uniform"), Kind("sdca", "gap", 0.8)
OEG, OEG_GAP = Kind("exponentiated", "uniform"), Kind("exponentiated", "gap", 0.8)
SAG, SAG_SKIPPING = Kind("sag-nus"), Kind("sag-nus*")
LBFGS = Kind("lbfgs")
SOLVERS = (UNIFORM, GAP, OEG, OEG_GAP, SAG, SAG_SKIPPING, LBFGS)  # figure 4
SAMPLINGS = UNIFORM, Kind("sdca", "importance", 0.8), GAP  # figure 2
SHARES = (UNIFORM, *(Kind("sdca", "gap", s) for s in (0.2, 0.5)), GAP, Kind("sdca", "gap", 1.0))


def _sag(params: SDCACRF, problem: Any, seed: int, kept: Any) -> SAGSolver:
    return SAGSolver(problem, skipping=False, seed=seed)


def _sag_skipping(params: SDCACRF, problem: Any, seed: int, kept: Any) -> SAGSolver:
    return SAGSolver(problem, skipping=True, seed=seed)


_PEERS = {SAG.solver: _sag, SAG_SKIPPING.solver: _sag_skipping}


class Fit(NamedTuple):
    """The curve of a fit: a value for every look."""

    kind: Kind
    curve: dict[str, np.ndarray]
    tests: tuple[np.ndarray, np.ndarray]  # epochs, and tokens of the test part that are wrong, %
    seconds: float
    status: str

    @property
    def relative_gap(self) -> np.ndarray:
        return self.curve["gap"] / self.curve["objective"]

    def excess(self, best: float) -> np.ndarray:
        """Relative suboptimality."""
        return self.curve["objective"] / best - 1.0

    def first(self, over: str, values: np.ndarray, target: float) -> float | None:
        """How many epochs or oracle calls before the values are within a target for good."""
        missing = np.flatnonzero(values > target)
        k = 0 if len(missing) == 0 else missing[-1] + 1
        return None if k == len(values) else float(self.curve[over][k])

    def as_dict(self) -> dict[str, Any]:
        return {
            **{**self.kind._asdict(), "seconds": self.seconds, "status": self.status},
            **{name: values.tolist() for name, values in self.curve.items()},
            **{"test_epochs": self.tests[0].tolist(), "test_errors": self.tests[1].tolist()},
        }


class Tester:
    """Errors on a test part of weights that are no estimator's yet."""

    def __init__(self, task: ChainTask):
        self._part = next(iter(task.tests.values()))
        self._n_labels = len(task.classes)
        self._model = SDCACRF(max_iter=1, random_state=0, n_jobs=1)
        self._model.fit(task.train.matrices, task.train.labels)

    def error(self, w: np.ndarray) -> float:
        """Tokens that are labeled wrongly, in percent."""
        model, parts = self._model, taken_apart(w, self._n_labels)
        model.coef_, model.transitions_ = parts.coef, parts.transitions
        model.intercept_, model.start_, model.end_ = parts.intercept, parts.start, parts.end
        wrong = total = 0
        for told, true in zip(model.predict(self._part.matrices), self._part.labels, strict=True):
            wrong += sum(a != b for a, b in zip(told, true, strict=True))
            total += len(true)
        return 100.0 * wrong / total


def follow(
    task: ChainTask, kind: Kind, max_epochs: int, tester: Tester | None, goal: float = TOL
) -> Fit:
    """A fit to a relative gap, or of so many epochs."""
    curve: dict[str, list[float]] = {name: [] for name in CURVE}
    tests: list[tuple[float, float]] = []
    next_test = 1.0

    def look(truth: dict[str, Any], w: np.ndarray) -> bool:
        nonlocal next_test
        for name in CURVE:
            curve[name].append(float(truth[name]))
        ended = truth["gap"] <= goal * truth["objective"] or _STRIDE * truth["epochs"] > most
        if tester is not None and (truth["epochs"] >= next_test or ended):
            next_test = max(next_test + 1.0, next_test * _TEST_STRIDE)
            tests.append((truth["epochs"], tester.error(w)))
        return ended

    most = max_epochs * (_LBFGS if kind.solver == "lbfgs" else 1)
    settings: dict[str, Any] = {"max_iter": most}
    if kind.solver in _PEERS:
        settings["make"] = _PEERS[kind.solver]
    else:
        settings["solver"] = kind.solver
    if kind.sampling != "-":
        settings |= {"sampling": kind.sampling, "nonuniformity": kind.share or 0.8}
    # tol is such that the fit never makes a full pass of its own
    seconds = watch(task, look, _STRIDE, tol=1e-300, **settings)
    reached = curve["gap"][-1] <= goal * curve["objective"][-1]
    return Fit(
        kind,
        {name: np.array(values) for name, values in curve.items()},
        tuple(np.array(tests or np.empty((0, 2))).T),
        seconds,
        "reached" if reached else "limit",
    )


def level(fit: Fit, best: float, epoch: float) -> float:
    """Suboptimality at the last look by that epoch."""
    k = np.searchsorted(fit.curve["epochs"], epoch, side="right") - 1
    return float(fit.excess(best)[max(k, 0)])


def ratio_of_gaps(fits: Sequence[Fit], n: int) -> list[tuple[Fit, np.ndarray]]:
    """The estimated gap over the true one, once all sequences have been visited.

    An estimate starts at 100 a sequence. Draws that are uniform leave ``n exp(-epochs)`` of n
    sequences out on average, less than one after log n epochs.
    """
    found = []
    for fit in fits:
        later = fit.curve["epochs"] > np.log(n)
        if later.any():
            found.append((fit, (fit.curve["estimate"] / fit.curve["gap"])[later]))
    return found
