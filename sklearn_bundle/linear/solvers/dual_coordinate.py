"""Dual coordinate epochs whose aggregate planes make the certificate."""

from collections import deque
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.contract import State
from sklearn_bundle.core.dual_methods import Checks, Idling
from sklearn_bundle.core.limits import TINY
from sklearn_bundle.linear.losses.base import Loss
from sklearn_bundle.linear.losses.scores import ScoreLoss, score_loss
from sklearn_bundle.linear.problems.linear import LinearProblem, Point
from sklearn_bundle.linear.solvers._dual_steps import DualAscent
from sklearn_bundle.linear.solvers.bundle import ADVICE
from sklearn_bundle.linear.solvers.inner.planes import Bundle, Center
from sklearn_bundle.linear.solvers.solver import (
    NOTHING,
    DualCertificate,
    LinearSolver,
    LinearStart,
    PointToStart,
    Task,
)

Array = NDArray[np.float64]

IDLE = 4  # checks in a row without progress, after which only rounding is left
_COST = 2.0  # of a check, in passes
# Gap of the mean of dual points over that of the rows when visited: a first guess.
_GAP_RATIO = 0.8
_PLANES = 2  # in its own bundle, for another solver
_SINGLE = 1e-4  # relative gap down to which w in single precision is enough
_RECENT = 6  # epochs from which the rate is measured
_NEAR = 2.5  # times the estimate that triggers a check: below this dual points are averaged
_SHARPNESS = 3.0  # the faster the gap falls, the shorter the memory of the mean of dual points
_LONGEST_MEMORY = 0.1  # least weight of the newest dual point in the mean: a memory of ten epochs
CALL = 2e4  # multiplications that take as long as an epoch of no rows, about 10 us
_QP_SHARE = 0.1  # the inner problem of another solver's planes is solved to this share of the gap


class DualAscentSolver(LinearSolver):
    """A problem with steps in its dual, and an estimate of the gap, which says when to check it.

    Attributes
    ----------
    estimate : float
        About the relative gap; the certificate is that of the state.
    """

    needs: ClassVar[type] = LinearProblem
    advice: ClassVar[str] = ADVICE
    name = "dual-coordinate"
    _problem: LinearProblem
    _steps: Any

    def __init__(self, task: Task, kept: LinearStart = NOTHING, pause: float = 0.0):
        super().__init__(task, kept)
        self._dual = 0.0  # about the dual's value
        self._proved = -np.inf  # the same at the last check
        self._checks = Checks(task.tol, _COST, _GAP_RATIO, pause)
        self._idling = Idling(IDLE)

    @property
    def estimate(self) -> float:
        return self._checks.estimate

    @property
    def alpha(self) -> Array:
        """The dual point, from which the next solver on the same data may start."""
        return self._steps.alpha

    @property
    def is_at_end(self) -> bool:
        """Whether checks have shown no progress."""
        return self._idling.enough

    def kept(self, point: PointToStart) -> LinearStart:
        """Where a new solver may start: the point, the dual point and the dual certificate."""
        return LinearStart(point, self.dual_certificate, alpha=self.alpha)

    def attach(self, problem: LinearProblem) -> None:
        """Continue with the same problem in another object."""
        super().attach(problem)
        self._steps.attach(problem.rows)

    def detach(self) -> None:
        """Release the problem and its data."""
        super().detach()
        self._steps.detach()

    def gap_of(self, state: State) -> float:
        """The estimate: a state has the certificate of the last check."""
        return self.estimate

    def _made(self, objective: float, bound: float, *, calibrates: bool = True) -> None:
        """Note a check; the dual point may be far behind the starting point."""
        self._checks.made(objective, bound, calibrates=calibrates)
        self._idling.note(self.best, bound - self._proved)
        self._dual = self._proved = bound


class DualCoordinateSolver(DualAscentSolver):
    """Coordinate ascent in the dual, one number alpha_i per row, certified now and then.

    An epoch maximizes the dual over one alpha_i after the other, in random order; rows whose
    alpha_i seems to have settled at a bound are left out (Hsieh, Chang, Lin, Keerthi and
    Sundararajan, 2008). The rows' parts of the duality gap, summed during an epoch, estimate the
    gap. If the estimate is low enough, a check takes two passes: it computes from the data the
    plane ``a = -X'(y alpha)`` with its offset, and the objective at ``w = -a / reg_lambda`` and at
    the best multiple of it. Its alpha is a running mean of those after the last epochs: the scores
    of rows with 0 < alpha_i < s_i oscillate, and a sum of hinges adds up every oscillation. States
    show the values of the last check.

    Attributes
    ----------
    alpha : ndarray of shape (n,)
        The dual point; 0 at first.
    bundle : Bundle
        Gets the plane of the best bound when it is read.
    """

    _steps: DualAscent

    def __init__(self, task: Task, kept: LinearStart = NOTHING):
        super().__init__(task, kept)
        problem, bundle = self._problem, kept.bundle
        self._steps = DualAscent(problem, task.reg_lambda, kept.alpha)
        if bundle is not None:
            bundle.resize(task.max_size)
        self.bundle = Bundle(problem.dimension, _PLANES) if bundle is None else bundle
        self._single = self._steps.exceeds_cache and task.tol > _SINGLE
        self._mean: Array | None = None  # of dual points, if a check is near
        self._estimates: deque[float] = deque(maxlen=_RECENT)

    @classmethod
    def form(cls, loss: Loss) -> ScoreLoss | None:
        """The loss if it has dual steps."""
        found = score_loss(loss)
        return found if found is not None and found.has_dual_steps else None

    @property
    def rate(self) -> float:
        """Mean fall of the logarithm of the estimated gap per epoch, of the recent ones."""
        if len(self._estimates) < 2:
            return np.inf
        first, last = self._estimates[0], self._estimates[-1]
        return float(np.log(max(first, TINY) / max(last, TINY))) / (len(self._estimates) - 1)

    def start_of_next(self, start: LinearStart) -> LinearStart:
        """The start, with the plane of the best bound."""
        return replace(start, dual_certificate=self.dual_certificate, bundle=self.bundle)

    @property
    def bundle(self) -> Bundle:
        """Planes for another solver: adding one takes as long as an epoch if d is large."""
        if self._new_plane is not None:
            self._bundle.add(*self._new_plane)
            self._new_plane = None
        return self._bundle

    @bundle.setter
    def bundle(self, bundle: Bundle) -> None:
        self._bundle, self._new_plane = bundle, None

    def begin(self) -> None:
        """Take what the last solver left: its point, its planes, its dual point."""
        start = self._problem.point(self._start[0], None)
        self._offer(start, self._fresh_risk(start))
        self._problem.release_buffers()
        if not self.bundle.is_empty:
            self._solve_inner()
        assert start.intercept is not None
        self._steps.begin(float(start.intercept), single=self._single)
        if self._steps.alpha.any():
            self._steps.rescale()
            self._check()

    def step(self) -> None:
        """An epoch, and a check if one is due."""
        epoch = self._steps.epoch()
        self.multiplications += CALL + epoch.multiplications
        self._dual += epoch.gained
        self._checks.note(epoch.gap, self._dual, epoch.share)
        self._estimates.append(self.estimate)
        self._average()
        if self._check_is_due():
            self._check()

    def confirm(self, *, moving: bool = True) -> State:
        """Recompute point and bound; if the point may move, epochs since the last check count."""
        state = super().confirm(moving=moving)
        self._problem.release_buffers()
        return state

    def _prepare_confirmation(self, moving: bool) -> None:
        if moving and self._checks.work > 0.0:
            self._prove_alpha((self._steps.alpha_view if self._mean is None else self._mean).copy())

    def _solve_inner(self) -> None:
        """Compute a bound from the planes of the solver before."""
        best = self.best
        tolerance = _QP_SHARE * best.gap if np.isfinite(best.gap) else 0.0
        center = Center(best.point.w, best.point.intercept, best.primal)
        inner = self.bundle.solve(self._lambda, tolerance, center)
        self._prove(inner.plane, inner.bound)

    def _average(self) -> None:
        """Begin the running mean when a check is near, or update it."""
        if self._mean is not None:
            newest = max(1.0 - np.exp(-_SHARPNESS * self.rate), _LONGEST_MEMORY)
            self._steps.follow(newest, self._mean)
        elif self.estimate <= _NEAR * self._checks.target:
            self._mean = self.alpha

    def _check_is_due(self) -> bool:
        """Whether a check is due, which costs two passes."""
        all_settled = self._steps.n_active == 0
        return all_settled or self._checks.is_due or (self._single and self.estimate <= _SINGLE)

    def _check(self) -> None:
        """Plane, bound and objective from alpha and the data, where the next epoch begins."""
        if self._mean is not None:
            self._steps.set_alpha(self._mean)
            self._mean = None
        self._continue_from(*self._prove_alpha(self._steps.alpha_view))

    def _prove_alpha(self, alpha: Array) -> tuple[Point, float]:
        """Balance alpha; offer the point that belongs to it as the best one. Returns the bound too.

        Only its plane is kept from here on, so that a copy of alpha lets its memory go.
        """
        self._steps.balance(alpha)
        gradient, offset = self._steps.plane(alpha)
        del alpha
        square = float(gradient @ gradient)
        bound = offset - square / (2.0 * self._lambda)
        if self.best.raise_bound(bound, DualCertificate(self._lambda, (gradient, offset))):
            self._new_plane = gradient, offset
        point = self._problem.point(gradient / -self._lambda, None)
        self._offer(point, self._fresh_risk(point))
        if self.best.gap > self._tol * self.best.primal:
            self._search_ray(point, square / self._lambda)
        self._problem.release_buffers()
        return point, bound

    def _search_ray(self, point: Point, curvature: float) -> None:
        """Offer the best multiple of w: its scores are the same multiple, as good as a product."""
        step = self._problem.ray_search(point, curvature)
        assert point.scores is not None and point.intercept is not None
        if 0.0 < step < np.inf and step != 1.0:
            scaled = Point(point.w, step * point.scores, step * point.intercept)
            risk = self._fresh_risk(scaled)
            objective = 0.5 * step * step * curvature + risk
            if objective < self.best.primal:
                scaled.w = step * point.w
                self.best.offer(self._objective(scaled.w, risk), scaled)

    def _continue_from(self, point: Point, bound: float) -> None:
        """Set the working w, the intercept and the active rows to those of the check."""
        before = self._checks.at_check
        self._made(self._objective(point.w, self._problem.risk(point)), bound)
        found = self._checks.at_check
        if self._single and (found <= 2.0 * _SINGLE or found > 0.5 * before):
            self._single = False
            self._steps.use_doubles()
        assert point.scores is not None and point.intercept is not None
        self._steps.restart(point.w, float(point.intercept), point.scores)
