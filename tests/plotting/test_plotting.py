"""Displays of convergence and of regularization paths."""

import builtins
import re

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_bundle import (
    SDCACRF,
    BMRMClassifier,
    BMRMClassifierCV,
    BMRMNoveltyDetector,
    BMRMRanker,
    BMRMRegressor,
    BMRMRegressorCV,
    PragamSVC,
    SwapSVC,
    SwapSVCCV,
    SwapSVRCV,
    bmrm_path,
)
from sklearn_bundle.plotting import ConvergenceDisplay, RegularizationPathDisplay

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


def test_lower_bound_in_seconds(ax):
    display = ConvergenceDisplay([HISTORY], ["a"]).plot(x="seconds", y="lower_bound", ax=ax)
    (bound,) = display.lines_
    assert points(bound).tolist() == [[0.6, 1.0], [0.7, 2.0]]
    assert bound.get_linestyle() == "--"
    assert ax.get_xlabel() == "time in seconds" and ax.get_ylabel() == "lower bound"


def test_several_and_subproblems(ax):
    display = ConvergenceDisplay([[HISTORY, HISTORY[:2]], HISTORY], ["a", "b"], [1e-3, 1e-6])
    display.plot(ax=ax)
    first, second, other = display.lines_
    assert first.get_color() == second.get_color() != other.get_color()
    assert first.get_marker() == second.get_marker() != other.get_marker()
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert texts == ["a", "b", "tol = 1e-06", "tol = 0.001"]
    further = ConvergenceDisplay([HISTORY], ["c"]).plot(ax=ax)
    assert further.lines_[0].get_color() not in {first.get_color(), other.get_color()}


def test_keywords_reach_the_lines(ax):
    display = ConvergenceDisplay([HISTORY], ["a"]).plot(y="objective", ax=ax, c="k", lw=3.0)
    assert {line.get_color() for line in display.lines_} == {"k"}
    assert {line.get_linewidth() for line in display.lines_} == {3.0}
    objective, bound = display.plot(y="objective", ax=ax, ls=":").lines_
    assert (objective.get_linestyle(), bound.get_linestyle()) == (":", "--")
    assert display.plot(y="lower_bound", ax=ax, ls=":").lines_[0].get_linestyle() == ":"


def test_a_tolerance_is_named_once(ax):
    for label in "ab":
        display = ConvergenceDisplay([HISTORY], [label], [1e-3]).plot(ax=ax)
        assert len(display.tol_lines_) == 1
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["a", "tol = 0.001", "b"]


@pytest.mark.matrix
@pytest.mark.parametrize(
    "model",
    [
        BMRMClassifier(reg_lambda=1e-2),
        BMRMRegressor("absolute_error", reg_lambda=1e-2),
        BMRMRanker(reg_lambda=1e-2),
        BMRMNoveltyDetector(rho=1.0),
        BMRMClassifierCV(reg_lambdas=2, cv=2),
        BMRMRegressorCV(reg_lambdas=2, cv=2),
        PragamSVC(reg_lambda=1e-1),
        SwapSVC(),
        SwapSVCCV(Cs=[1.0, 10.0], cv=2),
        SDCACRF(reg_lambda=1e-2),
    ],
    ids=lambda model: type(model).__name__,
)
@pytest.mark.parametrize("y_axis", ["gap", "objective", "lower_bound"])
def test_all_estimators(ax, cancer, model, y_axis):
    X, y = cancer
    model = clone(model).fit(X, y)
    display = ConvergenceDisplay.from_estimator(model, x="passes", y=y_axis, ax=ax)
    assert display.labels == [type(model).__name__]
    assert len(display.lines_) == (2 if y_axis == "objective" else 1)
    x, values = display.lines_[-1].get_data()
    assert x[-1] == model.history_["passes"][-1] > 0
    if y_axis == "gap":
        expected = max(model.dual_gap_ / model.objective_, np.finfo(float).eps)
    else:
        expected = model.lower_bound_
    assert values[-1] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    "model, names",
    [
        (SwapSVC(), ["pair 'a' vs 'b'", "pair 'a' vs 'c'", "pair 'b' vs 'c'"]),
        (BMRMClassifier(), ["class 'a'", "class 'b'", "class 'c'"]),
        (BMRMRegressor("absolute_error"), ["target 1", "target 2"]),
    ],
    ids=["pairs", "classes", "targets"],
)
def test_a_line_a_subproblem(ax, model, names):
    X, y = load_iris(return_X_y=True)
    y = X[:, :2] if len(names) == 2 else np.array(list("abc"))[y]
    model = clone(model).fit(X, y)
    display = ConvergenceDisplay.from_estimator(model, x="seconds", ax=ax, label="L")
    assert [line.get_label() for line in display.lines_] == [f"L, {name}" for name in names]
    assert len({line.get_color() for line in display.lines_}) == len(names)
    assert len(display.tol_lines_) == 1
    both = ConvergenceDisplay.from_estimators([model, model], ax=ax)
    assert len({line.get_color() for line in both.lines_}) == 2  # one per estimator


def test_passes_of_a_kernel_machine_are_rows(ax, cancer):
    swap, linear = SwapSVC().fit(*cancer), BMRMClassifier().fit(*cancer)
    ConvergenceDisplay.from_estimator(swap, x="passes", ax=ax)
    assert ax.get_xlabel() == "rows of the kernel matrix computed"
    ConvergenceDisplay.from_estimators([swap, linear], x="passes", ax=ax)
    assert ax.get_xlabel() == "passes"


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
    display = ConvergenceDisplay.from_estimators([two[0], other, two[1]], ax=ax)
    assert display.labels == ["BMRMClassifier 1", "PragamSVC", "BMRMClassifier 2"]
    display = ConvergenceDisplay.from_estimators({0.01: two[0], 0.1: two[1]}, ax=ax)
    assert display.labels == ["0.01", "0.1"]


def test_a_new_figure(ax):
    display = ConvergenceDisplay([HISTORY], ["a"]).plot()
    assert display.ax_ is not ax and display.ax_.figure is display.figure_


@pytest.mark.parametrize("name", ["x", "y"])
@pytest.mark.parametrize("value", ["steps", [1]])
def test_unknown_quantities(name, value):
    message = rf"^{name} must be one of \['.*\], got {re.escape(repr(value))}\.$"
    with pytest.raises(ValueError, match=message):
        ConvergenceDisplay([HISTORY], ["a"]).plot(**{name: value})


@pytest.mark.parametrize(
    "arrays, error, message",
    [
        (([HISTORY], ["a", "b"]), ValueError, "got 1, 2 and 2 entries"),
        (([HISTORY], ["a"], [0.1, 0.2]), ValueError, "got 1, 1 and 2 entries"),
        ((HISTORY, ["a"]), TypeError, r"histories must be a list .* ndarray; write \[histories\]"),
        (([HISTORY], "a"), TypeError, "labels must be a list .* single str"),
        (([HISTORY], ["a"], 0.1), TypeError, "tols must be a list .* single float"),
    ],
)
def test_histories_that_do_not_fit(arrays, error, message):
    with pytest.raises(error, match=message):
        ConvergenceDisplay(*arrays)


@pytest.mark.parametrize(
    "arrays, message",
    [
        ({"coefs": np.ones(2)}, r"coefs must have shape .* n_lambdas=2, .* got \(2,\)"),
        ({"coefs": np.ones((2, 3))}, r"coefs must .* got \(2, 3\)"),
        ({"scores": [1.0, 2.0]}, r"scores must have shape \(n_folds, n_lambdas\) .* got \(2,\)"),
        ({"scores": np.ones((2, 3))}, r"scores must .* got \(2, 3\)"),
        ({"reg_lambdas": 1.0, "coefs": np.ones((2, 1))}, r"reg_lambdas must .* got \(\)"),
        ({"coefs": np.ones((3, 2)), "feature_names": ["a"]}, "feature_names .* 3 .* got 1 names"),
        (
            {"coefs": np.ones((3, 2)), "parameter": "alpha"},
            r"parameter must be one of \['reg_lambda', 'C'\], got 'alpha'",
        ),
    ],
)
def test_paths_that_do_not_fit(arrays, message):
    with pytest.raises(ValueError, match=message):
        RegularizationPathDisplay(**{"reg_lambdas": [1.0, 0.1]} | arrays)


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
    with pytest.raises(TypeError, match=r"GridSearchCV .* refit=False, and refit=True is needed"):
        ConvergenceDisplay.from_estimator(search)
    with pytest.raises(TypeError, match=r"no scores_: use BMRMClassifierCV.* from_path"):
        RegularizationPathDisplay.from_estimator(BMRMClassifier().fit(X, y))
    with pytest.raises(ValueError, match="needs coefs or scores"):
        RegularizationPathDisplay([1.0, 0.1])


@pytest.mark.parametrize("single", [BMRMClassifier(), make_pipeline(BMRMClassifier())])
def test_a_single_estimator_is_no_sequence(single):
    with pytest.raises(TypeError, match=r"estimators must be a dict .* from_estimator draws"):
        ConvergenceDisplay.from_estimators(single)


def test_no_estimators_and_labels_elsewhere(cancer):
    for nothing in ([], {}):
        with pytest.raises(ValueError, match="estimators must hold at least one"):
            ConvergenceDisplay.from_estimators(nothing)
    with pytest.raises(TypeError, match=r"from_estimators\(\{label: estimator\}\)"):
        ConvergenceDisplay.from_estimators([BMRMClassifier().fit(*cancer)], label="a")
    with pytest.raises(TypeError, match="named by feature_names"):
        RegularizationPathDisplay([1.0], np.ones((2, 1))).plot(label="a")


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
        with pytest.raises(ImportError, match=r"plot requires matplotlib.*pip install matplotlib"):
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
    display = RegularizationPathDisplay.from_path(*path, nonzeros=True, ax=ax)
    (line,) = display.nonzeros_ax_.get_lines()
    assert np.array_equal(points(line), np.column_stack([path[0], [0, 1, 3]]))
    assert len(display.lines_) == 3  # none for what stays at 0
    assert display.ax_ is ax and display.plot(ax=ax).nonzeros_ax_ is None
    with pytest.raises(ValueError, match=r"^nonzeros=True needs coefs"):
        RegularizationPathDisplay([1.0], scores=[[1.0]]).plot(nonzeros=True, ax=ax)


def test_path_of_several_outputs(ax):
    X, y = load_iris(return_X_y=True)
    path = bmrm_path(X, y, reg_lambdas=[1e-1, 1e-2])
    names = ["sl", "sw", "pl", "pw"]
    display = RegularizationPathDisplay.from_path(*path, feature_names=names, n_named=1, ax=ax)
    assert len(display.lines_) == 12
    k, j = np.unravel_index(np.argmax(np.abs(path[1]).max(axis=2)), (3, 4))
    assert np.array_equal(display.lines_[0].get_ydata(), path[1][k, j])
    assert ax.get_legend().get_texts()[0].get_text() == f"{names[j]}, output {k}"


def test_path_of_data(ax):
    pytest.importorskip("pandas")
    data = load_breast_cancer(as_frame=True)
    display = RegularizationPathDisplay.from_data(
        data.data / data.data.max(), data.target, reg_lambdas=2, loss="log_loss", ax=ax
    )
    assert len(display.lines_) == 30
    assert display.lines_[0].get_label() in data.feature_names
    expected = bmrm_path(data.data / data.data.max(), data.target, reg_lambdas=2, loss="log_loss")
    assert np.array_equal(display.coefs, expected[1])


def test_names_and_keywords_with_data(ax, cancer):
    X, y = cancer
    names = [f"f{j}" for j in range(X.shape[1])]
    display = RegularizationPathDisplay.from_data(
        X, y, reg_lambdas=2, feature_names=names, line_kw={"lw": 3.0}, ax=ax
    )
    assert display.lines_[0].get_label() in names
    assert {line.get_linewidth() for line in display.lines_} == {3.0}


def test_scores_of_several_in_one_axes(ax):
    scores = np.array([[0.5, 0.7], [0.6, 0.9]])
    display = RegularizationPathDisplay([1.0, 0.1], scores=scores, best=0.1)
    (first,) = display.plot(ax=ax).lines_
    (second,) = display.plot(ax=ax, label="b").lines_
    assert first.get_color() != second.get_color() and first.get_marker() != second.get_marker()
    assert sorted(text.get_text() for text in ax.get_legend().get_texts()) == [
        "b",
        "b, chosen: reg_lambda = 0.1",
        "chosen: reg_lambda = 0.1",
        "mean of 2 folds",
        "one standard error",
    ]


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
    assert ax.get_xlabel() == parameter and ax.get_ylabel() == score
    assert ax.xaxis_inverted() == (parameter == "reg_lambda")
    (vertical,) = (line for line in ax.get_lines() if line not in display.lines_)
    assert set(vertical.get_xdata()) == {chosen}
    (band,) = ax.collections
    error = model.scores_.std(axis=0, ddof=1) / np.sqrt(3)
    lowest, highest = (
        (model.mean_test_scores_ - error).min(),
        (model.mean_test_scores_ + error).max(),
    )
    y_band = band.get_paths()[0].vertices[:, 1]
    assert (y_band.min(), y_band.max()) == pytest.approx((lowest, highest))
