"""Bars as text: which of them are in view, and where they are drawn."""

import sys
from types import ModuleType, SimpleNamespace

import pytest
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV

from sklearn_bundle import BMRMClassifier, BMRMClassifierCV, PragamSVC, callbacks
from sklearn_bundle.callbacks import ProgressBar
from sklearn_bundle.core.bars import Bars, Display, OneLine, display
from sklearn_bundle.core.monitor import Lines
from sklearn_bundle.jit import announce

pytest.importorskip("sklearn.callback")


@pytest.fixture(autouse=True)
def quiet_compilation(monkeypatch):
    """The first test to need a function compiles it: its line must not be among the bars."""
    monkeypatch.setattr(announce, "listen", lambda *args: None)


def test_of_many_tasks_only_those_that_run_are_in_view():
    bars = Bars()
    bars.begin((0,), "search", 50)
    for k in range(50):
        bars.begin((0, k), f"fit #{k}", 10)
        bars.step((0, k), 5, None, None)
        (whole, *running) = bars.lines()
        assert f"{k}/50" in whole or k == 0
        assert len(running) == 1 and f"fit #{k}" in running[0] and " 50%" in running[0]
        bars.end((0, k), "")
    bars.end((0,), "")
    (line,) = bars.lines()
    assert "100%" in line and line.endswith("50/50")


def test_few_tasks_stay_in_view():
    bars = Bars()
    bars.begin((0,), "fit", 2)
    for k, note in enumerate(["converged", "max_iter"]):
        bars.begin((0, k), f"class #{k}", None)
        bars.end((0, k), note)
    assert [line.split()[-1] for line in bars.lines()] == ["2/2", "converged", "max_iter"]


@pytest.mark.parametrize("gap, percent", [(1.0, 10), (0.1, 33), (1e-2, 66), (1e-9, 100)])
def test_a_gap_moves_a_bar_where_it_is_further_than_the_iterations(gap, percent):
    bars = Bars()
    bars.begin((0,), "fit", 1000)
    bars.step((0,), 100, gap, 1e-3)
    assert f" {percent}% " in bars.lines()[0]


def fit_a_search(**params):
    search = GridSearchCV(BMRMClassifier(**params), {"reg_lambda": [0.1, 0.01]}, cv=2)
    return search.set_callbacks(ProgressBar()).fit(*load_iris(return_X_y=True))


def test_a_search_leaves_its_own_bars_and_those_of_the_last_fit(capsys):
    model = fit_a_search().best_estimator_
    lines = capsys.readouterr().out.splitlines()
    names = [line.partition("━")[0].strip() for line in lines]
    refit = "refit-with-best-params | BMRMClassifier"
    assert names == ["GridSearchCV", "search", refit, *(f"class {k} ({k + 1}/3)" for k in range(3))]
    assert all("100%" in line for line in lines) and lines[1].endswith("4/4")
    assert f"converged, gap {model.relative_gap_:.1e}, " in lines[2]


class Elsewhere(callbacks._Run):
    """Draws what is told by files alone, as if by other processes."""

    def __init__(self):
        super().__init__()
        self.process = -1


def test_what_other_processes_report_comes_by_files(capsys, monkeypatch):
    fit_a_search()
    here = capsys.readouterr().out
    monkeypatch.setattr(callbacks, "_Run", Elsewhere)
    fit_a_search()
    there = capsys.readouterr().out
    assert there == here and not callbacks._RUNS and not callbacks._OUTBOX._steps


def test_a_search_of_ours_has_bars_of_its_folds(capsys):
    model = BMRMClassifierCV(reg_lambdas=2, cv=4).set_callbacks(ProgressBar())
    model.fit(*load_iris(return_X_y=True))
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition("━")[0].strip() for line in lines[:3]] == [
        "BMRMClassifierCV",
        "search",
        "refit",
    ]
    assert lines[1].endswith("4/4")


def test_after_an_error_the_bar_stays_where_it_was(capsys):
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError):
        PragamSVC().set_callbacks(ProgressBar()).fit(X, y[:-1])
    assert not callbacks._RUNS and capsys.readouterr().out == ""


class ZMQInteractiveShell:
    pass


def test_a_notebook_gets_one_output_of_text(capsys, monkeypatch):
    shown = []

    def show(data, raw, display_id=None):
        assert raw
        shown.append((display_id, data))
        return SimpleNamespace(update=show)

    ipython, module = ModuleType("IPython"), ModuleType("IPython.display")
    ipython.get_ipython, module.display = ZMQInteractiveShell, show
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    monkeypatch.setattr(callbacks, "_SECONDS_BETWEEN_DRAWINGS", 1e-3)
    fit_a_search()
    assert [display_id for display_id, _ in shown] == [True] + [None] * (len(shown) - 1)
    assert set(shown[-1][1]) == {"text/plain"} and "4/4" in shown[-1][1]["text/plain"]
    assert capsys.readouterr() == ("", "")


def test_a_terminal_without_rich_has_one_line(capsys, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setitem(sys.modules, "rich.console", None)
    place = display()
    assert isinstance(place, OneLine)
    place.show(["a longer line", "below"])
    place.show(["a line"])
    place.end(["a line", "below"])
    assert capsys.readouterr().out == "\ra longer line\ra line       \r      \ra line\nbelow\n"


def test_an_output_that_cannot_encode_bars_or_names_gets_others(monkeypatch):
    """It has no ``isatty`` either, as logs that users write."""
    written = []
    out = SimpleNamespace(encoding="cp1252", write=written.append, flush=lambda: None)
    monkeypatch.setattr(sys, "stdout", out)
    place = display()
    assert type(place) is Display
    place.end(["class 'łä' ━━╸──"])
    Lines("A", 1).print("class 'łä'")
    assert "".join(written) == "class '\\u0142ä' ###--\n[A] class '\\u0142ä'\n"


def test_a_display_that_cannot_begin_is_the_error_that_one_sees(monkeypatch):
    def fail():
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(callbacks, "_Run", fail)
    with pytest.raises(RuntimeError, match="new thread"):
        fit_a_search()


@pytest.mark.parametrize("depth", [-1, 0.5, "all"])
def test_depths(depth):
    with pytest.raises(ValueError, match="max_propagation_depth must be"):
        ProgressBar(depth)
