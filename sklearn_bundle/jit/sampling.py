"""Random numbers: shuffles, and choice of the next block from a tree of weights."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.jit.decorators import inner, jit


class Sampling(NamedTuple):
    """Blocks are drawn from a tree with probability ``share``, else uniformly.

    The second half of ``tree`` holds the leaves, one weight per block. Blocks are drawn in
    proportion to them; with ``largest``, the one with the largest weight is taken. With
    ``adaptive``, a leaf is ``factors[i]`` times the weight given to :func:`put`. ``state`` is that
    of the generator.
    """

    n: int
    share: float
    largest: bool
    adaptive: bool
    tree: NDArray[np.float64]
    factors: NDArray[np.float64]
    state: NDArray[np.uint64]


@inner
def uniform(state):
    """The next random number in [0, 1) of the generator (splitmix64) of state ``state[0]``."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return np.float64(z >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@inner
def exchanged(order, k, random):
    """A step of a shuffle from the end: exchange place k with one of those up to it.

    ``random`` is the state of the generator (xorshift64), not 0; returns the next one.
    """
    random ^= random << np.uint64(13)
    random ^= random >> np.uint64(7)
    random ^= random << np.uint64(17)
    other = np.int64(((random >> np.uint64(32)) * np.uint64(k + 1)) >> np.uint64(32))
    order[k], order[other] = order[other], order[k]
    return random


@jit
def grow(tree, largest):
    """Inner nodes from the leaves: sums, or the larger of two."""
    for p in range(tree.shape[0] // 2 - 1, 0, -1):
        a, b = tree[2 * p], tree[2 * p + 1]
        tree[p] = max(a, b) if largest else a + b


@inner
def put(sampling, i, weight):
    """Set leaf i, and recompute the sums above it, so that rounding does not accumulate."""
    if not sampling.adaptive:
        return
    tree, p = sampling.tree, sampling.tree.shape[0] // 2 + i
    tree[p] = weight * sampling.factors[i]
    p //= 2
    while p > 0:
        a, b = tree[2 * p], tree[2 * p + 1]
        tree[p] = max(a, b) if sampling.largest else a + b
        p //= 2


@inner
def pick(sampling):
    """The next block."""
    tree = sampling.tree
    if uniform(sampling.state) >= sampling.share or not tree[1] > 0.0:
        return min(np.int64(uniform(sampling.state) * sampling.n), sampling.n - 1)
    half = tree.shape[0] // 2
    rest = uniform(sampling.state) * tree[1]
    p = 1
    while p < half:
        p *= 2
        if sampling.largest:
            p += tree[p] < tree[p + 1]
        elif rest >= tree[p] and tree[p + 1] > 0.0:
            rest -= tree[p]
            p += 1
    return min(p - half, sampling.n - 1)


next_block, note = jit(pick), jit(put)  # for oracles that are not compiled
