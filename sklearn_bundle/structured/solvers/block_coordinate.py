"""Block-coordinate Frank-Wolfe for structured hinge losses, with kept outputs and acceleration."""

from typing import Literal

import numpy as np

from sklearn_bundle.jit.sampling import Sampling, grow
from sklearn_bundle.structured.problems.structured import StructuredProblem
from sklearn_bundle.structured.solvers._block_solver import BlockSolver
from sklearn_bundle.structured.solvers.inner.outputs import OutputCache

_GAP_SHARE = 0.8  # share of the steps that are drawn by gaps, as in the CRF's dual ascent
_PATIENCE = 30  # visits without weight after which an output is dropped: 10 are too few on CoNLL
_CACHED_PASSES = 10  # most passes after one of the oracle: more would overfit the kept outputs
_OPEN = 0.3  # of the mean gap of examples: those below wait until the next pass of the oracle
_LONGEST_PAUSE = 15  # most iterations before steps on all blocks are tried again after a failure
_CHECK_INTERVAL = 10  # iterations between checks of all examples at one w, which cost a pass
_FIRST_STRENGTH = 0.05  # of the blocks' mean curvature: the first kappa
_BALANCE = 3.0  # gaps of blocks over the center's part: 1 to 10 with the best fixed kappa
_LEAST_RATE = 0.3  # of what the center allows: 0.4 in the fastest runs, 0.2 with a useless one
_FAR = 1e3  # gaps of blocks over the center's part: above this the center is at rest
_WINDOW = 8  # iterations over which the rate is measured: single ones fluctuate
_RISE = 1.05  # of kappa per iteration: too large a kappa does more harm than a small one
_FALL = 1.2  # of kappa per iteration
_WEAKEST = 1e-2  # times reg_lambda: a kappa below this has no effect
_FRUITLESS = 8  # checks in a row without a smaller gap after which acceleration ends
_TINY = 1e-300  # replaces a gap of 0, in logarithms


class BlockCoordinateSolver(BlockSolver):
    """Steps on one example at a time, each exact over the outputs that were found for it.

    Block-coordinate Frank-Wolfe [1]_, with gap sampling and passes over kept outputs between those
    of the oracle [2]_. An iteration is one pass of the oracle, in steps, followed by passes over
    kept outputs as long as these gain more per entry that they read than the oracle's pass did.
    Acceleration is a proximal term with a moving center (Catalyst [3]_), in the same steps. Its
    strength kappa adapts to its effect, see ``_recenter``.

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
        self._since = 0  # iterations since the last check
        self._trust = 1.0  # gap of the last check over the estimate before it
        self._recent: list[float] = []  # estimated gaps of the last iterations
        self._rest = self._pause = 0  # iterations until steps on all blocks are tried again
        self._fruitless = 0  # checks without a smaller gap

    def _iterate(self) -> None:
        self._step()
        self._since += 1
        gap = self._estimate()
        within = gap * self._trust <= self._tol * abs(self._best.bound + gap)
        if within or self._since >= _CHECK_INTERVAL:
            self._check()
            # The root, since waiting for the whole ratio would take too long.
            seen = self._estimate() / gap if within and gap > 0.0 else 1.0
            self._trust = max(seen, 1.0) ** 0.5

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
        if self._accelerated:
            self._recenter()

    def _recenter(self) -> None:
        """Move the center, and adapt kappa to its effect.

        The duality gap has two parts: the gaps of the blocks, which are easier to close with a
        larger kappa, and the center's part, which falls as the center comes to rest, more slowly
        with a larger kappa. If the center's part is more than a third of the blocks', kappa falls,
        otherwise it rises. It also falls if the gap falls much more slowly than a moving center
        would allow: then the blocks cannot follow the center. With reg_lambda = 10/n, 1/n and 0.1/n
        kappa is about 25/n, 4/n to 15/n and 3/n on the letters of OCR, as large as the best fixed
        values, and 3/n to 9/n on CoNLL-2000 at 1/n.
        """
        dual, reg_lambda = self._dual, self.problem.reg_lambda
        blocks, center = dual.estimate, dual.distance()
        factor = np.sqrt(blocks / (_BALANCE * center)) if center > 0.0 else _RISE
        if self._relative_rate(blocks + center) < _LEAST_RATE and blocks < _FAR * center:
            factor = 1.0 / _FALL
        kappa = dual.kappa * min(max(factor, 1.0 / _FALL), _RISE)
        kappa = max(kappa, _WEAKEST * reg_lambda)
        root = np.sqrt(reg_lambda / (reg_lambda + kappa))
        dual.recenter(kappa, (1.0 - root) / (1.0 + root))

    def _relative_rate(self, gap: float) -> float:
        """The rate at which the gap has fallen, over that of the center; 1 if not known yet.

        The center's is ``-log(1 - sqrt(q))``, q the share of reg_lambda in its sum with kappa.
        """
        self._recent.append(max(gap, _TINY))
        if len(self._recent) <= _WINDOW:
            return 1.0
        rate = np.log(self._recent.pop(0) / self._recent[-1]) / _WINDOW
        reg_lambda = self.problem.reg_lambda
        root = np.sqrt(reg_lambda / (reg_lambda + self._dual.kappa))
        return rate / -np.log1p(-root) if root < 1.0 else 1.0

    def _first_strength(self) -> float:
        """A share of the curvature of a block, from its outputs: the scale of kappa."""
        outputs, weights = self._dual.cache.outputs, self.problem.weights
        last = outputs.count - 1
        squares = outputs.gram[outputs.gram_at + last * (outputs.capacity + 1)]
        return max(_FIRST_STRENGTH * float(weights @ (weights * squares)), 0.0)

    def _check(self) -> None:
        """The same, with its consequences for acceleration and sampling."""
        before = self._best.gap
        super()._check()
        if self._accelerated and self._dual.center is None:
            self._dual.recenter(self._first_strength(), 0.0)
        self._fruitless = 0 if self._best.gap < before else self._fruitless + 1
        if self._fruitless >= _FRUITLESS and self._accelerated:
            self._accelerated, self._dual.kappa = False, 0.0
            self._dual.refresh()
        sampling = self._sampling
        half = len(sampling.tree) // 2
        leaves = self.problem.weights * self._dual.gaps if sampling.adaptive else 1.0
        sampling.tree[half : half + sampling.n] = leaves
        grow(sampling.tree, sampling.largest)
        self._since = 0
