"""The types that skops asks to trust are those that the guide lists."""

from pathlib import Path

import numpy as np
import pytest

from sklearn_bundle import (
    SDCACRF,
    BMRMClassifier,
    BMRMClassifierCV,
    BMRMNoveltyDetector,
    BMRMRanker,
    BMRMRegressor,
    BMRMRegressorCV,
    PragamSVC,
    StructuredSVM,
    SwapNoveltyDetector,
    SwapSVC,
    SwapSVR,
)
from sklearn_bundle.losses import LogLoss

io = pytest.importorskip("skops.io", reason="skops is not installed")

PAGE = (Path(__file__).parents[1] / "doc/user_guide/saving.rst").read_text("utf-8")
X = np.random.default_rng(0).normal(size=(30, 2)) + 3.0
Y = np.arange(30) % 2
WORDS = [[{"a": 1.0}, {"b": 1.0}]] * 3
LABELS = [["A", "B"]] * 3
FEW = {"reg_lambdas": [1.0, 2.0], "cv": 2}
KERNELS = {
    f"sklearn_bundle.kernel.values.{name}"
    for name in ("kernel_function.Kernel", "kernel_scores.KernelScores")
}


@pytest.mark.wide
@pytest.mark.parametrize(
    "model, data, target, further",
    [
        (BMRMClassifier(reg_lambda=1.0, warm_start=True), X, Y, set()),
        (BMRMClassifier(LogLoss()), X, Y, {"sklearn_bundle.linear.losses.logistic.LogLoss"}),
        (BMRMClassifierCV(**FEW), X, Y, set()),
        (BMRMRegressor(reg_lambda=1.0), X, X[:, 0], set()),
        (BMRMRegressorCV(**FEW), X, X[:, 0], set()),
        (BMRMRanker(reg_lambda=1.0), X, Y, set()),
        (BMRMNoveltyDetector(reg_lambda=1.0), X, None, set()),
        (PragamSVC(reg_lambda=1.0), X, Y, set()),
        (SwapSVC(), X, Y, KERNELS),
        (SwapSVR(), X, X[:, 0], KERNELS),
        (SwapNoveltyDetector(), X, None, KERNELS),
        (SDCACRF(reg_lambda=1.0), WORDS, LABELS, set()),
        (
            StructuredSVM(reg_lambda=1.0),
            WORDS,
            LABELS,
            {"sklearn_bundle.structured.models.chain_structure.Chain"},
        ),
        (
            StructuredSVM("multiclass", reg_lambda=1.0),
            X,
            Y,
            {"sklearn_bundle.structured.models.classes.Multiclass", "scipy.sparse._csr.csr_array"},
        ),
    ],
    ids=lambda v: type(v).__name__,
)
def test_types_to_trust(model, data, target, further):
    saved = io.dumps(model.fit(data, target))
    kind = type(model)
    own = f"{kind.__module__}.{kind.__name__}"
    assert set(io.get_untrusted_types(data=saved)) == {own} | further
    assert all(
        name in PAGE for name in further - {"sklearn_bundle.structured.models.classes.Multiclass"}
    )
    restored = io.loads(saved, trusted=[own, *further])
    assert np.array_equal(restored.predict(data), model.predict(data))
    assert (restored.objective_, restored.status_) == (model.objective_, model.status_)
