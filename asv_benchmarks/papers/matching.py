"""Section 5.3.2 of Teo and others (2010), learning to match points, tried.

Points of two frames of the CMU house are matched by their shape contexts, which are weighted
equally, or as the structured hinge loss with an L2 or an L1 norm has learned it. Frames 1, 4, 7,
... are to train, 2, 5, 8, ... to validate, 3, 6, 9, ... to test, each with the frame that is a
baseline later. reg_lambda has the least validation error; of several it is the largest.

python asv_benchmarks/papers/matching.py --data FOLDER --figure matching.png
"""

from collections.abc import Sequence
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from _common import Panel, Study, run
from scipy.optimize import linprog
from scipy.stats import spearmanr

from sklearn_bundle import StructuredSVM
from sklearn_bundle.models import Matching

BASELINES = (20, 40, 50, 60, 70, 80, 90)
MIDDLE = 50  # the baseline whose weights the paper shows
GRIDS = {"L2": (1.0, 10.0, 100.0, 1000.0), "L1": (0.1, 1.0, 10.0)}
TOL = 1e-3
_MOST = 500  # planes of a fit with L1, which solves a linear program over all of them each time
_SHARP = {"primal_feasibility_tolerance": 1e-9, "dual_feasibility_tolerance": 1e-9}
_PAPER = "L1 42, L2 52 that are not zero"

Pairs = tuple[Sequence[np.ndarray], Sequence[np.ndarray]]


class Learned(NamedTuple):
    """The fit whose reg_lambda is best on the validation pairs."""

    w: np.ndarray
    reg_lambda: float
    validation: float
    test: float

    @property
    def n_used(self) -> int:
        return int(np.count_nonzero(np.abs(self.w) > 1e-8 * np.abs(self.w).max()))


def descriptors(tasks: ModuleType | None) -> tuple[np.ndarray, tuple[int, ...]]:
    """(frames, points, bins), and the baselines: the house, or points in space that turn."""
    if tasks is not None:
        S = tasks.load_structured("cmu_house")["shape_context"].astype(float)
        return S * (30.0 / S.sum(axis=-1).mean()), BASELINES
    rng = np.random.default_rng(0)
    points = rng.uniform(-1.0, 1.0, (12, 3)) * (1.0, 1.0, 0.5)
    frames = []
    for angle in np.radians(0.8 * np.arange(60)):
        turn = np.array([[np.cos(angle), 0.0], [0.0, 1.0], [np.sin(angle), 0.0]])
        seen = points @ turn + 0.02 * rng.normal(size=(12, 2))
        away = np.hypot(*np.moveaxis(seen[None] - seen[:, None], -1, 0))
        frames.append([np.histogram(row, bins=8, range=(0.0, 2.5))[0] for row in away])
    return np.array(frames, dtype=float), (10, 30, 40)


def pairs_of(S: np.ndarray, first: int, apart: int) -> Pairs:
    """Every third frame from ``first`` with that ``apart``; the true matching is the identity."""
    starts = range(first, len(S) - apart, 3)
    X = [(S[k][:, None] - S[k + apart][None]) ** 2 for k in starts]
    return X, [np.arange(S.shape[1]) for _ in starts]


def error(w: np.ndarray, pairs: Pairs) -> float:
    """The share of points that are matched wrongly."""
    model = Matching()
    losses = [model.loss(b, model.inference(x, w)) for x, b in zip(*pairs, strict=True)]
    return float(np.mean(losses))


def learn(parts: tuple[Pairs, Pairs, Pairs], name: str) -> Learned:
    train, validation, test = parts
    fits = []
    for value in GRIDS[name]:
        if name == "L2":
            settings = {"reg_lambda": value, "tol": TOL, "max_iter": 600, "random_state": 0}
            w = StructuredSVM("matching", **settings).fit(*train).w_
        else:
            w = by_l1(train, value)
        fits.append(Learned(w, value, error(w, validation), error(w, test)))
    return min(reversed(fits), key=lambda fit: fit.validation)


def by_l1(train: Pairs, reg_lambda: float) -> np.ndarray:
    """w of ``reg_lambda ||w||_1 + R(w)``, by cutting planes (appendix C).

    Each iteration is a linear program in the positive and the negative part of w and the value of
    the model.
    """
    d = train[0][0].shape[2]
    costs = np.append(np.full(2 * d, reg_lambda), 1.0)
    w, best, best_w, planes, offsets = np.zeros(d), np.inf, np.zeros(d), np.empty((0, d)), []
    for _ in range(_MOST):
        risk, gradient = _risk(train, w)
        value = risk + reg_lambda * np.abs(w).sum()
        if value < best:
            best, best_w = value, w
        planes, offsets = np.vstack([planes, gradient]), [*offsets, risk - gradient @ w]
        below = np.c_[planes, -planes, -np.ones(len(planes))]
        found = linprog(costs, A_ub=below, b_ub=-np.array(offsets), options=_SHARP)
        w = found.x[:d] - found.x[d : 2 * d]
        if best - found.fun <= TOL * best:
            break
    return best_w


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
    """The loss (18) of three examples less the same maximum over doubly stochastic matrices."""
    model, far = Matching(), 0.0
    for x, y in list(zip(*train, strict=True))[:3]:
        worst, n = model.loss_augmented_inference(x, y, w), len(y)
        change = model.joint_feature(x, worst) - model.joint_feature(x, y)
        value = model.loss(y, worst) + float(change @ w)
        right = np.eye(n)[y]
        sums = np.r_[np.kron(np.eye(n), np.ones(n)), np.kron(np.ones(n), np.eye(n))]
        gains = x @ w + (1.0 - right) / n
        highest = -linprog(-gains.ravel(), A_eq=sums, b_eq=np.ones(2 * n), options=_SHARP).fun
        far = max(far, abs(value - (highest - np.sum(right * (x @ w)))))
    return far


def reproduce(study: Study) -> None:
    S, baselines = descriptors(study.tasks)
    equal = -np.ones(S.shape[2])
    without, learned, rows, off = {}, {}, [], 0.0
    for apart in baselines:
        parts = tuple(pairs_of(S, first, apart) for first in range(3))
        without[apart] = error(equal, parts[2])
        learned[apart] = {name: learn(parts, name) for name in GRIDS}
        off = max(off, _off(parts[0], learned[apart]["L2"].w))
        fits = learned[apart].values()
        sizes = "/".join(str(len(part[1])) for part in parts)
        cells = [text for fit in fits for text in (f"{fit.test:.3f}", f"{fit.reg_lambda:g}")]
        rows.append([apart, sizes, f"{without[apart]:.3f}", *cells])
    columns = ["baseline", "train/validate/test", "equal weights", "L2", "lambda", "L1", "lambda"]
    study.show("Share of points that are matched wrongly", columns, rows)
    _compare(study, without, learned, off)
    lines = {"equal weights": (baselines, [without[k] for k in baselines])}
    lines |= {name: (baselines, [learned[k][name].test for k in baselines]) for name in GRIDS}
    linear = "linear", "linear"
    panels = [Panel("test error (figure 11)", "baseline", "wrong points", lines, linear)]
    if MIDDLE in learned:
        bins = np.arange(S.shape[2])
        lines = {name: (bins, -fit.w) for name, fit in learned[MIDDLE].items()}
        panels.append(Panel(f"weights at {MIDDLE}, negated", "bin", "weight", lines, linear))
    study.draw(panels, columns=2)


def _compare(study: Study, without: dict, learned: dict, off: float) -> None:
    study.compare(
        "(18)",
        "The loss of an example is exactly a linear assignment problem.",
        f"Largest difference from a linear program over doubly stochastic matrices: {off:.0e}.",
        off <= 1e-6,
    )
    gains = np.array([without[k] - learned[k]["L2"].test for k in learned])
    study.compare(
        "5.3.2, after Caetano et al.",
        "To learn a weighting of the features improves the matching in many cases.",
        f"L2: test error lower at {np.sum(gains > 0.0)} of {len(gains)} baselines, higher at "
        f"{np.sum(gains < 0.0)}.",
        np.sum(gains > 0.0) > len(gains) / 2,
    )
    rank = float(spearmanr(list(learned), gains)[0])
    study.compare(
        "figure 11",
        "The learned costs are the more superior the larger the baseline.",
        f"Errors fall by {gains[0]:.3f} at {min(learned)} and {gains[-1]:.3f} at {max(learned)}; "
        f"rank correlation {rank:.2f}.",
        rank >= 0.9,
    )
    means = {name: np.mean([fits[name].test for fits in learned.values()]) for name in GRIDS}
    study.compare(
        "figure 11",
        "L1 and L2 perform quite similarly on average.",
        f"Mean test error: L1 {means['L1']:.3f}, L2 {means['L2']:.3f}.",
        abs(means["L1"] - means["L2"]) <= 0.02,
    )
    if MIDDLE in learned:
        at: dict[str, Any] = learned[MIDDLE]
        told = ", ".join(f"{name} {fit.n_used} of {len(fit.w)}" for name, fit in at.items())
        study.compare(
            f"figure 11, baseline {MIDDLE}",
            f"Weights by L1 are considerably sparser ({_PAPER}).",
            f"Not zero: {told}.",
            at["L1"].n_used <= 0.9 * at["L2"].n_used,
        )
    study.compare(
        "5.3.2",
        "To match edges as well as points leads to much better performance.",
        "That is a quadratic assignment problem, and not here.",
        None,
    )


if __name__ == "__main__":
    run(__doc__, reproduce)
