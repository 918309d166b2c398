"""A fit with a reg_lambda that leaves next to nothing of w warns; one that does not, does not."""

import re
import warnings

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.preprocessing import scale

from sklearn_bundle import BMRMClassifier, BMRMRegressor, reg_lambda_max
from sklearn_bundle.linear.estimators import _bundle
from sklearn_bundle.linear.problems.largest import largest_useful
from sklearn_bundle.linear.problems.linear import LinearProblem
from sklearn_bundle.linear.rows.memory_rows import rows_in_memory
from sklearn_bundle.losses import (
    AbsoluteError,
    Hinge,
    LogLoss,
    Prepared,
    SquaredError,
    SquaredHinge,
)
from sklearn_bundle.regularizers import L2

LOSSES = "squared_error", "absolute_error", "quantile", "epsilon_insensitive", "huber"


def numbers(model, X, y):
    """Both numbers of the warning; None without one."""
    with warnings.catch_warnings(record=True) as record:
        warnings.simplefilter("always")
        model.fit(X, y)
    texts = [str(w.message) for w in record if "w is nearly 0" in str(w.message)]
    assert all(w.filename == __file__ for w in record)
    if not texts:
        return None
    (text,) = texts
    values = re.search(r"reg_lambda=(\S+) is over a third of .* these data, (\S+)\. Use", text)
    return tuple(map(float, values.groups()))


def signal(n=200, d=4, noise=1.0, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = X @ rng.normal(size=d) + noise * rng.normal(size=n)
    return X, (y - y.mean()) / y.std()


def useful(loss, X, y, free=True):
    """The largest useful value of L2, from the problem itself."""
    X, y = np.asarray(X, dtype=float), np.asarray(y, dtype=float)
    with rows_in_memory(X, 1) as rows:
        prepared = Prepared(loss, y)
        problem = LinearProblem(rows, prepared.y, np.full(len(y), 1 / len(y)), loss, free)
        return largest_useful(problem, L2(), 0.0)


# ---- the number --------------------------------------------------------------------------------


@pytest.mark.parametrize("free", [True, False])
def test_of_squared_errors_it_is_a_closed_form(free):
    """One column of curvature h: w is h/(h + reg_lambda) of the best one, whose gain is known."""
    x = np.array([[1.0], [2.0], [-1.0], [-2.0]])
    y = np.array([1.0, 1.5, -0.5, -2.0])
    centered = x - x.mean() * free
    h = float(np.mean(centered**2))
    step = 1.0 - np.sqrt(0.9)  # of the best one: a tenth of its gain
    assert useful(SquaredError(), x, y, free) == pytest.approx(h * (1.0 - step) / step, rel=1e-3)


@pytest.mark.parametrize("loss", [SquaredError(), AbsoluteError(), Hinge(), LogLoss()])
def test_a_constant_column_and_an_offset_change_nothing(loss):
    X, y = signal()
    y = y if isinstance(loss, SquaredError | AbsoluteError) else np.where(y > 0, 1.0, -1.0)
    plain = useful(loss, X, y)
    with_one = useful(loss, np.c_[X, np.ones(len(X))], y)
    assert with_one == pytest.approx(plain, rel=1e-3)
    assert useful(loss, X + 1e3, y) == pytest.approx(plain, rel=1e-3)


@pytest.mark.parametrize("loss", [SquaredError(), AbsoluteError(), SquaredHinge(), LogLoss()])
def test_it_follows_the_units_of_features_and_targets(loss):
    X, y = signal()
    classes = isinstance(loss, SquaredHinge | LogLoss)
    y = np.where(y > 0, 1.0, -1.0) if classes else y
    plain = useful(loss, X, y)
    assert useful(loss, 1e3 * X, y) == pytest.approx(1e6 * plain, rel=1e-3)
    if not classes:
        unit = 1.0 if isinstance(loss, SquaredError) else 1e-3
        assert useful(loss, X, 1e3 * y) == pytest.approx(unit * plain, rel=1e-3)


@pytest.mark.parametrize("y", [[1.0], [2.0, 2.0, 2.0], [0.0, 1.0, 0.0]])
def test_nothing_can_be_learned(y):
    """One row, a constant target, a constant column."""
    X = np.full((len(y), 1), 3.0)
    assert useful(SquaredError(), X, y) is None
    assert numbers(BMRMRegressor(reg_lambda=10.0), X, y) is None


def test_separable_classes_have_a_finite_one():
    X, y = np.array([[-1.0], [-2.0], [1.0], [2.0]]), np.array([-1.0, -1.0, 1.0, 1.0])
    for loss in (Hinge(), LogLoss(), SquaredHinge()):
        assert 1.0 < useful(loss, X, y) < 100.0


# ---- the warning -------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", LOSSES)
def test_a_large_unit_of_y_is_told(loss):
    X, y = signal()
    fixed = {"huber": {"delta": 1.0}, "epsilon_insensitive": {"epsilon": 0.1}}.get(loss, {})
    model = BMRMRegressor(loss, reg_lambda=1e-4, **fixed)
    assert numbers(model, X, y) is None
    found = numbers(model, X, 2e5 * y)
    if loss == "squared_error":
        assert found is None
        return
    given, largest = found
    assert given == 1e-4 and largest < 3e-4
    assert model.score(X, 2e5 * y) < 0.3  # as the warning says
    assert numbers(BMRMRegressor(loss, reg_lambda=largest / 30, **fixed), X, 2e5 * y) is None


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "log_loss", "softmax"])
def test_searches_of_the_usual_size_say_nothing(loss):
    X, y = load_breast_cancer(return_X_y=True)
    X = scale(X)[::2]
    for reg_lambda in (1e-4, 1e-2, 1.0):
        assert numbers(BMRMClassifier(loss, reg_lambda=reg_lambda), X, y[::2]) is None
    given, largest = numbers(BMRMClassifier(loss, reg_lambda=1e4), X, y[::2])
    assert given == 1e4 and 1.0 < largest < 1e3


def test_noise_is_no_reason():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 3)), rng.normal(size=300)
    for loss in (*LOSSES, "poisson"):
        model = BMRMRegressor(loss)
        assert numbers(model, X, np.abs(y) if loss == "poisson" else y) is None
    rare = (rng.random(300) < 0.03).astype(int)
    for loss in ("hinge", "log_loss", "softmax"):
        assert numbers(BMRMClassifier(loss), X, rare) is None


def test_l1_and_the_elastic_net():
    X, y = signal()
    largest = reg_lambda_max(X, y, loss="squared_error")
    for kind, ratio in (("l1", 1.0), ("elasticnet", 0.5)):
        model = BMRMRegressor(regularizer=kind, reg_lambda=0.99 * largest / ratio)
        given, named = numbers(model, X, y)
        assert given == pytest.approx(model.reg_lambda, rel=1e-2)
        assert named == pytest.approx(largest / ratio, rel=1e-2)
        model = BMRMRegressor(regularizer=kind, reg_lambda=0.2 * largest)
        assert numbers(model, X, y) is None
        assert numbers(model.set_params(reg_lambda=None), X, y) is None


def test_the_class_and_C_are_named():
    X, y = load_iris(return_X_y=True)
    with pytest.warns(UserWarning, match=r"w is nearly 0 \(class \d\): reg_lambda=1e\+03 is over"):
        BMRMClassifier(reg_lambda=1e3).fit(X, y)
    with pytest.warns(UserWarning, match=r"nearly 0: C=1e-06, which is reg_lambda=1e\+04 is over"):
        BMRMClassifier(C=1e-6).fit(X[50:], y[50:])


def test_an_ordinary_fit_needs_no_further_product(monkeypatch):
    X, y = signal()

    def fail(*args):
        raise AssertionError

    monkeypatch.setattr(_bundle, "largest_useful", fail)
    for loss in LOSSES:
        BMRMRegressor(loss).fit(X, y)
    for loss in ("hinge", "log_loss", "softmax", "multiclass_hinge"):
        BMRMClassifier(loss).fit(X, y > 0)
