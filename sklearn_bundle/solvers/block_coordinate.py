"""Block-coordinate ascent in the dual of structured hinge losses, with outputs that are kept."""

from collections.abc import Iterator
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle._compiled import block_steps
from sklearn_bundle._compiled.block_steps import Dual
from sklearn_bundle._compiled.sampling import Sampling, grow
from sklearn_bundle.problems.structured import StructuredProblem
from sklearn_bundle.solvers._certificate import Best
from sklearn_bundle.solvers.contract import State
from sklearn_bundle.solvers.inner.outputs import OutputCache

Array = NDArray[np.float64]


class BlockCoordinateSolver:
    history_fields: ClassVar[tuple] = (("oracle_calls", np.int64), ("estimate", np.float64))
    PATIENCE = 20
    MAX_CACHED = 20
    RATIO = 1.0
    ORACLE_COST = None
    KAPPA = 0.0
    INNER = 1
    CONFIRM = 10
    trace = None

    def __init__(self, problem, *, tol, seed, cache_size=None, sampling="gap", acceleration="auto", kept=None):
        self.problem, self._tol = problem, tol
        self.name = "bcfw"
        n = problem.n_examples
        self._cache = OutputCache(n, cache_size, problem.squared) if kept is None else kept
        self._kappa, self._centre = 0.0, None
        self._last = None
        size = 1 << max(1, (n - 1).bit_length())
        self._sampling = Sampling(n, 0.8 if sampling == "gap" else 0.0, False, sampling == "gap",
                                  np.zeros(2 * size), np.ones(n), np.array([seed], np.uint64))
        self._gaps = np.full(n, 100.0)
        self._best = Best(least=0.0)
        self._rebuild()
        self._grow()
        self._backwards = False
        self._rounds = 0

    @property
    def kept(self):
        return self._cache

    def _sums(self):
        p = self.problem
        total = np.zeros(p.dimension)
        losses = block_steps.sums(self._cache.outputs, p.weights, p.squared, total)
        return total, losses

    def _project(self, raw):
        w = raw.copy()
        w[self.problem.cone] = np.maximum(w[self.problem.cone], 0.0)
        return w

    def _rebuild(self):
        p = self.problem
        total, losses = self._sums()
        lam, kappa = p.reg_lambda, self._kappa
        wa = self._project(total / lam)
        self._bound = losses - 0.5 * lam * float(wa @ wa)
        raw = (total + kappa * self._centre) / (lam + kappa) if kappa else total / lam
        cone = np.zeros(p.dimension if len(p.cone) else 0, bool)
        if len(p.cone):
            cone[p.cone] = True
        self._dual = Dual(p.squared, 1.0 / (lam + kappa), self.PATIENCE, p.weights, self._project(raw),
                          raw, cone, self._gaps, np.zeros(2))
        self._distance = 0.5 * lam * float(((self._dual.w - wa) ** 2).sum()) if kappa else 0.0

    def _grow(self):
        s = self._sampling
        n, half = s.n, len(s.tree) // 2
        s.tree[half : half + n] = (self.problem.weights * self._gaps if s.adaptive else 1.0) * s.factors
        grow(s.tree, s.largest)

    @property
    def estimate(self):
        return float(self.problem.weights @ self._gaps)

    def _epoch(self, steps):
        p, done = self.problem, 0
        examples = p.examples
        while done < steps:
            done += block_steps.epoch(examples.structure, self._cache.outputs, self._dual,
                                      self._sampling, examples.longest, steps - done)
            if done < steps:
                self._cache.make_room(int(examples.longest.max()))
        p.oracle_calls += steps

    def _cached(self):
        self._backwards = not self._backwards
        return block_steps.cached_pass(self._cache.outputs, self._dual, self._backwards)

    def _look(self):
        """Full pass."""
        p = self.problem
        found = p.find(self._dual.w)
        w = self._dual.w
        primal = 0.5 * p.reg_lambda * float(w @ w) + p.risk(found)
        for first, part in found:
            at = 0
            while at < len(part.losses):
                at = block_steps.take_in_all(self._cache.outputs, self._dual, first, at, part.starts,
                                             part.indices, part.values, part.losses, part.scores)
                if at < len(part.losses):
                    self._cache.make_room(int(np.diff(part.starts).max()))
        if self._best.offer(primal, None):
            self._best.point = w.copy()
        self._grow()
        return primal

    def states(self):
        p = self.problem
        if self._best.point is None:
            self._look()
        n = p.n_examples
        since = 0
        while True:
            for _ in range(self.INNER):
                g0, r0 = self._dual.gains.copy()
                self._epoch(n)
                g1, r1 = self._dual.gains.copy()
                cost = (r1 - r0) + n * (self.ORACLE_COST or 3000)
                rate = (g1 - g0) / cost
                for c in range(self.MAX_CACHED):
                    a, ra = self._dual.gains.copy()
                    self._cached()
                    b, rb = self._dual.gains.copy()
                    if (b - a) < self.RATIO * rate * max(rb - ra, 1):
                        break
            if self.KAPPA:
                self._move()
            self._rebuild()
            self._best.prove(self._bound)
            since += 1
            est = self.estimate + self._distance
            looked = False
            if est <= self._tol * abs(self._bound + est) or since >= self.CONFIRM:
                primal = self._look()
                looked = True
                since = 0
            if self.trace:
                self.trace(self, est, looked)
            yield self._state(est)

    def _move(self):
        lam = self.problem.reg_lambda
        self._kappa = self.KAPPA
        q = lam / (lam + self._kappa)
        beta = (1 - q**0.5) / (1 + q**0.5)
        w = self._dual.w.copy()
        self._centre = w if self._last is None else w + beta * (w - self._last)
        self._last = w

    def _state(self, est):
        return self._best.state(self._best.point, None, self.problem.passes, None, (self.problem.oracle_calls, est))

    def confirm(self, *, moving=True):
        self._rebuild()
        self._best.prove(self._bound)
        return self._state(self.estimate)

    def attach(self, problem):
        self.problem = problem

    def detach(self):
        self.problem = None
