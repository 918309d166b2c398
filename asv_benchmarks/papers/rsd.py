"""The statements of Yu and Rousu (2007) on restricted simplicial decomposition (RSD), tried.

The paper has no experiments. Sections 2.1 and 3.2 say how the ways to apply RSD compare: one
simplex for all examples, a product of simplexes, working sets of examples, and a limit r on the
points of a simplex. All are solvers of StructuredSVM and minimize one objective, beside plain
cutting planes, on label sequences and on classes.

A fit ends at a certified relative gap of 1e-3, or after some seconds: ">" is before what it had
taken by then. An oracle call is the loss-augmented inference of one example, counted over n. The
share of the oracle is at most its calls times the CPU time of a pass of cutting planes.

python asv_benchmarks/papers/rsd.py --data FOLDER --figure rsd.png
"""

from collections.abc import Iterator
from time import process_time
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from _common import Curve, Panel, Study, counted, curve_of, run
from benchmarks.chains import chains
from sklearn.datasets import load_digits

from sklearn_bundle import StructuredSVM

GAPS = (1e-1, 1e-2, 1e-3)
METHODS = {
    "cutting planes": ("bundle", None),
    "one simplex": ("rsd-one-simplex", 10_000),
    "working sets": ("rsd-working-sets", None),
    "product of simplexes": ("rsd", None),
}
LIMITS = (2, 5, 20)  # points of a simplex: the paper's r
_SECONDS = 40.0  # by the clock


class Task(NamedTuple):
    """Examples, the model of their outputs, and n reg_lambda."""

    name: str
    model: str
    strength: float
    X: Any
    y: Any


class Fit(NamedTuple):
    """How a fit went."""

    curve: Curve
    seconds: float  # CPU
    done: bool

    def calls(self, gap: float) -> float | None:
        return self.curve.first(self.curve.relative_gap <= gap, "passes")

    @property
    def per_pass(self) -> float:
        return self.seconds / self.curve.passes[-1]

    def share(self, a_pass: float) -> float:
        """Of the oracle in the CPU time, at most."""
        return min(1.0, a_pass / self.per_pass)


def read(tasks: ModuleType | None) -> Iterator[Task]:
    if tasks is None:
        X, y = load_digits(return_X_y=True)
        yield Task("digits in words", "chain", 10.0, *chains("digit_words"))
        yield Task("digits", "multiclass", 1.0, X / 16.0, y)
    else:
        X, y = tasks.sequences("ocr")[2:]
        yield Task("OCR, fold 0", "chain", 10.0, X, y)
        yield Task("usps", "multiclass", 100.0, *tasks.multiclass("usps"))


def follow(task: Task, solver: str, limit: int | None, **further: Any) -> Fit:
    settings = {"reg_lambda": task.strength / len(task.y), "solver": solver, "max_iter": 10**7}
    settings |= {"n_cached_outputs": limit, "random_state": 0, "n_jobs": 1} | further
    model = StructuredSVM(task.model, tol=GAPS[-1], **settings)
    StructuredSVM(task.model, **settings | {"max_time": 0.01}).fit(task.X[:50], task.y[:50])
    start = process_time()
    model.set_params(max_time=_SECONDS).fit(task.X, task.y)
    seconds = process_time() - start
    return Fit(curve_of(model), seconds, bool(model.converged_))


def _row(name: Any, fit: Fit, a_pass: float) -> list[Any]:
    cells = [counted(fit.calls(gap), fit.curve.passes[-1]) for gap in GAPS]
    seconds = f"{'' if fit.done else '>'}{fit.seconds:.2f}"
    return [name, *cells, seconds, f"{100.0 * fit.share(a_pass):.0f}"]


def reproduce(study: Study) -> None:
    panels = []
    columns = [*(f"calls/n to {gap:g}" for gap in GAPS), "CPU s", "oracle's share, %"]
    for task in read(study.tasks):
        fits = {name: follow(task, *how) for name, how in METHODS.items()}
        limits = {
            (solver, r): follow(task, solver, r)
            for solver in ("rsd-one-simplex", "rsd")
            for r in LIMITS
        }
        a_pass = fits["cutting planes"].per_pass
        rows = [_row(name, fit, a_pass) for name, fit in fits.items()]
        rows += [_row(f"{s}, r = {r}", fit, a_pass) for (s, r), fit in limits.items()]
        study.show(f"{task.name}, {len(task.y):,} examples", ["method", *columns], rows)
        _compare(study, task, fits, limits)
        lines = {k: (f.curve.passes, f.curve.relative_gap) for k, f in fits.items()}
        panels.append(Panel(task.name, "oracle calls / n", "certified relative gap", lines))
    study.draw(panels, columns=2)


def _compare(study: Study, task: Task, fits: dict[str, Fit], limits: dict[Any, Fit]) -> None:
    def calls(fit: Fit) -> float:
        return fit.calls(1e-2) or np.inf

    def told(some: dict[Any, Fit]) -> str:
        texts = (f"{k}: {counted(f.calls(1e-2), f.curve.passes[-1])}" for k, f in some.items())
        return "calls over n to 1e-2: " + ", ".join(texts)

    one, product = fits["one simplex"], fits["product of simplexes"]
    for name, solver in (("one simplex", "rsd-one-simplex"), ("product", "rsd")):
        by_limit = {f"r = {r}": limits[solver, r] for r in LIMITS}
        least = calls(limits[solver, LIMITS[0]])
        more = min(calls(limits[solver, r]) for r in LIMITS[1:])
        study.compare(
            f"2.1, {task.name}, {name}",
            "A moderate increase of the limit alleviates the zigzagging significantly.",
            told(by_limit),
            None if np.isinf(more) else 2.0 * more <= least,
        )
    study.compare(
        f"3.2, {task.name}",
        "A product of simplexes makes more progress an iteration than one simplex.",
        told(fits),
        None if np.isinf(calls(product)) else calls(product) < calls(one),
    )
    study.compare(
        f"3.2, {task.name}",
        "Coordinate ascent can be inefficient: a large working set, or none, is better.",
        told({k: fits[k] for k in ("working sets", "product of simplexes")}),
        None if np.isinf(calls(product)) else calls(product) < calls(fits["working sets"]),
    )
    study.compare(
        f"3.2, {task.name}",
        "The product pays for its progress by the size of its masters.",
        f"CPU seconds a pass: one simplex {one.per_pass:.3f}, product {product.per_pass:.3f}.",
        product.per_pass > one.per_pass,
    )
    a_pass = fits["cutting planes"].per_pass
    shares = {name: fit.share(a_pass) for name, fit in fits.items() if name != "cutting planes"}
    shown = ", ".join(f"{name} {100 * share:.0f} %" for name, share in shares.items())
    study.compare(
        f"3.2, {task.name}",
        "Finding the extreme points is the main cost.",
        f"Share of the oracle in the CPU time at most: {shown}.",
        min(shares.values()) > 0.5,
    )
    study.compare(
        f"3.4, {task.name}",
        "Of one simplex without a limit it is column generation, cutting planes.",
        told({k: fits[k] for k in ("cutting planes", "one simplex")}),
        None
        if np.isinf(calls(one))
        else abs(calls(one) - calls(fits["cutting planes"])) <= 0.1 * calls(one),
    )
    if task.model != "chain":  # whose oracle does not rescale the slack
        found = {
            loss: follow(task, "rsd", None, scaling="slack", loss=loss)
            for loss in ("hinge", "squared_hinge")
        }
        study.compare(
            f"4.2, {task.name}",
            "RSD applies to rescaled slacks too, and to the cone of their squares.",
            told(found),
            all(fit.done for fit in found.values()),
        )


if __name__ == "__main__":
    run(__doc__, reproduce)
