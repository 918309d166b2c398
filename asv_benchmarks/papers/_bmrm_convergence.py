"""Figures 4 and 5 of Teo et al.: iterations against lambda and bundle size."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from _bmrm_data import Set, binary_sets, multiclass_sets
from _common import Study
from _watch import Curve, watch

from sklearn_bundle import BMRMClassifier

LAMBDAS = (1e-3, 1e-4, 1e-5, 1e-6)
SIZES = (2, 10, 50)
SIZES_LAMBDA = 1e-4
GAPS = (1e-1, 1e-2, 1e-3, 1e-4)
WITHIN = 0.01  # of J: criterion (17), and that for the point it compares with
SECONDS = 6.0  # CPU time of a fit
MAX_ITER = 4000
Runs = dict[tuple[str, float, str], Curve]


def binary_runs(study: Study, sets: Sequence[Set]) -> Runs:
    """Algorithms 2 and 3 with all planes, for every set and lambda."""
    runs: Runs = {}
    for data in sets:
        for reg_lambda in LAMBDAS:
            for solver in ("cutting-plane", "line-search"):
                curve = fit(data, reg_lambda, solver, GAPS[-1])
                runs[data.name, reg_lambda, solver] = curve
                study.keep(
                    figure="4 and 8",
                    data=data.name,
                    reg_lambda=reg_lambda,
                    solver=solver,
                    **curve.as_numbers(),
                )
    return runs


def show_lambdas(study: Study, sets: Sequence[Set], runs: Runs) -> None:
    """Figure 4: Algorithm 2, and the growth of its iterations with 1/gap."""
    rows, growth = [], {}
    for data in sets:
        for reg_lambda in LAMBDAS:
            curve = runs[data.name, reg_lambda, "cutting-plane"]
            counts = [_to_gap(curve, gap) for gap in GAPS]
            if counts[-1] and counts[-2]:
                growth[data.name, reg_lambda] = np.log10(counts[-1] / counts[-2])
            power = growth.get((data.name, reg_lambda))
            rows.append(
                [data.name, f"{reg_lambda:g}"]
                + [counted(count, curve) for count in counts]
                + ["-" if power is None else f"{power:.2f}", f"{1 / (reg_lambda * GAPS[-1]):.0e}"]
            )
    columns = ["data", "lambda", *(f"gap {gap:g}" for gap in GAPS), "power", "1/(lambda eps)"]
    study.show("Figure 4: iterations of BMRM to an absolute gap", columns, rows)
    _compare_lambdas(study, sets, runs, growth)


def _compare_lambdas(study: Study, sets: Sequence[Set], runs: Runs, growth: dict) -> None:
    def iterations(name: str, reg_lambda: float, gap: float) -> float:
        return _to_gap(runs[name, reg_lambda, "cutting-plane"], gap) or np.inf

    gap = GAPS[2]
    steps = [
        iterations(data.name, large, gap) <= iterations(data.name, small, gap)
        for data in sets
        for large, small in itertools.pairwise(LAMBDAS)
        if np.isfinite(iterations(data.name, large, gap))
    ]
    study.compare(
        "figure 4",
        "BMRM converges faster for larger lambda.",
        f"{sum(steps)} of {len(steps)} neighboring values of lambda in this order (iterations to "
        f"a gap of {gap:g}).",
        all(steps),
    )
    largest = [growth[data.name, LAMBDAS[0]] for data in sets if (data.name, LAMBDAS[0]) in growth]
    study.compare(
        "figure 4",
        "A rate of log(1/eps) and not 1/eps, especially for large lambda.",
        f"Iterations grow like eps^-p, p = {min(largest):.2f} to {max(largest):.2f} at lambda = "
        f"{LAMBDAS[0]:g} and at most {max(growth.values()):.2f} elsewhere, between gaps of "
        f"{GAPS[2]:g} and {GAPS[3]:g} (1/eps: p = 1; log(1/eps): p = 0.12 here).",
        max(growth.values()) < 1.0 and max(largest) < 0.5,
    )
    texts = [data.name for data in sets if data.text]
    others = [data.name for data in sets if not data.text]
    if not texts:
        study.compare("figure 4", "Text converges faster than adult9 and worm.", "No text.", None)
        return
    pairs = [
        [pick(iterations(name, reg_lambda, gap) for name in names) for reg_lambda in LAMBDAS]
        for pick, names in ((max, texts), (min, others))
    ]
    ahead = [text < other for text, other in zip(*pairs, strict=True) if np.isfinite(text)]
    study.compare(
        "figure 4",
        "BMRM converges faster on high-dimensional text than on adult9 and worm.",
        f"The slowest text set needs fewer iterations to a gap of {gap:g} than the fastest other "
        f"set at {sum(ahead)} of the {len(ahead)} values of lambda at which it got there.",
        all(ahead),
    )


def size_runs(study: Study, sets: Sequence[Set], runs: Runs) -> dict[tuple[str, int | None], Curve]:
    """Algorithm 2 with k planes; that with all planes is known."""
    curves: dict[tuple[str, int | None], Curve] = {}
    for data in sets:
        for size in SIZES:
            curves[data.name, size] = fit(data, SIZES_LAMBDA, "cutting-plane", GAPS[-1], size)
            study.keep(
                figure="5", data=data.name, size=size, **curves[data.name, size].as_numbers()
            )
        curves[data.name, None] = runs[data.name, SIZES_LAMBDA, "cutting-plane"]
    return curves


def show_sizes(study: Study, sets: Sequence[Set], curves: dict) -> None:
    """Figure 5."""
    sizes = (*SIZES, None)
    rows = []
    for data in sets:
        for size in sizes:
            curve = curves[data.name, size]
            rows.append(
                [data.name, "inf" if size is None else str(size)]
                + [counted(_to_gap(curve, gap), curve) for gap in GAPS]
                + [f"{curve.gap[-1]:.1e}"]
            )
    columns = ["data", "k", *(f"gap {gap:g}" for gap in GAPS), "gap at the end"]
    study.show(f"Figure 5: iterations by bundle size k, lambda = {SIZES_LAMBDA:g}", columns, rows)
    ordered, bounded = [], []
    for data in sets:
        for small, large in itertools.pairwise(sizes):
            pair = [curves[data.name, size] for size in (small, large)]
            gap = max(GAPS[-1], *(curve.gap[-1] for curve in pair))  # that both reach
            few, many = (_to_gap(curve, gap) for curve in pair)
            ordered.append(many / few)
        two = curves[data.name, 2]
        bounded += [
            t < 1.0 / (SIZES_LAMBDA * gap)
            for t, gap in zip(two.iteration, two.gap, strict=True)
            if gap > 0.0
        ]
    study.compare(
        "figure 5",
        "The larger k is, the faster the algorithm converges.",
        f"{sum(r <= 1.0 for r in ordered)} of {len(ordered)} neighboring values of k in this "
        f"order; at worst the larger one takes {max(ordered):.2f} times the iterations of the "
        f"smaller one (to a gap of {GAPS[-1]:g}, or the least that both reach; 1.1 is equal).",
        max(ordered) <= 1.1,
    )
    study.compare(
        "figure 5",
        "k = 2 is the slowest, and still faster than the bound 1/(lambda eps).",
        f"gap < 1/(lambda t) after {sum(bounded)} of {len(bounded)} iterations with k = 2.",
        all(bounded),
    )


def fit(
    data: Set, reg_lambda: float, solver: str, gap: float, size: int | None = None, **more: Any
) -> Curve:
    """A fit without intercept, as in the paper, to a gap and within 1 % of J, or a limit."""
    model = BMRMClassifier(
        reg_lambda=reg_lambda, solver=solver, bundle_size=size, fit_intercept=False, **more
    )

    def enough(curve: Curve) -> bool:
        left = curve.objective[-1] - curve.lower_bound[-1]
        return left <= min(gap, WITHIN * curve.objective[-1])

    return watch(model, data.X, data.y, enough, max_iter=MAX_ITER, max_seconds=SECONDS)


def _to_gap(curve: Curve, gap: float) -> int | None:
    return curve.first(curve.gap <= gap)


def counted(iterations: int | None, curve: Curve) -> str:
    """The number, or that it is more than the fit made."""
    return f">{curve.iteration[-1]}" if iterations is None else str(iterations)


def sets_of(study: Study) -> tuple[list[Set], list[Set]]:
    """The sets for two and for more classes, which are printed."""
    both = binary_sets(study.tasks), multiclass_sets(study.tasks)
    print("\nData")
    for data in (*both[0], *both[1]):
        print(f"{data.name:<14} {data.size:>18}  {data.note}")
    return both
