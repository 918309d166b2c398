"""The objectives of SVC, SVR and OneClassSVM: optimum, attributes, predictions, score bounds."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC, SVR, OneClassSVM

from sklearn_bundle import SwapNoveltyDetector, SwapSVC, SwapSVR
from tests.contract.draws import draw_plain, verdict
from tests.contract.fits import quiet
from tests.contract.judge import judge
from tests.contract.kernel_machines import KERNELS
from tests.contract.subproblems import dense_coef, subproblems

KINDS = ["SVC", "SVR", "OneClassSVM"]
RNG = np.random.default_rng(0)
# The origin is outside of the points: inside, OneClassSVM's optimum with a linear kernel is w = 0.
X = 2.5 + RNG.normal(size=(50, 3))
NEW = 2.5 + RNG.normal(size=(30, 3))
NUMBERS = X[:, 0] - 2.5 + 0.5 * RNG.normal(size=50)
LABELS = (NUMBERS > 0.3).astype(int)
GRADES = np.digitize(NUMBERS, [-0.5, 0.5])
WEIGHTS = np.arange(50) % 4.0


def ours(kind, C=2.0, **parameters):
    parameters = {"tol": 1e-8, "max_iter": 1000} | parameters
    if kind == "SVC":
        return SwapSVC(C, loss="hinge", **parameters)
    if kind == "SVR":
        return SwapSVR(C, loss="epsilon_insensitive", **{"epsilon": 0.1} | parameters)
    return SwapNoveltyDetector(**{"nu": 0.31} | parameters)


def theirs(kind, C=2.0, **parameters):
    if kind == "SVC":
        return SVC(C=C, tol=1e-6, **parameters)
    if kind == "SVR":
        return SVR(C=C, tol=1e-6, **parameters)
    return OneClassSVM(nu=0.31, tol=1e-6, **parameters)


def target(kind):
    return {"SVC": LABELS, "SVR": NUMBERS, "OneClassSVM": None}[kind]


def scores_of(model, Z):
    return model.decision_function(Z) if hasattr(model, "decision_function") else model.predict(Z)


# ---- as in scikit-learn -------------------------------------------------------------------------


@pytest.mark.matrix
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_model_of_scikit_learn(kind, kernel, weighted):
    """Its tol of 1e-6 is on slopes, of which our gap is a sum."""
    parameters, values = KERNELS[kernel]
    if kernel == "callable":
        parameters = {"kernel": values}
    Z, new = (X, NEW) if kernel != "precomputed" else (values(X, X), values(NEW, X))
    weights = WEIGHTS if weighted else None
    model = ours(kind, **parameters).fit(Z, target(kind), weights)
    # Of rows of weight 0 in a matrix of kernel values LIBSVM makes other rows.
    kept = np.flatnonzero(WEIGHTS) if weighted else np.arange(50)
    given = np.ix_(kept, kept) if kernel == "precomputed" else kept
    y = None if target(kind) is None else target(kind)[kept]
    peer = theirs(kind, **parameters).fit(Z[given], y, WEIGHTS[kept] if weighted else None)
    expected = scores_of(peer, new[:, kept] if kernel == "precomputed" else new)
    size = np.abs(expected).max()
    assert_allclose(scores_of(model, new), expected, atol=2e-3 * size)
    sure = np.abs(expected) > 2e-3 * size
    if kind != "SVR":
        labels = model.classes_ if kind == "SVC" else [-1, 1]
        assert_array_equal(model.predict(new)[sure], np.take(labels, expected > 0)[sure])
    assert_allclose(model.intercept_, peer.intercept_, atol=2e-3 * size)
    for name in ("dual_coef_", "intercept_", "support_", "n_support_"):
        assert getattr(model, name).dtype == getattr(peer, name).dtype
    assert model.dual_coef_.shape == (1, len(model.support_))
    assert model.n_support_.shape == peer.n_support_.shape
    assert model.n_support_.sum() == len(model.support_)
    judge(model, Z, target(kind), weights)


def test_one_versus_one():
    """Three classes, weights and a kernel for which the dual has one solution."""
    parameters = {"gamma": 2.0, "class_weight": {0: 2.0, 2: 0.5}}
    model = ours("SVC", **parameters, tol=1e-12).fit(X, GRADES, 1.0 + WEIGHTS)
    peer = SVC(C=2.0, tol=1e-9, **parameters).fit(X, GRADES, 1.0 + WEIGHTS)
    assert_array_equal(model.support_, peer.support_)
    assert_array_equal(model.n_support_, peer.n_support_)
    assert_allclose(model.dual_coef_, peer.dual_coef_, atol=1e-5)
    assert_allclose(model.intercept_, peer.intercept_, atol=1e-5)
    assert_allclose(model.decision_function(NEW), peer.decision_function(NEW), atol=1e-5)
    assert_array_equal(model.predict(NEW), peer.predict(NEW))
    judge(model, X, GRADES, 1.0 + WEIGHTS)


# ---- certificates -------------------------------------------------------------------------------


@pytest.mark.matrix
@pytest.mark.parametrize("nu", [1e-6, 1e-3, 0.5, 0.999, 1.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_nu_of_all_sizes(nu, weighted):
    """The share of the weight with a coefficient at its bound, and LIBSVM's units."""
    weights = 0.5 + WEIGHTS if weighted else np.ones(50)
    model = ours("OneClassSVM", nu=nu, tol=1e-6).fit(X, sample_weight=weights)
    assert model.converged_
    assert model.dual_coef_.sum() == pytest.approx(nu * weights.sum(), rel=1e-12)
    assert (model.dual_coef_[0] <= weights[model.support_] * (1 + 1e-15)).all()
    judge(model, X, None, weights)


@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly", "callable"])
def test_no_loss_at_all(kernel):
    """All targets within the tube: no support vectors, and an intercept in the middle."""
    parameters, _ = KERNELS[kernel]
    for Z in (X, sp.csr_matrix(X)) if kernel != "callable" else (X,):
        model = ours("SVR", **parameters, epsilon=0.3).fit(Z, 5.0 + 0.1 * np.sign(NUMBERS))
        assert model.objective_ == model.lower_bound_ == 0.0 and model.converged_
        assert len(model.support_) == 0
        assert_allclose(model.predict(Z), 5.0, atol=0.2)
        low, high = model.predict_bounds(Z)  # 4.8 and 5.2 are optimal as well
        assert (low <= 4.8 + 1e-12).all() and (high >= 5.2 - 1e-12).all()
        assert_allclose([low[0], high[0]], [4.8, 5.2], atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_the_plainest_shapes(kind):
    """One row in a class, one weight, one column, columns of 1e8: problems of the stress test."""
    found = [verdict(draw_plain(7_000_000 + k, kind, 20)) for k in range(12)]
    assert [(v.problem.seed, v.faults, v.crashed) for v in found if v.faults or v.crashed] == []
    assert sum(bool(v.refused or v.weak) for v in found) <= 4


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", [1, 2])
def test_fewest_rows(kind, rows):
    if kind == "SVC" and rows == 1:
        rows = 2
    Z, y = X[:rows], {"SVC": [0, 1], "SVR": NUMBERS[:rows], "OneClassSVM": None}[kind]
    for same in (Z, np.ones_like(Z)):
        for kernel in ("rbf", "linear"):
            model = quiet(ours(kind, kernel=kernel, tol=1e-6), same, y)
            judge(model, same, y)


def indefinite_between_some(A, B):
    """Points whose first column is large are pushed apart."""
    a, b = A[:, 0] > 1.5, B[:, 0] > 1.5
    same = (A[:, None] == B).all(axis=2)
    K = np.exp(-0.3 * ((A[:, None] - B) ** 2).sum(axis=2))
    return K - 1.5 * (np.outer(a, b) & ~same)


@pytest.mark.parametrize("kind", ["SVC", "SVR"])
def test_an_indefinite_kernel_that_steps_find(kind):
    """Too few of 400 points for the first check, and an objective that can be negative."""
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(400, 3))
    Z[:, 0] = np.clip(Z[:, 0], -1.0, 1.0)
    first = np.random.default_rng(400).choice(400, 100, replace=False)
    Z[np.setdiff1d(np.arange(400), first)[:12], 0] = 2.0
    y = (rng.normal(size=400) > 0).astype(int)
    with pytest.raises(ValueError, match=r"is not positive semidefinite: .* eigenvalue -"):
        ours(kind, 10.0, kernel=indefinite_between_some, tol=1e-3).fit(Z, y)


# ---- warm starts --------------------------------------------------------------------------------


# ---- bounds of scores ---------------------------------------------------------------------------


def bounds_of(model, Z):
    found = model.predict_bounds(Z) if hasattr(model, "predict_bounds") else None
    return found or model.decision_bounds(Z)


@pytest.mark.matrix
@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", KINDS)
def test_bounds_hold_the_optimum_at_new_points(kind, dtype, kernel):
    """With its least and its largest intercept, both of which are optimal."""
    parameters, values = KERNELS[kernel]
    Z, new = X.astype(dtype), NEW.astype(dtype)
    (part,) = subproblems(ours(kind, **parameters).fit(Z, target(kind)), Z, target(kind))
    best = part.optimum()
    coef = best.point[:-1]
    ends = part.intercepts(part.K @ coef)
    f = values(new.astype(float), Z.astype(float)) @ coef
    slack = 2e-8 * np.abs(f).max()  # of the reference's function
    widths = []
    # The first is the start: a few steps may be exact.
    for tol, most in ((1e-1, 1), (1e-1, 1000), (1e-3, 1000), (1e-6, 1000), (1e-9, 1000)):
        model = quiet(ours(kind, tol=tol, max_iter=most, **parameters), Z, target(kind))
        low, high = bounds_of(model, new)
        for b in ends:
            assert (low <= f + b + slack).all() and (f + b - slack <= high).all()
        widths.append(np.max(high - low))
    assert widths[-1] < max(0.1 * widths[0], 1e-4 * np.abs(f).max())


def test_bounds_of_an_intercept_that_is_not_unique():
    """Two points of each class at the same place: w = 0, and every b in [-1, 1] is optimal."""
    Z, y = np.ones((4, 1)), np.array([0, 1, 0, 1])
    model = ours("SVC").fit(Z, y)
    low, high = model.decision_bounds(Z)
    assert (low <= -1.0 + 1e-12).all() and (high >= 1.0 - 1e-12).all()
    assert model.intercept_[0] == pytest.approx(0.0, abs=1e-12)
    assert not model.certain(Z).any()


@pytest.mark.wide
def test_certain_labels_are_those_of_the_optimum():
    exact = SVC(C=2.0, gamma=0.5, tol=1e-9).fit(X, GRADES)
    for tol, least in ((1e-2, 0.0), (1e-10, 0.9)):
        model = ours("SVC", gamma=0.5, tol=tol).fit(X, GRADES)
        certain = model.certain(NEW)
        assert certain.mean() >= least
        assert_array_equal(model.predict(NEW)[certain], exact.predict(NEW)[certain])
        low, high = model.score_bounds(NEW, exact.predict(NEW))
        assert low <= 1.0 == high


def test_dual_coefficients_stay_in_the_box():
    """Exactly, and on the hyperplane to the last place."""
    for tol in (1e-1, 1e-3, 1e-9):
        model = ours("SVC", 0.7, gamma=0.5, tol=tol).fit(sp.csr_matrix(X), LABELS, 1.0 + WEIGHTS)
        coef, costs = dense_coef(model)[0], 0.7 * (1.0 + WEIGHTS)[model.support_]
        assert (np.abs(coef) <= costs * (1 + 1e-15)).all()
        assert abs(coef.sum()) <= 1e-15 * np.abs(coef).sum()
        assert (np.sign(coef) == np.where(LABELS[model.support_] == 1, 1.0, -1.0)).all()


def test_the_advice_says_for_which_loss_a_solver_counts():
    with pytest.warns(ConvergenceWarning, match="with loss='squared_hinge' solver='auto'"):
        SwapSVC(100.0, loss="hinge", kernel="linear", tol=1e-9, max_iter=1).fit(X, LABELS)
