"""scikit-learn's callbacks (1.9 and later)."""

import io

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris
from sklearn.exceptions import ConvergenceWarning

from sklearn_bundle import SDCACRF, SwapSVC, SwapSVCCV
from sklearn_bundle.core import monitor

callback = pytest.importorskip("sklearn.callback")


@pytest.mark.wide
@pytest.mark.matrix
@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize(
    "model", [SwapSVC(), SwapSVCCV(Cs=2, cv=2), SDCACRF()], ids=lambda model: type(model).__name__
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


def test_lines_name_the_pairs(capsys, monkeypatch):
    monkeypatch.setattr(monitor, "_SECONDS_BETWEEN_LINES", 0.0)
    X, y = load_iris(return_X_y=True)
    model = SwapSVC(verbose=1).fit(X[::5], np.array(["a", "b", "c" * 99])[y[::5]])
    of_c = f"'{'c' * 19}...'"
    names = [f"pair {pair}" for pair in ("'a' vs 'b'", f"'a' vs {of_c}", f"'b' vs {of_c}")]
    names = [f"{name} ({k}/3)" for k, name in enumerate(names, 1)]
    lines = [x for x in capsys.readouterr().out.splitlines() if "compiling for" not in x]
    told = list(dict.fromkeys(line.partition(", iteration")[0] for line in lines[:-1]))
    assert told == [f"[SwapSVC] {name}" for name in names]
    worst = int(np.argmax(model.dual_gap_ / model.objective_))
    assert f"worst of 3 fits, {names[worst]}, ended with" in lines[-1]
    with pytest.warns(ConvergenceWarning, match=r"subproblems .* \(pair '[abc]+.* above tol"):
        SwapSVC(max_iter=1, solver="fw").fit(X, np.array(["a", "b", "c"])[y])


def test_lines_are_written_as_the_output_can_encode_them(monkeypatch):
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr("sys.stdout", stream)
    monitor.Lines("fit", 0).report("class 'é'")
    stream.flush()
    assert stream.buffer.getvalue() == b"[fit] class '\\xe9'\n"
