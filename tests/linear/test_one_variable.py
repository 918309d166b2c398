"""The search for the kink that minimizes a piecewise function."""

import numpy as np
import pytest

from sklearn_bundle.linear.solvers.one_variable import search_kink


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("curvature", [0.0, 1e-6, 1.0])
@pytest.mark.parametrize("n", [3, 100, 10000])
def test_search_kink_is_quick_and_exact(n, curvature, size):
    rng = np.random.default_rng(n)
    kinks, jumps = size * rng.exponential(size=n), rng.random(n) / n / size
    evaluations = []

    def derivative(t):
        evaluations.append(t)
        return jumps @ np.maximum(t - kinks, 0.0), jumps @ (t > kinks)

    slope, curvature = -0.5 * jumps.sum(), curvature / size**2
    t = search_kink(derivative, slope, curvature)
    # the right derivative is not negative at the minimizer, the left one not positive
    order = np.argsort(kinks)
    rises = slope + curvature * kinks[order] + np.cumsum(jumps[order])
    at = np.flatnonzero(rises >= 0.0)[0]
    below = slope + jumps[order[:at]].sum()
    best = min(kinks[order[at]], -below / curvature if curvature > 0.0 else np.inf)

    def phi(t):
        return slope * t + 0.5 * curvature * t * t + derivative(t)[0]

    count = len(evaluations)
    assert phi(t) - phi(best) <= 1e-11 * (phi(0.0) - phi(best))
    assert count <= 40  # growing to 1e6 takes seven


def test_search_kink_avoids_what_is_not_finite():
    def derivative(t):
        return (0.0, 0.0) if t < 3.0 else (np.inf, np.nan)

    assert search_kink(derivative, -1.0, 0.0) == pytest.approx(3.0)


def test_search_kink_at_a_kink_is_exact():
    # |t - 0.3| is settled by its two tangents
    t = search_kink(lambda t: (abs(t - 0.3), 1.0 if t >= 0.3 else -1.0))
    assert t == pytest.approx(0.3, rel=1e-15)
