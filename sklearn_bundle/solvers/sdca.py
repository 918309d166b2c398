"""Stochastic dual coordinate ascent for chain CRFs, with gap sampling."""

from collections.abc import Iterator
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle._compiled.chain_dual import Blocks
from sklearn_bundle._compiled.sampling import Sampling, grow
from sklearn_bundle.solvers._certificate import Best
from sklearn_bundle.solvers.asks import DualBlocks
from sklearn_bundle.solvers.contract import Certificate, State

SAMPLINGS = ("uniform", "importance", "gap", "gap-importance", "max")  # see _sampling
_NOTHING = np.empty(0)  # a dual point that was released
_UNKNOWN_GAP = 100.0  # the gap of a block that no step has looked at: the paper's
_SINGLE_TOL = 1e-8  # of a fit; for a smaller one, log-potentials are kept in double precision
_SINGLE_WEIGHTS_TOL = 1e-6  # of a fit; for a smaller one, w is in double precision, too
_LARGEST_SINGLE = 1e30  # an entry of w in single precision: float32 has room for its products
_SINGLE_PRECISION = 1e-6  # of a gain's terms, if w is in single precision: 16 of its roundings


class DualSolver:
    """Algorithm 2 of Le Priol et al., or exponentiated gradient on the same dual.

    There is one state per epoch of as many steps as there are sequences. Its bound is the dual as
    the steps have raised it. Its point is the best that a full pass has looked at, w = 0 before the
    first, and its objective is P there. Such a pass is made where the gaps of the blocks, each as
    of its last step, say that ``tol`` is reached. The pass computes a point of its own, which is
    not copied: the steps go on from another w.

    Parameters
    ----------
    problem : DualBlocks
    potentials : bool
        Whether blocks are kept as log-potentials (exponentiated gradient) or as marginals (SDCA).
    sampling : str
        One of ``SAMPLINGS``.
    nonuniformity : float
        Share of the steps that sample so; the others take any block.
    precision : float
        Of the line search of SDCA.
    tol : float
    seed : int
    kept : Blocks or None
        Dual point to start from.
    """

    history_fields: ClassVar[tuple] = (("estimate", np.float64),)

    def __init__(
        self,
        problem: DualBlocks,
        *,
        potentials: bool,
        sampling: str,
        nonuniformity: float,
        precision: float,
        tol: float,
        seed: int,
        kept: Blocks | None = None,
    ):
        self.problem = problem
        self.name = "exponentiated" if potentials else "sdca"
        self._tol = tol
        dtype = np.float32 if potentials and tol >= _SINGLE_TOL else np.float64
        self._started = kept is not None
        if kept is None:
            kept = problem.start(potentials, dtype)
        elif dtype == np.float64:
            nodes, pairs = kept.nodes.astype(dtype), kept.pairs.astype(dtype)
            kept = kept._replace(nodes=nodes, pairs=pairs)
        self.kept = kept
        self._memory = problem.squared_norms() + 2.0 if potentials else precision
        self._sampling = _sampling(problem, sampling, nonuniformity, seed)
        self._gaps = np.full(problem.n_sequences, _UNKNOWN_GAP)
        self._grow()
        self._single_weights = tol >= _SINGLE_WEIGHTS_TOL
        self._renew()
        self._calls = problem.n_sequences * potentials
        self._best = Best(least=0.0)
        self._best.offer(problem.at_zero, np.zeros(problem.n_parameters))
        self._proved = 0.0  # the highest bound that was computed afresh
        self._confirmed: State | None = None

    def attach(self, problem: DualBlocks) -> None:
        """Go on with the same problem in another object; a fit that is done already says so."""
        self.problem = problem
        self._calls, self._confirmed = 0, None
        self._started = self._state(0.0).relative_gap <= self._tol

    def detach(self) -> None:
        """Let go of the problem."""
        self.problem = None

    def release(self) -> None:
        """Give the memory of the dual point back."""
        self.kept = self.kept._replace(nodes=_NOTHING, pairs=_NOTHING)

    def states(self) -> Iterator[State]:
        """An epoch each; where there was a start, it comes first."""
        problem = self.problem
        if self._started:
            yield self.confirm()
        while True:
            self._confirmed = None
            gained, calls, of_numbers = problem.steps(
                *(self.kept, self._w, self._gaps, self._memory),
                *(self._sampling, problem.n_sequences),
            )
            self._dual += gained
            self._doubt += self._precision * of_numbers
            self._calls += calls
            estimate = float(problem.weights @ self._gaps)
            if Certificate(self._dual + estimate, self._dual).relative_gap <= self._tol:
                yield self.confirm()
            else:
                self._best.prove(self._dual - self._doubt)
                yield self._state(estimate)

    def confirm(self, *, moving: bool = True) -> State:
        """w afresh from the dual point, P and D at it, and the gaps of all blocks.

        D is known twice: from w and the entropies, and as P less the gaps. The one that rounding
        leaves the higher bound counts.
        """
        if self._confirmed is not None:
            return self._confirmed
        problem = self.problem
        w = self._renew()
        primal, self._gaps, margin = problem.gaps(w, self.kept)
        estimate = float(problem.weights @ self._gaps)
        if not primal - estimate - margin < self._dual - self._doubt:
            self._dual, self._doubt = primal - estimate, margin
        self._calls += (3 if self.kept.potentials else 1) * problem.n_sequences
        self._grow()
        best = self._best
        if moving:
            best.offer(primal, w)
        best.renew(best.primal, best.point, max(self._proved, self._dual - self._doubt))
        self._proved = best.bound
        self._confirmed = self._state(estimate)
        return self._confirmed

    @property
    def _passes(self) -> int:
        return self._calls // self.problem.n_sequences

    def _renew(self) -> NDArray[np.float64]:
        """w and D of the dual point; steps go on from a copy of w, whose rounding this removes."""
        w, self._dual, self._doubt = self.problem.weights_of(self.kept)
        single = self._single_weights and np.abs(w).max() < _LARGEST_SINGLE
        self._w = w.astype(np.float32 if single else np.float64)
        self._precision = _SINGLE_PRECISION if single else self.problem.of_gains
        return w

    def _state(self, estimate: float) -> State:
        """The best point and the best bound."""
        return self._best.state(self._best.point, None, self._passes, None, (estimate,))

    def _grow(self) -> None:
        """The tree of the sampling, from the gaps as they stand."""
        sampling = self._sampling
        n, half = sampling.n, len(sampling.tree) // 2
        leaves = self.problem.weights * self._gaps if sampling.adaptive else 1.0
        sampling.tree[half : half + n] = leaves * sampling.factors
        grow(sampling.tree, sampling.largest)


def _sampling(problem: DualBlocks, name: str, nonuniformity: float, seed: int) -> Sampling:
    """Leaves for each block; with "importance", its ``L_i``."""
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
