"""Matchings: inference against all permutations, rounding, optima, and errors that say where."""

import numpy as np
import pytest
import scipy.sparse as sp

from sklearn_bundle import StructuredSVM
from sklearn_bundle.models import Matching
from sklearn_bundle.structured.models.examples import ListedExamples
from tests.contract.judge import judge
from tests.reference_structured import matchings

SOLVERS = ["auto", "bcfw", "rsd", "rsd-one-simplex", "rsd-working-sets", "bundle"]
SHAPES = [(4, 4), (1, 1), (3, 5), (5, 5), (1, 3), (2, 2)]


def draw(seed=0, shapes=SHAPES, d=3, size=1.0):
    """Features of pairs, of which the first is higher for the true ones; their matchings."""
    rng = np.random.default_rng(seed)
    y = [rng.permutation(m)[:n] for n, m in shapes]
    X = [rng.normal(size=(n, m, d)) for n, m in shapes]
    for x, truth in zip(X, y, strict=True):
        x[np.arange(len(x)), truth, 0] += size
    return X, y, rng


def enumerated(X, y, w):
    """Of each example psi, loss and score of all outputs."""
    for example in matchings(X, y):
        psi = example.psi("margin")
        yield psi, example.losses, example.losses - psi @ w


# ---- inference --------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_worst_matchings_by_enumeration(seed):
    X, y, rng = draw(seed)
    w = 10.0 ** rng.uniform(-3.0, 3.0) * rng.normal(size=3)
    found = Matching().examples(X, y, "margin").find(w, 1, len(y))
    rows = sp.csr_array((found.values, found.indices, found.starts), (len(y) - 1, 3)).toarray()
    for k, (psi, losses, scores) in enumerate(enumerated(X[1:], y[1:], w)):
        rounding = 1e-14 * (1.0 + np.abs(psi).max() * np.abs(w).sum())
        assert found.scores[k] == pytest.approx(scores.max(), abs=rounding)
        distances = np.abs(psi - rows[k]).max(axis=1) + np.abs(losses - found.losses[k])
        assert distances.min() <= 1e-14  # it is one of them
        assert scores.max() - rounding <= found.bounds[k] <= scores.max() + 100.0 * rounding
    assert found.values.all()


@pytest.mark.parametrize("seed", range(20))
def test_the_methods_by_enumeration(seed):
    X, y, rng = draw(seed)
    model, w = Matching(), rng.normal(size=3)
    assert model.n_parameters(X, y) == 3
    for x, truth, example in zip(X, y, matchings(X, y), strict=True):
        plain, augmented = model.inference(x, w), model.loss_augmented_inference(x, truth, w)
        scores = example.phi @ w
        assert w @ model.joint_feature(x, plain) == pytest.approx(scores.max(), abs=1e-13)
        score = w @ model.joint_feature(x, augmented) + model.loss(truth, augmented)
        assert score == pytest.approx((scores + example.losses).max(), abs=1e-13)
        assert model.loss(truth, truth) == 0.0 and len(set(plain)) == len(x)


def test_the_default_examples_find_the_same():
    X, y, rng = draw(3)
    w = rng.normal(size=3)
    own, listed = Matching().examples(X, y, "margin"), ListedExamples(Matching(), X, y, "margin")
    for part, other in zip(own.find(w, 0, 6)[:5], listed.find(w, 0, 6), strict=False):
        np.testing.assert_allclose(part, other, rtol=1e-12, atol=1e-12)


def test_bounds_where_scores_are_rounded():
    """Features and weights are such that enumeration rounds nothing."""
    rng, missed = np.random.default_rng(0), 0
    w = np.array([2.0**30, 2.0**-18])
    for _ in range(200):
        X = [rng.integers(-2, 3, (4, 4, 2)).astype(float)]
        y = [np.arange(4)]
        found = Matching().examples(X, y, "margin").find(w, 0, 1)
        ((_, _, scores),) = enumerated(X, y, w)
        assert found.scores[0] <= scores.max() <= found.bounds[0]
        missed += found.scores[0] < scores.max()
    assert missed  # or this would prove nothing


def test_a_true_matching_that_nothing_exceeds():
    X, y, _ = draw(size=100.0)
    found = Matching().examples(X, y, "margin").find(np.array([1.0, 0.0, 0.0]), 0, 6)
    assert not found.starts.any() and not found.scores.any() and not found.bounds.any()


def test_float32_features_are_taken_as_they_are():
    X, y, rng = draw(1)
    w, X = rng.normal(size=3), [x.astype(np.float32) for x in X]
    one, other = (
        Matching().examples([x.astype(kind) for x in X], y, "margin").find(w, 0, 6)
        for kind in (np.float32, np.float64)
    )
    np.testing.assert_array_equal(one.scores, other.scores)


# ---- the optimum ------------------------------------------------------------------------------


def tiny(seed=5):
    return draw(seed, [(3, 3), (3, 4), (2, 3), (3, 3), (4, 4), (2, 2)])[:2]


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("solver", SOLVERS)
def test_certificates_of_all_solvers(solver, loss):
    X, y = tiny()
    weights = [1.0, 0.0, 2.0, 0.5, 1.0, 3.0]
    svm = StructuredSVM(
        "matching", reg_lambda=0.05, solver=solver, loss=loss, tol=1e-7, random_state=0
    )
    svm.fit(X, y, weights)
    assert svm.status_ == "converged" and svm.exact_
    judge(svm, X, y, weights)


def test_the_score_is_the_share_of_right_points():
    X, y = tiny()
    svm = StructuredSVM("matching", reg_lambda=0.05, random_state=0).fit(X, y)
    found = svm.predict(X)
    right = [np.mean(a == b) for a, b in zip(y, found, strict=True)]
    assert 0.0 < np.mean(right) < 1.0
    assert svm.score(X, y) == pytest.approx(np.mean(right))


# ---- errors ------------------------------------------------------------------------------------


def changed(values, i, value):
    return [value if k == i else v for k, v in enumerate(values)]


ZEROS = np.zeros((4, 4, 3))
NAN = np.where(np.arange(48).reshape(4, 4, 3) == 17, np.nan, 0.0)
WRONG_X = {
    "two axes": (ZEROS[0], r"X\[3\] must have shape \(n, m, d\) with 1 <= n <= m .* \(4, 3\)"),
    "n above m": (ZEROS[:, :3], r"X\[3\] must have shape .* got an array of shape \(4, 3, 3\)"),
    "no points": (ZEROS[:0], r"X\[3\] must have shape .* \(0, 4, 3\)"),
    "another d": (ZEROS[:, :, :2], r"X\[3\] must have 3 features of each pair, .* got 2"),
    "NaN": (NAN, r"X\[3\] must hold finite numbers, but X\[3\]\[1, 1, 2\] is nan"),
    "text": ([["a"]], r"X\[3\] must hold numbers, got 'a'"),
}
WRONG_Y = {
    "twice": [0, 1, 1, 2],
    "too large": [0, 1, 2, 4],
    "negative": [0, 1, 2, -1],
    "half": [0, 1, 2, 2.5],
    "too few": [0, 1, 2],
    "a matrix": np.eye(4),
}


@pytest.mark.parametrize("name", WRONG_X)
def test_wrong_features(name):
    X, y, _ = draw(shapes=[(4, 4)] * 5)
    value, message = WRONG_X[name]
    with pytest.raises(ValueError, match=message):
        StructuredSVM("matching").fit(changed(X, 3, value), y)
    svm = StructuredSVM("matching", random_state=0).fit(X, y)
    with pytest.raises(ValueError, match=message.replace(r"X\[3\]", "x")):
        svm.predict(changed(X, 3, value))


@pytest.mark.parametrize("value", WRONG_Y.values(), ids=WRONG_Y)
def test_wrong_matchings(value):
    X, y, _ = draw(shapes=[(4, 4)] * 5)
    message = r"y\[2\] must hold 4 different integers from 0 to 3, one for each row of x"
    with pytest.raises(ValueError, match=message):
        StructuredSVM("matching").fit(X, changed(y, 2, value))


@pytest.mark.parametrize("value", [[0, 1, 1, 2], [0, 1, 2, -1], [0, 1, 2, np.nan], ["a"] * 4])
def test_no_loss_of_what_is_no_matching(value):
    with pytest.raises(ValueError, match="y must hold"):
        Matching().loss(value, [0, 1, 2, 3])


def test_a_true_matching_of_another_length_has_no_loss():
    with pytest.raises(ValueError, match="y must have a number for each of the 3 points"):
        Matching().loss([0, 1], [0, 1, 2])


def test_points_whose_scores_overflow_have_no_value():
    X, y = [1e300 * np.arange(9.0).reshape(3, 3, 1)], [[0, 1, 2]]
    with np.errstate(over="ignore", invalid="ignore"):
        found = Matching().examples(X, y, "margin").find(np.array([1e300]), 0, 1)
    assert np.isnan(found.scores[0]) and np.isnan(found.bounds[0])


def test_slack_rescaling_is_refused():
    X, y = tiny()
    with pytest.raises(ValueError, match="slack_rescaled_inference, which Matching does not have"):
        StructuredSVM("matching", scaling="slack").fit(X, y)
