"""The region of the optimum's scores: attained in the worst case, with its rounding."""

from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp

from sklearn_bundle.core.optimum import Ball
from sklearn_bundle.linear.losses import AbsoluteError, Hinge, LogLoss, NuNovelty, Poisson, Softmax
from sklearn_bundle.linear.problems.linear import LinearProblem
from sklearn_bundle.linear.problems.score_region import ScoreRegion, score_region
from sklearn_bundle.linear.rows.memory_rows import rows_in_memory


def problem_of(loss, y, X=None, weights=None, intercept=True, n=200, d=3):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d)) + 2.0 if X is None else X
    weights = np.full(X.shape[0], 1.0 / X.shape[0]) if weights is None else weights
    return LinearProblem(rows_in_memory(X), y, weights, loss, intercept), X


def targets(loss, n=200):
    rng = np.random.default_rng(1)
    if isinstance(loss, Hinge | LogLoss):
        return np.where(rng.random(n) < 0.4, 1.0, -1.0)
    return rng.poisson(2.0, n).astype(float)


LOSSES = Hinge(), LogLoss(), AbsoluteError(), Poisson()


def single(X):
    return X.astype(np.float32)


@pytest.mark.parametrize("layout", [np.asarray, single, sp.csr_matrix])
@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_the_best_intercept_of_the_worst_scores_in_the_ball(loss, layout):
    """Each row's score may be as large as the ball allows: the interval holds both ends."""
    y, radius = targets(loss), 0.05
    _, X = problem_of(loss, y)
    problem, _ = problem_of(
        loss, y, layout(X) if layout is not np.float32 else X.astype(np.float32)
    )
    X = np.asarray(problem.rows.dense(np.arange(len(y))))
    w = np.array([0.3, -0.2, 0.1])
    b = float(loss.intercept(X @ w, y, problem.weights, np.empty((4, len(y)))))
    region = score_region(problem, Ball(w, radius), b)
    reach, scratch = radius * np.linalg.norm(X - region.center, axis=1), np.empty((4, len(y)))
    middle = (X - region.center) @ w
    ends = [
        float(loss.intercept(scores, y, problem.weights, scratch))
        for scores in (middle + reach, middle - reach)
    ]
    assert region.low[0] <= ends[0] <= ends[1] <= region.high[0]
    assert region.high[0] - region.low[0] <= 6.0 * reach.max() + 2.0 * (ends[1] - ends[0])


def test_bounds_are_attained_in_the_direction_of_x():
    region = ScoreRegion(np.array([[1.0, 2.0]]), 0.5, np.zeros(2), np.zeros(1), np.zeros(1))
    x = np.array([[3.0, 4.0]])
    low, high = region.intervals(x)
    assert low[0, 0] == pytest.approx(11.0 - 2.5, rel=1e-14) and low[0, 0] <= 11.0 - 2.5
    assert high[0, 0] == pytest.approx(11.0 + 2.5, rel=1e-14) and high[0, 0] >= 11.0 + 2.5
    maps = np.array([[1.0], [-1.0]])
    low, high = region.intervals(x, maps)
    assert low[0] == pytest.approx([8.5, -13.5]) and high[0] == pytest.approx([13.5, -8.5])


@pytest.mark.parametrize("scale", [1.0, 1e8])
def test_rounding_of_scores_is_in_the_bounds(scale):
    rng = np.random.default_rng(0)
    X, w, center = scale * rng.normal(size=(200, 7)), rng.normal(size=7), scale * rng.normal(size=7)
    region = ScoreRegion(w[None], 0.0, center, np.zeros(1), np.zeros(1))
    low, high = region.intervals(X)
    for i, x in enumerate(X):
        true = sum(
            Fraction(a) * (Fraction(b) - Fraction(c)) for a, b, c in zip(w, x, center, strict=True)
        )
        assert Fraction(low[i, 0]) <= true <= Fraction(high[i, 0])
    assert (high - low).max() <= 1e-12 * scale * 100


def test_single_outputs_without_an_intercept_need_no_rows():
    problem, _ = problem_of(Hinge(), targets(Hinge()), intercept=False)
    region = score_region(problem, Ball(np.ones(3), 0.1), 0.0)
    assert problem.passes == 0 and not region.center.any()
    assert region.low == region.high == 0.0


def softmax_problem(n=300, n_classes=3):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(n, 2))
    W = rng.normal(size=(n_classes, 2))
    y = (X @ W.T + rng.gumbel(size=(n, n_classes))).argmax(axis=1).astype(np.int64)
    return problem_of(Softmax(), y, X)[0], X, W, y


def best_intercepts(scores, y, n_classes):
    """By Newton's method, of mean 0."""
    b, shares = np.zeros(n_classes), np.bincount(y, minlength=n_classes) / len(y)
    for _ in range(100):
        p = np.exp(scores + b - (scores + b).max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        b = (
            b
            - np.linalg.lstsq(np.diag(p.mean(axis=0)) - p.T @ p / len(y), p.mean(axis=0) - shares)[
                0
            ]
        )
    return b - b.mean()


@pytest.mark.parametrize("radius", [1e-3, 0.1])
def test_intercepts_of_classes_for_the_worst_scores(radius):
    problem, X, W, y = softmax_problem()
    b = best_intercepts(X @ W.T, y, 3)
    region = score_region(problem, Ball(W.ravel(), radius), b)
    reach = radius * np.linalg.norm(X - region.center, axis=1)[:, None]
    at_center = region.weights @ region.center
    for signs in ([1, -1, 0], [-1, 1, 1], [0, 1, -1], [1, 1, -1]):
        signs = np.array(signs) / np.linalg.norm(signs)
        found = best_intercepts(X @ W.T - at_center + reach * signs, y, 3)
        middle = 0.5 * (region.low + region.high)
        middle = middle - middle.mean()
        differences = (found - middle)[:, None] - (found - middle)
        assert np.abs(differences).max() <= region.apart
        assert (region.low <= found + np.mean(b + at_center)).all()
        assert (found + np.mean(b + at_center) <= region.high).all()


def test_shares_that_intercepts_miss_are_made_up_for():
    """With a ball of radius 0 nothing but wrong intercepts could keep the best ones away."""
    problem, X, W, y = softmax_problem()
    region = score_region(problem, Ball(W.ravel(), 0.0), np.array([3.0, -2.0, 1.0]))
    truth = best_intercepts(X @ W.T, y, 3) + region.weights @ region.center
    truth += np.mean([3.0, -2.0, 1.0]) - np.mean(truth) + np.mean(region.weights @ region.center)
    assert (region.low <= truth).all() and (truth <= region.high).all()


def test_a_quantile_is_between_those_of_the_worst_scores():
    loss = NuNovelty(nu=0.3)
    problem, X = problem_of(loss, None, weights=np.full(200, 1 / 200), intercept=False)
    w = np.array([1.0, 0.5, 0.2])
    region = score_region(problem, Ball(w, 0.1), 0.0)
    reach, middle = 0.1 * np.linalg.norm(X - region.center, axis=1), (X - region.center) @ w
    for scores in (middle - reach, middle, middle + reach):
        assert region.low <= -loss.offset(scores, problem.weights) <= region.high


@pytest.mark.parametrize(
    ("loss", "little", "much"),
    [(LogLoss(), 1.0, 5.0), (Poisson(), 0.05, 1.0), (Softmax(), 0.05, 0.5)],
)
def test_no_region_where_scores_may_be_off_by_their_size(loss, little, much):
    """Rows are about 1.7 from the center, scores 3.2 large and .4 apart: of a regression that
    counts. Differences of the intercepts of ten classes may be off by 13 times as much."""
    y = np.arange(200) % 10 if isinstance(loss, Softmax) else targets(loss)
    problem, _ = problem_of(loss, y)
    k = problem.n_outputs
    w, b = np.tile([0.3, -0.2, 0.1], k), np.full(k, 2.8) if k > 1 else 2.8
    for radius, known in ((little, True), (much, False)):
        region = score_region(problem, Ball(w, radius), b)
        assert region.is_known
        ends = np.append(region.low, region.high)
        assert (np.isfinite(ends) == known).all()
