"""Segmentations by enumeration, written from the formulas. Nothing of the package is used.

A segment is (label, start, stop), with the number of its label; parameters are joined in the order
coef, first, last, transitions, lengths, start, end.
"""

from itertools import pairwise

import numpy as np

from tests.reference_structured import Outputs


def segmentations(T, limits):
    """All of T positions, where segments of label k have at most ``limits[k]``."""
    if T == 0:
        return [[]]
    return [
        [*before, (k, T - n, T)]
        for k, most in enumerate(limits)
        for n in range(1, min(most, T) + 1)
        for before in segmentations(T - n, limits)
    ]


def features(x, y, K, L):
    """phi(x, y), one segment after the other."""
    d = x.shape[1]
    coef, first, last = np.zeros((3, K, d), x.dtype)
    transitions, lengths = np.zeros((K, K), x.dtype), np.zeros((K, L), x.dtype)
    start, end = np.eye(K, dtype=x.dtype)[[y[0][0], y[-1][0]]]
    for label, begin, stop in y:
        coef[label] += x[begin:stop].sum(axis=0)
        first[label] += x[begin]
        last[label] += x[stop - 1]
        lengths[label, stop - begin - 1] += 1.0
    for (before, *_), (label, *_) in pairwise(y):
        transitions[before, label] += 1.0
    parts = coef, first, last, transitions, lengths, start, end
    return np.concatenate([p.ravel() for p in parts])


def loss(y, other):
    """The number of positions with another label or where a segment begins in one of the two."""
    return float(sum(a != b for a, b in zip(tags(y), tags(other), strict=True)))


def tags(y):
    """Labels of positions, and whether a segment begins there."""
    return [(label, t == begin) for label, begin, stop in y for t in range(begin, stop)]


def examples(X, y, limits):
    """All segmentations of each sequence."""
    found, K, L = [], len(limits), max(limits)
    for x, truth in zip(X, y, strict=True):
        outputs = segmentations(len(x), limits)
        phi = np.array([features(x, output, K, L) for output in outputs])
        losses = np.array([loss(truth, output) for output in outputs])
        found.append(Outputs(phi, losses, outputs.index(list(truth))))
    return found


def longest(y, K):
    """Of the segments of each label."""
    limits = [1] * K
    for segments in y:
        for label, start, stop in segments:
            limits[label] = max(limits[label], stop - start)
    return limits


def drawn(lengths, K, longest=3, d=3, seed=0):
    """Sequences and segmentations of them, where every label has a segment if there are as many."""
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(T, d)) * (rng.random((T, d)) < 0.7) for T in lengths]
    y, count = [], 0
    for T in lengths:
        segments, end = [], 0
        while end < T:
            stop = min(T, end + int(rng.integers(1, longest + 1)))
            segments.append((count if count < K else int(rng.integers(K)), end, stop))
            end, count = stop, count + 1
        y.append(segments)
    return X, y
