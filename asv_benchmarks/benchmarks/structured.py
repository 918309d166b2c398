"""Structural support vector machines: time, memory, objective and certified gap."""

from benchmarks.chains import DATASETS, ChainBenchmark, chain_hinge_objective
from sklearn_bundle import StructuredSVM

_LIMIT = 20_000  # iterations: the weaker solvers end here or at a gap of 1e-2


class StructuredSVMBenchmark(ChainBenchmark):
    """Chains of arrays and of attribute strings, every solver, tol=1e-2."""

    param_names = ("data", "solver")
    params = (
        DATASETS,
        ("auto", "bcfw", "rsd", "rsd-one-simplex", "rsd-working-sets", "bundle"),
    )
    objective = staticmethod(chain_hinge_objective)

    def make_estimator(self, data: str, solver: str) -> StructuredSVM:
        settings = {"tol": 1e-2, "max_iter": _LIMIT, "n_jobs": 1, "random_state": 0}
        return StructuredSVM("chain", solver=solver, **settings)
