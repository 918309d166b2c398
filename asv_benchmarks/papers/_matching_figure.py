"""Error over baseline, and weights at one baseline, as figure 11 of the BMRM paper has them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from _common import STYLES, line
from _house import RINGS, SECTORS
from _matching_fits import Baseline


def draw(found: Sequence[Baseline], middle: int, plt: Any) -> Any:
    """Left the errors; right the weights at the baseline ``middle``, or at the last."""
    figure = plt.figure(figsize=(10.0, 4.0))
    grid = figure.add_gridspec(2, 2, width_ratios=(1.2, 1.0))
    left = figure.add_subplot(grid[:, 0])
    apart = [b.apart for b in found]
    line(left, apart, [b.without for b in found], 0, "no learning", markevery=1)
    for k, name in enumerate(("L2", "L1")):
        errors = [b.learned[name].test for b in found]
        line(left, apart, errors, k + 1, f"learned, {name}", markevery=1)
    left.set(xlabel="baseline: frames apart", ylabel="share of points that are matched wrongly")
    left.legend()
    shown = next((b for b in found if b.apart == middle), found[-1])
    for k, name in enumerate(("L2", "L1")):
        ax, fit = figure.add_subplot(grid[k, 1]), shown.learned[name]
        ax.bar(np.arange(len(fit.w)), -fit.w, color=STYLES[k + 1].color)
        ax.axhline(0.0, color="black", linewidth=0.6)
        for ring in range(1, RINGS):
            ax.axvline(ring * SECTORS - 0.5, color="#999999", linewidth=0.6)
        ax.set_title(f"{name}, baseline {shown.apart}: {fit.n_used} not zero")
        ax.set_ylabel("weight of a difference")
    ax.set_xlabel("bin of the shape context, ring by ring")
    return figure
