"""Thresholds on scores that separate grades."""

import numpy as np
from numpy.typing import NDArray


def best_thresholds(
    scores: NDArray[np.float64], grades: NDArray[np.intp], weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Thresholds theta_1 <= ... of grades 0..K-1; grade k is predicted if k of them are below f.

    Each minimizes the weight of grades on its wrong side; together they minimize the weighted mean
    absolute error. They are midpoints between two scores, or one unit outside if all scores are on
    one side.
    """
    order = np.argsort(scores, kind="stable")
    scores, grades, weights = scores[order], grades[order].astype(np.intp), weights[order]
    last = np.r_[scores[1:] > scores[:-1], True]  # a threshold may follow
    values = scores[last]
    cuts = np.r_[values[0] - 1.0, 0.5 * (values[1:] + values[:-1]), values[-1] + 1.0]
    thresholds = []
    for k in range(1, grades.max() + 1):
        # a threshold after sample i is wrong for high grades up to i and low grades after it
        gain = np.r_[0.0, np.cumsum(np.where(grades < k, -weights, weights))[last]]
        thresholds.append(cuts[np.argmin(gain)])
    return np.maximum.accumulate(np.array(thresholds))
