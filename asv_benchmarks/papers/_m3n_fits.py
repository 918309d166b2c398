"""Max-margin Markov networks by excessive gap and by the other solvers of the same objective."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from _common import Study, line
from _structured_watch import SVMCurve, watch

TARGETS = (1e-1, 1e-2, 1e-3)
SOLVERS = ("excessive-gap", "rsd", "bundle", "bcfw", "auto")


class Task(NamedTuple):
    """Sequences and their labels; ``strength`` is n reg_lambda."""

    name: str
    strength: float
    X: Any
    y: Any

    @property
    def title(self) -> str:
        return f"{self.name}, {self.strength:g}/n"


class Fit(NamedTuple):
    """How a fit went; projections and passes over their edges are those of excessive gap."""

    solver: str
    curve: SVMCurve
    projections: int
    projection_passes: int
    n_iter: int

    @property
    def gaps(self) -> np.ndarray:
        curve = self.curve
        return np.subtract(curve.objective, curve.lower_bound) / np.abs(curve.objective)

    def cell(self, eps: float, what: str, form: str) -> str:
        """Calls or seconds to a gap; ">" is before what it had taken where it did not get there."""
        k = self.curve.at(eps)
        value = getattr(self.curve, what)[-1 if k is None else k]
        return f"{'>' if k is None else ''}{value:{form}}"


def follow(task: Task, solver: str, max_seconds: float, tol: float = TARGETS[-1]) -> Fit:
    """A fit to the last target, or of so many CPU seconds."""
    settings = {"model": "chain", "reg_lambda": task.strength / len(task.y), "solver": solver}
    model, curve = watch(task.X, task.y, max_seconds=max_seconds, tol=tol, **settings)
    counts = [0, 0]
    if solver == "excessive-gap":
        counts = [int(model.history_[f"projection{end}"][-1]) for end in ("s", "_passes")]
    return Fit(solver, curve, *counts, int(model.n_iter_))


def compare_solvers(study: Study, task: Task, limits: dict[str, float]) -> dict[str, Fit]:
    """A table of calls and seconds, and what the paper says that they decide."""
    fits = {}
    for solver in SOLVERS:
        follow(task, solver, 0.0)  # compiles
        fits[solver] = follow(task, solver, limits.get(solver, limits["others"]))
        study.keep(task=task.title, solver=solver, **fits[solver].curve.as_dict())
    columns = ["solver", *(f"calls/n to {eps:g}" for eps in TARGETS)]
    columns += [*(f"CPU s to {eps:g}" for eps in TARGETS), "last gap"]
    rows = []
    for solver, fit in fits.items():
        calls = [fit.cell(eps, "calls", ".0f") for eps in TARGETS]
        seconds = [fit.cell(eps, "seconds", ".2f") for eps in TARGETS]
        rows.append([solver, *calls, *seconds, f"{fit.gaps[-1]:.1e}"])
    study.show(f"{task.title}: certified relative gaps", columns, rows)
    _steps(study, task, fits)
    return fits


def _steps(study: Study, task: Task, fits: dict[str, Fit]) -> None:
    fit, n = fits["excessive-gap"], len(task.y)
    curve = fit.curve
    of_pass = curve.oracle_pass
    own = curve.seconds[-1] - curve.oracle_seconds
    a_step = fit.projections / n / fit.n_iter
    told = (
        f"a step projects every sequence {a_step:.1f} times, each in "
        f"{fit.projection_passes / fit.projections:.1f} passes over its edges; beside the oracle a "
        f"step takes the time of {own / fit.n_iter / of_pass:.0f} passes of the oracle"
    )
    study.compare(
        f"E.1, {task.title}",
        "the projection is much more difficult than that onto a box with an equality",
        told,
        own > curve.oracle_seconds,
    )
    seconds = {solver: fit.curve.at(TARGETS[1]) for solver, fit in fits.items()}
    ours = seconds["excessive-gap"]
    planes = seconds["bundle"]
    calls = ", ".join(f"{s} {fits[s].cell(TARGETS[1], 'calls', '.0f')}" for s in SOLVERS)
    agrees = None
    if planes is not None:
        mine = np.inf if ours is None else curve.calls[ours]
        agrees = mine < fits["bundle"].curve.calls[planes]
    study.compare(
        f"4.2 and 5, {task.title}",
        "it applies to structured data, and reduces the gap in fewer passes than cutting planes",
        f"oracle calls over n to a gap of {TARGETS[1]:g}: {calls}",
        agrees,
    )


def draw(found: Sequence[tuple[Task, dict[str, Fit]]], plt: Any) -> Any:
    """Gaps over oracle calls and over time, a row for each task."""
    figure, axes = plt.subplots(len(found), 2, figsize=(9.0, 3.2 * len(found)), squeeze=False)
    for row, (task, fits) in zip(axes, found, strict=True):
        for ax, over, least in zip(row, ("calls", "seconds"), (0.5, 1e-2), strict=True):
            for k, (solver, fit) in enumerate(fits.items()):
                line(ax, np.maximum(getattr(fit.curve, over), least), fit.gaps, k, solver)
            ax.set(xscale="log", yscale="log", ylim=(5e-4, 1.2), title=task.title)
            ax.set_xlabel("oracle calls / n" if over == "calls" else "CPU seconds")
            ax.set_ylabel("certified relative gap")
    axes[0, 0].legend()
    return figure
