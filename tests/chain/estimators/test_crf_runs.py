"""SDCACRF: where a fit ends, and what must not change its result."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from sklearn_bundle import SDCACRF
from tests.contract.chains import SAMPLINGS, SOLVERS, WEIGHTS, assert_true_certificate, parts
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


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("max_iter", [1, 2, 5])
def test_max_iter_leaves_a_true_certificate(chains, solver, max_iter):
    model = SDCACRF(solver=solver, max_iter=max_iter, tol=1e-12)
    with pytest.warns(ConvergenceWarning, match="'max_iter'"):
        model.fit(*chains)
    assert model.status_ == "max_iter" and model.n_iter_ == max_iter == len(model.history_)
    assert_true_certificate(model, *chains)


@pytest.mark.parametrize("solver", SOLVERS)
def test_max_time_leaves_a_true_certificate(chains, solver):
    model = SDCACRF(solver=solver, max_time=1e-9, tol=1e-12)
    with pytest.warns(ConvergenceWarning, match="'max_time'"):
        model.fit(*chains)
    assert model.status_ == "max_time" and model.n_iter_ == 1
    assert_true_certificate(model, *chains)


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_miss_warns_once_and_says_what_to_change(chains, solver):
    message = r"SDCACRF.*after 3 iterations at a relative duality gap of .*, above tol.*Increase"
    with pytest.warns(ConvergenceWarning, match=message) as record:
        SDCACRF(solver=solver, max_iter=3, tol=1e-9).fit(*chains)
    assert len(record) == 1 and record[0].filename == __file__


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


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("scale", [1.0, 30.0, 1e3])
def test_history(chains, solver, scale):
    X, y = [x * scale for x in chains[0]], chains[1]
    model = quiet(SDCACRF(solver=solver, tol=1e-7, max_iter=60, random_state=0), X, y)
    assert_lawful_history(model)


@pytest.mark.parametrize(
    "solver, seed, size, scale, reg_lambda",
    [
        ("sdca", 26, (3, 2, 2, 4), 100.0, 1e-5),
        ("sdca", 53, (3, 2, 2, 4), 100.0, 1e-5),
        ("exponentiated", 26, (3, 2, 2, 4), 1e4, 10.0),
        ("exponentiated", 52, (8, 3, 3, 5), 1e4, 10.0),
        ("exponentiated", 4, (3, 2, 2, 4), 100.0, 1e-3),
    ],
)
def test_history_with_little_regularization(solver, seed, size, scale, reg_lambda):
    """Gains of the dual are small differences of large numbers here; no bound may be too high."""
    X, y = made(*size, seed=seed)
    model = SDCACRF(solver=solver, reg_lambda=reg_lambda, max_iter=20, random_state=0)
    quiet(model, [scale * x for x in X], y)
    assert model.history_["lower_bound"].max() <= model.objective_
    assert_lawful_history(model)


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


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("reg_lambda", [None, 0.05])
def test_a_weight_is_a_number_of_repetitions(chains, solver, reg_lambda):
    """Zero is a missing sequence."""
    X, y = chains
    times = np.arange(30) % 3
    again = np.repeat(np.arange(30), times)
    model = SDCACRF(solver=solver, reg_lambda=reg_lambda, tol=1e-10, max_iter=2000)
    one = clone(model).fit(X, y, times)
    two = clone(model).fit([X[i] for i in again], [y[i] for i in again])
    assert one.objective_ == pytest.approx(two.objective_, rel=2e-10)
    for a, b in zip(parts(one), parts(two), strict=True):
        assert_allclose(a, b, atol=2e-4)  # 2 sqrt(2 gap / reg_lambda)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("size", [1e-300, 1e-10, 1e10, 1e308])
def test_the_size_of_the_weights_does_not_matter(chains, solver, size):
    model = SDCACRF(solver=solver, reg_lambda=0.05, random_state=0)
    expected = clone(model).fit(*chains)
    model.fit(*chains, np.full(30, size))
    assert model.objective_ == pytest.approx(expected.objective_, rel=2e-3)


@pytest.mark.parametrize("size", [1e-300, 1e308])
def test_weights_whose_sum_is_no_reg_lambda(chains, size):
    """``reg_lambda=None`` is one over their sum: an error that says so, or a model."""
    try:
        model = quiet(SDCACRF(), *chains, np.full(30, size))
    except ValueError as error:
        assert "weight" in str(error) or "reg_lambda" in str(error)
    else:
        assert np.isfinite(model.objective_) and np.isfinite(model.coef_).all()


def test_default_reg_lambda_is_one_over_the_sum_of_the_weights(chains):
    for weights, reg_lambda in ((None, 1.0 / 30.0), (WEIGHTS, 1.0 / WEIGHTS.sum())):
        default = SDCACRF(random_state=0).fit(*chains, weights)
        given = SDCACRF(reg_lambda=reg_lambda, random_state=0).fit(*chains, weights)
        assert_array_equal(default.coef_, given.coef_)


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.filterwarnings("ignore:.* ignores sampling")
def test_equal_seeds_give_equal_bits(chains, solver, sampling):
    model = SDCACRF(solver=solver, sampling=sampling, random_state=7)
    one, two = (clone(model).fit(*chains) for _ in range(2))
    assert bits(one) == bits(two)
    other = clone(model).set_params(random_state=8).fit(*chains)
    assert solver in ("auto", "lbfgs") or bits(other) != bits(one)


def bits(model):
    return [part.tobytes() for part in parts(model)], model.objective_, model.lower_bound_


@pytest.mark.parametrize("solver", SOLVERS)
def test_threads_agree_to_the_certificate(chains, solver):
    one = SDCACRF(solver=solver, tol=1e-7, random_state=0, max_iter=1000).fit(*chains)
    two = clone(one).set_params(n_jobs=2).fit(*chains)
    assert two.objective_ == pytest.approx(one.objective_, rel=1e-7)
    assert_true_certificate(two, *chains)
    assert one.predict(chains[0]) == two.predict(chains[0])


# ---- warm starts ------------------------------------------------------------------------------


@pytest.mark.wide
@pytest.mark.parametrize("reg_lambda", [0.1, 1e-5])
def test_warm_start_of_auto(sparse_chains, reg_lambda):
    """From the point of either solver, by either solver."""
    warm = SDCACRF(reg_lambda=reg_lambda, warm_start=True, max_iter=1000, random_state=0)
    first = warm.fit(*sparse_chains).n_iter_
    assert warm.fit(*sparse_chains).n_iter_ < first
    for other in (1e-5, 0.1):
        warm.set_params(reg_lambda=other).fit(*sparse_chains)
        cold = clone(warm).fit(*sparse_chains)
        assert warm.status_ == "converged"
        assert warm.objective_ == pytest.approx(cold.objective_, rel=1e-3)


@pytest.mark.parametrize("solver", SOLVERS)
def test_warm_start(chains, solver):
    warm = SDCACRF(solver=solver, tol=1e-6, warm_start=True, max_iter=1000, random_state=0)
    first = warm.fit(*chains).n_iter_
    assert warm.fit(*chains).n_iter_ < first
    warm.set_params(reg_lambda=0.03).fit(*chains)
    cold = clone(warm).fit(*chains)
    assert warm.n_iter_ < cold.n_iter_
    assert warm.objective_ == pytest.approx(cold.objective_, rel=1e-6)
    assert_true_certificate(warm, *chains)


@pytest.mark.parametrize("solver", SOLVERS)
def test_warm_start_to_a_smaller_tol(chains, solver):
    warm = SDCACRF(solver=solver, warm_start=True, max_iter=1000, random_state=0).fit(*chains)
    warm.set_params(tol=1e-12).fit(*chains)
    assert warm.status_ == "converged" and warm.dual_gap_ <= 1e-12 * warm.objective_
    assert_true_certificate(warm, *chains)


@pytest.mark.wide
@pytest.mark.parametrize("solver", SOLVERS)
def test_warm_start_at_the_optimum(chains, solver):
    warm = SDCACRF(solver=solver, warm_start=True, max_iter=1000, tol=1e-13, random_state=0)
    objective = quiet(warm, *chains).objective_
    for _ in range(3):
        assert quiet(warm, *chains).objective_ == pytest.approx(objective, rel=1e-12)


@pytest.mark.parametrize("change", ["X", "y", "lengths", "weights", "fit_intercept", "solver"])
def test_warm_start_only_on_the_same_problem(chains, change):
    X, y, weights = *chains, None
    model = SDCACRF(solver="exponentiated", tol=1e-5, warm_start=True, random_state=0).fit(X, y)
    if change == "X":
        X = [X[0] + 1e-9, *X[1:]]
    elif change == "y":
        y = [[(y[0][0] + 1) % 3], *y[1:]]
    elif change == "lengths":
        X = [np.r_[X[0], X[1][:1]], X[1][1:], *X[2:]]
        y = [y[0] + y[1][:1], y[1][1:], *y[2:]]
    elif change == "weights":
        weights = WEIGHTS
    else:
        model.set_params(**{change: {"fit_intercept": False, "solver": "sdca"}[change]})
    cold = clone(model).fit(X, y, weights)
    model.fit(X, y, weights)
    assert model.n_iter_ == cold.n_iter_ and model.objective_ == cold.objective_
