"""SDCACRFCV with certain=True, against optima by SciPy and the best of all labelings."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.model_selection import KFold

from sklearn_bundle import SDCACRF, SDCACRFCV
from sklearn_bundle.chain.certainty import possible_labels
from sklearn_bundle.chain.model import Weights
from sklearn_bundle.core.base import checked
from sklearn_bundle.core.path import fit_path
from sklearn_bundle.metrics import token_accuracy_score
from tests.contract.fits import quiet
from tests.reference_chain import Model, labelings, made, totals

pytestmark = pytest.mark.filterwarnings("ignore:.* chose ")

VALUES, K = [0.3, 0.03, 0.003], 3


def best_labels(model, w, X):
    """Of all labelings, by their scores."""
    coef, transitions, intercept, start, end = model.parts(w)
    found = []
    for x in X:
        scores = x @ coef.T + intercept
        scores[0] += start
        scores[-1] += end
        paths = labelings(len(x), K)
        found.append(paths[int(np.argmax(totals(scores, transitions, paths)))].tolist())
    return found


def some(items, rows):
    return [items[i] for i in rows]


@pytest.mark.wide
@pytest.mark.parametrize("solver", ["auto", "lbfgs"])
@pytest.mark.parametrize("biased", [True, False])
def test_exact_scores_lie_between_the_bounds(solver, biased):
    X, y = made(n=24, longest=4)
    X, y = [np.asarray(x) for x in X], [np.asarray(labels).tolist() for labels in y]
    weights = np.random.default_rng(0).uniform(0.5, 2.0, len(X))
    given = {"solver": solver, "fit_intercept": biased, "max_iter": 1000, "random_state": 0}
    search = SDCACRFCV(reg_lambdas=VALUES, cv=3, certain=True, **given)
    quiet(search, X, y, weights)
    assert search.test_score_bounds_.shape == (3, 3, 2)
    low, high = np.moveaxis(search.test_score_bounds_, 2, 0)
    exact = np.empty((3, 3))
    for k, (train, test) in enumerate(KFold(3).split(X)):
        for v, value in enumerate(VALUES):
            model = Model(some(X, train), some(y, train), K, value, weights[train], biased)
            labels = best_labels(model, model.optimum(), some(X, test))
            counted = {"sample_weight": weights[test]}
            exact[v, k] = token_accuracy_score(some(y, test), labels, **counted)
    assert (low <= exact + 1e-12).all() and (exact <= high + 1e-12).all()
    assert (low <= search.scores_.T).all() and (high >= search.scores_.T).all()
    assert search.best_is_certain_ is True
    assert search.reg_lambda_ == VALUES[int(np.argmax(exact.mean(axis=1)))]


def test_fits_that_are_final_keep_the_ball_of_their_value():
    """A path that goes on from them comes to no value, and its problem has another one."""
    X, y = made(n=12, longest=3)
    model = checked(SDCACRF(tol=1e-6, random_state=0))
    model._bounds_paths = True
    data, ends = model._check(X, y, None), {}
    for _ in range(2):
        for value, (found, (result,)) in zip(
            [1.0, 1e-3], fit_path(model, data, [1.0, 1e-3], 0, ends=ends), strict=True
        ):
            (region,) = found._known_regions()
            assert region.radius == pytest.approx(np.sqrt(2.0 * result.gap / value))


def test_a_label_is_possible_if_some_weights_in_the_ball_make_it_best():
    """One token without neighbors: the score of a label against the best moves by r sqrt(2) |x|."""
    coef = np.array([[1.0], [0.9], [0.0]])
    weights = Weights(coef, np.zeros((3, 3)), *np.zeros((3, 3)))
    args = sp.csr_array(np.ones((1, 1))), np.array([0, 1]), weights, np.array([0])
    for radius, expected in ((0.05, [1, 0, 0]), (0.08, [1, 1, 0]), (0.8, [1, 1, 1])):
        found = possible_labels(*args, radius, False)
        assert found.tolist() == [[bool(one) for one in expected]]


def test_rows_of_a_matrix_and_labels_that_training_parts_lack():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=60) > 0.0, "a", "b").astype(object)
    y[0] = "only here"
    search = SDCACRFCV(reg_lambdas=[0.1, 0.001], cv=2, certain=True, tol=1e-4, max_iter=500)
    quiet(search, X, y)
    low, high = search.test_score_bounds_[:, 0].T
    assert (high <= 29 / 30).all() and (low <= high).all()


def test_what_has_no_bounds_is_refused():
    X, y = made(n=6)
    for given in ({"scoring": "flat_f1"}, {"scoring": "span_f1"}, {"l1_ratio": 1.0}):
        with pytest.raises(ValueError, match="certain=True needs bounds of scores"):
            SDCACRFCV(certain=True, **given).fit(X, y)
