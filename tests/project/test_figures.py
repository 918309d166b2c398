"""Every ratio on a page comes from asv_benchmarks/measured: what is copied goes stale."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_spec = importlib.util.spec_from_file_location("results", ROOT / "doc/results.py")
results = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(results)

# Each page of doc/papers is the output of its own command; changes.rst is history.
PAGES = sorted(
    path
    for pattern in ("doc/*.rst", "doc/user_guide/*.rst")
    for path in ROOT.glob(pattern)
    if path.name != "changes.rst"
)
_NUMBER = r"\d[\d,.]*"
_CLAIMS = re.compile(
    rf"{_NUMBER} times (?:as|the (?:time|speed|seconds)|faster|slower|longer|fewer|more|less)\b"
    rf"|{_NUMBER} times[.,;:)]"
    rf"|\bratios? (?:of|is|are|was|were) (?!1\b){_NUMBER}"
    rf"|(?:faster|slower) by {_NUMBER}"
    rf"|{_NUMBER} % (?:faster|slower|longer|of the time)"
)
_RATIOS = re.compile(r"\bratios?\b|/ ours|over ours|times faster|faster than|speedup")
_WORD = re.compile(r"\w+")
_RULE = re.compile(r"^ *=+( +=+)+$")


def tables_of(text: str):
    """The rows of each table, the header first: simple tables, cut by their rules, and lists."""
    lines = text.splitlines()
    rules = [k for k, line in enumerate(lines) if _RULE.match(line)]
    for top, head, end in zip(rules[::3], rules[1::3], rules[2::3], strict=False):
        starts = [match.start() for match in re.finditer("=+", lines[top])]
        cuts = [slice(*ends) for ends in zip(starts, [*starts[1:], None], strict=True)]
        header = [" ".join(line[cut].strip() for line in lines[top + 1 : head]) for cut in cuts]
        yield [header, *([line[cut].strip() for cut in cuts] for line in lines[head + 1 : end])]
    for block in text.split(".. list-table::")[1:]:
        body = re.split(r"\n(?=\S)", block)[0]
        yield [re.split(r"\n +- ", row) for row in re.split(r"\n +\* - ", body)[1:]]


def unsourced(text: str) -> list[str]:
    """The ratios of a page that are written there, and not included."""
    found = [match[0] for match in _CLAIMS.finditer(re.sub(r"\s+", " ", text))]
    for header, *rows in tables_of(text):
        of_ratios = [k for k, title in enumerate(header) if _RATIOS.search(title)]
        cells = [row[k] for row in rows for k in of_ratios if k < len(row)]
        found += [c for c in cells if re.search(r"\d", re.sub(r"\|[\w-]+\|", "", c))]
    return found


def wrong_ratios(text: str, figures: dict) -> list[str]:
    """Written ratios that no result reads, or none with the peer that stands before them."""
    texts = results.texts(figures)
    (rows,) = [rows for header, *rows in tables_of(text) if "ratio" in header]
    right = [
        ratio
        for other, ratio, _ in rows
        for name, figure in figures.items()
        if texts[name] == ratio and _WORD.search(other)[0] in _WORD.findall(figure["peer"])
    ]
    return [ratio for ratio in unsourced(text) if ratio not in right]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_a_page_has_no_ratio_of_its_own(path):
    assert unsourced(path.read_text("utf-8")) == []


def test_the_readme_shows_what_the_results_read():
    text = (ROOT / "README.rst").read_text("utf-8")
    assert len(unsourced(text)) > 5
    assert wrong_ratios(text, results.load()[1]) == []


def test_ratios_that_are_changed_by_hand_are_found(tmp_path):
    readme = (ROOT / "README.rst").read_text("utf-8")
    figures = results.load()[1]
    texts = results.texts(figures)
    other = "99 (6.0 to 23)"
    changed = readme.replace(texts["crf"], other.ljust(len(texts["crf"])))
    assert wrong_ratios(changed, figures) == [other]
    assert wrong_ratios(f"{readme}\nIt is 9 times faster.", figures) == ["9 times faster"]
    assert wrong_ratios(readme.replace("CRFsuite,", "LinearSVC"), figures) == [texts["crf"]]
    for path in results.FOLDER.glob("*.json"):
        changed = path.read_text("utf-8").replace('"5.9 (4.9 to 6.7)"', '"9.9 (4.9 to 9.7)"')
        (tmp_path / path.name).write_text(changed, "utf-8")
    assert wrong_ratios(readme, results.load(tmp_path)[1]) == [texts["svc"]]


def test_every_result_has_its_source_and_is_shown():
    tables, figures = results.load()
    studies = (ROOT / "asv_benchmarks/studies/peers.py").read_text("utf-8")
    shown = "\n".join(path.read_text("utf-8") for path in PAGES)
    for name, entry in {**tables, **figures}.items():
        assert all(entry.get(key) for key in results.SOURCE), name
        (study,) = re.findall(r"peers\.py (\w+)", entry["command"])
        assert f'"{study}": _' in studies, name
        assert all(len(row) == len(entry["columns"]) for row in entry.get("rows", [])), name
    assert [n for n in tables if f".. measured:: {n}\n" not in shown] == []
    assert [n for n in figures if not re.search(rf"\|{n}(-mean|-range)?\|", shown)] == []


def test_a_summary_is_that_of_its_table():
    rows = [["a", "2.0", "8"], ["..", "0.5 (0.25 to 1)", "> 4, 4"], ["b", "100", "100"]]
    figure = {"columns": ["set", "x", "y"], "rows": rows, "of": "a", "in": ["x", "y"]}
    text = results.texts({"f": figure, "g": {"value": "3 to 4"}})
    assert text == {
        "f-mean": "2.6",
        "f-range": "0.25 to 8.0",
        "f": "2.6 (0.25 to 8.0)",
        "g": "3 to 4",
    }
