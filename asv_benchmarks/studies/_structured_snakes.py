"""Snakes: labels of the cells of small grids, 11 of them, where edges decide.

200 grids of some 38 cells to learn from, 100 to test on, pystruct's example. Cells have the colors
of their 3 x 3 neighborhood as indicators, edges their direction, or by direction the features of
both cells. Strengths are reg_lambda = 1/(n C); pystruct's C of 0.1 is 0.05. Fits end at a certified
gap of 1e-2. What is relaxed is the bound of the messages alone, without branches.
"""

import argparse
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np
from _measure import MissingError, Table, cpu_seconds, write_json
from _structured_watch import WatchedSVM, watch

from sklearn_bundle.models import PairwiseGraph

K = 11
EPS = 1e-2  # the certified gap
STRENGTHS = (0.5, 0.05)
_CODES = [1, 2, 3, 4, 6]  # the colors, as 1, 2 and 4 times red, green and blue
_FEW = 20  # grids: of the fit that compiles, and of the linear programmes


def run(tasks: ModuleType | None, arguments: argparse.Namespace, results: list[dict]) -> None:
    """Print a table of features and strengths."""
    if tasks is None:
        raise MissingError("the snakes are in the folder that --data names")
    X, y, X_test, y_test = tasks.structured("snakes")
    limit = arguments.max_seconds or 120.0
    columns = [("edges", 12), ("lambda", 7), ("branches", 8), ("status", 10), ("CPU s", 7)]
    columns += [("calls/n", 8), ("pass ms", 8), ("gap", 8), ("objective", 10), ("bound", 10)]
    print(f"\nsnakes, n = {len(X)}, {K} labels; at most {limit:g} s a fit")
    table = Table([*columns, ("relaxed +", 9), ("train %", 8), ("test %", 7)])
    for name, features in FEATURES.items():
        train, test = [features(x) for x in X], [features(x) for x in X_test]
        for strength in arguments.strengths or STRENGTHS:
            for branches in (100, 0) if name != "none" else (0,):
                model = PairwiseGraph(K, max_branches=branches)
                settings = {"solver": "auto", "reg_lambda": strength, "tol": EPS}
                watch(train[:_FEW], y[:_FEW], model=model, max_seconds=1.0, **settings)  # compiles
                fit = watch(train, y, model=model, max_seconds=limit, **settings)
                result = _describe(fit, train, y)
                result |= {"edges": name, "reg_lambda": strength, "branches": branches}
                result |= {"train": fit.score(train, y), "test": fit.score(test, y_test)}
                results.append(result)
                table.row(*_cells(result))
                write_json(arguments.json, results)
        if name == "both cells":
            _tell_programmes(table, fit, train, y)


def _colors(nodes: np.ndarray) -> np.ndarray:
    """Indicators of the colors of the neighborhood, and a constant."""
    codes = np.round(nodes[:, :27].reshape(-1, 9, 3) @ [1, 2, 4])
    return np.c_[(codes[:, :, None] == _CODES).reshape(len(nodes), -1), np.ones(len(nodes))]


def _without_edges(x: tuple) -> tuple:
    return _colors(x[0]), np.empty((0, 2), int), np.empty((0, 1))


def _with_directions(x: tuple) -> tuple:
    return _colors(x[0]), x[1], x[2]


def _with_cells(x: tuple) -> tuple:
    nodes, edges, directions = _with_directions(x)
    both = np.c_[nodes[edges[:, 0]], nodes[edges[:, 1], :-1]]
    return nodes, edges, np.hstack([both * directions[:, [k]] for k in (0, 1)])


FEATURES = {"none": _without_edges, "direction": _with_directions, "both cells": _with_cells}


def _describe(fit: WatchedSVM, X: list, y: list) -> dict[str, Any]:
    """The fit, and by how much the relaxation is above the labelings at its w."""
    bounds = [
        PairwiseGraph(K, max_branches=n).examples(X, y, "margin").find(fit.w_, 0, len(X)).bounds
        for n in (0, 1000)
    ]
    curve, slack = fit.curve, float(np.mean(bounds[0] - bounds[1]))
    return {
        "status": fit.status_,
        "seconds": curve.whole_seconds,
        "calls": int(fit.history_["oracle_calls"][-1]) / len(X),
        "pass": curve.oracle_pass,
        "gap": curve.relative_gap,
        "objective": fit.objective_,
        "bound": fit.lower_bound_,
        "slack": slack / fit.objective_,
    }


def _cells(result: dict[str, Any]) -> list[str]:
    return [
        result["edges"],
        f"{result['reg_lambda']:g}",
        f"{result['branches']}",
        result["status"],
        f"{result['seconds']:.1f}",
        f"{result['calls']:.0f}",
        f"{1e3 * result['pass']:.0f}",
        f"{result['gap']:.1e}",
        f"{result['objective']:.5g}",
        f"{result['bound']:.5g}",
        f"{result['slack']:.1e}",
        f"{100 * result['train']:.2f}",
        f"{100 * result['test']:.2f}",
    ]


def _tell_programmes(table: Table, fit: WatchedSVM, X: list, y: list) -> None:
    """The oracle of ``relaxed=True``, a linear programme per graph, beside the messages."""
    found = []
    for model in (PairwiseGraph(K, relaxed=True), PairwiseGraph(K, max_branches=0)):
        examples = model.examples(X[:_FEW], y[:_FEW], "margin")
        found.append(cpu_seconds(partial(examples.find, fit.w_, 0, _FEW)))
    (slow, exact), (fast, messages) = found
    far = float(np.max(messages.bounds - exact.bounds) / fit.objective_)
    table.note(
        f"linear programmes: {1e3 * slow / _FEW:.0f} ms a graph, messages {1e3 * fast / _FEW:.2f}; "
        f"their bound is at most {far:.1e} of the objective above the programme's"
    )
