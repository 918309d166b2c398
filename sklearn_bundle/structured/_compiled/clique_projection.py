"""Euclidean projection onto the marginals of a chain: distributions of neighboring labels.

A point has a matrix for each edge of the chain, for positions t and t + 1, with a row for each
label of the first and a column for each label of the second; rows are padded to ``width``, and a
chain of one position has a single row. It is the marginals of a distribution of labelings where
no entry is negative, each matrix sums to one, and the column sums of a matrix equal the row sums of
the next one. The nearest such point to m is::

    alpha_t(i, j) = [m_t(i, j) + nu_(t+1)(j) - nu_t(i)]_+

with the nu that minimize ``sum_t sum_(i, j) alpha_t(i, j)^2 / 2 + nu_0``, where nu_0 is one number
for all rows of the first edge and nu is 0 after the last. That is (38) of the appendix of Saha,
Zhang and Vishwanathan (2010) with (36) substituted for xi, and so is its gradient: column
sums of an edge minus row sums of the next. Their lambda of an edge shifts the nu that follow.
Algorithm 3 alternates between xi and the rest; Newton's method on what remains needs at most a
tenth of the passes.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.jit.decorators import inner, jit
from sklearn_bundle.jit.vector import (
    WIDTH,
    fma,
    larger,
    load,
    minus,
    plus,
    positive,
    splat,
    store,
    total,
)

_MOST_STEPS = 200  # of Newton; chains whose numbers double precision cannot hold end here
_MOST_TRIALS = 40  # points in a line search: each bracket shrinks by at least a third
_SLOPE = 0.3  # a line search ends at this share of the slope at its start
_SHIFT = 1e-2  # times the largest defect: added to the diagonal of a matrix of counts
_LEAST_SHIFT = 1e-12  # at least this: a matrix of counts is singular if labels cannot reach the end
_NOISE = 1e-14  # relative: a dual value that is higher by no more than this is so by rounding
_NOTHING = 1e-30  # a row sum below this says nothing about the shares of its entries


class Workspace(NamedTuple):
    """Memory to work in, for chains of up to ``n_edges`` edges.

    ``nu`` and arrays like it have a row for each position from 0 to ``n_edges``; ``point`` has a
    matrix per edge, and ``sums`` the sums of its rows. ``count`` labels of a position are active:
    the dual has curvature along their nu. Newton's matrix covers only these: ``diagonal`` and
    ``factors`` are blocks of a position, ``coupling`` is the block with the next one.
    """

    nu: NDArray[np.float64]
    trial: NDArray[np.float64]
    direction: NDArray[np.float64]
    gradient: NDArray[np.float64]
    sums: NDArray[np.float64]
    point: NDArray[np.float64]
    diagonal: NDArray[np.float64]
    factors: NDArray[np.float64]
    coupling: NDArray[np.float64]
    active: NDArray[np.int64]
    place: NDArray[np.int64]
    count: NDArray[np.int64]


@inner
def new_work(n_edges, K, S):
    """Memory for :func:`solve`."""
    rows, square = (n_edges + 1) * S, n_edges * S * S
    return Workspace(
        np.empty(rows),
        np.empty(rows),
        np.empty(rows),
        np.empty(rows),
        np.empty(rows),
        np.empty(n_edges * K * S),
        np.empty(rows),
        np.empty(square),
        np.empty(square),
        np.empty(rows, np.int64),
        np.empty(rows, np.int64),
        np.empty(n_edges + 1, np.int64),
    )


@inner
def solve(m, n_edges, rows, K, S, precision, work):
    """Project a chain's flat m onto marginals, from ``work.nu`` into ``work.point``.

    Returns Newton steps, passes and the last defect: column sums of an edge and row sums of the
    next differ by at most ``precision``, if double precision allows it; :func:`repair` does the
    rest.
    """
    value = _evaluate(m, n_edges, rows, K, S, work.nu, work)
    defect = _largest(work.gradient, n_edges, K, S)
    steps, passes = 0, 1
    while defect > precision and steps < _MOST_STEPS:
        steps += 1
        _newton(n_edges, rows, K, S, defect, work)
        value, trials = _search(m, n_edges, rows, K, S, value, work)
        passes += trials
        defect = _largest(work.gradient, n_edges, K, S)
        if trials == _MOST_TRIALS or not defect < np.inf:
            break
    return steps, passes, defect


@inner
def _largest(gradient, n_edges, K, S):
    largest = abs(gradient[0])
    for t in range(1, n_edges):
        for j in range(t * S, t * S + K):
            largest = max(largest, abs(gradient[j])) if gradient[j] == gradient[j] else np.inf
    return largest


@inner
def start(m, n_edges, rows, K, S, work):
    """nu for which the best labeling has 1 along its edges, and other edges have less.

    Let a and b be the most that a labeling gains up to a position and from there on. nu is half the
    difference b - a: an edge then reaches its limit only if it is the best one to its column and
    the best one from its row.
    """
    nu, a = work.nu, work.trial
    for c in range(0, S, WIDTH):
        store(a, c, splat(0.0))
        store(nu, n_edges * S + c, splat(0.0))
    for t in range(n_edges):
        for c in range(0, S, WIDTH):
            highest = splat(-np.inf)
            for i in range(rows):
                value = plus(load(m, (t * rows + i) * S + c), splat(a[t * S + i]))
                highest = larger(value, highest)
            store(a, (t + 1) * S + c, highest)
    for t in range(n_edges - 1, -1, -1):
        for i in range(rows):
            highest = -np.inf
            for j in range(K):
                highest = max(highest, m[(t * rows + i) * S + j] + nu[(t + 1) * S + j])
            nu[t * S + i] = highest
    best = nu[0]
    for i in range(1, rows):
        best = max(best, nu[i])
    limits = 0.0  # of the edges from here on, in the unit of nu
    for t in range(n_edges - 1, 0, -1):
        limits += 1.0
        for j in range(t * S, t * S + K):
            nu[j] = 0.5 * (nu[j] - a[j] + best) - limits
    limits += 1.0
    for i in range(K):
        nu[i], nu[n_edges * S + i] = best - limits, 0.0
    for t in range(n_edges + 1):
        for x in range(t * S + K, (t + 1) * S):
            nu[x] = -np.inf


@inner
def _evaluate(m, n_edges, rows, K, S, nu, work):
    """The dual at ``nu``; ``point``, the sums of its rows, and ``gradient``."""
    point, sums, gradient = work.point, work.sums, work.gradient
    value, mass = nu[0], 0.0
    for c in range(0, S, WIDTH):
        store(gradient, c, splat(0.0))
    for t in range(n_edges):
        right = (t + 1) * S
        for c in range(0, S, WIDTH):
            store(gradient, right + c, splat(0.0))
        squares = splat(0.0)
        for i in range(rows):
            at, left = (t * rows + i) * S, splat(nu[t * S + i])
            row = splat(0.0)
            for c in range(0, S, WIDTH):
                step = minus(load(nu, right + c), left)
                entry = positive(plus(step, load(m, at + c)))
                store(point, at + c, entry)
                store(gradient, right + c, plus(load(gradient, right + c), entry))
                squares = fma(entry, entry, squares)
                row = plus(row, entry)
            of_row = total(row)
            sums[t * S + i] = of_row
            gradient[t * S + i] -= of_row
        value += 0.5 * total(squares)
    for i in range(rows):
        mass += sums[i]
    gradient[0] = 1.0 - mass
    return value


@inner
def _matrix(n_edges, rows, K, S, work):
    """Which labels are active, and the diagonal of Newton's matrix."""
    diagonal, count, place, active = work.diagonal, work.count, work.place, work.active
    for x in range((n_edges + 1) * S):
        diagonal[x] = 0.0
    for t in range(n_edges):
        for i in range(rows):
            if work.sums[t * S + i] > 0.0:
                at, here = (t * rows + i) * S, 0.0
                for j in range(K):
                    if work.point[at + j] > 0.0:
                        diagonal[(t + 1) * S + j] += 1.0
                        here += 1.0
                diagonal[t * S + (i if t > 0 else 0)] += here
    for t in range(n_edges):
        count[t] = 0
        for j in range(K if t > 0 else 1):
            place[t * S + j] = -1
            if diagonal[t * S + j] > 0.0 or t == 0:  # without mass, only its nu can give it some
                active[t * S + count[t]], place[t * S + j] = j, count[t]
                count[t] += 1


@inner
def _newton(n_edges, rows, K, S, defect, work):
    """Newton's ``direction``: minus the inverse of the block tridiagonal matrix times gradient."""
    _matrix(n_edges, rows, K, S, work)
    count, active, direction, square = work.count, work.active, work.direction, S * S
    factors, coupling = work.factors, work.coupling
    shift = max(_SHIFT * min(defect, 1.0), _LEAST_SHIFT)
    for x in range((n_edges + 1) * S):
        direction[x] = 0.0
    for t in range(n_edges):
        n, block = count[t], t * square
        for p in range(n):
            for q in range(p, n):
                factors[block + p * S + q] = 0.0
            label = active[t * S + p]
            factors[block + p * S + p] = work.diagonal[t * S + label] + shift
            direction[t * S + p] = -work.gradient[t * S + label]
        if t > 0:
            _eliminate(count[t - 1], n, (t - 1) * S, S, work)
        _factorize(factors, block, n, S)
        _forward(factors, block, n, S, direction, t * S)
        if t < n_edges - 1:
            _couple(t, rows, S, work)
            _forward_rows(factors, block, n, S, coupling, count[t + 1])
    for t in range(n_edges - 1, -1, -1):
        n, block = count[t], t * square
        if t < n_edges - 1:
            for p in range(n):
                rest = direction[t * S + p]
                for q in range(count[t + 1]):
                    rest -= coupling[block + p * S + q] * direction[(t + 1) * S + q]
                direction[t * S + p] = rest
        for p in range(n - 1, -1, -1):
            rest = direction[t * S + p]
            for q in range(p + 1, n):
                rest -= factors[block + p * S + q] * direction[t * S + q]
            direction[t * S + p] = rest / factors[block + p * S + p]
    for t in range(n_edges):  # from places among active labels to all labels, last one first
        for p in range(count[t] - 1, -1, -1):
            value = direction[t * S + p]
            direction[t * S + p] = 0.0
            direction[t * S + active[t * S + p]] = value
    for i in range(1, rows):
        direction[i] = direction[0]


@inner
def _couple(t, rows, S, work):
    """Entries of Newton's matrix for edge t: -1 where the point is not 0."""
    coupling, block = work.coupling, t * S * S
    for p in range(work.count[t]):
        for q in range(work.count[t + 1]):
            coupling[block + p * S + q] = 0.0
    for i in range(rows):
        if work.sums[t * S + i] > 0.0:
            row = block + (work.place[t * S + i] if t > 0 else 0) * S
            for q in range(work.count[t + 1]):
                j = work.active[(t + 1) * S + q]
                if work.point[(t * rows + i) * S + j] > 0.0:
                    coupling[row + q] -= 1.0


@inner
def _eliminate(n_before, n, before, S, work):
    """Subtract what the position before adds from this one's block and right-hand side."""
    factors, coupling, direction = work.factors, work.coupling, work.direction
    block, here = before * S, before + S
    for k in range(n_before):
        row, solved = block + k * S, direction[before + k]
        for p in range(n):
            value = coupling[row + p]
            if value != 0.0:
                at = here * S + p * S
                for q in range(p, n):
                    factors[at + q] -= value * coupling[row + q]
                direction[here + p] -= value * solved


@inner
def _factorize(factors, block, n, S):
    """Cholesky factorization ``U'U``, in place: the upper triangle."""
    for k in range(n):
        row = block + k * S
        pivot = np.sqrt(factors[row + k])
        factors[row + k] = pivot
        for q in range(k + 1, n):
            factors[row + q] /= pivot
        for p in range(k + 1, n):
            value, at = factors[row + p], block + p * S
            if value != 0.0:
                for q in range(p, n):
                    factors[at + q] -= value * factors[row + q]


@inner
def _forward(factors, block, n, S, vector, first):
    """Solve ``U'x = vector`` in place."""
    for k in range(n):
        row = block + k * S
        vector[first + k] /= factors[row + k]
        value = vector[first + k]
        for p in range(k + 1, n):
            vector[first + p] -= factors[row + p] * value


@inner
def _forward_rows(factors, block, n, S, matrix, n_columns):
    """Solve ``U'X = matrix`` in place."""
    for k in range(n):
        row = block + k * S
        inverse = 1.0 / factors[row + k]
        for q in range(n_columns):
            matrix[row + q] *= inverse
        for p in range(k + 1, n):
            value, at = factors[row + p], block + p * S
            if value != 0.0:
                for q in range(n_columns):
                    matrix[at + q] -= value * matrix[row + q]


@inner
def _search(m, n_edges, rows, K, S, value, work):
    """Search along ``direction`` for a small slope; returns the dual there and points tried."""
    nu, trial, direction = work.nu, work.trial, work.direction
    size = (n_edges + 1) * S
    start = _slope(n_edges, K, S, work)
    low, of_low, high, of_high, step = 0.0, start, np.inf, 0.0, 1.0
    reached = value
    trials = 0
    while trials < _MOST_TRIALS:
        trials += 1
        for x in range(size):
            trial[x] = nu[x] + step * direction[x]
        reached = _evaluate(m, n_edges, rows, K, S, trial, work)
        slope = _slope(n_edges, K, S, work)
        lower = reached <= value + _NOISE * abs(value)
        if lower and abs(slope) <= -_SLOPE * start:
            break
        if lower and slope < 0.0:
            low, of_low = step, slope
        else:
            high, of_high = step, slope
        if high == np.inf:
            step *= 4.0
        else:
            share = of_low / (of_low - of_high) if of_high > 0.0 else 0.5
            step = low + (high - low) * min(max(share, 0.1), 0.9)
    for x in range(size):
        nu[x] = trial[x]
    return reached, trials


@inner
def _slope(n_edges, K, S, work):
    slope = work.gradient[0] * work.direction[0]
    for t in range(1, n_edges):
        for j in range(t * S, t * S + K):
            slope += work.gradient[j] * work.direction[j]
    return slope


@jit
def repair(point, n_edges, rows, K, S):
    """Turn a point without negative entries into marginals, in place.

    Edge after edge, the rows get the column sums of the edge before; each row keeps its
    distribution of the label that follows. Marginals stay nearly the same.
    """
    nodes, columns = np.empty(S), np.empty(S)
    for x in range(S):
        nodes[x] = 1.0 / rows
    for t in range(n_edges):
        first = t * rows * S
        mass = 0.0
        for j in range(K):
            columns[j] = 0.0
        for i in range(rows):
            for j in range(K):
                columns[j] += point[first + i * S + j]
                mass += point[first + i * S + j]
        known = mass > _NOTHING and mass < np.inf
        for j in range(K):
            columns[j] = columns[j] / mass if known else 1.0 / K
        for i in range(rows):
            row, at = 0.0, first + i * S
            for j in range(K):
                row += point[at + j]
            target = nodes[i] if t > 0 else (row / mass if known else 1.0 / rows)
            for j in range(K):
                if row > _NOTHING and row < np.inf:
                    point[at + j] *= target / row
                else:
                    point[at + j] = target * columns[j]
        for j in range(K):
            nodes[j] = 0.0
        for i in range(rows):
            for j in range(K):
                nodes[j] += point[first + i * S + j]
