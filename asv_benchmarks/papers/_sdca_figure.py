"""Figures 2, 3, 4, 6, 7 and 9 of Le Priol et al. (2018), from the fits here."""

from typing import Any

import numpy as np
from _common import line
from _sdca_fits import LBFGS, SAMPLINGS, SHARES, SOLVERS, TOL, Fit, ratio_of_gaps

_TITLES = {"ocr": "OCR", "conll2000": "CONLL", "conll2002_ned": "NER"}


def draw(found: dict[str, dict[str, Any]], plt: Any) -> Any:
    """Samplings, shares and the ratio of gaps in the first row, then solvers, a task a column."""
    tasks = [*found.values()]
    titles = [_TITLES.get(name, name) for name in found]
    width = max(3, len(tasks))
    figure, axes = plt.subplots(4, width, figsize=(4.0 * width, 11.0))
    first, last = tasks[0], tasks[-1]
    _suboptimality(axes[0, 0], first, SAMPLINGS, "epochs", names="sampling")
    axes[0, 0].legend()
    axes[0, 0].set_title(f"{titles[0]}: samplings of SDCA (fig. 2)")
    _suboptimality(axes[0, 1], last, SHARES, "epochs", names="share")
    axes[0, 1].legend(title="share")
    axes[0, 1].set_title(f"{titles[-1]}: share of gap sampling (fig. 3)")
    _ratios(axes[0, 2], last)
    axes[0, 2].set_title(f"{titles[-1]}: is the gap known? (fig. 9)")
    for k, (task, title) in enumerate(zip(tasks, titles, strict=True)):
        _suboptimality(axes[1, k], task, SOLVERS, "oracle_calls", names="label")
        axes[1, k].set_title(f"{title}: oracle calls (fig. 4 and 6)")
        _suboptimality(axes[2, k], task, SOLVERS, "epochs", names="label")
        axes[2, k].set_title(f"{title}: parameter updates (fig. 4)")
        _errors(axes[3, k], task)
        axes[3, k].set_title(f"{title}: test error (fig. 7)")
    # One legend for all solvers' panels: in the others it would cover curves.
    axes[3, min(1, len(tasks) - 1)].legend(loc="upper right")
    for ax in axes[:, len(tasks) :].ravel():
        if not ax.has_data():
            ax.set_axis_off()
    return figure


def _suboptimality(ax: Any, task: dict[str, Any], kinds: Any, over: str, names: str) -> None:
    fits = [task["fits"][kind] for kind in kinds if kind in task["fits"]]
    for k, fit in enumerate(fits):
        excess = fit.excess(task["best"])
        within = np.flatnonzero(excess <= TOL)
        end = len(excess) if len(within) == 0 else within[0] + 1
        line(ax, fit.curve[over][:end], np.maximum(excess[:end], 0.1 * TOL), k, _name(fit, names))
    longest = max(fit.curve[over][-1] for fit in fits if fit.kind != LBFGS)
    ax.set_xlim(0.0, longest)
    ax.set_yscale("log")
    ax.set_ylim(bottom=0.2 * TOL)
    ax.set_xlabel("oracle calls / n" if over == "oracle_calls" else "parameter updates / n")
    ax.set_ylabel("relative suboptimality")


def _name(fit: Fit, names: str) -> str:
    if names == "share":
        return f"{0.0 if fit.kind.sampling == 'uniform' else fit.kind.share:g}"
    return fit.kind.sampling if names == "sampling" else fit.kind.label


def _ratios(ax: Any, task: dict[str, Any]) -> None:
    fits = [task["fits"][kind] for kind in SHARES if kind in task["fits"]]
    for k, (fit, ratios) in enumerate(ratio_of_gaps(fits, len(task["task"].train.labels))):
        line(ax, fit.curve["epochs"][-len(ratios) :], ratios, k, _name(fit, "share"))
    ax.axhspan(0.5, 2.0, color="#eeeeee", zorder=0)
    ax.set_yscale("log")
    ax.set_xlabel("parameter updates / n")
    ax.set_ylabel("estimated gap / true gap")
    ax.legend(title="share")


def _errors(ax: Any, task: dict[str, Any]) -> None:
    for k, kind in enumerate(SOLVERS):
        epochs, errors = task["fits"][kind].tests
        line(ax, epochs, errors, k, kind.label, markevery=1)
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlabel("parameter updates / n")
    ax.set_ylabel("test error, % of the labels")
