"""Where the scores of the optimum of a smooth loss lie: the gradient and least second derivatives.

A gap says how far w may be from the optimum in the direction in which the objective grows least, by
``reg_lambda`` alone. Second derivatives of the loss say how much faster it grows in others.
"""

from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack
from sklearn.utils.extmath import safe_sparse_dot

from sklearn_bundle.core.limits import MOST_SIDE
from sklearn_bundle.core.roundoff import DOUBLE, likely
from sklearn_bundle.linear.losses.scores import ScoreLoss, score_loss
from sklearn_bundle.linear.problems.linear import LinearProblem
from sklearn_bundle.linear.rows.amid_rows import score_rounding

Array = NDArray[np.float64]

_FEW = 8.0  # roundings of a term beside those of its sum
_WORST = 1e-3  # relative: rounding of the inverse factor that leaves something to say


class CurvedRegion(NamedTuple):
    """``|f*(x) - <w, x> - b| <= radius ||inverse (x, 1)||``: an ellipsoid around (w, b).

    Without an intercept of its own, (x, 1) is x.

    Parameters
    ----------
    weights : ndarray of shape (d,)
    intercept : float
    inverse : ndarray of shape (p, p)
        Of the Cholesky factor of H, p the number of unknowns.
    radius : float
    """

    weights: Array
    intercept: float
    inverse: Array
    radius: float

    def intervals(self, X: Any, norms: Array) -> tuple[Array, Array]:
        """Lower and upper bounds of the scores of rows with these squared lengths, shape (n,)."""
        d, inverse = len(self.weights), self.inverse
        middle = safe_sparse_dot(X, self.weights, dense_output=True) + self.intercept
        moved = safe_sparse_dot(X, inverse[:, :d].T, dense_output=True)
        sizes = np.sqrt(norms)
        if len(inverse) > d:
            moved += inverse[:, d]
            sizes = sizes + 1.0
        roundings = (likely(d) + _FEW) * DOUBLE * float(np.linalg.norm(inverse))
        reach = self.radius * (np.sqrt(np.einsum("ij,ij->i", moved, moved)) + roundings * sizes)
        off = score_rounding(self.weights[None], sizes, d)[:, 0]
        off += _FEW * DOUBLE * (np.abs(middle) + abs(self.intercept) + reach)
        return middle - (reach + off), middle + (reach + off)


def curved_region(
    problem: LinearProblem,
    reg_lambda: float,
    point: tuple[Array, float],
    ends: tuple[Array, Array],
) -> CurvedRegion | None:
    """The region around a point (w, b) of a loss of one score, with the regularizer of l2.

    The score of row i at the optimum is known to be between the ends. So is it, with that at the
    point, on the way from the point to the optimum, which moves by D. Let h_i be the least second
    derivative of the loss in that range, and ``H = reg_lambda I + sum_i s_i h_i z_i z_i'`` with
    z = (x, 1). The derivative of the objective along D is 0 at the end; at the point it is <g, D>,
    and it rises by at least <D, H D>. So ``<D, H D> <= -<g, D>``: in the norm of H, D is no longer
    than g is in that of its inverse.

    None if H is not known well enough: with many features or a loss of another kind.
    """
    loss, free = score_loss(problem.loss), problem.fit_intercept
    (w, b), d, n = point, problem.n_features, problem.n_samples
    if loss is None or not loss.least_at_ends or d >= MOST_SIDE:
        return None
    y, weights, rows = problem.target, problem.weights, problem.rows
    scores = rows.scores(w) + b
    slopes = np.empty(n)
    loss.evaluate(scores, y, weights, slopes)
    lengths = rows.amid.sizes(rows.amid.lengths(rows)) + 1.0
    off = score_rounding(w[None], lengths, d)[:, 0] + _FEW * DOUBLE * (np.abs(scores) + abs(b))
    low, high = np.minimum(ends[0], scores - off), np.maximum(ends[1], scores + off)
    least = weights * np.minimum(_bends(loss, low, y), _bends(loss, high, y))
    # That a score is off moves its derivative by no more than this times as much.
    here = weights * loss.most_curvature
    if not np.isfinite(loss.most_curvature):
        here = weights * np.maximum(_bends(loss, scores - off, y), _bends(loss, scores + off, y))
    if not (np.isfinite(here).all() and np.isfinite(least).all() and np.isfinite(slopes).all()):
        return None
    gradient = rows.gradient(slopes) + reg_lambda * w
    if free:
        gradient = np.append(gradient, slopes.sum())
    # Roundings of derivatives, of their products with rows, and of the sums.
    errors = _FEW * np.abs(slopes) + likely(n) * np.abs(slopes) + here * (off / DOUBLE)
    error = DOUBLE * (float(errors @ lengths) + _FEW * reg_lambda * float(np.linalg.norm(w)))
    factor = InverseFactor.of(problem, least, reg_lambda)
    if factor is None:
        return None
    length = float(np.linalg.norm(factor.inverse @ gradient)) + factor.size * error
    return factor.region(w, b, length)


def _bends(loss: ScoreLoss, scores: Array, y: Array) -> Array:
    """Second derivatives of a smooth loss."""
    found = loss.curvature(scores, y)
    assert found is not None
    return found


class InverseFactor(NamedTuple):
    """The inverse of the Cholesky factor of ``sum_i c_i z_i z_i'`` and a ridge on w.

    It may belong to a slightly smaller matrix because of rounding. ``size`` is its norm, and
    ``relative`` what rounding may do to a product with it.
    """

    inverse: Array
    size: float
    relative: float

    @classmethod
    def of(cls, problem: LinearProblem, coefs: Array, ridge: float) -> Self | None:
        """With coefficients of all rows that are not negative; None if rounding hides too much."""
        used = np.flatnonzero(coefs > 0.0)
        H = problem.rows.hessian(used, coefs[used], problem.fit_intercept)
        d, p = problem.n_features, problem.n_features + problem.fit_intercept
        H = np.ascontiguousarray(H[:p, :p])
        places = np.arange(p)
        # Rounding of H, and of its factor, is less than a share of the trace, which is taken off.
        taken = (likely(len(used)) + p + _FEW) * DOUBLE * (float(np.trace(H)) + ridge * d)
        H[places, places] -= taken
        H[places[:d], places[:d]] += ridge
        factor, failed = lapack.dpotrf(H, lower=1, clean=1)
        inverse, wrong = lapack.dtrtri(factor, lower=1) if not failed else (factor, failed)
        if failed or wrong or not np.isfinite(inverse).all():
            return None
        size = float(np.linalg.norm(inverse))
        relative = (p + _FEW) * DOUBLE * size * float(np.linalg.norm(factor))
        return cls(inverse, size, relative) if relative < _WORST else None

    def region(self, w: Array, b: float, length: float) -> CurvedRegion:
        """All points whose distance from (w, b) is at most this in the norm of the matrix.

        The length, and products with rows, may be rounded.
        """
        return CurvedRegion(w, b, self.inverse, length * (1.0 + _FEW * self.relative))
