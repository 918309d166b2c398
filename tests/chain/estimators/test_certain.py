"""Certain labels of chains, against all labelings and the worst weights in the ball."""

from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp

from sklearn_bundle import SDCACRF, StructuredSVM
from sklearn_bundle.chain.certainty import certain_tokens, possible_labels
from sklearn_bundle.chain.model import Weights
from sklearn_bundle.models import Chain
from tests.contract.fits import quiet


def chains(n=60, d=3, n_labels=3, longest=5, seed=0):
    rng = np.random.default_rng(seed)
    W, T = rng.normal(size=(n_labels, d)), rng.normal(size=(n_labels, n_labels))
    X, y = [], []
    for _ in range(n):
        x = rng.normal(size=(rng.integers(1, longest + 1), d))
        labels = []
        for scores in x @ W.T:
            scores = scores + (T[labels[-1]] if labels else 0.0) + rng.gumbel(size=n_labels)
            labels.append(int(scores.argmax()))
        X.append(x)
        y.append(labels)
    return X, y


def features(x, labels, n_labels, biased):
    """phi(x, y), stacked."""
    tokens = np.zeros((n_labels, x.shape[1]))
    pairs, biases = np.zeros((n_labels, n_labels)), np.zeros((3, n_labels))
    for t, label in enumerate(labels):
        tokens[label] += x[t]
        biases[0, label] += biased
        if t:
            pairs[labels[t - 1], label] += 1.0
    biases[1, labels[0]] += biased
    biases[2, labels[-1]] += biased
    return np.concatenate([tokens.ravel(), pairs.ravel(), biases.ravel()])


def crf(biased):
    return SDCACRF(reg_lambda=0.05, fit_intercept=biased)


def margins(biased):
    return StructuredSVM(Chain(fit_intercept=biased), reg_lambda=0.05)


@pytest.mark.parametrize("make", [crf, pytest.param(margins, marks=pytest.mark.wide)])
@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("tol", [1e-2, 1e-4, 1e-6])
def test_no_weights_in_the_ball_change_a_certain_label(make, biased, tol):
    X, y = chains()
    model = quiet(make(biased).set_params(tol=tol), X, y)
    K, radius = len(model.classes_), np.sqrt(2.0 * model.dual_gap_ / model.reg_lambda_)
    parts = model.coef_, model.transitions_, model.intercept_, model.start_, model.end_
    w = np.concatenate([part.ravel() for part in parts])
    found = False
    for x, labels, certain in zip(X, model.predict(X), model.certain(X), strict=True):
        best = features(x, labels, K, biased)
        for other in product(range(K), repeat=len(x)):
            differs = np.array(other) != np.array(labels)
            if (differs & certain).any():
                change = best - features(x, other, K, biased)
                assert w @ change > radius * np.linalg.norm(change)
                found = True
    assert found or tol == 1e-2


def test_certain_labels_are_those_of_the_optimum():
    X, y = chains(seed=1)
    exact = quiet(SDCACRF(reg_lambda=0.02, tol=1e-11, max_iter=5000), X, y).predict(X)
    shares = []
    for tol in (1e-3, 1e-5, 1e-8):
        model = quiet(SDCACRF(reg_lambda=0.02, tol=tol, max_iter=5000), X, y)
        certain = model.certain(X)
        for a, b, sure in zip(model.predict(X), exact, certain, strict=True):
            assert (np.array(a) == np.array(b))[sure].all()
        shares.append(np.concatenate(certain).mean())
    assert shares[0] <= shares[1] <= shares[2] and shares[2] > 0.95


def test_plain_rows_and_empty_sequences():
    X, y = chains(longest=1)
    rows, labels = np.concatenate(X), np.concatenate(y)
    model = quiet(SDCACRF(tol=1e-6), rows, labels)
    assert model.certain(rows).shape == (len(rows),) and model.certain(rows).any()
    model = quiet(SDCACRF(tol=1e-6), X, y)
    assert [len(part) for part in model.certain([*X[:2], X[0][:0]])] == [1, 1, 0]


def test_l1_alone_has_no_ball():
    X, y = chains(n=10)
    with pytest.raises(ValueError, match="l1_ratio=1"):
        quiet(SDCACRF(l1_ratio=1.0), X, y).certain(X)


def test_one_label_is_certain():
    weights = Weights(np.zeros((1, 2)), np.zeros((1, 1)), *np.zeros((3, 1)))
    args = sp.csr_array(np.ones((3, 2))), np.array([0, 3]), weights, np.zeros(3, np.int64)
    assert certain_tokens(*args, 1.0, True).all()


def test_a_pair_of_labels_costs_something():
    """Without attributes only pairs tell labelings apart."""
    weights = Weights(np.zeros((2, 1)), np.array([[1.0, 0.0], [0.0, 1.0]]), *np.zeros((3, 2)))
    weights = weights._replace(start=np.array([0.1, 0.0]))
    args = sp.csr_array(np.zeros((3, 1))), np.array([0, 3]), weights, np.zeros(3, np.int64)
    sure = {radius: certain_tokens(*args, radius, False).all() for radius in (1e-9, 0.03, 0.05)}
    assert sure == {1e-9: True, 0.03: True, 0.05: False}  # two pairs against 0.1


def test_a_label_is_possible_if_some_weights_in_the_ball_make_it_best():
    """One token without neighbors: the score of a label against the best moves by r sqrt(2) |x|."""
    coef = np.array([[1.0], [0.9], [0.0]])
    weights = Weights(coef, np.zeros((3, 3)), *np.zeros((3, 3)))
    args = sp.csr_array(np.ones((1, 1))), np.array([0, 1]), weights, np.array([0])
    for radius, expected in ((0.05, [1, 0, 0]), (0.08, [1, 1, 0]), (0.8, [1, 1, 1])):
        found = possible_labels(*args, radius, False)
        assert found.tolist() == [[bool(one) for one in expected]]
