"""The contest of SDCACRF with CRFsuite on one task."""

from collections.abc import Callable, Sequence
from functools import partial
from statistics import median
from typing import Any

import numpy as np
from _chains import ChainTask, Part
from _crf_curves import Curves
from _crf_watch import watch
from _crfsuite import PEERS
from _measure import LONG, cpu_seconds

from sklearn_bundle import SDCACRF
from sklearn_bundle.chain.model import taken_apart

TARGETS = (1e-1, 1e-3, 1e-6)
POINTS = 0.2  # of the score
_MOST_EPOCHS = 1000


def make_ours(task: ChainTask, solver: str | None, **settings: Any) -> SDCACRF:
    """With CRFsuite's model: no biases of labels."""
    if solver is not None:
        settings["solver"] = solver
    fixed = {"reg_lambda": task.reg_lambda, "fit_intercept": False, "n_jobs": 1, "random_state": 0}
    return SDCACRF(**fixed, **settings)


class Contest:
    """Our fits, timed here, and the peers' curves."""

    def __init__(
        self,
        task: ChainTask,
        curves: Curves,
        peers: Sequence[str],
        solver: str | None,
        repeat: int,
    ):
        self._task, self._curves, self._peers = task, curves, peers
        self._solver, self._repeat = solver, repeat
        self._rungs: dict[tuple[float, int], dict[str, Any]] = {}
        self._traces: dict[float, list[dict[str, Any]]] = {}

    def compare(self) -> dict[str, Any]:
        """All numbers of a task."""
        task = self._task
        self._fit(max_iter=2)  # compiles
        reference = self._fit(tol=1e-8, max_iter=_MOST_EPOCHS, max_time=5 * LONG)
        best = reference.objective_
        for name in self._peers:
            if PEERS[name].same_model:
                best = min(best, self._curves.run(name)["final"]["objective"])
        targets = [self._target(eps, best) for eps in TARGETS]
        certified = {target["eps"]: target["gap"] for target in targets}
        return {
            "task": task.name,
            "solver": reference.solver,
            "n": len(task.train.labels),
            "best": best,
            "bound": reference.lower_bound_,
            "checks": self._checks(reference),
            "targets": targets,
            "to_first": self._to_first(certified[1e-3], best),
            "certified_score": certified[1e-3] and next(iter(certified[1e-3]["scores"].values())),
            "scores": self._scores(certified[1e-6] or self._timed(self._once(tol=1e-6))),
            "whole": self._whole(),
        }

    def _fit(self, **settings: Any) -> Any:
        part = self._task.train
        return make_ours(self._task, self._solver, **settings).fit(part.matrices, part.labels)

    def _once(self, **settings: Any) -> dict[str, Any]:
        """One fit: its CPU seconds, and what it reaches."""
        settings = {"max_iter": _MOST_EPOCHS, **settings}
        seconds, model = cpu_seconds(partial(self._fit, **settings))
        return {
            "settings": settings,
            "first_seconds": seconds,
            "n_iter": int(model.n_iter_),
            "objective": float(model.objective_),
            "gap": float(model.dual_gap_ / model.objective_),
            "status": str(model.status_),
            "solver": model.solver_,
            "scores": self._task.scores(lambda part: predicted(model, part)),
        }

    def _timed(self, found: dict[str, Any]) -> dict[str, Any]:
        """The same with the median of more runs, unless the first took long."""
        if "seconds" not in found:
            first, fit = found["first_seconds"], partial(self._fit, **found["settings"])
            times = 0 if first > LONG else self._repeat
            found["runs"] = [cpu_seconds(fit)[0] for _ in range(times)] or [first]
            found["seconds"] = median(found["runs"])
        return found

    def _target(self, eps: float, best: float) -> dict[str, Any]:
        """What it takes to a certified gap and to a suboptimality; None where it is not reached."""
        gap = self._timed(self._once(tol=eps))
        goal = best * (1.0 + eps)
        reached = [self._until(eps, lambda fit: fit["objective"] <= goal)]
        if gap["objective"] <= goal:
            reached.append(gap)
        return {
            "eps": eps,
            "gap": gap if gap["status"] == "converged" else None,
            "suboptimality": min(filter(None, reached), key=_seconds, default=None),
            "peers": {
                name: self._peer(name, goal) for name in self._peers if PEERS[name].same_model
            },
        }

    def _until(self, tol: float, reached: Callable[[dict], bool]) -> dict[str, Any] | None:
        """The fit with ``tol`` and of the fewest epochs that is good enough."""
        for epochs, truth in enumerate(self._trace(tol), 1):
            if reached(truth):
                fit = self._rung(tol, epochs)  # ends in a full pass, so differs in the last digits
                if reached(fit):
                    return self._timed(fit)
        return None

    def _rung(self, tol: float, epochs: int) -> dict[str, Any]:
        if (tol, epochs) not in self._rungs:
            self._rungs[tol, epochs] = self._once(tol=tol, max_iter=epochs)
        return self._rungs[tol, epochs]

    def _trace(self, tol: float) -> list[dict[str, Any]]:
        """One fit: the objective and the scores after each epoch."""
        if tol not in self._traces:
            trace = self._traces[tol] = []
            n_labels = len(self._task.classes)
            model = self._fit(max_iter=1)

            def look(truth: dict[str, Any], w: np.ndarray) -> bool:
                parts = taken_apart(w, n_labels)
                model.coef_, model.transitions_ = parts.coef, parts.transitions
                scores = self._task.scores(lambda part: predicted(model, part))
                trace.append({**truth, "scores": scores})
                return False

            settings = {} if self._solver is None else {"solver": self._solver}
            settings |= {"fit_intercept": False, "max_iter": _MOST_EPOCHS, "tol": tol}
            watch(self._task, look, max_seconds=5 * LONG, **settings)
        return self._traces[tol]

    def _peer(self, name: str, goal: float) -> dict[str, Any]:
        reached = self._curves.until(name, goal)
        run = self._curves.run(name)
        iterations, seconds = reached or (len(run["seconds"]), run["seconds"][-1])
        model = self._curves.model(name, iterations) if reached else None
        return {
            "reached": reached is not None,
            "iterations": iterations,
            "seconds": seconds,
            "scores": model and model["scores"],
        }

    def _checks(self, reference: Any) -> dict[str, float]:
        """Relative differences of the objectives as told and as computed here, in numpy."""
        own = self._task.objective(reference.coef_, reference.transitions_)
        checks = {"ours": abs(own - reference.objective_) / own}
        if "lbfgs-all" in self._peers:
            run = self._curves.run("lbfgs-all")
            told, here = run["losses"][-1], run["final"]["objective"]
            checks["lbfgs-all"] = abs(told - here) / here
        return checks

    def _to_first(self, certified: dict[str, Any] | None, best: float) -> list[dict[str, float]]:
        if certified is None or "lbfgs-all" not in self._peers:
            return []
        seconds = self._peer("lbfgs-all", best * (1.0 + TARGETS[0]))["seconds"]
        features = self._curves.run("lbfgs-all")["feature_seconds"]
        own = certified["seconds"]
        return [{"ratio": seconds / own, "without": (seconds - features) / own}]

    def _scores(self, final: dict[str, Any]) -> dict[str, dict[str, Any]]:
        """For every test part, what a score within POINTS of the final one takes."""
        found: dict[str, dict[str, Any]] = {}
        for test, score in final["scores"].items():
            least = score - POINTS
            rung = self._until(1e-6, lambda fit, t=test, s=least: fit["scores"][t] >= s) or final
            sides = {"ours": (rung["n_iter"], rung["seconds"], rung["scores"][test], score)}
            for name in set(self._peers) - {"lbfgs-all"}:  # many runs of minutes
                ends = self._curves.run(name)["final"]["scores"][test]
                sides[name] = (*self._curves.until_score(name, test, POINTS), ends)
            keys = ("iterations", "seconds", "score", "final")
            found[test] = {side: dict(zip(keys, v, strict=True)) for side, v in sides.items()}
        return found

    def _whole(self) -> dict[str, dict[str, Any]]:
        """From what people have to a model: arrays or lists of attribute strings."""
        part, models = self._task.train, []

        def fit() -> None:
            model = make_ours(self._task, self._solver, tol=1e-3, max_iter=_MOST_EPOCHS)
            models[:] = [model.fit(part.raw, part.labels)]

        fit()
        seconds = median(cpu_seconds(fit)[0] for _ in range(self._repeat))
        prepared = self._timed(self._once(tol=1e-3))["seconds"]
        scores = self._task.scores(lambda part: models[0].predict(part.raw))
        sides = {"ours": {"seconds": seconds, "strings": seconds - prepared, "scores": scores}}
        for name in self._peers:
            run = self._curves.run(name)
            sides[name] = {
                "seconds": run["append_seconds"] + run["total_seconds"],
                "strings": run["append_seconds"],
                "scores": run["final"]["scores"],
            }
        return sides


def _seconds(fit: dict[str, Any]) -> float:
    return fit["seconds"]


def predicted(model: Any, part: Part) -> list[list[str]]:
    return model.predict(part.matrices)
