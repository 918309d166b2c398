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
def arithmetic(a, b, c, out):
    a, b, c = vector.load(a, 0), vector.load(b, 0), vector.load(c, 0)
    n = vector.BYTES // out.itemsize
    vector.store(out, 0, a * b)
    vector.store(out, n, a + b)
    vector.store(out, 2 * n, a - b)
    vector.store(out, 3 * n, a / b)
    vector.store(out, 4 * n, a * b + c)
    vector.store(out, 5 * n, vector.larger(a, b))
    vector.store(out, 6 * n, vector.where_above(a, b, c, a))


def expected_of(a, b, c):
    with np.errstate(all="ignore"):
        exact = [a * b, a + b, a - b, a / b, a * b + c]
        return [*exact, np.where(a > b, a, b), np.where(a > b, c, a)]


@both
def test_arithmetic(dtype):
    """A product and a sum may round once."""
    a, b, c = RNG.normal(size=(3, WIDTHS[dtype])).astype(dtype)
    out = np.zeros((7, WIDTHS[dtype]), dtype)
    arithmetic(a, b, c, out.ravel())
    expected = np.array(expected_of(a, b, c))
    assert_array_equal(np.delete(out, 4, axis=0), np.delete(expected, 4, axis=0))
    assert_allclose(out[4], expected[4], atol=4.0 * np.finfo(dtype).eps)


@both
def test_numbers_that_are_none(dtype):
    """Comparisons with NaN are false."""
    a = np.array([np.inf, -np.inf, np.nan, 0.0, 1e38, -0.0, 1.0, np.inf], dtype)
    b = np.array([1.0, 0.0, 1.0, np.inf, 1e38, 0.0, np.nan, -np.inf], dtype)
    a, b = np.resize(a, WIDTHS[dtype]), np.resize(b, WIDTHS[dtype])
    out = np.zeros((7, WIDTHS[dtype]), dtype)
    arithmetic(a, b, b, out.ravel())
    assert_array_equal(out, expected_of(a, b, b))


@numba.njit
def with_numbers(a, number, out):
    a, n = vector.load(a, 0), vector.BYTES // out.itemsize
    vector.store(out, 0, number * a + number)
    vector.store(out, n, a / number - number)
    vector.store(out, 2 * n, number - a)
    vector.store(out, 3 * n, vector.larger(number, a))
    vector.store(out, 4 * n, vector.larger(a, number))
    vector.store(out, 5 * n, vector.where_above(number, a, a, number))
    return vector.where_above(number, number, -number, vector.larger(number, number + number))


@both
def test_numbers_stand_for_vectors_of_equal_entries(dtype):
    a, number = RNG.integers(-9, 9, WIDTHS[dtype]).astype(dtype), dtype(2.0)
    out = np.zeros((6, WIDTHS[dtype]), dtype)
    assert with_numbers(a, number, out.ravel()) == 4.0
    larger = np.maximum(a, number)
    expected = [2 * a + 2, a / 2 - 2, 2 - a, larger, larger, np.minimum(a, number)]
    assert_array_equal(out, expected)


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


@numba.njit
def powers(shifted, out):
    vector.store(out, 0, vector.power_of_two(vector.load(shifted, 0)))


@both
def test_powers_of_two(dtype):
    exponents = np.arange(WIDTHS[dtype]) - 5.0
    shifted = (exponents + 1.5 * 2.0 ** np.finfo(dtype).nmant).astype(dtype)
    out = np.zeros(WIDTHS[dtype], dtype)
    powers(shifted, out)
    assert_array_equal(out, 2.0**exponents)


def test_vectors_of_different_types_do_not_mix():
    @numba.njit
    def mixed(a, b):
        return vector.total(vector.load(a, 0) + vector.load(b, 0))

    with pytest.raises(numba.TypingError):
        mixed(np.zeros(16), np.zeros(16, np.float32))
