"""The solver of all kernel machines: all points at once, or a set of violating ones at a time.

Few points have their matrix in double precision, and one set is all of them. With more, each set
has about 1,000 points: half of them those of the last set that violate most. Their matrix stays in
a core's cache while compiled steps solve it (Joachims, 1999; Fan, Chen and Lin, 2005). Then the
changes are added to the scores of all points, in single precision at first.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.certificate import Best
from sklearn_bundle.core.contract import State
from sklearn_bundle.core.limits import TINY
from sklearn_bundle.kernel._compiled import steps
from sklearn_bundle.kernel._compiled.rows import pick
from sklearn_bundle.kernel.problem import Certified, Dual, Point, Problem
from sklearn_bundle.kernel.values.data import padded
from sklearn_bundle.kernel.values.kernel import RowCache

Array = NDArray[np.float64]

WHOLE = 2048  # points whose matrix is computed: 32 MB
SET = 1024  # points of a set: their matrix, 4 MB in float32, is what a core's cache holds
_CHEAP = 64  # features up to which rows are computed anew in less time than it takes to keep them
_SLACK = 0.95  # of tol: where the working precision sees the end
_SHARE = 0.1  # of the largest difference of slopes: what a set leaves
_STEPS = 100  # for each point of a set: more are better spent on another set
_WORK, _FEWEST = 1 << 21, 256  # steps times points of a state where all are one set: 2 ms or more
_KEPT = 0.5  # of a set: points of the last one
_PROGRESS, _IDLE = 0.99, 30  # of the gap that is left after so many states, or no more is gained
_REFINEMENTS = 3  # with scores in float64, before all values are in float64
_MOST_REFINEMENTS = 12


class Start(NamedTuple):
    """A dual point, and the dual that it belongs to."""

    beta: Array
    dual: Dual


class WorkingSets:
    """See the module; a :class:`~sklearn_bundle.core.contract.Solver`.

    ``last`` is a solver of the same points with other costs: its point is the start, and its rows
    of kernel values are used again.
    """

    name = "working-set"
    history_fields = (("steps", np.int64),)

    def __init__(
        self,
        problem: Problem,
        *,
        tol: float,
        start: Start | None = None,
        last: "WorkingSets | None" = None,
        seed: int = 0,
    ):
        if last is not None:
            start, problem.dtype = last.kept, last._problem.dtype
        self._problem, self._tol = problem, tol
        self._best = Best(least=problem.least, provisional=True)
        self._rng = np.random.default_rng(seed)
        self.n_steps = self._missed = 0
        self.indefinite = self._ended = self._stale = False
        self._sure: tuple[Certified, Point] | None = None  # the best certified point
        self._proved = -np.inf  # the best certified bound
        self._set = np.empty(0, np.intp)
        self._slopes, self._violation = np.zeros((2, problem.n)), np.inf
        self._rows = _rows_of(problem) if last is None else last._rows
        n, dual = problem.n, problem.dual
        self._newest = Point(np.zeros(n), np.zeros(n))
        if start is not None and len(start.beta) == n:
            self._newest = self._from(dual.scaled(start.beta, start.dual))
        elif dual.total > 0.0:
            self._newest = self._at(dual.inside(np.zeros(n)))
        if dual.total > 0.0:  # the model w = 0, which is best where the origin lies inside the data
            self._best.offer(0.0, Point(np.zeros(n), np.zeros(n)))
        self._evaluate()
        # the point 0, whose certificate has no rounding
        self._zero = [] if self._newest.beta.any() else [self._newest]

    @property
    def kept(self) -> Start:
        """Where another solver may start."""
        return Start(self._newest.beta, self._problem.dual)

    @property
    def passes(self) -> int:
        """Rows of kernel values that were computed."""
        return self._rows.n_computed

    def states(self) -> Iterator[State]:
        """One state for each set; ends when no step is left."""
        idle, gap = 0, np.inf
        while self._missed < _MOST_REFINEMENTS:
            if self._stale:
                self._refine()
                idle, gap = 0, np.inf
            n_steps = self.n_steps
            self._solve_set()
            yield self._state()
            if self.indefinite or self._ended or self._surrounds_origin():
                return
            idle += 1
            if self._best.gap < _PROGRESS * gap:
                idle, gap = 0, self._best.gap
            if self._stale or (self.n_steps > n_steps and idle <= _IDLE):
                continue
            if self._problem.dtype != np.float32:
                return
            self.confirm()
            self._missed = max(self._missed, _REFINEMENTS)

    def confirm(self, *, moving: bool = True) -> State:
        """Objective of the best point and bound of the newest, recomputed in float64."""
        own, point = self._rows.certify(self._problem, self._best.point)
        found = [(own, point)] if self._sure is None else [(own, point), self._sure]
        if not own.primal - own.bound <= self._tol * abs(own.primal):
            points, self._zero = [self._newest, *self._zero], []
            found += [self._rows.certify(self._problem, point) for point in points]
        bound = max([self._proved, *(certified.bound for certified, _ in found)])
        if any(certified.bound == -np.inf for certified, _ in found):
            self.indefinite, bound = True, -np.inf
        elif moving:
            own, point = min(found, key=lambda one: one[0].primal)
        self._sure, self._proved = (own, point), bound
        ball = own._replace(radius=_radius(own, bound)) if np.isfinite(bound) else None
        self._best.replace(own.primal, point)
        self._best.bound = min(bound, own.primal)
        self._stale = True
        return replace(self._state(), ball=ball)

    def _from(self, beta: Array) -> Point:
        """A point of its own, which may be scaled: what is certified stays as it is."""
        return Point(beta.copy(), self._rows.exact(self._problem, beta))

    def _at(self, beta: Array) -> Point:
        """A point whose scores are in the working precision: rough ones will do to begin with."""
        scores, active = np.zeros(len(beta)), np.flatnonzero(beta)
        for start in range(0, len(active), SET):
            part = active[start : start + SET]
            self._rows.add(part, beta[part], scores)
        return Point(beta, scores, 0.0, float(np.abs(beta).sum()))

    def _refine(self) -> None:
        """Continue from scores in float64; later with values in float64."""
        self._missed += 1
        self._stale = False
        if self._missed > _REFINEMENTS and self._problem.dtype == np.float32:
            before = self.passes
            self._problem.promote()
            self._rows = _rows_of(self._problem)
            self._rows.n_before += before
        self._newest = self._from(self._newest.beta)
        self._evaluate()

    def _evaluate(self) -> None:
        """Objective and bound of the newest point, at its best scale; the best model with it."""
        problem, point = self._problem, self._newest
        dual = problem.dual
        given = problem.variables, dual.s, dual.total, *self._slopes
        t, primal, bound, b, self._violation = steps.evaluate(point.beta, point.scores, *given)
        if not (np.isfinite(primal) or np.isfinite(self._best.primal)):
            raise ValueError("The kernel values are too large, or NaN: scale the features.")
        self._newest = point = point._replace(b=b, path=t * point.path)
        self._best.raise_bound(bound)
        self._best.offer(primal, point, is_free=True)

    # ---- a set -----------------------------------------------------------------------------------

    def _solve_set(self) -> None:
        """Choose a set, solve it, and bring scores, objective and bound up to date."""
        problem, dual, point = self._problem, self._problem.dual, self._newest
        chosen = self._rows.everything
        chosen = self._choose() if chosen is None else chosen
        if not len(chosen) or not self._violation > 0.0:
            self._ended = True
            return
        n, values = len(chosen), self._rows.matrix(chosen)
        side, dtype = len(values), values.dtype
        of, beta = np.zeros((5, side)), np.zeros(side)
        g, diagonal = np.zeros(side, dtype), np.ones(side, dtype)
        of[:, :n] = problem.variables[:, chosen]
        before = beta[:n] = point.beta[chosen]
        g[:n] = point.scores[chosen] + of[steps.RIDGE, :n] * before + point.b - of[steps.TARGET, :n]
        diagonal[:n] = np.diagonal(values)[:n] + of[steps.RIDGE, :n]
        extra = -1
        if dual.s < np.inf:
            extra = n
            beta[n], diagonal[n] = -point.beta.sum(), dual.s
            of[:, n] = 0.0, -np.inf, np.inf, 0.0, dual.s
        whole = self._rows.everything is not None
        scales = dual.is_squared and dual.total == 0.0
        closer = _SLACK * self._tol * 0.5**self._missed  # rounding comes on top of what steps see
        limits = (0.0, closer) if whole else (_SHARE * self._violation, 0.0)
        given = values, None, diagonal, g, of, beta, extra, point.b, scales, dual.total
        rough = steps.ROUGH if dtype == np.float32 else steps.FINE
        most = max(_FEWEST, _WORK // n) if whole else _STEPS * n
        space = np.empty((3, side), dtype)
        taken, indefinite = steps.solve(*given, *limits, most, rough, space)
        self.n_steps += taken
        self._set = chosen
        self.indefinite |= indefinite and dtype != np.float32
        change = beta[:n] - before
        moved = np.flatnonzero(change)
        after, scores = point.beta.copy(), point.scores.copy()
        after[chosen] = beta[:n]
        self._rows.add(chosen[moved], change[moved], scores)
        self._newest = Point(after, scores, 0.0, point.path + float(np.sum(np.abs(change))))
        self._evaluate()

    def _choose(self) -> NDArray[np.intp]:
        """Points of the last set that violate most, and others.

        Of a squared loss the others are drawn in proportion to their violation; else they are
        those that violate most, in both directions.
        """
        problem, b, (up, down) = self._problem, self._newest.b, self._slopes
        size = min(SET, problem.n)
        above, below = -b - up, down + b
        worst = np.maximum(np.maximum(above, below), 0.0)
        kept = _largest(worst, self._set, int(_KEPT * size))
        worst[kept] = 0.0
        left = size - len(kept)
        if problem.dual.is_squared:
            found = np.flatnonzero(worst)
            times = self._rng.standard_exponential(len(found))
            times /= np.maximum(worst[found] / worst.max(initial=TINY), TINY)
            order = np.argpartition(times, left - 1)[:left] if len(found) > left else slice(None)
            return np.sort(np.concatenate([kept, found[order]]))
        chosen = [kept]
        for violations in (above, below):
            found = np.flatnonzero((violations > 0.0) & (worst > 0.0))
            chosen.append(_largest(violations, self._rng.permutation(found), left // 2))
            worst[chosen[-1]] = 0.0
        return np.sort(np.concatenate(chosen))

    def _surrounds_origin(self) -> bool:
        """Whether the model w = 0 is best, and the dual's w hardly longer than 0.

        The optimum may be 0, whose relative gap is not finite. w is then measured by the longest
        point.
        """
        best = self._best
        return best.primal == 0.0 and -best.bound <= self._tol**2 * -self._problem.least

    def _state(self) -> State:
        point = self._best.point
        state = self._best.state(point.beta, point.b, self.passes, None, (self.n_steps,))
        return replace(state, lower_bound=-np.inf) if self.indefinite else state


def _largest(values: Array, among: NDArray[np.intp], count: int) -> NDArray[np.intp]:
    """Some of these places, so many at most, with the largest values."""
    if len(among) <= count:
        return among
    return among[np.argpartition(-values[among], count - 1)[:count]]


def _radius(certified: Certified, bound: float) -> float:
    """That of the ball around w if the bound is better than the point's own."""
    gap = max(certified.primal - bound, 0.0)
    return min(certified.radius, float(np.sqrt(2.0 * gap)) * (1.0 + 4.0 * np.finfo(float).eps))


# ---- where kernel values come from ---------------------------------------------------------------


class _Whole:
    """The matrix of all points, in double precision: scores are exact."""

    n_before = 0

    def __init__(self, problem: Problem):
        self.everything, self.n_computed = np.arange(problem.n), problem.n
        self._values, self._error = problem.data.square(problem.points, padded(problem.n))
        self._positive = problem.data.kernel.name == "rbf"  # then sums of sizes are sums of values
        problem.dtype = np.dtype(np.float64)

    def matrix(self, chosen: NDArray[np.intp]) -> np.ndarray:
        return self._values

    def add(self, chosen: NDArray[np.intp], change: Array, scores: Array) -> None:
        scores += change @ self._values[chosen, : len(scores)]

    def exact(self, problem: Problem, beta: Array) -> Array:
        scores, active = np.zeros(len(beta)), np.flatnonzero(beta)
        self.add(active, beta[active], scores)
        return scores

    def certify(self, problem: Problem, point: Point) -> tuple[Certified, Point]:
        sizes, lengths = np.abs(point.beta), problem.lengths
        reach = float(sizes @ lengths) * lengths
        of_sums = self.exact(problem, sizes) if self._positive else reach
        errors = self._error * reach + problem.unit * of_sums * (1.0 + problem.unit)
        point = point._replace(scores=self.exact(problem, point.beta))
        certified = problem.certified(point, errors)
        return certified, point._replace(b=certified.b)


class _Part:
    """Rows of many points, computed for each set, or kept as long as there is space."""

    everything = None
    n_before = 0

    def __init__(self, problem: Problem):
        self._values, self._n_threads = problem.rows, problem.n_threads
        self._n_computed, self._cache = 0, None
        self._space = np.empty(0, problem.dtype)
        dense = self._values.dense
        if problem.dtype != np.float32 or dense is None or dense.X.shape[1] > _CHEAP:
            self._cache = RowCache(self._values, problem.cache_bytes, SET)

    @property
    def n_computed(self) -> int:
        own = self._n_computed if self._cache is None else self._cache.n_computed
        return self.n_before + own

    def matrix(self, chosen: NDArray[np.intp]) -> np.ndarray:
        n, side = len(chosen), padded(len(chosen))
        if len(self._space) < side**2:
            self._space = np.empty(side**2, self._values.dtype)
        values = self._space[: side**2].reshape(side, side)
        if self._cache is None:
            values[:n, :n] = self._values.block(chosen, chosen)
        else:
            pick(self._cache.values, self._cache.slots(chosen), chosen, values)
        values[:n, n:] = values[n:] = 0.0
        return values

    def add(self, chosen: NDArray[np.intp], change: Array, scores: Array) -> None:
        if self._cache is not None:
            steps.add_rows(self._cache.values, self._cache.slots(chosen), change, scores)
            return
        self._n_computed += len(chosen)
        self._values.add_sums(change, chosen, scores, self._n_threads)

    def exact(self, problem: Problem, beta: Array) -> Array:
        return problem.exact(beta)[0]

    def certify(self, problem: Problem, point: Point) -> tuple[Certified, Point]:
        return problem.certify(point)


def _rows_of(problem: Problem) -> Any:
    most = SET if problem.data.kernel.name == "linear" else WHOLE  # of low rank: many steps
    if problem.n <= most and 8 * padded(problem.n) ** 2 <= max(problem.cache_bytes, 1 << 21):
        return _Whole(problem)
    return _Part(problem)
