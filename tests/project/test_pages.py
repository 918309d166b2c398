"""Raw numbers of a study get into the tables of the pages: the right cells, and no others."""

import importlib
import json
import sys
from pathlib import Path

import pytest

STUDIES = Path(__file__).parents[2] / "asv_benchmarks" / "studies"
MEASURED = STUDIES.parent / "measured"


@pytest.fixture
def pages(monkeypatch):
    monkeypatch.syspath_prepend(str(STUDIES))
    return importlib.import_module("pages")


def raw(part, task, reg_lambda, **further):
    return {"part": part, "task": task, "reg_lambda": reg_lambda, **further}


def peer(seconds):
    return {"chosen": {"J*": None if seconds is None else {"seconds": seconds}}, "ladder": []}


def test_cells_that_were_measured(pages):
    table = {
        "columns": ["data", "reg_lambda", "hinge", "logistic"],
        "labels": {"hinge": {"part": "A"}, "logistic": {"part": "L"}, "a9a, 123": {"task": "a9a"}},
        "rows": [["a9a, 123", "1e-4", "1", "2"], ["..", "1e-5", "3", "--"]],
    }
    ours = {"ours": {"seconds": 2.0}, "status": "converged"}
    rows = [
        raw("A", "a9a", 1e-4, **ours, peers={"x": peer(7.0), "y": peer(None), "z": peer(5.0)}),
        raw("L", "a9a", 1.0000000001e-5, ratio=[12.34, ">"]),
        raw("A", "w8a", 1e-5, ratio=4.0),
        raw("path", "a9a", 1e-5, ratio=4.0),
    ]
    assert pages.fill(table, rows) == (2, 4)
    assert table["rows"] == [["a9a, 123", "1e-4", "2.5", "2"], ["..", "1e-5", "3", "> 12"]]


def test_several_ratios_in_a_cell(pages):
    rows = [raw("A", "a9a", value, ratio=2.0**-k) for k, value in enumerate((1e-4, 1e-3, 1e-5))]
    table = {"columns": ["data", "A"], "labels": {"A": {"part": "A"}, "a9a": {"task": "a9a"}}}
    each = table | {"rows": [["a9a", ""]]}
    assert pages.fill(each, rows) == (1, 1) and each["rows"] == [["a9a", "0.5, 1.0, 0.25"]]
    mean = table | {"rows": [["a9a", "", "left"]], "form": "mean", "by hand": ["B"]}
    mean["columns"] = ["data", "A", "B"]
    assert pages.fill(mean, rows) == (1, 1)
    assert mean["rows"] == [["a9a", "0.5 (0.25 to 1.0)", "left"]]


@pytest.mark.parametrize("n_rows, date", [(6, "2031-01-02"), (5, "2031-01-02, in part 2026-11-26")])
def test_a_file_keeps_all_else_and_says_when(pages, tmp_path, monkeypatch, n_rows, date):
    before = json.loads((MEASURED / "linear.json").read_text("utf-8"))
    (tmp_path / "linear.json").write_text(json.dumps(before), encoding="utf-8")
    tasks = ("breast_cancer", "digits_odd", "made_sparse")
    rows = [raw("A", task, value, ratio=1.25) for task in tasks for value in (1e-2, 1e-4)]
    content = {"versions": {"date": "2031-01-02T03:04"}, "results": rows[:n_rows]}
    (tmp_path / "raw").write_text(json.dumps(content), encoding="utf-8")
    given = [str(tmp_path / "raw"), "linear-small", "--folder", str(tmp_path)]
    before["tables"]["linear-small"]["date"] = "2026-11-26"
    (tmp_path / "linear.json").write_text(json.dumps(before), encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["pages.py", *given])
    pages.main()
    after = json.loads((tmp_path / "linear.json").read_text("utf-8"))
    table = after["tables"].pop("linear-small")
    was = before["tables"].pop("linear-small")
    assert after == before and table["date"] == date and table["labels"] == was["labels"]
    assert [cell for row in table["rows"] for cell in row[1:]].count("1.2") == n_rows
    monkeypatch.setattr(sys, "argv", ["pages.py", given[0], "unknown", *given[2:]])
    with pytest.raises(SystemExit, match="'unknown'"):
        pages.main()


def test_labels_of_all_tables_stand_in_them():
    """A label that no row or column has would be one that was renamed."""
    n_tables = 0
    for path in MEASURED.glob("*.json"):
        for name, table in json.loads(path.read_text("utf-8")).get("tables", {}).items():
            texts = set(table["columns"]).union(*table["rows"])
            assert set(table.get("labels", ())) <= texts, name
            n_tables += "labels" in table
    assert n_tables >= 8
