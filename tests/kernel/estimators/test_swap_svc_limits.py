"""SwapSVC with kernel values at the limits, which are not taken for indefinite."""

import re
import warnings

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import linear_kernel

from sklearn_bundle import SwapSVC
from tests.contract.fits import quiet
from tests.contract.judge import judge
from tests.contract.kernel_machines import GAMMA


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
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", "The features lie far from zero")
        model = SwapSVC(kernel="linear", max_iter=20_000).fit(data[0] + 1e4, data[1])
    judge(model, data[0] + 1e4, data[1])


@pytest.mark.wide
def test_a_smaller_tol_gives_no_worse_model():
    """SWAP steps alone ended at a gap of 6 %: the kernel's values span eight decades.

    A score has n + 3 (d + 8) + 12 roundings, d = 4, of ``sum_i |beta_i| |phi(x_i)| |phi(x)|``.
    """
    X, y = load_iris(return_X_y=True)
    X, y = X[y > 0], y[y > 0]
    objectives, lengths = [], ((X**2).sum(axis=1) ** 1.5)
    for tol in (1e-2, 1e-4, 1e-6, 1e-7, 1e-8, 1e-10):
        model = quiet(SwapSVC(kernel="poly", gamma=1, tol=tol, random_state=0), X, y)
        objectives.append(model.objective_)
        judge(model, X, y)
        reach = np.abs(model.dual_coef_[0]) @ lengths[model.support_]
        rounding = 2.0**-53 * (100 + 3 * (4 + 8) + 12) * reach**2 / model.objective_
        assert model.relative_gap_ <= max(tol, 2.0 * rounding)  # of the objective, and the bound
    assert np.all(np.diff(objectives) <= 1e-12 * objectives[0])
