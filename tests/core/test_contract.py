"""The loop around a solver, with fake solvers."""

import warnings
from time import sleep

import numpy as np
import pytest

from sklearn_bundle.core import contract
from sklearn_bundle.core.certificate import bound_below
from sklearn_bundle.core.contract import State, Status, run


class Scripted:
    """Yields given (primal, bound) pairs; confirms the pairs that it is told to."""

    def __init__(self, states, confirmed):
        self._states, self._confirmed, self.confirms = states, list(confirmed), 0

    def states(self):
        for k, pair in enumerate(self._states):
            self.last = self._state(pair, k)
            yield self.last

    def confirm(self, *, moving=True):
        self.confirms, self.moving = self.confirms + 1, moving
        return self._state(self._confirmed.pop(0), 0) if self._confirmed else self.last

    def _state(self, pair, passes):
        return State(*pair, np.zeros(1), 0.0, passes)


def test_a_gap_that_is_not_confirmed_does_not_count():
    solver = Scripted([(1.0, 0.9999), (1.0, 0.5), (1.0, 0.9999)], [(1.0, 0.2), (1.0, 0.9995)])
    result = run(solver, tol=1e-3, max_iter=10)
    assert result.status is Status.CONVERGED and result.n_iter == 3
    assert result.lower_bound == 0.9995 == result.history["lower_bound"][-1]
    assert result.history["lower_bound"][0] == 0.2


def test_other_ends_are_confirmed_too():
    result = run(Scripted([(1.0, 0.5)], [(1.5, 0.25)]), tol=1e-3, max_iter=1)
    assert result.status is Status.MAX_ITER
    assert (result.primal, result.lower_bound, result.gap) == (1.5, 0.25, 1.25)


def test_the_history_claims_no_more_than_was_confirmed():
    states = [(1.0, 0.5), (0.9, 0.8), (0.9, 0.7)]
    result = run(Scripted(states, [(0.95, 0.6)]), tol=1e-3, max_iter=3)
    assert result.history["objective"].tolist() == [1.0, 0.95, 0.95]
    assert result.history["lower_bound"].tolist() == [0.5, 0.6, 0.6]


@pytest.mark.parametrize("max_iter, states", [(1, 2), (9, 1)])
def test_a_gap_that_confirmation_closes_is_converged(max_iter, states):
    """Neither max_iter nor rounding is blamed for a gap that turns out to be within tol."""
    solver = Scripted(states * [(1.0, 0.9)], [(1.0, 0.9995)])
    assert run(solver, tol=1e-3, max_iter=max_iter).status is Status.CONVERGED


TOL, ABOVE = 0.125, (1.0, np.nextafter(0.875, 0.0))  # the least gap that is larger than tol


@pytest.mark.parametrize(
    "states, confirmed, max_iter, status, n_confirms",
    [
        ([(1.0, 0.875)], [], 9, Status.CONVERGED, 1),
        ([(1.0, 0.5), (1.0, 0.6)], [], 9, Status.STALLED, 1),
        ([ABOVE, (2.0, 0.0)], [], 9, Status.STALLED, 1),  # at the end only
        ([ABOVE], [], 1, Status.MAX_ITER, 1),
        ([ABOVE], [], 9, Status.STALLED, 1),
        ([(1.0, 0.875), (1.0, 0.5)], [ABOVE, (0.5, 0.0)], 9, Status.STALLED, 2),
    ],
)
def test_a_gap_that_is_the_least_above_tol_is_not_converged(
    states, confirmed, max_iter, status, n_confirms
):
    """A gap of exactly tol is. What is confirmed above it is not what the run ends with."""
    solver = Scripted(states, confirmed)
    result = run(solver, tol=TOL, max_iter=max_iter)
    assert result.status is status and solver.confirms == n_confirms
    assert result.primal == (confirmed or states)[-1][0]


def test_warnings_of_steps_stay_inside_and_those_of_the_observer_do_not():
    class Overflowing(Scripted):
        def states(self):
            yield self._state((float(np.float64(1e200) * 1e200), 0.0), 0)
            yield from super().states()

        def confirm(self, *, moving=True):
            np.float64(0.0) / np.float64(0.0)
            return super().confirm(moving=moving)

    def observe(iteration, state):
        np.float64(1e200) * 1e200

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run(Overflowing([(1.0, 1.0)], []), tol=1e-3, max_iter=10)
        assert not caught
    with pytest.warns(RuntimeWarning, match="overflow"):
        run(Scripted([(1.0, 1.0)], []), tol=1e-3, max_iter=10, observe=observe)


def test_a_bound_above_the_objective_is_as_wrong_as_that_shows():
    assert bound_below(0.75, 1.0) == 0.75
    assert bound_below(1.25, 1.0) == 0.75
    assert bound_below(1e-17, 0.0) == -1e-17


def test_compilation_does_not_count_in_max_time(monkeypatch):
    """Here every state takes 20 ms, all of them for compilation."""
    solver, seconds = Scripted([(1.0, 0.0)] * 3, []), [0.0]
    monkeypatch.setattr(contract, "seconds_compiled", lambda: seconds[0])

    def compiling(k, state):
        sleep(0.02)
        seconds[0] += 0.02

    assert run(solver, tol=1e-3, max_iter=3, max_time=0.03, observe=compiling).n_iter == 3


def test_observer_ends_the_run():
    seen = []

    def observe(iteration, state):
        seen.append(iteration)
        return Status.CALLBACK if iteration == 2 else None

    solver = Scripted(5 * [(1.0, 0.5)], [])
    result = run(solver, tol=1e-3, max_iter=9, observe=observe)
    assert result.status is Status.CALLBACK and seen == [1, 2]
    assert not solver.moving  # what was observed is returned


def test_the_confirmed_state_is_observed_at_a_limit():
    seen = []
    solver = Scripted(5 * [(1.0, 0.5)], [(0.9, 0.6)])
    run(solver, tol=1e-3, max_iter=2, observe=lambda _, state: seen.append(state.primal))
    assert seen == [1.0, 0.9] and solver.confirms == 1
