"""SDCACRF with L1: optimum, bound and zeros against other solvers, and models of nonzeros."""

import pickle

import joblib
import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError

from sklearn_bundle import SDCACRF, SDCACRFCV, crf_path
from tests import reference_chain as reference
from tests.contract.chains import (
    DUAL,
    FORMS,
    METHODS,
    WEIGHTS,
    assert_true_certificate,
    named_chains,
    parts,
)
from tests.contract.fits import quiet

SOLVERS = ["auto", *DUAL]
TIGHT = {"tol": 1e-7, "max_iter": 5000, "random_state": 0}


@pytest.fixture(scope="module")
def chains():
    return reference.made()


@pytest.fixture(scope="module", params=[0.3, 1.0])
def best(chains, request):
    """The optimum of scipy, in two variables a weight."""
    model = reference.Model(*chains, 3, 0.05, WEIGHTS, l1_ratio=request.param)
    return request.param, model, model.optimum()


@pytest.mark.wide
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("tol", [1e-2, 1e-6])
def test_optimum_and_zeros(chains, best, solver, tol):
    l1_ratio, model, w = best
    ours = SDCACRF(
        reg_lambda=0.05, l1_ratio=l1_ratio, solver=solver, tol=tol, max_iter=5000, random_state=0
    ).fit(*chains, WEIGHTS)
    optimum, point = model.objective(w), model.joined(*parts(ours))
    assert ours.status_ == "converged" and ours.dual_gap_ <= tol * ours.objective_
    assert_true_certificate(ours, *chains, WEIGHTS)
    assert ours.lower_bound_ <= optimum * (1.0 + 1e-10)  # the reference's own error
    assert optimum * (1.0 - 1e-10) <= ours.objective_ <= optimum * (1.0 + tol)
    if tol < 1e-3:
        assert_allclose(point, w, atol=2e-2)
        assert_array_equal(point == 0.0, np.abs(w) < 1e-7)
        assert 0 < np.count_nonzero(point) < len(w)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("l1_ratio", [0.3, 1.0])
def test_above_the_largest_useful_strength_all_is_zero_at_once(chains, solver, l1_ratio):
    model = reference.Model(*chains, 3, 1.0)
    _, gradient = model.objective_and_gradient(np.zeros(model.size))
    largest = np.abs(gradient).max() / l1_ratio
    settings = {"l1_ratio": l1_ratio, "solver": solver, "tol": 1e-12, "max_iter": 1}
    zero = SDCACRF(reg_lambda=1.001 * largest, **settings).fit(*chains)
    assert zero.status_ == "converged" and not np.any(np.concatenate(parts(zero), axis=None))
    assert zero.objective_ == pytest.approx(np.mean([len(x) for x in chains[0]]) * np.log(3.0))
    below = SDCACRF(reg_lambda=0.9 * largest, **settings | {"tol": 1e-3, "max_iter": 1000})
    assert np.any(np.concatenate(parts(below.fit(*chains)), axis=None))


def test_no_l1_is_the_objective_without(chains):
    """A strength that nothing can see takes other paths of the code to the same optimum."""
    plain = SDCACRF(reg_lambda=0.05, solver="exponentiated", **TIGHT).fit(*chains)
    tiny = SDCACRF(reg_lambda=0.05, solver="exponentiated", l1_ratio=1e-12, **TIGHT).fit(*chains)
    assert tiny.lower_bound_ <= plain.objective_ and plain.lower_bound_ <= tiny.objective_
    assert_allclose(tiny.coef_, plain.coef_, atol=1e-2)


def test_lbfgs_is_refused(chains):
    for fit in (SDCACRF(solver="lbfgs", l1_ratio=0.1).fit, _path_by_lbfgs):
        with pytest.raises(ValueError, match=r"solver='lbfgs' needs .* got l1_ratio=0\.1"):
            fit(*chains)


def _path_by_lbfgs(X, y):
    crf_path(X, y, solver="lbfgs", l1_ratio=0.1)


@pytest.mark.parametrize("l1_ratio", [0.5, 1.0])
def test_auto_goes_on_without_l1_and_back(chains, l1_ratio):
    """On dense features it is L-BFGS that leaves a point, not a dual one."""
    model = SDCACRF(warm_start=True, l1_ratio=l1_ratio, max_iter=500)
    for ratio, solver in ((l1_ratio, "exponentiated"), (0.0, "lbfgs"), (l1_ratio, "exponentiated")):
        model.set_params(l1_ratio=ratio).fit(*chains)
        assert model.solver_ == solver and model.status_ == "converged"
        assert_true_certificate(model, *chains)


@pytest.mark.parametrize("l1_ratio", [0.5, 1.0])
def test_path_and_search(l1_ratio):
    X, y = named_chains()
    settings = {"l1_ratio": l1_ratio, "tol": 1e-5, "max_iter": 2000, "random_state": 0}
    values, models = crf_path(X, y, reg_lambdas=[0.5, 0.1, 0.02], **settings)
    for value, model in zip(values, models, strict=True):
        alone = SDCACRF(reg_lambda=value, **settings).fit(X, y)
        assert alone.lower_bound_ <= model.objective_ and model.lower_bound_ <= alone.objective_
        assert_true_certificate(model, X, y)
    zeros = [np.count_nonzero(model.coef_) for model in models]
    assert zeros == sorted(zeros) and zeros[0] < zeros[-1]
    search = SDCACRFCV(reg_lambdas=values, cv=2, **settings).fit(X, y)
    refit = SDCACRF(reg_lambda=search.reg_lambda_, **settings).fit(X, y)
    assert_array_equal(search.coef_, refit.coef_)


@pytest.mark.matrix
@pytest.mark.parametrize("scale", [1e-100, 1e-4, 1e4, 1e20, 1e100])
@pytest.mark.parametrize("l1_ratio", [0.5, 1.0])
def test_unscaled_features_have_a_true_certificate(chains, l1_ratio, scale):
    X = [x * scale for x in chains[0]]
    model = quiet(SDCACRF(l1_ratio=l1_ratio, max_iter=20, random_state=0), X, chains[1])
    assert np.isfinite([model.objective_, model.lower_bound_]).all()
    assert_true_certificate(model, X, chains[1], rel=1e-6)


# ---- models of the nonzeros -------------------------------------------------------------------


@pytest.fixture(params=FORMS)
def sparse_model(request):
    X, y = named_chains()
    X = FORMS[request.param](X)
    return X, SDCACRF(reg_lambda=0.2, l1_ratio=0.8, tol=1e-4, max_iter=1000).fit(X, y)


def said(model, X):
    """A hash of all answers, to the last bit."""
    return joblib.hash([getattr(model, method)(X) for method in METHODS])


def test_a_sparse_model_says_the_same(sparse_model):
    X, model = sparse_model
    before, features = said(model, X), dict(model.state_features_)
    heaviest = model.heaviest_features(1)
    assert 0 < len(features) < model.coef_.size
    model.sparsify()
    assert sp.issparse(model.coef_) and model.coef_.nnz == len(features)
    copied = pickle.loads(pickle.dumps(model))
    for sparse in (model, copied, model.sparsify(), model.densify()):
        assert said(sparse, X) == before
        assert dict(sparse.state_features_) == features
        assert len(sparse.state_features_) == len(features)
        assert sparse.heaviest_features(1) == heaviest
    assert isinstance(model.coef_, np.ndarray)


def test_named_attributes_without_weights_are_forgotten():
    """And come back with the next fit; columns of arrays have no names and stay."""
    X, y = named_chains()
    rare = [[{**token, f"rare{t}": 1e-3} for t, token in enumerate(x)] for x in FORMS["dicts"](X)]
    model = SDCACRF(reg_lambda=0.2, l1_ratio=0.8).fit(rare, y)
    names, size = model.attribute_names_, len(pickle.dumps(model))
    used = names[model.coef_.any(axis=0)].tolist()
    assert model.sparsify().attribute_names_.tolist() == used
    assert model.n_features_in_ == len(used) == model.coef_.shape[1] < len(names)
    assert len(pickle.dumps(model)) < size
    assert model.fit(rare, y).attribute_names_.tolist() == names.tolist()
    assert SDCACRF(reg_lambda=0.2, l1_ratio=0.8).fit(X, y).sparsify().coef_.shape == (3, 4)


def test_a_model_without_weights():
    X, y = named_chains()
    for form in FORMS.values():
        model = SDCACRF(reg_lambda=1e3, l1_ratio=0.5, fit_intercept=False).fit(form(X), y)
        before = said(model, form(X))
        assert said(model.sparsify(), form(X)) == before
        assert not model.state_features_ and not model.transition_features_


def test_no_model_yet():
    for method in ("sparsify", "densify"):
        with pytest.raises(NotFittedError):
            getattr(SDCACRF(), method)()
