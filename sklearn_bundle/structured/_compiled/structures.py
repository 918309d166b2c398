"""What compiled steps need of an output structure: the worst output of an example, expectations.

A structure with compiled inference is a named tuple, with the features and the true outputs of all
examples. For its type it registers :func:`new_work` and :func:`worst`
(:func:`~.decorators.registered`). Every sweep and step of the solvers, compiled once per
type, then works with it. A structure that can sum over all outputs also registers
:func:`new_expectation_work` and :func:`expect`, for the logistic loss.
"""

from typing import Any

from sklearn_bundle.jit.decorators import jit


def new_work(structure) -> Any:
    """Memory for :func:`worst`, large enough for any of the examples."""
    raise NotImplementedError  # a name for compiled code: what a structure registers stands here


def worst(structure, i, w, work, indices, values) -> tuple[int, float, float, float]:
    """The output y of example i with the largest loss-augmented score.

    With margin rescaling that is the largest ``l_i(y) + <w, phi(x_i, y) - phi(x_i, y_i)>``, with
    slack rescaling the largest ``l_i(y) (1 + <w, phi(x_i, y) - phi(x_i, y_i)>)``. ``indices`` and
    ``values`` get the nonzero entries of ``phi(x_i, y_i) - phi(x_i, y)``, with slack rescaling
    times l_i(y), each index once. The true output has none.

    Returns the number of entries, l_i(y), the score: l_i(y) minus ``<w, entries>``, as precise as
    the sum in the inference or more so, 0 for the true output; and an upper bound of the scores of
    all outputs, which is the score itself if the inference is exact.
    """
    raise NotImplementedError  # a name for compiled code: what a structure registers stands here


@jit
def sweep(structure, w, first, last, starts, indices, values, losses, scores, bounds):
    """The worst outputs of the examples from first to last, one after the other.

    ``starts``, ``losses``, ``scores`` and ``bounds`` begin with the example ``first``; ``indices``
    and ``values`` must have room for all entries.
    """
    work = new_work(structure)
    starts[0] = at = 0
    for i in range(first, last):
        k = i - first
        found = worst(structure, i, w, work, indices[at:], values[at:])
        count, losses[k], scores[k], bounds[k] = found
        at += count
        starts[k + 1] = at


def new_expectation_work(structure, w) -> Any:
    """Memory for :func:`expect` at w, with what it may need from w as a whole."""
    raise NotImplementedError  # a name for compiled code: what a structure registers stands here


def expect(structure, i, w, work, weight, gradient) -> tuple[float, float, float]:
    """Add ``weight (E phi(x_i, y) - phi(x_i, y_i))`` to ``gradient``, with y drawn at w.

    An output y has probability in proportion to ``exp <w, phi(x_i, y)>``.

    Returns three numbers. The loss is ``log sum_y exp <w, phi(x_i, y) - phi(x_i, y_i)>``, not
    negative. The shift bounds how far rounding has moved the logarithm of the weight of any output,
    the rounding of the scores included. The size bounds the 2-norm of the sum of the absolute
    values of all terms that were added to the gradient, before they were multiplied by ``weight``.
    """
    raise NotImplementedError  # a name for compiled code: what a structure registers stands here


@jit
def expect_sweep(structure, w, first, last, weights, losses, shifts, sizes, gradient):
    """:func:`expect` for the examples from first to last, one after the other.

    ``weights``, ``losses``, ``shifts`` and ``sizes`` begin with the example ``first``.
    """
    work = new_expectation_work(structure, w)
    for i in range(first, last):
        k = i - first
        losses[k], shifts[k], sizes[k] = expect(structure, i, w, work, weights[k], gradient)
