"""SDCACRF: where a fit ends, and what must not change its result."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sklearn_bundle import SDCACRF
from tests.contract.chains import SOLVERS, assert_true_certificate
from tests.contract.fits import quiet
from tests.reference_chain import made


@pytest.fixture(scope="module")
def chains():
    return made()


@pytest.fixture(scope="module")
def sparse_chains():
    """Each token has two of 60 attributes, one of which tells a little of its label."""
    rng = np.random.default_rng(0)
    _, y = made(40, 3, longest=8)
    return [
        [[f"a{20 * label + rng.integers(25)}", f"a{rng.integers(65)}"] for label in labels]
        for labels in y
    ], y


# ---- where it ends ----------------------------------------------------------------------------


def assert_lawful_history(model):
    """The bound never falls, the gap never grows, and the last row is the certificate."""
    h = model.history_
    assert (np.diff(h["lower_bound"]) >= -1e-13 * np.abs(h["lower_bound"][1:])).all()
    gaps = h["objective"] - h["lower_bound"]
    assert (np.diff(gaps) <= 1e-13 * h["objective"][1:]).all()
    assert_array_equal(h["iteration"], np.arange(1, model.n_iter_ + 1))
    assert (np.diff(h["seconds"]) >= 0.0).all() and (np.diff(h["passes"]) > 0).all()
    assert (h["estimate"] >= 0.0).all()
    assert h["objective"][-1] == model.objective_ and h["lower_bound"][-1] == model.lower_bound_


@pytest.mark.wide
@pytest.mark.parametrize("reg_lambda, expected", [(0.1, "exponentiated"), (1e-5, "lbfgs")])
def test_auto_goes_on_with_another_solver(sparse_chains, reg_lambda, expected):
    """Where the gap falls slowly. Bound and objective are handed over."""
    model = SDCACRF(reg_lambda=reg_lambda, random_state=0, max_iter=1000).fit(*sparse_chains)
    assert model.status_ == "converged" and model.solver_ == expected
    assert_lawful_history(model)
    alone = SDCACRF(reg_lambda=reg_lambda, solver="lbfgs", tol=1e-9, max_iter=5000)
    best = alone.fit(*sparse_chains)
    assert best.lower_bound_ <= model.objective_ <= best.objective_ * (1.0 + 1e-3)
    assert model.lower_bound_ <= best.objective_


@pytest.mark.wide
@pytest.mark.parametrize("max_iter", [1, 9, 10, 11, 12, 15])
def test_auto_that_ends_about_the_change(sparse_chains, max_iter):
    model = SDCACRF(reg_lambda=1e-5, random_state=0, max_iter=max_iter, tol=1e-9)
    quiet(model, *sparse_chains)
    assert model.n_iter_ == max_iter and model.status_ == "max_iter"
    assert_lawful_history(model)


def test_auto_on_dense_features(chains):
    model = SDCACRF(tol=1e-6).fit(*chains)
    assert model.solver_ == "lbfgs"
    assert_lawful_history(model)


@pytest.mark.parametrize("solver", SOLVERS[1:])
def test_the_solver_that_was_asked_for(chains, solver):
    assert SDCACRF(solver=solver).fit(*chains).solver_ == solver


@pytest.mark.parametrize("tol", [0, 0.0, -1e-3, np.nan])
def test_a_tol_that_is_not_positive(chains, tol):
    with pytest.raises(
        ValueError, match=r"'tol' parameter of SDCACRF .* in the range \(0\.0, 1\.0\]"
    ):
        SDCACRF(tol=tol).fit(*chains)


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_tol_below_rounding_ends_at_the_optimum(chains, solver):
    settings = {"reg_lambda": 0.05, "tol": 1e-300, "max_iter": 300, "random_state": 0}
    model = quiet(SDCACRF(solver=solver, **settings), *chains)
    assert model.status_ in ("max_iter", "stalled")
    # What is taken off the bound for rounding is 160 units of rounding at least; otherwise 0 to 2.
    assert 2.0**-50 * model.objective_ < model.dual_gap_ <= 1e-12 * model.objective_
    assert_true_certificate(model, *chains)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("scale", [1e2, 1e4, 1e8, 1e20, 1e100])
def test_unscaled_features_have_a_true_certificate(chains, solver, scale):
    """Also where w x is far beyond what exp takes; rounding is that of scores of this size."""
    X = [x * scale for x in chains[0]]
    model = quiet(SDCACRF(solver=solver, max_iter=20, random_state=0), X, chains[1])
    assert np.isfinite([model.objective_, model.lower_bound_]).all()
    assert_true_certificate(model, X, chains[1], rel=1e-6)
    mean_length = np.mean([len(x) for x in X])
    assert model.objective_ <= mean_length * np.log(3.0) * (1.0 + 1e-12)  # P(0)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("scale", [1e160, 1e200, 1e300])
def test_features_beyond_the_largest_number(chains, solver, scale):
    """An error that says so, or a model; but neither NaN nor a crash."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            X = [x * scale for x in chains[0]]
            model = SDCACRF(solver=solver, max_iter=5).fit(X, chains[1])
        except ValueError:
            return
    assert np.isfinite(model.coef_).all() and model.lower_bound_ <= model.objective_


@pytest.mark.parametrize("solver", SOLVERS)
def test_nothing_to_learn(solver):
    """The optimum is w = 0, where the solvers start."""
    model = SDCACRF(solver=solver, fit_intercept=False).fit(np.zeros((4, 2)), [0, 1, 0, 1])
    assert model.status_ == "converged" and model.n_iter_ >= 1
    assert model.objective_ == pytest.approx(np.log(2.0), rel=1e-3)
    assert_lawful_history(model)


# ---- weights, seeds, threads ------------------------------------------------------------------


@pytest.mark.parametrize("size", [1e-300, 1e308])
def test_weights_whose_sum_is_no_reg_lambda(chains, size):
    """``reg_lambda=None`` is one over their sum: an error that says so, or a model."""
    try:
        model = quiet(SDCACRF(), *chains, np.full(30, size))
    except ValueError as error:
        assert "weight" in str(error) or "reg_lambda" in str(error)
    else:
        assert np.isfinite(model.objective_) and np.isfinite(model.coef_).all()


# ---- warm starts ------------------------------------------------------------------------------
