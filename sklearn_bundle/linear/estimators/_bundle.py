"""Base of the estimators of the bundle method: loss and regularizer by name, the solver."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import cache
from inspect import signature
from numbers import Integral, Real
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np

from sklearn_bundle.core.contract import MISSES, Solver, SolverResult, Status
from sklearn_bundle.core.fit import Outcome, is_same
from sklearn_bundle.core.parameters import Names
from sklearn_bundle.core.sklearn_internals import Interval
from sklearn_bundle.core.validation import TrainingData
from sklearn_bundle.core.values import shown
from sklearn_bundle.core.warm import WarmStart
from sklearn_bundle.linear import losses
from sklearn_bundle.linear.estimators._blocks import BlockedData, BlockedTarget
from sklearn_bundle.linear.estimators._linear import CertifiedLinear
from sklearn_bundle.linear.losses import Loss, Prepared
from sklearn_bundle.linear.problems.gathered_rows import GatheredProblem
from sklearn_bundle.linear.problems.largest import constant_risk, largest_useful
from sklearn_bundle.linear.problems.linear import LinearProblem, Point
from sklearn_bundle.linear.problems.row_blocks import RowBlocks
from sklearn_bundle.linear.problems.score_region import ScoreRegion, with_curvature
from sklearn_bundle.linear.regularizers import REGULARIZERS, Regularizer
from sklearn_bundle.linear.rows.memory_rows import rows_in_memory
from sklearn_bundle.linear.rows.rows import RowOperator
from sklearn_bundle.linear.solvers.linear_auto import (
    LinearAutoSolver,
    linear_solver,
    solve_along,
    solvers_of_blocks,
    supports,
)
from sklearn_bundle.linear.solvers.rounds import CountedRounds
from sklearn_bundle.linear.solvers.solver import Along, LinearSolver, LinearStart, Task

MOST_NEWTON_FEATURES = 10_000  # for solver="newton": a matrix takes 0.8 GB, and there are a few
# Parameters of the estimator that each regularizer takes, with their defaults.
REGULARIZER_PARAMETERS: dict[str, dict[str, Any]] = {"elasticnet": {"l1_ratio": 0.5}}
_CLASSIFIERS = "BMRMClassifier", "BMRMClassifierCV"
#: Estimators that take the losses of a kind; the novelty detector has no parameter `loss`.
TAKERS: dict[type[Loss], tuple[str, ...]] = {
    losses.BinaryLoss: _CLASSIFIERS,
    losses.MeasureLoss: _CLASSIFIERS,
    losses.MulticlassLoss: _CLASSIFIERS,
    losses.RegressionLoss: ("BMRMRegressor", "BMRMRegressorCV"),
    losses.RankingLoss: ("BMRMRanker",),
}
NAMED_LOSSES: dict[str, type[Loss]] = {
    **(losses.BINARY_LOSSES | losses.MEASURES | losses.MULTICLASS_LOSSES),
    **(losses.REGRESSION_LOSSES | losses.RANKING_LOSSES),
}
_SHARE_OF_USEFUL = 1.0 / 3.0  # of the largest useful reg_lambda: above it fits warn
_EXPLAINS = 0.1  # share of the loss that a w explains that is not nearly 0
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


def _parameter_owners(
    role: str, table: dict[str, dict[str, Any]]
) -> dict[str, tuple[str, tuple[Any, ...]]]:
    """The parameters in the table, each with the role and the names to which it belongs."""
    names = {name for parameters in table.values() for name in parameters}
    owners = {name: tuple(one for one, own in table.items() if name in own) for name in names}
    return {name: (role, owners[name]) for name in sorted(names)}


class Subproblem(NamedTuple):
    """Loss and target of a problem, and its regularization."""

    prepared: Prepared | BlockedTarget
    reg_lambda: float


#: The problem of an estimator: rows in memory or on workers.
Problem = LinearProblem | RowBlocks | GatheredProblem
OwnLoss = TypeVar("OwnLoss", bound=Loss)  # what an estimator takes


class BundleEstimator(CertifiedLinear, Generic[OwnLoss]):
    """A subclass defines the table of its losses and their parameters.

    Entries that docstrings share:

    [regularizer]
    regularizer : {"l2", "l1", "elasticnet", "lp", "entropy", "entropy_simplex"} or Regularizer, \
default="l2"
        Omega; see :mod:`sklearn_bundle.regularizers`.

    [l1_ratio]
    l1_ratio : float, default=0.5
        For "elasticnet", in [0, 1]: Omega is ``l1_ratio ||w||_1 + (1 - l1_ratio)/2 ||w||^2``.

    [solver_line_search]
    solver : {"auto", "line-search", "cutting-plane"}, default="auto"
        Algorithm 3 or 2 of [1]_; the latter is for comparison only. "auto" is the former.

    [bundle_size]
    bundle_size : int, default=None
        Maximum number of planes, at least 2, with L1 at least 10. None keeps all.

    [theta]
    theta : float, default=0.1
        For "line-search", in (0, 1]: planes are cut at ``(1 - theta) best + theta w_t``.

    [max_iter_products]
    max_iter : int, default=1000
        Maximum number of iterations. Each is one product with X and one with X'.

    [warm_start_planes]
    warm_start : bool, default=False
        Whether the next fit with the same {} starts from this one.
    """

    loss: str | OwnLoss
    regularizer: str | Regularizer
    l1_ratio: float
    solver: str
    bundle_size: int | None
    theta: float

    #: Factories of losses, by name.
    _losses: Mapping[str, Callable[..., OwnLoss]]
    #: Parameters of the estimator that each loss takes, with their defaults.
    _loss_parameters: ClassVar[dict[str, dict[str, Any]]]
    #: Those whose default None is this many times the spread of y.
    _in_spreads: ClassVar[dict[str, float]] = {}
    #: Classes of losses that may be passed as an instance.
    _loss_kinds: ClassVar[tuple[type[Loss], ...]] = ()

    _used_with = {  # noqa: RUF012
        **_parameter_owners("regularizer", REGULARIZER_PARAMETERS),
        "theta": ("solver", ("auto", "line-search", "newton", "dual-coordinate")),
    }

    _bundle_constraints: ClassVar[dict[str, list[Any]]] = {
        "regularizer": [Names(REGULARIZERS, by_instance=BY_INSTANCE), Regularizer],
        "l1_ratio": [Interval(Real, 0, 1, closed="both")],
        "solver": [Names({"auto", "line-search", "cutting-plane"})],
        "bundle_size": [Interval(Integral, 2, None, closed="left"), None],
        "theta": [Interval(Real, 0, 1, closed="right")],
    }

    #: Of those without a free intercept, all that they share.
    _constraints_without_intercept: ClassVar[dict[str, list[Any]]] = {
        **{k: v for k, v in CertifiedLinear._common_constraints.items() if k != "fit_intercept"},
        **_bundle_constraints,
    }

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._used_with = _parameter_owners("loss", cls._loss_parameters) | cls._used_with

    def _takers_of(self, loss: Any) -> tuple[str, ...]:
        """Estimators that take this loss, by name or as an instance; none for others."""
        kind = NAMED_LOSSES.get(loss) if isinstance(loss, str) else type(loss)
        kinds = (base for base in TAKERS if kind is not None and issubclass(kind, base))
        return next((TAKERS[base] for base in kinds), ())

    @property
    def _advice(self) -> dict[Status, str]:
        advice = CertifiedLinear._advice
        return advice | _L1_ADVICE if self._omega().is_l1 else advice

    @classmethod
    def _takes_loss(cls, loss: Any) -> bool:
        """Whether this is a loss of the estimator, by name or as an instance."""
        return loss in cls._losses if isinstance(loss, str) else isinstance(loss, cls._loss_kinds)

    def _loss(self, spread: float = 1.0) -> OwnLoss:
        """The loss, with parameters that follow the spread of y where there is no other value."""
        if not isinstance(self.loss, str):
            return self.loss
        return self._losses[self.loss](**self._loss_values(spread))

    def _loss_values(self, spread: float) -> dict[str, Any]:
        """The parameters of a loss passed by name."""
        names = self._loss_parameters.get(self.loss, ()) if isinstance(self.loss, str) else ()
        values = {name: getattr(self, name) for name in names}
        unset = {name for name, value in values.items() if value is None}
        return values | {k: spread * self._in_spreads[k] for k in unset & self._in_spreads.keys()}

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

    def _refuse_solver(self, loss: Loss) -> None:
        """Raise ValueError if the solver does not support the loss and regularizer."""
        if supports(self.solver, loss, self._omega()):
            return
        losses = {}
        for name, make in self._losses.items():
            own = self._loss_parameters.get(name, {})
            losses[name] = make(**{k: self._in_spreads.get(k, v) for k, v in own.items()})
        kinds = {name: kind() for name, kind in REGULARIZERS.items() if name not in BY_INSTANCE}

        def is_supported(loss: str, omega: str) -> bool:
            return supports(self.solver, losses[loss], kinds[omega])

        names = [loss for loss in losses if any(is_supported(loss, omega) for omega in kinds)]
        omegas = [omega for omega in kinds if any(is_supported(loss, omega) for loss in losses)]
        own = self._loss_parameters.get(self.loss, {}) if isinstance(self.loss, str) else {}
        given = [n for n, default in own.items() if not is_same(getattr(self, n), default)]
        with_them = "".join(f", {name}={shown(getattr(self, name))}" for name in given)
        omega = self.regularizer
        own = REGULARIZER_PARAMETERS.get(omega, {}) if isinstance(omega, str) else {}
        further = "".join(f", {name}={shown(getattr(self, name))}" for name in own)
        raise ValueError(
            f"solver={self.solver!r} is for {_in_words(names)} with "
            f"regularizer={' or '.join(map(repr, omegas)) or repr('l2')}; got "
            f"loss={self.loss!r}{with_them} and regularizer={shown(self.regularizer)}{further}. "
            "Use solver='auto'."
        )

    def _refuse_solver_of_blocks(self, loss: Loss) -> None:
        """Raise ValueError if the solver needs all rows in one place."""
        known = solvers_of_blocks(loss, self._omega())
        if self.solver not in known:
            raise ValueError(
                f"solver={self.solver!r} needs all rows in memory, but X lies in blocks. Solvers "
                f"for loss={self.loss!r} and regularizer={shown(self.regularizer)}: "
                f"{', '.join(map(repr, known))}."
            )

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

    def _units(self, data: TrainingData | BlockedData) -> list[float]:
        """For each problem the reg_lambda with the effect of 1 on a target of spread one."""
        return [1.0] * len(data.prepared)

    def _strengths(self, data: TrainingData | BlockedData) -> list[float]:
        """The reg_lambda of each problem: defaults depend on its target."""
        strength = self._strength(data)
        given = self.reg_lambda is not None or self.C is not None
        return [strength if given else strength * unit for unit in self._units(data)]

    def _targets(self, data: TrainingData | BlockedData) -> list[Subproblem]:
        return list(map(Subproblem, data.prepared, self._strengths(data)))

    def _problem(
        self,
        data: TrainingData | BlockedData,
        target: Subproblem,
        n_threads: int,
        rows: RowOperator | None = None,
    ) -> Problem:
        """The problem of one target; others may share its rows in memory."""
        prepared = target.prepared
        if isinstance(data, BlockedData):
            assert isinstance(prepared, BlockedTarget)
            gather = self.solver in _GATHERING
            problem = data.problem(prepared, self.fit_intercept, gather=gather)
        else:
            rows = rows_in_memory(data.X, n_threads) if rows is None else rows
            given = rows, prepared.y, data.weights, prepared.loss
            problem = LinearProblem(*given, self.fit_intercept)
            # Slopes of the wrong sign lead away from the best intercept, until the loss overflows.
            problem.check_derivatives(np.zeros(problem.dimension), None)
        problem.reg_lambda = target.reg_lambda
        return problem

    @contextmanager
    def _problems(
        self, data: TrainingData | BlockedData, n_threads: int
    ) -> Iterator[Sequence[Problem]]:
        """All share the same rows and their caches."""
        in_memory = not isinstance(data, BlockedData)
        with rows_in_memory(data.X, n_threads) if in_memory else nullcontext() as rows:
            yield [self._problem(data, target, n_threads, rows) for target in self._targets(data)]

    def _limit(self, data: TrainingData | BlockedData) -> None:
        if isinstance(data, BlockedData):
            data.limit(self.max_time)

    def _seconds_left(self, data: TrainingData | BlockedData) -> float | None:
        return data.time.left if isinstance(data, BlockedData) else self.max_time

    def _run_solver(
        self,
        problem: Problem,
        kept: LinearStart | None,
        seed: None,
        *,
        max_time: float | None = None,
        **further: Any,
    ) -> tuple[Solver, SolverResult]:
        """Solve one subproblem; rounds too end with ``max_time``."""
        if isinstance(problem, RowBlocks | GatheredProblem):
            problem.workers = problem.workers.within(max_time)
        solver, result = super()._run_solver(problem, kept, seed, max_time=max_time, **further)
        if isinstance(problem, LinearProblem):
            problem.check_derivatives(result.point, result.intercept)
        return solver, result

    def _run_next_value(
        self, problem: Problem, kept: LinearStart | None, seed: None
    ) -> tuple[Solver, SolverResult]:
        assert self.reg_lambda is not None  # the value of the path
        problem.begin()
        problem.reg_lambda = self.reg_lambda
        return super()._run_next_value(problem, kept, seed)

    def _solver(
        self, problem: Any, kept: LinearStart | None, seed: None
    ) -> LinearSolver | LinearAutoSolver | CountedRounds:
        start = LinearStart() if kept is None else kept
        # LinearAutoSolver has all that CountedRounds needs of a LinearSolver.
        solver: Any = linear_solver(self.solver, self._task(problem), start)
        return solver if isinstance(problem, LinearProblem) else CountedRounds(solver, problem)

    def _threads(self, data: TrainingData | BlockedData, n_subproblems: int) -> tuple[int, int]:
        """Problems on workers wait for their rounds at the same time."""
        if isinstance(data, BlockedData):
            return min(n_subproblems, _MOST_AT_A_TIME), 1
        return super()._threads(data, n_subproblems)

    def _objective_at(self, problem: Problem, point: Point) -> float:
        omega = self._omega().bind(problem.n_features, problem.dimension)
        return problem.risk(point) + problem.reg_lambda * omega.value(point.w)

    def _region(self, problem: Problem, result: SolverResult) -> ScoreRegion | None:
        """Second derivatives narrow it on request, if the regularizer is that of l2."""
        region = super()._region(problem, result)
        wanted = region is not None and region.curved is None and self._curves_paths
        if not (wanted and isinstance(problem, LinearProblem)):
            return region
        assert region is not None
        strength, omega = self.reg_lambda, self._omega()
        assert strength is not None  # the value of the path
        if not omega.bind(problem.n_features, problem.dimension).is_euclidean:
            return region
        with np.errstate(over="ignore", invalid="ignore"):
            return with_curvature(problem, strength, region, (result.point, result.intercept))

    def _remark(self, problem: Problem, result: SolverResult) -> tuple[float, float] | None:
        """reg_lambda and the largest useful one, if w is nearly 0 because of it.

        A first test needs no product with X: if w gained more than its penalty, it is far from 0.
        With L1, where w = 0 from the largest useful value on, one that explains a tenth of the loss
        is not nearly 0 either.
        """
        omega = self._omega().bind(problem.n_features, problem.dimension)
        known = omega.is_euclidean or omega.lasso_form is not None
        if not isinstance(problem, LinearProblem) or not known or not problem.nonnegative:
            return None
        if result.status not in (Status.CONVERGED, *MISSES) or not np.isfinite(result.primal):
            return None
        penalty = problem.reg_lambda * omega.value(result.point)
        risk, b = constant_risk(problem, result.intercept)
        gain = risk - result.primal  # with the penalty of w
        if not (risk > 0.0 and gain <= 2.0 * (penalty + result.gap) < np.inf):
            return None
        if omega.lasso_form is not None and gain + penalty > _EXPLAINS * risk:
            return None
        largest = largest_useful(problem, omega, b)
        if largest and problem.reg_lambda > _SHARE_OF_USEFUL * largest:
            return problem.reg_lambda, largest
        return None

    def _caveat(self, outcome: Outcome) -> str | None:
        if not outcome.remarks:
            return None
        names = self._subproblems(outcome.fitted.get("classes_"), len(outcome.results))
        k = max(outcome.remarks, key=lambda k: outcome.remarks[k][0] / outcome.remarks[k][1])
        strength, largest = outcome.remarks[k]
        at = f" ({names[k]})" if len(outcome.results) > 1 else ""
        given = f"C={self.C:.3g}, which is reg_lambda=" if self.C is not None else "reg_lambda="
        return (
            f"w is nearly 0{at}: {given}{strength:.3g} is over a third of the largest useful value "
            f"for these data, {largest:.3g}. Use a much smaller reg_lambda (a larger C), or scale "
            "the features."
        )

    def _along(self, problem: Problem, reg_lambdas: Sequence[float]) -> Along | None:
        """Solutions for these descending values that one pass over the data gives."""
        if not isinstance(problem, LinearProblem):
            return None
        limits = self.max_iter, self.max_time
        return solve_along(self.solver, self._task(problem), reg_lambdas, *limits)

    def _task(self, problem: Any) -> Task:
        omega = self._omega().bind(problem.n_features, problem.dimension)
        self._check_bundle_size(problem, omega)
        return Task(problem, problem.reg_lambda, omega, self.tol, self.theta, self.bundle_size)

    def _settings(self, data: TrainingData) -> tuple[Any, ...]:
        return self._strengths(data), self.solver, self.theta, self.bundle_size

    def _further_attributes(self, data: TrainingData, warm: WarmStart) -> dict[str, Any]:
        strengths = self._strengths(data)
        one = len(strengths) == 1 or self.reg_lambda is not None or self.C is not None
        return {"reg_lambda_": strengths[0] if one else np.array(strengths)}

    def _check_bundle_size(self, problem: Problem, omega: Regularizer) -> None:
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

    def _keep(self, solver: Any, result: SolverResult) -> LinearStart | None:
        return self._next_start(solver, result) if self.warm_start else None

    def _next_start(self, solver: Any, result: SolverResult, last: Any = None) -> LinearStart:
        return solver.kept((result.point, result.intercept))


def _in_words(names: list[str]) -> str:
    """Names of one or several losses, or of losses of your own."""
    if not names:
        return "other losses"
    if len(names) == 1:
        return f"loss={names[0]!r}"
    return f"the losses {', '.join(map(repr, names[:-1]))} and {names[-1]!r}"
