"""Kernel classifiers: time, memory, objective and certified gap."""

from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.datasets import load_digits
from sklearn.metrics.pairwise import rbf_kernel

from benchmarks.common import DATASETS, Array, Certified, Estimator, dataset
from sklearn_bundle import SwapSVC, SwapSVCCV

_GAMMA = 0.02


class SwapSVCBenchmark(Certified):
    """Two classes, every solver that gets to tol=1e-3."""

    param_names = ("data", "solver")
    params = (DATASETS, ("swap-2o", "swap", "mfw", "cvm"))

    def make_data(self, data: str, *params: Any) -> tuple[Any, Array]:
        return dataset(data)

    def make_estimator(self, data: str, solver: str) -> SwapSVC:
        return SwapSVC(C=10.0, gamma=_GAMMA, solver=solver, n_jobs=1, random_state=0)

    def evaluate(self, *params: Any) -> float:
        """``1/2 ||w||^2 + 1/2 b^2`` plus the losses, from the kernel matrix in float64."""
        model = self.estimator
        alpha = np.zeros(len(self.y))
        coef = model.dual_coef_  # a sparse matrix if X is
        coef = coef.toarray() if issparse(coef) else coef
        alpha[model.support_] = coef[0] * self.y[model.support_]
        signed = np.outer(self.y, self.y) * (rbf_kernel(self.X, gamma=_GAMMA) + 1.0)
        slack = np.maximum(0.0, 1.0 - signed @ alpha)
        return float(0.5 * alpha @ signed @ alpha + 0.5 * model.C * slack @ slack)


class OneVersusOneBenchmark(Estimator):
    """Ten classes, SwapSVC and SwapSVCCV."""

    param_names = ("estimator",)
    params = (("SwapSVC", "SwapSVCCV"),)

    def make_data(self, *params: Any) -> tuple[Any, Array]:
        X, y = load_digits(return_X_y=True)
        return X / 16.0, y

    def make_estimator(self, estimator: str) -> Any:
        if estimator == "SwapSVC":
            return SwapSVC(C=10.0, n_jobs=1, random_state=0)
        return SwapSVCCV([1.0, 10.0, 100.0], cv=3, n_jobs=1, random_state=0)
