"""Figures of ``asv_benchmarks/measured/*.json`` in pages: the one place that has measured ratios.

A file there has the results of one command: ``tables`` with columns and rows, and ``figures``, each
a summary of a table, or a value. What holds for all of them (``command``, ``date``, ``version``,
``machine``, ``peer``, ``data``) stands at the top of the file, and what differs beside the table.

* ``.. measured:: NAME`` is the table, with its source below it.
* ``|NAME|`` is a figure: its geometric mean, with the lowest and the highest value in parentheses.
  ``|NAME-mean|`` and ``|NAME-range|`` are the parts of it.
"""

import json
import re
from pathlib import Path
from statistics import geometric_mean

FOLDER = Path(__file__).parents[1] / "asv_benchmarks" / "measured"
SOURCE = "command", "date", "version", "machine", "peer", "data"
_NUMBER = re.compile(r"\d*\.?\d+")


def load(folder: Path = FOLDER) -> tuple[dict, dict]:
    """All tables and all figures by name, each with its source."""
    tables, figures = {}, {}
    for path in sorted(folder.glob("*.json")):
        content = json.loads(path.read_text(encoding="utf-8"))
        common = {key: content[key] for key in SOURCE if key in content}
        for kind, found in ((tables, "tables"), (figures, "figures")):
            for name, entry in content.get(found, {}).items():
                if name in kind:
                    raise ValueError(f"{path.name}: a second entry of the name {name!r}")
                kind[name] = tables.get(entry.get("table"), common) | entry
    return tables, figures


def number(value: float) -> str:
    """Two digits, more only before the point: 3.9, 0.62, 12, 432."""
    return f"{value:.0f}" if value >= 9.95 else f"{value:.2g}" if value < 0.995 else f"{value:.1f}"


def ratios(figure: dict) -> tuple[list[float], list[float]]:
    """The values that a figure sums up, and all numbers in their cells: "5.4 (4.7 to 6.2)"."""
    means, extremes, group = [], [], ""
    for row in figure["rows"]:
        group = group if row[0] == ".." else row[0]
        if group.startswith(figure.get("of", "")):
            for column in figure["in"]:
                mean, _, rest = row[figure["columns"].index(column)].partition("(")
                values = [float(n) for n in _NUMBER.findall(mean.replace(",", " "))]
                means += values
                extremes += values + [float(n) for n in _NUMBER.findall(rest)]
    return means, extremes


def texts(figures: dict) -> dict[str, str]:
    """What each substitution reads."""
    found = {}
    for name, figure in figures.items():
        if "value" in figure:
            found[name] = figure["value"]
            continue
        means, extremes = ratios(figure)
        mean, low, high = map(number, (geometric_mean(means), min(extremes), max(extremes)))
        found[f"{name}-mean"], found[f"{name}-range"] = mean, f"{low} to {high}"
        found[name] = f"{mean} ({low} to {high})"
    return found


def source(entry: dict) -> str:
    """One line for below a table: what it is compared with, on what, and how to repeat it."""
    sides = [entry[key] for key in ("peer", "data") if entry.get(key, "none") != "none"]
    day = f"{entry['date']}, version {entry['version']}"
    return "; ".join((*sides, f"``{entry['command']}``", entry["machine"], day)) + "."


def table(entry: dict) -> list[str]:
    """A list-table of reStructuredText; what has no value is an empty cell."""
    lines = [".. list-table::", "   :header-rows: 1", "   :class: measured", ""]
    for row in (entry["columns"], *entry["rows"]):
        for k, cell in enumerate(row):
            lines.append(f"   {'* -' if k == 0 else '  -'} {'' if cell == '..' else cell}".rstrip())
    return lines


def setup(app):
    from docutils.parsers.rst import Directive  # here, so that tests need no Sphinx
    from docutils.statemachine import StringList

    tables, figures = load()

    class Measured(Directive):
        """``.. measured:: NAME``"""

        required_arguments = 1

        def run(self):
            (name,) = self.arguments
            if name not in tables:
                raise self.error(f"no table {name!r} in {FOLDER}")
            entry = tables[name]
            below = ["", ".. rst-class:: measured-source", "", source(entry), ""]
            parent = self.state.parent.__class__()
            lines = StringList([*table(entry), *below], source=str(FOLDER))
            self.state.nested_parse(lines, 0, parent)
            return parent.children

    app.add_directive("measured", Measured)
    lines = [f".. |{name}| replace:: {text}" for name, text in texts(figures).items()]
    app.config.rst_prolog = "\n".join(lines) + "\n"
    return {"parallel_read_safe": True}
