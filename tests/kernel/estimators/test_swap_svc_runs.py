"""SwapSVC: where a fit ends."""

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.metrics.pairwise import rbf_kernel

from sklearn_bundle import SwapSVC
from tests.contract.fits import quiet
from tests.contract.kernel_machines import (
    GAMMA,
    assert_true_certificate,
    optimum,
    signs_of,
)

# Some parametrizations set gamma for kernels without one.
pytestmark = pytest.mark.filterwarnings("ignore:.* ignores ")


@pytest.fixture(scope="module")
def many():
    return make_classification(600, 8, n_informative=5, flip_y=0.05, random_state=0)


def test_a_class_of_one_point(many):
    X, _ = many
    y = np.zeros(len(X), dtype=int)
    y[7] = 1
    model = SwapSVC(gamma=GAMMA, tol=1e-6).fit(X, y)
    assert_true_certificate(model, rbf_kernel(X, gamma=GAMMA), signs_of(y), np.ones(len(y)))


# ---- where it stops ---------------------------------------------------------------------------


def test_a_tol_below_rounding_ends_at_the_optimum(data):
    X, y = data
    model = quiet(SwapSVC(gamma=GAMMA, tol=1e-300), X, y)
    assert model.status_ == ("converged" if model.dual_gap_ == 0.0 else "stalled")
    best = optimum(rbf_kernel(X, gamma=GAMMA), signs_of(y), np.ones(200))
    assert model.objective_ == pytest.approx(best, rel=1e-10)
