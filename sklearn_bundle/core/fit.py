"""The fit of all estimators: check, subproblems, solvers, model, certificate."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from functools import cache, partial
from inspect import Parameter, signature
from numbers import Real
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from sklearn_bundle.core.base import (
    CallbackSupportMixin,
    certificate,
    checked,
    features_of,
    warn_if_missed,
    with_callbacks,
)
from sklearn_bundle.core.contract import (
    Resumable,
    Solver,
    SolverResult,
    State,
    Status,
    StatusName,
    run,
)
from sklearn_bundle.core.misread import gathered
from sklearn_bundle.core.monitor import Lines, Monitor, Tasks
from sklearn_bundle.core.parallel import blas_threads, solve_each, split_threads
from sklearn_bundle.core.parameters import ForCallers
from sklearn_bundle.core.shared_docs import Documented
from sklearn_bundle.core.values import shown
from sklearn_bundle.core.warm import WarmStart

# Of warnings in fit_certified: there are it, `fit`, and what ForCallers wraps it with.
_TO_THE_CALLER = 4


class Outcome(NamedTuple):
    """The outcome of a fit: fitted attributes, one result per subproblem, and the interruption.

    That is KeyboardInterrupt after Ctrl-C, otherwise None. ``remarks`` has what
    :meth:`CertifiedEstimator._remark` returned for some of the subproblems, and ``waited`` says
    what subproblems waited for when the time limit passed.
    """

    fitted: dict[str, Any]
    results: list[SolverResult]
    interruption: BaseException | None
    remarks: Mapping[int, Any] = MappingProxyType({})
    waited: Sequence[str] = ()


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


class CertifiedEstimator(ForCallers, Documented, CallbackSupportMixin, BaseEstimator, ABC):
    """The common procedure of fit for all estimators.

    A subclass defines the check of data, the subproblems, the solver of each, the state that the
    next fit starts from, and the fitted attributes. It has the parameters ``tol``, ``max_iter``,
    ``max_time``, ``warm_start``, ``n_jobs`` and ``verbose``.
    """

    tol: float
    max_iter: int
    max_time: float | None
    warm_start: bool
    n_jobs: int | None
    verbose: int

    converged_: bool
    relative_gap_: float
    n_features_in_: int
    feature_names_in_: np.ndarray  # only if X had names

    _advice: ClassVar[dict[Status, str]]  # what to change if tol is not reached
    _unit: ClassVar[str] = "class"  # name of a subproblem if there are several
    #: Parameters that count only for some values of another parameter: its name, and these values.
    #: An instance or a function passed for it is none of them.
    _used_with: ClassVar[dict[str, tuple[str, tuple[Any, ...]]]] = {}
    # Whether rows may lie in blocks, as a dask collection; they are gathered if not.
    _takes_blocks: ClassVar[bool] = False
    # Whether the models of a path know where the scores of their optima lie.
    _bounds_paths: bool = False
    # Whether second derivatives of the loss narrow them, for as much time as a Newton step takes.
    _curves_paths: bool = False
    # Whether Ctrl-C before the first point waits for it, so that there is a model to keep.
    _waits_for_a_point: ClassVar[bool] = True

    @classmethod
    def _get_param_names(cls) -> list[str]:
        """scikit-learn's, without reading the constructor's signature twice in each fit."""
        kind: Any = cls  # which a type checker takes for no key
        return list(_names_of_parameters(kind))

    def _store(self, parameters: dict[str, Any]) -> None:
        """Set the parameters that the constructor got, its ``locals()``, as they came."""
        self.__dict__.update({k: v for k, v in parameters.items() if k != "self"})

    @abstractmethod
    def _check(self, X: Any, y: Any, sample_weight: Any, **further: Any) -> Any:
        """The checked data, which all other methods get as ``data``."""

    def _targets(self, data: Any) -> list[Any]:
        """One target per subproblem, of which there is one unless a subclass says otherwise."""
        return [None]

    @abstractmethod
    def _problem(self, data: Any, target: Any, n_threads: int) -> AbstractContextManager[Any]:
        """The problem of one target."""

    @abstractmethod
    def _solver(self, problem: Any, kept: Any, seed: int | None) -> Solver:
        """A solver that starts from the result of :meth:`_keep`, or from None."""

    def _keep(self, solver: Any, result: SolverResult) -> Any:
        """The state from which the next fit to the same data may start."""
        return solver.kept

    @abstractmethod
    def _fingerprint(self, data: Any) -> tuple[Any, ...] | None:
        """Equal for problems that may share their state; None equals no other."""

    @abstractmethod
    def _settings(self, data: Any) -> tuple[Any, ...]:
        """All that determines a solver and its result, except the fingerprint and ``tol``."""

    @abstractmethod
    def _model(self, data: Any, points: list[tuple[Any, Any]]) -> dict[str, Any]:
        """Fitted attributes for a list of (w, intercept), one per subproblem."""

    def _typed(self, data: Any, fitted: dict[str, Any]) -> dict[str, Any]:
        """The attributes of :meth:`_model` for the final points, in the types to keep."""
        return fitted

    def _names(self, classes: Any) -> list[str] | None:
        """Names of the subproblems, if there are several; None if they have only numbers."""
        return None

    def _subproblems(self, classes: Any, n: int) -> list[str]:
        """What each of n subproblems is called: "class 'setosa'", or "target 1" without names."""
        names = self._names(classes) if n > 1 else None
        return [f"{self._unit} {name}" for name in names or range(1, n + 1)]

    @contextmanager
    def _problems(self, data: Any, n_threads: int) -> Iterator[list[Any]]:
        """The problems of all targets together: a path solves them at each of its values."""
        with ExitStack() as open_ones:
            yield [
                open_ones.enter_context(self._problem(data, target, n_threads))
                for target in self._targets(data)
            ]

    def _threads(self, data: Any, n_subproblems: int) -> tuple[int, int]:
        """Number of simultaneous subproblems, and threads for each."""
        return split_threads(self.n_jobs, n_subproblems)

    def _prepare(self, data: Any, n_threads: int) -> None:
        """Do the work shared by all subproblems, ``n_threads`` of which are solved at a time."""

    def _seed(self) -> int | None:
        """One seed for all subproblems; None if nothing is random."""
        return None

    def _blas_threads(self, n_threads: int) -> int:
        """Threads of BLAS, if the problem of each subproblem has ``n_threads``."""
        return n_threads

    def _released(self, solver: Any) -> Resumable | None:
        """The solver without its data, if it is resumable; otherwise a subclass returns None."""
        solver.detach()
        return solver

    def _next_start(self, solver: Solver, result: SolverResult, last: Any) -> Any:
        """The start of the same subproblem at the next value of a path; ``last`` is the one here.

        ``last`` is None at the beginning of the path.
        """
        return self._keep(solver, result)

    def _along(self, problem: Any, reg_lambdas: Any) -> Any:
        """Solutions for a path of these values from one pass over the data, or None."""
        return None

    def _further_attributes(self, data: Any, warm: WarmStart) -> dict[str, Any]:
        """Fitted attributes other than model and certificate, from the state of the solvers."""
        return {}

    def _as_stored(self, data: Any, problem: Any, result: SolverResult) -> SolverResult:
        """The result at the point that the fitted attributes will have, with its certificate."""
        return result

    def _region(self, problem: Any, result: SolverResult) -> Any:
        """Where the scores of the optimum lie, from the gap of the result; None if unknown.

        It may already be known.
        """
        return None

    def _remark(self, problem: Any, result: SolverResult) -> Any:
        """What :meth:`_caveat` has to know about a subproblem and can only be found out now."""
        return None

    def _limit(self, data: Any) -> None:
        """Let what is done with the data from now on take ``max_time``, if that can be known."""

    def _seconds_left(self, data: Any) -> float | None:
        """What is left of ``max_time`` for the solvers: all of it, for data in memory."""
        return self.max_time

    def _caveat(self, outcome: Outcome) -> str | None:
        """A warning for the caller, apart from the one about ``tol``."""
        return None

    @with_callbacks
    def _fit(
        self, X: Any, y: Any, sample_weight: Any, warm: WarmStart | None, **further: Any
    ) -> Outcome:
        data = self._check(X, y, sample_weight, **further)
        tasks = Tasks(self, X, y, sample_weight=sample_weight, **further)
        lines = Lines(type(self).__name__, self.verbose, listens=tasks.have_bars)
        return self._solve(data, warm, partial(Monitor, tasks, lines))

    def _solve(self, data: Any, warm: WarmStart | None, watch: Callable[..., Monitor]) -> Outcome:
        """Fit to checked data; ``watch`` creates the monitor, from the caller's data."""
        targets = self._targets(data)
        warm = self._warm_start(warm, data, len(targets))
        outer, inner = self._threads(data, len(targets))
        self._prepare(data, outer)
        seed = self._seed()
        model = partial(self._model, data)
        names = self._subproblems(getattr(data, "classes", None), len(targets))
        monitor = watch(names, self.max_iter, model, unit=self._unit)

        causes: list[BaseException] = []
        remarks: dict[int, Any] = {}
        waited: list[str] = []

        def solve(k: int, seconds: float | None) -> SolverResult:
            reached = warm.reached(k, self.tol)
            if reached is not None:
                return reached
            if monitor.stop.is_set() and not self._waits_for_a_point:
                raise KeyboardInterrupt
            with self._problem(data, targets[k], inner) as problem:
                solver, result = self._run_solver(
                    problem,
                    warm.kept[k],
                    seed,
                    solver=warm.solver(k, self.tol),
                    max_time=seconds,
                    observe=partial(monitor, k),
                )
                lost, late = (getattr(solver, name, None) for name in ("lost", "late"))
                left = self._keep(solver, result), self._released(solver)
                del solver  # and its memory, unless some of it is left
                stored = self._as_stored(data, problem, result)
                stored = replace(stored, region=self._region(problem, stored))
                remark = self._remark(problem, stored)
            if remark is not None:
                remarks[k] = remark
            if lost is not None:
                causes.append(lost)
            if late is not None:
                waited.append(str(late))
            warm.leave(k, stored, self.tol, *left)
            return stored

        with blas_threads(self._blas_threads(inner)):
            seconds = self._seconds_left(data)
            results, interrupted = solve_each(
                solve, monitor.close, len(targets), outer, seconds, monitor.stop
            )
        try:
            monitor.close_all(results)
        except KeyboardInterrupt:
            interrupted = True
        fitted = self._typed(data, model([(r.point, r.intercept) for r in results]))
        fitted |= certificate(results)
        fitted["_regions"] = regions_of(results)
        fitted |= self._further_attributes(data, warm)
        if self.warm_start and not interrupted and not waited:  # which may interrupt a change
            fitted["_warm"] = warm
        causes.append(KeyboardInterrupt())
        return Outcome(fitted, results, causes[0] if interrupted else None, remarks, waited)

    def _run_solver(
        self,
        problem: Any,
        kept: Any,
        seed: int | None,
        *,
        solver: Resumable | None = None,
        max_time: float | None = None,
        observe: Callable[[int, State], Status | None] | None = None,
    ) -> tuple[Solver, SolverResult]:
        """Solve one subproblem: continue ``solver``, or start a new one from the kept state."""
        if solver is not None:
            solver.attach(problem)
        started = self._solver(problem, kept, seed) if solver is None else solver
        limits = {"tol": self.tol, "max_iter": self.max_iter, "max_time": max_time}
        return started, run(started, observe=observe, **limits)

    def _run_next_value(
        self, problem: Any, kept: Any, seed: int | None
    ) -> tuple[Solver, SolverResult]:
        """One subproblem at one value of a path; Ctrl-C ends the path."""
        solver, result = self._run_solver(problem, kept, seed, max_time=self.max_time)
        if result.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        return solver, result

    def _warm_start(self, last: WarmStart | None, data: Any, n_subproblems: int) -> WarmStart:
        """The state that the last fit kept, if it belongs to this problem."""
        fingerprint = self._fingerprint(data) if self.warm_start else None
        if last is None or fingerprint is None or last.fingerprint != fingerprint:
            last = WarmStart(fingerprint, [None] * n_subproblems)
        last.match(self._settings(data))
        return last

    def _set_fitted(self, fitted: dict[str, Any]) -> None:
        """Set the fitted attributes."""
        for name, value in fitted.items():
            setattr(self, name, value)

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in super().__getstate__().items() if key != "_warm"}


@cache
def _names_of_parameters(kind: type[CertifiedEstimator]) -> tuple[str, ...]:
    return tuple(super(CertifiedEstimator, kind)._get_param_names())


@cache
def _parameters_of(kind: type) -> Mapping[str, Parameter]:
    """The parameters of a class's constructor."""
    return MappingProxyType(signature(kind).parameters)


def regions_of(results: list[SolverResult]) -> list[tuple[Any, ...] | None]:
    """The regions as plain tuples: a pickle of a model holds arrays and numbers."""
    return [None if r.region is None else tuple(r.region) for r in results]


def warn_of_unused(estimator: CertifiedEstimator, depth: int) -> None:
    """One UserWarning for all parameters without effect that differ from their defaults.

    It points ``depth - 1`` calls above the function that calls this one.
    """
    kind: Any = type(estimator)
    ignored, own = [], _parameters_of(kind)
    for name, (role, values) in estimator._used_with.items():
        if name not in own:
            continue
        value, chosen = getattr(estimator, name), getattr(estimator, role)
        used = any(
            chosen is one or (isinstance(one, str) and is_same(chosen, one)) for one in values
        )
        if not used and not is_same(value, own[name].default):
            owners = " or ".join(map(repr, values))
            instead = ""
            if not isinstance(chosen, str) and name in getattr(chosen, "__dict__", {}):
                instead = f": set it there, {type(chosen).__name__}({name}={shown(value)})"
            ignored.append(
                f"{name}={shown(value)}, which is for {role}={owners}, not {role}={shown(chosen)}"
                f"{instead}"
            )
    if ignored:
        warnings.warn(
            f"{type(estimator).__name__} ignores {'; and '.join(ignored)}.",
            UserWarning,
            stacklevel=1 + depth,
        )


def is_same(value: Any, default: Any) -> bool:
    """Whether a parameter has this value; an array never does."""
    return value is default or (isinstance(value, str | Real) and value == default)


def fit_certified(
    estimator: CertifiedEstimator, X: Any, y: Any, sample_weight: Any, **further: Any
) -> CertifiedEstimator:
    """Call ``_fit(X, y, sample_weight, warm, **further)`` of a copy, with common guarantees.

    Parameters are read once, there is one warning, an error leaves nothing half-fitted, and Ctrl-C
    keeps the model and raises KeyboardInterrupt.
    """
    if not estimator._takes_blocks:
        X, y, sample_weight = gathered(type(estimator).__name__, X, y, sample_weight, depth=3)
    warm = estimator.__dict__.pop("_warm", None)  # an error may leave it half-changed
    before = set(vars(estimator))
    copied = checked(estimator)
    warn_of_unused(copied, _TO_THE_CALLER)
    outcome = copied._fit(X, y, sample_weight, warm, **further)
    fitted, results, interruption = outcome.fitted, outcome.results, outcome.interruption
    caveat = copied._caveat(outcome)
    warned = False
    if interruption is None:
        names = copied._subproblems(fitted.get("classes_"), len(results))
        advice = copied._advice
        if outcome.waited:
            late = _sentence(outcome.waited[0])
            advice = advice | {Status.MAX_TIME: f"{advice[Status.MAX_TIME]} {late}"}
        warned = warn_if_missed(
            type(estimator).__name__,
            results,
            copied.tol,
            advice,
            names=names,
            caveat=caveat,
            depth=_TO_THE_CALLER - 1,
        )
    if caveat is not None and not warned:
        warnings.warn(caveat, UserWarning, stacklevel=_TO_THE_CALLER)
    for name in before - vars(copied).keys():  # feature names that the check has deleted
        delattr(estimator, name)
    estimator._set_fitted(features_of(copied) | fitted)
    if interruption is not None:
        raise interruption
    return estimator


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."
