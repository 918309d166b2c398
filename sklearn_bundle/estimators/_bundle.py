"""Base of the estimators of the bundle method: loss and regularizer by name, the solver."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from inspect import signature
from numbers import Integral, Real
from typing import Any, ClassVar

from sklearn.utils._param_validation import Interval

from sklearn_bundle._parameters import Names
from sklearn_bundle._values import shown
from sklearn_bundle.estimators._blocks import BlockedData, BlockedTarget
from sklearn_bundle.estimators._linear import CertifiedLinear
from sklearn_bundle.estimators._validation import TrainingData
from sklearn_bundle.losses import Loss, Prepared
from sklearn_bundle.problems.gathered_rows import GatheredProblem
from sklearn_bundle.problems.linear import LinearProblem
from sklearn_bundle.problems.memory_rows import rows_in_memory
from sklearn_bundle.problems.row_blocks import RowBlocks
from sklearn_bundle.problems.rows import RowOperator
from sklearn_bundle.regularizers import REGULARIZERS, Regularizer
from sklearn_bundle.solvers.asks import OnWorkers, offers
from sklearn_bundle.solvers.contract import Solver, SolverResult, Status
from sklearn_bundle.solvers.lbfgs_rounds import LBFGSRoundsSolver
from sklearn_bundle.solvers.linear_auto import LinearAutoSolver, knows, linear_solver, solve_along
from sklearn_bundle.solvers.linear_start import LinearStart
from sklearn_bundle.solvers.linear_task import Along, LinearSolver, Task
from sklearn_bundle.solvers.newton_rounds import NewtonRoundsSolver
from sklearn_bundle.solvers.rounds import CountedRounds

MOST_NEWTON_FEATURES = 10_000  # for solver="newton": a matrix takes 0.8 GB, and there are a few
# Parameters of the estimator that each regularizer takes, with their defaults.
REGULARIZER_PARAMETERS: dict[str, dict[str, Any]] = {"elasticnet": {"l1_ratio": 0.5}}
_GATHERING = ("auto", "line-search")  # solvers that gain if scores come to the client
_MOST_AT_A_TIME = 16  # problems on workers at a time: each has a thread that waits for its rounds
_FEWEST_PLANES = 10  # plus one for each free intercept: with 6 and fewer, fits stalled
# Advice if a limit ended a fit with L1; replaces that of linear models.
_L1_ADVICE = {
    limit: "With L1, a small reg_lambda takes many iterations, and later ones take longer: "
    f"increase reg_lambda or tol, or {limit}; scaling the features helps too."
    for limit in (Status.MAX_ITER, Status.MAX_TIME)
}


@cache  # a fit needs it several times, and reading a signature takes 0.1 ms
def _without_default(kind: type) -> list[str]:
    """Its required parameters."""
    return [p.name for p in signature(kind).parameters.values() if p.default is p.empty]


# Regularizers that need more than a name.
BY_INSTANCE = {name for name, kind in REGULARIZERS.items() if _without_default(kind)}


class BundleEstimator(CertifiedLinear):
    """A subclass defines the table of its losses and their parameters."""

    loss: str | Loss
    regularizer: str | Regularizer
    l1_ratio: float
    solver: str
    bundle_size: int | None
    theta: float

    #: Factories of losses, by name.
    _losses: ClassVar[dict[str, Callable[..., Loss]]]
    #: Parameters of the estimator that each loss takes, with their defaults.
    _loss_parameters: ClassVar[dict[str, dict[str, Any]]]
    #: Classes of losses that may be passed as an instance.
    _loss_kinds: ClassVar[tuple[type[Loss], ...]] = ()

    _bundle_constraints: ClassVar[dict[str, list[Any]]] = {
        "regularizer": [Names(REGULARIZERS, by_instance=BY_INSTANCE), Regularizer],
        "l1_ratio": [Interval(Real, 0, 1, closed="both")],
        "solver": [Names({"auto", "line-search", "cutting-plane"})],
        "bundle_size": [Interval(Integral, 2, None, closed="left"), None],
        "theta": [Interval(Real, 0, 1, closed="right")],
    }

    @property
    def _advice(self) -> dict[Status, str]:
        advice = CertifiedLinear._advice
        return advice | _L1_ADVICE if self._omega().is_l1 else advice

    @classmethod
    def _takes_loss(cls, loss: Any) -> bool:
        """Whether this is a loss of the estimator, by name or as an instance."""
        return loss in cls._losses if isinstance(loss, str) else isinstance(loss, cls._loss_kinds)

    def _loss(self) -> Loss:
        """The loss, with its parameters from the estimator."""
        if not isinstance(self.loss, str):
            return self.loss
        names = self._loss_parameters.get(self.loss, ())
        return self._losses[self.loss](**{name: getattr(self, name) for name in names})

    @property
    def penalty(self) -> str:
        """The name of the regularizer under scikit-learn's name; not a parameter.

        :class:`~sklearn.feature_selection.SelectFromModel` reads it: with "l1" it keeps features
        with an absolute coefficient of at least 1e-5, otherwise of at least the mean. The elastic
        net with ``l1_ratio=1`` and :class:`~sklearn_bundle.regularizers.WeightedL1` are "l1".
        """
        given = self.regularizer
        if isinstance(given, str):
            return "l1" if given == "elasticnet" and self.l1_ratio == 1 else given
        if given.is_l1:
            return "l1"
        names = {kind: name for name, kind in REGULARIZERS.items()}
        return names.get(type(given), type(given).__name__)

    def _refuse_unused(self) -> None:
        """Raise ValueError for a parameter of another loss or regularizer.

        A parameter with its default value is allowed.
        """
        own = self._loss_parameters.get(self.loss, {}) if isinstance(self.loss, str) else {}
        for name, default in _not_among(own, self._loss_parameters):
            if _is_given(getattr(self, name), default):
                raise ValueError(self._unused(name, default))
        table, named = REGULARIZER_PARAMETERS, isinstance(self.regularizer, str)
        own = table.get(self.regularizer, {}) if named else {}
        for name, default in _not_among(own, table):
            if _is_given(getattr(self, name), default):
                raise ValueError(self._of_another("regularizer", table, name, default))

    def _refuse_solver(self, loss: Loss) -> None:
        """Raise ValueError if the solver does not support the loss and regularizer."""
        if knows(self.solver, loss, self._omega()):
            return
        defaults = self._loss_parameters
        losses = {name: make(**defaults.get(name, {})) for name, make in self._losses.items()}
        kinds = {name: kind() for name, kind in REGULARIZERS.items() if name not in BY_INSTANCE}

        def go_together(loss: str, omega: str) -> bool:
            return knows(self.solver, losses[loss], kinds[omega])

        names = [loss for loss in losses if any(go_together(loss, omega) for omega in kinds)]
        omegas = [omega for omega in kinds if any(go_together(loss, omega) for loss in losses)]
        by_name = isinstance(self.loss, str) and self.loss in self._losses
        own = self._loss_parameters.get(self.loss, {}) if by_name else {}
        given = [n for n, default in own.items() if _is_given(getattr(self, n), default)]
        with_them = "".join(f", {name}={shown(getattr(self, name))}" for name in given)
        named = isinstance(self.regularizer, str)
        own = REGULARIZER_PARAMETERS.get(self.regularizer, {}) if named else {}
        further = "".join(f", {name}={shown(getattr(self, name))}" for name in own)
        raise ValueError(
            f"solver={self.solver!r} is for {_in_words(names)} with "
            f"regularizer={' or '.join(map(repr, omegas)) or repr('l2')}; got "
            f"loss={self.loss!r}{with_them} and regularizer={shown(self.regularizer)}{further}. "
            "Use solver='auto'."
        )

    def _refuse_solver_of_blocks(self, loss: Loss) -> None:
        """Raise ValueError if the solver needs all rows in one place."""
        known = ["auto", "line-search", "cutting-plane"]
        for kind, name in ((LBFGSRoundsSolver, "lbfgs"), (NewtonRoundsSolver, "newton")):
            if kind.takes(loss, self._omega()):
                known.insert(1, name)
        if self.solver not in known:
            raise ValueError(
                f"solver={self.solver!r} needs all rows in memory, but X lies in blocks. Solvers "
                f"for loss={self.loss!r} and regularizer={shown(self.regularizer)}: "
                f"{', '.join(map(repr, known))}."
            )

    def _unused(self, name: str, default: Any) -> str:
        return self._of_another("loss", self._loss_parameters, name, default)

    def _of_another(self, role: str, table: dict[str, dict], name: str, default: Any) -> str:
        """Message about a parameter that this loss or regularizer does not take."""
        given, value = getattr(self, role), shown(getattr(self, name))
        owners = " or ".join(repr(owner) for owner, names in table.items() if name in names)
        instead = f", with which {name} must stay {default!r}"
        if not isinstance(given, str) and name in vars(given):
            instead = f": set it there, {type(given).__name__}({name}={value})"
        return f"{name}={value} is for {role}={owners}; got {role}={given!r}{instead}."

    def _omega(self) -> Regularizer:
        if not isinstance(self.regularizer, str):
            return self.regularizer
        kind = REGULARIZERS[self.regularizer]
        own = REGULARIZER_PARAMETERS.get(self.regularizer)
        if own is not None:
            return kind(**{name: getattr(self, name) for name in own})
        needs = _without_default(kind)
        if needs:
            raise ValueError(
                f"regularizer={self.regularizer!r} needs {needs[0]}: pass an instance, "
                f"regularizer={kind.__name__}({needs[0]}=...)."
            )
        return kind()

    def _formulation(self) -> tuple[Any, ...]:
        return self._loss(), self._omega()

    def _targets(self, data: TrainingData) -> list[Prepared]:
        return data.prepared

    def _problem(
        self, data: TrainingData | BlockedData, target: Prepared | BlockedTarget, n_threads: int
    ) -> LinearProblem | RowBlocks | GatheredProblem:
        if isinstance(data, BlockedData):
            return data.problem(target, self.fit_intercept, gather=self.solver in _GATHERING)
        return self._problem_of(rows_in_memory(data.X, n_threads), data, target)

    def _problem_of(self, rows: RowOperator, data: TrainingData, target: Prepared) -> LinearProblem:
        """The problem of one target, with rows that other problems may share."""
        loss, y = target
        return LinearProblem(rows, y, data.weights, loss, self.fit_intercept)

    @contextmanager
    def _problems(self, data: TrainingData, n_threads: int) -> Iterator[list[LinearProblem]]:
        """All share the same rows and their caches."""
        if isinstance(data, BlockedData):
            yield [self._problem(data, target, n_threads) for target in self._targets(data)]
            return
        with rows_in_memory(data.X, n_threads) as rows:
            yield [self._problem_of(rows, data, target) for target in self._targets(data)]

    def _take_further(
        self, problem: LinearProblem, kept: LinearStart | None, seed: None
    ) -> tuple[Solver, SolverResult]:
        problem.begin()
        return super()._take_further(problem, kept, seed)

    def _solver(
        self, problem: LinearProblem, kept: LinearStart | None, seed: None
    ) -> LinearSolver | LinearAutoSolver:
        start = LinearStart() if kept is None else kept
        solver = linear_solver(self.solver, self._task(problem), start)
        return CountedRounds(solver, problem) if offers(problem, OnWorkers) else solver

    def _threads(self, data: TrainingData | BlockedData, n_subproblems: int) -> tuple[int, int]:
        """Problems on workers wait for their rounds at the same time."""
        if isinstance(data, BlockedData):
            return min(n_subproblems, _MOST_AT_A_TIME), 1
        return super()._threads(data, n_subproblems)

    def _along(self, problem: LinearProblem, reg_lambdas: Sequence[float]) -> Along | None:
        """Solutions for these descending values that one pass over the data gives."""
        if offers(problem, OnWorkers):
            return None
        limits = self.max_iter, self.max_time
        return solve_along(self.solver, self._task(problem), reg_lambdas, *limits)

    def _task(self, problem: LinearProblem) -> Task:
        omega = self._omega().bind(problem.n_features, problem.dimension)
        self._check_bundle_size(problem, omega)
        return Task(problem, self.reg_lambda, omega, self.tol, self.theta, self.bundle_size)

    def _settings(self, data: TrainingData) -> tuple[Any, ...]:
        return self.reg_lambda, self.solver, self.theta, self.bundle_size

    def _check_bundle_size(self, problem: LinearProblem, omega: Regularizer) -> None:
        """An average of planes cannot be balanced or scaled again, so too few of them stall."""
        if self.bundle_size is None or not (problem.n_free or omega.is_l1):
            return
        least = _FEWEST_PLANES + problem.n_free
        if self.bundle_size < least:
            why = "regularizer='l1'"
            if not omega.is_l1:
                why = f"loss={self.loss!r}, whose intercept is a coordinate of the planes,"
            raise ValueError(
                f"bundle_size={self.bundle_size} is too small: {why} needs at least {least} planes."
            )

    def _cause(self, solver: Solver) -> BaseException | None:
        return solver.lost if isinstance(solver, CountedRounds) else None

    def _keep(self, solver: LinearSolver | LinearAutoSolver, result: SolverResult) -> LinearStart:
        return solver.kept((result.point, result.intercept))


def _in_words(names: list[str]) -> str:
    """Names of one or several losses, or of losses of your own."""
    if not names:
        return "other losses"
    if len(names) == 1:
        return f"loss={names[0]!r}"
    return f"the losses {', '.join(map(repr, names[:-1]))} and {names[-1]!r}"


def _not_among(own: dict[str, Any], table: dict[str, dict[str, Any]]) -> Iterator[tuple[str, Any]]:
    """Names and defaults of the parameters in the table that belong to others."""
    for parameters in table.values():
        yield from ((name, value) for name, value in parameters.items() if name not in own)


def _is_given(value: Any, default: Any) -> bool:
    """Whether a parameter differs from its default; an array always does."""
    return value is not default and not (isinstance(value, str | Real) and value == default)
