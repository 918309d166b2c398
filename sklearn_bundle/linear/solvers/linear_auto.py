"""Solvers of linear problems by name, and the solver that chooses among them."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import log10

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.certificate import confirmed
from sklearn_bundle.core.contest import JUDGED_FROM, Contestant
from sklearn_bundle.core.contract import ABSENT, State, bound_below
from sklearn_bundle.core.optimum import smaller
from sklearn_bundle.linear.losses.base import Loss
from sklearn_bundle.linear.problems.linear import LinearProblem
from sklearn_bundle.linear.regularizers import Regularizer
from sklearn_bundle.linear.rows.rows import (
    CHEAP_FACTORISATION,
    entries_of_pass,
    factorization,
)
from sklearn_bundle.linear.solvers.bundle import ADVICE, BundleSolver
from sklearn_bundle.linear.solvers.class_coordinate import ClassCoordinateSolver
from sklearn_bundle.linear.solvers.coordinate_descent import CoordinateDescentSolver
from sklearn_bundle.linear.solvers.descent_solver import DescentSolver
from sklearn_bundle.linear.solvers.dual_coordinate import DualCoordinateSolver
from sklearn_bundle.linear.solvers.least_squares import LeastSquaresSolver
from sklearn_bundle.linear.solvers.newton import NewtonSolver
from sklearn_bundle.linear.solvers.sample_planes import SampleBundle, SamplePlanesSolver
from sklearn_bundle.linear.solvers.solver import Along, LinearSolver, LinearStart, Task

Array = NDArray[np.float64]

_MOST_FEATURES = 2000  # for Newton's method: a Hessian of 32 MB that takes about 0.1 s to factor
_SMOOTH_FACTORISATION = 1.0  # passes that one may cost if the loss is smooth: few steps are enough
# ``||x_i||^2 / (n reg_lambda)`` is how far a row's own step moves its score. Up to the first number
# a kinked loss needs only few epochs, while Newton's method spends steps on finding the kinks. But
# with more rows per feature than the second number, Newton's method starts with a sixteenth of the
# rows and needs little more.
_STRONG, _MANY_ROWS = 0.5, 800
# Expected costs of the methods, in products with X or X': estimates that the user guide states.
# They determine after how much work a method is judged by the rate at which its gap falls.
# For Newton's method on a kinked loss: steps per power of ten of the gap, which were 16 with 80
# rows per feature and 48 with three, and rows with curvature, a few per feature or half of them.
_STEPS_A_DECADE, _STEPS_BY_SHAPE, _MOST_STEPS_A_DECADE = 15.0, 100.0, 50.0
_CURVED_A_FEATURE, _MOST_CURVED = 4.0, 0.5
_SMOOTH_STEPS, _SMOOTH_HESSIAN = 25, 2.0  # passes: a sample of the rows is enough
_SOLVING = 4.0  # times the factorization's arithmetic: small matrices are slower than large ones
_LINE_SEARCH_PASSES, _LINE_SEARCH_PROGRAMMES = 1000.0, 1e8  # the latter in multiplications
# 100 epochs; 100 steps of L-BFGS, which took 4 to 260 passes to a gap of 1e-3.
_PASSES = {"dual-coordinate": 100.0, "lbfgs": 200.0}
# Width of a kinked loss's smoothing, times the gap with which Newton's method begins: it was 12 to
# 20 times the gap with many rows at a kink, and up to 300 times with few.
_WIDTH = 15.0
_RESUMED = 2.0  # a method that was left is resumed if it is this many times cheaper
# Stored entries of X up to which paths by line search took a third to nine tenths of the time of
# Newton's method with the hinge, and 0.8 to 1.3 of it with losses of regression.
_FEW_ENTRIES = 1 << 14
_FEWEST_ROWS = 1 << 14  # in an iteration of epochs, 1 or 2 ms: fewer are visited many times
# Epochs that you ask for by name get so many passes before they are judged. Then they may have up
# to so many times the expected work of another method left to do.
_PASSES_OF_CHOSEN, _MARGIN_OF_CHOSEN = 500.0, 2.5

# The classes by public name. The first one that takes the loss and fits is used.
SOLVERS: dict[str, tuple[type[LinearSolver], ...]] = {
    "newton": (NewtonSolver, LeastSquaresSolver, DescentSolver),
    "lbfgs": (DescentSolver,),
    "dual-coordinate": (DualCoordinateSolver, ClassCoordinateSolver),
    "line-search": (SamplePlanesSolver, BundleSolver),
    "cutting-plane": (BundleSolver,),
    "conjugate-gradient": (LeastSquaresSolver,),
    "coordinate-descent": (CoordinateDescentSolver,),
}
# Those that may be best for a task, so that "auto" tries no others.
_MAY_BE_BEST: tuple[type[LinearSolver], ...] = (
    *(LeastSquaresSolver, NewtonSolver, DescentSolver),
    *(ClassCoordinateSolver, CoordinateDescentSolver),
)


def supports(name: str, loss: Loss, omega: Regularizer) -> bool:
    """Whether a solver of this name takes the loss and the regularizer: known before the data.

    Names that are not in the table do: "auto", and those that a derived estimator adds.
    """
    return name not in SOLVERS or any(kind.supports(name, loss, omega) for kind in SOLVERS[name])


def solvers_of_blocks(loss: Loss, omega: Regularizer) -> list[str]:
    """Names of the solvers that take rows in blocks."""
    names = ["auto", "line-search", "cutting-plane"]
    if DescentSolver.supports("lbfgs", loss, omega) and NewtonSolver.form(loss) is not None:
        names.insert(1, "lbfgs")
    if NewtonSolver.supports("newton", loss, omega):
        names.insert(1, "newton")
    return names


def solver_class(name: str, task: Task) -> type[LinearSolver] | None:
    """The class with this name for the task; None if there is none."""
    named = replace(task, solver=name)
    return next((kind for kind in SOLVERS[name] if _takes(kind, named)), None)


def _takes(kind: type[LinearSolver], task: Task) -> bool:
    return kind.supports(task.solver, task.problem.loss, task.omega) and kind.fits(task)


def linear_solver(name: str, task: Task, kept: LinearStart) -> "LinearSolver | LinearAutoSolver":
    """The solver of this name, started from what suits it.

    Dual coordinate epochs switch to another solver if they take too long.
    """
    if name == "auto":
        best = _best(task)
        return LinearAutoSolver(task, kept) if best is None else best.of(task, kept)
    kind = _fitting(name, task)
    if name == "dual-coordinate" and not kind.is_best(task):
        return LinearAutoSolver(task, kept, requested=name)
    return _made(name, task, kept)


def solve_along(
    name: str, task: Task, reg_lambdas: Sequence[float], max_iter: int, max_time: float | None
) -> Along | None:
    """``along`` of the solver with this name; None if the solver is not known in advance."""
    if name not in SOLVERS:
        kind = _best(task) if name == "auto" else None
    else:
        kind = solver_class(name, task)
    return None if kind is None else kind.along(task, reg_lambdas, max_iter, max_time)


def _is_available(name: str, task: Task) -> bool:
    return solver_class(name, task) is not None


def _fitting(name: str, task: Task) -> type[LinearSolver]:
    """The class with this name for a task; ValueError if it does not solve that."""
    kind = solver_class(name, task)
    if kind is None:
        loss, omega = type(task.problem.loss).__name__, type(task.omega).__name__
        raise ValueError(
            f"solver={name!r} does not solve this problem of {loss} and {omega} with "
            f"{task.problem.n_outputs} outputs; solver='line-search' and 'auto' do."
        )
    return kind


def _made(name: str, task: Task, kept: LinearStart) -> LinearSolver:
    return _fitting(name, task).of(replace(task, solver=name), kept)


def _is_smooth(problem: LinearProblem) -> bool:
    """Whether Newton's method needs no smoothing."""
    form = NewtonSolver.form(problem.loss)
    return form is not None and form.smooth


def _has_newton_steps(task: Task) -> bool:
    """Whether Newton steps exist: for squared errors the name means a direct solution."""
    return solver_class("newton", task) is NewtonSolver


def _best(task: Task) -> type[LinearSolver] | None:
    """The solver that declares itself best, so that no other is tried."""
    best = (kind for kind in _MAY_BE_BEST if _takes(kind, task) and kind.is_best(task))
    return next(best, None)


class LinearAutoSolver:
    """Newton's method, dual coordinate epochs or line search, or a race between two of them.

    * Newton's method, if a step's Cholesky factorization costs less than a quarter of a pass over
      the data: few features, many rows. Steps on samples of the rows are then cheap, and only a few
      on all rows remain. With a smooth loss a few steps are enough in any case, and a factorization
      may cost a whole pass. With another loss and strong regularization, epochs are tried first.
    * Otherwise dual coordinate epochs, as long as they promise to need less work than the others.
      After a part of the other method's expected work, the rate at which the gap falls shows how
      much remains. If it is too much, or the epochs stall, Newton's method continues (up to 2000
      features), or line search.
    * L-BFGS instead of the epochs, if the loss is smooth and has none.
    * Line search for all other losses and regularizers; and before Newton's method on few data, if
      the loss has kinks and there are planes to start from, as in a path: calls take longer than
      passes then, and a step of line search has fewer of them.

    A method that continues where another one ends gets at least as much work as that one before it
    is judged. If it seems to need more than twice the remaining work of the other one, then that
    one resumes where it was left. So each change doubles the work, and the total is at most a few
    times that of the better method. Work is counted, and never timed.

    A warm start from planes without a dual point skips the epochs.

    Parameters
    ----------
    task : Task
    start : LinearStart
    requested : str, default=None
        The solver to begin with, which gets more passes before it is judged and may be slower than
        others; by default the rule above chooses it.
    """

    history_fields = BundleSolver.history_fields

    def __init__(self, task: Task, start: LinearStart, requested: str | None = None):
        self._task, self._start = task, start
        self._margin = 1.0 if requested is None else _MARGIN_OF_CHOSEN
        first = self._first() if requested is None else requested
        self._running = self._contestant(first)
        self._solver = self._running.solver = _made(first, task, start)
        self._waiting: Contestant | None = None
        if first in _PASSES or self._is_small():
            self._waiting = self._contestant(self._second())
            early = JUDGED_FROM * self._waiting.prior
            self._running.budget = early if requested is None else _PASSES_OF_CHOSEN
        self._confirmed_before: State | None = None  # the confirmed state of the solver before
        self._passes_of_confirmations = 0  # passes of confirmations, which are no solver's work

    def kept(self, point: tuple[Array, float | Array | None]) -> LinearStart:
        """What the solver of the last confirmation keeps."""
        return replace(self._start, point=point)

    def attach(self, problem: LinearProblem) -> None:
        """Attach the solvers."""
        self._task = replace(self._task, problem=problem)
        for solver in self._started():
            solver.attach(problem)

    def detach(self) -> None:
        """Detach the solvers."""
        self._task = replace(self._task, problem=ABSENT)
        for solver in self._started():
            solver.detach()

    def _started(self) -> list[LinearSolver]:
        both = self._running, self._waiting
        return [one.solver for one in both if one is not None and one.solver is not None]

    def states(self) -> Iterator[State]:
        """The states of the solvers that run."""
        following = self._running
        while following is not None:
            yield from self._run(following)
            following = self._following()

    def _run(self, contestant: Contestant) -> Iterator[State]:
        """The states of a contestant, until another one promises to need less work."""
        if contestant.gives_way:  # the last run ended this way
            return
        solver = contestant.solver
        assert solver is not None
        before = self._spent(solver)
        least_work, taken = self._least_work_of_state(contestant.name), 0.0
        for state in solver.states():
            if contestant is not self._running:
                # Not earlier: until now it had no point to confirm.
                self._running, self._waiting = contestant, self._running
                self._solver = solver
            spent = self._spent(solver)
            work, before = spent - before, spent
            contestant.record(work + self._further_cost(solver.name), solver.gap_of(state))
            contestant.judge(self._is_slow())
            state, taken = self._combined(state), taken + work
            going_on = not contestant.gives_way and state.relative_gap > self._task.tol
            if going_on and taken < least_work:
                continue
            yield state
            taken = 0.0
            if contestant.gives_way:
                return
        contestant.ended = True

    def _least_work_of_state(self, name: str) -> float:
        """Passes per iteration: epochs over few rows cost less than checking them."""
        if name != "dual-coordinate" or self._margin != 1.0:
            return 0.0
        return _FEWEST_ROWS / self._task.problem.n_samples

    def _spent(self, solver: LinearSolver) -> float:
        """The work that the solver itself counts, in passes."""
        problem = self._task.problem
        entries = entries_of_pass(problem.n_entries)
        return problem.passes - self._passes_of_confirmations + solver.multiplications / entries

    def _further_cost(self, name: str) -> float:
        """The further cost of a step, in passes."""
        return self._of_newton() if name == "newton" else 0.0

    def _of_newton(self) -> float:
        """Cost of a step's Hessian and of solving with it, in passes."""
        problem = self._task.problem
        hessian = _SMOOTH_HESSIAN
        if not _is_smooth(problem):
            n, d = problem.n_samples, problem.n_features
            curved = min(_CURVED_A_FEATURE * d, _MOST_CURVED * n)
            hessian = curved / max(problem.rows.rows_in_passes(1.0), 1)
        return hessian + _SOLVING * factorization(problem.n_features, problem.n_entries)

    def _following(self) -> Contestant | None:
        """The contestant that continues where the other one ends; None if there is none."""
        ended, following = self._running, self._waiting
        if following is None or following.ended:
            ended.return_with(ended.budget)
            return None if ended.ended else ended
        self._confirmed_before = self.confirm()
        if following.solver is None:
            following.solver = self._solver_from(following.name, self._confirmed_before)
        following.return_with(following.work + max(following.prior, ended.work))
        return following

    def _solver_from(self, name: str, best: State) -> LinearSolver:
        """A solver that starts from what the current one found."""
        start = replace(self._start, point=(best.point, best.intercept), width=_WIDTH * best.gap)
        return _made(name, self._task, self._solver.start_of_next(start))

    def confirm(self, *, moving: bool = True) -> State:
        """Best point and bound, recomputed, as those of the solver before were."""
        solver, passes = self._solver, self._task.problem.passes
        state, left = solver.confirm(moving=moving), self._confirmed_before
        if left is not None and left.lower_bound > state.lower_bound:
            least = min(left.primal, state.primal)
            state.lower_bound = confirmed(left.lower_bound, least, ADVICE, solver.size_of_terms)
        state = self._combined(state)
        self._start = solver.kept((state.point, state.intercept))
        self._passes_of_confirmations += self._task.problem.passes - passes
        return state

    def _combined(self, state: State) -> State:
        """The state, with the point or bound of the solver before if these are better."""
        left = self._confirmed_before
        if left is None:
            return state
        if left.primal < state.primal:
            state.primal, state.point, state.intercept = left.primal, left.point, left.intercept
        state.lower_bound = bound_below(max(state.lower_bound, left.lower_bound), state.primal)
        state.ball = smaller(state.ball, left.ball)
        return state

    def _contestant(self, name: str) -> Contestant:
        """A contestant with its expected cost."""
        entries = entries_of_pass(self._task.problem.n_entries)
        prior = _LINE_SEARCH_PASSES + _LINE_SEARCH_PROGRAMMES / entries
        if name == "newton":
            n_steps: float = _SMOOTH_STEPS
            problem = self._task.problem
            if not _is_smooth(problem):
                by_shape = _STEPS_BY_SHAPE * problem.n_features / problem.n_samples
                a_decade = min(_STEPS_A_DECADE + by_shape, _MOST_STEPS_A_DECADE)
                n_steps = a_decade * max(-log10(self._task.tol), 1.0)
            prior = n_steps * (2.0 + self._of_newton())
        elif name in _PASSES:
            prior = _PASSES[name]
        return Contestant(name, prior)

    def _is_small(self) -> bool:
        """Whether there are planes to start from, and a pass takes no longer than calling it."""
        bundle, task = self._start.bundle, self._task
        if bundle is None or bundle.is_empty or not _has_newton_steps(task):
            return False
        problem = task.problem
        return problem.n_entries <= _FEW_ENTRIES and not _is_smooth(problem)

    def _first(self) -> str:
        task = self._task
        if self._is_small():
            return "line-search"
        if _has_newton_steps(task):
            smooth = _is_smooth(task.problem)
            affordable = _SMOOTH_FACTORISATION if smooth else CHEAP_FACTORISATION
            problem = task.problem
            cheap = factorization(problem.n_features, problem.n_entries) <= affordable
            if cheap and (smooth or not self._is_strong()):
                return "newton"
        start = self._start
        planes_alone = start.alpha is None and (start.bundle or start.of(SampleBundle))
        if _is_available("dual-coordinate", task) and not planes_alone:
            return "dual-coordinate"
        return "lbfgs" if _is_available("lbfgs", task) else self._second()

    def _is_strong(self) -> bool:
        """Whether regularization is strong enough to try epochs although steps are cheap."""
        problem, n = self._task.problem, self._task.problem.n_samples
        if n >= _MANY_ROWS * problem.n_features or not _is_available("dual-coordinate", self._task):
            return False
        square = problem.rows.mean_square(problem.weights)
        return square <= _STRONG * n * self._task.reg_lambda

    def _second(self) -> str:
        task = self._task
        if _has_newton_steps(task) and task.problem.n_features <= _MOST_FEATURES:
            return "newton"
        return "line-search"

    def _is_slow(self) -> bool:
        """Whether the current solver has more work left than the other one."""
        running, other = self._running, self._waiting
        if other is None or other.ended:
            return False
        margin, tol = self._margin if other.solver is None else _RESUMED, self._task.tol
        return running.is_slower(margin * other.expected(tol, running.gap), tol)
