"""``peers.py cells`` and ``sparse`` run: formulas equal ours, and a slow peer is stopped."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

STUDIES = Path(__file__).parents[2] / "asv_benchmarks" / "studies"
LOSSES = (
    *("squared_error", "huber", "huber_scale", "poisson", "absolute_error", "quantile"),
    *("epsilon_insensitive", "hinge", "squared_hinge", "log_loss", "softmax", "multiclass_hinge"),
)
SPARSE = (
    *("lasso", "elasticnet", "log_loss", "log_loss_free"),
    *("squared_hinge", "squared_hinge_free"),
)


@pytest.mark.wide
def test_objectives_and_bounds_hold_beside_the_peers(tmp_path):
    study = [
        sys.executable,
        STUDIES / "peers.py",
        "cells",
        "--reg-lambda",
        "1e-2",
        "--repeat",
        "1",
    ]
    chosen = ["--loss", *LOSSES, "--sets", "diabetes", "breast_cancer", "digits", "--limit", "5"]
    written = tmp_path / "cells.json"
    subprocess.run([*study, *chosen, "--json", written], check=True, capture_output=True)
    results = json.loads(written.read_text())["results"]
    cells = [result for result in results if result["part"] != "path"]
    assert {cell["part"] for cell in cells} == set(LOSSES)
    for cell in cells:
        assert cell["status"] == "converged", cell["part"]
        assert not cell["false_bound"] and not cell["false_objective"], cell["part"]
        assert cell["notes"] == [], cell["part"]
    assert [result["task"] for result in results if result["part"] == "path"] == ["diabetes"]


@pytest.mark.wide
def test_sparse_objectives_and_bounds_hold_beside_the_peers(tmp_path):
    study = [sys.executable, STUDIES / "peers.py", "sparse", "--quick", "--tol", "1e-3"]
    written = tmp_path / "sparse.json"
    chosen = ["--repeat", "1", "--limit", "5", "--json", written]
    subprocess.run([*study, *chosen], check=True, capture_output=True)
    results = json.loads(written.read_text())["results"]
    cells = [result for result in results if "quality" in result]
    assert {cell["part"] for cell in cells} == set(SPARSE)
    for cell in cells:
        assert cell["status"] == "converged", cell["part"]
        assert not cell["false_bound"] and not cell["false_objective"], cell["part"]
        assert cell["notes"] == [], cell["part"]
    assert {r["part"] for r in results if "quality" not in r} == {"path", "search"}


@pytest.mark.wide
def test_a_run_has_its_seconds():
    spec = importlib.util.spec_from_file_location("_cells_limit", STUDIES / "_cells_limit.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    def endless():
        while True:
            pass

    assert module.run_limited(lambda: 3, 1.0) == 3
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        module.run_limited(lambda: 1 // 0, 1.0)
    with pytest.raises(module.LimitError, match=r"more than 0\.1 s"):
        module.run_limited(endless, 0.1)
