"""Restricted simplicial decomposition with one simplex for all examples (Yu and Rousu, 2007)."""

from collections.abc import Iterator
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from sklearn_bundle.core.certificate import Best
from sklearn_bundle.core.contract import ABSENT, State
from sklearn_bundle.core.dual_methods import Idling
from sklearn_bundle.core.limits import TINY
from sklearn_bundle.linear.regularizers import L2
from sklearn_bundle.linear.solvers import master
from sklearn_bundle.structured.models.examples import Found
from sklearn_bundle.structured.problems.structured import StructuredProblem, not_exact

Array = NDArray[np.float64]

_POINTS = 50  # the paper's r: more cost memory, n_parameters numbers each, and seldom help
_MASTER_SHARE = 1e-3  # of the gap: the least gain of a further step on the master problem
_CONE_STEPS = 50  # quadratic models of a master problem with a cone: each gains
_INDEPENDENT = 1e-12  # of the largest eigenvalue: rays with a smaller one depend on others
_ROUNDING = 1e-14  # of the terms of the bound
_MISSED = 1e-8  # of the terms of a risk: rounding moves it by less
_IDLE = 100  # passes in a row that change nothing: then only rounding is left


class Points(NamedTuple):
    """Points of the reduced dual, one per row: z = (sum of beta, sum of gamma), with a cone's zeta.

    ``beta`` is ``sum_i s_i psi_i``, the negative of the paper's; ``gamma`` is the sum of losses;
    ``zeta`` has a column per example with the squared hinge, and none otherwise.
    """

    beta: Array
    gamma: Array
    zeta: Array

    def joined(self, other: "Points") -> "Points":
        """The points of both."""
        return Points(*(np.concatenate(parts) for parts in zip(self, other, strict=True)))

    def taken(self, rows: NDArray[np.intp]) -> "Points":
        """Some of the points."""
        return Points(*(part[rows] for part in self))

    def mixed(self, q: Array) -> "Points":
        """One point, their weighted sum."""
        return Points(*((q @ part)[None] for part in self))


class OneSimplexSolver:
    """RSD with one simplex: variant (i) of section 3.2, without coordinate ascent.

    Each iteration adds a point, the sum of the worst outputs of all examples. The simplex holds up
    to ``n_cached_outputs`` of them and the current point x (footnote 1): a further one replaces the
    one of least weight, and x is kept instead. With the squared hinge it is one cone, of rays (28)
    to (30), with a strict test in (30).

    Parameters
    ----------
    problem : StructuredProblem
    n_cached_outputs : int or None
        The paper's r; None is 50. With 1 this is the conditional gradient.
    kept : Points
        From a solver of the same problem, the current point first; reg_lambda may differ.
    """

    name = "rsd-one-simplex"
    history_fields: ClassVar[tuple] = (("oracle_calls", np.int64),)

    def __init__(
        self,
        problem: StructuredProblem,
        *,
        n_cached_outputs: int | None = None,
        kept: Points | None = None,
    ):
        self.problem = problem
        self._limit = _POINTS if n_cached_outputs is None else n_cached_outputs
        if kept is None:  # the origin is feasible
            n_zeta = problem.n_examples if problem.squared else 0
            kept = Points(np.zeros((1, problem.dimension)), np.zeros(1), np.zeros((1, n_zeta)))
        self._points = kept  # x^k first if there is one, S^x; then S^s
        self._q = np.eye(1, len(kept.gamma))[0]
        self._has_current = True
        self._best = Best(least=0.0)
        self._idling = Idling(_IDLE)
        self._w: Array | None = None  # where the oracle was last called
        self._error = 0.0  # bounds the rounding of the sum of features of any point

    @property
    def kept(self) -> Points:
        """Where a new solver may start."""
        return self._x.joined(self._points)

    @property
    def _x(self) -> Points:
        """The current point."""
        return self._points.mixed(self._q)

    def attach(self, problem: StructuredProblem) -> None:
        """Continue with the same problem in another object."""
        self.problem = problem

    def detach(self) -> None:
        """Release the problem."""
        self.problem = ABSENT

    def states(self) -> Iterator[State]:
        """One state per pass of the oracle."""
        while not self._idling.enough:
            found = self._check()
            yield self._state()
            self._add(self._direction(found))
            self._solve_master()

    def confirm(self, *, moving: bool = True) -> State:
        """Objective from a pass at the current point if it moved, bound from that point."""
        if moving and (self._w is None or not np.array_equal(self._model(), self._w)):
            self._check()
        self._best.raise_bound(self._bound())
        return self._state()

    def _check(self) -> list[tuple[int, Found]]:
        """Find the direction (9), with objective and bound at the current point."""
        problem, best = self.problem, self._best
        self._w = w = self._model()
        found = problem.find(w)
        risk = problem.risk(found)
        if problem.examples.exact and not problem.squared:
            terms = np.abs(self._points.gamma) + np.abs(self._points.beta) @ np.abs(w)
            excess = self._points.gamma - self._points.beta @ w - risk
            error = 2.0 * problem.objective_error(w, risk)  # of both sides
            if (excess > _MISSED * (terms + abs(risk)) + error).any():
                raise not_exact("for some examples")
        self._error = max(self._error, problem.of_plane(found))
        best.offer(0.5 * problem.reg_lambda * float(w @ w) + risk, w)
        best.raise_bound(self._bound())
        self._idling.note(best)
        return found

    def _direction(self, found: list[tuple[int, Found]]) -> Points:
        """The extreme point of what was found; with the squared hinge the ray (28) and (30)."""
        problem = self.problem
        beta, gamma = np.zeros(problem.dimension), 0.0
        current = self._x.zeta[0]
        zeta = np.zeros(len(current))
        for first, part in found:
            n = len(part.losses)
            factors = problem.weights[first : first + n]
            if problem.squared:
                ascends = part.scores > current[first : first + n]
                zeta[first : first + n] = ascends
                factors = factors * ascends
            repeated = np.repeat(factors, np.diff(part.starts))
            beta += np.bincount(part.indices, repeated * part.values, problem.dimension)
            gamma += float(factors @ part.losses)
        return Points(beta[None], np.array([gamma]), zeta[None])

    def _add(self, point: Points) -> None:
        """Add z to S^s; if that is full, it replaces the point of least weight, and S^x is {x}.

        Rays without weight are dropped first, which helps the master problem of a cone.
        """
        if self.problem.squared:
            used = np.flatnonzero(self._q)
            self._has_current = self._has_current and self._q[0] > 0.0
            self._points, self._q = self._points.taken(used), self._q[used]
        extreme = np.arange(int(self._has_current), len(self._q))
        if len(extreme) < self._limit:
            self._points, self._q = self._points.joined(point), np.append(self._q, 0.0)
            return
        kept = np.delete(extreme, np.argmin(self._q[extreme]))
        self._points = self._x.joined(self._points.taken(kept)).joined(point)
        self._q = np.eye(1, len(kept) + 2)[0]
        self._has_current = True

    def _solve_master(self) -> None:
        """Find nearly the best point of the simplex by quadratic models; without a cone by one.

        ``||[v + d]_+||^2`` is nowhere above ``||[v]_+||^2 + 2 <[v]_+, d> + ||d||^2``, so each model
        is below the dual and touches it.
        """
        problem, points = self.problem, self._points
        gram = points.beta @ points.beta.T / problem.reg_lambda
        gram += (points.zeta * problem.weights) @ points.zeta.T if problem.squared else 0.0
        enough = _MASTER_SHARE * max(self._best.gap, 0.0)
        value = self._bound()
        for _ in range(_CONE_STEPS if len(problem.cone) else 1):
            gradient = points.beta @ self._model() - points.gamma
            if problem.squared:
                gradient += (points.zeta * problem.weights) @ self._x.zeta[0]
            linear, before, last = gram @ self._q - gradient, self._q, value
            if problem.squared:
                self._q = _on_cone(gram, linear)
            else:
                self._q = _on_simplex(gram, linear, self._q, enough)
            value = self._bound()
            if value < last:  # by rounding
                self._q = before
            if value - last <= enough:
                return

    def _model(self) -> Array:
        """w of the current point, (10): negative entries of the cone are 0."""
        w = self._x.beta[0] / self.problem.reg_lambda
        cone = self.problem.cone
        w[cone] = np.maximum(w[cone], 0.0)
        return w

    def _bound(self) -> float:
        """The dual at the current point."""
        problem, x, w = self.problem, self._x, self._model()
        penalty = 0.5 * problem.reg_lambda * float(w @ w)
        if problem.squared:
            penalty += 0.5 * float(problem.weights @ x.zeta[0] ** 2)
        gamma = float(x.gamma[0])
        error = self._error * float(self._q.sum()) * float(w @ w) ** 0.5
        return gamma - penalty - error - _ROUNDING * (abs(gamma) + penalty)

    def _state(self) -> State:
        problem, best = self.problem, self._best
        state = best.state(best.point, None, problem.passes, None, (problem.oracle_calls,))
        return problem.with_errors(state)


def _on_simplex(gram: Array, linear: Array, q: Array, tolerance: float) -> Array:
    """The q on the unit simplex that minimizes ``q'gram q/2 - linear'q``."""
    values, vectors = np.linalg.eigh(gram)
    planes = vectors * np.sqrt(np.maximum(values, 0.0))
    none = np.empty((len(q), 0))
    # About what there is to gain: less than the tolerance where reg_lambda is small.
    gain = float(np.ptp(linear)) ** 2 / max(float(values[-1]), TINY)
    tolerance = min(tolerance, _MASTER_SHARE * gain)
    return master.solve(planes, linear, none, L2(), 1.0, gram, q, tolerance).alpha


def _on_cone(gram: Array, linear: Array) -> Array:
    """The q >= 0 that minimizes ``q'gram q/2 - linear'q``, as least squares."""
    scale = 1.0 / np.sqrt(np.maximum(gram.diagonal(), TINY))
    values, vectors = np.linalg.eigh(scale[:, None] * gram * scale)
    used = values > _INDEPENDENT * values[-1]
    roots = np.sqrt(values[used])
    target = vectors[:, used].T @ (scale * linear) / roots
    return scale * nnls((vectors[:, used] * roots).T, target)[0]
