"""The excessive gap technique for Markov networks of chains."""

from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.certificate import Best
from sklearn_bundle.core.contract import ABSENT, State
from sklearn_bundle.core.limits import DOUBLE, ROUNDING, TINY, likely
from sklearn_bundle.structured.models.examples import Examples, Expected
from sklearn_bundle.structured.problems.structured import LikelihoodProblem, StructuredProblem

Array = NDArray[np.float64]

PATIENCE = 1000  # steps in a row that change nothing: then only rounding is left
_ROUNDING = 1e-14  # of the terms of the bound


class WithLosses(Examples):
    """Chains whose labelings have their loss as a further feature, for sums over all of them."""

    likelihood = True

    def __init__(self, examples: Examples):
        self._examples, self.terms = examples, examples.terms
        self.n_examples, self.n_entries = examples.n_examples, examples.n_entries
        self.n_parameters = examples.n_parameters + 1
        chains, costs = examples.structure.chains, examples.structure.costs
        self._most = float(costs.max()) * np.diff(chains.tokens)

    def find(self, w: Array, first: int, last: int) -> Any:
        """Not needed."""
        raise NotImplementedError

    def errors(self, w: Array) -> Array:
        """How far rounding may move the score of any labeling at w, for each example."""
        of_losses = 8.0 * DOUBLE * abs(w[-1]) * self._most * likely(self.terms + 8.0)
        return self._examples.errors(w[:-1]) + of_losses

    def expect(self, w: Array, first: int, last: int, weights: Array, gradient: Array) -> Expected:
        """Of labelings in proportion to the exponentials of their scores and losses."""
        found = self._examples.expect(w, first, last, weights, gradient)
        return found._replace(sizes=found.sizes + 2.0 * self._most[first:last])


class Mixture(NamedTuple):
    """A distribution of labelings of each chain, as it enters the dual."""

    features: Array  # expected less true ones
    loss: float  # expected
    error: float  # bounds the rounding of both, in the 2-norm

    def blend(self, other: "Mixture", share: float) -> "Mixture":
        """A mixture of the two, in which the other one has this share."""
        features = (1.0 - share) * self.features + share * other.features
        loss = (1.0 - share) * self.loss + share * other.loss
        return Mixture(features, loss, max(self.error, other.error))


class MarginalGapSolver:
    """The excessive gap technique over marginals of chains, with the entropy as prox-function.

    These are max-margin Markov networks: appendix E of Saha, Zhang and Vishwanathan (2010). The
    dual is ``D(u) = sum_i s_i E l_i - ||sum_i s_i (E phi(x_i, y) - phi(x_i, y_i))||^2 /
    (2 reg_lambda)``, with expectations over a distribution u_i of the labelings of chain i. Steps
    from a distribution in proportion to ``exp <v, (phi, l)>`` lead to another one of this form:
    projections are marginals at v, and v is all that is kept of them. Steps are those of
    Auslender and Teboulle (2006), with an L that is tested along each of them: w is the mean of
    their points, and the gap falls as the square of their number.

    Parameters
    ----------
    problem : StructuredProblem
        Its examples are of a :class:`~sklearn_bundle.models.Chain`, with margin rescaling, and it
        is not squared.
    kept : tuple
        :attr:`kept` of a solver of the same problem; reg_lambda may differ.
    """

    name = "excessive-gap"
    history_fields: ClassVar[tuple] = (("oracle_calls", np.int64), ("projections", np.int64))

    def __init__(self, problem: StructuredProblem, *, kept: Any = None):
        self.attach(problem)
        self._best, self._idle = Best(least=0.0), 0  # losses are nonnegative
        self._v = np.zeros(problem.dimension + 1) if kept is None else kept[0]
        self._log_z, self._z = self._at(self._v)
        self._L, self._share, self._w = 0.0, 1.0, self._point(self._z)
        self._u = self._z if kept is None else kept[1]
        self._raise(self._u)

    @property
    def kept(self) -> tuple[Array, Mixture]:
        """Where a new solver may start."""
        return self._v, self._u

    def attach(self, problem: StructuredProblem) -> None:
        """Continue with the same problem in another object."""
        examples, self._problem = WithLosses(problem.examples), problem
        self._sums = LikelihoodProblem(examples, problem.weights, problem.reg_lambda)
        self._sums.runner = problem.runner

    def detach(self) -> None:
        """Release the problem."""
        self._problem = self._sums = ABSENT

    def states(self) -> Iterator[State]:
        """One state per step; they end when rounding leaves nothing to gain."""
        while self._idle < PATIENCE:
            before = self._best.primal, self._best.bound
            self._step()
            changed = before != (self._best.primal, self._best.bound)
            self._idle = 0 if changed else self._idle + 1
            yield self._state()

    def confirm(self, *, moving: bool = True) -> State:
        """The best point and bound."""
        if self._best.point is None:
            self._offer(self._w)
        return self._state()

    def _step(self) -> None:
        reg_lambda, share = self._problem.reg_lambda, self._share
        middle = self._u.blend(self._z, share)
        w = self._point(middle)
        while True:
            step = np.append(w, 1.0) / (share * self._L) if self._L > 0.0 else np.append(w, 1.0)
            log_z, z = self._at(self._v + step)
            change = z.features - self._z.features
            bend = 0.5 * float(change @ change) / reg_lambda
            # the Kullback-Leibler divergence of the marginals from those before
            divergence = self._log_z - log_z + float(step[:-1] @ z.features) + step[-1] * z.loss
            if self._L > 0.0 and not bend > self._L * max(divergence, 0.0) * (1.0 + 1e-9):
                break
            if bend <= ROUNDING * float(z.features @ z.features) / reg_lambda:
                self._L = self._L or 1.0
                break
            self._L = max(1.5 * self._L, bend / max(divergence, TINY) if self._L == 0.0 else 0.0)
        self._v, self._log_z, self._z = self._v + step, log_z, z
        self._u = self._u.blend(z, share)
        self._w = (1.0 - share) * self._w + share * w
        self._raise(self._u)
        self._offer(self._w)
        q = share * share * self._L
        self._L *= 0.9  # so that it follows a decreasing curvature
        q /= self._L
        self._share = 0.5 * (np.sqrt(q * q + 4.0 * q) - q)

    def _at(self, v: Array) -> tuple[float, Mixture]:
        """The mean logarithm of the sum of ``exp <v, (phi, l)>`` relative to the truth, and u."""
        found = self._sums.find(v)
        gradient = found.gradient
        return found.risk, Mixture(gradient[:-1], float(gradient[-1]), found.error)

    def _point(self, u: Mixture) -> Array:
        """w(u)."""
        return -u.features / self._problem.reg_lambda

    def _value(self, u: Mixture) -> float:
        return u.loss - 0.5 * float(u.features @ u.features) / self._problem.reg_lambda

    def _offer(self, w: Array) -> None:
        """Offer P at w: one pass of the oracle."""
        problem = self._problem
        risk = problem.risk(problem.find(w))
        self._best.offer(0.5 * problem.reg_lambda * float(w @ w) + risk, w)

    def _raise(self, u: Mixture) -> None:
        """Raise the bound to D(u)."""
        reg_lambda, best = self._problem.reg_lambda, self._best
        length = float(u.features @ u.features) ** 0.5 / reg_lambda
        rounding = u.error * (1.0 + length + 0.5 * u.error / reg_lambda)
        terms = u.loss + 0.5 * reg_lambda * length * length
        best.raise_bound(self._value(u) - rounding - _ROUNDING * terms)

    def _state(self) -> State:
        problem, w = self._problem, self._best.point
        counts = problem.oracle_calls, self._sums.oracle_calls
        return problem.with_errors(self._best.state(w, None, problem.passes, None, counts))
