"""Solvers of structured outputs on problems whose outputs are all known: every state is true."""

from functools import partial
from itertools import islice

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sklearn_bundle.core.contract import Status, run
from sklearn_bundle.structured.problems.structured import StructuredProblem
from sklearn_bundle.structured.solvers.block_solvers import BlockCoordinateSolver, SimplicialSolver
from sklearn_bundle.structured.solvers.blocks import KeptOutputs
from sklearn_bundle.structured.solvers.one_simplex import OneSimplexSolver
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


def made(name, problem, **settings):
    return MAKERS[name](problem, **{"tol": TOL, "seed": 0} | settings)


def assert_true(state, reference, best):
    """The objective is that of the point, which the cone allows; the bound is below the optimum."""
    assert state.primal == pytest.approx(reference.objective(state.point), rel=1e-11, abs=1e-14)
    assert state.lower_bound <= best.value * (1.0 + 1e-13) + 1e-14
    assert state.lower_bound <= state.primal


def watch(solver, reference, most=25, best=None):
    """At most so many states: each is true, and the gap never grows."""
    best = reference.optimum() if best is None else best
    last = np.inf
    for _, state in zip(range(most), solver.states(), strict=False):
        assert_true(state, reference, best)
        assert state.gap <= last
        last = state.gap


def follow(solver, reference, best=None, tol=TOL, most=MOST):
    """States until one, computed afresh, is within tol."""
    best = reference.optimum() if best is None else best
    for k, state in enumerate(solver.states(), start=1):
        assert_true(state, reference, best)
        if state.relative_gap <= tol:
            state = solver.confirm()
            assert_true(state, reference, best)
            if state.relative_gap <= tol:
                return
        assert k < most, f"a relative gap of {state.relative_gap:.1e} after {k} states"
    raise AssertionError(f"ended at a relative gap of {solver.confirm().relative_gap:.1e}")


# ---- every state ------------------------------------------------------------------------------


@pytest.mark.matrix
@every_variant
@pytest.mark.parametrize("kind", [*KINDS, "compiled"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("reg_lambda", [1e-3, 0.1, 10.0])
@every_solver
def test_bounds_of_every_state(name, kind, scaling, squared, weighted, reg_lambda):
    """Of kind "compiled" are classes with the package's own inference."""
    compiled = kind == "compiled"
    variant = {"scaling": scaling, "squared": squared, "weighted": weighted}
    reference = drawn("classes" if compiled else kind, 1, reg_lambda=reg_lambda, **variant)
    watch(made(name, bound(reference, compiled=compiled)), reference)


@pytest.mark.matrix
@every_variant
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reg_lambda", [1e-3, 0.1, 10.0])
@pytest.mark.parametrize("name", MAKERS)
def test_bounds_of_every_state_in_a_cone(name, kind, scaling, squared, reg_lambda):
    """The grid of the paper (10), (15), and others with two weights that must not be negative."""
    reference = drawn(kind, 1, reg_lambda=reg_lambda, cone=True, scaling=scaling, squared=squared)
    watch(made(name, bound(reference)), reference, most=15)


@pytest.mark.matrix
@every_variant
@pytest.mark.parametrize("kind", [*KINDS, "compiled"])
@every_solver
def test_the_optimum_is_reached(name, kind, scaling, squared):
    compiled = kind == "compiled"
    variant = {"scaling": scaling, "squared": squared, "weighted": True}
    reference = drawn("classes" if compiled else kind, 1, reg_lambda=1.0, **variant)
    follow(made(name, bound(reference, compiled=compiled)), reference)


@pytest.mark.matrix
@every_variant
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", MAKERS)
def test_the_optimum_in_a_cone_is_reached(name, kind, scaling, squared):
    reference = drawn(kind, 1, reg_lambda=1.0, cone=True, scaling=scaling, squared=squared)
    follow(made(name, bound(reference)), reference)


@pytest.mark.parametrize("squared", [False, True])
@every_solver
def test_a_run_that_max_iter_ends(name, squared):
    reference = drawn("chain", 2, reg_lambda=1e-3, squared=squared)
    best = reference.optimum()
    for max_iter in (1, 2, 3, 5, 8, 13):
        result = run(made(name, bound(reference)), tol=1e-12, max_iter=max_iter)
        assert_true(result, reference, best)
        assert result.status in {Status.MAX_ITER, Status.CONVERGED, Status.STALLED}
        assert result.history["lower_bound"].max() <= best.value * (1.0 + 1e-13)


# ---- problems with little in them -------------------------------------------------------------


def true_output_only(n=3, d=2):
    return Structured([Outputs(np.ones((1, d)), np.zeros(1)) for _ in range(n)], 0.1)


def without_features(squared):
    phi, losses = np.zeros((3, 2)), np.array([0.0, 1.0, 2.0])
    return Structured([Outputs(phi, losses) for _ in range(4)], 0.1, squared=squared)


@every_solver
def test_only_true_outputs(name):
    """The optimum is 0, at w = 0."""
    reference = true_output_only()
    result = run(made(name, bound(reference)), tol=TOL, max_iter=MOST)
    assert (result.primal, result.lower_bound, result.status) == (0.0, 0.0, Status.CONVERGED)
    assert_array_equal(result.point, 0.0)


@pytest.mark.parametrize("squared", [False, True])
@every_solver
def test_no_features(name, squared):
    """The optimum is the highest loss, 2, or half of its square, which is 2 too."""
    reference = without_features(squared)
    result = run(made(name, bound(reference)), tol=TOL, max_iter=MOST)
    assert result.status is Status.CONVERGED
    assert result.primal == pytest.approx(2.0, rel=1e-15)
    assert result.lower_bound == pytest.approx(2.0, rel=2e-6)
    assert_array_equal(result.point, 0.0)


@pytest.mark.parametrize("squared", [False, True])
@every_solver
def test_one_example(name, squared):
    reference = drawn("grid", 3, n=1, squared=squared)
    follow(made(name, bound(reference)), reference)


@pytest.mark.parametrize("squared", [False, True])
@every_solver
def test_a_repeated_example_is_one_of_twice_the_weight(name, squared):
    once = drawn("classes", 4, n=5, reg_lambda=0.01, squared=squared)
    weights = np.array([2.0, 1.0, 1.0, 1.0, 1.0])
    heavy = Structured(once.examples, 0.01, weights, squared=squared)
    twice = Structured([once.examples[0], *once.examples], 0.01, squared=squared)
    best = heavy.optimum()
    follow(made(name, bound(heavy)), heavy, best)
    follow(made(name, bound(twice)), twice, best)


@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize("reg_lambda", [1e-7, 1e7])
@every_solver
def test_extreme_regularization(name, reg_lambda, squared):
    """At 1e-7 the optimum is 0 but for the regularizer; at 1e7 w is."""
    reference = drawn("chain", 5, n=4, reg_lambda=reg_lambda, squared=squared)
    follow(made(name, bound(reference)), reference, tol=1e-4)


@pytest.mark.parametrize("size", [1e6, 1e-6])
@every_solver
def test_features_of_all_sizes(name, size):
    """Those of 1e6 have planes far out, whose offsets are small differences of large numbers."""
    reference = drawn("chain", 5, n=4, reg_lambda=1e-6)
    for example in reference.examples:
        example.phi[:, :4] *= size
    reference = Structured(reference.examples, 1e-6)
    watch(made(name, bound(reference)), reference, most=20)


# ---- seeds, threads ---------------------------------------------------------------------------


def same(first, second):
    assert_array_equal(first.point, second.point)
    assert (first.primal, first.lower_bound) == (second.primal, second.lower_bound)
    for field in set(first.history.dtype.names) - {"seconds"}:
        assert_array_equal(first.history[field], second.history[field])


@every_solver
def test_equal_seeds_give_equal_results(name):
    reference = drawn("grid", 6, reg_lambda=0.01)
    first, second = (run(made(name, bound(reference)), tol=TOL, max_iter=30) for _ in range(2))
    same(first, second)


@pytest.mark.parametrize("seed", [1, 2])
@every_solver
def test_other_seeds(name, seed):
    reference = drawn("chain", 6, reg_lambda=0.01, weighted=True)
    follow(made(name, bound(reference), seed=seed), reference)


@every_solver
def test_threads_do_not_change_a_bit(name):
    """Sixteen blocks of examples, in one thread and in three."""
    reference = drawn("listed", 7, n=50, reg_lambda=0.01)
    results = []
    for n_threads in (1, 3):
        with bound(reference, n_threads, MANY_ENTRIES) as problem:
            results.append(run(made(name, problem), tol=TOL, max_iter=30))
    same(*results)


# ---- outputs that are kept ---------------------------------------------------------------------


def crowded(squared, n=2, m=30, d=8):
    """The true output is amid the others: many of them have weight at the optimum."""
    rng = np.random.default_rng(9)
    examples = [
        Outputs(np.r_[np.zeros((1, d)), rng.normal(size=(m, d))], np.r_[0.0, rng.uniform(1, 2, m)])
        for _ in range(n)
    ]
    return Structured(examples, 1.0, squared=squared)


@pytest.mark.matrix
@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize("size", [2, 3, 4])
@pytest.mark.parametrize("name", MAKERS)
def test_a_cache_that_is_too_small(name, size, squared):
    """It does not stall, but gets there as slowly as the method of Frank and Wolfe."""
    reference, tol = crowded(squared), 5e-3
    assert max(np.sum(q > 1e-6) for q in reference.dual_optimum()) >= size
    follow(made(name, bound(reference), tol=tol, n_cached_outputs=size), reference, tol=tol)


@pytest.mark.matrix
@every_variant
@pytest.mark.parametrize("factor", [0.3, 1.0, 3.0])
@every_solver
def test_a_start_from_what_another_solver_kept(name, factor, scaling, squared):
    """Of the same reg_lambda its bound is as high at once; of another one its bounds are true."""
    first = drawn("chain", 10, reg_lambda=0.1, scaling=scaling, squared=squared)
    solver = made(name, bound(first))
    follow(solver, first)
    second = drawn("chain", 10, reg_lambda=0.1 * factor, scaling=scaling, squared=squared)
    again = made(name, bound(second), kept=solver.kept)
    known = solver.confirm().lower_bound if factor == 1.0 else 0.0
    assert next(iter(again.states())).lower_bound >= known * (1.0 - 1e-12)
    follow(again, second)


@every_solver
def test_a_start_from_what_an_early_end_kept(name):
    reference = drawn("grid", 11, reg_lambda=0.2)
    solver = made(name, bound(reference))
    for _, _state in zip(range(2), solver.states(), strict=False):
        continue
    follow(made(name, bound(reference), kept=solver.kept), reference)


@every_solver
def test_the_same_problem_in_another_object(name):
    """A solver without a problem can be kept, and goes on where it was."""
    reference = drawn("grid", 12, reg_lambda=0.2)
    solver = made(name, bound(reference))
    first = run(solver, tol=1e-12, max_iter=5)
    solver.detach()
    solver.attach(bound(reference))
    second = run(solver, tol=1e-12, max_iter=5)
    assert second.gap <= first.gap
    follow(solver, reference)


# ---- oracles that miss outputs ----------------------------------------------------------------


@pytest.mark.matrix
@every_variant
@pytest.mark.parametrize("excess", [0.0, 0.1])
@every_solver
def test_an_oracle_that_is_not_exact_but_has_bounds(name, scaling, squared, excess):
    """The objective is what P is at most; the bound is below the optimum over all outputs."""
    reference = drawn("grid", 8, reg_lambda=0.01, scaling=scaling, squared=squared)
    best = reference.optimum()
    problem = bound(reference, sees=3, excess=excess)
    for _, state in zip(range(60), made(name, problem).states(), strict=False):
        assert state.primal >= reference.objective(state.point) * (1.0 - 1e-12)
        assert state.lower_bound <= best.value * (1.0 + 1e-13)
    result = run(made(name, problem), tol=TOL, max_iter=300)
    assert result.primal >= reference.objective(result.point) * (1.0 - 1e-12)
    assert result.lower_bound <= best.value * (1.0 + 1e-13)


@pytest.mark.matrix
@every_variant
@every_solver
def test_an_oracle_without_bounds(name, scaling, squared):
    """It ends at the optimum over what the oracle sees, which is below that over all outputs."""
    reference = drawn("grid", 8, reg_lambda=1.0, scaling=scaling, squared=squared)
    problem = bound(reference, sees=3)
    result = run(made(name, problem), tol=TOL, max_iter=MOST)
    assert result.status is Status.CONVERGED
    assert result.lower_bound <= reference.optimum().value * (1.0 + 1e-13)
    found = reference.reg_lambda / 2 * result.point @ result.point
    found += problem.risk(problem.find(result.point))
    assert result.primal == pytest.approx(found, rel=1e-11)


# ---- many -------------------------------------------------------------------------------------

FEW, OTHERS = range(4), range(4, 40)


@pytest.mark.parametrize("seeds", [FEW, pytest.param(OTHERS, marks=pytest.mark.wide)], ids=str)
@every_solver
def test_random_problems(name, seeds):
    for seed in seeds:
        rng = np.random.default_rng(seed)
        kind, (scaling, squared) = rng.choice(KINDS), VARIANTS[rng.integers(4)]
        reference = drawn(
            kind, seed, int(rng.integers(1, 15)), float(10.0 ** rng.uniform(-3, 2)),
            bool(rng.random() < 0.5), bool(rng.random() < 0.4),
            scaling=scaling, squared=squared,
        )  # fmt: skip
        watch(made(name, bound(reference)), reference)


# ---- found by a review ------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1e-6, 1e3])
@pytest.mark.parametrize("name", ["auto", "rsd"])
def test_the_unit_of_the_features_does_not_matter(name, scale):
    """Features s times as large and reg_lambda s^2 times are the same problem."""
    reference = drawn("classes", 3)
    examples = [Outputs(scale * e.phi, e.losses, e.truth) for e in reference.examples]
    scaled = Structured(examples, scale * scale * reference.reg_lambda)
    result = run(made(name, bound(scaled)), tol=1e-4, max_iter=200)
    assert result.status is Status.CONVERGED
    best = reference.optimum()
    assert result.lower_bound <= best.value * (1.0 + 1e-12)
    assert result.primal <= best.value * (1.0 + 2e-4)


def test_ctrl_c_while_the_pools_of_outputs_grow(monkeypatch):
    """The dual point that is there must still be the one that its outputs make."""
    reference = drawn("chain", 3, n=12, reg_lambda=0.3)
    solver, entries = made("bcfw", bound(reference), n_cached_outputs=3), KeptOutputs.entries
    for _ in zip(range(2), solver.states(), strict=False):
        pass

    def stop(outputs):
        entries(outputs)
        raise KeyboardInterrupt

    proved = solver._dual.refresh()
    assert 0.0 < proved <= reference.optimum().value
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(KeptOutputs, "entries", stop)
        solver.kept.reserve(10)
    assert solver._dual.refresh() == proved


@pytest.mark.parametrize("squared", [False, True])
def test_outputs_that_are_merged_or_moved_make_the_same_point(squared):
    reference = crowded(squared)
    solver = made("bcfw", bound(reference), n_cached_outputs=6)
    for _ in zip(range(9), solver.states(), strict=False):
        pass
    solver.kept.arrays.q[:] = np.arange(1.0, 8.0) / 28.0
    proved, w = solver._dual.refresh(), solver._dual.w.copy()
    assert (solver.kept.arrays.count == 7).all()
    for i in (0, 1):
        solver.kept.make_place(i)
        assert solver._dual.refresh() == pytest.approx(proved, rel=1e-12)
        assert_allclose(solver._dual.w, w, rtol=1e-12)
    kept = solver.kept.arrays
    for i in (0, 1):
        psi = np.zeros((kept.q.shape[1], reference.d))
        for k in range(kept.count[i]):
            entries = slice(kept.begin[i, k], kept.begin[i, k] + kept.length[i, k])
            psi[k, kept.indices[entries]] = kept.values[entries]
        assert_allclose(kept.gram[i], psi @ psi.T, rtol=1e-12, atol=1e-12)


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


# ---- rounding of scores -------------------------------------------------------------------------


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


def uncertain(reference):
    return StructuredProblem(
        Uncertain(reference), reference.weights, reference.reg_lambda, reference.squared
    )


@pytest.mark.parametrize("squared", [False, True])
@every_solver
def test_no_gap_is_smaller_than_what_scores_are_off_by(name, squared):
    reference = drawn("chain", 2, weighted=True, squared=squared)
    problem = uncertain(reference)
    result = run(made(name, problem), tol=1e-9, max_iter=200)
    errors = problem.examples.errors(result.point)
    scores = reference.slacks(result.point)
    off = reference.weights @ (scores * errors + errors**2 / 2 if squared else errors)
    assert result.gap >= off * (1.0 - 1e-9) > 0.0
    assert result.gap <= 20.0 * off
    assert result.lower_bound <= reference.optimum().value


@pytest.mark.parametrize("noise", [1.0, 200.0])
@pytest.mark.parametrize("name", MAKERS)
def test_scores_that_are_off_by_rounding_are_not_missed_outputs(name, noise):
    """An oracle that is exact up to its errors is exact; one that is worse is not."""
    problem = uncertain(drawn("chain", 2))
    problem.examples.noise = noise
    solver = made(name, problem)
    try:
        run(solver, tol=1e-9, max_iter=200)
        refused = ""
    except ValueError as error:
        refused = str(error)
    assert ("declared exact, but" in refused) == (noise > 1.0)
