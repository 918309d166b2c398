"""Each regularizer with the estimators: optima by clarabel's cones and by linear programs."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linprog
from sklearn import linear_model
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler

from sklearn_bundle import BMRMClassifier, BMRMNoveltyDetector, BMRMRanker, BMRMRegressor
from sklearn_bundle.regularizers import (
    L1,
    L2,
    ElasticNet,
    Entropy,
    EntropySimplex,
    Lp,
    Quadratic,
    WeightedL1,
)

LAMBDA = 0.05
B = np.array([[2.0, 0.5, 0.0, 0.0], [0.5, 1.0, 0.2, 0.0], [0.0, 0.2, 3.0, 0.0], [0, 0, 0, 0.5]])
REGULARIZERS = {
    "l2": "l2",
    "lp": Lp(1.3),
    "quadratic": Quadratic(B),
    "entropy": "entropy",
    "entropy_simplex": "entropy_simplex",
    "l1": "l1",
    "weighted_l1": WeightedL1([1.0, 2.0, 0.5, 1.5]),
    "elasticnet": ElasticNet(0.4),
}
ESTIMATORS = {
    "hinge": BMRMClassifier(),
    "softmax": BMRMClassifier("softmax"),
    "squared_error": BMRMRegressor(),
    "absolute_error": BMRMRegressor("absolute_error"),
    "ordinal": BMRMRanker(),
}


@pytest.fixture(scope="module")
def problems():
    X, labels = load_iris(return_X_y=True)
    X, labels = StandardScaler().fit_transform(X)[::5], labels[::5]
    y = X @ [1.0, -0.5, 0.2, 0.0] + np.random.default_rng(0).normal(size=len(X))
    return {
        "hinge": (X, np.where(labels == 1, 1.0, -1.0)),
        "softmax": (X, labels),
        "squared_error": (X, y),
        "absolute_error": (X, y),
        "ordinal": (X, np.digitize(y, [-1.0, 0.0, 1.0])),
    }


def fitted(loss, name, X, y, **parameters):
    model = clone(ESTIMATORS[loss])
    parameters = {"reg_lambda": LAMBDA, "regularizer": REGULARIZERS[name]} | parameters
    return model.set_params(**parameters).fit(X, y)


# ---- optima ------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["hinge", "absolute_error"])
@pytest.mark.parametrize("reg_lambda", [0.3, 1e-2, 1e-4])
@pytest.mark.parametrize("solver", ["line-search", "cutting-plane"])
@pytest.mark.filterwarnings("ignore:w is nearly 0")
def test_l1_against_a_linear_programme(problems, loss, reg_lambda, solver):
    """Variables w+, w-, b, slacks; HiGHS on the whole problem."""
    X, y = problems[loss]
    n, d = X.shape
    ones, eye = np.ones((n, 1)), np.eye(n)
    if loss == "hinge":
        A, side = np.hstack([-y[:, None] * np.hstack([X, -X, ones]), -eye]), -np.ones(n)
    else:
        rows = np.hstack([X, -X, ones])
        A, side = np.vstack([np.hstack([rows, -eye]), np.hstack([-rows, -eye])]), np.r_[y, -y]
    cost = np.r_[np.full(2 * d, reg_lambda), 0.0, np.full(n, 1 / n)]
    bounds = [(0, None)] * (2 * d) + [(None, None)] + [(0, None)] * n
    best = linprog(cost, A_ub=A, b_ub=side, bounds=bounds).fun
    ours = fitted(loss, "l1", X, y, tol=1e-9, max_iter=5000, reg_lambda=reg_lambda, solver=solver)
    assert ours.status_ == "converged"
    assert ours.lower_bound_ <= best * (1 + 1e-9)
    assert ours.objective_ == pytest.approx(best, rel=1e-8)


@pytest.mark.filterwarnings("ignore:w is nearly 0")
def test_l1_is_sparse(problems):
    X, y = problems["hinge"]
    noise = np.random.default_rng(0).normal(size=(len(X), 20))
    ours = fitted("hinge", "l1", np.c_[X, noise], y, tol=1e-8)
    assert 0 < np.count_nonzero(ours.coef_) < 15
    heavy = fitted("hinge", "l1", X, y, reg_lambda=10.0)
    assert not heavy.coef_.any() and heavy.objective_ == pytest.approx(heavy.lower_bound_)


@pytest.mark.wide
@pytest.mark.parametrize("form", ["dense", "diagonal", "sparse"])
@pytest.mark.parametrize("loss", ESTIMATORS)
def test_forms_of_a_quadratic(problems, loss, form):
    """A diagonal B is a scaling of the features."""
    X, y = problems[loss]
    scale = np.array([1.0, 2.0, 3.0, 0.5])
    diagonal = {"dense": np.diag(scale**2), "diagonal": scale**2, "sparse": sp.diags(scale**2)}
    kind = {"reg_lambda": LAMBDA, "tol": 1e-8}
    ours = clone(ESTIMATORS[loss]).set_params(regularizer=Quadratic(diagonal[form]), **kind)
    scaled = clone(ESTIMATORS[loss]).set_params(**kind).fit(X / scale, y)
    assert ours.fit(X, y).objective_ == pytest.approx(scaled.objective_, rel=2e-8)


def test_powers_near_their_limits(problems):
    X, y = problems["hinge"]
    kind = {"tol": 1e-6, "max_iter": 5000, "reg_lambda": LAMBDA}
    l2 = BMRMClassifier(regularizer=L2(), **kind).fit(X, y)
    lp = BMRMClassifier(regularizer=Lp(2.0), **kind).fit(X, y)
    assert lp.objective_ == pytest.approx(l2.objective_, rel=2e-6)
    near_one = BMRMClassifier(regularizer=Lp(1.05), **kind).fit(X, y)
    assert near_one.status_ == "converged"


# ---- every regularizer in every estimator ------------------------------------------------------


@pytest.mark.matrix
@pytest.mark.parametrize("name", REGULARIZERS)
@pytest.mark.parametrize("solver", ["line-search", "cutting-plane"])
@pytest.mark.parametrize("loss", [*ESTIMATORS, "novelty"])
def test_default_calls_converge(problems, loss, name, solver):
    if loss == "novelty":
        X, y = problems["hinge"]
        model = BMRMNoveltyDetector(rho=1.0)
    else:
        (X, y), model = problems[loss], clone(ESTIMATORS[loss])
    model.set_params(regularizer=REGULARIZERS[name], solver=solver, reg_lambda=1e-2).fit(X, y)
    assert model.status_ == "converged" and model.dual_gap_ <= 1e-3 * model.objective_
    if name.startswith("entropy"):
        assert (model.coef_ >= 0.0).all()
    if name == "entropy_simplex":
        assert model.coef_.sum() == pytest.approx(1.0, rel=1e-9)


@pytest.mark.parametrize("reg_lambda", [1e-3, 1e-6])
@pytest.mark.parametrize(
    "loss", ["squared_hinge", "log_loss", "exponential", "roc_auc", "squared_error", "poisson"]
)
def test_entropy_with_steep_planes(problems, loss, reg_lambda):
    """The conjugate's gradient is exp(-a/reg_lambda - 1): it overflows at the first plane."""
    regressing = loss in ("squared_error", "poisson")
    X, y = problems["squared_error" if regressing else "hinge"]
    kind = BMRMRegressor if regressing else BMRMClassifier
    model = kind(loss, regularizer="entropy", reg_lambda=reg_lambda, max_iter=5000)
    model.fit(X, np.exp(y) if loss == "poisson" else y)
    assert model.status_ == "converged" and np.isfinite(model.coef_).all()


@pytest.mark.matrix
@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("size", [1e-6, 1e3, 1e6, 1e8])
@pytest.mark.parametrize("name", ["entropy", "l1", "l2", "lp"])
def test_exponentials_overflow_quietly(problems, name, size):
    """Along a line that is searched they do; what is infinite there is too far, and no warning."""
    X, y = problems["hinge"]
    X = size * np.asarray(X, dtype=np.float64)
    parameters = {"regularizer": name, "fit_intercept": False, "max_iter": 10}
    for model in (
        BMRMClassifier("exponential", **parameters),
        BMRMRegressor("poisson", **parameters),
    ):
        model.fit(X, y if model.loss == "exponential" else np.abs(y))
        assert np.isfinite(model.objective_) and np.isfinite(model.coef_).all()


@pytest.mark.parametrize("name", ["lp", "entropy_simplex", "l1"])
def test_few_planes(problems, name):
    """At most ten of them, and the plane 0 that bounds the linear programme."""
    X, y = problems["hinge"]
    few = fitted("hinge", name, X, y, bundle_size=10, max_iter=20_000, warm_start=True)
    assert few.status_ == "converged" and few._warm.kept[0].bundle.size <= 11
    assert few.objective_ == pytest.approx(fitted("hinge", name, X, y).objective_, rel=2e-3)


@pytest.mark.parametrize("name", ["entropy", "entropy_simplex", "l1"])
def test_sparse_data(problems, name):
    X, y = problems["hinge"]
    Z = X * (np.abs(X) > 0.5)
    dense, sparse = (fitted("hinge", name, data, y, tol=1e-8) for data in (Z, sp.csr_array(Z)))
    assert sparse.objective_ == pytest.approx(dense.objective_, rel=2e-8)


@pytest.mark.parametrize("kind", [L1, L2, Lp, Entropy, EntropySimplex])
def test_names_are_instances(problems, kind):
    names = {L1: "l1", L2: "l2", Lp: "lp", Entropy: "entropy", EntropySimplex: "entropy_simplex"}
    X, y = problems["hinge"]
    fits = [
        BMRMClassifier(regularizer=r, reg_lambda=LAMBDA).fit(X, y) for r in (names[kind], kind())
    ]
    assert np.array_equal(fits[0].coef_, fits[1].coef_)


# ---- errors ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "regularizer, message",
    [
        ("l3", "'regularizer' parameter of .*'l3'"),
        ("quadratic", r"regularizer='quadratic' needs B: .*Quadratic\(B=...\)"),
        (Quadratic(np.eye(3)), r"B has shape \(3, 3\), but X has 4 features"),
        (Quadratic(sp.eye(3)), r"B has shape \(3, 3\), but X has 4 features"),
        (Quadratic(np.ones((4, 3))), r"B has shape \(4, 3\); allowed are"),
        (Quadratic([1.0, -1.0, 1.0, 1.0]), "positive definite, but its smallest diagonal .*-1.0"),
        (Quadratic(B - np.eye(4)), "positive definite, but its smallest eigenvalue is -"),
        (Quadratic(sp.csr_matrix(B - np.eye(4))), "B must be positive definite"),
        (Quadratic(np.triu(B)), "B must be symmetric, but .*0.5"),
        (Quadratic(np.full(4, np.nan)), "B has entries that are NaN or infinite"),
        (Lp(1.0), "p=1.0 must be greater than 1 and at most 2"),
        (Lp(2.5), "p=2.5 must be"),
    ],
    ids=str,
)
@pytest.mark.parametrize("loss", ["hinge", "softmax", "squared_error", "ordinal"])
def test_bad_regularizers(problems, loss, regularizer, message):
    model = clone(ESTIMATORS[loss]).set_params(regularizer=regularizer)
    with pytest.raises(ValueError, match=message):
        model.fit(*problems[loss])
    assert not [name for name in vars(model) if name.endswith("_")]


@pytest.mark.parametrize("reg_lambda", [1.0, 10.0, 25.0])
def test_l1_has_the_nonzeros_of_the_optimum(reg_lambda):
    """Not those of all iterates that the best point is a mean of."""
    X, y = load_diabetes(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    ours = BMRMRegressor(regularizer="l1", reg_lambda=reg_lambda, tol=1e-5).fit(X, y)
    lasso = linear_model.Lasso(alpha=reg_lambda, tol=1e-10).fit(X, y)
    np.testing.assert_array_equal(ours.coef_ != 0.0, lasso.coef_ != 0.0)


@pytest.mark.wide
def test_entropy_starts_where_the_loss_is_finite():
    """Features are up to 1,680: at the least entropy, w = 1/e, the loss overflows."""
    X, y = load_wine(return_X_y=True)
    model = BMRMClassifier("exponential", regularizer="entropy", reg_lambda=1e-3).fit(X, y)
    assert np.isfinite(model.objective_).all()
    assert (model.lower_bound_ <= model.objective_).all()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_linear_programme_that_fails_ends_no_fit():
    rng = np.random.default_rng(0)
    X, y = 1e6 * rng.normal(size=(40, 2)), rng.integers(0, 2, 40)
    model = BMRMClassifier(regularizer="l1", reg_lambda=1e-10, max_iter=60).fit(X, y)
    assert 0.0 <= model.lower_bound_ <= model.objective_ <= 1.0


@pytest.mark.wide
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("seed", range(10))
def test_rounding_in_the_regularizer_is_no_broken_loss(seed):
    """The objective is about 1e-14 here, the terms of the bound about 1e-3."""
    X = 1e6 * np.random.default_rng(seed).normal(size=(2, 5))
    model = BMRMClassifier(
        "multiclass_hinge",
        regularizer="entropy_simplex",
        reg_lambda=1e-3,
        fit_intercept=False,
        max_iter=50,
    ).fit(X, [0, 1])
    assert model.lower_bound_ <= model.objective_


@pytest.mark.parametrize("limit", [{"max_iter": 2}, {"max_time": 1e-9}], ids=str)
def test_advice_names_what_l1_takes_long_for(problems, limit, by_steps):
    X, y = problems["hinge"]
    name = next(iter(limit))
    model = BMRMClassifier(regularizer="l1", reg_lambda=1e-6, tol=1e-9, **limit)
    with pytest.warns(ConvergenceWarning, match=f"With L1.*increase reg_lambda or tol, or {name};"):
        model.fit(X, y)
    with pytest.warns(ConvergenceWarning, match=f"Increase {name} or tol, or reg_lambda"):
        model.set_params(regularizer="l2").fit(X, y)
