"""Chain CRFs: time, memory, objective and certified gap."""

from itertools import chain
from typing import Any

import numpy as np

from benchmarks.chains import DATASETS, chain_objective, chains
from benchmarks.common import Certified
from sklearn_bundle import SDCACRF


class SDCACRFBenchmark(Certified):
    """Arrays and attribute strings, every solver, tol=1e-3."""

    param_names = ("data", "solver")
    params = (DATASETS, ("auto", "exponentiated", "sdca", "lbfgs"))

    def make_data(self, data: str, *params: Any) -> tuple[list, list]:
        return chains(data)

    def make_estimator(self, data: str, solver: str) -> SDCACRF:
        return SDCACRF(solver=solver, max_iter=1000, n_jobs=1, random_state=0)

    def evaluate(self, *params: Any) -> float:
        """In numpy, from the fitted attributes."""
        model = self.estimator
        X, y = list(chain.from_iterable(self.X)), list(chain.from_iterable(self.y))
        if hasattr(model, "attribute_names_"):
            column = {name: j for j, name in enumerate(model.attribute_names_)}
            design = np.zeros((len(X), len(column)))
            for row, names in zip(design, X, strict=True):
                np.add.at(row, [column[name] for name in names], 1.0)
        else:
            design = np.array(X, dtype=np.float64)
        return chain_objective(
            design,
            np.searchsorted(model.classes_, y),
            np.array([len(labels) for labels in self.y]),
            1.0 / len(self.y),
            model.coef_,
            model.transitions_,
            model.intercept_,
            model.start_,
            model.end_,
        )
