"""Contests of a certified linear classifier with its peers, on one task at one reg_lambda.

J = reg_lambda/2 ||w||^2 + the mean loss is what every side is judged by.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from math import inf
from typing import Any

from _linear_kept import KeptFits
from _linear_objective import model_objective
from _linear_timing import ENOUGH, time_rungs
from _measure import LONG, Rung, candidates, cheapest, cpu_seconds
from benchmarks.common import Array
from sklearn.svm import SVC, LinearSVC

from sklearn_bundle import BMRMClassifier

SUBOPTIMALITY = 1e-3
_PLANE_ENTRIES = 1 << 27  # 1 GiB: the reference fit keeps no more planes than fit into this
_REFERENCE_TIME = 30.0  # seconds
_HALVINGS = 2  # of the interval between the last setting that misses and the first that reaches


@dataclass(frozen=True)
class Cell:
    """One row of a table: a task, a strength of regularization, and the ratio asked for."""

    task: str
    reg_lambda: float
    asked: float | None = None


def cells(task: str, reg_lambdas: tuple[float, ...], asked: float | None = None) -> list[Cell]:
    """A task at several strengths of regularization."""
    return [Cell(task, value, asked) for value in reg_lambdas]


# Settings of the peers, from the cheapest on.
MAX_ITERS = tuple(2**k for k in range(13))
TOLERANCES = (1e-1, 1e-2, 1e-3)


def make_bmrm(
    reg_lambda: float,
    tol: float = SUBOPTIMALITY,
    fit_intercept: bool = True,
    loss: str = "hinge",
    n_jobs: int = 1,
    **further: Any,
) -> BMRMClassifier:
    settings = {"tol": tol, "fit_intercept": fit_intercept, "n_jobs": n_jobs, **further}
    return BMRMClassifier(loss, reg_lambda=reg_lambda, **settings)


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

    The aims are "J*", the suboptimality of the part; "our J", the objective of our fit; and "end",
    within that suboptimality of the lowest objective of its own ladder.
    """

    make: Callable[[float, float, Any], Any]  # of reg_lambda, C and a setting
    ladder: tuple  # its settings, from the cheapest on
    aims: tuple[str, ...] = ("J*", "our J")
    monotone: bool = False  # the ladder ends at the first setting that reaches all aims
    own_intercept: bool = False  # it does not get the best intercept for its weights
    max_features: float = inf  # it does not run on more
    takes: Callable[[Any, Array], bool] = lambda X, y: True  # whether it runs on such data
    by_columns: bool = False  # it works on F-ordered or CSC data, and copies others
    # A little of a fit, of X and y, where the first one in a process compiles.
    compile: Callable[[Any, Array], Any] | None = None


@dataclass(frozen=True)
class Part:
    """Our estimator, its peers and what they are compared on.

    The first peer is the one of the table's ratios, or with ``best_of`` the best of all in each
    cell.
    """

    title: str
    ours: Callable[[float], Any]  # of reg_lambda
    peers: dict[str, Peer]
    required: tuple[Cell, ...]
    further: tuple[Cell, ...] = ()
    loss: str = "hinge"
    fit_intercept: bool = True
    suboptimality: float = SUBOPTIMALITY
    best_of: bool = False
    asked_mean: float | None = None  # of the ratios of all cells, geometric


class Contest:
    """The fits and objectives of all sides in one cell."""

    def __init__(self, part: Part, cell: Cell, X: Any, y: Array, kept: KeptFits):
        self.part, self.cell = part, cell
        self.X, self.y = X, y
        self._kept = kept
        self.longest = LONG  # seconds of a peer's fit, beyond which its ladder ends
        self.enough = ENOUGH  # seconds of all runs of a fit, after which it is not repeated
        self.peers = {
            name: peer
            for name, peer in part.peers.items()
            if X.shape[1] <= peer.max_features and peer.takes(X, y)
        }

    def first_fit(self) -> tuple[float, Any]:
        """Seconds and model of our fit, once what it needs is compiled."""
        self.fit_ours(max_iter=20)
        return cpu_seconds(self.fit_ours)

    def fit_ours(self, **limits: Any) -> Any:
        model = self.part.ours(self.cell.reg_lambda).set_params(**limits)
        return model.fit(self.X, self.y)

    def fit_reference(self, model: Any) -> Any:
        """A more accurate fit than the model, which says what the optimum is."""
        part = self.part
        tol = max(1e-3 * part.suboptimality, 1e-8)
        model = make_bmrm(self.cell.reg_lambda, tol, part.fit_intercept, part.loss)
        most_planes = min(5000, max(100, _PLANE_ENTRIES // self.X.shape[1]))
        limits = {"max_iter": most_planes, "max_time": _REFERENCE_TIME}
        return model.set_params(**limits).fit(self.X, self.y)

    def fit_peer(self, name: str, setting: Any) -> Any:
        reg_lambda = self.cell.reg_lambda
        C = 1.0 / (len(self.y) * reg_lambda)
        if self.part.loss == "squared_hinge":  # LIBLINEAR's has no factor 1/2
            C *= 0.5
        return self.peers[name].make(reg_lambda, C, setting).fit(self.X, self.y)

    def objective(self, model: Any, mend_intercept: bool = False) -> float:
        mend = mend_intercept and self.part.fit_intercept
        data = self.X, self.y, self.cell.reg_lambda
        return model_objective(model, *data, self.part.loss, mend)

    def climb(self, own: Rung, best: float) -> tuple[dict[str, list[Rung]], float]:
        """The ladders of all peers, up to what their aims need, and the lowest objective of all.

        The peer goes on whose last fit was the cheapest, so that the fastest gets there first. One
        that gets lower than what was known makes the aims of all harder.
        """
        ladders: dict[str, list[Rung]] = {name: [] for name in self.peers}
        while going := [k for k in ladders if not self._is_done(k, ladders, own.objective, best)]:
            name = min(going, key=lambda k: max((r.first_seconds for r in ladders[k]), default=0))
            rung = self._rung(name, self.peers[name].ladder[len(ladders[name])])
            ladders[name].append(rung)
            best = min(best, rung.objective)
        return ladders, best

    def _is_done(self, name: str, ladders: dict[str, list[Rung]], own: float, best: float) -> bool:
        peer, rungs = self.peers[name], ladders[name]
        if not rungs:
            return False
        if len(rungs) == len(peer.ladder):
            return True
        goals = {"J*": self.within(best), "our J": own, "end": inf}
        target = min(goals[aim] for aim in peer.aims)
        costly = rungs[-1].first_seconds > self._patience(ladders, name, self.within(best))
        return costly or _is_high_enough(peer, rungs, target)

    def _patience(self, ladders: dict[str, list[Rung]], name: str, target: float) -> float:
        """Seconds of a fit, beyond which the rest of a ladder is waste."""
        if not self.part.best_of:
            return self.longest
        others = (r for k, rungs in ladders.items() if k != name for r in rungs)
        reaching = [r.first_seconds for r in others if r.objective <= target]
        return min(self.longest, 1.5 * min(reaching, default=self.longest))

    def refine(self, name: str, ladders: dict[str, list[Rung]], target: float) -> None:
        """Try settings between the last rung that misses and the first that reaches."""
        rungs = ladders[name]
        reaching = [k for k, r in enumerate(rungs) if r.objective <= target]
        if not reaching or reaching[0] == 0 or not isinstance(rungs[0].setting, int):
            return
        low, high = rungs[reaching[0] - 1], rungs[reaching[0]]
        if low.first_seconds > min(ENOUGH, self._patience(ladders, name, target)):
            return
        for _ in range(_HALVINGS):
            setting = (low.setting + high.setting) // 2
            if setting == low.setting:
                break
            rung = self._rung(name, setting)
            rungs.insert(rungs.index(high), rung)
            low, high = (low, rung) if rung.objective <= target else (rung, high)

    def _rung(self, name: str, setting: Any) -> Rung:
        found = self._kept.find(self._fit_name(name, setting), setting)
        if found is not None:
            return found
        seconds, model = cpu_seconds(partial(self.fit_peer, name, setting))
        gap = relative_gap(model) if hasattr(model, "dual_gap_") else None
        mend = not self.peers[name].own_intercept
        return Rung(setting, self.objective(model, mend), seconds, gap)

    def keep(self, name: str, rung: Rung) -> None:
        self._kept.keep(self._fit_name(name, rung.setting), rung)

    def _fit_name(self, name: str, setting: Any) -> str:
        part, cell = self.part, self.cell
        intercept = "free intercept" if part.fit_intercept else "no intercept"
        return (
            f"{part.loss}, {intercept}, {cell.task}, {len(self.y)} rows, {cell.reg_lambda:g}, "
            f"{name} at {setting!r}, cpu_seconds in 1 threads"
        )

    def within(self, best: float) -> float:
        return best * (1.0 + self.part.suboptimality)


def relative_gap(model: Any) -> float:
    return model.dual_gap_ / model.objective_


def compare(
    part: Part, cell: Cell, X: Any, y: Array, repeat: int, kept: KeptFits
) -> dict[str, Any]:
    """All numbers of a row."""
    return hold(Contest(part, cell, X, y, kept), repeat)


def hold(contest: Contest, repeat: int) -> dict[str, Any]:
    """All numbers of a row; the first fits compile and find the settings, and are not timed."""
    part = contest.part
    seconds, model = contest.first_fit()
    own = Rung("ours", contest.objective(model), seconds, relative_gap(model))
    reference = contest.fit_reference(model)
    best = min(own.objective, contest.objective(reference))
    ladders, best = contest.climb(own, best)
    targets: dict[str, dict[str, float]] = {}
    for name, peer in contest.peers.items():
        lowest = min(r.objective for r in ladders[name])
        known = {
            "J*": contest.within(best),
            "our J": own.objective,
            "end": contest.within(lowest),
        }
        targets[name] = {aim: known[aim] for aim in peer.aims}
    for name, aims in targets.items():
        for target in aims.values():
            contest.refine(name, ladders, target)
    fits = [(own, contest.fit_ours)]
    for name, rung in _worth_timing(part, ladders, targets):
        fits.append((rung, partial(contest.fit_peer, name, rung.setting)))
    time_rungs(fits, repeat, cpu_seconds, contest.enough)
    for name, rungs in ladders.items():
        for rung in rungs:
            contest.keep(name, rung)
            rung.seconds = rung.seconds or rung.first_seconds
    return {
        **asdict(contest.cell),
        "n": contest.X.shape[0],
        "d": contest.X.shape[1],
        "best": best,
        "bound": max(model.lower_bound_, reference.lower_bound_),
        "claimed": model.objective_,
        "suboptimality": part.suboptimality,
        "n_iter": model.n_iter_,
        "passes": int(model.history_["passes"][-1]),
        "status": model.status_,
        "solver": solvers_used(model),
        "reference_status": reference.status_,
        "ours": asdict(own),
        "peers": {name: _record(rungs, targets[name]) for name, rungs in ladders.items()},
    }


def _worth_timing(
    part: Part, ladders: dict[str, list[Rung]], targets: dict[str, dict[str, float]]
) -> list[tuple[str, Rung]]:
    """The rungs that, after one noisy run, may be the cheapest for an aim; once each."""
    found = {
        (name, rung.setting): (name, rung)
        for name, aims in targets.items()
        for target in aims.values()
        for rung in candidates(ladders[name], target)
        if rung.seconds is None  # not a kept one
    }
    if part.best_of:
        least = min((rung.first_seconds for _, rung in found.values()), default=0.0)
        return [pair for pair in found.values() if pair[1].first_seconds <= 1.5 * least]
    return list(found.values())


def _record(rungs: list[Rung], targets: dict[str, float]) -> dict[str, Any]:
    """What the cheapest setting for each aim was, and the whole ladder."""
    chosen = {aim: cheapest(rungs, target) for aim, target in targets.items()}
    return {
        "chosen": {aim: rung and asdict(rung) for aim, rung in chosen.items()},
        "ladder": [asdict(r) for r in rungs],
    }


def _is_high_enough(peer: Peer, rungs: list[Rung], target: float) -> bool:
    """Whether the rest of a ladder is waste.

    LIBLINEAR's objective is not monotone: where its whole ladder is of interest, one rung below the
    target does not end it.
    """
    last = [r.objective for r in rungs[-2:]]
    if peer.monotone:
        return last[-1] <= target
    if len(last) == 1:
        return False
    if last[0] == last[1] and isinstance(rungs[-1].setting, int):  # more steps change nothing
        return True
    if "end" in peer.aims:
        return sum(r.first_seconds for r in rungs) > LONG
    return max(last) <= target


def solvers_used(model: Any) -> str:
    """What ours ran, in order, where its history tells; else its parameter."""
    fields = model.history_.dtype.names
    if "solver" in fields:
        return "+".join(dict.fromkeys(map(str, model.history_["solver"])))
    return getattr(model, "solver", "-")
