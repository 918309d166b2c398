"""Put a study's raw numbers into the tables of asv_benchmarks/measured, which the pages include.

python asv_benchmarks/studies/peers.py linear --part A --data FOLDER --json raw.json
python asv_benchmarks/studies/pages.py raw.json linear

A table there says under "labels" what the text of a row or column stands for in a raw row:
{"hinge": {"part": "A"}}. A label that is a number stands for itself, by the name of its column. A
cell gets the ratios of all raw rows that have what its row and its column stand for, or with the
"form" "mean" their mean, least and largest; cells without one keep what they have, as do columns
"by hand". The table gets the day of the raw numbers: as its "date", or before the days of the rest.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where benchmarks is

from _cells_contest import ratio_of
from _measure import readable
from _parts import geometric_mean

FOLDER = Path(__file__).resolve().parents[1] / "measured"
_SAME = 1e-6  # relative difference of numbers that are the same


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("raw", type=Path, help="what a study wrote with --json")
    parser.add_argument("table", nargs="+", help="tables to fill, by name")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="of the tables")
    arguments = parser.parse_args()
    raw = json.loads(arguments.raw.read_text(encoding="utf-8"))
    for name in arguments.table:
        path, content = _holder(arguments.folder, name)
        table = content["tables"][name]
        n_written, n_cells = fill(table, raw["results"])
        day, before = raw["versions"]["date"][:10], table.get("date", content["date"])
        if n_written and not before.startswith(day):
            table["date"] = day if n_written == n_cells else f"{day}, in part {before}"
        print(f"{path.name}, {name}: {n_written} of {n_cells} ratios")
        path.write_text(readable(content), encoding="utf-8")


def _holder(folder: Path, name: str) -> tuple[Path, dict[str, Any]]:
    """The file with a table of this name, and what it has."""
    for path in sorted(folder.glob("*.json")):
        content = json.loads(path.read_text(encoding="utf-8"))
        if name in content.get("tables", {}):
            return path, content
    raise SystemExit(f"No file in {folder} has a table {name!r}.")


def fill(table: dict[str, Any], raw: list[dict[str, Any]]) -> tuple[int, int]:
    """Write the cells that the raw rows know; how many, and how many there are."""
    labels, columns, by_hand = table["labels"], table["columns"], table.get("by hand", ())
    n_written = n_cells = 0
    above: dict[int, dict[str, Any]] = {}
    for row in table["rows"]:
        wanted: dict[str, Any] = {}
        for k, (heading, text) in enumerate(zip(columns, row, strict=True)):
            if heading in by_hand:
                continue
            if heading in labels:
                found = [r for r in raw if _has(r, wanted | labels[heading])]
                n_cells += text != "--" or bool(found)
                if found:
                    row[k], n_written = _cell(found, table.get("form", "each")), n_written + 1
            else:
                if text != "..":
                    above[k] = labels[text] if text in labels else {heading: float(text)}
                wanted |= above[k]
    return n_written, n_cells


def _has(row: dict[str, Any], wanted: dict[str, Any]) -> bool:
    for key, value in wanted.items():
        if key not in row:
            return False
        if isinstance(value, float):
            if not abs(row[key] - value) <= _SAME * abs(value):
                return False
        elif row[key] != value:
            return False
    return True


def _cell(rows: list[dict[str, Any]], form: str) -> str:
    """All their ratios, the largest reg_lambda first; or their mean, the least and the largest."""
    rows = sorted(rows, key=lambda row: -row.get("reg_lambda", 0.0))
    ratios = [row["ratio"] if "ratio" in row else ratio_of(row) for row in rows]
    if form == "each" or len(ratios) == 1:
        return ", ".join(map(_text, ratios))
    return f"{_text(geometric_mean(ratios))} ({_text(min(ratios))} to {_text(max(ratios))})"


def _text(ratio: Any) -> str:
    """Two digits, more only before the point, after ">" or "<" if it is a bound."""
    if ratio is None:
        return "--"
    value, mark = (ratio, "") if isinstance(ratio, float) else ratio
    digits = f"{value:.0f}" if value >= 9.95 else f"{value:.1f}"
    return f"{mark} {digits if value >= 0.995 else f'{value:.2g}'}".strip()


if __name__ == "__main__":
    main()
