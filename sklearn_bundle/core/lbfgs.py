"""L-BFGS: its memory, and a solver of smooth objectives with a certificate from the gradient."""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas

from sklearn_bundle.core.certificate import Best
from sklearn_bundle.core.contract import ABSENT, State
from sklearn_bundle.core.limits import IDLE_LIMIT, MEMORY, TINY

Array = NDArray[np.float64]

_DECREASE, _CURVATURE = 1e-4, 0.9  # Wolfe's conditions, with the usual constants (Nocedal, Wright)
_ROUNDING = 1e-13  # of P: a smaller decrease is invisible, and only the slope can be used
_INSIDE = 0.1  # distance of a trial step from the ends of a bracket, relative to its width


class Corrections:
    """The last pairs of a step and the change of the gradient along it.

    Parameters
    ----------
    memory : int
        Number of pairs that are kept.
    """

    def __init__(self, memory: int):
        self._pairs: deque[tuple[Array, Array, float]] = deque(maxlen=memory)

    def __len__(self) -> int:
        return len(self._pairs)

    @property
    def scale(self) -> float:
        """``s'y / y'y`` of the newest pair: the inverse of a curvature."""
        _, change, product = self._pairs[-1]
        return product / blas.ddot(change, change)

    def clear(self) -> None:
        """Forget all pairs."""
        self._pairs.clear()

    def remember(self, step: Array, change: Array) -> None:
        """Keep the pair if it shows curvature."""
        product = blas.ddot(step, change)
        if product > TINY and np.isfinite(product):
            self._pairs.append((step, change, product))

    def correct(self, x: Array, solve: Callable[[Array], Array]) -> Array:
        """The corrected inverse times x, starting from ``solve``: the two loops over the pairs.

        x is overwritten.
        """
        shares = []
        for step, change, product in reversed(self._pairs):
            shares.append(blas.ddot(step, x) / product)
            blas.daxpy(change, x, a=-shares[-1])
        x = solve(x)
        for (step, change, product), share in zip(self._pairs, reversed(shares), strict=True):
            blas.daxpy(step, x, a=share - blas.ddot(change, x) / product)
        return x


class _Trial(NamedTuple):
    """P and its gradient at a point."""

    w: Array
    value: float
    gradient: Array


class SmoothObjective(Protocol):
    """``P(w) = reg_lambda/2 ||w||^2`` plus smooth, convex, nonnegative losses."""

    n_parameters: int

    def evaluate(self, w: Array) -> tuple[float, Array, float]:
        """P(w), its gradient, and a lower bound of P."""
        ...


class LBFGSSolver:
    """L-BFGS on ``P(w) = reg_lambda/2 ||w||^2 + smooth convex losses``.

    With the dual point of the losses' gradient at w, the gap is ``||grad P(w)||^2 /
    (2 reg_lambda)``: (8) of Le Priol et al. Losses are never negative, so 0 is a bound.

    Parameters
    ----------
    problem : SmoothObjective
    start : ndarray or None
        Where to start; at zero if None.
    iterations : int
        Number of iterations per state.
    known : State or None
        Point and bound that another solver found.
    memory : int
        Pairs of a step and a change of the gradient to keep.
    """

    name = "lbfgs"

    history_fields: ClassVar[tuple] = (("estimate", np.float64),)

    def __init__(
        self,
        problem: SmoothObjective,
        start: Array | None = None,
        iterations: int = 1,
        known: State | None = None,
        memory: int = MEMORY,
    ):
        self._problem = problem
        self._iterations = iterations
        start = np.zeros(problem.n_parameters) if start is None else start
        self._passes, bound = (0, 0.0) if known is None else (known.passes, known.lower_bound)
        self._best = Best(least=0.0)
        self._best.recompute(np.inf, start, bound)  # is returned if no objective is finite
        self._pairs = Corrections(memory)
        self._idle = 0
        self._at = self._try(start)

    @property
    def kept(self) -> Array:
        """The best point so far."""
        return self._best.point

    def attach(self, problem: SmoothObjective) -> None:
        """Continue with the same problem in another object."""
        self._problem, self._passes = problem, 0

    def detach(self) -> None:
        """Release the problem."""
        self._problem = ABSENT

    def states(self) -> Iterator[State]:
        """One state per ``iterations``; ends when rounding leaves nothing to gain."""
        if self._idle >= IDLE_LIMIT:  # the last run ended this way
            yield self._state()
        while self._idle < IDLE_LIMIT:
            for _ in range(self._iterations):
                reached = self._best.primal, self._best.bound
                moved = self._iterate()
                progress = (self._best.primal, self._best.bound) != reached
                self._idle = 0 if progress else self._idle + 1
                if not moved:
                    self._idle = IDLE_LIMIT
                    break
            yield self._state()

    def confirm(self, *, moving: bool = True) -> State:
        """Recompute P and its gradient at the best point, which stays, moving or not."""
        best = self._best
        value, _, bound = self._evaluate(best.point)
        best.recompute(value, best.point, max(best.bound, bound))
        return self._state()

    def _iterate(self) -> bool:
        """Take a step along L-BFGS's direction, or along the gradient if that fails."""
        while True:
            found = self._search(self._direction())
            if found is not None:
                start = self._at
                self._pairs.remember(found.w - start.w, found.gradient - start.gradient)
                self._at = found
                return True
            if len(self._pairs) == 0:
                return False
            self._pairs.clear()

    def _direction(self) -> Array:
        """The corrected gradient, downhill."""
        scale = self._pairs.scale if len(self._pairs) else 1.0
        return self._pairs.correct(-self._at.gradient, lambda x: scale * x)

    def _search(self, direction: Array) -> _Trial | None:
        """A step that meets Wolfe's conditions; None if rounding hides every such step.

        Along a line the slope of a convex function rises: if P still falls at a step, it is lower
        there than at 0, and if P is too flat to compare its values, the slopes are compared. Steps
        that are too long fall tenfold: the first may be far too long for large features.
        """
        start, shorter = self._at, None
        slope = float(start.gradient @ direction)
        if not -np.inf < slope < 0.0:
            return None
        step = 1.0 if len(self._pairs) else min(1.0, 1.0 / float(np.sqrt(-slope)))
        low, high = (0.0, slope), (np.inf, np.nan)
        # evaluations of a line search, as in SciPy
        for _ in range(20):
            found = self._try(start.w + step * direction)
            there = float(found.gradient @ direction)
            gained = found.value - start.value
            flat = gained <= _ROUNDING * abs(start.value)
            flat = flat and there <= (2.0 * _DECREASE - 1.0) * slope
            falls = there <= _DECREASE * slope
            if not (gained <= _DECREASE * step * slope or falls or flat):
                far = shorter is None and np.isfinite(high[0])
                high = step, there
                step = _INSIDE * step if far else _between(low, high)
            elif there < _CURVATURE * slope:
                low, shorter = (step, there), found
                step = _between(low, high)
            else:
                return found
            if not low[0] < step < high[0]:
                break
        return shorter

    def _try(self, w: Array) -> _Trial:
        """Compute P and its gradient; keep the best point and the best bound."""
        value, gradient, bound = self._evaluate(w)
        self._best.offer(value, w)
        self._best.raise_bound(bound)
        return _Trial(w, value, gradient)

    def _evaluate(self, w: Array) -> tuple[float, Array, float]:
        self._passes += 1
        return self._problem.evaluate(w)

    def _state(self) -> State:
        state = self._best.state(self._best.point, None, self._passes)
        return replace(state, further=(state.gap,))


def _between(low: tuple[float, float], high: tuple[float, float]) -> float:
    """The next step to try, given one (step, slope) that is too short and one too long."""
    if not np.isfinite(high[0]):
        # the last trial step was too short: as in More and Thuente
        return 4.0 * low[0]
    width = high[0] - low[0]
    rise = high[1] - low[1]
    secant = -low[1] / rise if np.isfinite(rise) and rise > 0.0 else 0.5
    return low[0] + width * min(max(secant, _INSIDE), 1.0 - _INSIDE)
