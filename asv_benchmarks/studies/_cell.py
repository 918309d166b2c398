"""A cell: a data set, our fit, its peers, and how both are judged; and the one way to run it.

Ours runs with its own stopping rule. A peer without a certificate climbs a ladder of its settings
until its objective is within the cell's tolerance of the lowest one that anybody reached, and that
setting is timed in turns with ours: CPU seconds in one process and one thread, medians after a
first run. What looks for the setting runs in a fork with a limit, since compiled fits cannot be
interrupted.
"""

import gc
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from math import ceil
from multiprocessing import get_context
from multiprocessing.connection import Connection
from statistics import median
from time import process_time
from typing import Any, NamedTuple

import numpy as np
from _clock import cpu_seconds
from threadpoolctl import threadpool_limits

TOL = 1e-3  # relative: our certified gap, and the excess over the optimum at which peers count
ITERATIONS = tuple(sorted({k * 2**j for j in range(13) for k in (2, 3)} | {1}))
TOLERANCES = tuple(factor * 10.0**-k for k in range(-1, 12) for factor in (1.0, 0.3))
_REFERENCE = 1e-3  # of the tolerance: the gap of the fit that knows the optimum
_LEAST, _FACTOR = 8.0, 100.0  # a peer has so many seconds, or so many times ours
_SHORT = 0.2  # seconds that a peer has beside one that got there
_ENOUGH = 20.0  # CPU seconds of all runs of a cell, after which none is repeated
_FEW = 200  # rows of a fit that compiles a peer
_SAMPLE = 0.01  # CPU seconds: shorter actions are repeated until then


class Data(NamedTuple):
    """A training part and, where there is one, a test part."""

    X: Any
    y: Any
    X_test: Any = None
    y_test: Any = None


@dataclass(frozen=True)
class Peer:
    """Another way to the same model, at settings from the cheapest on.

    ``make(setting)`` is an estimator; ``fit(data, setting)`` does the whole fit where it is none.
    """

    make: Callable[[Any], Any] | None = None
    ladder: tuple = (None,)
    by_columns: bool = False  # it works on F-ordered or CSC data, and copies others
    compiles: bool = False  # in every process anew
    takes: Callable[[Data], bool] = lambda data: True
    fit_data: Callable[[Data, Any], Any] | None = None
    trace: bool = False  # a fit returns its seconds and objectives after each iteration

    def fit(self, data: Data, setting: Any) -> Any:
        if self.fit_data is not None:
            return self.fit_data(data, setting)
        return self.make(setting).fit(data.X, data.y)


class Sides(NamedTuple):
    """Both sides of a cell, of its data.

    ``ours(**changes)`` fits; changes are parameters such as ``tol``. ``objective`` is that of a
    model, a number or one for each problem; without it each side ends by its own rule.
    """

    ours: Callable[..., Any]
    peers: dict[str, Peer]
    objective: Callable[[Any], Any] | None = None


@dataclass(frozen=True)
class Cell:
    """One comparison."""

    row: str
    data: str
    setting: float
    load: Callable[[], Data]
    sides: Callable[[Data], Sides]
    within: float = TOL
    also: dict[str, Callable[[Any, Data], Any]] = field(default_factory=dict)  # timed, of models
    figures: Callable[[Any, Any, Data], dict[str, Any]] | None = None  # of both models

    @property
    def name(self) -> str:
        return f"{self.row} {self.data} {self.setting:g}"


class LimitError(Exception):
    """The run took more than its seconds."""


def run_limited(run: Callable[[], Any], seconds: float) -> Any:
    """What ``run()`` returns; a LimitError if it takes more, and its own error if it raises one."""
    context = get_context("fork")
    here, there = context.Pipe(duplex=False)
    child = context.Process(target=_in_child, args=(run, ceil(seconds) + 1, there))
    child.start()
    there.close()  # or the end of the child would not end the pipe
    try:
        succeeded, value = here.recv()
    except EOFError:
        raise LimitError(f"more than {seconds:g} s") from None
    finally:
        here.close()
        child.join()
    if not succeeded:
        raise RuntimeError(value)
    return value


def _in_child(run: Callable[[], Any], seconds: int, there: Connection) -> None:
    import resource  # here, since Windows has none

    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    try:
        there.send((True, run()))
    except Exception as error:  # another library's, whatever it is: the parent raises its text
        there.send((False, f"{type(error).__name__}: {error}"))


class Rung(NamedTuple):
    """A peer at a setting: the seconds of one fit, and whether it got there."""

    name: str
    setting: Any
    seconds: float
    reached: bool


class Contest:
    """The runs of one cell."""

    def __init__(self, cell: Cell, data: Data, limit: float):
        self.cell, self.limit, self.notes = cell, limit, []
        self.data = {False: data}
        self.ours, peers, self.objective = cell.sides(data)
        self.peers = {name: peer for name, peer in peers.items() if peer.takes(data)}

    def run(self, repeat: int) -> dict[str, Any]:
        with threadpool_limits(1), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return self._run(repeat)

    def _run(self, repeat: int) -> dict[str, Any]:
        cell = self.cell
        self.ours()  # compiles
        self.seconds, self.model = cpu_seconds(self.ours)
        self.best = np.inf
        if self.objective is not None:
            more = {"tol": _REFERENCE * cell.within, "max_time": self.limit}
            for model in (self.model, self.ours(**more)):
                self.best = np.minimum(self.best, self.objective(model))
        rung = self._fastest()
        result = {"row": cell.row, "data": cell.data, "setting": cell.setting, **_facts(self.model)}
        result |= self._times(rung, repeat)
        if self.objective is not None:
            result |= self._checks()
        result |= getattr(self.model, "figures", {})
        return result | {"notes": self.notes}

    def _checks(self) -> dict[str, Any]:
        """Whether the certificate holds against the lowest objective of all sides."""
        bound = getattr(self.model, "lower_bound_", None)
        scale = 1e-9 * np.abs(self.best)
        false = bound is not None and np.any(bound > self.best + scale)
        excess = self.objective(self.model) / self.best - 1.0
        return {"excess": float(np.max(excess)), "false_bound": bool(false)}

    def _arranged(self, peer: Peer) -> Data:
        """The data as the peer wants them."""
        if peer.by_columns not in self.data:
            data = self.data[False]
            X = data.X.tocsc() if hasattr(data.X, "tocsc") else np.asfortranarray(data.X)
            self.data[peer.by_columns] = data._replace(X=X)
        return self.data[peer.by_columns]

    def _fastest(self) -> Rung | None:
        """The peer that gets there first; if none does, the one that was tried for longest."""
        fastest, failed = None, []
        limit = min(self.limit, max(_LEAST, _FACTOR * self.seconds))
        for name in self.peers:
            rung = self._climb(name, limit)
            if rung is None:
                continue
            if not rung.reached:
                failed.append(rung)
            elif fastest is None or rung.seconds < fastest.seconds:
                fastest, limit = rung, min(limit, max(_SHORT, 1.5 * rung.seconds))
        return fastest or max(failed, key=lambda rung: rung.seconds, default=None)

    def _climb(self, name: str, limit: float) -> Rung | None:
        """The first setting of a peer that gets there, or the last one; None if it fails."""
        peer = self.peers[name]
        data = self._arranged(peer)
        if peer.compiles:
            few = slice(None, None, max(1, len(data.y) // _FEW))
            peer.fit(
                data._replace(X=data.X[few], y=data.y[few]), peer.ladder[len(peer.ladder) // 2]
            )
        if peer.trace:
            return self._trace(name, data)
        rung = None
        for setting in peer.ladder:
            try:
                seconds, value = run_limited(partial(self._measure, peer, data, setting), limit)
            except LimitError:
                return Rung(name, setting, limit, False)
            except RuntimeError as error:
                self.notes.append(f"{name} at {setting} failed: {str(error)[:200]}")
                return rung
            self.best = np.fmin(self.best, value)
            rung = Rung(name, setting, seconds, self._is_there(value))
            if rung.reached:
                break
        return rung

    def _measure(self, peer: Peer, data: Data, setting: Any) -> tuple[float, Any]:
        seconds, model = cpu_seconds(partial(peer.fit, data, setting))
        return seconds, np.nan if self.objective is None else self.objective(model)

    def _is_there(self, value: Any) -> bool:
        if self.objective is None:
            return True
        return bool(np.all(value <= self.best * (1.0 + self.cell.within)))

    def _trace(self, name: str, data: Data) -> Rung:
        """The iteration of one run at which the objective is low enough."""
        points = self.peers[name].fit(data, None)
        self.best = min(self.best, min(value for _, value in points))
        for k, (seconds, value) in enumerate(points, 1):
            if self._is_there(value):
                return Rung(name, k, seconds, True)
        return Rung(name, None, points[-1][0], False)

    def _times(self, rung: Rung | None, repeat: int) -> dict[str, Any]:
        """Medians of both sides in turns, and of what their models do."""
        data = self.data[False]
        runs = {"ours": self.ours}
        taken = {"ours": [self.seconds], "peer": [] if rung is None else [rung.seconds]}
        models = {"ours": self.model}
        if rung is not None and rung.reached and not self.peers[rung.name].trace:
            peer = self.peers[rung.name]
            runs["peer"] = partial(peer.fit, self._arranged(peer), rung.setting)
            taken["peer"] = []
        for _ in range(repeat):
            for side, run in runs.items():
                if not taken[side] or sum(taken[side]) < _ENOUGH:
                    seconds, models[side] = cpu_seconds(run)
                    taken[side].append(seconds)
        taken["ours"] = taken["ours"][1:] or taken["ours"]
        own = median(taken["ours"])
        result: dict[str, Any] = {"seconds": own}
        if rung is not None:
            theirs = median(taken["peer"])
            mark = "" if rung.reached else ">"
            mark = mark if self.converged else "?" if mark else "<"
            result |= {"peer": rung.name, "at": rung.setting, "peer_seconds": theirs}
            result["ratio"] = [theirs / own, mark]
        if "peer" in models:
            for name, act in self.cell.also.items():
                own, theirs = (_action(partial(act, models[k], data), repeat) for k in runs)
                result |= {name: [theirs / own, ""], f"{name}_seconds": [own, theirs]}
            if self.cell.figures is not None:
                result |= self.cell.figures(models["ours"], models["peer"], data)
        return result

    @property
    def converged(self) -> bool:
        return bool(np.all(getattr(self.model, "converged_", True)))


def _action(act: Callable[[], Any], repeat: int) -> float:
    """The median CPU seconds of what may be short."""
    taken = []
    act()  # which may compile
    gc.collect()
    for _ in range(repeat):
        n_runs, start = 0, process_time()
        while process_time() - start < _SAMPLE:
            act()
            n_runs += 1
        taken.append((process_time() - start) / n_runs)
    return median(taken)


def _facts(model: Any) -> dict[str, Any]:
    """What our fit says about itself."""
    gap, status = getattr(model, "relative_gap_", None), getattr(model, "status_", None)
    facts = {} if gap is None else {"gap": float(np.max(gap))}
    return facts | ({} if status is None else {"status": ", ".join(sorted({*np.ravel(status)}))})
