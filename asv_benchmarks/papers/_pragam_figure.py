"""Figures 1 to 4 of Saha, Zhang and Vishwanathan on our data, a row each, and the lower bound."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from _common import line
from _pragam_data import Task
from _pragam_findings import Traces
from _pragam_lower_bound import DIMENSION, REG_LAMBDA

_FLOOR = 1e-6  # where the solvers end
_ORDER = ("pragam", "ls-bmrm", "qp-bmrm", "liblinear", "pegasos-n", "pegasos-1", "pragam-b")


def make(plt: Any, tasks: Sequence[Task], traces: Traces, best: dict[str, float]) -> Any:
    """A column a data set."""
    figure, axes = plt.subplots(4, len(tasks), figsize=(2.6 * len(tasks), 9.6), squeeze=False)
    for column, task in zip(axes.T, tasks, strict=True):
        column[0].set_title(task.name)
        for which, name in enumerate(_ORDER):
            trace = traces[task.name][name]
            units = ("iteration", "seconds")
            if name != "pragam-b":
                error = np.maximum(trace.error(best[task.name]), _FLOOR)
                for ax, unit in zip(column[:2], units, strict=True):
                    if (name, unit) != ("pegasos-1", "iteration"):
                        line(ax, getattr(trace, unit), error, which, name)
            for ax, unit in zip(column[2:], units, strict=True):
                if (name, unit) != ("pegasos-1", "iteration"):
                    line(ax, trace.at_looks(unit), trace.accuracy, which, name)
        highest = max(trace.accuracy[-1] for trace in traces[task.name].values())
        for ax, x in zip(column, 2 * ("iterations", "CPU time (s)"), strict=True):
            ax.set(xscale="log", xlabel=x)
        for ax in column[:2]:
            ax.set(yscale="log", ylim=(_FLOOR, 3.0))
        for ax in column[2:]:
            ax.set_ylim(highest - 12.0, highest + 1.0)
    names = ("figure 1: J - J*", "figure 2: J - J*", "figure 3: test accuracy (%)")
    for row, name in zip(axes, (*names, "figure 4: test accuracy (%)"), strict=True):
        row[0].set_ylabel(name)
    handles, labels = axes[3, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4)
    return figure


def make_rates(plt: Any, unit: np.ndarray, paper: np.ndarray, rate: tuple, name: str) -> Any:
    """The two theorems: lower bound for BMRM, upper bound for Pragam."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.0, 3.6))
    t = np.arange(1, len(unit) + 1)
    line(left, t, unit, 0, r"BMRM, $a_i = e_i$")
    line(left, t, 1.0 / (2.0 * REG_LAMBDA * t), 1, r"$1/(2 \lambda t)$", marker="")
    closed = np.maximum(paper[:2], 1e-3)
    line(left, [1, 2], closed, 2, "BMRM, the paper's A (gap 0 at t = 2)", markevery=1)
    left.set(xscale="log", yscale="log", xlabel="iterations t", ylabel="absolute gap")
    left.set_title(rf"Theorem 6: d = {DIMENSION}, $\lambda$ = {REG_LAMBDA:g}")
    fixed, adaptive, bound = rate
    line(right, fixed.iteration, fixed.gap, 0, "Algorithm 1, L known")
    line(right, fixed.iteration, bound, 1, "bound (26)", marker="")
    line(right, adaptive.iteration, adaptive.gap, 2, "L adapted, with restarts")
    right.set(xscale="log", yscale="log", xlabel="iterations k", ylabel="absolute gap")
    right.set_title(f"Pragam on {name}")
    for ax in (left, right):
        ax.legend()
    return figure
