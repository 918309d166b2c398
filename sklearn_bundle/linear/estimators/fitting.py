"""The problems that losses make of rows in memory, and their fit, also along reg_lambdas."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sklearn_bundle.core import contract
from sklearn_bundle.core.contract import SolverResult, Status, TimeLimit
from sklearn_bundle.core.estimator import Fit, Observe, points_of
from sklearn_bundle.core.parallel import blas_threads, split_threads
from sklearn_bundle.core.path import fit_path
from sklearn_bundle.core.validation import (
    ClassificationData,
    TrainingData,
    checked_reg_lambda,
    names_of,
)
from sklearn_bundle.core.values import shown
from sklearn_bundle.core.warm import fingerprint_of
from sklearn_bundle.linear.blocks.risk import BlockRisk
from sklearn_bundle.linear.estimators.bounds import score_region
from sklearn_bundle.linear.losses import Loss, Prepared
from sklearn_bundle.linear.losses.base import SampleLoss, check_derivatives, is_of_package
from sklearn_bundle.linear.regularizers import REGULARIZERS, ElasticNet, Nonnegative, Regularizer
from sklearn_bundle.linear.risk import Risk
from sklearn_bundle.linear.rows import Rows, rows_of
from sklearn_bundle.linear.score_risk import risk_of
from sklearn_bundle.linear.solvers.base import At, Solver, Start, Task
from sklearn_bundle.linear.solvers.bundle import Bundle
from sklearn_bundle.linear.solvers.choice import BUNDLES, solver_for, supports
from sklearn_bundle.linear.solvers.lasso import solved_at_once

#: Regularizers that a name says all of; others are passed as an instance.
BY_NAME = "l2", "l1", "elasticnet"


# ---- what parameters stand for -------------------------------------------------------------------


def takes_loss(kind: Any, loss: Any) -> bool:
    """Whether this is a loss of the estimator, by name or as an instance."""
    return loss in kind._losses if isinstance(loss, str) else isinstance(loss, kind._loss_kinds)


def loss_of(params: Any, spread: float = 1.0) -> Any:
    """The loss, with parameters that follow the spread of y where there is no other value."""
    if not isinstance(params.loss, str):
        return params.loss
    return params._losses[params.loss](**loss_values(params, spread))


def loss_values(params: Any, spread: float = 1.0) -> dict[str, Any]:
    """The parameters of a loss passed by name."""
    table, units = params._used_with.items(), params._in_spreads
    names = [name for name, (role, of) in table if role == "loss" and params.loss in of]
    values = {name: getattr(params, name) for name in names}
    return {k: spread * units[k] if v is None and k in units else v for k, v in values.items()}


def omega_of(params: Any) -> Regularizer:
    """The regularizer, on the cone w >= 0 with ``positive=True``."""
    omega = params.regularizer
    if isinstance(omega, str):
        omega = ElasticNet(params.l1_ratio) if omega == "elasticnet" else REGULARIZERS[omega]()
    if isinstance(omega, ElasticNet):  # which may be L1 or L2
        omega = omega.bind(1, 1)
    return Nonnegative(omega) if getattr(params, "positive", False) else omega


def makes_zeros(params: Any, n_features: int) -> bool:
    """Whether w = 0 is optimal above some reg_lambda: not for an elastic net that is L2."""
    return omega_of(params).bind(n_features, n_features).lasso_form is not None


def strengths_of(params: Any, data: Any) -> list[float]:
    """The reg_lambda of each problem: given, or what C stands for, or the default in its unit."""
    if params.C is not None and params.reg_lambda is not None:
        raise ValueError(
            f"reg_lambda={params.reg_lambda} and C={params.C} are both set, but C stands for "
            "reg_lambda = 1 / (C * sum of the weights): leave the other one at None."
        )
    if params.reg_lambda is not None:
        return [params.reg_lambda] * data.n_problems
    if params.C is not None:
        return [checked_reg_lambda(None, params.C * data.total)] * data.n_problems
    # the default for a target of spread one
    return [1e-4 * unit for unit in data.units]


# ---- which solver takes them ---------------------------------------------------------------------


def checked_loss(params: Any, in_blocks: bool) -> Any:
    """The loss; ValueError for parameters that contradict each other, before the data are read."""
    loss, of_blocks = loss_of(params), ("auto", *BUNDLES, "newton", "lbfgs")
    if in_blocks and params.solver not in of_blocks:
        raise ValueError(
            f"solver={params.solver!r} needs all rows in memory, but X lies in blocks. Take one of "
            f"{', '.join(map(repr, of_blocks))}."
        )
    if not supports(params.solver, loss, omega_of(params)):
        raise ValueError(
            f"solver={params.solver!r} does not take loss={shown(params.loss)} with "
            f"regularizer={shown(params.regularizer)}{', positive=True' if params.positive else ''}"
            f"; the documentation of {type(params).__name__} says what each solver takes. Use "
            "solver='auto'."
        )
    return loss


def task_of(params: Any, risk: Risk, reg_lambda: float, omega: Regularizer) -> Task:
    """The problem and how to solve it; ``omega`` is bound to the risk's features."""
    return Task(risk, reg_lambda, omega, params.tol, params.solver)


def one_versus_rest(samples: ClassificationData) -> tuple[list[NDArray[np.float64]], list[str]]:
    """Targets in {-1, +1} and names: one for two classes (the second is +1), else one per class."""
    n_classes = len(samples.classes)
    signs = [
        np.where(samples.labels == k, 1.0, -1.0)
        for k in range(1 if n_classes == 2 else 0, n_classes)
    ]
    return signs, names_of(samples.classes) if n_classes > 2 else [""]


class MemoryData:
    """What estimators, paths and searches need of training data; on workers blocks offer the same.

    Parameters
    ----------
    samples : TrainingData
        Checked rows, without those of weight zero.
    prepared : list of Prepared
        Loss and target of each problem.
    n_jobs : int or None
    names : list of str
        Of the problems; [""] for a single one.

    Attributes
    ----------
    units : list of float
        For each problem the reg_lambda with the effect of 1 on a target of spread one.
    threads : tuple of int
        Problems that are solved at a time, and threads of each.
    """

    def __init__(
        self, samples: TrainingData, prepared: list[Prepared], n_jobs: int | None, names: list[str]
    ):
        self.samples, self.weights = samples, samples.weights
        self.n_samples, self.n_features = samples.n_samples, samples.n_features
        self.classes: Any = getattr(samples, "classes", None)
        self.n_targets: int | None = getattr(samples, "n_targets", None)
        self.total: float = getattr(samples, "total", 1.0)
        self.names, self.n_problems = names, len(names)
        self.prepared, self.units = prepared, [1.0] * len(prepared)
        self.threads = split_threads(n_jobs, len(prepared))
        self.spreads_of_problems: Sequence[float] = ()  # of a regressor

    def exclude(self, features: NDArray[np.intp]) -> None:
        """Set the columns of some features to 0, in a copy: their weights then are 0, too."""
        X: Any = self.samples.X
        used = np.ones(self.n_features, dtype=X.dtype)
        used[features] = 0.0
        X = X.multiply(used).tocsr() if sp.issparse(X) else X * used
        self.samples = replace(self.samples, X=X)

    def fingerprint(self) -> Any:
        """A hash of X, targets and weights."""
        return self.samples.fingerprint()

    @cached_property
    def rows(self) -> Rows:
        """All rows, with what each problem would compute of them again."""
        rows = rows_of(self.samples.X, self.threads[1])
        _ = rows.column_norms
        return rows

    def risk(self, k: int, fit_intercept: bool) -> Risk:
        """The risk of one problem, which counts its own passes."""
        rows, (loss, y) = copy(self.rows), self.prepared[k]
        rows.passes = 0
        risk = risk_of(rows, y, self.weights, loss, fit_intercept)
        check_loss(loss, y, lambda some: np.zeros((*risk.shape[:-1], len(some))))
        return risk


# ---- the fit ------------------------------------------------------------------------------------


def solve_problems(
    run: Fit, params: Any, data: Any
) -> tuple[dict[str, Any], list[SolverResult], str | None]:
    """Solve each problem of the data; the fitted attributes, the results, and a warning.

    Parameters
    ----------
    run : Fit
    params : estimator
        A checked copy with the parameters.
    data : MemoryData or BlockedData
    """
    strengths, omega = strengths_of(params, data), bound_omega(params, data)
    settings = strengths, params.solver
    run.reuse(lambda: _key(params, data), settings)

    def solve(k: int, observe: Observe, seconds: float | None) -> SolverResult:
        risk = data.risk(k, params.fit_intercept)
        risk.limit(seconds)
        task = task_of(params, risk, strengths[k], omega)
        _, result = run.minimize(k, task, partial(_new_solver, task), observe, seconds)
        return located(risk, result) if isinstance(data, MemoryData) else result

    model, names = partial(params._attributes, data), data.names
    given = {"names": names, "unit": params._unit, "threads": data.threads[0]}
    results = run.solve(solve, model, **given, max_time=params.max_time)
    # A number, or one per problem where defaults differ.
    same = len(strengths) == 1 or params.reg_lambda is not None or params.C is not None
    fitted = model(points_of(results)) | {
        "reg_lambda_": strengths[0] if same else np.array(strengths)
    }
    return fitted, results, _caveat(results, min(strengths))


def bound_omega(params: Any, data: Any) -> Regularizer:
    """The regularizer for these data, where columns of features that it excludes become 0."""
    loss, y = data.prepared[0]
    omega = omega_of(params).bind(data.n_features, data.n_features * (loss.n_outputs(y) or 1))
    if omega.excluded is not None:
        if not isinstance(data, MemoryData):
            raise ValueError("Infinite weights of features need rows in memory: leave those out.")
        data.exclude(omega.excluded)
    return omega


def _key(params: Any, data: Any) -> Any:
    """What is equal for problems that may share their starts; None equals no other."""
    objects = [prepared.loss for prepared in data.prepared]
    objects += [] if isinstance(params.loss, str) else [params.loss]
    objects.append(omega_of(params))
    formulation = fingerprint_of([(type(one), vars(one)) for one in objects])
    if formulation is None:
        return None
    return data.fingerprint(), formulation, params.fit_intercept


def _new_solver(task: Task, start: Start | None) -> Solver:
    solver, omega = solver_for(task, Start() if start is None else start), task.omega
    by_planes = isinstance(solver, Bundle) or not getattr(task.risk, "is_compiled", True)
    by_planes = by_planes or isinstance(task.risk, BlockRisk)
    if by_planes and omega.is_quadratic and omega.unpenalized is not None:
        raise ValueError(
            "The regularizer has features without a penalty, which the bundle method, rows on "
            "workers and losses of one's own take only with WeightedL1. Use solver='auto' and "
            "another loss, or a small penalty."
        )
    return solver


def located(risk: Risk, result: SolverResult) -> SolverResult:
    """The result with the region of the optimum's scores, if its loss is what it says."""
    check_loss(risk.loss, risk.y, lambda some: _scores_at(risk, result, some))
    with np.errstate(over="ignore", invalid="ignore"):
        return replace(result, region=score_region(risk, result))


def check_loss(
    loss: Loss, y: Any, scores_at: Callable[[NDArray[np.intp]], NDArray[np.float64]]
) -> None:
    """Raise ValueError if a user's loss has other derivatives at the scores of some rows.

    Slopes of the wrong sign lead away from the best intercept, until the loss overflows. Losses of
    the package have tests.
    """
    if not isinstance(loss, SampleLoss) or is_of_package(type(loss)):
        return
    # 100 rows at which the derivatives of a user's loss are compared with its values
    some = np.linspace(0, len(y) - 1, min(len(y), 100)).astype(np.intp)
    check_derivatives(loss, np.ascontiguousarray(scores_at(some).T), y[some])


def _scores_at(risk: Risk, result: SolverResult, some: NDArray[np.intp]) -> NDArray[np.float64]:
    scores = risk.rows.take(some).scores(result.point.reshape(risk.shape))
    b: Any = 0.0 if result.intercept is None else np.asarray(result.intercept)
    return scores + (b[:, None] if np.ndim(b) and scores.ndim > 1 else np.ravel(b)[0])


def _caveat(results: list[SolverResult], reg_lambda: float) -> str | None:
    """That w is 0 in all problems at the end of a fit; after a limit that may be just the start."""
    ends = Status.CONVERGED, Status.STALLED
    if not all(result.status in ends and not np.any(result.point) for result in results):
        return None
    return (
        f"w is 0: reg_lambda={reg_lambda:.3g} is too large for these data, or no feature helps. "
        "Use a smaller reg_lambda (a larger C), or scale the features."
    )


# ---- many values of reg_lambda -------------------------------------------------------------------


def along(
    params: Any,
    data: Any,
    values: Sequence[float] | NDArray[np.float64],
    limit: TimeLimit | None = None,
) -> Iterator[tuple[Any, list[SolverResult]]]:
    """A fitted copy for each of the descending values, each fit started from the last one."""
    omega = bound_omega(params, data)
    risks = [data.risk(k, params.fit_intercept) for k in range(data.n_problems)]

    tasks = [[task_of(params, risk, float(value), omega) for value in values] for risk in risks]
    timed = params.max_time is not None or (limit is not None and limit.left is not None)
    with blas_threads(1), np.errstate(over="ignore", invalid="ignore"):
        known = [[None] * len(one) if timed else solved_at_once(one) for one in tasks]

    def solve(i: int, k: int, start: Start | None, seconds: float | None) -> tuple[Any, Start]:
        risk, result = risks[k], known[k][i]
        if result is not None:
            state = None if start is None else start.state
            return result, Start(At(result.point, result.intercept), state=state)
        risk.rows.passes = 0
        risk.limit(seconds)
        solver = _new_solver(tasks[k][i], start)
        limits = {"tol": params.tol, "max_iter": params.max_iter, "max_time": seconds}
        with blas_threads(1):
            result = contract.run(solver, **limits)
        return result, solver.kept

    def attributes(i: int, results: list[SolverResult]) -> dict[str, Any]:
        points = [(result.point, result.intercept) for result in results]
        return params._attributes(data, points) | {"reg_lambda_": float(values[i])}

    yield from fit_path(
        params, values, solve, attributes, n_subproblems=data.n_problems, limit=limit
    )
