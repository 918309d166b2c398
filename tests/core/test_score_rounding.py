"""Bounds on the rounding of scores, against scores in extended precision over all outputs."""

from itertools import permutations, product

import numpy as np
import pytest
import scipy.sparse as sp

from sklearn_bundle.core.certificate import RowSizes, ScoreRounding
from sklearn_bundle.models import Chain, Graph, Matching, Multiclass, Multilabel, PairwiseGraph
from sklearn_bundle.structured.models.chain_structure import TokenRows
from sklearn_bundle.structured.models.classes import Rows
from sklearn_bundle.structured.models.multilabel import WeightedRows
from tests import reference_structured as reference
from tests.structures import in_rows

LONG = np.longdouble
OFFSETS = np.array([2.0**40, 0.0, 1.0])

pytestmark = pytest.mark.skipif(
    np.finfo(LONG).eps > 1e-18, reason="long double is no longer than double here"
)


def features(rng, *shape):
    """Integers, whose sums are exact: far from zero, alike, and constant."""
    return rng.integers(-8, 8, (*shape, 3)) * [1.0, 1.0, 0.0] + OFFSETS


def labels(n, K=2):
    return [np.array(y) for y in product(range(K), repeat=n)]


def chain(rng):
    X, y = features(rng, 5), rng.integers(0, 3, 5)
    rows = TokenRows(sp.csr_array(X), np.array([5]), 3)
    (outputs,) = reference.chains([X], [y], 3)
    return Chain(), (rows, y), outputs, lambda w: in_rows(w, 3)


def classes(rng):
    X, y = features(rng, 1), rng.integers(0, 4, 1)
    (outputs,) = reference.classes(X, y, 1.0 - np.eye(4))
    return Multiclass(), (Rows(X, 4), y), outputs, None


def sets(rng):
    X, Y = features(rng, 1), rng.integers(0, 2, (1, 4))
    (outputs,) = reference.sets(X, Y, [(0, 1), (1, 2), (1, 3)], True)
    model = Multilabel([(0, 1), (1, 2), (1, 3)])
    return model, (WeightedRows(X, np.ones(1)), Y), outputs, None


def graph(rng):
    X = [features(rng, 5)], [np.array([(0, 1), (1, 2), (2, 3), (3, 4)])], [features(rng, 4)]
    X = [tuple(part[0] for part in X)]
    y = [rng.integers(0, 2, 5)]
    return PairwiseGraph(2), (X, y), labels(5), None


def cut(rng):
    X = [(features(rng, 5), np.array([(0, 1), (1, 2), (2, 0), (3, 4)]), features(rng, 4))]
    y = [rng.integers(0, 2, 5)]
    return Graph(), (X, y), labels(5), None


def matching(rng):
    X, y = [features(rng, 3, 4)], [rng.permutation(4)[:3]]
    return Matching(), (X, y), [np.array(p) for p in permutations(range(4), 3)], None


@pytest.mark.wide
@pytest.mark.parametrize("scaling", ["margin", "slack"])
@pytest.mark.parametrize("make", [chain, classes, sets, graph, cut, matching])
def test_no_output_scores_higher_than_the_bound_says(make, scaling):
    """Weights of a feature of 1e12 that cancel but for the last digits; and not far below."""
    rng, least = np.random.default_rng(0), np.inf
    for _ in range(20):
        model, given, outputs, order = make(rng)
        try:
            examples = model.examples(*given, scaling)
        except ValueError:
            pytest.skip("no slack rescaling")
        if isinstance(outputs, list):
            (x,), (y,) = given
            phi = np.array([model.joint_feature(x, output) for output in [y, *outputs]])
            losses = np.array([model.loss(y, output) for output in outputs])
        else:
            phi, losses = np.r_[outputs.phi[[outputs.truth]], outputs.phi], outputs.losses
        w = rng.normal(size=phi.shape[1])
        w[examples.nonnegative] = np.abs(w[examples.nonnegative])
        exact = phi[1:].astype(LONG) @ w.astype(LONG) - phi[0].astype(LONG) @ w.astype(LONG)
        scores = losses * (1.0 + exact) if scaling == "slack" else losses + exact
        largest = (np.abs(phi) @ np.abs(w)).max()
        w = w if order is None else order(w)
        found, error = examples.find(w, 0, 1), examples.errors(w)[0]
        bound = found.bounds[0] if np.isfinite(found.bounds[0]) else found.scores[0]
        assert scores.max() <= bound + error
        assert found.scores[0] - error <= scores.max()
        least = min(least, error / (2.0**-53 * largest))
    assert least < 1e4


@pytest.mark.parametrize("make", [np.array, sp.csr_array])
def test_sizes_of_rows(make):
    """Of a column of 1e200, of one that is 0, and of rows that are."""
    X = np.array([[3e200, 0.0, 1.0], [4e200, 0.0, 0.0], [0.0, 0.0, 0.0]])
    sizes = RowSizes.of(make(X))
    assert sizes.largest == 4e200
    np.testing.assert_allclose(sizes.norms, [3e200, 4e200, 0.0])
    stored = 2 if make is sp.csr_array else 3
    means = sizes.largest * sizes.scales
    np.testing.assert_allclose(means[:2], [5e200 / np.sqrt(stored), 0.0])
    used = np.divide(X, means, out=np.zeros((3, 3)), where=means > 0.0)[:2, 0]
    np.testing.assert_allclose(sizes.lengths[:2], [used[0], used[1]], rtol=1e-6)


@pytest.mark.parametrize("shape", [(0, 3), (2, 0), (1, 1)])
def test_the_plainest_shapes(shape):
    starts = np.array([0, shape[0]])
    rounding = ScoreRounding(np.ones(shape), starts, lambda w: (w[: shape[1], None], w[:0]))
    errors = rounding.of(np.ones(3))
    assert errors.shape == (1,) and (errors > 0.0).all() == (shape == (1, 1))


def test_a_w_that_is_too_large_proves_nothing():
    rounding = ScoreRounding(np.ones((1, 1)), np.array([0, 1]), lambda w: (w[:, None], w[:0]))
    assert rounding.of(np.array([1e300]))[0] == np.inf
