"""Solvers of linear problems by name, and the one that chooses among them."""

from collections.abc import Iterator
from dataclasses import replace
from math import log

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.losses.base import Loss
from sklearn_bundle.problems.linear import LinearProblem
from sklearn_bundle.regularizers import Regularizer
from sklearn_bundle.solvers._certificate import confirmed
from sklearn_bundle.solvers.bundle import ADVICE, BundleSolver, CuttingPlaneSolver
from sklearn_bundle.solvers.class_coordinate import ClassCoordinateSolver
from sklearn_bundle.solvers.contract import State, uncrossed
from sklearn_bundle.solvers.dual_coordinate import DualCoordinateSolver
from sklearn_bundle.solvers.linear_start import LinearStart
from sklearn_bundle.solvers.linear_task import LinearSolver, Task
from sklearn_bundle.solvers.newton import CHEAP_FACTORISATION, NewtonSolver, factorisation
from sklearn_bundle.solvers.sample_planes import SamplePlanesSolver
from sklearn_bundle.solvers.softmax import SoftmaxLBFGSSolver, SoftmaxNewtonSolver

Array = NDArray[np.float64]

_MOST_FEATURES = 2000  # of Newton's method: a Hessian of 32 MB that takes about 0.1 s to factor
_SMOOTH_FACTORISATION = 1.0  # passes that one may cost if the loss is smooth: few steps will do
# What the other methods are reckoned to cost, in products with X or X': estimates that the user
# guide states. They are compared with half of what the epochs have cost, so that a factor of 2
# hardly matters.
_NEWTON_STEPS, _NEWTON_PASSES = 25, 4.0  # a step has one with X, one with X' and the Hessian's two
_LINE_SEARCH_PASSES = 300.0
_SURE = 2  # judgements in a row, since the rate of one epoch may be chance
_INDULGENCE = 10.0  # times the passes of other methods, for epochs that were asked for by name

# By public name: the classes that go by it. The first one that takes the loss and fits is taken.
SOLVERS: dict[str, tuple[type[LinearSolver], ...]] = {
    "newton": (NewtonSolver, SoftmaxNewtonSolver),
    "lbfgs": (SoftmaxLBFGSSolver,),
    "dual-coordinate": (DualCoordinateSolver, ClassCoordinateSolver),
    "line-search": (SamplePlanesSolver, BundleSolver),
    "cutting-plane": (CuttingPlaneSolver,),
}


def knows(name: str, loss: Loss, omega: Regularizer) -> bool:
    """Whether a solver of this name takes the loss and the regularizer: known before the data.

    So do those that are not in the table: "auto", and what a derived estimator adds.
    """
    return name not in SOLVERS or any(kind.takes(loss, omega) for kind in SOLVERS[name])


def solver_class(name: str, task: Task) -> type[LinearSolver] | None:
    """The class that goes by this name for the task; None if there is none."""
    for kind in SOLVERS[name]:
        if kind.takes(task.problem.loss, task.omega) and kind.fits(task):
            return kind
    return None


def linear_solver(
    name: str, task: Task, kept: LinearStart, *, to_the_end: bool = False
) -> "LinearSolver | LinearAutoSolver":
    """The solver of this name, which starts from what suits it.

    Dual coordinate epochs hand over where they would take too long, unless ``to_the_end``.
    """
    if name == "auto":
        best = _best(task)
        return LinearAutoSolver(task, kept) if best is None else best.of(task, kept)
    kind = solver_class(name, task)
    if name == "dual-coordinate" and not (to_the_end or kind.is_best(task)):
        return LinearAutoSolver(task, kept, first=name)
    return kind.of(task, kept)


def _can(name: str, task: Task) -> bool:
    return solver_class(name, task) is not None


def _best(task: Task) -> type[LinearSolver] | None:
    """The solver that says of itself that no other is worth a trial."""
    for name in SOLVERS:
        kind = solver_class(name, task)
        if kind is not None and kind.is_best(task):
            return kind
    return None


class LinearAutoSolver:
    """Newton's method, dual coordinate epochs or line search.

    * Newton's method where a step's Cholesky factorisation costs less than a quarter of a pass over
      the data: few features, many rows. Its steps on samples of the rows are cheap then, and a
      handful on all rows is left to be done. If the loss is smooth, a handful does anyway, and a
      factorisation may cost a whole pass.
    * Otherwise dual coordinate epochs, as long as they promise to need fewer passes than the others
      would. When half as many passes have been spent as the other method takes, the rate at which
      the gap falls says how many are to come. If they are too many, or the epochs stall, Newton's
      method goes on (up to 2000 features), or line search does.
    * Line search for all other losses and regularizers.

    A warm start from planes without a dual point skips the epochs.

    Parameters
    ----------
    task : Task
    start : LinearStart
    first : str, default=None
        The solver to begin with, which has ten times the passes before it is judged, and may be ten
        times as slow; by default the one that the rule says.
    """

    history_fields = BundleSolver.history_fields

    def __init__(self, task: Task, start: LinearStart, first: str | None = None):
        self._task, self._start = task, start
        self._indulgence = 1.0 if first is None else _INDULGENCE
        first = self._first() if first is None else first
        self._solver = linear_solver(first, task, start, to_the_end=True)
        self._in_epochs = first == "dual-coordinate"
        self._floor = -np.inf  # what the solver before has proved
        self._patience = _SURE

    @property
    def name(self) -> str:
        """The solver at work."""
        return self._solver.name

    @property
    def plane(self) -> tuple[Array, float]:
        """As of the solver at work."""
        return self._solver.plane

    def kept(self, point: tuple[Array, float | Array | None]) -> LinearStart:
        """As of the solver at work when the last confirmation was made."""
        return replace(self._start, point=point)

    def attach(self, problem: LinearProblem) -> None:
        """As of the solver at work."""
        self._task = replace(self._task, problem=problem)
        self._solver.attach(problem)

    def detach(self) -> None:
        """As of the solver at work."""
        self._task = replace(self._task, problem=None)
        self._solver.detach()

    def states(self) -> Iterator[State]:
        """Those of the solvers at work."""
        if self._in_epochs:
            yield from self._epochs()
            following = self._following()
        else:
            following = self._solver
        for state in following.states():
            # Not before: until now it has no point to confirm.
            self._solver, self._in_epochs = following, False
            yield self._raised(state)

    def _epochs(self) -> Iterator[State]:
        """Those that are worth it."""
        if self._patience == 0:
            return
        for state in self._solver.states():
            self._patience = self._patience - 1 if self._is_slow() else _SURE
            yield state
            if self._patience == 0:
                return

    def _following(self) -> BundleSolver:
        """The solver that goes on from where the epochs end."""
        best = self._solver.confirm()
        self._floor = best.lower_bound
        self._start = replace(
            self._start,
            point=(best.point, best.intercept),
            proof=self._solver.proof,
            bundle=self._solver.bundle,
        )
        return linear_solver(self._second(), self._task, self._start)

    def confirm(self, *, moving: bool = True) -> State:
        """Best point and bound, computed afresh; a bound of the solver before was so as well."""
        solver = self._solver
        state = solver.confirm(moving=moving)
        if not self._in_epochs and self._floor > state.lower_bound:
            state.lower_bound = confirmed(self._floor, state.primal, ADVICE, solver.size_of_terms)
        self._start = self._solver.kept((state.point, state.intercept))
        return state

    def _raised(self, state: State) -> State:
        state.lower_bound = uncrossed(max(state.lower_bound, self._floor), state.primal)
        return state

    def _first(self) -> str:
        task = self._task
        if _can("newton", task):
            smooth = task.problem.newton_loss.smooth
            affordable = _SMOOTH_FACTORISATION if smooth else CHEAP_FACTORISATION
            if factorisation(task.problem) <= affordable:
                return "newton"
        start = self._start
        planes_alone = start.alpha is None and (start.bundle or start.sample_bundle)
        if _can("dual-coordinate", task) and not planes_alone:
            return "dual-coordinate"
        return self._second()

    def _second(self) -> str:
        task = self._task
        if _can("newton", task) and task.problem.n_features <= _MOST_FEATURES:
            return "newton"
        return "line-search"

    def _is_slow(self) -> bool:
        """Whether the epochs to come cost more passes than another method would from its start.

        That is asked when half as much has been spent: whatever the answer, little is lost.
        """
        solver = self._solver
        others = _LINE_SEARCH_PASSES
        if self._second() == "newton":
            others = _NEWTON_STEPS * (_NEWTON_PASSES + factorisation(self._task.problem))
        others *= self._indulgence
        if solver.n_passes < 0.5 * others:
            return False
        to_fall = log(max(solver.estimate / self._task.tol, 1.0))
        return to_fall > max(others * solver.rate_a_pass, 0.0)
