"""SwapSVC with kernels that are not positive semidefinite, and with values at the limits."""

import re
import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import linear_kernel, rbf_kernel

from sklearn_bundle import SwapSVC
from tests.certificates import judge
from tests.kernel_machines import GAMMA, SOLVERS, full_matrix, optimum, signs_of


def indefinite(X):
    distance = np.sqrt(((X[:, None] - X[None]) ** 2).sum(axis=2))
    return {
        "sigmoid": np.tanh(X @ X.T / 5.0),
        "distance": -distance,
        "shifted": 3.0 - distance,
        "opposite": 2.0 * np.eye(len(X)) - rbf_kernel(X, gamma=GAMMA),
    }


@pytest.mark.matrix
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
    most = 100_000 if solver == "decomposition" else 3000  # one of its blocks takes thousands
    model = SwapSVC(C, kernel="precomputed", solver=solver, active_set=active_set, max_iter=most)
    with warnings.catch_warnings(record=True) as record:
        warnings.simplefilter("always")
        model.set_params(random_state=0).fit(K, y)
    assert np.isfinite(model.decision_function(K)).all()
    told = [w.filename for w in record if "not positive semidefinite" in str(w.message)]
    if told:
        assert model.status_ == "stalled" and told == [__file__]
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
