"""Displays, in scikit-learn's manner: how fits converged, and what regularization does."""

from sklearn_bundle.plotting._convergence import ConvergenceDisplay
from sklearn_bundle.plotting._path import RegularizationPathDisplay

__all__ = ["ConvergenceDisplay", "RegularizationPathDisplay"]
