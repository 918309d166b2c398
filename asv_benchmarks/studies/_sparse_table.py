"""Cells of the study ``sparse``: ratios, then nonzeros and test scores at equal objective."""

import argparse
import warnings
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from _cells_contest import compare_cell, fastest, ratio_of
from _cells_rows import Row
from _contest import Cell
from _measure import MissingError, Table, quiet_single_thread
from _parts import Session, geometric_mean
from _ratio_table import CellTable, print_ratios, print_verdict, shown
from _sparse_contest import SparseContest, Tried
from _sparse_data import SparseSets
from _sparse_rows import largest_reg_lambda
from _svm import Data
from scipy.sparse import issparse

_SCIKIT_LEARN = ("Lasso", "ElasticNet")
_QUALITY = (
    *(("row", 20), ("set", 14), ("lambda", 9), ("ours", 9), ("score", 8)),
    *(("peer", 14), ("nonzeros", 9), ("score", 8)),
)


def run(
    rows: dict[str, Row], session: Session, sets: SparseSets, arguments: argparse.Namespace
) -> None:
    """The cells that were asked for."""
    results = {name: list(_run_row(name, rows[name], session, sets, arguments)) for name in rows}
    kind = next(iter(rows.values())).kind
    by_tol = {
        f"{name} {tol:.0e}": [r for r in found if r["suboptimality"] == tol]
        for name, found in results.items()
        for tol in arguments.tol
    }
    print_ratios(f"ratios, {kind}", by_tol, sets.names(kind))
    for name, found in by_tol.items():
        row = rows[name.split()[0]]
        print_verdict(name, row, found)
        _print_scikit_learn(name, found)
    _print_quality(results)


def _run_row(
    name: str, row: Row, session: Session, sets: SparseSets, arguments: argparse.Namespace
) -> Iterator[dict[str, Any]]:
    print(f"\n{name}: {row.title} on both sides")
    table = CellTable()
    for task in sets.names(row.kind):
        if arguments.sets is not None and task not in arguments.sets:
            continue
        try:
            data = sets.load(row.kind, task)
        except MissingError as error:
            table.skip(task, str(error))
            continue
        form = row.loss, row.fit_intercept, row.l1_ratio
        largest = largest_reg_lambda(data.X, data.y, *form)
        for divisor in arguments.reg_lambda:
            cell, tried = Cell(task, largest / divisor), Tried()
            for tol in arguments.tol:
                with quiet_single_thread(), warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # of fits that a ladder ends on purpose
                    result = _compare(row, cell, tol, data, tried, session, arguments)
                result["label"] = f"max/{divisor:g}"
                table.add(result)
                session.record(name, **result)
                yield result


def _compare(
    row: Row,
    cell: Cell,
    tol: float,
    data: Data,
    tried: Tried,
    session: Session,
    arguments: argparse.Namespace,
) -> dict[str, Any]:
    part = replace(row, suboptimality=tol, ours=partial(row.ours, tol=tol))
    settings = arguments.limit, arguments.solver, tried, arguments.same_layout
    contest = SparseContest(part, cell, data, session.kept, *settings)
    result = compare_cell(contest, session.repeat)
    models = {"ours": contest.fit_ours()}
    if (best := fastest(result)) is not None:
        peer, rung = best
        models[peer] = contest.fit_peer(peer, rung["setting"])
    return {**result, "quality": {k: _quality(model, data) for k, model in models.items()}}


def _quality(model: Any, data: Data) -> tuple[int, float]:
    """Nonzero weights, and the score on the test part: R^2, or the accuracy."""
    coef = model.coef_.toarray() if issparse(model.coef_) else np.asarray(model.coef_)
    scores = data.X_test @ coef.ravel() + float(np.ravel(model.intercept_)[0])
    if len(np.unique(data.y)) == 2:
        score = np.mean((scores > 0.0) == (data.y_test > 0.0))
    else:
        errors = np.sum((data.y_test - scores) ** 2)
        score = 1.0 - errors / np.sum((data.y_test - data.y_test.mean()) ** 2)
    return int(np.count_nonzero(coef)), float(score)


def _print_scikit_learn(name: str, results: list[dict[str, Any]]) -> None:
    """The ratios to scikit-learn's coordinate descent, which is not always the fastest peer."""
    ratios = {}
    for result in results:
        peers = {k: v for k, v in result["peers"].items() if k.startswith(_SCIKIT_LEARN)}
        if peers:
            ratios[f"{result['task']} {result['label']}"] = ratio_of({**result, "peers": peers})
    if ratios:
        mean = geometric_mean([ratio[0] for ratio in ratios.values()])
        cells = ", ".join(f"{cell} {shown(ratio)}" for cell, ratio in ratios.items())
        print(f"  {name}: to scikit-learn alone {mean:.2f}: {cells}", flush=True)


def _print_quality(results: dict[str, list[dict[str, Any]]]) -> None:
    print("\nnonzero weights, and R^2 or accuracy on the test part, at equal objective")
    table = Table(_QUALITY)
    for name, found in results.items():
        for result in found:
            (_, ours), *others = result["quality"].items()
            peer = ("-", "-", "-")
            for other, (nonzeros, score) in others:
                peer = other, f"{nonzeros}", f"{score:.4f}"
            where = f"{name} {result['suboptimality']:.0e}", result["task"], result["label"]
            table.row(*where, f"{ours[0]}", f"{ours[1]:.4f}", *peer)
