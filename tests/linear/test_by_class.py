"""Losses of a score per class: planes and offsets against numpy."""

from types import SimpleNamespace

import numpy as np
import pytest

from sklearn_bundle.linear.losses import MulticlassHinge, MulticlassLoss, Softmax
from sklearn_bundle.linear.losses.regression import SquaredErrors
from sklearn_bundle.linear.regularizers import L2, Nonnegative
from sklearn_bundle.linear.solvers.base import At, opposite

RANDOM = np.random.default_rng(1)
N, K = 300, 4
LABELS = RANDOM.permutation(np.arange(N) % K)
TARGETS = RANDOM.normal(size=(N, K))
WEIGHTS = RANDOM.dirichlet(np.ones(N))
COST = RANDOM.random((K, K)) * (1.0 - np.eye(K))


class Indicators(MulticlassLoss):
    """A user's loss."""

    def value(self, scores, y):
        return 0.5 * np.sum(self.gradient(scores, y) ** 2, axis=1)

    def gradient(self, scores, y):
        return scores - np.eye(scores.shape[1])[y]


LOSSES = {
    "hinge": (MulticlassHinge(), LABELS),
    "margin": (MulticlassHinge(COST), LABELS),
    "softmax": (Softmax(), LABELS),
    "squares": (SquaredErrors(), TARGETS),
    "user": (Indicators(), LABELS),
}
each = pytest.mark.parametrize(("loss", "y"), LOSSES.values(), ids=list(LOSSES))


@each
@pytest.mark.parametrize("size", [1.0, 30.0])
def test_the_plane_touches_the_risk_and_lies_below(loss, y, size):
    k = loss.n_outputs(y)
    F, G = np.ascontiguousarray(RANDOM.normal(size=(k, N)) * size), np.empty((k, N))
    risk, offset = loss.cut(F, y, WEIGHTS, G)
    assert risk == pytest.approx(WEIGHTS @ loss.value(F.T, y), rel=1e-12)
    assert pytest.approx((WEIGHTS[:, None] * loss.gradient(F.T, y)).T, rel=1e-9, abs=1e-16) == G
    assert offset + np.sum(F * G) == pytest.approx(risk, rel=1e-11)
    if loss.offset is not None:
        assert loss.offset(G, y, WEIGHTS) == pytest.approx(offset, rel=1e-9, abs=1e-15)
        H, G2 = RANDOM.normal(size=(k, N)), np.empty((k, N))
        loss.cut(H, y, WEIGHTS, G2)
        mean = 0.3 * G + 0.7 * G2  # a plane of its own, with an offset that is at least the mean
        least = 0.3 * offset + 0.7 * loss.offset(G2, y, WEIGHTS)
        assert loss.offset(mean, y, WEIGHTS) >= least - 1e-14 * abs(least)
        for at in (F, H, 0.5 * (F + H)):
            below = loss.offset(mean, y, WEIGHTS) + np.sum(mean * at)
            assert below <= WEIGHTS @ loss.value(at.T, y) + 1e-12 * size**2


def test_a_balanced_plane_of_softmax():
    loss, F, G = Softmax(), RANDOM.normal(size=(K, N)) * 5.0, np.empty((K, N))
    loss.cut(F, LABELS, WEIGHTS, G)
    indicators, surplus = np.arange(K)[:, None] == LABELS, G.sum(axis=1)
    P, shares = G / WEIGHTS + indicators, indicators @ WEIGHTS
    balanced = loss.balanced(G, LABELS, WEIGHTS, surplus, shares)
    some = loss.balanced(G[:, :40], LABELS[:40], WEIGHTS[:40], surplus, shares)
    assert np.array_equal(some, balanced[:, :40])
    assert balanced.sum(axis=1) == pytest.approx(np.zeros(K), abs=1e-15)
    lost, given = np.maximum(surplus, 0.0), np.maximum(-surplus, 0.0)
    moved = lost / (lost + shares)
    Q = (1.0 - moved[:, None]) * P + given[:, None] / given.sum() * (moved @ P)
    assert balanced == pytest.approx(WEIGHTS * (Q - indicators), rel=1e-11, abs=1e-16)
    entropy = -WEIGHTS @ np.sum(Q * np.log(Q), axis=0)
    assert loss.offset(balanced, LABELS, WEIGHTS) == pytest.approx(entropy, rel=1e-12)


def test_certain_probabilities_keep_their_digits():
    F, G = np.array([[80.0], [0.0], [0.0]]), np.empty((3, 1))
    risk, offset = Softmax().cut(F, np.array([0]), np.ones(1), G)
    assert risk == pytest.approx(2 * np.exp(-80.0), rel=1e-13)
    assert offset == pytest.approx(2 * np.exp(-80.0) * 81.0, rel=1e-13)
    assert G.ravel() == pytest.approx(np.exp(-80.0) * np.array([-2.0, 1.0, 1.0]), rel=1e-13)
    assert np.isnan(Softmax().risk(F * np.nan, np.array([0]), np.ones(1)))
    assert np.isnan(MulticlassHinge().risk(F * np.nan, np.array([0]), np.ones(1)))


@pytest.mark.parametrize("b, half", [(0.0, 0.0), (np.array([3.0, 1.0]), 1.0)])
def test_of_two_classes_opposite_weights_are_certified(b, half):
    w, two = np.array([5.0, -1.0, 2.0, 0.5]), SimpleNamespace(n_outputs=2, loss=Softmax())
    moved = opposite(two, L2(), At(w, b))
    assert list(moved.w) == [1.5, -0.75, -1.5, 0.75] and list(moved.b) == [half, -half]
    assert opposite(two, Nonnegative(L2()), At(w**2, b)).w[0] == 25.0
