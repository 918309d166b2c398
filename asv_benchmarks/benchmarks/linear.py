"""Linear classifiers: time, memory, objective and certified gap."""

from typing import Any

from benchmarks.common import DATASETS, Array, Certified, dataset, objective
from sklearn_bundle import BMRMClassifier, PragamSVC

_REG_LAMBDA = 1e-2


class LinearClassifier(Certified):
    """The first parameter names the data; one thread, tol=1e-3."""

    def make_data(self, data: str, *params: Any) -> tuple[Any, Array]:
        return dataset(data)

    def evaluate(self, *params: Any) -> float:
        model = self.estimator
        loss = getattr(model, "loss", "hinge")
        return objective(
            self.X, self.y, model.coef_, model.intercept_.item(), model.reg_lambda, loss
        )


class BMRMClassifierBenchmark(LinearClassifier):
    """Every loss with both solvers."""

    param_names = ("data", "loss", "solver")
    params = (
        DATASETS,
        ("hinge", "squared_hinge", "log_loss"),
        ("line-search", "cutting-plane"),
    )

    def make_estimator(self, data: str, loss: str, solver: str) -> BMRMClassifier:
        return BMRMClassifier(loss, reg_lambda=_REG_LAMBDA, solver=solver, n_jobs=1)


class PragamSVCBenchmark(LinearClassifier):
    """The adaptive method."""

    param_names = ("data",)
    params = (DATASETS,)

    def make_estimator(self, data: str) -> PragamSVC:
        return PragamSVC(reg_lambda=_REG_LAMBDA, n_jobs=1)
