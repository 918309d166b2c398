"""Conjugate gradients for kernel machines, in the space of functions, with a low-rank start."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from sklearn_bundle.core.certificate import attained
from sklearn_bundle.core.contract import ABSENT, State
from sklearn_bundle.core.limits import IDLE_LIMIT, MOST_SIDE, MOST_STEPS
from sklearn_bundle.kernel.problems.l2tube import RIDGE, L2Tube, Preconditioner
from sklearn_bundle.kernel.solvers.base import MOST_REFINEMENTS, REFINEMENTS, KernelSolver

Array = NDArray[np.float64]

_FIRST_RANK = 2.0  # times sqrt(n): enough to see which points lie outside of the tube
_RANK = 8.0  # times sqrt(n): up to there factors cost as much as a few products with K
_PATIENCE = 25  # steps after which the rank is doubled: about what that costs
_SMALL = 600  # points up to which Newton's method in float64 takes milliseconds
_FLAT = 1e-3  # share of the first slope that may be left of a line
_SEARCHED = 20  # points on a segment at which the dual is compared: cheap beside a product
_WRONG = 1.5  # times the gap that was believed: what is more is rounding


class Function(NamedTuple):
    """``f = sum_i coef_i (k(x_i, .) + s)`` and its scores at all points."""

    coef: Array
    scores: Array

    def moved(self, step: float, along: "Function") -> "Function":
        """``f + step along``."""
        return Function(self.coef + step * along.coef, self.scores + step * along.scores)

    def dot(self, other: "Function") -> float:
        """The inner product in the space of functions."""
        return float(self.coef @ other.scores)


class _Direction(NamedTuple):
    """The direction of a step, and the slope along steepest descent by which the next is scaled."""

    gradient: Function
    along: Function
    slope: float


class Functions(NamedTuple):
    """The newest function, and the dual point of the best bound."""

    function: Function
    dual: Function


class KernelGradients(KernelSolver):
    """Minimizes ``1/2 |f|^2 + 1/2 sum_i C_i max(0, outside the tube)^2`` over functions f.

    The gradient at f is ``f - sum_i v_i (k(x_i, .) + s)``, where ``v_i`` is C_i times what the
    residual has outside of the tube; v is a dual point as well. So an iteration takes one product
    with the kernel matrix. Directions are conjugate (Polak and Ribiere), preconditioned by the
    Hessian with a kernel of low rank; the first point is the minimum over the span of that
    kernel's pivots. Steps are exact minimizers along their lines. For few points it is Newton's
    method with the whole matrix in float64, for somewhat more if rounding ends the gradients.

    Parameters
    ----------
    problem : L2Tube
    start : Functions, default=None
        Where to start; of another C or tolerance, if that is better than nothing.
    last : KernelGradients, default=None
        One that has ended, for another C and the same data: this one may start where that is, and
        has its factors.
    seed : int
        Of the pivots.

    Attributes
    ----------
    indefinite_coef : ndarray of shape (n,)
        The coefficients that show it.
    """

    history_fields = (("rank", np.int64),)

    def __init__(
        self,
        problem: L2Tube,
        *,
        start: Functions | None = None,
        last: "KernelGradients | None" = None,
        seed: int = 0,
    ):
        super().__init__(problem)
        self._start, self._last = start, last
        self._preconditioner = Preconditioner(problem, seed)
        self._matrix: Array | None = None  # all kernel values, for Newton's method
        self._best.raise_bound(0.0)
        self._opened = False
        self._function = self._dual = Function(np.zeros(problem.n), np.zeros(problem.n))
        self._gradient: Function | None = None  # at the newest point, where it is known
        self._direction: _Direction | None = None  # the last one
        self.indefinite_coef = np.zeros(problem.n)

    def states(self) -> Iterator[State]:
        """One state for every step; ends when no step is left."""
        idle = 0  # states without progress
        if not self._opened:
            self._open()
        while self._missed < MOST_REFINEMENTS and not self.indefinite:
            if self._stale:
                self._refine()
            reached = self._best.primal, self._best.bound
            moved = self.n_steps == 0 or self._step()
            if not self.indefinite:
                self._evaluate()
            self.n_steps += 1
            yield self._state()
            idle = 0 if (self._best.primal, self._best.bound) != reached else idle + 1
            if idle >= IDLE_LIMIT or not moved:
                idle = 0
                self.confirm()
                self._missed = max(self._missed + 1, REFINEMENTS + 1)

    def confirm(self, *, moving: bool = True) -> State:
        """Objective and bound, recomputed in float64, from which steps continue."""
        coef, dual, believed = self._function.coef, self._dual, self._best.gap
        primal, excess, scores = self._problem.certified_objective(coef)
        self._function = Function(coef, scores)
        bound, exact = self._problem.certified_bound(dual.coef)
        primal, bound = attained(primal, excess, bound)
        scores = dual.scores.copy()
        scores[dual.coef != 0.0] = exact
        self._dual = Function(dual.coef, scores)
        if bound > primal or bound == -np.inf:
            self._stop_as_indefinite(dual.coef if bound == -np.inf else coef)
        state = self._confirmed(primal, None, -np.inf if self.indefinite else bound)
        self._missed += not self._best.gap <= _WRONG * believed
        return state

    @property
    def kept(self) -> Functions:
        """What a solver of another C may start from."""
        return Functions(self._function, self._dual)

    def attach(self, problem: L2Tube) -> None:
        """Continue with a problem of the same data."""
        if self._problem is ABSENT and self._dtype == np.float64:
            problem.promote()
        self._problem = problem

    def detach(self) -> None:
        """Release the problem."""
        self._dtype, self._problem = self._problem.dtype, ABSENT

    def _open(self) -> None:
        """A first function and dual point."""
        problem = self._problem
        if problem.n <= _SMALL:
            problem.promote()
        self._dual = first = Function(np.zeros(problem.n), np.zeros(problem.n))
        start = None if self._last is None else self._continue_from(self._last)
        if self._matrix is None and not self._takes_matrix(_SMALL):
            first = self._in_span()
        if self._start is not None:
            start = Functions(*(self._recomputed(function.coef) for function in self._start))
        if start is not None:
            first = min(first, start.function, key=self._objective)
            self._raise_bound(start.dual)
        self._function, self._opened = first, True
        self._best.offer(self._objective(self._function), None)
        if not np.isfinite(self._best.primal):
            raise ValueError("The kernel values are too large, or NaN: scale the features.")

    def _continue_from(self, last: "KernelGradients") -> Functions:
        """Points of the last solver, whose scores are known, and what it knows of the kernel."""
        self._last, problem, known = None, self._problem, last._preconditioner.low
        if last._problem.dtype == np.float64:
            problem.promote()
        if problem.n <= _SMALL:
            self._matrix = last._matrix
        elif known.L.dtype == problem.dtype:
            self._preconditioner.low = known
        return last.kept

    def _takes_matrix(self, most: int) -> bool:
        """Whether the points are so few that the whole matrix is in memory from now on."""
        problem = self._problem
        if problem.n > most or 8.0 * problem.n**2 > problem.cache_bytes:
            return False
        self._matrix = problem.block(np.arange(problem.n))
        return True

    def _in_span(self) -> Function:
        """The minimum over the functions that the pivots span, by Newton's method.

        First for few pivots, which show where the others are wanted: at points outside of the tube.
        """
        problem, tube = self._problem, self._problem.tube
        preconditioner = self._preconditioner
        u, scores = np.zeros(0), np.zeros(problem.n)
        for share in (_FIRST_RANK, _RANK):
            outside = tube.excess(tube.y - scores) != 0.0
            preconditioner.extend(problem, share, outside, self.n_steps)
            L = preconditioner.low.L
            u = np.concatenate([u, np.zeros(len(L) - len(u))])
            for k in range(MOST_STEPS):
                excess = tube.excess(tube.y - scores)
                if not preconditioner.update(problem.C, excess != 0.0) and k:
                    break
                gradient = u - L @ (problem.C * excess).astype(L.dtype)
                toward = -preconditioner.solve(gradient)
                along = (toward.astype(L.dtype) @ L).astype(np.float64)
                step = self._line(float(u @ toward), float(toward @ toward), scores, along)
                u, scores = u + step * toward, scores + step * along
        coef = np.zeros(problem.n)
        coef[preconditioner.low.pivots] = preconditioner.low.coefficients(u)
        return Function(coef, scores)

    def _evaluate(self) -> Function:
        """The gradient at the newest point, and the bound that it gives."""
        problem, tube = self._problem, self._problem.tube
        excess = tube.excess(tube.y - self._function.scores)
        if self._matrix is None:
            preconditioner = self._preconditioner
            if self.n_steps - preconditioner.extended_at >= _PATIENCE:
                share = 2.0 * preconditioner.rank / np.sqrt(problem.n)
                preconditioner.extend(problem, share, excess != 0.0, self.n_steps)
            preconditioner.update(problem.C, excess != 0.0)
        toward = self._recomputed(problem.C * excess)
        self._raise_bound(toward)
        if tube.below < np.inf:
            self._raise_bound(self._function)
        gradient = self._gradient = self._function.moved(-1.0, toward)
        if problem.is_indefinite(toward.coef, toward.scores):
            self._stop_as_indefinite(toward.coef)
        return gradient

    def _raise_bound(self, end: Function) -> None:
        """Take the best bound of the segment from the best dual point to another one."""
        toward, best, at = end.moved(-1.0, self._dual), self._best.bound, None
        for step in np.linspace(1.0 / _SEARCHED, 1.0, _SEARCHED):
            between = self._dual.moved(step, toward)
            bound = self._problem.bound(between.coef, between.scores)
            if bound > best:
                best, at = bound, between
        if at is not None:
            self._dual = at
            self._best.raise_bound(best)

    def _step(self) -> bool:
        """Along Newton's or a conjugate direction; whether the objective fell."""
        gradient = self._evaluate() if self._gradient is None else self._gradient
        if self._matrix is None:
            direction = self._conjugate(gradient)
        else:
            direction = self._newton(self._matrix)
        if direction is None:
            return False
        function = self._function
        step = self._line(
            function.dot(direction), direction.dot(direction), function.scores, direction.scores
        )
        reached = function.moved(step, direction)
        if not self._best.offer(self._objective(reached), None):
            self._direction = None
            return False
        self._function = reached
        return True

    def _conjugate(self, gradient: Function) -> Function:
        """The preconditioned direction of steepest descent, made conjugate to the last one."""
        low = self._preconditioner.low
        inside = low.L @ gradient.coef.astype(low.L.dtype)
        change = self._preconditioner.solve(inside) - inside
        coef = gradient.coef.copy()
        coef[low.pivots] += low.coefficients(change)
        moved = (change.astype(low.L.dtype) @ low.L).astype(np.float64)
        steepest = Function(-coef, -(gradient.scores + moved))
        slope = steepest.dot(gradient)
        along, last = steepest, self._direction
        if last is not None:
            share = 0.0
            if last.slope < 0.0:
                share = max(0.0, (slope - steepest.dot(last.gradient)) / last.slope)
            along = steepest.moved(share, last.along)
            if along.dot(gradient) >= 0.0:
                along = steepest
        self._direction = _Direction(gradient, along, slope)
        return along

    def _newton(self, matrix: Array) -> Function | None:
        """To the minimum of the piece of the objective that the function lies in."""
        problem, tube, function = self._problem, self._problem.tube, self._function
        excess = tube.excess(tube.y - function.scores)
        outside = np.flatnonzero(excess)
        hessian = matrix[np.ix_(outside, outside)]
        hessian[np.diag_indices_from(hessian)] += 1.0 / problem.C[outside]
        nearest = (function.scores + excess - tube.y)[outside]  # side of the tube, less the target
        try:
            factor = cho_factor(hessian, check_finite=False)
        except LinAlgError:  # rounding of large numbers
            ridge = RIDGE * np.max(np.diagonal(hessian))
            try:
                factor = cho_factor(hessian + ridge * np.eye(len(hessian)), check_finite=False)
            except LinAlgError:
                self._stop_as_indefinite(function.coef)
                return None
        coef = np.zeros(problem.n)
        coef[outside] = cho_solve(factor, tube.y[outside] + nearest, check_finite=False)
        return self._recomputed(coef).moved(-1.0, function)

    def _line(self, slope: float, square: float, scores: Array, along: Array) -> float:
        """The minimizer t >= 0 of ``slope t + square t^2/2 + loss(scores + t along)``.

        Newton's method between bounds: the derivative is piecewise linear and rises.
        """
        problem, tube = self._problem, self._problem.tube
        residuals, weighted = tube.y - scores, problem.C * along
        low, high, step, first = 0.0, np.inf, 0.0, 0.0
        for k in range(MOST_STEPS):
            excess = tube.excess(residuals - step * along)
            rise = slope + step * square - float(excess @ weighted)
            first = first if k else rise
            if rise == 0.0 or (k and abs(rise) <= _FLAT * abs(first)) or first >= 0.0:
                break
            low, high = (step, high) if rise < 0.0 else (low, step)
            curvature = square + float(along @ (weighted * (excess != 0.0)))
            step = step - rise / curvature if curvature > 0.0 else 0.5 * (low + high)
            if not low < step < high:
                step = 0.5 * (low + high) if high < np.inf else 2.0 * low
        return step

    def _stop_as_indefinite(self, coef: Array) -> None:
        self.indefinite, self.indefinite_coef = True, coef

    def _objective(self, function: Function) -> float:
        return 0.5 * function.dot(function) + self._problem.loss(function.scores)

    def _recomputed(self, coef: Array) -> Function:
        self.passes += 1
        scores = self._problem.scores(coef) if self._matrix is None else self._matrix @ coef
        return Function(coef, scores)

    def _refine(self) -> None:
        """Continue from exact scores; where that does not help, with values in double precision."""
        self._stale, self._gradient = False, None
        if self._missed <= REFINEMENTS or self._matrix is not None:
            return
        problem = self._problem
        if problem.dtype == np.float32:
            problem.promote()
        if not self._takes_matrix(MOST_SIDE) and self._preconditioner.low.L.dtype != problem.dtype:
            excess = problem.tube.excess(problem.tube.y - self._function.scores)
            self._preconditioner.extend(problem, _RANK, excess != 0.0, self.n_steps)

    def _state(self) -> State:
        return self._state_at(self._function.coef, self._preconditioner.rank)
