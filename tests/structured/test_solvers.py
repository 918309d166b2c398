"""Solvers of structured outputs on problems whose outputs are all known: every state is true."""

from functools import partial
from itertools import islice

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_iris
from sklearn.preprocessing import scale

from sklearn_bundle import StructuredSVM
from sklearn_bundle.core.contract import Status, run
from sklearn_bundle.structured.problems.structured import StructuredProblem
from sklearn_bundle.structured.solvers.block_solvers import (
    BlockCoordinateSolver,
    OneSimplexSolver,
    SimplicialSolver,
    Summed,
)
from tests.reference_structured import Outputs, Structured
from tests.structures import KINDS, MANY_ENTRIES, VARIANTS, EnumeratedExamples, bound, drawn

TOL = 1e-6
MOST = 4000  # states, after which a solver of these problems is taken not to get there


def bundle(problem, tol=TOL, seed=None, **settings):
    return OneSimplexSolver(problem, name="bundle", tol=tol, **settings)


def simplicial(problem, seed=None, **settings):
    return SimplicialSolver(problem, **settings)


MAKERS = {
    "auto": BlockCoordinateSolver,
    "bcfw": partial(BlockCoordinateSolver, acceleration="never"),
    "rsd": simplicial,
    "rsd-working-sets": partial(simplicial, variant="working-sets"),
    "bundle": bundle,
}
every_solver = pytest.mark.parametrize("name", MAKERS)
every_variant = pytest.mark.parametrize("scaling, squared", VARIANTS)
both_losses = pytest.mark.parametrize("squared", [False, True])


def made(name, problem, **settings):
    return MAKERS[name](problem, **{"tol": TOL, "seed": 0} | settings)


def assert_true(state, reference, best):
    """The objective is that of the point, which the cone allows; the bound is below the optimum."""
    assert state.primal == pytest.approx(reference.objective(state.point), rel=1e-11, abs=1e-14)
    assert state.lower_bound <= best.value * (1.0 + 1e-13) + 1e-14
    assert state.lower_bound <= state.primal


def follow(solver, reference, best=None, tol=TOL, most=MOST, reaches=True):
    """Every state is true and no gap grows; one of them, computed afresh, is within tol."""
    best, last = reference.optimum() if best is None else best, np.inf
    for state in islice(solver.states(), most):
        assert_true(state, reference, best)
        assert state.gap <= last
        last = state.gap
        if reaches and state.relative_gap <= tol:
            state = solver.confirm()
            assert_true(state, reference, best)
            if state.relative_gap <= tol:
                return
    assert not reaches, f"ended at a relative gap of {solver.confirm().relative_gap:.1e}"


# ---- the optimum, and every state on the way -----------------------------------------------------


@pytest.mark.matrix
@every_variant
@pytest.mark.parametrize("kind", [*KINDS, "compiled"])
@every_solver
def test_the_optimum_is_reached(name, kind, scaling, squared):
    """Of kind "compiled" are classes with the package's own inference."""
    compiled = kind == "compiled"
    variant = {"scaling": scaling, "squared": squared, "weighted": True}
    reference = drawn("classes" if compiled else kind, 1, reg_lambda=1.0, **variant)
    follow(made(name, bound(reference, compiled=compiled)), reference)


@pytest.mark.matrix
@every_variant
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reg_lambda", [1e-3, 10.0])
@every_solver
def test_bounds_of_every_state_in_a_cone(name, kind, scaling, squared, reg_lambda):
    """The grid of the paper (10), (15), and others with two weights that must not be negative."""
    reference = drawn(kind, 1, reg_lambda=reg_lambda, cone=True, scaling=scaling, squared=squared)
    follow(made(name, bound(reference)), reference, most=15, reaches=False)


@both_losses
@every_solver
def test_problems_with_little_in_them(name, squared):
    """One example; true outputs alone, whose optimum is 0; no features, whose optimum is 2."""
    follow(made(name, bound(one := drawn("grid", 3, n=1, squared=squared))), one)
    alone = Structured([Outputs(np.ones((1, 2)), np.zeros(1)) for _ in range(3)], 0.1)
    phi, losses = np.zeros((3, 2)), np.array([0.0, 1.0, 2.0])
    empty = Structured([Outputs(phi, losses) for _ in range(4)], 0.1, squared=squared)
    for reference, best in ((alone, 0.0), (empty, 2.0)):
        result = run(made(name, bound(reference)), tol=TOL, max_iter=MOST)
        assert result.status is Status.CONVERGED
        assert result.primal == pytest.approx(best, rel=1e-15)
        assert result.lower_bound == pytest.approx(best, rel=2e-6)
        assert_array_equal(result.point, 0.0)


@both_losses
@every_solver
def test_a_repeated_example_is_one_of_twice_the_weight(name, squared):
    once = drawn("classes", 4, n=5, reg_lambda=0.01, squared=squared)
    heavy = Structured(once.examples, 0.01, np.array([2.0, 1, 1, 1, 1]), squared=squared)
    twice = Structured([once.examples[0], *once.examples], 0.01, squared=squared)
    best = heavy.optimum()
    follow(made(name, bound(heavy)), heavy, best)
    follow(made(name, bound(twice)), twice, best)


@pytest.mark.parametrize("reg_lambda, size", [(1e-7, 1.0), (1e7, 1.0), (1e-6, 1e6), (1e-6, 1e-6)])
@every_solver
def test_extreme_regularization_and_features_of_all_sizes(name, reg_lambda, size):
    """Features of 1e6 have planes far out, whose offsets are small differences of large numbers."""
    reference = drawn("chain", 5, n=4, reg_lambda=reg_lambda)
    for example in reference.examples:
        example.phi[:, :4] *= size
    reference, plain = Structured(reference.examples, reg_lambda), size == 1.0
    most = MOST if plain else 20
    follow(made(name, bound(reference)), reference, tol=1e-4, most=most, reaches=plain)


@pytest.mark.parametrize("solver", ["auto", "rsd"])
def test_few_features_take_few_iterations(solver):
    """Of 6 to 175 that were counted; steps on one example after the other took 32 to over 1,000."""
    X, y = load_iris(return_X_y=True)
    settings = {"random_state": 0, "solver": solver, "max_iter": 300}
    model = StructuredSVM("multiclass", reg_lambda=1e-4, **settings).fit(scale(X), y)
    assert model.status_ == "converged" and model.n_iter_ <= 60


# ---- seeds, threads, starts ----------------------------------------------------------------------


@every_solver
def test_equal_seeds_give_equal_results_with_any_threads(name):
    """Sixteen blocks of examples, in one thread and in three."""
    reference, results = drawn("listed", 7, n=50, reg_lambda=0.01), []
    for n_threads in (1, 1, 3):
        with bound(reference, n_threads, MANY_ENTRIES) as problem:
            results.append(run(made(name, problem), tol=TOL, max_iter=30))
    for other in results[1:]:
        assert_array_equal(results[0].point, other.point)
        for field in set(other.history.dtype.names) - {"seconds"}:
            assert_array_equal(results[0].history[field], other.history[field])
    reference = drawn("chain", 6, reg_lambda=0.01, weighted=True)
    follow(made(name, bound(reference), seed=1), reference)


@pytest.mark.matrix
@every_variant
@pytest.mark.parametrize("factor", [0.3, 1.0, 3.0])
@every_solver
def test_a_start_from_what_another_solver_kept(name, factor, scaling, squared):
    """Of the same reg_lambda its bound is as high at once; of another one its bounds are true."""
    first = drawn("chain", 10, reg_lambda=0.1, scaling=scaling, squared=squared)
    follow(solver := made(name, bound(first)), first)
    kept = solver.kept[0] if isinstance(solver.kept, tuple) else solver.kept
    kept.arrays.q[:] *= 1.0 if squared else 1.5  # which are made to sum to one before they count
    second = drawn("chain", 10, reg_lambda=0.1 * factor, scaling=scaling, squared=squared)
    again = made(name, bound(second), kept=solver.kept)
    known = solver.confirm().lower_bound if factor == 1.0 else 0.0
    assert next(iter(again.states())).lower_bound >= known * (1.0 - 1e-12)
    follow(again, second)


# ---- outputs that are kept -----------------------------------------------------------------------


def crowded(squared, n=2, m=30, d=8):
    """The true output is amid the others: many of them have weight at the optimum."""
    rng = np.random.default_rng(9)
    examples = [
        Outputs(np.r_[np.zeros((1, d)), rng.normal(size=(m, d))], np.r_[0.0, rng.uniform(1, 2, m)])
        for _ in range(n)
    ]
    return Structured(examples, 1.0, squared=squared)


@pytest.mark.matrix
@both_losses
@pytest.mark.parametrize("size", [2, 4])
@every_solver
def test_a_cache_that_is_too_small(name, size, squared):
    """It does not stall, but gets there as slowly as the method of Frank and Wolfe."""
    reference, tol = crowded(squared), 5e-3
    assert max(np.sum(q > 1e-6) for q in reference.dual_optimum()) >= size
    follow(made(name, bound(reference), tol=tol, n_cached_outputs=size), reference, tol=tol)


# ---- oracles that miss outputs, or scores that are not certain -----------------------------------


@pytest.mark.matrix
@every_variant
@pytest.mark.parametrize("excess", [0.0, 0.1, np.inf])
@every_solver
def test_an_oracle_that_is_not_exact(name, scaling, squared, excess):
    """The objective is what P is at most if there are bounds; the lower bound is below the optimum.

    Without bounds it ends at the optimum over what the oracle sees.
    """
    known, variant = np.isfinite(excess), {"scaling": scaling, "squared": squared}
    reference = drawn("grid", 8, reg_lambda=0.01 if known else 1.0, **variant)
    best, problem = reference.optimum(), bound(reference, sees=3, excess=excess)
    result = run(made(name, problem), tol=TOL, max_iter=300 if known else MOST)
    for state in (*islice(made(name, problem).states(), 60), result):
        assert state.lower_bound <= best.value * (1.0 + 1e-13)
        assert not known or state.primal >= reference.objective(state.point) * (1.0 - 1e-12)
    if not known:
        assert result.status is Status.CONVERGED
        found = reference.reg_lambda / 2 * result.point @ result.point
        found += problem.risk(problem.find(result.point))
        assert result.primal == pytest.approx(found, rel=1e-11)


class Forgetful(EnumeratedExamples):
    """Says that it is not exact: some searches away from w = 0 find only the true output."""

    def __init__(self, reference, seed):
        super().__init__(reference)
        self.exact, self._rng = False, np.random.default_rng(seed)
        self._all, self._true = self._seen, [np.array([e.truth]) for e in reference.examples]

    def find(self, w, first, last):
        self._seen = self._true if w.any() and self._rng.random() < 0.3 else self._all
        return super().find(w, first, last)


@pytest.mark.parametrize("seed", range(3))
def test_a_risk_that_was_missed_is_at_least_that_of_the_planes(seed):
    """Otherwise the objective would fall below a bound that the planes have proved."""
    reference = drawn("grid", seed, 8, reg_lambda=1e-3)
    problem = StructuredProblem(Forgetful(reference, seed), reference.weights, reference.reg_lambda)
    states, best = list(islice(bundle(problem).states(), 40)), reference.optimum().value
    bounds = [state.lower_bound for state in states]
    assert bounds == sorted(bounds) and 0.0 < bounds[-1] <= best * (1.0 + 1e-9)
    assert all(state.primal >= bound for state, bound in zip(states, bounds, strict=True))


class Uncertain(EnumeratedExamples):
    """Scores are off by up to 1e-3, for the second half of the examples by nothing."""

    noise = 0.0

    def errors(self, w):
        """See Examples."""
        return np.where(np.arange(self.n_examples) < self.n_examples // 2, 1e-3, 0.0)

    def find(self, w, first, last):
        found = super().find(w, first, last)
        lowered = np.maximum(found.scores - self.noise * self.errors(w)[first:last], 0.0)
        return found._replace(scores=lowered, bounds=lowered)


@both_losses
@every_solver
def test_no_gap_is_smaller_than_what_scores_are_off_by(name, squared):
    reference = drawn("chain", 2, weighted=True, squared=squared)
    examples = Uncertain(reference)
    problem = StructuredProblem(examples, reference.weights, reference.reg_lambda, squared)
    result = run(made(name, problem), tol=1e-9, max_iter=200)
    errors, scores = examples.errors(result.point), reference.slacks(result.point)
    off = reference.weights @ (scores * errors + errors**2 / 2 if squared else errors)
    assert 0.0 < off * (1.0 - 1e-9) <= result.gap <= 20.0 * off
    assert result.lower_bound <= reference.optimum().value


@pytest.mark.parametrize("noise", [1.0, 200.0])
@every_solver
def test_scores_that_are_off_by_rounding_are_not_missed_outputs(name, noise):
    """An oracle that is exact up to its errors is exact; one that is worse is not."""
    reference = drawn("chain", 2)
    examples = Uncertain(reference)
    examples.noise, refused = noise, ""
    problem = StructuredProblem(examples, reference.weights, reference.reg_lambda)
    try:
        run(made(name, problem), tol=1e-9, max_iter=200)
    except ValueError as error:
        refused = str(error)
    assert ("declared exact, but" in refused) == (noise > 1.0)


# ---- risks and planes ----------------------------------------------------------------------------


def points(reference, n=5):
    """In the cone, of sizes 0 to 10."""
    rng = np.random.default_rng(4)
    return [reference.projected(size * rng.normal(size=reference.d)) for size in np.r_[0, 1:11:n]]


@every_variant
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("excess", [None, 0.0, 0.25, np.inf])
def test_risks_and_planes(kind, scaling, squared, excess):
    """Planes are nowhere above the risk, those cut far away too, and touch it if all is seen."""
    oracle = {} if excess is None else {"sees": 3, "excess": excess}
    variant = {"scaling": scaling, "squared": squared, "cone": True}
    reference = drawn(kind, 3, 8, weighted=True, **variant)
    ours = bound(reference, **oracle)
    for w in points(reference):
        found, slacks = ours.find(w), reference.slacks(w) + (excess or 0.0)
        (gradient, offset), far = ours.plane(found), ours.plane(ours.find(1e12 * w))
        if np.isfinite(slacks).all():
            risk = reference.weights @ (slacks**2 / 2 if squared else slacks)
            assert ours.risk(found) == pytest.approx(risk, rel=1e-13)
        if excess is None:
            assert gradient @ w + offset == pytest.approx(reference.risk(w), rel=1e-12)
        for other in points(reference):
            assert reference.risk(other) >= gradient @ other + offset - 1e-11
            rounding = 1e-12 * (np.abs(far[0]).max() + abs(far[1]))
            assert reference.risk(other) >= far[0] @ other + far[1] - rounding - 1e-11


@both_losses
def test_blocks_are_of_the_examples_that_they_name(squared):
    """Weights belong to examples: a block that starts elsewhere has those of others."""
    reference = drawn("listed", 3, 50, weighted=True, squared=squared)
    ours, one = bound(reference, 1, MANY_ENTRIES), bound(reference)
    w = np.random.default_rng(5).normal(size=ours.dimension)
    found = ours.find(w)
    value, gradient = ours.risk(found), ours.plane(found)[0]
    assert (ours.oracle_calls, ours.passes) == (50, 1)
    assert [first for first, _ in ours.find(w)] == np.linspace(0, 50, 17).astype(int)[:-1].tolist()
    assert value == pytest.approx(reference.risk(w), rel=1e-13)
    assert_allclose(gradient, one.plane(one.find(w))[0], rtol=1e-12, atol=1e-14)


@both_losses
def test_rounding_of_planes(squared):
    """Planes are lowered by the rounding of their sums of features of 2^40 that nearly cancel."""
    reference = drawn("listed", 3, 40, reg_lambda=1e-3, squared=squared)
    long, covered = np.longdouble, []
    for psi in reference.psi:
        psi *= 1.0 + 2.0**40 * np.sign(psi)
    ours = bound(reference)
    for seed in range(20):
        w = 2.0**-40 * np.random.default_rng(seed).normal(size=reference.d)
        found, exact = ours.find(w), np.zeros(reference.d, long)
        for first, part in found:
            for k, weight in enumerate(reference.weights[first : first + len(part.losses)]):
                entries = slice(part.starts[k], part.starts[k + 1])
                factor = long(weight) * long(part.scores[k]) if squared else long(weight)
                exact[part.indices[entries]] -= factor * part.values[entries].astype(long)
        gradient, offset = ours.plane(found)
        error = float(np.linalg.norm((gradient - exact).astype(float)))
        covered.append(error / ours.of_plane(found))
        lowered = Summed(ours).find(w)[0][1].losses[0]
        farthest = np.sqrt(2.0 * reference.objective(w) / ours.reg_lambda)
        assert lowered <= offset - error * farthest * (1.0 - 1e-9)
    assert 1e-3 < max(covered) <= 1.0
