"""Put a study's raw numbers into the tables of asv_benchmarks/measured, which the pages include.

python asv_benchmarks/studies/peers.py linear --data FOLDER --json raw.json
python asv_benchmarks/studies/pages.py raw.json linear linear-small

A table there says under "labels" what the text of a row or column stands for in a raw result:
{"hinge": {"row": "hinge"}}. "show" in a label names the number to take, by default the ratio; a
label that is a number stands for the setting. A cell gets the numbers of all results that have what
its row and its column stand for, or with the "form" "mean" their mean, least and largest. Cells
without a result keep what they have. The table gets the date of the raw numbers.
"""

import argparse
import json
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from _clock import readable

FOLDER = Path(__file__).resolve().parents[1] / "measured"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("raw", type=Path, help="what a study wrote with --json")
    parser.add_argument("table", nargs="+", help="tables to fill, by name")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="of the tables")
    arguments = parser.parse_args()
    raw = json.loads(arguments.raw.read_text(encoding="utf-8"))
    facts = raw["versions"]
    for name in arguments.table:
        path, content = _holder(arguments.folder, name)
        table = content["tables"][name]
        n_written, n_cells = fill(table, raw["results"])
        day, before = facts["date"][:10], table.get("date", content["date"])
        if n_written == n_cells:
            table["date"] = day
            table.pop("machine", None)  # that of the file
        elif n_written and not before.startswith(day):
            table["date"] = f"{day}, in part {before}"
        print(f"{path.name}, {name}: {n_written} of {n_cells} cells")
        path.write_text(readable(content), encoding="utf-8")


def _holder(folder: Path, name: str) -> tuple[Path, dict[str, Any]]:
    """The file with a table of this name, and what it has."""
    for path in sorted(folder.glob("*.json")):
        content = json.loads(path.read_text(encoding="utf-8"))
        if name in content.get("tables", {}):
            return path, content
    raise SystemExit(f"No file in {folder} has a table {name!r}.")


def fill(table: dict[str, Any], raw: list[dict[str, Any]]) -> tuple[int, int]:
    """Write the cells that the raw results know; how many, and how many there are."""
    labels, columns = table["labels"], table["columns"]
    n_written = n_cells = 0
    above: dict[int, dict[str, Any]] = {}
    for row in table["rows"]:
        wanted = dict(table.get("of", {}))
        for k, (heading, text) in enumerate(zip(columns, row, strict=True)):
            if heading in labels:
                found = [r for r in raw if _has(r, wanted | labels[heading])]
                n_cells += text != "--" or bool(found)
                if found:
                    show = labels[heading].get("show", "ratio")
                    row[k] = _cell(found, show, table.get("form", "each"))
                    n_written += 1
            else:
                if text != "..":
                    above[k] = labels[text] if text in labels else {"setting": float(text)}
                wanted |= above[k]
    return n_written, n_cells


def _has(result: dict[str, Any], wanted: dict[str, Any]) -> bool:
    if wanted.get("show", "ratio") not in result:
        return False
    pairs = [(result[key], value) for key, value in wanted.items() if key != "show"]
    return all(abs(a - b) <= 1e-6 * abs(b) if isinstance(b, float) else a == b for a, b in pairs)


def _cell(results: list[dict[str, Any]], show: str, form: str) -> str:
    """All numbers, in the order of the settings; or their mean, the least and the largest."""
    values = [result[show] for result in results]
    if form == "each" or len(values) == 1:
        return ", ".join(map(_text, values))
    if isinstance(values[0], list):
        ratios = [value for value, _ in values]
        return f"{_text([geometric_mean(ratios), ''])} ({_range(min(ratios), max(ratios))})"
    return " to ".join(dict.fromkeys(map(_text, (min(values), max(values)))))


def _range(least: float, most: float) -> str:
    return f"{_text([least, ''])} to {_text([most, ''])}"


def _text(value: Any) -> str:
    """Of a ratio two digits, more only before the point, after ">" or "<" if it is a bound."""
    if not isinstance(value, list):
        return f"{value:,}" if isinstance(value, int) else f"{value:.3g}"
    number, mark = value
    digits = f"{number:.0f}" if number >= 9.95 else f"{number:.1f}"
    return f"{mark} {digits if number >= 0.995 else f'{number:.2g}'}".strip()


if __name__ == "__main__":
    main()
