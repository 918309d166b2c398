"""Messages while a first fit compiles; what later fits and processes compile: nothing."""

import gc
import logging
import multiprocessing
import os
import runpy
import subprocess
import sys
import warnings
from types import SimpleNamespace

import numba
import numpy as np
import pytest
from numba.core import caching, config, event
from numba.core.registry import CPUDispatcher
from sklearn.base import is_regressor

from sklearn_bundle import SDCACRF, BMRMClassifier, BMRMNoveltyDetector, BMRMRegressor, SwapSVR
from sklearn_bundle.jit import announce
from sklearn_bundle.jit.decorators import jit
from sklearn_bundle.linear._compiled.rows import dense_scores

X = np.random.default_rng(0).normal(size=(30, 2)) + 3.0


@pytest.fixture
def uncached(monkeypatch):
    """A function that is to be compiled, and nobody who was told so before."""
    monkeypatch.setattr(announce, "_is_ours", lambda event: True)
    monkeypatch.setattr(announce._ANNOUNCER, "_announced", set())
    monkeypatch.setattr(announce._ANNOUNCER, "_warned", True)
    monkeypatch.setattr(announce._ANNOUNCER, "_logged", False)
    monkeypatch.setattr(caching.CompileResultCacheImpl, "_locator_classes", [])

    @jit
    def three_times(x):
        return 3.0 * x

    return three_times


class Fit:
    def __init__(self):
        self.lines = []

    def report(self, message):
        self.lines.append(message)


def test_a_line_per_kind_of_fit_and_none_without_compilation(uncached):
    first, second, ended = Fit(), Fit(), Fit()
    for fit in (first, second, ended):
        announce.listen(fit, "SomeEstimator")
    announce.leave(ended)
    assert uncached(1.0) == 3.0
    assert uncached(1.0) == 3.0
    assert uncached(np.float32(1.0)) == 3.0
    lines = first.lines + second.lines
    assert len(lines) == 1 and "compiling" in lines[0]
    assert not ended.lines
    announce.leave(first)
    announce.leave(second)


def test_long_compilation_is_logged_once(uncached, caplog, monkeypatch):
    monkeypatch.setattr(announce, "_is_watched", lambda: True)
    monkeypatch.setattr(announce._ANNOUNCER, "seconds", 0.0)
    caplog.set_level(logging.DEBUG, "sklearn_bundle")
    uncached(1.0)
    assert not caplog.records  # it took less than three seconds
    monkeypatch.setattr(announce, "_SECONDS_OF_SILENCE", 0.0)
    fit = Fit()
    announce.listen(fit, "SomeEstimator")
    uncached(1)
    announce.leave(fit)
    assert not caplog.records and len(fit.lines) == 1  # it was said already
    uncached(np.float32(1.0))
    uncached(np.int32(1))
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "compiling" in caplog.text
    monkeypatch.setattr(announce, "_is_watched", lambda: False)
    monkeypatch.setattr(announce._ANNOUNCER, "_logged", False)
    uncached(True)
    assert caplog.records[-1].levelno == logging.INFO


def test_who_watches(monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert announce._is_watched()
    for other in (None, SimpleNamespace(write=print)):  # without a console; a user's own log
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stderr", other)
            assert not announce._is_watched()
    monkeypatch.setattr(multiprocessing.current_process(), "_name", "LokyProcess-1")
    assert not announce._is_watched()


def test_fits_that_print_listen(monkeypatch, capsys):
    heard = []
    monkeypatch.setattr(announce, "listen", lambda fit, kind: heard.append((fit, kind)))
    BMRMNoveltyDetector().fit(X)
    assert not heard
    BMRMNoveltyDetector(verbose=1).fit(X)
    [(fit, kind)] = heard
    fit.report("compiling")
    assert capsys.readouterr().out.endswith("[BMRMNoveltyDetector] compiling\n")
    assert kind == "BMRMNoveltyDetector"


def test_an_import_while_another_thread_compiles(uncached):
    """The first event is an end, of a compilation that began before the import."""
    before = announce.seconds_compiled()
    event.end_event("numba:compile", {"dispatcher": numba.njit(lambda x: x)})
    assert announce.seconds_compiled() == before
    uncached(1.0)
    assert announce.seconds_compiled() > before


def test_disabled_compilation_is_refused(monkeypatch):
    monkeypatch.setattr(config, "DISABLE_JIT", 1)
    with pytest.raises(ImportError, match="NUMBA_DISABLE_JIT is set"):
        runpy.run_path(announce.__file__)


def test_a_warning_that_is_an_error_leaves_the_count_right(uncached, monkeypatch):
    monkeypatch.setattr(announce._ANNOUNCER, "_warned", False)
    with warnings.catch_warnings(), pytest.raises(RuntimeWarning, match="NUMBA_CACHE_DIR"):
        warnings.simplefilter("error")
        uncached(1.0)
    assert gc.isenabled()
    before = announce.seconds_compiled()
    uncached(1.0)
    assert announce.seconds_compiled() > before


@pytest.mark.parametrize(
    "model",
    [BMRMRegressor(), SwapSVR(), BMRMClassifier(), SDCACRF()],
    ids=type,
)
def test_read_only_arrays_run_the_same_code(model):
    """Those of data frames and of joblib: they need no versions of their own."""
    y = X[:, 0] if is_regressor(model) else X[:, 0] > 3.0
    arrays = [array.copy() for array in (X, y, np.linspace(0.5, 1.0, len(X)))]
    after = []
    for _ in range(2):
        model.fit(*arrays[:2], sample_weight=arrays[2]).predict(arrays[0])
        after.append(versions_of_ours())
        for array in arrays:
            array.flags.writeable = False
    assert after[0] == after[1]


def versions_of_ours():
    """The signatures of every compiled function."""
    found = [d for d in gc.get_objects() if type(d) is CPUDispatcher]
    names = [f"{d.py_func.__module__}.{d.py_func.__qualname__}" for d in found]
    ours = (
        pair for pair in zip(names, found, strict=True) if pair[0].startswith("sklearn_bundle.")
    )
    return {name: set(dispatcher.overloads) for name, dispatcher in ours}


FIT = """
import numpy as np
from sklearn_bundle import SwapNoveltyDetector
from sklearn_bundle.jit.announce import seconds_compiled
SwapNoveltyDetector().fit(np.eye(9)).predict(np.eye(9))
print(seconds_compiled())
"""


@pytest.mark.wide
def test_a_later_process_compiles_nothing(tmp_path):
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", FIT]
    seconds = [
        float(subprocess.run(command, env=environment, capture_output=True, check=True).stdout)
        for _ in range(2)
    ]
    assert seconds[0] > 0.0 and seconds[1] == 0.0


def test_only_functions_of_the_package_are_announced():
    def started(function):
        return event.Event("numba:compile", event.EventStatus.START, {"dispatcher": function})

    def twice(x):
        return 2 * x

    assert announce._is_ours(started(dense_scores))
    assert not announce._is_ours(started(numba.njit(twice)))
    twice.__module__ = None  # as numba makes for a jitclass
    assert not announce._is_ours(started(numba.njit(twice)))
