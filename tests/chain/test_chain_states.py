"""Solvers of chain CRFs: their states, at every iteration and however the fit ends."""

from itertools import islice

import numpy as np
import pytest

from sklearn_bundle.chain import dual_ascent
from sklearn_bundle.chain.dual_ascent import ChainAutoSolver, DualSolver
from sklearn_bundle.chain.model import taken_apart
from sklearn_bundle.core.contract import Status, run
from sklearn_bundle.core.dual_methods import Catalyst
from sklearn_bundle.core.lbfgs import LBFGSSolver
from tests.chains import bound
from tests.contract.interrupts import ctrl_c

LENGTHS = [3, 1, 5, 2, 4, 1] * 2
SOLVERS = ["exponentiated", "sdca", "auto", "lbfgs"]


@pytest.fixture(scope="module")
def problems():
    """With 1e-5 "auto" goes on with L-BFGS after ten epochs; with 0.3 all solvers converge."""
    made = {reg_lambda: bound(3, LENGTHS, reg_lambda=reg_lambda) for reg_lambda in (1e-5, 0.3)}
    return {key: (*pair, pair[1].objective(pair[1].optimum())) for key, pair in made.items()}


def made(name, problem, tol, kept=None):
    if name == "lbfgs":
        return LBFGSSolver(problem)
    settings = {"sampling": "gap", "nonuniformity": 0.8, "precision": 1e-3, "seed": 0}
    dual = DualSolver(problem, potentials=name != "sdca", tol=tol, kept=kept, **settings)
    return ChainAutoSolver(dual, tol) if name == "auto" else dual


def assert_promises(model, optimum, primal, lower_bound, w):
    """The objective is that of the point, the bound below the optimum."""
    reached = model.objective(model.joined(*taken_apart(w, model.K)))
    assert primal == pytest.approx(reached, rel=1e-13)
    assert lower_bound <= optimum * (1.0 + 1e-10)  # the reference's optimum, to 1e-10


def interrupt(iteration, state):
    if iteration == 14:
        ctrl_c()


ENDS = {
    "max_iter": {"max_iter": 14},
    "max_time": {"max_time": 1e-9},
    "callback": {"observe": lambda iteration, _: Status.CALLBACK if iteration == 14 else None},
    "interrupted": {"observe": interrupt},
    "converged": {},
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("precision", [1e-3, 1e-9])
def test_objective_and_bound_belong_to_the_point(problems, name, end, precision):
    """At every state and at the end; the gap never grows. Of both precisions of w and blocks."""
    ours, model, optimum = problems[0.3 if end == "converged" else 1e-5]
    limits = {"tol": precision, "max_iter": 300} | ENDS[end]
    watch, states = limits.pop("observe", None), []

    def observe(iteration, state):
        states.append((state.primal, state.lower_bound, state.point.copy()))
        return watch(iteration, state) if watch is not None else None

    result = run(made(name, ours, limits["tol"]), observe=observe, **limits)
    assert result.status == end
    for state in [*states, (result.primal, result.lower_bound, result.point)]:
        assert_promises(model, optimum, *state)
    gaps = result.history["objective"] - result.history["lower_bound"]
    assert (np.diff(gaps) <= 0.0).all()
    assert result.gap == gaps[-1]


def test_a_bound_that_is_handed_over_is_below_the_optimum(problems):
    """In states that nothing confirms: a confirmation refuses a bound above the objective."""
    ours, _, optimum = problems[1e-5]
    solver = made("auto", ours, 1e-9)
    after = 0
    for state in solver.states():
        assert state.lower_bound <= optimum * (1.0 + 1e-10)
        after += solver.name == "lbfgs"
        if after == 4:
            break
    assert after == 4


@pytest.mark.parametrize("strength", [0.01, 10.0])
@pytest.mark.parametrize("reg_lambda", [1e-6, 1e-4, 1e-2, 1.0])
def test_bounds_of_accelerated_steps_stay_below_the_optimum(monkeypatch, reg_lambda, strength):
    """Against L-BFGS of scipy on an enumerated model, at each of 40 epochs.

    With a strong proximal term blocks have small gaps far from the optimum.
    """
    monkeypatch.setattr(dual_ascent, "_STRENGTH", strength)
    problem, model = bound(3, LENGTHS, reg_lambda=reg_lambda)
    optimum = model.objective(model.optimum())
    dual = accelerated(problem, 1e-9)
    for state in islice(dual.states(), 40):
        assert_promises(model, optimum, state.primal, state.lower_bound, state.point)
    final = dual.confirm()
    assert_promises(model, optimum, final.primal, final.lower_bound, final.point)
    assert dual.accelerated == (reg_lambda < strength)


@pytest.fixture(scope="module", params=[(1e-3, 0.99), (1e-3, 1.0), (0.03, 0.3), (0.03, 1.0)])
def with_l1(request):
    """A problem, and its optimum by scipy in two variables a weight."""
    reg_lambda, l1_ratio = request.param
    problem, model = bound(3, LENGTHS, reg_lambda=reg_lambda, l1_ratio=l1_ratio)
    return problem, model, model.objective(model.optimum())


@pytest.mark.parametrize("is_accelerated", [False, True])
@pytest.mark.parametrize("potentials", [True, False])
def test_bounds_with_l1_stay_below_the_optimum(with_l1, potentials, is_accelerated):
    """At each of 30 epochs, the first of which are far from it."""
    problem, model, optimum = with_l1
    dual = accelerated(problem, 1e-9, potentials, is_accelerated)
    for state in islice(dual.states(), 30):
        assert_promises(model, optimum, state.primal, state.lower_bound, state.point)
    final = dual.confirm()
    assert_promises(model, optimum, final.primal, final.lower_bound, final.point)
    assert dual.accelerated or problem.l1_ratio < 1.0


def test_steps_with_l1_converge(with_l1):
    problem, _, optimum = with_l1
    result = run(accelerated(problem, 1e-3), tol=1e-3, max_iter=2000)
    assert result.status == Status.CONVERGED
    assert result.primal == pytest.approx(optimum, rel=1e-3)


def test_accelerated_steps_converge():
    """Where they do: the gap closes, which proves the optimum."""
    problem, model = bound(3, LENGTHS, reg_lambda=1e-3)
    dual = accelerated(problem, 1e-4)
    result = run(dual, tol=1e-4, max_iter=2000)
    assert dual.accelerated and result.status == Status.CONVERGED
    assert result.primal == pytest.approx(model.objective(model.optimum()), rel=1e-4)


def test_accelerated_states_taken_in_parts_are_those_of_one_run():
    problem, _ = bound(3, LENGTHS, reg_lambda=1e-3)
    whole, parts = accelerated(problem, 1e-9), accelerated(problem, 1e-9)
    expected = list(islice(whole.states(), 9))
    found = [next(parts.states()) for _ in range(9)]
    assert [s.primal for s in found] == [s.primal for s in expected]
    assert [s.lower_bound for s in found] == [s.lower_bound for s in expected]


@pytest.mark.parametrize(
    "tol, reg_lambda, start, expected",
    [
        (1e-3, 1e-3, None, "f4"),
        (1e-9, 1e-3, None, "f8"),
        (1e-3, 1e-40, None, "f8"),  # w beyond what float32 holds
        (1e-3, 1e-3, "f8", "f8"),  # a fit goes on from one with a smaller tol
        (1e-9, 1e-3, "f4", "f8"),
    ],
)
def test_blocks_and_w_have_one_precision(tol, reg_lambda, start, expected):
    """There is no compiled code for two."""
    problem, _ = bound(3, LENGTHS, reg_lambda=reg_lambda)
    kept = None if start is None else problem.start(True, start)
    solver = made("exponentiated", problem, tol, kept)
    next(solver.states())
    kinds = {array.dtype for array in (solver.kept.nodes, solver.kept.pairs, solver._w)}
    assert kinds == {np.dtype(expected)}


def test_the_objective_is_looked_at_after_two_epochs():
    problem, _ = bound(3, LENGTHS, reg_lambda=1e-3)
    states = list(islice(accelerated(problem, 1e-9).states(), 2))
    assert states[0].passes + 3 < states[1].passes
    assert states[0].lower_bound < states[1].lower_bound


def accelerated(problem, tol, potentials=True, is_accelerated=True):
    settings = {"sampling": "gap", "nonuniformity": 0.8, "precision": 1e-3, "seed": 0}
    settings |= {"potentials": potentials, "accelerated": is_accelerated}
    return DualSolver(problem, tol=tol, **settings)


@pytest.mark.parametrize("passes, most", [(1.0, 1.2), (3.0, 1.5)])
def test_kappa_falls_by_a_limited_factor_per_move(passes, most):
    catalyst = Catalyst(1.0, 100.0, passes=passes)
    catalyst.adapt(0.0, 1.0)  # all of the gap is the center's
    assert catalyst.kappa == pytest.approx(100.0 / most)
