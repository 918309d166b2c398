"""The statements of Yu and Rousu (2007) on restricted simplicial decomposition (RSD), tried.

The paper has no experiments. Sections 2.1 and 3.2 to 4.2 say how the ways to apply RSD compare: one
simplex for all examples, a product of simplexes, working sets of examples, and a limit r on the
points of a simplex. All are solvers of StructuredSVM here and minimize one objective, beside plain
cutting planes, on label sequences and on classes. reg_lambda is such that most fits take seconds.

A fit ends at a certified relative gap of 1e-3, or after --max-seconds of CPU time: ">" is before
what it had taken by then. An oracle call is the loss-augmented inference of one example, counted
over n. The share of the oracle is its calls by the time of a pass over all examples, which is timed
between the states of the same fit.

Seconds are CPU time, one thread.
"""

import argparse
from functools import partial

from _common import Study, run
from _rsd_data import Task, read, size_row
from _rsd_figure import Found, draw
from _rsd_findings import compare_all
from _rsd_fits import BY_LIMIT, METHODS, TARGETS, VARIANTS, Fit, Kind, follow


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--sets", nargs="+", metavar="SET", help="some sets alone")
    parser.add_argument(
        "--max-seconds",
        type=float,
        default=8.0,
        metavar="S",
        help="CPU time at which a fit is ended (default %(default)s)",
    )


def reproduce(study: Study) -> None:
    tasks = list(read(study.arguments.sets, study.tasks))
    columns = ["data", "model", "n", "outputs of an example", "parameters", "lambda"]
    study.show("Data", columns, [size_row(task) for task in tasks])
    found: Found = []
    for task in tasks:
        if study.seconds_left < 0.0:
            print(f"{task.name} skipped: no time left")
            continue
        found.append((task, _fit_all(study, task)))
        _show(study, *found[-1])
    compare_all(study, found)
    if found:
        study.draw(partial(draw, found))


def _fit_all(study: Study, task: Task) -> dict[Kind, Fit]:
    kinds = [*METHODS, *(kind for kinds in BY_LIMIT.values() for kind in kinds)]
    if task.model != "chain":  # whose oracle does not rescale the slack
        kinds += VARIANTS
    fits = {}
    for kind in dict.fromkeys(kinds):
        follow(task, kind, 0.0)  # compiles
        fits[kind] = follow(task, kind, study.arguments.max_seconds)
        study.keep(task=task.name, **fits[kind].as_dict())
    return fits


def _show(study: Study, task: Task, fits: dict[Kind, Fit]) -> None:
    columns = ["method", *(f"calls/n to {eps:g}" for eps in TARGETS)]
    columns += [*(f"CPU s to {eps:g}" for eps in TARGETS), "oracle's share, %", "last gap"]
    rows = [[kind.label, *_cells(fits[kind])] for kind in METHODS]
    study.show(f"{task.title}: the methods", columns, rows)
    for name, kinds in BY_LIMIT.items():
        rows = [[f"{kind.limit}", *_cells(fits[kind])] for kind in kinds]
        study.show(f"{task.title}: {name}, by the limit r", ["r", *columns[1:]], rows)
    if task.model != "chain":
        rows = [[k.scaling, k.loss, k.label, *_cells(fits[k])] for k in VARIANTS]
        title = f"{task.title}: margins and slacks rescaled (section 4.2)"
        study.show(title, ["rescaled", "loss", *columns], rows)


def _cells(fit: Fit) -> list[str]:
    calls, seconds = [], []
    for eps in TARGETS:
        k = fit.curve.at(eps)
        mark, k = (">", -1) if k is None else ("", k)
        calls.append(f"{mark}{fit.curve.calls[k]:.0f}")
        seconds.append(f"{mark}{fit.curve.seconds[k]:.2f}")
    return [*calls, *seconds, f"{100.0 * fit.oracle_share:.0f}", f"{fit.gaps[-1]:.0e}"]


if __name__ == "__main__":
    run(__doc__, reproduce, add_arguments)
