"""Matchings of the CMU house: every solver of StructuredSVM, and what learning gains."""

import argparse
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np
from _house import Frames, read
from _measure import Table
from _structured_watch import SVMCurve, watch

from sklearn_bundle import StructuredSVM
from sklearn_bundle.models import Matching

SOLVERS = ("auto", "bcfw", "rsd", "rsd-working-sets", "rsd-one-simplex", "bundle")
TOLS = (1e-1, 1e-2, 1e-3)
STRENGTHS = (10.0, 1.0, 0.1)  # reg_lambda: the first is what validation chooses for most baselines
LIMIT = 30.0  # CPU seconds of a fit


def error(w: np.ndarray, X: Sequence[np.ndarray], y: Sequence[np.ndarray]) -> float:
    """The share of points that are matched wrongly, a mean over pairs of frames."""
    model = Matching()
    return float(np.mean([model.loss(b, model.inference(x, w)) for x, b in zip(X, y, strict=True)]))


def unlearned(frames: Frames) -> np.ndarray:
    """Equal weights: plain distances of the descriptors."""
    return -np.ones(frames.descriptors.shape[2])


def run(tasks: ModuleType | None, arguments: argparse.Namespace, results: list[dict]) -> None:
    """A table for each reg_lambda, at the largest baseline."""
    frames = read(tasks)
    apart = frames.baselines[-1]
    limit = arguments.max_seconds or LIMIT
    test = frames.pairs(2, apart)
    n = len(frames.pairs(0, apart)[1])
    print(
        f"\n{frames.name}, {apart} frames apart, n = {n}; test error without learning "
        f"{error(unlearned(frames), *test):.3f}; at most {limit:g} s a fit"
    )
    for reg_lambda in arguments.strengths or STRENGTHS:
        print(f"\nreg_lambda = {reg_lambda:g}")
        table = Table([*columns(), ("test error", 10)])
        for solver in arguments.solvers:
            model, curve = timed(frames, apart, reg_lambda, solver, limit)
            wrong = error(model.w_, *test)
            table.row(solver, *cells(curve), f"{wrong:.3f}")
            told = {"task": frames.name, "baseline": apart, "reg_lambda": reg_lambda}
            told |= {"solver": solver, "error": wrong, "objective": model.objective_}
            results.append(told | {"curve": curve.as_dict()})


def timed(
    frames: Frames, apart: int, reg_lambda: float, solver: str, max_seconds: float
) -> tuple[StructuredSVM, SVMCurve]:
    """A fit on the training pairs to the smallest gap of ``TOLS``; a short one before compiles."""
    X, y = frames.pairs(0, apart)
    settings: dict[str, Any] = {"model": "matching", "solver": solver, "reg_lambda": reg_lambda}
    watch(X[:2], y[:2], max_seconds=0.1, **settings)
    return watch(X, y, max_seconds=max_seconds, tol=min(TOLS), **settings)


def columns() -> list[tuple[str, int]]:
    """Headings and widths of a row of :func:`cells`, after the solver's name."""
    of_tols = [(f"{eps:g}: {what}", 14) for eps in TOLS for what in ("CPU s", "calls/n")]
    return [("solver", 17), ("pass ms", 8), *of_tols, ("last gap", 9)]


def cells(curve: SVMCurve) -> list[str]:
    """Milliseconds of a pass of the oracle, CPU seconds and calls over n to each gap, the last."""
    told = [f"{1e3 * curve.oracle_pass:.2f}"]
    for eps in TOLS:
        k = curve.at(eps)
        told += ["-", "-"] if k is None else [f"{curve.seconds[k]:.3f}", f"{curve.calls[k]:.0f}"]
    return [*told, f"{curve.relative_gap:.0e}"]
