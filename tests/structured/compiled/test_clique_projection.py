"""The projection onto the marginals of a chain, against clarabel and all labelings; repairs."""

from itertools import pairwise, product

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from sklearn_bundle.jit.decorators import jit
from sklearn_bundle.structured._compiled import clique_projection
from tests.reference_cones import by_clarabel, halflines, zeros

WIDTH = 8  # what a row of labels is padded to a multiple of
PRECISION = 1e-10


def drawn(rng, T, K, scale):
    """A matrix per edge, a row alone for one position: a point that may be far from marginals."""
    rows, edges = (K, T - 1) if T > 1 else (1, 1)
    m = scale * rng.normal(size=(edges, rows, K))
    return m + scale * rng.normal(size=(edges, 1, K))


@jit
def solved(m, edges, rows, K, S, precision, out):
    """The projection from a cold start, and its last defect."""
    work = clique_projection.new_work(edges, K, S)
    clique_projection.start(m, edges, rows, K, S, work)
    defect = clique_projection.solve(m, edges, rows, K, S, precision, work)[2]
    out[:] = work.point[: out.shape[0]]
    return defect


def project(m, precision=PRECISION):
    """The projection, without what pads its rows, and by how much its sums differ at most."""
    edges, rows, K = m.shape
    padded = np.zeros((edges, rows, -(-K // WIDTH) * WIDTH))
    padded[:, :, :K] = m
    out = np.empty(padded.size)
    defect = solved(padded.ravel(), edges, rows, K, padded.shape[2], precision, out)
    out = out.reshape(padded.shape)
    assert_array_equal(out[:, :, K:], 0.0)
    return out[:, :, :K], defect


def repaired(point):
    """The same for repairs."""
    edges, rows, K = point.shape
    padded = np.zeros((edges, rows, -(-K // WIDTH) * WIDTH))
    padded[:, :, :K] = point
    flat = padded.ravel().copy()
    clique_projection.repair(flat, edges, rows, K, padded.shape[2])
    return flat.reshape(padded.shape)[:, :, :K]


def by_cones(m):
    """The nearest marginals by interior points, all constraints of the appendix written out."""
    edges, _, K = m.shape
    place = np.arange(m.size).reshape(m.shape)
    equations = [place[t].ravel() for t in range(edges)]
    A = sp.lil_matrix((edges + (edges - 1) * K, m.size))
    for t, entries in enumerate(equations):
        A[t, entries] = 1.0
    for t, j in product(range(edges - 1), range(K)):
        A[edges + t * K + j, place[t, :, j]] = 1.0
        A[edges + t * K + j, place[t + 1, j]] = -1.0
    side = np.r_[np.ones(edges), np.zeros((edges - 1) * K + m.size)]
    cones = zeros(A.shape[0]) + halflines(m.size)
    rows_of_all = sp.vstack([A, -sp.identity(m.size)])
    x = by_clarabel(sp.identity(m.size), -m.ravel(), rows_of_all, side, cones, 1e-13)
    return x.reshape(m.shape)


def assert_marginals(point, tolerance):
    assert point.min() >= 0.0
    assert_allclose(point.sum(axis=(1, 2)), 1.0, rtol=0.0, atol=tolerance)
    for before, after in pairwise(point):
        assert_allclose(before.sum(axis=0), after.sum(axis=1), rtol=0.0, atol=tolerance)


def most(gradient):
    """``max <gradient, v>`` over the indicators v of all labelings."""
    best = gradient[0].max(axis=0)
    for edge in gradient[1:]:
        best = (best[:, None] + edge).max(axis=0)
    return best.max()


CASES = [(1, 4), (2, 3), (3, 1), (4, 9), (7, 5), (12, 2)]


@pytest.mark.matrix
@pytest.mark.parametrize("scale", [0.05, 1.0, 100.0])
@pytest.mark.parametrize("T, K", CASES)
def test_against_clarabel(T, K, scale):
    rng = np.random.default_rng(T)
    m = drawn(rng, T, K, scale)
    ours, defect = project(m)
    theirs = by_cones(m)
    assert defect <= PRECISION
    distances = [np.sum((x - m) ** 2) for x in (ours, theirs)]
    assert distances[0] == pytest.approx(distances[1], rel=1e-10)
    assert_allclose(ours, theirs, rtol=0.0, atol=1e-5)  # the root of the gap of interior points


@pytest.mark.parametrize("scale", [1e-3, 0.1, 1.0, 10.0, 1e4])
@pytest.mark.parametrize("T, K", [*CASES, (14, 26)])
def test_nothing_nearer(T, K, scale):
    """No labeling lies beyond the hyperplane through the projection, whose normal is m - alpha."""
    rng = np.random.default_rng(K)
    m = drawn(rng, T, K, scale)
    ours = project(m)[0]
    assert_marginals(ours, T * K * PRECISION)  # sums of whole edges add defects up
    normal = m - ours
    assert most(normal) <= np.sum(normal * ours) + 1e-9 * max(1.0, np.abs(normal).max())


def test_marginals_stay_where_they_are():
    rng = np.random.default_rng(0)
    point = repaired(rng.uniform(size=(5, 4, 4)))
    assert_allclose(project(point)[0], point, atol=1e-9)


def test_one_position_is_the_simplex():
    from sklearn_bundle.projection import project as onto_simplex

    m = np.random.default_rng(0).normal(size=(1, 1, 11))
    assert_allclose(project(m)[0].ravel(), onto_simplex(m.ravel()), atol=1e-12)


@pytest.mark.parametrize("value", [0.0, -7.0, 1e6])
def test_equal_entries(value):
    """Uniform for each edge, whatever m is."""
    assert_allclose(project(np.full((4, 3, 3), value))[0], 1.0 / 9.0, atol=1e-9)


@pytest.mark.parametrize("T, K", CASES)
def test_repair_of_anything(T, K):
    rng = np.random.default_rng(0)
    point = np.maximum(drawn(rng, T, K, 1.0), 0.0)
    assert_marginals(repaired(point), 1e-14)
    assert_marginals(repaired(np.zeros_like(point)), 1e-14)
    assert_marginals(repaired(1e200 * point), 1e-14)


def test_repair_changes_little():
    """By no more than the defects add up to along the chain."""
    rng = np.random.default_rng(0)
    for precision in (1e-2, 1e-4, 1e-8):
        point, defect = project(drawn(rng, 9, 6, 1.0), precision=precision)
        assert defect <= precision
        assert np.abs(repaired(point) - point).sum(axis=(1, 2)).max() <= 9 * 6 * defect + 1e-14
