"""Callbacks for ``set_callbacks``, of scikit-learn's protocol (1.9 and later)."""

import json
import os
import shutil
import tempfile
from contextlib import suppress
from contextvars import copy_context
from numbers import Integral
from threading import Event, Lock, Thread
from time import monotonic
from typing import Any

from sklearn_bundle.core.bars import Bars, Path, display
from sklearn_bundle.core.values import shown

__all__ = ["ProgressBar"]

_SECONDS_BETWEEN_DRAWINGS = 0.2  # smooth enough to the eye


class ProgressBar:
    """Bars of a fit, in terminals, notebooks and exported pages.

    They show the estimator on which they are registered, and the estimators that it fits. Of four
    or more tasks of a kind, such as the fits of a search, only those that run are shown, and none
    when all have ended. The bar of a fit shows how far the relative gap is on its way to `tol`, on
    a logarithmic scale. In a notebook the bars are text, which needs no widgets and stays in
    exported pages. In a terminal they are drawn with rich if that is installed. A file gets only
    the last state.

    Parameters
    ----------
    max_propagation_depth : int or None, default=1
        How many levels of estimators below the outermost one have bars: 0 is none, None all.

    Raises
    ------
    ValueError
        For another `max_propagation_depth`.

    See Also
    --------
    sklearn.callback.ProgressBar : Has a bar for every task, and needs rich, and in notebooks
        ipywidgets.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn_bundle import BMRMClassifier
    >>> from sklearn_bundle.callbacks import ProgressBar
    >>> X, y = load_iris(return_X_y=True)
    >>> model = BMRMClassifier().set_callbacks(ProgressBar(max_propagation_depth=0))
    """

    def __init__(self, max_propagation_depth: int | None = 1):
        depth = max_propagation_depth
        if depth is not None and (not isinstance(depth, Integral) or depth < 0):
            raise ValueError(
                f"max_propagation_depth must be None or an integer >= 0, got {shown(depth)}."
            )
        self.max_propagation_depth = max_propagation_depth
        self._folders: dict[Any, str | None] = {}  # of what other processes report, by fit

    def setup(self, estimator: Any, context: Any) -> None:
        """Begin to draw; scikit-learn calls it when a fit begins.

        Parameters
        ----------
        estimator : estimator
            What is fitted.
        context : sklearn.callback.CallbackContext
            Its outermost task.
        """
        run = _RUNS[context.root_uuid] = _Run()
        self._folders[context.root_uuid] = run.folder

    def teardown(self, estimator: Any, context: Any) -> None:
        """Draw for the last time; scikit-learn calls it when the fit has ended.

        Parameters
        ----------
        estimator : estimator
            What is fitted.
        context : sklearn.callback.CallbackContext
            Its outermost task.
        """
        self._folders.pop(context.root_uuid, None)
        run = _RUNS.pop(context.root_uuid, None)
        if run is not None:  # else setup has failed, and that error is the one to see
            run.close()

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        """Add the bar of a task that has tasks of its own.

        Parameters
        ----------
        estimator : estimator
            What is fitted.
        context : sklearn.callback.CallbackContext
            The task.
        """
        if context.max_subtasks != 0 or context.parent is None:
            self._report(context, "begin", _path(context), _label(context), context.max_subtasks)

    def on_fit_task_end(self, estimator: Any, context: Any) -> None:
        """Move the bar of a task, or of the one that it belongs to.

        Parameters
        ----------
        estimator : estimator
            What is fitted.
        context : sklearn.callback.CallbackContext
            The task.
        """
        certificate = getattr(context, "certificate", None)
        if context.max_subtasks != 0 or context.parent is None:
            note = "" if certificate is None else _ended(certificate)
            self._report(context, "end", _path(context), note)
        elif certificate is None:
            self._report(context, "step", _path(context.parent), 1, None, None)
        else:
            gap, tol = float(certificate.relative_gap), float(estimator.tol)
            self._report(context, "step", _path(context.parent), context.n_iter, gap, tol)

    def _report(self, context: Any, event: str, *what: Any) -> None:
        run = _RUNS.get(context.root_uuid)
        if run is not None and run.process == os.getpid():
            run.handle(event, *what)
            return
        folder = self._folders.get(context.root_uuid)
        if folder is not None:
            _OUTBOX.write(folder, event, *what)


def _path(context: Any) -> Path:
    path: list[Any] = []
    while context is not None:
        path.insert(0, context.task_id)
        context = context.parent
    return tuple(path)


def _label(context: Any) -> str:
    if context.parent is None:
        return context.estimator_name
    name = getattr(context, "subproblem", None)
    if name is not None:  # "class 'setosa' (1/3)"
        return name
    name = context.task_name
    if context.source_task_name is not None:  # the task of a search that fits another estimator
        name = f"{context.source_task_name} | {context.estimator_name}"
    alone = context.parent.sequential_subtasks and context.parent.max_subtasks is not None
    return name if alone else f"{name} #{context.task_id}"


def _ended(certificate: Any) -> str:
    steps = "iteration" if certificate.n_iter == 1 else "iterations"
    gap = f"gap {certificate.relative_gap:.1e}"
    return f"{certificate.status}, {gap}, {certificate.n_iter} {steps}"


class _Run:
    """What one fit draws, in a thread of its own."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.folder: str | None = None  # nothing can be written: other processes do not report
        with suppress(OSError):
            self.folder = tempfile.mkdtemp(prefix="sklearn_bundle_bars_")
        self._read: dict[str, int] = {}  # bytes, by the file of each process
        self._bars, self._lock, self._over = Bars(), Lock(), Event()
        self._display = display()
        # The context is that of the cell of a notebook, which the output belongs to.
        self._thread = Thread(target=copy_context().run, args=(self._draw,), daemon=True)
        self._thread.start()

    def handle(self, event: str, *what: Any) -> None:
        with self._lock:
            getattr(self._bars, event)(*what)

    def close(self) -> None:
        self._over.set()
        self._thread.join()
        lines = self._lines()
        if lines:
            self._display.end(lines)
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _draw(self) -> None:
        while not self._over.wait(_SECONDS_BETWEEN_DRAWINGS):
            lines = self._lines()
            if lines:
                self._display.show(lines)

    def _lines(self) -> list[str]:
        if self.folder is not None:
            for name in os.listdir(self.folder):
                self._read_from(self.folder, name)
        with self._lock:
            return self._bars.lines()

    def _read_from(self, folder: str, name: str) -> None:
        """What a process has added; a line that is not whole is read the next time."""
        with open(os.path.join(folder, name), "rb") as file:
            file.seek(self._read.get(name, 0))
            lines, end, _ = file.read().rpartition(b"\n")
        self._read[name] = self._read.get(name, 0) + len(lines) + len(end)
        for line in lines.splitlines():
            event, path, *what = json.loads(line)
            self.handle(event, tuple(path), *what)


class _Outbox:
    """What this process reports to that which draws, in a file; many steps are one line."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._steps: dict[tuple[str, Path], tuple[Any, ...]] = {}  # that are not yet written
        self._last = 0.0

    def write(self, folder: str, event: str, path: Path, *what: Any) -> None:
        with self._lock:
            if event == "step":
                before = self._steps.get((folder, path), (0,))
                self._steps[folder, path] = (before[0] + what[0], *what[1:])
                if monotonic() - self._last < _SECONDS_BETWEEN_DRAWINGS:
                    return
            here = [key for key in self._steps if key[0] == folder]
            lines = [json.dumps(["step", key[1], *self._steps.pop(key)]) for key in here]
            if event != "step":
                lines.append(json.dumps([event, path, *what], default=str))
            self._last = monotonic()
            try:
                with open(os.path.join(folder, str(os.getpid())), "a", encoding="utf-8") as file:
                    file.write("\n".join(lines) + "\n")
            except OSError:  # another machine, or nobody listens any more
                pass


_RUNS: dict[Any, _Run] = {}  # by the identifier of the outermost task, in the process that draws
_OUTBOX = _Outbox()
