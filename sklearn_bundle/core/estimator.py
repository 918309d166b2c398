"""The base of all estimators, and what their own ``fit`` is written with.

An estimator's ``fit`` reads from input to attributes::

    @with_callbacks
    def fit(self, X, y, sample_weight=None):
        X, y, sample_weight = gathered(type(self).__name__, X, y, sample_weight)  # of dask
        run = Fit(self, X, y, sample_weight=sample_weight)  # checked parameters: run.params
        params = run.params
        data = check_classification_data(params, X, y, sample_weight, params.class_weight)
        targets = one_versus_rest(data)
        outer, inner = split_threads(params.n_jobs, len(targets))
        run.reuse(data.fingerprint, (params.C, params.solver))  # what warm_start may use

        def solve(k, observe, seconds):
            problem = Problem(data, targets[k], n_threads=inner)
            new = partial(Descent, problem)  # called with where the last fit ended, or None
            solver, result = run.minimize(k, problem, new, observe, seconds)
            return replace(result, region=problem.region(result))

        def model(points):  # fitted attributes for (w, intercept) of each subproblem
            return {"classes_": data.classes, "coef_": np.array([w for w, _ in points]), ...}

        results = run.solve(solve, model, names=names_of(data.classes), threads=outer)
        return run.finish(model(points_of(results)), results)

An estimator that a search fits too has the middle part in a function of its own, which returns
attributes and results: the search calls it with its own ``run``, after ``search(run, ...)``.

What :class:`Fit` guarantees: parameters are read once and never written; after an error an unfitted
estimator is unfitted and a fitted one predicts as before; attributes are set last, all at once;
there is one warning about a missed ``tol``; Ctrl-C keeps the best points with status "interrupted"
and raises KeyboardInterrupt again; ``warm_start`` reuses only what belongs to the same data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning

from sklearn_bundle.core.contract import (
    MISSES,
    Solver,
    SolverResult,
    State,
    Status,
    StatusName,
    run,
)
from sklearn_bundle.core.docs import Documented
from sklearn_bundle.core.monitor import Lines, Monitor, Task, only_bars
from sklearn_bundle.core.parallel import blas_threads, solve_each
from sklearn_bundle.core.parameters import ForCallers, checked, warn_of_unused
from sklearn_bundle.core.values import warn
from sklearn_bundle.core.warm import WarmStart

Method = TypeVar("Method", bound=Callable[..., Any])
Observe = Callable[[int, State], Status | None]
Points = list[tuple[Any, Any]]  # (w, intercept) of each subproblem

if TYPE_CHECKING:  # scikit-learn has no types; public methods get them here

    class CallbackSupportMixin:
        def set_callbacks(self, *callbacks: Any) -> Self: ...

    def with_callbacks(method: Method) -> Method: ...
else:
    try:
        from sklearn.callback import CallbackSupportMixin, with_callbacks
    except ImportError:  # scikit-learn before 1.9: callbacks are accepted and not called

        class CallbackSupportMixin:
            def set_callbacks(self, *callbacks):
                return self

        def with_callbacks(method):
            return method


_FEATURES = "n_features_in_", "feature_names_in_"  # of scikit-learn, on any estimator


class OneCertificate:
    """The fitted attributes of an estimator whose fit is one problem."""

    objective_: float
    lower_bound_: float
    dual_gap_: float
    n_iter_: int
    status_: StatusName
    history_: np.ndarray


class Certificates:
    """The same for fits that may consist of several problems, with one entry for each."""

    objective_: float | NDArray[np.float64]
    lower_bound_: float | NDArray[np.float64]
    dual_gap_: float | NDArray[np.float64]
    n_iter_: int | NDArray[np.int64]
    status_: StatusName | list[StatusName]
    history_: np.ndarray | list[np.ndarray]


class CertifiedEstimator(ForCallers, Documented, CallbackSupportMixin, BaseEstimator):
    """Parameters, documentation, hints, callbacks and pickles of all estimators.

    They have the parameters ``tol``, ``max_iter``, ``max_time``, ``n_jobs``, ``verbose`` and, but
    for searches, ``warm_start``.
    """

    tol: float
    max_iter: int
    max_time: float | None
    warm_start: bool = False  # searches have no such parameter
    n_jobs: int | None
    verbose: int

    converged_: bool
    relative_gap_: float
    n_features_in_: int
    feature_names_in_: np.ndarray  # only if X had names

    _allowed: ClassVar[dict[str, Any]]  # what each may be, see core/parameters.py
    _advice: ClassVar[dict[Status, str]]  # what to change if tol is not reached
    #: Parameters that count only for some values of another parameter: its name, and these values.
    #: An instance or a function passed for it is none of them.
    _used_with: ClassVar[dict[str, tuple[str, tuple[Any, ...]]]] = {}

    def _store(self, parameters: dict[str, Any]) -> None:
        """Set the parameters that the constructor got, its ``locals()``, as they came."""
        self.__dict__.update({k: v for k, v in parameters.items() if k != "self"})

    def __getstate__(self) -> dict[str, Any]:
        state: Any = super().__getstate__()
        return {key: value for key, value in state.items() if key != "_warm"}


class Fit:
    """One call of ``fit``, from checked parameters to fitted attributes.

    Parameters
    ----------
    estimator : CertifiedEstimator
    X, y, **metadata
        The caller's data, which callbacks may ask for.
    hints : callable
        ``hints(name, value)``, what to add to the message about a wrong value.

    Attributes
    ----------
    params : estimator
        A copy with checked parameters in Python's own types, to read from. Checks of data write to
        it what scikit-learn writes: the number and the names of features.
    cause : BaseException
        What interrupted the fit, to be raised once the attributes are set.
    root : Task or None
        The task of a search, which the fit to all data is a part of.
    """

    def __init__(
        self,
        estimator: CertifiedEstimator,
        X: Any = None,
        y: Any = None,
        *,
        hints: Callable[[str, Any], str] | None = None,
        **metadata: Any,
    ):
        self._last = estimator.__dict__.pop("_warm", None)  # an error may leave it half-changed
        self._before = set(vars(estimator))
        self.estimator = estimator
        self.params = checked(estimator, hints)
        warn_of_unused(self.params)
        self.name = type(estimator).__name__
        self.warm = WarmStart()
        self.cause: BaseException = KeyboardInterrupt()
        self._interrupted = False
        self._names: list[str] = []
        known = {name: value for name, value in metadata.items() if value is not None}
        self._given = {"X": X, "y": y, "metadata": known}
        self.lines = Lines(self.name, self.params.verbose)
        self.root: Any = None

    def reuse(self, fingerprint: Callable[[], Any], settings: tuple[Any, ...]) -> None:
        """With ``warm_start``, use what the last fit left if it was to the same data.

        ``fingerprint()`` is equal for problems that may share their starts, None equals no other;
        ``settings`` has all else that determines a solver and its result, except ``tol``.
        """
        if self.params.warm_start:
            self.warm = WarmStart.after(self._last, fingerprint(), settings)
        self._last = None

    def begin(self, **kind: Any) -> Task:
        """The task of a fit for callbacks; that of the fit to all data in a search is a part."""
        if self.root is not None:
            return self.root.begin("refit", **kind)
        return Task.root(self.estimator, self._given, **kind)

    def solve(
        self,
        solve: Callable[[int, Observe, float | None], SolverResult],
        model: Callable[[Points], dict[str, Any]],
        *,
        names: Sequence[str] = ("",),
        unit: str = "class",
        threads: int = 1,
        blas: int = 1,
        max_time: float | None = None,
        waits: bool = True,
    ) -> list[SolverResult]:
        """``solve(k, observe, seconds)`` for each subproblem k, of which there is one by default.

        Parameters
        ----------
        solve : callable
            It calls ``observe(iteration, state)``, which may return the status to stop with.
        model : callable
            Fitted attributes for points on the way, of which callbacks make an estimator.
        names : sequence of str
            One per subproblem, of the kind ``unit``, for lines and warnings.
        threads, blas : int
            Subproblems that are solved at a time, and threads of BLAS in each.
        max_time : float
            Seconds for all. None means what the estimator has.
        waits : bool
            Whether Ctrl-C before the first point waits for it, so that there is a model to keep.
        """
        params, n = self.params, len(names)
        self._names = [f"{unit} {name}" for name in names]
        bars = only_bars(self.estimator)
        kinds = self._names, unit, params.max_iter, model, bars
        monitor = Monitor(self.begin, self.lines, *kinds)

        def solved(k: int, seconds: float | None) -> SolverResult:
            known = self.warm.reached(k, params.tol)
            if known is not None:
                return known
            if monitor.stop.is_set() and not waits:
                raise KeyboardInterrupt
            result = solve(k, partial(monitor, k), seconds)
            self.warm.close(k, result)
            return result

        seconds = params.max_time if max_time is None else max_time
        with blas_threads(blas):
            results, self._interrupted = solve_each(
                solved, monitor.close, n, threads, seconds, monitor.stop
            )
        try:
            monitor.close_all(results)
        except KeyboardInterrupt:
            self._interrupted = True
        return results

    def minimize(
        self,
        k: int,
        problem: Any,
        new_solver: Callable[[Any], Solver],
        observe: Observe | None,
        seconds: float | None,
    ) -> tuple[Any, SolverResult]:
        """Solver and result of subproblem k: the last fit's goes on, or ``new_solver(start)``."""
        params = self.params
        solver = self.warm.solver(k, params.tol)
        if solver is None:
            solver = new_solver(self.warm.start(k))
        else:
            solver.attach(problem)
        limits = {"tol": params.tol, "max_iter": params.max_iter, "max_time": seconds}
        result = run(solver, observe=observe, **limits)
        if params.warm_start:
            self.warm.leave(k, solver, params.tol)
        return solver, result

    def finish(
        self,
        attributes: dict[str, Any],
        results: list[SolverResult],
        *,
        caveat: str | None = None,
        advice: dict[Status, str] | None = None,
        reusable: bool = True,
    ) -> Any:
        """Warn if ``tol`` was missed, set all attributes, raise what interrupted the fit.

        Parameters
        ----------
        attributes : dict
            Fitted attributes; those of the certificate are added unless they are here.
        results : list of SolverResult
        caveat : str
            A warning apart from the one about ``tol``, which begins with it if both are due.
        advice : dict
            What to change, by status, where that is not the estimator's own advice.
        reusable : bool
            Whether the next fit may start from this one.

        Returns
        -------
        estimator : object
            The fitted estimator.
        """
        params, estimator = self.params, self.estimator
        missed = False
        if not self._interrupted:
            given = params._advice | (advice or {})
            missed = warn_if_missed(self.name, results, params.tol, given, self._names, caveat)
        if caveat is not None and not missed:
            warn(caveat, UserWarning)
        fitted = features_of(params) | certificate(results) | attributes
        if reusable and self.warm.left and not self._interrupted:  # which may interrupt a change
            fitted["_warm"] = self.warm
        if self.root is not None:
            self.root.end(max(results, key=lambda r: r.relative_gap), lambda: fitted)
        for name in self._before - vars(params).keys():  # feature names that the check has deleted
            delattr(estimator, name)
        estimator.__dict__.update(fitted)
        if self._interrupted:
            raise self.cause
        return estimator


def points_of(results: list[SolverResult]) -> Points:
    """(w, intercept) of each subproblem."""
    return [(result.point, result.intercept) for result in results]


def features_of(estimator: Any) -> dict[str, Any]:
    """The attributes that scikit-learn's ``validate_data`` has set on an estimator."""
    return {name: vars(estimator)[name] for name in _FEATURES if name in vars(estimator)}


def certificate(results: list[SolverResult]) -> dict[str, Any]:
    """Fitted attributes: scalars for one problem, one entry per subproblem for several.

    Attributes of the fit as a whole are always scalars. ``_regions`` has tuples of plain values,
    since a pickle of a model holds arrays and numbers.
    """
    names = "objective_", "lower_bound_", "dual_gap_", "n_iter_", "status_", "history_"
    rows = [(r.primal, r.lower_bound, r.gap, r.n_iter, str(r.status), r.history) for r in results]
    values = rows[0]
    if len(rows) > 1:
        *numbers, statuses, histories = map(list, zip(*rows, strict=True))
        values = *map(np.array, numbers), statuses, histories
    return dict(zip(names, values, strict=True)) | {
        "converged_": all(r.status is Status.CONVERGED for r in results),
        "relative_gap_": float(max(r.relative_gap for r in results)),
        "_regions": [None if r.region is None else tuple(r.region) for r in results],
    }


def warn_if_missed(
    name: str,
    results: list[SolverResult],
    tol: float,
    advice: dict[Status, str],
    names: Sequence[str] = (),
    caveat: str | None = None,
) -> bool:
    """One ConvergenceWarning, with the reached gap and tol in the same unit; whether there was one.

    With ``names`` of the results it names the worst. It begins with ``caveat``.
    """
    missed = [k for k, r in enumerate(results) if r.status in MISSES]
    if not missed:
        return False
    place = max(missed, key=lambda k: results[k].relative_gap)
    worst, n = results[place], len(results)
    at = f" ({names[place]})" if names and n > 1 else ""
    of = f" in {len(missed)} of {n} subproblems" if n > 1 else ""
    steps = "1 iteration" if worst.n_iter == 1 else f"{worst.n_iter} iterations"
    what = advice[worst.status]
    if worst.status is Status.STALLED and worst.primal == 0.0:
        what = "No relative gap of an objective of 0 is finite."
    warn(
        f"{'' if caveat is None else f'{caveat} '}{name} stopped{of} with status "
        f"{str(worst.status)!r} after {steps} at a relative duality gap of "
        f"{worst.relative_gap:.2e}{at}, above tol={tol:.2e}. {what}",
        ConvergenceWarning,
    )
    return True
