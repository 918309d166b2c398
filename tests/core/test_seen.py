"""What a callback sees of a linear model: consistent numbers, and the returned model."""

import numpy as np
import pytest
from sklearn.base import clone

from sklearn_bundle import BMRMClassifier, BMRMRegressor, PragamSVC
from sklearn_bundle.core.contract import Status
from sklearn_bundle.core.monitor import Monitor
from tests import reference, reference_multiclass, reference_regression

LAMBDA = 1e-2
rng = np.random.default_rng(0)
X = rng.normal(size=(80, 4))
TRUE = X @ [1.0, -1.0, 0.5, 0.0] + 1.0 + rng.normal(size=80)
SIGNS, THREE = np.where(TRUE > 0.0, 1.0, -1.0), np.digitize(TRUE, [0.0, 1.5])
WIDE = rng.normal(size=(20, 50))


def binary(loss, X=X, y=SIGNS):
    weights = np.full(len(y), 1.0 / len(y))
    return lambda w, b: reference.objective(loss, X, y, weights, LAMBDA, w, b)


def regression(loss, y=TRUE):
    weights = np.full(80, 1.0 / 80)
    return lambda w, b: reference_regression.objective(loss, X, y, weights, LAMBDA, w, b)


def lasso(w, b):
    return LAMBDA * np.abs(w).sum() + np.mean((X @ w + b - TRUE) ** 2) / 2


def softmax(w, b):
    weights = np.full(80, 1.0 / 80)
    args = X, THREE, weights, LAMBDA, w.reshape(3, 4), b
    return reference_multiclass.objective(*args, kind="softmax")


def table():
    """Estimator, X, y and the objective in plain numpy."""
    of = {"reg_lambda": LAMBDA, "tol": 1e-7}
    for solver in ("newton", "dual-coordinate", "line-search", "cutting-plane"):
        for loss in ("hinge", "log_loss"):
            yield BMRMClassifier(loss, solver=solver, **of), X, SIGNS, binary(loss)
    yield BMRMClassifier("squared_hinge", **of), X, SIGNS, binary("squared_hinge")
    wide = WIDE, SIGNS[:20], binary("hinge", WIDE, SIGNS[:20])
    yield BMRMClassifier(solver="line-search", **of), *wide  # planes in sample space
    yield BMRMClassifier("softmax", **of), X, THREE, softmax
    yield BMRMRegressor("quantile", **of), X, TRUE, regression("quantile")
    planes = {"regularizer": "l1", "solver": "line-search"}  # coordinate descent ends too soon
    yield BMRMRegressor("squared_error", **planes, **of), X, TRUE, lasso
    yield PragamSVC(**of), X, SIGNS, binary("hinge")


def name_of(row):
    model = row[0]
    return "-".join(str(getattr(model, name, "")) for name in ("loss", "solver", "lipschitz"))


@pytest.fixture
def watch(monkeypatch):
    """States as they came, of a fit that is stopped at one of them."""

    def fit(model, X, y, stop=None):
        states = []

        def look(self, k, iteration, state):
            states.append((state.point.copy(), np.copy(state.intercept), state))
            return Status.CALLBACK if iteration == stop else None

        monkeypatch.setattr(Monitor, "__call__", look)
        return clone(model).fit(X, y), states

    return fit


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("row", list(table()), ids=name_of)
def test_states_are_of_one_point(row, watch):
    """The best point so far with its own objective, and the best bound so far."""
    model, X, y, objective = row
    model, states = watch(model.set_params(max_iter=100), X, y)
    for w, b, state in states:
        assert objective(w, b) == pytest.approx(state.primal, rel=1e-11)
        assert state.lower_bound <= model.objective_
    primal, bound = model.history_["objective"], model.history_["lower_bound"]
    assert (np.diff(primal) <= 1e-13 * primal[1:]).all()
    assert (np.diff(bound) >= -1e-13 * primal[1:]).all()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("limit", ["callback", "max_iter"])
@pytest.mark.parametrize("row", list(table()), ids=name_of)
def test_what_is_seen_last_is_returned(row, limit, watch):
    model, X, y, _ = row
    for number in (1, 2):
        limits = {"max_iter": number if limit == "max_iter" else 100}
        fitted, states = watch(model.set_params(**limits), X, y, number)
        w, b, state = states[-1]
        if fitted.status_ == "converged":  # at once, by the interior-point method
            break
        assert len(states) == number and fitted.status_ in ("callback", "max_iter")
        assert np.array_equal(fitted.coef_.ravel(), w.ravel())
        if model.get_params().get("fit_intercept"):
            assert np.array_equal(np.ravel(fitted.intercept_), np.ravel(b))
        assert fitted.objective_ == pytest.approx(state.primal, rel=1e-12)
