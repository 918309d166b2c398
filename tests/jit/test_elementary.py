"""Polynomials against numpy."""

import numpy as np
import pytest

from sklearn_bundle.jit import elementary

RNG = np.random.default_rng(0)


def test_exp_to_two_ulps():
    x = np.concatenate([RNG.uniform(-700.0, 700.0, 20_000), RNG.uniform(-1.0, 1.0, 20_000)])
    values = np.array([elementary.exp(v) for v in x])
    np.testing.assert_allclose(values, np.exp(x), rtol=4.5e-16)


@pytest.mark.parametrize(
    "x, expected", [(0.0, 1.0), (-750.0, 0.0), (-np.inf, 0.0), (710.0, np.inf), (np.inf, np.inf)]
)
def test_exp_at_the_ends(x, expected):
    assert elementary.exp(x) == expected


def test_exp_of_nan_is_not_a_number():
    assert not np.isfinite(elementary.exp(np.nan))


def test_log1p_on_the_unit_interval():
    e = np.concatenate([RNG.random(20_000), 10.0 ** RNG.uniform(-300, 0, 20_000), [0.0, 1.0]])
    values = np.array([elementary.log1p_unit(v) for v in e])
    np.testing.assert_allclose(values, np.log1p(e), rtol=4.5e-16)


def test_log_to_two_ulps_of_its_exponent():
    x = np.concatenate(
        [10.0 ** RNG.uniform(-307, 308, 20_000), RNG.uniform(0.5, 2.0, 20_000), 2.0 ** np.arange(9)]
    )
    values, expected = np.array([elementary.log(v) for v in x]), np.log(x)
    assert (np.abs(values - expected) <= 4e-16 * np.maximum(1.0, np.abs(expected))).all()


def test_log_at_the_ends():
    assert elementary.log(1.0) == 0.0
    for x in (np.finfo(float).tiny, np.finfo(float).max, 1e-300):
        assert elementary.log(x) == pytest.approx(np.log(x), rel=1e-15)
