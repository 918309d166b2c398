"""Cutting planes, or restricted simplicial decomposition with one simplex: the same steps.

A plane of the risk (BMRM, algorithm 2) is an output of the one example that is the sum of all: the
sum of worst outputs, variant (i) of section 3.2 of Yu and Rousu (2007), for the hinge loss.
"""

from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.contract import ABSENT, State
from sklearn_bundle.structured.models.examples import Found
from sklearn_bundle.structured.problems.structured import LikelihoodProblem, StructuredRisk
from sklearn_bundle.structured.solvers.block_solvers import BlockSolver
from sklearn_bundle.structured.solvers.blocks import KeptOutputs

Array = NDArray[np.float64]

_ALL = 1 << 20  # planes
_PATIENCE = 100  # master problems without weight after which a plane no longer counts
_ONE = np.zeros(1, np.int64)


class Summed:
    """A structured risk as the loss of one example, whose outputs are planes.

    Planes touch the risk only if the oracle is exact. If it may have missed outputs, the risk is
    taken to be at least as high as the planes that it gave elsewhere: otherwise the bound would
    rise above the objective. Planes are lowered by what rounding of their gradients may add to them
    at the minimizer of P with this reg_lambda.
    """

    n_examples, squared = 1, False

    def __init__(self, problem: StructuredRisk):
        self.problem, self.reg_lambda = problem, problem.reg_lambda
        self.dimension, self.cone = problem.dimension, problem.examples.nonnegative
        self.weights, self._least, self._risk = np.ones(1), np.inf, 0.0
        self.examples = SimpleNamespace(structure=None, exact=problem.exact, errors=self._errors)

    @property
    def oracle_calls(self) -> int:
        """Those of the problem."""
        return self.problem.oracle_calls

    @property
    def passes(self) -> int:
        """Oracle calls over the number of examples, rounded down."""
        return self.problem.passes

    def find(self, w: Array) -> list[tuple[int, Found]]:
        """The plane of a pass over all examples at w."""
        problem, found = self.problem, self.problem.find(w)
        self._risk = problem.risk(found)
        if not np.isfinite(self._risk):
            raise ValueError("The risk is not finite: check the scale of the features.")
        self._least = min(self._least, 0.5 * self.reg_lambda * float(w @ w) + self._risk)
        gradient, offset = problem.plane(found)
        # P is nowhere lower, and the penalty alone is at most P at its minimizer.
        farthest = np.sqrt(2.0 * self._least / self.reg_lambda)
        offset -= problem.of_plane(found) * farthest
        used = np.flatnonzero(gradient) if offset > -np.inf else np.empty(0, np.int64)
        offset = max(offset, 0.0) if not len(used) else offset
        score = self._risk if problem.exact else offset + float(gradient[used] @ w[used])
        numbers = (np.array([value]) for value in (offset, score, self._risk))
        plane = used.astype(np.uint32), -gradient[used]
        return [(0, Found(np.array([0, len(used)]), *plane, *numbers))]

    def risk_of(self, scores: Array, bounds: Array, highest: Array) -> float:
        """R where the plane was found, or an upper bound of it."""
        return float(bounds[0] if self.problem.exact else max(bounds[0], highest[0]))

    def name_of(self, i: int) -> str:
        """For errors."""
        return "for some examples"

    def with_errors(self, state: State) -> State:
        """The state with its scores only as certain as rounding leaves them."""
        return self.problem.with_errors(state)

    def _errors(self, w: Array) -> Array:
        if isinstance(self.problem, LikelihoodProblem):  # its planes touch up to rounding
            return np.array([np.inf])
        return np.array([self.problem.objective_error(w, self._risk)])


class OneSimplexSolver(BlockSolver):
    """An iteration solves the master problem over all planes and adds the one at its solution.

    Parameters
    ----------
    problem : StructuredRisk
    name : {"bundle", "rsd-one-simplex"}
    tol : float
    n_cached_outputs : int or None
        Largest number of planes to keep; None keeps all. A further one replaces a plane without
        weight; if there is none, the two of least weight are merged into their mean.
    kept : tuple
        :attr:`kept` of a solver of the same problem; reg_lambda may differ. Planes that do not hold
        with the new one are left out.
    """

    def __init__(
        self,
        problem: StructuredRisk,
        *,
        name: str,
        tol: float,
        n_cached_outputs: int | None = None,
        kept: tuple[KeptOutputs, float] | None = None,
    ):
        self.name, self._cut_for = name, problem.reg_lambda
        outputs = None
        if kept is not None and problem.reg_lambda >= kept[1]:
            outputs, self._cut_for = kept
        most = _ALL if n_cached_outputs is None else n_cached_outputs
        super().__init__(Summed(problem), tol, most, outputs, _PATIENCE)

    @property
    def kept(self) -> tuple[KeptOutputs, float]:
        """Where a new solver may start: planes, and the reg_lambda for which they were cut."""
        return self._dual.outputs, self._cut_for

    def attach(self, problem: Any) -> None:
        """Continue with the same problem in another object."""
        super().attach(problem if problem is ABSENT else Summed(problem))

    def _iterate(self) -> None:
        self._dual.cached_pass(_ONE)
        self._check()
