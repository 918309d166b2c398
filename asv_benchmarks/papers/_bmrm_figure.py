"""Figures 4, 5, 7 and 9 of Teo et al. on our data, a row each."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from _bmrm_convergence import LAMBDAS, SIZES, SIZES_LAMBDA
from _bmrm_data import Set
from _common import line

_FLOOR = 0.005  # percentage points; a smaller change of the accuracy is drawn there


def make(plt: Any, sets: Sequence[Set], runs: dict, sizes: dict, learned: dict, races: dict) -> Any:
    """A column a data set."""
    figure, axes = plt.subplots(4, len(sets), figsize=(3.0 * len(sets), 9.6), squeeze=False)
    for column, data in zip(axes.T, sets, strict=True):
        by_lambda, by_size, accuracy, time = column
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
        "figure 7: test accuracy,\ndistance from the last (points)",
        "figure 9: linear SVM\nrelative excess of J",
    )
    for row, name in zip(axes, names, strict=True):
        row[0].set_ylabel(name)
        next(ax for ax in row[::-1] if ax.axison).legend(loc="best")
    return figure
