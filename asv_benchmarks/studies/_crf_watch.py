"""A fit of SDCACRF that is looked at after its epochs, which counts nowhere."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from _chains import ChainTask
from _measure import cpu_seconds

from sklearn_bundle import SDCACRF

Look = Callable[[dict[str, Any], np.ndarray], bool]  # of what is true, and w; whether it is enough


class WatchedCRF(SDCACRF):
    """SDCACRF that ends where ``look`` says so; it looks every ``stride`` epochs or oftener."""

    look: Look
    stride: float = 1.0  # from one look to the next, in relation to the epochs so far

    def _solver(self, problem: Any, *arguments: Any) -> "_Watched":
        self.watched = _Watched(self._unwatched(problem, *arguments), problem, self)
        return self.watched

    def _unwatched(self, problem: Any, *arguments: Any) -> Any:
        """The solver that is watched."""
        return super()._solver(problem, *arguments)

    def _further_attributes(self, *arguments: Any) -> dict[str, Any]:
        """What fits is a copy: this is what the estimator gets of it."""
        return super()._further_attributes(*arguments) | {"watched": self.watched}


class _Watched:
    """A solver whose states go through the hands of an estimator."""

    def __init__(self, solver: Any, problem: Any, model: WatchedCRF):
        self._solver, self._problem, self._model = solver, problem, model
        self.seconds, self.ended = 0.0, False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._solver, name)

    def states(self) -> Iterator[Any]:
        """Those of the solver; where there is a dual point, with its own w, bound and objective.

        A solver that does not know its objective says that it is infinite.
        """
        states, epochs, next_look = self._solver.states(), 0, 1
        while not self.ended:
            seconds, state = cpu_seconds(partial(next, states, None))
            self.seconds += seconds
            if state is None:
                return
            epochs += 1
            if epochs >= next_look:
                next_look = max(epochs + 1, int(epochs * self._model.stride))
                self.ended = self._model.look(*self._truth(state, epochs))
            yield state

    def _truth(self, state: Any, epochs: int) -> tuple[dict[str, Any], np.ndarray]:
        w, primal, dual, blocks = state.point, state.primal, state.lower_bound, self._solver.kept
        if hasattr(blocks, "nodes"):
            w, dual, margin = self._problem.weights_of(blocks)
            primal, _, _ = self._problem.gaps(w, blocks)
            dual -= margin
        elif np.isinf(primal):
            primal, _, dual = self._problem.evaluate(w)
        truth = {"epochs": epochs, "oracle_calls": state.passes, "objective": float(primal)}
        truth |= {"lower_bound": float(dual), "gap": float(primal - dual)}
        return truth | {"estimate": float(state.further[0]), "solver": self._solver.name}, w


def watch(
    task: ChainTask,
    look: Look,
    stride: float = 1.0,
    kind: type[WatchedCRF] = WatchedCRF,
    **settings: Any,
) -> WatchedCRF:
    """A fit to the training part, of one thread and from a fixed seed."""
    fixed = {"reg_lambda": task.reg_lambda, "n_jobs": 1, "random_state": 0}
    model = kind(**{**fixed, **settings})
    model.look, model.stride = look, stride
    return model.fit(task.train.matrices, task.train.labels)
