"""SwapSVC as its users meet it."""

import os
import pickle
import re
import signal
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris, make_classification
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics.pairwise import linear_kernel, polynomial_kernel, rbf_kernel
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, OneClassSVM

from sklearn_bundle import SwapSVC
from sklearn_bundle._compiled import lazy, swap
from sklearn_bundle.problems import l2svm
from tests.certificates import judge, judge_subproblem
from tests.reference_kernel import L2SVM
from tests.reference_programme import LONG

SOLVERS = ["fw", "cvm", "mfw", "swap", "swap-2o"]
GAMMA = 0.05
KERNELS = {
    "rbf": ({"kernel": "rbf", "gamma": GAMMA}, lambda X, Z: rbf_kernel(X, Z, gamma=GAMMA)),
    "linear": ({"kernel": "linear"}, linear_kernel),
    "poly": (
        {"kernel": "poly", "gamma": GAMMA, "degree": 3, "coef0": 1.0},
        lambda X, Z: polynomial_kernel(X, Z, gamma=GAMMA, degree=3, coef0=1.0),
    ),
    "homogeneous": (
        {"kernel": "poly", "gamma": GAMMA, "degree": 2},
        lambda X, Z: polynomial_kernel(X, Z, gamma=GAMMA, degree=2, coef0=0.0),
    ),
    "precomputed": (
        {"kernel": "precomputed"},
        lambda X, Z: rbf_kernel(X, Z, gamma=GAMMA),
    ),
    "callable": (
        {"kernel": lambda X, Z: rbf_kernel(X.astype(float), Z.astype(float), gamma=GAMMA)},
        lambda X, Z: rbf_kernel(X, Z, gamma=GAMMA),
    ),
}
LAYOUTS = {
    "dense64": lambda X: X,
    "dense32": lambda X: X.astype(np.float32),
    "csr_matrix": sp.csr_matrix,
    "csr_array": sp.csr_array,
}


def signs_of(y):
    return np.where(y == np.unique(y)[1], 1.0, -1.0)


def full_matrix(K, y, C):
    """``y_i y_j (k + 1) + delta_ij / C_i``."""
    return np.outer(y, y) * (K + 1.0) + np.diag(1.0 / C)


def optimum(K, y, C):
    """1/(2 Q): with nu = 1/n LIBSVM's one-class problem on the full matrix is the same one."""
    M = full_matrix(K, y, C)
    model = OneClassSVM(kernel="precomputed", nu=1.0 / len(y), tol=1e-12).fit(M)
    a = np.zeros(len(y))
    a[model.support_] = model.dual_coef_[0]
    a /= a.sum()
    return 0.5 / (a @ M @ a)


def coefficients(model, y):
    """alpha of every training point, from the attributes of a model of two classes."""
    signed = np.zeros(len(y))
    signed[model.support_] = model.dual_coef_[0]
    assert (signed * y >= 0.0).all()
    return np.abs(signed)


def assert_true_certificate(model, K, y, C):
    """Objective, bound, gap, status and history against the optimum, from both sides."""
    K = np.asarray(K, LONG)
    problem = L2SVM(K, np.abs(K), y, np.asarray(C, LONG), coefficients(model, y).astype(LONG))
    key = K.astype(float).tobytes(), y.tobytes(), np.asarray(C, float).tobytes()
    if key not in _OPTIMA:
        _OPTIMA[key] = problem.optimum()
    judge_subproblem(model, problem, _OPTIMA[key])


_OPTIMA = {}


def quiet(model, *args):
    """Fit that may miss its tol."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(*args)


# ---- the optimum ------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_optimum_of_the_one_class_machine(data, kernel, layout):
    if kernel == "precomputed" and layout.startswith("csr"):
        pytest.skip("a precomputed matrix is dense")
    parameters, values = KERNELS[kernel]
    X, y = LAYOUTS[layout](data[0]), signs_of(data[1])
    rounded = np.asarray(X.toarray() if sp.issparse(X) else X, np.float64)
    K = values(rounded, rounded)
    if kernel == "precomputed":
        X = K.astype(X.dtype)
        K = X.astype(np.float64)
    model = SwapSVC(tol=1e-7, **parameters).fit(X, data[1])
    best = optimum(K, y, np.ones(200))
    assert model.status_ == "converged"
    assert 0.0 <= model.dual_gap_ <= 1e-7 * model.objective_
    assert model.lower_bound_ <= best * (1.0 + 1e-9)  # LIBSVM ends about 1e-10 above
    assert model.objective_ == pytest.approx(best, rel=2e-7)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("C", [0.1, 10.0])
def test_optimum_by_every_algorithm(data, solver, C, weighted):
    X, y = data[0], signs_of(data[1])
    weights = np.random.default_rng(0).integers(1, 5, 200) if weighted else np.ones(200)
    tol = 1e-2 if solver == "fw" else 1e-6
    model = SwapSVC(C, gamma=GAMMA, solver=solver, tol=tol).fit(X, data[1], weights)
    best = optimum(rbf_kernel(X, gamma=GAMMA), y, C * weights)
    assert model.status_ == "converged"
    assert model.lower_bound_ <= best * (1.0 + 1e-9)
    assert model.objective_ == pytest.approx(best, rel=tol)
    assert model.objective_ >= best * (1.0 - 1e-9)


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
@pytest.mark.parametrize("C", [0.1, 1.0])
def test_optimum_of_an_interior_point_solver(data, kernel, C):
    """As the dual QP: min 1/2 alpha' M alpha - sum alpha, alpha >= 0; its value is -objective."""
    clarabel = pytest.importorskip("clarabel")
    parameters, values = KERNELS[kernel]
    X, y = data[0], signs_of(data[1])
    M = full_matrix(values(X, X), y, np.full(200, C))
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-11
    solution = clarabel.DefaultSolver(
        *(sp.csc_matrix(np.triu(M)), -np.ones(200), -sp.identity(200, format="csc")),
        *(np.zeros(200), [clarabel.NonnegativeConeT(200)], settings),
    ).solve()
    model = SwapSVC(C, tol=1e-9, **parameters).fit(X, data[1])
    assert model.objective_ == pytest.approx(-solution.obj_val, rel=2e-9)
    # a relative gap g leaves ||alpha - alpha*||^2 <= 2 g J C, of which 1e-3 is the root
    assert_allclose(coefficients(model, y), np.array(solution.x), atol=1e-3)


def test_two_points_in_closed_form():
    """Points at distance r: alpha = 2/(k(0) - k(r) + 1/C + ...) by symmetry, b = 0."""
    X, C = np.array([[0.0], [1.0]]), 2.0
    model = SwapSVC(C, gamma=1.0, tol=1e-12).fit(X, [0, 1])
    alpha = 1.0 / (1.0 - np.exp(-1.0) + 1.0 / C)
    assert_allclose(model.dual_coef_, [[-alpha, alpha]], rtol=1e-12)
    assert_allclose(model.intercept_, [0.0], atol=1e-12)
    assert model.objective_ == pytest.approx(alpha, rel=1e-12)


# ---- the certificate --------------------------------------------------------------------------


@pytest.mark.parametrize("tol", [1e-2, 1e-5, 1e-8])
@pytest.mark.parametrize("kernel", KERNELS)
def test_certificate_in_plain_numpy(data, kernel, tol):
    parameters, values = KERNELS[kernel]
    X, y = data[0], signs_of(data[1])
    K = values(X, X)
    weights = np.random.default_rng(0).integers(1, 5, 200).astype(float)
    model = SwapSVC(2.0, tol=tol, **parameters)
    model.fit(K if kernel == "precomputed" else X, data[1], weights)
    assert_true_certificate(model, K, y, 2.0 * weights)
    assert model.dual_gap_ <= tol * model.objective_


@pytest.mark.parametrize("solver", SOLVERS)
def test_certificate_after_many_steps(data, solver):
    """Rounding of the rows and of the running sums must not reach the certificate."""
    X, y = data[0], signs_of(data[1])
    model = quiet(SwapSVC(100.0, gamma=GAMMA, solver=solver, max_iter=5000), X, data[1])
    assert_true_certificate(model, rbf_kernel(X, gamma=GAMMA), y, np.full(200, 100.0))


def test_certificate_of_every_pair(data):
    X, y = load_iris(return_X_y=True)
    model = SwapSVC(gamma=GAMMA, tol=1e-6).fit(X, y)
    assert model.status_ == ["converged"] * 3 and len(model.history_) == 3
    for k, (i, j) in enumerate([(0, 1), (0, 2), (1, 2)]):
        members = np.flatnonzero((y == i) | (y == j))
        K = rbf_kernel(X[members], gamma=GAMMA)
        best = optimum(K, np.where(y[members] == i, 1.0, -1.0), np.ones(len(members)))
        assert model.lower_bound_[k] <= best * (1.0 + 1e-9)
        assert model.objective_[k] == pytest.approx(best, rel=2e-6)
        assert 0.0 <= model.dual_gap_[k] <= 1e-6 * model.objective_[k]
        assert model.n_iter_[k] == model.history_[k]["iteration"][-1]


@pytest.mark.parametrize("active_set", [None, 20])
@pytest.mark.parametrize("solver", SOLVERS)
def test_history(data, solver, active_set):
    model = SwapSVC(gamma=GAMMA, solver=solver, tol=1e-2, active_set=active_set)
    h = model.fit(*data).history_
    assert (h["lower_bound"] <= h["objective"]).all()
    assert (np.diff(h["objective"][:-1]) <= 0.0).all()
    assert (np.diff(h["lower_bound"][:-1]) >= 0.0).all()
    kinds = sum(h[kind] for kind in ("fw", "swap_add", "swap_drop", "away", "away_drop"))
    assert_array_equal(kinds, h["iteration"])
    assert model.n_iter_ == h["iteration"][-1]
    assert ("active" in h.dtype.names) == (active_set is not None)


# ---- attributes in SVC's shapes ---------------------------------------------------------------


@pytest.fixture(scope="module", params=["binary", "multiclass", "strings"])
def labelled(request):
    X, y = load_digits(return_X_y=True)
    classes = {"binary": 2, "multiclass": 4, "strings": 3}[request.param]
    X, y = X[y < classes][:200] / 16.0, y[y < classes][:200]
    return X, np.array(list("cab"))[y] if request.param == "strings" else y


@pytest.fixture(params=["rbf", "linear"])
def fitted(labelled, request):
    ours = SwapSVC(10.0, kernel=request.param, gamma=0.02, tol=1e-6).fit(*labelled)
    return ours, SVC(C=10.0, kernel=request.param, gamma=0.02).fit(*labelled)


def test_shapes_and_types_of_svc(fitted, labelled):
    X, _ = labelled
    ours, theirs = fitted
    for name in ("classes_", "dual_coef_", "intercept_", "n_support_", "support_"):
        mine, peer = getattr(ours, name), getattr(theirs, name)
        assert mine.dtype == peer.dtype and mine.ndim == peer.ndim, name
    assert_array_equal(ours.classes_, theirs.classes_)
    assert ours.intercept_.shape == theirs.intercept_.shape
    assert ours.n_support_.shape == theirs.n_support_.shape
    assert ours.dual_coef_.shape == (len(theirs.dual_coef_), len(ours.support_))
    assert ours.shape_fit_ == theirs.shape_fit_
    assert ours.n_features_in_ == theirs.n_features_in_
    assert_array_equal(ours.support_vectors_, X[ours.support_])
    if ours.kernel == "linear":
        assert ours.coef_.shape == theirs.coef_.shape


def test_support_vectors_are_sorted_by_classes(fitted, labelled):
    _, y = labelled
    ours, _ = fitted
    labels = np.searchsorted(ours.classes_, y[ours.support_])
    assert_array_equal(np.bincount(labels), ours.n_support_)
    assert_array_equal(np.lexsort((ours.support_, labels)), np.arange(len(labels)))
    assert (np.abs(ours.dual_coef_).sum(axis=0) > 0.0).all()


@pytest.mark.parametrize("shape", ["ovr", "ovo"])
def test_scores_have_the_shapes_and_signs_of_svc(fitted, labelled, shape):
    """Where a squared hinge is as sure as a hinge, the signs are the same."""
    X, _ = labelled
    ours, theirs = (clone(m).set_params(decision_function_shape=shape) for m in fitted)
    a, b = ours.fit(*labelled).decision_function(X), theirs.fit(*labelled).decision_function(X)
    assert a.shape == b.shape and a.dtype == b.dtype
    if shape == "ovo" or a.ndim == 1:
        sure = np.abs(b) > 0.5
        assert sure.mean() > 0.5 and (np.sign(a[sure]) == np.sign(b[sure])).all()
    else:
        assert np.mean(a.argmax(axis=1) == b.argmax(axis=1)) > 0.98
    assert np.mean(ours.predict(X) == theirs.predict(X)) > 0.98


def pair_scores(model, X):
    """As the documentation of SVC describes ``dual_coef_``."""
    K = rbf_kernel(X, model.support_vectors_, gamma=0.02)
    if model.kernel == "linear":
        K = linear_kernel(X, model.support_vectors_)
    n_classes = len(model.classes_)
    if n_classes == 2:
        return K @ model.dual_coef_[0] + model.intercept_[0]
    ends = np.r_[0, np.cumsum(model.n_support_)]
    scores = []
    for i in range(n_classes):
        for j in range(i + 1, n_classes):
            of_i, of_j = slice(ends[i], ends[i + 1]), slice(ends[j], ends[j + 1])
            scores.append(K[:, of_i] @ model.dual_coef_[j - 1, of_i])
            scores[-1] += K[:, of_j] @ model.dual_coef_[i, of_j] + model.intercept_[len(scores) - 1]
    return np.array(scores).T


def test_scores_from_the_attributes(fitted, labelled):
    X = labelled[0] + 0.01
    ours, _ = fitted
    scores = ours.set_params(decision_function_shape="ovo").decision_function(X)
    assert_allclose(scores, pair_scores(ours, X), atol=1e-10)


def test_coef_is_the_gradient_of_the_scores(labelled):
    X, y = labelled
    model = SwapSVC(kernel="linear", decision_function_shape="ovo").fit(X, y)
    scores = X @ model.coef_.T + model.intercept_
    assert_allclose(scores.squeeze(), model.decision_function(X), atol=1e-10)
    sparse = clone(model).fit(sp.csr_matrix(X), y)
    assert_allclose(sparse.coef_, model.coef_, atol=0.02 * np.abs(model.coef_).max())
    assert_allclose(sp.csr_matrix(X) @ sparse.coef_.T + sparse.intercept_, scores, atol=0.1)


def test_coef_only_with_a_linear_kernel(data):
    assert not hasattr(SwapSVC().fit(*data), "coef_")
    assert not hasattr(SwapSVC(kernel=linear_kernel).fit(*data), "coef_")
    with pytest.raises(NotFittedError):
        _ = SwapSVC(kernel="linear").coef_


@pytest.mark.parametrize("layout", LAYOUTS)
def test_prediction_is_the_sign_of_the_scores(data, layout):
    X, Z = (LAYOUTS[layout](half) for half in (data[0][:100], data[0][100:]))
    model = SwapSVC(gamma="scale").fit(X, data[1][:100])
    expected = model.classes_[(model.decision_function(Z) > 0.0).astype(int)]
    assert_array_equal(model.predict(Z), expected)


def test_prediction_by_votes():
    X, y = load_digits(return_X_y=True)
    model = SwapSVC(1e-3, gamma=1e-2, decision_function_shape="ovo").fit(X[:300], y[:300])
    scores, votes = model.decision_function(X), np.zeros((len(X), 10))
    pairs = [(i, j) for i in range(10) for j in range(i + 1, 10)]
    for (i, j), f in zip(pairs, scores.T, strict=True):
        votes[np.arange(len(X)), np.where(f > 0.0, i, j)] += 1
    assert_array_equal(model.predict(X), votes.argmax(axis=1))
    broken = model.set_params(decision_function_shape="ovr", break_ties=True)
    assert_array_equal(broken.predict(X), broken.decision_function(X).argmax(axis=1))


def test_prediction_near_the_boundary_is_that_of_float64(data):
    """Bisected until neighbours in float64 differ: single precision alone cannot tell them."""
    X, y = data
    model = SwapSVC(100.0, gamma=GAMMA).fit(X, y)
    scores = model.decision_function(X)
    low, high = X[scores < 0.0][:20], X[scores > 0.0][:20]
    for _ in range(52):
        middle = 0.5 * (low + high)
        positive = model.decision_function(middle)[:, None] > 0.0
        low, high = np.where(positive, low, middle), np.where(positive, middle, high)
    for Z in (low, high, high + 1e-9 * (high - X[:20])):
        exact = rbf_kernel(Z, model.support_vectors_, gamma=GAMMA) @ model.dual_coef_[0]
        sure = np.abs(exact + model.intercept_) > 1e-12 * np.abs(model.dual_coef_).sum()
        assert_array_equal(model.predict(Z)[sure], (exact + model.intercept_ > 0.0)[sure])


@pytest.mark.parametrize("scale", [1e-20, 3e18, 1e20])
def test_prediction_where_single_precision_does_not_reach(data, scale):
    X, y = data[0] * scale, data[1]
    with np.errstate(all="ignore"):
        model = SwapSVC(tol=1e-8).fit(X, y)
        assert_array_equal(model.predict(X), model.decision_function(X) > 0.0)


# ---- gamma, weights ---------------------------------------------------------------------------


@pytest.mark.parametrize("gamma", ["scale", "auto"])
def test_gamma_of_svc(data, gamma):
    X, y = data
    assert SwapSVC(gamma=gamma).fit(X, y).gamma_ == pytest.approx(
        SVC(gamma=gamma).fit(X, y)._gamma, rel=1e-12
    )


@pytest.mark.parametrize("gamma", ["scale", "auto", "distance", 0.1])
@pytest.mark.parametrize("class_weight", [None, "balanced", {0: 1.0, 1: 3.0}])
def test_a_weight_is_a_repeated_row(data, gamma, class_weight):
    X, y = data
    counts = np.random.default_rng(0).integers(0, 4, len(y))
    model = SwapSVC(2.0, gamma=gamma, class_weight=class_weight, tol=1e-9)
    weighted = clone(model).fit(X, y, counts)
    repeated = clone(model).fit(X.repeat(counts, axis=0), y.repeat(counts))
    assert weighted.gamma_ == pytest.approx(repeated.gamma_, rel=1e-12)
    assert weighted.objective_ == pytest.approx(repeated.objective_, rel=2e-9)
    # a gap of 1e-9 J leaves |f - f*| <= 2 sqrt(2 (1e-9 J) (k + 1)), J about 100
    assert_allclose(weighted.decision_function(X), repeated.decision_function(X), atol=2e-3)


def test_a_weight_of_zero_is_a_missing_row(data):
    X, y = data
    weight = np.ones(len(y))
    weight[:50] = 0.0
    for kernel in ("rbf", "precomputed"):
        A = rbf_kernel(X, gamma=GAMMA) if kernel == "precomputed" else X
        few = A[50:, 50:] if kernel == "precomputed" else X[50:]
        weighted = SwapSVC(kernel=kernel, random_state=0).fit(A, y, weight)
        without = SwapSVC(kernel=kernel, random_state=0).fit(few, y[50:])
        assert_array_equal(weighted.support_, without.support_ + 50)
        assert_array_equal(weighted.dual_coef_, without.dual_coef_)
        A_new = A[:, 50:] if kernel == "precomputed" else A
        assert_array_equal(weighted.decision_function(A), without.decision_function(A_new))


def test_class_weights_multiply_the_weights(data):
    X, y = data
    weight = np.random.default_rng(0).uniform(0.5, 2.0, len(y))
    totals = np.bincount(y, weight)
    balanced = SwapSVC(class_weight="balanced", tol=1e-9).fit(X, y, weight)
    by_hand = SwapSVC(tol=1e-9).fit(X, y, weight * weight.sum() / (2.0 * totals[y]))
    gamma = by_hand.gamma_
    by_hand = clone(by_hand).set_params(gamma=balanced.gamma_)
    by_hand.fit(X, y, weight * weight.sum() / (2.0 * totals[y]))
    assert balanced.objective_ == pytest.approx(by_hand.objective_, rel=2e-9)
    assert balanced.gamma_ != gamma  # class weights are not part of the data


# ---- other ways to the same result ------------------------------------------------------------


def test_precomputed_is_rbf(data):
    X, y = data
    K = rbf_kernel(X, gamma=GAMMA)
    ours, given = (SwapSVC(kernel=k, gamma=GAMMA, tol=1e-8) for k in ("rbf", "precomputed"))
    ours.fit(X, y), given.fit(K, y)
    assert ours.objective_ == pytest.approx(given.objective_, rel=2e-8)
    assert_allclose(ours.decision_function(X), given.decision_function(K), atol=1e-2)
    assert (
        given.support_vectors_.shape == SVC(kernel="precomputed").fit(K, y).support_vectors_.shape
    )


@pytest.mark.parametrize("active_set", [None, 30])
@pytest.mark.parametrize("tol", [1e-3, 1e-8])
@pytest.mark.parametrize("rows", [0, 1, 2, 3, 20, 1000])
def test_few_cached_rows_give_the_same_result(data, rows, tol, active_set):
    X, y = data
    model = SwapSVC(gamma=GAMMA, tol=tol, active_set=active_set, cache_size=max(rows, 0.1) * 1e-3)
    model.fit(X, y)
    best = optimum(rbf_kernel(X, gamma=GAMMA), signs_of(y), np.ones(200))
    assert model.status_ == "converged"
    assert model.lower_bound_ <= best * (1.0 + 1e-9)
    assert model.objective_ == pytest.approx(best, rel=tol)


@pytest.mark.parametrize(
    "parameters",
    [
        {"n_candidates": 1},
        {"n_candidates": 60},
        {"n_initial": 20},
        {"n_initial": 1000},
        {"n_initial": 20, "active_set": 30},
        {"n_candidates": 20, "active_set": 30},
        {"active_set": 2},
        {"active_set": 199},
    ],
    ids=str,
)
def test_other_ways_to_the_same_optimum(data, parameters):
    X, y = data
    model = SwapSVC(gamma=GAMMA, tol=1e-6, random_state=0, **parameters).fit(X, y)
    assert model.status_ == "converged"
    assert_true_certificate(model, rbf_kernel(X, gamma=GAMMA), signs_of(y), np.ones(200))
    best = optimum(rbf_kernel(X, gamma=GAMMA), signs_of(y), np.ones(200))
    assert model.objective_ == pytest.approx(best, rel=2e-6)
    again = clone(model).fit(X, y)
    assert_array_equal(model.support_, again.support_)
    assert_array_equal(model.dual_coef_, again.dual_coef_)


@pytest.mark.parametrize("kernel", ["rbf", "linear", "precomputed"])
@pytest.mark.parametrize("active_set", [None, 20])
def test_n_jobs_agrees(kernel, active_set):
    X, y = load_digits(return_X_y=True)
    X, y = X[y < 4] / 16.0, y[y < 4]
    A = rbf_kernel(X, gamma=0.02) if kernel == "precomputed" else X
    model = SwapSVC(kernel=kernel, gamma=0.02, tol=1e-5, active_set=active_set, random_state=0)
    one, two = clone(model).fit(A, y), clone(model).set_params(n_jobs=2).fit(A, y)
    assert_allclose(one.objective_, two.objective_, rtol=1e-5)
    assert one.status_ == two.status_ == ["converged"] * 6
    assert_allclose(one.decision_function(A), two.decision_function(A), atol=0.05)
    assert_array_equal(two.predict(A), clone(two).set_params(n_jobs=1).fit(A, y).predict(A))


@pytest.mark.parametrize("active_set", [None, 50])
def test_warm_start_over_C(data, active_set):
    X, y = data
    warm = SwapSVC(1.0, tol=1e-5, warm_start=True, active_set=active_set, random_state=0).fit(X, y)
    first = warm.n_iter_
    assert warm.fit(X, y).n_iter_ < first
    for C in (1.3, 1.7):
        warm.set_params(C=C).fit(X, y)
        cold = clone(warm).fit(X, y)
        assert warm.n_iter_ < cold.n_iter_
        assert warm.objective_ == pytest.approx(cold.objective_, rel=1e-5)
    copy = pickle.loads(pickle.dumps(warm))
    assert "_warm" not in vars(copy) and hasattr(warm, "_warm")
    cold = clone(warm).fit(X[:100], y[:100])
    warm.fit(X[:100], y[:100])
    assert warm.n_iter_ == cold.n_iter_ and warm.objective_ == cold.objective_


@pytest.mark.parametrize("change", ["gamma", "kernel", "degree", "coef0", "weights", "y"])
def test_warm_start_only_on_the_same_problem(data, change):
    X, y = data
    model = SwapSVC(kernel="poly", gamma=GAMMA, coef0=1.0, warm_start=True).fit(X, y)
    weight = None
    if change == "weights":
        weight = np.arange(1.0, 201.0)
    elif change == "y":
        y = 1 - y
    else:
        value = {"gamma": 0.1, "kernel": "rbf", "degree": 2, "coef0": 0.5}[change]
        model.set_params(**{change: value})
    cold = clone(model).fit(X, y, weight)
    model.fit(X, y, weight)
    assert model.n_iter_ == cold.n_iter_ and model.objective_ == cold.objective_


# ---- the growing active set -------------------------------------------------------------------


@pytest.fixture(scope="module")
def many():
    return make_classification(600, 8, n_informative=5, flip_y=0.05, random_state=0)


@pytest.fixture(scope="module")
def without_active_set(many):
    model = SwapSVC(gamma=GAMMA, tol=1e-4, active_set=None).fit(*many)
    return model.objective_


@pytest.mark.parametrize("size, cache_size", [(2, 1000), (40, 1000), (400, 1000), (400, 0.5)])
@pytest.mark.parametrize("kernel", ["rbf", "csr", "precomputed", "callable"])
def test_active_set_reaches_the_same_objective(many, without_active_set, kernel, size, cache_size):
    X, y = many
    model = SwapSVC(gamma=GAMMA, tol=1e-4, active_set=size, random_state=0, cache_size=cache_size)
    if kernel == "csr":
        X = sp.csr_matrix(X)
    elif kernel == "precomputed":
        X = rbf_kernel(X, gamma=GAMMA)
        model.set_params(kernel=kernel)
    elif kernel == "callable":
        model.set_params(kernel=KERNELS["callable"][0]["kernel"])
    model.fit(X, y)
    assert model.status_ == "converged"
    assert model.objective_ == pytest.approx(without_active_set, rel=1e-4)
    active = model.history_["active"]
    assert (np.diff(active) >= 0).all() and len(model.support_) <= active[-1]


@pytest.mark.parametrize("size", [20, 50, 200])
@pytest.mark.parametrize("max_iter", [1, 50, 100, 300, 700])
def test_active_set_stopped_early_has_a_true_certificate(many, size, max_iter):
    """Also where the last look was at a sample of the points."""
    X, y = many
    model = SwapSVC(gamma=GAMMA, active_set=size, max_iter=max_iter, tol=1e-6, random_state=0)
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        model.fit(X, y)
    assert_true_certificate(model, rbf_kernel(X, gamma=GAMMA), signs_of(y), np.ones(len(y)))


@pytest.mark.parametrize("max_iter", [100, 128, 1000])
def test_max_iter_counts_steps_with_an_active_set(many, max_iter):
    model = SwapSVC(gamma=GAMMA, active_set=20, max_iter=max_iter, tol=1e-8, random_state=0)
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        model.fit(*many)
    assert model.n_iter_ == max_iter


def test_a_class_of_one_point(many):
    X, _ = many
    y = np.zeros(len(X), dtype=int)
    y[7] = 1
    model = SwapSVC(gamma=GAMMA, active_set=20, random_state=0).fit(X, y)
    expected = clone(model).set_params(active_set=None).fit(X, y).objective_
    assert model.objective_ == pytest.approx(expected, rel=2e-3)


# ---- where it stops ---------------------------------------------------------------------------


@pytest.mark.parametrize("classes", [2, 3])
def test_a_miss_warns_once_and_says_what_to_change(classes):
    X, y = load_iris(return_X_y=True)
    X, y = X[y < classes], y[y < classes]
    message = r"'max_iter' after 3 iterations at a relative duality gap of .*; tol asks.*Increase"
    with pytest.warns(ConvergenceWarning, match=message) as record:
        model = SwapSVC(max_iter=3, tol=1e-9).fit(X, y)
    assert len(record) == 1 and (np.atleast_1d(model.n_iter_) == 3).all()
    assert record[0].filename == __file__


@pytest.mark.parametrize("max_iter", [1, 31, 127, 128, 129, 300])
@pytest.mark.parametrize("solver", SOLVERS)
def test_max_iter_leaves_a_true_certificate(data, solver, max_iter):
    X, y = data
    model = SwapSVC(10.0, gamma=GAMMA, solver=solver, max_iter=max_iter, tol=1e-12)
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        model.fit(X, y)
    assert model.status_ == "max_iter" and model.n_iter_ == max_iter
    assert_true_certificate(model, rbf_kernel(X, gamma=GAMMA), signs_of(y), np.full(200, 10.0))


@pytest.mark.parametrize("active_set", [None, 20])
def test_max_time_leaves_a_true_certificate(data, active_set):
    X, y = data
    model = SwapSVC(10.0, gamma=GAMMA, max_time=1e-9, tol=1e-12, active_set=active_set)
    with pytest.warns(ConvergenceWarning, match="max_time"):
        model.fit(X, y)
    assert model.status_ == "max_time"
    assert_true_certificate(model, rbf_kernel(X, gamma=GAMMA), signs_of(y), np.full(200, 10.0))


def test_a_tol_below_rounding_ends_at_the_optimum(data):
    X, y = data
    model = quiet(SwapSVC(gamma=GAMMA, tol=1e-300), X, y)
    assert model.status_ == ("converged" if model.dual_gap_ == 0.0 else "stalled")
    best = optimum(rbf_kernel(X, gamma=GAMMA), signs_of(y), np.ones(200))
    assert model.objective_ == pytest.approx(best, rel=1e-10)


@pytest.fixture
def interrupt_steps(monkeypatch):
    """Ctrl-C while compiled code takes steps: Python acts on it as soon as that has returned."""

    def at(call):
        calls = []
        for module in (lazy, swap):

            def interrupted(*arguments, function=module.run):
                result = function(*arguments)
                calls.append(1)
                if len(calls) == call:
                    os.kill(os.getpid(), signal.SIGINT)
                return result

            monkeypatch.setattr(module, "run", interrupted)

    return at


@pytest.mark.parametrize("kernel", ["rbf", "csr"])
@pytest.mark.parametrize("call", [1, 2, 5])
def test_ctrl_c_keeps_the_best_point(many, kernel, call, interrupt_steps):
    X, y = many
    data = sp.csr_matrix(X) if kernel == "csr" else X
    model = SwapSVC(10.0, gamma=GAMMA, tol=1e-5, active_set=None)
    clone(model).set_params(tol=0.5).fit(data, y)  # compiles, which what is patched cannot be
    interrupt_steps(call)
    with pytest.raises(KeyboardInterrupt):
        model.fit(data, y)
    assert model.status_ == "interrupted"
    assert_true_certificate(model, rbf_kernel(X, gamma=GAMMA), signs_of(y), np.full(600, 10.0))


@pytest.mark.parametrize("call", [1, 2, 5])
@pytest.mark.parametrize("method", ["rough_products", "part", "gram", "primal_value"])
def test_ctrl_c_with_an_active_set(many, method, call, monkeypatch):
    X, y = many
    original, calls = getattr(l2svm.L2SVM, method), []

    def interrupted(*arguments, **named):
        calls.append(1)
        if len(calls) == call:
            os.kill(os.getpid(), signal.SIGINT)
        return original(*arguments, **named)

    monkeypatch.setattr(l2svm.L2SVM, method, interrupted)
    model = SwapSVC(10.0, gamma=GAMMA, tol=1e-5, active_set=50, random_state=0)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert model.status_ == "interrupted"
    assert_true_certificate(model, rbf_kernel(X, gamma=GAMMA), signs_of(y), np.full(600, 10.0))


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_ctrl_c_with_several_pairs(n_jobs, interrupt_steps):
    X, y = load_digits(return_X_y=True)
    interrupt_steps(7)
    model = SwapSVC(tol=1e-9, n_jobs=n_jobs, warm_start=True)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert "interrupted" in model.status_ and len(model.status_) == 45
    assert np.isfinite(model.dual_gap_).all() and model.predict(X).shape == y.shape
    assert not hasattr(model, "_warm")


# ---- kernels that are not positive semidefinite -----------------------------------------------


def indefinite(X):
    distance = np.sqrt(((X[:, None] - X[None]) ** 2).sum(axis=2))
    return {
        "sigmoid": np.tanh(X @ X.T / 5.0),
        "distance": -distance,
        "shifted": 3.0 - distance,
        "opposite": 2.0 * np.eye(len(X)) - rbf_kernel(X, gamma=GAMMA),
    }


@pytest.mark.parametrize("C", [1e-2, 1.0, 1e4])
@pytest.mark.parametrize("active_set", [None, 20])
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("name", ["sigmoid", "distance", "shifted", "opposite"])
def test_an_indefinite_matrix_ends_in_a_model(data, name, solver, active_set, C):
    """A warning says so, or the steps have met nothing of it.

    Small C make K + diag(1/C) positive definite all the same: the dual problem has an optimum
    then, which the bound is below.
    """
    X, y = data
    K, costs = indefinite(X)[name], np.full(200, C)
    M = full_matrix(K, signs_of(y), costs)
    model = SwapSVC(C, kernel="precomputed", solver=solver, active_set=active_set, max_iter=3000)
    with warnings.catch_warnings(record=True) as record:
        warnings.simplefilter("always")
        model.set_params(random_state=0).fit(K, y)
    assert np.isfinite(model.decision_function(K)).all()
    if any("not positive semidefinite" in str(w.message) for w in record):
        assert model.status_ == "stalled"
    elif np.linalg.eigvalsh(M)[0] > 0.0:
        assert model.lower_bound_ <= optimum(K, signs_of(y), costs) * (1.0 + 1e-9)
    else:
        assert np.linalg.eigvalsh(M[np.ix_(model.support_, model.support_)])[0] > 0.0


def negative_linear(X, Z):
    return -linear_kernel(X, Z)


def test_a_negative_diagonal_is_refused(data):
    with pytest.raises(ValueError, match=r"not positive semidefinite: k\(x, x\) is -"):
        SwapSVC(kernel=negative_linear).fit(*data)


@pytest.mark.parametrize(
    "parameters, scale",
    [
        ({"kernel": "linear"}, 1e20),
        ({"kernel": "linear"}, 1e160),
        ({"kernel": "poly", "gamma": 10.0, "degree": 60}, 1.0),
        ({"gamma": 1e300}, 1.0),
        ({"gamma": "scale"}, 1e20),
        ({"gamma": "scale"}, 1e-25),
    ],
    ids=str,
)
def test_values_beyond_the_largest_number(data, parameters, scale):
    """An error that says so or, where double precision will do, a model; but no crash."""
    X = data[0] * scale
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            model = SwapSVC(**parameters, max_iter=2000).fit(X, data[1])
        except ValueError as error:
            assert re.search("finite|large|overflow|scale", str(error))
        else:
            assert np.isfinite(model.decision_function(X)).all()
            assert 0.0 < model.lower_bound_ <= model.objective_


@pytest.mark.parametrize("C", [1e-40, 1e-10, 1e10])
def test_extreme_C_is_no_indefinite_kernel(data, C):
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = SwapSVC(C, gamma=GAMMA, max_iter=20_000).fit(*data)
    judge(model, *data)


def test_shifted_features_are_no_indefinite_kernel(data):
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = SwapSVC(kernel="linear", max_iter=20_000).fit(data[0] + 1e4, data[1])
    judge(model, data[0] + 1e4, data[1])


# ---- living with scikit-learn -----------------------------------------------------------------


def test_search_over_C(data):
    search = GridSearchCV(
        make_pipeline(StandardScaler(), SwapSVC()), {"swapsvc__C": [0.1, 1.0, 10.0]}, cv=3
    ).fit(*data)
    assert search.best_score_ > 0.8 and search.best_estimator_[-1].status_ == "converged"


def test_search_with_a_precomputed_kernel(data):
    X, y = data
    given, rbf = SwapSVC(kernel="precomputed", tol=1e-8), SwapSVC(gamma=GAMMA, tol=1e-8)
    assert given.__sklearn_tags__().input_tags.pairwise
    grid = {"C": [0.1, 10.0]}
    K = rbf_kernel(X, gamma=GAMMA)
    scores = GridSearchCV(given, grid, cv=3).fit(K, y).cv_results_["mean_test_score"]
    expected = GridSearchCV(rbf, grid, cv=3).fit(X, y).cv_results_["mean_test_score"]
    assert_allclose(scores, expected)


def test_one_versus_rest_by_the_wrapper():
    X, y = load_iris(return_X_y=True)
    assert OneVsRestClassifier(SwapSVC()).fit(X, y).score(X, y) > 0.95
    assert cross_val_score(SwapSVC(kernel="linear"), X, y, cv=3).mean() > 0.9


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("convert", [np.asarray, sp.csr_matrix])
def test_pickle(classes, convert):
    X, y = load_iris(return_X_y=True)
    X, y = convert(X[y < classes]), y[y < classes]
    model = SwapSVC().fit(X, y)
    size = len(pickle.dumps(model))
    scores, labels = model.decision_function(X), model.predict(X)
    assert len(pickle.dumps(model)) < 1.1 * size  # what prediction prepared is left out
    copy = pickle.loads(pickle.dumps(model))
    assert_array_equal(copy.decision_function(X), scores)
    assert_array_equal(copy.predict(X), labels)


def test_memory_map(data, tmp_path):
    X, y = data
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "K.npy", rbf_kernel(X))
    expected = SwapSVC(random_state=0).fit(X, y)
    mapped = SwapSVC(random_state=0).fit(np.load(tmp_path / "X.npy", mmap_mode="r"), y)
    assert_array_equal(mapped.dual_coef_, expected.dual_coef_)
    K = np.load(tmp_path / "K.npy", mmap_mode="r")
    assert SwapSVC(kernel="precomputed").fit(K, y).predict(K).shape == y.shape


@pytest.mark.parametrize("kernel", ["rbf", "precomputed"])
@pytest.mark.parametrize("active_set", [None, 20])
def test_the_callers_arrays_are_left_alone(data, kernel, active_set):
    X, y, weight = data[0].copy(), data[1].copy(), np.linspace(0.0, 2.0, 200)
    X = rbf_kernel(X) if kernel == "precomputed" else X
    S = sp.csr_matrix(X)
    before = [A.copy() for A in (X, y, weight, S.data, S.indices, S.indptr)]
    model = SwapSVC(kernel=kernel, active_set=active_set)
    model.fit(X, y, weight).predict(X)
    if kernel == "rbf":
        model.fit(S, y, weight).predict(S)
    for now, then in zip((X, y, weight, S.data, S.indices, S.indptr), before, strict=True):
        assert_array_equal(now, then)


def test_data_frame(data):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(data[0], columns=[f"c{k}" for k in range(10)])
    model = SwapSVC().fit(frame, data[1])
    assert list(model.feature_names_in_) == list(frame.columns)
    assert_array_equal(model.predict(frame), SwapSVC().fit(*data).predict(data[0]))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame.rename(columns={"c0": "z"}))


def test_verbose(data, capsys):
    SwapSVC(verbose=1).fit(*data)
    assert "[SwapSVC] iteration 1: objective" in capsys.readouterr().out


# ---- wrong input ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "parameters",
    [
        {"C": 0.0},
        {"C": -1.0},
        {"C": np.inf},
        {"C": np.nan},
        {"C": "1"},
        {"kernel": "laplacian"},
        {"kernel": None},
        {"gamma": 0.0},
        {"gamma": -1.0},
        {"gamma": np.nan},
        {"gamma": np.inf},
        {"gamma": "mean"},
        {"gamma": None},
        {"degree": -1},
        {"degree": 1.5},
        {"coef0": -1.0},
        {"coef0": np.nan},
        {"coef0": np.inf},
        {"solver": "smo"},
        {"tol": 0.0},
        {"tol": -1.0},
        {"max_iter": 0},
        {"max_iter": -1},
        {"max_iter": 1.5},
        {"max_time": 0.0},
        {"cache_size": 0.0},
        {"cache_size": -1},
        {"cache_size": np.inf},
        {"n_candidates": 0},
        {"n_candidates": 1.5},
        {"n_initial": 0},
        {"active_set": 0},
        {"active_set": 1},
        {"active_set": "all"},
        {"active_set": 20.0},
        {"class_weight": "even"},
        {"decision_function_shape": "ovx"},
        {"break_ties": "yes"},
        {"warm_start": None},
        {"n_jobs": 1.5},
        {"random_state": "seed"},
        {"verbose": -1},
    ],
    ids=str,
)
def test_bad_parameter_is_named(data, parameters):
    ((name, value),) = parameters.items()
    model = SwapSVC(**parameters)
    with pytest.raises(ValueError) as error:
        model.fit(*data)
    assert f"The '{name}' parameter of SwapSVC must be" in str(error.value)
    assert f"Got {value!r} instead" in str(error.value)
    assert not hasattr(model, "n_features_in_") and not hasattr(model, "classes_")


def test_sigmoid_is_refused(data):
    with pytest.raises(ValueError, match="kernel='sigmoid' is not positive definite"):
        SwapSVC(kernel="sigmoid").fit(*data)


def test_ties_of_pairs_cannot_be_broken():
    with pytest.raises(ValueError, match="break_ties=True needs decision_function_shape='ovr'"):
        SwapSVC(break_ties=True, decision_function_shape="ovo").fit(*load_iris(return_X_y=True))


@pytest.mark.parametrize(
    "convert, message",
    [
        (lambda K: K[:, :50], r"square.*\(200, 50\)"),
        (lambda K: sp.csr_matrix(K), "dense"),
        (lambda K: np.where(np.eye(200) > 0, np.nan, K), "NaN"),
        (lambda K: np.where(np.eye(200) > 0, np.inf, K), "infinity"),
        (lambda K: K[0], "2D array"),
    ],
)
def test_bad_precomputed_matrix(data, convert, message):
    model = SwapSVC(kernel="precomputed")
    with pytest.raises(ValueError, match=message):
        model.fit(convert(rbf_kernel(data[0])), data[1])
    assert not hasattr(model, "classes_")


def test_a_sparse_precomputed_matrix_at_prediction(data):
    K = rbf_kernel(data[0])
    model = SwapSVC(kernel="precomputed").fit(K, data[1])
    with pytest.raises((ValueError, TypeError), match=r"[Ss]parse|dense"):
        model.predict(sp.csr_matrix(K))


@pytest.mark.parametrize("kernel", ["rbf", "precomputed"])
@pytest.mark.parametrize("method", ["predict", "decision_function"])
def test_other_columns_at_prediction(data, kernel, method):
    X = rbf_kernel(data[0]) if kernel == "precomputed" else data[0]
    model = SwapSVC(kernel=kernel).fit(X, data[1])
    d = X.shape[1]
    with pytest.raises(ValueError, match=f"X has {d - 1} features, .* expecting {d} features"):
        getattr(model, method)(X[:, :-1])
    with pytest.raises(ValueError, match="NaN"):
        getattr(model, method)(np.full((2, d), np.nan))


@pytest.mark.parametrize("method", ["predict", "decision_function"])
def test_not_fitted(data, method):
    with pytest.raises(NotFittedError):
        getattr(SwapSVC(), method)(data[0])


@pytest.mark.parametrize(
    "function, message",
    [
        (lambda X, Z: np.ones(len(X)), r"shape \(.*,\).*expected shape"),
        (lambda X, Z: np.ones((len(Z) + 1, len(X))), "expected shape"),
        (lambda X, Z: np.full((len(X), len(Z)), np.nan), "NaN or infinity"),
        (lambda X, Z: np.full((len(X), len(Z)), np.inf), "NaN or infinity"),
        (lambda X, Z: None, "expected shape"),
    ],
)
def test_bad_callable(data, function, message):
    model = SwapSVC(kernel=function)
    with pytest.raises(ValueError, match=message):
        model.fit(*data)
    assert not hasattr(model, "classes_")


def test_an_error_of_the_callable_comes_through(data):
    def failing(X, Z):
        raise RuntimeError("a user's kernel failed")

    model = SwapSVC().fit(*data)
    before = model.decision_function(data[0])
    with pytest.raises(RuntimeError, match="a user's kernel failed"):
        model.set_params(kernel=failing).fit(*data)
    assert_array_equal(model.decision_function(data[0]), before)


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda X, y: {"y": np.ones(len(y))}, "2 classes in y .* only one class: .*1.0"),
        (lambda X, y: {"y": np.eye(3, dtype=int)[y]}, "one label a sample.*multilabel"),
        (lambda X, y: {"y": y + 0.5}, "Unknown label type"),
        (lambda X, y: {"X": np.where(X[3, 3] == X, np.nan, X)}, "Input X contains NaN"),
        (lambda X, y: {"sample_weight": -np.ones(len(y))}, "Negative values.*sample_weight"),
        (lambda X, y: {"sample_weight": np.zeros(len(y))}, "at least one non-zero"),
        (lambda X, y: {"sample_weight": (y == 1).astype(float)}, "2 classes in y"),
        (lambda X, y: {"sample_weight": np.full(len(y), 1e308)}, "C"),
    ],
)
def test_bad_data(data, change, message):
    X, y = data
    with pytest.raises(ValueError, match=message):
        SwapSVC().fit(**({"X": X, "y": y} | change(X, y)))


@pytest.mark.parametrize("n_initial", [2, 5])
def test_a_start_on_a_few_points_leaves_shared_values_alone(n_initial):
    """Rows of a part of a pair are shorter than those that the pairs share."""
    X, y = load_digits(return_X_y=True)
    model = SwapSVC(n_initial=n_initial, random_state=0).fit(X, y)
    plain = SwapSVC().fit(X, y)
    assert_allclose(model.objective_, plain.objective_, rtol=2e-3)
    assert set(model.status_) == {"converged"}


@pytest.mark.parametrize("scale", [1e-4, 1e-2])
@pytest.mark.parametrize("active_set", [None, 50])
def test_small_kernel_values_beside_the_one_that_is_added(data, scale, active_set):
    """Rounding of k + 1 is that of 1; C is large, so that Q is small against it."""
    X, y = data[0][:, :2] * scale, signs_of(data[1])
    model = quiet(SwapSVC(1e6, kernel="linear", active_set=active_set, max_iter=5000), X, y)
    coef = np.zeros(len(y))
    coef[model.support_] = model.dual_coef_[0]
    scores = X @ (X.T @ coef) + coef.sum()
    objective = 0.5 * coef @ scores + 0.5e6 * np.sum(np.maximum(0.0, 1.0 - y * scores) ** 2)
    assert model.objective_ == pytest.approx(objective, rel=1e-6)  # Q loses 1e-16/Q
