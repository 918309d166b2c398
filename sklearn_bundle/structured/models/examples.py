"""Examples bound to an output structure: the interface for solvers."""

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.score_rounding import ScoreRounding
from sklearn_bundle.structured._compiled import structures

Array = NDArray[np.float64]


class Found(NamedTuple):
    """One output for each of a range of examples, as it enters the risk and the dual.

    ``psi`` is ``phi(x_i, y_i) - phi(x_i, y)``, and ``loss`` is l_i(y); with slack rescaling psi is
    multiplied by l_i(y). Row k of psi has the entries ``values[starts[k]:starts[k + 1]]`` in the
    columns ``indices[starts[k]:starts[k + 1]]``, each column once.
    """

    starts: NDArray[np.int64]
    indices: NDArray[np.uint32]
    values: Array
    losses: Array
    scores: Array  # loss - <w, psi>, at least 0, the score of the true output
    bounds: Array  # upper bounds of the scores of all outputs: infinity if unknown


class Expected(NamedTuple):
    """Losses of the conditional likelihood for a range of examples, with bounds on rounding."""

    losses: Array  # log sum_y exp <w, phi(x_i, y) - phi(x_i, y_i)>, not negative
    shifts: Array  # bounds on the rounding of the log-weight of any output
    sizes: Array  # bounds on the 2-norms of the added absolute terms of the gradient


class Examples(ABC):
    """Examples with their true outputs, and inference over all others.

    Attributes
    ----------
    n_examples, n_parameters : int
    n_entries : int
        Size of a pass in stored entries, for blocks of threads.
    nonnegative : ndarray of int64
        Indices of the parameters that must not be negative: the cone.
    exact : bool
        Whether ``find`` finds the highest scores, which then equal the ``bounds``.
    oracle_cost : float
        Cost of one call of the oracle: the number of entries of outputs read in the same time.
    structure : NamedTuple or None
        Argument of :func:`~.structures.worst` in compiled steps; None if
        inference is not compiled.
    longest : ndarray of int64 of shape (n_examples,)
        Maximum number of entries of psi for each example, if there is a structure.
    likelihood : bool
        Whether ``expect`` is available.
    has_edges : bool
        Whether the structure is one of chains, so that marginals of neighboring labels are all that
        the dual needs of a distribution of outputs.
    terms : ndarray of int64 of shape (n_examples,)
        Maximum number of times that ``expect`` adds to an entry of the gradient for each example,
        if there is a likelihood.
    roundings : tuple of ScoreRounding
        Their sum bounds the rounding of scores; none if inference is a user's.
    """

    n_examples: int
    n_parameters: int
    n_entries: int
    nonnegative: NDArray[np.int64] = np.empty(0, np.int64)
    exact: bool = True
    oracle_cost: float = 1e6  # 2 ms, an estimate for an oracle that is not compiled
    structure: Any = None
    longest: NDArray[np.int64]
    likelihood: bool = False
    has_edges: bool = False
    terms: NDArray[np.int64]
    roundings: tuple[ScoreRounding, ...] = ()

    @abstractmethod
    def find(self, w: Array, first: int, last: int) -> Found:
        """The output of the highest loss-augmented score, for each example from first to last.

        w lies in the cone. Called from several threads at a time, for different examples.
        """

    def errors(self, w: Array) -> Array:
        """How far rounding may move the score of any output at w, for each example."""
        return sum((each.of(w) for each in self.roundings), np.zeros(self.n_examples))

    def expect(self, w: Array, first: int, last: int, weights: Array, gradient: Array) -> Expected:
        """Losses of the conditional likelihood of the examples from first to last.

        Adds ``sum_i weights_i (E phi(x_i, y) - phi(x_i, y_i))`` to ``gradient``, with y drawn in
        proportion to ``exp <w, phi(x_i, y)>``; ``weights`` begin with the example ``first``. Called
        from several threads at a time, for different examples and gradients.
        """
        raise NotImplementedError  # optional: ``likelihood`` says whether it is there


class CompiledExamples(Examples):
    """Examples of a compiled structure.

    Parameters
    ----------
    structure : NamedTuple
    n_parameters : int
    longest : ndarray of int64 of shape (n_examples,)
        As in :class:`Examples`.
    likelihood : bool
        Whether the structure's type has registered
        :func:`~.structures.expect`.
    terms : ndarray of int64 of shape (n_examples,)
        As in :class:`Examples`; by default 1.
    """

    oracle_cost = 3e3  # 5 microseconds, for the OCR chains of eight letters

    def __init__(
        self,
        structure: Any,
        n_parameters: int,
        longest: NDArray[np.int64],
        likelihood: bool = False,
        terms: NDArray[np.int64] | None = None,
    ):
        self.terms = np.ones_like(longest) if terms is None else terms
        self.structure, self.likelihood = structure, likelihood
        self.n_examples, self.n_parameters = len(longest), n_parameters
        self.n_entries = int(longest.sum())
        self.longest = longest

    def find(self, w: Array, first: int, last: int) -> Found:
        """The worst outputs, by the compiled sweep over the examples."""
        n, work = last - first, int(self.longest[first:last].sum())
        starts = np.empty(n + 1, np.int64)
        indices, values = np.empty(work, np.uint32), np.empty(work)
        losses, scores = np.empty(n), np.empty(n)
        structures.sweep(self.structure, w, first, last, starts, indices, values, losses, scores)
        used = starts[-1]
        return Found(starts, indices[:used], values[:used], losses, scores, scores)

    def expect(self, w: Array, first: int, last: int, weights: Array, gradient: Array) -> Expected:
        """Losses and their gradient, by the compiled sweep over the examples."""
        found = Expected(*(np.empty(last - first) for _ in range(3)))
        structures.expect_sweep(self.structure, w, first, last, weights, *found, gradient)
        return found
