"""The dual of every kernel machine, and the certificate of its points.

A machine is a row of numbers (METHODS, section 8): with costs C_i, labels y_i and targets t_i,

==================  ======  ==============  ==========  =======  =====  ===
machine             target  low, high       ridge       width    total  s
==================  ======  ==============  ==========  =======  =====  ===
SVC                 y       0 to y C        0           0        0      inf
L2-SVM              y       0 to y inf      1/C         0        0      1
SVR                 t       -C, C           0           epsilon  0      inf
squared tube        t       -inf, inf       1/C         epsilon  0      inf
OneClassSVM         0       0, weights      0           0        nu n   inf
squared novelty     1       0, inf          1/C         0        0      0
==================  ======  ==============  ==========  =======  =====  ===
"""

from functools import cached_property
from math import fsum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.limits import DOUBLE, likely
from sklearn_bundle.kernel._compiled import steps
from sklearn_bundle.kernel.values.data import KernelData
from sklearn_bundle.kernel.values.kernel import KernelRows

Array = NDArray[np.float64]


class Certified(NamedTuple):
    """Objective, bound, intercept, and where the optimum lies.

    Its w is within ``radius``, its intercept between ``b - below`` and ``b + above``. Without a
    bound, -inf, the matrix is not one of kernel values.
    """

    primal: float
    bound: float
    b: float
    radius: float
    below: float
    above: float


class Dual(NamedTuple):
    """``max target'b - width |b|_1 - 1/2 b'(K + s + diag(ridge)) b`` with ``low <= b <= high``.

    s is the prior variance of the intercept: 0 without one, 1 for one that is penalized by half its
    square, and infinite for one that is free; then ``sum b = total`` takes the place of s.
    The primal loss of a residual r is ``max over b in the box of b r - width |b| - ridge/2 b^2``.
    Either all ridges are positive and the box has no finite bound but 0, or all are 0.
    """

    target: Array
    low: Array
    high: Array
    ridge: Array
    width: float = 0.0
    total: float = 0.0
    s: float = np.inf

    @property
    def is_squared(self) -> bool:
        return bool(self.ridge[0] > 0.0)

    @property
    def variables(self) -> Array:
        """What compiled steps read, of shape (5, n)."""
        width = np.full(len(self.target), self.width)
        return np.stack([self.target, self.low, self.high, width, self.ridge])

    def inside(self, beta: Array) -> Array:
        """beta moved into the box and, with a free intercept, onto the hyperplane.

        What is missing goes to a variable that is free to take it, else to one after another.
        """
        beta = np.clip(beta, self.low, self.high)
        if self.s < np.inf:
            return beta
        for _ in range(2):  # the second time for rounding
            missing = self.total - fsum(beta)
            room = self.high - beta if missing > 0.0 else beta - self.low
            free = np.where((beta != 0.0) & (beta > self.low) & (beta < self.high), room, 0.0)
            place = int(np.argmax(free))
            if free[place] >= abs(missing):
                step = np.zeros(len(beta))
                step[place] = abs(missing)
            else:
                step = np.clip(abs(missing) - (np.cumsum(room) - room), 0.0, room)
            beta = np.clip(beta + np.copysign(step, missing), self.low, self.high)
        return beta

    def scaled(self, beta: Array, before: "Dual") -> Array:
        """A start for these costs from the solution for others: variables at a bound stay there."""
        if self.is_squared:
            return beta
        factor = float(np.max(self.high - self.low) / np.max(before.high - before.low))
        at_low = (beta == before.low) & (beta != 0.0)
        at_high = (beta == before.high) & (beta != 0.0)
        if 2 * np.count_nonzero(at_low | at_high) < np.count_nonzero(beta):
            factor = min(factor, 1.0)
        scaled = np.where(at_high, self.high, np.where(at_low, self.low, factor * beta))
        return self.inside(scaled)


class Point(NamedTuple):
    """A dual point with its scores ``K beta`` and the intercept of its model.

    Scores are float64 sums of values in the working precision; the coefficients of these sums have
    sizes that add up to ``path``: no score is off by more than path times a value's error.
    """

    beta: Array
    scores: Array
    b: float = 0.0
    path: float = 0.0


class Problem:
    """A dual with its kernel values.

    Parameters
    ----------
    data : KernelData
    points : ndarray of shape (n,)
        Those of its points that take part.
    dual : Dual
    cache_bytes : float
        Memory for rows of kernel values.
    n_threads : int, default=1
        For sums over kernel values.
    """

    def __init__(
        self,
        data: KernelData,
        points: NDArray[np.intp],
        dual: Dual,
        *,
        cache_bytes: float,
        n_threads: int = 1,
    ):
        self.data, self.points, self.dual = data, points, dual
        self.cache_bytes, self.n_threads = cache_bytes, n_threads
        self.n, self.dtype = len(points), data.dtype
        self.variables = dual.variables

    @cached_property
    def rows(self) -> KernelRows:
        """Kernel values between the points, in the working precision."""
        values = self.data.rows(self.dtype)
        return values if self.n == values.n else values.take(self.points)

    def promote(self) -> None:
        """From here on rows are in double precision."""
        self.dtype = np.dtype(np.float64)
        vars(self).pop("rows", None)

    @cached_property
    def lengths(self) -> Array:
        """Upper bounds of sqrt(k(x, x)), of which there may be values in single precision alone."""
        return self.data.lengths(self.points)

    @property
    def least(self) -> float:
        """No objective is below this: 0 or, with a total, less than any dual objective.

        Then beta is not negative, and its function no longer than the total times the longest
        point: the dual objective is half of this or more, so that rounding is no matter.
        """
        return 0.0 - (self.dual.total * float(self.lengths.max())) ** 2

    @property
    def unit(self) -> float:
        """Rounding of a sum over the points, relative to the sizes of its terms."""
        return DOUBLE * float(likely(self.n) + steps.FEW)

    def exact(self, beta: Array, rows: NDArray[np.intp] | None = None) -> tuple[Array, Array]:
        """Scores ``K beta`` of some of the points from the data, in float64; bounds on errors."""
        rows = np.arange(self.n) if rows is None else rows
        active = np.flatnonzero(beta)
        where = self.points[active], self.points[rows]
        return self.data.exact_sums(beta[active], *where, self.n_threads)

    def certify(self, point: Point) -> tuple[Certified, Point]:
        """The certificate in float64, and the point with exact scores where there may be a loss."""
        near, off = point.beta != 0.0, point.path * self.data.error_of_value
        errors = np.zeros(self.n)
        point = point._replace(scores=point.scores.copy())
        exact = np.zeros(self.n, dtype=bool)
        b = point.b
        while True:
            near |= self._may_cost(point.scores + b, np.where(exact, errors, off))
            rows = np.flatnonzero(near & ~exact)
            if not len(rows) and exact.any():
                return certified, point  # noqa: F821
            rows = rows if len(rows) or exact.any() else np.arange(self.n)
            point.scores[rows], errors[rows] = self.exact(point.beta, rows)
            exact[rows] = True
            certified = self.certified(point, np.where(exact, errors, off))
            b = certified.b
            point = point._replace(b=b)

    def _may_cost(self, scores: Array, errors: Array) -> NDArray[np.bool_]:
        """Whether points may have a loss, if their scores are off by no more than this."""
        dual, left = self.dual, self.dual.target - scores
        above = (left + errors > dual.width) & (dual.high > 0.0)
        return above | ((errors - left > dual.width) & (dual.low < 0.0))

    def certified(self, point: Point, errors: Array) -> Certified:
        dual = self.dual
        given = self.variables, dual.s, dual.total, self.least, point.b, point.beta, point.scores
        precision = errors, self.lengths, self.unit, steps.CLOSE
        return Certified(*steps.certify(*given, *precision, np.empty(self.n)))
