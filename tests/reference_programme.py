"""Optima of regularized risks by interior points (clarabel) and the simplex method (HiGHS).

A risk is a convex function of affine scores. Here are the risks, each with its value in extended
precision, a bound on the rounding of the scores, and its constraints in a cone program;
``reference_regularizers`` has the same for the regularizers. Neither uses code of the package.
"""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linprog

from tests.reference_cones import by_clarabel, exponential, halflines, zeros

LONG = np.longdouble
EPS = float(np.finfo(np.float64).eps)
LONG_EPS = float(np.finfo(LONG).eps)
SINGLE = float(np.finfo(np.float32).eps)


@dataclass
class Optimum:
    """``value`` is attained, at ``point``; the optimum is at most ``error`` below.

    Where it is proved how far the optimum's w and the best b for this w may be, these are numbers.
    """

    value: np.longdouble
    error: float
    point: object = None
    apart: float | None = None
    shift: float | None = None
    intercepts: tuple | None = None  # between which a best b is, once that was looked for

    @property
    def least(self):
        return self.value - self.error


class Programme:
    """min linear'x + x' bend x / 2 over x with "side + sum of matrix x in a cone" for each row."""

    def __init__(self):
        self.linear, self.bend, self.constraints, self.units = [], [], [], []

    def variables(self, n, linear=0.0, bend=0.0):
        """The numbers of n more variables, with their terms in the objective."""
        first = sum(map(len, self.linear))
        self.linear.append(np.broadcast_to(np.asarray(linear, float), n))
        bend = sp.diags(np.broadcast_to(bend, n)) if np.ndim(bend) < 2 else sp.csc_matrix(bend)
        self.bend.append(bend)
        self.units.append(np.ones(n))
        return first + np.arange(n)

    def measure(self, variables, units):
        """What a variable is counted in; the solvers take it for one."""
        self.units = [np.concatenate(self.units)]
        self.units[0][variables] = units

    def require(self, cones, side, *terms):
        """``terms`` are (variables, matrix)."""
        self.constraints.append((cones, np.asarray(side, float), terms))

    def solve(self, size=1.0):
        """A point that minimizes, to the solver's accuracy in objectives of about ``size``."""
        units = np.concatenate(self.units)
        linear = np.concatenate(self.linear) * units / size
        rows = []
        for _, side, terms in self.constraints:
            block = sp.csc_matrix((len(side), len(linear)))
            for variables, matrix in terms:
                place = (units[variables], (np.arange(len(variables)), variables))
                place = sp.csr_matrix(place, shape=(len(variables), len(linear)))
                block = block + sp.csr_matrix(matrix) @ place
            rows.append(block)
        A, side = sp.vstack(rows), np.concatenate([side for _, side, _ in self.constraints])
        cones = [cone for kinds, _, _ in self.constraints for cone in kinds]
        bend = sp.diags(units) @ sp.block_diag(self.bend) @ sp.diags(units) / size
        if abs(bend).sum() == 0.0 and {type(cone).__name__ for cone in cones} == {_HALFLINE}:
            limits = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
            found = linprog(linear, A_ub=-A, b_ub=side, bounds=(None, None), options=limits).x
            if found is not None:
                return units * found
        return units * by_clarabel(bend, linear, -A, side, cones, tol=1e-12)


_HALFLINE = "NonnegativeConeT"


def into_triples(n, k):
    """Puts n numbers into the k-th places of n triples."""
    return sp.kron(sp.identity(n), np.eye(3)[:, [k]])


def on(matrix, terms):
    """The affine scores ``terms`` under a matrix."""
    return [(variables, matrix @ sp.csr_matrix(part)) for variables, part in terms]


def solved(A, side):
    """x with ``A x = side``."""
    return factored(A)(side)


def factored(A):
    """A function that solves for any side, by the factors of Cholesky in extended precision."""
    n, L = len(A), A.copy()
    for k in range(n):
        L[k:, k] /= np.sqrt(L[k, k])
        L[k + 1 :, k + 1 :] -= np.outer(L[k + 1 :, k], L[k + 1 :, k])

    def solve(side):
        x = side.copy()
        for k in range(n):
            x[k] = (x[k] - L[k, :k] @ x[:k]) / L[k, k]
        for k in reversed(range(n)):
            x[k] = (x[k] - L[k + 1 :, k] @ x[k + 1 :]) / L[k, k]
        return x

    return solve


# ---- risks of the scores f, a vector ----------------------------------------------------------


class Pieces:
    """``sum_q share_q max over the rows of q of (rows f + offsets)``: all that is polyhedral."""

    def __init__(self, shares, owner, rows, offsets):
        self.shares, self.owner = np.asarray(shares), np.asarray(owner)
        self.rows, self.offsets = sp.csr_matrix(rows), np.asarray(offsets)

    def _highest(self, values):
        highest = np.full(len(self.shares), -np.inf, LONG)
        np.maximum.at(highest, self.owner, values)
        return highest

    def value(self, f):
        return np.sum(self.shares * self._highest(self.rows @ f + self.offsets))

    def moved(self, f, change):
        """The most by which the value can change if each score does by at most ``change``."""
        return np.sum(self.shares * self._highest(abs(self.rows) @ change))

    def require(self, programme, scores):
        shares = np.asarray(self.shares, float)
        xi = programme.variables(len(shares), shares)
        own = sp.identity(len(shares), format="csr")[self.owner]
        programme.require(
            halflines(len(self.owner)), -self.offsets, (xi, own), *on(-self.rows, scores)
        )


class Tail:
    """Minus the mean of the scores in the lowest share nu of the weight."""

    def __init__(self, weights, nu):
        self.weights, self.nu = np.asarray(weights), nu

    def value(self, f):
        order = np.argsort(f)
        above = np.cumsum(self.weights[order]) - self.weights[order]
        taken = np.clip(LONG(self.nu) - above, 0, self.weights[order])
        return -np.sum(taken * f[order]) / LONG(self.nu)

    def moved(self, f, change):
        """A mean of scores."""
        return np.max(change)

    def require(self, programme, scores):
        n = len(self.weights)
        rho = programme.variables(1, -1.0)
        xi = programme.variables(n, np.asarray(self.weights, float) / self.nu)
        one, ones = sp.identity(n), sp.csr_matrix(np.ones((n, 1)))
        programme.require(halflines(n), np.zeros(n), (xi, one), (rho, -ones), *on(one, scores))
        programme.require(halflines(n), np.zeros(n), (xi, one))


class EachSample:
    """``sum_i s_i l(f_i)``; a subclass has the loss, convex in f.

    Its ``derivatives``, first and second, are asked for in decimals.
    """

    def __init__(self, weights, y):
        self.weights, self.y = weights, y

    def value(self, f):
        return self._total(self.loss(f))

    def moved(self, f, change):
        here = self.loss(f)
        with np.errstate(over="ignore"):
            ends = [np.abs(self.loss(f + sign * change) - here) for sign in (1, -1)]
        return self._total(np.maximum(*ends))

    def _total(self, losses):
        """Rows without weight may have a loss of infinity."""
        return np.sum((self.weights * losses)[self.weights > 0])


class SquaredHinge(EachSample):
    def loss(self, f):
        return np.maximum(0, 1 - self.y * f) ** 2 / 2

    def derivatives(self, f):
        left = np.maximum(0, 1 - self.y * f)
        return -self.y * left, left > 0

    def require(self, programme, scores):
        xi = programme.variables(len(self.y), bend=np.asarray(self.weights, float))
        margins = on(sp.diags(np.asarray(self.y, float)), scores)
        eye = sp.identity(len(self.y))
        programme.require(halflines(len(self.y)), -np.ones(len(self.y)), (xi, eye), *margins)


class Logistic(EachSample):
    def loss(self, f):
        return np.logaddexp(0, -self.y * f)

    def derivatives(self, f):
        p = 1 / (1 + np.exp(self.y * f))
        return -self.y * p, p * (1 - p)

    def require(self, programme, scores):
        """exp(-xi) <= u, exp(-y f - xi) <= v, u + v <= 1."""
        n = len(self.y)
        xi = programme.variables(n, np.asarray(self.weights, float))
        u, v = programme.variables(n), programme.variables(n)
        side, down = np.tile([0.0, 1.0, 0.0], n), -into_triples(n, 0)
        programme.require(exponential(n), side, (xi, down), (u, into_triples(n, 2)))
        margins = on(down @ sp.diags(np.asarray(self.y, float)), scores)
        programme.require(exponential(n), side, (xi, down), (v, into_triples(n, 2)), *margins)
        eye = sp.identity(n)
        programme.require(halflines(n), np.ones(n), (u, -eye), (v, -eye))


class LogCosh(EachSample):
    """``log cosh(f - y)``, which is the logistic loss of 2 (f - y) and a line."""

    def loss(self, f):
        size = np.abs(f - self.y)
        return size + np.log1p(np.exp(-2 * size)) - np.log(LONG(2))

    def derivatives(self, f):
        e = np.exp(-2 * np.abs(f - self.y))
        t = (1 - e) / (1 + e) * np.where(f > self.y, 1, -1)
        return t, 1 - t * t

    def require(self, programme, scores):
        """log(e^r + e^-r) <= xi: two exponentials whose sum is at most 1, less log 2."""
        n, y = len(self.y), np.asarray(self.y, float)
        xi = programme.variables(n, np.asarray(self.weights, float))
        u, v, eye = programme.variables(n), programme.variables(n), sp.identity(n)
        for sign, part in ((1.0, u), (-1.0, v)):
            side = np.tile([0.0, 1.0, 0.0], n) - sign * into_triples(n, 0) @ y
            terms = (xi, -into_triples(n, 0)), (part, into_triples(n, 2))
            residuals = on(sign * into_triples(n, 0), scores)
            programme.require(exponential(n), side, *terms, *residuals)
        programme.require(halflines(n), np.ones(n), (u, -eye), (v, -eye))


class Poisson(EachSample):
    """Half the deviance, ``exp(f) - y f + y log y - y``, without its cancellation."""

    def loss(self, f):
        y = self.y
        u = f - np.log(np.where(y > 0, y, 1))
        return np.where(y > 0, y * (np.expm1(u) - u), np.exp(f))

    def derivatives(self, f):
        e = np.exp(f)
        return e - self.y, e

    def require(self, programme, scores):
        n, weights = len(self.y), np.asarray(self.weights, float)
        t, f = programme.variables(n, weights), programme.variables(n, -weights * self.y)
        _equal(programme, f, scores)
        side = np.tile([0.0, 1.0, 0.0], n)
        programme.require(exponential(n), side, (t, into_triples(n, 2)), (f, into_triples(n, 0)))


class Huber(EachSample):
    def __init__(self, weights, y, delta):
        super().__init__(weights, y)
        self.delta = delta

    def loss(self, f):
        r = np.abs(f - self.y)
        return np.where(r <= self.delta, r * r / 2, self.delta * (r - LONG(self.delta) / 2))

    def derivatives(self, f):
        r = f - self.y
        first = np.maximum(np.minimum(r, self.delta), -self.delta)
        return first, np.abs(r) <= self.delta

    def require(self, programme, scores):
        """f - y = u + v, |v_i| <= t_i, sum_i s_i (u_i^2/2 + delta t_i)."""
        n, weights = len(self.y), np.asarray(self.weights, float)
        u, v = programme.variables(n, bend=weights), programme.variables(n)
        t, eye = programme.variables(n, self.delta * weights), sp.identity(n)
        _equal(programme, u, [*scores, (v, -eye)], self.y)
        for sign in (1.0, -1.0):
            programme.require(halflines(n), np.zeros(n), (t, eye), (v, sign * eye))


class SquaredTube(EachSample):
    """``sum_i s_i max(0, |f_i - y_i| - epsilon)^2 / 2``."""

    def __init__(self, weights, y, epsilon):
        super().__init__(weights, y)
        self.epsilon = epsilon

    def loss(self, f):
        return np.maximum(np.abs(f - self.y) - LONG(self.epsilon), 0) ** 2 / 2

    def derivatives(self, f):
        over, under = (np.maximum(r - self.epsilon, 0) for r in (f - self.y, self.y - f))
        return over - under, over + under > 0

    def require(self, programme, scores):
        """|f - y| <= epsilon + xi, sum_i s_i xi_i^2 / 2."""
        n, y = len(self.y), np.asarray(self.y, float)
        xi, eye = programme.variables(n, bend=np.asarray(self.weights, float)), sp.identity(n)
        for sign in (1.0, -1.0):
            side = self.epsilon - sign * y
            programme.require(halflines(n), side, (xi, eye), *on(sign * eye, scores))


class Squared(EachSample):
    """``sum_i s_i r_i' M r_i / 2`` for residuals r = f - y of one or several outputs."""

    def __init__(self, weights, y, M=None):
        super().__init__(weights, np.reshape(y, (len(y), -1)))
        self.M = np.eye(self.y.shape[1]) if M is None else np.asarray(M, float)

    def loss(self, f):
        r = f.reshape(self.y.shape) - self.y
        return np.sum((r @ self.M.astype(LONG)) * r, axis=1) / 2

    def moved(self, f, change):
        r, change = np.abs(f.reshape(self.y.shape) - self.y), change.reshape(self.y.shape)
        return np.sum(self.weights[:, None] * ((2 * r + change) @ np.abs(self.M)) * change) / 2

    def derivatives(self, f):
        """Of a single output."""
        return self.M[0, 0] * (f - self.y[:, 0]), self.M[0, 0]

    def require(self, programme, scores):
        bend = sp.kron(sp.diags(np.asarray(self.weights, float)), self.M)
        r = programme.variables(self.y.size, bend=bend)
        _equal(programme, r, scores, np.ravel(self.y))


def _equal(programme, variables, scores, shift=0.0):
    """variables = scores - shift."""
    n = len(variables)
    programme.require(zeros(n), np.full(n, -shift), (variables, -sp.identity(n)), *scores)


class Softmax:
    """``sum_i s_i (log sum_k exp f_ik - f_iy)``, the classes of a sample after each other."""

    def __init__(self, weights, labels, n_classes):
        self.weights, self.labels, self.K = weights, labels, n_classes

    def value(self, f):
        f = f.reshape(-1, self.K)
        f = f - f[np.arange(len(f)), self.labels][:, None]
        top = f.max(axis=1, keepdims=True)
        return np.sum(self.weights * (np.log(np.exp(f - top).sum(axis=1)) + top[:, 0]))

    def moved(self, f, change):
        return np.sum(self.weights * 2 * change.reshape(-1, self.K).max(axis=1))

    def require(self, programme, scores):
        """exp(f_k - f_y - xi) <= u_k, sum_k u_k <= 1."""
        n, K = len(self.labels), self.K
        xi = programme.variables(n, np.asarray(self.weights, float))
        u = programme.variables(n * K)
        owner = sp.kron(sp.identity(n), np.ones((K, 1)))
        true = sp.csr_matrix((np.ones(n), (np.arange(n), np.arange(n) * K + self.labels)))
        true.resize(n, n * K)
        relative = on(into_triples(n * K, 0) @ (sp.identity(n * K) - owner @ true), scores)
        terms = (xi, -into_triples(n * K, 0) @ owner), (u, into_triples(n * K, 2))
        programme.require(exponential(n * K), np.tile([0.0, 1.0, 0.0], n * K), *terms, *relative)
        programme.require(halflines(n), np.ones(n), (u, -owner.T))
