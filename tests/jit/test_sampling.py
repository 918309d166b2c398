"""Choice of the next block: the tree against the weights from which it was built."""

import numba
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import chisquare

from sklearn_bundle.jit.sampling import Sampling, exchanged, grow, pick, put, uniform


@numba.njit
def picks(sampling, number):
    out = np.empty(number, np.int64)
    for k in range(number):
        out[k] = pick(sampling)
    return out


@numba.njit
def put_all(sampling, indices, weights):
    for k in range(len(indices)):
        put(sampling, indices[k], weights[k])


@numba.njit
def shuffles(n, number, random):
    out = np.empty((number, n), np.int64)
    for row in out:
        row[:] = np.arange(n)
        for k in range(n - 1, 0, -1):
            random = exchanged(row, k, random)
    return out


@numba.njit
def grown(tree, largest):
    grow(tree, largest)


@numba.njit
def uniforms(state, out):
    for k in range(len(out)):
        out[k] = uniform(state)


def sampling_of(weights, share=1.0, largest=False, adaptive=True, factors=None, seed=0):
    n = len(weights)
    half = 1 << max(1, (n - 1).bit_length())
    tree = np.zeros(2 * half)
    tree[half : half + n] = weights
    grown(tree, largest)
    factors = np.ones(n) if factors is None else factors
    return Sampling(n, share, largest, adaptive, tree, factors, np.array([seed], np.uint64))


def counts(sampling, number=100_000):
    return np.bincount(picks(sampling, number), minlength=sampling.n)


def test_random_numbers_of_splitmix64():
    """The first outputs for the seed 1234567, as its authors' code prints them."""
    known = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    out = np.empty(4)
    uniforms(np.array([1234567], np.uint64), out)
    assert_allclose(out, [(value >> 11) / 2**53 for value in known], rtol=0.0)


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 9, 100])
def test_in_proportion_to_the_weights(n):
    """Those without any are never picked, unless all are."""
    weights = np.random.default_rng(n).uniform(0.1, 1.0, n)
    weights[1::3] = 0.0
    found, used = counts(sampling_of(weights)), weights > 0.0
    assert len(found) == n and found[~used].sum() == 0
    expected = 1e5 * weights[used] / weights.sum()
    assert used.sum() == 1 or chisquare(found[used], expected).pvalue > 1e-3
    assert n == 1 or chisquare(counts(sampling_of(np.zeros(n)))).pvalue > 1e-3


@pytest.mark.parametrize("share", [0.0, 0.3, 0.8])
@pytest.mark.parametrize("largest", [False, True])
def test_a_share_of_the_picks_is_uniform(share, largest):
    weights = np.array([1.0, 5.0, 3.0, 0.0, 1.0])
    tree = np.eye(5)[1] if largest else weights / weights.sum()
    found = counts(sampling_of(weights, share, largest))
    assert chisquare(found, 1e5 * (share * tree + (1.0 - share) / 5)).pvalue > 1e-3


@pytest.mark.parametrize("largest", [False, True])
def test_the_tree_after_many_changes_is_the_one_grown_anew(largest):
    rng = np.random.default_rng(0)
    factors = rng.uniform(0.5, 2.0, 23)
    sampling = sampling_of(rng.random(23), largest=largest, factors=factors)
    indices, weights = rng.integers(0, 23, 5000), 10.0 ** rng.uniform(-12, 3, 5000)
    put_all(sampling, indices, weights)
    last = np.full(23, np.nan)
    last[indices] = weights
    expected = sampling_of(last * factors, largest=largest)
    np.testing.assert_array_equal(sampling.tree, expected.tree)


def test_shuffles_of_xorshift64():
    """Its first numbers from state 1, by the formula of Marsaglia (2003) in Python's integers."""
    state, expected = 1, np.arange(7)
    for k in range(6, 0, -1):
        state = (state ^ (state << 13)) % 2**64
        state ^= state >> 7
        state = (state ^ (state << 17)) % 2**64
        other = ((state >> 32) * (k + 1)) >> 32
        expected[[k, other]] = expected[[other, k]]
    assert_array_equal(shuffles(7, 1, np.uint64(1))[0], expected)
