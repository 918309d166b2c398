"""Displays like scikit-learn's: convergence of fits and effects of regularization."""

from sklearn_bundle.plotting._convergence import ConvergenceDisplay
from sklearn_bundle.plotting._path import RegularizationPathDisplay

__all__ = ["ConvergenceDisplay", "RegularizationPathDisplay"]
