"""Regularized risk minimisation for scikit-learn, with a certificate of every fit."""

from sklearn_bundle import losses
from sklearn_bundle.estimators.bmrm import BMRMClassifier

__version__ = "0.1.0.dev0"

__all__ = ["BMRMClassifier", "__version__", "losses"]
