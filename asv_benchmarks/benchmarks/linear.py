"""Linear classifiers: time, memory, objective and certified gap."""

from typing import Any

from benchmarks.common import DATASETS, Array, Certified, dataset, objective
from sklearn_bundle import BMRMClassifier

_REG_LAMBDA = 1e-2


class BMRMClassifierBenchmark(Certified):
    """One thread, tol=1e-3."""

    param_names = ("data", "loss", "solver")
    params = (
        DATASETS,
        ("hinge", "squared_hinge", "log_loss", "exponential"),
        ("line-search", "cutting-plane"),
    )

    def make_data(self, data: str, loss: str, solver: str) -> tuple[Any, Array]:
        return dataset(data)

    def make_estimator(self, data: str, loss: str, solver: str) -> BMRMClassifier:
        return BMRMClassifier(loss, reg_lambda=_REG_LAMBDA, solver=solver, n_jobs=1)

    def evaluate(self, data: str, loss: str, solver: str) -> float:
        model = self.estimator
        return objective(
            self.X, self.y, model.coef_, model.intercept_.item(), model.reg_lambda, loss
        )
