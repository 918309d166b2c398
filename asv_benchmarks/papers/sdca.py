"""The experiments of Le Priol, Piche and Lacoste-Julien (2018): SDCA for CRFs.

Section 6 compares samplings of SDCA on OCR letters (figure 2), shares of gap sampling on Dutch
named entities (figure 3), and solvers (figures 4, 6 and 7: suboptimality over oracle calls and
parameter updates, test error), and asks whether the estimate of the gap can be trusted (figure 9).
reg_lambda = 1/n and all attributes by all labels with the biases of labels, as there; other
attributes of words. Each task is cut to 3,000 random training sequences (--sequences), with the
attributes that occur in them. The paper's fourth task, the Penn Treebank, is not in the folder.

An epoch is n updates, for lbfgs an iteration; an oracle call is one marginalisation of one
sequence, counted over n. Suboptimality is relative to the lowest objective of all fits, one of them
to a gap of 1e-8. A fit ends at a relative gap of 1e-6, or after as many epochs as the tables say
(lbfgs after three times as many). The paper compares with OEG and SAG-NUS. "exponentiated" with
uniform sampling is OEG with another rule for its steps; SAG-NUS, and SAG-NUS* which skips line
searches, are those of _sag_nus.py.

Seconds are CPU time, one thread, without the looks at objective and test error.
"""

import argparse
import gc
from functools import partial
from typing import Any

import numpy as np
from _common import Study, run
from _sdca_data import ChainTask, epochs_of, names, read, size_rows
from _sdca_figure import draw
from _sdca_findings import compare_all
from _sdca_fits import (
    LBFGS,
    OEG_GAP,
    SAMPLINGS,
    SHARES,
    SOLVERS,
    TOL,
    Tester,
    follow,
    ratio_of_gaps,
)

Found = dict[str, Any]  # of a task: task, fits, best, bound


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tasks", nargs="+", metavar="TASK", help="some tasks alone")
    parser.add_argument(
        "--sequences",
        type=int,
        default=3000,
        help="training sequences of each task, 0 for all (default %(default)s)",
    )


def reproduce(study: Study) -> None:
    tasks = list(read(study.arguments.tasks, study.tasks, study.arguments.sequences))
    columns = ["data", "", "d", "n", "N", "K", "A", "a", "GiB of marginals"]
    study.show("Table 1", columns, list(size_rows(tasks, study.tasks)))
    gc.freeze()  # each timing begins with a collection, which would look at all of this again
    found: dict[str, Found] = {}
    for task in tasks:
        if study.seconds_left < 0.0:
            print(f"{task.name} skipped: no time left")
            continue
        result = _fit_all(study, task)
        found[task.name] = result
        _show(study, result)
    if study.tasks is not None:
        compare_all(study, found)
    if found:
        study.draw(partial(draw, found))


def _fit_all(study: Study, task: ChainTask) -> Found:
    """Figure 4 for every task, figure 2 for the first and figure 3 for the last."""
    kinds = [*SOLVERS]
    first, *_, last = names(study.tasks)
    kinds += SAMPLINGS if task.name == first else SHARES if task.name == last else ()
    most, tester, fits = epochs_of(task), Tester(task), {}
    for kind in dict.fromkeys(kinds):
        if kind == OEG_GAP:  # the reference, which therefore goes on
            fits[kind] = follow(task, kind, 4 * most, tester, 0.01 * TOL)
        else:
            fits[kind] = follow(task, kind, most, tester if kind in SOLVERS else None)
        study.keep(task=task.name, **fits[kind].as_dict())
    best = min(fit.curve["objective"].min() for fit in fits.values())
    bound = max(fit.curve["lower_bound"].max() for fit in fits.values())
    return {"task": task, "fits": fits, "best": best, "bound": bound}


def _show(study: Study, found: Found) -> None:
    best = found["best"]
    doubt = (best - found["bound"]) / best
    title = f"{found['task'].name}: epochs and oracle calls over n to a relative {TOL:g}; "
    title += f"the optimum is {best:.7f}, known to {doubt:.0e}"
    columns = ["solver", "epochs to subopt", "oracle calls", "epochs to gap", "oracle calls"]
    columns += ["CPU s", "last subopt", "last gap", "wrong on the test part, %", "ended"]
    rows = []
    for fit in found["fits"].values():
        row = [fit.kind.label]
        curves = fit.excess(best), fit.relative_gap
        for curve in curves:
            for over in ("epochs", "oracle_calls"):
                at = fit.first(over, curve, TOL)
                row.append(f">{fit.curve[over][-1]:.0f}" if at is None else f"{at:.0f}")
        row += [f"{fit.seconds:.1f}", *(f"{curve[-1]:.0e}" for curve in curves)]
        row.append(f"{fit.tests[1][-1]:.2f}" if len(fit.tests[1]) else "-")
        rows.append([*row, fit.status])
    study.show(title, columns, rows)
    rows = []
    dual = [fit for fit in found["fits"].values() if fit.kind != LBFGS]
    for fit, ratios in ratio_of_gaps(dual, len(found["task"].train.labels)):
        within = 100.0 * np.mean((ratios > 0.5) & (ratios < 2.0))
        low, middle, high = np.quantile(ratios, (0.0, 0.5, 1.0))
        share = "-" if fit.kind.sampling == "-" else f"{fit.kind.share:g}"
        row = [fit.kind.solver, fit.kind.sampling, share]
        rows.append([*row, f"{low:.2f}", f"{middle:.2f}", f"{high:.2f}", f"{within:.0f}"])
    columns = ["solver", "sampling", "share", "least", "median", "most", "within a factor 2, %"]
    title = f"{found['task'].name}: estimated gap over the true one, after log n epochs (figure 9)"
    study.show(title, columns, rows)


if __name__ == "__main__":
    run(__doc__, reproduce, add_arguments)
