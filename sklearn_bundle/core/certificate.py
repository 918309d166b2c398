"""Certificates: the best point and bound, what rounding takes, the ball around the optimum."""

from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sklearn_bundle.core.contract import State
from sklearn_bundle.core.limits import DOUBLE, SIX_DIGITS, likely

Array = NDArray[np.float64]

# Relative to the objective: rounding of a sum of its size cannot lift a bound farther above it.
# Sums of 1e8 terms of one sign are right to 1e-8; sums with cancellation pass the size of terms.
CROSSED = 1e-6
_FEW = 8.0  # roundings of a gap, a square and a root


def bound_below(bound: float, primal: float) -> float:
    """The bound or, if it is above the objective, one that is as far below.

    A bound above the objective is false by rounding, by at least the difference: subtract as much.
    """
    return min(bound, 2.0 * primal - bound)


class Rounding(NamedTuple):
    """By how much rounding may have moved an objective, and lifted a bound.

    ``of_plane`` is the length of its error in the gradient of the plane that proves the bound.
    """

    of_objective: float = 0.0
    of_bound: float = 0.0
    of_plane: float = 0.0

    @property
    def total(self) -> float:
        """Infinity if it is not a number."""
        total = self.of_objective + self.of_bound
        return total if np.isfinite(total) else np.inf


_NONE = Rounding()


def attained(primal: float, excess: float, bound: float) -> tuple[float, float]:
    """Objective and bound of a model whose objective rounding made too small by up to ``excess``.

    The bound is lowered by as much, but not below 0, and the objective raised by the rest, so that
    the model is no farther from the optimum than the gap says. Where less than six digits of the
    objective are left, it becomes the largest value that it may have, and the bound stays. -inf
    stays: there is no bound.
    """
    if excess > SIX_DIGITS * abs(primal):
        return primal + excess, bound
    if bound == -np.inf or bound >= excess:
        return primal, bound - excess
    return primal + (excess - max(bound, 0.0)), 0.0


def copied(value: Any) -> Any:
    """A point or a dual certificate with copies of its arrays, which no later step can change.

    A value with a method ``copied`` says itself what that means.
    """
    if isinstance(value, np.ndarray):
        return value.copy()
    if hasattr(value, "copied"):
        return value.copied()
    if isinstance(value, tuple):
        items, kind = map(copied, value), type(value)
        make: Any = getattr(kind, "_make", tuple)  # named tuples take no iterable
        return make(items)
    return value


class Best:
    """The best point and the best bound of a solver so far, with arrays of its own.

    A bound above the objective is false. Rounding may cause that, by up to 1e-6 of the objective:
    the bound is then lowered to as far below, as in :func:`bound_below`. If it is
    farther above, states claim a gap of 0, so that the values are confirmed; if recomputed values
    cross by as much, that is an error.

    Parameters
    ----------
    least : float
        A lower bound of every objective: 0 if the risk is known to be nonnegative.
    provisional : bool
        Whether values are of a working precision until they are recomputed: a bound above the
        objective is then kept, as a sign that this precision is exhausted.
    advice : str
        Why fresh values may cross, and what a user can do: the end of a sentence.

    Attributes
    ----------
    primal : float
        Objective of the best point, infinity before the first.
    point : object
        The best point as the solver keeps it, None before the first.
    bound : float
        The best bound that was proved, minus infinity before the first. It is above the objective
        after a crossing that rounding does not explain.
    dual_certificate : object
        What proves the bound: a dual point or an aggregate plane; None before the first.
    """

    point: Any
    dual_certificate: Any

    def __init__(
        self,
        *,
        least: float = -np.inf,
        provisional: bool = False,
        advice: str = "scale the features",
    ):
        self.least = least
        self._provisional, self._advice = provisional, advice
        self.primal, self.point = np.inf, None
        self._rounding = 0.0  # taken off every bound, as of the last recomputed one
        self._excess = 0.0  # added to every objective, as to the last recomputed one
        self.drop_bound()

    @property
    def gap(self) -> float:
        """Objective minus the proved bound; negative if the two have crossed."""
        return self.primal - self.bound

    def offer(self, primal: float, point: Any, *, is_free: bool = False) -> bool:
        """Keep the point if its objective is lower; returns whether it is.

        It is not copied if it ``is_free``: if no later step can change it. What rounding added to
        the last recomputed objective is added to this one too.
        """
        primal += self._excess  # or fresh and recomputed objectives would take turns for ever
        better = primal < self.primal
        if better:
            self.primal, self.point = primal, point if is_free else copied(point)
        return better

    def replace(self, primal: float, point: Any) -> None:
        """Take the point with its objective from the data, whether it is better or not."""
        self.primal, self.point, self._excess = primal, point, 0.0

    def raise_bound(self, bound: float, dual_certificate: Any = None) -> bool:
        """Keep the bound with its dual certificate if it is higher; returns whether it is.

        What rounding took off the last recomputed bound is taken off this one too.
        """
        if not self._provisional and bound - self.primal <= CROSSED * abs(self.primal):
            bound = bound_below(bound, self.primal)
        bound -= self._rounding
        better = bound > self.bound
        if better:
            self.bound, self.dual_certificate = bound, copied(dual_certificate)
        return better

    def recompute(
        self,
        primal: float,
        point: Any,
        bound: float,
        dual_certificate: Any = None,
        *,
        rounding: Rounding = _NONE,
    ) -> None:
        """Replace the kept values by recomputed ones, whether these are better or not.

        ``rounding`` is taken off the bound. The rest, where the bound is then ``least``, is added
        to the objective, up to the objective's own part: the point is no farther from the optimum
        than the gap says. An objective of ``least`` stays: as far as its precision can tell, it is
        the optimum.

        Raises
        ------
        ValueError
            If the bound is above the objective by more than rounding explains.
        """
        self._rounding = rounding.total
        if not bound - primal <= max(CROSSED * abs(primal), self._rounding):
            raise ValueError(
                f"The lower bound {bound:.8g} lies above the objective {primal:.8g}, by more than "
                f"rounding explains: {self._advice}."
            )
        fresh = bound_below(bound, primal) - self._rounding
        missing = min(self.least - fresh, rounding.of_objective)
        self._excess = missing if primal > self.least and 0.0 < missing < np.inf else 0.0
        self.primal = primal + self._excess
        self.point = point if point is self.point else copied(point)
        self.bound = max(fresh, self.least)
        self.dual_certificate = copied(dual_certificate)

    def drop_bound(self) -> None:
        """Forget the bound and its dual certificate."""
        self.bound, self.dual_certificate = -np.inf, None

    def state(
        self,
        point: NDArray[np.float64],
        intercept: Any,
        passes: int,
        n_steps: int | None = None,
        further: tuple = (),
    ) -> State:
        """Objective and bound as a :class:`State`, the bound between ``least`` and objective.

        An objective below ``least`` is so by rounding: ``least`` is then correct.
        """
        bound = max(min(self.bound, self.primal), self.least)
        return State(self.primal, bound, point, intercept, passes, n_steps, further, self._excess)


# ---- where the optimum is: a ball from the gap and strong convexity ------------------------------


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
    w: Array, lowest: Array, gap: float, own_gap: float, modulus: float, error: float
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


_ENTRIES = 1 << 20  # of features that are squared at a time: 8 MB


class ScoreRounding:
    """How far rounding may move the score of any output of an example.

    An output consists of parts, such as the tokens of a sequence, each with a row x of features.
    The score of a part is ``<x, W_k>`` for a column k of W, or the sum of a few of them, plus a few
    other parameters. A sum of m products is off by at most ``m u sum_j |x_j W_jk|``, which is no
    larger than ``m u ||x / c|| ||c W_k||`` for any c > 0. With c the root mean squares of the
    features the bound does not depend on their scales. Sums of m terms count for at most m
    roundings, or 8 sqrt(m) as in :func:`~.roundoff.likely`.

    Parameters
    ----------
    X : CSR or ndarray of shape (n_parts, d)
    starts : ndarray of shape (n_examples + 1,)
        Where the parts of each example begin.
    taken_apart : callable
        ``taken_apart(w)`` returns W, of shape (d, k), and a vector of the other parameters.
    columns, others : int
        How many columns of W and how many other parameters a part may add up.
    factor : float
        The largest loss with slack rescaling, 1 with margin rescaling.
    """

    def __init__(
        self,
        X: NDArray | sp.csr_array,
        starts: NDArray[np.int64],
        taken_apart: Callable[[Array], tuple[Array, Array]],
        columns: int = 1,
        others: int = 0,
        factor: float = 1.0,
    ):
        self._taken_apart = taken_apart
        sizes, counts = RowSizes.of(X), np.diff(starts)
        self._scales = sizes.scales
        n, example = len(counts), np.repeat(np.arange(len(counts)), counts)
        # 4 roundings of a part's score when it joins the others: it is also compared
        steps = (columns + others + 4.0) * counts  # additions along an output
        # 4 sums: of an output and of the true one, each with a loss no larger than the two
        each = 4.0 * DOUBLE * factor
        reach = likely(sizes.entries + steps[example]) * sizes.lengths
        self._reach = each * columns * sizes.largest * np.bincount(example, reach, n)
        self._others = each * others * counts * likely(steps)

    def of(self, w: Array) -> Array:
        """The bound for each example at w; infinity where w is too large for one."""
        W, rest = self._taken_apart(w)
        with np.errstate(over="ignore", invalid="ignore"):
            scales = self._scales  # no copy of W is made
            lengths = np.sqrt(np.einsum("i,ij,i,ij->j", scales, W, scales, W))
            errors = self._reach * lengths.max(initial=0.0)
            errors += self._others * np.abs(rest).max(initial=0.0)
        return np.where(np.isnan(errors), np.inf, errors)


class RowSizes(NamedTuple):
    """Sizes of the rows of X, relative to its largest value and to the scales of its columns."""

    largest: float
    scales: Array  # root mean squares of the stored values of each column, over the largest
    norms: Array  # of the rows
    lengths: Array  # norms of the rows after division of each column by its root mean square
    entries: Array  # stored values of each row

    @classmethod
    def of(cls, X: NDArray | sp.csr_array) -> "RowSizes":
        """The sizes; X is squared in blocks of rows."""
        n, d = X.shape
        if isinstance(X, np.ndarray):
            values, entries, counts = X, np.full(n, d), np.full(d, n)
        else:
            values, entries, counts = X.data, np.diff(X.indptr), column_counts(X)
        extremes = values.max(initial=0.0), values.min(initial=0.0)
        largest = max(*np.abs(np.asarray(extremes, np.float64)), np.finfo(float).tiny)
        rows = max(1, _ENTRIES * n // max(values.size, 1))
        sums, norms, lengths = np.zeros(d), np.empty(n), np.empty(n)
        for first in range(0, n, rows):
            sums += np.ones(min(rows, n - first)) @ _squares(X, largest, first, first + rows)
        scales = sums / np.maximum(counts, 1)
        inverses = np.divide(1.0, scales, out=np.zeros(d), where=scales > 0.0)
        for first in range(0, n, rows):
            squares = _squares(X, largest, first, first + rows)
            norms[first : first + rows] = squares @ np.ones(d)
            lengths[first : first + rows] = squares @ inverses
        sizes = np.sqrt(scales), largest * np.sqrt(norms), np.sqrt(lengths)
        return cls(float(largest), *sizes, entries.astype(np.float64))


def column_counts(X: sp.csr_array) -> NDArray[np.int64]:
    """Stored values of each column, counted in blocks: bincount makes its own copy of indices."""
    counts = np.zeros(X.shape[1], np.int64)
    for first in range(0, len(X.indices), _ENTRIES):
        counts += np.bincount(X.indices[first : first + _ENTRIES], minlength=len(counts))
    return counts


def _squares(X: NDArray | sp.csr_array, largest: float, first: int, last: int) -> Any:
    """The squares of some rows, each value divided by the largest."""
    rows = X[first:last].astype(np.float64)
    if isinstance(rows, np.ndarray):
        rows /= largest
        return np.square(rows, out=rows)
    rows.data /= largest
    np.square(rows.data, out=rows.data)
    return rows
