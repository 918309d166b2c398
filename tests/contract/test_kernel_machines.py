"""SwapSVC as its users see it."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.metrics.pairwise import linear_kernel, rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC

from sklearn_bundle import SwapSVC

# Some parametrizations set gamma for kernels without one.
pytestmark = pytest.mark.filterwarnings("ignore:.* ignores ")
GAMMA = 0.05
LAYOUTS = {
    "dense64": lambda X: X,
    "dense32": lambda X: X.astype(np.float32),
    "csr_matrix": sp.csr_matrix,
    "csr_array": sp.csr_array,
}

# ---- attributes in SVC's shapes ---------------------------------------------------------------


@pytest.fixture(scope="module", params=["binary", "multiclass", "strings"])
def labeled(request):
    X, y = load_digits(return_X_y=True)
    classes = {"binary": 2, "multiclass": 4, "strings": 3}[request.param]
    X, y = X[y < classes][:200] / 16.0, y[y < classes][:200]
    return X, np.array(list("cab"))[y] if request.param == "strings" else y


@pytest.fixture(params=["rbf", "linear"])
def fitted(labeled, request):
    ours = SwapSVC(10.0, kernel=request.param, gamma=0.02, tol=1e-6).fit(*labeled)
    return ours, SVC(C=10.0, kernel=request.param, gamma=0.02).fit(*labeled)


def test_shapes_and_types_of_svc(fitted, labeled):
    X, _ = labeled
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


def test_support_vectors_are_sorted_by_classes(fitted, labeled):
    _, y = labeled
    ours, _ = fitted
    labels = np.searchsorted(ours.classes_, y[ours.support_])
    assert_array_equal(np.bincount(labels), ours.n_support_)
    assert_array_equal(np.lexsort((ours.support_, labels)), np.arange(len(labels)))
    assert (np.abs(ours.dual_coef_).sum(axis=0) > 0.0).all()


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


def test_scores_from_the_attributes(fitted, labeled):
    X = labeled[0] + 0.01
    ours, _ = fitted
    scores = ours.set_params(decision_function_shape="ovo").decision_function(X)
    assert_allclose(scores, pair_scores(ours, X), atol=1e-10)


def test_coef_is_the_gradient_of_the_scores(labeled):
    X, y = labeled
    model = SwapSVC(kernel="linear", decision_function_shape="ovo", tol=1e-3).fit(X, y)
    scores = X @ model.coef_.T + model.intercept_
    assert_allclose(scores.squeeze(), model.decision_function(X), atol=1e-10)
    sparse = clone(model).fit(sp.csr_matrix(X), y)
    coef = sparse.coef_.toarray()
    assert_allclose(coef, model.coef_, atol=0.02 * np.abs(model.coef_).max())
    assert_allclose(sp.csr_matrix(X) @ coef.T + sparse.intercept_, scores, atol=0.1)


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
    """Bisected until neighbors in float64 differ: single precision alone cannot tell them."""
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


@pytest.mark.parametrize("shift", [0.0, 3.0])
@pytest.mark.parametrize("convert", [np.asarray, sp.csr_matrix])
def test_gamma_of_svc(data, convert, shift):
    X, y = convert(data[0] + shift), data[1]
    for gamma in ("scale", "auto"):
        theirs = SVC(gamma=gamma).fit(X, y)._gamma
        assert SwapSVC(gamma=gamma, tol=0.5).fit(X, y).gamma_ == pytest.approx(theirs, rel=1e-12)


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


def test_class_weights_are_no_part_of_gamma(data):
    plain, heavier = (SwapSVC(class_weight=given).fit(*data) for given in (None, {0: 1.0, 1: 3.0}))
    assert heavier.gamma_ == plain.gamma_


# ---- living with scikit-learn -----------------------------------------------------------------


def test_search_with_a_precomputed_kernel(data):
    X, y = data
    given, rbf = SwapSVC(kernel="precomputed", tol=1e-8), SwapSVC(gamma=GAMMA, tol=1e-8)
    assert given.__sklearn_tags__().input_tags.pairwise
    grid = {"C": [0.1, 10.0]}
    K = rbf_kernel(X, gamma=GAMMA)
    scores = GridSearchCV(given, grid, cv=3).fit(K, y).cv_results_["mean_test_score"]
    expected = GridSearchCV(rbf, grid, cv=3).fit(X, y).cv_results_["mean_test_score"]
    assert_allclose(scores, expected)


def test_a_pickle_has_nothing_that_prediction_prepared(data):
    X, y = data
    model = SwapSVC().fit(X, y)
    size = len(pickle.dumps(model))
    model.predict(X)
    assert len(pickle.dumps(model)) < 1.1 * size and not hasattr(model, "predict_proba")
