"""The dual of a small kernel L2-SVM as one block; rows of its matrix are computed on demand."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.certificate import Best, attained
from sklearn_bundle.core.contract import State
from sklearn_bundle.core.limits import SINGLE
from sklearn_bundle.kernel._compiled import decomposition
from sklearn_bundle.kernel.problems.l2svm import L2SVM
from sklearn_bundle.kernel.solvers.base import (
    REFINEMENTS,
    SLACK,
    KernelSolver,
    SimplexPoints,
)
from sklearn_bundle.kernel.solvers.decomposition import SLOW, STEPS, DecompositionSolver

Array = NDArray[np.float64]


class WholeSolver(KernelSolver):
    """Maximizes ``sum alpha - 1/2 alpha'K alpha`` over alpha >= 0, all points at once.

    One compiled call takes steps in two variables each until the gap is within ``tol``, and a
    second one recomputes the gap in float64. If single precision is not enough, the steps start
    again from exact scores. After three such attempts, or if the memory for rows is full, a
    :class:`~.decomposition.DecompositionSolver` continues.

    Parameters
    ----------
    problem : L2SVM
    start : SimplexPoints, default=None
        Where to begin; at 0 by default.
    last : WholeSolver, default=None
        A solver of the same points with other costs, whose alpha and rows this one continues
        with. It must not be used afterwards, and the memory of its rows must not have been reused.
    tol : float
        Relative gap at which no more steps are taken.
    max_steps : int, default=infinity
    cache_bytes : int
        For rows.
    seed : int
        Of the solver that continues.
    """

    history_fields = (("blocks", np.int64),)

    def __init__(
        self,
        problem: L2SVM,
        *,
        start: SimplexPoints | None = None,
        last: "WholeSolver | None" = None,
        tol: float = 0.0,
        max_steps: float = np.inf,
        cache_bytes: int = 1 << 30,
        seed: int = 0,
    ):
        super().__init__(problem, tol, max_steps, 0 if start is None else start.n_steps)
        self._cache_bytes, self._seed = cache_bytes, seed
        self._further: DecompositionSolver | None = None
        self.n_blocks = 0
        self._error = 0.0  # of the margins, from steps in single precision
        if last is None:
            self._source = problem.scaled_rows()
            self._rows, self._n_rows = self._space(), 0
            self._rounding = problem.rounding_of_value
            self._alpha, self._margins = np.zeros((2, problem.n))
        else:
            self._reuse(last)
        self._certified = Best(provisional=True)  # of earlier points, in float64
        if start is not None:
            self._begin(start)

    def _space(self) -> decomposition.Rows:
        width = len(self._source.factors)
        item = np.dtype(np.float32).itemsize
        capacity = int(min(max(2, self._cache_bytes // (width * item)), self._problem.n))
        values = self._problem.space(capacity, width)
        return decomposition.Rows(values, np.full(width, -1, np.int64))

    def _reuse(self, last: "WholeSolver") -> None:
        self._source = self._problem.scaled_rows(last._source.tiled)
        self._rows, self._n_rows = last._rows, last._n_rows
        decomposition.rescale(self._rows, self._n_rows, last._source.factors, self._source.factors)
        self._rounding = last._rounding + 3.0 * self._problem.rounding_of_product
        self._alpha, self._margins = last._alpha.copy(), last._margins.copy()
        self._error = last._error

    def _begin(self, start: SimplexPoints) -> None:
        """Continue from the newest point; model and bound are no worse than those of the start."""
        for a in start.different:
            self._alpha, self._margins = self._exact(a)
            primal, bound = self._certificate(np.ones(len(a), dtype=bool))
            self._certified.offer(primal, self._alpha)
            self._certified.raise_bound(bound)

    @property
    def alone(self) -> bool:
        """Whether no other solver has continued from here."""
        return self._further is None

    @property
    def kept(self) -> SimplexPoints:
        """Where the next fit may start."""
        if self._further is not None:
            return self._further.kept
        newest, model = self._alpha / self._alpha.sum(), self._best.point
        return SimplexPoints(newest, model / model.sum(), self._first_step + self.n_steps)

    def states(self) -> Iterator[State]:
        """Usually one state; ends when no step is left."""
        missed, gap = 0, np.inf
        full = indefinite = False
        while missed <= REFINEMENTS and self.n_steps < self._max_steps:
            outcome, ended = self._solve()
            full, indefinite = outcome.n_rows == len(self._rows.values), outcome.indefinite
            if self._best.point is None:
                break
            before, gap = gap, self._best.gap
            yield self._state()
            if full or indefinite or outcome.steps == 0:
                break
            self._remember()
            if ended or gap > SLOW * before:  # single precision gives no more
                missed += 1
                self._alpha, self._margins = self._exact(self._alpha / self._alpha.sum())
                self._error = 0.0
        if self.n_steps < self._max_steps:
            yield from self._continue_by_blocks(promoted=not full or indefinite)

    def confirm(self, *, moving: bool = True) -> State:
        """Objective and bound of the point, recomputed in float64."""
        if self._further is not None:
            return self._added(self._further.confirm(moving=moving))
        known, alpha = self._certified, self._alpha
        primal, bound = self._certificate(self._may_have_losses())
        if known.primal < primal:
            primal, alpha = known.primal, known.point
        bound = max(bound, known.bound)
        # If they cross, K seems indefinite; the solver by blocks finds out whether it is.
        self._best.recompute(primal, alpha, -np.inf if bound > primal else bound)
        return self._state()

    def _certificate(self, near: np.ndarray) -> tuple[float, float]:
        """Objective and bound of alpha in float64; points that are not ``near`` have no loss."""
        return attained(*self._problem.certified(self._alpha, near))

    def _may_have_losses(self) -> np.ndarray:
        """Whether points may have a loss or have a weight."""
        error = self._error + self._rounding * float(self._alpha.sum())
        return (self._margins <= 1.0 + error) | (self._alpha > 0.0)

    def _remember(self) -> None:
        """Keep the certificate of the newest point: later steps may make the point worse."""
        primal, bound = self._certificate(self._may_have_losses())
        if bound <= primal:
            self._certified.offer(primal, self._alpha)
            self._certified.raise_bound(bound)

    def _exact(self, a: Array) -> tuple[Array, Array]:
        """alpha at the best scale of a point of the simplex, and its margins, in float64."""
        q = self._problem.products(a)
        value = float(np.sum(a * q))
        return a / value, (q - self._problem.ridge * a) / value

    def _solve(self) -> tuple[decomposition.Outcome, bool]:
        """Steps from alpha, and whether they ended before the limit on their number."""
        most = int(min(STEPS * self._problem.n, self._max_steps - self.n_steps))
        point, rows = (self._alpha, self._margins), (self._rows, self._n_rows)
        limits = SLACK * self._tol, np.float32(SINGLE), most  # a smaller gain is rounding
        outcome = decomposition.Outcome(
            *decomposition.solve_whole(self._source, *point, *rows, *limits)
        )
        self.passes += outcome.n_rows - self._n_rows
        self._n_rows = outcome.n_rows
        self.n_steps += outcome.steps
        self.n_blocks += 1
        self._error += outcome.error
        if np.isfinite(outcome.primal):
            self._best = Best(provisional=True)
            self._best.offer(outcome.primal, self._alpha)
            self._best.raise_bound(outcome.bound)
            self._best.offer(self._certified.primal, self._certified.point)
            self._best.raise_bound(self._certified.bound)
        return outcome, outcome.steps < most

    def _continue_by_blocks(self, promoted: bool) -> Iterator[State]:
        """Continue by blocks from the current point, if ``promoted`` in double precision."""
        if promoted:
            self._problem.promote()
        self._further = DecompositionSolver(
            self._problem,
            start=None if self._best.point is None else self.kept,
            tol=self._tol,
            max_steps=self._max_steps - self.n_steps,
            seed=self._seed,
        )
        for state in self._further.states():
            yield self._added(state)

    def _added(self, state: State) -> State:
        """A state of the solver that continues, plus the work done before it."""
        n_steps, n_blocks = self.n_steps + (state.n_steps or 0), self.n_blocks + state.further[0]
        passes = self.passes + state.passes
        return replace(state, n_steps=n_steps, passes=passes, further=(n_blocks,))

    def _state(self) -> State:
        return self._state_at(self._best.point, self.n_blocks)
