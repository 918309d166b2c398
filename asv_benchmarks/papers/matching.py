"""The statements of Teo et al. (2010), section 5.3.2, on learning to match points, tried.

Points of two frames of the CMU house are matched by their shape contexts, which are weighted
equally, or as the structured hinge loss with an L2 or an L1 norm has learned it. Frames 1, 4, 7,
... are to train, 2, 5, 8, ... to validate, 3, 6, 9, ... to test, each with the frame that is a
baseline later. reg_lambda has the least validation error; of several it is the largest.

Then the solvers of StructuredSVM at the largest baseline. Seconds are CPU time, one thread.
"""

import argparse
from functools import partial

from _common import Study, run
from _house import Frames, read
from _matching_figure import draw
from _matching_findings import MIDDLE, compare_all
from _matching_fits import Baseline, learn
from _structured_house import SOLVERS, STRENGTHS, cells, columns, timed

TRIAL = {  # test errors of an earlier trial: without learning, and learned
    20: (0.007, 0.0),
    30: (0.017, 0.0),
    40: (0.054, 0.0),
    50: (0.142, 0.017),
    60: (0.296, 0.055),
    70: (0.362, 0.062),
    80: (0.423, 0.133),
    90: (0.514, 0.124),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--max-seconds",
        type=float,
        default=20.0,
        metavar="S",
        help="CPU time at which a fit that is timed is ended (default %(default)s)",
    )


def reproduce(study: Study) -> None:
    frames = read(study.tasks)
    found: list[Baseline] = []
    for apart in frames.baselines:
        if study.seconds_left < 0.0:
            print(f"baseline {apart} skipped: no time left")
            continue
        found.append(learn(frames, apart))
        study.keep(**found[-1].as_dict())
    _show_errors(study, frames, found)
    _show_times(study, frames)
    compare_all(study, found)
    study.draw(partial(draw, found, MIDDLE))


def _show_errors(study: Study, frames: Frames, found: list[Baseline]) -> None:
    title = f"{frames.name}: share of points that are matched wrongly, by baseline"
    names = "baseline", "train / validate / test", "no learning", "L2", "its lambda", "L1"
    told = [*names, "its lambda"]
    rows = []
    for b in found:
        row = [f"{b.apart}", " / ".join(map(str, b.sizes)), f"{b.without:.3f}"]
        for name in ("L2", "L1"):
            row += [f"{b.learned[name].test:.3f}", f"{b.learned[name].reg_lambda:.3g}"]
        if study.tasks is not None:
            row += [f"{x:.3f}" for x in TRIAL[b.apart]] if b.apart in TRIAL else ["-", "-"]
        rows.append(row)
    if study.tasks is not None:
        told += ["trial: no learning", "trial: learned"]
    study.show(title, told, rows)


def _show_times(study: Study, frames: Frames) -> None:
    apart = frames.baselines[-1]
    names = [name for name, _ in columns()]
    for reg_lambda in STRENGTHS:
        rows = []
        for solver in SOLVERS:
            _, curve = timed(frames, apart, reg_lambda, solver, study.arguments.max_seconds)
            rows.append([solver, *cells(curve)])
            numbers = {"baseline": apart, "curve": curve.as_dict()}
            study.keep(solver=solver, reg_lambda=reg_lambda, **numbers)
        title = f"{frames.name}, baseline {apart}, reg_lambda = {reg_lambda:g}: by certified gap"
        study.show(title, names, rows)


if __name__ == "__main__":
    run(__doc__, reproduce, add_arguments)
