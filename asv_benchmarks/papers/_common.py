"""What the reproductions of papers share: command line, data, tables, findings, figures.

A reproduction is a script with a docstring, which is its help, and ends with::

    if __name__ == "__main__":
        run(__doc__, reproduce)

where ``reproduce(study)`` loads data with ``study.tasks``, prints with ``study.show``, compares
with ``study.compare``, keeps raw numbers with ``study.keep`` and draws with ``study.draw``.
"""

import argparse
import sys
import textwrap
import time
from collections.abc import Callable, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where benchmarks is
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "studies"))

from _measure import (
    Rows,
    header,
    load_tasks,
    print_plain,
    print_rst,
    quiet_single_thread,
    write_json,
)

WIDTH = 100  # of the findings, in characters
_LARGEST_FIGURE = 150_000  # bytes, of a page in the documentation


class Style(NamedTuple):
    """How a curve is drawn: it can be told from the others by each of the three alone."""

    color: str
    linestyle: Any
    marker: str


# Okabe and Ito's colors, which those who are color-blind can tell apart, from dark to light.
STYLES = (
    Style("#000000", "-", "o"),
    Style("#0072B2", "--", "s"),
    Style("#D55E00", "-.", "^"),
    Style("#009E73", ":", "D"),
    Style("#CC79A7", (0, (5, 1, 1, 1, 1, 1)), "v"),
    Style("#E69F00", (0, (8, 2)), "X"),
    Style("#56B4E9", (0, (1, 1)), "P"),
)


class Finding(NamedTuple):
    """A statement of the paper beside what came out here."""

    where: str
    paper: str
    ours: str
    agrees: bool | None  # None: cannot be decided from what was run

    @property
    def verdict(self) -> str:
        return {True: "agrees", False: "DISAGREES", None: "open"}[self.agrees]


class Study:
    """One run of a reproduction."""

    def __init__(self, arguments: argparse.Namespace):
        self.arguments = arguments
        self.tasks = load_tasks(arguments.data)
        self.findings: list[Finding] = []
        self.results: list[dict[str, Any]] = []
        self._start = time.monotonic()

    @property
    def seconds_left(self) -> float:
        """Until --max-minutes have passed; negative after it."""
        return 60.0 * self.arguments.max_minutes - (time.monotonic() - self._start)

    def show(self, title: str, columns: Sequence[str], rows: Rows) -> None:
        """A table, as text or with --rst as reStructuredText; its cells are strings."""
        (print_rst if self.arguments.rst else print_plain)(title, columns, rows)
        sys.stdout.flush()

    def compare(self, where: str, paper: str, ours: str, agrees: bool | None) -> None:
        """Keep a finding, which is printed at the end; ``agrees`` is computed, not judged."""
        self.findings.append(Finding(where, paper, ours, None if agrees is None else bool(agrees)))

    def keep(self, **numbers: Any) -> None:
        """Raw numbers for --json, which is written anew so that an ended run keeps them."""
        self.results.append(numbers)
        write_json(self.arguments.json, self.results)

    def draw(self, make: Callable[[Any], Any], suffix: str = "") -> None:
        """With --figure: ``make(pyplot)`` returns the figure; ``suffix`` is for a second file."""
        if self.arguments.figure is None:
            return
        path = self.arguments.figure
        save_figure(make(pyplot()), path.with_stem(path.stem + suffix))

    def close(self) -> None:
        """Print the findings, how many agree, and how long it all took."""
        columns = "where", "the paper", "here", "verdict"
        if self.arguments.rst:
            _rst_findings(self.findings)
        else:
            print("\nWhat the paper says and what came out here")
            for finding in self.findings:
                _plain_finding(columns, finding)
        verdicts = [finding.verdict for finding in self.findings]
        counts = ", ".join(f"{verdicts.count(v)} {v}" for v in dict.fromkeys(verdicts)) or "none"
        minutes, cpu = (time.monotonic() - self._start) / 60.0, time.process_time() / 60.0
        print(f"\n{len(verdicts)} statements: {counts}.")
        print(f"{minutes:.1f} minutes, {cpu:.1f} of them CPU time.")
        self.keep(
            findings=[{**f._asdict(), "verdict": f.verdict} for f in self.findings],
            minutes=round(minutes, 2),
            cpu_minutes=round(cpu, 2),
        )


def run(
    description: str,
    reproduce: Callable[[Study], None],
    add_arguments: Callable[[argparse.ArgumentParser], None] | None = None,
) -> None:
    """Parse the command line and reproduce, in one thread."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--data",
        type=Path,
        metavar="FOLDER",
        help="folder with tasks.py; without it, a small version on data that ships with "
        "scikit-learn",
    )
    parser.add_argument("--figure", type=Path, metavar="FILE", help="draw the figure (.png)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the raw numbers")
    parser.add_argument("--rst", action="store_true", help="the tables as reStructuredText")
    parser.add_argument(
        "--max-minutes",
        type=float,
        default=15.0,
        help="after which no further fits are begun (default %(default)s)",
    )
    if add_arguments is not None:
        add_arguments(parser)
    arguments = parser.parse_args()
    print(header(description.splitlines()[0]), flush=True)
    study = Study(arguments)
    with quiet_single_thread():
        reproduce(study)
    study.close()


def pyplot() -> Any:
    """matplotlib.pyplot without a window, in the style of all figures here."""
    try:
        import matplotlib
    except ImportError as error:
        raise SystemExit('--figure needs matplotlib: pip install ".[plot]"') from error
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    plt.rcParams.update(
        {
            "axes.grid": True,
            "axes.titlesize": "medium",
            "figure.constrained_layout.use": True,
            "font.size": 9.0,
            "grid.color": "#dddddd",
            "grid.linewidth": 0.6,
            "legend.fontsize": 8.0,
            "legend.framealpha": 0.9,
            "lines.linewidth": 1.4,
            "lines.markersize": 4.5,
        }
    )
    return plt


def line(ax: Any, x: Any, y: Any, which: int, label: str | None = None, **settings: Any) -> Any:
    """A curve in the style ``STYLES[which]``, with markers spaced evenly on paper."""
    style = STYLES[which % len(STYLES)]
    spacing = (0.02 * (which % len(STYLES)), 0.15)  # shares of the axes' diagonal
    settings = {"markevery": spacing, **style._asdict(), **settings}
    return ax.plot(x, y, label=label, **settings)[0]


def save_figure(figure: Any, path: Path, dpi: int = 110) -> None:
    """As a PNG of few colors, which keeps it small; says so if it is too large for the pages."""
    from PIL import Image  # matplotlib needs it

    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=dpi)
    image = Image.open(buffer).convert("RGB").quantize(64, dither=Image.Dither.NONE)
    image.save(path, optimize=True)
    size = path.stat().st_size
    large = "" if size <= _LARGEST_FIGURE else f", more than {_LARGEST_FIGURE}"
    print(f"\n{path}: {size} bytes{large}")


def _plain_finding(columns: Sequence[str], finding: Finding) -> None:
    width = max(map(len, columns)) + 1
    for name, text in zip(columns, (*finding[:3], finding.verdict), strict=True):
        first, rest = f"  {name + ':':<{width}} ", " " * (width + 3)
        print(textwrap.fill(text, WIDTH, initial_indent=first, subsequent_indent=rest))
    print()


def _rst_findings(findings: list[Finding]) -> None:
    print("\n.. list-table::\n   :header-rows: 1\n   :widths: 12 38 38 12\n")
    rows = [("Where", "The paper", "Here", "Verdict")]
    rows += [(*finding[:3], finding.verdict) for finding in findings]
    for row in rows:
        for k, cell in enumerate(row):
            print(f"   {'* -' if k == 0 else '  -'} {cell}")
