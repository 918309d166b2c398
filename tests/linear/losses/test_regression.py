"""Losses of regression and novelty detection keep the contract of Loss, at any scale, with ties."""

import math
import pickle
import warnings
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from sklearn.base import clone

from sklearn_bundle.linear.losses.novelty import Novelty
from sklearn_bundle.linear.losses.poisson import Poisson
from sklearn_bundle.linear.losses.regression import (
    AbsoluteError,
    EpsilonInsensitive,
    Huber,
    MultivariateSquaredError,
    Quantile,
    SquaredEpsilonInsensitive,
    SquaredError,
)
from sklearn_bundle.linear.losses.samples import RegressionLoss, SampleLoss
from sklearn_bundle.linear.losses.scores import score_loss
from tests import reference_regression
from tests.contract.user_losses import LogCosh
from tests.reference_regression import LOSSES, objective, solution

M = np.array([[2.0, 0.5, 0.0], [0.5, 1.0, -0.3], [0.0, -0.3, 0.7]])
SINGULAR = np.outer([1.0, -2.0, 0.5], [1.0, -2.0, 0.5])
BUILT_IN = {  # name, parameters
    "squared_error": (SquaredError, {}),
    "absolute_error": (AbsoluteError, {}),
    "quantile": (Quantile, {}),
    "quantile_0.9": (Quantile, {"quantile": 0.9}),
    "epsilon_insensitive": (EpsilonInsensitive, {"epsilon": 0.5}),
    "epsilon_insensitive_0": (EpsilonInsensitive, {"epsilon": 0.0}),
    "squared_epsilon_insensitive": (SquaredEpsilonInsensitive, {"epsilon": 0.5}),
    "huber": (Huber, {"delta": 0.7}),
    "poisson": (Poisson, {}),
    "novelty": (Novelty, {"rho": 0.8}),
    "multivariate_squared_error": (MultivariateSquaredError, {}),
    "multivariate_squared_error_M": (MultivariateSquaredError, {"M": M}),
    "multivariate_squared_error_singular": (MultivariateSquaredError, {"M": SINGULAR}),
}


def generic(kind, parameters):
    """The loss with the fallbacks of the base class, from its values and derivatives alone."""
    loss, base = kind(**parameters), RegressionLoss
    members = {name: staticmethod(getattr(loss, name)) for name in ("value", "gradient")}
    if not issubclass(kind, RegressionLoss):
        base = SampleLoss
    if kind in (Poisson, SquaredError, Huber, SquaredEpsilonInsensitive):
        members["curvature"] = staticmethod(loss.curvature)
    for name in ("mean", "n_outputs", "check"):
        if hasattr(kind, name):
            members[name] = staticmethod(getattr(loss, name))
    return type(f"Generic{kind.__name__}", (base,), members)()


def name_of(key):
    """The name in the reference of an entry of BUILT_IN."""
    return max((name for name in LOSSES if key.startswith(name)), key=len)


TABLE = {key: kind(**parameters) for key, (kind, parameters) in BUILT_IN.items()}
GENERIC = {key: generic(*entry) for key, entry in BUILT_IN.items()}
SCALAR = [key for key in TABLE if not key.startswith("multivariate")]
WITH_INTERCEPT = [key for key in TABLE if key != "novelty"]
EVERY = TABLE | {f"generic_{key}": GENERIC[key] for key in SCALAR} | {"log_cosh": LogCosh()}
every_loss = pytest.mark.parametrize("key", EVERY)
every_built_in = pytest.mark.parametrize("key", TABLE)
every_intercept = pytest.mark.parametrize("key", [k for k in EVERY if not k.endswith("novelty")])


def draw(key, seed, n=40, decimals=None, scale=1.0):
    """Scores, targets and weights summing to one; rounded numbers have ties."""
    rng = np.random.default_rng(seed)
    shape = (n, 3) if key.startswith("multivariate") else (n,)
    scores, y = 2.0 * rng.normal(size=shape), 2.0 * rng.normal(size=shape) + 1.0
    if "poisson" in key:
        y = rng.poisson(2.0, size=n).astype(float)
        y[0], scores = 3.0, 0.7 * scores
    if decimals is not None:
        scores, y = np.round(scores, decimals), np.round(y, decimals)
    weights = rng.random(n) + 0.1
    y = None if key.endswith("novelty") else scale * y
    scores = scores + np.log(scale) if "poisson" in key else scale * scores
    return scores, y, weights / weights.sum(), rng


def cut(loss, scores, y, weights, fit_intercept):
    out = np.empty_like(scores)
    return loss.cut(scores, y, weights, fit_intercept, out, np.empty((4, len(scores)))), out


def assert_balanced(g):
    """The entries sum to zero but for rounding, an output at a time."""
    assert np.abs(g.sum(axis=0)).max() <= 1e-15 * max(1.0, np.abs(g).sum())


def risk(loss, scores, y, weights):
    return weights @ loss.value(scores, y)


@every_built_in
def test_formula(key):
    scores, y, _, _ = draw(key, 0)
    expected = LOSSES[name_of(key)](scores, y, **BUILT_IN[key][1])
    np.testing.assert_allclose(TABLE[key].value(scores, y), expected, rtol=1e-13, atol=1e-14)


@every_loss
def test_gradient_and_curvature_by_differences(key):
    loss = EVERY[key]
    scores, y, _, _ = draw(key, 1)
    step = 1e-6
    gradient = loss.gradient(scores, y)
    for move in np.eye(3) if scores.ndim == 2 else [1.0]:
        up, down = scores + step * move, scores - step * move
        difference = (loss.value(up, y) - loss.value(down, y)) / (2 * step)
        # second-order differences: step^2 times the third derivative, and rounding / step
        along = gradient @ move if scores.ndim == 2 else gradient
        np.testing.assert_allclose(along, difference, atol=1e-7)
    bend = loss.curvature(scores, y)
    if bend is not None:
        difference = (loss.gradient(up, y) - loss.gradient(down, y)) / (2 * step)
        np.testing.assert_allclose(bend, difference, atol=1e-7)


@every_loss
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("decimals", [None, 0])
def test_cut_is_a_plane_below_the_risk(key, fit_intercept, decimals):
    loss = EVERY[key]
    if fit_intercept and key.endswith("novelty"):
        pytest.skip("has no intercept")
    scores, y, weights, rng = draw(key, 2, decimals=decimals)
    plane, g = cut(loss, scores, y, weights, fit_intercept)
    assert plane.offset + np.sum(g * scores) == pytest.approx(plane.risk, abs=1e-13)
    if fit_intercept:
        assert_balanced(g)
    for scale in (0.01, 1.0, 10.0):
        for _ in range(50):
            other = scores + scale * rng.normal(size=scores.shape)
            b = scale * rng.normal(size=scores.shape[1:]) if fit_intercept else 0.0
            there = risk(loss, other + b, y, weights)
            assert plane.offset + np.sum(g * other) <= there + 1e-13 * max(1.0, there)


@every_intercept
@given(seed=st.integers(0, 2**32 - 1), decimals=st.sampled_from([None, 0, 1]))
@settings(deadline=None, max_examples=40)
def test_intercept_is_the_best(key, seed, decimals):
    loss = EVERY[key]
    scores, y, weights, _ = draw(key, seed, n=25, decimals=decimals)
    plane, g = cut(loss, scores, y, weights, True)
    assert_balanced(g)
    assert plane.risk == pytest.approx(
        risk(loss, scores + plane.intercept, y, weights), rel=1e-12, abs=1e-15
    )
    b = loss.intercept(scores, y, weights, np.empty((4, 25)))
    assert loss.risk(scores, y, weights, b) == pytest.approx(plane.risk, rel=1e-13)
    for move in np.eye(3) if scores.ndim == 2 else [1.0]:
        other = minimize_scalar(
            lambda t, move=move: risk(loss, scores + b + t * move, y, weights),
            bounds=(-20, 20),
            options={"xatol": 1e-10},
        )
        assert plane.risk <= other.fun + 1e-12


@every_loss
@given(seed=st.integers(0, 2**32 - 1), decimals=st.sampled_from([None, 0]))
@settings(deadline=None, max_examples=40)
def test_line_search_is_exact(key, seed, decimals):
    loss = EVERY[key]
    scores, y, weights, rng = draw(key, seed, n=25, decimals=decimals)
    direction = rng.normal(size=scores.shape)
    if decimals is not None:
        direction = np.round(direction)  # zeros, and steps at which many samples meet a kink
    slope, curvature = -rng.random(), rng.random() + 0.01

    def along(t):
        with np.errstate(over="ignore"):
            there = risk(loss, scores + t * direction, y, weights)
        return slope * t + 0.5 * curvature * t * t + there

    t = loss.line_search(scores, direction, y, weights, slope, curvature, np.empty((4, 25)))
    other = minimize_scalar(along, bounds=(0.0, 200.0), options={"xatol": 1e-10})
    assert t >= 0.0
    # Newton stops when the slope has fallen by 1e-8: second order in the value
    assert along(t) <= min(other.fun, along(0.0)) + 1e-10


@every_loss
def test_uphill_gives_a_zero_step(key):
    loss = EVERY[key]
    scores, y, weights, _ = draw(key, 3)
    scratch = np.empty((4, len(scores)))
    direction = loss.gradient(scores, y)
    assert loss.line_search(scores, direction, y, weights, 0.0, 0.1, scratch) == 0.0


@every_built_in
def test_integer_weights_repeat_rows(key):
    loss = EVERY[key]
    scores, y, _, rng = draw(key, 4, decimals=1)
    counts = rng.integers(1, 4, size=len(scores))
    weights = counts / counts.sum()
    repeated = np.full(counts.sum(), 1.0 / counts.sum())
    copies = y if y is None else y.repeat(counts, axis=0)
    plane, _ = cut(loss, scores, y, weights, key != "novelty")
    again, _ = cut(loss, scores.repeat(counts, axis=0), copies, repeated, key != "novelty")
    assert plane.risk == pytest.approx(again.risk, rel=1e-13)
    np.testing.assert_allclose(plane.intercept, again.intercept, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("key", SCALAR)
def test_compiled_equals_generic(key):
    scores, y, weights, _ = draw(key, 5)
    for fit_intercept in (False, True) if key != "novelty" else (False,):
        compiled, g = cut(TABLE[key], scores, y, weights, fit_intercept)
        fallback, h = cut(GENERIC[key], scores, y, weights, fit_intercept)
        assert compiled.risk == pytest.approx(fallback.risk, rel=1e-13)
        if key != "epsilon_insensitive":  # where the best b is not unique, neither is the plane
            np.testing.assert_allclose(g, h, atol=1e-14)
            assert compiled.offset == pytest.approx(fallback.offset, abs=1e-12)


@pytest.mark.parametrize("key", ["multivariate_squared_error_M", "squared_error"])
def test_squared_errors_without_intercept_equal_generic(key):
    scores, y, weights, _ = draw(key, 5)
    compiled, g = cut(TABLE[key], scores, y, weights, False)
    fallback, h = cut(GENERIC[key], scores, y, weights, False)
    np.testing.assert_allclose(g, h, atol=1e-15)
    assert compiled.risk == pytest.approx(fallback.risk, rel=1e-13)
    assert compiled.offset == pytest.approx(fallback.offset, rel=1e-12)


@pytest.mark.matrix
@pytest.mark.parametrize("key", WITH_INTERCEPT)
@pytest.mark.parametrize("scale", [1e-3, 1e5, 1e8])
@pytest.mark.parametrize("seed", range(5))
def test_targets_of_any_scale(key, scale, seed):
    """Parameters stay as they are: most residuals are far above them, or far below."""
    loss = TABLE[key]
    scores, y, weights, rng = draw(key, seed, n=300, scale=scale)
    plane, g = cut(loss, scores, y, weights, True)
    assert_balanced(g)
    assert plane.offset + np.sum(g * scores) == pytest.approx(plane.risk, rel=1e-11)
    best = GENERIC[key] if scores.ndim == 1 else loss
    assert plane.risk <= cut(best, scores, y, weights, True)[0].risk * (1 + 1e-12)
    for spread in (0.01, 1.0):
        for _ in range(20):
            noise = spread * rng.normal(size=scores.shape)
            other = scores + (noise if key == "poisson" else scale * noise)
            there = cut(loss, other, y, weights, True)[0].risk
            assert plane.offset + np.sum(g * other) <= there + 1e-11 * abs(plane.risk)


@pytest.mark.parametrize("key", WITH_INTERCEPT)
def test_many_equal_weights_do_not_add_up_rounding(key):
    n = 100_000
    scores, y, _, _ = draw(key, 5, n=n)
    _, g = cut(TABLE[key], scores, y, np.full(n, 1.0 / n), True)
    for column in np.atleast_2d(g.T):
        assert abs(math.fsum(column)) <= 1e-15


@pytest.mark.parametrize("loss", [AbsoluteError(), Quantile(0.9)])
def test_derivatives_of_sorted_targets_sum_to_zero(loss):
    """All those of one sign come first: the sums on the way are large, and their rounding alike."""
    n = 100_000
    _, g = cut(loss, np.zeros(n), np.arange(n) / n, np.full(n, 1.0 / n), True)
    assert abs(math.fsum(g)) <= 1e-18


@pytest.mark.parametrize("key", WITH_INTERCEPT)
@pytest.mark.parametrize("far", [0.0, 1e5])
def test_constant_scores_and_targets(key, far):
    """All samples tied, as with a matrix of zeros: the best b fits them, and the plane is 0."""
    loss = TABLE[key]
    scores, y, weights, _ = draw(key, 6)
    constant = np.full_like(scores, 3.0 + far)
    plane, g = cut(loss, np.zeros_like(scores), constant, weights, True)
    assert plane.risk == pytest.approx(0.0, abs=1e-25 * (1.0 + far))  # squares of rounding
    np.testing.assert_allclose(g, 0.0, atol=1e-17)
    plane, g = cut(loss, np.zeros_like(scores), y, weights, True)
    assert_balanced(g)
    assert plane.offset == pytest.approx(plane.risk, rel=1e-13)


@pytest.mark.parametrize("key", WITH_INTERCEPT)
@pytest.mark.parametrize("n", [1, 2])
def test_few_samples(key, n):
    scores, y, weights, _ = draw(key, 7, n=n)
    plane, g = cut(TABLE[key], scores, y, weights, True)
    assert_balanced(g)
    assert plane.offset + np.sum(g * scores) == pytest.approx(plane.risk, abs=1e-13)
    assert n == 2 or plane.risk == pytest.approx(0.0, abs=1e-15)


@every_built_in
def test_inputs_are_not_written_to(key):
    scores, y, weights, rng = draw(key, 8)
    direction = rng.normal(size=scores.shape)
    inputs = [a for a in (scores, y, weights, direction) if a is not None]
    for array in inputs:
        array.flags.writeable = False
    cut(TABLE[key], scores, y, weights, key != "novelty")
    TABLE[key].line_search(scores, direction, y, weights, -1.0, 1.0, np.empty((4, 40)))


def test_quantile_of_many_ties_keeps_its_share():
    """A third of the samples are tied at the quantile; the weight below it is at most tau."""
    y = np.repeat([0.0, 1.0, 2.0], 100)
    weights = np.full(300, 1 / 300)
    plane, g = cut(Quantile(0.4), np.zeros(300), y, weights, True)
    assert plane.intercept == 1.0
    np.testing.assert_allclose(g[y == 1.0], (0.4 - 0.6) / 3 / 100 * np.ones(100), atol=1e-16)


@pytest.mark.parametrize("quantile", [1e-17, 1e-9, 1 - 1e-9, 1 - 1e-16])
def test_extreme_quantiles_have_a_finite_intercept(quantile):
    scores, y, weights, _ = draw("quantile", 9)
    b = Quantile(quantile).intercept(scores, y, weights, np.empty((4, 40)))
    end = (y - scores).min() if quantile < 0.5 else (y - scores).max()
    assert b == end


def test_huber_plane_is_finer_than_the_floats_of_its_intercept():
    """A best b near 1e10 moves in steps of 2e-6; outliers would magnify slopes that are as far off.

    The plane meets the risk all the same.
    """
    rng = np.random.default_rng(0)
    y = 1e10 + np.r_[rng.normal(size=100), np.full(7, -2e10), np.full(3, 1e10)]
    plane, g = cut(Huber(1.0), np.zeros(110), y, np.full(110, 1 / 110), True)
    assert_balanced(g)
    assert plane.offset == pytest.approx(plane.risk, rel=1e-12)


@pytest.mark.parametrize("seed", range(10))
def test_huber_far_residuals_fall_back_on_bisection(seed):
    """Residuals of 1e14 delta, where selection rounds away delta: nearly the absolute error."""
    rng = np.random.default_rng(seed)
    y, weights = 1e14 * rng.standard_cauchy(20), rng.random(20) + 0.1
    weights /= weights.sum()
    plane, g = cut(Huber(1.0), np.zeros(20), y, weights, True)
    least, _ = cut(AbsoluteError(), np.zeros(20), y, weights, True)
    assert plane.risk == pytest.approx(least.risk, rel=1e-13)
    assert_balanced(g)


def test_poisson_close_to_the_targets_keeps_digits():
    """half deviance = y (e^2/2 + e^3/6 + ...) for f = log(y) + e"""
    y, e = np.array([3.0, 1e5, 1e-3]), np.array([1e-5, -1e-6, 1e-4])
    weights = np.full(3, 1 / 3)
    expected = weights @ (y * (e**2 / 2 + e**3 / 6 + e**4 / 24))
    # a rounding of f = 11.5 by 1e-15 is 1e-9 of e
    assert Poisson().risk(np.log(y) + e, y, weights, 0.0) == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("off", [1e-8, 1e-4, 0.1, 3.0])
def test_poisson_planes_close_to_the_targets_keep_digits(off):
    """The offset is ``-sum_i s_i l*(u_i)`` of the slopes u to 50 digits, as exact as u log(y)."""
    y, weights = np.array([1e5, 1e-3, 7.0, 0.0]), np.full(4, 0.25)
    scores = np.append(np.log(y[:3]) + off * np.array([1.0, -1.0, 0.5]), -30.0)
    plane, g = cut(Poisson(), scores, y, weights, False)
    u = 4.0 * g
    with localcontext(prec=50):
        targets = [Decimal(t) for t in y.tolist()]
        means = [t + Decimal(v) for t, v in zip(targets, u.tolist(), strict=True)]
        terms = sum(m * m.ln() - m for m in means), sum(t * t.ln() - t for t in targets if t)
        exact = (terms[1] - terms[0]) / 4
    size = np.abs(u[:3] * np.log(y[:3])).sum()
    assert plane.offset == pytest.approx(float(exact), rel=0.0, abs=1e-15 * size)


def test_poisson_overflow_is_an_infinite_risk():
    scores, y, weights = np.array([0.0, 1e4]), np.array([1.0, 0.0]), np.array([0.5, 0.5])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for loss in (Poisson(), GENERIC["poisson"]):
            assert cut(loss, scores, y, weights, False)[0].risk == np.inf
            assert loss.mean(scores)[1] == np.inf
            t = loss.line_search(np.zeros(2), scores, y, weights, -1e5, 0.0, np.empty((4, 2)))
            assert t == pytest.approx(np.log(20.0) / 1e4, rel=1e-6)  # 5e3 exp(1e4 t) = 1e5
        far, _ = cut(Poisson(), scores, y, weights, True)
    assert far.intercept == pytest.approx(-1e4)
    assert np.isfinite(far.risk)


def test_mean_is_the_inverse_link():
    scores = np.array([-1.0, 0.0, 2.0])
    np.testing.assert_allclose(Poisson().mean(scores), np.exp(scores), rtol=1e-15)
    for key in ("squared_error", "huber", "quantile"):
        np.testing.assert_array_equal(TABLE[key].mean(scores), scores)


@pytest.mark.parametrize(
    ("loss", "y", "message"),
    [
        (Quantile(0.0), None, "quantile must be above 0 and below 1, but is 0.0"),
        (Quantile(1.5), None, "quantile must be above 0 and below 1, but is 1.5"),
        (Quantile("half"), None, "quantile must be .* but is 'half'"),
        (EpsilonInsensitive(-0.1), None, "epsilon must be at least 0 .* but is -0.1"),
        (EpsilonInsensitive(np.nan), None, "epsilon must be at least 0 .* but is nan"),
        (SquaredEpsilonInsensitive(-0.1), None, "epsilon must be at least 0 .* but is -0.1"),
        (Huber(0.0), None, "delta must be above 0 and finite, but is 0.0"),
        (Huber(np.inf), None, "delta must be above 0 and finite, but is inf"),
        (Novelty(0.0), None, "rho must be above 0 and finite, but is 0.0"),
        (Poisson(), np.array([1.0, -2.0]), "y must not be negative .* has a value -2.0"),
        (Poisson(), np.zeros(2), "y must have a value above 0 .* is all 0"),
        (MultivariateSquaredError(), np.zeros(2), "needs y of shape .n_samples, n_targets.*"),
        (MultivariateSquaredError(M), np.zeros((4, 2)), r"M must have shape .2, 2., as y has 2"),
        (MultivariateSquaredError([1.0]), np.zeros((4, 1)), r"M must have shape .1, 1."),
        (MultivariateSquaredError([[1, 2], [0, 1]]), np.zeros((4, 2)), "M must be symmetric"),
        (MultivariateSquaredError([[1, 2], [2, 1]]), np.zeros((4, 2)), "eigenvalue -1"),
        (MultivariateSquaredError([[np.nan]]), np.zeros((4, 1)), "M must be finite"),
    ],
)
def test_check_names_what_is_wrong(loss, y, message):
    with pytest.raises(ValueError, match=message):
        loss.check(np.ones(3) if y is None else y)


@every_built_in
def test_check_passes_and_instances_are_cloned_and_pickled(key):
    scores, y, _, _ = draw(key, 10)
    loss = TABLE[key]
    loss.check(y)
    for copy in (clone(loss, safe=False), pickle.loads(pickle.dumps(loss))):
        assert type(copy) is type(loss)
        np.testing.assert_array_equal(copy.value(scores, y), loss.value(scores, y))


@pytest.mark.parametrize("key", [k for k in TABLE if k != "multivariate_squared_error_singular"])
def test_reference_optimum_has_no_better_neighbor(key):
    """No w and b drawn around clarabel's is better, and its b is the loss's best intercept."""
    X, y, weights = reference_regression.drawn()
    name, parameters = name_of(key), BUILT_IN[key][1]
    if name == "novelty":
        y = None
    elif name == "poisson":
        y = np.round(np.abs(y))
    elif name == "multivariate_squared_error":
        y = np.c_[y, X[:, 0] - y, y**2]
    w, b, best = solution(name, X, y, weights, 0.1, name != "novelty", **parameters)
    plane, _ = cut(TABLE[key], X @ w, y, weights, name != "novelty")
    assert plane.risk == pytest.approx(best - 0.05 * np.sum(w * w), rel=1e-7)
    np.testing.assert_allclose(plane.intercept, b, atol=1e-3)
    rng = np.random.default_rng(12)
    for scale in 10.0 ** -np.arange(5):
        other = w + scale * rng.normal(size=w.shape)
        shift = 0.0 if name == "novelty" else scale * rng.normal(size=np.shape(b))
        there = objective(name, X, y, weights, 0.1, other, b + shift, **parameters)
        assert best <= there + 1e-9 * abs(best)


@pytest.mark.parametrize("score", [-6e16, -1e6, -50.0, -5.0, -1.01, 0.99, 1.01, 3.0, 30.0])
def test_planes_of_poisson_far_from_the_target(score):
    """The offset is finite however low a score is: terms of its size must not cancel."""
    loss = score_loss(Poisson())
    assert loss is not None
    y, weight, out = np.array([3.0]), np.ones(1), np.empty(1)
    offset = loss.smoothed_cut(np.array([score]), y, weight, 1.0, 0.0, False, out)[1]
    assert offset == pytest.approx(loss.offset(out, y, weight, 0.0), rel=1e-13)
