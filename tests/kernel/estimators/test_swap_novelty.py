"""SwapNoveltyDetector: the smallest ball, and what is new."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from sklearn.metrics.pairwise import rbf_kernel

from sklearn_bundle import SwapNoveltyDetector
from tests.reference_cones import by_clarabel, halflines, zeros


@pytest.fixture(scope="module")
def cloud():
    return np.random.default_rng(0).normal(size=(80, 3)) * [1.0, 2.0, 0.5]


def test_it_is_the_smallest_ball(cloud):
    """In the space of ``k + delta / C``, by its own quadratic programme: min r^2."""
    H = rbf_kernel(cloud, gamma=0.05) + np.eye(80) / 5.0
    rows = sp.vstack([sp.csr_matrix(np.ones((1, 80))), -sp.identity(80)])
    cones = zeros(1) + halflines(80)
    center = by_clarabel(2.0 * H, -np.diag(H), rows, np.r_[1.0, np.zeros(80)], cones)
    model = SwapNoveltyDetector(5.0, tol=1e-10, nu=None, gamma=0.05).fit(cloud)
    ours = np.zeros(80)
    ours[model.support_] = model.dual_coef_[0] / model.dual_coef_.sum()
    assert_allclose(ours, center, atol=1e-5)


@pytest.mark.parametrize("share", [0.01, 0.1, 0.5])
def test_contamination_is_the_share_of_new_samples(cloud, share):
    weights = np.arange(80) % 4.0
    model = SwapNoveltyDetector(contamination=share, nu=None).fit(cloud)
    assert np.mean(model.predict(cloud) == -1) == pytest.approx(share, abs=1.0 / 80)
    model.fit(cloud, sample_weight=weights)
    new = weights[model.predict(cloud) == -1].sum() / weights.sum()
    assert share - 3.0 / weights.sum() <= new <= share


def test_the_origin_inside_the_data_is_named():
    X = np.array([[1.0, 2.0], [-1.0, -2.0], [2.0, -1.0], [-2.0, 1.0]])
    with pytest.warns(UserWarning, match="^The origin must not lie inside .* Use kernel='rbf'"):
        model = SwapNoveltyDetector(kernel="linear", nu=None).fit(X)
    assert (model.predict(X) == -1).all() and np.abs(model.score_samples(X)).max() < 1e-9
    with pytest.warns(UserWarning, match="^The origin must not lie inside"):
        model = SwapNoveltyDetector(kernel="linear").fit(X)
    assert model.objective_ == 0.0 and -1e-5 <= model.lower_bound_ <= 0.0 and model.n_iter_ <= 1
    assert (SwapNoveltyDetector(kernel="linear", nu=None).fit(X + 5.0).predict(X + 5.0) == 1).any()
