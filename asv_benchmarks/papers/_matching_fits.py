"""Weights of shape contexts for matching, learned with both regularizers of the BMRM paper."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from _house import Frames
from _structured_house import error, unlearned
from scipy.optimize import linprog

from sklearn_bundle import StructuredSVM
from sklearn_bundle.models import Matching

# Of reg_lambda, for either regularizer: both ends are worse than the middle at most baselines.
GRIDS = {
    "L2": tuple(float(x) for x in 10.0 ** np.arange(0.0, 3.1, 0.5)),
    "L1": tuple(float(x) for x in 10.0 ** np.arange(-1.0, 1.1, 0.5)),
}
TOL = 1e-3  # relative gap of a fit
_MOST = 600  # iterations of a fit: with L1 each solves a linear program over all planes
# Of the linear programs, absolute: the least that HiGHS takes.
_SHARP = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
_ZERO = 1e-9  # times the largest weight: below, a weight is zero

Pairs = tuple[Sequence[np.ndarray], Sequence[np.ndarray]]


class Learned(NamedTuple):
    """The fit whose reg_lambda is best on the validation pairs."""

    w: np.ndarray
    reg_lambda: float
    validation: float
    test: float
    gap: float

    @property
    def n_used(self) -> int:
        """Weights that are not zero."""
        size = np.abs(self.w)
        return int(np.count_nonzero(size > _ZERO * size.max()))


class Baseline(NamedTuple):
    """Test errors at one distance of the frames, without learning and with it."""

    apart: int
    sizes: tuple[int, int, int]  # pairs to train, to validate and to test
    without: float
    learned: dict[str, Learned]
    off: float  # the largest difference from the same maxima by linear programming

    def as_dict(self) -> dict[str, Any]:
        fits = {name: fit._asdict() | {"w": fit.w.tolist()} for name, fit in self.learned.items()}
        return self._asdict() | {"learned": fits}


def learn(frames: Frames, apart: int) -> Baseline:
    """Fits by both regularizers over the grid, and errors."""
    parts = train, validation, test = tuple(frames.pairs(k, apart) for k in range(3))
    learned = {
        name: _best([_fit(name, x, train, validation, test) for x in grid])
        for name, grid in GRIDS.items()
    }
    without = error(unlearned(frames), *test)
    sizes = tuple(len(y) for _, y in parts)
    return Baseline(apart, sizes, without, learned, _off(train, learned["L2"].w))


def _best(fits: Sequence[Learned]) -> Learned:
    """Least validation error; of several the one of the largest reg_lambda."""
    return min(reversed(fits), key=lambda fit: fit.validation)


def _fit(name: str, reg_lambda: float, train: Pairs, validation: Pairs, test: Pairs) -> Learned:
    if name == "L2":
        svm = StructuredSVM(
            "matching", reg_lambda=reg_lambda, tol=TOL, max_iter=_MOST, random_state=0
        ).fit(*train)
        w, gap = svm.w_, float(svm.dual_gap_ / svm.objective_)
    else:
        w, gap = _by_l1(train, reg_lambda)
    return Learned(w, reg_lambda, error(w, *validation), error(w, *test), gap)


def _by_l1(train: Pairs, reg_lambda: float) -> tuple[np.ndarray, float]:
    """w and relative gap of ``reg_lambda ||w||_1 + R(w)``, by cutting planes (appendix C).

    Each iteration is a linear program in the positive and the negative part of w and the value of
    the model, which is at least 0 as R is.
    """
    d = train[0][0].shape[2]
    costs = np.append(np.full(2 * d, reg_lambda), 1.0)
    w, best, best_w, planes, offsets = np.zeros(d), np.inf, np.zeros(d), np.empty((0, d)), []
    for _ in range(_MOST):
        risk, gradient = _risk(train, w)
        if risk + reg_lambda * np.abs(w).sum() < best:
            best, best_w = risk + reg_lambda * np.abs(w).sum(), w
        planes, offsets = np.vstack([planes, gradient]), [*offsets, risk - gradient @ w]
        below = np.c_[planes, -planes, -np.ones(len(planes))]
        found = linprog(costs, A_ub=below, b_ub=-np.array(offsets), options=_SHARP)
        w = found.x[:d] - found.x[d : 2 * d]
        if best - found.fun <= TOL * best:
            break
    return best_w, float((best - found.fun) / best)


def _risk(train: Pairs, w: np.ndarray) -> tuple[float, np.ndarray]:
    """The mean of the losses (18), and a subgradient."""
    model, risk, gradient = Matching(), 0.0, np.zeros(len(w))
    for x, y in zip(*train, strict=True):
        worst = model.loss_augmented_inference(x, y, w)
        change = model.joint_feature(x, worst) - model.joint_feature(x, y)
        risk += model.loss(y, worst) + float(change @ w)
        gradient += change
    return risk / len(train[1]), gradient / len(train[1])


def _off(train: Pairs, w: np.ndarray) -> float:
    """The loss (18) of each example less the same maximum over doubly stochastic matrices."""
    examples = Matching().examples(*train, "margin")
    found = examples.find(w, 0, examples.n_examples).scores
    by_programme = []
    for x, y in zip(*train, strict=True):
        n = len(y)
        right = np.eye(n)[y]
        gains = x @ w + (1.0 - right) / n
        sums = np.r_[np.kron(np.eye(n), np.ones(n)), np.kron(np.ones(n), np.eye(n))]
        highest = -linprog(-gains.ravel(), A_eq=sums, b_eq=np.ones(2 * n), options=_SHARP).fun
        by_programme.append(highest - np.sum(right * (x @ w)))
    return float(np.abs(found - by_programme).max())
