"""Gap over oracle calls and time, and oracle calls by the dimension limit."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from _common import line
from _rsd_data import Task
from _rsd_fits import BY_LIMIT, LIMITS, METHODS, TOL, Fit, Kind

EPS = 1e-2  # relative gap of the panels by limit
Found = list[tuple[Task, dict[Kind, Fit]]]


def draw(found: Found, plt: Any) -> Any:
    """A row for each task."""
    figure, axes = plt.subplots(len(found), 3, figsize=(12.0, 3.4 * len(found)), squeeze=False)
    for row, (task, fits) in zip(axes, found, strict=True):
        methods = [fits[kind] for kind in METHODS if kind in fits]
        _gaps(row[0], methods, "calls")
        _gaps(row[1], methods, "seconds")
        _limits(row[2], fits)
        row[0].set_xlabel("oracle calls / n")
        row[1].set_xlabel("CPU seconds")
        row[0].set_title(f"{task.title}: oracle calls")
        row[1].set_title(f"{task.title}: time")
        row[2].set_title(f"{task.title}: by the limit r")
    axes[0, 0].legend()
    axes[0, 2].legend()
    return figure


def _gaps(ax: Any, fits: Sequence[Fit], over: str) -> None:
    for k, fit in enumerate(fits):
        x = np.maximum(getattr(fit.curve, over), 1e-3 if over == "seconds" else 0.5)
        line(ax, x, np.maximum(fit.gaps, 0.5 * TOL), k, fit.kind.label)
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_ylim(0.4 * TOL, 1.0)
    ax.set_ylabel("certified relative gap")


def _limits(ax: Any, fits: dict[Kind, Fit]) -> None:
    for k, (name, kinds) in enumerate(BY_LIMIT.items()):
        for eps, filled in ((10.0 * EPS, "none"), (EPS, "full")):
            calls = [fits[kind].calls(eps) if kind in fits else None for kind in kinds]
            values = [np.nan if value is None else value for value in calls]
            if np.isnan(values).all():  # a logarithmic axis would not be drawn
                continue
            label = f"{name}, to {eps:g}"
            line(ax, LIMITS, values, k + 1, label, markevery=1, fillstyle=filled)
    ax.set_xscale("log")
    if ax.has_data():
        ax.set_yscale("log")
    ax.set_xticks(LIMITS, [f"{r}" for r in LIMITS])
    ax.minorticks_off()
    ax.set_xlabel("points of a simplex, at most")
    ax.set_ylabel("oracle calls / n")
