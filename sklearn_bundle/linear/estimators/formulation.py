"""The loss, the regularizer and the solver that an estimator's parameters stand for."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from inspect import signature
from typing import Any

import numpy as np

from sklearn_bundle.core.parameters import is_same
from sklearn_bundle.core.values import shown
from sklearn_bundle.linear import losses
from sklearn_bundle.linear.losses import Loss
from sklearn_bundle.linear.regularizers import (
    REGULARIZERS,
    ElasticNet,
    Nonnegative,
    Quadratic,
    Regularizer,
    WeightedL1,
)
from sklearn_bundle.linear.risk import Risk
from sklearn_bundle.linear.solvers.base import Task
from sklearn_bundle.linear.solvers.choice import BUNDLES, supports

DEFAULT_REG_LAMBDA = 1e-4  # for a target of spread one
MOST_NEWTON_FEATURES = 10_000  # for solver="newton": a matrix takes 0.8 GB, and there are a few
_FEWEST_PLANES = 10  # plus one for each free intercept: with 6 and fewer, fits stalled
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


@cache  # a fit needs it several times, and reading a signature takes 0.1 ms
def _required(kind: type) -> list[str]:
    """Parameters without a default."""
    return [p.name for p in signature(kind).parameters.values() if p.default is p.empty]


# Regularizers that need more than a name.
BY_INSTANCE = {name for name, kind in REGULARIZERS.items() if _required(kind)}


def owners(role: str, table: dict[str, dict[str, Any]]) -> dict[str, tuple[str, tuple[Any, ...]]]:
    """The parameters in the table, each with the role and the names to which it belongs."""
    names = sorted({name for parameters in table.values() for name in parameters})
    return {name: (role, tuple(one for one, own in table.items() if name in own)) for name in names}


def hints_of(kind: type) -> Callable[[str, Any], str]:
    """What to say of a wrong value: which estimator has a loss that this one lacks."""

    def hint(name: str, value: Any) -> str:
        loss = NAMED_LOSSES.get(value) if isinstance(value, str) else type(value)
        bases = [base for base in TAKERS if loss is not None and issubclass(loss, base)]
        takers = [one for one in TAKERS[bases[0]] if one != kind.__name__] if bases else []
        if name != "loss" or not takers:
            return ""
        single, *searches = takers
        taker = searches[0] if searches and kind.__name__.endswith("CV") else single
        return f" {shown(value)} is a loss of {taker}."

    return hint


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
    names = params._loss_parameters.get(params.loss, ()) if isinstance(params.loss, str) else ()
    values = {name: getattr(params, name) for name in names}
    units = params._in_spreads
    return {k: spread * units[k] if v is None and k in units else v for k, v in values.items()}


def omega_of(params: Any) -> Regularizer:
    """The regularizer, on the cone w >= 0 with ``positive=True``."""
    omega = _named_omega(params) if isinstance(params.regularizer, str) else params.regularizer
    if isinstance(omega, ElasticNet):  # which may be L1 or L2
        omega = omega.bind(1, 1)
    return Nonnegative(omega) if getattr(params, "positive", False) else omega


def _named_omega(params: Any) -> Regularizer:
    name, kind = params.regularizer, REGULARIZERS[params.regularizer]
    needs = _required(kind)
    if needs:
        raise ValueError(
            f"regularizer={name!r} needs {needs[0]}: pass an instance, "
            f"regularizer={kind.__name__}({needs[0]}=...)."
        )
    return kind(**{own: getattr(params, own) for own in REGULARIZER_PARAMETERS.get(name, ())})


def makes_zeros(params: Any, n_features: int) -> bool:
    """Whether w = 0 is optimal above some reg_lambda: not for an elastic net that is L2."""
    return omega_of(params).bind(n_features, n_features).lasso_form is not None


def refuse_both(params: Any) -> None:
    """Raise ValueError if reg_lambda and C are both set."""
    if params.C is not None and params.reg_lambda is not None:
        raise ValueError(
            f"reg_lambda={params.reg_lambda} and C={params.C} are both set, but C stands for "
            "reg_lambda = 1 / (C * sum of the weights): leave the other one at None."
        )


def strengths_of(params: Any, data: Any) -> list[float]:
    """The reg_lambda of each problem: given, or what C stands for, or the default in its unit."""
    if params.reg_lambda is not None:
        return [params.reg_lambda] * data.n_problems
    if params.C is not None:
        return [checked_reg_lambda_of(params.C, data.total)] * data.n_problems
    return [DEFAULT_REG_LAMBDA * unit for unit in data.units]


def checked_reg_lambda_of(C: float, total: float) -> float:
    """``1 / (C * total)``, the reg_lambda that C stands for, in the range of numbers."""
    with np.errstate(over="ignore", divide="ignore"):
        value = float(np.divide(1.0, C * total))
    if not 0.0 < value < np.inf:
        raise ValueError(
            f"C={C} stands for reg_lambda = 1 / (C * sum of the weights), which is {value} for "
            f"weights of sum {total:g}."
        )
    return value


def reg_lambda_attribute(params: Any, strengths: list[float]) -> dict[str, Any]:
    """``reg_lambda_``: a number, or one per problem where defaults differ."""
    one = len(strengths) == 1 or params.reg_lambda is not None or params.C is not None
    return {"reg_lambda_": strengths[0] if one else np.array(strengths)}


# ---- which solver takes them ---------------------------------------------------------------------


def refuse_solver(params: Any, loss: Loss) -> None:
    """Raise ValueError if the solver does not support the loss and the regularizer."""
    if supports(params.solver, loss, omega_of(params)):
        return
    table, defaults = params._loss_parameters, params._in_spreads
    known = {
        name: make(**{k: defaults.get(k, v) for k, v in table.get(name, {}).items()})
        for name, make in params._losses.items()
    }
    kinds = {name: kind() for name, kind in REGULARIZERS.items() if name not in BY_INSTANCE}
    pairs = [
        (name, omega)
        for name in known
        for omega in kinds
        if supports(params.solver, known[name], kinds[omega])
    ]
    names, omegas = (list(dict.fromkeys(column)) for column in zip(*pairs, strict=True))
    own = table.get(params.loss, {}) if isinstance(params.loss, str) else {}
    given = [name for name, default in own.items() if not is_same(getattr(params, name), default)]
    further = REGULARIZER_PARAMETERS.get(str(params.regularizer), ())
    raise ValueError(
        f"solver={params.solver!r} is for {_in_words(names)} with "
        f"regularizer={' or '.join(map(repr, sorted(omegas, key=list(kinds).index)))}; got "
        f"loss={params.loss!r}{_listed(params, given)} and "
        f"regularizer={shown(params.regularizer)}{_listed(params, further)}"
        f"{', positive=True' if getattr(params, 'positive', False) else ''}. Use solver='auto'."
    )


def _listed(params: Any, names: Any) -> str:
    return "".join(f", {name}={shown(getattr(params, name))}" for name in names)


def _in_words(names: list[str]) -> str:
    """Names of one or several losses."""
    if len(names) == 1:
        return f"loss={names[0]!r}"
    return f"the losses {', '.join(map(repr, names[:-1]))} and {names[-1]!r}"


def refuse_large(params: Any, X_shape: tuple[int, int], k: int, dense: bool) -> None:
    """Raise ValueError if a matrix of Newton's method would have too many rows; k outputs."""
    in_span = dense and k == 1 and omega_of(params).is_euclidean  # rows then span no more
    side = min(X_shape) if in_span else X_shape[1] * k
    if params.solver == "newton" and side > MOST_NEWTON_FEATURES:
        of_outputs = f" times {k} classes or targets" if k > 1 else ""
        raise ValueError(
            f"solver='newton' needs a square matrix of at most {MOST_NEWTON_FEATURES} rows; X has "
            f"shape {X_shape}{of_outputs}. Use solver='auto'."
        )


def refuse_solver_of_blocks(params: Any, loss: Loss) -> None:
    """Raise ValueError if the solver needs all rows in one place."""
    omega = omega_of(params)
    known = ["auto", *BUNDLES, *(one for one in ("newton", "lbfgs") if supports(one, loss, omega))]
    if params.solver not in known:
        raise ValueError(
            f"solver={params.solver!r} needs all rows in memory, but X lies in blocks. Solvers "
            f"for loss={params.loss!r} and regularizer={shown(params.regularizer)}: "
            f"{', '.join(map(repr, known))}."
        )


def task_of(params: Any, risk: Risk, reg_lambda: float, omega: Regularizer) -> Task:
    """The problem and how to solve it; ``omega`` is bound to the risk's features."""
    size = params.bundle_size
    # An average of planes cannot be balanced or scaled again, so too few of them stall.
    form = omega.lasso_form
    is_l1 = form is not None and form.ridge == 0.0
    if size is not None and (risk.n_free or is_l1) and size < _FEWEST_PLANES + risk.n_free:
        why = "regularizer='l1'"
        if not is_l1:
            why = f"loss={params.loss!r}, whose intercept is a coordinate of the planes,"
        raise ValueError(
            f"bundle_size={size} is too small: {why} needs at least "
            f"{_FEWEST_PLANES + risk.n_free} planes."
        )
    return Task(risk, reg_lambda, omega, params.tol, params.theta, size, params.solver)


def without_infinities(omega: Any) -> Regularizer:
    """The regularizer with finite weights, for rows in which the others' columns are 0."""
    if isinstance(omega, Nonnegative):
        return Nonnegative(without_infinities(omega.omega))
    given = np.asarray(omega.weights if isinstance(omega, WeightedL1) else omega.B, dtype=float)
    finite = np.where(np.isinf(given), given[np.isfinite(given)].max(), given)
    return WeightedL1(finite) if isinstance(omega, WeightedL1) else Quadratic(finite)
