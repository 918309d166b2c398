"""Searches of kernel machines with certain=True, against exact optima of every fold."""

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import KFold, StratifiedKFold

from sklearn_bundle import SwapSVCCV, SwapSVRCV
from tests.contract.fits import quiet
from tests.reference_box import BoxMachine
from tests.reference_kernel import L2SVM, kernel_values
from tests.reference_programme import LONG
from tests.reference_tube import TubeMachine

pytestmark = pytest.mark.filterwarnings("ignore:.* chose ")

CS, GAMMAS, EPSILON = [0.3, 30.0], [0.05, 0.5], 0.1


def made(n=45):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(n, 3))
    f = np.sin(2.0 * X[:, 0]) + 0.4 * rng.normal(size=n)
    return X, f, rng.uniform(0.5, 2.0, n)


def exact_score(loss, kernel, gamma, X, f, weights, C, train, test):
    """Of the optimum of a fold, in extended precision; the score counts the weights."""
    K, sizes = kernel_values(kernel, X, gamma)
    here, there = K[np.ix_(train, train)], K[np.ix_(test, train)]
    costs, n = C * weights[train], len(train)
    y, zero, of_here = np.where(f > 0, 1.0, -1.0), np.zeros(n), sizes[np.ix_(train, train)]
    if loss == "squared_hinge":
        problem = L2SVM(here, of_here, y[train].astype(LONG), costs.astype(LONG), zero.astype(LONG))
        scores = (there + 1) @ (problem.optimum().point * y[train])
    elif loss == "squared_epsilon_insensitive":
        of_tube = f[train].astype(LONG), costs.astype(LONG), LONG(EPSILON), LONG(EPSILON)
        problem = TubeMachine(here + 1, of_here + 1, *of_tube, zero.astype(LONG))
        scores = (there + 1) @ problem.optimum().point
    else:
        hinge = loss == "hinge"
        low = np.minimum(0, y[train] * costs) if hinge else -costs
        high = np.maximum(0, y[train] * costs) if hinge else costs
        target, width = (y[train], 0.0) if hinge else (f[train], EPSILON)
        problem = BoxMachine(here, of_here, target, low, high, width, 0.0, zero, 0.0)
        point = problem.optimum().point
        scores = there @ point[:-1] + point[-1]
    if "hinge" in loss:
        return accuracy_score(y[test], np.where(scores > 0, 1.0, -1.0), sample_weight=weights[test])
    return r2_score(f[test], np.asarray(scores, float), sample_weight=weights[test])


@pytest.mark.parametrize(
    "loss",
    [
        *("squared_hinge", "hinge", "squared_epsilon_insensitive"),
        pytest.param("epsilon_insensitive", marks=pytest.mark.wide),
    ],
)
@pytest.mark.parametrize("kernel", ["rbf", pytest.param("linear", marks=pytest.mark.wide)])
def test_exact_scores_lie_between_the_bounds(loss, kernel):
    X, f, weights = made()
    gammas = GAMMAS if kernel == "rbf" else None
    if "hinge" in loss:
        cv, y = StratifiedKFold(3), (f > 0).astype(int)
        search = SwapSVCCV(CS, gammas=gammas, loss=loss, kernel=kernel, cv=cv, certain=True)
    else:
        cv, y, kind = KFold(3), f, {"gammas": gammas, "epsilon": EPSILON, "kernel": kernel}
        search = SwapSVRCV(CS, loss=loss, cv=cv, certain=True, **kind)
    quiet(search, X, y, weights)
    grid = [(C, gamma) for C in CS for gamma in gammas or [1.0]]
    folds = list(cv.split(X, y))
    exact = np.array(
        [[exact_score(loss, kernel, g, X, f, weights, C, *fold) for fold in folds] for C, g in grid]
    )
    shape = (2, 2) if gammas else (2,)
    assert search.test_score_bounds_.shape == (*shape, 3, 2)
    low, high = np.moveaxis(search.test_score_bounds_, -1, 0).reshape(2, len(grid), 3)
    assert (low <= exact + 1e-12).all() and (exact <= high + 1e-12).all()
    scores = search.scores_.reshape(3, -1).T
    assert (low <= scores).all() and (scores <= high).all()
    assert search.best_is_certain_ is True
    best = int(np.argmax(exact.mean(axis=1)))
    assert grid[best][0] == search.C_ and (gammas is None or grid[best][1] == search.gamma_)
    others = np.delete(high.mean(axis=1), best)
    assert others.max() < low.mean(axis=1)[best] + 1e-12  # that is what it is certain of


def test_a_close_choice_needs_more_than_the_first_round():
    """Values of C that differ little: at the gap of the first fits many rows are undecided."""
    X, f, _ = made(150)
    y, Cs = (f > 0).astype(int), [9.0, 10.0, 11.0]
    loose = quiet(SwapSVCCV(Cs, loss="hinge", cv=3), X, y)
    sure = quiet(SwapSVCCV(Cs, loss="hinge", cv=3, certain=True), X, y)
    assert sure.best_is_certain_ and not hasattr(loose, "best_is_certain_")
    assert np.ptp(sure.test_score_bounds_[..., :], axis=-1).max() < 0.05


def test_three_classes_and_workers():
    X, f, _ = made(90)
    y = np.digitize(f, [-0.4, 0.4])
    searches = [
        quiet(SwapSVCCV(CS, gammas=GAMMAS, cv=3, certain=True, n_jobs=n), X, y) for n in (1, 2)
    ]
    one, two = searches
    np.testing.assert_array_equal(one.test_score_bounds_, two.test_score_bounds_)
    assert one.best_is_certain_ == two.best_is_certain_
    low, high = np.moveaxis(one.test_score_bounds_, -1, 0)
    assert (low <= one.scores_.transpose(1, 2, 0)).all()
    assert (one.scores_.transpose(1, 2, 0) <= high).all()


def test_equal_values_leave_the_first():
    """A constant column: all rows are alike, and so are all scores."""
    y = np.arange(30) % 3 == 0
    search = quiet(SwapSVCCV(CS, cv=3, certain=True), np.ones((30, 1)), y)
    assert search.best_is_certain_ and CS[0] == search.C_


def test_a_time_limit_leaves_bounds_that_hold():
    X, f, _ = made()
    search = SwapSVRCV(CS, gammas=GAMMAS, cv=3, certain=True, max_time=1e-9)
    with pytest.warns(UserWarning, match="max_time"):
        search.fit(X, f)
    low, high = np.moveaxis(search.test_score_bounds_, -1, 0)
    assert (low <= high).all() and isinstance(search.best_is_certain_, bool)
    assert not search.best_is_certain_


def test_what_has_no_bounds_is_refused():
    X, f, _ = made()
    y, K = (f > 0).astype(int), X @ X.T
    for data, given in ((K, {"kernel": "precomputed"}), (X, {"scoring": "f1"})):
        with pytest.raises(ValueError, match="certain=True needs bounds of scores"):
            SwapSVCCV(CS, certain=True, **given).fit(data, y)
    with pytest.raises(ValueError, match="certain"):
        SwapSVCCV(CS, certain="yes").fit(X, y)
