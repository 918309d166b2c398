"""What section 5.3.2 of the BMRM paper says of learning to match, beside the fits here."""

from collections.abc import Sequence

import numpy as np
from _common import Study
from _matching_fits import Baseline
from scipy.stats import spearmanr

MIDDLE = 50  # the baseline whose weights the paper shows
_EXACT = 1e-7  # of a maximum by linear programming to 1e-10 in each constraint
_MONOTONE = 0.9  # rank correlation of baseline and gain
_SIMILAR = 0.02  # difference of the mean errors
_SPARSER = 0.9  # weights that are not zero, with L1 over L2: 42 over 52 in the paper, 0.81
_PAPER = {"L1": 42, "L2": 52}


def compare_all(study: Study, found: Sequence[Baseline]) -> None:
    """Keep a finding for every statement that the fits can decide."""
    off = max(baseline.off for baseline in found)
    study.compare(
        "5.3.2, (18)",
        "the loss of an example is exactly a linear assignment problem",
        "largest difference of what is found from a linear programme over doubly stochastic "
        f"matrices, at w of all baselines: {off:.0e}",
        off <= _EXACT,
    )
    gains = np.array([b.without - b.learned["L2"].test for b in found])
    better, worse = np.count_nonzero(gains > 0.0), np.count_nonzero(gains < 0.0)
    study.compare(
        "5.3.2, after Caetano et al.",
        "to learn a weighting of the features improves the matching in many cases",
        f"L2: test error lower at {better} of {len(found)} baselines, higher at {worse}",
        better > len(found) / 2,
    )
    rank = float(spearmanr([b.apart for b in found], gains)[0])
    told = ", ".join(f"{b.apart}: {gain:.3f}" for b, gain in zip(found, gains, strict=True))
    study.compare(
        "5.3.2, figure 11",
        "the learned costs are the more superior the larger the baseline",
        f"errors less with L2, by baseline: {told}; rank correlation {rank:.2f}",
        rank >= _MONOTONE,
    )
    means = {name: np.mean([b.learned[name].test for b in found]) for name in ("L1", "L2")}
    study.compare(
        "5.3.2, figure 11",
        "L1 and L2 perform quite similarly on average",
        f"mean test error: L1 {means['L1']:.3f}, L2 {means['L2']:.3f}",
        abs(means["L1"] - means["L2"]) <= _SIMILAR,
    )
    at = {b.apart: b.learned for b in found}.get(MIDDLE)
    if at is not None:
        told = ", ".join(f"{name} {fit.n_used} of {len(fit.w)}" for name, fit in at.items())
        paper = ", ".join(f"{name} {count}" for name, count in _PAPER.items())
        study.compare(
            f"5.3.2, figure 11, baseline {MIDDLE}",
            f"weights by L1 are considerably sparser ({paper} that are not zero)",
            f"not zero: {told}",
            at["L1"].n_used <= _SPARSER * at["L2"].n_used,
        )
    study.compare(
        "5.3.2",
        "to match edges as well as points leads to much better performance",
        "that is a quadratic assignment problem, and not here",
        None,
    )
