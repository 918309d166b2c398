"""Choice of vertices of the unit simplex: where to move weight to, and where to take it from.

q is half the gradient of ``a'Ka``, so that weight should go to its small entries.
"""

import numpy as np

from sklearn_bundle.jit.decorators import inner, jit

LANES = 64  # parallel minima, eight vectors of doubles: one running minimum does not vectorize


@inner
def _first_of(lanes, at):
    """Position of the smallest number of all lanes."""
    lane = 0
    for k in range(1, LANES):
        if lanes[k] < lanes[lane]:
            lane = k
    return at[lane] + lane


@jit
def lowest(q, lanes, at):
    """The ascent vertex; lane k runs over q[k], q[k + 64], ..."""
    n = q.shape[0]
    lanes[:] = np.inf
    at[:] = 0
    for start in range(0, n - n % LANES, LANES):
        part = q[start : start + LANES]
        for k in range(LANES):
            better = part[k] < lanes[k]
            lanes[k] = part[k] if better else lanes[k]
            at[k] = start if better else at[k]
    start = n - n % LANES
    for k in range(n % LANES):
        if q[start + k] < lanes[k]:
            lanes[k] = q[start + k]
            at[k] = start
    return _first_of(lanes, at)


@jit
def highest(q, support, size):
    """The first-order descent vertex: position in the support of its largest q."""
    best = 0
    for p in range(1, size):
        if q[support[p]] > q[support[best]]:
            best = p
    return best


@jit
def best_partner(q, i, row_i, diagonal, a, support, size):
    """The second-order descent vertex (19): position in the support of the largest SWAP gain.

    (19) is the gain of a step without a limit. Here it is the gain of the step that can be taken,
    which is then compared with that of the Frank-Wolfe step. With (19) in only one of the two
    places, a vertex with hardly any weight is chosen again and again, and the Frank-Wolfe steps
    that follow gain nothing.
    """
    best, best_gain = -1, 0.0
    for p in range(size):
        j = support[p]
        slope = q[j] - q[i]
        if slope > 0.0:
            bend = diagonal[i] - 2.0 * row_i[j] + diagonal[j]
            step = min(slope / bend, a[j])
            gain = step * (2.0 * slope - step * bend)
            if gain > best_gain:
                best, best_gain = p, gain
    return best


@jit
def best_of_all(q, q_i, d_i, scale, row_i, diagonal, a, lanes, at):
    """Like ``best_partner``, but returns the vertex, or -1: one pass over all vertices.

    Gains are in single precision, which is enough for a choice, and relative to ``1/scale^2``, so
    that they do not underflow. Where a is 0, so is the gain.
    """
    n = q.shape[0]
    least, two = np.float32(1e-7) * d_i, np.float32(2.0)
    lanes[:] = np.float32(0.0)
    at[:] = 0
    for start in range(0, n - n % LANES, LANES):
        of_q, of_row = q[start : start + LANES], row_i[start : start + LANES]
        of_d, of_a = diagonal[start : start + LANES], a[start : start + LANES]
        for k in range(LANES):
            slope = np.float32(scale * max(of_q[k] - q_i, 0.0))
            bend = max((d_i + of_d[k]) - two * np.float32(of_row[k]), least)
            step = min(slope / bend, np.float32(scale * of_a[k]))
            gain = step * (two * slope - step * bend)
            better = gain > lanes[k]
            lanes[k] = gain if better else lanes[k]
            at[k] = start if better else at[k]
    best, best_gain = -1, np.float32(0.0)
    for k in range(LANES):
        if lanes[k] > best_gain:
            best, best_gain = at[k] + k, lanes[k]
    for k in range(n - n % LANES, n):
        slope = np.float32(scale * max(q[k] - q_i, 0.0))
        bend = max((d_i + diagonal[k]) - two * np.float32(row_i[k]), least)
        step = min(slope / bend, np.float32(scale * a[k]))
        gain = step * (two * slope - step * bend)
        if gain > best_gain:
            best, best_gain = k, gain
    return best


@jit
def lowest_of(q, indices, count):
    """Like ``lowest``, among the first ``count`` indices."""
    best = indices[0]
    for p in range(1, count):
        if q[indices[p]] < q[best]:
            best = indices[p]
    return best
