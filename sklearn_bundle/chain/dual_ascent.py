"""Dual ascent for chain CRFs with gap sampling, and L-BFGS where that would take too long."""

from collections.abc import Iterator
from math import inf, log
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.chain._compiled.chain_dual import Blocks
from sklearn_bundle.chain.penalty import shrunk
from sklearn_bundle.chain.problem import ChainProblem
from sklearn_bundle.core.certificate import Best
from sklearn_bundle.core.contract import ABSENT, State
from sklearn_bundle.core.dual_methods import Catalyst, Checks, first_kappa
from sklearn_bundle.core.lbfgs import LBFGSSolver
from sklearn_bundle.core.limits import TINY
from sklearn_bundle.jit.sampling import Sampling, grow

SAMPLINGS = ("uniform", "importance", "gap", "gap-importance", "max")  # see _sampling
_NOTHING = np.empty(0)  # a dual point that was released
_UNKNOWN_GAP = 100.0  # the gap of a block that no step has visited: the paper's value
# Of a fit with log-potentials: these and w are in single precision, for a smaller tol in double.
# Both at once, since each pair of precisions is compiled on its own. Steps on marginals always use
# double precision: single would save 0 to 4 % of their time.
_SINGLE_TOL = 1e-6
_LARGEST_SINGLE = 1e30  # an entry of w in single precision: float32 can hold its products
_SINGLE_PRECISION = 1e-6  # of a gain's terms, if w is in single precision: 16 of its roundings
# Times reg_lambda: the smallest ridge from which momentum and kappa are computed. Without ridge the
# momentum would be 1, with which the gap oscillates. From .1 to .3 pure L1 took the same time on
# Dutch NER and CoNLL-2000, to within a quarter.
_LEAST_RIDGE = 0.2
_SHARES_OF_W = 1.0, 0.3, 0.1  # multiples of w tried as a first center: a full pass each
# The first ridge + kappa, over the mean curvature of a block. With 0.02 CRFs of 400 sentences of
# CoNLL-2000 took a third more passes; with 0.05 up to twice as many.
_STRENGTH = 0.01
_OUTER = 3  # epochs between two moves of the center: the result of a trial
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

    There is one state per epoch of as many steps as there are sequences. Its bound is the dual as
    raised by the steps or, with acceleration, as of the last full pass. Its point is the best that
    a full pass has evaluated, w = 0 before the first, and its objective is P there. A full pass is
    made when the gaps of the blocks, each as of its last step, say that ``tol`` is reached. The
    pass computes its own point, which is not copied: the steps continue from another w. Earlier
    passes are made at a given start or else after two epochs, and then as many as take a tenth of
    the work.

    With acceleration the steps are those of P with a proximal term ``kappa/2 ||w - z||^2``, whose
    center z moves after every third epoch, with momentum (Catalyst: Lin, Mairal and Harchaoui,
    2015, algorithm 1). The dual variables stay feasible for P, which has the dual value D at them,
    ``P(w) - D = sum_i s_i KL_i + kappa^2 / (2 reg_lambda) ||w - z||^2`` at the point w of the
    steps. A pass computes P there, and D from the dual variables alone.

    With L1 the steps are those of proximal SDCA (Shalev-Shwartz and Zhang, 2014): the sums of
    features, over ridge plus kappa, are raw weights, and w is these with each entry moved towards
    0. D is then known only from full passes, as with acceleration. Without ridge there is always a
    proximal term, since the features of a dual point alone do not determine w.

    Parameters
    ----------
    problem : ChainProblem
    potentials : bool
        Whether blocks are kept as log-potentials (exponentiated gradient) or as marginals (SDCA).
    sampling : str
        One of ``SAMPLINGS``.
    nonuniformity : float
        Share of the steps with this sampling; the others choose any block uniformly.
    precision : float
        Of the line search of SDCA.
    tol : float
    seed : int
    kept : Blocks or None
        Dual point to start from.
    accelerated : bool
        Whether to use a proximal term if ``reg_lambda`` is small compared with a block's curvature.
    near : bool
        Whether ``kept`` was extrapolated to this ``reg_lambda``: then no proximal term is used.
    """

    history_fields: ClassVar[tuple] = (("estimate", np.float64),)

    def __init__(
        self,
        problem: ChainProblem,
        *,
        potentials: bool,
        sampling: str,
        nonuniformity: float,
        precision: float,
        tol: float,
        seed: int,
        kept: Blocks | None = None,
        accelerated: bool = False,
        near: bool = False,
    ):
        self.problem = problem
        self.name = "exponentiated" if potentials else "sdca"
        self._tol, self._cost = tol, 3 if potentials else 1  # of a full pass, in calls a sequence
        self._checks = Checks(tol, self._cost)
        self._single = potentials and tol >= _SINGLE_TOL
        dtype = np.float32 if self._single else np.float64
        if kept is None and problem.l1_ratio:
            kept = _if_zero_is_optimal(problem, potentials, dtype, tol)
        self._started = kept is not None
        self.kept = problem.start(potentials, dtype) if kept is None else kept
        if self.kept.nodes.dtype != dtype:
            self._use_double_precision()
        self._memory = problem.squared_norms() + 2.0 if potentials else precision
        self._sampling = _sampling(problem, sampling, nonuniformity, seed)
        self._gaps = np.full(problem.n_sequences, _UNKNOWN_GAP)
        self._build_tree()
        self._catalyst: Catalyst | None = None
        self._center = self._last = _NOTHING
        self._fresh: NDArray[np.float64] | None = None  # w in double precision, until steps move it
        self._epochs = 0
        self._entropy = 0.0  # of the blocks at the last full pass; used only with L1
        if not problem.penalty.ridge:
            self._center = np.zeros(problem.n_parameters)
            self._catalyst = self._first_catalyst()
        self._fresh = self._renew()
        if (accelerated and not near) or self._catalyst is not None:
            self._use_proximal_term()
        self._calls = problem.n_sequences * potentials
        self._best = Best(least=0.0)
        self._best.offer(problem.at_zero, np.zeros(problem.n_parameters), is_free=True)
        self._proved = 0.0  # the highest bound that was recomputed
        self._confirmed: State | None = None

    def attach(self, problem: ChainProblem) -> None:
        """Continue with the same problem in another object; a finished fit stays finished."""
        self.problem = problem
        self._calls, self._confirmed = 0, None
        self._started = self._state(0.0).relative_gap <= self._tol

    def detach(self) -> None:
        """Release the problem."""
        self.problem = ABSENT

    @property
    def accelerated(self) -> bool:
        """Whether there is a proximal term."""
        return self._catalyst is not None

    def release(self) -> None:
        """Free the memory of the dual point."""
        self.kept = self.kept._replace(nodes=_NOTHING, pairs=_NOTHING)

    def states(self) -> Iterator[State]:
        """One state per epoch; a given start comes first."""
        problem = self.problem
        passed = self._started and not self._kappa  # a first full pass, at the start itself
        if self._started:
            yield self.confirm()
        while True:
            self._confirmed = self._fresh = None
            gained, calls, of_numbers = problem.epoch(
                self.kept, self._w, self._raw, self._gaps, self._memory, self._sampling, self._kappa
            )
            self._calls += calls
            self._epochs += 1
            estimate = float(problem.weights @ self._gaps)
            if self._dual_known:
                self._dual += gained
                self._bound_error += self._precision * of_numbers
                self._best.raise_bound(self._dual - self._bound_error)
            else:
                estimate += self._center_gap()
                if self._catalyst is not None and self._epochs % _OUTER == 0:
                    self._move_center(self._catalyst)
            known = self._dual if self._dual_known else self._best.bound
            self._checks.note(estimate, known, calls / problem.n_sequences)
            if (self._epochs == _FIRST_CHECK and not passed) or self._checks.is_due:
                yield self._check()
            else:
                yield self._state(estimate)

    def confirm(self, *, moving: bool = True) -> State:
        """Recompute w from the dual point, P and D at it, and the gaps of all blocks.

        D is computed twice: from w and the entropies, and as P minus the gaps. The higher bound
        after rounding counts.

        With acceleration, all that the next steps use stays as it is: a fit that ends here and
        continues takes the steps of one that does not end.
        """
        return self._check(moving=moving, due=not self._kappa)

    def _check(self, *, moving: bool = True, due: bool = True) -> State:
        if self._confirmed is not None:
            return self._confirmed
        problem, of_steps = self.problem, (self._w, self._raw, self._precision)
        w = self._renew() if self._fresh is None else self._fresh
        primal, gaps, margin = problem.gaps(w, self.kept)
        estimate = float(problem.weights @ gaps)
        if not self._dual_known:
            if problem.l1_ratio:
                # P minus the divergences is Omega(w) - <w, features> plus the entropy.
                self._entropy = primal - estimate - problem.penalty.lagrangian(w, self._features())
            estimate += self._center_gap()
        elif not primal - estimate - margin < self._dual - self._bound_error:
            self._dual, self._bound_error = primal - estimate, margin
        self._calls += self._cost * problem.n_sequences
        if due:
            known = self._epochs > _FIRST_CHECK
            self._checks.made(primal, primal - estimate, calibrates=known)
            self._gaps = gaps
            self._build_tree()
        else:
            self._w, self._raw, self._precision = of_steps
        best = self._best
        if moving:
            best.offer(primal, w, is_free=True)
        best.recompute(best.primal, best.point, max(self._proved, self._dual - self._bound_error))
        self._proved = best.bound
        self._confirmed = self._state(estimate)
        return self._confirmed

    @property
    def _dual_known(self) -> bool:
        """Whether the dual is known after each step, from the gains of the steps."""
        return not (self._kappa or self.problem.l1_ratio)

    @property
    def _passes(self) -> int:
        return self._calls // self.problem.n_sequences

    def _renew(self) -> NDArray[np.float64]:
        """w and D of the dual point; steps continue from a copy of this w, without old rounding.

        With a proximal term w is that of the problem with the term, and D still that of P.
        """
        problem = self.problem
        raw, self._dual, self._bound_error = problem.weights_of(self.kept)
        strength = problem.penalty.ridge + self._kappa
        if strength != problem.reg_lambda:
            raw *= problem.reg_lambda / strength
        if self._kappa:
            raw += self._kappa / strength * self._center
        if self._single and not np.abs(raw).max() < _LARGEST_SINGLE:
            self._use_double_precision()
        self._raw = raw.astype(np.float32 if self._single else np.float64)
        self._precision = _SINGLE_PRECISION if self._single else problem.of_gains
        self._w = self._shrunk(self._raw)
        return self._shrunk(raw)

    def _use_double_precision(self) -> None:
        """Of the dual point and of w: a smaller tol, a large w, or a point that has it already."""
        self._single = False
        nodes, pairs = (part.astype(np.float64, copy=False) for part in self.kept[1:])
        self.kept = self.kept._replace(nodes=nodes, pairs=pairs)

    def _shrunk(self, raw: NDArray) -> NDArray:
        """The point w of raw weights: the raw weights themselves without L1."""
        penalty = self.problem.penalty
        return shrunk(raw, penalty.l1 / (penalty.ridge + self._kappa)) if penalty.l1 else raw

    def _use_proximal_term(self) -> None:
        """Use a proximal term from now on, unless the ridge is strong enough by itself.

        Near that limit it took from two thirds to as many epochs as without, on three sets.

        Its center is 0 at first, since the w of the first dual point grows as reg_lambda falls. For
        a kept dual point it is near the w of that point or, if that had another reg_lambda, near
        its w with that one: the multiple of w where P is lowest.
        """
        catalyst = self._first_catalyst()
        if catalyst.kappa > 0.0:
            self._catalyst = catalyst
            self._center = self._best_multiple() if self._started else np.zeros_like(self._w)
            self._last = self._center.copy()
            self._fresh = self._renew()

    def _first_catalyst(self) -> Catalyst:
        """The first strength of a proximal term, minus the ridge."""
        problem = self.problem
        curvature = float(problem.weights @ (problem.weights * (problem.squared_norms() + 2.0)))
        kappa = first_kappa(problem.penalty.ridge, curvature, _STRENGTH)
        return Catalyst(self._momentum_ridge, kappa, passes=_OUTER)

    def _best_multiple(self) -> NDArray[np.float64]:
        """The multiple of w where P is lowest, among a few that include 0."""
        problem, lowest, share = self.problem, self.problem.at_zero, 0.0
        for tried in _SHARES_OF_W:
            primal, _, _ = problem.gaps(tried * self._w.astype(np.float64), self.kept)
            if primal < lowest:
                lowest, share = primal, tried
        return self._w * self._w.dtype.type(share)

    def _move_center(self, catalyst: Catalyst) -> None:
        """Adapt kappa, move z to w and a step beyond it, and adapt w to both."""
        ridge, kappa = self.problem.penalty.ridge, catalyst.kappa
        blocks = float(self.problem.weights @ self._gaps)
        catalyst.adapt(blocks, self._center_distance())
        new = catalyst.kappa
        z = self._w + catalyst.momentum * (self._w - self._last)
        self._last = self._w.copy()
        self._raw *= (ridge + kappa) / (ridge + new)
        self._raw += (new * z - kappa * self._center) / (ridge + new)
        self._center = z
        self._w = self._shrunk(self._raw)

    @property
    def _kappa(self) -> float:
        return 0.0 if self._catalyst is None else self._catalyst.kappa

    @property
    def _momentum_ridge(self) -> float:
        """The ridge, or its replacement if it is small or 0."""
        return max(self.problem.penalty.ridge, _LEAST_RIDGE * self.problem.reg_lambda)

    def _center_distance(self) -> float:
        """``reg_lambda/2 ||w - w_d||^2``, with the ridge or its replacement."""
        away = (self._w - self._center).astype(np.float64)
        squared = float(away @ away)
        if not squared:
            return 0.0
        return 0.5 * (self._kappa * self._kappa) / self._momentum_ridge * squared

    def _center_gap(self) -> float:
        """The center's part of the gap.

        With L1 it is the mismatch of w and the blocks' features, measured by the penalty and its
        conjugate. Since the dual at the blocks is that of a mixture with the truth, it may be
        negative.
        """
        if not self.problem.l1_ratio:
            return self._center_distance()
        penalty = self.problem.penalty
        features = self._features()
        own = penalty.lagrangian(self._w, features)
        return own + self._entropy - penalty.mixed(features, self._entropy)

    def _features(self) -> NDArray:
        """Features of the blocks, true minus expected ones, from the raw weights."""
        features = (self.problem.penalty.ridge + self._kappa) * self._raw
        if self._kappa:
            features -= self._kappa * self._center
        return features

    def _state(self, estimate: float) -> State:
        """The best point and the best bound."""
        return self._best.state(self._best.point, None, self._passes, None, (estimate,))

    def _build_tree(self) -> None:
        """Build the tree of the sampling from the current gaps."""
        sampling = self._sampling
        n, half = sampling.n, len(sampling.tree) // 2
        leaves = self.problem.weights * self._gaps if sampling.adaptive else 1.0
        sampling.tree[half : half + n] = leaves * sampling.factors
        grow(sampling.tree, sampling.largest)


def _if_zero_is_optimal(
    problem: ChainProblem, potentials: bool, dtype: type, tol: float
) -> Blocks | None:
    """The dual point of w = 0, if that is optimal: all labels equally likely."""
    blocks = problem.start(potentials, dtype, 1.0)
    _, dual, error = problem.weights_of(blocks)
    return blocks if problem.at_zero - (dual - error) <= tol * problem.at_zero else None


def _sampling(problem: ChainProblem, name: str, nonuniformity: float, seed: int) -> Sampling:
    """The sampling, with a leaf per block; with "importance", its ``L_i``."""
    n = problem.n_sequences
    factors = np.ones(n)
    if name in ("importance", "gap-importance"):
        factors = problem.reg_lambda + problem.radii() * problem.weights
    size = 1 << max(1, (n - 1).bit_length())
    return Sampling(
        n=n,
        share=0.0 if name == "uniform" else float(nonuniformity),
        largest=name == "max",
        adaptive=name in ("gap", "gap-importance", "max"),
        tree=np.zeros(2 * size),
        factors=factors,
        state=np.array([seed], np.uint64),
    )


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
        self._dual, self._tol = dual, tol
        self._lbfgs: LBFGSSolver | None = None
        self._cost = _LBFGS_OR_ACCELERATED if dual.accelerated else _LBFGS  # of L-BFGS, in epochs
        self._logs: list[float] = []  # of the gap after each epoch
        self._slow_for = 0  # judgments in a row

    def attach(self, problem: ChainProblem) -> None:
        """Attach the current solver."""
        (self._lbfgs or self._dual).attach(problem)

    def detach(self) -> None:
        """Detach the current solver."""
        (self._lbfgs or self._dual).detach()

    @property
    def name(self) -> str:
        """The name of the current solver."""
        return "exponentiated" if self._lbfgs is None else "lbfgs"

    @property
    def kept(self) -> Blocks | NDArray[np.float64]:
        """Where the next fit can start."""
        return self._dual.kept if self._lbfgs is None else self._lbfgs.kept

    def states(self) -> Iterator[State]:
        """One state per epoch, or per L-BFGS iterations that take as long."""
        if self._lbfgs is None:
            yield from self._epochs()
            best = self._dual.confirm()  # at worst w = 0
            self._lbfgs = LBFGSSolver(self._dual.problem, best.point, LBFGS_ITERATIONS, best)
            self._dual.release()
            self._dual.detach()
        yield from self._lbfgs.states()

    def _epochs(self) -> Iterator[State]:
        """Epochs, as long as they pay."""
        few = self._dual.problem.n_parameters <= _MOST_PARAMETERS
        if self._slow_for >= _JUDGMENTS:
            return
        for state in self._dual.states():
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
        return (self._lbfgs or self._dual).confirm(moving=moving)
