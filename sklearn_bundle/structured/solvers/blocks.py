"""The dual of a structured hinge loss by examples: kept outputs, and moves of all methods."""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sklearn_bundle.jit.sampling import Sampling, next_block, note
from sklearn_bundle.structured._compiled.kept import (
    CACHED,
    CHECK,
    DRAWN,
    GAPS,
    HIGHEST,
    SCORES,
    STEPS,
    SUM,
    Dual,
    Given,
    Kept,
    visit,
)
from sklearn_bundle.structured.models.examples import Found
from sklearn_bundle.structured.problems.structured import not_exact, sum_of_features

# Conjugate gradients on the outputs that have weight, of many examples together. Steps on one
# example after the other are slow if many examples affect the same few weights: with few features,
# or with some that all examples share. These steps see them all. They stay on the face of the
# outputs that have weight now, and end where the face does. They replace the projected Newton
# method that section 2.1 of Yu and Rousu recommends for master problems.

Array = NDArray[np.float64]

_STEPS = 20  # most steps: then other outputs should have weight
_SETTLED = 1e-3  # of the first squared gradient: the face is solved well enough


class Face:
    """The outputs with weight, and the gradient of the dual on their face.

    Parameters
    ----------
    kept : Kept
    dual : Dual
        Steps update w, raw and ``counts``.
    examples : ndarray of int64
    """

    def __init__(self, kept: Kept, dual: Dual, examples: NDArray[np.int64]):
        self._kept, self._dual = kept, dual
        q = kept.q[examples]
        self._owner, place = np.nonzero(q > 0.0)
        self._at = examples[self._owner], place
        self._shape, self._q = q.shape, kept.q[self._at]
        self._of_examples = dual.weights[examples]
        self._weights = self._of_examples[self._owner]
        length = kept.length[self._at]
        ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(length)])
        places = np.arange(ends[-1]) + np.repeat(kept.begin[self._at] - ends[:-1], length)
        entries = kept.values[places], kept.indices[places].astype(np.int64), ends
        self._psi = sp.csr_array(entries, shape=(len(length), len(dual.w)))
        self._update_scores()

    def climb(self) -> None:
        """Take steps on one face after the other, until a face gains much less than others did."""
        most = 0.0
        for _ in range(_FACES):
            before = self._dual.counts[0]
            self._solve()
            gain = self._dual.counts[0] - before
            most = max(gain, most)
            if gain <= _FACE_SHARE * most:
                return
            there = self._q > 0.0
            self._owner, self._at = self._owner[there], (self._at[0][there], self._at[1][there])
            self._q, self._scores = self._q[there], self._scores[there]
            self._weights, self._psi = self._weights[there], self._psi[there]

    def _solve(self) -> None:
        """Take steps until the face is solved, or one of them leads to another face."""
        gradient = self._gradient()
        direction, norm = gradient, self._inner(gradient, gradient)
        enough = _SETTLED * norm
        for _ in range(_STEPS):
            inside = norm > enough and self._step(direction, self._inner(direction, gradient))
            if not inside:
                break
            last, before = gradient, norm
            gradient = self._gradient()
            norm = self._inner(gradient, gradient)
            turn = (norm - self._inner(gradient, last)) / before
            direction = gradient + max(turn, 0.0) * direction
        self._kept.q[self._at] = self._q

    def _step(self, direction: Array, slope: float) -> bool:
        """Take the best step along ``direction``; False if it leaves the face or gains nothing.

        If it would leave the face, take the best step towards the projection of its end instead.
        """
        change, bend = self._curvature(direction)
        if not (slope > 0.0 and bend > 0.0):
            return False
        target = self._q + (slope / bend) * direction
        if (target > 0.0).all():
            self._move(slope / bend, direction, change, slope, bend)
            return True
        direction = self._feasible(target) - self._q
        change, bend = self._curvature(direction)
        slope = self._inner(direction, self._gradient())
        if slope > 0.0 and bend > 0.0:
            self._move(min(slope / bend, 1.0), direction, change, slope, bend)
        return False

    def _feasible(self, target: Array) -> Array:
        """The projection onto the simplexes of the examples, or onto the cone."""
        if self._dual.squared:
            return np.maximum(target, 0.0)
        table = np.full(self._shape, -np.inf)
        table[self._owner, self._at[1]] = target
        top = table.max(axis=1)  # a common shift changes no projection, and far ones lose no digits
        table, target = table - top[:, None], target - top[self._owner]
        falling = -np.sort(-table, axis=1)
        with np.errstate(invalid="ignore"):
            excess = np.cumsum(falling, axis=1) - 1.0
            excess /= np.arange(1, self._shape[1] + 1)
            count = np.maximum((falling > excess).sum(axis=1), 1)
        level = excess[np.arange(len(count)), count - 1]
        q = np.maximum(target - level[self._owner], 0.0)
        return q / self._totals(q)[self._owner]

    def _gradient(self) -> Array:
        """The gradient of the dual in q, over the weights of examples, along the face."""
        if self._dual.squared:
            return self._scores - self._totals(self._q)[self._owner]
        sizes = np.maximum(np.bincount(self._owner, minlength=self._shape[0]), 1)
        return self._scores - (self._totals(self._scores) / sizes)[self._owner]

    def _totals(self, values: Array) -> Array:
        """The sum for each example."""
        totals: Any = np.bincount(self._owner, values, self._shape[0])
        return totals

    def _inner(self, a: Array, b: Array) -> float:
        return float(np.sum(self._weights * a * b))

    def _curvature(self, direction: Array) -> tuple[Array, float]:
        """The change of w, and the dual's curvature, which a cone can only reduce."""
        dual = self._dual
        change = self._psi.T @ (dual.factor * self._weights * direction)
        bend = float(change @ change) / dual.factor
        if dual.squared:
            totals = self._totals(direction)
            bend += float(np.sum(self._of_examples * totals * totals))
        return change, bend

    def _move(
        self, step: float, direction: Array, change: Array, slope: float, bend: float
    ) -> None:
        dual = self._dual
        self._q = np.maximum(self._q + step * direction, 0.0)
        dual.counts[0] += step * slope - 0.5 * step * step * bend
        np.add(dual.raw, step * change, out=dual.raw)
        if len(dual.cone):
            dual.w[:] = np.where(dual.cone, np.maximum(dual.raw, 0.0), dual.raw)
        self._update_scores()

    def _update_scores(self) -> None:
        """Compute the scores at w; a step has read as many entries again."""
        self._scores = self._kept.loss[self._at] - self._psi @ self._dual.w
        self._dual.counts[1] += 2 * self._psi.nnz


Numbers = NDArray[np.int64]

_PLACES = 4  # at first: most examples need two or three outputs
_LIMIT = 48  # outputs of an example until memory decides: CoNLL-2000 does not reach 1e-3 with 16
_MEMORY = 1 << 30  # bytes up to which examples that are full get a fourth more places
_GROWTH = 1.5  # of entries, where they are full
_ROUNDING = 1e-14  # of the terms of the bound: sums of up to 1e8 terms, compensated or pairwise
_MISSED = 1e-8  # of the terms of a score: rounding moves it by less
# Faces on the way to the best one, and the gain of one, over the largest so far, that ends it.
_FACES, _FACE_SHARE = 10, 0.1
_PER_OUTPUT = "q", "loss", "begin", "length", "idle"
_NO_SAMPLING = Sampling(0, 0.0, False, False, np.zeros(2), np.zeros(1), np.zeros(1, np.uint64))
_NONE = Given(0, np.zeros(2, np.int64), np.zeros(0, np.uint32), *np.zeros((4, 1)))


class KeptOutputs:
    """Outputs of examples, with their weights.

    Parameters
    ----------
    n_examples : int
    most : int or None
        Outputs that an example may keep in addition to the true one, at least 2; None is 48, and
        more while there is memory.
    squared : bool
        Whether the weights of an example have a free sum: true outputs then begin without weight.
    """

    def __init__(self, n_examples: int, most: int | None, squared: bool = False):
        limit = 1 + (_LIMIT if most is None else most)
        self._may_grow = most is None
        n, places = n_examples, min(_PLACES, limit)
        self.arrays = Kept(
            limit=limit,
            count=np.ones(n, np.int64),
            q=np.zeros((n, places)),
            loss=np.zeros((n, places)),
            begin=np.zeros((n, places), np.int64),
            length=np.zeros((n, places), np.int64),
            idle=np.zeros((n, places), np.int64),
            gram=np.zeros((n, places, places)),
            indices=np.empty(0, np.uint32),
            values=np.empty(0),
            used=np.zeros(2, np.int64),
        )
        if not squared:
            self.arrays.q[:, 0] = 1.0

    def entries(self) -> tuple[NDArray[np.bool_], Numbers, Numbers]:
        """The outputs that are there, their numbers of entries, and the places of all entries."""
        kept = self.arrays
        there = np.arange(kept.q.shape[1]) < kept.count[:, None]
        begin, length = kept.begin[there], kept.length[there]
        ends = np.cumsum(length)
        return there, length, np.repeat(begin - ends + length, length) + np.arange(length.sum())

    def reserve(self, longest: int) -> None:
        """Reserve memory for more outputs of up to ``longest`` entries."""
        kept, (there, length, places) = self.arrays, self.entries()
        n = len(places)
        size = max(int(_GROWTH * n), n + 4 * longest + 1024)
        indices, values, begin = np.empty(size, np.uint32), np.empty(size), kept.begin.copy()
        np.take(kept.indices, places, out=indices[:n], mode="clip")  # without a copy on the way
        np.take(kept.values, places, out=values[:n], mode="clip")
        begin[there] = np.cumsum(length) - length
        arrays = {"indices": indices, "values": values, "begin": begin, "used": np.array([n, 0])}
        self.arrays = kept._replace(**arrays)

    def make_place(self, i: int) -> None:
        """Make a place for another output of example i: places for all, or by merging two."""
        kept = self.arrays
        n, places = kept.q.shape
        if places < kept.limit or (self._may_grow and n * places * places < _MEMORY // 13):
            more = min(places, kept.limit - places) if places < kept.limit else places // 4 + 1
            wide = (0, 0), (0, more)
            arrays = {name: np.pad(getattr(kept, name), wide) for name in _PER_OUTPUT}
            self.arrays = kept._replace(gram=np.pad(kept.gram, (*wide, wide[1])), **arrays)
        else:
            self._merge(i)

    def _merge(self, i: int) -> None:
        """Replace the two outputs of least weight by their weighted mean.

        The dual point does not change: its psi and its loss are sums over outputs. It may no longer
        move between the two outputs (the current point of Yu and Rousu, footnote 1).
        """
        weights = self.arrays.q[i, 1 : self.arrays.count[i]]
        a, b = (1 + np.argsort(weights, kind="stable")[:2]).tolist()
        self.reserve(int(self.arrays.length[i, [a, b]].sum()))
        kept = self.arrays
        both = [slice(at, at + n) for at, n in zip(kept.begin[i], kept.length[i], strict=True)]
        q = kept.q[i, a] + kept.q[i, b]
        shares = np.array([kept.q[i, a] / q, kept.q[i, b] / q])
        indices = np.concatenate([kept.indices[both[k]] for k in (a, b)])
        values = np.concatenate(
            [s * kept.values[both[k]] for s, k in zip(shares, (a, b), strict=True)]
        )
        indices, place = np.unique(indices, return_inverse=True)
        begin, end = int(kept.used[0]), int(kept.used[0]) + len(indices)
        kept.indices[begin:end], kept.values[begin:end] = indices, np.bincount(place, values)
        gram = kept.gram[i]
        gram[a] = shares @ gram[[a, b]]
        gram[:, a] = gram[:, [a, b]] @ shares
        kept.used[0], kept.begin[i, a], kept.length[i, a] = end, begin, end - begin
        kept.loss[i, a] = shares @ kept.loss[i, [a, b]]
        kept.q[i, a], kept.q[i, b] = q, 0.0


class Check(NamedTuple):
    """The result of an oracle pass over all examples at a point."""

    w: Array
    primal: float
    lower_bound: float
    gained: float  # gain of the dual in the steps before


class BlockDual:
    """The dual point of a problem, its w, and the gap of each example as last seen.

    A proximal term adds ``kappa/2 ||w - center||^2`` to the objective: steps are those of the dual
    of the sum, and the bound is that of the problem itself from the same q.

    Parameters
    ----------
    problem : StructuredProblem or Summed
    outputs : KeptOutputs
    patience : int
        Number of visits after which an output without weight is dropped.

    Attributes
    ----------
    gaps : ndarray of shape (n_examples,)
        Not weighted.
    kappa : float
    center : ndarray
        Zeros before the first :meth:`recenter`.
    """

    def __init__(self, problem: Any, outputs: KeptOutputs, patience: int):
        self.problem, self.outputs = problem, outputs
        self._patience = patience
        self.gaps = np.zeros(problem.n_examples)
        self.kappa, self.center = 0.0, np.zeros(problem.dimension)
        self._last: Array | None = None  # w when the center was last moved
        self._cone = np.zeros(problem.dimension if len(problem.cone) else 0, np.bool_)
        self._cone[problem.cone] = True
        self._found = np.empty((3, problem.n_examples))
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
        """The gap of the problem with the proximal term, from the examples' gaps as last seen."""
        return float(self.problem.weights @ self.gaps)

    def refresh(self) -> float:
        """Recompute w from q; returns the recomputed lower bound of the problem that q proves."""
        problem, reg_lambda, kappa = self.problem, self.problem.reg_lambda, self.kappa
        kept = self.outputs.arrays
        if not problem.squared:  # they sum to one but for rounding
            kept.q[:] /= kept.q.sum(axis=1, keepdims=True)
        amounts = problem.weights[:, None] * kept.q
        raw = np.zeros(problem.dimension)
        of_steps = problem.weights, raw, raw, self._cone[:0], self.gaps, np.zeros(2)
        self._dual = Dual(problem.squared, 1.0, self._patience, *of_steps)
        self._visit(SUM, self.problem.examples.structure, np.arange(problem.n_examples))
        losses = float(np.sum(amounts * kept.loss))
        if problem.squared:
            losses -= 0.5 * float(problem.weights @ kept.q.sum(axis=1) ** 2)
        own = self._projected(raw)
        squared = float(own @ own)  # of reg_lambda times w, before raw changes, which may be own
        raw += kappa * self.center
        raw /= reg_lambda + kappa
        w = self._projected(raw)
        of_steps = problem.weights, w, raw, self._cone, self.gaps, np.zeros(2)
        self._dual = Dual(problem.squared, 1.0 / (reg_lambda + kappa), self._patience, *of_steps)
        lengths = np.sqrt(np.maximum(np.einsum("ikk->ik", kept.gram), 0.0))
        error = sum_of_features(problem.n_examples) * float(np.sum(amounts * lengths))
        penalty = 0.5 * squared / reg_lambda
        error = error * squared**0.5 / reg_lambda + _ROUNDING * (abs(losses) + penalty)
        return losses - penalty - error

    def check(self) -> Check:
        """Make an oracle pass: objective, bound and gaps at w; outputs are kept, without a step."""
        gained, bound, problem, w = self.gained, self.refresh(), self.problem, self.w
        if problem.examples.structure is None or problem.runner.n_threads > 1:
            for first, part in problem.find(w):
                self._keep(first, part, CHECK)
        else:
            self.call_oracle(np.arange(problem.n_examples))
        self._refuse_missed()
        primal = 0.5 * problem.reg_lambda * float(w @ w) + problem.risk_of(*self._found)
        return Check(w, primal, bound, gained)

    def call_oracle(self, examples: Numbers) -> None:
        """Call the oracle for some examples, all at w: keep outputs, note gaps, take no step."""
        self._ask(CHECK, examples, _NO_SAMPLING)

    def sampled_pass(self, sampling: Sampling) -> None:
        """Take as many steps as there are examples, each on a drawn one after an oracle call."""
        self._ask(STEPS, np.full(self.problem.n_examples, DRAWN), sampling)

    def cached_pass(self, examples: Numbers) -> None:
        """Take a step on each of the examples over the outputs that it has."""
        self._visit(CACHED, self.problem.examples.structure, examples)

    def cached_gap(self, examples: Numbers) -> float:
        """The weighted sum of the examples' gaps over the outputs that they have, all at one w."""
        self._visit(GAPS, self.problem.examples.structure, examples)
        return float(self.problem.weights[examples] @ self._found[SCORES, examples])

    def climb(self, examples: Numbers) -> None:
        """Take steps on all of the examples together, over outputs with weight: face to face."""
        Face(self.outputs.arrays, self._dual, examples).climb()

    def _ask(self, task: int, order: Numbers, sampling: Sampling) -> None:
        """A visit with calls of the oracle, one after the other if it is not compiled."""
        problem, structure = self.problem, self.problem.examples.structure
        problem.oracle_calls += len(order)
        if structure is not None:
            self._visit(task, structure, order, sampling)
            return
        for i in order.tolist():
            i = next_block(sampling) if i == DRAWN else i
            self._keep(i, problem.examples.find(self.w, i, i + 1), task)
            if task == STEPS:
                note(sampling, i, problem.weights[i] * self.gaps[i])

    def _keep(self, first: int, found: Found, task: int) -> None:
        """Keep an output for each of a range of examples, found at w, and note the gaps."""
        parts: list[Any] = [np.ascontiguousarray(part) for part in found]
        given = Given(first, *parts)
        self._visit(task, given, np.arange(first, first + len(found.losses)))

    def _visit(
        self, task: int, structure: Any, order: Numbers, sampling: Sampling = _NO_SAMPLING
    ) -> None:
        """A visit of the examples, in parts if memory has to be reserved on the way."""
        structure = _NONE if structure is None else structure  # such a visit asks no oracle
        given = isinstance(structure, Given)
        lengths = np.diff(structure.starts) if given else self.problem.examples.longest
        longest = int(lengths.max())
        while len(order):
            at = self.outputs.arrays, self._dual, sampling, order, longest, self._found
            n = visit(task, structure, *at)
            if n < 0:
                n = -1 - n
                self.outputs.make_place(int(self.outputs.arrays.used[1]))
            elif n < len(order):
                self.outputs.reserve(longest)
            order = order[n:]

    def _refuse_missed(self) -> None:
        """Refuse an oracle that is declared exact if it missed an output that is kept."""
        problem, kept, w = self.problem, self.outputs.arrays, self.w
        if not problem.examples.exact:
            return
        excess = self._found[HIGHEST] - self._found[SCORES] - 2.0 * problem.examples.errors(w)
        size = float(np.linalg.norm(w))
        for i in np.flatnonzero(excess > 0.0):  # the errors are of both scores
            lengths = np.sqrt(np.maximum(kept.gram[i].diagonal(), 0.0))
            terms = abs(self._found[HIGHEST, i]) + kept.loss[i].max() + size * lengths.max()
            if excess[i] > _MISSED * terms:
                raise not_exact(problem.name_of(int(i)))

    def distance(self) -> float:
        """``reg_lambda/2 ||w - w_q||^2``, with w_q that of q without the center.

        The duality gap of the problem is this plus the sum of the gaps of examples.
        """
        reg_lambda, kappa = self.problem.reg_lambda, self.kappa
        if kappa == 0.0:
            return 0.0
        own = ((reg_lambda + kappa) * self._dual.raw - kappa * self.center) / reg_lambda
        difference = self.w - self._projected(own)
        return 0.5 * reg_lambda * float(difference @ difference)

    def recenter(self, kappa: float, momentum: float) -> None:
        """Set a new strength, and the center to w plus ``momentum`` times its last move."""
        w, raw, reg_lambda = self.w, self._dual.raw, self.problem.reg_lambda
        total = (reg_lambda + self.kappa) * raw - self.kappa * self.center
        last = w if self._last is None else self._last
        self.center, self._last = w + momentum * (w - last), w.copy()
        raw[:] = (total + kappa * self.center) / (reg_lambda + kappa)
        w[:] = self._projected(raw)
        self._dual = self._dual._replace(factor=1.0 / (reg_lambda + kappa))
        self.kappa = kappa

    def _projected(self, raw: Array) -> Array:
        """Set negative entries of the cone to 0."""
        return np.where(self._cone & (raw < 0.0), 0.0, raw) if len(self._cone) else raw
