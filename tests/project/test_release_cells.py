"""``release.py``: its cells cover all estimators, and its verdict sees what is slow or false."""

import importlib
from inspect import isclass
from operator import attrgetter
from pathlib import Path

import numpy as np
import pytest

import sklearn_bundle

STUDIES = Path(__file__).parents[2] / "asv_benchmarks" / "studies"


@pytest.fixture
def release(monkeypatch):
    monkeypatch.syspath_prepend(str(STUDIES))
    return importlib.import_module("release")


def test_each_estimator_has_a_cell_and_each_cell_a_name(release):
    public = {name for name in sklearn_bundle.__all__ if isclass(getattr(sklearn_bundle, name))}
    assert public <= set(map(attrgetter("made"), release.CELLS))
    assert len({cell.name for cell in release.CELLS}) == len(release.CELLS)
    assert set().union(*(cell.kinds for cell in release.CELLS)) == set(release.KINDS)


@pytest.mark.parametrize(
    "ratios, failed",
    [
        ([1.1, 1.1, np.nan], 0),
        ([1.51, 0.5], 1),  # a cell
        ([1.2, 1.2], 1),  # the mean
        ([1.6, 1.6], 3),
    ],
)
def test_what_is_slow_fails(release, ratios, failed):
    cells = release.CELLS  # of one family, the first ones
    rows = [release.Row(cells[k], "fit", 1.0, ratio) for k, ratio in enumerate(ratios)]
    assert len(release.failures(rows)) == failed


@pytest.mark.parametrize(
    "objective, bound, status, failed",
    [
        (2.0, 1.9, "converged", 0),
        (1.8, 1.7, "converged", 1),  # below the old bound
        (2.3, 2.2, "converged", 1),  # the bound above the old objective
        (2.0, 1.9, "max_iter", 1),
        ([2.0, 1.0], [1.9, 0.9], ["converged"] * 2, 1),  # two problems in place of one
    ],
)
def test_what_is_false_fails(release, objective, bound, status, failed):
    old, new = map(np.atleast_1d, (2.1, 1.85, "converged")), (objective, bound, status)
    faults = tuple(release.compare(list(old), [np.atleast_1d(part) for part in new]))
    row = release.Row(release.CELLS[0], "fit", 1.0, 1.0, faults=faults)
    assert len(release.failures([row])) == failed
