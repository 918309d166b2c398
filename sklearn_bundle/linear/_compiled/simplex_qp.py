"""The bundle's inner problem: a convex quadratic program on the unit simplex.

    minimize  1/2 alpha' Q alpha - c' alpha   over  alpha >= 0, sum(alpha) = 1

It is solved by a primal active-set method, warm-started. On the support the equality-constrained
problem is solved in difference form: with r the heaviest plane, alpha_r = 1 - sum of the others
leaves a positive semidefinite system in the others. A ridge of 1e-14 times each diagonal entry (not
the trace: planes differ in length by many powers of ten) keeps the factor finite if planes are
dependent. The gradient is recomputed after each step, so the ridge may slow a step down but never
moves the optimum.
"""

import numpy as np

from sklearn_bundle.jit.decorators import inner, jit

_RIDGE = 1e-14  # of a diagonal entry, see above
_ROUNDING = 2e-16  # relative to the terms of a sum: about a unit in the last place of float64
_CANCELLED = 4e-16  # relative to a weight, after a step to 0; the sum may be far larger


@inner
def _gradient(Q, c, alpha, size, out):
    """out = Q alpha - c."""
    for i in range(size):
        out[i] = -c[i]
    for j in range(size):
        aj = alpha[j]
        if aj != 0.0:
            for i in range(size):
                out[i] += aj * Q[j, i]


@inner
def _face_direction(Q, gradient, alpha, support, count, factor, direction, ridge):
    """Newton step to the minimizer over the affine hull of the support, into ``direction``."""
    heaviest = 0
    for k in range(count):
        if alpha[support[k]] > alpha[support[heaviest]]:
            heaviest = k
    support[heaviest], support[count - 1] = support[count - 1], support[heaviest]
    r = support[count - 1]
    m = count - 1
    for k in range(m):
        i = support[k]
        for h in range(k, m):
            factor[k, h] = (Q[i, support[h]] - Q[r, support[h]]) - (Q[i, r] - Q[r, r])
        ridge[k] = _RIDGE * factor[k, k] + _ROUNDING * (Q[i, i] + Q[r, r]) + 1e-300
        direction[k] = gradient[r] - gradient[i]
    for k in range(m):  # Cholesky factor, upper triangle, row by row
        pivot = np.sqrt(max(factor[k, k], 0.0) + ridge[k])
        factor[k, k] = pivot
        for h in range(k + 1, m):
            factor[k, h] /= pivot
        for i in range(k + 1, m):
            f = factor[k, i]
            if f != 0.0:
                for h in range(i, m):
                    factor[i, h] -= f * factor[k, h]
    for k in range(m):
        direction[k] /= factor[k, k]
        for h in range(k + 1, m):
            direction[h] -= direction[k] * factor[k, h]
    for k in range(m - 1, -1, -1):
        for h in range(k + 1, m):
            direction[k] -= factor[k, h] * direction[h]
        direction[k] /= factor[k, k]
    total = 0.0
    for k in range(m):
        total += direction[k]
    direction[m] = -total


@jit
def solve(Q, c, alpha, size, tolerance, max_steps, support, factor, work):
    """Improve ``alpha`` in place until the gap is at most ``tolerance``.

    The certificate is the gap ``alpha' g - min_i g_i`` with ``g = Q alpha - c``: the optimum lies
    at most that much below. Returns the gap and the number of Newton steps; a gap above
    ``tolerance`` means that ``max_steps`` ran out or that rounding stopped the descent.
    ``support`` (integers), ``factor`` (square) and ``work`` (3 rows) are scratch space of Q's size.
    """
    gradient, direction, ridge = work[0], work[1], work[2]
    count = 0
    for i in range(size):
        if alpha[i] > 0.0:
            support[count] = i
            count += 1
    gap = np.inf
    face_only = False  # after an entering plane was rejected: first solve the face further
    for step in range(max_steps):
        _gradient(Q, c, alpha, size, gradient)
        mean = 0.0
        lowest = 0
        for i in range(size):
            mean += alpha[i] * gradient[i]
            if gradient[i] < gradient[lowest]:
                lowest = i
        gap = mean - gradient[lowest]
        linear = 0.0
        for k in range(count):
            linear += alpha[support[k]] * abs(c[support[k]])
        if gap <= tolerance or gap <= _ROUNDING * (linear + abs(mean)):
            return gap, step
        on_face = np.inf
        for k in range(count):
            on_face = min(on_face, gradient[support[k]])
        # The face is solved, or nearly so compared with what another plane offers: add that plane.
        enters = alpha[lowest] == 0.0 and mean - on_face <= 0.1 * gap and not face_only
        if enters:
            support[count] = lowest
            count += 1
        if count == 1:
            return gap, step
        _face_direction(Q, gradient, alpha, support, count, factor, direction, ridge)
        length = 1.0
        for k in range(count):
            if direction[k] < 0.0:
                length = min(length, -alpha[support[k]] / direction[k])
        total = 0.0
        for k in range(count):
            i = support[k]
            before = alpha[i]
            alpha[i] = before + length * direction[k]
            if direction[k] < 0.0 and alpha[i] <= _CANCELLED * before:
                alpha[i] = 0.0
            total += alpha[i]
        kept = 0
        for k in range(count):
            i = support[k]
            alpha[i] /= total
            if alpha[i] > 0.0:
                support[kept] = i
                kept += 1
        if length == 0.0 and not enters:
            return gap, step
        face_only = length == 0.0
        count = kept
    return gap, max_steps
