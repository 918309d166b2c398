"""Passes over dual points."""

from sklearn_bundle.jit.decorators import jit


@jit
def ascend(center, y, scores, step, out):
    """``out = center + step (1 - y f)``."""
    for i in range(out.shape[0]):
        out[i] = center[i] + step * (1.0 - y[i] * scores[i])


@jit
def squared_distance(weights, u, v):
    """``sum_i s_i (u_i - v_i)^2``."""
    s0 = s1 = s2 = s3 = 0.0
    head = u.shape[0] - u.shape[0] % 4
    for i in range(0, head, 4):
        s0 += weights[i] * (u[i] - v[i]) ** 2
        s1 += weights[i + 1] * (u[i + 1] - v[i + 1]) ** 2
        s2 += weights[i + 2] * (u[i + 2] - v[i + 2]) ** 2
        s3 += weights[i + 3] * (u[i + 3] - v[i + 3]) ** 2
    for i in range(head, u.shape[0]):
        s0 += weights[i] * (u[i] - v[i]) ** 2
    return (s0 + s1) + (s2 + s3)
