"""Planes that the next fit can use, and when they must not be."""

import pickle
import sys
import tracemalloc
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_iris
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
from sklearn_bundle.losses import NDCG, BinaryLoss, Hinge
from tests.interrupts import interrupting


def test_warm_start_over_reg_lambda(data, by_steps):
    X, y = data
    warm = BMRMClassifier(tol=1e-5, warm_start=True, max_iter=5000).fit(X, y)
    again = warm.fit(X, y).n_iter_
    assert again <= 2
    warm.set_params(reg_lambda=5e-5).fit(X, y)
    cold = BMRMClassifier(tol=1e-5, reg_lambda=5e-5, max_iter=5000).fit(X, y)
    assert warm.n_iter_ < cold.n_iter_
    assert warm.objective_ == pytest.approx(cold.objective_, rel=2e-5)
    warm.set_params(bundle_size=5, max_iter=3000).fit(X, y)
    assert warm._warm.kept[0].bundle.size <= 5


class Scaled(BinaryLoss):
    def __init__(self, factor):
        self.factor = factor

    def value(self, scores, y):
        return self.factor * np.maximum(0.0, 1.0 - y * scores)

    def gradient(self, scores, y):
        return np.where(y * scores < 1.0, -self.factor * y, 0.0)


@pytest.mark.wide
@pytest.mark.parametrize(
    "change",
    [
        "X",
        "y",
        "weights",
        "loss",
        "loss parameter",
        "loss class",
        "fit_intercept",
    ],
)
def test_warm_start_only_on_the_same_problem(data, change):
    X, y = data
    model = BMRMClassifier(tol=1e-6, warm_start=True).fit(X, y)
    weight = None
    if change == "X":
        X = X.copy()
        X[0, 0] += 1e-9
    elif change == "y":
        y = y.copy()
        y[0] = 1 - y[0]
    elif change == "weights":
        weight = np.arange(1.0, 201.0)
    elif change == "loss":
        model.set_params(loss="squared_hinge")
    elif change == "loss parameter":
        model.set_params(loss=Scaled(1.0)).fit(X, y)
        model.set_params(loss=Scaled(1.5))
    elif change == "loss class":
        model.set_params(loss=Scaled(1.0)).fit(X, y)
        model.set_params(loss=type("Scaled", (Hinge,), dict(vars(Hinge)))())
    else:
        model.set_params(fit_intercept=False)
    cold = clone(model).fit(X, y, weight)
    model.fit(X, y, weight)
    assert model.n_iter_ == cold.n_iter_ and model.objective_ == cold.objective_


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("change", [{"tol": 1e-9}, {"theta": 0.2}, {"solver": "cutting-plane"}])
@pytest.mark.parametrize("solver", ["newton", "dual-coordinate", "line-search"])
def test_a_new_solver_begins_with_what_was_proved(data, solver, change):
    model = BMRMClassifier(solver=solver, reg_lambda=1e-2, max_iter=50, warm_start=True).fit(*data)
    objective, bound = model.objective_, model.lower_bound_
    model.set_params(max_iter=1, **change).fit(*data)
    assert model.objective_ <= objective * (1.0 + 1e-14)
    assert bound * (1.0 - 1e-14) <= model.lower_bound_ <= model.objective_


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


@pytest.mark.parametrize(
    "model",
    [
        BMRMClassifier(),
        BMRMClassifier(solver="dual-coordinate", tol=1e-2),
        BMRMClassifier("log_loss"),
    ],
    ids=str,
)
def test_without_it_no_solver_outlives_its_class(model):
    """Of each class a fit keeps its labels, and not what the solver had for every row."""
    rng = np.random.default_rng(0)
    n, rows = 20_000, {}
    X = rng.normal(size=(n, 5))
    for n_classes in (2, 12):
        y = (X @ rng.normal(size=(5, n_classes)) + rng.gumbel(size=(n, n_classes))).argmax(axis=1)
        model.fit(X[:500], y[:500])  # compiles
        tracemalloc.start()
        try:
            model.fit(X, y)
            rows[n_classes] = tracemalloc.get_traced_memory()[1] / (8 * n)
        finally:
            tracemalloc.stop()
    assert rows[12] - rows[2] < 1.75 * 12  # vectors of n


def test_no_warm_start_after_ctrl_c(data):
    """The interruption may have hit in the middle of a plane."""
    model = BMRMClassifier(interrupting(Hinge, 5), tol=1e-12, warm_start=True)
    with pytest.raises(KeyboardInterrupt):
        model.fit(*data)
    assert model.status_ == "interrupted" and not hasattr(model, "_warm")


def test_warm_start_does_not_see_the_flags_of_a_sparse_matrix(data):
    S = sp.csr_matrix(data[0])
    model = BMRMClassifier(warm_start=True).fit(S, data[1])
    assert S.has_canonical_format and S.has_sorted_indices
    assert model.fit(S, data[1]).n_iter_ <= 2


def test_pickle_leaves_the_planes_out(data):
    cold = BMRMClassifier().fit(*data)
    warm = BMRMClassifier(warm_start=True).fit(*data)
    copy = pickle.loads(pickle.dumps(warm))
    assert not hasattr(copy, "_warm") and hasattr(warm, "_warm")
    assert np.array_equal(copy.predict(data[0]), warm.predict(data[0]))
    assert len(pickle.dumps(warm)) < len(pickle.dumps(cold)) + 100


WARM = [
    PragamSVC(class_weight="balanced", fit_intercept=False),
    PragamSVC(lipschitz="power", reg_lambda=0.1),
    BMRMClassifier(),
    BMRMClassifier("softmax"),
    BMRMClassifier(solver="cutting-plane"),
    BMRMClassifier("log_loss", solver="dual-coordinate", reg_lambda=0.1),
    BMRMNoveltyDetector(rho=1.0),
    BMRMRanker(),
    BMRMRegressor("absolute_error"),
    SDCACRF(),
    SwapSVC(),
    SwapSVR(),
    SwapNoveltyDetector(),
]


@pytest.mark.wide
@pytest.mark.parametrize("model", WARM, ids=lambda model: str(model)[:50])
@pytest.mark.filterwarnings("ignore:w is nearly 0")
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
    assert np.all(model.dual_gap_ <= 1e-4 * model.objective_)


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


def test_a_function_that_was_defined_again_is_another_one():
    """Under the same name, as in a notebook: nothing of the last fit holds for its risk."""
    rng = np.random.default_rng(0)
    X, y, group = rng.normal(size=(24, 3)), rng.integers(0, 3, 24), np.repeat(np.arange(4), 6)

    def made(power):
        def gain(y):
            return y**power

        return gain

    cold = BMRMRanker(NDCG(gain=made(1.0))).fit(X, y, group=group)
    warm = BMRMRanker(NDCG(gain=made(4.0)), warm_start=True).fit(X, y, group=group)
    assert warm.lower_bound_ > cold.objective_ or warm.objective_ < cold.lower_bound_
    warm.set_params(loss=NDCG(gain=made(1.0))).fit(X, y, group=group)
    assert warm.lower_bound_ <= cold.objective_ and cold.lower_bound_ <= warm.objective_


class Width:
    """A kernel whose width may be changed."""

    def __init__(self, gamma):
        self.gamma = gamma

    def __call__(self, X, Z):
        return rbf_kernel(X, Z, gamma=self.gamma)


def test_a_kernel_that_has_changed_is_no_result(data):
    kernel = Width(1.0)
    warm = SwapSVC(kernel=kernel, warm_start=True).fit(*data)
    kernel.gamma = 0.05
    cold = SwapSVC(kernel=kernel).fit(*data)
    assert warm.lower_bound_ > cold.objective_ or warm.objective_ < cold.lower_bound_
    warm.fit(*data)
    assert warm.lower_bound_ <= cold.objective_ and cold.lower_bound_ <= warm.objective_


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_no_solver_goes_on_at_another_tol(n_jobs):
    """Newton's method ties its smoothing to tol: a solver of a loose one would stall."""
    X, y = load_iris(return_X_y=True)
    model = BMRMClassifier("squared_hinge", solver="newton", warm_start=True, n_jobs=n_jobs)

    def solvers() -> list[Any]:
        return [model._warm.solved(k).solver for k in range(3)]

    model.set_params(tol=0.3).fit(X, y)
    before, missed = solvers(), model.dual_gap_ > 1e-9 * model.objective_
    model.set_params(tol=1e-9).fit(X, y)
    pairs = zip(solvers(), before, missed, strict=True)
    assert missed.sum() > 1 and not any(new is old for new, old, late in pairs if late)
    assert set(model.status_) == {"converged"}
