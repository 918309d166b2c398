"""Displays of convergence and of regularization paths."""

import builtins
import re

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_bundle import (
    BMRMClassifier,
    BMRMClassifierCV,
    BMRMNoveltyDetector,
    BMRMRegressorCV,
    PragamSVC,
    StructuredSVM,
    SwapNoveltyDetector,
    SwapSVCCV,
    SwapSVRCV,
    bmrm_path,
)
from sklearn_bundle.plotting import ConvergenceDisplay, RegularizationPathDisplay
from tests.contract.parameters import ESTIMATORS, SEARCHES

OTHER_DATA = StructuredSVM, BMRMNoveltyDetector, SwapNoveltyDetector

DTYPE = [
    ("iteration", int),
    ("seconds", float),
    ("objective", float),
    ("lower_bound", float),
    ("passes", int),
]
HISTORY = np.array(
    [(1, 0.5, 4.0, -np.inf, 2), (2, 0.6, 2.0, 1.0, 5), (3, 0.7, 2.0, 2.0, 8)], dtype=DTYPE
)


@pytest.fixture
def ax():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    before = pyplot.get_backend()
    pyplot.switch_backend("agg")
    yield pyplot.subplots()[1]
    pyplot.close("all")
    pyplot.switch_backend(before)


def points(line):
    return np.column_stack(line.get_data())


def test_gap(ax):
    display = ConvergenceDisplay([HISTORY], ["a"], [1e-3]).plot(ax=ax)
    assert display.ax_ is ax and display.figure_ is ax.figure
    (line,) = display.lines_
    # an infinite gap is not drawn, a zero one at the resolution of a double
    assert points(line).tolist() == [[2, 0.5], [3, np.finfo(float).eps]]
    (tol,) = display.tol_lines_
    assert set(tol.get_ydata()) == {1e-3} and tol.get_linestyle() == "--"
    assert ax.get_yscale() == "log"
    assert ax.get_xlabel() == "iterations"
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["a", "tol = 0.001"]


def test_objective_and_bound(ax):
    display = ConvergenceDisplay([HISTORY], ["a"], [1e-3]).plot(x="passes", y="objective", ax=ax)
    objective, bound = display.lines_
    assert points(objective).tolist() == [[2, 4.0], [5, 2.0], [8, 2.0]]
    assert points(bound).tolist() == [[5, 1.0], [8, 2.0]]
    assert objective.get_linestyle() == "-" and bound.get_linestyle() == "--"
    assert objective.get_color() == bound.get_color()
    (band,) = ax.collections
    x, y = band.get_paths()[0].vertices.T
    assert (x.min(), x.max(), y.min(), y.max()) == (5, 8, 1, 2)
    assert not display.tol_lines_ and ax.get_yscale() == "linear"


def test_several_and_subproblems(ax):
    display = ConvergenceDisplay([[HISTORY, HISTORY[:2]], HISTORY], ["a", "b"], [1e-3, 1e-6])
    display.plot(ax=ax)
    first, second, other = display.lines_
    assert first.get_color() == second.get_color() != other.get_color()
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert texts == ["a", "b", "tol = 1e-06", "tol = 0.001"]
    further = ConvergenceDisplay([HISTORY], ["c"]).plot(ax=ax)
    assert further.lines_[0].get_color() not in {first.get_color(), other.get_color()}


@pytest.mark.parametrize("kind", [k for k in ESTIMATORS if k not in OTHER_DATA])
def test_all_estimators(ax, cancer, kind):
    X, y = cancer
    model = kind(**SEARCHES.get(kind, {}), tol=0.1).fit(X, y)
    gap = max(model.relative_gap_, np.finfo(float).eps)
    for y_axis, n_lines, expected in (("gap", 1, gap), ("objective", 2, model.lower_bound_)):
        display = ConvergenceDisplay.from_estimator(model, x="passes", y=y_axis, ax=ax)
        assert display.labels == [kind.__name__] and len(display.lines_) == n_lines
        x, values = display.lines_[-1].get_data()
        assert x[-1] == model.history_["passes"][-1] > 0
        assert values[-1] == pytest.approx(expected, rel=1e-12)


def test_the_model_in_a_pipeline_or_search(ax, cancer):
    search = GridSearchCV(
        make_pipeline(StandardScaler(), BMRMClassifier()),
        {"bmrmclassifier__reg_lambda": [1e-2, 1e-1]},
        cv=2,
    ).fit(*cancer)
    display = ConvergenceDisplay.from_estimator(search, ax=ax, label="chosen")
    assert display.histories[0] is search.best_estimator_[-1].history_
    assert display.labels == ["chosen"] and display.tols == [1e-3]


def test_labels(ax, cancer):
    two = [BMRMClassifier(reg_lambda=value).fit(*cancer) for value in (1e-2, 1e-1)]
    other = PragamSVC(reg_lambda=1.0).fit(*cancer)
    display = ConvergenceDisplay.from_estimators({0.01: two[0], 0.1: two[1], "p": other}, ax=ax)
    assert display.labels == ["0.01", "0.1", "p"]
    assert len({line.get_color() for line in display.lines_}) == 3


@pytest.mark.parametrize("name", ["x", "y"])
@pytest.mark.parametrize("value", ["steps", [1]])
def test_unknown_quantities(name, value):
    message = rf"^{name} must be one of \['.*\], got {re.escape(repr(value))}\.$"
    with pytest.raises(ValueError, match=message):
        ConvergenceDisplay([HISTORY], ["a"]).plot(**{name: value})


@pytest.mark.parametrize("display", [ConvergenceDisplay, RegularizationPathDisplay])
def test_unfitted(display):
    for model in (BMRMClassifierCV(), make_pipeline(SwapSVCCV()), GridSearchCV(PragamSVC(), {})):
        with pytest.raises(NotFittedError, match="not fitted yet"):
            display.from_estimator(model)


def test_estimators_without_what_is_drawn(cancer):
    X, y = cancer
    with pytest.raises(TypeError, match="LogisticRegression has no history_"):
        ConvergenceDisplay.from_estimator(LogisticRegression().fit(X, y))
    search = GridSearchCV(BMRMClassifier(), {"reg_lambda": [0.1]}, cv=2, refit=False).fit(X, y)
    with pytest.raises(TypeError, match=r"GridSearchCV has no history_.* a refitted search"):
        ConvergenceDisplay.from_estimator(search)
    with pytest.raises(TypeError, match="BMRMClassifier has no scores_"):
        RegularizationPathDisplay.from_estimator(BMRMClassifier().fit(X, y))
    with pytest.raises(ValueError, match="needs coefs or scores"):
        RegularizationPathDisplay([1.0, 0.1])


def test_without_matplotlib(monkeypatch):
    imported = builtins.__import__

    def without(name, *args, **kwargs):
        if name.split(".")[0] == "matplotlib":
            raise ImportError(name)
        return imported(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    for display in (
        ConvergenceDisplay([HISTORY], ["a"]),
        RegularizationPathDisplay([1.0], np.ones((2, 1))),
    ):
        with pytest.raises(ImportError, match=r"require matplotlib.*pip install matplotlib"):
            display.plot()


def test_path(ax):
    X, y = load_diabetes(return_X_y=True)
    path = bmrm_path(X, y, loss="squared_error", reg_lambdas=[1e-2, 1e-4])
    display = RegularizationPathDisplay.from_path(path, n_named=2, ax=ax, marker=None)
    assert display.ax_ is ax and display.figure_ is ax.figure
    assert ax.get_xscale() == "log" and ax.xaxis_inverted()
    order = np.argsort(-np.abs(path[1]).max(axis=1))
    for line, j in zip(display.lines_, order, strict=True):
        assert np.array_equal(points(line), np.column_stack([path[0], path[1][j]]))
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert texts == [f"feature {j}" for j in order[:2]]
    display.plot(ax=ax)
    assert ax.xaxis_inverted()


def test_number_of_nonzeros(ax):
    coefs = np.array([[[0.0, 0.0, 2.0], [0.0, 0.0, 0.0]], [[0.0, 1.0, 1.0], [0.0, 0.0, 0.5]]])
    path = np.array([1.0, 0.1, 0.01]), coefs, None
    display = RegularizationPathDisplay.from_path(path, nonzeros=True, ax=ax)
    (line,) = display.nonzeros_ax_.get_lines()
    assert np.array_equal(points(line), np.column_stack([path[0], [0, 1, 3]]))
    assert len(display.lines_) == 3  # none for what stays at 0
    assert display.ax_ is ax and display.plot(ax=ax).nonzeros_ax_ is None


@pytest.mark.parametrize(
    "model, score, parameter",
    [
        (BMRMClassifierCV(reg_lambdas=3, cv=3), "accuracy", "reg_lambda"),
        (BMRMClassifierCV(reg_lambdas=3, cv=3, scoring="f1"), "f1", "reg_lambda"),
        (BMRMRegressorCV(reg_lambdas=3, cv=3), "R2", "reg_lambda"),
        (SwapSVCCV(Cs=3, cv=3), "accuracy", "C"),
        (SwapSVRCV(Cs=3, cv=3), "R2", "C"),
    ],
)
def test_scores_of_cross_validation(ax, data, model, score, parameter):
    X, y = data
    model = clone(model).fit(X, y)
    display = RegularizationPathDisplay.from_estimator(make_pipeline(model), ax=ax)
    values, chosen = getattr(model, f"{parameter}s_"), getattr(model, f"{parameter}_")
    (line,) = display.lines_
    assert np.array_equal(points(line), np.column_stack([values, model.mean_test_scores_]))
    assert ax.get_xlabel() == parameter and ax.get_ylabel() == f"{score}, with one standard error"
    assert ax.xaxis_inverted() == (parameter == "reg_lambda")
    (vertical,) = (line for line in ax.get_lines() if line not in display.lines_)
    assert set(vertical.get_xdata()) == {chosen}
    (band,) = ax.collections
    error = model.scores_.std(axis=0, ddof=1) / np.sqrt(3)
    y_band = band.get_paths()[0].vertices[:, 1]
    assert y_band.min() == pytest.approx((model.mean_test_scores_ - error).min())
    assert y_band.max() == pytest.approx((model.mean_test_scores_ + error).max())
