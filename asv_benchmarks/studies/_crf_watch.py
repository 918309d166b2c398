"""A solver of SDCACRF that is looked at after its epochs, which counts nowhere.

Callbacks would not do: between its full passes a dual solver knows neither the objective nor, if it
is accelerated, the bound of its own point. So the solver is made here as ``fit`` makes it.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from _chains import ChainTask
from _measure import cpu_seconds

from sklearn_bundle import SDCACRF
from sklearn_bundle.chain.estimators.crf import checked_sequences, new_solver, problem_of

Look = Callable[[dict[str, Any], np.ndarray], bool]  # of what is true, and w; whether it is enough


def watch(
    task: ChainTask,
    look: Look,
    stride: float = 1.0,
    make: Callable[..., Any] = new_solver,
    max_seconds: float = np.inf,
    **settings: Any,
) -> float:
    """CPU seconds of the solver in one thread on the training part, from a fixed seed.

    It ends where ``look`` says so, at ``max_iter`` or ``tol``, or after ``max_seconds``. From one
    look to the next there are ``stride`` times as many epochs; ``make`` replaces ``new_solver``.
    """
    params = SDCACRF(**{"reg_lambda": task.reg_lambda, "n_jobs": 1, **settings})
    data = checked_sequences(params, task.train.matrices, task.train.labels, None)
    spent, epochs, next_look = 0.0, 0, 1
    with problem_of(params, data, task.reg_lambda, 1) as problem:
        solver = make(params, problem, 0, None)
        states = solver.states()
        while epochs < params.max_iter and spent < max_seconds:
            seconds, state = cpu_seconds(partial(next, states, None))
            if state is None:
                break
            spent, epochs = spent + seconds, epochs + 1
            if epochs >= next_look:
                next_look = max(epochs + 1, int(epochs * stride))
                if look(*_truth(problem, solver, state, epochs)):
                    break
            if state.relative_gap <= params.tol:
                break
    return spent


def _truth(problem: Any, solver: Any, state: Any, epochs: int) -> tuple[dict[str, Any], np.ndarray]:
    """With a dual point its own w, bound and objective; an unknown objective is infinite."""
    w, primal, dual, blocks = state.point, state.primal, state.lower_bound, solver.kept
    if isinstance(blocks, tuple):  # a dual point
        w = problem.check(w, blocks).features / problem.reg_lambda
        primal, dual = problem.check(w, blocks)[:2]
    elif np.isinf(primal):
        primal, _, dual = problem.evaluate(w)
    truth = {"epochs": epochs, "oracle_calls": state.passes, "objective": float(primal)}
    truth |= {"lower_bound": float(dual), "gap": float(primal - dual)}
    return truth | {"estimate": float(state.further[0]), "solver": solver.name}, w
