"""The solvers of figures 1 to 4 of Saha, Zhang and Vishwanathan, each as a trace."""

from dataclasses import dataclass, field
from time import process_time
from typing import Any

import numpy as np
from _measure import cpu_seconds
from _pragam_data import Task
from _watch import watch
from scipy.sparse.linalg import svds
from sklearn.linear_model import SGDClassifier
from sklearn.svm import LinearSVC

from sklearn_bundle import BMRMClassifier, PragamSVC

Array = np.ndarray
ERROR = 1e-6  # J - J* at which a solver ends
_STRIDE = 1.1  # from one look at the test part to the next
_MAX_ITER = 5000
_LADDER = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256, 512, 1024, 2048)  # of LIBLINEAR
_EPOCHS = 200  # of pegasos-1


@dataclass
class Trace:
    """What is true of the best point so far; the accuracy at some of the iterations."""

    iteration: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    objective: list[float] = field(default_factory=list)
    looks: list[int] = field(default_factory=list)  # positions in the lists above
    accuracy: list[float] = field(default_factory=list)

    def add(self, iteration: int, seconds: float, objective: float, accuracy: Any) -> None:
        """``accuracy()`` is called for if the point is the best one so far."""
        self.iteration.append(iteration)
        self.seconds.append(seconds)
        best = not self.objective or objective < self.objective[-1]
        self.objective.append(objective if best else self.objective[-1])
        self.looks.append(len(self.iteration) - 1)
        self.accuracy.append(accuracy() if best else self.accuracy[-1])

    def error(self, best: float) -> Array:
        return np.array(self.objective) - best

    def at_looks(self, name: str) -> Array:
        return np.array(getattr(self, name))[self.looks]

    def first(self, error: float, best: float, unit: str) -> float:
        """The iteration or the seconds at which the error is reached; inf if it is not."""
        reached = np.flatnonzero(self.error(best) <= error)
        return float(getattr(self, unit)[reached[0]]) if len(reached) else np.inf

    def reaches(self, accuracy: float, unit: str) -> float:
        """The first look with that accuracy or more, in iterations or seconds."""
        reached = np.flatnonzero(np.array(self.accuracy) >= accuracy)
        return float(self.at_looks(unit)[reached[0]]) if len(reached) else np.inf


def optimum(task: Task, fit_intercept: bool, seconds: float) -> tuple[float, float]:
    """The lowest objective that a fit of ours to 1e-6 ends at, and its lower bound."""
    model = BMRMClassifier(
        reg_lambda=task.reg_lambda, fit_intercept=fit_intercept, tol=1e-6, max_time=seconds
    ).fit(task.X, task.y)
    return float(model.objective_), float(model.lower_bound_)


def ours(task: Task, best: float, seconds: float, estimator: Any) -> Trace:
    """A solver of the package."""
    curve = watch(
        estimator,
        task.X,
        task.y,
        lambda curve: curve.objective[-1] <= best + ERROR,
        score=lambda model: task.accuracy(model.coef_[0], model.intercept_[0]),
        stride=_STRIDE,
        max_iter=_MAX_ITER,
        max_seconds=seconds,
    )
    return Trace(curve.iteration, curve.seconds, curve.objective, curve.looks, curve.scores)


def pragam(task: Task, best: float, seconds: float, fit_intercept: bool = False) -> Trace:
    model = PragamSVC(reg_lambda=task.reg_lambda, fit_intercept=fit_intercept)
    return ours(task, best, seconds, model)


def algorithm_1(task: Task, best: float, seconds: float) -> Trace:
    """Pragam with the largest L, neither adapted nor started again."""
    largest = float(svds(task.X, k=1, return_singular_vectors=False)[0])
    L = largest**2 / (len(task.y) * task.reg_lambda)
    model = PragamSVC(reg_lambda=task.reg_lambda, fit_intercept=False, lipschitz=L)
    return ours(task, best, seconds, model)


def bmrm(task: Task, best: float, seconds: float, size: int | None = None) -> Trace:
    """qp-bmrm, and with two planes ls-bmrm."""
    model = BMRMClassifier(
        reg_lambda=task.reg_lambda,
        solver="cutting-plane",
        bundle_size=size,
        fit_intercept=False,
    )
    return ours(task, best, seconds, model)


def liblinear(task: Task, best: float, seconds: float) -> Trace:
    """A fit from scratch for every number of epochs."""
    trace, total = Trace(), 0.0
    for max_iter in _LADDER:
        model = LinearSVC(
            loss="hinge",
            C=1.0 / (len(task.y) * task.reg_lambda),
            fit_intercept=False,
            max_iter=max_iter,
            tol=1e-12,
            random_state=0,
        )
        taken, _ = cpu_seconds(lambda model=model: model.fit(task.X, task.y))
        w, total = model.coef_[0], total + taken
        taken = max([taken, *trace.seconds[-1:]])
        trace.add(max_iter, taken, task.objective(w), lambda w=w: task.accuracy(w))
        if trace.objective[-1] <= best + ERROR or total > 2.0 * seconds:
            break
    return trace


def pegasos_n(task: Task, best: float, seconds: float) -> Trace:
    """Subgradient steps of length 1/(lambda t) on all rows, projected; in numpy."""
    trace, total, t = Trace(), 0.0, 0
    X, y, reg_lambda = task.X, task.y, task.reg_lambda
    transpose = X.T.tocsr() if hasattr(X, "tocsr") else X.T
    w, scores = np.zeros(X.shape[1]), np.zeros(len(y))
    next_look = 1
    while total < seconds and t < _MAX_ITER:
        start = process_time()
        t += 1
        violated = np.where(y * scores < 1.0, y, 0.0)
        w = (1.0 - 1.0 / t) * w + (transpose @ violated) / (reg_lambda * t * len(y))
        w *= min(1.0, 1.0 / max(np.sqrt(reg_lambda) * np.linalg.norm(w), 1e-300))
        scores = X @ w
        objective = task.objective(w, scores)
        total += process_time() - start
        if t >= next_look:
            next_look = max(t + 1, int(t * _STRIDE))
            trace.add(t, total, objective, lambda w=w: task.accuracy(w))
        if objective <= best + ERROR:
            break
    return trace


def pegasos_1(task: Task, best: float, seconds: float) -> Trace:
    """In its place SGDClassifier: steps of length 1/(lambda (t + t_0)), looked at by epochs."""
    trace, total = Trace(), 0.0
    model = SGDClassifier(alpha=task.reg_lambda, fit_intercept=False, random_state=0)
    for epoch in range(1, _EPOCHS + 1):
        taken, _ = cpu_seconds(lambda: model.partial_fit(task.X, task.y, classes=(-1.0, 1.0)))
        total += taken
        w = model.coef_[0].copy()
        trace.add(epoch, total, task.objective(w), lambda w=w: task.accuracy(w))
        if trace.objective[-1] <= best + ERROR or total > seconds:
            break
    return trace


SOLVERS = {
    "pragam": pragam,
    "algorithm 1": algorithm_1,
    "ls-bmrm": lambda *a: bmrm(*a, size=2),
    "qp-bmrm": bmrm,
    "liblinear": liblinear,
    "pegasos-n": pegasos_n,
    "pegasos-1": pegasos_1,
}
