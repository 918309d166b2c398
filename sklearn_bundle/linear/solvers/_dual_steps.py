"""Dual coordinate ascent on a linear problem: one number per row, epochs of steps, planes."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.contract import ABSENT
from sklearn_bundle.linear._compiled import coordinate
from sklearn_bundle.linear.losses.scores import scale_heavier_down, score_loss
from sklearn_bundle.linear.problems.linear import LinearProblem
from sklearn_bundle.linear.rows.rows import RowOperator

Array = NDArray[np.float64]

# How far a step moves the intercept, relative to its row's own score. Below 0.03 the center
# overshoots on some sets; with 1 all rows disturb each other: 2 to 5 times the epochs.
_PULL = 0.1
_SEED = 88172645463325252  # of Marsaglia's xorshift; any number but 0 would do
# A longer w does not fit into the caches of one core (1 MB). Neighboring rows are then visited
# together, so that X is read as a stream, and w is kept in single precision until the gap is small:
# cache misses on w dominate the cost of an epoch.
_FAR = 1 << 17
_BLOCK = 8  # rows that are visited together
_TIGHT = 0.2  # times the largest squared gradients of the last epoch: beyond, a row is left out
_TINY = 1e-300  # replaces the square of a w of zeros


class Epoch(NamedTuple):
    """Results of an epoch: the rows' parts of the duality gap, and the gain of the dual.

    ``share`` is the share of the rows that it visited, ``multiplications`` its cost in addition to
    the products with them.
    """

    gap: float
    gained: float
    share: float
    multiplications: float


class DualAscent:
    """The dual of ``reg_lambda/2 ||w||^2 + R(w, b)`` at a point alpha, one number per row.

    A free intercept requires ``y'alpha = 0``, which no single step preserves. It is instead a
    coordinate with a quadratic term around a center, which follows it after every epoch (the method
    of multipliers).

    Parameters
    ----------
    problem : LinearProblem
        Its loss is a :class:`~.scores.ScoreLoss` with dual steps.
    reg_lambda : float
    alpha : ndarray of shape (n,), default=None
        The starting point, clipped to the bounds; 0 by default.

    Attributes
    ----------
    exceeds_cache : bool
        Whether w is too long for a near cache: single precision is then faster.
    w : ndarray of shape (d,), float32 or float64
        The weights of alpha, kept up to date by the steps; ABSENT before :meth:`begin`.
    n_active : int
        Rows that the next epoch visits.
    """

    def __init__(self, problem: LinearProblem, reg_lambda: float, alpha: Array | None = None):
        rows, target, weights = problem.rows, problem.target, problem.weights
        loss, free, (n, d) = score_loss(problem.loss), problem.fit_intercept, rows.shape
        assert loss is not None
        self._target, self._weights, self._loss = target, weights, loss
        self._free, self._lambda = free, reg_lambda
        self._formula = loss.formula()
        self._direction = loss.direction(target)
        with np.errstate(over="ignore"):  # then steps have length 0
            squares = rows.squared_norms() / reg_lambda
        self._pull = _PULL * float(weights @ squares) if free else 0.0
        squares += self._pull
        self._numbers = np.zeros((n, 4))
        for place, column in enumerate((target, weights, squares)):
            self._numbers[:, place] = column
        self._alpha = self._numbers[:, coordinate.ALPHA]
        if alpha is not None:
            self._alpha[:] = np.clip(alpha, *loss.bounds(target, weights))
        index = np.int32 if n < 2**31 else np.int64
        self._active, self._order = np.arange(n, dtype=index), np.empty(n, dtype=index)
        self.n_active, self._limits = n, (np.inf, np.inf)
        self._seed = np.array([_SEED], dtype=np.uint64)
        self._b, self._off = 0.0, self._pull * float(self._direction @ self._alpha)
        self._passed = 0.0  # parts of passes that are not counted yet
        self.w: NDArray[np.floating] = ABSENT
        self.attach(rows)
        self.exceeds_cache = self._stored.width == 0 and d > _FAR
        self._block = _BLOCK if self.exceeds_cache else 1

    def attach(self, rows: RowOperator) -> None:
        """Continue with the same rows in another object."""
        self._rows, self._stored = rows, rows.stored()

    def detach(self) -> None:
        """Release the rows."""
        self._rows = self._stored = ABSENT

    @property
    def alpha(self) -> Array:
        """The dual point, a copy."""
        return self._alpha.copy()

    @property
    def alpha_view(self) -> Array:
        """The dual point itself, which the next step changes."""
        return self._alpha

    def set_alpha(self, alpha: Array) -> None:
        """Make it the dual point; :meth:`restart` is to follow."""
        self._alpha[:] = alpha

    def begin(self, intercept: float, *, single: bool) -> None:
        """Make the working w, zero until :meth:`restart`; an intercept helps with far targets."""
        self.w = np.zeros(self._rows.shape[1], dtype=np.float32 if single else np.float64)
        if self._loss.far_targets:
            self._b = intercept

    def rescale(self) -> None:
        """Scale alpha down if that raises a linear dual: it may be of another reg_lambda."""
        if self._loss.at_bounds:
            derivatives = -self._direction * self._alpha
            slope = self._loss.slope_at_zero(derivatives, self._target, self._weights)
            gradient = self._rows.gradient(derivatives)
            square = max(float(gradient @ gradient), _TINY)
            self._alpha *= min(self._lambda * slope / square, 1.0)

    def epoch(self) -> Epoch:
        """Take a step for each active row, in random order; one reading of rows is two passes."""
        taken, share = self.n_active, self.n_active / len(self._alpha)
        self.n_active, largest, smallest, gap, gained, b = coordinate.epoch(
            *self._stored,
            self._numbers.ravel(),
            self._active,
            self.n_active,
            self._block,
            self._order,
            self.exceeds_cache,
            self._formula,
            self.w,
            1.0 / self._lambda,
            *self._limits,
            self._b,
            self._pull,
            self._seed,
        )
        self._limits = tuple(_TIGHT * x if x > 0.0 else np.inf for x in (largest, smallest))
        self._off += b - self._b
        self._b = b + self._off
        self._passed += 2.0 * share
        whole = int(self._passed)
        self._rows.passes += whole
        self._passed -= whole
        return Epoch(gap, gained, share, taken * self._loss.multiplications)

    def follow(self, newest: float, mean: Array) -> None:
        """Update a running mean of alpha, with the weight ``newest`` for this one."""
        coordinate.follow(self._numbers.ravel(), newest, mean)

    def balance(self, alpha: Array) -> None:
        """Change the dual point a little, so that ``y'alpha = 0`` if there is an intercept."""
        if self._free:
            scale_heavier_down(alpha, self._direction * alpha > 0.0)

    def plane(self, alpha: Array) -> tuple[Array, float]:
        """The cutting plane (a, c) of a feasible dual point: one product with X'."""
        center = self._loss.center(self._target, self._weights) if self._free else 0.0
        derivatives = self._direction * alpha
        np.negative(derivatives, out=derivatives)

        def part(rows: slice) -> tuple[float]:
            args = derivatives[rows], self._target[rows], self._weights[rows], center
            return (self._loss.offset(*args),)

        (offset,) = self._rows.sums(part)
        return self._rows.gradient(derivatives), offset

    def restart(self, w: Array, intercept: float, scores: Array) -> None:
        """Continue from the dual point with its w, scores and intercept; choose the rows again."""
        self.w[:] = w
        self._b, self._off = intercept, 0.0
        if self._loss.at_bounds:
            margins = scores + intercept
            margins *= self._direction
            self.n_active = coordinate.keep_active(
                self._formula, margins, self._numbers.ravel(), *self._limits, self._active
            )

    def use_doubles(self) -> None:
        """Keep w in double precision from the next :meth:`restart` on."""
        self.w = np.empty(len(self.w))
