"""Blocks of rows as their workers read, check and keep them, and what all of them are like."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import add
from typing import Any, NamedTuple
from uuid import uuid4

import joblib
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils import check_array, check_consistent_length

from sklearn_bundle.core.contract import TimeLimit
from sklearn_bundle.core.validation import (
    X_CHECKS,
    arrays_of,
    check_discrete,
    check_sample_weight,
    checked_data,
    class_factors,
    distinct,
    names_of,
    refuse_one_class,
)
from sklearn_bundle.core.values import as_numbers, require_y
from sklearn_bundle.linear.blocks.cutting import calls_of
from sklearn_bundle.linear.blocks.risk import BlockedRows, BlockRisk, Problem
from sklearn_bundle.linear.blocks.rounds import Rounds
from sklearn_bundle.linear.losses import Loss, Prepared, RegressionLoss, Target
from sklearn_bundle.linear.losses.base import SampleLoss
from sklearn_bundle.linear.rows import rows_of
from sklearn_bundle.linear.score_risk import ROWS_A_FEATURE, ScoreRisk

Array = NDArray[np.float64]


@dataclass
class Moments:
    """The weight of targets, and of each column the mean and the weighted squares about it.

    ``missed`` are weighted squares about predictions.
    """

    weight: float
    mean: Array
    squares: Array
    missed: Any = 0.0

    @classmethod
    def of(cls, y: Array, weights: Array) -> "Moments":
        columns, weight = y.reshape(len(y), -1), float(weights.sum())
        first = columns[0]  # from which the mean of a constant column does not differ
        mean = first + weights / weight @ (columns - first)
        return cls(weight, mean, weights @ (columns - mean) ** 2)

    def __add__(self, other: "Moments") -> "Moments":
        """Of both parts together."""
        weight, apart = self.weight + other.weight, other.mean - self.mean
        share = other.weight / weight
        squares = self.squares + other.squares + self.weight * share * apart**2
        return Moments(weight, self.mean + share * apart, squares, self.missed + other.missed)


class Summary(NamedTuple):
    """What the client needs to know about a block.

    ``like`` has to be the same in all blocks. ``columns`` are sums of the features and of their
    squares. ``classes`` are its labels, or a single number, with their rows and weights;
    ``numbers`` are moments of targets and their ends; ``some`` are rows, if they are small,
    targets, weights.
    """

    like: dict[str, Any]
    names: Any
    n_entries: int
    columns: Array
    classes: NDArray
    counts: Array
    weights: Array
    numbers: tuple[Moments, Array] | None
    some: tuple[Any, Any, Array]


class Block:
    """Checked rows of positive weight, with what is computed from them once for a problem."""

    def __init__(self, kind: str, X: Any, y: Any, weights: Array, names: Any, own: list[Any]):
        kept = np.flatnonzero(weights)
        if len(kept) < len(weights):
            X, y, weights = X[kept], None if y is None else y[kept], weights[kept]
        self.X, self.y, self.weights, self.kind, self.names = X, y, weights, kind, names
        self._own, self._risks = [y, weights, *own], (None, None)

    def risks(self, problem: Problem) -> Any:
        """The problem's part of these rows, in pieces; kept until another one is asked for."""
        token, risks = self._risks
        if token != problem.token:
            n = len(self.weights)
            # Rows that are looked at together stay in the cache, and vectors of so
            # many take no memory from the system, which would take as long as a sum over them.
            step = n if sp.issparse(self.X) else (1 << 14)  # others are not copied
            cuts = [slice(start, start + step) for start in range(0, n, step)]
            y = [None if self.y is None else self.y[cut] for cut in cuts]
            pieces = zip(cuts, y, strict=True)
            risks = [problem.of_rows(self.X[c], some, self.weights[c]) for c, some in pieces]
            self._risks = problem.token, risks
        return risks

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_risks": (None, None)}

    def __sizeof__(self) -> int:
        """Bytes of arrays of its own: dask counts those that the caller has persisted."""
        return sum(getattr(array, "nbytes", 0) for array in self._own)


def read_block(
    owner: type, kind: str, X: Any, y: Any = None, sample_weight: Any = None
) -> Block | str:
    """A block checked for an estimator, or what is wrong: the first one is reported."""
    estimator, labels = owner(), [y] if kind == "labels" else []
    try:
        found = checked_data(estimator, X, *labels, **X_CHECKS, ensure_min_samples=0)
        rows, y = found if labels else (found, y)
        if not all(part.flags.aligned for part in _parts(rows)):
            rows = rows.copy()  # an array that was sent; it takes ten times as long
        if kind == "labels" and y.dtype.kind == "O":
            distinct(y)  # of labels that cannot be sorted, the block is known here
        elif kind == "numbers":
            checks = {"ensure_2d": False, "ensure_min_samples": 0, "input_name": "y"}
            y = check_array(as_numbers("y", y), **checks)
            check_consistent_length(rows, y)
            y = np.ascontiguousarray(y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y)
        weights = check_sample_weight(sample_weight, rows.shape[0], all_zero=True)
        names = getattr(estimator, "feature_names_in_", None)
        return Block(kind, rows, y, weights, names, [] if rows is X else _parts(rows))
    except (ValueError, TypeError) as error:
        return str(error)


def _parts(X: Any) -> list[NDArray]:
    return [X.data, X.indices, X.indptr] if sp.issparse(X) else [X]


def summary_of(block: Block | str) -> Summary | str:
    if isinstance(block, str):
        return block
    X, y, weights = block.X, block.y, block.weights
    n, d = X.shape
    names = block.names
    like = {"features": d, "a dtype of": X.dtype, "columns": None if names is None else list(names)}
    classes, places, numbers = np.zeros(min(n, 1)), np.zeros(n, dtype=np.intp), None
    if block.kind == "labels":
        classes = distinct(y)
        places = np.searchsorted(classes, y)
        # numpy would convert a mixture of both kinds to strings
        like["labels that are"] = "numbers" if y.dtype.kind in "biuf" else "text"
    elif block.kind == "numbers":
        like["targets"] = y.shape[1] if y.ndim == 2 else None
        if n:
            numbers = Moments.of(y, weights), np.array([y.min(axis=0), y.max(axis=0)])
    counts, sums = (np.bincount(places, by).astype(float) for by in (None, weights))
    columns, rows = np.zeros((2, d)), rows_of(X)
    if n:
        columns[:] = rows.gradient(np.ones(n)), rows.squares(np.ones(n))
    # a sample has 1,000 rows of each block, if they take no more than 1 MB, and always the targets
    every = slice(None, None, max(-(-n // 1000), 1))
    some = X[every] if n else X
    is_small = sum(part.nbytes for part in _parts(some)) <= 1 << 20
    some = some if is_small else None, None if y is None else y[every], weights[every]
    return Summary(like, names, rows.n_entries, columns, classes, counts, sums, numbers, some)


def digest(block: Block) -> str:
    """A digest that is equal for equal rows, targets and weights."""
    return joblib.hash((arrays_of(block.X), block.y, np.ascontiguousarray(block.weights)))


@dataclass
class BlockedData:
    """Checked training data on workers, without rows of weight zero.

    ``shares`` are the weights of the classes, ``total`` the sum of all weights before they were
    normalized; ``numbers`` and ``some`` are those of all summaries together. What data in memory
    have too is explained there (``MemoryData``).
    """

    rounds: Rounds
    rows: BlockedRows
    n_samples: int
    n_features: int
    total: float
    classes: Any
    factors: Any
    shares: Array
    n_targets: int | None
    numbers: Any
    some: list[Any]
    n_problems: int = 1
    names: Sequence[str] = ("",)
    units: Sequence[float] = (1.0,)
    threads: tuple[int, int] = (1, 1)
    prepared: Sequence[Prepared] = ()
    spreads_of_problems: Sequence[float] = ()  # of a regressor
    problems: Sequence[Problem] = ()

    def fingerprint(self) -> tuple:
        """Hash of rows, targets and weights, in one round that reads all of them.

        Dask's names do not change if the array in memory or the file behind them does.
        """
        return *self.rounds.map(digest), joblib.hash((self.classes, self.factors))

    def spreads(self, centered: bool) -> list[float]:
        """The spread of each target; 1 if it is constant, or zero without centering."""
        moments, ends = self.numbers
        about = moments.squares / moments.weight
        spreads = np.sqrt(about if centered else about + moments.mean**2)
        constant = centered & (np.ravel(np.ptp(ends, axis=0)) == 0.0)
        usable = (spreads > 0.0) & (spreads < np.inf) & ~constant
        return np.where(usable, spreads, 1.0).tolist()

    def prepare(self, losses: Sequence[Loss], name: Any) -> None:
        """Make the problems: one for a joint loss or one target, else one per class or target.

        There is one loss for each target that is a problem of its own, otherwise one.

        Raises
        ------
        ValueError
            If the loss is not a sum over samples, or refuses the targets.
        """
        loss = losses[0]
        if not isinstance(loss, SampleLoss):
            raise ValueError(
                f"loss={name!r} is a function of the scores of all samples at once, which lie in "
                "blocks here: use a loss that is a sum over samples, or fit to arrays in memory."
            )
        if not type(loss).prepare_target.__module__.startswith("sklearn_bundle."):
            raise ValueError(
                f"loss={name!r} has a prepare_target of its own, which needs all targets in one "
                "place; they lie in blocks here. Fit to arrays in memory."
            )
        n, classes, ends = self.n_samples, self.classes, self.numbers and self.numbers[1]
        parts: list[Any]
        if classes is not None and loss.joint:
            targets, parts = [Target(np.arange(len(classes)), len(classes))], [{}]
        elif classes is not None:
            parts = [{"positive": k} for k in range(len(classes))][len(classes) == 2 :]
            targets = [Target(np.array([-1.0, 1.0]), n)] * len(parts)
        elif np.ndim(ends) < 2 or (isinstance(loss, RegressionLoss) and loss.multi_output):
            targets, parts = [Target(ends, n)], [{}]
        else:
            parts = [{"column": k} for k in range(ends.shape[1])]
            targets = [Target(column, n) for column in ends.T]
        pairs = zip(list(losses) * (len(parts) // len(losses)), targets, strict=True)
        self.prepared = [each.prepare_target(target) for each, target in pairs]
        common: dict[str, Any] = {"classes": classes, "factors": self.factors, "total": self.total}
        self.problems = [
            Problem(uuid4().hex, bound, None if y is None else bound.n_outputs(y), **common, **part)
            for (bound, y), part in zip(self.prepared, parts, strict=True)
        ]
        several = range(len(parts)) if classes is None else classes
        self.names = names_of(several) if len(parts) > 1 else [""]  # type: ignore[arg-type]
        self.n_problems, self.units = len(parts), [1.0] * len(parts)

    def risk(self, k: int, fit_intercept: bool) -> BlockRisk:
        """The risk of a problem, with that of the sample if it says enough."""
        problem, (X, y, weights) = replace(self.problems[k], free=fit_intercept), self.some
        m, d = len(weights), self.n_features
        rows = sp.csr_array((m, d)) if X is None else X
        sample = problem.of_rows(rows, y, weights, stand_for_all=True)
        if isinstance(sample, ScoreRisk):
            problem = replace(problem, units=sample.units, center=sample.center, token=uuid4().hex)
        counts = [m] if self.classes is None else [np.sum(y == label) for label in self.classes]
        # at least 20 of each class
        enough = X is not None and m >= ROWS_A_FEATURE * d and min(counts) >= 20
        given = replace(self.rows), self.shares, sample if enough else None
        return BlockRisk(self.rounds, problem, *given)


def check_blocks(
    params: Any, X: Any, y: Any, sample_weight: Any, kind: str, class_weight: Any = None
) -> BlockedData:
    """Check collections in one round; ``kind`` is the content of y: "labels" or "numbers".

    Rounds end with the ``max_time`` of ``params``, which get the names of the features.

    Raises
    ------
    ValueError
        With the number of the faulty block, from 0.
    ClusterTimeout
        If a cluster has not answered in time.
    """
    limit, labels = TimeLimit(params.max_time), kind == "labels"
    require_y(type(params).__name__, y)
    calls = calls_of(partial(read_block, type(params), kind), X, y, sample_weight)
    rounds = Rounds(calls, limit)
    summaries = _without_faults(rounds.map(summary_of))
    classes, counts, sums = _classes_of(list(summaries.values()))
    factors = np.ones(1)
    if labels:
        check_discrete(classes)
        refuse_one_class(params, classes)
        factors = class_factors(class_weight, classes, np.arange(len(classes)), sums)
        present = factors > 0.0
        classes, factors, counts = classes[present], factors[present], counts[present]
        refuse_one_class(params, classes)
        sums = sums[present] * factors
    total = float(sums.sum())
    if not 0.0 < total < np.inf:
        raise ValueError(f"sample_weight must have a positive, finite sum, but it is {total:g}.")
    filled = {k: s for k, s in summaries.items() if np.isin(s.classes, classes).any()}
    rounds.only(list(filled))
    used = list(filled.values())
    like, numbers = used[0].like, None
    params.n_features_in_ = like["features"]
    vars(params).pop("feature_names_in_", None)
    if used[0].names is not None:
        params.feature_names_in_ = used[0].names
    if kind == "numbers":
        moments, ends = zip(*(s.numbers for s in used if s.numbers), strict=True)
        low, high = np.array(ends).min(axis=0)[0], np.array(ends).max(axis=0)[1]
        numbers = reduce(add, moments), np.array([low, high])
    n, columns = int(counts.sum()), reduce(add, (s.columns for s in used))
    n_entries, d = sum(s.n_entries for s in used), like["features"]
    rows = BlockedRows((n, d), n_entries, np.sqrt(columns[1]), columns[0] / n)
    some = [_joined(column) for column in zip(*(s.some for s in used), strict=True)]
    given = total, *((classes, factors) if labels else (None, None)), sums / total
    return BlockedData(rounds, rows, n, d, *given, like.get("targets"), numbers, some)


def _joined(parts: Sequence[Any]) -> Any:
    """Parts of all blocks, None if one is missing."""
    if any(part is None for part in parts):
        return None
    return sp.vstack(parts, format="csr") if sp.issparse(parts[0]) else np.concatenate(parts)


def _without_faults(found: list[Summary | str]) -> dict[int, Summary]:
    """Those of blocks with rows, by number; ValueError for a faulty block or an odd one."""
    for k, one in enumerate(found):
        if isinstance(one, str):
            raise ValueError(f"Block {k}: {one}")
    filled = {k: s for k, s in enumerate(found) if isinstance(s, Summary) and len(s.classes)}
    if not filled:
        raise ValueError("X has no rows with a positive weight in any block.")
    number, first = next(iter(filled.items()))
    for k, summary in filled.items():
        for what, there in first.like.items():
            here = summary.like[what]
            if here != there:
                raise ValueError(f"Block {k} has {what} {here}, block {number} has {there}.")
    return filled


def _classes_of(summaries: list[Summary]) -> tuple[NDArray, Array, Array]:
    """All classes, with the number of rows and the sample weights of each."""
    classes = distinct(np.concatenate([s.classes for s in summaries]))
    counts, sums = np.zeros(len(classes)), np.zeros(len(classes))
    for s in summaries:
        places = np.searchsorted(classes, s.classes)
        counts[places] += s.counts
        sums[places] += s.weights
    return classes, counts, sums
