"""Every loss in the table, built in or not, keeps the contract of BinaryLoss."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from sklearn_bundle.losses import BINARY_LOSSES, BinaryLoss
from tests.contract.user_losses import USERS, AbsoluteMargin
from tests.reference import LOSSES


def generic(name):
    """The built-in loss with the fallbacks of the base class, from value and gradient alone."""
    loss = BINARY_LOSSES[name]()
    names = ["value", "gradient"] + ["curvature"] * (name in ("log_loss", "exponential"))
    members = {method: staticmethod(getattr(loss, method)) for method in names}
    if name == "log_loss":
        members["probability"] = staticmethod(loss.probability)
    return type(f"Generic_{name}", (BinaryLoss,), members)()


TABLE = (
    {name: loss() for name, loss in BINARY_LOSSES.items()}
    | {f"generic_{name}": generic(name) for name in BINARY_LOSSES}
    | USERS
)
every_loss = pytest.mark.parametrize("loss", TABLE.values(), ids=TABLE)


def draw(seed, n=40, decimals=None):
    """Scores, labels of both classes and weights summing to one; rounded scores have ties."""
    rng = np.random.default_rng(seed)
    scores = 2.0 * rng.normal(size=n)
    if decimals is not None:
        scores = np.round(scores, decimals)
    y = np.where(rng.random(n) < 0.4, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    weights = rng.random(n) + 0.1
    return scores, y, weights / weights.sum(), rng


def cut(loss, scores, y, weights, fit_intercept):
    out = np.empty(len(y))
    return loss.cut(scores, y, weights, fit_intercept, out, np.empty((4, len(y)))), out


@pytest.mark.parametrize("name", BINARY_LOSSES)
def test_formula(name):
    scores, y, _, _ = draw(0)
    np.testing.assert_allclose(TABLE[name].value(scores, y), LOSSES[name](y * scores), rtol=1e-14)


@every_loss
def test_gradient_by_differences(loss):
    scores, y, _, _ = draw(1)
    step = 1e-6
    difference = (loss.value(scores + step, y) - loss.value(scores - step, y)) / (2 * step)
    # second-order differences: step^2 times the third derivative, and rounding / step
    np.testing.assert_allclose(loss.gradient(scores, y), difference, atol=1e-7)


@every_loss
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("decimals", [None, 0])
def test_cut_is_a_plane_below_the_risk(loss, fit_intercept, decimals):
    scores, y, weights, rng = draw(2, decimals=decimals)
    plane, g = cut(loss, scores, y, weights, fit_intercept)
    assert plane.offset + g @ scores == pytest.approx(plane.risk, abs=1e-13)
    if fit_intercept:
        assert abs(g.sum()) <= 1e-15
    for scale in (0.01, 1.0, 10.0):
        for _ in range(50):
            other = scores + scale * rng.normal(size=len(y))
            b = scale * rng.normal() if fit_intercept else 0.0
            risk = weights @ loss.value(other + b, y)
            assert plane.offset + g @ other <= risk + 1e-13 * max(1.0, risk)


@every_loss
@given(seed=st.integers(0, 2**32 - 1), decimals=st.sampled_from([None, 0, 1]))
@settings(deadline=None, max_examples=40)
def test_intercept_is_the_best(loss, seed, decimals):
    scores, y, weights, _ = draw(seed, n=25, decimals=decimals)
    plane, _ = cut(loss, scores, y, weights, True)
    assert plane.risk == pytest.approx(weights @ loss.value(scores + plane.intercept, y), rel=1e-12)
    other = minimize_scalar(
        lambda b: weights @ loss.value(scores + b, y), bounds=(-20, 20), options={"xatol": 1e-10}
    )
    assert plane.risk <= other.fun + 1e-12


@every_loss
@given(seed=st.integers(0, 2**32 - 1), decimals=st.sampled_from([None, 0]))
@settings(deadline=None, max_examples=40)
def test_line_search_is_exact(loss, seed, decimals):
    scores, y, weights, rng = draw(seed, n=25, decimals=decimals)
    direction = rng.normal(size=25)
    slope, curvature = -rng.random(), rng.random() + 0.01

    def along(t):
        return slope * t + 0.5 * curvature * t * t + weights @ loss.value(scores + t * direction, y)

    t = loss.line_search(scores, direction, y, weights, slope, curvature, np.empty((4, 25)))
    other = minimize_scalar(along, bounds=(0.0, 200.0), options={"xatol": 1e-10})
    assert t >= 0.0
    # Newton stops when the slope has fallen by 1e-8: second order in the value
    assert along(t) <= min(other.fun, along(0.0)) + 1e-10


@every_loss
def test_uphill_gives_a_zero_step(loss):
    scores, y, weights, _ = draw(3)
    scratch = np.empty((4, len(y)))
    assert loss.line_search(scores, -y, y, weights, 0.0, 0.1, scratch) == 0.0


@every_loss
def test_integer_weights_repeat_rows(loss):
    scores, y, _, rng = draw(4, decimals=1)
    counts = rng.integers(1, 4, size=len(y))
    weights = counts / counts.sum()
    repeated = np.full(counts.sum(), 1.0 / counts.sum())
    plane, _ = cut(loss, scores, y, weights, True)
    again, _ = cut(loss, scores.repeat(counts), y.repeat(counts), repeated, True)
    assert plane.risk == pytest.approx(again.risk, rel=1e-13)
    assert plane.intercept == pytest.approx(again.intercept, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("name", BINARY_LOSSES)
def test_compiled_equals_generic(name):
    scores, y, weights, _ = draw(5)
    for fit_intercept in (False, True):
        compiled, g = cut(TABLE[name], scores, y, weights, fit_intercept)
        fallback, h = cut(TABLE[f"generic_{name}"], scores, y, weights, fit_intercept)
        assert compiled.risk == pytest.approx(fallback.risk, rel=1e-13)
        if name != "hinge":  # where the best b is not unique, neither is the plane
            np.testing.assert_allclose(g, h, atol=1e-14)


def test_far_margins_do_not_overflow():
    loss, y = TABLE["log_loss"], np.array([1.0, -1.0])
    plane, g = cut(loss, np.array([-1e5, -1e5]), y, np.array([0.5, 0.5]), False)
    assert plane.risk == pytest.approx(5e4)
    assert np.isfinite(g).all()


def test_wrong_shape_is_named():
    class Wrong(AbsoluteMargin):
        def gradient(self, scores, y):
            return 0.0

    scores, y, weights, _ = draw(6)
    with pytest.raises(ValueError, match=r"Wrong.gradient must return .* shape \(40,\)"):
        cut(Wrong(), scores, y, weights, False)


def test_missing_method_is_named():
    class Half(BinaryLoss):
        def value(self, scores, y):
            return scores

    with pytest.raises(TypeError, match=r"abstract method '?gradient"):
        Half()
