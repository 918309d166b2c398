"""Cutting planes for the risk of all examples together: one slack variable, one plane per pass."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.contract import State
from sklearn_bundle.linear.problems.linear import Plane, Point
from sklearn_bundle.linear.solvers.bundle import BundleSolver
from sklearn_bundle.linear.solvers.inner.planes import Bundle
from sklearn_bundle.linear.solvers.protocols import Oracle
from sklearn_bundle.linear.solvers.solver import LinearStart
from sklearn_bundle.structured.problems.structured import StructuredRisk
from sklearn_bundle.structured.solvers.adapted import AdaptedSolver

Array = NDArray[np.float64]

_LESS = 1e-2  # of reg_lambda: that of another fit that may use the same planes


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
