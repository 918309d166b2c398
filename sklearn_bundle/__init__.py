"""Regularized risk minimisation for scikit-learn, with a certificate of every fit."""

from sklearn_bundle import datasets, losses, metrics, models, projection, regularizers
from sklearn_bundle.estimators._grid import reg_lambda_max
from sklearn_bundle.estimators._path import bmrm_path
from sklearn_bundle.estimators.bmrm import BMRMClassifier
from sklearn_bundle.estimators.bmrm_cv import BMRMClassifierCV, BMRMRegressorCV
from sklearn_bundle.estimators.bmrm_novelty import BMRMNoveltyDetector
from sklearn_bundle.estimators.bmrm_ranker import BMRMRanker
from sklearn_bundle.estimators.bmrm_regressor import BMRMRegressor
from sklearn_bundle.estimators.crf import SDCACRF
from sklearn_bundle.estimators.crf_cv import SDCACRFCV, crf_path
from sklearn_bundle.estimators.pragam import PragamSVC
from sklearn_bundle.estimators.structured import StructuredSVM
from sklearn_bundle.estimators.swap import SwapSVC
from sklearn_bundle.estimators.swap_cv import SwapSVCCV
from sklearn_bundle.estimators.swap_novelty import SwapNoveltyDetector
from sklearn_bundle.estimators.swap_svr import SwapSVR

__version__ = "0.1.0.dev0"

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
]
