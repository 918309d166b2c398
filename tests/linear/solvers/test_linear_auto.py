"""Which solver "auto" chooses, what happens when it switches, and what else users see."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning

from sklearn_bundle import BMRMClassifier, BMRMClassifierCV, BMRMRegressor, bmrm_path
from sklearn_bundle.core.contest import Contestant
from sklearn_bundle.linear.problems.linear import LinearProblem
from sklearn_bundle.linear.rows.memory_rows import rows_in_memory
from sklearn_bundle.linear.solvers import linear_auto
from sklearn_bundle.linear.solvers._descent import NewtonDescent
from sklearn_bundle.linear.solvers.dual_coordinate import DualCoordinateSolver
from sklearn_bundle.linear.solvers.linear_auto import LinearAutoSolver
from sklearn_bundle.linear.solvers.newton import NewtonSolver
from sklearn_bundle.linear.solvers.solver import Task
from sklearn_bundle.losses import BINARY_LOSSES, Hinge
from tests.contract.interrupts import interrupt
from tests.contract.judge import judge
from tests.reference import objective, optimum

pytestmark = pytest.mark.usefixtures("by_steps")

NAMES = ["hinge", "squared_hinge", "log_loss"]


def noisy(n, d, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.where(X[:, :3].sum(axis=1) + 2.0 * rng.normal(size=n) > 0.0, 1.0, -1.0)


@pytest.fixture(scope="module")
def wide():
    """Sparse rows in a high dimension."""
    X = sp.random(150, 20_000, 5e-3, format="csr", random_state=0)
    return X, noisy(150, 3)[1]


def solvers_of(model):
    """Names in the order in which they were at work."""
    names = model.history_["solver"]
    return [str(name) for k, name in enumerate(names) if k == 0 or name != names[k - 1]]


# ---- choice ------------------------------------------------------------------------------------


@pytest.mark.parametrize("convert", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("loss", NAMES)
def test_few_features_and_many_rows(loss, convert):
    X, y = noisy(3000, 5)
    model = BMRMClassifier(loss).fit(convert(X), y)
    assert solvers_of(model) == ["newton"] and model.status_ == "converged"


@pytest.mark.parametrize("reg_lambda, expected", [(1e-1, "dual-coordinate"), (1e-3, "newton")])
def test_epochs_come_first_where_regularization_is_strong(reg_lambda, expected):
    X, y = noisy(2000, 20)
    model = BMRMClassifier(reg_lambda=reg_lambda, fit_intercept=False).fit(X, y)
    assert solvers_of(model)[0] == expected and model.status_ == "converged"


@pytest.mark.parametrize("loss", NAMES)
def test_sparse_rows_in_a_high_dimension(wide, loss):
    model = BMRMClassifier(loss, reg_lambda=1e-2).fit(*wide)
    assert solvers_of(model) == ["dual-coordinate"] and model.status_ == "converged"


@pytest.mark.parametrize(
    "parameters",
    [
        {"loss": "roc_auc"},
        {"loss": "fbeta"},
        {"loss": "multiclass_hinge", "cost": [[0.0, 1.0], [2.0, 0.0]], "scaling": "slack"},
        {"regularizer": "l1"},
        {"regularizer": "lp"},
        {"loss": type("Mine", (Hinge,), {})()},
    ],
    ids=str,
)
def test_line_search_for_all_else(data, parameters):
    model = BMRMClassifier(reg_lambda=1e-2, **parameters).fit(*data)
    assert solvers_of(model) == ["line-search"] and model.status_ == "converged"


def test_planes_in_sample_space_where_they_are_shorter(wide):
    X, y = wide
    model = BMRMClassifier("exponential", reg_lambda=1e-2, solver="line-search").fit(X, y)
    assert solvers_of(model) == ["sample-planes"] and model.coef_.shape == (1, 20_000)
    regressor = BMRMRegressor(reg_lambda=1e-2, solver="line-search")
    assert solvers_of(regressor.fit(X, y)) == ["sample-planes"]
    for parameters in ({"regularizer": "l1"}, {"loss": "fbeta"}):  # these have no such planes
        model = BMRMClassifier(**parameters, reg_lambda=1.0).fit(X, y)
        assert solvers_of(model) == ["line-search"] and model.status_ == "converged"


@pytest.mark.parametrize("solver", ["newton", "dual-coordinate"])
@pytest.mark.parametrize(
    "parameters",
    [{"loss": "fbeta"}, {"regularizer": "l1"}, {"loss": "roc_auc"}],
    ids=str,
)
def test_refuses_what_a_solver_does_not_know(data, solver, parameters):
    model = BMRMClassifier(solver=solver, **parameters)
    with pytest.raises(ValueError, match=f"solver='{solver}'") as error:
        model.fit(*data)
    assert f"loss={model.loss!r}" in str(error.value)
    assert f"regularizer={model.regularizer!r}" in str(error.value)
    assert not hasattr(model, "coef_")


# ---- change of mind ----------------------------------------------------------------------------


@pytest.fixture
def changing(monkeypatch):
    """Sets what comes first, what second, and after how many epochs."""

    def change(second, n_epochs=3):
        def is_slow(self):
            solver = self._solver
            return (
                isinstance(solver, DualCoordinateSolver) and len(self._running.history) >= n_epochs
            )

        monkeypatch.setattr(LinearAutoSolver, "_first", lambda self: "dual-coordinate")
        monkeypatch.setattr(LinearAutoSolver, "_second", lambda self: second)
        monkeypatch.setattr(LinearAutoSolver, "_is_slow", is_slow)

    return change


def test_epochs_that_promise_too_little_are_given_up():
    """Dense rows, many features: a Newton step costs more than the epochs that show their rate."""
    X, y = noisy(1000, 200)
    model = BMRMClassifier(reg_lambda=1e-3).fit(X, y)
    assert model.status_ == "converged"
    assert solvers_of(model)[:2] == ["dual-coordinate", "newton"]


def test_epochs_are_tried_where_they_are_expected_to_take_too_long():
    """Dense rows, nearly as many features, little regularization: their rate is not known before.

    Newton's method alone takes ten times as long.
    """
    X, y = noisy(300, 200)
    model = BMRMClassifier(reg_lambda=1e-5).fit(X, y)
    assert solvers_of(model)[0] == "dual-coordinate" and model.status_ == "converged"


@pytest.mark.parametrize("convert, expected", [(np.asarray, "newton"), (sp.csr_array, "both")])
@pytest.mark.parametrize("loss, kinked", [("hinge", True), ("squared_hinge", False)])
def test_epochs_are_tried_on_sparse_rows_of_a_kinked_loss(loss, kinked, convert, expected):
    """Many of such rows are alike, and then Newton steps may be many more than expected."""
    rng = np.random.default_rng(0)
    X = (rng.random((4000, 60)) < 0.2).astype(float)
    y = np.sign(X @ rng.normal(size=60) + 0.3 * rng.normal(size=4000))
    model = BMRMClassifier(loss, reg_lambda=1e-4).fit(convert(X), y)
    names = ["dual-coordinate", "newton"] if kinked and expected == "both" else ["newton"]
    assert solvers_of(model) == names and model.status_ == "converged"


@pytest.mark.parametrize("free", [False, True])
def test_newton_is_not_given_up_for_epochs_that_would_take_longer(free):
    """Its gap falls at the end only; epochs that took over again ran to the limit of iterations."""
    rng = np.random.default_rng(0)
    X = np.hstack([rng.normal(size=(2000, 10)), np.eye(60)[rng.integers(60, size=2000)]])
    X = sp.csr_array((X - X.mean(axis=0)) / X.std(axis=0))
    y = np.sign(X @ rng.normal(size=70) / np.sqrt(70) + 0.2 * rng.normal(size=2000))
    settings = {"reg_lambda": 1e-6, "tol": 1e-2, "fit_intercept": free}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LinearAutoSolver, "_first", lambda self: "dual-coordinate")
        model = BMRMClassifier(**settings).fit(X, y)
    assert solvers_of(model) == ["dual-coordinate", "newton"] and model.status_ == "converged"
    alone = BMRMClassifier(solver="newton", **settings).fit(X, y)
    assert model.history_["passes"][-1] <= 2.5 * alone.history_["passes"][-1]


def test_a_smooth_loss_with_many_features_needs_no_hessian():
    X, y = noisy(1000, 500)
    model = BMRMClassifier("squared_hinge", reg_lambda=1e-1).fit(X, y)
    assert solvers_of(model) == ["lbfgs"] and model.status_ == "converged"


def test_correlated_columns_at_the_defaults():
    """Epochs over 1,000 rows are milliseconds: many make an iteration, or the limit would come."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 300))
    for j in range(1, 300):
        X[:, j] = 0.6 * X[:, j - 1] + 0.8 * X[:, j]
    y = np.sign(X @ rng.normal(size=300) / np.sqrt(300) + 0.5 * rng.normal(size=1000))
    model = BMRMClassifier(reg_lambda=1e-3, tol=1e-5, fit_intercept=False).fit(X, y)
    assert model.status_ == "converged"


@pytest.mark.parametrize("seed", [1, 9, 33])
def test_epochs_that_were_asked_for_are_given_up_late(seed):
    """14 rows at the defaults: after 1,000 epochs they were up to 36 % off."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(14, 4))
    y = np.where(X[:, 0] + rng.normal(size=14) > 0.0, 1, -1)
    model = BMRMClassifier(solver="dual-coordinate", fit_intercept=False).fit(X, y)
    assert model.status_ == "converged"
    assert solvers_of(model)[:2] == ["dual-coordinate", "newton"]
    assert np.sum(model.history_["solver"] == "dual-coordinate") > 100


@pytest.mark.matrix
@pytest.mark.parametrize("n_features", [10, 200])
@pytest.mark.parametrize("second", ["newton", "line-search"])
@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("loss", NAMES)
def test_certificate_over_a_change(loss, free, second, n_features, changing):
    X, y = noisy(80, n_features)
    weights = np.full(80, 1 / 80)
    changing(second)
    model = BMRMClassifier(loss, reg_lambda=1e-2, tol=1e-7, fit_intercept=free, max_iter=3000)
    model.fit(X, y)
    assert model.status_ == "converged"
    long = n_features > 2 * len(y) and second == "line-search"
    assert solvers_of(model)[:2] == ["dual-coordinate", "sample-planes" if long else second]
    h = model.history_
    assert (np.diff(h["objective"]) <= 1e-15).all() and (np.diff(h["lower_bound"]) >= -1e-15).all()
    assert (np.diff(h["passes"]) >= 0).all()
    ours = objective(loss, X, y, weights, 1e-2, model.coef_[0], model.intercept_[0])
    assert ours == pytest.approx(model.objective_, rel=1e-12)
    best = optimum(loss, X, y, weights, 1e-2, free)
    # clarabel's own accuracy is about 1e-11, absolute: the optimum may be 3e-3
    assert model.lower_bound_ <= best + 1e-10 <= ours + 2e-10


@pytest.mark.parametrize("n_features", [10, 200])
@pytest.mark.parametrize("second", ["newton", "line-search"])
def test_warm_start_after_a_change(second, n_features, changing):
    """Planes of the second solver are there for the next fit, whatever comes first in it."""
    X, y = noisy(80, n_features)
    changing(second)
    model = BMRMClassifier(reg_lambda=1e-2, tol=1e-7, warm_start=True, max_iter=3000).fit(X, y)
    cold = model.n_iter_
    assert model.fit(X, y).n_iter_ <= 8 < cold and model.status_ == "converged"
    model.set_params(reg_lambda=2e-2).fit(X, y)
    other = BMRMClassifier(reg_lambda=2e-2, tol=1e-7, solver="line-search", max_iter=3000)
    assert model.status_ == "converged"
    assert model.objective_ == pytest.approx(other.fit(X, y).objective_, rel=2e-7)


@pytest.mark.parametrize("cut", [3, 4, 5, 6])
def test_a_refit_soon_after_a_change_keeps_the_bound(cut):
    """With another tol a new solver begins, from the certificate of the one before."""
    rng = np.random.default_rng(0)
    X = sp.csr_array((rng.random((2000, 60)) < 0.2).astype(float))
    y = np.sign(X @ rng.normal(size=60) + 0.1 * rng.normal(size=2000))
    settings = {"reg_lambda": 1e-6, "tol": 1e-2, "max_iter": cut, "warm_start": True}
    model = BMRMClassifier(**settings).fit(X, y)
    assert solvers_of(model) == ["dual-coordinate", "newton"] and model.status_ == "max_iter"
    before = model.lower_bound_
    model.set_params(tol=1e-3, max_iter=1).fit(X, y)
    # At another point another allowance for rounding is taken off.
    assert 0.0 < before * (1 - 1e-5) <= model.lower_bound_ <= model.objective_


def test_a_change_on_data_that_a_plane_nearly_separates():
    """From the point of the epochs Newton's method stalls, and line search is slow."""
    rng = np.random.default_rng(1019)
    X = sp.csr_array((rng.random((2348, 121)) < 0.15).astype(float))
    y = np.sign(X @ rng.normal(size=121) + 0.1 * rng.normal(size=2348))
    model = BMRMClassifier(reg_lambda=1e-7).fit(X, y)
    assert solvers_of(model) == ["dual-coordinate", "newton"] and model.converged_
    judge(model, X, y)


@pytest.mark.parametrize("second, n_features", [("newton", 10), ("line-search", 200)])
def test_certificate_over_many_changes(second, n_features, monkeypatch):
    """Each goes on from where it was left; point and bound are the best of both."""
    X, y = noisy(80, n_features)
    monkeypatch.setattr(LinearAutoSolver, "_first", lambda self: "dual-coordinate")
    monkeypatch.setattr(LinearAutoSolver, "_second", lambda self: second)
    monkeypatch.setattr(LinearAutoSolver, "_is_slow", lambda self: True)
    settings = {"reg_lambda": 1e-3, "tol": 1e-6}
    model = BMRMClassifier(max_iter=3000, warm_start=True, **settings).fit(X, y)
    names = ["dual-coordinate", "sample-planes" if n_features == 200 else second]
    assert solvers_of(model)[:6] == 3 * names and model.status_ == "converged"
    h = model.history_
    assert (np.diff(h["objective"]) <= 0.0).all() and (np.diff(h["lower_bound"]) >= 0.0).all()
    ours = objective("hinge", X, y, np.full(80, 1 / 80), 1e-3, model.coef_[0], model.intercept_[0])
    assert ours == pytest.approx(model.objective_, rel=1e-12)
    best = optimum("hinge", X, y, np.full(80, 1 / 80), 1e-3, True)
    assert h["lower_bound"].max() <= best * (1 + 1e-8) <= ours * (1 + 2e-8)


def task_of(X, y, loss="hinge", reg_lambda=1e-2, tol=1e-3, **further):
    weights = np.full(len(y), 1.0 / len(y))
    problem = LinearProblem(rows_in_memory(X), y, weights, BINARY_LOSSES[loss](), True)
    return Task(problem, reg_lambda, tol=tol, **further)


@pytest.mark.parametrize("tol", [0.0, 1e-3, 10.0])
@pytest.mark.parametrize(
    "X",
    [
        *(np.ones((1, 1)), np.ones((1, 3)), np.ones((6, 1)), np.zeros((6, 2)), np.ones((6, 6))),
        *(np.full((6, 2), 1e8), sp.csr_array((6, 4)), sp.csr_array(np.eye(6))),
    ],
    ids=lambda X: f"{type(X).__name__}{X.shape}",
)
@pytest.mark.parametrize("loss", NAMES)
def test_costs_of_the_plainest_shapes(loss, X, tol):
    task = task_of(X, np.where(np.arange(X.shape[0]) % 2, -1.0, 1.0), loss, tol=tol)
    costs = linear_auto._costs(task, with_epochs=True)
    assert {"newton", "dual-coordinate"} <= costs.keys() and "line-search" not in costs
    assert all(0.0 < cost.step <= cost.whole < np.inf for cost in costs.values())


def test_expected_epochs_grow_with_what_a_row_moves_its_score():
    X, y = noisy(400, 10)
    few, many = (linear_auto._epochs_a_factor_e(task_of(X, y, reg_lambda=r)) for r in (1.0, 1e-4))
    mean_square = np.mean(np.sum(X**2, axis=1))
    assert few == pytest.approx(1.0 + mean_square / 400)
    assert many == pytest.approx(1.0 + mean_square / 400 * 1e4)
    wide, y = noisy(10, 1000)  # rows that are nearly orthogonal: reg_lambda matters no more
    few, fewer = (
        linear_auto._epochs_a_factor_e(task_of(wide, y, reg_lambda=r)) for r in (1e-6, 1e-9)
    )
    assert few == fewer < 3.0


def test_a_solver_that_begins_near_the_end_takes_at_least_a_step():
    one = Contestant("newton", prior=50.0, step=8.0)
    assert one.expected(1e-4, 1.1e-4) == 8.0 and one.expected(1e-4, 1.0) == 50.0
    assert Contestant("newton", prior=5.0, step=8.0).expected(1e-4, 1e-2) == 5.0


def test_work_to_come_is_told_by_the_later_half():
    one = Contestant("newton", prior=50.0)
    assert one.expected(1e-4, 1.0) == 50.0 and one.expected(1e-4, 1e-2) == pytest.approx(25.0)
    for k in range(41):  # a power of ten in 10 passes, then in 20
        one.record(1.0, 10.0 ** -(k / 10 if k <= 20 else 2 + (k - 20) / 20))
    assert one.remaining(1e-4) == pytest.approx(20.0, rel=0.1)
    assert one.remaining(1e-2) == 0.0
    for _ in range(60):
        one.record(1.0, 1e-3)  # nothing more
    assert one.remaining(1e-4) == np.inf and one.expected(1e-4, 1e-3) == one.work == 101.0


def test_a_race_costs_a_few_times_the_better_method(monkeypatch):
    """Columns of lengths from 1e-2 to 1e2: hopeless for epochs, and Newton's bound is late."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 30)) * 10.0 ** rng.uniform(-2.0, 2.0, 30)
    y = np.where(X @ rng.normal(size=30) + rng.normal(size=1000) > 0.0, 1.0, -1.0)
    newton = BMRMClassifier(solver="newton").fit(X, y)
    monkeypatch.setattr(LinearAutoSolver, "_first", lambda self: "dual-coordinate")
    model = BMRMClassifier(max_iter=10_000).fit(X, y)
    assert newton.status_ == model.status_ == "converged"
    assert solvers_of(model)[:2] == ["dual-coordinate", "newton"]
    assert model.history_["passes"][-1] <= 600 + 6 * newton.history_["passes"][-1]


# ---- Ctrl-C -----------------------------------------------------------------------------------


def assert_interrupted(model, X, y):
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert model.status_ == "interrupted" and not hasattr(model, "_warm")
    weights = np.full(len(y), 1 / len(y))
    ours = objective("hinge", X, y, weights, 1e-2, model.coef_[0], model.intercept_[0])
    assert ours == pytest.approx(model.objective_, rel=1e-12)
    best = BMRMClassifier(reg_lambda=1e-2, tol=1e-9, solver="line-search", max_iter=5000)
    assert model.lower_bound_ <= best.fit(X, y).objective_ <= ours * (1 + 1e-9)


@pytest.mark.parametrize(
    ("solver", "owner", "name"),
    [("newton", NewtonDescent, "step"), ("dual-coordinate", DualCoordinateSolver, "step")],
)
def test_ctrl_c(solver, owner, name, monkeypatch):
    interrupt(monkeypatch, 3, (owner, name))
    model = BMRMClassifier(reg_lambda=1e-2, solver=solver, tol=1e-12, warm_start=True)
    assert_interrupted(model, *noisy(80, 10))
    assert solvers_of(model) == [solver]


@pytest.mark.parametrize("name", ["__init__", "step"])
def test_ctrl_c_at_a_change(name, changing, monkeypatch):
    changing("newton")
    interrupt(monkeypatch, 1, (NewtonSolver, name))
    model = BMRMClassifier(reg_lambda=1e-2, tol=1e-12, warm_start=True)
    assert_interrupted(model, *noisy(80, 10))


# ---- limits, callbacks, living with scikit-learn -----------------------------------------------


@pytest.mark.parametrize("limit", [{"max_iter": 1}, {"max_time": 1e-9}], ids=str)
@pytest.mark.parametrize("solver", ["newton", "dual-coordinate", "auto"])
@pytest.mark.parametrize("loss", NAMES)
def test_limits(loss, solver, limit):
    X, y = noisy(300, 5)
    with pytest.warns(ConvergenceWarning, match=next(iter(limit))):
        model = BMRMClassifier(loss, solver=solver, tol=1e-13, **limit).fit(X, y)
    assert model.n_iter_ == len(model.history_) == 1
    weights = np.full(300, 1 / 300)
    ours = objective(loss, X, y, weights, 1e-4, model.coef_[0], model.intercept_[0])
    assert ours == pytest.approx(model.objective_, rel=1e-12)
    best = BMRMClassifier(loss, solver="line-search", tol=1e-9, max_iter=5000).fit(X, y)
    assert 0.0 <= model.lower_bound_ <= best.objective_ * (1 + 1e-9)


@pytest.mark.parametrize("loss", ["exponential", "hinge"])
def test_callbacks_see_points_of_length_d(wide, loss):
    callback = pytest.importorskip("sklearn.callback")
    X, y = wide
    monitor = callback.ScoringMonitor(scoring="accuracy")
    model = BMRMClassifier(loss, reg_lambda=1e-2)
    model.set_callbacks(monitor).fit(X, y)
    rows = [row for row in monitor.get_logs().data if row["task_name"] == "iteration"]
    assert len(rows) == model.n_iter_ and model.status_ == "converged"
    assert rows[-1]["accuracy"] == pytest.approx(model.score(X, y), abs=0.05)


def test_pickle_and_clone(wide):
    for X, y in (wide, noisy(300, 5)):
        model = BMRMClassifier(reg_lambda=1e-2, warm_start=True).fit(X, y)
        copy = pickle.loads(pickle.dumps(model))
        assert copy.history_.dtype == model.history_.dtype and not hasattr(copy, "_warm")
        assert np.array_equal(copy.predict(X), model.predict(X))
        again = clone(model)
        assert again.solver == "auto" and not hasattr(again, "coef_")
        assert np.array_equal(again.fit(X, y).coef_, model.coef_)


@pytest.mark.parametrize("loss", NAMES)
def test_one_versus_rest(loss):
    X, y = load_iris(return_X_y=True)
    one = BMRMClassifier(loss, reg_lambda=1e-2, tol=1e-6).fit(X, y)
    two = BMRMClassifier(loss, reg_lambda=1e-2, tol=1e-6, n_jobs=2).fit(X, y)
    assert one.status_ == ["converged"] * 3 and np.array_equal(one.coef_, two.coef_)
    search = BMRMClassifier(loss, reg_lambda=1e-2, tol=1e-6, solver="line-search", max_iter=5000)
    np.testing.assert_allclose(one.objective_, search.fit(X, y).objective_, rtol=2e-6)


@pytest.mark.parametrize("loss", NAMES)
def test_paths_and_cross_validation(wide, loss):
    for X, y in (noisy(300, 5), wide):
        values, _, _, gaps, _ = bmrm_path(X, y, reg_lambdas=[1.0, 1e-1, 1e-2], loss=loss, tol=1e-5)
        for reg_lambda, gap in zip(values, gaps, strict=True):
            alone = BMRMClassifier(loss, reg_lambda=reg_lambda, tol=1e-5).fit(X, y)
            assert 0.0 <= gap <= 1e-5 * alone.objective_ * (1 + 2e-5)
        search = BMRMClassifierCV(loss, reg_lambdas=[1e-1, 1e-2], cv=3).fit(X, y)
        assert search.status_ == "converged"


def test_a_solver_that_does_not_take_several_targets_is_refused_by_name():
    X, y = noisy(60, 4)
    model = BMRMRegressor("squared_error", regularizer="l1", solver="coordinate-descent")
    with pytest.raises(ValueError, match=r"solver='coordinate-descent' does not .* 2 outputs"):
        model.fit(X, np.c_[y, -y])
