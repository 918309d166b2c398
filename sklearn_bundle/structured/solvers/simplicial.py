"""Restricted simplicial decomposition for structured hinge losses (Yu and Rousu, 2007)."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.structured.problems.structured import StructuredProblem
from sklearn_bundle.structured.solvers._block_solver import BlockSolver
from sklearn_bundle.structured.solvers.inner.outputs import OutputCache

_PATIENCE = 100  # passes of a master problem without weight after which a point is dropped
_MASTER_SHARE = 0.1  # the master problem is solved to this share of the gap
_MASTER_PASSES = 20  # most passes: a master problem that needs more waits for further points
_WORKING_SHARE = 0.1  # of the examples in a working set


class SimplicialSolver(BlockSolver):
    """RSD with a product of simplexes, one for each example, of all examples or of working sets.

    "product": an iteration finds a point for each simplex, (9), and solves the master problem on
    their product. "working-sets": it does so for one working set after the other, until there were
    as many oracle calls as there are examples; a set holds the examples with the largest gaps as
    last seen, each in one set. The iteration ends with steps on all simplexes together over the
    existing points. The paper has no such steps: then examples that never share a set hold each
    other up, and twelve chains took 900 iterations instead of 10.

    A simplex keeps ``n_cached_outputs`` points. A further one replaces a point without weight; if
    there is none, the two of least weight are merged into their mean, so that the current point
    stays in the simplex (footnote 1 of the paper keeps it as a separate point). With the squared
    hinge simplexes are cones. The master problem is solved by steps on one simplex after the other,
    each nearly exact, and steps on all together, until the gap over the existing points is a tenth
    of the whole.

    Parameters
    ----------
    problem, tol, kept
        See :class:`BlockSolver`.
    variant : {"product", "working-sets"}
    n_cached_outputs : int or None
        The paper's r; see :class:`BlockSolver`.
    """

    def __init__(
        self,
        problem: StructuredProblem,
        *,
        tol: float,
        variant: Literal["product", "working-sets"] = "product",
        n_cached_outputs: int | None = None,
        kept: OutputCache | None = None,
    ):
        super().__init__(problem, tol, n_cached_outputs, kept, _PATIENCE)
        self.name = "rsd" if variant == "product" else "rsd-working-sets"
        self._variant = variant

    def _iterate(self) -> None:
        if self._variant == "product":
            self._solve_master(np.arange(self.problem.n_examples))
        else:
            self._working_sets()
        self._check()

    def _working_sets(self) -> None:
        order = np.argsort(-self.problem.weights * self._dual.gaps, kind="stable")
        size = max(1, int(_WORKING_SHARE * len(order)))
        for first in range(0, len(order), size):
            working_set = np.sort(order[first : first + size])
            if first > 0:  # the first is at the w of the last check, which covered all
                self._dual.call_oracle(working_set)
            self._solve_master(working_set)
        self._dual.climb(order)

    def _solve_master(self, blocks: NDArray[np.int64]) -> None:
        """Find nearly the best point in the product of the simplexes of these examples."""
        dual, weights = self._dual, self.problem.weights
        enough = _MASTER_SHARE * float(weights[blocks] @ dual.gaps[blocks])
        for _ in range(_MASTER_PASSES):
            if dual.cached_gap(blocks) <= enough:
                break
            blocks = blocks[::-1].copy()
            dual.cached_pass(blocks)
            dual.climb(blocks)
