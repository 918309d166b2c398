"""BMRMNoveltyDetector: the optimum against clarabel and OneClassSVM, and what its users see."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linprog, nnls
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import OneClassSVM

from sklearn_bundle import BMRMNoveltyDetector
from sklearn_bundle.losses import Novelty, NuNovelty

ROWS = 80
TIGHT = {"tol": 1e-9, "max_iter": 5000}
FIXED = {"rho": 1.0}  # the formulation with a given offset


@pytest.fixture(scope="module")
def X():
    return 1.0 + np.random.default_rng(0).normal(size=(ROWS, 4))


@pytest.mark.parametrize("nu", [0.05, 0.4])
def test_nu_decides_like_one_class_svm(X, nu):
    theirs = OneClassSVM(kernel="linear", nu=nu, tol=1e-9).fit(X)
    ours = BMRMNoveltyDetector(nu=nu, reg_lambda=0.5, **TIGHT).fit(X)
    times = ROWS * nu * 0.5
    np.testing.assert_allclose(times * ours.coef_, theirs.coef_, rtol=1e-4)
    np.testing.assert_allclose(times * ours.offset_, theirs.offset_, rtol=1e-4)
    apart = np.abs(theirs.decision_function(X)) > 1e-3 * theirs.offset_
    assert apart.sum() > 70
    assert np.array_equal(ours.predict(X)[apart], theirs.predict(X)[apart])


@pytest.mark.parametrize("weighted", [False, True])
def test_tail_mean_is_a_maximum_of_its_planes(weighted):
    """Over all u with 0 <= u_i <= s_i / nu and sum one, by linear programming."""
    rng = np.random.default_rng(3)
    s = rng.dirichlet(np.ones(12)) if weighted else np.full(12, 1 / 12)
    f, g = rng.integers(0, 4, 12).astype(float), np.empty(12)  # with ties
    loss = NuNovelty(nu=0.3)
    cut = loss.cut(f, None, s, False, g, None)
    best = linprog(f, A_eq=np.ones((1, 12)), b_eq=[1.0], bounds=[(0.0, x / 0.3) for x in s])
    assert cut.risk == pytest.approx(-best.fun, rel=1e-12)
    assert cut.offset == 0.0 and g @ f == pytest.approx(cut.risk, rel=1e-12)
    assert (g <= 1e-16).all() and (-g <= s / 0.3 + 1e-15).all() and g.sum() == pytest.approx(-1.0)
    rho = loss.offset(f, s)
    assert s[f < rho].sum() <= 0.3 + 1e-12 and s[f <= rho].sum() >= 0.3 - 1e-12


def test_nu_with_weights_as_repeated_rows(X):
    counts = np.random.default_rng(1).integers(0, 4, ROWS)
    ours = BMRMNoveltyDetector(nu=0.2, **TIGHT)
    weighted = clone(ours).fit(X, sample_weight=counts)
    repeated = clone(ours).fit(X.repeat(counts, axis=0))
    assert weighted.objective_ == pytest.approx(repeated.objective_, rel=2e-9)
    assert weighted.offset_ == pytest.approx(repeated.offset_, rel=1e-4)


def test_centered_data_have_no_half_space(X):
    """The mean of all samples is 0, and so is the best w: no sample is new, and that is said."""
    said = "^The origin must not lie inside the data.* {} new. Use SwapNoveltyDetector"
    with pytest.warns(ConvergenceWarning, match=said.format("no sample is")) as warned:
        ours = BMRMNoveltyDetector(max_iter=200).fit(X - X.mean(axis=0))
    assert len(warned) == 1 and str(warned[0].message).endswith("objective of 0 is finite.")
    with pytest.warns(ConvergenceWarning, match=said.format("no sample is")):
        two = BMRMNoveltyDetector().fit([[1.0], [-1.0]])
    assert two.objective_ == 0.0 and -1e-20 < two.lower_bound_ <= 0.0
    with pytest.warns(UserWarning, match=said.format("all samples are")):
        given = BMRMNoveltyDetector(rho=1.0).fit([[1.0], [-1.0]])
    assert (given.predict(X[:, :1] * 0.0) == -1).all()
    assert (ours.coef_ == 0.0).all() and ours.offset_ == 0.0 and ours.objective_ == 0.0
    assert (ours.predict(X) == 1).all() and -1e-20 < ours.lower_bound_ <= 0.0


def test_cut_is_a_plane_below_the_risk():
    rng = np.random.default_rng(2)
    loss, weights = Novelty(rho=1.5), rng.dirichlet(np.ones(ROWS))
    scores, g = 1.5 + rng.normal(size=ROWS), np.empty(ROWS)
    plane = loss.cut(scores, None, weights, False, g, np.empty((4, ROWS)))
    others = scores + rng.normal(size=(50, ROWS))
    risks = np.maximum(0.0, 1.5 - others) @ weights
    assert (plane.offset + others @ g <= risks + 1e-13).all()
    assert plane.offset + scores @ g == pytest.approx(plane.risk, rel=1e-13)
    assert plane.risk == pytest.approx(weights @ np.maximum(0.0, 1.5 - scores), rel=1e-13)


@pytest.mark.parametrize("nu", [0.1, 0.4])
@pytest.mark.parametrize("rho", [1.0, 5.0])
def test_one_class_svm_with_a_given_offset(X, nu, rho):
    """libsvm's coefficients are nu n times those of its problem with mean losses over nu."""
    theirs = OneClassSVM(kernel="linear", nu=nu, tol=1e-10).fit(X)
    offset = theirs.offset_[0] / (nu * ROWS)
    reg_lambda = nu * offset / rho
    ours = BMRMNoveltyDetector(rho=rho, reg_lambda=reg_lambda, **TIGHT).fit(X)
    expected = theirs.coef_ / (nu * ROWS) / offset * rho
    np.testing.assert_allclose(ours.coef_, expected, atol=1e-3 * rho)
    apart = np.abs(theirs.decision_function(X)) > 1e-3 * theirs.offset_
    assert apart.sum() > 60
    assert np.array_equal(ours.predict(X)[apart], theirs.predict(X)[apart])


@pytest.mark.parametrize("seed", [1, 4, 5, 16])
def test_a_large_constant_column(seed):
    """It alone makes all scores 1; the weights of all planes but the plane 0 are below 1e-16.

    Fits ended at 1.5 to 6 times the optimum. Its size, 5e-18, cannot be told from the rounding of
    losses of size 1: nothing but the bound 0 is certified.
    """
    X = np.c_[np.random.default_rng(seed).normal(size=(40, 3)), np.full(40, 1e6)]
    ours = BMRMNoveltyDetector(**FIXED, reg_lambda=1e-5).fit(X)
    w = ours.coef_.ravel()
    assert w @ w <= (1 + 1e-3) * 1e-12 and (X @ w >= 1.0 - 1e-15).all()
    assert ours.objective_ <= 1e-14  # an upper bound: 5e-18 and the rounding
    assert ours.status_ == "stalled" and ours.lower_bound_ == 0.0


def test_scores(X):
    ours = BMRMNoveltyDetector(rho=2.0, reg_lambda=0.3).fit(X, y="is not looked at")
    np.testing.assert_allclose(ours.score_samples(X), X @ ours.coef_[0], rtol=1e-12, atol=1e-12)
    decision = ours.decision_function(X)
    np.testing.assert_allclose(decision, ours.score_samples(X) - ours.offset_, atol=1e-12)
    assert np.array_equal(ours.predict(X), np.where(decision >= 0, 1, -1))
    assert np.array_equal(ours.predict(X), clone(ours).fit_predict(X))
    assert set(ours.predict(X)) == {-1, 1} and ours.offset_ == 2.0


def test_nu_starts_warm_from_the_same_nu_alone(X):
    warm = BMRMNoveltyDetector(nu=0.2, warm_start=True, tol=1e-7).fit(X)
    first = warm.n_iter_
    warm.set_params(reg_lambda=5e-3).fit(X)
    assert warm.n_iter_ < first
    warm.set_params(nu=0.3).fit(X)
    cold = clone(warm).fit(X)
    assert warm.n_iter_ == cold.n_iter_ and warm.objective_ == cold.objective_


def test_few_planes(X):
    few = BMRMNoveltyDetector(**FIXED, tol=1e-4, bundle_size=3, max_iter=20_000).fit(X)
    assert few.status_ == "converged"
    best = BMRMNoveltyDetector(**FIXED, tol=1e-4).fit(X).objective_
    assert few.objective_ == pytest.approx(best, rel=2e-4)


@pytest.mark.parametrize("convert", [np.asarray, sp.csr_array])
def test_samples_on_the_boundary_are_not_new_whatever_rounding_says(convert):
    """As in scikit-learn's check of weights, where one in three samples is on the boundary."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X, weights = rng.random((15, 30)), rng.integers(0, 5, 15)
        order = rng.permutation(15)
        ours = BMRMNoveltyDetector(**FIXED, tol=1e-10).fit(
            convert(X[order]), sample_weight=weights[order]
        )
        other = BMRMNoveltyDetector(**FIXED, tol=1e-10).fit(convert(X.repeat(weights, axis=0)))
        assert np.array_equal(ours.predict(X), other.predict(X))
        boundary = np.abs(X @ ours.coef_[0] - 1.0) < 1e-11
        assert boundary.any() and (ours.predict(X)[boundary] == 1).all()
        assert (ours.decision_function(X)[boundary] == 0.0).all()
        assert (ours.score_samples(X)[boundary] == ours.offset_).all()


@pytest.mark.parametrize("nu", [1e-9, 1e-16, 1e-300])
def test_a_nu_below_all_weights_leaves_no_sample_new(X, nu):
    """The risk is then minus the lowest score; slopes that cancel and are divided by nu are not."""
    X = X + 5.0 + np.abs(X.min())
    model = BMRMNoveltyDetector(nu=nu).fit(X)
    w = model.coef_[0].astype(np.longdouble)
    objective = 0.5e-2 * (w @ w) - (X @ w).min()  # reg_lambda is 1e-2
    assert model.objective_ == pytest.approx(float(objective), rel=1e-12)
    # the dual: minus the squared distance of the convex hull from the origin, over 2 reg_lambda
    corner = nnls(np.vstack([X.T, np.full(len(X), 1e6)]), np.r_[np.zeros(4), 1e6])[0]
    nearest = X.T @ (corner / corner.sum())
    assert model.lower_bound_ <= -(nearest @ nearest) / 2e-2 * (1.0 - 1e-9)
    assert model.objective_ >= -(nearest @ nearest) / 2e-2 * (1.0 + 1e-9)
    assert (model.predict(X) == 1).all()
