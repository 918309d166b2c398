"""L1 and elastic net with squared errors at many values of reg_lambda, from products alone."""

from collections.abc import Iterator, Sequence
from time import perf_counter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.contract import SolverResult, State, at_once, bound_below
from sklearn_bundle.linear._compiled import lasso
from sklearn_bundle.linear.regularizers import Regularizer
from sklearn_bundle.linear.solvers._columns import ColumnModel
from sklearn_bundle.linear.solvers._working_set import EPOCHS, SHARPER, Kept, WorkingSet
from sklearn_bundle.linear.solvers.solver import Along, LinearStart, Task

Array = NDArray[np.float64]

# With more features than this, or a matrix that costs more products with X per value than this, the
# matrix of working sets is cheaper: a separate fit takes four products or more.
MOST_FEATURES, _PASSES_A_VALUE = 600, 2.0
_MULTIPLICATIONS = 2e5  # of epochs before Newton steps are tried: about 0.1 ms
# Of the allowed gap, times two: the part that the remaining violations may cause. And of its root:
# how much they may shrink the dual point.
_SHARE = 0.3
_ROUNDS = 4  # of descent for one value, after which it is left to a separate fit
WITHIN = 1.0 - 1e-15  # a plane scaled by this is feasible despite its rounding
_ROUNDED = 0.02  # of what tol allows, and of the objective: the largest accepted rounding
_MOST_ROUNDED = 1e-7
# Smallest root mean squares of columns and of y: squares of smaller numbers lose their digits.
_TINY = 1e-125
# Scores that are computed at a time for confirmation: 8 MB, or this part of a dense X.
_SCORES, _PART_OF_X = 1 << 20, 8
_OPERATIONS = 40  # roundings of a term, plus those of sums over the rows and twice the features


class Found(NamedTuple):
    """Weights with their intercept and certificate, and their cost."""

    w: Array
    intercept: float
    objective: float
    lower_bound: float
    n_rounds: int
    seconds: float = 0.0

    def is_within(self, tol: float) -> bool:
        """Whether the relative gap is at most ``tol``, and bounds do not cross."""
        return 0.0 <= self.objective - self.lower_bound <= tol * self.objective


class GramPath:
    """``reg_lambda Omega(w) + min_b sum_i s_i (y_i - x_i w - b)^2 / 2`` from ``X'SX`` and ``X'Sy``.

    With H, q and v the second moments of X with itself, of X with y and of y, about the weighted
    means if b is free, the risk is ``(v - 2 q'w + w'Hw) / 2``. The residuals of w, times
    ``theta s_i``, are a dual point; there ``c = q - Hw`` is X'g, and the bound is

        theta (v - q'w) - theta^2/2 (v - 2 q'w + w'Hw) - reg_lambda Omega*(theta c / reg_lambda)

    These are differences of numbers that may be far larger, so their rounding has to be bounded:
    the error of a sum of n products, in any order, is at most n eps times the product of the root
    mean squares t_j and t_k, by Cauchy and Schwarz. With ``S = t_y + sum_j t_j |w_j|`` and
    ``eps' = (n + 4 d + 40) eps`` that is at most ``eps' t_j S`` for c_j and ``eps' S^2 / 2`` for
    the risk. All of it is subtracted from the bound, so that it is true. If this is not small
    compared with what ``tol`` allows, objective and bound are computed from the data, for many
    values in one product with X and one with X'.

    Parameters
    ----------
    model : ColumnModel
        Must be ``is_quadratic``.
    omega : Regularizer
        Must have a ``lasso_form``.

    Attributes
    ----------
    working_set : WorkingSet
        All features with their matrix, for fits that continue from here.
    """

    def __init__(self, model: ColumnModel, omega: Regularizer):
        rows, weights = model.rows, model.weights
        n, d = rows.shape
        self._model, self._omega = model, omega
        form = omega.lasso_form
        assert form is not None
        self._thresholds, self._ridge = form
        self._mean, self._mean_y = np.zeros(d), 0.0
        if model.free:
            self._mean, self._mean_y = rows.gradient(weights), float(weights @ model.y)
        y = model.y - self._mean_y
        if model.free:
            y -= weights @ y  # the rest of a rounded mean is multiplied by the features' means
        self._q, self._v = rows.gradient(weights * y), float((weights * y) @ y)
        self.working_set = WorkingSet(np.arange(d), None)
        self.working_set.begin(model, weights)
        self._H = np.ascontiguousarray(self.working_set.matrix)
        self._eps = (n + 4 * d + _OPERATIONS) * float(np.finfo(np.float64).eps)
        # Moments about zero, so that the rounding of the means is included.
        sizes = np.sqrt(np.maximum(self._H.diagonal(), 0.0) + self._mean**2)
        self._sizes = np.maximum(sizes, _TINY)
        self._size_y = max(float(np.sqrt(self._v + self._mean_y**2)), _TINY)

    @property
    def is_finite(self) -> bool:
        """Whether no product has overflowed."""
        return bool(np.isfinite(self._size_y + self._sizes.sum() + self._H.sum()))

    @staticmethod
    def is_faster(model: ColumnModel, n_values: int) -> bool:
        """Whether the products cost less than as many fits, one after the other."""
        n, d = model.rows.shape
        few = d <= MOST_FEATURES and d < n
        return model.is_quadratic and few and model.rows.gram_passes <= _PASSES_A_VALUE * n_values

    def solve(
        self, reg_lambdas: Array, tol: float, max_iter: int, max_time: float | None
    ) -> list[Found | None]:
        """A result per value, in descending order; None if it is left to a separate fit.

        Limits are per value; all values after one that took too long are also left.
        """
        found: list[Found | None] = [None] * len(reg_lambdas)
        unconfirmed: list[tuple[int, Found]] = []
        w, most = np.zeros(len(self._q)), min(_ROUNDED * tol, _MOST_ROUNDED)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            for k, reg_lambda in enumerate(reg_lambdas):
                start = perf_counter()
                reached, rounded = self._descend(w, float(reg_lambda), tol, max_iter)
                seconds = perf_counter() - start
                reached = reached._replace(seconds=seconds)
                if not np.isfinite(reached.objective):
                    break
                w = reached.w
                if rounded <= most * reached.objective:
                    found[k] = reached if reached.is_within(tol) else None
                else:
                    unconfirmed.append((k, reached))
                if max_time is not None and seconds >= max_time:
                    break
            for (k, _), checked in zip(
                unconfirmed, self._confirmed(unconfirmed, reg_lambdas), strict=True
            ):
                found[k] = checked if checked.is_within(tol) else None
        return found

    def _descend(
        self, w: Array, reg_lambda: float, tol: float, max_iter: int
    ) -> tuple[Found, float]:
        """Improve w until it proves enough; returns it and what rounding takes off the bound."""
        d, limits = len(w), self._limits(reg_lambda)
        ridge, least = reg_lambda * self._ridge, float(limits.min())
        epochs = max(EPOCHS, int(_MULTIPLICATIONS / (d * d)))
        flat, slopes = self._H.reshape(-1), self._H @ w - self._q
        objective, precision, n_rounds = self._value(w, slopes, reg_lambda), np.inf, 0
        while n_rounds < min(_ROUNDS, max_iter):
            # With violations of v the gap is at most 2 v ||w||_1 + (v / limit)^2 times the risk.
            total = float(np.abs(w).sum())
            allowed = _SHARE * tol * objective / total if total > 0.0 else np.inf
            precision = min(allowed, _SHARE * np.sqrt(tol) * least, precision)
            w, n_rounds = w.copy(), n_rounds + 1
            worst, _ = lasso.matrix_epochs(flat, slopes, w, limits, ridge, epochs, 0.5 * precision)
            if worst > precision:
                w = self.working_set.minimize(slopes, w, limits, ridge, 0.5 * precision)
            slopes = self._H @ w - self._q
            objective = self._value(w, slopes, reg_lambda)
            bound, rounded = self._prove(w, slopes, limits, reg_lambda)
            if objective - (bound + rounded) <= (1.0 - _ROUNDED) * tol * objective:
                break
            precision *= SHARPER
        b = self._mean_y - float(self._mean @ w)
        return Found(w, b, objective, max(bound, 0.0), n_rounds), rounded

    def _confirmed(
        self, unconfirmed: list[tuple[int, Found]], reg_lambdas: Array
    ) -> Iterator[Found]:
        """Compute objective and bound of these weights from the data, several at a time."""
        model, (n, d) = self._model, self._model.rows.shape
        weights, centered = model.weights, model.y - self._mean_y
        width = max(_SCORES // n, d // _PART_OF_X, 1)
        for first in range(0, len(unconfirmed), width):
            part = unconfirmed[first : first + width]
            r = model.y - model.rows.class_scores(np.array([found.w for _, found in part]))
            b = r @ weights if model.free else np.zeros(len(part))
            r -= b[:, None]
            rest = r @ weights if model.free else b  # finer than floats of b's size
            r -= rest[:, None]
            g = r * weights
            squares, along = np.einsum("kn,kn->k", r, g), g @ centered
            c = np.abs(model.rows.class_gradient(g))
            for i, (k, found) in enumerate(part):
                value = float(reg_lambdas[k])
                risk = 0.5 * float(squares[i] + rest[i] ** 2)
                objective = value * self._omega.value(found.w) + risk
                bound = self._bound(along[i], squares[i], c[i], self._limits(value), value)
                least = max(bound_below(bound, objective), 0.0)
                yield found._replace(intercept=float(b[i]), objective=objective, lower_bound=least)

    def _limits(self, reg_lambda: float) -> Array:
        limits = np.empty(len(self._q))
        limits[:] = reg_lambda * self._thresholds
        return limits

    def _value(self, w: Array, slopes: Array, reg_lambda: float) -> float:
        """The objective, with ``slopes = Hw - q``."""
        risk = 0.5 * (self._v + float(w @ (slopes - self._q)))
        return reg_lambda * self._omega.value(w) + max(risk, 0.0)

    def _prove(
        self, w: Array, slopes: Array, limits: Array, reg_lambda: float
    ) -> tuple[float, float]:
        """The best bound of multiples of the residuals, and what rounding took off it."""
        size = self._size_y + float(self._sizes @ np.abs(w))
        c = np.abs(slopes) + self._eps * size * self._sizes
        along = self._v - float(self._q @ w)
        square = max(self._v + float(w @ (slopes - self._q)), 0.0)
        rounded = 2.0 * self._eps * size * size
        return self._bound(along, square, c, limits, reg_lambda) - rounded, rounded

    def _bound(
        self, along: float, square: float, c: Array, limits: Array, reg_lambda: float
    ) -> float:
        """The best bound of multiples of residuals r, from their products with y, r and X."""
        reach = float((c / limits).max(initial=0.0))
        share = 1.0 if reach <= WITHIN else WITHIN / reach
        bounds = []
        for theta in {share, 1.0} if self._ridge > 0.0 else {share}:
            value = theta * along - 0.5 * theta * theta * square
            bounds.append(value - reg_lambda * self._omega.conjugate(theta * c / reg_lambda))
        return float(max(bounds))


def solve_path(
    task: Task,
    name: str,
    fields: tuple,
    reg_lambdas: Sequence[float],
    max_iter: int,
    max_time: float | None,
) -> Along | None:
    """Results of all values that can be certified; None if products are out of range.

    ``name`` and ``fields`` are those of the solver, for the histories.
    """
    problem = task.problem
    with np.errstate(over="ignore", invalid="ignore"):
        path = GramPath(ColumnModel(problem), task.omega)
    if not path.is_finite:
        return None
    values = np.asarray(reg_lambdas, dtype=np.float64)

    def result(found: Found | None) -> SolverResult | None:
        if found is None:
            return None
        state = State(
            found.objective,
            found.lower_bound,
            found.w,
            found.intercept,
            problem.passes,
            further=(name,),
        )
        return at_once(state, found.n_rounds, found.seconds, fields)

    solved = path.solve(values, task.tol, max_iter, max_time)
    results = [result(found) for found in solved]
    return Along(results, LinearStart(state=Kept(path.working_set)))
