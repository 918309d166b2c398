"""Subproblems in threads: shared time, Ctrl-C outside an iteration."""

from threading import Event

import numpy as np
import pytest

from sklearn_bundle.core.contract import HISTORY_DTYPE, SolverResult, Status
from sklearn_bundle.core.parallel import solve_each


def result(status=Status.CONVERGED):
    return SolverResult(1.0, 1.0, np.zeros(1), 0.0, status, 1, np.empty(1, HISTORY_DTYPE))


@pytest.mark.parametrize("n_threads, shares", [(1, [0.25, 1 / 3, 0.5, 1.0]), (2, [0.5, 0.5, 1, 1])])
def test_time_is_shared_by_what_is_still_to_come(n_threads, shares):
    seconds = [None] * 4

    def solve(k, budget):
        seconds[k] = budget
        return result()

    solve_each(solve, lambda k, r: None, 4, n_threads, 1000.0, Event())
    # solving takes no time here, so that the whole budget is left each time
    np.testing.assert_allclose(seconds, 1000.0 * np.array(shares, dtype=float), rtol=1e-3)


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("where", ["solve", "finish"])
def test_ctrl_c_outside_of_an_iteration(n_threads, where):
    stop, raised = Event(), []

    def interrupt(k):
        if k == 1 and not raised:
            raised.append(k)
            raise KeyboardInterrupt

    def solve(k, seconds):
        if where == "solve":
            interrupt(k)
        return result(Status.INTERRUPTED if stop.is_set() else Status.CONVERGED)

    def finish(k, r):
        if where == "finish":
            interrupt(k)

    results, interrupted = solve_each(solve, finish, 3, n_threads, None, stop)
    assert interrupted and all(r is not None for r in results)
    assert results[0].status is Status.CONVERGED
