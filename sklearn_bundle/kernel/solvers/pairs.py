"""All pairs of classes at all costs: a call of compiled code for classes, not for each pair."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.contract import HISTORY_DTYPE, SolverResult, Status
from sklearn_bundle.core.parallel import BlockRunner
from sklearn_bundle.kernel._compiled.pair_rows import LANES, LINEAR, POLY, RBF, Points
from sklearn_bundle.kernel._compiled.pairs import FIELDS, solve_pairs
from sklearn_bundle.kernel.solvers.working_sets import WorkingSets
from sklearn_bundle.kernel.values.data import KernelData
from sklearn_bundle.kernel.values.kernel import KernelRows

Array = NDArray[np.float64]

_MOST = 4096  # points of a pair; with more, working sets take less time
_LARGE = 48  # points of a class, beyond which pairs compute the few rows that they need
_TOGETHER = 1 << 22  # values that are computed at a time: 32 MB
_NARROW = 256  # features up to which values within a class are computed for each of its pairs
_KINDS: dict[Any, int] = {"rbf": RBF, "linear": LINEAR, "poly": POLY}
_NUMBERS = "objective_", "lower_bound_", "dual_gap_", "n_iter_"


def suit(values: KernelData, labels: NDArray[np.integer], cache_bytes: float) -> bool:
    """Whether pairs of more than two classes are small enough to be solved in one call each."""
    counts = np.sort(np.bincount(labels))
    largest = int(counts[-2:].sum())
    n, width = len(labels), int(counts[-1])
    # Values of some classes with all, within classes, and of a pair.
    memory = 8.0 * (max(n * width, min(n * n, _TOGETHER)) + n * width + largest**2)
    return len(counts) > 2 and largest <= _MOST and memory <= cache_bytes


class Pairs(NamedTuple):
    """Solutions of all pairs at one cost or at each of several, the first axis.

    ``coef`` has shape (n_costs, n_classes - 1, n), in SVC's shapes; ``found`` has, of shape
    (n_costs, n_pairs, 7), what ``FIELDS`` of the compiled module names.
    """

    coef: Array
    found: Array
    squared: bool

    def certificate(self, r: int, tol: float) -> dict[str, Any]:
        """Fitted attributes of the certificates at cost number r, without an object for each pair.

        A pair that is not within ``tol`` is "stalled".
        """
        primal, bound, _, radius, below, above, steps = self.found[r].T
        history = np.zeros(len(primal), HISTORY_DTYPE.descr + list(WorkingSets.history_fields))
        history["iteration"] = 1
        history["objective"], history["lower_bound"] = primal, bound
        history["steps"] = np.where(steps < 0.0, -1.0 - steps, steps)
        ends = np.array([str(Status.CONVERGED), str(Status.STALLED)], dtype=object)
        gaps, constant = primal - bound, float(self.squared)
        return {
            "objective_": primal.copy(),
            "lower_bound_": bound.copy(),
            "dual_gap_": gaps,
            "n_iter_": np.ones(len(primal), dtype=np.int64),
            "status_": ends[(steps < 0.0).astype(int)].tolist(),
            "history_": [history[k : k + 1] for k in range(len(history))],
            "converged_": bool((steps >= 0.0).all()),
            "relative_gap_": float((gaps / primal).max()),
            "_regions": np.column_stack([radius, np.full(len(primal), constant), below, above]),
        }


def put(known: dict[str, Any], k: int, result: SolverResult) -> None:
    """Set what is known of pair k to a result of its own."""
    numbers = result.primal, result.lower_bound, result.gap, result.n_iter
    for name, value in zip(_NUMBERS, numbers, strict=True):
        known[name][k] = value
    known["status_"][k], known["history_"][k] = str(result.status), result.history
    if result.region is not None:
        known["_regions"][k] = tuple(result.region)
    known["relative_gap_"] = float((known["dual_gap_"] / np.abs(known["objective_"])).max())
    known["converged_"] = set(known["status_"]) == {str(Status.CONVERGED)}


def result_of(known: dict[str, Any], k: int) -> SolverResult:
    """What is known of pair k, as a result."""
    primal, bound, _, n_iter = (known[name][k] for name in _NUMBERS)
    nothing: Any = None  # of the point
    end = Status(known["status_"][k]), n_iter, known["history_"][k]
    return SolverResult(primal, bound, nothing, nothing, *end)


def solve_all(
    values: KernelData,
    labels: NDArray[np.integer],
    costs: Array,
    ratios: Array,
    *,
    squared: bool,
    tol: float,
    n_threads: int = 1,
) -> Pairs:
    """The pairs of these classes at the costs ``ratios[r] * costs``, ascending.

    Of each pair the first class is +1, as in SVC.
    """
    order, counts = np.argsort(labels, kind="stable"), np.bincount(labels)
    n, K, starts = len(labels), len(counts), np.concatenate([[0], np.cumsum(counts)])
    given = KernelRows(values.X, values.kernel, np.float64)
    rows, error = given.take(order), given.relative_error
    points = _points_of(rows, starts)
    groups = _groups(starts)
    kept = len(groups) > 1 if points is None else points.terms > _NARROW
    own = np.zeros((n, counts.max() if kept else 0))
    for c in range(K if kept else 0):
        rows.take(np.arange(starts[c], starts[c + 1])).gram(own[starts[c] : starts[c + 1]])
    lengths = np.sqrt(np.maximum(rows.diagonal, 0.0) * (1.0 + error))
    coef = np.zeros((len(ratios), K - 1, n))
    found = np.zeros((len(ratios), K * (K - 1) // 2, FIELDS))
    first = np.concatenate([[0], np.cumsum(np.arange(K - 1, -1, -1))])

    def work(k: int) -> None:
        a, stop = groups[k]
        strip, begin = np.zeros((0, 0)), starts[a]
        if points is None and len(groups) == 1:
            strip = rows.gram()
        elif points is None:
            strip = rows.block(np.arange(begin, starts[stop]), np.arange(begin, n))
        fixed = (a, stop), points, rows.diagonal, strip, own, starts, costs[order], lengths, ratios
        solve_pairs(*fixed, squared, tol, error, (coef, found[:, first[a] : first[stop]]))

    with BlockRunner(n_threads) as runner:
        runner.run(work, len(groups))
    arranged = np.empty_like(coef)
    arranged[:, :, order] = coef
    return Pairs(arranged, found, squared)


def _groups(starts: NDArray[np.intp]) -> list[tuple[int, int]]:
    """First classes of the pairs that are solved in a call, from one up to another."""
    groups, a, n = [], 0, int(starts[-1])
    while a < len(starts) - 2:
        last = int(np.searchsorted(starts, starts[a] + _TOGETHER // n, side="right")) - 1
        groups.append((a, max(a + 1, last)))
        a = groups[-1][1]
    return groups


def _points_of(rows: KernelRows, starts: NDArray[np.intp]) -> Points | None:
    """Points from which compiled code computes the rows that it needs, where classes are large.

    Small classes need nearly all rows, which come in blocks.
    """
    dense, kernel, counts = rows.dense, rows.kernel, np.diff(starts)
    tiles = -(-counts // LANES)  # not twice as many points as there are
    if dense is None or counts.max() <= _LARGE or LANES * tiles.sum() > 2 * rows.n:
        return None
    first = LANES * (np.cumsum(tiles) - tiles)
    places = np.arange(rows.n) + np.repeat(first - starts[:-1], counts)
    padded = np.zeros((LANES * int(tiles.sum()), dense.terms))
    padded[places] = dense.X
    tiled = padded.reshape(-1, LANES, dense.terms).transpose(0, 2, 1).ravel()
    places = places // LANES * (LANES * dense.terms) + places % LANES
    known = tiled, places, dense.terms, dense.norms, rows.diagonal, _KINDS[kernel.name]
    return Points(*known, kernel.gamma, kernel.coef0, kernel.degree)
