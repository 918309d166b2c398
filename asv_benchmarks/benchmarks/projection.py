"""Projection onto a box cut by a hyperplane: time."""

from typing import Any

import numpy as np

from benchmarks.common import Array, Benchmark
from sklearn_bundle.projection import project

Problem = tuple[Array, dict[str, Any]]  # m, and the keyword arguments of project


def general(n: int, seed: int = 0) -> Problem:
    """A metric, a hyperplane with coefficients of both signs, and upper bounds, all random."""
    rng = np.random.default_rng(seed)
    m = rng.standard_normal(n)
    d, upper = rng.uniform(0.5, 2.0, n), rng.uniform(0.5, 2.0, n)
    sigma = rng.choice([-1.0, 1.0], n) * rng.uniform(0.5, 2.0, n)
    return m, {"d": d, "sigma": sigma, "lower": 0.0, "upper": upper, "z": 0.0}


def simplex(n: int, seed: int = 0) -> Problem:
    """The unit simplex."""
    return np.random.default_rng(seed).standard_normal(n), {"sigma": 1.0, "z": 1.0}


PROBLEMS = {"general": general, "simplex": simplex}


class ProjectionBenchmark(Benchmark):
    """``setup`` projects once, so that nothing is compiled on the clock."""

    param_names = ("n", "problem")
    params = ((10**3, 10**4, 10**5, 10**6), tuple(PROBLEMS))

    def setup(self, n: int, problem: str) -> None:
        self.m, self.constraints = PROBLEMS[problem](n)
        project(self.m, **self.constraints)

    def time_project(self, n: int, problem: str) -> None:
        project(self.m, **self.constraints)
