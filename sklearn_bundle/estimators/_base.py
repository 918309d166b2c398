"""Common parts of every fit: parameters, the certificate, the warning, callbacks."""

import warnings
from collections.abc import Callable
from numbers import Real
from threading import Event, Lock
from time import monotonic
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn import base
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import InvalidParameterError

from sklearn_bundle import _announce
from sklearn_bundle._parameters import in_range, suggestion
from sklearn_bundle._values import plain
from sklearn_bundle.solvers.contract import MISSES, SolverResult, State, Status

Method = TypeVar("Method", bound=Callable[..., Any])

if TYPE_CHECKING:  # scikit-learn has no types; public methods get them here

    class ProgressBar: ...

    class CallbackSupportMixin:
        def set_callbacks(self, *callbacks: Any) -> Self: ...

    def with_callbacks(method: Method) -> Method: ...

    class ClassifierMixin(base.ClassifierMixin):
        def score(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float: ...

    class RegressorMixin(base.RegressorMixin):
        def score(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float: ...
else:
    from sklearn.base import ClassifierMixin, RegressorMixin

    try:
        from sklearn.callback import CallbackSupportMixin, ProgressBar, with_callbacks
    except ImportError:  # scikit-learn before 1.9: callbacks are accepted and not called

        class ProgressBar:
            pass

        class CallbackSupportMixin:
            def set_callbacks(self, *callbacks):
                return self

        def with_callbacks(method):
            return method


__all__ = [
    "CallbackSupportMixin",
    "ClassifierMixin",
    "Monitor",
    "RegressorMixin",
    "certificate",
    "checked",
    "features_of",
    "warn_if_missed",
    "with_callbacks",
]

_SECONDS_BETWEEN_LINES = 0.25  # of ``verbose``: reading speed
# Advice by parameter and unsupported value.
_NO_REGULARIZATION = {
    ("reg_lambda", 0): "Without regularization there may be no optimum and no lower bound: use a "
    "small positive value such as 1e-6, or an estimator without regularization, such as "
    "LinearRegression or LogisticRegression without a penalty.",
    ("C", float("inf")): "Without slack there may be no optimum: use a large value such as 1e6.",
}
_FEATURES = "n_features_in_", "feature_names_in_"  # of scikit-learn, on any estimator


def checked(estimator: BaseEstimator) -> BaseEstimator:
    """A copy to work on, with checked parameters and Python's own numbers.

    Parameters are read only here. The caller's estimator stays unchanged.
    """
    copied = object.__new__(type(estimator))
    vars(copied).update(vars(estimator))
    given = estimator.get_params(deep=False)
    for name, value in given.items():
        setattr(copied, name, plain(value))
    caller, constraints = type(estimator).__name__, estimator._parameter_constraints
    try:
        copied._validate_params()
    except InvalidParameterError as error:
        for (name, value), advice in _NO_REGULARIZATION.items():
            asked = getattr(copied, name, None)
            if isinstance(asked, Real) and asked == value and f"'{name}' parameter" in str(error):
                raise InvalidParameterError(f"{error} {advice}") from None
        wrong = next((name for name in given if f"The {name!r} parameter" in str(error)), None)
        hint = suggestion(constraints.get(wrong, ()), given.get(wrong))
        raise InvalidParameterError(f"{error}{hint}") from None
    for name in given:
        value = in_range(caller, name, constraints.get(name, ()), getattr(copied, name))
        setattr(copied, name, value)
    return copied


def features_of(estimator: BaseEstimator) -> dict[str, Any]:
    """The attributes that scikit-learn's ``validate_data`` has set on an estimator."""
    return {name: vars(estimator)[name] for name in _FEATURES if name in vars(estimator)}


def certificate(results: list[SolverResult]) -> dict[str, Any]:
    """Fitted attributes: scalars for one problem, one entry per subproblem for several.

    Attributes of the fit as a whole are always scalars.
    """
    if len(results) == 1:
        r = results[0]
        values = r.primal, r.lower_bound, r.gap, r.n_iter, str(r.status), r.history
    else:
        values = (
            np.array([r.primal for r in results]),
            np.array([r.lower_bound for r in results]),
            np.array([r.gap for r in results]),
            np.array([r.n_iter for r in results]),
            [str(r.status) for r in results],
            [r.history for r in results],
        )
    names = "objective_", "lower_bound_", "dual_gap_", "n_iter_", "status_", "history_"
    whole = {
        "converged_": all(r.status is Status.CONVERGED for r in results),
        "relative_gap_": float(max(r.relative_gap for r in results)),
    }
    return dict(zip(names, values, strict=True)) | whole


def warn_if_missed(
    name: str,
    results: list[SolverResult],
    tol: float,
    advice: dict[Status, str],
    *,
    depth: int = 2,
) -> None:
    """One ConvergenceWarning, with the reached gap and tol in the same unit.

    It points ``depth`` calls above the function that calls this one.
    """
    missed = [r for r in results if r.status in MISSES]
    if not missed:
        return
    worst = max(missed, key=lambda r: r.relative_gap)
    of = f" in {len(missed)} of {len(results)} subproblems" if len(results) > 1 else ""
    warnings.warn(
        f"{name} stopped{of} with status {str(worst.status)!r} after {worst.n_iter} iterations at "
        f"a relative duality gap of {worst.relative_gap:.2e}, above tol={tol:.2e}. "
        f"{advice[worst.status]}",
        ConvergenceWarning,
        stacklevel=2 + depth,
    )


class Monitor:
    """Watches the iterations of all subproblems: callbacks, ``verbose``, interruption.

    Parameters
    ----------
    estimator : estimator being fitted
    X, y, sample_weight
        The caller's data, passed on to callbacks unchanged.
    n_subproblems, max_iter : int
    model : callable
        ``model(points)`` -> fitted attributes for a list of (w, intercept), one per subproblem.
    unit : str
        Name of a subproblem.
    **metadata
        Other arguments of fit.
    """

    def __init__(
        self,
        estimator,
        X,
        y,
        sample_weight,
        n_subproblems,
        max_iter,
        verbose,
        model,
        unit="class",
        **metadata,
    ):
        self.stop = Event()
        self._estimator = estimator
        metadata["sample_weight"] = sample_weight
        self._data = {
            "X": X,
            "y": y,
            "metadata": {name: value for name, value in metadata.items() if value is not None},
        }
        self._verbose, self._unit = verbose, unit
        self._model = model
        self._points: list[tuple | None] = [None] * n_subproblems
        self._lock = Lock()
        self._last_line = -np.inf
        self._root: Any = None  # callback contexts of the fit and of each subproblem
        self._parents: list[Any] = []
        callbacks = getattr(estimator, "_skl_callbacks", None) or ()
        self._called = bool(callbacks)
        if verbose or any(isinstance(callback, ProgressBar) for callback in callbacks):
            _announce.listen(self, type(estimator).__name__)
        if hasattr(estimator, "_init_callback_context"):
            self._open_contexts(n_subproblems, max_iter)

    def __call__(self, k: int, iteration: int, state: State) -> Status | None:
        """Observe a state of subproblem k; return the status to stop with, or None."""
        if self.stop.is_set():
            return Status.INTERRUPTED
        with self._lock:
            self._print(k, iteration, state)
            if self._called:
                self._points[k] = (state.point, state.intercept)
                context = self._parents[k].subcontext(task_name="iteration")
                self._call(context.call_on_fit_task_begin)
                if self._call(context.call_on_fit_task_end):
                    return Status.CALLBACK
        return None

    def close(self, k: int, result: SolverResult) -> None:
        """Subproblem k has ended."""
        if self._called and len(self._points) > 1:
            with self._lock:
                self._points[k] = (result.point, result.intercept)
                self._call(self._parents[k].call_on_fit_task_end)

    def close_all(self, results: list[SolverResult]) -> None:
        """The fit has ended."""
        _announce.leave(self)
        self._print_end(results)
        if self._root is not None:
            self._points = [(r.point, r.intercept) for r in results]
            self._call(self._root.call_on_fit_task_end)

    def hear(self, message: str) -> None:
        """Print a line about the fit; rich prints it above its progress bars."""
        print(f"[{type(self._estimator).__name__}] {message}", flush=True)

    def _open_contexts(self, n_subproblems: int, max_iter: int) -> None:
        if n_subproblems == 1:
            self._root = self._estimator._init_callback_context(max_subtasks=max_iter)
            self._call(self._root.call_on_fit_task_begin)
            self._parents = [self._root]
            return
        self._root = self._estimator._init_callback_context(
            max_subtasks=n_subproblems, sequential_subtasks=False
        )
        self._call(self._root.call_on_fit_task_begin)
        self._parents = [
            self._root.subcontext(task_name=self._unit, task_id=k, max_subtasks=max_iter)
            for k in range(n_subproblems)
        ]
        for context in self._parents:
            self._call(context.call_on_fit_task_begin)

    def _call(self, hook: Callable) -> Any:
        def attributes() -> dict | None:
            return self._model(self._points)

        known = all(point is not None for point in self._points)
        return hook(
            estimator=self._estimator,
            reconstruction_attributes=attributes if known else None,
            **self._data,
        )

    def _print_end(self, results: list[SolverResult]) -> None:
        """Print the last line of ``verbose``, for the worst of several subproblems."""
        if not self._verbose:
            return
        worst = max(results, key=lambda r: r.relative_gap)
        of = f" worst of {len(results)} fits," if len(results) > 1 else ""
        print(
            f"[{type(self._estimator).__name__}]{of} ended with status {str(worst.status)!r} after "
            f"{worst.n_iter} iterations: objective {worst.primal:.8g}, lower bound "
            f"{worst.lower_bound:.8g}, relative gap {worst.relative_gap:.2e}",
            flush=True,
        )

    def _print(self, k: int, iteration: int, state: State) -> None:
        if not self._verbose or monotonic() - self._last_line < _SECONDS_BETWEEN_LINES:
            return
        self._last_line = monotonic()
        of = f" {self._unit} {k + 1}/{len(self._points)}" if len(self._points) > 1 else ""
        print(
            f"[{type(self._estimator).__name__}]{of} iteration {iteration}: objective "
            f"{state.primal:.8g}, lower bound {state.lower_bound:.8g}, relative gap "
            f"{state.relative_gap:.2e}",
            flush=True,
        )
