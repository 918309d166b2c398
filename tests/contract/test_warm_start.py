"""``warm_start=True``: what the next fit may use of the last one, and what it must not."""

import sys

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.metrics.pairwise import rbf_kernel

from sklearn_bundle import (
    SDCACRF,
    BMRMClassifier,
    BMRMNoveltyDetector,
    BMRMRanker,
    BMRMRegressor,
    PragamSVC,
    SwapNoveltyDetector,
    SwapSVC,
    SwapSVR,
)
from sklearn_bundle.losses import BinaryLoss, Hinge, RegressionLoss


class Scaled(BinaryLoss):
    def __init__(self, factor):
        self.factor = factor

    def value(self, scores, y):
        return self.factor * np.maximum(0.0, 1.0 - y * scores)

    def gradient(self, scores, y):
        return np.where(y * scores < 1.0, -self.factor * y, 0.0)


def moved(array, change):
    array = array.copy()
    array.flat[0] += change(array.flat[0])
    return array


OTHERS = {
    "X": lambda model, X, y: (moved(X, lambda x: 1e-9), y),
    "y": lambda model, X, y: (X, moved(y, lambda label: 1 - 2 * label)),
    "weights": lambda model, X, y: (X, y, np.arange(1.0, 201.0)),
    "loss": lambda model, X, y: model.set_params(loss="squared_hinge") and (X, y),
    "loss parameter": lambda model, X, y: model.set_params(loss=Scaled(1.5)) and (X, y),
    "loss class": lambda model, X, y: model.set_params(loss=SAME_NAME()) and (X, y),
    "fit_intercept": lambda model, X, y: model.set_params(fit_intercept=False) and (X, y),
}
SAME_NAME = type("Scaled", (Hinge,), dict(vars(Hinge)))


@pytest.mark.parametrize("change", OTHERS)
def test_warm_start_only_on_the_same_problem(data, change):
    loss = Scaled(1.0) if change in ("loss parameter", "loss class") else "hinge"
    model = BMRMClassifier(loss, tol=1e-6, warm_start=True).fit(*data)
    problem = OTHERS[change](model, *data)
    cold = clone(model).fit(*problem)
    model.fit(*problem)
    assert model.n_iter_ == cold.n_iter_ and model.objective_ == cold.objective_


def test_a_kept_solver_does_not_hold_the_data(data):
    """It goes on with the next fit's, which are the same."""
    X, y = data[0].copy(), data[1]
    counts = []
    for solver in ("auto", "newton", "dual-coordinate", "line-search"):
        model = BMRMClassifier(solver=solver, reg_lambda=0.1, warm_start=True)
        before = sys.getrefcount(X)
        model.fit(X, y)
        counts.append(sys.getrefcount(X) - before)
    assert counts == [0, 0, 0, 0]


def test_warm_start_does_not_see_the_flags_of_a_sparse_matrix(data):
    S = sp.csr_matrix(data[0])
    model = BMRMClassifier(warm_start=True).fit(S, data[1])
    assert S.has_canonical_format and S.has_sorted_indices
    assert model.fit(S, data[1]).n_iter_ <= 2


def test_a_chain_starts_anew_where_reg_lambda_falls_far():
    X, y = np.random.RandomState(0).uniform(size=(30, 3)), np.arange(30) % 3
    model = SDCACRF(reg_lambda=0.1, warm_start=True, random_state=0).fit(X, y)
    cold = clone(model.set_params(reg_lambda=1e-3)).fit(X, y)
    assert model.fit(X, y).n_iter_ == cold.n_iter_


WARM = [
    PragamSVC(class_weight="balanced", fit_intercept=False),
    PragamSVC(lipschitz=100.0, reg_lambda=0.1),
    BMRMClassifier(),
    BMRMClassifier("softmax"),
    BMRMClassifier(solver="cutting-plane"),
    BMRMClassifier("log_loss", solver="dual-coordinate", reg_lambda=0.1),
    BMRMNoveltyDetector(),
    BMRMRanker(),
    BMRMRegressor("absolute_error"),
    SDCACRF(),
    SwapSVC(),
    SwapSVR(),
    SwapNoveltyDetector(),
]


@pytest.mark.parametrize("model", WARM, ids=lambda model: str(model)[:50])
@pytest.mark.filterwarnings("ignore:w is 0")
def test_a_refit_of_what_has_reached_tol_changes_nothing(model):
    """As scikit-learn's check_supervised_y_2d asks, on its data."""
    X, y = np.random.RandomState(0).uniform(size=(30, 3)), np.arange(30) % 3
    model = clone(model).set_params(warm_start=True).fit(X, y)
    assert set(np.atleast_1d(model.status_)) == {"converged"}
    names = ("coef_", "dual_coef_", "intercept_", "objective_", "lower_bound_", "transitions_")
    before = {k: np.copy(v) for k, v in vars(model).items() if k in names}
    model.set_params(tol=2.0 * model.tol, max_iter=1).fit(X, y)
    assert before and all(np.array_equal(vars(model)[k], v) for k, v in before.items())
    assert set(np.atleast_1d(model.status_)) == {"converged"}
    histories = model.history_ if isinstance(model.history_, list) else [model.history_]
    assert [len(h) for h in histories] == np.ravel(model.n_iter_).tolist() == [1] * len(histories)
    model.set_params(tol=1e-4, max_iter=100_000).fit(X, y)
    assert np.all(model.dual_gap_ <= 1e-4 * np.abs(model.objective_))


@pytest.mark.parametrize(
    "model, change",
    [
        (BMRMClassifier(), {"reg_lambda": 1e-2}),
        (BMRMClassifier(), {"solver": "line-search"}),
        (SwapSVC(), {"C": 3.0}),
        (SwapSVR(), {"epsilon": 0.3}),
        (SwapSVR(), "weights"),
        (SDCACRF(reg_lambda=0.1), {"reg_lambda": 0.2}),
        (SwapSVC(), "weights"),
        (SDCACRF(), "weights"),
    ],
    ids=str,
)
def test_a_refit_of_something_else_is_a_fit(data, model, change):
    """Weights that are all doubled change C, and the default of reg_lambda, but no share."""
    X, y = data
    weight = np.full(len(y), 2.0) if change == "weights" else None
    model = clone(model).set_params(warm_start=True, tol=1e-6).fit(X, y)
    model.set_params(**{} if change == "weights" else change).fit(X, y, weight)
    cold = clone(model).set_params(warm_start=False).fit(X, y, weight)
    assert model.lower_bound_ <= cold.objective_ and cold.lower_bound_ <= model.objective_


class Stretched(RegressionLoss):
    """The squared error of a function of the target."""

    def __init__(self, stretch):
        self.stretch = stretch

    def value(self, scores, y):
        return 0.5 * (scores - self.stretch(y)) ** 2

    def gradient(self, scores, y):
        return scores - self.stretch(y)


class Width:
    """A kernel whose width may be changed."""

    def __init__(self, gamma):
        self.gamma = gamma

    def __call__(self, X, Z):
        return rbf_kernel(X, Z, gamma=self.gamma)


def stretched(power):
    """A function that was defined again under the same name, as in a notebook."""

    def stretch(y):
        return y**power

    return Stretched(stretch)


@pytest.mark.parametrize("kind", ["loss", "kernel"])
def test_a_function_that_has_changed_is_another_one(kind):
    """Nothing of the last fit holds for its risk."""
    rng, kernel = np.random.default_rng(0), Width(1.0)
    X, y = rng.normal(size=(24, 3)), rng.integers(0, 3, 24).astype(float)
    if kind == "loss":
        warm = BMRMRegressor(stretched(4.0), warm_start=True).fit(X, y)
        cold = BMRMRegressor(stretched(1.0)).fit(X, y)
    else:
        y = y > 0.0
        warm = SwapSVC(kernel=kernel, warm_start=True).fit(X, y)
        kernel.gamma = 0.05
        cold = SwapSVC(kernel=kernel).fit(X, y)
    assert warm.lower_bound_ > cold.objective_ or warm.objective_ < cold.lower_bound_
    if kind == "loss":
        warm.set_params(loss=stretched(1.0))
    warm.fit(X, y)
    assert warm.lower_bound_ <= cold.objective_ and cold.lower_bound_ <= warm.objective_
