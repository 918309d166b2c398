"""Certified dual coordinate steps for several classes, with a distribution over them per row."""

import math
from collections import deque
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.dual_methods import Idling
from sklearn_bundle.core.limits import TINY
from sklearn_bundle.linear.losses.base import Loss
from sklearn_bundle.linear.losses.multiclass import MulticlassHinge, dual_hinge
from sklearn_bundle.linear.solvers._class_dual import ClassAscent
from sklearn_bundle.linear.solvers.dual_coordinate import IDLE, DualAscentSolver
from sklearn_bundle.linear.solvers.inner.planes import Bundle
from sklearn_bundle.linear.solvers.solver import NOTHING, DualCertificate, LinearStart, Task

Array = NDArray[np.float64]

_SETTLED = 0.5  # of the gap of the last sweep over all rows: then the next one visits all rows
_WAIT = 0.3  # of all passes so far: a check activates all rows, which disturbs the sweeps
_NEAR = 4.0  # times the estimate that triggers a check: below this dual points are averaged
_RECENT = 6  # sweeps over all rows from which the rate is measured
_MANY = 8.0  # remaining passes over all rows at that rate above which a proximal term is tried
# Times reg_lambda: the strength of the proximal term. It is not adapted to the parts of the gap, as
# in core/catalyst.py, since the rows' part has the imbalance of the intercepts, which no kappa
# closes: usps and letter took 1.3 to 3.6 times as many passes so.
_KAPPA = 10.0
_INNER = 3  # sweeps between moves of its center
_TRIED = 30.0  # passes over all rows with a proximal term before its effect is judged
_ACCELERATED = 0.25  # of the rate before, which would not have lasted: a higher rate means it helps
_PAUSE = 10.0  # passes until the next try if it did not help; twice as many each time
# Least number of rows visited in an iteration: few rows are visited many times, for 1 or 2 ms.
_VISITS = 1 << 14
# Mean of ``s_i ||x_i||^2 / reg_lambda`` up to which no solver is better. A step moves its row of
# alpha by the loss over this number, so about that many passes are needed: from a fifth to 20 times
# as many on the sets of the benchmarks. At 35,000 line search was still far behind.
_STEEPEST = 1e5


class ClassCoordinateSolver(DualAscentSolver):
    """Coordinate ascent in the dual of the multiclass hinge, certified now and then.

    A step maximizes the dual over the distribution of one row over the classes, a projection onto
    the simplex. Rows whose distribution is already the best one are left out until the gap of the
    others has halved; then all rows are visited once (Keerthi, Sundararajan, Chang, Hsieh and Lin,
    2008, with the shrinking of LIBLINEAR). The rows' parts of the duality gap, summed during
    sweeps, estimate the gap. If the estimate is low enough, a check takes two passes: it computes
    from the data the plane of a running mean of the last dual points, balanced for free intercepts,
    and the objective at the W of the mean. States show the values of the last check.

    If the gap falls so slowly that many passes would remain, the steps are those of a problem with
    a proximal term ``kappa/2 ||W - Z||^2``, whose center Z moves after every third sweep with
    momentum (Catalyst: Lin, Mairal and Harchaoui, 2015, algorithm 1). Checks prove the same bounds
    from the same alpha, and take the objective at a running mean of W. If the gap does not fall
    faster, the term is removed; the pause before it is tried again doubles each time.

    An iteration consists of sweeps over active rows that together read all rows once, and at least
    16,384 rows.

    Attributes
    ----------
    alpha : ndarray of shape (n, K)
        The dual point; the labels at first.
    """

    _steps: ClassAscent

    def __init__(self, task: Task, kept: LinearStart = NOTHING):
        super().__init__(task, kept, _WAIT)
        self._steps = ClassAscent(self._problem, task.reg_lambda, kept.alpha)
        self._gap_of_all_rows = np.inf  # the gap in the last sweep over all rows
        self._averaging = False
        self._passes_so_far = 0.0  # over all rows
        self._gaps: deque[tuple[float, float]] = deque(maxlen=_RECENT)  # passes and gaps of these
        self._inner = -1  # sweeps since the center moved; -1 without a center
        # Passes, gap and rate before the proximal term.
        self._before_proximal: tuple[float, float, float] | None = None
        self._pause, self._next_try = _PAUSE, 0.0  # passes without it, if it did not help

    @classmethod
    def form(cls, loss: Loss) -> MulticlassHinge | None:
        """The multiclass hinge, except slack scaling with costs."""
        return dual_hinge(loss)

    @classmethod
    def is_best(cls, task: Task) -> bool:
        """Always, unless reg_lambda is nearly 0."""
        problem = task.problem
        curvature = problem.rows.mean_square(problem.weights) / task.reg_lambda
        return curvature <= _STEEPEST * problem.n_samples

    def start_of_next(self, start: LinearStart) -> LinearStart:
        """The start, with the plane of the best bound."""
        n_free = self._problem.n_free
        bundle = Bundle(self._problem.dimension, None, self._omega, n_free)
        bundle.add(*self.plane, np.zeros(n_free))
        return replace(start, dual_certificate=self.dual_certificate, bundle=bundle)

    def begin(self) -> None:
        """Take the objective of the start."""
        w, intercept = self._start
        point = self._problem.point(w, intercept)
        self._offer(point, self._problem.risk(point))
        self._steps.begin(None if intercept is None else np.asarray(intercept))

    def step(self) -> None:
        """A pass over as many rows as there are, and a check if one is due."""
        share, enough = 0.0, max(1.0, _VISITS / self._problem.n_samples)
        while share < enough and not self._check_is_due():
            share += self._sweep()
        if self._check_is_due():
            self._check()

    def _prepare_confirmation(self, moving: bool) -> None:
        """Let the sweeps since the last check count, if the point may move."""
        if moving and self._checks.work > 0.0:
            self._prove_newest()

    def _sweep(self) -> float:
        """Visit the active rows; returns their share of all rows."""
        if self._inner == _INNER:
            self._steps.move_center()
            self._inner = 0
        steps, whole = self._steps, self._steps.is_whole
        sweep = steps.sweep()
        self._passes_so_far += sweep.share
        if whole:
            self._gap_of_all_rows = sweep.gap
        if sweep.gap <= _SETTLED * self._gap_of_all_rows:
            steps.activate_all()
        if self._inner >= 0:
            self._inner += 1
            at_center = steps.follow() if self._inner == _INNER else 0.0
            self._checks.note(sweep.gap + at_center, self._dual, sweep.share)
            return sweep.share
        self._dual += sweep.gained
        self._checks.note(sweep.gap, self._dual, sweep.share)
        if whole:
            self._gaps.append((self._passes_so_far, sweep.gap))
        if self._is_slow():
            self._add_proximal_term()
        elif not self._averaging and self.estimate <= _NEAR * self._checks.target:
            self._averaging = True
            steps.start_mean()
        return sweep.share

    def _is_slow(self) -> bool:
        """Whether many passes remain at the rate of the last sweeps over all rows.

        False if moves of a center, which read all of W, would cost more than the sweeps.
        """
        resting = self._passes_so_far < self._next_try or len(self._gaps) < _RECENT
        if resting or not self._steps.is_long:
            return False
        to_fall = math.log(max(self.estimate / max(self._checks.target, TINY), 1.0))
        return to_fall > _MANY * self._rate

    @property
    def _rate(self) -> float:
        """Mean fall of the logarithm of the gap per pass over all rows, of the recent ones."""
        first, last = self._gaps[0], self._gaps[-1]
        fallen = math.log(max(first[1], TINY) / max(last[1], TINY))
        return max(fallen, 0.0) / (last[0] - first[0])

    def _add_proximal_term(self) -> None:
        """Add a proximal term with a moving center."""
        self._before_proximal = self._passes_so_far, self.estimate, self._rate
        self._steps.add_proximal_term(_KAPPA * self._lambda)
        self._inner, self._averaging = 0, False

    def _is_faster(self) -> bool:
        """Whether the gap falls faster than without a proximal term, as far as known."""
        assert self._before_proximal is not None  # there is a proximal term
        taken, gap, rate = self._before_proximal
        passes = self._passes_so_far - taken
        fallen = math.log(max(gap, TINY) / max(self._checks.at_check, TINY))
        return passes < _TRIED or fallen > _ACCELERATED * rate * passes

    def _check_is_due(self) -> bool:
        """Whether a check is due, which costs two passes."""
        return not 0 <= self._inner < _INNER and self._checks.is_due

    def _check(self) -> None:
        """Plane, bound and objective from alpha and the data, where the next sweep begins."""
        alpha, scaled_weights, bound, objective = self._prove_newest()
        self._made(objective, bound, calibrates=self._averaging or self._inner >= 0)
        self._averaging = False
        if self._inner >= 0 and (self._idling.enough or not self._is_faster()):
            self._steps.remove_proximal_term()
            self._checks.forget()
            self._inner, self._idling = -1, Idling(IDLE)
            self._next_try, self._pause = self._passes_so_far + self._pause, 2.0 * self._pause
            self._gaps.clear()
        self._steps.restart(alpha, scaled_weights)
        self._steps.activate_all()

    def _prove_newest(self) -> tuple[Array, Array, float, float]:
        """The newest dual point with its ``reg_lambda W``, its bound and the objective at W."""
        steps = self._steps
        alpha = steps.newest()
        gradient, offset, scaled_weights = steps.plane(alpha)
        dual_certificate = DualCertificate(self._lambda, (gradient, offset))
        bound = offset - float(gradient @ gradient) / (2.0 * self._lambda)
        self.best.raise_bound(bound, dual_certificate)
        intercept = steps.intercepts if self._problem.n_free else None
        drawn = steps.proximal_mean
        point = self._problem.point(
            scaled_weights / self._lambda if drawn is None else drawn, intercept
        )
        objective = self._objective(point.w, self._problem.risk(point))
        self.best.offer(objective, point)
        return alpha, scaled_weights, bound, objective
