"""Reports on a running fit: callbacks, the lines of ``verbose``, interruption."""

import sys
from collections.abc import Callable
from threading import Event, Lock
from time import monotonic
from typing import Any

import numpy as np

from sklearn_bundle.core.contract import Certificate, SolverResult, State, Status
from sklearn_bundle.jit import announce

try:
    from sklearn.callback import ProgressBar
except ImportError:  # scikit-learn before 1.9

    class ProgressBar: ...


_SECONDS_BETWEEN_LINES = 0.25  # of ``verbose``: as fast as one reads
# Scikit-learn's bar counts tasks, and sums over all of them at each: 16,000 took six times as long
# as the fit. It gets so many, each for as many iterations.
_MOST_TASKS_OF_A_BAR = 500


def writable(text: str) -> str:
    """The text as the output can encode it: with escapes, as in names of classes."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


class Lines:
    """What ``verbose`` prints: at most four lines per second, and those that have to come.

    Threads may share it. With ``listens``, or if ``verbose`` is set, it says what compiles.
    """

    def __init__(self, name: str, verbose: int, *, listens: bool = False):
        self.name, self.verbose = name, verbose
        self._last = -np.inf
        self._lock = Lock()
        if verbose or listens:
            announce.listen(self, name)

    def report(self, message: str) -> None:
        """Print a line, whatever ``verbose`` is; rich prints it above its progress bars."""
        print(writable(f"[{self.name}] {message}"), flush=True)

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


class Tasks:
    """The tasks of a fit, as callbacks see them.

    ``given`` are X, y and metadata, as they came. Before scikit-learn 1.9 there is nothing to call.
    """

    def __init__(self, estimator: Any, X: Any = None, y: Any = None, **metadata: Any):
        self.callbacks = tuple(getattr(estimator, "_skl_callbacks", None) or ())
        known = {name: value for name, value in metadata.items() if value is not None}
        self._estimator, self._given = estimator, {"X": X, "y": y, "metadata": known}
        kinds = [type(callback) for callback in self.callbacks]
        self.have_bars = ProgressBar in kinds
        self.only_bars = set(kinds) == {ProgressBar}

    def root(self, **kind: Any) -> Any:
        """The outermost task; None if nothing can be called."""
        if not hasattr(self._estimator, "_init_callback_context"):
            return None
        return self.begin(self._estimator._init_callback_context(**kind))

    def under(self, parent: Any, name: str, **kind: Any) -> Any:
        """A task of another one."""
        return None if parent is None else self.begin(parent.subcontext(task_name=name, **kind))

    def subproblem(self, parent: Any, unit: str, k: int, name: str, **kind: Any) -> Any:
        """The task of one of several subproblems; callbacks find its name on the context."""
        if parent is None:
            return None
        context = parent.subcontext(task_name=unit, task_id=k, **kind)
        context.subproblem = name
        return self.begin(context)

    def begin(self, context: Any) -> Any:
        self._call(context.call_on_fit_task_begin, None)
        return context

    def end(
        self,
        context: Any,
        result: SolverResult | None = None,
        attributes: Callable[[], dict] | None = None,
    ) -> bool:
        """Whether a callback requests to stop; ``attributes`` makes the model that it may use.

        Callbacks find the result of a fit on the context.
        """
        if context is None:
            return False
        if result is not None:
            context.certificate = result
        return bool(self._call(context.call_on_fit_task_end, attributes))

    def _call(self, hook: Callable, attributes: Callable[[], dict] | None) -> Any:
        return hook(estimator=self._estimator, reconstruction_attributes=attributes, **self._given)


class Monitor:
    """Watches the iterations of all subproblems.

    Parameters
    ----------
    tasks : Tasks
    lines : Lines
    names : list of str
        Name of each subproblem.
    max_iter : int
        Of each subproblem.
    model : callable
        ``model(points)`` -> fitted attributes for a list of (w, intercept), one per subproblem.
    unit : str
        What a subproblem is: "class", "pair".
    within : callback context
        The task that the fit is a part of; None if it is not.
    """

    def __init__(
        self,
        tasks: Tasks,
        lines: Lines,
        names: list[str],
        max_iter: int,
        model: Callable[[list], dict[str, Any]],
        unit: str = "class",
        within: Any = None,
    ):
        self.stop = Event()
        self._tasks, self._lines = tasks, lines
        n_subproblems = len(names)
        self._names, self._model = _counted(names), model
        self._points: list[Any] = [None] * n_subproblems
        self._lock = Lock()
        self._last_task = [0] * n_subproblems  # its iteration
        self._max_iter = self._n_tasks = max_iter
        if tasks.only_bars:
            self._n_tasks = min(max_iter, _MOST_TASKS_OF_A_BAR)
        each: dict[str, Any] = {"max_subtasks": self._n_tasks}
        kind = each
        if n_subproblems > 1:
            kind = {"max_subtasks": n_subproblems, "sequential_subtasks": False}
        self._root = tasks.root(**kind) if within is None else tasks.under(within, "refit", **kind)
        self._called = bool(tasks.callbacks) and self._root is not None
        self._parents = [self._root]  # of the iterations
        if n_subproblems > 1:
            self._parents = [
                tasks.subproblem(self._root, unit, k, name, **each)
                for k, name in enumerate(self._names)
            ]

    def __call__(self, k: int, iteration: int, state: State) -> Status | None:
        """Observe a state of subproblem k; the status to stop with, or None."""
        if self.stop.is_set():
            return Status.INTERRUPTED
        with self._lock:
            self._lines.print_if_due(lambda: self._line(k, iteration, state))
            if self._called:
                self._points[k] = (state.point, state.intercept)
                if self._is_task(k, iteration):
                    context = self._tasks.under(self._parents[k], "iteration")
                    context.certificate = Certificate(state.primal, state.lower_bound)
                    self._last_task[k] = iteration
                    if self._tasks.end(context, attributes=self._attributes):
                        return Status.CALLBACK
        return None

    def close(self, k: int, result: SolverResult) -> None:
        """Subproblem k has ended."""
        if self._called and len(self._points) > 1:
            with self._lock:
                self._points[k] = (result.point, result.intercept)
                self._tasks.end(self._parents[k], result, self._attributes)

    def close_all(self, results: list[SolverResult]) -> None:
        """The fit has ended."""
        announce.leave(self._lines)
        k = max(range(len(results)), key=lambda k: results[k].relative_gap)
        worst, n = results[k], len(results)
        of = f"worst of {n} fits, {self._names[k]}, " if n > 1 else ""
        self._lines.print(
            f"{of}ended with status {str(worst.status)!r} after {iterations(worst)}: "
            f"{_certificate(worst)}"
        )
        self._points = [(r.point, r.intercept) for r in results]
        self._tasks.end(self._root, worst, self._attributes)

    @property
    def _attributes(self) -> Callable[[], dict] | None:
        """Makes the model of the points, once all subproblems have one."""
        if any(point is None for point in self._points):
            return None
        return lambda: self._model(self._points)

    def _is_task(self, k: int, iteration: int) -> bool:
        """Whether callbacks get the iteration: they get all, except bars."""
        if not self._tasks.only_bars:
            return True
        steps = iteration, self._last_task[k]
        done, before = (i * self._n_tasks // self._max_iter for i in steps)
        return done > before

    def _line(self, k: int, iteration: int, state: State) -> str:
        of = f"{self._names[k]}, " if len(self._points) > 1 else ""
        n = iteration if state.n_steps is None else state.n_steps  # as in ``history_``
        return f"{of}iteration {n}: {_certificate(state)}"


def _counted(names: list[str]) -> list[str]:
    """The names with their places: "class 'setosa' (1/3)"."""
    return [f"{name} ({k}/{len(names)})" for k, name in enumerate(names, 1)]


def iterations(result: SolverResult) -> str:
    return f"{result.n_iter} iteration{'' if result.n_iter == 1 else 's'}"


def _certificate(state: Certificate) -> str:
    return (
        f"objective {state.primal:.8g}, lower bound {state.lower_bound:.8g}, relative gap "
        f"{state.relative_gap:.2e}"
    )
