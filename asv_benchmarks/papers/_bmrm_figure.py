"""Figures 4, 5, 8, 7 and 9 of Teo et al. on our data, a row each."""

from typing import Any

import numpy as np
from _bmrm_bundles import NAMES, Bundles
from _bmrm_convergence import LAMBDAS, SIZES, SIZES_LAMBDA
from _common import line

_FLOOR = 0.005  # percentage points; a smaller change of the accuracy is drawn there


def make(plt: Any, bundles: Bundles, sizes: dict, learned: dict, races: dict) -> Any:
    """A column per data set."""
    sets, runs = bundles.sets, bundles.runs
    figure, axes = plt.subplots(5, len(sets), figsize=(3.0 * len(sets), 12.0), squeeze=False)
    for column, data in zip(axes.T, sets, strict=True):
        by_lambda, by_size, by_method, accuracy, time = column
        by_lambda.set_title(data.name)
        for which, reg_lambda in enumerate(LAMBDAS):
            curve = runs[data.name, reg_lambda, "cutting-plane"]
            label = rf"$\lambda$ = {reg_lambda:g}"
            line(by_lambda, curve.iteration, curve.gap, which, label)
        for which, size in enumerate((*SIZES, None)):
            curve = sizes[data.name, size]
            line(by_size, curve.iteration, curve.gap, which, f"k = {size or 'all'}")
        for ax in (by_lambda, by_size):
            ax.set(xscale="log", yscale="log", xlabel="iterations", ylim=(5e-5, 2.0))
        for which, (solver, name) in enumerate(NAMES.items()):
            found = [
                (key[1], bundles.iterations(key, solver))
                for key in bundles.levels
                if key[0] == data.name
            ]
            reached = [(reg_lambda, t) for reg_lambda, t in found if t is not None]
            if reached:
                line(by_method, *zip(*reached, strict=True), which, name, markevery=1)
        by_method.set(xscale="log", yscale="log", xlabel=r"$\lambda$")
        if data.name not in learned:
            for ax in (accuracy, time):
                ax.set_axis_off()
            continue
        for which, share in enumerate((0.1, 0.5, 1.0)):
            learning = learned[data.name][share]
            change = np.maximum(100.0 * learning.change, _FLOOR)
            line(accuracy, learning.curve.gap, change, which, f"{share:.0%} of the rows")
        accuracy.set(xscale="log", yscale="log", xlabel="absolute gap", xlim=(2.0, 5e-5))
        for which, (solver, (seconds, excess)) in enumerate(races[data.name].items()):
            line(time, seconds, excess, which, solver)
        time.set(xscale="log", yscale="log", xlabel="CPU time (s)", ylim=(5e-5, 20.0))
    names = (
        "figure 4: BMRM\nabsolute gap",
        rf"figure 5: BMRM, $\lambda$ = {SIZES_LAMBDA:g}" "\nabsolute gap",
        "figure 8: linear SVM\niterations to within 1 %",
        "figure 7: test accuracy,\ndistance from the last (points)",
        "figure 9: linear SVM\nrelative excess of J",
    )
    for row, name in zip(axes, names, strict=True):
        row[0].set_ylabel(name)
        next(ax for ax in row[::-1] if ax.axison).legend(loc="best")
    return figure
