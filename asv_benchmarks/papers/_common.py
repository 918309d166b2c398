"""What the studies of papers share: command line, data, tables, findings, figures.

A study is a script with a docstring, which is its help, and ends with ``run(__doc__, reproduce)``.
``reproduce(study)`` loads data with ``study.tasks``, prints with ``study.show``, compares with
``study.compare`` and draws with ``study.draw``.
"""

import argparse
import json
import sys
import textwrap
import time
import warnings
from collections.abc import Callable, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where benchmarks is
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "studies"))

from _clock import header, load_tasks, versions

_WIDTH = 100  # of the findings, in characters
# Color, dashes and marker of a curve: each alone tells it from the others. Colors of Okabe and Ito.
_STYLES = (
    ("#000000", "-", "o"),
    ("#0072B2", "--", "s"),
    ("#D55E00", "-.", "^"),
    ("#009E73", ":", "D"),
    ("#CC79A7", (0, (5, 1, 1, 1, 1, 1)), "v"),
    ("#E69F00", (0, (8, 2)), "X"),
    ("#56B4E9", (0, (1, 1)), "P"),
)


class Panel(NamedTuple):
    """Curves (x, y) by name, on one pair of axes."""

    title: str
    x: str
    y: str
    curves: dict[str, tuple[Any, Any]]
    scales: tuple[str, str] = ("log", "log")


class Study:
    """One run of a study."""

    def __init__(self, arguments: argparse.Namespace):
        self.arguments = arguments
        self.tasks = load_tasks(arguments.data)
        self.findings: list[tuple[str, str, str, str]] = []
        self.tables: dict[str, Any] = {}

    def show(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """A table of text, which --json keeps too."""
        cells = [[str(cell) for cell in row] for row in (columns, *rows)]
        self.tables[title] = {"columns": cells[0], "rows": cells[1:]}
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        print(f"\n{title}")
        for row in cells:
            first, *others = zip(row, widths, strict=True)
            print(f"{first[0]:<{first[1]}}", *(f"{c:>{w}}" for c, w in others), flush=True)

    def compare(self, where: str, paper: str, ours: str, agrees: Any) -> None:
        """Keep a finding, which is printed at the end; ``agrees`` is computed, None if open."""
        verdict = "open" if agrees is None else "agrees" if agrees else "DISAGREES"
        self.findings.append((where, paper, ours, verdict))

    def draw(self, panels: Sequence[Panel], columns: int = 3) -> None:
        """With --figure: all panels, a legend in each."""
        if self.arguments.figure is not None and panels:
            _draw(self.arguments.figure, panels, columns)

    def close(self, started: float) -> None:
        """Print the findings and how many agree; write --json."""
        print("\nWhat the paper says and what came out here")
        for finding in self.findings:
            for name, text in zip(("where", "paper", "here", "verdict"), finding, strict=True):
                first, rest = f"  {name + ':':<9}", " " * 11
                print(textwrap.fill(text, _WIDTH, initial_indent=first, subsequent_indent=rest))
            print()
        verdicts = [verdict for *_, verdict in self.findings]
        counts = ", ".join(f"{verdicts.count(v)} {v}" for v in dict.fromkeys(verdicts))
        minutes = (time.process_time() - started) / 60.0
        print(f"{len(verdicts)} statements: {counts}. {minutes:.1f} minutes of CPU time.")
        if self.arguments.json is not None:
            told = {"versions": versions(), "minutes": minutes, "tables": self.tables}
            told["findings"] = self.findings
            self.arguments.json.write_text(json.dumps(told, indent=1))


def run(description: str, reproduce: Callable[[Study], None]) -> None:
    """Parse the command line and reproduce, in one thread."""
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=description, formatter_class=form)
    parser.add_argument("--data", type=Path, help="folder with tasks.py; else what ships")
    parser.add_argument("--figure", type=Path, metavar="FILE", help="draw the figure (.png)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write tables and findings")
    arguments = parser.parse_args()
    print(header(description.splitlines()[0]), flush=True)
    study, started = Study(arguments), time.process_time()
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of fits that end before their tol on purpose
        reproduce(study)
    study.close(started)


def _draw(path: Path, panels: Sequence[Panel], columns: int) -> None:
    """As a PNG of few colors, which keeps it small."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt
    from PIL import Image  # matplotlib needs it

    plt.rcParams |= {"axes.grid": True, "font.size": 9.0, "grid.color": "#dddddd"}
    plt.rcParams |= {"axes.titlesize": "medium", "legend.fontsize": 7.0, "lines.markersize": 4.0}
    n_rows = -(-len(panels) // columns)
    size = 3.1 * columns, 2.7 * n_rows
    figure, axes = plt.subplots(n_rows, columns, figsize=size, layout="constrained", squeeze=False)
    for ax in axes.flat[len(panels) :]:
        ax.set_axis_off()
    for panel, ax in zip(panels, axes.flat, strict=False):
        for which, (name, (x, y)) in enumerate(panel.curves.items()):
            color, dashes, marker = _STYLES[which % len(_STYLES)]
            form = {"color": color, "linestyle": dashes, "marker": marker, "markevery": 0.15}
            ax.plot(x, y, label=name, **form)
        ax.set(title=panel.title, xlabel=panel.x, ylabel=panel.y)
        ax.set_xscale(panel.scales[0])
        ax.set_yscale(panel.scales[1])
        ax.legend()
    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=100)
    image = Image.open(buffer).convert("RGB").quantize(48, dither=Image.Dither.NONE)
    image.save(path, optimize=True)
    print(f"\n{path}: {path.stat().st_size} bytes")


# ---- curves of fits ----------------------------------------------------------------------------


class Curve(NamedTuple):
    """What a fit knew after each iteration; objective and bound are the best so far."""

    iteration: Any
    seconds: Any
    objective: Any
    bound: Any
    passes: Any
    ended: str

    def first(self, reached: Any, what: str = "iteration") -> float | None:
        """Where ``reached`` holds for the first time, or None."""
        at = np.flatnonzero(reached)
        return float(getattr(self, what)[at[0]]) if len(at) else None

    @property
    def gap(self) -> Any:
        return self.objective - self.bound

    @property
    def relative_gap(self) -> Any:
        return self.gap / np.abs(self.objective)


def curve_of(model: Any) -> Curve:
    """The history of a fitted model."""
    history = model.history_
    best = np.minimum.accumulate(history["objective"])
    bound = np.maximum.accumulate(history["lower_bound"])
    count, status = np.asarray(history["iteration"]), str(model.status_)
    return Curve(count, history["seconds"], best, bound, history["passes"], status)


def counted(value: float | None, last: float, form: str = ".0f") -> str:
    """The number, or that it is more than the fit had."""
    return f">{last:{form}}" if value is None else f"{value:{form}}"
