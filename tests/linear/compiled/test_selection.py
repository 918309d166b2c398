"""first_crossing against a sort, on random and on tied kinks."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sklearn_bundle.linear._compiled.selection import first_crossing


def crossing_by_sort(kinks, jumps, bends, p, q):
    """Walk over the sorted kinks; between two of them F is the line p + q t."""
    left = -np.inf
    for t in np.unique(kinks):
        if q > 0.0 and -p / q < t:
            return max(-p / q, left)
        at = kinks == t
        p, q, left = p + jumps[at].sum(), q + bends[at].sum(), t
        if p + q * t >= 0.0:
            return t
    return -p / q if q > 0.0 else np.inf


@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(0, 700),
    decimals=st.sampled_from([0, 1, 8]),
    q=st.sampled_from([0.0, 0.3]),
)
@settings(deadline=None, max_examples=300)
def test_step_functions(seed, n, decimals, q):
    rng = np.random.default_rng(seed)
    kinks = np.round(rng.normal(size=n), decimals)
    jumps = rng.integers(1, 9, size=n) / 8.0  # exact sums: the order of summation does not matter
    p = -rng.integers(1, 9 + int(8 * jumps.sum())) / 8.0
    expected = crossing_by_sort(kinks, jumps, np.zeros(n), p, q)
    found = first_crossing(kinks.copy(), jumps.copy(), np.zeros(n), n, p, q, 0.0)
    assert found == pytest.approx(expected, rel=1e-12, abs=1e-12)


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 700))
@settings(deadline=None, max_examples=200)
def test_continuous_functions(seed, n):
    """Sums of weighted [t - kink]_+ less a constant: the derivative of a squared hinge."""
    rng = np.random.default_rng(seed)
    kinks, weights, p = rng.normal(size=n), rng.random(n) + 0.01, -10.0 * rng.random() - 0.01
    found = first_crossing(kinks.copy(), -weights * kinks, weights.copy(), n, p, 0.0, 0.0)
    residual = p + weights @ np.maximum(found - kinks, 0.0)
    assert abs(residual) <= 1e-11 * (1.0 + weights.sum())


def test_no_crossing_is_infinite():
    assert first_crossing(np.zeros(3), np.ones(3), np.zeros(3), 3, -4.0, 0.0, 0.0) == np.inf


def test_all_kinks_equal():
    n = 5000
    assert first_crossing(np.full(n, 2.5), np.ones(n), np.zeros(n), n, -7.0, 0.0, 0.0) == 2.5
