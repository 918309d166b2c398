"""Explicit vectors against numpy."""

import numba
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sklearn_bundle.jit import lanes, vector

RNG = np.random.default_rng(0)
DTYPES = [np.float64, np.float32]
PLACES = [0, 1, 3, 8, 11]  # memory need not be aligned


@numba.njit
def moved(source, i, target, j):
    vector.store(target, j, vector.load(source, i))


@pytest.mark.matrix
@pytest.mark.parametrize("source", DTYPES)
@pytest.mark.parametrize("target", DTYPES)
@pytest.mark.parametrize("i", PLACES)
@pytest.mark.parametrize("j", PLACES)
def test_load_and_store(source, target, i, j):
    numbers, out = RNG.normal(size=20).astype(source), np.full(20, 7.0, target)
    moved(numbers, i, out, j)
    assert_array_equal(out[j : j + 8], numbers[i : i + 8].astype(target))
    assert (np.delete(out, np.s_[j : j + 8]) == 7.0).all()


def test_load_from_read_only_memory():
    numbers, out = np.arange(8.0), np.zeros(8)
    numbers.flags.writeable = False
    moved(numbers, 0, out, 0)
    assert_array_equal(out, numbers)


def test_storing_in_single_precision_rounds_as_numpy_does():
    half = 2.0**-24
    numbers = np.array([1.0 + half, 1.0 + 3.0 * half, 1e-42, 1e300, np.nan, -0.0, 3.3, -1e39])
    out = np.zeros(8, np.float32)
    moved(numbers, 0, out, 0)
    with np.errstate(over="ignore"):
        assert_array_equal(out, numbers.astype(np.float32))


@numba.njit
def copies(array, index, number, out):
    vector.store(out, 0, vector.spread(array, index))
    vector.store(out, 8, vector.splat(number))


@pytest.mark.parametrize("dtype", DTYPES)
def test_one_number_eight_times(dtype):
    array, out = RNG.normal(size=5).astype(dtype), np.zeros(16)
    copies(array, 3, 0.1, out)
    assert_array_equal(out, np.repeat([np.float64(array[3]), 0.1], 8))


@numba.njit
def arithmetic(a, b, c, out):
    a, b, c = vector.load(a, 0), vector.load(b, 0), vector.load(c, 0)
    vector.store(out, 0, vector.times(a, b))
    vector.store(out, 8, vector.plus(a, b))
    vector.store(out, 16, vector.minus(a, b))
    vector.store(out, 24, vector.fma(a, b, c))
    return vector.total(a)


def test_arithmetic():
    a, b, c = RNG.normal(size=(3, 8))
    out = np.zeros(32)
    total = arithmetic(a, b, c, out)
    assert_array_equal(out[:24], np.concatenate([a * b, a + b, a - b]))
    assert_allclose(out[24:], a * b + c, atol=1e-15)  # a product and a sum may round once
    assert total == ((a[0] + a[4]) + (a[2] + a[6])) + ((a[1] + a[5]) + (a[3] + a[7]))


def test_arithmetic_with_numbers_that_are_none():
    a = np.array([np.inf, -np.inf, np.nan, 0.0, 1e308, -0.0, 1.0, np.inf])
    b = np.array([1.0, 0.0, 1.0, np.inf, 1e308, 0.0, np.nan, -np.inf])
    out = np.zeros(32)
    with np.errstate(all="ignore"):
        assert np.isnan(arithmetic(a, b, b, out))
        assert_array_equal(out, np.concatenate([a * b, a + b, a - b, a * b + b]))


@numba.njit
def chosen(a, b, c, out):
    a, b, c = vector.load(a, 0), vector.load(b, 0), vector.load(c, 0)
    vector.store(out, 0, vector.over(a, b))
    vector.store(out, 8, vector.magnitude(a))
    vector.store(out, 16, vector.positive(a))
    vector.store(out, 24, vector.where_below(a, b, c))
    vector.store(out, 32, vector.where_at_most(a, b, c))
    vector.store(out, 40, vector.larger(a, b))


def test_choices():
    """Comparisons with NaN are false, but no sum loses it by ``positive``."""
    a = np.array([-0.0, 1.0, -2.0, np.nan, np.inf, -np.inf, 3.0, 1.0])
    b = np.array([0.0, 1.0, 5.0, 0.0, np.inf, 2.0, np.nan, -4.0])
    c, out = RNG.normal(size=8), np.zeros(48)
    chosen(a, b, c, out)
    with np.errstate(all="ignore"):
        assert_array_equal(out[:8], a / b)
        assert_array_equal(out[16:24], np.maximum(a, 0.0))
    assert_array_equal(out[8:16], np.abs(a))
    assert_array_equal(out[24:32], np.where(a < b, c, 0.0))
    assert_array_equal(out[32:40], np.where(a <= b, c, 0.0))
    assert_array_equal(out[40:], np.where(a > b, a, b))


@numba.njit
def ends(a, count, out):
    vector.store(out, 0, vector.last_of(vector.load(a, 0), count))


@pytest.mark.parametrize("count", [0, 1, 5, 8])
def test_last_entries(count):
    a, out = RNG.normal(size=8), np.full(8, np.nan)
    ends(a, count, out)
    assert_array_equal(out, np.where(np.arange(8) >= 8 - count, a, 0.0))


@numba.njit
def four_totals(rows, out):
    a, b = vector.load(rows, 0), vector.load(rows, 8)
    c, d = vector.load(rows, 16), vector.load(rows, 24)
    vector.store_totals(out, 1, a, b, c, d)
    return vector.total(a), vector.total(b), vector.total(c), vector.total(d)


def test_four_totals_are_those_of_each_vector():
    rows, out = RNG.normal(size=(4, 8)), np.full(6, 7.0)
    totals = four_totals(rows.ravel(), out)
    assert_array_equal(out[1:5], totals)
    assert out[0] == out[5] == 7.0


@numba.njit
def gathered(data, indices, k, count, w, out):
    vector.store(out, 0, vector.gather_fma(data, indices, k, count, w, vector.load(out, 0)))


@numba.njit
def scattered(data, indices, k, count, factor, out):
    vector.scatter_add(data, indices, k, count, factor, out)


@numba.njit
def scattered_within(data, indices, k, count, factor, out, left, right, spare):
    vector.scatter_add_within(data, indices, k, count, factor, out, left, right, spare)


@pytest.mark.matrix
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("index", [np.uint32, np.uint64])
@pytest.mark.parametrize("count", [1, 3, 4, 8, 11])
def test_gather_and_scatter(dtype, index, count):
    data, indices = RNG.normal(size=12).astype(dtype), RNG.integers(5, size=12).astype(index)
    w, out = RNG.normal(size=5), np.ones(8)
    gathered(data, indices, 2, count, w, out)
    used = np.arange(8) < count
    assert_allclose(out, 1.0 + data[2:10].astype(float) * w[indices[2:10]] * used, atol=1e-15)
    sums, expected = np.zeros(5), np.zeros(5)
    scattered(data, indices, 2, count, 0.3, sums)
    four = slice(2, 2 + min(count, 4))
    np.add.at(expected, indices[four], 0.3 * data[four].astype(float))
    assert_array_equal(sums, expected)
    part, spare = np.zeros(5), np.zeros(64)
    scattered_within(data, indices, 2, count, 0.3, part, 1, 3, spare)
    assert_array_equal(part, np.where([False, True, True, False, False], expected, 0.0))


@numba.njit
def transposed(source, i, target, j, width):
    vector.transpose(source, i, target, j, width)


@pytest.mark.parametrize("width", [8, 24])
def test_transpose(width):
    source, target = RNG.normal(size=(16, width)), np.zeros((16, width))
    for column in range(0, width, 8):
        transposed(source.ravel(), 8 * width + column, target.ravel(), column, width)
        block = target[:8, column : column + 8]
        assert_array_equal(block, source[8:, column : column + 8].T)
    assert not target[8:].any()


def test_transpose_in_place():
    matrix = RNG.normal(size=(8, 8))
    expected = matrix.T.copy()
    transposed(matrix.ravel(), 0, matrix.ravel(), 0, 8)
    assert_array_equal(matrix, expected)


@numba.njit
def largest_of(values, limit, out):
    """Place of the largest entry, it, and where entries are above the limit, as 1 and 0."""
    found = lanes.load(values, 0)
    zero = lanes.splat(limit - limit)
    one = lanes.splat(limit / limit)
    lanes.store(out, 0, lanes.where_above(found, lanes.splat(limit), one, zero))
    place = lanes.first_largest(found)
    return place, lanes.entry(found, place), lanes.width_of(values)


@pytest.mark.parametrize("dtype", DTYPES)
def test_lanes_of_both_precisions(dtype):
    width = 16 if dtype == np.float32 else 8
    for place in range(width):
        values, out = RNG.normal(size=width).astype(dtype), np.zeros(width, dtype)
        values[place::3] = 5.0  # the first of equal ones counts
        values[0 if place else 1] = -np.inf
        limit = dtype(0.3)
        assert largest_of(values, limit, out) == (place, 5.0, width)
        assert_array_equal(out, values > limit)
