"""The bundle's inner problem for ``||w||^2 / 2`` with planes far longer than their combination.

    minimize  lam/2 ||w||^2 + max_i <a_i, w> + c_i

If a feature is 1e6 times another, or reg_lambda is tiny, the Gram matrix of the planes has lost the
digits on which the optimum depends. Here it is not formed. An active set F of planes, of which
alpha is a convex combination, and the orthogonal factors of their differences D,

    D' = (Q1 Q2) (R, 0)',   w = Q1 y - Q2 Q2' (A'alpha) / lam,   R' y = what makes the planes equal,

give the minimum on the set where all planes of F are equal, and R gives the corresponding change of
alpha: errors grow with the condition of D, not with its square. Instead of A'alpha, which is short,
any a_i of F would do in exact arithmetic.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr, solve_triangular

from sklearn_bundle.core.limits import LAST_PLACE, MOST_STEPS

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

_DEPENDENT = 1e-14  # times the size of a feature: a smaller difference is a combination of others
_MOST_WORK = 2e9  # multiplications: about a second


class _Move(NamedTuple):
    """A change of alpha on the face, and the w after all of it; None if w stays."""

    change: Array
    w: Array | None


def solve(planes: Array, offsets: Array, reg_lambda: float, start: Array) -> tuple[Array, Array]:
    """Alpha and w, nearly optimal unless it takes too long.

    ``planes`` (t, p) and ``offsets`` (t,) are the a_i and c_i. ``start`` is a point of the simplex;
    the better it is, the fewer steps are taken.
    """
    sizes = np.abs(planes).max(axis=0)
    order = np.argsort(-sizes)  # large features first, so that their rounding does not spread
    planes, sizes = planes[:, order], sizes[order]
    alpha, face = start.copy(), np.flatnonzero(start)
    w, work = -(start @ planes) / reg_lambda, 0.0
    for _ in range(MOST_STEPS):
        work += planes.shape[1] * len(face) ** 2
        move = _move(planes, offsets, reg_lambda, alpha, face, sizes)
        if work > _MOST_WORK or not np.all(np.isfinite(move.change)):
            break
        falling = np.flatnonzero(move.change < 0.0)
        lengths = -alpha[face[falling]] / move.change[falling]
        length = lengths.min(initial=np.inf)
        if move.w is None or length < 1.0:
            alpha[face] = np.maximum(alpha[face] + length * move.change, 0.0)
            blocking = falling[lengths.argmin()]
            alpha[face[blocking]] = 0.0
            face = np.delete(face, blocking)
            alpha /= alpha.sum()
            continue
        alpha[face] += move.change
        alpha /= alpha.sum()
        w = move.w
        highest = _highest(planes, offsets, w, face)
        if highest is None:
            break
        face = np.append(face, highest)
    result = np.empty_like(w)
    result[order] = w
    return alpha, result


def _move(
    planes: Array, offsets: Array, reg_lambda: float, alpha: Array, face: Indices, sizes: Array
) -> _Move:
    """Move to the minimum where the face's planes are equal, or away from a dependent plane.

    The latter keeps A'alpha and raises c'alpha, limited only by alpha >= 0.
    """
    mean, heaviest = alpha @ planes, int(alpha[face].argmax())
    others, reference = np.delete(face, heaviest), face[heaviest]
    if len(others) == 0:
        return _Move(np.zeros(1), -mean / reg_lambda)
    rises = offsets[others] - offsets[reference]
    Q, R, pivots = qr((planes[others] - planes[reference]).T, mode="economic", pivoting=True)
    independent = np.abs(np.diag(R)) > _DEPENDENT * sizes[: len(R)]
    rank = len(R) if independent.all() else int(independent.argmin())
    Q, square, of_others = Q[:, :rank], R[:rank, :rank], np.zeros(len(others))
    if rank == len(others):
        y = solve_triangular(square, -rises[pivots], trans=1)
        along = Q.T @ mean
        across = mean - Q @ along
        across -= Q @ (Q.T @ across)  # the rest after the first time
        w = Q @ y - across / reg_lambda
        of_others[pivots] = -solve_triangular(square, reg_lambda * y + along)
    else:
        w = None
        of_others[pivots[rank]] = 1.0
        if rank > 0:
            of_others[pivots[:rank]] = -solve_triangular(square, R[:rank, rank])
        of_others *= 1.0 if of_others @ rises >= 0.0 else -1.0
    return _Move(np.insert(of_others, heaviest, -of_others.sum()), w)


def _highest(planes: Array, offsets: Array, w: Array, face: Indices) -> np.intp | None:
    """The highest plane at w, if it is above those of the face."""
    values = planes @ w + offsets
    highest = values.argmax()
    rounding = LAST_PLACE * float(np.abs(planes[highest]) @ np.abs(w) + abs(offsets[highest]))
    return highest if values[highest] > values[face].max() + rounding else None
