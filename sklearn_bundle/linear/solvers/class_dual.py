"""Dual coordinate ascent for the multiclass hinge with L2: a distribution over classes per row.

``W = sum_i s_i (e_{y_i} - alpha_i) x_i' / reg_lambda`` follows alpha, and the intercepts move with
the sums over the rows, which have to vanish. Where many passes remain, a proximal term around a
moving center accelerates.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sklearn_bundle.core.dual_methods import Checks, Idling, momentum
from sklearn_bundle.core.limits import TINY
from sklearn_bundle.jit.vector import WIDTH
from sklearn_bundle.linear._compiled import sweeps
from sklearn_bundle.linear.certificate import Proof
from sklearn_bundle.linear.risk import ClassRisk
from sklearn_bundle.linear.solvers.base import At, Followed, Solver, Start, Task
from sklearn_bundle.linear.solvers.bundle import ADVICE, Bundle
from sklearn_bundle.linear.solvers.dual import IDLE

Array = NDArray[np.float64]
_INNER = 3  # sweeps between moves of its center
_FEW = 1 << 8  # visits
# Visits of rows, and passes over them, after which next to nothing is gained, or twice as many with
# half of the gap left. 18 of 50 fits of small sets came to that. Planes then converged in 16, in a
# tenth to three quarters of the sweeps' time. Of letters and pendigits only those at 1e-7 did.
_TURN, _PASSES = 45 * (1 << 14), 270


@dataclass
class _Center:
    """Center Z of a proximal term ``kappa/2 ||W - Z||^2``, W at its last move, running means."""

    kappa: float
    Z: Array
    last: Array
    mean: Array
    b: Array


class ClassDual(Solver):
    """Sweeps over the rows, certified now and then."""

    name = "dual-coordinate"
    advice = ADVICE
    risk: ClassRisk

    def __init__(self, task: Task, start: Start):
        super().__init__(task, start)
        risk, (n, d), K = self.risk, self.risk.rows.shape, self.risk.n_outputs
        self._labels, self._own = risk.y, (np.arange(n), risk.y)
        self._size, k = K, -(-K // WIDTH) * WIDTH
        costs, self._squares = risk.loss.costs(K), risk.rows.row_squares()
        self._costs = np.pad(costs, ((0, 0), (0, k - K)), constant_values=sweeps.NEVER)
        # How far a step moves the intercepts, relative to its row's own scores: with larger values
        # rows disturb each other. At least a share of the largest cost, if weights can do little.
        least = 0.1 * float(costs.max())
        steep = 0.05 * float(risk.weights @ self._squares) / self.reg_lambda
        self._pull = max(steep, least) if risk.n_free else 0.0
        self._of_class = sp.csr_array((risk.weights, (self._labels, np.arange(n))), (K, n))
        self._padded = np.zeros((n, k))
        self._alpha = self._padded[:, :K]
        self._alpha[self._own] = 1.0
        known = isinstance(start.state, np.ndarray) and start.state.shape == (n, K)
        if known and start.reg_lambda == self.reg_lambda:  # that of another one gains nothing
            self._alpha[:] = start.state
        index = np.int32 if n < 2**31 else np.int64
        self._order, self._active = np.empty(n, dtype=index), np.arange(n, dtype=index)
        # of Marsaglia's xorshift; any number but 0 would do
        self._n_active, self._seed = n, np.array([88172645463325252], dtype=np.uint64)
        # from 48 entries on one dot product per class is faster
        self._by_class = risk.rows.stored().width >= 48
        self._listed = np.empty((n if self._by_class else 0, K + 1), dtype=np.int32)
        self._W = np.zeros(d * (K if self._by_class else k))
        self._padded_b, self._space = np.zeros(k), np.zeros((2, k))
        self._b, self._off = self._padded_b[:K], np.zeros(K)
        self._center: _Center | None = None
        self._numbers = np.empty((n, 2))
        self._set_curvatures()
        self._activate_all()
        self._dual = self._proved = 0.0
        # A check costs 2 passes, and its gap is at first .8 times that of the rows; it waits for .3
        # of all passes, since it activates all rows, which disturbs the sweeps.
        self._checks, self._idling = Checks(self.tol, 2.0, 0.8, 0.3), Idling(IDLE)
        self._gap_of_all = np.inf  # of the last whole sweep
        self._passes, self._visits = 0.0, 0  # so far
        self._inner = -1  # sweeps since the center moved; -1 without a center
        self._may_add_center, self._counted = True, 0.0

    @property
    def reusable(self) -> Any:
        """The dual point."""
        return self._alpha.copy()

    @property
    def is_at_end(self) -> bool:
        return self._idling.enough

    def begin(self) -> None:
        """Offer the start, and take up its dual point."""
        w, b = self.first()
        here = self.risk.at(w, b)
        self.best.offer(self.objective(w, here.risk), At(w, here.b))
        if (self._alpha[self._own] != 1.0).any():
            self._continue_from(self._alpha, -self._plane(self._alpha)[1])
        if self.risk.n_free and b is not None:
            self._b[:] = b

    def step(self) -> None:
        """Sweeps over as many rows as take a while, and a check if one is due."""
        visits = 0
        # few rows are visited many times, for 1 or 2 ms; a sweep takes as long as _FEW visits
        while visits < (1 << 14) and not self._check_is_due():
            visits += self._n_active + _FEW
            self._sweep()
        self._visits += visits
        if self._check_is_due():
            self._check()

    def prepare_confirmation(self, moving: bool) -> None:
        """Let the sweeps since the last check count, if the point may move."""
        if moving and self.has_begun and self._checks.work > 0.0:
            self._prove_newest()

    # ---- sweeps --------------------------------------------------------------------------------

    def _sweep(self) -> None:
        """Visit the active rows, and decide on the rows, the mean and the center of the next."""
        if self._inner == _INNER:
            self._move_center()
            self._inner = 0
        n, taken, before = len(self._order), self._n_active, self._b.copy()
        stored, rows = self.risk.rows.stored(), (self._numbers.ravel(), self._active, taken)
        duals = self._order, self._padded.ravel(), self._listed
        moving = self._W, self._padded_b, 1.0 / self._strength, self._pull, self._space, self._seed
        self._n_active, gap, gained = sweeps.sweep(
            stored, self._labels, self._costs, *rows, *duals, *moving
        )
        self._off += self._b - before
        self._b += self._off
        share, whole = taken / n, taken == n
        self._passes += share
        self._counted += 2.0 * share
        self.risk.rows.passes += int(self._counted)
        self._counted %= 1.0
        self._gap_of_all = gap if whole else self._gap_of_all
        # where half of the gap is settled, the next one visits all rows
        if gap <= 0.5 * self._gap_of_all:
            self._activate_all()
        if self._inner >= 0:
            self._inner += 1
            gap += self._follow_center() if self._inner == _INNER else 0.0
            self._checks.note(gap, self._dual, share)
            return
        self._dual += gained
        self._checks.note(gap, self._dual, share)
        # After so many passes others remain. Where rows read fewer entries than W has, a center
        # costs more than the sweeps.
        long = self.risk.rows.n_entries >= self.risk.rows.shape[1]
        if self._passes > 12.0 and long and self._may_add_center:
            self._add_center(10.0 * self.reg_lambda)

    def _activate_all(self) -> None:
        self._n_active = len(self._order)
        self._active[:] = np.arange(self._n_active)
        self._listed[:] = np.arange(self._size + 1)

    # ---- the proximal term ---------------------------------------------------------------------

    @property
    def _strength(self) -> float:
        return self.reg_lambda + (0.0 if self._center is None else self._center.kappa)

    def _set_curvatures(self) -> None:
        weights = self.risk.weights
        self._numbers[:, 0] = weights
        self._numbers[:, 1] = weights * (self._squares / self._strength + self._pull)

    def _add_center(self, kappa: float) -> None:
        W, self._inner = self._W, 0
        self._center = _Center(kappa, W.copy(), W.copy(), W.copy(), self._b.copy())
        W *= self.reg_lambda / self._strength
        W += kappa / self._strength * self._center.Z
        self._set_curvatures()
        self._activate_all()

    def _move_center(self) -> None:
        """Move Z to W and a step beyond."""
        center = self._center
        assert center is not None
        Z = self._W + momentum(self.reg_lambda, center.kappa) * (self._W - center.last)
        center.last[:] = self._W
        self._W += center.kappa / self._strength * (Z - center.Z)
        center.Z = Z

    def _follow_center(self) -> float:
        """Update the running means of W and intercepts; returns the center's part of the gap."""
        center = self._center
        assert center is not None
        center.mean += 0.5 * (self._W - center.mean)
        center.b += 0.5 * (self._b - center.b)
        away = self._W - center.Z
        return 0.5 * center.kappa**2 / self.reg_lambda * float(away @ away)

    # ---- checks --------------------------------------------------------------------------------

    def _check_is_due(self) -> bool:
        return not 0 <= self._inner < _INNER and (self._n_active == 0 or self._checks.is_due)

    def _check(self) -> None:
        """Certify the dual point, and continue from it."""
        alpha, a, bound, objective = self._prove_newest()
        self._checks.made(objective, bound, calibrates=self._inner >= 0)
        self._idling.note(self.best, bound - self._proved)
        self._dual = self._proved = bound
        if self._inner >= 0 and self._idling.enough:  # steps without a center may still gain
            self._center, self._inner, self._idling = None, -1, Idling(IDLE)
            self._set_curvatures()
            self._checks.forget()
            self._may_add_center = False
        self._continue_from(alpha, -a)
        self._activate_all()

    def _prove_newest(self) -> tuple[Array, Array, float, float]:
        """The newest dual point with its ``-reg_lambda W``, its bound and the objective at W."""
        alpha, b = self._alpha.copy(), self._b
        alpha /= alpha.sum(axis=1, keepdims=True)
        g, a = self._plane(alpha)
        balanced = g
        gradient = a
        if self.risk.n_free:
            M = balancing(self._of_class @ alpha)
            balanced = self._derivatives(alpha @ M)
            gradient = self.risk.rows.gradient(balanced).ravel()
        lam = self.reg_lambda
        bound = self.risk.offset(balanced) - float(gradient @ gradient) / (2.0 * lam)
        self.prove(Proof(derivatives=balanced), bound)
        w = a / -lam
        if self._center is not None:
            w, b = self._as_vector(self._center.mean), self._center.b
        point = At(w, b.copy() if self.risk.n_free else 0.0)
        objective = self.objective(w, self.risk.value(self.risk.scores(w), point.b))
        self.best.offer(objective, point)
        return alpha, a, bound, objective

    def _plane(self, alpha: Array) -> tuple[Array, Array]:
        """Derivatives of alpha and the gradient of their plane: a product with X'."""
        g = self._derivatives(alpha)
        return g, self.risk.rows.gradient(g).ravel()

    def _derivatives(self, alpha: Array) -> Array:
        """``s_i (alpha_i - e_{y_i})``, of shape (K, n)."""
        g = np.ascontiguousarray((self.risk.weights[:, None] * alpha).T)
        g[self._own[1], self._own[0]] -= self.risk.weights
        return g

    def _continue_from(self, alpha: Array, scaled: Array) -> None:
        """Continue from a dual point with its ``reg_lambda W`` and the current intercepts."""
        self._alpha[:] = alpha
        w = scaled.reshape(self._size, -1) / self._strength
        if self._by_class:
            self._W[:] = w.ravel()
        else:
            self._W.reshape(w.shape[1], -1)[:, : self._size] = w.T
        if self._center is not None:
            self._W += self._center.kappa / self._strength * self._center.Z
        confusions = self._of_class @ alpha
        self._off[:] = self._pull * (confusions.sum(axis=1) - confusions.sum(axis=0))

    def _as_vector(self, W: Array) -> Array:
        """W class after class."""
        if self._by_class:
            return W.copy()
        return W.reshape(-1, len(self._padded_b))[:, : self._size].T.flatten()


class ClassDualThenBundle(Followed, ClassDual):
    """Sweeps, which features far apart in scale can slow down without end, and then planes."""

    @property
    def successor(self) -> type[Solver]:
        return Bundle

    @property
    def has_had_its_turn(self) -> bool:
        turn, primal = max(_TURN, _PASSES * len(self._order)), max(self.best.primal, TINY)
        return min(self.best.gap / primal, 1.0) * self._visits > turn


def balancing(confusions: Array) -> Array:
    """M with rows on the simplex, such that the columns of ``confusions M`` have the rows' sums."""
    have, want = confusions.sum(axis=0), confusions.sum(axis=1)
    surplus, lack = np.maximum(have - want, 0.0), np.maximum(want - have, 0.0)
    moved = surplus / np.maximum(have, TINY)
    return np.diag(1.0 - moved) + np.outer(moved, lack / max(float(lack.sum()), TINY))
