"""Structured outputs: examples bound to the hinge loss over all outputs, and its dual."""

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.certificate import attained
from sklearn_bundle.core.contract import State
from sklearn_bundle.core.limits import DOUBLE
from sklearn_bundle.core.parallel import BlockRunner, row_blocks
from sklearn_bundle.structured.models.examples import Examples, Found

Array = NDArray[np.float64]

_ADDED = 16.0  # roundings of a sum of features beside the root of the number of examples


def not_exact(where: str) -> ValueError:
    """The error for an oracle that is declared exact but missed an output."""
    return ValueError(
        f"The inference of the model is declared exact, but {where} it missed an output with a "
        "higher score that it had found before: loss_augmented_inference (or "
        "slack_rescaled_inference) must find the highest; if it cannot, set exact = False."
    )


def sum_of_features(n_examples: int) -> float:
    """Rounding of a sum of features over examples, relative to the sum of their lengths.

    The roundings add up like the steps of a random walk, a few per output.
    """
    return DOUBLE * (n_examples**0.5 + _ADDED)


class StructuredRisk(ABC):
    """``P(w) = reg_lambda/2 ||w||^2 + R(w)``, where R is a weighted sum of losses of structures.

    This is what cutting planes need, whatever the losses are: the result of a pass over all
    examples at a point, and the risk and the plane that follow from it.

    Parameters
    ----------
    examples : Examples
    weights : ndarray of shape (n_examples,)
        s_i, positive, of sum one.
    reg_lambda : float
    n_threads : int
        Threads of the passes over all examples; they do not change a bit of the result.
    n_columns : int
        Numbers in the result of each block of examples.

    Attributes
    ----------
    exact : bool
        Whether a pass is certain to find the worst outputs.
    any_lambda : bool
        Whether planes bound R with every reg_lambda; if not, only with the same and larger ones.
    oracle_calls : int
        Number of examples that were visited.
    """

    nonnegative = True  # the risk is
    exact: bool
    any_lambda = True

    def __init__(
        self, examples: Examples, weights: Array, reg_lambda: float, n_threads: int, n_columns: int
    ):
        self.examples = examples
        self.weights = weights
        self.reg_lambda = float(reg_lambda)
        self.dimension = examples.n_parameters
        self.n_examples = examples.n_examples
        self.oracle_calls = 0
        self.runner = BlockRunner(n_threads)
        self._bounds = row_blocks(examples.n_entries, examples.n_examples, n_columns)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.runner.__exit__(*exception)

    @property
    def passes(self) -> int:
        """Oracle calls over n, rounded down."""
        return self.oracle_calls // self.n_examples

    @abstractmethod
    def find(self, w: Array) -> Any:
        """A pass over all examples at w."""

    @abstractmethod
    def risk(self, found: Any) -> float:
        """R at the point of the pass."""

    @abstractmethod
    def plane(self, found: Any) -> tuple[Array, float]:
        """A plane ``<gradient, w> + offset`` that is nowhere above R and touches it there."""

    def of_plane(self, found: Any) -> float:
        """Bound on the rounding, in the 2-norm, of a gradient that :meth:`plane` does not cover."""
        return 0.0

    def objective_error(self, w: Array, objective: float) -> float:
        """By how much the objective at w may be too low if bounds do not cover it already."""
        return 0.0

    def with_errors(self, state: State) -> State:
        """The state with its scores only as certain as rounding leaves them.

        See :func:`~.certificate.attained`.
        """
        excess = self.objective_error(state.point, state.primal)
        primal, bound = attained(state.primal, excess, state.lower_bound)
        return replace(state, primal=primal, lower_bound=bound)


class StructuredProblem(StructuredRisk):
    """``P(w) = reg_lambda/2 ||w||^2 + R(w)`` over w, with some entries not negative.

    ``R(w) = sum_i s_i H_i(w)``, and with ``squared`` ``sum_i s_i H_i(w)^2 / 2``, where ``H_i(w) =
    max_y [l_i(y) - <w, psi_i(y)>]`` is not negative, since the true output has 0. A dual point has
    weights q_i(y) >= 0, which sum to one for each i: ``w = [1/reg_lambda sum_i s_i sum_y q_i(y)
    psi_i(y)]``, negative entries of the cone set to 0, and ``D = sum_i s_i sum_y q_i(y) l_i(y) -
    reg_lambda/2 ||w||^2``. With ``squared`` the sum of each q_i is free, and ``sum_i s_i
    (sum_y q_i(y))^2 / 2`` is subtracted from D.

    Parameters
    ----------
    examples, weights, reg_lambda, n_threads
        See :class:`StructuredRisk`.
    squared : bool
    """

    def __init__(
        self,
        examples: Examples,
        weights: Array,
        reg_lambda: float,
        squared: bool = False,
        n_threads: int = 1,
    ):
        super().__init__(examples, weights, reg_lambda, n_threads, 1)
        self.squared = squared
        self.cone = examples.nonnegative
        self.exact = examples.exact

    def find(self, w: Array) -> list[tuple[int, Found]]:
        """Make a pass of the oracle; returns per block its first example and what was found."""
        bounds = self._bounds
        found: list = [None] * (len(bounds) - 1)

        def task(k: int) -> None:
            found[k] = int(bounds[k]), self.examples.find(w, int(bounds[k]), int(bounds[k + 1]))

        self.runner.run(task, len(found))
        self.oracle_calls += self.n_examples
        return found

    def risk(self, found: list[tuple[int, Found]]) -> float:
        """R where the outputs were found, or an upper bound of it, if the examples have one."""
        scores = np.concatenate([part.scores for _, part in found])
        bounds = np.concatenate([part.bounds for _, part in found])
        return self.risk_of(scores, bounds, scores)

    def risk_of(self, scores: Array, bounds: Array, highest: Array) -> float:
        """The same from the scores of the oracle's outputs, and bounds of those of all."""
        scores = bounds if np.isfinite(bounds).all() else scores
        return float(np.sum(self.weights * (0.5 * scores * scores if self.squared else scores)))

    def name_of(self, i: int) -> str:
        """An example, for errors."""
        return f"for example {i}"

    def objective_error(self, w: Array, objective: float) -> float:
        """By how much the objective at w may be higher than it was computed to be.

        Scores H_i may be higher by errors e_i. With ``squared`` they add ``sum_i s_i (H_i e_i +
        e_i^2 / 2)``, where the first part is at most the root of ``2 R sum_i s_i e_i^2``.
        """
        errors = self.examples.errors(w)
        if not self.squared:
            return float(self.weights @ errors)
        risk = max(objective - 0.5 * self.reg_lambda * float(w @ w), 0.0)
        squares = float(self.weights @ errors**2)
        return (2.0 * risk * squares) ** 0.5 + 0.5 * squares

    def of_plane(self, found: list[tuple[int, Found]]) -> float:
        """Bound on the rounding of the gradient of :meth:`plane`, in the 2-norm."""
        size = 0.0
        for first, part in found:
            squares = np.concatenate([np.zeros(1), np.cumsum(part.values * part.values)])
            lengths = np.sqrt(np.maximum(np.diff(squares[part.starts]), 0.0))
            size += float(self._factors(first, part) @ lengths)
        return sum_of_features(self.n_examples) * size

    def plane(self, found: list[tuple[int, Found]]) -> tuple[Array, float]:
        """A plane ``<gradient, w> + offset`` that is nowhere above R, from any outputs.

        It touches R at the point for which the worst outputs were found. The offset is a sum over
        losses: the difference of risk and product would be all rounding if w is far away.
        """
        gradient, offset = np.zeros(self.dimension), 0.0
        for first, part in found:
            factors = self._factors(first, part)
            if self.squared:
                offset -= float(np.sum(factors * part.scores)) / 2.0
            offset += float(np.sum(factors * part.losses))
            repeated = np.repeat(factors, np.diff(part.starts))
            gradient -= np.bincount(part.indices, repeated * part.values, self.dimension)
        return gradient, offset

    def _factors(self, first: int, part: Found) -> Array:
        """Factors of the outputs in the gradient: weights, with ``squared`` times scores."""
        factors = self.weights[first : first + len(part.losses)]
        return factors * part.scores if self.squared else factors
