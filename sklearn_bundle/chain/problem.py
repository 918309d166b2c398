"""Sequences bound to a linear-chain conditional random field, and its certificates."""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sklearn_bundle.chain._compiled.sdca import Marginals, visit_marginals
from sklearn_bundle.chain._compiled.visit import GAPS, GRADIENT, STEPS, Potentials, visit
from sklearn_bundle.chain.model import pack, token_numbers
from sklearn_bundle.core.certificate import ScoreRounding, column_counts
from sklearn_bundle.core.limits import DOUBLE, likely
from sklearn_bundle.core.parallel import BlockRunner
from sklearn_bundle.core.validation import squared_lengths
from sklearn_bundle.jit.vector import WIDTH

Array = NDArray[np.float64]
Blocks = Potentials | Marginals

_BIASES = 3  # per token: for its label at any, the first and the last position
_FEW = 24.0  # roundings of a step of the recursion, beside those of a sum over labels
_PAIRS = 2.0  # a bound of the norm of a token's pairs
_NARROW = 1e-6  # of the scale of a dual point: the bound is lower by about the square


class ElasticPenalty(NamedTuple):
    """``Omega(w) = l1 ||w||_1 + ridge/2 ||w||^2``, and what is known of its conjugate.

    ``Omega*(v) = sum_j max(|v_j| - l1, 0)^2 / (2 ridge)``; without ridge it is 0 where ``|v_j| <=
    l1`` for all j, and infinity elsewhere.
    """

    l1: float
    ridge: float

    def value(self, w: Array) -> float:
        """Omega of w."""
        value = 0.5 * self.ridge * float(w @ w)
        return value + self.l1 * float(np.sum(np.abs(w))) if self.l1 else value

    def bound(self, v: Array, entropy: float, error: float = 0.0) -> tuple[float, float, float]:
        """The largest ``s entropy - Omega*(s v)`` for s in [0, 1], s, and what an error costs.

        ``error`` bounds the error of v. Its cost is that in the 2-norm; without ridge s allows for
        it.
        """
        sizes = np.abs(v)
        sizes = sizes[sizes > self.l1 - error]
        s = self._scale(sizes, entropy, error)
        if not self.ridge:
            return s * entropy, s, 0.0
        above = np.maximum(s * sizes - self.l1, 0.0)
        whole = float(np.sum(above * above)) ** 0.5
        cost = (whole + 0.5 * s * error) * s * error / self.ridge
        return s * entropy - 0.5 * whole * (whole / self.ridge), s, cost

    def _scale(self, sizes: Array, entropy: float, error: float) -> float:
        """By halving a range on a logarithmic scale, from what costs nothing up to 1."""
        if not self.l1 or not len(sizes):
            return 1.0
        low, s = min(1.0, self.l1 / (float(sizes.max()) + error)), 1.0
        if not self.ridge:
            return low
        high = np.inf
        while high > (1.0 + _NARROW) * low > 0.0:
            beyond = np.maximum(s * sizes - self.l1, 0.0)
            low, high = (s, min(high, 1.0)) if entropy * self.ridge > beyond @ sizes else (low, s)
            s = (low * high) ** 0.5
        return low


class Check(NamedTuple):
    """What a pass over all sequences says of w and a dual point, rounding taken off."""

    primal: float  # P(w)
    bound: float
    gaps: Array  # of the blocks
    features: Array  # sum_i s_i (true minus expected features)
    away: Any  # the gradient reg_lambda w - features, without L1; None for given blocks
    entropy: float


class ChainProblem:
    """``P(w) = reg_lambda Omega(w) + sum_i s_i (-log p(y_i|x_i; w))``, and its dual.

    ``Omega(w) = l1_ratio ||w||_1 + (1 - l1_ratio)/2 ||w||^2``. The dual variables are a
    distribution mu_i of the labelings of each sequence, with ``v = sum_i s_i (F(x_i, y_i) - E_mu_i
    F(x_i, .))``, and ``D(mu) = sum_i s_i H(mu_i) - (reg_lambda Omega)*(v)``. Without L1, for all
    w::

        D(mu) = P(w) - sum_i s_i KL(mu_i || p(.|x_i; w)) - ||reg_lambda w - v||^2 / (2 reg_lambda)

    Parameters
    ----------
    data : TrainingSequences
    reg_lambda : float
    params : SDCACRF
        Its ``l1_ratio``, and its ``fit_intercept``: whether labels have biases at any, the first
        and the last position.
    n_threads : int
    """

    def __init__(self, data: Any, reg_lambda: float, params: Any, n_threads: int):
        X, lengths, self.weights = data.X, data.lengths, data.weights
        self.chains = pack(X, lengths, len(data.classes), params.fit_intercept, data.bars)
        self.labels, self._lengths = np.ascontiguousarray(data.labels, np.int64), lengths
        self.reg_lambda, self.l1_ratio = float(reg_lambda), float(params.l1_ratio)
        self.n_sequences = len(lengths)
        self.n_parameters = (X.shape[1] + self.chains.width + 3) * self.chains.width
        self.density = X.nnz / (X.shape[0] * X.shape[1])
        self._runner = BlockRunner(n_threads)
        self._bounds = np.linspace(0, self.n_sequences, n_threads + 1).astype(np.int64)
        self._rounding = _Rounding(X, self.chains, lengths)

    def __enter__(self) -> "ChainProblem":
        return self

    def __exit__(self, *exception: object) -> None:
        self._runner.__exit__(*exception)

    @property
    def penalty(self) -> ElasticPenalty:
        """``reg_lambda Omega``."""
        l1, ridge = self.reg_lambda * self.l1_ratio, self.reg_lambda * (1.0 - self.l1_ratio)
        return ElasticPenalty(l1, ridge)

    def start(self, potentials: bool) -> Blocks:
        """A dual point with the true labels alone; nearly so with potentials, which are finite.

        With these the share of all others falls with the number of tokens, since w grows with
        their product.
        """
        n, K, S, lengths = len(self.labels), self.chains.n_labels, self.chains.width, self._lengths
        if potentials:
            nodes = np.zeros((n, S))
            nodes[np.arange(n), self.labels] = np.log1p(K * (max(n, 100) - 1.0))
            several = (lengths > 1).astype(np.int64)
            pairs = np.zeros(int(several.sum()) * S * S)
            return Potentials(np.cumsum(several) - several, nodes.ravel(), pairs)
        sizes = lengths * K + (lengths - 1) * K * K
        at = np.concatenate([np.zeros(1, np.int64), np.cumsum(-(-sizes // WIDTH) * WIDTH)])
        cells, first, place = np.zeros(at[-1]), np.repeat(at[:-1], lengths), token_numbers(lengths)
        cells[first + place * K + self.labels] = 1.0
        rows = np.repeat(lengths, lengths) + (place - 1) * K + np.roll(self.labels, 1)
        cells[(first + rows * K + self.labels)[place > 0]] = 1.0  # pairs, by the label before
        return Marginals(at, cells)

    def steps(
        self, blocks: Blocks, order: NDArray[np.int64], kappa: float, w, raw, gaps, memory
    ) -> int:
        """Steps of the dual method that belongs to the blocks, at sequences in this order.

        With ``kappa`` they are those of the problem with a proximal term ``kappa/2 ||w - z||^2``,
        and w is its point. Without L1, ``raw`` is w; with it, the entries of w are those of ``raw``
        moved towards 0. Returns how often marginals were computed.
        """
        penalty = self.penalty
        strength = penalty.ridge + kappa
        unused, point = np.empty(self.n_sequences), (strength, w, raw, penalty.l1 / strength)
        results = unused, gaps, *(unused,) * 4
        return self._visit(STEPS, blocks, point, order, memory, results, w)

    def evaluate(self, w: Array) -> tuple[float, Array, float]:
        """P(w), its gradient, and the lower bound (8) that follows from it; for ``l1_ratio`` 0."""
        found = self.check(w)
        return found.primal, found.away, found.bound

    def check(self, w: Array, blocks: Blocks | None = None) -> Check:
        """P(w), and the lower bound of a dual point; None is that of the distributions of w."""
        task, blocks = (GRADIENT, _NO_BLOCKS) if blocks is None else (GAPS, blocks)
        results, bounds = np.zeros((6, self.n_sequences)), self._bounds
        parts = [np.zeros(self.n_parameters) for _ in bounds[1:]]

        def visit_part(k: int) -> None:
            order, point = np.arange(bounds[k], bounds[k + 1]), (1.0, w, w, 0.0)
            self._visit(task, blocks, point, order, results[0], tuple(results), parts[k])

        self._runner.run(visit_part, len(parts))
        features = parts[0]
        for part in parts[1:]:
            features += part
        return self._certified(w, results, features, of_blocks=task == GAPS)

    def _visit(self, task, blocks, point, order, memory, results, target) -> int:
        compiled = visit if isinstance(blocks, Potentials) else visit_marginals
        common = self.chains, self.labels, self.weights, blocks
        return compiled(task, *common, point, order, memory, results, target)

    def _certified(self, w: Array, results: Array, features: Array, *, of_blocks: bool) -> Check:
        """Objective and bound of a pass: the only place where they are computed.

        Rounding moves the log-weight of any labeling by at most a_i at w, and b_i in the block, see
        :class:`_Rounding`. Log Z and the score of the true labels err by as much, and an entropy or
        a divergence g by ``b_i (1 + 2 g)`` and a few more of both: with the error as a change of
        potentials, the change of ``<theta, mu>`` is a covariance with log p, at most ``2 b_i E|log
        p - E log p|``. Features are those of the blocks, or of w itself.
        """
        losses, gaps, entropies, sizes, own_sizes, others = results
        penalty, weights = self.penalty, self.weights
        with np.errstate(over="ignore", invalid="ignore"):
            paths = self._rounding.of_paths(sizes) + self._rounding.of_scores(w)
            own = self._rounding.of_paths(own_sizes) if of_blocks else paths
            error = self._rounding.of_features(own, others, weights)
            value = penalty.value(w)
            primal = value + float(np.sum(weights * losses))
            entropy = float(np.sum(weights * entropies))
            terms = 4.0 * paths + own * (4.0 + 4.0 * (gaps + entropies))
            margin = float(np.sum(weights * terms)) + self._rounding.of_sums * (primal + entropy)
            away = features
            if self.l1_ratio:
                bound, s, cost = penalty.bound(features, entropy, error)
                bound -= s * margin + cost
            else:
                away = penalty.ridge * w
                norm = error + 2.0 * DOUBLE * float(away @ away) ** 0.5
                away -= features
                norm += float(away @ away) ** 0.5 * (1.0 + self._rounding.of_sums)
                bound = primal - float(np.sum(weights * gaps)) - margin
                bound -= norm * (norm / (2.0 * penalty.ridge))
        bound = bound if bound > -np.inf else -np.inf
        return Check(primal, bound, gaps, features, None if of_blocks else away, entropy)

    def squared_norms(self) -> Array:
        """The mean of the squared norms of its tokens for each sequence."""
        squares = np.square(self._rounding.norms - _PAIRS) - _BIASES
        return np.add.reduceat(squares, self.chains.tokens[:-1]) / self._lengths

    def radii(self) -> Array:
        """Bounds of the largest ``||F(x_i, y_i) - F(x_i, y)||^2`` of each sequence."""
        return np.square(2.0 * np.add.reduceat(self._rounding.norms, self.chains.tokens[:-1]))


_NO_BLOCKS = Potentials(np.empty(0, np.int64), np.empty(0), np.empty(0))


class _Rounding:
    """A-priori bounds of what rounding moves: numbers of terms times sums of absolute values.

    A labeling's log-weight has T steps of K terms and a few operations, each with an error
    relative to one, a sum of T scores, and the errors of the scores themselves, which
    :class:`~.ScoreRounding` bounds. m terms count as m roundings, or as 8 times the root.
    """

    def __init__(self, X: sp.csr_array, chains: Any, lengths: NDArray[np.int64]):
        n, K, S = X.shape[1], chains.n_labels, chains.width

        def split(w: Array) -> tuple[Array, Array]:
            return w[: n * S].reshape(n, S), w[n * S :]

        self.of_scores = ScoreRounding(X, chains.tokens, split, 1, _BIASES + 1).of
        self._lengths = lengths
        self._steps = DOUBLE * 2.0 * likely(lengths * (K + _FEW))
        self._terms = DOUBLE * likely(lengths + _FEW)
        self.norms = np.sqrt(squared_lengths(X) + _BIASES) + _PAIRS
        self._largest = np.maximum.reduceat(self.norms, chains.tokens[:-1])
        depth = max(column_counts(X).max(initial=0), int(lengths.sum()))
        self._depth = 2.0 * DOUBLE * likely(float(depth))
        self.of_sums = DOUBLE * likely(float(max(len(lengths), (n + S + 3) * S)))

    def of_paths(self, sizes: Array) -> Array:
        """Of the recursion for each sequence, from the size of all scores of a labeling."""
        return self._steps + self._terms * sizes

    def of_features(self, paths: Array, others: Array, weights: Array) -> float:
        """In the 2-norm, of the sum of features; tokens have other labels with these odds.

        Odds err by the factor ``exp(2 a_i)``, the difference to the truth by a few roundings.
        """
        odds = others * (2.0 * np.expm1(np.minimum(2.0 * paths, 700.0)) + self._depth)
        return float(np.sum(weights * self._largest * (odds + 8.0 * DOUBLE * self._lengths)))
