"""Contests of a certified linear classifier with its peers, on one task at one reg_lambda.

J = reg_lambda/2 ||w||^2 + the mean hinge loss is what every side is judged by.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from math import inf
from typing import Any

import numpy as np
from _measure import LONG, Rung, candidates, cheapest, climb, cpu_seconds, time_rungs
from benchmarks.common import Array, best_intercept, objective
from scipy.sparse import issparse
from sklearn.svm import SVC, LinearSVC

from sklearn_bundle import BMRMClassifier

SUBOPTIMALITY = 1e-3
_PLANE_ENTRIES = 1 << 27  # 1 GiB: the reference fit keeps no more planes than fit into this


@dataclass(frozen=True)
class Cell:
    """One row of a table: a task, a strength of regularisation, and the ratio asked for."""

    task: str
    reg_lambda: float
    asked: float | None = None


def cells(task: str, reg_lambdas: tuple[float, ...], asked: float | None = None) -> list[Cell]:
    """A task at several strengths of regularisation."""
    return [Cell(task, value, asked) for value in reg_lambdas]


# Settings of the peers, from the cheapest on.
MAX_ITERS = tuple(2**k for k in range(13))
TOLERANCES = (1e-1, 1e-2, 1e-3)


def make_bmrm(
    reg_lambda: float, tol: float = SUBOPTIMALITY, fit_intercept: bool = True
) -> BMRMClassifier:
    return BMRMClassifier(
        "hinge", reg_lambda=reg_lambda, tol=tol, fit_intercept=fit_intercept, n_jobs=1
    )


def make_svc(reg_lambda: float, C: float, tol: float) -> SVC:
    return SVC(kernel="linear", C=C, tol=tol, cache_size=1000)


def make_linear_svc(
    reg_lambda: float, C: float, max_iter: int, fit_intercept: bool = True
) -> LinearSVC:
    """Only max_iter ends it."""
    return LinearSVC(
        loss="hinge",
        fit_intercept=fit_intercept,
        C=C,
        tol=1e-12,
        max_iter=max_iter,
        random_state=0,
    )


@dataclass(frozen=True)
class Peer:
    """A contestant that is timed at its cheapest settings which reach its aims.

    The aims are "1e-3", a relative suboptimality; "our J", the objective of our fit; and "end",
    within 1e-3 of the lowest objective of its own ladder.
    """

    make: Callable[[float, float, Any], Any]  # of reg_lambda, C and a setting
    ladder: tuple  # its settings, from the cheapest on
    aims: tuple[str, ...] = ("1e-3", "our J")
    monotone: bool = False  # the ladder ends at the first setting that reaches all aims
    own_intercept: bool = False  # it does not get the best intercept for its weights


@dataclass(frozen=True)
class Part:
    """Our estimator, its peers and what they are compared on; the first peer is the main one."""

    title: str
    ours: Callable[[float], Any]  # of reg_lambda
    peers: dict[str, Peer]
    required: tuple[Cell, ...]
    further: tuple[Cell, ...] = ()
    fit_intercept: bool = True
    n_rows: int | None = None


class Contest:
    """The fits and objectives of all sides in one cell."""

    def __init__(self, part: Part, reg_lambda: float, X: Any, y: Array):
        self._part = part
        self._reg_lambda = reg_lambda
        self._X, self._y = X, y

    def fit_ours(self, **limits: Any) -> Any:
        return self._part.ours(self._reg_lambda).set_params(**limits).fit(self._X, self._y)

    def fit_reference(self) -> BMRMClassifier:
        """A more accurate fit, which says what the optimum is."""
        model = make_bmrm(self._reg_lambda, 1e-6, self._part.fit_intercept)
        most_planes = min(5000, max(100, _PLANE_ENTRIES // self._X.shape[1]))
        return model.set_params(max_iter=most_planes, max_time=2 * LONG).fit(self._X, self._y)

    def fit_peer(self, peer: Peer, setting: Any) -> Any:
        C = 1.0 / (len(self._y) * self._reg_lambda)
        return peer.make(self._reg_lambda, C, setting).fit(self._X, self._y)

    def climb(self, peer: Peer, target: float) -> list[Rung]:
        """One fit at each setting of the peer, up to those that the target needs."""

        def fit(setting: Any) -> Rung:
            seconds, model = cpu_seconds(lambda: self.fit_peer(peer, setting))
            gap = relative_gap(model) if hasattr(model, "dual_gap_") else None
            return Rung(setting, self.objective(model, not peer.own_intercept), seconds, gap)

        return climb(peer.ladder, fit, _stopping_rule(peer, target))

    def objective(self, model: Any, best: bool = False) -> float:
        """J; with ``best``, at the best intercept for the weights if that is better."""
        w = (model.coef_.toarray() if issparse(model.coef_) else model.coef_).ravel()
        intercepts = [np.asarray(model.intercept_).item()]
        if best and self._part.fit_intercept:
            intercepts.append(best_intercept(self._X, self._y, w))
        return min(objective(self._X, self._y, w, b, self._reg_lambda) for b in intercepts)


def relative_gap(model: Any) -> float:
    return model.dual_gap_ / model.objective_


def compare(part: Part, cell: Cell, X: Any, y: Array, repeat: int) -> dict[str, Any]:
    """All numbers of a row; the first fits compile and find the settings, and are not timed."""
    contest = Contest(part, cell.reg_lambda, X, y)
    contest.fit_ours(max_iter=20)
    seconds, model = cpu_seconds(contest.fit_ours)
    own = Rung("ours", contest.objective(model), seconds, relative_gap(model))
    reference = contest.fit_reference()
    best = min(own.objective, contest.objective(reference))
    target = min(own.objective, _within(best))
    ladders = {name: contest.climb(peer, target) for name, peer in part.peers.items()}
    best = min(best, *(r.objective for rungs in ladders.values() for r in rungs))
    fits = [(own, contest.fit_ours)]
    targets: dict[str, dict[str, float]] = {}
    for name, peer in part.peers.items():
        lowest = min(r.objective for r in ladders[name])
        known = {"1e-3": _within(best), "our J": own.objective, "end": _within(lowest)}
        targets[name] = {aim: known[aim] for aim in peer.aims}
        reaching = [r for t in targets[name].values() for r in candidates(ladders[name], t)]
        timed = {r.setting: r for r in reaching}.values()
        fits += [(r, partial(contest.fit_peer, peer, r.setting)) for r in timed]
    time_rungs(fits, repeat)
    return {
        **asdict(cell),
        "n": X.shape[0],
        "d": X.shape[1],
        "best": best,
        "bound": max(model.lower_bound_, reference.lower_bound_),
        "n_iter": model.n_iter_,
        "passes": int(model.history_["passes"][-1]),
        "status": model.status_,
        "reference_status": reference.status_,
        "ours": asdict(own),
        "peers": {name: _record(rungs, targets[name]) for name, rungs in ladders.items()},
    }


def _within(best: float) -> float:
    return best * (1.0 + SUBOPTIMALITY)


def _record(rungs: list[Rung], targets: dict[str, float]) -> dict[str, Any]:
    """What the cheapest setting for each aim was, and the whole ladder."""
    chosen = {aim: cheapest(rungs, target) for aim, target in targets.items()}
    return {
        "chosen": {aim: rung and asdict(rung) for aim, rung in chosen.items()},
        "ladder": [asdict(r) for r in rungs],
    }


def _stopping_rule(peer: Peer, target: float) -> Callable[[list[Rung]], bool]:
    """LIBLINEAR's objective is not monotone: one rung below the target does not end a ladder."""
    target = inf if "end" in peer.aims else target

    def stop(rungs: list[Rung]) -> bool:
        last = [r.objective for r in rungs[-2:]]
        if peer.monotone:
            return last[-1] <= target
        settled = len(last) == 2 and max(last) <= target
        costly = sum(r.first_seconds for r in rungs) > LONG
        return settled and (costly or last[0] == last[1])

    return stop
