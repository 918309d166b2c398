"""The methods that the papers' studies compare with ours reach the optimum of a reference."""

import importlib.util
import sys
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from sklearn_bundle import BMRMClassifier
from sklearn_bundle.chain.problem import ChainProblem
from tests import reference, reference_chain

PAPERS = Path(__file__).parents[2] / "asv_benchmarks" / "papers"
N, REG_LAMBDA = 40, 0.01


def study(name):
    """A module of the studies, which are no package."""
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, PAPERS / f"{name}.py")
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


class Hinge:
    """The mean hinge loss in numpy, as a problem that offers no more than planes."""

    def __init__(self):
        rng = np.random.default_rng(0)
        self.X = rng.normal(size=(N, 5))
        self.y = np.where(self.X @ rng.normal(size=5) + rng.normal(size=N) > 0.0, 1.0, -1.0)
        self.dimension = 5

    def evaluate(self, w):
        margin = self.y * (self.X @ w)
        gradient = -((margin < 1.0) * self.y) @ self.X / N
        return float(np.maximum(0.0, 1.0 - margin).mean()), gradient


@pytest.mark.parametrize("name", ["BT", "proximal"])
@pytest.mark.parametrize("reg_lambda", [1.0, REG_LAMBDA, 1e-5])
def test_bundle_method_reaches_the_optimum(name, reg_lambda):
    problem = Hinge()
    data = problem.X, problem.y, np.full(N, 1.0 / N)
    optimum = reference.optimum("hinge", *data, reg_lambda, False)
    solver = study("_bundle_peers").METHODS[name](problem, reg_lambda)
    last = list(islice(solver.states(), 400))[-1]
    assert optimum * (1.0 - 1e-9) <= last.primal <= optimum * (1.0 + 1e-7)


@pytest.mark.parametrize("name", ["BT", "proximal"])
def test_planes_of_bundle_method_lie_below_the_objective(name):
    """The bundle has them by their heights at the center, which moves."""
    problem = Hinge()
    solver = study("_bundle_peers").METHODS[name](problem, REG_LAMBDA)
    list(islice(solver.states(), 12))
    center, bundle = solver._center, solver._bundle
    assert center.any()
    for w in np.random.default_rng(1).normal(size=(20, 5)):
        objective = problem.evaluate(w)[0] + 0.5 * REG_LAMBDA * w @ w
        planes = bundle.planes @ (w - center) + bundle.offsets + solver._value
        assert planes.max() <= objective + 1e-12
    # the plane that was cut at the center touches there
    assert bundle.offsets.max() == pytest.approx(0.0, abs=1e-14)


@pytest.mark.parametrize("name", ["BT", "proximal"])
def test_bundle_method_as_a_solver_of_the_estimator(name):
    """Not in need of an evaluation more than there are states, but that at 0."""
    problem = Hinge()
    settings = {"reg_lambda": REG_LAMBDA, "fit_intercept": False}
    ours = BMRMClassifier(tol=1e-9, **settings).fit(problem.X, problem.y)
    model = study("_bundle_peers").PeerClassifier(solver=name, max_iter=60, **settings)
    with pytest.warns(match="max_iter|stalled"):  # neither method proves a bound
        model.fit(problem.X, problem.y)
    assert model.objective_ == pytest.approx(ours.objective_, rel=1e-5)
    assert model.history_["passes"][0] == 2


def chain_problem(intercept=True):
    X, y = reference_chain.made(n=N)
    lengths = np.array([len(x) for x in X])
    args = sp.csr_array(np.vstack(X)), lengths, np.concatenate(y), 3, np.full(N, 1.0 / N)
    return ChainProblem(*args, 1.0 / N, intercept, 1)


@pytest.mark.wide
@pytest.mark.parametrize("intercept", [True, False])
def test_sag_reaches_the_optimum(intercept):
    X, y = reference_chain.made(n=N)
    ours = reference_chain.Model(X, y, 3, 1.0 / N, intercept=intercept)
    optimum = ours.objective(ours.optimum())
    for skipping in (False, True):
        solver = study("_sag_nus").SAGSolver(chain_problem(intercept), skipping=skipping, seed=0)
        list(islice(solver.states(), 60))
        assert solver.confirm().primal == pytest.approx(optimum, rel=1e-9), skipping


@pytest.mark.wide
def test_sag_keeps_the_sum_of_what_it_stores():
    """Once w no longer moves, that is the gradient there."""
    problem = chain_problem()
    solver = study("_sag_nus").SAGSolver(problem, skipping=True, seed=0)
    list(islice(solver.states(), 150))
    _, gradient, _ = problem.evaluate(solver._w)
    stored = solver._total / N + problem.reg_lambda * solver._w
    np.testing.assert_allclose(stored, gradient, atol=1e-9)


def test_sag_skips_searches_and_repeats_itself():
    problem = chain_problem()

    def after(skipping):
        solver = study("_sag_nus").SAGSolver(problem, skipping=skipping, seed=3)
        return list(islice(solver.states(), 20))[-1]

    always, skipping = after(False), after(True)
    assert skipping.passes < 0.7 * always.passes
    np.testing.assert_array_equal(skipping.point, after(True).point)


def test_sag_refuses_unequal_weights():
    problem = chain_problem()
    problem.weights = np.arange(N) / N
    with pytest.raises(ValueError, match="equal weights"):
        study("_sag_nus").SAGSolver(problem, skipping=True, seed=0)
