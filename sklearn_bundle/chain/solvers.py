"""Dual ascent for chain CRFs with gap sampling, and L-BFGS where that would take too long."""

from collections.abc import Iterator
from math import inf, log
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.chain.problem import Blocks, ChainProblem, Check
from sklearn_bundle.core.certificate import Best
from sklearn_bundle.core.contract import ABSENT, State
from sklearn_bundle.core.dual_methods import Catalyst, Checks, first_kappa
from sklearn_bundle.core.lbfgs import LBFGSSolver
from sklearn_bundle.core.limits import TINY

Array = NDArray[np.float64]

SAMPLINGS = ("uniform", "importance", "gap")
_PRECISION = 1e-3  # the Newton step, in [0, 1], at which the line search of SDCA ends
_PAIRS = 2.0  # of a token's squared norm: what its pairs and biases add
_UNKNOWN_GAP = 100.0  # the gap of a block that no step has visited: the paper's value
_DRAWS, _FEWEST = 8, 64  # times per epoch that blocks are drawn by their gaps; least blocks a time
# Times reg_lambda: the smallest ridge from which momentum and kappa are computed. Without ridge the
# momentum would be 1, with which the gap oscillates. From .1 to .3 pure L1 took the same time on
# Dutch NER and CoNLL-2000, to within a quarter.
_LEAST_RIDGE = 0.2
# The first ridge + kappa, over the mean curvature of a block. With 0.02 CRFs of 400 sentences of
# CoNLL-2000 took a third more passes; with 0.05 up to twice as many.
_STRENGTH = 0.01
_OUTER = 3  # epochs between two moves of the center: the result of a trial
# Of reg_lambda, below which a start at w = 0 is closer: from .1 to 1e-4, CoNLL-2000 and letters
# took two to ten times the epochs from what was kept, from .01 to .001 half to as many.
_NEAR = 0.05
_FIRST_CHECK = 2  # epochs before the first full pass: until then most gaps are unknown
# What L-BFGS is expected to cost, in epochs: estimates. With accelerated steps, it took the time of
# 360 epochs on 3,000 sentences of CoNLL-2000 at c2 = .001.
_LBFGS, _LBFGS_OR_ACCELERATED = 100.0, 300.0
_LEAST_KNOWN = 1e-3  # of P: a bound below this share of it counts as this share
# Of that cost, after which epochs are judged by their rate: early rates make dual steps look too
# good. And judgments in a row: the rate of one epoch may be chance.
_JUDGED_FROM, _JUDGMENTS = 0.15, 3
LBFGS_ITERATIONS = 3  # of L-BFGS, which take about as long as an epoch
_MOST_PARAMETERS = 5_000_000  # L-BFGS keeps 20 vectors of them: 0.8 GB


class DualSolver:
    """Algorithm 2 of Le Priol et al., or exponentiated gradient on the same dual.

    There is one state per epoch of as many steps as there are sequences. Its point is the best and
    its bound the highest that a full pass has found; the first is at w = 0, or at a given start. A
    full pass is made when the gaps of the blocks, each as of its last step, say that ``tol`` is
    reached. Earlier passes are made at a given start or else after two epochs, and then as many as
    take a tenth of the work.

    With acceleration the steps are those of P with a proximal term ``kappa/2 ||w - z||^2``, whose
    center z moves after every third epoch, with momentum (Catalyst: Lin, Mairal and Harchaoui,
    2015, algorithm 1). The dual variables stay feasible for P.

    With L1 the steps are those of proximal SDCA (Shalev-Shwartz and Zhang, 2014): the sums of
    features, over ridge plus kappa, are raw weights, and w is these with each entry moved towards
    0. Without ridge there is always a proximal term, since the features of a dual point alone do
    not determine w.

    Parameters
    ----------
    problem : ChainProblem
    params : SDCACRF
        With "auto" there is a proximal term if ``reg_lambda`` is small compared with a block's
        curvature. Only with "sdca" blocks are kept as marginals, otherwise as log-potentials.
    seed : int
    kept : tuple
        :attr:`kept` of a solver of the same problem; the penalty may differ. Where reg_lambda is
        less than a twentieth of its own, the solver starts anew.
    """

    history_fields: ClassVar[tuple] = (("estimate", np.float64),)

    def __init__(self, problem: ChainProblem, params: Any, *, seed: int, kept: Any = None):
        self.problem, self._tol, potentials = problem, params.tol, params.solver != "sdca"
        self.name = "exponentiated" if potentials else "sdca"
        self._cost = 2 if potentials else 1  # of a full pass, in calls a sequence
        self._checks, self._best = Checks(self._tol, self._cost), Best(least=0.0)
        self._memory = problem.squared_norms() + _PAIRS if potentials else np.array([_PRECISION])
        self._random = np.random.default_rng(seed)
        self._share = 0.0 if params.sampling == "uniform" else params.nonuniformity
        self._adaptive = params.sampling == "gap"
        self._importance = problem.reg_lambda + problem.weights * problem.radii()
        self._gaps = np.full(problem.n_sequences, _UNKNOWN_GAP)
        self._epochs = self._calls = 0
        self._started = kept is not None and problem.reg_lambda >= _NEAR * kept[2]
        if kept is None or not self._started:
            kept = problem.start(potentials), np.zeros(problem.n_parameters)
        self._blocks, self._center = kept[:2]
        self._last, self._estimate = self._center, inf
        self._catalyst = self._first_catalyst(params.solver == "auto")
        self._w: Any = None  # before the first pass

    @property
    def kept(self) -> tuple[Blocks, Array, float]:
        """Where a new solver may start: the dual point, the best w, and their reg_lambda."""
        return self._blocks, self._best.point, self.problem.reg_lambda

    def attach(self, problem: ChainProblem) -> None:
        """Continue with the same problem in another object; a finished fit stays finished."""
        self.problem, self._calls = problem, 0
        self._started = self._state().relative_gap <= self._tol

    def detach(self) -> None:
        """Release the problem."""
        self.problem = ABSENT

    @property
    def accelerated(self) -> bool:
        """Whether there is a proximal term."""
        return self._catalyst is not None

    def states(self) -> Iterator[State]:
        """One state per epoch; a given start comes first."""
        if self._w is None:
            found = self._pass(self._center)
            self._entropy, self._raw, self._w = found.entropy, *self._point_of(found.features)
            del found  # the size of two models
            if self._started:
                self._renew()
        if self._started:
            yield self._state()
        while True:
            calls = self._epoch()
            blocks, center = float(self.problem.weights @ self._gaps), self._center_distance()
            self._estimate = blocks + (self._mismatch() if self.problem.l1_ratio else center)
            if self._catalyst is not None and self._epochs % _OUTER == 0:
                self._move_center(self._catalyst, blocks, center)
            self._checks.note(self._estimate, self._best.bound, calls / self.problem.n_sequences)
            if self._checks.is_due or (self._epochs == _FIRST_CHECK and not self._started):
                self._renew()
            yield self._state()

    def confirm(self, *, moving: bool = True) -> State:
        """Recompute P and D at the current point; what the next steps use stays as it is."""
        found, best = self._pass(self._w, moving), self._best
        best.recompute(best.primal, best.point, max(best.bound, found.bound))
        self._estimate = found.primal - found.bound
        return self._state()

    def _renew(self) -> None:
        """A full pass; steps continue from its gaps and from w without old rounding."""
        found = self._pass(self._w)
        self._checks.made(found.primal, found.bound, calibrates=self._epochs > _FIRST_CHECK)
        self._gaps, self._entropy = found.gaps, found.entropy
        self._raw, self._w = self._point_of(found.features)
        self._estimate = found.primal - found.bound

    def _pass(self, w: Array, moving: bool = True) -> Check:
        """A full pass, whose point and bound are kept if they are better."""
        found = self.problem.check(w, self._blocks)
        self._calls += self._cost * self.problem.n_sequences
        if moving:
            self._best.offer(found.primal, w)
        self._best.raise_bound(found.bound)
        return found

    def _epoch(self) -> int:
        """As many steps as there are sequences; how often marginals were computed."""
        n, calls = self.problem.n_sequences, 0
        size = max(-(-n // _DRAWS), _FEWEST)
        of_steps = self._kappa, self._w, self._raw, self._gaps, self._memory
        for first in range(0, n, size):
            order = self._draw(min(size, n - first))
            calls += self.problem.steps(self._blocks, order, *of_steps)
        self._calls += calls
        self._epochs += 1
        return calls

    def _draw(self, count: int) -> NDArray[np.int64]:
        """The next blocks, by the current gaps."""
        n, problem = self.problem.n_sequences, self.problem
        sums = np.cumsum(problem.weights * self._gaps if self._adaptive else self._importance)
        uniform = self._random.integers(0, n, count)
        if not sums[-1] > 0.0:
            return uniform
        drawn = np.searchsorted(sums, self._random.random(count) * sums[-1], side="right")
        return np.where(self._random.random(count) < self._share, np.minimum(drawn, n - 1), uniform)

    def _point_of(self, features: Array) -> tuple[Array, Array]:
        """Raw weights of a dual point, in the memory of its features, and w.

        Both are the same array without L1.
        """
        strength, l1 = self.problem.penalty.ridge + self._kappa, self.problem.penalty.l1
        if self._kappa:
            features += self._kappa * self._center
        features /= strength
        if not l1:
            return features, features
        return features, features - np.clip(features, -l1 / strength, l1 / strength)

    def _first_catalyst(self, accelerated: bool) -> Catalyst | None:
        """The first strength of a proximal term, minus the ridge; None if that is strong enough.

        Near that limit it took from two thirds to as many epochs as without, on three sets.
        """
        problem, ridge = self.problem, self.problem.penalty.ridge
        if not accelerated and ridge:
            return None
        curvature = float(problem.weights**2 @ (problem.squared_norms() + _PAIRS))
        kappa = first_kappa(ridge, curvature, _STRENGTH)
        return Catalyst(self._momentum_ridge, kappa, passes=_OUTER) if kappa > 0.0 else None

    def _move_center(self, catalyst: Catalyst, blocks: float, center: float) -> None:
        """Adapt kappa to the parts of the gap, move z to w and a step beyond it, and adapt w."""
        features, w = self._features(), self._w.copy()
        catalyst.adapt(blocks, center)
        z = w - self._last
        z *= catalyst.momentum
        z += w
        self._last, self._center = w, z
        self._raw, self._w = self._point_of(features)

    @property
    def _kappa(self) -> float:
        return 0.0 if self._catalyst is None else self._catalyst.kappa

    @property
    def _momentum_ridge(self) -> float:
        """The ridge, or its replacement if it is small or 0."""
        return max(self.problem.penalty.ridge, _LEAST_RIDGE * self.problem.reg_lambda)

    def _center_distance(self) -> float:
        """``reg_lambda/2 ||w - w_d||^2``, with the ridge or its replacement."""
        if not self._kappa:
            return 0.0
        away = self._w - self._center
        return 0.5 * (self._kappa * self._kappa) / self._momentum_ridge * float(away @ away)

    def _mismatch(self) -> float:
        """The gap's part with L1: of w and the blocks' features, by the penalty and its conjugate.

        Since the dual at the blocks is that of a mixture with the truth, it may be negative.
        """
        penalty, features = self.problem.penalty, self._features()
        own = penalty.value(self._w) - float(self._w @ features)
        return own + self._entropy - penalty.bound(features, self._entropy)[0]

    def _features(self) -> Array:
        """Features of the blocks, true minus expected ones, from the raw weights."""
        features = (self.problem.penalty.ridge + self._kappa) * self._raw
        if self._kappa:
            features -= self._kappa * self._center
        return features

    def _state(self) -> State:
        """The best point and the best bound."""
        passes = self._calls // self.problem.n_sequences
        return self._best.state(self._best.point, None, passes, None, (self._estimate,))


class ChainAutoSolver:
    """Begins with exponentiated gradient, and switches to L-BFGS if the gap falls too slowly.

    With a small reg_lambda the dual steps are accelerated. L-BFGS takes over, from the point
    reached, if more than 100 further epochs would be needed, or 300 accelerated ones. Sequences
    that share features move the same weights: the more strongly they are coupled, and the weaker
    the regularization, the shorter the steps in the dual. This shows after a few epochs.

    Parameters
    ----------
    dual : DualSolver
    tol : float
    """

    history_fields: ClassVar[tuple] = DualSolver.history_fields

    def __init__(self, dual: DualSolver, tol: float):
        self._current: DualSolver | LBFGSSolver = dual
        self._tol = tol
        self._cost = _LBFGS_OR_ACCELERATED if dual.accelerated else _LBFGS  # of L-BFGS, in epochs
        self._logs: list[float] = []  # of the gap after each epoch
        self._slow_for = 0  # judgments in a row

    def attach(self, problem: ChainProblem) -> None:
        """Attach the current solver."""
        self._current.attach(problem)

    def detach(self) -> None:
        """Detach the current solver."""
        self._current.detach()

    @property
    def name(self) -> str:
        """The name of the current solver."""
        return self._current.name

    @property
    def kept(self) -> tuple[Blocks, Array, float] | Array:
        """Where the next fit can start."""
        return self._current.kept

    def states(self) -> Iterator[State]:
        """One state per epoch, or per L-BFGS iterations that take as long."""
        if isinstance(self._current, DualSolver):
            yield from self._epochs(self._current)
            problem, best = self._current.problem, self._current.confirm()  # at worst w = 0
            self._current = LBFGSSolver(problem, best.point, LBFGS_ITERATIONS, best)
        yield from self._current.states()

    def _epochs(self, dual: DualSolver) -> Iterator[State]:
        """Epochs, as long as they pay."""
        few = dual.problem.n_parameters <= _MOST_PARAMETERS
        if self._slow_for >= _JUDGMENTS:
            return
        for state in dual.states():
            estimate, bound = state.further[0], state.lower_bound
            # Relative to the bound: while the bound is a small share of P, the gap relative to P is
            # near 1 and hardly moves, though the bound rises by the same factor every few epochs.
            known = max(bound, _LEAST_KNOWN * (bound + estimate), TINY)
            self._logs.append(log(max(estimate / known, TINY)))
            slower = few and len(self._logs) >= _JUDGED_FROM * self._cost
            slower = slower and self._remaining() > self._cost
            self._slow_for = self._slow_for + 1 if slower else 0
            yield state
            if self._slow_for >= _JUDGMENTS:
                return

    def _remaining(self) -> float:
        """Epochs until the gap is ``tol``, at the rate of the later half of those so far."""
        logs, half = self._logs, (len(self._logs) - 1) // 2
        fall, to_fall = logs[half] - logs[-1], logs[-1] - log(self._tol)
        if to_fall <= 0.0:
            return 0.0
        return to_fall * (len(logs) - 1 - half) / fall if fall > 0.0 else inf

    def confirm(self, *, moving: bool = True) -> State:
        """Best point and bound, recomputed."""
        return self._current.confirm(moving=moving)
