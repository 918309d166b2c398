"""What rounding takes off the bounds of linear problems, against sums in extended precision."""

import numpy as np
import pytest

from sklearn_bundle.core.limits import REFRESHED
from sklearn_bundle.linear.problems.linear import LinearProblem
from sklearn_bundle.linear.problems.linear_rounding import (
    _NEAR_CLASSES,
    Certified,
    Sizes,
    _of_gradient,
    rounding,
)
from sklearn_bundle.linear.problems.row_block import RowBlock
from sklearn_bundle.linear.problems.row_blocks import RowBlocks, formulation
from sklearn_bundle.linear.rows.memory_rows import rows_in_memory
from sklearn_bundle.losses import (
    AbsoluteError,
    Hinge,
    LogLoss,
    Loss,
    MulticlassLoss,
    Softmax,
    SquaredError,
)
from sklearn_bundle.regularizers import L2, Quadratic
from tests.contract.fits import Here

LONG = np.longdouble


@pytest.mark.parametrize("omega", [L2(), Quadratic(np.eye(6))], ids=["closed form", "any"])
@pytest.mark.parametrize("n", [7, 300])
def test_error_of_the_gradient(n, omega):
    """The conjugate at the exact X'g is higher than at the computed one by at most this."""
    least = np.inf
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X, g = np.round(4.0 * rng.normal(size=(n, 6))) + 2.0**20, rng.normal(size=n) / n
        a, exact = rows_in_memory(X).gradient(g), X.T.astype(LONG) @ g.astype(LONG)
        omega, reg_lambda = omega.bind(6, 6), 1e-3
        rise = float((exact @ exact - a.astype(LONG) @ a.astype(LONG)) / (2 * LONG(reg_lambda)))
        lengths = np.linalg.norm(g) * np.linalg.norm(X, axis=0)
        certified = Certified(a, 0.0, 1.0, (a, 0.0))
        conjugate = reg_lambda * omega.conjugate(-a / reg_lambda)
        taken = _of_gradient(float(n), lengths, certified, omega, reg_lambda, conjugate)
        assert rise <= taken
        least = min(least, taken / abs(rise))
    assert least < 1e3


def test_a_gradient_that_steps_have_updated():
    """It misses half a unit at each step, always in one direction; no sum over rows does."""
    ulp, reg_lambda, omega = 2.0**-53, 1e-3, L2()
    a, exact = np.array([0.5]), LONG(0.5)
    for _ in range(REFRESHED):
        a, exact = a + 1.49 * ulp, exact + LONG(1.49) * LONG(ulp)
    one, zero = np.ones(1), np.zeros(1)
    problem = LinearProblem(rows_in_memory(np.ones((1, 1))), one, one, Hinge(), False)
    certified = Certified(zero, 0.0, 1.0, (-a, float(exact)))
    taken = rounding(problem, problem.point(zero, 0.0), certified, omega, reg_lambda)
    rise = float((exact * exact - LONG(a[0]) * LONG(a[0])) / (2 * LONG(reg_lambda)))
    assert 0.0 < rise <= taken.of_bound < 10.0 * rise


@pytest.mark.parametrize("loss", [Hinge(), AbsoluteError(), SquaredError()], ids=repr)
def test_derivatives_of_dual_points_within_the_gap(loss: Loss):
    """Derivatives anywhere are covered by those nearby and the gap that they leave."""
    rng = np.random.default_rng(0)
    f, weights = rng.normal(size=40), np.full(40, 0.025)
    y = np.where(rng.random(40) < 0.5, 1.0, -1.0)
    f[:20] = y[:20]  # at kinks
    sizes = Sizes.of(np.ones(1), loss, y, weights, f)
    for size in 0.0, 1e-4, 1e-2, 1.0:
        there, g, at = f + size * rng.normal(size=40), np.empty(40), np.empty(40)
        value = loss.evaluate(there, y, weights, g)
        gap = loss.evaluate(f, y, weights, at) - value - g @ (f - there)
        assert np.abs(g).sum() <= sizes.with_gap(gap).totals[0] * (1.0 + 1e-12)


@pytest.mark.parametrize("size", [1.0, 1e6])
def test_derivatives_of_classes_within_the_gap(size):
    """One row of large scores does not make a distance of the others' at which they were not."""
    rng = np.random.default_rng(0)
    f, weights, y = 3.0 * rng.normal(size=(40, 3)), np.full(40, 0.025), np.arange(40) % 3
    f[np.arange(40), y] += 9.0
    f[0] *= size
    problem = LinearProblem(rows_in_memory(np.eye(40)), y, weights, Softmax(), False)
    at, g = np.empty_like(f), np.empty_like(f)
    value = problem.loss.evaluate(f, y, weights, at)
    for share in 1.0, 0.9, 0.5, 0.0:
        there = share * f
        there[0] = f[0]
        gap = value - problem.loss.evaluate(there, y, weights, g) - np.vdot(g, f - there)
        taken = problem.sizes(problem.point(f.T.ravel(), None)).with_gap(gap, _NEAR_CLASSES)
        assert np.abs(g).sum() <= 1.06 * taken.totals.sum()


@pytest.mark.parametrize("on_workers", [False, True])
def test_derivatives_within_the_gap_of_blocks_of_rows(on_workers):
    """Those of small scores are next to a block of large ones."""
    n = 2 * 16384
    f = np.where(np.arange(n) < n // 2, 5.0, 1e6)
    y, weights = np.ones(n), np.full(n, 1.0 / n)
    problem = LinearProblem(rows_in_memory(f[:, None]), y, weights, LogLoss(), False)
    if on_workers:
        halves = [RowBlock(f[half, None], y[half], weights[half]) for half in halves_of(n)]
        args = formulation(LogLoss(), n_outputs=None), (n, 1), n, 1.0, np.ones(1), False
        problem = RowBlocks(Here(halves), *args)
    there, g = np.minimum(f, 0.0) + (f > 5.0) * f, np.empty(n)
    value = problem.risk(problem.point(np.ones(1), 0.0))
    gap = value - problem.loss.evaluate(there, y, weights, g) - g @ (f - there)
    assert np.abs(g).sum() <= problem.sizes(problem.point(np.ones(1), 0.0)).with_gap(gap).totals[0]


def halves_of(n):
    return slice(n // 2), slice(n // 2, n)


class HingePerClass(MulticlassLoss):
    """A user's loss of classes that does not depend on differences of scores alone."""

    def _signs(self, scores, y):
        return np.where(np.arange(scores.shape[1]) == y[:, None], 1.0, -1.0)

    def value(self, scores, y):
        return np.maximum(0.0, 1.0 - self._signs(scores, y) * scores).sum(axis=1)

    def gradient(self, scores, y):
        signs = self._signs(scores, y)
        return np.where(signs * scores < 1.0, -signs, 0.0)


PLAIN = {
    "rows": np.random.default_rng(0).normal(size=(4000, 3)),  # some of them near a kink
    "one column": np.arange(9.0)[:, None] - 4.0,
    "constant column": np.stack([np.full(9, 3.0), np.arange(9.0)], axis=1),
    "columns of 1e8": 1e8 * np.random.default_rng(1).normal(size=(9, 2)),
    "one large row": np.diag([1e6, *np.ones(8)]),
    "two rows": np.array([[1.0, 2.0], [-3.0, 0.5]]),  # one in each block
}


@pytest.mark.parametrize("X", PLAIN.values(), ids=PLAIN)
@pytest.mark.parametrize("loss", [LogLoss(), Hinge(), HingePerClass(), Softmax()], ids=repr)
def test_sizes_on_workers_are_those_in_memory(loss: Loss, X):
    """Blocks differ in rows and in the size of their scores; the last class has one row."""
    (n, d), cut = X.shape, (len(X) + 2) // 4
    n_outputs = 3 if isinstance(loss, MulticlassLoss) else None
    y = np.arange(n) % 2 if n_outputs else np.where(np.arange(n) % 2, 1.0, -1.0)
    y[-1] = 2 if n_outputs else 1.0
    weights = np.arange(1.0, n + 1.0) / (n * (n + 1) / 2)
    blocks = [RowBlock(X[part], y[part], weights[part]) for part in (slice(cut), slice(cut, n))]
    args = formulation(loss, n_outputs=n_outputs), (n, d), X.size, 1.0, np.ones(d), False
    on_workers = RowBlocks(Here(blocks), *args)
    memory = LinearProblem(rows_in_memory(X), y, weights, loss, False)
    w = np.random.default_rng(2).normal(size=d * (n_outputs or 1))
    b = np.zeros(3) if n_outputs else 0.0
    here, there = memory.point(w, b), on_workers.point(w, b)
    expected = memory.sizes(here)
    for first in on_workers.cut, on_workers.risk:
        on_workers.risk(on_workers.point(np.zeros_like(w), b))
        rounds = on_workers.rounds
        first(there)
        assert on_workers.risk(there) == pytest.approx(memory.risk(here))
        taken = on_workers.sizes(there)
        assert on_workers.rounds == rounds + 2
        for name, ours, theirs in zip(taken._fields, taken, expected, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-12, err_msg=name)


def in_memory(X, y, weights):
    return LinearProblem(rows_in_memory(X), y, weights, Softmax(), True)


def in_blocks(X, y, weights):
    """A block per row, on workers."""
    blocks = [RowBlock(X[i : i + 1], y[i : i + 1], weights[i : i + 1]) for i in range(len(y))]
    args = formulation(Softmax(), n_outputs=int(y.max()) + 1), X.shape, X.size
    return RowBlocks(Here(blocks), *args, 1.0, np.ones(X.shape[1]), True)


@pytest.mark.parametrize("kind", [in_memory, in_blocks])
def test_probabilities_next_to_one(kind):
    """They leave an imbalance of up to half an ulp of 1, which costs that times the intercept."""
    X, y, slope = np.array([[3.0], [-3.0]]) + 2.0**20, np.array([0, 1]), np.array([10.0, -10.0])
    problem = kind(X, y, np.full(2, 0.5))
    intercept = -(2.0**20) * slope
    point = problem.point(slope, intercept)
    assert (problem.sizes(point).totals < 1e-20).all()
    certified = Certified(slope, intercept, 0.1, (-1e-3 * slope, 0.2))  # whose bound is .1 too
    taken = rounding(problem, point, certified, L2(), 1e-3)
    assert taken.of_objective >= 2.0**-53 * np.abs(intercept).sum()
