"""The search along a line for the lowest point of a convex function with kinks."""

import numpy as np
import pytest

from sklearn_bundle.linear.solvers.base import lowest


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("bend", [0.0, 1e-6, 1.0])
@pytest.mark.parametrize("n", [3, 100, 10000])
def test_the_search_is_quick_and_exact(n, bend, size):
    rng = np.random.default_rng(n)
    kinks, jumps = size * rng.exponential(size=n), rng.random(n) / n / size
    slope, bend, evaluations = -0.5 * jumps.sum(), bend / size**2, []

    def function(t):
        evaluations.append(t)
        value = slope * t + 0.5 * bend * t * t + jumps @ np.maximum(t - kinks, 0.0)
        return value, slope + bend * t + jumps @ (t > kinks)

    t = lowest(function, bend, 1e-12, 1e-12)
    assert len(evaluations) <= 45  # growing to 1e6 takes seven
    # the right derivative is not negative at the minimizer, the left one not positive
    order = np.argsort(kinks)
    rises = slope + bend * kinks[order] + np.cumsum(jumps[order])
    at = np.flatnonzero(rises >= 0.0)[0]
    below = slope + jumps[order[:at]].sum()
    best = min(kinks[order[at]], -below / bend if bend > 0.0 else np.inf)
    assert function(t)[0] - function(best)[0] <= 1e-11 * -function(best)[0]


def test_the_search_avoids_what_is_not_finite():
    t = lowest(lambda t: (-t, -1.0) if t < 3.0 else (np.inf, np.nan), 0.0, 1e-10, 1e-12)
    assert t == pytest.approx(3.0)


def test_a_kink_is_settled_by_its_two_tangents():
    t = lowest(lambda t: (abs(t - 0.3), 1.0 if t >= 0.3 else -1.0), 0.0, 1e-10, 1e-12)
    assert t == pytest.approx(0.3, rel=1e-15)
    assert lowest(lambda t: (t, 1.0), 0.0, 1e-2, 0.05) == 0.0
