"""BMRMRegressor: optima against other solvers, weights, and what its users see."""

import pickle
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import Lasso, PoissonRegressor, QuantileRegressor, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.svm import LinearSVR

from sklearn_bundle import BMRMRegressor
from sklearn_bundle.losses import (
    REGRESSION_LOSSES,
    AbsoluteError,
    MultivariateSquaredError,
    Poisson,
    Quantile,
    RegressionLoss,
    SquaredError,
)
from tests.contract.fits import quiet
from tests.contract.interrupts import interrupting
from tests.reference_regression import LOSSES, objective, optimum

ROWS = 80
PARAMETERS = {
    "huber": {"delta": 1.0},
    "quantile": {"quantile": 0.8},
    "epsilon_insensitive": {"epsilon": 0.3},
    "squared_epsilon_insensitive": {"epsilon": 0.3},
}
M = np.array([[2.0, -1.0], [-1.0, 1.0]])
TIGHT = {"tol": 1e-9, "max_iter": 5000}


@pytest.fixture(scope="module")
def X():
    return np.random.default_rng(0).normal(size=(ROWS, 5))


@pytest.fixture(scope="module")
def targets(X):
    """Heavy tails and ties; counts for "poisson"; two columns for the multivariate loss."""
    rng = np.random.default_rng(1)
    y = X @ [1.0, -2.0, 0.0, 0.5, 0.0] + 3.0 + rng.standard_t(2, size=ROWS)
    y = np.round(y, 1)
    return {"real": y, "poisson": rng.poisson(np.exp(X[:, 0])), "two": np.c_[y, X[:, 1] - y / 2]}


def target(targets, loss):
    return targets["poisson" if loss == "poisson" else "real"].astype(float)


def model(loss, **parameters):
    return BMRMRegressor(loss, **({"reg_lambda": 1e-2} | PARAMETERS.get(loss, {}) | parameters))


# ---- optima ------------------------------------------------------------------------------------


@pytest.mark.matrix
@pytest.mark.parametrize("loss", [loss for loss in REGRESSION_LOSSES if loss in LOSSES])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("solver", ["line-search", "cutting-plane"])
def test_optimum_against_clarabel(X, targets, loss, fit_intercept, weighted, solver):
    y = target(targets, loss)
    sample_weight = np.random.default_rng(2).integers(0, 4, ROWS) if weighted else None
    s = np.full(ROWS, 1 / ROWS) if sample_weight is None else sample_weight / sample_weight.sum()
    ours = model(loss, fit_intercept=fit_intercept, solver=solver, **TIGHT)
    ours.fit(X, y, sample_weight)
    args = loss, X, y, s, 1e-2
    best = optimum(*args, fit_intercept, **PARAMETERS.get(loss, {}))
    value = objective(*args, ours.coef_, ours.intercept_, **PARAMETERS.get(loss, {}))
    assert ours.status_ == "converged" and ours.dual_gap_ <= 1e-9 * ours.objective_
    assert ours.dual_gap_ == ours.objective_ - ours.lower_bound_
    assert value == pytest.approx(ours.objective_, rel=1e-12)
    # clarabel's own accuracy is about 1e-9 relative
    assert ours.lower_bound_ <= best * (1 + 1e-9)
    assert best * (1 - 1e-8) <= value <= best * (1 + 1e-8)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("matrix", [None, M, np.diag([1.0, 0.0])], ids=["None", "M", "singular"])
def test_two_targets_against_clarabel(X, targets, fit_intercept, weighted, matrix):
    Y = targets["two"]
    sample_weight = np.random.default_rng(2).integers(0, 4, ROWS) if weighted else None
    s = np.full(ROWS, 1 / ROWS) if sample_weight is None else sample_weight / sample_weight.sum()
    ours = model("squared_error", M=matrix, fit_intercept=fit_intercept, **TIGHT)
    ours.fit(X, Y, sample_weight)
    args = "multivariate_squared_error", X, Y, s, 1e-2
    best = optimum(*args, fit_intercept, M=matrix)
    value = objective(*args, ours.coef_.T, ours.intercept_, M=matrix)
    assert ours.coef_.shape == (2, 5) and ours.intercept_.shape == (2,)
    assert value == pytest.approx(ours.objective_, rel=1e-12)
    assert ours.lower_bound_ <= best * (1 + 1e-9)
    assert best * (1 - 1e-8) <= value <= best * (1 + 1e-8)


# HuberRegressor has no row here: it estimates the scale with the weights, which is another problem.
def test_ridge(X, targets):
    for y in (targets["real"], targets["two"]):
        ours = model("squared_error", tol=1e-12).fit(X, y)
        theirs = Ridge(alpha=ROWS * 1e-2, tol=1e-12).fit(X, y)
        np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-5)
        np.testing.assert_allclose(ours.predict(X), theirs.predict(X), atol=1e-5)


@pytest.mark.parametrize("quantile", [0.1, 0.5])
def test_quantile_regressor(X, targets, quantile):
    y = targets["real"]
    ours = model("quantile", quantile=quantile, regularizer="l1", **TIGHT).fit(X, y)
    theirs = QuantileRegressor(quantile=quantile, alpha=1e-2, solver="highs").fit(X, y)
    r = y - theirs.predict(X)
    best = 1e-2 * np.abs(theirs.coef_).sum()
    best += np.mean(np.maximum(quantile * r, (quantile - 1) * r))
    assert ours.lower_bound_ <= best * (1 + 1e-9)
    assert ours.objective_ == pytest.approx(best, rel=1e-8)


@pytest.mark.wide
def test_poisson_regressor(X, targets):
    y = targets["poisson"]
    ours = model("poisson", tol=1e-12).fit(X, y)
    theirs = PoissonRegressor(alpha=1e-2, tol=1e-12, max_iter=10_000).fit(X, y)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-4)


def exact_ridge(X, y, reg_lambda):
    """The least ``reg_lambda/2 |w|^2 + mean (X w - y)^2 / 2``, without rounding up to the end."""
    n, d = X.shape
    A = [[Fraction(x) for x in row] for row in np.c_[X, y].tolist()]
    rows = [[sum(r[j] * r[k] for r in A) / n for k in range(d + 1)] for j in range(d + 1)]
    for j in range(d):
        rows[j][j] += Fraction(reg_lambda)
    for j in range(d):  # what elimination leaves in the corner is the least square of (w, -1)
        for k in range(j + 1, d + 1):
            share = rows[k][j] / rows[j][j]
            rows[k] = [a - share * b for a, b in zip(rows[k], rows[j], strict=True)]
    return float(rows[d][d] / 2)


@pytest.mark.wide
@pytest.mark.parametrize("large", [1e6, 1e8])
@pytest.mark.parametrize("solver", ["line-search", "cutting-plane"])
def test_raw_columns(solver, large):
    """An id beside features of size 1: fits stalled with a gap of up to 100 %."""
    rng = np.random.default_rng(0)
    X = np.c_[rng.normal(size=(30, 2)), large * rng.integers(1, 4, 30)]
    y = X[:, 0] + 0.5 * rng.normal(size=30)
    ours = BMRMRegressor(reg_lambda=1e-4, tol=1e-6, solver=solver, fit_intercept=False).fit(X, y)
    best = exact_ridge(X, y, 1e-4)
    assert ours.status_ == "converged"
    assert ours.lower_bound_ <= best * (1 + 1e-12) and best <= ours.objective_ * (1 + 1e-12)


class PlainAbsolute(RegressionLoss):
    """Without the centered formulas of the package's own loss."""

    def value(self, scores, y):
        return np.abs(scores - y)

    def gradient(self, scores, y):
        return np.sign(scores - y)


@pytest.mark.parametrize("loss", ["poisson", PlainAbsolute()])
def test_a_fit_to_the_last_digit_is_no_broken_loss(loss):
    """The optimum is reg_lambda w^2 / 2 nearly; the terms that cancel are 1e11 times as large.

    Bounds that rounding had put above the objective were taken for a loss that is not convex.
    """
    X = np.arange(5.0)[:, None]
    scores = 0.2 * X[:, 0] - 0.1
    y = np.exp(scores) if loss == "poisson" else scores
    # of rounding, the plain loss may end
    ours = quiet(BMRMRegressor(loss, reg_lambda=1e-10, tol=1e-6), X, y)
    assert ours.lower_bound_ <= 2e-12
    assert ours.objective_ == pytest.approx(2e-12, rel=1e-5, abs=0.0)
    assert ours.dual_gap_ <= 1e-14  # the rounding of terms of size 1, which is told


def test_lasso(X, targets):
    y = targets["real"]
    ours = model("squared_error", reg_lambda=0.3, regularizer="l1", tol=1e-10).fit(X, y)
    theirs = Lasso(alpha=0.3, tol=1e-12, max_iter=100_000).fit(X, y)
    assert (theirs.coef_ == 0.0).any()
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-4)


@pytest.mark.parametrize("epsilon", [0.0, 0.5])
@pytest.mark.parametrize(
    "loss, factor", [("epsilon_insensitive", 1.0), ("squared_epsilon_insensitive", 0.5)]
)
def test_linear_svr(X, targets, loss, factor, epsilon):
    y = targets["real"]
    parameters = {"epsilon": epsilon, "fit_intercept": False}
    ours = model(loss, **parameters, **TIGHT).fit(X, y)
    theirs = LinearSVR(
        loss=loss, C=factor / (ROWS * 1e-2), tol=1e-10, max_iter=1_000_000, **parameters
    ).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-3)


# ---- weights -----------------------------------------------------------------------------------


@pytest.mark.wide
@pytest.mark.parametrize("loss", [*REGRESSION_LOSSES, "two"])
def test_weights_are_repeated_and_missing_rows(X, targets, loss):
    y = targets["two"] if loss == "two" else target(targets, loss)
    ours = model("squared_error" if loss == "two" else loss, **TIGHT)
    counts = np.random.default_rng(3).integers(0, 4, ROWS)
    weighted = clone(ours).fit(X, y, counts).objective_
    repeated = clone(ours).fit(X.repeat(counts, axis=0), y.repeat(counts, axis=0)).objective_
    assert weighted == pytest.approx(repeated, rel=2e-9)
    some = counts > 0
    zeros = clone(ours).fit(X, y, some.astype(float))
    missing = clone(ours).fit(X[some], y[some])
    assert np.array_equal(zeros.coef_, missing.coef_)


# ---- errors ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "parameters, kind, message",
    [
        ({"loss": "hinge"}, "real", "'loss' parameter of BMRMRegressor"),
        ({"loss": "quantile", "quantile": 1.0}, "real", r"'quantile' .*range \(0.0, 1.0\).*1.0"),
        ({"loss": Quantile(1.0)}, "real", "quantile must be above 0 and below 1, but is 1.0"),
        ({"loss": "epsilon_insensitive", "epsilon": -0.1}, "real", "'epsilon' .*-0.1"),
        ({"loss": "huber", "delta": 0.0}, "real", "'delta' .*0.0"),
        ({"loss": "poisson"}, "real", "y must not be negative with the Poisson loss, .*-"),
        ({"loss": "poisson"}, "zeros", "y must have a value above 0 with the Poisson loss"),
        ({"M": np.eye(2)}, "real", r"M is for .*y of shape \(n_samples, n_targets\).*\(80,\)"),
        ({"loss": MultivariateSquaredError()}, "real", "needs y of shape"),
        ({"M": np.eye(3)}, "two", r"M must have shape \(2, 2\).*not \(3, 3\)"),
        ({"M": [[1.0, 2.0], [0.0, 1.0]]}, "two", "M must be symmetric"),
        ({"M": [[1.0, 2.0], [2.0, 1.0]]}, "two", "M must be positive semidefinite.*-1.0"),
        ({"solver": "newton", "regularizer": "l1"}, "real", "is for .*'squared_error'.*got .*'l1'"),
        (
            {"loss": "huber", "solver": "conjugate-gradient"},
            "real",
            "^solver='conjugate-gradient' is for loss='squared_error' with .*got loss='huber'",
        ),
        ({"regularizer": "quadratic"}, "real", r"needs B: .*regularizer=Quadratic\(B=...\)"),
    ],
    ids=str,
)
def test_what_cannot_work_is_refused(X, targets, parameters, kind, message):
    y = np.zeros(ROWS) if kind == "zeros" else targets[kind]
    ours = BMRMRegressor(**parameters)
    with pytest.raises(ValueError, match=message):
        ours.fit(X, y)
    assert not [name for name in vars(ours) if name.endswith("_")]
    with pytest.raises(NotFittedError):
        ours.predict(X)


def test_tags_are_those_of_the_loss_named_or_not():
    losses = "poisson", Poisson(), "squared_error", SquaredError(), "huber", "unknown"
    tags = [BMRMRegressor(loss).__sklearn_tags__().target_tags for loss in losses]
    assert [tag.positive_only for tag in tags] == [True, True, False, False, False, False]
    assert [tag.multi_output for tag in tags] == [False, False, True, True, True, False]


def test_an_error_leaves_the_last_model(X, targets):
    ours = model("poisson").fit(X, targets["poisson"])
    before = ours.predict(X)
    with pytest.raises(ValueError, match="negative"):
        ours.fit(X, targets["real"])
    assert np.array_equal(ours.predict(X), before)


# ---- living with scikit-learn ------------------------------------------------------------------


@pytest.mark.wide
@pytest.mark.matrix
@pytest.mark.parametrize("loss", [*REGRESSION_LOSSES, "two"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sparse_equals_dense_and_threads_change_nothing(X, targets, loss, dtype, monkeypatch):
    monkeypatch.setattr("sklearn_bundle.core.parallel._BLOCK_ENTRIES", 50)
    y = targets["two"] if loss == "two" else target(targets, loss)
    ours = model("squared_error" if loss == "two" else loss, tol=1e-8)
    Z = (X * (np.abs(X) > 0.5)).astype(dtype)
    dense, sparse = clone(ours).fit(Z, y), clone(ours).fit(sp.csr_array(Z), y)
    assert sparse.objective_ == pytest.approx(dense.objective_, rel=2e-8)
    assert sparse.coef_.dtype in (dtype, np.float64)
    for data in (Z, sp.csr_array(Z)):
        one, two = (clone(ours).set_params(n_jobs=n).fit(data, y) for n in (1, 2))
        assert np.array_equal(one.coef_, two.coef_) and one.lower_bound_ == two.lower_bound_


@pytest.mark.matrix
@pytest.mark.parametrize(
    "parameters",
    [{}, {"regularizer": "lp"}, {"regularizer": "l1", "solver": "line-search"}],
    ids=str,
)
@pytest.mark.parametrize("loss", REGRESSION_LOSSES)
def test_warm_start(X, targets, loss, parameters):
    y = target(targets, loss)
    warm = model(loss, warm_start=True, tol=1e-7, max_iter=5000, **parameters).fit(X, y)
    warm.set_params(reg_lambda=5e-3).fit(X, y)
    cold = clone(warm).fit(X, y)
    # Few iterations leave nothing to save: the interior-point end of one kink takes three from 0.
    assert warm.n_iter_ < cold.n_iter_ or cold.n_iter_ <= 3
    assert warm.objective_ == pytest.approx(cold.objective_, rel=2e-7)
    assert warm.lower_bound_ <= cold.objective_ * (1 + 1e-12)


def test_no_warm_start_on_another_matrix(X, targets):
    """Planes of ten times the loss are no bound of this one."""
    ours = model("squared_error", M=10 * np.eye(2), warm_start=True).fit(X, targets["two"])
    ours.set_params(M=np.eye(2)).fit(X, targets["two"])
    cold = clone(ours).fit(X, targets["two"])
    assert ours.n_iter_ == cold.n_iter_ and ours.objective_ == cold.objective_


@pytest.mark.parametrize("loss", ["squared_error", "absolute_error", "poisson"])
def test_few_planes(X, targets, loss):
    y = target(targets, loss)
    all_planes = model(loss, tol=1e-6, solver="line-search").fit(X, y)
    few = clone(all_planes).set_params(bundle_size=5, max_iter=20_000, warm_start=True).fit(X, y)
    assert few._warm.kept[0].bundle.size <= 5
    assert few.objective_ == pytest.approx(all_planes.objective_, rel=2e-6)


@pytest.mark.parametrize("loss", ["absolute_error", "poisson", Quantile(0.8)], ids=str)
def test_several_targets_are_a_problem_each(X, targets, loss):
    Y = np.c_[targets["poisson"], np.abs(targets["two"])]
    ours = model(loss, tol=1e-6).fit(X, Y)
    alone = [model(loss, tol=1e-6).fit(X, y.astype(float)) for y in Y.T]
    assert np.array_equal(ours.coef_, [one.coef_ for one in alone])
    assert ours.intercept_.tolist() == [one.intercept_ for one in alone]
    assert ours.dual_gap_.tolist() == [one.dual_gap_ for one in alone]
    assert ours.status_ == ["converged"] * 3 and [len(h) for h in ours.history_] == [*ours.n_iter_]
    np.testing.assert_allclose(ours.predict(X).T, [one.predict(X) for one in alone], atol=1e-12)
    in_threads = clone(ours).set_params(n_jobs=2).fit(X, Y)
    assert np.array_equal(in_threads.coef_, ours.coef_)


def test_pickle_and_data_frame(X, targets):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=list("abcde"))
    ours = model("huber").fit(frame, pd.Series(targets["real"]))
    assert ours.feature_names_in_.tolist() == list("abcde")
    copy = pickle.loads(pickle.dumps(ours))
    assert np.array_equal(copy.predict(frame), ours.predict(frame))
    two = model("squared_error").fit(frame, pd.DataFrame(targets["two"]))
    assert two.predict(frame).shape == (ROWS, 2)


def test_one_column_of_targets_is_a_vector(X, targets):
    with pytest.warns(UserWarning, match="column-vector"):
        ours = model("huber").fit(X, targets["real"][:, None])
    assert ours.predict(X).shape == (ROWS,) and isinstance(ours.intercept_, float)


@pytest.mark.filterwarnings("ignore:w is nearly 0")
@pytest.mark.filterwarnings("ignore:.* ignores ")
def test_search_over_loss_quantile_and_regularizer(X, targets):
    grid = [
        {"loss": ["quantile"], "quantile": [0.3, 0.5]},
        {"loss": ["huber", AbsoluteError()], "regularizer": ["l2", "l1", "lp"]},
    ]
    scoring = "neg_median_absolute_error"
    search = GridSearchCV(model("huber"), grid, cv=2, scoring=scoring, error_score="raise")
    search.fit(X, targets["real"])
    assert len(search.cv_results_["params"]) == 8
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_limits(X, targets, by_steps):
    with pytest.warns(ConvergenceWarning, match=r"'max_iter' after 2 iter.*gap of .*, above tol="):
        ours = model("absolute_error", max_iter=2, tol=1e-12).fit(X, targets["real"])
    assert ours.status_ == "max_iter" and ours.n_iter_ == len(ours.history_) == 2
    with pytest.warns(ConvergenceWarning, match="'max_time'"):
        ours = model("absolute_error", max_time=1e-9, tol=1e-12).fit(X, targets["real"])
    assert ours.status_ == "max_time" and ours.n_iter_ == 1


def test_ctrl_c_keeps_the_best_point(X, targets):
    ours = model(interrupting(AbsoluteError, 5), tol=1e-13, warm_start=True)
    with pytest.raises(KeyboardInterrupt):
        ours.fit(X, targets["real"])
    assert ours.status_ == "interrupted" and not hasattr(ours, "_warm")
    assert ours.lower_bound_ < ours.objective_ < np.mean(np.abs(targets["real"]))
    assert ours.predict(X).shape == (ROWS,)


class Mine(RegressionLoss):
    """Squared error in plain numpy, by the fallbacks alone."""

    def value(self, scores, y):
        return 0.5 * (scores - y) ** 2

    def gradient(self, scores, y):
        return scores - y


@pytest.mark.parametrize("regularizer", ["l2", "l1", "entropy"])
def test_a_loss_of_ones_own(X, targets, regularizer):
    fits = [
        model(loss, regularizer=regularizer, tol=1e-6).fit(X, targets["real"])
        for loss in (Mine(), SquaredError())
    ]
    assert fits[0].status_ == "converged"
    assert fits[0].objective_ == pytest.approx(fits[1].objective_, rel=2e-6)


def test_callbacks(X, targets):
    callback = pytest.importorskip("sklearn.callback")
    monitor = callback.ScoringMonitor(scoring="r2")
    for y in (targets["real"], targets["two"]):
        ours = model("squared_error").set_callbacks(monitor).fit(X, y)
        rows = monitor.get_logs().data
        assert sum(row["task_name"] == "iteration" for row in rows) >= ours.n_iter_
        final = [row["r2"] for row in rows if row["task_name"] == "fit"][-1]
        assert final == ours.score(X, y)
