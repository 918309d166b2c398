"""Problems and solvers of each loss of structured outputs, and checks of their parameters."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from sklearn_bundle.core.contract import Status
from sklearn_bundle.core.lbfgs import LBFGSSolver
from sklearn_bundle.structured.models.base import StructuredModel
from sklearn_bundle.structured.models.examples import Examples
from sklearn_bundle.structured.problems.structured import StructuredProblem, StructuredRisk
from sklearn_bundle.structured.problems.structured_log import LikelihoodProblem
from sklearn_bundle.structured.readers.structures import Reading
from sklearn_bundle.structured.solvers.adapted import MarginalGapSolver
from sklearn_bundle.structured.solvers.block_solvers import BlockCoordinateSolver, SimplicialSolver
from sklearn_bundle.structured.solvers.one_simplex import OneSimplexSolver

_TOGETHER = "bundle", "rsd-one-simplex"
_PRODUCTS: dict[str, Any] = {"rsd": "product", "rsd-working-sets": "working-sets"}
_SMOOTH = "auto", "lbfgs", "bundle"  # for the logistic loss

#: The names of all solvers.
SOLVERS = {"auto", "bcfw", "excessive-gap", *_PRODUCTS, *_TOGETHER, *_SMOOTH}


@dataclass
class StructuredData:
    """Training data and the model fitted to them."""

    model: StructuredModel
    reading: Reading
    examples: Examples
    reg_lambda: float


def check_formulation(
    loss: str, solver: str, scaling: str, name: str, examples: Examples | None = None
) -> None:
    """ValueError if the solver, or the model of this name, does not support the loss."""
    log, message = loss == "log", None
    of_chains = loss == "hinge" and scaling == "margin" and (not examples or examples.has_edges)
    if log and solver not in _SMOOTH:
        names = ", ".join(map(repr, _SMOOTH))
        message = f"loss='log' takes one of the solvers {names}, got solver={solver!r}."
    elif not log and solver == "lbfgs":
        message = f"solver='lbfgs' is only for loss='log', got loss={loss!r}."
    elif solver == "excessive-gap" and not of_chains:
        message = (
            "solver='excessive-gap' takes only the model 'chain' and only loss='hinge' with "
            f"scaling='margin'; with loss={loss!r} and scaling={scaling!r} it got {name}; use "
            "solver='auto'."
        )
    elif log and examples and not examples.likelihood:
        message = (
            "loss='log' needs the sums over all outputs of a method expected_features, which "
            f"{name} does not have. Use loss='hinge'."
        )
    elif log and examples and len(examples.nonnegative):
        message = (
            "loss='log' does not support models with parameters that must not be negative, but "
            f"{name}.nonnegative returns some. Use loss='hinge'."
        )
    if message is not None:
        raise ValueError(message)


def further_advice(examples: Examples, name: str) -> dict[Status, str]:
    """Advice if ``tol`` was not reached and the model of this name is not exact."""
    if examples.exact:
        return {}
    return {
        Status.STALLED: f"The rest lies between the outputs that {name} has found and its "
        "upper_bound: increase tol, or let the inference search for longer."
    }


def is_proved(loss: str, data: StructuredData, point: Any) -> bool:
    """Whether the objective is an upper bound: the oracle is exact, or has upper bounds."""
    if loss == "log":
        return True
    examples = data.examples
    if examples.exact or data.model.upper_bound is None:
        return examples.exact
    return bool(np.isfinite(examples.find(point, 0, examples.n_examples).bounds).all())


def bound_problem(loss: str, data: StructuredData, n_threads: int) -> StructuredRisk:
    """The examples bound to the loss."""
    weights = data.reading.weights
    if loss == "log":
        return LikelihoodProblem(data.examples, weights, data.reg_lambda, n_threads)
    squared = loss == "squared_hinge"
    return StructuredProblem(data.examples, weights, data.reg_lambda, squared, n_threads)


def new_solver(
    problem: Any, loss: str, solver: str, *, tol: float, seed: int, sampling: str, **given: Any
) -> Any:
    """The solver of that name; ``given``: ``n_cached_outputs`` and the state that it ``kept``."""
    if solver in _TOGETHER:
        return OneSimplexSolver(problem, name=solver, tol=tol, **given)
    if loss == "log":
        return LBFGSSolver(problem, given["kept"])
    if solver == "excessive-gap":
        return MarginalGapSolver(problem, kept=given["kept"])
    if solver in _PRODUCTS:
        return SimplicialSolver(problem, variant=_PRODUCTS[solver], tol=tol, **given)
    acceleration = "auto" if solver == "auto" else "never"
    sampled = {"seed": seed, "sampling": sampling, "acceleration": acceleration}
    return BlockCoordinateSolver(problem, **sampled, tol=tol, **given)
