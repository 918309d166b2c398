"""scikit-learn's callbacks (1.9 and later)."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris

from sklearn_bundle import (
    BMRMClassifier,
    BMRMClassifierCV,
    BMRMRegressor,
    BMRMRegressorCV,
    PragamSVC,
    StructuredSVM,
    SwapSVC,
    SwapSVCCV,
    SwapSVRCV,
)
from tests.contract.callbacks import Callback, StopAt
from tests.contract.parameters import ESTIMATORS, SEARCHES

callback = pytest.importorskip("sklearn.callback")


def test_scores_of_every_iteration():
    X, y = load_breast_cancer(return_X_y=True)
    monitor = callback.ScoringMonitor(scoring="accuracy")
    model = BMRMClassifier().set_callbacks(monitor).fit(X, y)
    rows = monitor.get_logs().data
    assert sum(row["task_name"] == "iteration" for row in rows) == model.n_iter_
    assert rows[-1]["accuracy"] > 0.5


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("model", [BMRMClassifier("log_loss", reg_lambda=1e-2), SwapSVC()], ids=str)
def test_scores_once_every_class_or_pair_has_a_point(model, n_jobs):
    X, y = load_iris(return_X_y=True)
    monitor = callback.ScoringMonitor(scoring="accuracy")
    model.set_params(n_jobs=n_jobs).set_callbacks(monitor).fit(X, y)
    rows = monitor.get_logs().data
    assert rows and all(0.0 <= row["accuracy"] <= 1.0 for row in rows)
    final = next(row for row in rows if row["task_name"] == "fit")
    assert final["accuracy"] == model.score(X, y)


@pytest.mark.parametrize(
    "model",
    [
        BMRMClassifier(tol=1e-12),
        BMRMClassifier(solver="cutting-plane", tol=1e-12),
        PragamSVC(tol=1e-12),
        *(SwapSVC(1e4, tol=1e-12, solver=solver) for solver in ("auto", "swap-2o")),
    ],
    ids=str,
)
def test_a_callback_stops_the_fit(model):
    X, y = load_breast_cancer(return_X_y=True)
    stop = StopAt(4)
    model = clone(model).set_callbacks(stop).fit(X, y)
    assert model.status_ == "callback" and len(model.history_) == 4  # states of many steps
    assert stop.setups == stop.teardowns == 1
    assert stop.begun == stop.ended == 5  # four iterations and the fit


def test_teardown_after_an_error():
    stop = StopAt(10)
    with pytest.raises(ValueError):
        BMRMClassifier().set_callbacks(stop).fit(np.ones((4, 2)), np.ones(4))
    assert stop.setups == stop.teardowns


def test_no_trace_is_left():
    X, y = load_iris(return_X_y=True)
    with_callback = BMRMClassifier().set_callbacks(StopAt(1000)).fit(X, y)
    without = BMRMClassifier().fit(X, y)
    assert set(vars(with_callback)) - set(vars(without)) == {"_skl_callbacks"}
    assert np.array_equal(with_callback.coef_, without.coef_)


class Tasks(Callback):
    """Remembers the path of names of every task."""

    def __init__(self):
        self.paths = set()

    def on_fit_task_begin(self, estimator, context):
        path = []
        while context is not None:
            path.insert(0, context.task_name)
            context = context.parent
        self.paths.add("/".join(path))


UNITS = dict.fromkeys((BMRMClassifier, BMRMClassifierCV, PragamSVC), "class")
UNITS |= dict.fromkeys((SwapSVC, SwapSVCCV), "pair")
OWN = {kind: {"loss": "absolute_error"} for kind in (BMRMRegressor, BMRMRegressorCV)}
OWN |= {PragamSVC: {"reg_lambda": 1.0}}
FAMILY = [
    (kind(**SEARCHES.get(kind, {}) | OWN.get(kind, {})), UNITS.get(kind))
    for kind in ESTIMATORS
    if kind is not StructuredSVM
]


@pytest.mark.parametrize("model, unit", FAMILY, ids=[type(model).__name__ for model, _ in FAMILY])
def test_levels_of_tasks(model, unit):
    X, y = load_iris(return_X_y=True)
    tasks = Tasks()
    clone(model).set_callbacks(tasks).fit(X, y)
    fit, search = "fit", set()
    if hasattr(model, "cv"):
        fit = "fit/refit"
        search = {"fit", "fit/search", "fit/search/fold", "fit/search/fold/value"}
    levels = [fit] if unit is None else [fit, f"{fit}/{unit}"]
    assert tasks.paths == {*search, *levels, f"{levels[-1]}/iteration"}
    if unit is not None:
        tasks = Tasks()
        clone(model).set_callbacks(tasks).fit(X[:100], y[:100])
        assert tasks.paths == {*search, fit, f"{fit}/iteration"}


def test_verbose_zero_prints_nothing(capsys):
    X, y = load_iris(return_X_y=True)
    for model, _ in FAMILY:
        clone(model).fit(X, y)
    assert capsys.readouterr().out == ""


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_verbose_ends_with_the_status_and_the_final_gap(capsys):
    X, y = load_iris(return_X_y=True)
    for model, _ in [*FAMILY, (BMRMRegressor("huber", max_iter=1), None)]:
        model = clone(model).set_params(verbose=1).fit(X, y)
        last = capsys.readouterr().out.splitlines()[-1]
        assert last.startswith(f"[{type(model).__name__}] ") and "ended with status" in last
        assert isinstance(model.status_, list) or repr(model.status_) in last
        assert last.endswith(f"relative gap {model.relative_gap_:.2e}")


@pytest.mark.parametrize(
    "Cs, chosen, told",
    [
        ([0.1, 9], 9, "it is the largest of the 2 values tried"),
        ([9, 1e4], 9, "it is the smallest of the 2 values tried"),
        ([0.1, 9, 1e4], 9, ""),
        ([9], 9, ""),
    ],
)
def test_a_search_says_if_the_chosen_value_is_the_last_one(Cs, chosen, told, capsys):
    X, y = load_breast_cancer(return_X_y=True)
    model = SwapSVRCV(Cs=Cs, cv=2, verbose=1).fit(X[::8], y[::8])
    (line,) = [x for x in capsys.readouterr().out.splitlines() if "best mean score" in x]
    assert (model.C_, line.partition("; ")[2]) == (chosen, told)


def test_callbacks_find_the_certificate_of_every_iteration():
    gaps = []

    class Gaps(StopAt):
        def on_fit_task_end(self, estimator, context):
            gaps.append(context.certificate.relative_gap)
            return gaps[-1] <= 0.1

    X, y = load_breast_cancer(return_X_y=True)
    model = BMRMClassifier(tol=1e-6, solver="line-search").set_callbacks(Gaps(0)).fit(X, y)
    assert model.status_ == "callback" and len(gaps) == model.n_iter_ + 1
    assert gaps[:-1] == sorted(gaps[:-1], reverse=True)
    # The last one is confirmed: what rounding may have added to the bound is taken off.
    assert gaps[-1] == model.relative_gap_ == pytest.approx(gaps[-2], rel=1e-6)
