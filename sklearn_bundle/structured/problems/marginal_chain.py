"""Max-margin Markov networks on chains: the dual over marginals instead of labelings."""

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.chain._compiled.features import Chains
from sklearn_bundle.chain.model import values_of
from sklearn_bundle.core.certificate import Best, Rounding
from sklearn_bundle.core.parallel import row_blocks
from sklearn_bundle.structured._compiled import chain_marginals
from sklearn_bundle.structured.problems.structured import StructuredProblem, sum_of_features

Array = NDArray[np.float64]

# How far sums of marginals may differ after a projection, before they are repaired. The bound uses
# repaired marginals, so it holds for any value. The steps of the solver do not, and the excessive
# gap condition depends on them: at 0.1 it fails in most steps. How much smaller the value has to be
# was not measured.
PRECISION = 1e-10
_OTHERS = 8.0  # bounds the norms of a token's pairs and biases


class MarginalDual:
    """The dual of a structured hinge loss on chains, over marginals of neighboring labels.

    ``D(u) = sum_i s_i <l_i, u_i> - ||sum_i s_i (phi(x_i, y_i) - E_(u_i) phi(x_i, y))||^2 /
    (2 reg_lambda)``, where u_i has a distribution of the two labels of every edge of sequence i,
    and these agree on the label that they share: (31) of the appendix of Saha, Zhang and
    Vishwanathan (2010). On a chain such u_i are the marginals of a distribution of labelings, so
    that D is nowhere above the optimum of the :class:`StructuredProblem`. Distances are those of
    the prox-function ``1/2 sum_i s_i ||u_i||^2``: a weight 2 equals a repeated sequence.

    ``combined`` is the sum that is squared, followed by ``sum_i s_i <l_i, u_i>``.

    Parameters
    ----------
    problem : StructuredProblem
        Its examples are of a :class:`~sklearn_bundle.models.Chain`, with margin rescaling, and it
        is not squared.
    precision : float
        Of the projections.

    Attributes
    ----------
    projections, steps, projection_passes : int
        Number of sequences projected, of Newton steps for them, and of passes over their edges.
    defect : float
        Largest difference of sums of marginals before repairs.
    """

    def __init__(self, problem: StructuredProblem, precision: float = PRECISION):
        outputs = problem.examples.structure
        self.problem = problem
        self.projections = self.steps = self.projection_passes = 0
        self.defect = 0.0
        self._precision = precision
        self._chains, self._labels = outputs.chains, outputs.labels
        K, S = self._size = self._chains.n_labels, self._chains.width
        self._charges = outputs.costs.reshape(K, S)[self._labels].ravel()
        self._lengths = _lengths(self._chains, problem.weights)
        T = np.diff(self._chains.tokens)
        sizes = np.where(T > 1, (T - 1) * K * S, S)
        self._places = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
        n, length = problem.n_examples, int(self._places[-1])
        self._multipliers = np.full((2, (int(T.sum()) + n) * S), np.nan)
        self._bounds = row_blocks(length, n, problem.dimension)

    @property
    def passes(self) -> int:
        """Oracle calls over n, rounded down."""
        return self.problem.passes

    def origin(self) -> Array:
        """The true labels, where D and w are 0."""
        u = np.zeros(self._places[-1])
        chain_marginals.truth(self._chains.tokens, self._places, self._labels, *self._size, u)
        return u

    def combine(self, u: Array) -> Array:
        """The features that the marginals lack, and the loss."""
        K, S = self._size
        tokens, n_blocks = self._chains.tokens, len(self._bounds) - 1
        nodes = np.empty(tokens[-1] * S)
        parts = np.zeros((n_blocks, self.problem.dimension + 1))
        data = tokens, self._places, self._labels, self.problem.weights, self._charges, u, K, S

        def task(k: int) -> None:
            block, pairs = self._bounds[k : k + 2], np.zeros(K * S)
            parts[k, -1] = chain_marginals.differences(*data, *block, nodes, pairs)
            chain_marginals.combine(self._chains, nodes, pairs, *block, parts[k, :-1])

        self.problem.runner.run(task, n_blocks)
        return parts[0] if n_blocks == 1 else parts.sum(axis=0)

    def value(self, u: Array, combined: Array) -> float:
        """D(u)."""
        return float(combined[-1]) - 0.5 * self.bend(combined)

    def point(self, combined: Array) -> Array:
        """w(u)."""
        return combined[:-1] / self.problem.reg_lambda

    def blend(self, start: Array, end: Array, share: float) -> Array:
        """The w ``start + share (end - start)``."""
        return (1.0 - share) * start + share * end

    def offer(self, best: Best, point: Array) -> None:
        """Offer P at the point w: one pass of the oracle."""
        best.offer(self.objective(point), point)

    def objective(self, w: Array) -> float:
        """P at w."""
        squares = float(np.sum(w * w))
        return 0.5 * self.problem.reg_lambda * squares + self.problem.risk(self.problem.find(w))

    def bend(self, change: Array) -> float:
        """``-<v, D'' v>`` of a change of ``combined``."""
        return float(np.sum(change[:-1] * change[:-1])) / self.problem.reg_lambda

    def distance(self, u: Array, v: Array) -> float:
        """The squared distance in the prox-function."""
        return float(chain_marginals.squared_distance(self._places, self.problem.weights, u, v))

    def rounding(self, combined: Array) -> Rounding:
        """What rounding of the features that the marginals lack may add to D(u).

        Each sequence adds at most the features of its tokens, and subtracts as many of the truth.
        """
        length = float(np.sum(combined[:-1] * combined[:-1])) ** 0.5
        error = sum_of_features(self._chains.tokens[-1]) * 2.0 * self._lengths
        return Rounding(of_bound=error * (length + 0.5 * error) / self.problem.reg_lambda)

    def project(self, center: Array, point: Array, step: float, series: int) -> Array:
        """Marginals nearest to a step from the center along the gradient of D at w.

        They maximize ``sum_i s_i (<l_i + scores, u_i> - ||u_i - center_i||^2 / (2 step))``.
        """
        K, S = self._size
        chains, n_blocks = self._chains, len(self._bounds) - 1
        unary, out = self._charges.copy(), np.empty_like(center)
        nu = self._multipliers[series]
        at = chains.n_attributes * S
        pairs = point[at : at + K * S]
        counts = np.empty((n_blocks, 3))

        def task(k: int) -> None:
            block = self._bounds[k : k + 2]
            chain_marginals.add_scores(chains, point, *block, unary)
            data = chains.tokens, self._places, center, unary, pairs, step, K, S
            counts[k] = chain_marginals.project(*data, self._precision, *block, nu, out)

        self.problem.runner.run(task, n_blocks)
        steps, passes, _ = counts.sum(axis=0)
        self.projections += self.problem.n_examples
        self.steps += int(steps)
        self.projection_passes += int(passes)
        self.defect = max(self.defect, counts[:, 2].max())
        return out

    def feasible(self, u: Array) -> Array:
        """u with the rounding errors of its sums repaired."""
        u = u.copy()
        n = self.problem.n_examples
        chain_marginals.repair(self._chains.tokens, self._places, *self._size, 0, n, u)
        return u


def _lengths(chains: Chains, weights: Array) -> float:
    """The sum of the norms of the features of all tokens, with the weights of their sequences."""
    sequences = np.repeat(np.arange(len(weights)), np.diff(chains.entries))
    tokens = chains.tokens[sequences] + chains.places[:, 1]
    squares = np.bincount(tokens, values_of(chains).astype(np.float64) ** 2, chains.tokens[-1])
    return float(np.repeat(weights, np.diff(chains.tokens)) @ (np.sqrt(squares) + _OTHERS))
