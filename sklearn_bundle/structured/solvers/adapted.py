"""Solvers of other problems, adapted to structured risks: L-BFGS, excessive gap, cutting planes."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core_next.contract import ABSENT, State
from sklearn_bundle.core_next.lbfgs import MEMORY, LBFGSSolver
from sklearn_bundle.linear.problems.linear import Plane, Point
from sklearn_bundle.linear.solvers.bundle import BundleSolver
from sklearn_bundle.linear.solvers.excessive_gap import ExcessiveGapSolver
from sklearn_bundle.linear.solvers.inner.planes import Bundle
from sklearn_bundle.linear.solvers.protocols import Oracle
from sklearn_bundle.linear.solvers.solver import LinearStart
from sklearn_bundle.structured.problems.marginal_chain import MarginalDual
from sklearn_bundle.structured.problems.structured import StructuredProblem, StructuredRisk
from sklearn_bundle.structured.problems.structured_log import LikelihoodProblem

Array = NDArray[np.float64]

_LESS = 1e-2  # of reg_lambda: that of another fit that may use the same planes


class AdaptedSolver(ABC):
    """The other solver's states, with the oracle calls of the problem in the history.

    A subclass sets ``_solver``, which works on what :meth:`_adapted` makes of the problem.
    """

    history_fields: ClassVar[tuple] = (("oracle_calls", np.int64),)
    _solver: Any

    def __init__(self, problem: StructuredRisk):
        self._problem = problem

    @property
    @abstractmethod
    def kept(self) -> Any:
        """Where a new solver may start."""

    @abstractmethod
    def _adapted(self, problem: StructuredRisk) -> Any:
        """The problem in the form that the other solver needs."""

    def attach(self, problem: StructuredRisk) -> None:
        """Continue with the same problem in another object."""
        self._problem = problem
        self._solver.attach(self._adapted(problem))

    def detach(self) -> None:
        """Release the problem."""
        self._problem = ABSENT
        self._solver.detach()

    def states(self) -> Iterator[State]:
        """The states of the other solver; they end when rounding leaves nothing to gain."""
        return map(self._counted, self._solver.states())

    def confirm(self, *, moving: bool = True) -> State:
        """The other solver's best point and bound, recomputed."""
        return self._counted(self._solver.confirm(moving=moving))

    def _counted(self, state: State) -> State:
        return self._problem.with_errors(replace(state, further=(self._problem.oracle_calls,)))


class StructuredLBFGS(AdaptedSolver):
    """L-BFGS on the likelihood, from w = 0 or from where the last solver of the problem ended.

    Parameters
    ----------
    problem : LikelihoodProblem
    n_cached_outputs : int or None
        Pairs of steps and changes of the gradient to keep; None is 10.
    kept : ndarray
        :attr:`kept` of a solver of the same problem; reg_lambda may differ.
    """

    name = "lbfgs"

    def __init__(
        self,
        problem: LikelihoodProblem,
        *,
        n_cached_outputs: int | None = None,
        kept: Array | None = None,
    ):
        super().__init__(problem)
        memory = MEMORY if n_cached_outputs is None else n_cached_outputs
        self._solver = LBFGSSolver(self._adapted(problem), kept, memory=memory)

    @property
    def kept(self) -> Array:
        """Where a new solver may start."""
        return self._solver.kept

    def _adapted(self, problem: LikelihoodProblem) -> "_Smooth":
        return _Smooth(problem)


class _Smooth:
    """The problem in the form that L-BFGS needs."""

    def __init__(self, problem: LikelihoodProblem):
        self.n_parameters = problem.dimension
        self.evaluate = problem.objective


class MarginalGapSolver(AdaptedSolver):
    """:class:`ExcessiveGapSolver` over marginals of chains, with its own counts in the history.

    These are max-margin Markov networks: appendix E of Saha, Zhang and Vishwanathan (2010).

    Parameters
    ----------
    problem : StructuredProblem
        As in :class:`MarginalDual`.
    kept : ndarray
        Marginals from a solver of the same problem; reg_lambda may differ.
    """

    name = "excessive-gap"
    history_fields: ClassVar[tuple] = (
        ("oracle_calls", np.int64),
        ("projections", np.int64),
        ("projection_passes", np.int64),
    )

    def __init__(self, problem: StructuredProblem, *, kept: Array | None = None):
        super().__init__(problem)
        self._solver = ExcessiveGapSolver(self._adapted(problem), None, kept)

    @property
    def kept(self) -> Array:
        """Where a new solver may start."""
        return self._solver.dual_point.u

    def detach(self) -> None:
        self._dual = ABSENT
        super().detach()

    def _adapted(self, problem: StructuredProblem) -> MarginalDual:
        self._dual = MarginalDual(problem)
        return self._dual

    def _counted(self, state: State) -> State:
        dual = self._dual
        counts = dual.problem.oracle_calls, dual.projections, dual.projection_passes
        return replace(super()._counted(state), further=counts)


class OneSlackSolver(AdaptedSolver):
    """Algorithm 2 of the BMRM paper on a structured risk, with oracle calls in the history.

    Parameters
    ----------
    problem : StructuredRisk
        Without a cone.
    n_cached_outputs : int or None
        Largest number of planes to keep, at least 2; None keeps all.
    kept : LinearStart
        :attr:`kept` of a solver of the same problem; reg_lambda may differ. Planes that do not hold
        with the new one are left out.
    """

    name = "bundle"

    def __init__(
        self,
        problem: StructuredRisk,
        *,
        n_cached_outputs: int | None = None,
        kept: LinearStart | None = None,
    ):
        start = LinearStart() if kept is None else kept
        bundle = start.bundle
        if bundle is None or not _hold(problem, start):
            bundle = Bundle(problem.dimension)
        bundle.resize(n_cached_outputs)
        super().__init__(problem)
        self._bundle = bundle
        self._point = start.point
        self._solver = BundleSolver(
            self._adapted(problem),
            problem.reg_lambda,
            algorithm="cutting-plane",
            bundle=bundle,
            start=start.point,
            dual_certificate=start.dual_certificate,
        )

    @property
    def kept(self) -> LinearStart:
        """Where a new solver may start."""
        return self._solver.kept(self._point)

    def _adapted(self, problem: StructuredRisk) -> "_Planes":
        return _Planes(problem, self._bundle)

    def _counted(self, state: State) -> State:
        self._point = state.point, None
        return super()._counted(state)


def _hold(problem: StructuredRisk, start: LinearStart) -> bool:
    """Whether planes that were cut for another reg_lambda hold for this one."""
    least = _LESS if problem.any_lambda else 1.0
    return (
        start.dual_certificate is not None
        and problem.reg_lambda >= least * start.dual_certificate.reg_lambda
    )


class _Planes(Oracle):
    """A structured risk and its planes, which touch it only if the oracle is exact.

    If the oracle may have missed outputs, the risk is taken to be at least as high as the planes
    that it gave elsewhere: otherwise the bound would rise above the objective.

    Planes are lowered by what rounding of their gradients may add to them at the minimizer of P,
    and at that for any reg_lambda down to ``_LESS`` of this one. Its penalty alone is at most P at
    any point.
    """

    def __init__(self, problem: StructuredRisk, bundle: Bundle):
        super().__init__(problem)
        self._bundle = bundle
        self._lowest = np.inf  # P of the best point so far

    def risk(self, point: Point) -> float:
        """R(w), or an upper bound of it."""
        return self._risk(point.w, self._problem.find(point.w))

    def cut(self, point: Point, risk_limit: float) -> Plane | None:
        """The plane of the outputs found at w, unless rounding leaves nothing of it."""
        found = self._problem.find(point.w)
        risk = self._risk(point.w, found)
        if not risk <= risk_limit:
            return None
        gradient, offset = self._problem.plane(found)
        reg_lambda = self._problem.reg_lambda
        self._lowest = min(self._lowest, 0.5 * reg_lambda * float(point.w @ point.w) + risk)
        farthest = np.sqrt(2.0 * self._lowest / (_LESS * reg_lambda))
        offset -= self._problem.of_plane(found) * farthest
        if offset > -np.inf:
            return Plane(gradient, offset, risk)
        # The risk is nowhere below the plane 0, from which a fit can continue.
        return None if self._bundle.size else Plane(np.zeros_like(gradient), 0.0, risk)

    def _risk(self, w: Array, found: Any) -> float:
        risk = self._problem.risk(found)
        if self._problem.exact or not self._bundle.size:
            return risk
        return max(risk, float(np.max(self._bundle.planes @ w + self._bundle.offsets)))
