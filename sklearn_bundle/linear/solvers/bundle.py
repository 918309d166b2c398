"""BMRM: bundle methods for regularized risk minimization (Teo et al., JMLR 11, 2010).

Planes below the risk make a model; the minimum of the regularized model is a bound, and its
minimizer shows where the next plane is cut: there (Algorithm 2, "cutting-plane"), or on the line
from the best point to it (Algorithm 3, "line-search").
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.limits import IDLE_LIMIT, LAST_PLACE, REFRESHED
from sklearn_bundle.linear.certificate import Proof, bound_of, is_l1
from sklearn_bundle.linear.losses import Softmax
from sklearn_bundle.linear.risk import Plane, Point
from sklearn_bundle.linear.solvers import master
from sklearn_bundle.linear.solvers.base import At, Solver, Start, Task, lowest

Array = NDArray[np.float64]
#: Why bounds from planes may cross, and what a user can do.
ADVICE = "the loss is not convex, or its gradient is not the derivative of its value; check both"
_PATIENCE = 4 * IDLE_LIMIT  # if w_t is not unique, or the bound is that of plane 0 for long
_LARGEST_RISK = 1e100  # squares of larger values may overflow
_RETREAT = 10 * (0.5,) + 20 * (0.1,)  # shares of the way from the best point; then the plane there


class Planes:
    """Planes ``R(w, b) >= <a_i, w> + <e_i, b> + c_i`` with the last weights alpha of the model.

    An anchored set holds the plane 0, below every nonnegative risk.
    """

    def __init__(self, dimension: int, omega: Any, n_free: int, n_outputs: int = 1):
        self.size, self.omega, self.n_free = 0, omega, n_free
        self.anchored = n_free > 0 or not omega.is_quadratic
        self._A, self._E = np.empty((8, dimension)), np.empty((8, n_free))
        self._c, self._alpha = np.empty(8), np.zeros(8)
        self._sizes = np.empty((8, n_outputs + 2))  # norms, total, terms
        self._gram = np.empty((8, 8)) if omega.is_quadratic else None
        self.near: tuple[float, float] | None = None  # reg_lambda, and the weight of NearL1
        if self.anchored:
            self.add(Plane(np.zeros(dimension), 0.0, np.zeros(n_free), np.zeros(1), 0.0, 0.0))

    @property
    def alpha(self) -> Array:
        return self._alpha[: self.size]

    def highest(self, w: Array) -> float:
        """The value of the model at w, without intercepts."""
        return float(np.max(self._A[: self.size] @ w + self._c[: self.size]))

    def add(self, plane: Plane) -> None:
        """Append a plane, with its products with all if these suffice for the model."""
        t = self.size
        if t == len(self._c):
            self._reserve()
        self._A[t], self._c[t], self._E[t] = plane.gradient, plane.offset, plane.balance
        self._sizes[t, :-2], self._sizes[t, -2:] = plane.norms, plane[4:]
        self._alpha[t] = float(t == 0)
        self.size = t + 1
        if self._gram is not None:
            products = self._A[: t + 1] @ self.omega.conjugate_gradient(self._A[t])
            self._gram[t, : t + 1] = self._gram[: t + 1, t] = products

    def solve(self, reg_lambda: float, tol: float, best: At, primal: float, step: float) -> Any:
        """The minimizer of the model, and the aggregate plane with its bound."""
        t, omega = self.size, self.omega
        A, c, E = self._A[:t], self._c[:t], self._E[:t]
        if not is_l1(omega):
            gram = None if self._gram is None else self._gram[:t, :t]
            model = master.Model(A, c, omega, reg_lambda, gram)
        else:
            limits = np.broadcast_to(reg_lambda * omega.lasso_form.thresholds, A.shape[1])
            if self.near is None or self.near[0] != reg_lambda:
                self.near = reg_lambda, master.first_weight(A[-1], limits, primal)
            near = master.NearL1(limits, self.near[1], best.w, omega.nonnegative)
            model = master.Model(A, c, near, 1.0, None)
        found = master.solve(model, E, self.alpha, tol)
        self._alpha[:t] = found.alpha
        plane = self._aggregate(found.alpha)
        bound = bound_of(plane, omega, reg_lambda, found.b)
        if is_l1(omega) and self.near is not None:
            weight = master.next_weight(self.near[1], step, primal, plane.offset, bound)
            self.near = reg_lambda, weight
            if omega.unpenalized is not None:  # a bound needs planes that are flat there
                flat = np.column_stack([E, A[:, limits == 0.0]])
                plane = self._aggregate(master.rebalanced(found.alpha, flat))
                bound = bound_of(plane, omega, reg_lambda, found.b)
        self._forget_lightest()
        return found, plane, bound

    def _forget_lightest(self) -> None:
        """Drop the planes with the least weights if there are many more than can have one.

        No more than one each coordinate has: the time of a solution grows with their number's cube.
        """
        first = int(self.anchored)
        most = 3 * sum(self._A.shape[1:] + self._E.shape[1:]) + 50
        while self.size - first > most:
            self._remove(first + int(np.argmin(self.alpha[first:])))

    def _aggregate(self, alpha: Array) -> Plane:
        t = self.size
        c, sizes = self._c[:t], alpha @ self._sizes[:t]
        total, terms = float(sizes[-2]), float(sizes[-1] + alpha @ np.abs(c))
        plane = alpha @ self._A[:t], float(alpha @ c), alpha @ self._E[:t]
        return Plane(*plane, sizes[:-2], total, terms)

    def _remove(self, drop: int) -> None:
        t = self.size
        arrays = [self._A, self._c, self._E, self._alpha, self._sizes]
        if self._gram is not None:
            arrays += [self._gram, self._gram.T]
        for array in arrays:
            array[drop : t - 1] = array[drop + 1 : t].copy()
        self.size = t - 1

    def _reserve(self) -> None:
        """Room for twice as many."""
        for name in ("_A", "_c", "_E", "_alpha", "_sizes"):
            old = getattr(self, name)
            setattr(self, name, np.concatenate([old, np.zeros_like(old)]))
        if self._gram is not None:
            self._gram = np.pad(self._gram, (0, self.size))


class Bundle(Solver):
    """Algorithms 2 and 3 of the paper."""

    advice = ADVICE
    starts_anywhere = True

    def __init__(self, task: Task, start: Start):
        super().__init__(task, start)
        self.name = "cutting-plane" if task.solver == "cutting-plane" else "line-search"
        kept = start.of(Planes)
        if kept is None:
            sizes = self.risk.n_free, self.risk.n_outputs or 1
            kept = Planes(self.risk.dimension, self.omega, *sizes)
        self.planes = kept
        self._length, self._end, self._n_steps = 1.0, None, 0
        self._highest = -np.inf  # value of the model's minimum
        self._slope = np.inf  # the largest of the first plane
        self.patience = _PATIENCE + 2 * self.risk.n_free if kept.anchored else IDLE_LIMIT

    @property
    def reusable(self) -> Planes:
        return self.planes

    def begin(self) -> None:
        """Cut a plane at the start."""
        self._here = self._at(*self.first())
        self._cut(self._here)

    def step(self) -> None:
        """One iteration of the algorithm."""
        gap, best = self.best.gap, self._here
        self._n_steps += 1
        if self._n_steps % REFRESHED == 0:  # scores that blends have updated
            self._here = best = self._at(best.w, best.b)
        if self.name == "cutting-plane":
            self._cut(self._at(*self._inner()))
        else:
            if self._end is not None:
                # The same w_t again: cut closer to it, where the plane is sure to cut it off.
                theta = min(1.0, 0.1 * 2.0 ** min(self.idle, _PATIENCE))
                self._cut(self._blend(best, self._end, theta))
            self._cut_balanced()
            self._end = self._at(*self._inner())
            self._search(self._here, self._end)
        self.count_idle(gap)

    def prepare_confirmation(self, moving: bool) -> None:
        """With L1, set features to 0 that the plane does not need, if the objective stays."""
        proof = self.best.dual_certificate
        if not (moving and is_l1(self.omega) and proof is not None):
            return
        plane, (w, b) = self.whole.proved(proof), self.best.point
        limits = self.reg_lambda * self.omega.lasso_form.thresholds
        for share in (0.999, 0.99, 0.9):  # a gap blurs the limit
            pruned = np.where(np.abs(plane.gradient) >= share * limits, w, 0.0)
            here = self._at(pruned, b)
            objective = self.objective(pruned, here.risk)
            if objective <= self.best.primal:
                self.best.primal, self.best.point = objective, At(pruned, here.b)
                return

    def _at(self, w: Array, b: Any) -> Point:
        return self.risk.at(w, b if self.risk.n_free or b is not None else None)

    def _inner(self) -> tuple[Array, Any]:
        """The minimizer of reg_lambda Omega + model; keeps the bound if it is the best."""
        best, gap = self.best, self.best.gap
        exact = not np.isfinite(gap) or self.idle > 0
        # 0.1 of the gap: more is wasted, but where nothing was gained
        tol = 1e-11 * max(abs(best.primal), np.finfo(float).tiny) if exact else 0.1 * gap
        given = self.reg_lambda, tol, best.point, best.primal, self._length
        found, plane, bound = self.planes.solve(*given)
        rising = bound > self._highest + LAST_PLACE * abs(best.primal)
        self._highest = max(self._highest, bound)
        self.prove(Proof(plane=plane), bound)
        if rising and self.idle:
            self.idle -= 1
        w = found.w
        if not (self.omega.is_quadratic or is_l1(self.omega)):
            # a w_t that is farther away is of no use
            farthest = 1e3 * (1.0 + np.abs(best.point.w).max(initial=0.0))
            w = np.clip(w, -farthest, farthest)
        return w, found.b if self.risk.n_free else self._here.b

    def _blend(self, start: Point, end: Point, t: float) -> Point:
        """The point at a step from start to end, whose scores are linear in it."""
        mixed = (start.w, end.w), (start.scores, end.scores), (start.b, end.b)
        return self.risk.arrive(*((1.0 - t) * x + t * y for x, y in mixed))

    def _offer(self, point: Point) -> None:
        if self.best.offer(self.objective(point.w, point.risk), At(point.w, point.b)):
            self._here = point

    def _cut(self, point: Point) -> None:
        """Add the plane at a point, or closer to the best point if it would be useless there."""
        for step in _RETREAT:
            if self.best.point is None or self._is_moderate(point):
                break
            point = self._blend(self._here, point, step)
        if not point.risk <= _LARGEST_RISK:
            raise ValueError(
                "The loss is not finite at the best point so far, or next to it: check the loss, "
                "and the scale of the features."
            )
        self._offer(point)
        plane = self.risk.plane(point)
        if np.isinf(self._slope):
            self._slope = float(np.abs(plane.gradient).max(initial=0.0))
        self.planes.add(plane)

    def _is_moderate(self, point: Point) -> bool:
        """Whether the plane there is not too steep to be useful: for Algorithm 2 by its slopes."""
        if not point.risk <= _LARGEST_RISK:
            return False
        # Ten times the best objective, or the slopes of the first plane; each iteration without
        # progress raises the limit as much.
        lift, primal = 10.0 ** (1 + min(self.idle, _PATIENCE)), self.best.primal
        if self.name == "line-search":
            return not 0.0 < primal < np.inf or point.risk <= lift * primal
        return float(np.abs(self.risk.gradient(point)).max(initial=0.0)) <= lift * self._slope

    def _cut_balanced(self) -> None:
        """Of softmax, add a plane at the best point that no intercept changes."""
        risk, here = self.risk, self._here
        if not (risk.n_free and isinstance(risk.loss, Softmax)):
            return
        plane = risk.balanced_plane(here)
        self.planes.add(plane._replace(balance=np.zeros(risk.n_free)))
        self.prove(Proof(plane=plane), bound_of(plane, self.omega, self.reg_lambda, here.b))

    def _search(self, start: Point, end: Point) -> None:
        """Offer the best point on the line from start through end."""
        self._length = self._best_step(start, end)
        if 0.0 < self._length < np.inf:
            self._offer(self._blend(start, end, self._length))

    def _best_step(self, start: Point, end: Point) -> float:
        """The t >= 0, beyond 1 too, that minimizes the objective from start towards end."""
        omega, lam, along = self.omega, self.reg_lambda, end.w - start.w
        line = self.risk.line(start, end)

        def objective(t: float) -> tuple[float, float]:
            w = start.w + t * along
            value = omega.value(w)
            if not np.isfinite(value):
                return np.inf, np.inf  # outside its domain
            risk, slope, _ = line(t)
            return lam * value + risk, slope + lam * omega.slope(w, along)[0]

        bend = lam * omega.strong_convexity * float(along @ along)
        # more precise ones gain fewer iterations than they cost
        return lowest(objective, bend, precision=1e-2, worth=0.05)
