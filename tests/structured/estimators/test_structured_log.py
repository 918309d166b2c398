"""StructuredSVM with loss="log": independent optima, certificates, warm starts, refusals."""

import pickle
import re

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

from sklearn_bundle import StructuredSVM
from sklearn_bundle.models import Multiclass
from tests.contract.fits import quiet
from tests.contract.judge import judge
from tests.contract.user_models import Grid, Orders, Ranking
from tests.reference_chain import made

IRIS = load_iris(return_X_y=True)
CHAINS = made(12, 3, 3, 4)
SOLVERS = ["lbfgs", "bundle"]
every_solver = pytest.mark.parametrize("solver", SOLVERS)


def orders(n=10, seed=0):
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(rng.integers(1, 4), 4)) for _ in range(n)]
    return X, [np.argsort(-x @ [1.0, 0.5, 0.0, -1.0] + rng.gumbel(size=len(x))) for x in X]


def likelihood(model="chain", **parameters):
    return StructuredSVM(model, loss="log", **({"reg_lambda": 0.05, "max_iter": 3000} | parameters))


# ---- the optimum ------------------------------------------------------------------------------


@pytest.mark.wide
@every_solver
def test_the_optimum_of_logistic_regression(solver):
    X, y = IRIS
    peer = LogisticRegression(C=1.0 / (0.05 * len(X)), fit_intercept=False, tol=1e-10).fit(X, y)
    model = likelihood("multiclass", solver=solver, tol=1e-9).fit(X, y)
    reach = 2.0 * np.sqrt(2.0 * model.dual_gap_ / 0.05)
    assert np.linalg.norm(model.coef_ - peer.coef_) <= reach + 1e-4
    assert_allclose(model.predict_proba(X), peer.predict_proba(X), atol=1e-4)


def test_costs_change_nothing_but_the_score():
    X, y = IRIS
    cost = [[0, 1, 2], [1, 0, 3], [2, 3, 0]]
    plain, costly = likelihood("multiclass"), likelihood(Multiclass(cost=cost))
    assert_array_equal(plain.fit(X, y).w_, costly.fit(X, y).w_)
    assert plain.score(X, y) != costly.score(X, y)


# ---- runs -------------------------------------------------------------------------------------


@every_solver
def test_a_fit_that_ends_early_goes_on(solver):
    X, y = CHAINS
    single = likelihood(solver=solver, max_iter=1, warm_start=True, tol=1e-6)
    for _ in range(6):
        quiet(single, X, y)
    at_once = quiet(likelihood(solver=solver, max_iter=6, tol=1e-6), X, y)
    # The inner problem of a plane is solved to a share of the gap, which each exit rounds afresh.
    assert single.objective_ == pytest.approx(at_once.objective_, rel=1e-11)
    assert_allclose(single.w_, at_once.w_, atol=1e-6)


@pytest.mark.wide
def test_planes_where_rounding_leaves_nothing_of_marginals_prove_nothing():
    """The first planes of such features are asked for at scores of 1e15."""
    rows = [9994003.21, 1001.47796], [9993119.66, 1001.05832], [9999785.19, 1001.60941]
    X = [np.array([[1000.654, 9998312.0]]), np.array([*rows, [10011801.6, 1000.04657]])]
    y = [[(0, 0, 1)], [(0, 0, 3), (0, 3, 4)]]
    model = likelihood("segments", solver="bundle", reg_lambda=0.02, max_iter=10, tol=1e-12)
    judge(quiet(model, X, y), X, y)


def test_planes_are_kept_for_a_larger_reg_lambda_alone():
    """What rounding may have added to a plane was taken off for a minimizer that is so far away."""
    X, y = CHAINS
    kept = {}
    for after in (0.05, 0.06, 0.04):
        model = likelihood(solver="bundle", warm_start=True, max_iter=8)
        quiet(model, X, y)
        quiet(model.set_params(reg_lambda=after, max_iter=1), X, y)
        kept[after] = int(model._warm.start(0)[0].arrays.count[0])
    # The plane 0, nine of the first fit and two of the next one, or one if the point is the same.
    assert kept == {0.05: 11, 0.06: 12, 0.04: 3}


def test_more_pairs_take_other_steps():
    X, y = CHAINS
    few, many = (likelihood(n_cached_outputs=size, tol=1e-8).fit(X, y) for size in (2, 20))
    default = likelihood(tol=1e-8).fit(X, y)
    ten = likelihood(n_cached_outputs=10, tol=1e-8).fit(X, y)
    assert few.n_iter_ > many.n_iter_
    assert_array_equal(default.w_, ten.w_)


def test_a_pickle_predicts():
    X, y = IRIS
    model = likelihood("multiclass").fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    assert_array_equal(model.predict_proba(X), again.predict_proba(X))


# ---- probabilities ----------------------------------------------------------------------------


def test_probabilities_of_two_classes():
    X, y = IRIS[0][:100], IRIS[1][:100]
    model = likelihood("multiclass").fit(X, y)
    odds = np.exp(-model.decision_function(X))
    assert_allclose(model.predict_proba(X), np.c_[odds, np.ones(100)] / (1.0 + odds)[:, None])
    assert_array_equal(model.classes_[model.predict_proba(X).argmax(axis=1)], model.predict(X))


@pytest.mark.parametrize(
    "model", [StructuredSVM("multiclass"), likelihood(), likelihood(Orders())], ids=repr
)
def test_only_classes_by_likelihood_have_probabilities(model):
    assert not hasattr(model, "predict_proba")


# ---- what is refused --------------------------------------------------------------------------


class OneSided(Orders):
    def nonnegative(self):
        return [0]


@pytest.mark.parametrize("model, parameters, message", [
    ("chain", {"solver": "bcfw"}, "loss='log' takes one of the solvers 'auto', 'lbfgs', 'bundle', "
     "got solver='bcfw'"),
    ("chain", {"solver": "rsd"}, "got solver='rsd'"),
    ("chain", {"loss": "hinge", "solver": "lbfgs"}, "solver='lbfgs' is only for loss='log', got "
     "loss='hinge'"),
    (Ranking(), {}, "loss='log' needs the sums over all outputs of a method expected_features, "
     "which Ranking does not have. Use loss='hinge'."),
    (OneSided(), {}, "loss='log' does not support models with parameters that must not be "
     "negative, but OneSided.nonnegative returns some. Use loss='hinge'."),
])  # fmt: skip
def test_refused_combinations(model, parameters, message):
    X, y = CHAINS if model == "chain" else orders()
    model = likelihood(model).set_params(**parameters)
    with pytest.raises(ValueError, match=re.escape(message)):
        model.fit(X, y)
    assert not hasattr(model, "w_")


def test_a_model_without_sums_is_named():
    x = np.ones((2, 3, 2))
    with pytest.raises(ValueError, match="expected_features, which Grid does not have"):
        likelihood(Grid()).fit([x], [np.zeros((2, 3), int)])
