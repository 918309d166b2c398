"""What compiled steps need of an output structure: the worst output of an example, expectations.

A structure with compiled inference is a named tuple, with the features and the true outputs of all
examples. For its type it registers :func:`new_work` and :func:`worst`
(:func:`~.decorators.registered`). Every sweep and step of the solvers, compiled once per
type, then works with it. A structure that can sum over all outputs also registers
:func:`expect`, for the logistic loss.
"""

from typing import Any

import numpy as np

from sklearn_bundle.jit.decorators import inner, jit


def new_work(structure) -> Any:
    """Memory for :func:`worst` and :func:`expect`, large enough for any of the examples."""
    raise NotImplementedError  # a name for compiled code: what a structure registers stands here


def worst(structure, i, w, work, indices, values) -> tuple[int, float, float, float]:
    """The output y of example i with the largest loss-augmented score.

    With margin rescaling that is the largest ``l_i(y) + <w, phi(x_i, y) - phi(x_i, y_i)>``, with
    slack rescaling the largest ``l_i(y) (1 + <w, phi(x_i, y) - phi(x_i, y_i)>)``. ``indices`` and
    ``values`` get the nonzero entries of ``phi(x_i, y_i) - phi(x_i, y)``, with slack rescaling
    times l_i(y), each index once. The true output has none.

    Returns the number of entries, l_i(y), the score: l_i(y) minus ``<w, entries>``, 0 for the true
    output; and an upper bound of the scores of all outputs, which is the score itself if the
    inference is exact.
    """
    raise NotImplementedError  # a name for compiled code: what a structure registers stands here


@inner
def with_score(count, loss, w, indices, values):
    """What :func:`worst` returns for an output of these entries, or for the true one if better."""
    score = loss
    for e in range(count):
        score -= values[e] * w[np.int64(indices[e])]
    if score <= 0.0:
        return 0, 0.0, 0.0, 0.0
    return count, loss, score, score


@jit
def sweep(structure, w, first, last, starts, indices, values, losses, scores, bounds):
    """The worst outputs of the examples from first to last, one after the other.

    ``starts``, ``losses``, ``scores`` and ``bounds`` begin with the example ``first``; ``indices``
    and ``values`` must be long enough for all entries.
    """
    work = new_work(structure)
    starts[0] = at = 0
    for i in range(first, last):
        k = i - first
        found = worst(structure, i, w, work, indices[at:], values[at:])
        count, losses[k], scores[k], bounds[k] = found
        at += count
        starts[k + 1] = at


def expect(structure, i, w, work, weight, gradient) -> float:
    """Add ``weight (E phi(x_i, y) - phi(x_i, y_i))`` to ``gradient``, with y drawn at w.

    An output y has probability in proportion to ``exp <w, phi(x_i, y)>``. Returns the loss ``log
    sum_y exp <w, phi(x_i, y) - phi(x_i, y_i)>``, which is not negative.
    """
    raise NotImplementedError  # a name for compiled code: what a structure registers stands here


@jit
def expect_sweep(structure, w, first, last, weights, losses, gradient):
    """:func:`expect` for the examples from first to last, one after the other.

    ``weights`` and ``losses`` begin with the example ``first``.
    """
    work = new_work(structure)
    for i in range(first, last):
        losses[i - first] = expect(structure, i, w, work, weights[i - first], gradient)
