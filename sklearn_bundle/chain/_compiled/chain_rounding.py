"""Bounds of the rounding error of log Z, of marginals and of the values of the dual.

u is 2^-53. Let ``E`` bound how far rounding moves the log-weight of any path of a sequence.

* Log-weights. With scaled probabilities, a step of a recursion takes two exponentials (3.6 u
  each), a sum of K products in two halves (K/2 + 2) and four products; log Z adds two products
  and logarithms that are as large as the scores. The total is ``(K + 20) u`` per position and
  ``4 u`` times the largest score and transition, which includes a shift of the scores. In
  logarithms each step adds and subtracts numbers within the range of two rows and two matrices:
  ``16 u``. Only the number of steps grows with T, since rows are normalized and log Z is a
  compensated sum. Rounding of the scores themselves is added, see chain/problem.py.
* Log Z has the error E, as all paths do; the score of the true labels has that of the scores. A
  loss that is a sum of ``log(1 + odds)`` errs by ``expm1(2E)`` times the sum of
  ``odds/(1 + odds)``.
* Marginals. A factor within ``exp(+-E)`` for each path moves the odds of a label by at most
  ``exp(+-2E)``, and its marginal nu by ``nu (1 - nu) expm1(2E)``: 0 if the label is certain. Over
  the labels of a position that is ``expm1(2E)`` times ``q = sum nu (1 - nu)``. As ``1 - max nu`` is
  at most q, pairs move by at most ``2 (q_{t-1} + q_t)`` times it, summed over both labels.
* Mass of the marginals. It is reset to one every ``STRIDE`` positions, and each step in between
  moves it by ``(K + 24) u``; edges are summed in blocks. With sums of scores times marginals, which
  are taken in pieces (67 u), this is ``share`` for each position, whatever its marginals.

So the entropy ``H = log Z - <theta, mu>`` or the gap ``log Z(s) - log Z(theta) - <s - theta, mu>``
errs by E and by ``expm1(2E) q + share`` times the largest entry of theta, or of s - theta, which
vanishes at the optimum. Expected minus true features of a position err by their norm times the sum
of ``expm1(2E) q`` and the share of the wrong labels: their marginals are subtracted, instead of one
from that of the true label. The features of pairs, whose norm is one, err by the share.

Marginals that are kept as such may be any numbers. They become those of a chain if they are scaled
to sum to one at each position and pairs move by at most ``2 (defects of their rows and columns)``
in the 1-norm (Altschuler, Weed and Rigollet, 2017, lemma 7). If the sum of numbers moves by x,
their ``x log x`` moves by less than 60 x, for any x that rounding causes.
"""

import numpy as np

from sklearn_bundle.chain._compiled.forward_backward import BLOCK, STRIDE
from sklearn_bundle.core.limits import DOUBLE
from sklearn_bundle.jit.decorators import inner
from sklearn_bundle.jit.vector import WIDTH, fma, load, minus, splat, spread, times, total

_LARGEST = 700.0  # its exponential is finite: a bound may be useless, but is no NaN
ENTROPY = 60.0  # bounds the ratio of the change of x log x to that of x: the last line above


@inner
def path_error(T, K, sizes, work):
    """E after ``marginals``; ``sizes`` is the sum of the largest score and transition."""
    each = 16.0 if T > 1 and work.scales[0] == 0.0 else 4.0
    return DOUBLE * (T * (K + 20.0) + each * sizes)


@inner
def share(T, K):
    """The error of a position's scores or features that does not depend on its marginals."""
    return DOUBLE * (STRIDE * (K + 24.0) + BLOCK + T / BLOCK + 80.0)


@inner
def by_odds(error):
    """``expm1(2 error)``."""
    return np.expm1(min(2.0 * error, _LARGEST))


@inner
def largest_of(values, size):
    """The largest absolute value."""
    largest = 0.0
    for x in range(size):
        largest = max(largest, abs(values[x]))
    return largest


@inner
def sum_of_largest(values, T, S, out):
    """Set ``out[t]`` to the largest absolute value of a row; returns their sum."""
    sizes = 0.0
    for t in range(T):
        out[t] = largest_of(values[t * S : t * S + S], S)
        sizes += out[t]
    return sizes


@inner
def undecided(nodes, factors, first, T, S):
    """``sum_t factors[first + t] q_t``."""
    sums, one = splat(0.0), splat(1.0)
    for t in range(T):
        factor = spread(factors, first + t)
        for x in range(t * S, t * S + S, WIDTH):
            nu = load(nodes, x)
            sums = fma(factor, times(nu, minus(one, nu)), sums)
    return total(sums)


@inner
def less_truth(nodes, labels, norms, start, T, K, S, error, off, depth):
    """Subtract the true labels from marginals; bounds the error of expected minus true features.

    The bound is in the 2-norm. One minus the marginal of the true label is computed as the sum of
    the others, which avoids the rounding of one. ``norms`` bound those of the features of a token,
    of its pairs and of the biases. ``off`` is how far masses are from one, ``depth`` the number of
    terms in an entry of the sum over all sequences.
    """
    moved = 2.0 * by_odds(error) * undecided(nodes, norms, start, T, S)
    in_all = 0.0
    for t in range(T):
        own, wrong = t * S + labels[start + t], 0.0
        for x in range(t * S, t * S + K):
            wrong += nodes[x] * (x != own)
        nodes[own] = -wrong
        in_all += norms[start + t] * wrong
    return moved + 2.0 * (share(T, K) + off + depth * DOUBLE) * in_all + share(T, K) * T


@inner
def defects(nodes, pairs, at, T, K, S):
    """How far marginals are from those of a chain, summed over the positions.

    Returns the differences of masses from one and of rows and columns of pairs from the marginals,
    and the worst mass.
    """
    masses = rows = worst = 0.0
    for t in range(T):
        mass = -1.0
        for k in range(K):
            mass += nodes[t * S + k]
        masses += abs(mass)
        worst = max(worst, abs(mass))
    for t in range(T - 1):
        for k in range(K):
            before, after = -nodes[t * S + k], -nodes[(t + 1) * S + k]
            for j in range(K):
                before += pairs[at + (t * S + k) * S + j]
                after += pairs[at + (t * S + j) * S + k]
            rows += abs(before) + abs(after)
    return masses, rows, worst
