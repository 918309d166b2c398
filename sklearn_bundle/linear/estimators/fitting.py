"""The fit of all problems of an estimator, and of these along values of reg_lambda."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core import contract
from sklearn_bundle.core.contract import SolverResult, Status, TimeLimit
from sklearn_bundle.core.estimator import Fit, Observe, Points
from sklearn_bundle.core.parallel import blas_threads
from sklearn_bundle.core.path import fit_path
from sklearn_bundle.core.warm import fingerprint_of
from sklearn_bundle.linear.blocks.risk import BlockRisk
from sklearn_bundle.linear.estimators.bounds import score_region
from sklearn_bundle.linear.estimators.data import MemoryData, check_loss
from sklearn_bundle.linear.estimators.formulation import (
    omega_of,
    reg_lambda_attribute,
    strengths_of,
    task_of,
    without_infinities,
)
from sklearn_bundle.linear.estimators.largest import nearly_zero
from sklearn_bundle.linear.regularizers import Regularizer
from sklearn_bundle.linear.risk import Risk
from sklearn_bundle.linear.solvers.base import At, Solver, Start, Task
from sklearn_bundle.linear.solvers.bundle import Bundle
from sklearn_bundle.linear.solvers.choice import solver_for
from sklearn_bundle.linear.solvers.lasso import solved_at_once

# Advice if a limit ended a fit with L1; replaces that of linear models.
_L1_ADVICE = {
    limit: "With L1, a small reg_lambda takes many iterations, and later ones take longer: "
    f"increase reg_lambda or tol, or {limit}; scaling the features helps too."
    for limit in (Status.MAX_ITER, Status.MAX_TIME)
}


class Solved(NamedTuple):
    """The results of all problems, and what else the estimator has of them."""

    results: list[SolverResult]
    reg_lambda: dict[str, Any]  # the attribute
    caveat: str | None  # a warning


def solve_problems(
    run: Fit,
    params: Any,
    data: Any,
    model: Callable[[Points], dict[str, Any]],
    unit: str = "class",
) -> Solved:
    """Solve each problem of the data.

    Parameters
    ----------
    run : Fit
    params : estimator
        A checked copy with the parameters.
    data : MemoryData or BlockedData
    model : callable
        Fitted attributes for the points of all problems, for callbacks.
    unit : str
        What has a problem of its own: "class" or "target".
    """
    strengths, omega = strengths_of(params, data), bound_omega(params, data)
    settings = strengths, params.solver, params.theta, params.bundle_size
    run.reuse(lambda: _key(params, data), settings)
    remarks: dict[int, tuple[float, float]] = {}

    def solve(k: int, observe: Observe, seconds: float | None) -> SolverResult:
        risk = data.risk(k, params.fit_intercept)
        risk.limit(seconds)
        task = task_of(params, risk, strengths[k], omega)
        _, result = run.minimize(k, task, partial(_new_solver, task), observe, seconds)
        if isinstance(data, MemoryData):
            result = located(risk, result)
            remark = nearly_zero(risk, omega, strengths[k], result)
            if remark is not None:
                remarks[k] = remark
        return result

    given = {"names": data.names, "unit": unit, "threads": data.threads[0]}
    results = run.solve(solve, model, **given, max_time=params.max_time)
    caveat = _caveat(params, remarks, [f"{unit} {name}" for name in data.names])
    return Solved(results, reg_lambda_attribute(params, strengths), caveat)


def bound_omega(params: Any, data: Any) -> Regularizer:
    """The regularizer for these data; columns of features that it excludes become 0."""
    loss, y = data.prepared[0]
    d = data.n_features
    dimension, omega = d * (loss.n_outputs(y) or 1), omega_of(params)
    bound = omega.bind(d, dimension)
    if bound.excluded is None:
        return bound
    if not isinstance(data, MemoryData):
        raise ValueError("Infinite weights of features need all rows in memory: leave those out.")
    data.exclude(bound.excluded)
    return without_infinities(omega).bind(d, dimension)


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
            "workers and losses of one's own take only with WeightedL1. Use solver='auto' with a "
            "loss of the package that is a sum over samples (but 'multiclass_hinge' and "
            "'ontology') and rows in memory, or a small penalty."
        )
    return solver


def located(risk: Risk, result: SolverResult) -> SolverResult:
    """The result with the region of the optimum's scores, if its loss is what it says."""
    check_loss(risk.loss, risk.y, lambda some: _scores_at(risk, result, some))
    with np.errstate(over="ignore", invalid="ignore"):
        return replace(result, region=score_region(risk, result))


def _scores_at(risk: Risk, result: SolverResult, some: NDArray[np.intp]) -> NDArray[np.float64]:
    scores = risk.rows.take(some).scores(result.point.reshape(risk.shape))
    b: Any = 0.0 if result.intercept is None else np.asarray(result.intercept)
    return scores + (b[:, None] if np.ndim(b) and scores.ndim > 1 else np.ravel(b)[0])


def _caveat(params: Any, remarks: dict[int, tuple[float, float]], names: list[str]) -> str | None:
    """That w is nearly 0, of the problem where it is farthest from a useful one."""
    if not remarks:
        return None
    k = max(remarks, key=lambda k: remarks[k][0] / remarks[k][1])
    strength, largest = remarks[k]
    at = f" ({names[k]})" if len(names) > 1 else ""
    given = f"C={params.C:.3g}, which is reg_lambda=" if params.C is not None else "reg_lambda="
    return (
        f"w is nearly 0{at}: {given}{strength:.3g} is over a third of the largest useful value "
        f"for these data, {largest:.3g}. Use a much smaller reg_lambda (a larger C), or scale "
        "the features."
    )


def advice_of(params: Any, advice: dict[Status, str]) -> dict[Status, str]:
    """With what L1 needs."""
    form = omega_of(params).lasso_form
    return advice | _L1_ADVICE if form is not None and form.ridge == 0.0 else advice


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
        return result, solver.kept_on_path

    def attributes(i: int, results: list[SolverResult]) -> dict[str, Any]:
        points = [(result.point, result.intercept) for result in results]
        return params._attributes(data, points) | {"reg_lambda_": float(values[i])}

    yield from fit_path(
        params, values, solve, attributes, n_subproblems=data.n_problems, limit=limit
    )
