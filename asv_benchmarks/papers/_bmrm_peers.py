"""Figures 9 and 10 of Teo et al.: the relative excess over the optimum against CPU time."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from _bmrm_bundles import BMRM, BT, LS, NAMES, PROXIMAL
from _bmrm_generalization import Split, optimum
from _bundle_peers import METHODS, follow
from _common import Study
from _measure import cpu_seconds
from _watch import Curve, watch
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from sklearn_bundle import BMRMClassifier

Array = np.ndarray
Race = dict[str, tuple[Array, Array]]  # by solver: CPU seconds and relative excess so far
LEVELS = (1e-1, 1e-2, 1e-3)
FIGURES = {"hinge": ("figure 9", "linear SVM"), "log_loss": ("figure 10", "logistic regression")}
LIBLINEAR = "LIBLINEAR"
_FLOOR = 1e-6  # a smaller excess cannot be told from 0: J* is known to 1e-7
_ENOUGH = 1e-4  # excess at which a curve ends
_SECONDS = 5.0  # CPU time of a fit
_MAX_ITER = 4000
_LADDER = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128, 256, 512, 1024, 4096)  # max_iter of LIBLINEAR


def race(study: Study, parts: Split, loss: str) -> Race:
    """BMRM, LS-BMRM and LIBLINEAR on the training rows of a split; for the hinge two more."""
    best, X, y = optimum(parts, loss)
    target = (1.0 + _ENOUGH) * best
    found: Race = {}

    def enough(curve: Curve) -> bool:
        return curve.objective[-1] <= target

    for solver in (BMRM, LS, BT, PROXIMAL) if loss == "hinge" else (BMRM, LS):
        limits = {"max_iter": _MAX_ITER, "max_seconds": _SECONDS}
        if solver in METHODS:
            curve = follow(solver, X, y, parts.reg_lambda, enough, **limits)
        else:
            model = BMRMClassifier(
                loss, reg_lambda=parts.reg_lambda, solver=solver, fit_intercept=False
            )
            curve = watch(model, X, y, enough, **limits)
        excess = np.array(curve.objective) / best - 1.0
        found[NAMES[solver]] = np.array(curve.seconds), excess
    found[LIBLINEAR] = _liblinear(X, y, parts.reg_lambda, loss, best)
    found = {name: (s, np.maximum(excess, _FLOOR)) for name, (s, excess) in found.items()}
    for name, (seconds, excess) in found.items():
        study.keep(
            figure=FIGURES[loss][0],
            data=parts.data.name,
            reg_lambda=parts.reg_lambda,
            solver=name,
            seconds=seconds.tolist(),
            excess=excess.tolist(),
        )
    return found


def _liblinear(X: Any, y: Array, reg_lambda: float, loss: str, best: float) -> tuple[Array, Array]:
    """A fit from scratch for each number of epochs or Newton steps; the best so far counts."""
    C = 1.0 / (len(y) * reg_lambda)
    seconds, excess, total = [], [], 0.0
    for max_iter in _LADDER:
        common = {"C": C, "fit_intercept": False, "max_iter": max_iter, "random_state": 0}
        if loss == "hinge":
            model = LinearSVC(loss="hinge", tol=1e-12, **common)
        else:
            model = LogisticRegression(solver="liblinear", tol=1e-12, **common)
        taken, _ = cpu_seconds(lambda model=model: model.fit(X, y))
        seconds.append(taken)
        total += taken
        objective = _objective(X, y, model.coef_[0], reg_lambda, loss)
        excess.append(min([objective / best - 1.0, *excess[-1:]]))
        if excess[-1] <= _ENOUGH or total > 2.0 * _SECONDS:
            break
    return np.maximum.accumulate(seconds), np.array(excess)


def _objective(X: Any, y: Array, w: Array, reg_lambda: float, loss: str) -> float:
    margin = y * (X @ w)
    losses = np.maximum(0.0, 1.0 - margin) if loss == "hinge" else np.logaddexp(0.0, -margin)
    return 0.5 * reg_lambda * float(w @ w) + float(np.mean(losses))


def show_race(study: Study, splits: Sequence[Split], races: dict[str, Race], loss: str) -> None:
    """Seconds to a relative excess, and the share of iterations that bring nothing."""
    figure, problem = FIGURES[loss]
    rows, stalls = [], {"BMRM": [], "LS-BMRM": []}
    for parts in splits:
        name = parts.data.name
        power = f"2^{np.log2(parts.reg_lambda):.0f}"
        for solver, (seconds, excess) in races[name].items():
            stalled = "-"
            if solver in stalls:
                stalls[solver].append(float(np.mean(np.diff(excess) == 0.0)))
                stalled = f"{stalls[solver][-1]:.0%}"
            times = [_seconds(seconds, excess, level) for level in LEVELS]
            shown = [f">{seconds[-1]:.2g}" if np.isinf(t) else f"{t:.2g}" for t in times]
            rows.append([f"{name} {power}", solver, *shown, stalled])
    columns = ["data", "solver", *(f"to {level:g}" for level in LEVELS), "no progress"]
    study.show(f"{figure.capitalize()}: {problem}, CPU seconds to a relative excess", columns, rows)

    def wins(fast: str, slow: str) -> tuple[int, int]:
        times = [
            [_seconds(*races[p.data.name][solver], level) for solver in (fast, slow)]
            for p in splits
            for level in LEVELS
        ]
        return sum(a < b for a, b in times), len(times)

    if loss == "hinge":
        for fast, slow, claim, share in (
            ("LS-BMRM", "BMRM", "LS-BMRM significantly outperforms BMRM on all data sets.", 1.0),
            (LIBLINEAR, "BMRM", "LIBLINEAR significantly outperforms BMRM on all data sets.", 1.0),
            (LIBLINEAR, "LS-BMRM", "LIBLINEAR is almost always faster than LS-BMRM.", 0.75),
        ):
            n, of = wins(fast, slow)
            ours = f"Less CPU time in {n} of {of} pairs of data set and excess {LEVELS}."
            study.compare(figure, claim, ours, n >= share * of)
    else:
        n, of = wins(LIBLINEAR, "BMRM")
        ours = f"Less CPU time in {n} of {of} pairs of data set and excess {LEVELS}."
        study.compare(figure, "LIBLINEAR outperforms BMRM on all data sets.", ours, n == of)
    plain, search = (np.array(stalls[solver]) for solver in stalls)
    study.compare(
        figure,
        "BMRM suffers from stalling steps"
        + (", LS-BMRM decreases the objective 'strictly'." if loss == "hinge" else "."),
        f"The best objective stays the same in {plain.min():.0%} to {plain.max():.0%} of BMRM's "
        f"iterations and in {search.min():.0%} to {search.max():.0%} of LS-BMRM's.",
        plain.min() > 0.1 and (loss != "hinge" or search.max() < 0.05),
    )


def _seconds(seconds: Array, excess: Array, level: float) -> float:
    reached = np.flatnonzero(excess <= level)
    return float(seconds[reached[0]]) if len(reached) else np.inf
