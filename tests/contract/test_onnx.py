"""Converted models in onnxruntime against our own predictions; skipped where it is missing."""

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_bundle import (
    BMRMClassifier,
    BMRMClassifierCV,
    BMRMNoveltyDetector,
    BMRMRegressor,
    BMRMRegressorCV,
    PragamSVC,
    SwapNoveltyDetector,
    SwapSVC,
    SwapSVCCV,
    SwapSVR,
    SwapSVRCV,
)
from sklearn_bundle.losses import BinaryLoss, RegressionLoss
from sklearn_bundle.onnx import register

skl2onnx = pytest.importorskip("skl2onnx", reason="the extra onnx is not installed")
runtime = pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")

X, Y = load_iris(return_X_y=True)
NAMES = np.array(["setosa", "versicolor", "virginica"])[Y]
FEW = {"reg_lambdas": [1e-1, 1e-2], "cv": 2}
# Relative to the largest score; that of the weights' own rounding, where scores are sums of a few.
CLOSE = {np.float32: 1e-5, np.float64: 1e-12}


@pytest.fixture(scope="module", autouse=True)
def registered():
    register()


def run(model, X, **options):
    """Name -> values of the outputs."""
    further = {"options": {id(model): options}} if options else {}
    converted = skl2onnx.to_onnx(model, X[:1], **further)
    session = runtime.InferenceSession(
        converted.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    (source,) = session.get_inputs()
    values = session.run(None, {source.name: X})
    outputs = session.get_outputs()
    for value, output in zip(values, outputs, strict=True):  # the shapes that are declared are true
        assert [d if isinstance(d, int) else len(X) for d in output.shape] == list(value.shape)
    return {output.name: value for output, value in zip(outputs, values, strict=True)}


def assert_close(values, expected, dtype):
    assert values.dtype == dtype
    np.testing.assert_allclose(values, expected, rtol=0.0, atol=CLOSE[dtype] * abs(expected).max())


def clear(model, X):
    """Rows whose decision is beyond rounding."""
    scores = model.decision_function(X)
    if scores.ndim == 1:
        return abs(scores) > 1e-4
    first, second = np.sort(scores, axis=1)[:, :-3:-1].T
    return first - second > 1e-4


CLASSIFIERS = [
    (BMRMClassifier("hinge"), Y > 0),
    (BMRMClassifier("log_loss"), np.where(Y > 0, "yes", "no").astype(object)),
    (BMRMClassifier("log_loss"), NAMES),
    (BMRMClassifier("softmax"), Y),
    (BMRMClassifier("softmax", fit_intercept=False), (Y == 1) + 1.0),
    (BMRMClassifier("multiclass_hinge"), NAMES),
    (BMRMClassifier("roc_auc"), Y == 2),
    (BMRMClassifierCV("log_loss", **FEW), Y),
    (PragamSVC(reg_lambda=1e-2), NAMES),
]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("model, y", CLASSIFIERS, ids=lambda v: getattr(v, "loss", ""))
def test_classifiers(model, y, dtype):
    data = X.astype(dtype)
    model.fit(data, y)
    probable = hasattr(model, "predict_proba")
    outputs = run(model, data)
    assert list(outputs) == ["label", "probabilities" if probable else "scores"]
    rows = clear(model, data)
    assert rows.mean() > 0.9
    assert outputs["label"][rows].tolist() == model.predict(data)[rows].tolist()
    if probable:
        assert_close(outputs["probabilities"], model.predict_proba(data), dtype)
        outputs = run(model, data, raw_scores=True)
        assert outputs["label"][rows].tolist() == model.predict(data)[rows].tolist()
    assert_close(outputs["scores"], model.decision_function(data), dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "model, y",
    [
        (BMRMRegressor("quantile", quantile=0.9), X[:, 0]),
        (BMRMRegressor(regularizer="l1", reg_lambda=0.1, fit_intercept=False), X[:, :2]),
        (BMRMRegressor("poisson", reg_lambda=1e-2), Y),
        (BMRMRegressorCV("huber", **FEW), X[:, :3]),
    ],
    ids=lambda v: getattr(v, "loss", ""),
)
def test_regressors(model, y, dtype):
    data = X.astype(dtype)
    expected = model.fit(data, y).predict(data)
    (values,) = run(model.sparsify(), data).values()
    assert_close(values, expected.reshape(len(X), -1), dtype)


MACHINES = [
    (SwapSVC(), Y > 0),
    (SwapSVC(10.0, kernel="poly", degree=2, coef0=1.0), NAMES),
    (SwapSVC(decision_function_shape="ovo", loss="hinge"), NAMES),
    (SwapSVCCV(Cs=[1.0, 10.0], gammas=[0.1, 1.0], cv=2), NAMES),
    (SwapSVR(), X[:, 0]),
    (SwapSVRCV(Cs=[1.0, 10.0], cv=2), X[:, 0]),
    (SwapNoveltyDetector(nu=0.1), None),
]


@pytest.mark.filterwarnings("ignore:.* of the [0-9]+ values tried")
@pytest.mark.parametrize("model, y", MACHINES, ids=lambda v: str(v)[:50])
def test_kernel_machines(model, y):
    data = X - X.mean(axis=0) + 1.0
    model.fit(data, y)
    outputs = list(run(model, data).values())
    expected = model.predict(data) if y is not None and y.dtype == float else None
    scores = model.decision_function(data) if expected is None else expected
    same = np.isclose(outputs[-1].reshape(scores.shape), scores, rtol=0.0, atol=1e-9)
    assert same.mean() > 0.95  # votes near ties depend on rounding
    if expected is None:
        assert (np.ravel(outputs[0]) == model.predict(data)).mean() > 0.95


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_linear_detectors(dtype):
    data = X.astype(dtype)
    model = BMRMNoveltyDetector(nu=0.1, tol=1e-6).fit(data)
    expected, outputs = model.decision_function(data), run(model, data)
    assert_close(outputs["scores"], expected, dtype)
    sure = abs(expected) > CLOSE[dtype] * abs(expected).max()
    assert outputs["label"][sure].tolist() == model.predict(data)[sure].tolist()
    assert set(outputs["label"].tolist()) == {-1, 1}


def test_a_pipeline_and_a_search_with_integers():
    whole = np.round(10.0 * X).astype(np.int64)
    model = make_pipeline(StandardScaler(), BMRMClassifier("log_loss", reg_lambda=1e-3))
    model.fit(whole, NAMES)
    outputs = run(model, whole)
    assert outputs["label"].tolist() == model.predict(whole).tolist()
    assert_close(outputs["probabilities"], model.predict_proba(whole), np.float32)
    search = GridSearchCV(PragamSVC(), {"reg_lambda": [0.1, 0.01]}, cv=2).fit(X[50:], NAMES[50:])
    assert run(search, X[50:])["label"].tolist() == search.predict(X[50:]).tolist()


def test_far_from_all_classes_probabilities_are_even():
    model = BMRMClassifier("log_loss", reg_lambda=1e-2).fit(X, Y)
    model.intercept_ -= 2000.0
    probabilities = run(model, X)["probabilities"]
    assert probabilities.tolist() == model.predict_proba(X).tolist() == [[1 / 3] * 3] * len(X)


class Squares(BinaryLoss):
    def value(self, scores, y):
        return 0.5 * (1.0 - y * scores) ** 2

    def gradient(self, scores, y):
        return scores - y


class Probable(Squares):
    def probability(self, scores):
        return np.clip(0.5 + 0.5 * scores, 0.0, 1.0)


class Doubled(RegressionLoss):
    def value(self, scores, y):
        return (scores - y) ** 2

    def gradient(self, scores, y):
        return 2.0 * (scores - y)

    def mean(self, scores):
        return 2.0 * scores


def test_python_code_of_a_loss_is_not_converted():
    plain = BMRMClassifier(Squares(), reg_lambda=0.1).fit(X, Y > 0)
    assert_close(run(plain, X)["scores"], plain.decision_function(X), np.float64)
    probable = BMRMClassifier(Probable(), reg_lambda=0.1).fit(X, Y > 0)
    with pytest.raises(NotImplementedError, match=r"'probability' of Probable .*raw_scores"):
        run(probable, X)
    assert list(run(probable, X, raw_scores=True)) == ["label", "scores"]
    regressor = BMRMRegressor(Doubled(), reg_lambda=0.1).fit(X, Y)
    with pytest.raises(NotImplementedError, match="'mean' of Doubled has no counterpart"):
        run(regressor, X)


def test_what_cannot_be_converted_is_named(monkeypatch):
    with pytest.raises(Exception, match="not fitted"):
        run(BMRMClassifier(), X)
    days = np.array(["2020-01-01", "2021-01-01"], dtype="datetime64[D]")
    with pytest.raises(NotImplementedError, match=r"no labels like .*2020.*: encode y as"):
        run(BMRMClassifier().fit(X, days[(Y > 0).astype(int)]), X)
    monkeypatch.setitem(__import__("sys").modules, "skl2onnx", None)
    with pytest.raises(ImportError, match="pip install skl2onnx"):
        register()
