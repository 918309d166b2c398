"""References in decimals: equations solved in fractions, and any point knows how far it may be."""

from fractions import Fraction

import numpy as np
import pytest

from tests import reference_programme as programmes
from tests.reference_digits import Digits, decimals, longs
from tests.reference_programme import LONG

SHAPES = "plain", "one row", "one column", "one of a class", "constant", "large", "one weight"
RISKS = {
    "squared": programmes.Squared,
    "squared hinge": programmes.SquaredHinge,
    "exponential": programmes.Exponential,
    "logistic": programmes.Logistic,
    "poisson": programmes.Poisson,
    "huber": lambda s, y: programmes.Huber(s, y, 0.5),
    "tube": lambda s, y: programmes.SquaredTube(s, y, 0.25),
}
OF_SIGNS = "squared hinge", "exponential", "logistic"


def drawn(name, shape, seed=0):
    """Rows, and the risk with its targets and weights."""
    rng = np.random.default_rng(seed)
    n, d = {"one row": (1, 3), "one column": (12, 1)}.get(shape, (12, 3))
    X = rng.normal(size=(n, d)) + 1.0
    if shape == "constant":
        X[:, 1] = 7.0
    elif shape == "large":
        X[:, 0] *= 8e9
    y = np.where(np.arange(n) == 0, 1.0, -1.0) if shape == "one of a class" else np.sign(X[:, -1])
    if name not in OF_SIGNS:
        y = np.floor(3.0 * rng.random(n)) + 1.0
    weights = np.where(np.arange(n) < 1, 1.0, 0.0) if shape == "one weight" else rng.random(n) + 0.1
    return X.astype(LONG), RISKS[name](weights.astype(LONG) / LONG(weights.sum()), y.astype(LONG))


def balanced(risk):
    """Whether there is a best intercept: both classes have weight."""
    return len(set(risk.y[risk.weights > 0].ravel())) > 1 or not isinstance(
        risk, programmes.Exponential | programmes.Logistic
    )


@pytest.mark.parametrize("name", RISKS)
def test_derivatives_are_those_of_the_losses(name):
    X, risk = drawn(name, "plain")
    f, h = 2.0 * X[:, 0] - 1.0, LONG(1e-6)
    with np.errstate(all="raise"):
        first, second = risk.derivatives(f)
        ahead, behind = risk.derivatives(f + h)[0], risk.derivatives(f - h)[0]
    slopes = (risk.loss(f + h) - risk.loss(f - h)) / (2 * h)
    np.testing.assert_allclose(np.asarray(first - slopes, float), 0.0, atol=1e-6)
    np.testing.assert_allclose(np.asarray((ahead - behind) / (2 * h) - second, float), 0, atol=1e-6)


@pytest.mark.parametrize("free", [True, False])
@pytest.mark.parametrize("shape", SHAPES)
def test_squared_errors_in_fractions(shape, free):
    X, risk = drawn("squared", shape)
    found = Digits(X, risk, np.eye(X.shape[1]), 1e-3, free).optimum(0 * X[0], LONG(0))
    exact = in_fractions(np.c_[X, np.ones(len(X))] if free else X, risk, 1e-3, X.shape[1])
    off = np.linalg.norm([float(fraction(a) - b) for a, b in zip(found.w, exact, strict=False)])
    assert off <= found.apart <= 1e-12 * (1 + np.linalg.norm(found.w.astype(float)))
    if free:
        longest = np.linalg.norm(X.astype(float), axis=1).max()
        assert abs(float(fraction(found.b) - exact[-1])) <= found.shift + found.apart * longest


def fraction(value):
    return Fraction(float(value)) + Fraction(float(value - LONG(float(value))))


def in_fractions(Z, risk, reg_lambda, d):
    """By Gauss' method on the normal equations."""
    Z, s, y = ([[fraction(v) for v in row] for row in np.atleast_2d(a)]
               for a in (Z, risk.weights, risk.y.T))  # fmt: skip
    rows, p = list(zip(Z, s[0], y[0], strict=True)), len(Z[0])
    A = [[sum(w * z[i] * z[j] for z, w, _ in rows) for j in range(p)] for i in range(p)]
    b = [sum(w * z[i] * t for z, w, t in rows) for i in range(p)]
    for i in range(d):
        A[i][i] += Fraction(reg_lambda)
    for k in range(p):
        for i in range(p):
            if i != k:
                share = A[i][k] / A[k][k]
                A[i] = [a - share * c for a, c in zip(A[i], A[k], strict=True)]
                b[i] -= share * b[k]
    return [b[k] / A[k][k] for k in range(p)]


@pytest.mark.parametrize("free", [True, False])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", RISKS)
def test_any_point_knows_how_far_it_may_be(name, shape, free):
    """Other points than the optimum, too, and not much farther than they are."""
    X, risk = drawn(name, shape)
    if free and not balanced(risk):
        return
    digits, rng = Digits(X, risk, np.eye(X.shape[1]), 0.1, free), np.random.default_rng(1)
    best = digits.optimum(0 * X[0], LONG(0))
    length = np.linalg.norm(best.w.astype(float))
    assert best.apart <= 1e-12 * length + 1e-24
    for off in (1.0, 1e-3, 1e-9, 1e-15):
        moved = best.w * (1 + LONG(off) * rng.normal(size=len(best.w)))
        b = best.b + LONG(off) * rng.normal() * free
        found = digits.proved(decimals(np.r_[moved, b][: len(digits.bend)]))
        apart = np.linalg.norm((moved - best.w).astype(float))
        assert found.apart >= apart * (1 - 1e-9) - best.apart
        if free and not apart:
            assert abs(found.b - best.b) <= found.shift + best.shift


@pytest.mark.parametrize("name", OF_SIGNS)
def test_exponentials_of_large_columns_have_all_digits(name):
    """Where long double knew 1e-10 of the scores, and said 1e-18."""
    X, risk = drawn(name, "large")
    digits = Digits(X, risk, np.eye(3), 1e-4, True)
    found = digits.optimum(0 * X[0], LONG(0))
    again = digits.optimum(found.w * (1 + LONG(1e-4)), found.b)
    scores = [(X @ one.w + one.b).astype(float) for one in (found, again)]
    assert np.abs(scores[0] - scores[1]).max() <= 1e-17 * (1 + np.abs(scores[0]).max()) * 8
    assert found.apart < 1e-12 * np.linalg.norm(found.w.astype(float)) and found.shift < 1e-12


def test_long_doubles_stay_what_they_are():
    values = np.array([1, 1e-300, -1e8, 0], LONG) / 3
    assert (longs(decimals(values)) == values).all()
