"""Where the exact optimum lies: a ball that follows from a gap and from strong convexity."""

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.roundoff import DOUBLE, likely

Array = NDArray[np.float64]

_FEW = 8.0  # roundings of a gap, a square and a root


class Ball(NamedTuple):
    """A ball that contains the w of the exact optimum.

    The objective J is strongly convex in w: with its modulus mu, ``J(v) - J* >= mu/2 ||v - w*||^2``
    for every v. So does the lower model that proves the bound, around the w_q where it is least.
    """

    center: Array
    radius: float

    @classmethod
    def around(cls, w: Array, gap: float, modulus: float) -> Self:
        """Around a point whose objective is no more than ``gap`` above the optimum."""
        return cls(w, float(np.sqrt(2.0 * max(gap, 0.0) / modulus)) * (1.0 + _FEW * DOUBLE))

    @classmethod
    def between(
        cls, w: Array, lowest: Array, gap: float, modulus: float, error: float = 0.0
    ) -> Self:
        """Around the middle between w and the point where the lower model is least.

        Both inequalities together: ``||w* - (w + w_q)/2||^2 <= gap/mu - ||w - w_q||^2 / 4``.

        Parameters
        ----------
        w, lowest : ndarray of shape (p,)
            The point, and w_q.
        gap : float
            Objective at w, less the minimum of the lower model.
        modulus : float
            mu.
        error : float
            How far ``lowest`` may be from w_q because of rounding.
        """
        lengths = float(np.linalg.norm(w) + np.linalg.norm(lowest))
        error += _FEW * DOUBLE * lengths
        apart = float(np.linalg.norm(w - lowest)) * (1.0 - likely(len(w)) * DOUBLE) - error
        share = max(gap, 0.0) / modulus
        square = share * (1.0 + _FEW * DOUBLE) - 0.25 * max(apart, 0.0) ** 2
        return cls(0.5 * (w + lowest), float(np.sqrt(max(square, 0.0))) + error)


def ball_of(
    w: Array,
    lowest: Array,
    gap: float,
    own_gap: float,
    modulus: float,
    error: float,
) -> Ball | None:
    """The smaller of both balls; None if there is no strong convexity, or no gap.

    ``own_gap`` is that to the minimum of the model that is least at ``lowest``, and ``gap`` that to
    the best bound.
    """
    if not modulus > 0.0:
        return None
    balls = Ball.around(w, gap, modulus), Ball.between(w, lowest, own_gap, modulus, error)
    ball = min(balls, key=lambda one: one.radius if np.isfinite(one.radius) else np.inf)
    return ball if np.isfinite(ball.radius) and np.isfinite(ball.center).all() else None


def smaller(first: Ball | None, second: Ball | None) -> Ball | None:
    """The one of smaller radius; None is no ball."""
    if first is None or second is None:
        return second if first is None else first
    return first if first.radius <= second.radius else second
