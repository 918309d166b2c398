"""Segmented images: solvers of "graph" at two resolutions, accuracy beside simpler models, cuts.

The Weizmann horses with 4 x 4 pixels per node ("horses", about 600 nodes) and with one
("horses_full", about 9,900), 60 images to learn from and 80 to test on. The loss of an image is its
number of wrong nodes; so P divided by the mean number of nodes N has the loss per node, and the
penalty reg_lambda / N. Strengths are reg_lambda and reg_lambda / N.
"""

import argparse
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from _measure import Table, cpu_seconds, write_json
from _structured_watch import SVMCurve, watch
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow
from sklearn.linear_model import LogisticRegression

from sklearn_bundle import StructuredSVM
from sklearn_bundle.models import Graph

SOLVERS = ("auto", "bcfw", "rsd", "rsd-working-sets", "rsd-one-simplex")
STRENGTHS = (1e-2, 1e-3)
EPS = 1e-3  # the certified gap
_MOST = (
    1e9  # scipy cuts whole numbers: in units of which an image's flow has fewer; int32 holds 2e9
)


class Images(NamedTuple):
    """Graphs with labels of their nodes: to learn from, and to test on."""

    name: str
    X: list
    y: list
    X_test: list
    y_test: list

    @property
    def n_nodes(self) -> float:
        """Mean number of nodes."""
        return float(np.mean([len(labels) for labels in self.y]))


def run(tasks: ModuleType | None, arguments: argparse.Namespace, results: list[dict]) -> None:
    """Print a table per resolution and strength."""
    names = ("horses", "horses_full") if tasks is not None else ("made", "made_full")
    limit = arguments.max_seconds or 60.0
    for name in names:
        images = _load(name, tasks)
        solvers = [solver for solver in arguments.solvers if solver in SOLVERS]
        for solver in solvers:  # compiles
            _fit(images._replace(X=images.X[:4], y=images.y[:4]), solver, images.n_nodes, 1.0)
        for per in ("node", "image"):
            for strength in STRENGTHS:
                reg_lambda = strength * (images.n_nodes if per == "node" else 1.0)
                few = [solver for solver in solvers if per == "node" or solver == "auto"]
                _table(images, few, reg_lambda, limit, results)
                write_json(arguments.json, results)


def _load(name: str, tasks: ModuleType | None) -> Images:
    if tasks is None:
        return Images(name, *_made(8 if name == "made" else 32))
    X, y, X_test, y_test = tasks.structured(name)
    return Images(name, [x[:3] for x in X], y, [x[:3] for x in X_test], y_test)


def _made(side: int, n: int = 60) -> tuple[list, list, list, list]:
    """Disks in noise on a grid of nodes; the features are brightness and position."""
    rng = np.random.default_rng(0)
    v, u = np.mgrid[-1 : 1 : side * 1j, -1 : 1 : side * 1j]
    k = np.arange(side * side).reshape(side, side)
    rows, columns = np.stack([k[:, :-1], k[:, 1:]], -1), np.stack([k[:-1], k[1:]], -1)
    edges = np.concatenate([rows.reshape(-1, 2), columns.reshape(-1, 2)])
    X, y = [], []
    for _ in range(n):
        center = rng.uniform(-0.5, 0.5, 2)
        labels = (v - center[0]) ** 2 + (u - center[1]) ** 2 < rng.uniform(0.1, 0.6)
        gray = labels + rng.normal(size=labels.shape)
        nodes = np.stack([np.ones_like(gray), gray, v * v, u * u], -1).reshape(-1, 4)
        step = np.abs(np.diff(gray.ravel()[edges], axis=1))
        X.append((nodes, edges, np.c_[np.ones(len(edges)), np.exp(-step)]))
        y.append(labels.ravel().astype(int))
    half = n // 2
    return X[:half], y[:half], X[half:], y[half:]


def _fit(
    images: Images, solver: str, reg_lambda: float, max_seconds: float
) -> tuple[StructuredSVM, SVMCurve]:
    settings = {"solver": solver, "reg_lambda": reg_lambda, "tol": EPS}
    return watch(images.X, images.y, model=Graph(), max_seconds=max_seconds, **settings)


def _table(
    images: Images, solvers: list[str], reg_lambda: float, limit: float, results: list[dict]
) -> None:
    print(
        f"\n{images.name}, n = {len(images.X)}, {images.n_nodes:.0f} nodes per image, reg_lambda = "
        f"{reg_lambda:.3g}, {reg_lambda / images.n_nodes:.1e} per node; at most {limit:g} s a fit"
    )
    columns = [("solver", 20), ("pass ms", 8), ("to 1e-3: s", 10), ("calls/n", 8), ("s/pass", 7)]
    table = Table([*columns, ("last gap", 9), ("objective", 11), ("bound", 11), ("test %", 7)])
    model = None
    for solver in solvers:
        model, curve = _fit(images, solver, reg_lambda, limit)
        k = curve.at(EPS)
        reached = ["-", "-", "-"]
        if k is not None:
            seconds, calls = curve.seconds[k], curve.calls[k]
            reached = [f"{seconds:.2f}", f"{calls:.0f}", f"{seconds / curve.oracle_pass:.0f}"]
        accuracy = model.score(images.X_test, images.y_test)
        ends = f"{model.objective_:.6g}", f"{model.lower_bound_:.6g}", f"{100 * accuracy:.2f}"
        table.row(
            *(solver, f"{1e3 * curve.oracle_pass:.1f}", *reached),
            *(f"{curve.relative_gap:.1e}", *ends),
        )
        result = {"task": images.name, "solver": solver, "reg_lambda": reg_lambda}
        results.append(result | {"accuracy": accuracy, "curve": curve.as_dict()})
    results.append(_baselines(table, images, reg_lambda))
    if model is not None:
        results.append(_cuts(table, images, model))


def _baselines(table: Table, images: Images, reg_lambda: float) -> dict[str, Any]:
    """Without edges, and a logistic regression of all nodes with the same penalty per node."""
    lone = images._replace(X=_without_edges(images.X), X_test=_without_edges(images.X_test))
    model, curve = _fit(lone, "auto", reg_lambda, 60.0)
    unary = model.score(lone.X_test, lone.y_test)
    gap, seconds = curve.relative_gap, curve.whole_seconds
    table.note(f"edges left out (auto): {100 * unary:.2f} %, {seconds:.2f} s to a gap of {gap:.0e}")
    nodes, labels = np.concatenate([x[0] for x in images.X]), np.concatenate(images.y)
    C = images.n_nodes / reg_lambda / len(labels)
    peer = LogisticRegression(C=C, max_iter=1000)
    seconds, _ = cpu_seconds(partial(peer.fit, nodes, labels))
    test_nodes = np.concatenate([x[0] for x in images.X_test])
    logistic = peer.score(test_nodes, np.concatenate(images.y_test))
    most = max(np.mean(np.concatenate(images.y_test)), 1.0 - np.mean(np.concatenate(images.y_test)))
    table.note(f"LogisticRegression(C={C:.2g}): {100 * logistic:.2f} %, {seconds:.2f} s")
    table.note(f"label 0 or 1 everywhere, whichever is more: {100 * most:.2f} %")
    return {"task": images.name, "reg_lambda": reg_lambda, "unary": unary, "logistic": logistic}


def _without_edges(X: list) -> list:
    return [(nodes, np.empty((0, 2), int), np.empty((0, E.shape[1]))) for nodes, _, E in X]


def _cuts(table: Table, images: Images, model: StructuredSVM) -> dict[str, Any]:
    """The oracle at the fitted w, all that it takes, beside scipy's flow alone."""
    examples, w = model.model_.examples(images.X, images.y, "margin"), model.w_
    n = len(images.X)
    ours, found = _quickest(partial(examples.find, w, 0, n))
    networks = [_network(x, y, w) for x, y in zip(images.X, images.y, strict=True)]
    theirs, flows = _quickest(lambda: [maximum_flow(g, s, s + 1) for g, s, *_ in networks])
    ours, theirs = 1e3 * ours / n, 1e3 * theirs / n
    scores = [
        excess - unit * flow.flow_value
        for (_, _, excess, unit), flow in zip(networks, flows, strict=True)
    ]
    largest = np.abs(found.scores - scores).max()
    coarsest = max(unit for *_, unit in networks)
    table.note(
        f"ms per loss-augmented inference at this w: {ours:.3f}; scipy's maximum_flow alone, on "
        f"its network: {theirs:.3f} ({theirs / ours:.1f} times); its scores differ by at most "
        f"{largest:.0e}, as capacities are in units of up to {coarsest:.0e}"
    )
    return {"task": images.name, "ours_ms": ours, "scipy_ms": theirs, "difference": largest}


def _quickest(run: Callable[[], Any]) -> tuple[float, Any]:
    """CPU seconds of the fastest of three runs, and what it returned."""
    return min((cpu_seconds(run) for _ in range(3)), key=lambda timed: timed[0])


def _network(x: tuple, y: np.ndarray, w: np.ndarray) -> tuple[csr_array, int, float, float]:
    """Whole capacities, the source's number, the score if all nodes could have it, the unit."""
    nodes, edges, features = x
    n, d = nodes.shape
    ones = nodes @ w[:d] + 1.0 - 2.0 * y
    pairs = features @ w[d:]
    unequal = y[edges[:, 0]] != y[edges[:, 1]]
    excess = np.maximum(ones, 0.0).sum() - ones @ y + pairs @ unequal
    values = np.r_[np.maximum(ones, 0.0), np.maximum(-ones, 0.0), pairs, pairs]
    tails = np.r_[np.full(n, n), np.arange(n), edges[:, 0], edges[:, 1]]
    heads = np.r_[np.arange(n), np.full(n, n + 1), edges[:, 1], edges[:, 0]]
    unit = max(np.abs(ones).sum() / _MOST, values.max() / _MOST)
    whole = np.rint(values / unit).astype(np.int32)
    return csr_array((whole, (tails, heads)), shape=(n + 2, n + 2)), n, float(excess), float(unit)
