"""Regularized risk minimisation for scikit-learn, with a certificate of every fit."""

from sklearn_bundle import losses, projection
from sklearn_bundle.estimators.bmrm import BMRMClassifier
from sklearn_bundle.estimators.pragam import PragamSVC
from sklearn_bundle.estimators.swap import SwapSVC
from sklearn_bundle.estimators.swap_cv import SwapSVCCV

__version__ = "0.1.0.dev0"

__all__ = [
    "BMRMClassifier",
    "PragamSVC",
    "SwapSVC",
    "SwapSVCCV",
    "__version__",
    "losses",
    "projection",
]
