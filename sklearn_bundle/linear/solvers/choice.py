"""Which solver takes a problem: by name, or "auto"."""

from dataclasses import replace
from typing import Any

from sklearn_bundle.core.contract import run
from sklearn_bundle.core.limits import MOST_SIDE
from sklearn_bundle.linear.blocks.descent import BlockDescent, OnBlocks
from sklearn_bundle.linear.blocks.risk import BlockRisk
from sklearn_bundle.linear.losses import MulticlassLoss
from sklearn_bundle.linear.losses.multiclass import has_dual
from sklearn_bundle.linear.losses.planes import PlaneLoss
from sklearn_bundle.linear.risk import ClassRisk, Risk
from sklearn_bundle.linear.score_risk import ScoreRisk
from sklearn_bundle.linear.solvers.base import At, Solver, Start, Task, in_span
from sklearn_bundle.linear.solvers.bundle import Bundle
from sklearn_bundle.linear.solvers.class_descent import ClassDescent
from sklearn_bundle.linear.solvers.class_dual import ClassDual, ClassDualThenBundle
from sklearn_bundle.linear.solvers.descent import ScoreDescent
from sklearn_bundle.linear.solvers.dual import Dual, DualThenKinks
from sklearn_bundle.linear.solvers.kinks import Kinks
from sklearn_bundle.linear.solvers.lasso import Lasso

BUNDLES = "line-search", "cutting-plane"


def supports(name: str, loss: Any, omega: Any) -> bool:
    """Whether a solver of this name takes the loss and the regularizer: known before the data."""
    if name in ("auto", *BUNDLES):
        return True
    by_class = getattr(loss, "covariance", None) is not None
    one_score = not (issubclass(type(loss), PlaneLoss | MulticlassLoss) or by_class)
    compiled = one_score and loss.formula is not None
    if name == "coordinate-descent":
        return compiled and loss.smooth and omega.lasso_form is not None
    if name == "dual-coordinate":
        return omega.is_euclidean and (has_dual(loss) or (compiled and loss.dual_steps))
    if not has_form(omega):
        return False
    if name == "lbfgs":
        return by_class or (one_score and loss.smooth)
    return by_class or compiled


def has_form(omega: Any) -> bool:
    """Whether the regularizer is ``w'Bw / 2`` with a known B."""
    return omega.is_quadratic and omega.diagonal is not None


def solver_for(task: Task, start: Start) -> Any:
    """The solver of a task, by its name or as "auto" chooses it."""
    if isinstance(task.risk, BlockRisk):
        if start.at is None and task.risk.sample is not None:
            start = _of_sample(task, task.risk.sample)
        return OnBlocks(_on_blocks(task)(task, start))
    kind = _named(task) if task.solver != "auto" else _chosen(task)
    if kind is Bundle or issubclass(kind, ClassDual | ClassDescent | Lasso):
        return kind(task, start)
    return kind(in_span(task), start)


def _on_blocks(task: Task) -> type[Solver]:
    """What takes few rounds; it has no names of its own."""
    risk, omega = task.risk, task.omega
    if task.solver in BUNDLES or not has_form(omega):
        return Bundle
    if risk.n_outputs is not None:
        return ClassDescent if risk.loss.covariance is not None else Bundle
    narrow = risk.kinked and risk.rows.shape[1] <= MOST_SIDE
    return BlockDescent if narrow or risk.loss.smooth else Bundle


def _of_sample(task: Task, sample: Risk) -> Start:
    """The solution for some rows of the blocks, up to what these say of all rows."""
    m, d = sample.rows.shape
    solver = solver_for(replace(task, risk=sample, solver="auto"), Start())
    # of a start no more is needed
    limits: dict[str, Any] = {"max_iter": 30, "max_time": task.risk.rounds.limit.left}
    result = run(solver, tol=max(task.tol, d / m), **limits)
    # where kinks are then narrowed
    width = 16.0 * d / m * task.risk.units.unit
    return Start(At(result.point, result.intercept), state=width)


def _chosen(task: Task) -> type[Solver]:
    """What "auto" takes; the limits were found on 90 problems, and held on 40 others."""
    risk, omega, loss = task.risk, task.omega, task.risk.loss
    n, d = risk.rows.shape
    if isinstance(risk, ClassRisk):
        if has_dual(loss) and omega.is_euclidean:
            return ClassDualThenBundle
        return ClassDescent if loss.covariance is not None and has_form(omega) else Bundle
    if not isinstance(risk, ScoreRisk):
        return Bundle
    if omega.lasso_form is not None:
        return Lasso if loss.smooth and risk.is_compiled else Bundle
    if not has_form(omega):
        return Bundle
    if loss.smooth:
        dual = risk.is_compiled and loss.dual_steps and d > n and omega.is_euclidean
        return Dual if dual else ScoreDescent
    if not risk.is_compiled:
        return Bundle
    # where a Hessian is this cheap, Newton's method takes 2 to 5 ms in whole
    small = d * d <= n or n * d * d <= 5e6
    return Kinks if small or not omega.is_euclidean else DualThenKinks


def _named(task: Task) -> type[Solver]:
    """The class with this name for the task."""
    name, risk = task.solver, task.risk
    if name in BUNDLES:
        return Bundle
    if isinstance(risk, ClassRisk):
        return ClassDual if name == "dual-coordinate" else ClassDescent
    if name == "coordinate-descent":
        return Lasso
    if name == "dual-coordinate":
        return DualThenKinks if not risk.loss.smooth else Dual
    return ScoreDescent if risk.loss.smooth else Kinks
