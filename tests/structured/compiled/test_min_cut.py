"""Minimum cuts against scipy's maximum flow, enumeration and a linear program."""

from itertools import product

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow

from sklearn_bundle.jit.decorators import jit
from sklearn_bundle.structured._compiled import graph_oracle


@jit
def _cut(n, starts, heads, mates, left, balances):
    work = graph_oracle.cut_work(n, len(heads))
    work.left[:], work.balances[:] = left, balances
    graph_oracle.cut(n, starts, heads, mates, work)
    return work


def cut(edges, capacities, balances):
    """Labels, flows of the edges, and what they leave of the balances."""
    n, m = len(balances), len(edges)
    tails, heads = np.r_[edges[:, 0], edges[:, 1]], np.r_[edges[:, 1], edges[:, 0]]
    order = np.lexsort((np.r_[:m, :m], tails))
    arcs = np.argsort(order)
    mates = np.empty(2 * m, np.int32)
    mates[arcs[:m]], mates[arcs[m:]] = arcs[m:], arcs[:m]
    starts = np.searchsorted(tails[order], np.arange(n + 1)).astype(np.int32)
    left = np.repeat(capacities[None], 2, axis=0).ravel()[order]
    work = _cut(n, starts, heads[order].astype(np.int32), mates, left, balances)
    flows = (work.left[arcs[m:]] - work.left[arcs[:m]]) / 2
    return (work.heights < n).astype(int), flows, work.balances


def energy(labels, edges, capacities, balances):
    unequal = labels[..., edges[:, 0]] != labels[..., edges[:, 1]]
    return labels @ balances + unequal @ capacities


def random_edges(rng, n, m):
    pairs = rng.integers(0, n, (3 * m, 2))
    return pairs[pairs[:, 0] != pairs[:, 1]][:m]


def grid_edges(h, w):
    k = np.arange(h * w).reshape(h, w)
    rows, columns = np.stack([k[:, :-1], k[:, 1:]], -1), np.stack([k[:-1], k[1:]], -1)
    return np.concatenate([rows.reshape(-1, 2), columns.reshape(-1, 2)])


def by_scipy(edges, capacities, balances):
    """The lowest energy, of whole numbers: the largest flow is the sum of what drains, but that."""
    n = len(balances)
    nodes, size = np.arange(n), (n + 2, n + 2)
    values = np.r_[np.maximum(balances, 0), np.maximum(-balances, 0), capacities, capacities]
    tails = np.r_[np.full(n, n), nodes, edges[:, 0], edges[:, 1]]
    heads = np.r_[nodes, np.full(n, n + 1), edges[:, 1], edges[:, 0]]
    network = csr_array((values.astype(np.int32), (tails, heads)), shape=size)
    return np.minimum(balances, 0).sum() + maximum_flow(network, n, n + 1).flow_value


GRAPHS = {
    "grid": (grid_edges(30, 20), 600),
    "long": (grid_edges(1, 400), 400),
    "dense": (random_edges(np.random.default_rng(0), 60, 1500), 60),
    "sparse": (random_edges(np.random.default_rng(1), 300, 250), 300),
    "parallel": (np.repeat(random_edges(np.random.default_rng(2), 20, 40), 3, axis=0), 20),
}


@pytest.mark.matrix
@pytest.mark.parametrize("edges, n", GRAPHS.values(), ids=GRAPHS)
@pytest.mark.parametrize("size", [1, 4, 1000])
def test_whole_capacities_against_scipy(edges, n, size):
    """Sums of whole numbers are exact, so the cut has the value of the flow, and the flow's too."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        capacities = rng.integers(0, size + 1, len(edges)).astype(float)
        balances = rng.integers(-2 * size, 2 * size + 1, n).astype(float)
        labels, flows, rest = cut(edges, capacities, balances)
        lowest = by_scipy(edges, capacities, balances)
        assert energy(labels, edges, capacities, balances) == lowest
        assert np.minimum(rest, 0).sum() == lowest
        assert (np.abs(flows) <= capacities).all()
        moved = np.bincount(edges[:, 1], flows, n) - np.bincount(edges[:, 0], flows, n)
        np.testing.assert_array_equal(balances + moved, rest)


@pytest.mark.parametrize("n, m", [(1, 0), (2, 1), (5, 0), (5, 4), (9, 12), (8, 40)])
def test_small_graphs_by_enumeration(n, m):
    all_labels = np.array(list(product([0, 1], repeat=n)))
    for seed in range(20):
        rng = np.random.default_rng(seed)
        edges = random_edges(rng, n, m) if m else np.empty((0, 2), int)
        capacities = rng.exponential(size=len(edges)) * (rng.random(len(edges)) < 0.8)
        balances = rng.normal(size=n) * (rng.random(n) < 0.8)
        labels, _, rest = cut(edges, capacities, balances)
        energies = energy(all_labels, edges, capacities, balances)
        assert energy(labels, edges, capacities, balances) == pytest.approx(
            energies.min(), abs=1e-13
        )
        assert np.minimum(rest, 0).sum() == pytest.approx(energies.min(), abs=1e-13)
        least = all_labels[energies <= energies.min() + 1e-12].min(axis=0)
        np.testing.assert_array_equal(labels, least)


@pytest.mark.parametrize("spread", [0.0, 12.0])
def test_real_capacities_against_a_linear_programme(spread):
    """Capacities that are alike, and of very different sizes."""
    rng, edges, n = np.random.default_rng(3), grid_edges(8, 9), 72
    m = len(edges)
    capacities = rng.uniform(size=m) * 10.0 ** (spread * (rng.random(m) - 1.0))
    balances = rng.normal(size=n) * 10.0 ** (spread * (rng.random(n) - 1.0))
    labels, flows, rest = cut(edges, capacities, balances)
    # min <b, y> + <c, t>, t >= |y_a - y_b|
    ends = csr_array((np.r_[np.ones(m), -np.ones(m)], (np.r_[:m, :m], edges.T.ravel())), (m, n))
    signed = np.vstack([np.c_[s * ends.toarray(), -np.eye(m)] for s in (1.0, -1.0)])
    bounds = [(0, 1)] * n + [(0, None)] * m
    lowest = linprog(np.r_[balances, capacities], signed, np.zeros(2 * m), bounds=bounds).fun
    assert energy(labels, edges, capacities, balances) == pytest.approx(lowest, rel=1e-9)
    assert np.minimum(rest, 0).sum() == pytest.approx(lowest, rel=1e-9)
    clipped = np.clip(flows, -capacities, capacities)
    moved = np.bincount(edges[:, 1], clipped, n) - np.bincount(edges[:, 0], clipped, n)
    np.testing.assert_allclose(balances + moved, rest, atol=1e-14)


@pytest.mark.parametrize("seed", range(5))
def test_weak_and_strong_duality_in_floating_point(seed):
    """What the flow leaves is no more than the energy of the cut, and less by rounding alone."""
    rng, edges, n = np.random.default_rng(seed), grid_edges(60, 50), 3000
    capacities, balances = rng.exponential(size=len(edges)) / 3.0, rng.normal(size=n) * 3.0
    labels, flows, _ = cut(edges, capacities, balances)
    value = energy(labels, edges, capacities, balances)
    clipped = np.clip(flows, -capacities, capacities)
    moved = np.bincount(edges[:, 1], clipped, n) - np.bincount(edges[:, 0], clipped, n)
    bound = np.minimum(balances + moved, 0).sum()
    assert abs(value - bound) <= 1e-12 * np.abs(balances).sum()


def test_infinite_numbers():
    edges, rng = grid_edges(4, 4), np.random.default_rng(0)
    capacities, balances = np.ones(len(edges)), rng.normal(size=16)
    for k, value in enumerate([np.inf, -np.inf]):
        balances[5] = value
        assert cut(edges, capacities, balances)[0][5] == k
    balances[5], capacities[3] = -5.0, np.inf
    with np.errstate(invalid="ignore"):  # the flow of this edge
        labels = cut(edges, capacities, balances)[0]
    assert labels[edges[3, 0]] == labels[edges[3, 1]]
