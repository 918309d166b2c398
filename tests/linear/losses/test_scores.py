"""Each function of a loss of one score against the others, for every loss in the tables.

A new loss is found by its name; fits by every solver that takes it check its functions together.
``LogCosh`` stands for one: it has all functions that the guide on adding losses asks for.
"""

import warnings

import numpy as np
import pytest
from log_cosh import LogCosh  # in examples/losses
from scipy.optimize import minimize, minimize_scalar

from sklearn_bundle import BMRMClassifier, BMRMRegressor
from sklearn_bundle.linear._compiled import coordinate
from sklearn_bundle.linear._compiled import scores as loops
from sklearn_bundle.linear.losses.scores import ScoreLoss, score_loss
from sklearn_bundle.linear.regularizers import L2
from sklearn_bundle.linear.solvers.linear_auto import SOLVERS, supports
from sklearn_bundle.losses import (
    BINARY_LOSSES,
    REGRESSION_LOSSES,
    BinaryLoss,
    Hinge,
    Huber,
    LogLoss,
    MulticlassHinge,
    MulticlassLoss,
    MultivariateSquaredError,
    Softmax,
    SquaredError,
)
from tests.contract import user_losses
from tests.reference_regression import drawn

STEP = 1e-5  # of differences: their errors are its square, and rounding over it


LOSSES = {
    name: kind()
    for name, kind in (BINARY_LOSSES | REGRESSION_LOSSES).items()
    if isinstance(kind(), ScoreLoss)
} | {"log_cosh": LogCosh()}
SMOOTH = [name for name, loss in LOSSES.items() if loss.smooth]
STEPS = [name for name, loss in LOSSES.items() if loss.has_dual_steps]
every_loss = pytest.mark.parametrize("name", LOSSES)


def rows(name, seed=0, n=200):
    """Scores and targets, away from kinks by far more than the step."""
    rng = np.random.default_rng(seed)
    f = 2.0 * rng.normal(size=n)
    if name in BINARY_LOSSES:
        return f, np.where(rng.random(n) < 0.4, 1.0, -1.0)
    return f, rng.poisson(2.0, n) + (0.0 if name == "poisson" else 0.3 * rng.normal(size=n))


def at(name, loop, f, y, *further):
    out = np.empty(len(f))
    loop(LOSSES[name].formula(), f, y, *further, out)
    return out


def slopes_at(name, f, y, steepness):
    out = np.empty(len(f))
    formula, ones = LOSSES[name].formula(), np.ones(len(f))
    loops.cut(formula, f, y, ones, steepness, 0.0, 0.0, 0.0, out)
    return out


def test_all_losses_of_one_score_are_in_the_tables():
    assert set(BINARY_LOSSES) <= set(LOSSES) and set(REGRESSION_LOSSES) <= set(LOSSES)
    assert all(score_loss(loss) is loss for loss in LOSSES.values())


@every_loss
def test_slopes_are_differences_of_values(name):
    f, y = rows(name)
    difference = at(name, loops.values, f + STEP, y) - at(name, loops.values, f - STEP, y)
    slopes = slopes_at(name, f, y, np.inf)
    np.testing.assert_allclose(slopes, difference / (2.0 * STEP), rtol=1e-6, atol=1e-6)
    assert (at(name, loops.values, f, y) >= 0.0).all()


@every_loss
@pytest.mark.parametrize("steepness", [1.0, 5.0])
def test_curvatures_are_differences_of_slopes(name, steepness):
    f, y = rows(name)
    slopes = [slopes_at(name, f + t, y, steepness) for t in (STEP, -STEP)]
    bends = at(name, loops.curvatures, f, y, steepness)
    np.testing.assert_allclose(bends, (slopes[0] - slopes[1]) / (2.0 * STEP), rtol=1e-5, atol=1e-5)


@every_loss
@pytest.mark.parametrize("steepness", [1.0, np.inf])
def test_conjugates_and_heights(name, steepness):
    """Fenchel: ``l*(u) >= u f - l(f)`` at all f; equal where u is the slope."""
    if steepness == 1.0 and name not in SMOOTH:
        pytest.skip("slopes of the smoothed loss belong to other scores")
    f, y = rows(name)
    center = 0.0 if name in BINARY_LOSSES else 0.7  # labels are not counted from elsewhere
    u, values = slopes_at(name, f, y, steepness), at(name, loops.values, f, y)
    weight, out = np.ones(1), np.empty(1)
    for i in range(len(f)):
        part = slice(i, i + 1)
        conjugate = -LOSSES[name].offset(u[part], y[part], weight, 0.0)
        assert conjugate == pytest.approx(u[i] * f[i] - values[i], rel=1e-9, abs=1e-9)
        others = at(name, loops.values, f, np.full(len(f), y[i]))
        assert (conjugate >= u[i] * f - others - 1e-9).all()
        args = f[part], y[part], weight, steepness, 0.0, 0.0, center, out
        offset = loops.cut(LOSSES[name].formula(), *args)[1]
        assert offset == pytest.approx(center * u[i] - conjugate, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("p", [1e-30, 6e-17, 1.2e-16, 1e-12, 1e-3, 0.3, 0.5])
def test_entropies_of_small_probabilities(p):
    """All of a risk of 1e-15 is in them: 1 - p of a p of 6e-17 would be twice as far from 1."""
    entropy = -p * np.log(p) - (1.0 - p) * np.log1p(-p)
    one = np.ones(1)
    for label in (-one, one):
        offset = LOSSES["log_loss"].offset(-p * label, label, one, 0.0)
        assert offset == pytest.approx(entropy, rel=1e-14, abs=0.0)


@pytest.mark.parametrize("name", STEPS)
def test_a_dual_step_is_the_best_and_its_gain_is_its_own(name):
    """Of the dual in one alpha: ``-s l*(-y alpha / s)`` less the quadratic term."""
    loss, formula = LOSSES[name], LOSSES[name].formula()
    f, y = rows(name, 1, 40)
    weight, curvature = 0.3, 2.0
    for i in range(len(f)):
        one, target = np.full(1, weight), y[i : i + 1]
        toward = float(loss.direction(target)[0])
        low, high = (float(np.max(bound)) for bound in loss.bounds(target, one))
        low, high = max(low, -5.0), min(high, 5.0)
        alpha = low + (0.2 + 0.015 * i) * (high - low)

        def dual(new, target=target, one=one, toward=toward, i=i, alpha=alpha):
            change = new - alpha
            plane = loss.offset(np.full(1, -toward * new), target, one, 0.0)
            return plane - change * (toward * f[i] + 0.5 * curvature * change)

        new, gain = stepped(formula, y[i], f[i], alpha, weight, curvature)
        best = minimize_scalar(
            lambda a: -dual(a), bounds=(low, high), method="bounded", options={"xatol": 1e-12}
        )
        assert dual(new) >= -best.fun - 1e-10
        assert gain == pytest.approx(dual(new) - dual(alpha), rel=1e-8, abs=1e-12)


def stepped(formula, target, score, alpha, weight, curvature):
    """alpha after an epoch over one row with this score, and the gain of the dual."""
    row, active = np.array([target, weight, curvature, alpha]), np.zeros(1, dtype=np.int64)
    none = np.zeros(0, np.uint32), np.zeros(0, np.uint64)
    args = row, active, 1, 1, np.zeros(1, dtype=np.int64), False, formula, np.array([score])
    limits, seed = (np.inf, np.inf), np.array([7], dtype=np.uint64)
    gained = coordinate.epoch(np.ones(1), *none, 1, *args, 1.0, *limits, 0.0, 0.0, seed)[4]
    return row[coordinate.ALPHA], gained


@pytest.mark.parametrize(
    "name, solver",
    [
        (name, solver)
        for name, loss in LOSSES.items()
        for solver in ("auto", *(s for s in SOLVERS if supports(s, loss, L2())))
    ],
)
def test_every_solver_that_takes_a_loss_finds_its_optimum(name, solver):
    """Above all bounds and below all objectives is that of the values alone, by Nelder and Mead."""
    X, y, weights = drawn()
    X = X[:, :2]
    kind, y = targets(name, y)
    fitted = kind(LOSSES[name], solver=solver, reg_lambda=0.1, tol=1e-7, max_iter=20_000)
    fitted.fit(X, y, weights)
    assert fitted.converged_
    labels = np.where(y > 0.0, 1.0, -1.0) if name in BINARY_LOSSES else y

    def objective(x):
        return 0.05 * x[:2] @ x[:2] + weights @ LOSSES[name].value(X @ x[:2] + x[2], labels)

    start = np.r_[np.ravel(fitted.coef_), fitted.intercept_] + 0.01
    options = {"xatol": 1e-9, "fatol": 1e-13, "maxfev": 4000}
    best = minimize(objective, start, method="Nelder-Mead", options=options).fun
    assert fitted.objective_ == pytest.approx(objective(start - 0.01), rel=1e-12)
    assert fitted.lower_bound_ <= best * (1.0 + 1e-12)
    assert fitted.objective_ <= best * (1.0 + 1.1e-7)


def targets(name, y):
    """Estimator and targets for a loss."""
    if name in BINARY_LOSSES:
        return BMRMClassifier, (y > 2.0).astype(float)
    return BMRMRegressor, np.round(np.abs(y)) if name == "poisson" else y


@pytest.mark.parametrize("size", [1e-9, 1.0, 1e9])
def test_log_cosh_is_what_a_user_would_write(size):
    f, y = rows("log_cosh")
    f, y = size * f, size * y
    own = user_losses.LogCosh()
    np.testing.assert_allclose(LogCosh().value(f, y), own.value(f, y), rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(LogCosh().gradient(f, y), own.gradient(f, y), atol=1e-15)
    exact = np.abs(f - y) < 1e-5  # r^2 / 2, of which a user's formula has no digit left
    half = 0.5 * (f - y)[exact] ** 2
    np.testing.assert_allclose(LogCosh().value(f, y)[exact], half, rtol=1e-6)


SHAPES = {
    "one row": (np.ones((1, 3)), np.array([2.0]), None),
    "one column": (np.arange(9.0)[:, None], np.arange(9.0) % 4, None),
    "a constant column": (np.c_[np.ones(9), np.arange(9.0) % 4], np.arange(9.0), None),
    "one weight": (np.eye(3), np.arange(3.0), np.array([0.0, 1.0, 0.0])),
    "columns of 1e8": (1e8 * np.random.default_rng(1).normal(size=(30, 2)), np.arange(30.0), None),
    "targets of 1e8": (np.random.default_rng(1).normal(size=(30, 2)), 1e8 + np.arange(30.0), None),
}


@pytest.mark.parametrize("solver", ["auto", "newton", "lbfgs", "dual-coordinate", "line-search"])
@pytest.mark.parametrize("shape", SHAPES)
def test_plain_shapes_of_a_loss_with_all_functions(shape, solver):
    X, y, weights = SHAPES[shape]
    model = BMRMRegressor(LogCosh(), solver=solver, reg_lambda=0.1, max_iter=5000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of regularization that is too strong, and of epochs
        model.fit(X, y, weights)
    s = np.full(len(y), 1.0 / len(y)) if weights is None else weights / weights.sum()
    residuals = (X @ model.coef_ - y) + model.intercept_
    penalty = 0.05 * model.coef_ @ model.coef_
    risk = s @ user_losses.LogCosh().value(residuals, np.zeros(len(y)))
    assert model.objective_ == pytest.approx(penalty + risk, rel=1e-6, abs=1e-14)
    assert model.lower_bound_ <= model.objective_
    # Of a perfect fit only rounding is left; epochs are many where regularization is weak.
    assert model.converged_ or model.objective_ < 1e-14 or solver == "dual-coordinate"


class _Half:
    """Half the values of the next class."""

    def value(self, scores, y):
        return 0.5 * super().value(scores, y)

    def gradient(self, scores, y):
        return 0.5 * super().gradient(scores, y)


def half_of(kind, mixed):
    """A subclass with half the values, of its own or of a mixin."""
    if mixed:
        return type("Half", (_Half, kind), {})()

    class Half(kind):
        def value(self, scores, y):
            return 0.5 * super().value(scores, y)

        def gradient(self, scores, y):
            return 0.5 * super().gradient(scores, y)

    return type("Child", (Half,), {})()


@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize(
    "kind",
    [Hinge, LogLoss, Softmax, MulticlassHinge, Huber, SquaredError, MultivariateSquaredError],
)
def test_a_subclass_with_other_values_is_another_loss(kind, mixed):
    """Nothing that the package knew of the old ones is left: its fit is that of a user's loss."""
    X, y, _ = drawn()
    Y = np.column_stack([y + 3.0, 1.0 - 0.5 * y + X[:, 0] ** 2])
    estimator, target = BMRMRegressor, Y
    if issubclass(kind, (BinaryLoss, MulticlassLoss)):
        estimator, target = BMRMClassifier, np.digitize(y, np.quantile(y, [0.3, 0.7]))
    half = estimator(half_of(kind, mixed), reg_lambda=0.1, tol=1e-4, max_iter=5000).fit(X, target)
    whole = estimator(kind(), reg_lambda=0.2, tol=1e-6).fit(X, target)
    assert score_loss(half.loss) is None and half.converged_
    objective = np.sum(whole.objective_)
    assert np.sum(half.objective_) == pytest.approx(0.5 * objective, rel=1e-3)
    assert np.sum(half.lower_bound_) <= 0.5 * objective * (1.0 + 1e-12)


@pytest.mark.parametrize("size", [1.0, 1e6, 1e12, 1e15, 1e17])
def test_planes_of_a_users_hinge_far_from_the_solution(size):
    """Risk and products are of that size: rounding of their difference must not lift the plane."""

    class Own(BinaryLoss):
        def value(self, scores, y):
            return np.maximum(0.0, 1.0 - y * scores)

        def gradient(self, scores, y):
            return np.where(y * scores < 1.0, -y, 0.0)

    for seed in range(20):
        rng = np.random.default_rng(seed)
        f, y = size * rng.normal(size=40), np.where(rng.random(40) < 0.5, 1.0, -1.0)
        out, weights = np.empty(40), np.full(40, 1.0 / 40.0)
        offset = Own().cut(f, y, weights, False, out, np.empty((4, 40))).offset
        exact = float(weights @ (y * f < 1.0))
        assert exact - 1e-14 * size <= offset <= exact
