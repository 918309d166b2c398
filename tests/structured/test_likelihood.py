"""Likelihoods and Markov networks: risks, planes, bounds and dual points against enumeration."""

import re
from itertools import islice

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_iris

from sklearn_bundle import StructuredSVM
from sklearn_bundle.core.contract import Status, run
from sklearn_bundle.models import Multiclass
from sklearn_bundle.structured.problems.structured import LikelihoodProblem, StructuredProblem
from sklearn_bundle.structured.solvers.adapted import MarginalGapSolver
from tests.contract.fits import quiet
from tests.contract.judge import judge
from tests.contract.user_models import Grid
from tests.reference_chain import made as made_chains
from tests.reference_likelihood import Likelihood
from tests.reference_programme import LONG
from tests.reference_structured import Outputs, Structured
from tests.structured.test_models import COST, chain
from tests.structures import MANY_ENTRIES

IRIS = load_iris(return_X_y=True)
CHAINS = made_chains(12, 3, 3, 4)


def nine_chains(**settings):
    return chain(lengths=(1, 3, 2, 4, 3, 3, 1, 2, 3), **settings)


KINDS = {"chain": nine_chains, "chain, float32": lambda: nine_chains(dtype=np.float32)}
every_kind = pytest.mark.parametrize("kind", KINDS)


class Bound:
    """The package's problem and the reference's, in extended precision."""

    def __init__(self, kind, n_threads=1, reg_lambda=0.1, many=False):
        self.case = KINDS[kind]()
        examples, outputs = self.case.examples, self.case.outputs
        weights = np.random.default_rng(7).uniform(0.5, 2.0, len(outputs))
        examples.n_entries = MANY_ENTRIES if many else examples.n_entries
        self.ours = LikelihoodProblem(examples, weights / weights.sum(), reg_lambda, n_threads)
        exact = [Outputs(e.phi.astype(LONG), e.losses, e.truth) for e in outputs]
        self.reference = Likelihood(exact, reg_lambda, weights)

    def find(self, w):
        return self.ours.find(self.case.packed(w))

    def points(self, sizes=(0.0, 0.3, 1.0, 3.0, 10.0, 100.0)):
        rng = np.random.default_rng(4)
        return [size * rng.normal(size=self.reference.d) for size in sizes]


@every_kind
def test_risk_gradient_and_planes(kind):
    """No farther away than the problem says of its rounding; planes are nowhere above the risk.

    Their offset is an entropy, so that far away there is none.
    """
    bound = Bound(kind)
    for w in bound.points():
        found, reference = bound.find(w), bound.reference
        risk, exact = reference.risk(w.astype(LONG)), reference.gradient(w)
        assert abs(found.risk - risk) <= found.margin <= 1e-10 * (1.0 + np.abs(w).max())
        distance = np.linalg.norm((bound.case.unpacked(found.gradient) - exact).astype(float))
        assert distance <= found.error <= 1e-10 * (1.0 + np.abs(w).max())
        gradient, offset = bound.ours.plane(found)
        gradient = bound.case.unpacked(gradient)
        assert gradient @ w + offset == pytest.approx(float(risk), rel=1e-8)
        for other in bound.points():
            assert reference.risk(other) >= gradient @ other + offset - 1e-10
        shares = reference.probabilities(w.astype(LONG))
        entropies = [-np.sum(p * np.log(np.where(p > 0.0, p, 1.0))) for p in shares]
        entropy = float(reference.weights @ np.array(entropies))
        assert entropy - 1e-10 * (1.0 + w @ w) <= offset <= entropy
        _, _, proved = bound.ours.evaluate(bound.case.packed(w))
        dual = offset - gradient @ gradient / 0.2
        assert proved == pytest.approx(dual, abs=1e-10 * (1.0 + w @ w))
        assert bound.ours.plane(bound.find(1e14 * (w + 1.0)))[1] <= 0.0


@every_kind
@pytest.mark.parametrize("reg_lambda", [1e-3, 10.0])
def test_no_bound_is_above_the_optimum(kind, reg_lambda):
    """Near the optimum it is all that rounding leaves."""
    bound = Bound(kind, reg_lambda=reg_lambda)
    best = bound.reference.minimizer()
    least = float(bound.reference.objective(best))
    for distance in (0.0, 1e-9, 1e-6, 1e-3, 0.1, 1.0):
        w = best.astype(float) + distance * bound.points([1.0])[0]
        value, gradient, proved = bound.ours.evaluate(bound.case.packed(w))
        assert proved <= least * (1.0 + 1e-15)
        assert value == pytest.approx(float(bound.reference.objective(w)), rel=1e-13)
        slope = bound.reference.slope(w.astype(LONG)).astype(float)
        assert_allclose(bound.case.unpacked(gradient), slope, atol=1e-12 * (1.0 + abs(w).max()))
        missed = slope @ slope / (2.0 * reg_lambda)
        assert proved >= value - missed * (1.0 + 1e-6) - 1e-10 * least


def test_threads_do_not_change_a_bit():
    """Nine blocks, in one thread and in three."""
    alone, together = Bound("chain", many=True), Bound("chain", 3, many=True)
    w = alone.points([1.0])[0]
    with together.ours:
        again = together.find(w)
    found, n = alone.find(w), len(alone.case.outputs)
    assert (alone.ours.oracle_calls, alone.ours.passes) == (n, 1)
    assert (found.risk, found.margin, found.error) == (again.risk, again.margin, again.error)
    assert_array_equal(found.gradient, again.gradient)
    assert_allclose(found.gradient, Bound("chain").find(w).gradient, rtol=1e-11, atol=1e-14)


# ---- Markov networks by marginals ----------------------------------------------------------------


def networks(n_threads=1, reg_lambda=0.1, **settings):
    """The package's problem and the reference's."""
    case = nine_chains(**settings)
    weights = np.random.default_rng(0).uniform(0.2, 2.0, len(case.outputs))
    reference = Structured(case.outputs, reg_lambda, weights)
    given = case.examples, weights / weights.sum(), reg_lambda, False, n_threads
    return case, StructuredProblem(*given), reference


@pytest.mark.parametrize(
    "settings", [{}, {"cost": COST}, {"fit_intercept": False}, {"reg_lambda": 5.0}]
)
def test_bounds_of_every_state_and_the_optimum(settings):
    case, problem, reference = networks(**settings)
    best, solver, last = reference.optimum(), MarginalGapSolver(problem), np.inf
    for state in (*islice(solver.states(), 80), solver.confirm()):
        value = reference.objective(case.unpacked(state.point))
        assert state.primal == pytest.approx(value, rel=1e-11)
        assert state.lower_bound <= best.value * (1.0 + 1e-13)
        assert state.gap <= last
        last = state.gap
    result = run(MarginalGapSolver(problem), tol=1e-6, max_iter=5000)
    assert result.status is Status.CONVERGED
    assert result.primal == pytest.approx(best.value, rel=2e-6)


def test_numbers_of_every_size_and_threads():
    """Features from tiny to huge: the bound stays below the objective, whatever is reached."""
    for scale in (1e-150, 1e-6, 1e6, 1e100):
        _, problem, _ = networks(change=lambda X, scale=scale: [scale * x for x in X])
        result = run(MarginalGapSolver(problem), tol=1e-3, max_iter=30)
        assert 0.0 <= result.lower_bound <= result.primal < np.inf
    results = []
    for n_threads in (1, 2):
        _, problem, _ = networks(n_threads)
        problem.examples.n_entries = MANY_ENTRIES
        with problem:
            results.append(run(MarginalGapSolver(problem), tol=1e-9, max_iter=20))
    assert_array_equal(results[0].point, results[1].point)
    assert results[0].lower_bound == results[1].lower_bound


def test_a_network_goes_on_where_it_was():
    settings = {"reg_lambda": 0.2, "solver": "excessive-gap"}
    svm = StructuredSVM(warm_start=True, tol=1e-3, **settings)
    first, bound = svm.fit(*CHAINS).n_iter_, svm.lower_bound_
    svm.set_params(tol=1e-4).fit(*CHAINS)
    assert svm.status_ == "converged" and svm.lower_bound_ >= bound - 1e-12
    again = StructuredSVM(tol=1e-4, **settings).fit(*CHAINS)
    assert first + svm.n_iter_ < 1.5 * again.n_iter_
    assert (np.diff(again.history_["projections"]) > 0).all()


# ---- through the estimator -----------------------------------------------------------------------


def likelihood(model="chain", **parameters):
    return StructuredSVM(model, loss="log", **({"reg_lambda": 0.05, "max_iter": 3000} | parameters))


@pytest.mark.parametrize("solver", ["lbfgs", "bundle"])
def test_a_fit_that_ends_early_goes_on(solver):
    single = likelihood(solver=solver, max_iter=1, warm_start=True, tol=1e-6)
    for _ in range(6):
        quiet(single, *CHAINS)
    at_once = quiet(likelihood(solver=solver, max_iter=6, tol=1e-6), *CHAINS)
    # The inner problem of a plane is solved to a share of the gap, which each exit rounds afresh.
    assert single.objective_ == pytest.approx(at_once.objective_, rel=1e-11)
    assert_allclose(single.w_, at_once.w_, atol=1e-6)


@pytest.mark.wide
def test_planes_where_rounding_leaves_nothing_of_marginals_prove_nothing():
    """The first planes of such features are asked for at scores of 1e15."""
    rows = [9994003.21, 1001.47796], [9993119.66, 1001.05832], [9999785.19, 1001.60941]
    X = [np.array([[1000.654, 9998312.0]]), np.array([*rows, [10011801.6, 1000.04657]])]
    y = [[(0, 0, 1)], [(0, 0, 3), (0, 3, 4)]]
    model = likelihood("segments", solver="bundle", reg_lambda=0.02, max_iter=10, tol=1e-12)
    judge(quiet(model, X, y), X, y)


GAP = {"solver": "excessive-gap", "loss": "hinge"}
REFUSED = [
    ("chain", {"solver": "bcfw"}, "loss='log' takes one of the solvers 'auto', 'lbfgs', 'bundle', "
     "got solver='bcfw'"),
    ("chain", {"loss": "hinge", "solver": "lbfgs"}, "solver='lbfgs' is only for loss='log', got "
     "loss='hinge'"),
    (Grid(), {}, "loss='log' is for chains and segments, got Grid: use loss='hinge'."),
    ("chain", {**GAP, "loss": "squared_hinge"}, "only loss='hinge' with scaling='margin'"),
    (Multiclass(), GAP, "takes only the model 'chain'"),
]  # fmt: skip


@pytest.mark.parametrize("model, parameters, message", REFUSED)
def test_refused_combinations(model, parameters, message):
    X, y = IRIS if isinstance(model, Multiclass) else CHAINS
    if isinstance(model, Grid):
        X, y = [np.ones((2, 3, 2))], [np.zeros((2, 3), int)]
    model = likelihood(model).set_params(**parameters)
    with pytest.raises(ValueError, match=re.escape(message)):
        model.fit(X, y)
    assert not hasattr(model, "w_")
