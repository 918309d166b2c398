"""The fits of ``sensitivity.py``: parts of the benchmark sets, each of about a second or less."""

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np

from sklearn_bundle import (
    SDCACRF,
    BMRMClassifier,
    BMRMNoveltyDetector,
    BMRMRanker,
    BMRMRegressor,
    PragamSVC,
    StructuredSVM,
    SwapSVC,
    SwapSVR,
)

_ROWS = 6000  # at most: a pass is then long enough for the rules of "auto"


@cache
def _linear(name: str) -> tuple:
    import tasks

    X, y = tasks.linear(name)
    rows = np.random.default_rng(0).permutation(len(y))[:_ROWS]
    return X[rows], y[rows]


@cache
def _of(kind: str, name: str, n: int) -> tuple:
    import tasks

    X, y = getattr(tasks, kind)(name)[:2]
    return X[:n], y[:n]


@cache
def _text() -> tuple:
    from load import load

    X, y = load("movie_reviews_counts", tfidf=True)[:2]
    return X, y


def _fit(model: Any, data: Callable[..., tuple], *arguments: Any) -> Any:
    from sklearn.base import clone

    return clone(model).fit(*data(*arguments))


def _cell(model: Any, data: Callable[..., tuple], *arguments: Any) -> Callable[[], Any]:
    return partial(_fit, model, data, *arguments)


#: Name -> a call that returns a fitted model.
CELLS: dict[str, Callable[[], Any]] = {
    "a9a hinge": _cell(BMRMClassifier(reg_lambda=1e-3, tol=1e-4), _linear, "a9a"),
    "a9a hinge weak": _cell(BMRMClassifier(reg_lambda=1e-6, tol=1e-3), _linear, "a9a"),
    "covtype log": _cell(
        BMRMClassifier("log_loss", reg_lambda=1e-5, tol=1e-4), _linear, "covtype2"
    ),
    "covtype hinge": _cell(BMRMClassifier(reg_lambda=1e-4, tol=1e-4), _linear, "covtype2"),
    "w8a squared": _cell(
        BMRMClassifier("squared_hinge", reg_lambda=1e-4, tol=1e-4), _linear, "w8a"
    ),
    "reviews hinge": _cell(BMRMClassifier(reg_lambda=1e-4, tol=1e-4), _text),
    "reviews log": _cell(BMRMClassifier("log_loss", reg_lambda=1e-6, tol=1e-4), _text),
    "reviews L1": _cell(
        BMRMClassifier("log_loss", regularizer="l1", reg_lambda=1e-3, tol=1e-4), _text
    ),
    "a9a epochs": _cell(
        BMRMClassifier(reg_lambda=1e-3, tol=1e-4, solver="dual-coordinate"), _linear, "a9a"
    ),
    "a9a line search": _cell(
        BMRMClassifier(reg_lambda=1e-3, tol=1e-3, solver="line-search"), _linear, "a9a"
    ),
    "a9a L1 planes": _cell(
        BMRMClassifier(regularizer="l1", reg_lambda=1e-3, tol=1e-3), _linear, "a9a"
    ),
    "a9a area": _cell(BMRMClassifier("roc_auc", reg_lambda=1e-3, tol=1e-3), _linear, "a9a"),
    "a9a fbeta": _cell(BMRMClassifier("fbeta", reg_lambda=1e-3, tol=1e-2), _linear, "a9a"),
    "usps hinge": _cell(
        BMRMClassifier("multiclass_hinge", reg_lambda=1e-4, tol=1e-3),
        *(_of, "multiclass", "usps", 3000),
    ),
    "usps softmax": _cell(
        BMRMClassifier("softmax", reg_lambda=1e-4, tol=1e-3), _of, "multiclass", "usps", 3000
    ),
    "letter softmax weak": _cell(
        BMRMClassifier("softmax", reg_lambda=1e-6, tol=1e-3), _of, "multiclass", "letter", 4000
    ),
    "cadata absolute": _cell(
        BMRMRegressor("absolute_error", reg_lambda=1e-4, tol=1e-4),
        *(_of, "regression", "cadata", 6000),
    ),
    "cpusmall epsilon": _cell(
        BMRMRegressor("epsilon_insensitive", reg_lambda=1e-4, tol=1e-4),
        *(_of, "regression", "cpusmall", 6000),
    ),
    "cadata least squares": _cell(
        BMRMRegressor(reg_lambda=1e-4, tol=1e-6), _of, "regression", "cadata", 6000
    ),
    "cpusmall L1": _cell(
        BMRMRegressor(regularizer="l1", reg_lambda=1e-2, tol=1e-5),
        *(_of, "regression", "cpusmall", 6000),
    ),
    "abalone ranks": _cell(
        BMRMRanker(reg_lambda=1e-3, tol=1e-3), _of, "regression", "abalone", 3000
    ),
    "a9a novelty": _cell(BMRMNoveltyDetector(tol=1e-3), _linear, "a9a"),
    "a9a Pragam": _cell(PragamSVC(reg_lambda=1e-3, tol=1e-3), _linear, "a9a"),
    "usps_odd SwapSVC": _cell(SwapSVC(C=1.0, tol=1e-3), _of, "kernel", "usps_odd", 3000),
    "a9a SwapSVC": _cell(SwapSVC(C=1.0, tol=1e-3), _of, "kernel", "a9a", 2500),
    "ijcnn1 SwapSVC": _cell(SwapSVC(C=100.0, tol=1e-4), _of, "kernel", "ijcnn1", 3000),
    "a9a SwapSVC linear": _cell(
        SwapSVC(kernel="linear", C=1.0, tol=1e-3), _of, "kernel", "a9a", 2500
    ),
    "abalone SwapSVR": _cell(SwapSVR(C=1.0, tol=1e-3), _of, "regression", "abalone", 2500),
    "ijcnn1 active set": _cell(
        SwapSVC(C=10.0, tol=1e-3, active_set=500, cache_size=2), _of, "kernel", "ijcnn1", 6000
    ),
    "conll2000 CRF": _cell(
        SDCACRF(reg_lambda=1e-3, tol=1e-3, random_state=0), _of, "sequences", "conll2000", 400
    ),
    "ocr CRF": _cell(SDCACRF(tol=1e-3, random_state=0), _of, "sequences", "ocr", 400),
    "ocr CRF weak": _cell(
        SDCACRF(reg_lambda=1e-5, tol=1e-2, random_state=0), _of, "sequences", "ocr", 300
    ),
    "ocr CRF L1": _cell(
        SDCACRF(reg_lambda=1e-3, l1_ratio=0.5, tol=1e-2, random_state=0),
        *(_of, "sequences", "ocr", 300),
    ),
    "ocr structured": _cell(
        StructuredSVM("chain", reg_lambda=1e-2, tol=1e-2, random_state=0),
        *(_of, "sequences", "ocr", 200),
    ),
    "ocr structured bundle": _cell(
        StructuredSVM("chain", reg_lambda=1e-2, tol=1e-2, solver="bundle"),
        *(_of, "sequences", "ocr", 200),
    ),
    "ocr structured log": _cell(
        StructuredSVM("chain", loss="log", reg_lambda=1e-2, tol=1e-2),
        *(_of, "sequences", "ocr", 200),
    ),
    "house matchings": _cell(
        StructuredSVM("matching", reg_lambda=1e-2, tol=1e-2, random_state=0),
        *(_of, "structured", "house_50", 20),
    ),
}
