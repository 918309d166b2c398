"""The hinge loss on more rows than fit in a block, against plain numpy."""

import numpy as np
import pytest

from sklearn_bundle import BMRMClassifier
from sklearn_bundle.losses import Hinge, SquaredHinge

RNG = np.random.default_rng(0)
SIZES = [1, 7, 8, 63, 64, 65, 200]


def make(n):
    """Some scores are tied, and some margins exactly one."""
    scores = np.round(RNG.normal(size=n), 1)
    y = np.where(RNG.random(n) < 0.4, 1.0, -1.0)
    weights = RNG.uniform(0.5, 1.5, size=n)
    return scores, y, weights / weights.sum(), np.empty(n), np.empty((4, n))


@pytest.mark.parametrize("n", SIZES)
def test_cut(n):
    scores, y, weights, out, scratch = make(n)
    cut = Hinge().cut(scores, y, weights, False, out, scratch)
    violated = y * scores < 1.0
    np.testing.assert_array_equal(out, np.where(violated, -y * weights, 0.0))
    # sums of up to 200 numbers of size 1 in another order
    slack = np.maximum(0.0, 1.0 - y * scores)
    assert cut.risk == pytest.approx(weights @ slack, rel=1e-14, abs=1e-16)
    assert cut.offset == pytest.approx(weights @ violated, rel=1e-14, abs=1e-16)
    assert Hinge().risk(scores, y, weights, 0.0) == cut.risk


@pytest.mark.parametrize("n", SIZES)
def test_balanced_cut(n):
    scores, y, weights, out, scratch = make(n)
    cut = Hinge().cut(scores, y, weights, True, out, scratch)
    losses = [weights @ np.maximum(0.0, 1.0 - y * (scores + t)) for t in y - scores]
    if (y == y[0]).all():
        losses.append(0.0)  # any b that is far enough
    assert cut.risk == pytest.approx(min(losses), rel=1e-14, abs=1e-15)
    assert cut.risk == Hinge().risk(scores, y, weights, cut.intercept)
    assert out.sum() == pytest.approx(0.0, abs=1e-15)
    assert cut.offset + out @ scores == pytest.approx(cut.risk, abs=1e-14)


@pytest.mark.parametrize("n", SIZES)
def test_line_search(n):
    scores, y, weights, _, scratch = make(n)
    direction = RNG.normal(size=n) * (RNG.random(n) < 0.8)
    curvature = 0.3

    def value(t):
        return curvature * t * t / 2 + weights @ np.maximum(0.0, 1.0 - y * (scores + t * direction))

    t = Hinge().line_search(scores, direction, y, weights, 0.0, curvature, scratch)
    assert t >= 0.0
    # a minimum of a convex function, to the rounding of its values
    assert all(value(t) <= value(max(0.0, t + h)) + 1e-15 for h in (-1e-3, -1e-6, 1e-6, 1e-3))


def test_numbers_that_are_none_are_not_lost():
    scores, y, weights, out, scratch = make(200)
    scores[70] = np.nan
    assert np.isnan(Hinge().cut(scores, y, weights, False, out, scratch).risk)
    assert np.isnan(Hinge().risk(scores, y, weights, 0.0))


@pytest.mark.parametrize("label", [-1.0, 1.0])
@pytest.mark.parametrize(("loss", "power"), [(Hinge(), 1), (SquaredHinge(), 2)])
def test_intercept_of_a_class_lighter_than_rounding(loss, power, label):
    """Both classes overlap; sums of all weights would lose those of the light class."""
    for _ in range(20):
        scores, y, weights, out, scratch = make(40)
        scores, weights = 1e6 * scores, np.where(y == label, 1e-20, 1.0) * weights
        weights /= weights.sum()
        cut = loss.cut(scores, y, weights, True, out, scratch)

        def risk(b, args=(scores, y, weights)):
            scores, y, weights = args
            return weights @ np.maximum(0.0, y * (y - scores - b)) ** power / power

        assert cut.risk == pytest.approx(risk(cut.intercept), rel=1e-12, abs=0.0)
        assert cut.risk <= min(map(risk, y - scores)) * (1.0 + 1e-12)
        assert abs(out.sum()) <= 1e-14 * np.abs(out).sum()
        at_scores = out @ scores + cut.offset
        assert at_scores <= cut.risk * (1.0 + 1e-9)
        if power == 1:  # there a sample at b has any slope; for squares b has too few digits
            assert at_scores == pytest.approx(cut.risk, rel=1e-9, abs=0.0)


@pytest.mark.parametrize("solver", ["line-search", "dual-coordinate"])
def test_fit_with_a_class_lighter_than_rounding(solver):
    X, y = np.array([[0.0], [1.0], [2.0], [1.5]]), np.array([0, 0, 1, 0])
    model = BMRMClassifier(solver=solver, reg_lambda=1.0).fit(
        X, y, np.array([1.0, 1.0, 1e-20, 1.0])
    )
    assert model.objective_ == pytest.approx(2e-20 / 3.0)
    assert model.lower_bound_ == 0.0  # losses of the other class are rounded by more
    assert model.intercept_[0] == pytest.approx(-1.0)
