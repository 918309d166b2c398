"""Two-variable steps on a block of the dual of the L2-SVM: bounds, but no equality.

Maximize ``g'd - d'Hd/2`` over ``d >= -u``, where H has a diagonal of ones: the variables are those
of the dual times the square roots of its diagonal. Its dtype is the working precision.
"""

import numpy as np

from sklearn_bundle.jit.decorators import inner, jit

LANES = 32  # maxima side by side; blocks are padded to a multiple
# Of the sizes of the terms of a square or a determinant: below minus this it is far beyond rounding
# in float32.
INDEFINITE_SINGLE = 1e-4
LEAST = 1e-6  # determinants are taken to be this at least, which is rounding in float32


@inner
def _lane(gains):
    lane = 0
    for k in range(1, LANES):
        if gains[k] > gains[lane]:
            lane = k
    return lane


@inner
def move(half, g, u, row_i, row_j, d_i, d_j, gains, at):
    """``g -= d_i H_i + d_j H_j``; then the variable that gains most alone, and its gain."""
    gains[:] = 0.0
    at[:] = 0
    for s in range(0, g.shape[0], LANES):
        of_g, of_u = g[s : s + LANES], u[s : s + LANES]
        of_i, of_j = row_i[s : s + LANES], row_j[s : s + LANES]
        for k in range(LANES):
            slope = of_g[k] - (of_i[k] * d_i + of_j[k] * d_j)
            of_g[k] = slope
            d = max(slope, -of_u[k])
            gain = d * (slope - half * d)
            better = gain > gains[k]
            gains[k] = gain if better else gains[k]
            at[k] = s if better else at[k]
    lane = _lane(gains)
    return at[lane] + lane, gains[lane]


@inner
def steps_of(one, least, g_i, u_i, g_j, u_j, h):
    """The best steps of two variables with the entry h between them.

    j moves as is best with i free; where i then breaks its bound, it is at it, and j follows.
    """
    d_j = max((g_j - h * g_i) / max(one - h * h, least), -u_j)
    d_i = g_i - h * d_j
    low = d_i < -u_i
    d_i = -u_i if low else d_i
    d_j = max(g_j - h * d_i, -u_j) if low else d_j
    return d_i, d_j


@inner
def partner(half, one, least, g, u, i, row, gains, at):
    """The variable with which i gains most."""
    g_i, u_i = g[i], u[i]
    gains[:] = 0.0
    at[:] = 0
    for s in range(0, g.shape[0], LANES):
        of_g, of_u, of_row = g[s : s + LANES], u[s : s + LANES], row[s : s + LANES]
        for k in range(LANES):
            g_j, h = of_g[k], of_row[k]
            d_i, d_j = steps_of(one, least, g_i, u_i, g_j, of_u[k], h)
            gain = d_i * (g_i - half * d_i) + d_j * (g_j - half * d_j - h * d_i)
            better = gain > gains[k]
            gains[k] = gain if better else gains[k]
            at[k] = s if better else at[k]
    lane = _lane(gains)
    return at[lane] + lane


@inner
def exchange(one, least, g, u, i, j, h):
    """Move i and j, or i alone if j is i, as is best; h is the entry between them.

    Returns the steps, which g does not know yet, and whether H is not positive semidefinite, which
    leaves everything as it is.
    """
    d_i, d_j = max(g[i], -u[i]), one - one
    if j != i:
        if one - h * h < -INDEFINITE_SINGLE:
            return d_i, d_j, True
        d_i, d_j = steps_of(one, least, g[i], u[i], g[j], u[j], h)
        u[j] = u[j] + d_j if d_j > -u[j] else one - one
    u[i] = u[i] + d_i if d_i > -u[i] else one - one
    return d_i, d_j, False


@jit
def solve(H, g, u, share, most):
    """Steps until none gains more than ``share`` of the first one, or ``most`` of them.

    g and u are changed in place. H is C-ordered, of a multiple of 32 rows, those of no variable
    with zeros beside the diagonal, in g and in u. Returns the number of steps, and whether H was
    found not to be positive semidefinite, which ends the steps.
    """
    constants, gains = np.empty(3, H.dtype), np.empty(LANES, H.dtype)
    constants[0], constants[1], constants[2] = 0.5, 1.0, LEAST
    half, one, least = constants[0], constants[1], constants[2]
    at = np.empty(LANES, np.int32)
    d_i = d_j = one - one
    i, gain = move(half, g, u, H[0], H[0], d_i, d_j, gains, at)
    steps = 0
    enough = share * gain
    while gain > enough and steps < most:
        row = H[i]
        j = partner(half, one, least, g, u, i, row, gains, at)
        d_i, d_j, indefinite = exchange(one, least, g, u, i, j, row[j])
        if indefinite:
            return steps, True
        steps += 1
        i, gain = move(half, g, u, row, H[j], d_i, d_j, gains, at)
    return steps, False
