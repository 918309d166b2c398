"""Binary losses for Newton's method: cuts, slopes and curvatures against plain numpy."""

import numpy as np
import pytest

from sklearn_bundle.linear.losses.scores import score_loss
from sklearn_bundle.losses import BINARY_LOSSES, ROCAUC, Hinge
from tests.reference import LOSSES

pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")

KNOWN = ["hinge", "squared_hinge", "log_loss", "exponential"]


def smoothed(loss, width, margins):
    """Value and two derivatives, in the margin, of the loss that Newton's method minimizes."""
    h = 1.0 - margins
    if loss == "hinge":
        u = np.clip(h / width, 0.0, 1.0)
        value = np.where(h > width, h - 0.5 * width, 0.5 * width * u**2)
        return value, -u, ((h > 0.0) & (h < width)) / width
    if loss == "squared_hinge":
        return 0.5 * np.maximum(h, 0.0) ** 2, -np.maximum(h, 0.0), 1.0 * (h > 0.0)
    if loss == "exponential":
        return np.exp(-margins), -np.exp(-margins), np.exp(-margins)
    p = 1.0 / (1.0 + np.exp(margins))
    return np.logaddexp(0.0, -margins), -p, p * (1.0 - p)


@pytest.fixture
def line():
    """Scores, a direction, labels, weights; of a number of rows that no block divides."""
    rng = np.random.default_rng(1)
    n = 203
    scores, direction = rng.normal(scale=2.0, size=(2, n))
    y = np.where(rng.normal(size=n) > 0.3, 1.0, -1.0)
    weights = rng.uniform(0.1, 1.0, size=n)
    return scores, direction, y, weights / weights.sum()


@pytest.mark.parametrize("width", [1.0, 0.03])
@pytest.mark.parametrize("loss", KNOWN)
def test_cut_against_numpy(line, loss, width):
    scores, _, y, weights = line
    b, out = 0.2, np.empty(len(y))
    kind = score_loss(BINARY_LOSSES[loss]())
    risk, offset = kind.smoothed_cut(scores, y, weights, width, b, False, out)
    margins = y * (scores + b)
    value, slope, _ = smoothed(loss, width, margins)
    np.testing.assert_allclose(out, weights * y * slope, rtol=1e-10, atol=1e-17)
    assert risk == pytest.approx(weights @ LOSSES[loss](margins), rel=1e-12)
    # sum of l(z) - l'(z) z; the smoothed hinge's derivative makes a plane u of the hinge itself
    expected = -slope if loss == "hinge" else value - slope * margins
    assert offset == pytest.approx(weights @ expected, rel=1e-10)


@pytest.mark.parametrize("b", [0.0, 0.3, -4.0, 30.0])
@pytest.mark.parametrize("loss", KNOWN)
def test_cut_with_a_free_intercept_is_a_plane_of_the_risk(line, loss, b):
    """Of sum zero, and below the risk sample by sample, wherever it is cut."""
    scores, _, y, weights = line
    out = np.empty(len(y))
    kind = score_loss(BINARY_LOSSES[loss]())
    risk, offset = kind.smoothed_cut(scores, y, weights, 0.1, b, True, out)
    assert abs(out.sum()) <= 1e-15
    assert risk == pytest.approx(weights @ LOSSES[loss](y * (scores + b)), rel=1e-12)
    rng = np.random.default_rng(2)
    for scale in (0.1, 1.0, 10.0):
        for _ in range(20):
            others = scores + scale * rng.normal(size=len(y)) + scale * rng.normal()
            assert weights @ LOSSES[loss](y * others) >= out @ others + offset - 1e-12 * scale


@pytest.mark.parametrize("loss, best", [("log_loss", np.log(1e-16)), ("exponential", None)])
def test_what_balancing_leaves_of_an_offset_is_exact(loss, best):
    """A class with a weight of 1e-16: nearly all of the plane's offset goes when it is balanced.

    With all scores 0 a balanced plane is below the risk at every b by its offset alone.
    """
    y, weights, out = np.array([1.0, -1.0]), np.array([1e-16, 1.0]), np.empty(2)
    kind = score_loss(BINARY_LOSSES[loss]())
    best = 0.5 * np.log(1e-16) if best is None else best
    optimum = weights @ LOSSES[loss](y * best)
    for b in np.linspace(-30.0, -2.0, 57):
        _, offset = kind.smoothed_cut(np.zeros(2), y, weights, 1.0, b, True, out)
        assert out.sum() == 0.0 and out.all()
        assert offset <= optimum * (1.0 + 1e-13)
        assert offset == pytest.approx(kind.offset(out, y, weights, 0.0), rel=1e-13)


@pytest.mark.parametrize("width", [1.0, 0.03])
@pytest.mark.parametrize("loss", KNOWN)
def test_slope_against_numpy_and_differences(line, loss, width):
    scores, direction, y, weights = line
    b, along_b, t = 0.2, -0.7, 0.4
    kind = score_loss(BINARY_LOSSES[loss]())
    first, second = kind.smoothed_slope(scores, direction, y, weights, width, b, along_b, t)

    def at(t):
        return smoothed(loss, width, y * (scores + b + t * (direction + along_b)))

    _, slope, bend = at(t)
    along = y * (direction + along_b)
    assert first == pytest.approx(weights @ (slope * along), rel=1e-10)
    assert second == pytest.approx(weights @ (bend * along**2), rel=1e-10)
    step = 1e-6
    difference = weights @ (at(t + step)[0] - at(t - step)[0]) / (2 * step)
    assert first == pytest.approx(difference, rel=1e-6)


@pytest.mark.parametrize("loss", KNOWN)
def test_curved_rows_and_their_curvature(line, loss):
    scores, _, y, weights = line
    b, width, rows, coefs = 0.2, 0.5, np.empty(len(y), dtype=np.int64), np.empty(len(y))
    kind = score_loss(BINARY_LOSSES[loss]())
    size = kind.curved(scores, y, weights, width, b, rows, coefs)
    rows, coefs = rows[:size], coefs[:size]
    _, _, bend = smoothed(loss, width, y * (scores + b))
    expected = np.flatnonzero(bend > (1e-4 if loss == "log_loss" else 0.0))
    assert np.array_equal(rows, expected) and len(rows) > 0
    np.testing.assert_allclose(coefs, (weights * bend)[rows], rtol=1e-10)


def test_which_losses_it_knows():
    assert score_loss(Hinge()) is not None and score_loss(ROCAUC()) is None
    assert score_loss(type("Mine", (Hinge,), {})()) is None  # whose value may be another
