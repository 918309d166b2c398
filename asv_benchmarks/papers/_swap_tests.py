"""The statistical tests of section 6.4 of Allende et al. (2013)."""

from typing import NamedTuple

import numpy as np
from scipy import stats

LEVEL = 0.05


class Binary(NamedTuple):
    """A test of table 2: ``a`` against ``b`` and what they are thought to be if not equal."""

    quantity: str
    a: str
    b: str
    alternative: str  # of a, in relation to b
    p: float  # the paper's


TABLE_2 = (
    Binary("seconds", "swap", "fw", "less", 0.03757),
    Binary("seconds", "swap", "mfw", "less", 1.526e-05),
    Binary("seconds", "swap", "cvm", "less", 5.528e-06),
    Binary("seconds", "fw", "mfw", "two-sided", 0.6893),
    Binary("seconds", "swap-2o", "fw", "two-sided", 0.3403),
    Binary("seconds", "swap-2o", "mfw", "less", 1.087e-04),
    Binary("seconds", "swap-2o", "cvm", "less", 4.47e-08),
    Binary("seconds", "swap", "swap-2o", "two-sided", 0.3802),  # there one-sided, half of it
    Binary("accuracy", "swap", "fw", "two-sided", 0.2389),
    Binary("accuracy", "swap", "mfw", "two-sided", 0.1019),
    Binary("accuracy", "swap", "cvm", "less", 1.873e-04),
    Binary("accuracy", "fw", "mfw", "two-sided", 0.1118),
    Binary("accuracy", "swap-2o", "fw", "greater", 0.01071),
    Binary("accuracy", "swap-2o", "mfw", "greater", 0.01634),
    Binary("accuracy", "swap-2o", "cvm", "less", 2.25e-04),
    Binary("accuracy", "swap-2o", "swap", "greater", 1.418e-03),
)


def signed_rank(left: np.ndarray, right: np.ndarray, alternative: str = "two-sided") -> float:
    """p-value of Wilcoxon's test: exact, also with ties, and zeros ranked and dropped (Pratt)."""
    difference = np.zeros(len(left))
    np.subtract(left, right, out=difference, where=left != right)  # both may be infinite
    ranks = np.rint(2.0 * stats.rankdata(np.abs(difference))).astype(np.int64)  # ties: halves
    ranks, signs = ranks[difference != 0.0], difference[difference != 0.0] > 0.0
    chances = np.ones(1)  # of every sum of the ranks with a plus sign
    for rank in ranks:
        longer = np.zeros(len(chances) + rank)
        longer[: len(chances)] += 0.5 * chances
        longer[rank:] += 0.5 * chances
        chances = longer
    total = int(ranks[signs].sum())
    less, greater = chances[: total + 1].sum(), chances[total:].sum()
    p = {"less": less, "greater": greater, "two-sided": 2.0 * min(less, greater)}[alternative]
    return float(min(1.0, p))


def friedman(values: np.ndarray) -> float:
    """p-value with the correction of Iman and Davenport; a row per method, a column a data set."""
    k, n = values.shape
    chi = stats.friedmanchisquare(*values).statistic
    most = n * (k - 1)
    if chi >= most:
        return 0.0
    return float(stats.f.sf((n - 1) * chi / (most - chi), k - 1, (k - 1) * (n - 1)))
