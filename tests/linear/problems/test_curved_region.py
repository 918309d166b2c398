"""Regions from second derivatives, and from rows at kinks: they hold optima in long double."""

import numpy as np
import pytest
import scipy.sparse as sp

from sklearn_bundle.linear.losses import (
    AbsoluteError,
    Exponential,
    Hinge,
    Huber,
    LogLoss,
    Poisson,
    Quantile,
    SquaredHinge,
)
from sklearn_bundle.linear.losses.scores import scale_heavier_down
from sklearn_bundle.linear.problems.curved_region import curved_region
from sklearn_bundle.linear.problems.kink_rows import AtKinks, interior_point
from sklearn_bundle.linear.problems.kinked_region import kinked_region
from sklearn_bundle.linear.problems.linear import LinearProblem
from sklearn_bundle.linear.rows.memory_rows import rows_in_memory

LONG = np.longdouble
SHAPES = "plain", "single", "sparse", "one row", "one column", "constant", "large", "one weight"


def as_long(*arrays):
    return [np.asarray(a, dtype=LONG) for a in arrays]


def solved(A, b):
    """By Gauss' method with pivots, in long double."""
    A, b = A.astype(LONG).copy(), b.astype(LONG).copy()
    for k in range(len(b)):
        p = k + int(np.argmax(np.abs(A[k:, k])))
        A[[k, p]], b[[k, p]] = A[[p, k]], b[[p, k]]
        rows = np.arange(k + 1, len(b))
        share = A[rows, k] / A[k, k]
        A[rows] -= share[:, None] * A[k]
        b[rows] -= share * b[k]
    for k in reversed(range(len(b))):
        b[k] = (b[k] - A[k, k + 1 :] @ b[k + 1 :]) / A[k, k]
    return b


def derivatives(loss, f, y):
    """First and second derivatives, written out again."""
    if isinstance(loss, LogLoss):
        p = 1 / (1 + np.exp(y * f))
        return -y * p, p * (1 - p)
    if isinstance(loss, Exponential):
        return -y * np.exp(-y * f), np.exp(-y * f)
    if isinstance(loss, SquaredHinge):
        left = np.maximum(1 - y * f, 0)
        return -y * left, (left > 0).astype(LONG)
    if isinstance(loss, Huber):
        return np.clip(f - y, -loss.delta, loss.delta), (np.abs(f - y) <= loss.delta).astype(LONG)
    return np.exp(f) - y, np.exp(f)


def smooth_optimum(loss, X, y, weights, reg_lambda, free):
    """By Newton's method with steps that shorten the gradient; None if they end before it is 0."""
    X, y, s = as_long(X, y, weights)
    Z = np.column_stack([X, np.ones(len(y), LONG)]) if free else X
    ridge = np.full(Z.shape[1], LONG(reg_lambda))
    ridge[X.shape[1] :] = 0
    v = np.zeros(Z.shape[1], LONG)

    def gradient(v):
        first, second = derivatives(loss, Z @ v, y)
        return Z.T @ (s * first) + ridge * v, s * second

    g, curved = gradient(v)
    for _ in range(300):
        for more in (0.0, 1e-9, 1e-6, 1e-3, 1.0):  # where too few rows have curvature
            H = (Z.T * curved) @ Z + np.diag(ridge + LONG(more + 1e-15 * (not more)))
            step, t = solved(H, -g), LONG(1)
            while t > 1e-4 and not np.linalg.norm(gradient(v + t * step)[0]) < np.linalg.norm(g):
                t /= 2
            if t > 1e-4:
                break
        else:
            break
        v = v + t * step
        g, curved = gradient(v)
    if not np.linalg.norm(g) < 1e-16 * (1 + np.linalg.norm(Z)):
        return None
    return (v[:-1], v[-1]) if free else (v, LONG(0))


def kinked_optimum(loss, X, y, weights, reg_lambda, free):
    """From an interior-point method in doubles: its rows at kinks, and their equations in long.

    None unless the solution meets the conditions of optimality, which only an optimum does.
    """
    X, y, s = as_long(X, y, weights)
    Z = np.column_stack([X, np.ones(len(y), LONG)]) if free else X
    p, ridge = Z.shape[1], np.full(Z.shape[1], LONG(reg_lambda))
    ridge[X.shape[1] :] = 0
    low, high = (s * end for end in as_long(*loss.end_slopes(y.astype(float))))
    given = (np.asarray(a, float) for a in (Z, y, low, high, np.zeros(p), ridge, np.zeros(p)))
    v, g = interior_point(*given)
    r, margin = np.abs(np.asarray(Z, float) @ v - y.astype(float)), (high - low).astype(float)
    inside = np.minimum(high.astype(float) - g, g - low.astype(float)) > 1e-6 * margin
    at = np.flatnonzero(inside & (r < 1e-4))
    if len(at) == 0 or np.linalg.matrix_rank(np.asarray(Z[at], float)) < len(at):
        return None
    g = np.where(np.asarray(Z @ v - y > 0), high, low)
    g[at] = 0
    A = np.zeros((p + len(at), p + len(at)), LONG)
    A[:p, :p], A[:p, p:], A[p:, :p] = np.diag(ridge), Z[at].T, Z[at]
    found = solved(A, np.concatenate([-(Z.T @ g), y[at]]))
    v, r = found[:p], Z @ found[:p] - y
    g[at] = found[p:]
    others = np.setdiff1d(np.arange(len(y)), at)
    right = np.where(r[others] > 0, high[others], low[others]) == g[others]
    if not (right.all() and (low[at] <= g[at]).all() and (g[at] <= high[at]).all()):
        return None
    return (v[:-1], v[-1]) if free else (v, LONG(0))


def case(loss, shape, seed, free):
    rng = np.random.default_rng(seed)
    n, d = {"one row": (1, 3), "one column": (40, 1)}.get(shape, (40, 4))
    X = rng.normal(size=(n, d)) + 1.0
    if shape == "constant":
        X[:, 1] = 2.0
    elif shape == "large":
        X[:, 2] *= 1e8
    weights = rng.random(n) + 0.1
    if shape == "one weight":
        weights[1:] = 1e-12
    weights /= weights.sum()
    f = X[:, 0] + rng.normal(size=n)
    y = np.where(f > 1.0, 1.0, -1.0)
    if isinstance(loss, Poisson):
        y = rng.poisson(np.exp(np.clip(f, -1.0, 1.0))).astype(float) + (n == 1)
    elif isinstance(loss, Huber | AbsoluteError | Quantile):
        y = f
    layout = {"single": np.float32, "sparse": sp.csr_array}.get(shape, np.asarray)
    given = layout(X)
    exact = given.toarray() if sp.issparse(given) else np.asarray(given, float)
    problem = LinearProblem(rows_in_memory(given), y, weights, loss, free)
    return problem, exact, y, weights, rng


def faults(region, optimum, X, rng):
    """Scores of rows and of other points that are outside."""
    W, b = optimum
    points = np.concatenate([X, X[rng.integers(0, len(X), 20)] * rng.normal(size=(20, 1))])
    low, high = region.intervals(points, np.einsum("ij,ij->i", points, points))
    scores = points.astype(LONG) @ W + b
    return (scores < low) | (scores > high), high - low


SMOOTH = LogLoss(), SquaredHinge(), Huber(0.5), Poisson(), Exponential()
KINKED = Hinge(), AbsoluteError(), Quantile(0.8)


@pytest.mark.parametrize("free", [True, False])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("loss", SMOOTH, ids=str)
def test_second_derivatives_hold_the_optimum(loss, shape, free):
    known = 0
    for seed, reg_lambda in enumerate([1.0, 1e-2, 1e-4]):
        problem, X, y, weights, rng = case(loss, shape, seed, free)
        one_class = isinstance(loss, LogLoss | Exponential) and len(set(y)) == 1
        if (free and one_class) or (shape == "large" and reg_lambda < 1.0):
            continue  # no best intercept, or none that Newton's plain method finds
        optimum = smooth_optimum(loss, X, y, weights, reg_lambda, free)
        if optimum is None:
            continue
        W, b = optimum
        scores = (X.astype(LONG) @ W + b).astype(float)
        for off in (0.3, 1e-2, 1e-4, 1e-8, 0.0):
            w = W.astype(float) + off * rng.normal(size=len(W)) * (1e-8 if shape == "large" else 1)
            at = w, (float(b) + off * rng.normal()) * free
            moved = np.abs(X @ w + at[1] - scores).max() + 1e-9
            region = curved_region(problem, reg_lambda, at, (scores - moved, scores + moved))
            if region is not None:
                wrong, width = faults(region, (W, b), X, rng)
                assert not wrong.any()
                known += np.median(width) < 100.0 * off + 1e-12
    assert known or shape in ("one row", "large", "one weight")


@pytest.mark.parametrize("free", [True, False])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("loss", KINKED, ids=str)
def test_rows_at_kinks_hold_the_optimum(loss, shape, free):
    known = 0
    for seed, reg_lambda in enumerate([1.0, 0.1, 1e-2, 1e-3, 1e-4]):
        problem, X, y, weights, rng = case(loss, shape, seed, free)
        optimum = kinked_optimum(loss, X, y, weights, reg_lambda, free)
        if optimum is None:
            continue
        for off in (1e-2, 1e-6):
            w = optimum[0].astype(float) * (1.0 + off * rng.normal(size=X.shape[1]))
            at = w, float(optimum[1]) + off * free
            region = kinked_region(problem, reg_lambda, at)
            if region is not None:
                assert region.radius > 2.0**-53 * abs(problem.risk(problem.point(*at)))
                wrong, width = faults(region, optimum, X, rng)
                assert not wrong.any()
                known += np.median(width) < 1e-4
    assert known or shape in ("one row", "large", "one weight", "constant")


@pytest.mark.parametrize("free", [True, False])
@pytest.mark.parametrize("loss", [Hinge(), Quantile(0.8)], ids=str)
def test_crude_points_at_kinks_hold_the_optimum(loss, free, monkeypatch):
    """Any point with any derivatives that sum to zero has a region, which some nearly attain."""
    largest = 0.0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        n, d = rng.integers(2, 8), rng.integers(1, 3)
        X, weights, reg_lambda = (
            rng.normal(size=(n, d)),
            np.full(n, 1.0 / n),
            10.0 ** rng.uniform(-2, 0),
        )
        y = np.where(rng.random(n) < 0.5, 1.0, -1.0) if isinstance(loss, Hinge) else X @ np.ones(d)
        problem = LinearProblem(rows_in_memory(X), y, weights, loss, free)
        optimum = kinked_optimum(loss, X, y, weights, reg_lambda, free)
        if optimum is None:
            continue
        low, high = (weights * end for end in loss.end_slopes(y))
        given = np.column_stack([X, np.ones(n)]) if free else X
        zero, ridge = np.zeros(given.shape[1]), np.full(given.shape[1], reg_lambda)
        ridge[d:] = 0.0
        _, g = interior_point(given, y, low, high, zero, ridge, zero)
        off = 10.0 ** rng.uniform(-4, 0)
        g = np.clip(g + off * (high - low) * rng.normal(size=n), low, high)
        if free:
            scale_heavier_down(g, g > 0.0)
        w = optimum[0].astype(float) + off * rng.normal(size=d)
        b = float(optimum[1]) + off * rng.normal() * free
        found = AtKinks(w, b, g, (X.T @ g, float(-g @ y)))
        monkeypatch.setattr(f"{kinked_region.__module__}.solved_at_kinks", lambda *_, at=found: at)
        region = kinked_region(problem, reg_lambda, (w, b))
        if region is not None:
            change = np.append(optimum[0], optimum[1]) - np.append(region.weights, region.intercept)
            factor = np.linalg.inv(region.inverse)
            apart = np.linalg.norm(factor.T @ change[: len(factor)].astype(float))
            assert apart <= region.radius
            largest = max(largest, apart / region.radius)
    assert largest > 0.4  # where the point is as far from the middle on the other side


def test_other_losses_have_none():
    problem, *_ = case(Hinge(), "plain", 0, True)
    ends = np.zeros(40), np.zeros(40)
    assert curved_region(problem, 1.0, (np.zeros(4), 0.0), ends) is None
    problem, *_ = case(LogLoss(), "plain", 0, True)
    assert kinked_region(problem, 1.0, (np.zeros(4), 0.0)) is None
