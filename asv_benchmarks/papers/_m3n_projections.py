"""Algorithm 3 of Saha et al. (2010) beside Newton's method, and what exact projections are for.

Algorithm 3 has the right gradients here, and is plain numpy: its passes are counted, not its time.
"""

from itertools import islice
from typing import Any

import numpy as np
from _common import Study
from _m3n_fits import Task
from scipy.sparse.linalg import LinearOperator, cg

from sklearn_bundle import StructuredSVM
from sklearn_bundle.jit.decorators import jit
from sklearn_bundle.linear.solvers.excessive_gap import ExcessiveGapSolver
from sklearn_bundle.structured._compiled import chain_marginals, clique_projection
from sklearn_bundle.structured.problems.marginal_chain import MarginalDual

_DEFECTS = (1e-2, 1e-4, 1e-6)  # of the sums, to which a projection is followed
_MOST = 3000  # iterations of Algorithm 3
_STEPS = 100  # of the solver, with each precision
_PRECISIONS = (1e-10, 1e-3, 1e-2, 1e-1)


def compare_projections(study: Study, task: Task, sequences: int) -> None:
    """Iterations of both methods on what the solver projects after some steps."""
    problem = bound(task, sequences)
    points = _recorded(problem, _STEPS)
    rows, most = [], []
    for name, m in points:
        passes = _alternating(m)
        edges, K, S = m.shape
        out = np.empty(m.size)
        of_newton = [
            _newton(m.ravel(), edges, K, _labels(problem), S, defect, out)[1] for defect in _DEFECTS
        ]
        most.append((name, passes, of_newton))
    for name in dict.fromkeys(name for name, *_ in most):
        own = [(a, b) for which, a, b in most if which == name]
        cells = [f"{np.mean([p[k] for p, _ in own]):.0f}" for k in range(len(_DEFECTS))]
        newton = [f"{np.mean([q[k] for _, q in own]):.0f}" for k in range(len(_DEFECTS))]
        rows.append([name, f"{len(own)}", *cells, *newton])
    columns = ["projection", "chains", *(f"Algorithm 3 to {eps:g}" for eps in _DEFECTS)]
    columns += [f"Newton to {eps:g}" for eps in _DEFECTS]
    study.show("Passes over the edges of a chain, from a cold start", columns, rows)
    reached = [p[-1] < _MOST for _, p, _ in most]
    study.compare(
        "E.3, Algorithm 3",
        "block coordinate descent with conjugate gradients finds the projection",
        f"{np.mean(reached) * 100:.0f} % of {len(most)} projections have sums within "
        f"{_DEFECTS[-1]:g} after {_MOST} passes",
        all(reached),
    )


def compare_exactness(study: Study, task: Task, sequences: int) -> None:
    """What a bound without repair claims, and whether the excessive gap condition holds."""
    problem = bound(task, sequences)
    settings: dict[str, Any] = {"reg_lambda": problem.reg_lambda, "tol": 1e-6, "random_state": 0}
    best = StructuredSVM("chain", **settings).fit(task.X[:sequences], task.y[:sequences])
    rows, false = [], {}
    for kind in (Unrepaired, MarginalDual):
        for precision in _PRECISIONS:
            dual = kind(bound(task, sequences), precision)
            solver = ExcessiveGapSolver(dual, None)
            above = broken = 0
            last = np.inf
            for state in islice(solver.states(), _STEPS):
                last = state.primal
                above += solver.u.value > best.objective_
                broken += dual.primal_value(solver.point) - solver.u.value > _most(dual) * solver.mu
            name = "repaired" if kind is MarginalDual else "as they are"
            gap = (last - solver.dual_point.value) / last
            largest = (solver.u.value - best.objective_) / best.objective_
            rows.append(
                [name, f"{precision:g}", f"{above}", f"{broken}", f"{gap:.1e}", f"{largest:+.1e}"]
            )
            false[name, precision] = above
    columns = ["points", "precision", "D above the optimum", "gap above mu times the prox"]
    columns += ["last relative gap", "last D over the optimum, less 1"]
    study.show(
        f"{sequences} sequences, {_STEPS} steps, by how exact projections are", columns, rows
    )
    repaired = [count for (name, _), count in false.items() if name == "repaired"]
    study.compare(
        "E.1",
        "implied: D at the iterates is a lower bound (Algorithm 3 has no stopping rule)",
        f"of {_STEPS} steps D lies above the optimum in "
        + ", ".join(f"{false['as they are', p]} with {p:g}" for p in _PRECISIONS)
        + f"; with repairs in {max(repaired)}",
        not any(false["as they are", p] for p in _PRECISIONS),
    )


@jit
def _newton(m, n_edges, rows, K, S, precision, out):
    """The projection from a cold start, without repair; returns steps, passes and defect."""
    work = clique_projection.new_work(n_edges, K, S)
    clique_projection.start(m, n_edges, rows, K, S, work)
    found = clique_projection.solve(m, n_edges, rows, K, S, precision, work)
    out[:] = work.point[: out.shape[0]]
    return found


class Unrepaired(MarginalDual):
    """Projections as they come out, with sums that differ by the precision."""

    def project(self, center, point, step, series):
        K, S = self._size
        chains, out = self._chains, np.empty_like(center)
        for i, m in enumerate(targets(self, center, point, step)):
            edges, rows = m.shape[:2]
            own = out[self._places[i] : self._places[i + 1]]
            _newton(m.ravel(), edges, rows, K, S, self._precision, own)
        self.projections += len(chains.tokens) - 1
        return out


def bound(task: Task, sequences: int) -> Any:
    """The problem of the first sequences, with reg_lambda as of all."""
    svm = StructuredSVM("chain", reg_lambda=task.strength / len(task.y))
    data = svm._check(task.X[:sequences], task.y[:sequences], None)
    return svm._problem(data, None, 1)


def targets(dual: MarginalDual, center: Any, point: Any, step: float) -> list[np.ndarray]:
    """What each sequence's marginals are projections of."""
    K, S = dual._size
    chains, unary = dual._chains, dual._charges.copy()
    n = len(chains.tokens) - 1
    chain_marginals.add_scores(chains, point.w, 0, n, unary)
    unary, at = unary.reshape(-1, S), chains.n_attributes * S
    pairs = point.w[at : at + K * S].reshape(K, S)
    found = []
    for i, (a, b) in enumerate(zip(chains.tokens[:-1], chains.tokens[1:], strict=True)):
        T, own = b - a, center[dual._places[i] : dual._places[i + 1]]
        if T == 1:
            found.append((own + step * unary[a]).reshape(1, 1, S))
            continue
        scores = unary[a + 1 : b, None, :] + pairs
        scores[0] += unary[a, :K, None]
        found.append(own.reshape(T - 1, K, S) + step * scores)
    return found


def _most(dual: MarginalDual) -> float:
    """What ``sum_i s_i ||u_i - c_i||^2 / 2`` is at most: two on every edge, halved."""
    edges = np.maximum(np.diff(dual._chains.tokens) - 1, 1)
    return float(dual.problem.weights @ edges)


def _labels(problem: Any) -> int:
    return problem.examples.structure.chains.n_labels


def _recorded(problem: Any, steps: int) -> list[tuple[str, np.ndarray]]:
    """What is projected in the last of so many steps."""
    dual = MarginalDual(problem)
    solver, project, calls = ExcessiveGapSolver(dual, None), dual.project, {}

    def recorded(center, point, step, series):
        calls[series] = targets(dual, center, point, step)
        return project(center, point, step, series)

    dual.project = recorded
    for _ in islice(solver.states(), steps):
        pass
    names = "(23), of the smoothed maximum", "(25), of the step"
    return [(names[s], m) for s in (0, 1) for m in calls[s] if m.shape[1] > 1]


def _alternating(m: np.ndarray) -> list[int]:
    """Algorithm 3: the passes that it takes until sums differ by at most each of the defects."""
    m = m[:, :, : m.shape[1]]
    edges, K, _ = m.shape
    passes, reached = 0, []

    def point(v: np.ndarray) -> np.ndarray:
        """``lambda_t + mu_t(j) - mu_(t-1)(i)``."""
        shift, mu = v[:edges], v[edges:].reshape(edges - 1, K)
        sums = np.repeat(shift, K * K).reshape(m.shape)
        sums[:-1] += mu[:, None, :]
        sums[1:] -= mu[:, :, None]
        return sums

    def gradient(alpha: np.ndarray) -> np.ndarray:
        """(35b) and (35c) without their constants."""
        differences = alpha[:-1].sum(axis=1) - alpha[1:].sum(axis=2)
        return np.concatenate([alpha.sum(axis=(1, 2)), differences.ravel()])

    def product(v: np.ndarray) -> np.ndarray:
        nonlocal passes
        passes += 1
        return gradient(point(v))

    size = edges + (edges - 1) * K
    matrix, v = LinearOperator((size, size), matvec=product, dtype=float), np.zeros(size)
    ones = np.concatenate([np.ones(edges), np.zeros(size - edges)])
    xi = np.zeros_like(m)
    while len(reached) < len(_DEFECTS) and passes < _MOST:
        v = cg(matrix, ones - gradient(m + xi), x0=v, rtol=1e-8, maxiter=_MOST)[0]
        xi = np.maximum(-m - point(v), 0.0)
        passes += 1
        defect = np.abs(gradient(m + xi + point(v)) - ones).max()
        while len(reached) < len(_DEFECTS) and defect <= _DEFECTS[len(reached)]:
            reached.append(passes)
    return reached + [_MOST] * (len(_DEFECTS) - len(reached))
