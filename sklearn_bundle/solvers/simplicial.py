"""Restricted simplicial decomposition for structured hinge losses (Yu and Rousu, 2007)."""

from collections.abc import Iterator
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.problems.structured import StructuredProblem
from sklearn_bundle.solvers._certificate import Best
from sklearn_bundle.solvers.contract import State
from sklearn_bundle.solvers.inner.blocks import BlockDual
from sklearn_bundle.solvers.inner.idling import Idling
from sklearn_bundle.solvers.inner.outputs import OutputCache

Array = NDArray[np.float64]

_PATIENCE = 100  # passes of a master problem without weight, after which a point is dropped
_MASTER_SHARE = 0.1  # of the gap, to which the master problem is solved
_MASTER_PASSES = 20  # at most: a master that needs more waits for further points
_WORKING_SHARE = 0.1  # of the examples in a working set
_IDLE = 40  # looks in a row that change nothing, after which rounding has the last word


class SimplicialSolver:
    """RSD with a product of simplexes, one for each example, of all examples or of working sets.

    "product": an iteration finds a point for each simplex, (9), and solves the master problem on
    their product. "working-sets": it does so for one working set after the other, until there were
    as many calls of the oracle as there are examples; a set holds the examples of the largest gaps
    as last seen, each in one set.

    A simplex keeps ``cache_size`` points. A further one takes the place of a point without weight;
    if there is none, the two of least weight become one, their mean, by which the current point
    stays in the simplex (footnote 1 of the paper keeps it as a point of its own). With the squared
    hinge simplexes are cones. The master problem is solved by steps on one simplex after the other,
    each nearly exact, and steps on all together, until the gap over the points that are there is a
    tenth of the whole.

    Parameters
    ----------
    problem : StructuredProblem
    tol : float
    variant : {"product", "working-sets"}
    cache_size : int or None
        The paper's r, at least 2. None is 48, and more where these all have weight, while they take
        up less than 1 GB.
    kept : OutputCache
        Of a solver of the same problem; reg_lambda may differ.
    """

    history_fields: ClassVar[tuple] = (("oracle_calls", np.int64), ("estimate", np.float64))

    def __init__(
        self,
        problem: StructuredProblem,
        *,
        tol: float,
        variant: Literal["product", "working-sets"] = "product",
        cache_size: int | None = None,
        kept: OutputCache | None = None,
    ):
        self.name = "rsd" if variant == "product" else "rsd-working-sets"
        self.problem, self._tol, self._variant = problem, tol, variant
        if kept is None:
            kept = OutputCache(problem.n_examples, cache_size, problem.squared)
        self._dual = BlockDual(problem, kept, _PATIENCE)
        self._best = Best(least=0.0)
        self._idling = Idling(_IDLE)
        self._moved = True  # whether the point has since the last look

    @property
    def kept(self) -> OutputCache:
        """What a new solver may start from."""
        return self._dual.cache

    def attach(self, problem: StructuredProblem) -> None:
        """Go on with the same problem in another object."""
        self.problem = self._dual.problem = problem

    def detach(self) -> None:
        """Let go of the problem."""
        self.problem = self._dual.problem = None

    def states(self) -> Iterator[State]:
        """One state per master problem, or one without where the solver starts within ``tol``."""
        if self._best.point is None:
            self._look()
            if self._state().relative_gap <= self._tol:
                yield self._state()
        while not self._idling.enough:
            if self._variant == "product":
                self._solve_master(np.arange(self.problem.n_examples))
            else:
                self._working_sets()
            self._look()
            yield self._state()

    def confirm(self, *, moving: bool = True) -> State:
        """Best point and bound, both from a look at where the solver stands, if it has moved."""
        if self._moved:
            if moving:
                self._look()
            else:
                self._best.prove(self._dual.refresh())
        return self._state()

    def _working_sets(self) -> None:
        order = np.argsort(-self.problem.weights * self._dual.gaps, kind="stable")
        size = max(1, int(_WORKING_SHARE * len(order)))
        for first in range(0, len(order), size):
            working_set = np.sort(order[first : first + size])
            if first > 0:  # the first is at the w of the last look, which has asked for all
                self._dual.look_at(working_set)
            self._solve_master(working_set)

    def _solve_master(self, blocks: NDArray[np.int64]) -> None:
        """The best point in the product of the simplexes of these examples, nearly."""
        dual = self._dual
        self._moved = True
        weights = self.problem.weights
        enough = _MASTER_SHARE * float(weights[blocks] @ dual.gaps[blocks])
        for _ in range(_MASTER_PASSES):
            if dual.cached_gap(blocks) <= enough:
                break
            blocks = blocks[::-1].copy()
            dual.cached_pass(blocks)
            dual.climb(blocks)

    def _look(self) -> None:
        """Direction-finding for all examples, (9); objective and bound at the current point."""
        best = self._best
        look = self._dual.look()
        if best.offer(look.primal, look.w):
            best.point = look.w.copy()
        best.prove(look.lower_bound)
        self._idling.note(best, look.gained)
        self._moved = False

    def _state(self) -> State:
        problem = self.problem
        further = problem.oracle_calls, self._dual.estimate
        return self._best.state(self._best.point, None, problem.passes, None, further)
