"""StructuredSVM with its default solver beside the methods of the papers, to the same gap.

Rows are OCR letters and chunks at reg_lambda = setting / n, images of horses and matchings of the
CMU house at reg_lambda = setting. The peers are our own bcfw, rsd and bundle: which method to take,
and what one costs.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from _cell import Cell, Data, Peer, Sides
from _data import Sets

from sklearn_bundle import StructuredSVM
from sklearn_bundle.models import Graph, Matching

SOLVERS = ("bcfw", "rsd", "bundle")


def _sides(model: Callable[[], Any], solver: str, value: float, per_row: bool, data: Data) -> Sides:
    reg_lambda = value / len(data.y) if per_row else value

    def fit(solver: str, **changes: Any) -> Any:
        settings = {"reg_lambda": reg_lambda, "solver": solver, "max_iter": 100_000}
        settings |= {"random_state": 0, "n_jobs": 1} | changes
        return StructuredSVM(model(), **settings).fit(data.X, data.y)

    return Sides(partial(fit, "auto"), {solver: Peer(fit_data=lambda data, _: fit(solver))})


def _graphs(sets: Sets, name: str) -> Data:
    X, y, X_test, y_test = sets.tasks.structured(name)
    if name == "horses":
        X, X_test = ([x[:3] for x in part] for part in (X, X_test))
    return Data(X, y, X_test, y_test)


def structured(sets: Sets) -> Iterable[Cell]:
    """Seconds to a certified gap of 1e-3, and those of the papers' methods over them."""
    rows: list[tuple[str, Any, Callable[[], Data], tuple[float, ...], bool]] = []
    if sets.tasks is None:
        rows.append(("made", lambda: "chain", sets("sequences", "made"), (1.0,), True))
    else:
        ocr, chunks = sets("sequences", "ocr", 2_000), sets("sequences", "conll2000", 500)
        rows += [
            ("ocr", lambda: "chain", ocr, (10.0, 1.0), True),
            ("conll2000", lambda: "chain", chunks, (1.0,), True),
            ("horses", Graph, partial(_graphs, sets, "horses"), (6.0, 0.6), False),
            ("house", Matching, partial(_graphs, sets, "house_90"), (10.0, 1.0), False),
        ]
    for name, model, load, strengths, per_row in rows:
        for value in strengths:
            for solver in SOLVERS:
                yield Cell(
                    solver, name, value, load, partial(_sides, model, solver, value, per_row)
                )
