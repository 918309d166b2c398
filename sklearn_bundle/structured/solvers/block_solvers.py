"""Solvers by blocks: block-coordinate Frank-Wolfe, and restricted simplicial decomposition.

Both move the same dual point, certify it by checks on all examples, and differ in the schedule.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.certificate import Best
from sklearn_bundle.core.contract import ABSENT, State
from sklearn_bundle.core.dual_methods import Catalyst, Checks, Idling, first_kappa
from sklearn_bundle.jit.sampling import Sampling, grow
from sklearn_bundle.structured.models.examples import Found
from sklearn_bundle.structured.problems.structured import (
    LikelihoodProblem,
    StructuredProblem,
    StructuredRisk,
)
from sklearn_bundle.structured.solvers.blocks import BlockDual, Check, KeptOutputs

_IDLE = 40  # checks in a row that change nothing: then only rounding is left
_SETTLED = 3  # checks in a row after which a solver cannot close the rest of the gap

# Of block-coordinate Frank-Wolfe.
_GAP_SHARE = 0.8  # share of the steps that are drawn by gaps, as in the CRF's dual ascent
_PATIENCE = 30  # visits without weight after which an output is dropped: 10 are too few on CoNLL
_CACHED_PASSES = 5  # most passes after one of the oracle: more would overfit the kept outputs
# The first reg_lambda + kappa, over the mean curvature of a block. With 0.01 matchings took 15 %
# more passes, and 1,500 letters four times as many.
_STRENGTH = 0.05
# Of what the center allows: 0.4 in the fastest runs, 0.2 with a useless kappa. Without this rule
# fits took up to four times as long; with it pure L1 on chains does not converge.
_LEAST_RATE = 0.3
_SLOWER = 4.0  # time of an entry in steps on all examples together, over one in the others
_LONGEST_PAUSE = 15  # iterations without steps on all examples together, which gained too little
_FRUITLESS = 8  # checks in a row without a smaller gap after which acceleration ends

# Of restricted simplicial decomposition.
_SIMPLEX_PATIENCE = 100  # passes of a master problem without weight after which a point is dropped
_MASTER_SHARE = 0.1  # the master problem is solved to this share of the gap
_MASTER_PASSES = 20  # most passes: a master problem that needs more waits for further points
_WORKING_SHARE = 0.1  # of the examples in a working set


class BlockSolver(ABC):
    """A method that moves a :class:`BlockDual`, and now and then checks it on all examples.

    With an inexact oracle it ends when the gap is within ``tol``, judged by the scores of the
    outputs found. The rest of the gap lies between these scores and their bounds, and further
    outputs do not close it.

    Parameters
    ----------
    problem : StructuredProblem
    tol : float
    n_cached_outputs : int or None
        Outputs kept per example in addition to the true one, at least 2. None is 48, or more if
        these all have weight, as long as they take up less than 1 GB.
    kept : KeptOutputs
        From a solver of the same problem; reg_lambda may differ.
    patience : int
        Visits without weight after which an output is dropped.
    """

    history_fields: ClassVar[tuple] = (("oracle_calls", np.int64), ("estimate", np.float64))

    def __init__(
        self,
        problem: Any,
        tol: float,
        n_cached_outputs: int | None,
        kept: KeptOutputs | None,
        patience: int,
    ):
        if kept is None:
            kept = KeptOutputs(problem.n_examples, n_cached_outputs, problem.squared)
        self._tol = tol
        self._dual = BlockDual(problem, kept, patience)
        self._best = Best(least=0.0)
        self._idling = Idling(_IDLE)
        self._settled = 0  # checks in a row at the optimum over what an inexact oracle finds
        self._moved = True  # whether there were steps since the last check

    @property
    def problem(self) -> Any:
        """The problem being solved."""
        return self._dual.problem

    @property
    def kept(self) -> Any:
        """Where a new solver may start."""
        return self._dual.outputs

    def attach(self, problem: Any) -> None:
        """Continue with the same problem in another object."""
        self._dual.problem = problem

    def detach(self) -> None:
        """Release the problem."""
        self._dual.problem = ABSENT

    def states(self) -> Iterator[State]:
        """One state per iteration, or one without an iteration if the start is within ``tol``."""
        if self._best.point is None:
            self._check()
            if self._state().relative_gap <= self._tol:
                yield self._state()
        while not self._idling.enough and self._settled < _SETTLED:
            self._moved = True
            self._iterate()
            yield self._state()

    def confirm(self, *, moving: bool = True) -> State:
        """Best point and bound, both from a check of the current point, if the solver moved."""
        if self._moved:
            if moving:
                self._check()
            else:
                self._best.raise_bound(self._dual.refresh())
        return self._state()

    @abstractmethod
    def _iterate(self) -> None:
        """Take steps, and check if the method calls for it."""

    def _check(self) -> Check:
        """Check objective, bound and gaps at the current point; outputs for all examples (9)."""
        check = self._dual.check()
        if self._best.offer(check.primal, check.w):
            self._best.point = check.w.copy()
        self._best.raise_bound(check.lower_bound)
        self._idling.note(self._best, check.gained)
        inexact = not self.problem.examples.exact
        closed = inexact and self._estimate() <= self._tol * abs(check.primal)
        self._settled = self._settled + 1 if closed else 0
        self._moved = False
        return check

    def _estimate(self) -> float:
        """The duality gap, estimated from the gaps of the blocks as last seen."""
        return self._dual.estimate + self._dual.distance()

    def _state(self) -> State:
        problem = self.problem
        further = problem.oracle_calls, self._estimate()
        state = self._best.state(self._best.point, None, problem.passes, None, further)
        return problem.with_errors(state)


class BlockCoordinateSolver(BlockSolver):
    """Steps on one example at a time, each exact over the outputs that were found for it.

    Block-coordinate Frank-Wolfe [1]_, with gap sampling and passes over kept outputs between those
    of the oracle [2]_. An iteration is one pass of the oracle, in steps, followed by passes over
    kept outputs as long as these gain more per entry that they read than the oracle's pass did.
    Acceleration is a proximal term with a moving center ([3]_, :class:`~.catalyst.Catalyst`), in
    the same steps. With reg_lambda = 10/n, 1/n and 0.1/n its strength is about 25/n, 4/n to 15/n
    and 3/n on the letters of OCR, as large as the best fixed values, and 3/n to 9/n on CoNLL-2000
    at 1/n.

    The primal is known only after checks, passes of the oracle at one w. They take place every
    tenth iteration, and when the gaps of the examples, each as last seen, say that ``tol`` is
    reached.

    Parameters
    ----------
    problem, tol, n_cached_outputs, kept
        See :class:`BlockSolver`.
    seed : int
    sampling : {"gap", "uniform"}
    acceleration : {"auto", "never"}

    References
    ----------
    .. [1] S. Lacoste-Julien, M. Jaggi, M. Schmidt, P. Pletscher: Block-coordinate Frank-Wolfe
       optimization for structural SVMs. ICML 2013.
    .. [2] A. Osokin, J.-B. Alayrac, I. Lukasewitz, P. Dokania, S. Lacoste-Julien: Minding the gaps
       for block Frank-Wolfe optimization of structured SVMs. ICML 2016.
    .. [3] H. Lin, J. Mairal, Z. Harchaoui: A universal catalyst for first-order optimization. NIPS
       2015.
    """

    name = "bcfw"

    def __init__(
        self,
        problem: StructuredProblem,
        *,
        tol: float,
        seed: int,
        n_cached_outputs: int | None = None,
        sampling: Literal["gap", "uniform"] = "gap",
        acceleration: Literal["auto", "never"] = "auto",
        kept: KeptOutputs | None = None,
    ):
        super().__init__(problem, tol, n_cached_outputs, kept, _PATIENCE)
        n = problem.n_examples
        self._accelerated = acceleration == "auto"
        size = 1 << max(1, (n - 1).bit_length())
        self._sampling = Sampling(
            n=n,
            share=_GAP_SHARE if sampling == "gap" else 0.0,
            largest=False,
            adaptive=sampling == "gap",
            tree=np.zeros(2 * size),
            factors=np.ones(n),
            state=np.array([seed], np.uint64),
        )
        self._examples = np.arange(n)
        self._checks = Checks(tol, cost=1.0)  # in passes of the oracle, as iterations
        self._catalyst: Catalyst | None = None  # None before the first check
        self._fruitless = 0  # checks without a smaller gap
        self._rest = self._pause = 0  # iterations until steps on all examples are tried again

    def _iterate(self) -> None:
        self._step()
        self._checks.note(self._estimate(), self._best.bound, 1.0)
        if self._checks.is_due:
            self._check()

    def _step(self) -> None:
        """Take a pass of the oracle in steps, and passes over kept outputs as long as they pay."""
        dual = self._dual
        gained, read = dual.gained, dual.read
        dual.sampled_pass(self._sampling)
        calls = self.problem.n_examples * self.problem.examples.oracle_cost
        rate = (dual.gained - gained) / (dual.read - read + calls)
        examples = self._examples
        for _ in range(_CACHED_PASSES):
            gained, read = dual.gained, dual.read
            examples = examples[::-1].copy()
            dual.cached_pass(examples)
            if dual.gained - gained <= rate * max(dual.read - read, 1.0):
                break
        self._climb(rate)
        catalyst = self._catalyst
        if catalyst is not None:
            catalyst.adapt(dual.estimate, dual.distance())
            dual.recenter(catalyst.kappa, catalyst.momentum)

    def _climb(self, rate: float) -> None:
        """Steps on all examples together, as long as they gain more per entry than this."""
        if self._rest > 0:
            self._rest -= 1
            return
        dual = self._dual
        gained, read = dual.gained, dual.read
        dual.climb(self._examples)
        pays = dual.gained - gained > _SLOWER * rate * max(dual.read - read, 1.0)
        self._pause = 0 if pays else min(2 * self._pause + 1, _LONGEST_PAUSE)
        self._rest = self._pause

    def _accelerate(self) -> None:
        """Add a proximal term if it is of use."""
        self._accelerated = False  # from now on there is a term, or there never will be
        kept, problem = self._dual.outputs.arrays, self.problem
        squares = kept.gram[np.arange(problem.n_examples), kept.count - 1, kept.count - 1]
        curvature = float(problem.weights @ (problem.weights * squares))
        kappa = first_kappa(problem.reg_lambda, curvature, _STRENGTH)
        if kappa > 0.0:
            self._catalyst = Catalyst(problem.reg_lambda, kappa, least_rate=_LEAST_RATE)
            self._dual.recenter(kappa, 0.0)

    def _check(self) -> Check:
        """The same, with its consequences for acceleration and sampling."""
        before = self._best.gap
        check = super()._check()
        # What an inexact oracle misses is in no estimate.
        exact = self.problem.examples.exact
        self._checks.made(check.primal, check.lower_bound, calibrates=exact)
        if self._accelerated:
            self._accelerate()
        self._fruitless = 0 if self._best.gap < before else self._fruitless + 1
        if self._fruitless >= _FRUITLESS and self._catalyst is not None:
            self._catalyst, self._dual.kappa = None, 0.0
            self._dual.refresh()
        sampling = self._sampling
        half = len(sampling.tree) // 2
        leaves = self.problem.weights * self._dual.gaps if sampling.adaptive else 1.0
        sampling.tree[half : half + sampling.n] = leaves
        grow(sampling.tree, sampling.largest)
        return check


class SimplicialSolver(BlockSolver):
    """RSD with a product of simplexes, one for each example, of all examples or of working sets.

    "product": an iteration finds a point for each simplex, (9), and solves the master problem on
    their product. "working-sets": it does so for one working set after the other, until there were
    as many oracle calls as there are examples; a set holds the examples with the largest gaps as
    last seen, each in one set.

    A simplex keeps ``n_cached_outputs`` points. A further one replaces a point without weight; if
    there is none, the two of least weight are merged into their mean, so that the current point
    stays in the simplex (footnote 1 of the paper keeps it as a separate point). With the squared
    hinge simplexes are cones. The master problem is solved by steps on one simplex after the other,
    each nearly exact, and steps on all together.

    Parameters
    ----------
    problem, tol, kept
        See :class:`BlockSolver`.
    variant : {"product", "working-sets"}
    n_cached_outputs : int or None
        The paper's r; see :class:`BlockSolver`.
    """

    def __init__(
        self,
        problem: StructuredProblem,
        *,
        tol: float,
        variant: Literal["product", "working-sets"] = "product",
        n_cached_outputs: int | None = None,
        kept: KeptOutputs | None = None,
    ):
        super().__init__(problem, tol, n_cached_outputs, kept, _SIMPLEX_PATIENCE)
        self.name = "rsd" if variant == "product" else "rsd-working-sets"
        self._variant = variant

    def _iterate(self) -> None:
        if self._variant == "product":
            self._solve_master(np.arange(self.problem.n_examples))
        else:
            self._working_sets()
        self._check()

    def _working_sets(self) -> None:
        order = np.argsort(-self.problem.weights * self._dual.gaps, kind="stable")
        size = max(1, int(_WORKING_SHARE * len(order)))
        for first in range(0, len(order), size):
            working_set = np.sort(order[first : first + size])
            if first > 0:  # the first is at the w of the last check, which covered all
                self._dual.call_oracle(working_set)
            self._solve_master(working_set)

    def _solve_master(self, blocks: NDArray[np.int64]) -> None:
        """Find nearly the best point in the product of the simplexes of these examples."""
        dual, weights = self._dual, self.problem.weights
        enough = _MASTER_SHARE * float(weights[blocks] @ dual.gaps[blocks])
        for _ in range(_MASTER_PASSES):
            blocks = blocks[::-1].copy()
            dual.cached_pass(blocks)
            if dual.cached_gap(blocks) <= enough:
                break
            dual.climb(blocks)


# Cutting planes, or restricted simplicial decomposition with one simplex: the same steps. A plane
# of the risk (BMRM, algorithm 2) is an output of the one example that is the sum of all: the sum of
# worst outputs, variant (i) of section 3.2 of Yu and Rousu (2007), for the hinge loss.

Array = NDArray[np.float64]

_ALL = 1 << 20  # planes
_PLANE_PATIENCE = 100  # master problems without weight after which a plane no longer counts
_ONE = np.zeros(1, np.int64)


class Summed:
    """A structured risk as the loss of one example, whose outputs are planes.

    Planes touch the risk only if the oracle is exact. If it may have missed outputs, the risk is
    taken to be at least as high as the planes that it gave elsewhere: otherwise the bound would
    rise above the objective. Planes are lowered by what rounding of their gradients may add to them
    at the minimizer of P with this reg_lambda.
    """

    n_examples, squared = 1, False

    def __init__(self, problem: StructuredRisk):
        self.problem, self.reg_lambda = problem, problem.reg_lambda
        self.dimension, self.cone = problem.dimension, problem.examples.nonnegative
        self.weights, self._least, self._risk = np.ones(1), np.inf, 0.0
        self.examples = SimpleNamespace(structure=None, exact=problem.exact, errors=self._errors)

    @property
    def oracle_calls(self) -> int:
        """Those of the problem."""
        return self.problem.oracle_calls

    @property
    def passes(self) -> int:
        """Oracle calls over the number of examples, rounded down."""
        return self.problem.passes

    def find(self, w: Array) -> list[tuple[int, Found]]:
        """The plane of a pass over all examples at w."""
        problem, found = self.problem, self.problem.find(w)
        self._risk = problem.risk(found)
        if not np.isfinite(self._risk):
            raise ValueError("The risk is not finite: check the scale of the features.")
        self._least = min(self._least, 0.5 * self.reg_lambda * float(w @ w) + self._risk)
        gradient, offset = problem.plane(found)
        # P is nowhere lower, and the penalty alone is at most P at its minimizer.
        farthest = np.sqrt(2.0 * self._least / self.reg_lambda)
        offset -= problem.of_plane(found) * farthest
        used = np.flatnonzero(gradient) if offset > -np.inf else np.empty(0, np.int64)
        offset = max(offset, 0.0) if not len(used) else offset
        score = self._risk if problem.exact else offset + float(gradient[used] @ w[used])
        numbers = (np.array([value]) for value in (offset, score, self._risk))
        plane = used.astype(np.uint32), -gradient[used]
        return [(0, Found(np.array([0, len(used)]), *plane, *numbers))]

    def risk_of(self, scores: Array, bounds: Array, highest: Array) -> float:
        """R where the plane was found, or an upper bound of it."""
        return float(bounds[0] if self.problem.exact else max(bounds[0], highest[0]))

    def name_of(self, i: int) -> str:
        """For errors."""
        return "for some examples"

    def with_errors(self, state: State) -> State:
        """The state with its scores only as certain as rounding leaves them."""
        return self.problem.with_errors(state)

    def _errors(self, w: Array) -> Array:
        if isinstance(self.problem, LikelihoodProblem):  # its planes touch up to rounding
            return np.array([np.inf])
        return np.array([self.problem.objective_error(w, self._risk)])


class OneSimplexSolver(BlockSolver):
    """An iteration solves the master problem over all planes and adds the one at its solution.

    Parameters
    ----------
    problem : StructuredRisk
    name : {"bundle", "rsd-one-simplex"}
    tol : float
    n_cached_outputs : int or None
        Largest number of planes to keep; None keeps all. A further one replaces a plane without
        weight; if there is none, the two of least weight are merged into their mean.
    kept : tuple
        :attr:`kept` of a solver of the same problem; reg_lambda may differ. Planes that do not hold
        with the new one are left out.
    """

    def __init__(
        self,
        problem: StructuredRisk,
        *,
        name: str,
        tol: float,
        n_cached_outputs: int | None = None,
        kept: tuple[KeptOutputs, float] | None = None,
    ):
        self.name, self._cut_for = name, problem.reg_lambda
        outputs = None
        if kept is not None and problem.reg_lambda >= kept[1]:
            outputs, self._cut_for = kept
        most = _ALL if n_cached_outputs is None else n_cached_outputs
        super().__init__(Summed(problem), tol, most, outputs, _PLANE_PATIENCE)

    @property
    def kept(self) -> tuple[KeptOutputs, float]:
        """Where a new solver may start: planes, and the reg_lambda for which they were cut."""
        return self._dual.outputs, self._cut_for

    def attach(self, problem: Any) -> None:
        """Continue with the same problem in another object."""
        super().attach(problem if problem is ABSENT else Summed(problem))

    def _iterate(self) -> None:
        self._dual.cached_pass(_ONE)
        self._check()
