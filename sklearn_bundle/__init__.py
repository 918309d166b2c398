"""Regularized risk minimization for scikit-learn, with a certificate of every fit.

=====================  ========================================  ================================
Estimator              Predicts                                  Use it
=====================  ========================================  ================================
BMRMClassifier         a class, by weighted features             first, for linear classifiers
                                                                 with any loss or measure
BMRMClassifierCV       the same                                  if reg_lambda is not known
BMRMRegressor          a number, a quantile or a count           first, for linear regressors
BMRMRegressorCV        the same                                  if reg_lambda is not known
BMRMRanker             an order                                  for grades, lists
BMRMNoveltyDetector    whether a sample is unlike the rest       if a half-space separates them
PragamSVC              a class, by weighted features             for a linear SVM with its dual
                                                                 variables
SwapSVC                a class, by similarity (kernels)          if linear models fall short
SwapSVCCV              the same                                  if C is not known
SwapSVR                a number, by similarity                   if linear models fall short
SwapSVRCV              the same                                  if C is not known
SwapNoveltyDetector    whether a sample is unlike the rest       if that takes a similarity
SDCACRF                a label for each token                    for sequences
SDCACRFCV              the same                                  if reg_lambda is not known
StructuredSVM          segments, graphs, matchings, label sets,  for outputs with a structure,
                       or a structure of your own                from ``models`` or your own
=====================  ========================================  ================================

Functions: ``bmrm_path`` and ``crf_path`` fit models for many values of reg_lambda,
``reg_lambda_max`` is the largest value of a path; ``to_sklearn`` makes plain estimators of
scikit-learn of linear models.

Modules: ``losses``, ``regularizers`` and ``models`` to choose from or to derive your own,
``metrics`` for sequences, ``datasets`` to read data,
``projection`` onto a box cut by a hyperplane, ``plotting``.

Estimators and numba are imported on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sklearn_bundle import (
        datasets,
        losses,
        metrics,
        models,
        projection,
        regularizers,
    )
    from sklearn_bundle.chain.estimators.crf import SDCACRF
    from sklearn_bundle.chain.estimators.crf_cv import SDCACRFCV, crf_path
    from sklearn_bundle.conversion import to_sklearn
    from sklearn_bundle.kernel.estimators.swap import SwapSVC
    from sklearn_bundle.kernel.estimators.swap_cv import SwapSVCCV, SwapSVRCV
    from sklearn_bundle.kernel.estimators.swap_novelty import SwapNoveltyDetector
    from sklearn_bundle.kernel.estimators.swap_svr import SwapSVR
    from sklearn_bundle.linear.estimators.bmrm import BMRMClassifier
    from sklearn_bundle.linear.estimators.bmrm_cv import BMRMClassifierCV, BMRMRegressorCV
    from sklearn_bundle.linear.estimators.bmrm_novelty import BMRMNoveltyDetector
    from sklearn_bundle.linear.estimators.bmrm_ranker import BMRMRanker
    from sklearn_bundle.linear.estimators.bmrm_regressor import BMRMRegressor
    from sklearn_bundle.linear.estimators.path import bmrm_path, reg_lambda_max
    from sklearn_bundle.linear.estimators.pragam import PragamSVC
    from sklearn_bundle.structured.estimators.structured import StructuredSVM

# Public names and the modules that define them; each is loaded on first use.
_HOMES = {
    "reg_lambda_max": "sklearn_bundle.linear.estimators.path",
    "bmrm_path": "sklearn_bundle.linear.estimators.path",
    "BMRMClassifier": "sklearn_bundle.linear.estimators.bmrm",
    "BMRMClassifierCV": "sklearn_bundle.linear.estimators.bmrm_cv",
    "BMRMRegressorCV": "sklearn_bundle.linear.estimators.bmrm_cv",
    "BMRMNoveltyDetector": "sklearn_bundle.linear.estimators.bmrm_novelty",
    "BMRMRanker": "sklearn_bundle.linear.estimators.bmrm_ranker",
    "BMRMRegressor": "sklearn_bundle.linear.estimators.bmrm_regressor",
    "SDCACRF": "sklearn_bundle.chain.estimators.crf",
    "SDCACRFCV": "sklearn_bundle.chain.estimators.crf_cv",
    "crf_path": "sklearn_bundle.chain.estimators.crf_cv",
    "PragamSVC": "sklearn_bundle.linear.estimators.pragam",
    "StructuredSVM": "sklearn_bundle.structured.estimators.structured",
    "SwapSVC": "sklearn_bundle.kernel.estimators.swap",
    "SwapSVCCV": "sklearn_bundle.kernel.estimators.swap_cv",
    "SwapNoveltyDetector": "sklearn_bundle.kernel.estimators.swap_novelty",
    "SwapSVR": "sklearn_bundle.kernel.estimators.swap_svr",
    "SwapSVRCV": "sklearn_bundle.kernel.estimators.swap_cv",
    "to_sklearn": "sklearn_bundle.conversion",
}
# Public modules, also loaded on first use.
_MODULES = frozenset({"datasets", "losses", "metrics", "models", "projection", "regularizers"})

__version__ = "0.1.0"

__all__ = [
    "SDCACRF",
    "SDCACRFCV",
    "BMRMClassifier",
    "BMRMClassifierCV",
    "BMRMNoveltyDetector",
    "BMRMRanker",
    "BMRMRegressor",
    "BMRMRegressorCV",
    "PragamSVC",
    "StructuredSVM",
    "SwapNoveltyDetector",
    "SwapSVC",
    "SwapSVCCV",
    "SwapSVR",
    "SwapSVRCV",
    "__version__",
    "bmrm_path",
    "crf_path",
    "datasets",
    "losses",
    "metrics",
    "models",
    "projection",
    "reg_lambda_max",
    "regularizers",
    "to_sklearn",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        value = getattr(import_module(_HOMES[name]), name)
    except AttributeError as error:  # of a library; an import statement would show nothing of it
        raise ImportError(f"{_HOMES[name]} cannot be imported: {error}") from error
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
