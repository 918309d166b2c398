"""StructuredSVM with loss="log": independent optima, certificates, warm starts, refusals."""

import pickle
import re

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

from sklearn_bundle import SDCACRF, BMRMClassifier, StructuredSVM
from sklearn_bundle.models import Chain, Multiclass, Ontology
from tests.contract.fits import quiet
from tests.contract.judge import judge
from tests.contract.user_models import Grid, Orders, Ranking
from tests.reference_chain import made

EDGES = [("all", "early"), ("early", 0), ("early", 1), ("all", 2)]
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


def agree(ours, theirs):
    """Each bound is one of both problems, as they are the same."""
    assert ours.status_ == "converged"
    assert ours.lower_bound_ <= theirs.objective_ * (1.0 + 1e-13)
    assert theirs.lower_bound_ <= ours.objective_ * (1.0 + 1e-13)


# ---- the optimum ------------------------------------------------------------------------------


@pytest.mark.parametrize("solver, tol", [("lbfgs", 1e-9), ("bundle", 1e-7)])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_the_optimum_of_the_crf(solver, tol, fit_intercept):
    X, y = made(20, 3, 4, 5)
    weights = np.arange(20) % 3 + 0.5
    crf = SDCACRF(reg_lambda=0.05, tol=1e-9, max_iter=500, fit_intercept=fit_intercept)
    crf.fit(X, y, weights)
    model = likelihood(Chain(fit_intercept=fit_intercept), solver=solver, tol=tol)
    agree(model.fit(X, y, weights), crf)
    # P is strongly convex: both points are within sqrt(2 gap / reg_lambda) of the optimum.
    reach = np.sqrt(2.0 * model.dual_gap_ / 0.05) + np.sqrt(2.0 * crf.dual_gap_ / 0.05)
    for name in ("coef_", "transitions_", "intercept_", "start_", "end_"):
        assert np.linalg.norm(getattr(model, name) - getattr(crf, name)) <= reach


@pytest.mark.wide
@every_solver
def test_the_optimum_of_logistic_regression(solver):
    X, y = IRIS
    peer = LogisticRegression(C=1.0 / (0.05 * len(X)), fit_intercept=False, tol=1e-10).fit(X, y)
    model = likelihood("multiclass", solver=solver, tol=1e-9).fit(X, y)
    reach = 2.0 * np.sqrt(2.0 * model.dual_gap_ / 0.05)
    assert np.linalg.norm(model.coef_ - peer.coef_) <= reach + 1e-4
    assert_allclose(model.predict_proba(X), peer.predict_proba(X), atol=1e-4)


@pytest.mark.parametrize("stored", [np.array, sp.csr_matrix])
def test_the_optimum_of_softmax(stored):
    X, y = IRIS
    weights = np.arange(len(y)) % 2 + 0.5
    peer = BMRMClassifier("softmax", reg_lambda=0.05, tol=1e-8, fit_intercept=False)
    model = likelihood("multiclass", tol=1e-8)
    agree(model.fit(stored(X), y, weights), peer.fit(X, y, weights))


@pytest.mark.wide
@pytest.mark.matrix
@pytest.mark.parametrize("of", ["chain", "ontology", "orders"])
@every_solver
@pytest.mark.parametrize("weighted", [False, True])
def test_certificate_against_enumeration(of, solver, weighted):
    model, (X, y) = {
        "chain": (Chain(), CHAINS),
        "ontology": (Ontology(EDGES), tuple(part[::7] for part in IRIS)),
        "orders": (Orders(), orders()),
    }[of]
    weights = np.arange(len(y)) % 3 / 2.0 if weighted else None
    model = likelihood(model, solver=solver, tol=1e-6).fit(X, y, weights)
    assert model.status_ == "converged" and model.exact_
    judge(model, X, y, weights)


def test_chains_of_length_one_are_classes():
    X, y = IRIS
    chain = likelihood(tol=1e-9).fit(X, y)
    biased = likelihood("multiclass", tol=1e-9).fit(np.c_[X, np.ones((len(X), 3))], y)
    assert chain.objective_ == pytest.approx(biased.objective_, rel=2e-9)


def test_costs_change_nothing_but_the_score():
    X, y = IRIS
    cost = [[0, 1, 2], [1, 0, 3], [2, 3, 0]]
    plain, costly = likelihood("multiclass"), likelihood(Multiclass(cost=cost))
    assert_array_equal(plain.fit(X, y).w_, costly.fit(X, y).w_)
    assert plain.score(X, y) != costly.score(X, y)


# ---- runs -------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", ["auto", *SOLVERS])
def test_history_counts_passes(solver):
    model = likelihood(solver=solver).fit(*CHAINS)
    h = model.history_
    assert model.solver_ == ("lbfgs" if solver == "auto" else solver)
    assert h.dtype.names == (
        *("iteration", "seconds", "objective", "lower_bound", "passes", "oracle_calls"),
    )
    assert (12 * h["passes"] == h["oracle_calls"]).all() and (np.diff(h["passes"]) >= 1).all()


@pytest.mark.wide
@every_solver
def test_a_warm_start_goes_on(solver):
    X, y = CHAINS
    model = likelihood(solver=solver, warm_start=True, tol=1e-6).fit(X, y)
    cold = model.n_iter_
    assert model.fit(X, y).n_iter_ == 1
    model.set_params(tol=1e-7).fit(X, y)
    assert model.status_ == "converged" and model.n_iter_ < cold
    model.set_params(reg_lambda=0.049).fit(X, y)
    assert model.status_ == "converged" and model.n_iter_ < cold
    judge(model, X, y)
    hinge = model.set_params(loss="hinge", solver="auto").fit(X, y)
    assert hinge.status_ == "converged"  # from nothing that another loss has left


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
        kept[after] = model._warm.kept[0].bundle.size
    assert kept == {0.05: 10, 0.06: 10, 0.04: 2}  # of nine, one and one in a fit from none


def test_more_pairs_take_other_steps():
    X, y = CHAINS
    few, many = (likelihood(n_cached_outputs=size, tol=1e-8).fit(X, y) for size in (2, 20))
    default = likelihood(tol=1e-8).fit(X, y)
    ten = likelihood(n_cached_outputs=10, tol=1e-8).fit(X, y)
    assert few.n_iter_ > many.n_iter_
    assert_array_equal(default.w_, ten.w_)


def test_threads_do_not_change_a_bit():
    one, three = (likelihood(n_jobs=n).fit(*CHAINS) for n in (1, 3))
    assert_array_equal(one.w_, three.w_)


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
    (OneSided(), {"loss": "hinge", "solver": "bundle"}, "solver='bundle' does not support models "
     "with parameters that must not be negative, but OneSided.nonnegative returns some. Use "
     "solver='auto'."),
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
