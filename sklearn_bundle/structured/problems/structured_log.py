"""Structured outputs: examples bound to the logistic loss, the conditional likelihood."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.limits import DOUBLE, likely
from sklearn_bundle.structured.models.examples import Examples, Expected
from sklearn_bundle.structured.problems.structured import StructuredRisk

Array = NDArray[np.float64]

_ROUNDING = 1e-14  # relative, of pairwise sums over examples or parameters: 90 roundings
_LARGEST = 700.0  # its exponential is finite: a bound may be useless, but is no NaN


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
    any_lambda = False

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
