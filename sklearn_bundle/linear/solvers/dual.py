"""Dual coordinate ascent for L2 and one score per row, certified now and then.

``w = X'(y alpha) / reg_lambda`` follows alpha, one number per row. The intercept moves with the sum
of y alpha, which has to vanish. An estimate of the gap comes from the steps; when it says that tol
is reached, or now and then, plane, bound and objective are computed from alpha and the data.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.dual_methods import Checks, Idling
from sklearn_bundle.linear._compiled import dual
from sklearn_bundle.linear.certificate import Proof
from sklearn_bundle.linear.losses import BinaryLoss
from sklearn_bundle.linear.score_risk import ScoreRisk
from sklearn_bundle.linear.solvers.base import NOT_FINITE, At, Followed, Solver, Start, Task
from sklearn_bundle.linear.solvers.bundle import ADVICE, Bundle
from sklearn_bundle.linear.solvers.interior import scale_heavier_down
from sklearn_bundle.linear.solvers.kinks import Kinks, passes_of_all

Array = NDArray[np.float64]
IDLE = 4  # checks in a row without progress, after which only rounding is left
_COST = 2.0  # of a check, in passes


class Dual(Solver):
    """Epochs over the rows that are not settled at a bound, in random order."""

    name = "dual-coordinate"
    advice = ADVICE
    risk: ScoreRisk

    def __init__(self, task: Task, start: Start):
        super().__init__(task, start)
        risk, (n, d) = self.risk, self.risk.rows.shape
        labels = isinstance(risk.loss, BinaryLoss)
        self._formula, self._direction = risk.form.formula, risk.y if labels else np.ones(n)
        with np.errstate(over="ignore"):  # then steps have length 0
            squares = risk.rows.row_squares() / self.reg_lambda
        # How far a step moves the intercept, relative to its row's own score. Below 0.03 it
        # overshoots on some sets; with 1 all rows disturb each other: 2 to 5 times the epochs.
        self._pull = 0.1 * float(risk.weights @ squares) if risk.free else 0.0
        self._numbers = np.zeros((n, dual.STRIDE))
        for place, column in enumerate((risk.y, risk.weights, squares + self._pull)):
            self._numbers[:, place] = column
        self._alpha = self._numbers[:, dual.ALPHA]
        if isinstance(start.state, np.ndarray) and len(start.state) == n:
            ends = risk.loss.end_slopes(risk.y)
            bounds = np.sort([-self._direction * risk.weights * end for end in ends], axis=0)
            self._alpha[:] = np.clip(start.state, *bounds)
        index = np.int32 if n < 2**31 else np.int64
        self._active, self._order = np.arange(n, dtype=index), np.empty(n, dtype=index)
        self._n_active, self._limits = n, (np.inf, np.inf)
        # of Marsaglia's xorshift; any number but 0 would do
        self._seed = np.array([88172645463325252], dtype=np.uint64)
        self._w, self._b, self._off = np.zeros(d), 0.0, 0.0
        self._dual = self._proved = 0.0  # about the dual's value, now and at the last check
        # the gap at a check over that of the rows when visited is 1 at first
        self._checks, self._idling = Checks(self.tol, _COST, 1.0), Idling(IDLE)
        self.spent = self._passed = 0.0  # passes, and the part of these that is not counted yet

    @property
    def reusable(self) -> Any:
        """The dual point."""
        return self._alpha.copy()

    @property
    def is_at_end(self) -> bool:
        return self._idling.enough

    def begin(self) -> None:
        """Offer the start, and scale the dual point of another reg_lambda to its best multiple."""
        w, b = self.first()
        here = self.risk.at(w, self.risk.units.intercept if b is None else b)
        if not self.best.offer(self.objective(w, here.risk), At(w, here.b)):
            raise ValueError(NOT_FINITE)
        self._b = float(here.b)
        if self._alpha.any():
            self._rescale()
            self._check()

    def step(self) -> None:
        """Epochs over as many rows as take a while, and a check if one is due."""
        n_rows = 0
        # 1 or 2 ms, so that checks cost little beside it
        while n_rows < (1 << 14) and not self._check_is_due():
            n_rows += self._n_active
            self._epoch()
        if self._check_is_due():
            self._check()

    def prepare_confirmation(self, moving: bool) -> None:
        """Let the epochs since the last check count, if the point may move."""
        if moving and self.has_begun and self._checks.work > 0.0:
            self._prove_alpha()

    def _epoch(self) -> None:
        """Visit the active rows; one reading of a row is two passes."""
        share = self._n_active / len(self._alpha)
        rows = self._numbers.ravel(), self._active, self._n_active, self._order
        moving = self._w, 1.0 / self.reg_lambda, self._limits, self._b, self._pull, self._seed
        self._n_active, largest, smallest, gap, gained, b = dual.epoch(
            self._formula, self.risk.rows.stored(), *rows, *moving
        )
        # beyond 0.2 times the largest of the last epoch a row is left out
        self._limits = tuple(0.2 * x if x > 0.0 else np.inf for x in (largest, smallest))
        self._off += b - self._b
        self._b = b + self._off
        self.spent += 2.0 * share
        self._passed += 2.0 * share
        whole = int(self._passed)
        self.risk.rows.passes += whole
        self._passed -= whole
        self._dual += gained
        self._checks.note(gap, self._dual, share)

    def _check_is_due(self) -> bool:
        return self._n_active == 0 or self._checks.is_due

    def _check(self) -> None:
        """Certify the dual point, and continue from its w with the best intercept."""
        w, b, bound, objective = self._prove_alpha()
        self._checks.made(objective, bound)
        self._idling.note(self.best, bound - self._proved)
        self._dual = self._proved = bound
        self._w[:], self._b, self._off = w, b, 0.0
        self._n_active = len(self._alpha)
        self._active[:] = np.arange(self._n_active)

    def _prove_alpha(self) -> tuple[Array, float, float, float]:
        """The bound of alpha, and the point that belongs to it: two products."""
        self.spent += _COST
        risk, lam = self.risk, self.reg_lambda
        g = self._derivatives()
        a = risk.rows.gradient(g)
        bound = risk.offset(g) - float(a @ a) / (2.0 * lam)
        self.prove(Proof(derivatives=g), bound)
        w = a / -lam
        scores = risk.scores(w)
        b = risk.best_intercept(scores, self._b) if risk.free else 0.0
        objective = self.objective(w, risk.value(scores, b))
        self.best.offer(objective, At(w, b))
        return w, b, bound, objective

    def _derivatives(self) -> Array:
        """Those of alpha, after a small change so that they sum to zero with an intercept."""
        g = -self._direction * self._alpha
        if self.risk.free:
            scale_heavier_down(g)
            self._alpha[:] = -self._direction * g
        return g

    def _rescale(self) -> None:
        """The best multiple up to 1: of a dual that is linear but for its quadratic term."""
        g = self._derivatives()
        a = self.risk.rows.gradient(g)
        slope = max(self.risk.offset(g), 0.0)
        # in place of the square of a w of zeros
        self._alpha *= min(self.reg_lambda * slope / max(float(a @ a), 1e-300), 1.0)


class DualThenKinks(Followed, Dual):
    """Epochs for as long as Newton's method would take in whole, and then Newton's method.

    With too many features for a Hessian the bundle method follows, once epochs gain no more.
    """

    def __init__(self, task: Task, start: Start):
        super().__init__(task, start)
        self._budget = passes_of_all(self.risk, self.tol)

    @property
    def has_had_its_turn(self) -> bool:
        return self.spent > self._budget

    @property
    def successor(self) -> type[Solver] | None:
        if np.isfinite(self._budget):
            return Kinks
        return Bundle if self.task.lift is None else None  # planes of other rows prove nothing of X
