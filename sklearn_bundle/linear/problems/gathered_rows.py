"""Wide data on workers: the client keeps the scores of all rows, which are shorter than w.

A product with X sends w and gathers the scores; a product with X' sends each block the derivatives
of its rows and adds up what comes back. Everything between two products happens on the client: the
exact line search, the best intercept, planes with one entry per row.
"""

from collections.abc import Callable
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.parallel import vector_blocks
from sklearn_bundle.linear.problems import row_block
from sklearn_bundle.linear.problems.linear import LinearRisk
from sklearn_bundle.linear.problems.row_block import Formulation
from sklearn_bundle.linear.rows._dask_workers import DaskWorkers

Array = NDArray[np.float64]


class GatheredRows:
    """:class:`~.rows.RowProducts` of rows on workers, each of which costs one round.

    Parameters
    ----------
    workers : DaskWorkers
        Hold blocks of type :class:`~.row_block.RowBlock`.
    bounds : ndarray of shape (n_blocks + 1,)
        Where the blocks begin and end among all rows.
    n_features, n_entries : int
    column_scale : ndarray of shape (n_features,)

    Attributes
    ----------
    passes, rounds : int
        Numbers of products with X or X' and of rounds so far.
    """

    def __init__(
        self,
        workers: DaskWorkers,
        bounds: NDArray[np.int64],
        n_features: int,
        n_entries: int,
        column_scale: Array,
    ):
        self.workers, self._bounds, self._column_scale = workers, bounds, column_scale
        self.shape, self.n_entries = (int(bounds[-1]), n_features), n_entries
        self.passes, self.rounds = 0, 0

    def scores(self, w: Array, n_outputs: int | None = None) -> Array:
        """``X w``: one round."""
        self._count()
        return np.concatenate(self.workers.map(row_block.scores, w))

    def gradient(self, g: Array) -> Array:
        """``X'g``: one round."""
        self._count()
        parts = [g[start:stop] for start, stop in pairwise(self._bounds)]
        answer_bytes = 8 * self.shape[1]
        (total,) = self.workers.total(row_block.product, each=parts, answer_bytes=answer_bytes)
        return total

    def mean_square(self, weights: Array) -> float:
        """Weighted mean of the rows' squared lengths."""
        return float(weights @ self.squared_norms())

    def squared_norms(self) -> Array:
        """``||x_i||^2`` of every row: one round, the first time."""
        return self._squared_norms

    @cached_property
    def _squared_norms(self) -> Array:
        self._count()
        return np.concatenate(self.workers.map(row_block.squared_norms))

    def squared_columns(self) -> Array:
        """``sum_i x_ij^2`` of every column: one round, the first time."""
        return self._squared_columns

    @cached_property
    def _squared_columns(self) -> Array:
        self._count()
        answer_bytes = 8 * self.shape[1]
        (total,) = self.workers.total(row_block.squared_columns, answer_bytes=answer_bytes)
        return total

    def column_scale(self) -> Array:
        """How far a unit of w_j moves the scores it affects."""
        return self._column_scale

    def sums(self, part: Callable[[slice], tuple[float, ...]]) -> tuple[float, ...]:
        """Sums over vectors on the client, block by block."""
        bounds = vector_blocks(self.shape[0])
        parts = [part(slice(start, stop)) for start, stop in pairwise(bounds)]
        return tuple(map(float, np.sum(parts, axis=0)))

    def _count(self) -> None:
        self.passes += 1
        self.rounds += 1

    def __enter__(self) -> "GatheredRows":
        return self

    def __exit__(self, *exception: object) -> None:
        return


class GatheredProblem(LinearRisk[GatheredRows]):
    """A :class:`LinearRisk` with rows on workers, for a loss of one score per row.

    Parameters
    ----------
    workers : DaskWorkers
    formulation : Formulation
    n_features, n_entries : int
    column_scale : ndarray of shape (n_features,)
    fit_intercept : bool
    """

    def __init__(
        self,
        workers: DaskWorkers,
        formulation: Formulation,
        n_features: int,
        n_entries: int,
        column_scale: Array,
        fit_intercept: bool,
    ):
        parts = workers.map(row_block.targets_and_weights, formulation)
        y, weights = (np.concatenate(column) for column in zip(*parts, strict=True))
        bounds = np.cumsum([0, *(len(part[1]) for part in parts)])
        rows = GatheredRows(workers, bounds, n_features, n_entries, column_scale)
        super().__init__(rows, y, weights, formulation.loss, fit_intercept)

    @property
    def rounds(self) -> int:
        """Number of rounds so far."""
        return self.rows.rounds

    @property
    def workers(self) -> DaskWorkers:
        """The holders of the blocks."""
        return self.rows.workers

    @workers.setter
    def workers(self, workers: DaskWorkers) -> None:
        self.rows.workers = workers

    def begin(self) -> None:
        """Start counting passes and rounds from here."""
        super().begin()
        self.rows.rounds = 0
