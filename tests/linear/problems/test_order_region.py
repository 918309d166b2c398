"""Which row is above another one for all weights in a ball: attained, and with its rounding."""

import numpy as np
import pytest
import scipy.sparse as sp

from sklearn_bundle.linear.problems.order_region import OrderRegion
from sklearn_bundle.linear.problems.score_region import ScoreRegion
from tests.reference_programme import LONG


def region_of(X, w, radius):
    given = ScoreRegion(w[None], radius, np.zeros(len(w)), np.zeros(1), np.zeros(1))
    return OrderRegion(X, given)


def drawn(seed=0, n=30, d=4):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)) + 3.0, rng.normal(size=d), np.indices((n, n)).reshape(2, -1)


def single(X):
    return X.astype(np.float32)


@pytest.mark.parametrize("layout", [np.asarray, single, sp.csr_matrix, sp.csr_array])
def test_pairs_are_sure_if_no_weights_of_the_ball_turn_them(layout):
    X, w, (i, j) = drawn()
    given, radius = layout(X), 0.3
    rows = np.asarray(given.toarray() if sp.issparse(given) else given, LONG)
    apart = rows[i] - rows[j]
    least = np.abs(apart @ w) - radius * np.sqrt((apart**2).sum(axis=1))
    signs = region_of(given, w, radius).is_above(i, j)
    np.testing.assert_array_equal(signs, np.where(least > 1e-12, np.sign(apart @ w), 0))
    assert 0.1 < (signs == 0).mean() < 0.9


@pytest.mark.parametrize("layout", [np.asarray, single, sp.csr_matrix])
def test_ends_hold_for_all_weights_of_the_ball(layout):
    X, w, _ = drawn()
    given, radius, rows = layout(X), 0.3, np.arange(5, 25)
    low, high = region_of(given, w, radius).ends(rows)
    X = np.asarray(given.toarray() if sp.issparse(given) else given, LONG)[rows]
    apart = X - X.mean(axis=0)
    middle, reach = apart @ w, radius * np.sqrt((apart**2).sum(axis=1))
    assert (low <= middle - reach).all() and (middle + reach <= high).all()
    slack = 1e-6 if layout is single else 1e-12
    assert (high - low <= 2.0 * reach + slack).all()


@pytest.mark.parametrize("offset", [0.0, 1e4, 1e8])
def test_the_order_of_computed_scores(offset):
    """Rows that differ in the last digits: a sure order is that of any way to add scores up."""
    rng = np.random.default_rng(0)
    d = 20
    X = offset + rng.normal(size=d) * np.ones((60, 1))
    X = X * (1.0 + 1e-15 * rng.integers(-4, 5, size=(60, 1)) * (rng.random((60, d)) < 0.2))
    w = rng.normal(size=d)
    i, j = np.indices((60, 60)).reshape(2, -1)
    signs = region_of(X, w, 0.0).is_above(i, j)
    for order in (np.arange(d), np.arange(d)[::-1], rng.permutation(d)):
        f = np.zeros(60)
        for k in order:
            f += X[:, k] * w[k]
        g = f[i] - f[j]
        assert (np.sign(g)[signs != 0] == signs[signs != 0]).all()


def test_all_pairs_are_either_sure_by_their_ends_or_listed():
    X, w, _ = drawn()
    X[3] *= 50.0  # an outlier, with a wide interval
    region, rows = region_of(X, w, 0.1), np.arange(30)
    low, high = region.ends(rows)
    listed = np.zeros((30, 30), dtype=int)
    pairs = region.unsure(rows, low, high)
    assert pairs is not None
    for first, second in pairs:
        np.add.at(listed, (first, second), 1)
    overlaps = (low[:, None] <= high) & (low <= high[:, None]) & ~np.eye(30, dtype=bool)
    np.testing.assert_array_equal(listed + listed.T, overlaps)


@pytest.mark.parametrize("size", [1e-200, 1e200])
def test_sizes_whose_squares_leave_the_range(size):
    X, w, (i, j) = drawn()
    with np.errstate(over="ignore", invalid="ignore"):
        signs = region_of(X * size, w, 10.0).is_above(i, j)
    assert not signs.any()  # a ball that holds weights of any direction
