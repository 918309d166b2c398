"""The loss, the regularizer and the solver that an estimator's parameters stand for."""

from __future__ import annotations

from typing import Any

from sklearn_bundle.core.validation import checked_reg_lambda
from sklearn_bundle.core.values import shown
from sklearn_bundle.linear.regularizers import REGULARIZERS, ElasticNet, Nonnegative, Regularizer
from sklearn_bundle.linear.risk import Risk
from sklearn_bundle.linear.solvers.base import Task
from sklearn_bundle.linear.solvers.choice import BUNDLES, supports

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
