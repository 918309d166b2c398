"""L-BFGS, the excessive gap technique and cutting planes on structured risks."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.certificate import Best
from sklearn_bundle.core.contract import ABSENT, State
from sklearn_bundle.core.lbfgs import MEMORY, LBFGSSolver
from sklearn_bundle.core.limits import IDLE_LIMIT, LAST_PLACE, TINY
from sklearn_bundle.linear.certificate import bound_of
from sklearn_bundle.linear.regularizers import L2
from sklearn_bundle.linear.risk import Plane
from sklearn_bundle.linear.solvers.base import At
from sklearn_bundle.linear.solvers.bundle import ADVICE, Planes
from sklearn_bundle.linear.solvers.excessive_gap import PATIENCE, ExcessiveGap, Series
from sklearn_bundle.structured.problems.marginal_chain import MarginalDual
from sklearn_bundle.structured.problems.structured import StructuredProblem, StructuredRisk
from sklearn_bundle.structured.problems.structured_log import LikelihoodProblem

Array = NDArray[np.float64]

_LESS = 1e-2  # of reg_lambda: that of another fit that may use the same planes
_SHARE = 0.1  # of the gap, to which the inner problem is solved: more is wasted
_EXACT = 1e-11  # of the objective, if nothing was gained


class StructuredLBFGS:
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
    history_fields: ClassVar[tuple] = (("oracle_calls", np.int64),)

    def __init__(
        self,
        problem: LikelihoodProblem,
        *,
        n_cached_outputs: int | None = None,
        kept: Array | None = None,
    ):
        self._problem = problem
        memory = MEMORY if n_cached_outputs is None else n_cached_outputs
        self._solver = LBFGSSolver(_Smooth(problem), kept, memory=memory)

    @property
    def kept(self) -> Array:
        """Where a new solver may start."""
        return self._solver.kept

    def attach(self, problem: LikelihoodProblem) -> None:
        """Continue with the same problem in another object."""
        self._problem = problem
        self._solver.attach(_Smooth(problem))

    def detach(self) -> None:
        """Release the problem."""
        self._problem = ABSENT
        self._solver.detach()

    def states(self) -> Iterator[State]:
        """The solver's states, with the oracle calls of the problem."""
        return map(self._counted, self._solver.states())

    def confirm(self, *, moving: bool = True) -> State:
        """The best point and bound, recomputed."""
        return self._counted(self._solver.confirm(moving=moving))

    def _counted(self, state: State) -> State:
        return self._problem.with_errors(replace(state, further=(self._problem.oracle_calls,)))


class _Smooth:
    """The problem in the form that L-BFGS needs."""

    def __init__(self, problem: LikelihoodProblem):
        self.n_parameters = problem.dimension
        self.evaluate = problem.objective


class MarginalGapSolver:
    """The excessive gap technique over marginals of chains, with its own counts in the history.

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
        self._dual, self._idle = MarginalDual(problem), 0
        self._best = Best(least=0.0, advice=ExcessiveGap.advice)  # losses are nonnegative
        start = self._dual.origin() if kept is None else kept
        self._series = Series(self._dual, None, start, self._best)
        self._best.raise_bound(self._series.highest.value)

    @property
    def kept(self) -> Array:
        """Where a new solver may start."""
        return self._series.highest.u

    def attach(self, problem: StructuredProblem) -> None:
        """Continue with the same problem in another object."""
        self._dual = self._series.dual = MarginalDual(problem)

    def detach(self) -> None:
        """Release the problem."""
        self._dual = self._series.dual = ABSENT

    def states(self) -> Iterator[State]:
        """One state per step; they end when rounding leaves nothing to gain."""
        while self._idle < PATIENCE:
            self._idle = 0 if self._series.step() else self._idle + 1
            yield self._state()

    def confirm(self, *, moving: bool = True) -> State:
        """Objective from the data at the best point, bound from the data at the best u."""
        series, dual, w = self._series, self._dual, self._best.point
        series.highest = series.evaluated(dual.feasible(series.highest.u))
        taken = dual.rounding(series.highest.combined)
        self._best.recompute(dual.objective(w), w, series.highest.value, None, rounding=taken)
        return self._state()

    def _state(self) -> State:
        dual, problem, w = self._dual, self._dual.problem, self._best.point
        counts = problem.oracle_calls, dual.projections, dual.projection_passes
        return problem.with_errors(self._best.state(w, None, problem.passes, None, counts))


class KeptPlanes(NamedTuple):
    """Where a one-slack solver may start: its best point, planes cut for a reg_lambda, the mean."""

    w: Array
    planes: Planes
    reg_lambda: float
    mean: Plane | None


class OneSlackSolver:
    """Algorithm 2 of the BMRM paper on a structured risk, with oracle calls in the history.

    Planes touch the risk only if the oracle is exact. If it may have missed outputs, the risk is
    taken to be at least as high as the planes that it gave elsewhere: otherwise the bound would
    rise above the objective. Planes are lowered by what rounding of their gradients may add to them
    at the minimizer of P, for this reg_lambda and any down to a hundredth of it.

    Parameters
    ----------
    problem : StructuredRisk
        Without a cone.
    n_cached_outputs : int or None
        Largest number of planes to keep, at least 2; None keeps all.
    kept : KeptPlanes
        :attr:`kept` of a solver of the same problem; reg_lambda may differ. Planes that do not hold
        with the new one are left out.
    """

    name = "bundle"
    history_fields: ClassVar[tuple] = (("oracle_calls", np.int64),)

    def __init__(
        self,
        problem: StructuredRisk,
        *,
        n_cached_outputs: int | None = None,
        kept: KeptPlanes | None = None,
    ):
        self._problem, self._w = problem, np.zeros(problem.dimension)
        self._planes = Planes(problem.dimension, n_cached_outputs, L2(), 0)
        self._cut_for = problem.reg_lambda
        if kept is not None:
            self._w = kept.w
            least = _LESS if problem.any_lambda else 1.0
            if problem.reg_lambda >= least * kept.reg_lambda:
                self._planes, self._cut_for = kept.planes, kept.reg_lambda
                self._planes.resize(n_cached_outputs)
        self._best = Best(least=0.0, advice=ADVICE)
        if kept is not None and kept.mean is not None and self._planes is kept.planes:
            self._best.raise_bound(bound_of(kept.mean, L2(), problem.reg_lambda), kept.mean)
        self._idle, self._highest = 0, -np.inf

    @property
    def kept(self) -> KeptPlanes:
        """Where a new solver may start."""
        best = self._best
        return KeptPlanes(best.point, self._planes, self._cut_for, best.dual_certificate)

    def attach(self, problem: StructuredRisk) -> None:
        """Continue with the same problem in another object."""
        self._problem = problem

    def detach(self) -> None:
        """Release the problem."""
        self._problem = ABSENT

    def states(self) -> Iterator[State]:
        """One state per plane; they end when rounding leaves nothing to gain."""
        if self._best.point is None:
            self._cut(self._w)
        while self._idle < IDLE_LIMIT:
            best = self._best
            gap = min(best.gap, best.primal)
            tol = _EXACT * max(best.primal, TINY) if self._idle > 0 else _SHARE * gap
            given = self._problem.reg_lambda, tol, At(best.point, None), best.primal, 1.0
            found, plane, bound = self._planes.solve(*given)
            best.raise_bound(bound, plane)
            self._cut(found.w)
            gained = max(gap - min(best.gap, best.primal), bound - self._highest)
            self._highest = max(bound, self._highest)  # it rises before it is above 0
            self._idle = 0 if gained > LAST_PLACE * best.primal else self._idle + 1
            yield self._state()

    def confirm(self, *, moving: bool = True) -> State:
        """The objective of the best point from the data, and the bound of its plane."""
        problem, best = self._problem, self._best
        plane, w = best.dual_certificate, best.point
        bound = -np.inf if plane is None else bound_of(plane, L2(), problem.reg_lambda)
        penalty = 0.5 * problem.reg_lambda * float(w @ w)
        best.recompute(penalty + self._risk(w, problem.find(w)), w, bound, plane)
        return self._state()

    def _cut(self, w: Array) -> None:
        """Offer a point, and add the plane of the outputs found there."""
        problem, reg_lambda, n = self._problem, self._problem.reg_lambda, self._planes.size
        found = problem.find(w)
        risk = self._risk(w, found)
        if not np.isfinite(risk):
            raise ValueError("The risk is not finite: check the scale of the features.")
        first = self._best.point is None
        self._best.offer(0.5 * reg_lambda * float(w @ w) + risk, w)
        if first and n > 0:
            return  # a kept plane was cut there
        gradient, offset = problem.plane(found)
        # P is nowhere lower, and the penalty alone is at most P at its minimizer.
        farthest = np.sqrt(2.0 * self._best.primal / (_LESS * reg_lambda))
        offset -= problem.of_plane(found) * farthest
        if offset > -np.inf:
            self._planes.add(_plane(gradient, offset))
        elif n == 0:  # the risk is nowhere below the plane 0, from which a fit can continue
            self._planes.add(_plane(np.zeros_like(gradient), 0.0))

    def _risk(self, w: Array, found: Any) -> float:
        """R(w), or an upper bound of it."""
        risk = self._problem.risk(found)
        if self._problem.exact or not self._planes.size:
            return risk
        return max(risk, self._planes.highest(w))

    def _state(self) -> State:
        problem, best = self._problem, self._best
        further = (problem.oracle_calls,)
        return problem.with_errors(best.state(best.point, None, problem.passes, None, further))


def _plane(gradient: Array, offset: float) -> Plane:
    """A plane whose rounding has been taken off."""
    return Plane(gradient, offset, np.zeros(0), np.zeros(1), 0.0, 0.0)
