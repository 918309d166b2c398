"""Structured outputs: examples bound to the hinge loss over all outputs, or to the likelihood."""

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.certificate import attained
from sklearn_bundle.core.contract import State
from sklearn_bundle.core.limits import DOUBLE, likely
from sklearn_bundle.core.parallel import BlockRunner, row_blocks
from sklearn_bundle.structured.models.examples import Examples, Expected, Found

Array = NDArray[np.float64]

_ROUNDING = 1e-14  # relative, of pairwise sums over examples or parameters: 90 roundings
_LARGEST = 700.0  # its exponential is finite: a bound may be useless, but is no NaN
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
    oracle_calls : int
        Number of examples that were visited.
    """

    nonnegative = True  # the risk is
    exact: bool

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


# ---- the logistic loss, the conditional likelihood -----------------------------------------------


class Tangent(NamedTuple):
    """The risk at a point and its gradient, with bounds on their rounding errors."""

    w: Array
    risk: float
    gradient: Array
    margin: float  # of the risk
    error: float  # of the gradient, in the 2-norm


class LikelihoodProblem(StructuredRisk):
    """``P(w) = reg_lambda/2 ||w||^2 + sum_i s_i (-log p(y_i|x_i; w))``.

    ``p(y|x; w)`` is proportional to ``exp <w, phi(x, y)>`` over all outputs y of x, so that the
    loss of an example is ``log sum_y exp <w, phi(x_i, y) - phi(x_i, y_i)>``. The risk R is convex
    and smooth, and its gradient at v is ``g = sum_i s_i (E_mu_i phi(x_i, y) - phi(x_i, y_i))`` with
    ``mu_i = p(.|x_i; v)``. The tangent plane there is ``<g, w> + sum_i s_i H(mu_i)`` with the
    entropy H, and its bound of P is the dual at the mu_i, ``sum_i s_i H(mu_i) - ||g||^2 / (2
    reg_lambda)``.

    Parameters
    ----------
    examples : Examples
        They must have a likelihood and no cone.
    weights : ndarray of shape (n_examples,)
        s_i, positive, of sum one.
    reg_lambda : float
    n_threads : int
        Threads of the passes over all examples; they do not change a bit of the result.
    """

    exact = True

    def __init__(self, examples: Examples, weights: Array, reg_lambda: float, n_threads: int = 1):
        super().__init__(examples, weights, reg_lambda, n_threads, examples.n_parameters)
        self.n_parameters = self.dimension
        terms = np.add.reduceat(examples.terms, self._bounds[:-1])
        self._depth = likely(float(terms.max() + len(terms) + 8))  # additions to an entry
        self._risk_of_zero: float | None = None

    def find(self, w: Array) -> Tangent:
        """A pass over all examples: the risk and its gradient at w."""
        found, gradient = self._sums(w)
        with np.errstate(over="ignore", invalid="ignore"):
            shifts = found.shifts + self.examples.errors(w)
            parts = found.losses, shifts, found.sizes
            risk, shift, size = (float(np.sum(self.weights * part)) for part in parts)
            # Log Z and the score shift by as much as any output, and their difference is rounded
            # once; each probability changes by a factor within exp(+-2 shift).
            factors = np.expm1(np.minimum(2.0 * shifts, _LARGEST))
            moved = float(np.sum(self.weights * factors * found.sizes))
        if not w.any():
            self._risk_of_zero = risk
        margin, error = 3.0 * shift + _ROUNDING * risk, moved + self._depth * DOUBLE * size
        return Tangent(w, risk, gradient, margin, error)

    def risk(self, found: Tangent) -> float:
        """R at the point of the pass."""
        return found.risk

    def plane(self, found: Tangent) -> tuple[Array, float]:
        """The tangent plane ``<gradient, w> + offset``, lowered by its rounding error.

        It is not above R at the minimizer of P, or at that with a larger reg_lambda, so its bound
        is a bound of P. The offset is an entropy, which is not negative; far away, where rounding
        leaves nothing of the gradient, it is minus infinity.
        """
        w = found.w
        risk_of_zero = self._risk_of_zero
        if risk_of_zero is None:
            risk_of_zero = self.find(np.zeros_like(w)).risk
        with np.errstate(over="ignore", invalid="ignore"):
            products = found.gradient * w
            squared = float(np.sum(w * w))
            # The minimizer is no farther from 0: its penalty alone is at most P(0) and P(w).
            known = min(risk_of_zero, 0.5 * self.reg_lambda * squared + found.risk)
            farthest = np.sqrt(2.0 * known / self.reg_lambda)
            margin = found.margin + _ROUNDING * (found.risk + float(np.sum(np.abs(products))))
            margin += found.error * (squared**0.5 + farthest)
            offset = found.risk - float(np.sum(products)) - margin
            lost = found.error * farthest  # marginals with large errors belong to no distribution
        return found.gradient, max(offset, -lost) if lost <= known else -np.inf

    def evaluate(self, w: Array) -> tuple[float, Array, float]:
        """P(w), its gradient, and the lower bound that follows from it.

        P is strongly convex: ``P >= P(w) - ||grad P(w)||^2 / (2 reg_lambda)``, which is the bound
        of the tangent plane, with less rounding near the minimizer.
        """
        found, reg_lambda = self.find(w), self.reg_lambda
        with np.errstate(over="ignore", invalid="ignore"):
            squared = float(np.sum(w * w))
            gradient = reg_lambda * w + found.gradient
            value = 0.5 * reg_lambda * squared + found.risk
            norm = float(np.sum(gradient * gradient)) ** 0.5 * (1.0 + _ROUNDING)
            norm += found.error + 4.0 * DOUBLE * reg_lambda * squared**0.5
            bound = value - norm * norm / (2.0 * reg_lambda)
        return value, gradient, bound - found.margin - _ROUNDING * value

    def _sums(self, w: Array) -> tuple[Expected, Array]:
        """The results of the examples, one after the other, and the sum of their gradients.

        Each block has a sum of its own, from zeros, and the sums are added in the order of the
        blocks, so the number of threads changes nothing.
        """
        bounds, count = self._bounds, len(self._bounds) - 1
        at_a_time = min(count, self.runner.n_threads)
        works = [np.zeros(self.dimension) for _ in range(at_a_time)]
        parts: list = [None] * count

        def task(k: int) -> None:
            first, last = int(bounds[k]), int(bounds[k + 1])
            work, weights = works[k % at_a_time], self.weights[first:last]
            parts[k] = self.examples.expect(w, first, last, weights, work)

        gradient = np.zeros(self.dimension)
        for first in range(0, count, at_a_time):
            used = min(at_a_time, count - first)
            self.runner.run(lambda k, first=first: task(first + k), used)
            for work in works[:used]:
                gradient += work
                work[:] = 0.0
        self.oracle_calls += self.n_examples
        return Expected(*(np.concatenate(part) for part in zip(*parts, strict=True))), gradient
