"""Small problems of dense points and the kernel "rbf", at one C or several, in one compiled call.

A fit of a pair of classes with 200 points takes .1 ms of steps and certificate, and took .3 ms
(squared hinge) to .8 ms (hinge) of Python around them.
"""

from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.certificate import attained
from sklearn_bundle.core.contract import SolverResult, State, at_once
from sklearn_bundle.core.limits import SINGLE
from sklearn_bundle.jit.decorators import frozen
from sklearn_bundle.kernel._compiled import pairs, tiles
from sklearn_bundle.kernel.solvers.base import SLACK
from sklearn_bundle.kernel.solvers.decomposition import STEPS, DecompositionSolver
from sklearn_bundle.kernel.solvers.working_set import STEPS_OF_SET, WorkingSetSolver
from sklearn_bundle.kernel.values._exact_sums import roundings_of_rbf
from sklearn_bundle.kernel.values.kernel import function_of, suits_tiles
from sklearn_bundle.kernel.values.kernel_data import KernelData
from sklearn_bundle.kernel.values.kernel_function import Kernel

Array = NDArray[np.float64]


class PairPath(NamedTuple):
    """A problem of two classes at several C, in ascending order.

    ``data`` are such that :func:`suits` holds, y are -1.0 and 1.0, and ``costs`` are the C_i at the
    C of 1. Solutions, up to the first one that single precision does not bring within ``tol``, come
    with their certificates in float64. Kernel rows take ``cache_bytes``.
    """

    data: KernelData
    points: NDArray[np.intp]
    y: Array
    costs: Array
    Cs: Array
    tol: float
    cache_bytes: float

    def squared_hinge(self, most_steps: float) -> list[SolverResult]:
        """As the dual of the L2-SVM."""
        start, n, values = perf_counter(), len(self.points), np.empty((len(self.Cs), 5))
        alphas = np.empty((len(self.Cs), n))
        limits = self._limits(min(STEPS * n, most_steps))
        unit = SINGLE * (self.data.largest + 1.0)
        count = pairs.squared_hinge(*self._given(), limits, unit, self._space(), alphas, values)
        seconds = (perf_counter() - start) / max(count, 1)
        return [
            _result(of_C, alpha, int(of_C[3]), 1, seconds, DecompositionSolver)
            for of_C, alpha in zip(values[:count].tolist(), alphas[:count], strict=True)
        ]

    def hinge(self) -> tuple[list[SolverResult], Array, Array]:
        """With scores without the intercept, and bounds of their errors, at each C."""
        start, n, values = perf_counter(), len(self.points), np.empty((len(self.Cs), 6))
        betas, scores, errors = np.empty((3, len(self.Cs), n))
        limits = self._limits(STEPS_OF_SET * n)
        of_points = betas, scores, errors
        count = pairs.hinge(*self._given(), limits, self._space(), *of_points, values)
        seconds = (perf_counter() - start) / max(count, 1)
        results = [
            _result(of_C, beta, 1, int(of_C[3]), seconds, WorkingSetSolver)
            for of_C, beta in zip(values[:count].tolist(), betas[:count], strict=True)
        ]
        return results, scores, errors

    def _given(self) -> tuple[pairs.Points, Array]:
        data, X, none = self.data, self.data.X, np.empty((0, 0), np.float32)
        values, kernel = data.rows(np.float32), data.kernel
        features, norms, given = none, none[0:0].ravel(), data.kept
        if data.precomputed:
            X, kernel, given = np.empty((0, 0)), Kernel("rbf"), data.X
        elif given is None:
            assert values.dense is not None
            features, norms, given = values.dense.X, values.dense.norms, none
        function = function_of(kernel), float(kernel.gamma)
        of_data = frozen(features), frozen(given), frozen(norms), frozen(values.diagonal)
        of_points = frozen(self.points), frozen(self.y), frozen(self.costs)
        sizes = float(roundings_of_rbf(X.shape[1])), data.largest_rounding, float(data.largest)
        return pairs.Points(frozen(X), *function, *of_data, *of_points, *sizes), self.Cs

    def _limits(self, most_steps: float) -> pairs.Limits:
        return pairs.Limits(self.tol, SLACK * self.tol, np.float32(SINGLE), int(most_steps))

    def _space(self) -> NDArray[np.float32]:
        """Memory for kernel rows, which the next problem of this thread may reuse."""
        n = len(self.points)
        width = -(-n // tiles.TILE) * tiles.TILE
        capacity = int(min(max(2, self.cache_bytes // (4 * width)), n))
        return self.data.space(capacity * width, np.dtype(np.float32)).reshape(capacity, width)


def suits(data: KernelData) -> bool:
    """Whether compiled code has or computes values in both precisions."""
    if data.precomputed:  # that of a search has rounded the values that define its problems
        return data.definite and data.X.dtype == data.dtype == np.float32
    if data.kernel.name != "rbf" or data.dtype != np.float32 or not isinstance(data.X, np.ndarray):
        return False
    kept = data.kept is not None
    return data.exact_by_tiles and (kept or suits_tiles(data.rows(np.float32).dense))


def _result(
    values: list[float], point: Array, n_iter: int, further: int, seconds: float, solver: Any
) -> SolverResult:
    primal, bound = attained(*values[:3])
    intercept = values[5] if len(values) > 5 else None
    state = State(primal, bound, point, intercept, int(values[4]), further=(further,))
    result = at_once(state, n_iter, seconds, solver.history_fields)
    return result
