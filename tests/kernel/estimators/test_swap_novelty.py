"""SwapNoveltyDetector: the optimum, the smallest ball, and what is new."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import roc_auc_score
from sklearn.svm import OneClassSVM

from sklearn_bundle import SwapNoveltyDetector
from tests.contract.kernel_machines import KERNELS, LAYOUTS, optimum
from tests.contract.subproblems import subproblems
from tests.reference_cones import by_clarabel, halflines


@pytest.fixture(scope="module")
def cloud():
    return np.random.default_rng(0).normal(size=(80, 3)) * [1.0, 2.0, 0.5]


@pytest.mark.filterwarnings("ignore:The origin must not lie inside the data")
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kernel", KERNELS)
def test_optimum_of_an_interior_point_solver(cloud, kernel, weighted):
    parameters, values = KERNELS[kernel]
    X = values(cloud, cloud) if kernel == "precomputed" else cloud
    weights = np.arange(80) % 4.0 if weighted else None
    model = SwapNoveltyDetector(3.0, tol=1e-8, nu=None, **parameters).fit(X, None, weights)
    (problem,) = subproblems(model, X, None, weights)
    best = problem.by_clarabel()
    assert model.lower_bound_ <= best * (1.0 + 1e-9) <= model.objective_ * (1.0 + 2e-9)
    assert model.objective_ == pytest.approx(best, rel=2e-8)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_optimum_of_libsvm(cloud, layout):
    """With nu = 1/n its one-class problem on ``K + I / C`` is the same one up to a factor."""
    X, (parameters, values) = LAYOUTS[layout](cloud), KERNELS["rbf"]
    K = values(X, X)
    best = optimum(K - 1.0, np.ones(80), np.full(80, 2.0))
    model = SwapNoveltyDetector(2.0, tol=1e-7, nu=None, **parameters).fit(X)
    assert model.lower_bound_ <= best * (1.0 + 1e-6)  # float32 moves the points by 1e-7
    assert model.objective_ == pytest.approx(best, rel=1e-6)


def test_it_is_the_smallest_ball(cloud):
    """In the space of ``k + delta / C``, by its own quadratic programme: min r^2."""
    parameters, values = KERNELS["rbf"]
    H = values(cloud, cloud) + np.eye(80) / 5.0
    rows = sp.vstack([sp.csr_matrix(np.ones((1, 80))), -sp.identity(80)])
    clarabel = pytest.importorskip("clarabel")
    cones = [clarabel.ZeroConeT(1), *halflines(80)]
    center = by_clarabel(2.0 * H, -np.diag(H), rows, np.r_[1.0, np.zeros(80)], cones)
    model = SwapNoveltyDetector(5.0, tol=1e-10, nu=None, **parameters).fit(cloud)
    ours = np.zeros(80)
    ours[model.support_] = model.dual_coef_[0] / model.dual_coef_.sum()
    assert_allclose(ours, center, atol=1e-5)


def test_decisions_are_those_of_the_scores(cloud):
    model = SwapNoveltyDetector(10.0, nu=None).fit(cloud)
    assert model.offset_ == 1.0
    assert_allclose(model.decision_function(cloud), model.score_samples(cloud) - 1.0)
    assert_array_equal(model.predict(cloud), np.where(model.decision_function(cloud) < 0, -1, 1))
    assert_array_equal(model.fit_predict(cloud), model.predict(cloud))
    far = np.full((1, 3), 50.0)
    assert model.predict(far) == -1 and model.score_samples(far) < model.score_samples(cloud).min()


def test_what_scores_lack_adds_up_to_twice_the_objective(cloud):
    """The law in place of nu's: coefficients are what scores lack, times C and the weight."""
    weights = 1.0 + np.arange(80) % 3
    model = SwapNoveltyDetector(4.0, tol=1e-12, nu=None).fit(cloud, None, weights)
    lacking = 4.0 * weights * np.maximum(0.0, 1.0 - model.score_samples(cloud))
    assert lacking.sum() == pytest.approx(2.0 * model.objective_, rel=1e-6)
    assert_allclose(model.dual_coef_[0], lacking[model.support_], atol=1e-5)


def test_objective_where_coefficients_dwarf_the_scores():
    """Kernel values of 1e-16, coefficients of 1e12: a 1 added and taken off would drown them.

    The objective of w, in extended precision.
    """
    X = 1e-8 * (1.0 + np.random.default_rng(0).random((12, 2)))
    model = SwapNoveltyDetector(1e12, kernel="linear", tol=1e-4, nu=None).fit(X)
    w = model.coef_[0].astype(np.longdouble)
    lacking = np.maximum(0.0, 1.0 - X.astype(np.longdouble) @ w)
    objective = 0.5 * (w @ w) + 0.5e12 * (lacking @ lacking)
    assert model.objective_ == pytest.approx(float(objective), rel=1e-13)


@pytest.mark.parametrize("share", [0.01, 0.1, 0.5])
def test_contamination_is_the_share_of_new_samples(cloud, share):
    weights = np.arange(80) % 4.0
    model = SwapNoveltyDetector(contamination=share, nu=None).fit(cloud)
    assert np.mean(model.predict(cloud) == -1) == pytest.approx(share, abs=1.0 / 80)
    model.fit(cloud, sample_weight=weights)
    new = weights[model.predict(cloud) == -1].sum() / weights.sum()
    assert share - 3.0 / weights.sum() <= new <= share


def test_equal_samples_are_new_together():
    X = np.repeat(np.random.default_rng(0).normal(size=(10, 2)), 4, axis=0)
    model = SwapNoveltyDetector(contamination=0.15, nu=None).fit(X)
    labels = model.predict(X).reshape(10, 4)
    assert (labels == labels[:, :1]).all() and 0 < np.mean(labels == -1) <= 0.15


def test_outliers_are_found_as_well_as_by_one_class_svm():
    rng = np.random.default_rng(0)
    train, inside = rng.normal(size=(2, 300, 2)) ** 3
    outside = rng.uniform(-20, 20, size=(300, 2))
    X, y = np.r_[inside, outside], np.repeat([1, 0], 300)
    ours = SwapNoveltyDetector(C=1.0, nu=None).fit(train)
    peer = OneClassSVM(nu=0.1).fit(train)
    area, theirs = (roc_auc_score(y, m.score_samples(X)) for m in (ours, peer))
    assert area >= theirs - 0.01


def test_the_origin_inside_the_data_is_named():
    X = np.array([[1.0, 2.0], [-1.0, -2.0], [2.0, -1.0], [-2.0, 1.0]])
    with pytest.warns(UserWarning, match="^The origin must not lie inside .* Use kernel='rbf'"):
        model = SwapNoveltyDetector(kernel="linear", nu=None).fit(X)
    assert (model.predict(X) == -1).all() and np.abs(model.score_samples(X)).max() < 1e-9
    with pytest.warns(UserWarning, match="^The origin must not lie inside"):
        model = SwapNoveltyDetector(kernel="linear").fit(X)
    assert model.objective_ == 0.0 and -1e-5 <= model.lower_bound_ <= 0.0 and model.n_iter_ <= 1
    assert (SwapNoveltyDetector(kernel="linear", nu=None).fit(X + 5.0).predict(X + 5.0) == 1).any()
