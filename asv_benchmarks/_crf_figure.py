"""The curves of ``crf-epochs``, laid out as figures 2 to 4 of the paper."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Fit = dict[str, Any]
_DUAL_SOLVERS = ("sdca", "exponentiated")
_COLOURS = ("C0", "C1", "C2", "C3", "C4", "C5")


def draw(results: list[dict[str, Any]], path: Path) -> None:
    """Primal suboptimality over epochs and oracle calls; needs matplotlib."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    known = {fit["solver"] for fit in results[0]["fits"]}
    dual = [solver for solver in _DUAL_SOLVERS if solver in known]
    rows = [("samplings", solver) for solver in dual] + [("shares", solver) for solver in dual[:1]]
    panels = [(result, *row) for row in rows for result in results]
    panels += [
        (result, "solvers", over) for over in ("oracle_calls", "epochs") for result in results
    ]
    width = len(results)
    figure, axes = plt.subplots(
        len(panels) // width,
        width,
        figsize=(5.0 * width, 2.8 * len(panels) / width),
        squeeze=False,
        layout="constrained",
    )
    for ax, (result, kind, detail) in zip(axes.ravel(), panels, strict=True):
        over = detail if kind == "solvers" else "epochs"
        lines, title = _LINES[kind](result["fits"], detail)
        for colour, (label, fit) in zip(_COLOURS, lines.items(), strict=False):
            floor = 1e-9  # what is below cannot be told from the optimum
            excess = np.maximum(np.array(fit["objective"]) / result["best"] - 1.0, floor)
            ax.semilogy(fit[over], excess, color=colour, label=label, linewidth=1.5)
        ax.set_title(f"{result['task']}: {title}", fontsize="medium")
        ax.set_ylim(1e-9, 10.0)
        ax.set_xlabel("oracle calls / n" if over == "oracle_calls" else "epochs")
        ax.set_ylabel("relative suboptimality")
        ax.legend(fontsize="small")
    figure.savefig(path, dpi=120)


def _samplings(fits: list[Fit], solver: str) -> tuple[dict[str, Fit], str]:
    chosen = {
        fit["sampling"]: fit
        for fit in fits
        if fit["solver"] == solver and fit["nonuniformity"] == 0.8
    }
    return chosen, f"samplings, {solver} (figure 2)"


def _shares(fits: list[Fit], solver: str) -> tuple[dict[str, Fit], str]:
    chosen = {
        f"{fit['nonuniformity']:g}": fit
        for fit in fits
        if fit["solver"] == solver and fit["sampling"] == "gap"
    }
    uniform = _samplings(fits, solver)[0]["uniform"]
    chosen = dict(sorted({**chosen, "0": uniform}.items()))
    return chosen, f"share of gap sampling, {solver} (figure 3)"


def _solvers(fits: list[Fit], over: str) -> tuple[dict[str, Fit], str]:
    chosen = {}
    for solver in _DUAL_SOLVERS:
        samplings = _samplings(fits, solver)[0]
        names = [name for name in ("uniform", "gap") if name in samplings]
        chosen |= {f"{solver}, {name}": samplings[name] for name in names}
    for fit in fits:
        if fit["solver"] == "lbfgs":
            chosen["lbfgs"] = fit
    return chosen, "solvers (figure 4)"


_LINES: dict[str, Callable[[list[Fit], str], tuple[dict[str, Fit], str]]] = {
    "samplings": _samplings,
    "shares": _shares,
    "solvers": _solvers,
}
