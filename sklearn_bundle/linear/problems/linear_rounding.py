"""What rounding may add to the bound of a linear problem, and hide in its objective.

It follows from the sizes of the terms that the sums add up.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.certificate import Rounding
from sklearn_bundle.core.limits import REFRESHED
from sklearn_bundle.core.optimum import Ball, ball_of
from sklearn_bundle.core.roundoff import DOUBLE, likely
from sklearn_bundle.linear._compiled import scores as loops
from sklearn_bundle.linear.losses.base import Loss
from sklearn_bundle.linear.losses.scores import score_loss
from sklearn_bundle.linear.losses.softmax import softmax_loss
from sklearn_bundle.linear.regularizers import Regularizer

Array = NDArray[np.float64]

_NEAR = 1e-3  # times the root mean square of the scores: distance of further derivatives
# The most for softmax, whose derivatives are known at the scores alone: those at scores that differ
# by no more are at most e^0.1 times as large.
_NEAR_CLASSES = 0.05
_FEW = 4.0  # roundings of a term before it is added up: of a loss, a conjugate, a residual
# Roundings of a gradient beside those of its sum over the rows: it is updated so many times before
# it is computed afresh, and planes are mixed from a few others.
_UPDATES = REFRESHED + 8.0
_TINY = 1e-100  # replaces terms of size 0


class Sizes(NamedTuple):
    """Sums over the rows of the sizes G of derivatives; those of blocks of rows add up.

    G_i is the largest absolute derivative near the score f_i.

    Parameters
    ----------
    n_rows : float
    squares : ndarray of shape (d,)
        ``sum_i x_ij^2``.
    slopes : ndarray of shape (k,)
        ``sum_i G_i^2`` of each output.
    totals : ndarray of shape (k,)
        ``sum_i G_i``.
    moved : float
        ``sum_i G_i |f_i|``, f the scores with the intercept.
    scores : float
        ``sum_i f_i^2``.
    """

    n_rows: float
    squares: Array
    slopes: Array
    totals: Array
    moved: float
    scores: float

    @classmethod
    def of(
        cls,
        squares: Array,
        loss: Loss,
        target: Any,
        weights: Array,
        scores: Array,
        near: float | None = None,
    ) -> "Sizes":
        """Of rows with these scores; ``squares`` are those of their columns.

        ``near`` is the distance of further derivatives if these are not all rows.
        """
        of_score = score_loss(loss)
        if near is None:
            near = distance(float(np.vdot(scores, scores)) / scores.size)
        if of_score is not None:
            square = float(np.vdot(scores, scores))
            args = of_score.formula(), scores, target, weights, near, _NEAR
            *of_columns, moved, _ = loops.sizes(*args)
            return cls(float(len(scores)), squares, *np.reshape(of_columns, (2, 1)), moved, square)
        G = _nearby_slopes(loss, target, weights, scores, near).reshape(len(scores), -1)
        f = scores.reshape(G.shape)
        sums = np.einsum("ij,ij->j", G, G), G.sum(axis=0), float(np.vdot(G, np.abs(f)))
        return cls(float(len(f)), squares, *sums, float(np.vdot(f, f)))

    def plus(self, other: "Sizes") -> "Sizes":
        """Of both blocks of rows."""
        sums: list[Any] = [a + b for a, b in zip(self, other, strict=True)]
        return Sizes(*sums)

    def with_gap(self, gap: float, most: float = np.inf) -> "Sizes":
        """With derivatives g of any dual point within the gap: ``sum_i |g_i| - G_i <= gap / near``.

        For ``l(f) + l*(g) - g f >= near (|g| - G)``, and these are parts of the gap. ``near`` is at
        most ``most``.
        """
        near = min(distance(self.scores / (self.n_rows * len(self.totals))), most)
        if not near > 0.0:
            return self
        more = max(gap, 0.0) / near
        slopes = (np.sqrt(self.slopes) + more) ** 2
        moved = self.moved + more * np.sqrt(self.scores)
        return self._replace(slopes=slopes, totals=self.totals + more, moved=moved)


def distance(mean_square: float) -> float:
    """Of further derivatives, for scores of this mean square."""
    return _NEAR * float(np.sqrt(mean_square))


def _nearby_slopes(loss: Loss, target: Any, weights: Array, scores: Array, near: float) -> Array:
    """The largest absolute derivatives at scores nearby: of a kinked loss on both sides of it.

    Where only differences of scores count, these become smaller.
    """
    slopes, largest = np.empty_like(scores), np.zeros_like(scores)
    shifted = (scores - near, scores + near) if softmax_loss(loss) is None else (scores,)
    for moved in (*shifted, (1.0 - _NEAR) * scores):
        loss.evaluate(moved, target, weights, slopes)
        np.maximum(largest, np.abs(slopes, out=slopes), out=largest, where=np.isfinite(slopes))
    return largest


class Certified(NamedTuple):
    """A point w with its intercept, its objective, and the plane (a, c) that proves the bound."""

    w: Array
    intercept: Any
    objective: float
    plane: tuple[Array, float]


def size_of_terms(problem: Any, point: Any, offset: float, reg_lambda: float) -> float:
    """Size of the terms whose differences objective and bound are: of the loss and of the plane.

    The objective is small if scores are close to targets; the risk at 0 is as large as targets.
    """
    zeros = np.zeros_like(point.w)
    risk = problem.risk(problem.point(zeros, None))
    return risk + abs(offset) + reg_lambda * len(zeros) + _TINY


def rounding(
    problem: Any, point: Any, certified: Certified, omega: Regularizer, reg_lambda: float
) -> Rounding:
    """What is to be taken off the computed bound ``c - reg_lambda Omega*(-a / reg_lambda)``.

    Less the total, the bound is no higher than the optimum, and its distance to the computed
    objective is no less than the distance of the true objective to the optimum. Allowed for are the
    roundings of

    * the scores, sums of d products, in the objective;
    * the losses, the regularizer and their sums;
    * the plane's gradient ``a = X'g``, sums of n products. An error e moves the bound to that of
      ``a + e``. Of components with absolute errors e_j, ``reg_lambda Omega*`` rises most if all
      have the signs of the w that belongs to the plane; L1 instead scales the plane down by the
      largest ``1 + e_j / limit_j``;
    * the derivative in the intercept, which is zero but for rounding, times the intercept;
    * the plane's offset c, and the conjugate.

    Sums of m terms count for at most m roundings, or 8 sqrt(m) as in
    :func:`~.roundoff.likely`; errors of different columns are independent too. The
    sizes of products are ``||x_j|| ||G||`` for column j, with derivatives G of the loss as of
    :class:`Sizes` near the point. 0 for problems that do not know their sizes.
    """
    sizes: Sizes | None = problem.sizes(point)
    if sizes is None:
        return Rounding()
    w, intercept, objective, (a, c) = certified
    conjugate = reg_lambda * omega.conjugate(-a / reg_lambda)
    n, (d, p) = sizes.n_rows, (len(sizes.squares), len(w))
    penalty = reg_lambda * omega.value(w)
    risk = abs(objective - penalty) + (0.0 if problem.nonnegative else sizes.moved)
    # Probabilities are rounded relative to 1, however small their differences to the labels are.
    of_classes = softmax_loss(problem.loss) is not None
    least = 1.0 if of_classes else 0.0
    of_terms, lengths = _of_terms(sizes, intercept, least), _lengths(sizes)
    of_objective = (likely(d) + _FEW) * float(lengths @ np.abs(w)) + _FEW * of_terms
    of_objective += (likely(n) + _FEW) * risk + (likely(p) + _FEW) * penalty
    most = _NEAR_CLASSES if of_classes else np.inf
    sizes = sizes.with_gap(objective - (c - conjugate), most)  # those of the plane are a dual point
    of_terms, lengths = _of_terms(sizes, intercept, least), _lengths(sizes)
    of_bound = (likely(n) + _UPDATES + _FEW) * of_terms + (likely(n) + _FEW) * risk
    of_bound += (likely(n) + likely(p) + _FEW) * (abs(c) + abs(conjugate))
    of_gradient = _of_gradient(n, lengths, certified, omega, reg_lambda, conjugate)
    of_plane = DOUBLE * (likely(n) + _UPDATES) * float(np.linalg.norm(lengths))
    of_bound = float(DOUBLE * of_bound + of_gradient)
    return Rounding(float(DOUBLE * of_objective), of_bound, of_plane)


def optimum_ball(
    certified: Certified,
    bound: float,
    gap: float,
    taken: Rounding,
    omega: Regularizer,
    reg_lambda: float,
) -> Ball | None:
    """A ball that contains the optimum, None without strong convexity.

    Parameters
    ----------
    certified : Certified
    bound : float
        What the plane proves, with its rounding.
    gap : float
        To the best bound, without rounding but for what may hide in the objective.
    taken : Rounding
        Of objective, bound and plane.
    omega, reg_lambda
        The regularization.
    """
    modulus = reg_lambda * omega.strong_convexity
    if not modulus > 0.0:
        return None
    lowest = omega.conjugate_gradient(-certified.plane[0] / reg_lambda)
    own_gap = certified.objective - bound + taken.total
    gaps = gap + taken.of_objective, own_gap
    return ball_of(certified.w, lowest, *gaps, modulus, taken.of_plane / modulus)


def _of_terms(sizes: Sizes, intercept: Any, least: float) -> float:
    """Sum of the derivatives times the scores and the intercept."""
    return float(np.sum(np.abs(intercept) * np.maximum(sizes.totals, least))) + sizes.moved


def _lengths(sizes: Sizes) -> Array:
    """``||x_j|| ||G||`` of each column and output."""
    return np.outer(np.sqrt(sizes.slopes), np.sqrt(sizes.squares)).ravel()


def _of_gradient(
    n: float,
    lengths: Array,
    certified: Certified,
    omega: Regularizer,
    reg_lambda: float,
    conjugate: float,
) -> float:
    """By how much rounding of a may lower ``reg_lambda Omega*(-a / reg_lambda)``."""
    a, form = certified.plane[0], omega.lasso_form
    if omega.is_l1 and form is not None:
        errors = DOUBLE * (likely(n) + _UPDATES) * lengths
        limits = np.broadcast_to(reg_lambda * form.thresholds, a.shape)
        used = limits > 0.0
        reach = ((np.abs(a) + errors)[used] / limits[used]).max(initial=0.0)
        left_out = float(errors[~used] @ np.abs(certified.w[~used]))
        return max(float(reach) - 1.0, 0.0) * abs(certified.objective) + left_out
    w = omega.conjugate_gradient(-a / reg_lambda)
    terms = lengths * np.abs(w)
    total, root = float(terms.sum()), float(np.linalg.norm(terms))
    roundings = min(n, 8.0 * np.sqrt(n) * (root / total if total > 0.0 else 1.0)) + _UPDATES
    errors = DOUBLE * roundings * lengths
    if omega.is_euclidean:  # w = -a / reg_lambda, and the conjugate is half the square
        return DOUBLE * roundings * total + 0.5 * float(errors @ errors) / reg_lambda
    moved = (-a + np.where(w < 0.0, -errors, errors)) / reg_lambda
    rise = reg_lambda * omega.conjugate(moved) - conjugate
    return max(rise, float(errors @ np.abs(w)))
