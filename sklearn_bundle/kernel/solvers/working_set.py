"""The dual of a kernel machine with a free intercept, a working set of violating points at a time.

The largest violations choose the points (Joachims, 1999, Making large-scale SVM learning practical,
section 2); half of a set stays, whose kernel rows are known (Wen et al., 2018, ThunderSVM).
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.certificate import Best, attained
from sklearn_bundle.core.contract import State
from sklearn_bundle.core.limits import IDLE_LIMIT, SINGLE
from sklearn_bundle.kernel._compiled import working_set
from sklearn_bundle.kernel._compiled.working_set import LANES, MOST
from sklearn_bundle.kernel.problems.box import Box, BoxProblem
from sklearn_bundle.kernel.solvers.base import MOST_REFINEMENTS, SLACK, KernelSolver
from sklearn_bundle.kernel.values.row_cache import RowCache, rows_of

Array = NDArray[np.float64]

WHOLE_SET = (
    5000  # points up to which all are one set, if they are dense: fewer calls, and fewer rows
)
_FIRST = 128  # points of the first set; each has up to twice as many as the last
_SHARE = 0.1  # of the largest violation, to which a set is solved; its other points move as well
STEPS_OF_SET = 100  # per point of a set at most: an ill-conditioned one would take many thousands
_KEPT = 0.5  # share of a set that stays in the next one


class _Point(NamedTuple):
    """A dual point with its scores and about its best intercept.

    The scores come from some with ``errors``, by changes whose sizes have the sum ``path_length``,
    in ``n_sums`` sums.
    """

    beta: Array
    scores: Array
    intercept: float
    errors: Array
    path_length: float
    n_sums: int


class BoxPoints(NamedTuple):
    """Dual points from which to continue: the newest and, if it is another, the best model's."""

    newest: Array
    best: Array | None = None


class WorkingSetSolver(KernelSolver):
    """Minimizes the problem of :class:`BoxProblem` by steps in two variables of its dual.

    An iteration takes the points that violate the optimality conditions most, moves them by steps
    on their own matrix and then updates the scores of all points. Rows of kernel values are kept.
    Of few dense points all are one set, whose rows are computed as steps need them.

    Parameters
    ----------
    problem : BoxProblem
    tol : float
        Relative gap at which steps end if all points are one set.
    start : BoxPoints, default=None
        Where to begin; by default nearest to 0.
    last : WorkingSetSolver, default=None
        One that has ended, for other costs and the same data: this one continues from its point,
        at the same shares of the costs, with its rows.
    seed : int
        Of the first set, among points that violate as much.
    """

    history_fields = (("steps", np.int64),)
    _cache: Any  # a RowCache, or GivenRows of a matrix

    def __init__(
        self,
        problem: BoxProblem,
        *,
        tol: float = 0.0,
        start: BoxPoints | None = None,
        last: "WorkingSetSolver | None" = None,
        seed: int = 0,
    ):
        super().__init__(problem, tol)
        self._best = Best(least=problem.least, provisional=True)
        # Rows of a set are in memory together. Where they are given, to read the matrix of a set is
        # what it costs.
        space = int(problem.cache_bytes // (problem.n * problem.dtype.itemsize))
        most = MOST // 2 if problem.given else min(MOST, max(LANES, space))
        self._size = min(most, problem.n)
        self._order = np.random.default_rng(seed).permutation(problem.n)
        self._ended, self._n_steps = False, 0
        self._set = np.empty(0, np.intp)
        self._source: working_set.Source | None = None  # if all points are one set
        if last is None or last._problem.dtype != problem.dtype:
            if problem.n <= WHOLE_SET:
                self._source = problem.source()
            self._take_rows()
        else:
            self._source, self._cache, self._space = last._source, last._cache, last._space
        # Rows that the cache had computed before this fit, and others of this fit.
        self._computed, self._before = self._cache.n_computed, 0
        if last is None:
            self._begin(start or BoxPoints(np.zeros(problem.n)))
        else:
            self._newest = last.scaled(problem.box)
            self._evaluate()

    def scaled(self, box: Box) -> _Point:
        """A multiple of the newest point for another box, whose costs are one of those here.

        It is the same multiple if most of the variables are at bounds, where they then stay;
        otherwise the best one: where none is at a bound, this optimum is the next one too.
        """
        own, point = self._problem.box, self._newest
        factor = float(np.max(box.high - box.low) / np.max(own.high - own.low))
        at_low, at_high = point.beta == own.low, point.beta == own.high
        n_bounded = np.count_nonzero((at_low | at_high) & (point.beta != 0.0))
        if 2 * n_bounded < np.count_nonzero(point.beta):
            square = float(np.sum(point.beta * point.scores))
            factor = min(factor, float(np.sum(own.linear(point.beta))) / square)
            at_low = at_high = np.zeros(len(at_low), dtype=bool)
        scaled = factor * point.beta
        beta = np.where(at_high, box.high, np.where(at_low, box.low, scaled))
        beta = box.inside(beta)
        moved = float(np.sum(np.abs(beta - scaled)))
        errors = factor * point.errors + moved * self._problem.largest
        length = factor * point.path_length
        return _Point(beta, factor * point.scores, 0.0, errors, length, point.n_sums + 1)

    def _take_rows(self) -> None:
        """Begin with rows in the working precision, and with memory for the matrix of a set."""
        problem, self._space = self._problem, np.empty(0, self._problem.dtype)
        if self._source is None:
            self._cache = rows_of(problem.rows, problem.cache_bytes, self._size)
        else:
            width = len(self._source.tiled.norms)
            self._cache = RowCache(problem.rows, problem.cache_bytes, self._size, width)

    def _begin(self, start: BoxPoints) -> None:
        """Evaluate the points that there are, the newest last."""
        problem = self._problem
        for beta in (start.best, start.newest):
            if beta is not None:
                beta = problem.box.inside(beta.copy())
                if problem.given:
                    self._newest = self._exact(beta)
                else:
                    scores, errors = problem.scores(beta)
                    self._newest = _Point(beta, scores, 0.0, errors, 0.0, 0)
                self._evaluate()

    def states(self) -> Iterator[State]:
        """The start, then one state for each set; ends when no step is left."""
        idle = 0  # sets without progress
        yield self._state()
        while self._missed < MOST_REFINEMENTS:
            if self._stale:
                self._refine()
                idle = 0
            bound, steps = self._best.bound, self._n_steps
            self._solve_set()
            yield self._state()
            if self.indefinite or self._ended:
                return
            idle = 0 if self._best.bound > bound else idle + 1
            if self._stale or (self._n_steps > steps and idle <= IDLE_LIMIT):
                continue
            if self._problem.dtype != np.float32:
                return
            self._leave_single_precision()

    def confirm(self, *, moving: bool = True) -> State:
        """Objective of the best point and bound of the newest, recomputed in float64."""
        best, newest = self._best.point, self._newest
        found = [self._certify(best)]
        if not np.array_equal(best.beta, newest.beta):
            found.append(self._certify(newest))
        bound = max(certified.bound for certified, _ in found)
        places = range(len(found)) if moving else (0,)
        place = min(places, key=lambda k: found[k][0].primal + found[k][0].excess)
        certified, b = found[place]
        if -np.inf in (found[0][0].bound, found[-1][0].bound):
            self.indefinite = True
            bound = -np.inf
        primal, bound = self._attained(certified.primal, certified.excess, bound)
        point = (best, newest)[place]._replace(intercept=b)
        return self._confirmed(primal, point, bound)

    def _attained(self, primal: float, excess: float, bound: float) -> tuple[float, float]:
        """The gap says how far the point is from the optimum: rounding counts on one side."""
        least = self._problem.least
        if least == 0.0:
            return attained(primal, excess, bound)
        bound = max(bound, least)
        return primal + max(excess - (bound - least), 0.0), max(bound - excess, least)

    @property
    def kept(self) -> BoxPoints:
        """Where the next fit may start."""
        best, newest = self._best.point.beta, self._newest.beta
        return BoxPoints(newest, None if np.array_equal(best, newest) else best)

    def _certify(self, point: _Point):
        rounding = point.errors + self._problem.rounding(point.path_length, point.n_sums)
        return self._problem.certify(point.beta, point.scores, rounding, point.intercept)

    def _refine(self) -> None:
        """Continue from scores in float64; rounded kernel values only affect what moves now."""
        self._missed += 1
        self._stale = False
        self._promote_if_due()
        self._newest = self._exact(self._newest.beta)
        self._evaluate()

    def _exact(self, beta: Array) -> _Point:
        """The point with scores in float64, from the data."""
        problem = self._problem
        scores, errors = problem.exact_scores(beta[np.newaxis], np.arange(problem.n))
        return _Point(beta, scores[0], 0.0, errors[0], 0.0, 0)

    def _promote(self) -> None:
        super()._promote()
        self._source, self._before = None, self.passes
        self._take_rows()
        self._computed = 0

    def _evaluate(self) -> None:
        """Objective and bound of the newest point, at an intercept between its slopes."""
        problem, point = self._problem, self._newest
        up, down = problem.slopes(point.beta, point.scores)
        highest, least = float(down.max()), float(up.min())
        b = -0.5 * (highest + least)
        if not np.isfinite(b):  # one point, or all at a bound of the same side
            b = -highest if np.isfinite(highest) else -least
        primal, bound = problem.values(point.beta, point.scores, b)
        if not (np.isfinite(primal) or np.isfinite(self._best.primal)):
            raise ValueError("The kernel values are too large, or NaN: scale the features.")
        self._newest = point._replace(intercept=b)
        self._slopes, self._violation = (up, down), highest - least
        self._best.raise_bound(bound)
        self._best.offer(primal, self._newest)

    def _solve_set(self) -> None:
        """Choose a set, solve it, and bring scores, objective and bound up to date."""
        problem, box, point = self._problem, self._problem.box, self._newest
        chosen = self._choose()
        if not len(chosen) or not self._violation > 0.0:
            self._ended = True
            return
        n, b = len(chosen), point.intercept
        rows, n_rows, side = self._rows_of(chosen)
        diagonal, g = np.ones(side, problem.dtype), np.zeros(side, problem.dtype)
        diagonal[:n] = problem.rows.diagonal[chosen]
        # The intercept is added, so that few digits of a large slope are lost.
        g[:n] = point.scores[chosen] + b - box.target[chosen]
        beta, low, high = np.zeros((3, side))
        beta[:n], low[:n], high[:n] = point.beta[chosen], box.low[chosen], box.high[chosen]
        of_box = low, high, box.target[chosen], box.width, box.total, b
        # Rounding of slopes is the least that makes sense if the set is all points.
        least = _SHARE * self._violation if self._source is None else SINGLE * np.abs(g).max()
        limits = least, SLACK * self._tol, STEPS_OF_SET * n
        steps, n_rows, indefinite = working_set.solve(
            self._source, rows, n_rows, diagonal, g, of_box, beta, *limits
        )
        slots = self._slots_of(chosen, n_rows)
        self._n_steps += steps
        self._set = chosen
        if indefinite and problem.dtype != np.float32:
            self.indefinite = True
        change = beta[:n] - point.beta[chosen]
        moved = np.flatnonzero(change)
        after, scores = point.beta.copy(), point.scores.copy()
        after[chosen] = beta[:n]
        working_set.add_rows(self._cache.values, slots[moved], change[moved], scores)
        path_length = point.path_length + float(np.sum(np.abs(change)))
        self.passes = self._before + self._cache.n_computed - self._computed
        self._newest = point._replace(
            beta=after, scores=scores, path_length=path_length, n_sums=point.n_sums + 1
        )
        self._evaluate()

    def _rows_of(self, chosen: NDArray[np.intp]) -> tuple[working_set.Rows, int, int]:
        """The matrix of a set, or the place for rows of all points; its rows and its side."""
        cache = self._cache
        if self._source is not None:
            return working_set.Rows(cache.values, cache.places), cache.n_computed, len(cache.places)
        n = len(chosen)
        side = -(-n // LANES) * LANES
        if len(self._space) < side**2:
            self._space = np.empty(side**2, self._problem.dtype)
        K = self._space[: side**2].reshape(side, side)
        working_set.gather(cache.values, cache.slots(chosen), chosen, K)
        return working_set.Rows(K, np.arange(side)), n, side

    def _slots_of(self, chosen: NDArray[np.intp], n_rows: int) -> NDArray[np.intp]:
        """Where the rows of a set are after its steps."""
        cache = self._cache
        if self._source is None:
            return cache.slots(chosen)
        cache.filled(n_rows)
        if n_rows == cache.n_rows < self._problem.n:  # by sets from here on: their rows take turns
            self._source = None
        return cache.places[chosen]

    def _choose(self) -> NDArray[np.intp]:
        """Points of the last set that violate most, then the largest violators of both sides."""
        problem, b = self._problem, self._newest.intercept
        size = min(self._size, max(_FIRST, 2 * len(self._set)))
        if problem.n <= size or self._source is not None:
            return np.arange(problem.n)
        rise, fall = -b - self._slopes[0], self._slopes[1] + b
        kept = self._set
        if len(kept):
            worst = np.maximum(rise[kept], fall[kept])
            count = min(len(kept), int(_KEPT * size))
            kept = kept[np.argpartition(-worst, count - 1)[:count]]
        free = np.ones(problem.n, dtype=bool)
        free[kept] = False
        chosen = [kept]
        for violations in (rise, fall):
            room = (size - len(kept)) // 2
            order = self._order[free[self._order] & (violations[self._order] > 0.0)]
            if len(order) > room:
                order = order[np.argpartition(-violations[order], room - 1)[:room]]
            free[order] = False
            chosen.append(order)
        return np.sort(np.concatenate(chosen))

    def _state(self) -> State:
        point, further = self._best.point, (self._n_steps,)
        state = self._best.state(point.beta, point.intercept, self.passes, None, further)
        # Of an indefinite kernel not even the least objective is known.
        return replace(state, lower_bound=-np.inf) if self.indefinite else state


def working_sets(problem: BoxProblem, kept: Any, tol: float, seed: int) -> WorkingSetSolver:
    """The solver, from what an earlier one of the same data left; other starts do not count."""
    last = kept if isinstance(kept, WorkingSetSolver) else None
    start = kept if isinstance(kept, BoxPoints) else None
    return WorkingSetSolver(problem, tol=tol, start=start, last=last, seed=seed)
