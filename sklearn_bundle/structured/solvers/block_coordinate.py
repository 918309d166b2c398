"""Block-coordinate Frank-Wolfe for structured hinge losses, with kept outputs and acceleration."""

from typing import Literal

import numpy as np

from sklearn_bundle.core.dual_methods import Catalyst, Checks, first_kappa
from sklearn_bundle.jit.sampling import Sampling, grow
from sklearn_bundle.structured.problems.structured import StructuredProblem
from sklearn_bundle.structured.solvers._block_solver import BlockSolver
from sklearn_bundle.structured.solvers.inner.blocks import Check
from sklearn_bundle.structured.solvers.inner.outputs import OutputCache

_GAP_SHARE = 0.8  # share of the steps that are drawn by gaps, as in the CRF's dual ascent
_PATIENCE = 30  # visits without weight after which an output is dropped: 10 are too few on CoNLL
_CACHED_PASSES = 10  # most passes after one of the oracle: more would overfit the kept outputs
_OPEN = 0.3  # of the mean gap of examples: those below wait until the next pass of the oracle
_LONGEST_PAUSE = 15  # most iterations before steps on all blocks are tried again after a failure
# The first reg_lambda + kappa, over the mean curvature of a block. With 0.01 matchings took 15 %
# more passes, and 1,500 letters four times as many.
_STRENGTH = 0.05
# Of what the center allows: 0.4 in the fastest runs, 0.2 with a useless kappa. Without this rule
# fits took up to four times as long; with it pure L1 on chains does not converge.
_LEAST_RATE = 0.3
_FRUITLESS = 8  # checks in a row without a smaller gap after which acceleration ends


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
        kept: OutputCache | None = None,
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
        self._blocks = np.arange(n)
        self._checks = Checks(tol, cost=1.0)  # in passes of the oracle, as iterations
        self._catalyst: Catalyst | None = None  # None before the first check
        self._rest = self._pause = 0  # iterations until steps on all blocks are tried again
        self._fruitless = 0  # checks without a smaller gap

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
        blocks = self._blocks
        for _ in range(_CACHED_PASSES):
            gained, read = dual.gained, dual.read
            blocks = dual.cached_pass(blocks[::-1].copy(), _OPEN)
            of_pass = (dual.gained - gained) / max(dual.read - read, 1.0)
            if of_pass <= rate:
                break
        if self._rest > 0:
            self._rest -= 1
        else:
            gained, read = dual.gained, dual.read
            dual.climb(self._blocks)
            pays = (dual.gained - gained) / max(dual.read - read, 1.0) > of_pass
            self._pause = 0 if pays else min(2 * self._pause + 1, _LONGEST_PAUSE)
            self._rest = self._pause
        catalyst = self._catalyst
        if catalyst is not None:
            catalyst.adapt(dual.estimate, dual.distance())
            dual.recenter(catalyst.kappa, catalyst.momentum)

    def _accelerate(self) -> None:
        """Add a proximal term if it is of use."""
        self._accelerated = False  # from now on there is a term, or there never will be
        outputs, problem = self._dual.cache.outputs, self.problem
        last = outputs.count - 1
        squares = outputs.gram[outputs.gram_at + last * (outputs.capacity + 1)]
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
