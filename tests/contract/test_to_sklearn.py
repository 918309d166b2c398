"""Plain copies of linear models, of every kind in the table, predict what the models predict."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from sklearn_bundle import (
    BMRMClassifier,
    BMRMClassifierCV,
    BMRMNoveltyDetector,
    BMRMRanker,
    BMRMRegressor,
    BMRMRegressorCV,
    PragamSVC,
    SwapSVC,
    to_sklearn,
)
from sklearn_bundle.losses import BinaryLoss, RegressionLoss
from tests.contract.cases import CASES, data, fitted

LINEAR = (
    *(BMRMClassifier, BMRMClassifierCV, BMRMRanker, BMRMRegressor, BMRMRegressorCV),
    PragamSVC,
)
METHODS = "predict", "decision_function", "predict_proba"
X, THREE = data("three").X, np.array(["a", "b", "c"])[data("three").y]


def assert_same(plain, model, X):
    """Numbers to the rounding of products in another order."""
    for method in METHODS:
        assert hasattr(plain, method) == hasattr(model, method), method
        if not hasattr(model, method):
            continue
        values, expected = getattr(plain, method)(X), getattr(model, method)(X)
        if expected.dtype.kind == "f":
            atol = 1e-13 * (1.0 + abs(expected).max())
            np.testing.assert_allclose(values, expected, rtol=0.0, atol=atol)
        else:
            assert values.tolist() == expected.tolist()


@pytest.mark.parametrize(
    "case", [case for case in CASES if isinstance(case.model, LINEAR)], ids=str
)
def test_a_plain_copy_predicts_the_same(case):
    model = fitted(case, max_iter=20)
    plain = to_sklearn(model)
    assert type(plain).__module__.startswith("sklearn.")
    assert_same(plain, model, case.data.X)


@pytest.mark.parametrize(
    "model, y, kind",
    [
        (BMRMClassifier("log_loss"), THREE != "a", LogisticRegression),
        (BMRMClassifier("log_loss"), THREE, OneVsRestClassifier),
        (BMRMClassifier("softmax"), THREE, LogisticRegression),
        (BMRMClassifier("hinge"), THREE, LinearSVC),
        (BMRMRegressor("poisson"), np.round(np.exp(X[:, 0] / 4.0)), PoissonRegressor),
        (BMRMRegressor("huber"), X[:, :2], LinearRegression),
        (BMRMRegressor("squared_error", regularizer="l1"), X[:, 0], LinearRegression),
    ],
    ids=lambda value: str(value) if hasattr(value, "get_params") else "",
)
def test_kinds_of_copies_in_a_pipeline_of_named_and_sparse_coefficients(model, y, kind):
    frame = pytest.importorskip("pandas").DataFrame(X, columns=list("abcd"))
    pipeline = make_pipeline(StandardScaler().set_output(transform="pandas"), model)
    pipeline.fit(frame, y)
    model.sparsify()
    coef = model.coef_
    plain = to_sklearn(pipeline)
    assert type(plain[-1]) is kind and plain[0] is pipeline[0]
    assert plain[-1].feature_names_in_.tolist() == list("abcd")
    assert_same(plain, pipeline, frame)
    assert model.coef_ is coef


class Probable(BinaryLoss):
    def value(self, scores, y):
        return 0.5 * (1.0 - y * scores) ** 2

    def gradient(self, scores, y):
        return scores - y

    def probability(self, scores):
        return np.clip(0.5 + 0.5 * scores, 0.0, 1.0)


class Doubled(RegressionLoss):
    def value(self, scores, y):
        return (scores - y) ** 2

    def gradient(self, scores, y):
        return 2.0 * (scores - y)

    def mean(self, scores):
        return 2.0 * scores


@pytest.mark.parametrize(
    "model, y, error, message",
    [
        (BMRMClassifier(Probable(), reg_lambda=0.1), THREE == "a", ValueError, "Probable"),
        (BMRMRegressor(Doubled(), reg_lambda=0.1), X[:, 0], ValueError, "Doubled"),
        (BMRMRegressor("poisson"), np.round(np.exp(X[:, :2] / 4.0)), ValueError, r"2 target"),
        (SwapSVC(), THREE, TypeError, "takes one of BMRMClassifier, .* got SwapSVC"),
        (BMRMNoveltyDetector(), None, TypeError, "got BMRMNoveltyDetector"),
        (LinearRegression(), X[:, 0], TypeError, "got LinearRegression"),
    ],
    ids=lambda value: str(value) if hasattr(value, "get_params") else "",
)
def test_what_has_no_copy_is_named(model, y, error, message):
    with pytest.raises(error, match=message):
        to_sklearn(model.fit(X + 2.0, y))


def test_a_model_that_is_not_fitted():
    with pytest.raises(NotFittedError):
        to_sklearn(BMRMClassifier())


@pytest.mark.parametrize(
    "model, y",
    [
        (BMRMClassifier("log_loss"), THREE),
        (BMRMClassifier("softmax"), THREE),
        (BMRMClassifier("hinge"), THREE),
        (BMRMRegressor("squared_error"), X[:, :2]),
        (BMRMRegressor("poisson"), np.round(np.exp(X[:, 0] / 4.0))),
    ],
    ids=lambda value: str(value) if hasattr(value, "get_params") else "",
)
def test_onnx_starts_from_the_copy(model, y):
    convert = pytest.importorskip("skl2onnx", reason="skl2onnx is not installed").to_onnx
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    single = X.astype(np.float32)  # skl2onnx has not all classifiers in double precision
    written = convert(to_sklearn(model.fit(X, y)), single[:1]).SerializeToString()
    session = runtime.InferenceSession(written, providers=["CPUExecutionProvider"])
    first, expected = session.run(None, {"X": single})[0], model.predict(X)
    if y is THREE:
        assert first.tolist() == expected.tolist()
    else:
        np.testing.assert_allclose(first.reshape(expected.shape), expected, rtol=1e-5, atol=1e-5)
