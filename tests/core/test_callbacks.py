"""scikit-learn's callbacks (1.9 and later)."""

import sys
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_iris
from sklearn.exceptions import ConvergenceWarning

from sklearn_bundle import (
    SDCACRF,
    BMRMClassifier,
    BMRMClassifierCV,
    PragamSVC,
    SwapSVC,
    SwapSVCCV,
)
from sklearn_bundle.core import monitor
from tests.contract.callbacks import StopAt

callback = pytest.importorskip("sklearn.callback")


class Tasks:
    """Remembers the path of names of every task."""

    def __init__(self):
        self.paths = set()

    def setup(self, estimator, context):
        pass

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        path = []
        while context is not None:
            path.insert(0, context.task_name)
            context = context.parent
        self.paths.add("/".join(path))

    def on_fit_task_end(self, estimator, context):
        pass


class Counts(Tasks):
    """Counts the tasks of a name."""

    def __init__(self):
        self.n = Counter()

    def on_fit_task_begin(self, estimator, context):
        self.n[context.task_name] += 1


@pytest.mark.wide
@pytest.mark.matrix
@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize(
    "model",
    [
        BMRMClassifier(),
        BMRMClassifierCV(reg_lambdas=[0.1, 0.01], cv=2),
        PragamSVC(reg_lambda=1.0),
        SwapSVC(),
        SwapSVCCV(Cs=2, cv=2),
        SDCACRF(),
    ],
    ids=lambda model: type(model).__name__,
)
def test_at_most_four_lines_a_second(model, n_jobs, monkeypatch):
    times, clock = [], [0.0]
    at_any_time = "ended with", "done: best", "best mean score", "compiling for"

    def now():
        clock[0] += 1e-2  # states that are far quicker than lines
        return clock[0]

    monkeypatch.setattr(monitor, "monotonic", now)

    def note(line, **how):
        # Some lines come whenever they are due: the last one of a fit, those of folds, compilation.
        if not any(part in line for part in at_any_time):
            times.append(clock[0])

    monkeypatch.setattr(monitor, "print", note, raising=False)
    X, y = load_digits(return_X_y=True)
    clone(model).set_params(verbose=1, n_jobs=n_jobs).fit(X[:300] / 16, y[:300])
    assert 1 <= len(times) <= 1 + clock[0] / 0.25
    assert len(times) == 1 or min(np.diff(times)) >= 0.25 - 1e-12


@pytest.mark.parametrize(
    "model, unit, names",
    [
        (BMRMClassifier(), "class", ["'a'", "'b'", f"'{'c' * 19}...'"]),
        (SwapSVC(), "pair", ["'a' vs 'b'", f"'a' vs '{'c' * 19}...'", f"'b' vs '{'c' * 19}...'"]),
    ],
    ids=["classes", "pairs"],
)
def test_lines_name_the_classes(model, unit, names, capsys, monkeypatch, by_steps):
    monkeypatch.setattr(monitor, "_SECONDS_BETWEEN_LINES", 0.0)
    X, y = load_iris(return_X_y=True)
    model = clone(model).set_params(verbose=1)
    model.fit(X[::5], np.array(["a", "b", "c" * 99])[y[::5]])
    names = [f"{unit} {name} ({k}/3)" for k, name in enumerate(names, 1)]
    lines = [x for x in capsys.readouterr().out.splitlines() if "compiling for" not in x]
    told = list(dict.fromkeys(line.partition(", iteration")[0] for line in lines[:-1]))
    assert told == [f"[{type(model).__name__}] {name}" for name in names]
    worst = int(np.argmax(model.dual_gap_ / model.objective_))
    with pytest.warns(ConvergenceWarning, match=rf"subproblems .* \({unit} '[abc]+.* above tol"):
        clone(model).set_params(max_iter=1, verbose=0).fit(X, np.array(["a", "b", "c"])[y])
    assert f"worst of 3 fits, {names[worst]}, ended with" in lines[-1]


def test_an_output_that_cannot_encode_a_name_gets_escapes(monkeypatch):
    """It has no ``isatty`` either, as logs that users write."""
    written = []
    out = SimpleNamespace(encoding="cp1252", write=written.append, flush=lambda: None)
    monkeypatch.setattr(sys, "stdout", out)
    monitor.Lines("A", 1).print("class 'łä'")
    assert "".join(written) == "[A] class '\\u0142ä'\n"


def test_bars_alone_do_not_see_every_iteration(monkeypatch):
    bar, other = Counts(), StopAt(10**9)
    monkeypatch.setattr(monitor, "ProgressBar", Counts)
    monkeypatch.setattr(monitor, "_MOST_TASKS_OF_A_BAR", 50)
    X, y = load_breast_cancer(return_X_y=True)
    model = PragamSVC(reg_lambda=1e-9, tol=1e-13, max_iter=120)
    with pytest.warns(ConvergenceWarning):
        model.set_callbacks(bar).fit(X, y)
    assert bar.n == {"iteration": 50, "fit": 1}
    bar.n.clear()
    with pytest.warns(ConvergenceWarning):
        model.set_callbacks(bar, other).fit(X, y)
    assert bar.n == {"iteration": 120, "fit": 1} and other.ended == 121
