"""Vectors against numpy."""

import numba
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sklearn_bundle.jit import vector

RNG = np.random.default_rng(0)
WIDTHS = {np.float64: 8, np.float32: 16}
both = pytest.mark.parametrize("dtype", WIDTHS)


@numba.njit
def moved(source, i, target, j):
    vector.store(target, j, vector.load(source, i))


@both
@pytest.mark.parametrize("i", [0, 1, 3, 8, 11])  # memory need not be aligned
@pytest.mark.parametrize("j", [0, 1, 3, 8, 11])
def test_load_and_store(dtype, i, j):
    width = WIDTHS[dtype]
    numbers, out = RNG.normal(size=30).astype(dtype), np.full(30, 7.0, dtype)
    numbers.flags.writeable = False
    moved(numbers, i, out, j)
    assert_array_equal(out[j : j + width], numbers[i : i + width])
    assert (np.delete(out, np.s_[j : j + width]) == 7.0).all()


@numba.njit
def copies(array, index, number, out):
    one = vector.splat(number)
    vector.prefetch(array, index - 100)
    vector.store(out, 0, vector.spread(array, index))
    vector.store(out, vector.BYTES // array.itemsize, one)


@both
def test_one_number_many_times(dtype):
    array, out = RNG.normal(size=5).astype(dtype), np.zeros(2 * WIDTHS[dtype], dtype)
    copies(array, 3, dtype(0.1), out)
    assert_array_equal(out, np.repeat([array[3], dtype(0.1)], WIDTHS[dtype]))


@numba.njit
def arithmetic(a, b, c, number, out):
    a, b, c = vector.load(a, 0), vector.load(b, 0), vector.load(c, 0)
    n = vector.BYTES // out.itemsize
    vector.store(out, 0, a * b)
    vector.store(out, n, a + b)
    vector.store(out, 2 * n, a - b)
    vector.store(out, 3 * n, a / b)
    vector.store(out, 4 * n, vector.larger(a, b))
    vector.store(out, 5 * n, vector.where_above(a, b, c, a))
    # A number stands for a vector of equal entries.
    vector.store(out, 6 * n, number - a / number)
    vector.store(out, 7 * n, vector.larger(number, a))
    vector.store(out, 8 * n, vector.larger(a, number))
    vector.store(out, 9 * n, vector.where_above(number, a, a, number))
    vector.store(out, 10 * n, a * b + c)  # may round once
    return vector.where_above(number, number, -number, vector.larger(number, number + number))


def expected_of(a, b, c, number):
    with np.errstate(all="ignore"):
        exact = [a * b, a + b, a - b, a / b, np.where(a > b, a, b), np.where(a > b, c, a)]
        larger = [np.where(number > a, number, a), np.where(a > number, a, number)]
        return [*exact, number - a / number, *larger, np.where(number > a, a, number), a * b + c]


@both
def test_arithmetic(dtype):
    """Comparisons with NaN are false."""
    rows = RNG.integers(-64, 64, (3, WIDTHS[dtype])) / 8.0
    infinite = [
        [np.inf, -np.inf, np.nan, 0.0, 1e38, -0.0, 1.0, np.inf],
        [1.0, 0.0, 1.0, np.inf, 1e38, 0.0, np.nan, -np.inf],
        np.zeros(8),
    ]
    for a, b, c in (rows.astype(dtype), np.tile(infinite, WIDTHS[dtype] // 8).astype(dtype)):
        out = np.zeros((11, WIDTHS[dtype]), dtype)
        assert arithmetic(a, b, c, dtype(2.0), out.ravel()) == 4.0
        expected = np.array(expected_of(a, b, c, dtype(2.0)))
        assert_array_equal(out[:-1], expected[:-1])
        assert_allclose(out[-1], expected[-1], rtol=4.0 * np.finfo(dtype).eps)


@numba.njit
def of_all(values):
    found = vector.load(values, 0)
    place = vector.first_largest(found)
    return vector.total(found), vector.largest(found), place, vector.entry(found, place)


@both
def test_sum_and_largest_entry(dtype):
    width = WIDTHS[dtype]
    for place in range(width):
        values = RNG.normal(size=width).astype(dtype)
        values[place::3] = 5.0  # the first of equal ones counts
        values[0 if place else 1] = -3.0
        total, *found = of_all(values)
        halves = values
        while len(halves) > 1:  # the order in which it adds
            halves = halves[: len(halves) // 2] + halves[len(halves) // 2 :]
        assert total == halves[0]
        assert found == [5.0, place, 5.0]
