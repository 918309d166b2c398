"""What a callback sees of a linear model: numbers of one point."""

import numpy as np
import pytest
from scipy.special import logsumexp
from sklearn.base import clone

from sklearn_bundle import BMRMClassifier, BMRMRegressor, PragamSVC
from sklearn_bundle.core.monitor import Monitor

LAMBDA = 1e-2
rng = np.random.default_rng(0)
X = rng.normal(size=(80, 4))
TRUE = X @ [1.0, -1.0, 0.5, 0.0] + 1.0 + rng.normal(size=80)
SIGNS, THREE = np.where(TRUE > 0.0, 1.0, -1.0), np.digitize(TRUE, [0.0, 1.5])
WIDE = rng.normal(size=(20, 50))


def of_softmax(f, labels):
    return logsumexp(f, axis=1) - f[np.arange(len(f)), labels]


LOSSES = {
    "hinge": lambda f, y: np.maximum(0.0, 1.0 - y * f),
    "squared_hinge": lambda f, y: 0.5 * np.maximum(0.0, 1.0 - y * f) ** 2,
    "log_loss": lambda f, y: np.logaddexp(0.0, -y * f),
    "softmax": of_softmax,
    "quantile": lambda f, y: 0.5 * np.abs(y - f),
    "squared_error": lambda f, y: 0.5 * (f - y) ** 2,
}


def objective(model, X, y, w, b):
    """In plain numpy."""
    scores = np.squeeze(X @ w.reshape(model.coef_.shape).T + b)
    is_l1 = getattr(model, "regularizer", "l2") == "l1"
    penalty = np.abs(w).sum() if is_l1 else 0.5 * np.sum(w * w)
    return LAMBDA * penalty + np.mean(LOSSES[getattr(model, "loss", "hinge")](scores, y))


def table():
    """Estimator, X and y."""
    of = {"reg_lambda": LAMBDA, "tol": 1e-7}
    for solver in ("newton", "dual-coordinate", "line-search", "cutting-plane"):
        for loss in ("hinge", "log_loss"):
            yield BMRMClassifier(loss, solver=solver, **of), X, SIGNS
    yield BMRMClassifier("squared_hinge", **of), X, SIGNS
    yield BMRMClassifier(solver="line-search", **of), WIDE, SIGNS[:20]  # planes in sample space
    yield BMRMClassifier("softmax", **of), X, THREE
    yield BMRMRegressor("quantile", **of), X, TRUE
    planes = {"regularizer": "l1", "solver": "line-search"}  # coordinate descent ends too soon
    yield BMRMRegressor("squared_error", **planes, **of), X, TRUE
    yield PragamSVC(**of), X, SIGNS


def name_of(row):
    model = row[0]
    return "-".join(str(getattr(model, name, "")) for name in ("loss", "solver", "lipschitz"))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("row", list(table()), ids=name_of)
def test_states_are_of_one_point(row, monkeypatch):
    """The best point so far with its own objective, and the best bound so far."""
    (model, X, y), states = row, []

    def look(self, k, iteration, state):
        states.append((state.point.copy(), np.copy(state.intercept), state))

    monkeypatch.setattr(Monitor, "__call__", look)
    model = clone(model).set_params(max_iter=100).fit(X, y)
    for w, b, state in states:
        assert objective(model, X, y, w, b) == pytest.approx(state.primal, rel=1e-11)
        assert state.lower_bound <= model.objective_
    primal, bound = model.history_["objective"], model.history_["lower_bound"]
    assert (np.diff(primal) <= 1e-13 * primal[1:]).all()
    assert (np.diff(bound) >= -1e-13 * primal[1:]).all()
