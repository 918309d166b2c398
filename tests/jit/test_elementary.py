"""Polynomials against numpy."""

import numba
import numpy as np

from sklearn_bundle.jit import elementary
from sklearn_bundle.jit.vector import load, store

RNG = np.random.default_rng(0)


@numba.njit
def exp(x):
    return elementary.exp(x)


@numba.njit
def log(x):
    return elementary.log(x)


@numba.njit
def log1p_unit(e):
    return elementary.log1p_unit(e)


@numba.njit
def single(x, by_number, by_vector):
    for k in range(len(x)):
        by_number[k] = elementary.exp_single(x[k])
    for k in range(0, len(x), 16):
        store(by_vector, k, elementary.exp_single(load(x, k)))


def test_exp_to_two_ulps():
    x = np.concatenate([RNG.uniform(-700.0, 700.0, 20_000), RNG.uniform(-1.0, 1.0, 20_000)])
    values = np.array([exp(v) for v in x])
    np.testing.assert_allclose(values, np.exp(x), rtol=4.5e-16)
    ends = {0.0: 1.0, -750.0: 0.0, -np.inf: 0.0, 710.0: np.inf, np.inf: np.inf}
    assert [exp(x) for x in ends] == list(ends.values()) and not np.isfinite(exp(np.nan))


def test_log1p_on_the_unit_interval():
    e = np.concatenate([RNG.random(20_000), 10.0 ** RNG.uniform(-300, 0, 20_000), [0.0, 1.0]])
    values = np.array([log1p_unit(v) for v in e])
    np.testing.assert_allclose(values, np.log1p(e), rtol=4.5e-16)


def test_log_to_two_ulps_of_its_exponent():
    x = np.concatenate(
        [10.0 ** RNG.uniform(-307, 308, 20_000), RNG.uniform(0.5, 2.0, 20_000), 2.0 ** np.arange(9)]
    )
    values, expected = np.array([log(v) for v in x]), np.log(x)
    assert (np.abs(values - expected) <= 4e-16 * np.maximum(1.0, np.abs(expected))).all()


def test_exp_in_single_precision():
    x = np.append(RNG.uniform(-87.0, 0.0, 20_479), 0.0).astype(np.float32)
    by_number, by_vector = np.zeros_like(x), np.zeros_like(x)
    single(x, by_number, by_vector)
    for values in (by_number, by_vector):
        np.testing.assert_allclose(values, np.exp(x.astype(float)), rtol=1.3e-7)


def test_exp_of_a_vector_at_the_ends():
    """Positive numbers and NaN count as 0; what is not a normal number is 0."""
    x = np.array([0.5, 7.0, np.inf, np.nan, -88.0, -1e30, -np.inf, -0.0] * 2, np.float32)
    by_number, by_vector = np.zeros_like(x), np.zeros_like(x)
    single(x, by_number, by_vector)
    np.testing.assert_array_equal(by_vector, [1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 1.0] * 2)
