"""Reports on a running fit: scikit-learn's callbacks, the lines of ``verbose``, interruption."""

from __future__ import annotations

import sys
from collections.abc import Callable
from threading import Event, Lock
from time import monotonic
from typing import Any

import numpy as np

from sklearn_bundle.core.contract import Certificate, SolverResult, State, Status

try:
    from sklearn.callback import ProgressBar
except ImportError:  # scikit-learn before 1.9

    class ProgressBar: ...


_SECONDS_BETWEEN_LINES = 0.25  # of ``verbose``: as fast as one reads
# scikit-learn's bar counts all tasks at each of them: 16,000 took six times as long as the fit.
# Where nothing but bars listens, there are at most so many, each for as many iterations.
_MOST_TASKS_OF_BARS = 500


class Lines:
    """What ``verbose`` prints: at most four lines per second, and those that have to come.

    Threads may share it.
    """

    def __init__(self, name: str, verbose: int):
        self.name, self.verbose = name, verbose
        self._last, self._lock = -np.inf, Lock()

    def __getstate__(self) -> dict[str, Any]:  # a copy in another process
        return {"name": self.name, "verbose": self.verbose, "_last": self._last}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=Lock())

    def report(self, message: str) -> None:
        """Print a line, whatever ``verbose`` is, with escapes for what cannot be encoded."""
        encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
        text = f"[{self.name}] {message}".encode(encoding, "backslashreplace").decode(encoding)
        print(text, flush=True)

    def print(self, line: str) -> None:
        if self.verbose:
            self._last = monotonic()
            self.report(line)

    def print_if_due(self, line: Callable[[], str]) -> None:
        """A line if the last one was long enough ago."""
        if not self.verbose:
            return
        with self._lock:
            if monotonic() - self._last < _SECONDS_BETWEEN_LINES:
                return
            self._last = monotonic()
        self.report(line())


class Task:
    """A task of a fit, as callbacks see it; before scikit-learn 1.9 nobody does.

    ``given`` is what hooks may ask for: X, y and metadata as they came.
    """

    def __init__(self, estimator: Any, given: dict[str, Any], context: Any):
        self._estimator, self._given, self._context = estimator, given, context
        if context is not None:
            context.call_on_fit_task_begin(estimator=estimator, **given)

    @classmethod
    def root(cls, estimator: Any, given: dict[str, Any], **kind: Any) -> Task:
        """The outermost task."""
        begin = getattr(estimator, "_init_callback_context", None)  # of scikit-learn's mixin
        return cls(estimator, given, None if begin is None else begin(**kind))

    @property
    def is_seen(self) -> bool:
        """Whether there are callbacks."""
        return self._context is not None and bool(callbacks_of(self._estimator))

    def begin(self, name: str, **kind: Any) -> Task:
        """A task of this one."""
        context = self._context
        below = None if context is None else context.subcontext(task_name=name, **kind)
        return Task(self._estimator, self._given, below)

    def of(self, estimator: Any) -> Task:
        """The same task, whose own tasks are those of another estimator and of a part of data."""
        part = object.__new__(Task)
        part._estimator, part._given, part._context = estimator, {}, self._context
        return part

    def end(
        self,
        certificate: Certificate | None = None,
        attributes: Callable[[], dict[str, Any]] | None = None,
    ) -> bool:
        """Whether a callback requests to stop; ``attributes`` makes the model that it may use.

        Callbacks find the certificate on the context.
        """
        if self._context is None:
            return False
        if certificate is not None:
            self._context.certificate = certificate
        of_hook = {"estimator": self._estimator, "reconstruction_attributes": attributes}
        return bool(self._context.call_on_fit_task_end(**of_hook, **self._given))


def callbacks_of(estimator: Any) -> list[Any]:
    """What ``set_callbacks`` has registered."""
    return getattr(estimator, "_skl_callbacks", None) or []


class Monitor:
    """Watches the iterations of all subproblems.

    Parameters
    ----------
    begin : callable
        ``begin(**kind)``, the task of the fit.
    lines : Lines
    names : list of str
        Name of each subproblem.
    unit : str
        What a subproblem is: "class", "pair".
    max_iter : int
        Of each subproblem.
    model : callable
        ``model(points)`` -> fitted attributes for a list of (w, intercept), one per subproblem.
    bars_only : bool
        Whether all callbacks are progress bars.
    """

    def __init__(
        self,
        begin: Callable[..., Task],
        lines: Lines,
        names: list[str],
        unit: str,
        max_iter: int,
        model: Callable[[list[tuple[Any, Any]]], dict[str, Any]],
        bars_only: bool,
    ):
        self.stop = Event()
        n = len(names)
        self._names = [f"{name} ({k}/{n})" for k, name in enumerate(names, 1)]
        self._lines, self._model, self._lock = lines, model, Lock()
        self._points: list[Any] = [None] * n
        self._max_iter = max_iter
        self._n_tasks = min(max_iter, _MOST_TASKS_OF_BARS) if bars_only else max_iter
        self._reported = [0] * n  # iterations that a task has stood for
        each = {"max_subtasks": self._n_tasks}
        if n == 1:
            self._root = begin(**each)
            self._tasks = [self._root]
        else:
            self._root = begin(max_subtasks=n, sequential_subtasks=False)
            self._tasks = [self._root.begin(unit, task_id=k, **each) for k in range(n)]

    def __call__(self, k: int, iteration: int, state: State) -> Status | None:
        """Observe a state of subproblem k; the status to stop with, or None."""
        if self.stop.is_set():
            return Status.INTERRUPTED
        with self._lock:
            self._lines.print_if_due(lambda: self._line(k, iteration, state))
            if not self._root.is_seen:
                return None
            self._points[k] = state.point, state.intercept
            done, before = (
                i * self._n_tasks // self._max_iter for i in (iteration, self._reported[k])
            )
            if done == before:
                return None
            self._reported[k] = iteration
            certificate = Certificate(state.primal, state.lower_bound)
            if self._tasks[k].begin("iteration").end(certificate, self._attributes):
                return Status.CALLBACK
        return None

    def close(self, k: int, result: SolverResult) -> None:
        """Subproblem k has ended."""
        if self._root.is_seen and len(self._points) > 1:
            with self._lock:
                self._points[k] = result.point, result.intercept
                self._tasks[k].end(result, self._attributes)

    def close_all(self, results: list[SolverResult]) -> None:
        """The fit has ended."""
        k = max(range(len(results)), key=lambda k: results[k].relative_gap)
        worst, n = results[k], len(results)
        of = f"worst of {n} fits, {self._names[k]}, " if n > 1 else ""
        self._lines.print(
            f"{of}ended with status {str(worst.status)!r} after {iterations(worst)}: {_gap(worst)}"
        )
        self._points = [(r.point, r.intercept) for r in results]
        self._root.end(worst, self._attributes)

    @property
    def _attributes(self) -> Callable[[], dict[str, Any]] | None:
        """Makes the model of the points, once all subproblems have one."""
        if any(point is None for point in self._points):
            return None
        return lambda: self._model(self._points)

    def _line(self, k: int, iteration: int, state: State) -> str:
        of = f"{self._names[k]}, " if len(self._points) > 1 else ""
        n = iteration if state.n_steps is None else state.n_steps  # as in ``history_``
        return f"{of}iteration {n}: {_gap(state)}"


def only_bars(estimator: Any) -> bool:
    """Whether all callbacks are scikit-learn's progress bars."""
    return {type(callback) for callback in callbacks_of(estimator)} == {ProgressBar}


def iterations(result: SolverResult) -> str:
    return f"{result.n_iter} iteration{'' if result.n_iter == 1 else 's'}"


def _gap(state: Certificate) -> str:
    return (
        f"objective {state.primal:.8g}, lower bound {state.lower_bound:.8g}, relative gap "
        f"{state.relative_gap:.2e}"
    )
