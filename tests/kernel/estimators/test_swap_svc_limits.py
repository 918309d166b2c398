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
        warnings.simplefilter("error", UserWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = SwapSVC(kernel="linear", max_iter=20_000).fit(data[0] + 1e4, data[1])
    judge(model, data[0] + 1e4, data[1])


@pytest.mark.wide
def test_a_smaller_tol_gives_no_worse_model():
    """SWAP steps alone ended at a gap of 6 %: the kernel's values span eight decades."""
    X, y = load_iris(return_X_y=True)
    X, y = X[y > 0], y[y > 0]
    objectives = []
    for tol in (1e-2, 1e-4, 1e-6, 1e-7, 1e-8, 1e-10):
        model = quiet(SwapSVC(kernel="poly", gamma=1, tol=tol, random_state=0), X, y)
        objectives.append(model.objective_)
        judge(model, X, y)
        assert model.relative_gap_ <= max(tol, 1e-7)  # rounding is of this size
    assert np.all(np.diff(objectives) <= 1e-12 * objectives[0])


def test_a_handover_counts_the_steps_of_both_solvers():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(50, 3)), rng.integers(0, 2, 50)
    blocks = SwapSVC(tol=1e-9, solver="decomposition", random_state=0).fit(X, y)
    model = SwapSVC(tol=1e-15, max_iter=2000, random_state=0)
    quiet(model, X, y)
    history = model.history_
    seen = history[["fw", "swap_add", "swap_drop"]]
    assert blocks.converged_ and model.n_iter_ > blocks.n_iter_ > 0
    assert np.all(np.diff(history["iteration"]) >= 0) and np.all(np.diff(history["passes"]) >= 0)
    assert sum(seen[0].tolist()) == 0 < sum(seen[-1].tolist()) < model.n_iter_
    judge(model, X, y)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("offset", [0.0, 6e8])
def test_two_solvers_share_the_steps(offset):
    """Far from the origin rows are in float64, and the second one came with a limit of its own."""
    X = np.random.default_rng(1).normal(size=(6, 6)) * max(1.0, offset / 1e4) + offset
    for max_iter in range(1, 20):
        model = SwapSVC(3.9, gamma="auto", max_iter=max_iter, tol=3e-4, random_state=0)
        assert model.fit(X, np.arange(6) % 2).n_iter_ <= max_iter
