"""The dual of a structured hinge loss by blocks: outputs with weights, and moves of all methods.

A block is an example with the outputs that were found for it and their weights q.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.jit.sampling import Sampling, next_block, note
from sklearn_bundle.structured._compiled import block_steps
from sklearn_bundle.structured._compiled.block_steps import Dual
from sklearn_bundle.structured._compiled.outputs import (
    BYTES_PER_ENTRY,
    ENTRIES,
    LONGEST,
    MOST,
    PRODUCTS,
    SLOTS,
    Outputs,
    tidy,
)
from sklearn_bundle.structured.models.examples import Found
from sklearn_bundle.structured.problems.structured import (
    StructuredProblem,
    not_exact,
    sum_of_features,
)
from sklearn_bundle.structured.solvers.faces import Face, slots_of

Array = NDArray[np.float64]

_FIRST_ROOM = 4  # slots: most blocks need two or three outputs
_LIMIT = 48  # outputs of a block until memory decides: CoNLL-2000 does not reach 1e-3 with 16
_MEMORY = 1 << 30  # bytes of entries up to which full blocks get twice the capacity
_OF_SLOTS = "q", "loss", "length", "idle"  # in addition to where the entries begin
_GROWTH = 1.5  # of a pool that is full
_FACES = 10  # most faces in a row: then blocks may need others
_FACE_SHARE = 0.1  # of the largest gain of a face: once a face gains less, the steps end
_ROUNDING = 1e-14  # of the terms of the bound: sums of up to 1e8 terms, compensated or pairwise


class OutputCache:
    """Outputs by blocks, with their weights.

    Parameters
    ----------
    n_blocks : int
    n_cached_outputs : int or None
        Outputs that a block may keep in addition to the true one, at least 2; None is 48, and more
        while there is memory.
    squared : bool
        Whether the weights of a block have a free sum: true outputs then begin without weight.
    """

    def __init__(self, n_blocks: int, n_cached_outputs: int | None, squared: bool = False):
        limit = 1 + (_LIMIT if n_cached_outputs is None else n_cached_outputs)
        capacity = min(_FIRST_ROOM, limit)
        n, blocks = n_blocks * capacity, np.arange(n_blocks, dtype=np.int64)
        self.outputs = Outputs(
            at=blocks * capacity,
            gram_at=blocks * capacity * capacity,
            capacity=np.full(n_blocks, capacity, np.int64),
            count=np.ones(n_blocks, np.int64),
            limit=np.full(n_blocks, limit, np.int64),
            q=np.zeros(n),  # except the true outputs, below
            loss=np.zeros(n),
            begin=np.zeros(n, np.int64),
            length=np.zeros(n, np.int64),
            idle=np.zeros(n, np.int64),
            gram=np.zeros(n * capacity),
            indices=np.empty(0, np.uint32),
            values=np.empty(0),
            used=np.array([n, n * capacity, 0, 0, capacity], np.int64),
            budget=0 if n_cached_outputs is not None else _MEMORY // BYTES_PER_ENTRY,
        )
        if not squared:
            self.outputs.q[self.outputs.at] = 1.0

    def make_room(self, longest: int) -> None:
        """Make room for more outputs of up to ``longest`` entries: tidy or enlarge the pools."""
        o = self.outputs
        most, capacity = max(longest, int(o.used[LONGEST])), 2 * int(o.used[MOST])
        live = int(o.length[slots_of(o, np.arange(len(o.at)))[0]].sum())
        wanted = max(int(_GROWTH * live), live + 4 * most + 1024)
        indices, values = np.empty(wanted, np.uint32), np.empty(wanted)
        slots = _grown(len(o.q), int(o.used[SLOTS]) + capacity)
        products = _grown(len(o.gram), int(o.used[PRODUCTS]) + capacity * capacity)
        fresh = {name: _resized(getattr(o, name), slots) for name in _OF_SLOTS}
        fresh["begin"] = np.zeros(slots, np.int64)
        fresh["gram"] = _resized(o.gram, products)
        fresh["used"] = o.used.copy()
        fresh["used"][ENTRIES] = tidy(o, fresh["begin"], indices, values)
        self.outputs = o._replace(indices=indices, values=values, **fresh)


def _grown(size: int, needed: int) -> int:
    return size if size >= needed else max(needed, int(_GROWTH * size))


def _resized(array: np.ndarray, size: int) -> np.ndarray:
    if len(array) >= size:
        return array
    larger = np.zeros(size, array.dtype)
    larger[: len(array)] = array
    return larger


class Check(NamedTuple):
    """The result of an oracle pass over all examples at a point."""

    w: Array
    primal: float
    lower_bound: float
    gained: float  # gain of the dual in the steps before


class Center(NamedTuple):
    """The center of the proximal term, and w when it was last moved."""

    point: Array
    last: Array


class BlockDual:
    """The dual point of a problem, its w, and the gap of each block as last seen.

    A proximal term adds ``kappa/2 ||w - center||^2`` to the objective: steps are those of the dual
    of the sum, and the bound is that of the problem itself from the same q.

    Parameters
    ----------
    problem : StructuredProblem
    cache : OutputCache
        Outputs with their weights.
    patience : int
        Number of visits after which an output without weight is dropped.

    Attributes
    ----------
    gaps : ndarray of shape (n_examples,)
        Not weighted.
    kappa : float
    center : Center or None
        None before the first :meth:`recenter`.
    """

    def __init__(self, problem: StructuredProblem, cache: OutputCache, patience: int):
        self.problem, self.cache = problem, cache
        self._patience = patience
        self.gaps = np.zeros(problem.n_examples)
        self.kappa = 0.0
        self.center: Center | None = None
        self._cone = np.zeros(problem.dimension if len(problem.cone) else 0, np.bool_)
        self._cone[problem.cone] = True
        self.refresh()

    @property
    def w(self) -> Array:
        """The point that belongs to q and the center."""
        return self._dual.w

    @property
    def gained(self) -> float:
        """The gain of the dual by steps since the last :meth:`refresh`."""
        return self._dual.counts[0]

    @property
    def read(self) -> float:
        """Number of output entries that steps have read since the last :meth:`refresh`."""
        return self._dual.counts[1]

    @property
    def estimate(self) -> float:
        """The gap of the problem with the proximal term, from the blocks' gaps as last seen."""
        return float(self.problem.weights @ self.gaps)

    def refresh(self) -> float:
        """Recompute w from q; returns the recomputed lower bound of the problem that q proves."""
        problem, reg_lambda, kappa = self.problem, self.problem.reg_lambda, self.kappa
        raw = np.zeros(problem.dimension)
        of_problem = problem.weights, problem.squared
        losses, lengths = block_steps.sums(self.cache.outputs, *of_problem, raw)
        own = self._projected(raw)
        squared = float(own @ own)  # of reg_lambda times w, before raw changes, which may be own
        if self.center is not None and kappa > 0.0:
            raw += kappa * self.center.point
        raw /= reg_lambda + kappa
        w = self._projected(raw)
        factor = 1.0 / (reg_lambda + kappa)
        of_blocks = problem.weights, w, raw, self._cone, self.gaps, np.zeros(2)
        self._dual = Dual(problem.squared, factor, self._patience, *of_blocks)
        error = sum_of_features(problem.n_examples) * lengths * squared**0.5 / reg_lambda
        penalty = 0.5 * squared / reg_lambda
        return losses - penalty - error - _ROUNDING * (abs(losses) + penalty)

    def check(self) -> Check:
        """Make an oracle pass: objective, bound and gaps at w; outputs are kept, without a step."""
        gained = self.gained
        bound, problem, w = self.refresh(), self.problem, self.w
        found = problem.find(w)
        errors = problem.examples.errors(w)
        for first, part in found:
            self.insert(first, part, errors[first : first + len(part.losses)])
        primal = 0.5 * problem.reg_lambda * float(w @ w) + problem.risk(found)
        return Check(w, primal, bound, gained)

    def insert(self, first: int, found: Found, errors: Array) -> None:
        """Keep an output for each of a range of examples, found at w, and note the gaps.

        Scores are known up to ``errors``.

        Raises
        ------
        ValueError
            If an oracle that is declared exact missed an output that it had found before.
        """
        row, n = 0, len(found.losses)
        of_rows = found.starts, found.indices, found.values, found.losses, found.scores
        if self.problem.examples.exact:
            highest = found.scores + 2.0 * errors  # of both scores that are compared
            missed = block_steps.missed(self.cache.outputs, self._dual, first, highest)
            if missed >= 0:
                raise not_exact(f"for example {first + missed}")
        while row < n:
            row = block_steps.insert_all(self.cache.outputs, self._dual, first, row, *of_rows)
            if row < n:
                self.cache.make_room(int(np.diff(found.starts).max()))

    def call_oracle(self, blocks: NDArray[np.int64]) -> None:
        """Call the oracle for some examples, all at w: keep outputs, note gaps, take no step."""
        examples = self.problem.examples
        errors = examples.errors(self.w)
        for i in blocks.tolist():
            self.insert(i, examples.find(self.w, i, i + 1), errors[i : i + 1])
        self.problem.oracle_calls += len(blocks)

    def sampled_pass(self, sampling: Sampling) -> None:
        """Take as many steps as there are blocks, each on a random one after an oracle call."""
        if self.problem.examples.structure is None:
            self._interpreted_pass(sampling)
        else:
            self._compiled_pass(sampling)
        self.problem.oracle_calls += self.problem.n_examples

    def _compiled_pass(self, sampling: Sampling) -> None:
        examples, left = self.problem.examples, self.problem.n_examples
        while True:
            of_steps = self.cache.outputs, self._dual, sampling, examples.longest, left
            left -= block_steps.epoch(examples.structure, *of_steps)
            if not left:
                return
            self.cache.make_room(int(examples.longest.max()))

    def _interpreted_pass(self, sampling: Sampling) -> None:
        """The same with an oracle that is not compiled."""
        problem = self.problem
        for _ in range(problem.n_examples):
            i = next_block(sampling)
            found = problem.examples.find(self.w, i, i + 1)
            output = i, found.indices, found.values, found.losses[0]
            while not block_steps.visit_with(self.cache.outputs, self._dual, *output):
                self.cache.make_room(len(found.indices))
            note(sampling, i, problem.weights[i] * self.gaps[i])

    def cached_pass(self, blocks: NDArray[np.int64], share: float = 0.0) -> NDArray[np.int64]:
        """Take a step on each of the blocks over the outputs that it has.

        Returns those whose gap was at least ``share`` of the mean, weighted like the examples.
        """
        return block_steps.cached_pass(self.cache.outputs, self._dual, blocks, share)

    def cached_gap(self, blocks: NDArray[np.int64]) -> float:
        """The weighted sum of the blocks' gaps over the outputs that they have."""
        return block_steps.cached_gap(self.cache.outputs, self._dual, blocks)

    def climb(self, blocks: NDArray[np.int64]) -> None:
        """Take steps on all blocks together, over outputs with weight, from face to face."""
        most = 0.0
        for _ in range(_FACES):
            before = self.gained
            Face(self.cache.outputs, self._dual, blocks).climb()
            gain = self.gained - before
            most = max(gain, most)
            if gain <= _FACE_SHARE * most:
                return

    def distance(self) -> float:
        """``reg_lambda/2 ||w - w_q||^2``, with w_q that of q without the center.

        The duality gap of the problem is this plus the sum of the gaps of blocks.
        """
        if self.center is None or self.kappa == 0.0:
            return 0.0
        reg_lambda, kappa = self.problem.reg_lambda, self.kappa
        own = ((reg_lambda + kappa) * self._dual.raw - kappa * self.center.point) / reg_lambda
        difference = self.w - self._projected(own)
        return 0.5 * reg_lambda * float(difference @ difference)

    def recenter(self, kappa: float, momentum: float) -> None:
        """Set a new strength, and the center to w plus ``momentum`` times its last move."""
        if self.center is None:
            self.center = Center(self.w.copy(), self.w.copy())
        (point, last), w, raw = self.center, self.w, self._dual.raw
        reg_lambda = self.problem.reg_lambda
        total = (reg_lambda + self.kappa) * raw - self.kappa * point
        point[:] = w + momentum * (w - last)
        last[:] = w
        raw[:] = (total + kappa * point) / (reg_lambda + kappa)
        w[:] = self._projected(raw)
        self._dual = self._dual._replace(factor=1.0 / (reg_lambda + kappa))
        self.kappa = kappa

    def _projected(self, raw: Array) -> Array:
        """Set negative entries of the cone to 0."""
        return np.where(self._cone & (raw < 0.0), 0.0, raw) if len(self._cone) else raw
