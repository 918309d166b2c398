"""Regularized risk minimisation for scikit-learn, with a certificate of every fit."""

from sklearn_bundle import datasets, losses, metrics, projection
from sklearn_bundle.estimators.bmrm import BMRMClassifier
from sklearn_bundle.estimators.crf import SDCACRF
from sklearn_bundle.estimators.pragam import PragamSVC
from sklearn_bundle.estimators.swap import SwapSVC
from sklearn_bundle.estimators.swap_cv import SwapSVCCV

__version__ = "0.1.0.dev0"

__all__ = [
    "SDCACRF",
    "BMRMClassifier",
    "PragamSVC",
    "SwapSVC",
    "SwapSVCCV",
    "__version__",
    "datasets",
    "losses",
    "metrics",
    "projection",
]
