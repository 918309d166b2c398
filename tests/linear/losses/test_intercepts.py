"""The best intercept of many samples, from the kinks near that of a few."""

import numpy as np
import pytest

from sklearn_bundle.linear.losses import pieces
from sklearn_bundle.losses import (
    AbsoluteError,
    EpsilonInsensitive,
    Hinge,
    Huber,
    Quantile,
    SquaredEpsilonInsensitive,
    SquaredHinge,
)

LABELS = Hinge(), SquaredHinge()
TARGETS = (
    *(Huber(0.5), Quantile(0.3), AbsoluteError()),
    *(EpsilonInsensitive(0.2), SquaredEpsilonInsensitive(0.3)),
)


def drawn(kind, rng, n=2000):
    """Scores, targets and weights."""
    scores, weights = rng.standard_normal(n), rng.exponential(size=n)
    targets = scores + rng.standard_normal(n)
    if kind == "one score":
        scores[:] = 0.0
    if kind == "ties":
        scores, targets = rng.choice([-1.0, 0.0, 2.0], n), rng.choice([0.0, 1.0, 5.0], n)
    if kind == "sorted":  # so that the first samples are unlike the others
        order = np.argsort(targets - scores)
        scores, targets = scores[order], targets[order]
    if kind == "an outlier":
        targets[7] = 1e6
    return scores, targets, weights / weights.sum()


@pytest.mark.parametrize(
    "kind", ["drawn", "one score", "ties", "sorted", "an outlier", "separable"]
)
@pytest.mark.parametrize("loss", LABELS + TARGETS, ids=lambda loss: type(loss).__name__)
def test_kinks_near_that_of_a_sample_are_enough(loss, kind, monkeypatch):
    rng = np.random.default_rng(0)
    monkeypatch.setattr(pieces, "_SOME", 50)
    for share in (0.02, 0.5, 0.9):
        scores, y, weights = drawn(kind, rng)
        if loss in LABELS:
            y = np.where(rng.random(len(y)) < share, 1.0, -1.0)
            y = np.where(scores > 0.3, 1.0, -1.0) if kind == "separable" else y
        scratch = np.empty((4, len(y)))
        with monkeypatch.context() as context:
            context.setattr(pieces, "MANY", np.inf)
            expected = loss.intercept(scores, y, weights, scratch)
        monkeypatch.setattr(pieces, "MANY", 1)
        ours = loss.intercept(scores, y, weights, scratch)
        best, found = (loss.risk(scores, y, weights, b) for b in (expected, ours))
        assert found <= best + 1e-12 * max(best, 1.0)


def test_few_kinks_are_written(monkeypatch):
    """About a quarter: a window of 64 ranks around that of 256 samples."""
    scores, y, weights = drawn("drawn", np.random.default_rng(1), 100_000)
    sizes, first_crossing = [], pieces.first_crossing

    def counting(kinks, jumps, bends, size, *line):
        sizes.append(size)
        return first_crossing(kinks, jumps, bends, size, *line)

    monkeypatch.setattr(pieces, "first_crossing", counting)
    AbsoluteError().intercept(scores, y, weights, np.empty((4, len(y))))
    assert len(sizes) == 1 and 0 < sizes[0] < 30_000
