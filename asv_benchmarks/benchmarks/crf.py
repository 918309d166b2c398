"""Chain CRFs: time, memory, objective and certified gap."""

from benchmarks.chains import DATASETS, ChainBenchmark, chain_objective
from sklearn_bundle import SDCACRF


class SDCACRFBenchmark(ChainBenchmark):
    """Arrays and attribute strings, every solver, tol=1e-3."""

    param_names = ("data", "solver")
    params = (DATASETS, ("auto", "exponentiated", "sdca", "lbfgs"))
    objective = staticmethod(chain_objective)

    def make_estimator(self, data: str, solver: str) -> SDCACRF:
        return SDCACRF(solver=solver, max_iter=1000, n_jobs=1, random_state=0)
