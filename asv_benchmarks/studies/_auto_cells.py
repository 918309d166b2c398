"""The cells of ``auto.py``: shape x loss x reg_lambda x tol on drawn data, and a race in one cell.

Scores are linear in the columns plus noise of half their deviation; labels are their signs or their
fifths, counts are Poisson draws. Neighboring columns are correlated where the table says so.
The expected steps in ``linear_auto.py`` were set on the settings of seed 5 and data of seed 1, so
that other seeds test them on other data, though on the same shapes.
"""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from time import process_time
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from _made import SETS
from benchmarks.common import Array

from sklearn_bundle.core.contract import SolverResult, State, Status
from sklearn_bundle.core.contract import run as run_solver
from sklearn_bundle.core.limits import MOST_SIDE
from sklearn_bundle.linear.problems.linear import LinearProblem
from sklearn_bundle.linear.rows.memory_rows import rows_in_memory
from sklearn_bundle.linear.solvers.linear_auto import SOLVERS, linear_solver, solver_class
from sklearn_bundle.linear.solvers.solver import LinearStart, Task
from sklearn_bundle.losses import BINARY_LOSSES, MULTICLASS_LOSSES, REGRESSION_LOSSES, Target
from sklearn_bundle.regularizers import L2

_LOSSES = (
    *("hinge", "squared_hinge", "log_loss", "squared_error", "absolute_error"),
    *("epsilon_insensitive", "huber", "quantile", "poisson", "softmax", "multiclass_hinge"),
)
_REG_LAMBDAS: tuple[Callable[[int], float], ...] = (
    *(lambda n: 1e-1, lambda n: 1e-3, lambda n: 1.0 / n, lambda n: 0.1 / n),
)
_TOLERANCES = (1e-2, 1e-3, 1e-6)
_N_CLASSES = 5
_NOISE = 0.5
_ENOUGH = 0.2  # CPU seconds in all, after which a fit is not repeated
_MOST_RUNS = 5
# Weights up to which Newton's method runs by its name: no limit of time ends a step, and a Hessian
# of 20,000 columns took 16 GB.
_MOST_WEIGHTS = MOST_SIDE
_FURTHER, _MORE = 1.5, 0.02  # an engine's limit: times the best so far, and seconds


class _Shape(NamedTuple):
    """Rows, columns, entries a row if it is sparse, and the correlation of neighbors."""

    n: int
    d: int
    per_row: int = 0
    correlation: float = 0.0


# Their number has no divisor in common with that of the losses, so all pairs come.
_SHAPES = (
    *(_Shape(100, 5), _Shape(1_000, 300, 0, 0.5), _Shape(100_000, 20), _Shape(2_000, 1_000)),
    *(_Shape(5_000, 50), _Shape(5_000, 20_000, 60), _Shape(300, 40), _Shape(400, 3_000)),
    *(_Shape(20_000, 100, 0, 0.8), _Shape(2_000, 2_000), _Shape(30_000, 5)),
    _Shape(20_000, 300, 10),
)


@dataclass
class Cell:
    """A problem; the data are one of `_SHAPES`, or one of the sets of ``_made.py``."""

    data: _Shape | str
    loss: str
    reg_lambda: float
    tol: float
    seed: int = 0

    def __str__(self) -> str:
        shape = self.data
        if isinstance(shape, _Shape):
            further = f", {shape.per_row} a row" if shape.per_row else ""
            shape = f"{shape.n} x {shape.d}{further}"
        return f"{shape:<24} {self.loss:<20} {self.reg_lambda:.0e}  {self.tol:.0e}"


@dataclass
class Raced:
    """CPU seconds of "auto" and of the engines that got there, by name."""

    auto: float
    took: str
    converged: bool
    engines: dict[str, float] = field(default_factory=dict)

    @property
    def best(self) -> str:
        return min(self.engines, key=lambda name: self.engines[name], default="none")

    @property
    def ratio(self) -> float:
        """Of "auto" to the best engine; NaN if none got there in 1.5 times its seconds."""
        return self.auto / self.engines[self.best] if self.engines else np.nan

    def record(self) -> dict[str, Any]:
        return {**asdict(self), "ratio": self.ratio}


def drawn_cells(n_cells: int, seed: int) -> Iterator[Cell]:
    """Every loss with every shape in turn, with settings in a random order, on data of the seed."""
    rng = np.random.default_rng(seed)
    settings = [(reg, tol) for reg in _REG_LAMBDAS for tol in _TOLERANCES]
    order: list[int] = []
    for k in range(n_cells):
        if not order:
            order = rng.permutation(len(settings)).tolist()
        reg_lambda, tol = settings[order.pop()]
        shape = _SHAPES[k % len(_SHAPES)]
        yield Cell(shape, _LOSSES[k % len(_LOSSES)], reg_lambda(shape.n), tol, seed)


def made_cells() -> Iterator[Cell]:
    """The sets of ``_made.py``, on which rules of "auto" were checked before."""
    losses = ("hinge", "squared_hinge", "log_loss", "absolute_error", "epsilon_insensitive")
    for name in SETS:
        for loss in losses:
            for reg_lambda in (1e-2, 1e-4):
                for tol in (1e-3, 1e-5):
                    yield Cell(name, loss, reg_lambda, tol)


def _drawn(shape: _Shape, rng: np.random.Generator) -> tuple[Any, Array]:
    n, d, per_row, share = shape
    if per_row:
        columns = rng.choice(d, size=n * per_row, p=_frequency(d))
        entries = rng.exponential(size=n * per_row) / np.sqrt(per_row)
        X: Any = sp.csr_matrix((entries, (np.repeat(np.arange(n), per_row), columns)), (n, d))
        X.sum_duplicates()
    else:
        X = rng.normal(size=(n, d))
        for j in range(1, d if share else 0):
            X[:, j] = share * X[:, j - 1] + np.sqrt(1.0 - share**2) * X[:, j]
    scores = X @ rng.normal(size=d)
    return X, scores / scores.std() + _NOISE * rng.normal(size=n)


def _frequency(d: int) -> Array:
    frequency = 1.0 / np.arange(5.0, d + 5.0)
    return frequency / frequency.sum()


def _problem(cell: Cell) -> tuple[Any, Any, Any]:
    """X, the prepared target and the loss."""
    rng = np.random.default_rng(cell.seed)
    X, y = _drawn(cell.data, rng) if isinstance(cell.data, _Shape) else SETS[cell.data](rng)
    if cell.loss in BINARY_LOSSES:
        loss, y = BINARY_LOSSES[cell.loss](), np.where(y > 0.0, 1.0, -1.0)
    elif cell.loss in MULTICLASS_LOSSES:
        loss = MULTICLASS_LOSSES[cell.loss]()
        y = np.searchsorted(np.quantile(y, np.arange(1, _N_CLASSES) / _N_CLASSES), y)
    else:
        loss = REGRESSION_LOSSES[cell.loss]()
        y = rng.poisson(np.exp(np.minimum(y, 3.0))).astype(float) if cell.loss == "poisson" else y
    prepared = loss.prepare_target(Target(y, len(y), np.arange(_N_CLASSES)))
    return X, prepared.y, prepared.loss


class Races:
    """ "auto" and every engine in turn, cell by cell, in this process.

    Parameters
    ----------
    limit : float
        CPU seconds of a fit; an engine is also left if it is far behind the best so far.
    """

    def __init__(self, limit: float):
        self._limit = limit
        self._compiled: set[tuple] = set()  # what ran before, and compiles no more

    def race(self, cell: Cell) -> Raced:
        """The seconds in one cell."""
        X, y, loss = _problem(cell)
        given = cell, X, y, loss
        seconds, result = self._best_of(given, "auto", self._limit)
        took = "+".join(dict.fromkeys(str(name) for name in result.history["solver"]))
        raced = Raced(seconds, took, result.status is Status.CONVERGED)
        best = seconds
        for name in SOLVERS:
            limit = min(self._limit, _FURTHER * best + _MORE)
            if not self._is_possible(given, name):
                continue
            seconds, result = self._best_of(given, name, limit)
            if result.status is Status.CONVERGED:
                raced.engines[name] = seconds
                best = min(best, seconds)
        return raced

    def _is_possible(self, given: tuple, name: str) -> bool:
        """Whether there is such an engine for the cell, and memory for its matrix."""
        task = self._task(given, name)
        too_large = name == "newton" and task.problem.dimension > _MOST_WEIGHTS
        return not too_large and solver_class(name, task) is not None

    def _best_of(self, given: tuple, name: str, limit: float) -> tuple[float, SolverResult]:
        """The fastest run; one that may have compiled does not count."""
        cell, X, _, _ = given
        key = name, cell.loss, sp.issparse(X)
        if key not in self._compiled:
            self._fit(given, name, self._limit)
            self._fit(given, name, limit)  # a limit that ended the first one left code uncompiled
            self._compiled.add(key)
        runs = [self._fit(given, name, limit)]
        while (
            sum(seconds for seconds, _ in runs) < _ENOUGH
            and len(runs) < _MOST_RUNS
            and runs[0][1].status is Status.CONVERGED
        ):
            runs.append(self._fit(given, name, limit))
        return min(runs, key=lambda run: run[0])

    def _task(self, given: tuple, name: str) -> Task:
        cell, X, y, loss = given
        weights = np.full(X.shape[0], 1.0 / X.shape[0])
        problem = LinearProblem(rows_in_memory(X), y, weights, loss, True)
        return Task(problem, cell.reg_lambda, L2(), cell.tol, solver=name)

    def _fit(self, given: tuple, name: str, limit: float) -> tuple[float, SolverResult]:
        start = process_time()
        task = self._task(given, name)

        def stop(iteration: int, state: State) -> Status | None:
            return Status.MAX_TIME if process_time() - start > limit else None

        kind, kept = None if name == "auto" else solver_class(name, task), LinearStart()

        with task.problem:
            # Not by name alone: epochs that are too slow would go on as another solver.
            solver = linear_solver(name, task, kept) if kind is None else kind.of(task, kept)
            result = run_solver(solver, tol=task.tol, max_iter=100_000, observe=stop)
        return process_time() - start, result
