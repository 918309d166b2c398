"""Models to save, and what they predict.

``python -m tests.saved_models`` writes the files of the format of this version, and their
predictions, to ``tests/data``. Run it when the format changes, and keep the older folders: later
versions have to read them.
"""

import json
from pathlib import Path

import numpy as np

import sklearn_bundle
from sklearn_bundle import (
    SDCACRF,
    SDCACRFCV,
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
    SwapSVCCV,
    SwapSVR,
    SwapSVRCV,
)
from sklearn_bundle.losses import MulticlassHinge
from sklearn_bundle.models import Multiclass

FOLDER = Path(__file__).parent / "data" / "saved_1"
# No random numbers: the same data with any numpy.
X = np.sin(np.arange(36.0) ** 2).reshape(12, 3)
TWO, THREE = np.arange(12) % 2, np.array(["a", "b", "c"])[np.arange(12) % 3]
F = X @ [1.0, -2.0, 0.5]
WORDS = [[{"word": "Ada", "upper": True}, {"word": "sleeps"}], [{"word": "sleeps"}]] * 2
LABELS = [["NAME", "O"], ["O"]] * 2
GRID = {"reg_lambdas": [0.1, 1.0], "cv": 2}

#: By name: an unfitted model, X and y.
MODELS = {
    "BMRMClassifier": (BMRMClassifier("softmax", reg_lambda=0.1), X, THREE),
    "BMRMClassifier-cost": (
        BMRMClassifier(MulticlassHinge(cost=1.0 - np.eye(3)), reg_lambda=0.1),
        X,
        THREE,
    ),
    "BMRMClassifierCV": (BMRMClassifierCV(**GRID), X, TWO),
    "BMRMRegressor": (BMRMRegressor("quantile", quantile=0.3, reg_lambda=0.1), X, F),
    "BMRMRegressorCV": (BMRMRegressorCV(**GRID), X, F),
    "BMRMRanker": (BMRMRanker(reg_lambda=0.1), X, TWO),
    "BMRMNoveltyDetector": (BMRMNoveltyDetector(reg_lambda=0.1), X + 2.0, None),
    "PragamSVC": (PragamSVC(reg_lambda=0.1), X, TWO),
    "SwapSVC": (SwapSVC(), X, THREE),
    "SwapSVC-precomputed": (SwapSVC(kernel="precomputed"), X @ X.T, TWO),
    "SwapSVCCV": (SwapSVCCV(Cs=[1.0, 10.0], cv=2), X, TWO),
    "SwapSVR": (SwapSVR(kernel="poly", degree=2, coef0=1.0), X, F),
    "SwapSVRCV": (SwapSVRCV(Cs=[1.0, 10.0], cv=2), X, F),
    "SwapNoveltyDetector": (SwapNoveltyDetector(nu=0.2), X, None),
    "SDCACRF": (SDCACRF(reg_lambda=0.1, random_state=0), WORDS, LABELS),
    "SDCACRFCV": (SDCACRFCV(random_state=0, **GRID), WORDS, LABELS),
    "StructuredSVM": (StructuredSVM(reg_lambda=0.1, random_state=0), WORDS, LABELS),
    "StructuredSVM-classes": (
        StructuredSVM(Multiclass(cost=1.0 - np.eye(3)), reg_lambda=0.1, random_state=0),
        X,
        THREE,
    ),
}


def predictions(model, X):
    """Numbers where there are any, and labels or other predictions, as JSON has them."""
    found = {"predict": model.predict(X)}
    for name in ("decision_function", "predict_proba", "predict_marginals"):
        if hasattr(model, name):
            found[name] = getattr(model, name)(X)
    return {name: _listed(values) for name, values in found.items()}


def _listed(values):
    if isinstance(values, np.ndarray):
        return values.tolist()
    return [_listed(one) for one in values] if isinstance(values, list) else values


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    expected = {}
    for name, (model, X, y) in MODELS.items():
        model.fit(X, y)
        sklearn_bundle.save(model, FOLDER / f"{name}.zip")
        expected[name] = predictions(model, X)
    text = json.dumps(expected, indent=1)
    (FOLDER / "predictions.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
