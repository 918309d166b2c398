"""Appendix E of Saha, Zhang and Vishwanathan (2010): max-margin Markov networks by excessive gap.

The paper has no experiments on structured data. Here its solver, with exact projections, Newton's
method in place of Algorithm 3, is beside the others of StructuredSVM that minimize the same
objective, all in one thread; and sequences are labeled on a Gram matrix of tokens.

A fit ends at a certified relative gap of 1e-3, or after --max-seconds of CPU time (a quarter for
the others): ">" is before what it had taken by then. Seconds are CPU time.
"""

import argparse
from functools import partial

import numpy as np
from _common import Study, run
from _m3n_fits import Task, compare_solvers, draw
from _m3n_gp import compare_kernels
from benchmarks.chains import chains

_STRENGTHS = (100.0, 10.0)  # n reg_lambda


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--max-seconds",
        type=float,
        default=120.0,
        metavar="S",
        help="CPU time at which a fit by excessive gap is ended (default %(default)s)",
    )
    parser.add_argument(
        "--sequences",
        type=int,
        default=200,
        metavar="N",
        help="the first so many alone (default %(default)s; OCR's fold 0 has 626)",
    )


def reproduce(study: Study) -> None:
    if study.tasks is None:
        name, (X, y) = "digits in words", chains("digit_words")
    else:
        name, (X, y) = "OCR, fold 0", study.tasks.sequences("ocr")[2:]
    n = study.arguments.sequences
    others, (X, y) = (X[n:], y[n:]), (X[:n], y[:n])
    lengths = [len(labels) for labels in y]
    K = len(np.unique(np.concatenate([np.asarray(labels) for labels in y])))
    row = [name, f"{len(y)}", f"{sum(lengths)}", f"{K}", f"{min(lengths)} to {max(lengths)}"]
    study.show("Data", ["data", "sequences", "tokens", "labels", "length"], [row])
    limits = {"excessive-gap": study.arguments.max_seconds}
    limits["others"] = study.arguments.max_seconds / 4.0
    found = []
    for strength in _STRENGTHS:
        task = Task(name, strength, X, y)
        found.append((task, compare_solvers(study, task, limits)))
    study.draw(partial(draw, found))
    compare_kernels(study, task, others, 100, study.arguments.max_seconds / 4.0)


if __name__ == "__main__":
    run(__doc__, reproduce, add_arguments)
