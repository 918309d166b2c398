"""Solvers of linear problems by name, and the solver that chooses among them."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from math import inf, log, log10, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.certificate import confirmed
from sklearn_bundle.core.contest import JUDGED_FROM, JUDGMENTS, Contestant
from sklearn_bundle.core.contract import ABSENT, State, bound_below
from sklearn_bundle.core.limits import LAST_PLACE, MOST_SIDE
from sklearn_bundle.core.optimum import smaller
from sklearn_bundle.linear.losses.base import Loss
from sklearn_bundle.linear.problems.linear import LinearProblem
from sklearn_bundle.linear.problems.memory_risk import HESSIAN_PASSES
from sklearn_bundle.linear.regularizers import Regularizer
from sklearn_bundle.linear.rows.rows import entries_of_pass, factorization
from sklearn_bundle.linear.solvers.bundle import ADVICE, BundleSolver
from sklearn_bundle.linear.solvers.class_coordinate import ClassCoordinateSolver
from sklearn_bundle.linear.solvers.coordinate_descent import CoordinateDescentSolver
from sklearn_bundle.linear.solvers.descent_solver import DescentSolver
from sklearn_bundle.linear.solvers.dual_coordinate import CALL, DualCoordinateSolver
from sklearn_bundle.linear.solvers.least_squares import LeastSquaresSolver
from sklearn_bundle.linear.solvers.newton import NewtonSolver
from sklearn_bundle.linear.solvers.sample_planes import SampleBundle, SamplePlanesSolver
from sklearn_bundle.linear.solvers.solver import Along, LinearSolver, LinearStart, Task

Array = NDArray[np.float64]

# Expected steps of the methods, from which their costs follow by the shape: see :func:`_costs`.
# A wrong one costs a part of the other method's work, since rates are observed.
_NEWTON_STEPS = 6.0  # for a smooth loss: nearly all tolerances are within reach of the last one
_KINKED_STEPS = 30.0  # a power of ten of the gap, times the square root of features over rows
_LBFGS_STEPS = 10.0  # a power of ten of the gap
_LINE_SEARCH_STEPS = 500  # where the other methods do not apply, or have failed
# Rows with curvature for a feature, near the optimum of a kinked loss: one at the kink determines a
# weight, and others are in the width of the smoothing.
_CURVED_ROWS = 4.0
_DUAL_STEP = 64.0  # multiplications: what a dual step takes beside its products, about 50 ns
# Width of a kinked loss's smoothing, times the gap with which Newton's method begins: it was 12 to
# 20 times the gap with many rows at a kink, and up to 300 times with few.
_WIDTH = 15.0
# Relative gap of a start that is no better than none: from there Newton's method took up to 1.7
# times as many steps on covtype, and stalled on data that a plane nearly separates.
_NO_START = 0.7
_SPARSE = 0.5  # share of entries that are stored, up to which rows count as sparse
_MARGIN = 2.0  # times another method's remaining work: a change pays only if it halves the work
_FEWEST_ROWS = 1 << 14  # in an iteration of epochs, 1 or 2 ms: fewer are visited many times

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


class _Cost(NamedTuple):
    """What a method is expected to cost, in passes: a step, and all steps from the start."""

    step: float
    whole: float


def _costs(task: Task, *, with_epochs: bool) -> dict[str, _Cost]:
    """The expected costs of the methods that take the task, those preferred in a tie first."""
    problem = task.problem
    n, d, entries = problem.n_samples, problem.n_features, entries_of_pass(problem.n_entries)
    decades, costs = max(-log10(max(task.tol, LAST_PLACE)), 1.0), {}
    if _has_newton_steps(task) and d <= MOST_SIDE:
        step = _newton_step(problem)
        steps = _NEWTON_STEPS
        if not _is_smooth(problem):
            steps = decades * (1.0 + _KINKED_STEPS * sqrt(min(d / n, 1.0)))
        costs["newton"] = _Cost(step, steps * step)
    if with_epochs and _is_available("dual-coordinate", task):
        form = DualCoordinateSolver.form(problem.loss)
        of_loss = 0.0 if form is None else form.multiplications
        further = CALL + n * (_DUAL_STEP + of_loss)
        epoch = (2.0 * problem.n_entries + further) / entries
        n_epochs = _epochs_a_factor_e(task) * decades * log(10.0)
        costs["dual-coordinate"] = _Cost(epoch, n_epochs * epoch)
    if _is_available("lbfgs", task):
        costs["lbfgs"] = _Cost(2.0, 2.0 * _LBFGS_STEPS * decades)
    if "newton" not in costs:  # which goes on with it where it stalls
        programmes = float(_LINE_SEARCH_STEPS) ** 3 / entries  # one of k planes takes about k^2
        costs["line-search"] = _Cost(2.0, 2.0 * _LINE_SEARCH_STEPS + programmes)
    return costs


def _newton_step(problem: LinearProblem) -> float:
    """Cost of a Newton step: two products, the Hessian of rows with curvature, and its factor."""
    d, rows_in_passes = problem.n_features, problem.rows.rows_in_passes
    rows = _CURVED_ROWS * d
    if _is_smooth(problem):  # all rows have curvature, and a sample of them is enough
        rows = max(rows, rows_in_passes(HESSIAN_PASSES))
    hessian = min(rows, problem.n_samples) / max(rows_in_passes(1.0), 1)
    hessian *= problem.n_entries / entries_of_pass(problem.n_entries)
    return 2.0 + hessian + factorization(d, problem.n_entries)


def _epochs_a_factor_e(task: Task) -> float:
    """Expected epochs in which the gap falls by a factor e: the condition of the dual.

    An epoch of dual steps closes about the share ``1 / (1 + ||x||^2 / (n reg_lambda))`` of the gap
    (Shalev-Shwartz and Zhang, 2013). Fewer rows than features are nearly orthogonal: then the
    condition is no larger than that of the products of random rows.
    """
    problem = task.problem
    n, d = problem.n_samples, problem.n_features
    mean_square = float(problem.rows.squared_columns().sum()) / n  # known for the rounding, too
    reach = mean_square / (n * task.reg_lambda)
    if n < d:
        ends = sqrt(d) + sqrt(n), sqrt(d) - sqrt(n)
        reach = min(reach, (ends[0] / ends[1]) ** 2)
    return 1.0 + reach


def _best(task: Task) -> type[LinearSolver] | None:
    """The solver that declares itself best, so that no other is tried."""
    best = (kind for kind in _MAY_BE_BEST if _takes(kind, task) and kind.is_best(task))
    return next(best, None)


class LinearAutoSolver:
    """The method that is expected to cost least, in a race with the next one.

    The methods are Newton's, dual coordinate epochs, L-BFGS and line search, as far as they take
    the loss and the regularizer. What they cost follows from the shape of the data, ``reg_lambda``
    and ``tol``, in passes over the data; see :func:`_costs`.

    * Newton's method is expected to need few steps, each with a Hessian and its factor. It runs
      alone if it is the cheapest. But if a step of it costs more than the epochs that show their
      rate, or all its steps do with a kinked loss on sparse rows, then these are tried before.
    * After a part of the next method's expected work, the rate at which the gap of the first one
      falls shows how much remains. If it is too much, or the first one stalls, the next one
      continues.

    A method that continues where another one ends gets at least as much work as that one, and as
    that one still seems to need, before it is judged: the gap of Newton's method may fall at the
    end only, and up to there the wait costs no more than the other one would. If it seems to need
    more than twice the remaining work of the other one, then that one resumes where it was left.
    So each change about doubles the work, and as far as the estimates hold the total is at most a
    few times that of the better method. Work is counted, and never timed.

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
        self._task, self._begun, self._start = task, start, start
        self._requested = requested
        first = self._first() if requested is None else requested
        self._running = self._contestant(first)
        self._solver = self._running.solver = _made(first, task, start)
        self._waiting: Contestant | None = None
        second = self._second()
        if first != "newton" and second != first:
            self._waiting = self._contestant(second)
            share = JUDGED_FROM if requested is None else 1.0
            self._running.budget = share * self._waiting.prior
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
        before, problem = self._spent(solver), self._task.problem
        least, shown = self._least_passes_of_state(contestant.name), problem.passes
        for state in solver.states():
            if contestant is not self._running:
                # Not earlier: until now it had no point to confirm.
                self._running, self._waiting = contestant, self._running
                self._solver = solver
            spent = self._spent(solver)
            work, before = spent - before, spent
            contestant.record(work + self._further_cost(solver.name), solver.gap_of(state))
            contestant.judge(self._is_slow())
            state = self._combined(state)
            going_on = not contestant.gives_way and state.relative_gap > self._task.tol
            if going_on and self._task.problem.passes - shown < least:
                continue
            yield state
            shown = self._task.problem.passes
            if contestant.gives_way:
                return
        contestant.ended = True

    def _least_passes_of_state(self, name: str) -> float:
        """Passes per iteration: epochs over few rows cost less than checking them."""
        if name != "dual-coordinate" or self._requested is not None:
            return 0.0
        return _FEWEST_ROWS / self._task.problem.n_samples

    def _spent(self, solver: LinearSolver) -> float:
        """The work that the solver itself counts, in passes.

        An epoch is one call, which its multiplications count, and so its passes may be short.
        """
        problem = self._task.problem
        entries = entries_of_pass(problem.n_entries)
        passes: float = problem.passes - self._passes_of_confirmations
        if solver.name == "dual-coordinate":
            passes *= problem.n_entries / entries
        return passes + solver.multiplications / entries

    def _further_cost(self, name: str) -> float:
        """The cost of a step beyond its products with the data, in passes."""
        return self._costs[name].step - 2.0 if name == "newton" else 0.0

    def _following(self) -> Contestant | None:
        """The contestant that continues where the other one ends; None if there is none."""
        ended, following = self._running, self._waiting
        if following is None or following.ended:
            ended.return_with(ended.budget)
            return None if ended.ended else ended
        self._confirmed_before = self.confirm()
        if following.solver is None:
            following.solver = self._solver_from(following.name, self._confirmed_before)
        prior = 0.0 if following.history else following.prior
        least = max(prior, ended.work, ended.expected(self._task.tol, ended.gap))
        following.return_with(following.work + least)
        return following

    def _solver_from(self, name: str, best: State) -> LinearSolver:
        """A solver that starts from what the current one found, if that is of use."""
        if name == "newton" and best.relative_gap > _NO_START:
            return _made(name, self._task, self._begun)
        start = replace(self._start, point=(best.point, best.intercept), width=_WIDTH * best.gap)
        return _made(name, self._task, self._solver.start_of_next(start))

    def confirm(self, *, moving: bool = True) -> State:
        """Best point and bound, recomputed, as those of the solver before were."""
        solver, passes = self._solver, self._task.problem.passes
        state, left = solver.confirm(moving=moving), self._confirmed_before
        proof = None  # of the solver before, if it proves more
        if left is not None and left.lower_bound > state.lower_bound:
            least = min(left.primal, state.primal)
            state.lower_bound = confirmed(left.lower_bound, least, ADVICE, solver.size_of_terms)
            proof = self._start.dual_certificate
        state = self._combined(state)
        kept = solver.kept((state.point, state.intercept))
        self._start = kept if proof is None else replace(kept, dual_certificate=proof)
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

    @cached_property
    def _costs(self) -> dict[str, _Cost]:
        start = self._start
        planes_alone = start.alpha is None and (start.bundle or start.of(SampleBundle))
        return _costs(self._task, with_epochs=not planes_alone)

    def _contestant(self, name: str) -> Contestant:
        """A contestant with its expected cost."""
        cost = self._costs.get(name, _Cost(inf, inf))
        return Contestant(name, cost.whole, cost.step)

    def _first(self) -> str:
        """The cheapest method, as far as known.

        Newton's method comes first only if a step of it costs less than the epochs that show their
        rate, which may be far better than expected. With a kinked loss on sparse rows all its
        expected steps have to cost less: there they are up to 60 times as many, since many rows
        are alike and reach their kinks together.
        """
        costs, problem = self._costs, self._task.problem
        names = [name for name in costs if name != "line-search"] or ["line-search"]
        first = min(names, key=lambda name: costs[name].whole)
        epochs, chosen = costs.get("dual-coordinate"), costs[first]
        if first != "newton" or epochs is None:
            return first
        sparse = problem.n_entries <= _SPARSE * problem.n_samples * problem.n_features
        worth = chosen.whole if sparse and not _is_smooth(problem) else chosen.step
        return "dual-coordinate" if JUDGMENTS * max(epochs.step, 2.0) < worth else first

    def _second(self) -> str:
        """The method that may follow the first one."""
        costs = self._costs
        others = [name for name in costs if name != self._running.name]
        return min(others, key=lambda name: costs[name].whole, default=self._running.name)

    def _is_slow(self) -> bool:
        """Whether the current solver has more work left than the other one."""
        running, other = self._running, self._waiting
        if other is None or other.ended:
            return False
        tol = self._task.tol
        return running.is_slower(_MARGIN * other.expected(tol, running.gap), tol)
