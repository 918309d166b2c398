"""Dual coordinate epochs whose aggregate planes make the certificate."""

from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.contract import State
from sklearn_bundle.core.limits import TINY
from sklearn_bundle.linear.losses.base import Loss
from sklearn_bundle.linear.losses.scores import score_loss
from sklearn_bundle.linear.problems.dual_steps import DualAscent
from sklearn_bundle.linear.problems.linear import Point
from sklearn_bundle.linear.regularizers import Regularizer
from sklearn_bundle.linear.solvers._dual_ascent import DualAscentSolver
from sklearn_bundle.linear.solvers.inner.planes import Bundle, Center
from sklearn_bundle.linear.solvers.linear_start import DualCertificate, LinearStart, PointToStart
from sklearn_bundle.linear.solvers.linear_task import Task
from sklearn_bundle.linear.solvers.protocols import DualSteps, Points, require

Array = NDArray[np.float64]

_PLANES = 2  # in its own bundle, for another solver
_SINGLE = 1e-4  # relative gap down to which w in single precision is enough
_RECENT = 6  # epochs from which the rate is measured
_NEAR = 2.5  # times the estimate that triggers a check: below this dual points are averaged
_SHARPNESS = 3.0  # the faster the gap falls, the shorter the memory of the mean of dual points
_LONGEST_MEMORY = 0.1  # least weight of the newest dual point in the mean: a memory of ten epochs
_CALL = 2e4  # multiplications that take as long as an epoch of no rows, about 10 us
_QP_SHARE = 0.1  # the inner problem of another solver's planes is solved to this share of the gap


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

    Parameters
    ----------
    problem : DualSteps
    reg_lambda : float
        The regularizer is ``||w||^2 / 2``.
    tol_hint : float, default=None
        The requested relative gap; without it checks are more frequent.
    bundle : Bundle
        Gets the plane of the best bound when it is read.
    start : (ndarray, intercept)
        A point to begin with; the steps start from ``alpha``.
    dual_certificate : DualCertificate
        A dual certificate to start from, if its reg_lambda is the same.
    alpha : ndarray of shape (n,), default=None
        Dual point to start from, 0 by default.

    Attributes
    ----------
    plane : (ndarray of shape (d,), float)
        The aggregate plane (a, c) that proves the bound ``c - ||a||^2 / (2 reg_lambda)``.
    """

    needs: ClassVar[type] = DualSteps
    _problem: DualSteps
    _steps: DualAscent

    def __init__(
        self,
        problem: Points,
        reg_lambda: float,
        *,
        tol_hint: float | None = None,
        bundle: Bundle | None = None,
        start: PointToStart | None = None,
        dual_certificate: DualCertificate | None = None,
        alpha: Array | None = None,
    ):
        problem = require(problem, DualSteps, self.name, "line-search")
        steps = problem.dual_ascent(reg_lambda, alpha)
        super().__init__(problem, reg_lambda, steps, dual_certificate, tol_hint, start)
        self.bundle = Bundle(problem.dimension, _PLANES) if bundle is None else bundle
        self._single = self._steps.exceeds_cache and (tol_hint is None or tol_hint > _SINGLE)
        self._mean: Array | None = None  # of dual points, if a check is near
        self._estimates: deque[float] = deque(maxlen=_RECENT)

    @classmethod
    def supports(cls, loss: Loss, omega: Regularizer) -> bool:
        """Whether the loss has dual steps, and the regularizer is ``||w||^2 / 2``."""
        form = score_loss(loss)
        has_steps = form is not None and form.has_dual_steps
        return super().supports(loss, omega) and has_steps

    @classmethod
    def of(cls, task: Task, kept: LinearStart) -> Self:
        """The solver of a task, started from the last dual point if there is one."""
        bundle = kept.bundle
        if bundle is not None:
            bundle.resize(task.max_size)
        return cls(
            task.problem,
            task.reg_lambda,
            tol_hint=task.tol,
            bundle=bundle,
            start=kept.point,
            dual_certificate=kept.certificate_of(task.problem.dimension),
            alpha=kept.alpha,
        )

    def kept(self, point: PointToStart) -> LinearStart:
        """Where a new solver may start: the point, the dual point and the dual certificate."""
        return LinearStart(point, self.dual_certificate, alpha=self.alpha)

    @property
    def alpha(self) -> Array:
        """The dual point, of shape (n,), from which the next solver on the same data may start."""
        return self._steps.alpha

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

    def states(self) -> Iterator[State]:
        """One state per epoch; ends when rounding leaves nothing to gain."""
        if self._steps.w is None:
            self._begin()
        elif self._idling.enough:  # the last run ended this way
            yield self._state()
            return
        while not self._idling.enough:
            self._epoch()
            if self._check_is_due():
                self._check()
            yield self._state()

    def confirm(self, *, moving: bool = True) -> State:
        """Objective from the data at the best point, bound from the kept aggregate plane.

        If the point may move, the epochs since the last check count. They then continue as if there
        had been no confirmation.
        """
        best = self._best
        if moving and self._checks.work > 0.0:
            self._prove((self._steps.alpha_view if self._mean is None else self._mean).copy())
        best.point = self._problem.point(best.point.w, best.point.intercept)
        best.primal = self._objective(best.point.w, self._problem.risk(best.point))
        if moving:
            point = best.point
            self._offer(Point(point.w, point.scores, point.intercept, point.drift))
        self._renew(best.point, best.primal)
        self._problem.release_buffers()
        return self._state()

    def _begin(self) -> None:
        start = self._problem.point(self._start[0], None)
        self._offer(start)
        self._problem.release_buffers()
        if not self.bundle.is_empty:
            self._solve_inner()
        assert start.intercept is not None
        self._steps.begin(float(start.intercept), single=self._single)
        if self._steps.alpha.any():
            self._steps.rescale()
            self._check()

    def _solve_inner(self) -> None:
        """Compute a bound from the planes of the solver before."""
        best = self._best
        tolerance = _QP_SHARE * best.gap if np.isfinite(best.gap) else 0.0
        center = Center(best.point.w, best.point.intercept, best.primal)
        inner = self.bundle.solve(self._lambda, tolerance, center)
        dual_certificate = DualCertificate(self._lambda, inner.plane)
        if inner.bound > best.bound:
            dual_certificate = dual_certificate.lowered(inner.bound, self._omega)
        best.raise_bound(inner.bound, dual_certificate)

    def _epoch(self) -> None:
        epoch = self._steps.epoch()
        self.multiplications += _CALL + epoch.multiplications
        self._dual += epoch.gained
        self._checks.note(epoch.gap, self._dual, epoch.share)
        self._estimates.append(self.estimate)
        self._average()

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
        self._continue_from(*self._prove(self._steps.alpha_view))

    def _prove(self, alpha: Array) -> tuple[Point, float]:
        """Balance alpha; offer the point that belongs to it as the best one. Returns the bound too.

        Only its plane is kept from here on, so that a copy of alpha lets its memory go.
        """
        self._steps.balance(alpha)
        gradient, offset = self._steps.plane(alpha)
        del alpha
        square = float(gradient @ gradient)
        bound = offset - square / (2.0 * self._lambda)
        if self._best.raise_bound(bound, DualCertificate(self._lambda, (gradient, offset))):
            self._new_plane = gradient, offset
        point = self._problem.point(gradient / -self._lambda, None)
        self._offer(point)
        if not self._within():
            self._search_ray(point, square / self._lambda)
        return point, bound

    def _within(self) -> bool:
        return self._tol is not None and self._best.gap <= self._tol * self._best.primal

    def _search_ray(self, point: Point, curvature: float) -> None:
        """Offer the best multiple of w: its scores are the same multiple, as good as a product."""
        step = self._problem.ray_search(point, curvature)
        assert point.scores is not None and point.intercept is not None
        if 0.0 < step < np.inf and step != 1.0:
            scaled = Point(point.w, step * point.scores, step * point.intercept)
            risk = self._risk(scaled)
            objective = 0.5 * step * step * curvature + risk
            if objective < self._best.primal:
                scaled.w = step * point.w
                self._best.offer(self._objective(scaled.w, risk), scaled)

    def _continue_from(self, point: Point, bound: float) -> None:
        """Set the working w, the intercept and the active rows to those of the check."""
        before = self._checks.at_check
        self._made(self._objective(point.w, self._problem.risk(point)), bound)
        found = self._checks.at_check
        if self._single and (found <= 2.0 * _SINGLE or found > 0.5 * before):
            self._single = False
            self._steps.use_doubles()
        self._problem.release_buffers()
        assert point.scores is not None and point.intercept is not None
        self._steps.restart(point.w, float(point.intercept), point.scores)

    def _offer(self, point: Point) -> bool:
        """Offer the point with its best intercept."""
        return self._best.offer(self._objective(point.w, self._risk(point)), point)

    def _risk(self, point: Point) -> float:
        """The risk at the best intercept, which becomes that of the point."""
        self._problem.set_intercept(point)
        return self._problem.risk(point)
