"""The contest of one row of the study ``cells`` on one set at one reg_lambda.

A peer's fits that look for its cheapest setting run in a child process with a limit, those that are
timed then in this one, in turns with ours.
"""

import os
from functools import partial
from math import inf, isfinite
from typing import Any

import numpy as np
from _cells_limit import LimitError, run_limited
from _cells_objective import objective_at_zero, objective_of
from _cells_rows import Row
from _contest import Cell, Contest, hold
from _linear_kept import KeptFits
from _measure import Rung, cpu_seconds
from _measures_common import SLOW
from benchmarks.common import Array

_REFERENCE_TOL = 1e-7
_REFERENCE_TIME = 10.0  # seconds
_PLANE_ENTRIES = 1 << 28  # 2 GiB of planes are the most that a fit of ours may keep
_LEAST_LIMIT = 2.0  # seconds, whatever ours takes
_OUR_FACTOR = 10.0  # a peer has so many times our seconds
_ENOUGH = 10.0  # seconds of all runs of a fit, after which it is not repeated
_FEW_ROWS = 200  # of the fit that compiles
_DOUBT = 0.1  # of the suboptimality asked for: more that is unknown of the optimum is too much
_ROUNDING = 1e-11  # of objectives and bounds, relative to the size of their terms


def _load() -> float:
    """Seconds on the wall clock for one of CPU time, roughly."""
    return max(1.0, os.getloadavg()[0] / os.cpu_count())


class CellContest(Contest):
    """With the objective of any loss, and a limit for every fit."""

    def __init__(
        self,
        row: Row,
        cell: Cell,
        X: Any,
        y: Array,
        kept: KeptFits,
        limit: float,
        solver: str | None = None,
    ):
        super().__init__(row, cell, X, y, kept)
        self._solver = {} if solver is None else {"solver": solver}
        self.enough = _ENOUGH
        self.notes: list[str] = []
        self._most_seconds = limit
        self._reg_lambda: float = cell.reg_lambda
        self._parameters: dict[str, float] = {}
        self._bound = -inf
        if row.restate is not None:
            self._reg_lambda, self._parameters = row.restate(X, y, cell.reg_lambda)

    def first_fit(self) -> tuple[float, Any]:
        """Of the second, unless it is slow: "auto" may change its solver late, and compile then."""
        seconds, model = cpu_seconds(self.fit_ours)
        return (seconds, model) if seconds > SLOW else cpu_seconds(self.fit_ours)

    def fit_ours(self, **limits: Any) -> Any:
        """Its limit is on the wall clock, of which other work on the machine takes its part."""
        seconds = limits.pop("max_time", self._most_seconds) * _load()
        limits = {"max_time": seconds, **self._most_planes(1000), **self._solver, **limits}
        model = self.part.ours(reg_lambda=self._reg_lambda, **self._parameters)
        return model.set_params(**limits).fit(self.X, self.y)

    def fit_reference(self, model: Any) -> Any:
        """A more accurate fit, which says what the optimum is, where one is within reach."""
        self._bound = model.lower_bound_
        if model.status_ != "converged":
            return model
        limits = {"max_time": _REFERENCE_TIME, **self._most_planes(20_000)}
        reference = self.fit_ours(tol=_REFERENCE_TOL, **limits)
        self._bound = max(self._bound, reference.lower_bound_)
        return reference

    def _most_planes(self, max_iter: int) -> dict[str, int]:
        classes = len(np.unique(self.y)) if self.part.kind == "multiclass" else 1
        return {"max_iter": min(max_iter, max(100, _PLANE_ENTRIES // (classes * self.X.shape[1])))}

    def objective(self, model: Any, mend_intercept: bool = False) -> float:
        data = self.X, self.y, self._reg_lambda
        return objective_of(model, *data, self.part.loss, self.part.l1_ratio, **self._parameters)

    def climb(self, own: Rung, best: float) -> tuple[dict[str, list[Rung]], float]:
        """As ever, within ten times our seconds or the limit of all fits, the smaller one."""
        self.longest = min(self._most_seconds, max(_LEAST_LIMIT, _OUR_FACTOR * own.first_seconds))
        for name, peer in list(self.peers.items()):
            if peer.compile is not None and not self._could_compile(name):
                del self.peers[name]
        if best - self._bound > _DOUBT * self.part.suboptimality * best:
            best = min(best, self._lowest_of_peers())
        return super().climb(own, best)

    def _lowest_of_peers(self) -> float:
        """What a tight setting of any peer reaches: the optimum, where our bound does not tell it.

        Without it the lowest peer would be at the optimum wherever it stands.
        """
        patient, self.longest = self.longest, self._most_seconds
        reached = [inf]
        for name, peer in self.peers.items():
            for setting in (peer.ladder[-1], peer.ladder[len(peer.ladder) // 2]):
                rung = self._rung(name, setting)
                reached.append(rung.objective)
                if isfinite(rung.objective):
                    break
        self.longest = patient
        return min(reached)

    def _could_compile(self, name: str) -> bool:
        few = slice(None, None, max(1, len(self.y) // _FEW_ROWS))
        try:
            self.peers[name].compile(self.X[few], self.y[few])
        except Exception as error:  # another library's, whatever it is
            self.notes.append(f"{name} failed: {error}")
            return False
        return True

    def _rung(self, name: str, setting: Any) -> Rung:
        found = self._kept.find(self._fit_name(name, setting), setting)
        if found is not None and (isfinite(found.objective) or found.seconds >= self.longest):
            return found
        try:
            seconds, value = run_limited(partial(self._measure, name, setting), self.longest)
        except LimitError:
            return Rung(setting, inf, self.longest)
        except RuntimeError as error:
            self.notes.append(f"{name} at {setting:g} failed: {error}")
            return Rung(setting, inf, self.longest)
        return Rung(setting, value if isfinite(value) else inf, seconds)

    def _measure(self, name: str, setting: Any) -> tuple[float, float]:
        seconds, model = cpu_seconds(partial(self.fit_peer, name, setting))
        return seconds, self.objective(model)

    def size_of_terms(self) -> float:
        return objective_at_zero(self.X, self.y, self.part.loss, **self._parameters)


def compare_cell(contest: CellContest, repeat: int) -> dict[str, Any]:
    """All numbers of a cell."""
    result = hold(contest, repeat)
    reached = [result["best"]]
    for peer in result["peers"].values():
        reached += [rung["objective"] for rung in peer["ladder"]]
    slack = _ROUNDING * max(contest.size_of_terms(), result["best"])
    claimed = result["claimed"]
    return {
        **result,
        "limit": contest.longest,
        "notes": contest.notes,
        "false_bound": result["bound"] > min(reached) + slack,
        "false_objective": abs(claimed - result["ours"]["objective"]) > slack,
    }


def fastest(result: dict[str, Any]) -> tuple[str, dict[str, Any]] | None:
    """The peer that gets there first, and its setting; None if none does."""
    chosen = {name: peer["chosen"]["J*"] for name, peer in result["peers"].items()}
    there = {name: rung for name, rung in chosen.items() if rung is not None}
    if not there:
        return None
    name = min(there, key=lambda k: there[k]["seconds"])
    return name, there[name]


def ratio_of(result: dict[str, Any]) -> tuple[float, str] | None:
    """The peer's seconds over ours, and a mark if that is a bound; None if there is no peer.

    ">": no peer got there within its limit; "<": we did not get to our gap; "?": neither.
    """
    if not result["peers"]:
        return None
    best, done = fastest(result), result["status"] == "converged"
    if best is None:
        tried = result["peers"].values()
        seconds = min(max(rung["first_seconds"] for rung in p["ladder"]) for p in tried)
        return seconds / result["ours"]["seconds"], ">" if done else "?"
    return best[1]["seconds"] / result["ours"]["seconds"], "" if done else "<"
