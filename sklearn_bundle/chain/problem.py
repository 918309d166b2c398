"""Sequences bound to a linear-chain conditional random field, with bounds on rounding."""

from math import log
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sklearn_bundle.chain._compiled import chain_dual, chain_steps
from sklearn_bundle.chain._compiled.chain_dual import (
    GAPS,
    GRADIENT,
    WEIGHTS,
    Blocks,
    Marginals,
    Potentials,
)
from sklearn_bundle.chain._compiled.forward_backward import BLOCK, STRIDE
from sklearn_bundle.chain.model import pack, padded, unpacked
from sklearn_bundle.chain.penalty import ElasticPenalty
from sklearn_bundle.core.limits import DOUBLE
from sklearn_bundle.core.parallel import BlockRunner, row_blocks
from sklearn_bundle.core.score_rounding import RowSizes, column_counts
from sklearn_bundle.jit.sampling import Sampling

_BIASES = 3  # per token: for its label at any, the first and the last position
_OTHERS = 8.0  # bounds the norms of a token's pairs and biases, see chain_rounding.py
_ENTRIES = 65_536  # of w, whose squares are summed at a time: 512 kB, which stay in the cache
# For sweeps that read no dual point, and for those that write no vector. The types are those of
# the default solver: a sweep is compiled for them in any case.
_NO_BLOCKS = Potentials(np.empty(0, np.int64), np.empty(0, np.float32), np.empty(0, np.float32))
_NOTHING = np.empty(0)
_ROUNDING = 1e-14  # of sums in pairs over sequences or parameters, relative: 90 roundings
# Share of the last change between values that is added for the next start. The full change takes
# the fewest epochs at a tol of 1e-3, but at 1e-2 it doubles the error of the last fit.
_SHARE = 0.7
# The largest ratio of neighboring values at which the extrapolated start is near enough for plain
# steps. At 2.7 and 1.4 they took half to nine tenths of the time of accelerated ones, at 10 and 31
# up to 1.7 times (CoNLL-2000, Dutch names, UD EWT; c2 from 5 to .005).
_NEAREST = 5.0


class ChainRounding:
    """Sizes of the features, from which bounds on rounding follow.

    A score is the sum of m products and biases. Its error is ``(m + 4) u sum |x_j w_j|``, which is
    at most ``(m + 4) u ||x / c|| ||c w||`` for any c > 0. With c the root mean squares of the
    columns, the bound does not depend on their scales.

    Parameters
    ----------
    X : CSR of shape (n_tokens, n_attributes)
    lengths : ndarray of int64 of shape (n_sequences,)
    width : int
        Entries of a row of w.

    Attributes
    ----------
    norms : ndarray of shape (n_tokens,)
        Norms of the features of each token, its pairs and biases included.
    depth : float
        Number of terms in an entry of a sum of features over all sequences.
    of_gains : float
        Error of a step's gain, relative to the numbers whose difference it is: twice the share of a
        position in chain_rounding.py.
    """

    def __init__(self, X: sp.csr_array, lengths: NDArray[np.int64], width: int):
        sizes = RowSizes.of(X)
        self._largest = sizes.largest
        self._scales = np.concatenate([sizes.scales**2, np.zeros(width)])
        self._width = width
        reach = (sizes.entries + _BIASES + 1.0) * np.sqrt(sizes.lengths**2 + _BIASES)
        self._reach = DOUBLE * np.add.reduceat(reach, np.cumsum(lengths) - lengths)
        self.norms = sizes.norms + _OTHERS
        counts = column_counts(X)
        longest, n_sequences = lengths.max(), len(lengths)
        self.depth = float(max(counts.max(initial=0), longest + n_sequences))
        passed_on = STRIDE * (width + 24.0) + BLOCK + longest / BLOCK
        self.of_gains = 2.0 * DOUBLE * (passed_on + 80.0)

    def of(self, w: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """``||w||^2``, and the error of each sequence's scores at w, summed over tokens."""
        rows, step = w.reshape(-1, self._width), max(1, _ENTRIES // self._width)
        n = len(self._scales)
        parts, by_label = [], np.zeros(self._width)
        with np.errstate(over="ignore", invalid="ignore"):
            for first in range(0, len(rows), step):
                squares = np.square(rows[first : first + step])
                parts.append(squares.sum())
                if first < n:
                    by_label += self._scales[first : first + step] @ squares[: n - first]
            biases = np.square(rows[n:]).sum(axis=0)
            sizes = np.hypot(self._largest * np.sqrt(by_label), np.sqrt(biases))
            return float(np.sum(parts)), self._reach * sizes.max()


class ChainProblem:
    """``P(w) = reg_lambda Omega(w) + sum_i s_i (-log p(y_i|x_i; w))``, and its dual.

    ``Omega(w) = l1_ratio ||w||_1 + (1 - l1_ratio)/2 ||w||^2``. The dual variables are a
    distribution mu_i of the labelings of each sequence, ``D(mu) = sum_i s_i H(mu_i) - reg_lambda
    Omega*(r)`` at the raw weights ``r = 1/reg_lambda sum_i s_i (F(x_i, y_i) - E_mu_i F(x_i, .))``,
    and ``P(w) - D(mu) = sum_i s_i KL(mu_i || p(.|x_i; w))`` at the w that maximizes
    ``<w, r> - Omega(w)``: r itself without L1.

    Parameters
    ----------
    X : CSR of shape (n_tokens, n_attributes)
    lengths : ndarray of int64 of shape (n_sequences,)
    labels : ndarray of shape (n_tokens,)
    n_labels : int
    weights : ndarray of shape (n_sequences,)
        s_i, positive, of sum one.
    reg_lambda : float
    intercept : bool
        Whether labels have biases at any, the first and the last position.
    n_threads : int
    l1_ratio : float
        From 0 to 1.
    overwrite : bool
        Whether the memory of X may be used, which loses X.
    """

    def __init__(
        self,
        X,
        lengths,
        labels,
        n_labels,
        weights,
        reg_lambda,
        intercept,
        n_threads,
        l1_ratio=0.0,
        *,
        overwrite=False,
    ):
        self._rounding = ChainRounding(X, lengths, padded(n_labels))
        self.of_gains = self._rounding.of_gains
        self.chains = pack(X, lengths, n_labels, intercept, overwrite=overwrite)
        self.labels = np.ascontiguousarray(labels, np.int64)
        self.weights = weights
        self.reg_lambda, self.l1_ratio = float(reg_lambda), float(l1_ratio)
        self.n_sequences = len(lengths)
        self.n_tokens = len(labels)
        self.n_parameters = (X.shape[1] + self.chains.width + 3) * self.chains.width
        self.at_zero = float(weights @ lengths) * float(np.log(n_labels))  # P(0)
        self.density = X.nnz / (X.shape[0] * X.shape[1])
        self._n_threads = n_threads
        self._runner = BlockRunner(n_threads)
        size = self.n_tokens * self.chains.width + X.nnz
        self._bounds = row_blocks(size, self.n_sequences, 1)

    def __enter__(self) -> "ChainProblem":
        return self

    def __exit__(self, *exception: object) -> None:
        self._runner.__exit__(*exception)

    @property
    def penalty(self) -> ElasticPenalty:
        """``reg_lambda Omega``."""
        l1, ridge = self.reg_lambda * self.l1_ratio, self.reg_lambda * (1.0 - self.l1_ratio)
        return ElasticPenalty(l1, ridge)

    def start(self, potentials: bool, dtype: type, rest: float | None = None) -> Blocks:
        """Put nearly all probability on the true labels; the share ``rest`` is uniform.

        Marginals are those of the mixture (21); log-potentials make the positions independent,
        with the same marginals. The share of the rest falls with the number of tokens, since w
        grows with their product.
        """
        S, K = self.chains.width, self.chains.n_labels
        lengths = np.diff(self.chains.tokens)
        rest = 1.0 / max(self.n_tokens, 100) if rest is None else rest
        nodes = np.zeros((self.n_tokens, S), dtype)
        tokens = np.arange(self.n_tokens)
        matrices = np.where(lengths > 1, 1, 0) if potentials else lengths - 1
        at = np.cumsum(matrices) - matrices
        pairs = np.zeros((matrices.sum(), S, S), dtype)
        if potentials:
            nodes[tokens, self.labels] = np.log1p(K * (1.0 - rest) / rest)
        else:
            nodes[:, :K] = rest / K
            nodes[tokens, self.labels] += 1.0 - rest
            pairs[:, :K, :K] = rest / K**2
            later = np.delete(tokens, self.chains.tokens[:-1])
            which = np.arange(len(pairs)), self.labels[later - 1], self.labels[later]
            pairs[which] += 1.0 - rest
        kind = Potentials if potentials else Marginals
        return kind(at.astype(np.int64), nodes.ravel(), pairs.ravel())

    def weights_of(self, blocks: Blocks) -> tuple[NDArray[np.float64], float, float]:
        """The raw weights of a dual point, the value of the dual, and a margin.

        With L1 the value is that of a mixture of the point and the truth, which has s times the raw
        weights and at least s times the entropy. It is taken at the best s, since D may be minus
        infinity at s = 1. The margin bounds what rounding has added to the value. With an error e
        of the features' sum it is ``||w|| e + e^2 / (2 reg_lambda)`` plus the entropies' error.
        """
        w, results = np.zeros(self.n_parameters), np.empty((4, self.n_sequences))
        part = 0, self.n_sequences
        self._sweep(WEIGHTS, blocks, None, 1.0 / self.reg_lambda, part, results, None, w)
        squared, _ = self._rounding.of(w)
        entropy, margin = self._mean(results[0]), self._mean(results[2])
        error = self._feature_error(results[3], self.reg_lambda * squared**0.5)
        if self.l1_ratio:
            return w, *self._value_of(w, entropy, margin, error)
        penalty = 0.5 * self.reg_lambda * squared
        margin += (squared**0.5 + 0.5 * error / self.reg_lambda) * error
        return w, entropy - penalty, margin + _ROUNDING * (entropy + penalty)

    def _value_of(self, raw, entropy: float, margin: float, error: float) -> tuple[float, float]:
        """The value of the dual with L1, and its margin from those of entropy and features."""
        penalty = self.penalty
        sizes = penalty.beyond(self.reg_lambda * raw, error)
        scale = penalty.scale(sizes, entropy, error)
        conjugate, norm = penalty.conjugate(sizes, scale)
        entropy, margin, error = scale * entropy, scale * margin, scale * error
        if penalty.ridge:
            margin += (norm + 0.5 * error / penalty.ridge) * error
        return entropy - conjugate, margin + _ROUNDING * (entropy + conjugate)

    def gaps(
        self, w: NDArray[np.float64], blocks: Blocks
    ) -> tuple[float, NDArray[np.float64], float]:
        """P(w), the gap of each block, and a margin.

        P minus the gaps is the value of the dual if w is that of the blocks. If w is off by e, the
        value is lower by ``reg_lambda/2 ||e||^2``: then ``P - weights @ gaps - margin`` is a lower
        bound of P, with the margin for this and for rounding. Near the optimum errors count little
        here, unlike those of :meth:`weights_of`. With pure L1 there is no such w.
        """
        results = np.empty((4, self.n_sequences))
        squared, of_scores = self._rounding.of(w)

        def task(k: int) -> None:
            part = self._bounds[k], self._bounds[k + 1]
            self._sweep(GAPS, blocks, w, 0.0, part, results, of_scores, _NOTHING)

        self._runner.run(task, len(self._bounds) - 1)
        losses, gaps, margins, errors = results
        penalty = self.penalty
        value, gap = penalty.value(w, squared) + self._mean(losses), self._mean(gaps)
        margin = self._mean(margins) + _ROUNDING * (value + gap)
        error = self._feature_error(errors, penalty.largest_norm(squared, len(w)))
        of_w = 0.5 * error * error / penalty.ridge if penalty.ridge else np.inf
        return value, gaps.copy(), margin + of_w

    def evaluate(self, w: NDArray[np.float64]) -> tuple[float, NDArray[np.float64], float]:
        """P(w), its gradient, and the lower bound (8) that follows from it; for ``l1_ratio`` 0.

        P is strongly convex: ``P >= P(w) - ||g||^2 / (2 reg_lambda)`` for its gradient g. The error
        of the computed g is that of the sum of the features. Threads take the sums over sequences,
        so that their number changes the last bits.
        """
        results = np.empty((4, self.n_sequences))
        squared, of_scores = self._rounding.of(w)
        bounds = np.linspace(0, self.n_sequences, self._n_threads + 1).astype(np.int64)
        parts = [np.zeros(self.n_parameters) for _ in range(self._n_threads)]

        def task(k: int) -> None:
            part = bounds[k], bounds[k + 1]
            self._sweep(GRADIENT, _NO_BLOCKS, w, -1.0, part, results, of_scores, parts[k])

        self._runner.run(task, self._n_threads)
        gradient = self.reg_lambda * w
        for part in parts:
            gradient += part
        value = 0.5 * self.reg_lambda * squared + self._mean(results[0])
        norm = float(gradient @ gradient) ** 0.5 * (1.0 + DOUBLE * self.n_parameters)
        norm += self._feature_error(results[3], self.reg_lambda * squared**0.5)
        margin = self._mean(results[2]) + _ROUNDING * value
        return value, gradient, value - norm * norm / (2.0 * self.reg_lambda) - margin

    def epoch(
        self, blocks, w, raw, gaps, memory, sampling: Sampling, kappa: float
    ) -> tuple[float, int, float]:
        """As many steps of the dual method that belongs to the blocks as there are sequences.

        With ``kappa`` they are those of the problem with a proximal term ``kappa/2 ||w - z||^2``,
        and w is its point. Without L1, ``raw`` is w; with it, the entries of w are those of ``raw``
        moved towards 0 by ``l1 / strength``, where the strength is the ridge plus kappa.

        Returns the gain of the dual (with L1, a lower bound of it), how often marginals were
        computed, and the sum of the numbers whose differences the gains are. ``memory`` is an array
        with one number per block, or the precision of the line search.
        """
        penalty = self.penalty
        strength = penalty.ridge + kappa
        point = strength, w, raw, penalty.l1 / strength
        of_blocks = blocks, gaps, memory, sampling, self.n_sequences
        return chain_steps.epoch(self.chains, self.weights, *point, *of_blocks)

    def squared_norms(self) -> NDArray[np.float64]:
        """The mean of the squared norms of its tokens for each sequence."""
        with np.errstate(over="ignore"):
            squares = np.square(self._rounding.norms - _OTHERS)
        lengths = np.diff(self.chains.tokens)
        return np.add.reduceat(squares, self.chains.tokens[:-1]) / lengths

    def radii(self) -> NDArray[np.float64]:
        """``R_i``, the largest ``||F(x_i, y_i) - F(x_i, y)||^2``: appendix C, or a norm bound.

        The bound of the appendix holds for nonnegative features, and is attained if there is a
        label that the sequence does not have.
        """
        lengths = np.diff(self.chains.tokens)
        sequence = np.repeat(np.arange(self.n_sequences), lengths)
        X = unpacked(self.chains)
        negative = X.nnz > 0 and X.data.min() < 0.0
        X = abs(X) if negative else X
        K = self.chains.n_labels
        constant = 1.0 * (lengths - 1) ** 2
        true = _squared_sums(X, sequence * K + self.labels, self.n_sequences, K)
        inner = np.delete(np.arange(self.n_tokens), self.chains.tokens[:-1])
        pair = (sequence[inner] * K + self.labels[inner - 1]) * K + self.labels[inner]
        which, counts = np.unique(pair, return_counts=True)
        true += np.bincount(which // K**2, 1.0 * counts**2, self.n_sequences)
        if self.chains.intercept:
            constant += 1.0 * lengths**2 + 2.0
            which, counts = np.unique(sequence * K + self.labels, return_counts=True)
            true += np.bincount(which // K, 1.0 * counts**2, self.n_sequences) + 2.0
        other = _squared_sums(X, sequence, self.n_sequences, 1) + constant
        return (np.sqrt(true) + np.sqrt(other)) ** 2 if negative else true + other

    def _mean(self, values: NDArray[np.float64]) -> float:
        """``weights @ values``, summed in pairs."""
        with np.errstate(over="ignore", invalid="ignore"):
            return float(np.sum(self.weights * values))

    def _feature_error(self, errors: NDArray[np.float64], norm: float) -> float:
        """Error in the 2-norm of the gradient of P, or of a sum of features of this norm.

        A few roundings of each entry of the sum are added to those of the features.
        """
        return self._mean(errors) + 4.0 * DOUBLE * norm

    def _sweep(self, purpose, blocks, w, factor, part, results, of_scores, target) -> None:
        rounding = self._rounding
        depth = rounding.depth + self._n_threads + 4.0
        chain_dual.sweep(
            purpose,
            self.chains,
            self.labels,
            self.weights,
            blocks,
            target if w is None else w,
            factor,
            *part,
            (self.weights if of_scores is None else of_scores, rounding.norms, depth),
            (results[0], results[1], results[2], results[3]),
            target,
        )


def _squared_sums(X, group, n_sequences: int, per_sequence: int) -> NDArray[np.float64]:
    """Squared norms of the sums of rows of X with equal group, added up per sequence."""
    which, index = np.unique(group, return_inverse=True)
    member = sp.csr_array((np.ones(len(index)), (index, np.arange(len(index)))))
    sums = member @ X
    squares = np.asarray(sums.multiply(sums).sum(axis=1)).ravel()
    totals: Any = np.bincount(which // per_sequence, squares, n_sequences)
    return totals


class Start(NamedTuple):
    """Where the fit of a further value starts."""

    kept: Any  # blocks or, for L-BFGS, w
    near: bool  # whether it was extrapolated from two values, to one not far from them


class PathState(NamedTuple):
    """The solver's state at the last value of reg_lambda and at the one before it."""

    reg_lambda: float
    kept: Any  # blocks or, for L-BFGS, w
    before: tuple[float, Any] | None = None

    def start(self, reg_lambda: float) -> Start:
        """A copy of the state, extrapolated on a logarithmic scale.

        Any log-potentials are a dual point, and so are points on the line through two of them.
        Marginals are not extrapolated, since they could become negative.
        """
        share, other, near = 0.0, self.kept, self.reg_lambda <= _NEAREST * reg_lambda
        if self.before is not None and type(self.before[1]) is type(self.kept):
            step = log(self.before[0] / self.reg_lambda)
            if step > 0.0:
                share = _SHARE * min(1.0, log(self.reg_lambda / reg_lambda) / step)
                other = self.before[1]
        if isinstance(self.kept, np.ndarray):
            return Start(_extrapolated(other, self.kept, share), near and share > 0.0)
        share *= isinstance(self.kept, Potentials)
        nodes = _extrapolated(other.nodes, self.kept.nodes, share)
        pairs = _extrapolated(other.pairs, self.kept.pairs, share)
        return Start(self.kept._replace(nodes=nodes, pairs=pairs), near and share > 0.0)


def _extrapolated(before: NDArray, last: NDArray, share: float) -> NDArray:
    """The last state plus a share of the change, in its own precision."""
    result = last - before
    result *= share
    result += last
    return result
