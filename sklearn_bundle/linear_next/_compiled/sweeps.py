"""Sweeps of dual coordinate steps for the multiclass hinge: a distribution over classes per row."""

import math
from functools import partial

import numpy as np

from sklearn_bundle.jit import decorators
from sklearn_bundle.jit.decorators import inner
from sklearn_bundle.jit.sampling import exchanged
from sklearn_bundle.jit.vector import prefetch

jit = partial(decorators.jit, fastmath={"contract", "nsz", "arcp", "reassoc"})
_LEAD = 4  # rows between the prefetch of a row's first lines and its use: the time of a miss


@inner
def _threshold(r, height, theta):
    """The t with ``sum_k max(r_k - t, 0) = height`` from one that is not too large, and the count.

    Newton's method on a convex function: the count of positive terms falls until it stays.
    """
    before = np.inf
    while True:
        total, count = 0.0, 0.0
        for c in range(r.shape[0]):
            total += r[c] if r[c] > theta else 0.0
            count += 1.0 if r[c] > theta else 0.0
        if count >= before or count == 0.0:
            return theta, count
        better = (total - height) / count
        if not better > theta:
            return theta, count
        theta, before = better, count


@jit
def sweep(
    data,
    indices,
    indptr,
    width,
    labels,
    costs,
    rows,
    active,
    size,
    order,
    alpha,
    W,
    b,
    scale,
    pull,
    by_class,
    scores,
    change,
    seed,
):
    """One step for each of the first ``size`` rows of ``active``, in random order.

    ``rows`` holds weights and curvatures. W, flat, is kept at ``scale sum_i s_i x_i (y_i - alpha_i)'``
    and has the classes of a feature next to each other, or with ``by_class`` the features of a class.
    Rows whose alpha is the best one leave ``active``. Returns how many stay, the rows' parts of the
    gap, and the gain of the dual.
    """
    K = costs.shape[0]
    random = seed[0]
    for a in range(size):
        order[a] = active[a]
    for a in range(size - 1, 0, -1):
        random = exchanged(order, a, random)
    seed[0] = random
    gap = gained = 0.0
    stay = 0
    for a in range(size):
        if a + _LEAD < size:
            ahead = order[a + _LEAD]
            start = np.intp(ahead * width if width > 0 else indptr[ahead])
            for line in range(4):
                prefetch(data, start + 8 * line)
        i = order[a]
        label, weight, curvature = labels[i], rows[i, 0], rows[i, 1]
        if width > 0:
            start, end = i * width, (i + 1) * width
        else:
            start, end = np.intp(indptr[i]), np.intp(indptr[i + 1])
        for c in range(K):
            scores[c] = 0.0
        if by_class:
            for c in range(K):
                total, at = 0.0, c * width
                for j in range(width):
                    total += W[at + j] * data[start + j]
                scores[c] = total
        else:
            for p in range(start, end):
                x, at = data[p], np.intp(p - start if width > 0 else indices[p]) * K
                for c in range(K):
                    scores[c] += x * W[at + c]
        top, mean = -np.inf, 0.0
        for c in range(K):
            u = scores[c] + b[c] + costs[label, c]
            scores[c] = u
            top = max(top, u)
            mean += alpha[i, c] * u
        part = top - mean
        if not part > 0.0:
            continue
        active[stay] = i
        stay += 1
        gap += weight * part
        # The best alpha is max(r - theta, 0) / curvature; the classes of the last alpha give a
        # theta that is not too large.
        total = count = 0.0
        for c in range(K):
            r = curvature * alpha[i, c] + scores[c] - top
            scores[c] = r
            total += r if alpha[i, c] > 0.0 else 0.0
            count += 1.0 if alpha[i, c] > 0.0 else 0.0
        theta, above = _threshold(scores, curvature, (total - curvature) / count)
        best = 0
        for c in range(K):
            best = c if scores[c] > scores[best] else best
        rise = 0.0
        for c in range(K):
            old, r = alpha[i, c], scores[c]
            if above > 1.0:
                new = max(r - theta, 0.0) / curvature
            else:  # exactly a vertex, so that it is recognized as one; also for a row of zeros
                new = 1.0 if c == best else 0.0
            move = new - old
            alpha[i, c] = new
            rise += move * (r - curvature * (0.5 * move + old))
            b[c] -= pull * weight * move
            change[c] = -scale * weight * move
        gained += weight * rise
        if by_class:
            for c in range(K):
                if change[c] != 0.0:
                    factor, at = change[c], c * width
                    for j in range(width):
                        W[at + j] += factor * data[start + j]
        else:
            for p in range(start, end):
                x, at = data[p], np.intp(p - start if width > 0 else indices[p]) * K
                for c in range(K):
                    W[at + c] += change[c] * x
    return stay, gap, gained


@jit
def follow(rows, alpha, newest, mean, stamps, stamp):
    """Update the running mean of these rows of alpha, with the weight ``newest`` for the last."""
    for i in rows:
        stamps[i] = stamp
        for c in range(alpha.shape[1]):
            mean[i, c] += newest * (alpha[i, c] - mean[i, c])


@jit
def catch_up(alpha, mean, stamps, stamp):
    """The same for rows that have not changed since their stamps, for every update they missed."""
    for i in range(stamps.shape[0]):
        if stamps[i] != stamp:
            left = math.exp(stamp - stamps[i])
            stamps[i] = stamp
            for c in range(alpha.shape[1]):
                mean[i, c] = alpha[i, c] + left * (mean[i, c] - alpha[i, c])
