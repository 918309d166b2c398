"""Blocks of rows as their workers read, check and keep them, and what all of them are like."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any, NamedTuple
from uuid import uuid4

import joblib
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils import check_array

from sklearn_bundle.core.contract import TimeLimit
from sklearn_bundle.core.misread import refuse_misread
from sklearn_bundle.core.validation import (
    X_CHECKS,
    arrays_of,
    check_discrete,
    check_sample_weight,
    class_factors,
    distinct,
    names_of,
    refuse_one_class,
    well_formed,
)
from sklearn_bundle.core.values import is_missing, require_y
from sklearn_bundle.linear.blocks.cutting import calls_of
from sklearn_bundle.linear.blocks.risk import BlockedRows, BlockRisk, Problem
from sklearn_bundle.linear.blocks.rounds import Rounds
from sklearn_bundle.linear.losses import Loss, Prepared, RegressionLoss, Target
from sklearn_bundle.linear.losses.base import SampleLoss
from sklearn_bundle.linear.rows import rows_of

Array = NDArray[np.float64]
_SOME_TARGETS = 250  # of each block: they say where regression starts, and in which units


@dataclass
class Moments:
    """The weight of targets, and of each column the mean and the weighted squares about it."""

    weight: float
    mean: Array
    squares: Array

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
        return Moments(weight, self.mean + share * apart, squares)


class Summary(NamedTuple):
    """What the client needs to know about a block.

    ``like`` has to be the same in all blocks. ``classes`` are its labels, or a single number, with
    their rows and weights; ``targets`` are moments of numbers, their ends, and some with weights.
    """

    like: dict[str, Any]
    n_entries: int
    column_squares: Array
    classes: NDArray
    counts: Array
    weights: Array
    targets: tuple[Moments, Array, NDArray, Array] | None


class Block:
    """Checked rows of positive weight, with what is computed from them once for a problem."""

    def __init__(self, kind: str, X: Any, y: Any, weights: Array, given: Any):
        kept = np.flatnonzero(weights)
        if len(kept) < len(weights):
            X, y, weights = X[kept], None if y is None else y[kept], weights[kept]
        self.X, self.y, self.weights, self.kind = X, y, weights, kind
        self.names = list(given.columns) if hasattr(given, "columns") else None
        self._own = [y, weights, *([] if X is given else arrays_of(X))]
        self._risk: tuple[Any, Any] = None, None

    def risk(self, problem: Problem) -> Any:
        """The problem's part of these rows, kept until another one is asked for."""
        token, risk = self._risk
        if token != problem.token:
            risk = problem.of_rows(self.X, self.y, self.weights)
            self._risk = problem.token, risk
        return risk

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_risk": (None, None)}

    def __sizeof__(self) -> int:
        """Bytes of arrays of its own: dask counts those that the caller has persisted."""
        return sum(getattr(array, "nbytes", 0) for array in self._own)


@dataclass(frozen=True)
class ReadBlock:
    """The task that checks a block; it returns what is wrong, so that the first one is reported."""

    kind: str

    def __call__(self, X: Any, y: Any = None, sample_weight: Any = None) -> Block | str:
        try:
            refuse_misread("X", X)
            rows = _checked_rows(X)
            n = rows.shape[0]
            y = None if self.kind == "nothing" else _checked_targets(self.kind, y, n)
            weights = check_sample_weight(sample_weight, n, all_zero=True)
            return Block(self.kind, rows, y, weights, X)
        except (ValueError, TypeError) as error:
            return str(error)


def _checked_rows(X: Any) -> Any:
    """X as an array or in CSR; of a frame the faulty column is named."""
    checks = X_CHECKS | {"ensure_min_samples": 0, "input_name": "X"}
    try:
        rows = check_array(well_formed(X if sp.issparse(X) else np.asarray(X), "X"), **checks)
        # An array that was sent may begin anywhere, and takes ten times as long.
        parts = (rows.data, rows.indices, rows.indptr) if sp.issparse(rows) else (rows,)
        return rows if all(part.flags.aligned for part in parts) else rows.copy()
    except (ValueError, TypeError):
        for k, name in enumerate(getattr(X, "columns", ())):
            try:
                check_array(np.asarray(X.iloc[:, k])[:, None], **checks)
            except (ValueError, TypeError) as error:
                raise ValueError(f"column {name!r} of X: {error}") from None
        raise


def _checked_targets(kind: str, y: Any, n: int) -> NDArray:
    refuse_misread("y", y, dates=kind == "labels")
    y = np.asarray(y)
    missing = [row for row, value in enumerate(y.ravel().tolist()) if is_missing(value)]
    if missing:
        row = missing[0] // max(y.size // max(len(y), 1), 1)
        raise ValueError(
            f"Input y contains NaN or other missing values, first in row {row} of the block."
        )
    y = y.ravel() if y.ndim == 2 and y.shape[1] == 1 else y
    if y.ndim != 1 and not (kind == "numbers" and y.ndim == 2):
        raise ValueError(f"y must be of shape (n_samples,), got {y.shape}.")
    if len(y) != n:
        raise ValueError(f"X has {n} rows, y has {len(y)}.")
    if kind == "labels":
        if y.dtype.kind == "O":
            distinct(y)  # of labels that cannot be sorted, the block is known here
        return y
    checks = {"ensure_2d": False, "ensure_min_samples": 0, "input_name": "y"}
    return np.ascontiguousarray(check_array(y, dtype=np.float64, **checks))


def summary_of(block: Block | str) -> Summary | str:
    if isinstance(block, str):
        return block
    X, y, weights = block.X, block.y, block.weights
    n, d = X.shape
    like = {"features": d, "a dtype of": X.dtype, "columns": block.names}
    classes, numbers, targets = np.zeros(min(n, 1)), np.zeros(n, dtype=np.intp), None
    if block.kind == "labels":
        classes = distinct(y)
        numbers = np.searchsorted(classes, y)
        # numpy would convert a mixture of both kinds to strings
        like["labels that are"] = "numbers" if y.dtype.kind in "biuf" else "text"
    elif block.kind == "numbers":
        like["targets"] = y.shape[1] if y.ndim == 2 else None
        if n:
            every = slice(None, None, -(-n // _SOME_TARGETS))
            ends = np.array([y.min(axis=0), y.max(axis=0)])
            targets = Moments.of(y, weights), ends, y[every], weights[every]
    counts, sums = (np.bincount(numbers, by).astype(float) for by in (None, weights))
    squares = rows_of(X).squares(np.ones(n)) if n else np.zeros(d)
    n_entries = X.nnz if sp.issparse(X) else X.size
    return Summary(like, n_entries, squares, classes, counts, sums, targets)


def digest(block: Block) -> str:
    """A digest that is equal for equal rows, targets and weights."""
    return joblib.hash((arrays_of(block.X), block.y, np.ascontiguousarray(block.weights)))


@dataclass
class BlockedData:
    """Checked training data on workers, without rows of weight zero.

    ``shares`` are the weights of the classes, ``total`` the sum of all weights before they were
    normalized; ``extremes`` have the smallest and largest targets, ``some`` a few with
    ``some_weights``. What data in memory have too is explained there (``MemoryData``).
    """

    rounds: Rounds
    n_samples: int
    n_features: int
    n_entries: int
    column_norms: Array
    total: float
    classes: Any
    factors: Any
    shares: Array
    n_targets: int | None
    moments: Any
    extremes: Any
    some: Any
    some_weights: Any
    names: Sequence[str] = ("",)
    units: Sequence[float] = (1.0,)
    threads: tuple[int, int] = (1, 1)
    prepared: Sequence[Prepared] = ()
    spreads_of_problems: Sequence[float] = ()  # of a regressor
    problems: Sequence[Problem] = ()

    @property
    def n_problems(self) -> int:
        return len(self.prepared)

    def fingerprint(self) -> tuple:
        """Hash of rows, targets and weights, in one round that reads all of them.

        Dask's names do not change if the array in memory or the file behind them does.
        """
        return *self.rounds.map(digest), joblib.hash((self.classes, self.factors))

    def spreads(self, centered: bool) -> list[float]:
        """The spread of each target; 1 if it is constant, or zero without centering."""
        about = self.moments.squares / self.moments.weight
        spreads = np.sqrt(about if centered else about + self.moments.mean**2)
        constant = centered & (np.ravel(np.ptp(self.extremes, axis=0)) == 0.0)
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
        n, classes, ends = self.n_samples, self.classes, self.extremes
        parts: list[Any]
        if classes is not None and loss.joint:
            targets, parts = [Target(np.arange(len(classes)), len(classes), classes)], [{}]
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
        self.units = [1.0] * len(parts)

    def risk(self, k: int, fit_intercept: bool) -> BlockRisk:
        """The risk of a problem."""
        problem, y = self.problems[k], self.some
        if y is not None and problem.n_outputs is None:
            y = y if problem.column is None else y[:, problem.column]
            weights = self.some_weights / self.some_weights.sum()
            units = problem.loss.start(y, weights, fit_intercept)
            centered = problem.loss.formula is not None and fit_intercept
            center = problem.loss.center(y, weights) if centered else 0.0
            token = f"{problem.token} {center}"
            problem = replace(problem, units=units, center=center, token=token)
        rows = BlockedRows((self.n_samples, self.n_features), self.n_entries, self.column_norms)
        return BlockRisk(self.rounds, problem, rows, self.shares, fit_intercept)


def check_blocks(
    params: Any, X: Any, y: Any, sample_weight: Any, kind: str, class_weight: Any = None
) -> BlockedData:
    """Check collections in one round; ``kind`` is the content of y: "labels", "numbers", "nothing".

    Rounds end with the ``max_time`` of ``params``, which get the names of the features.

    Raises
    ------
    ValueError
        With the number of the faulty block, from 0.
    ClusterTimeout
        If a cluster has not answered in time.
    """
    limit, labels = TimeLimit(params.max_time), kind == "labels"
    if kind != "nothing":
        require_y(type(params).__name__, y)
    calls = calls_of(ReadBlock(kind), X, None if kind == "nothing" else y, sample_weight, limit)
    rounds = Rounds(calls, limit, "reading and checking the blocks of rows")
    summaries = _without_faults(rounds.map(summary_of))
    classes, counts, sums = _classes_of(list(summaries.values()))
    _refuse_total(float(sums.sum()))
    factors = np.ones(1)
    if labels:
        check_discrete(classes)
        refuse_one_class(params, classes)
        factors = class_factors(class_weight, classes, np.arange(len(classes)), sums)
        present = factors > 0.0
        classes, factors, counts = classes[present], factors[present], counts[present]
        refuse_one_class(params, classes)
        sums = sums[present] * factors
        _refuse_total(float(sums.sum()))
    filled = {k: s for k, s in summaries.items() if np.isin(s.classes, classes).any()}
    rounds.only(list(filled))
    used = list(filled.values())
    _name_features(params, used[0].like, getattr(X, "columns", None))
    targets: Any = [None] * 4
    if kind == "numbers":
        moments, *arrays = zip(*(s.targets for s in used if s.targets), strict=True)
        targets = [reduce(add, moments), *map(np.concatenate, arrays)]
    return BlockedData(
        *(rounds, int(counts.sum()), used[0].like["features"], sum(s.n_entries for s in used)),
        *(np.sqrt(reduce(add, (s.column_squares for s in used))), float(sums.sum())),
        *((classes, factors) if labels else (None, None)),
        *(sums / sums.sum(), used[0].like.get("targets"), *targets),
    )


def _refuse_total(total: float) -> None:
    if not 0.0 < total < np.inf:
        raise ValueError(f"sample_weight must have a positive, finite sum, but it is {total:g}.")


def _without_faults(found: list[Summary | str]) -> dict[int, Summary]:
    """Those of blocks with rows, by number; ValueError for a faulty block or an odd one."""
    faults = [f"Block {k}: {one}" for k, one in enumerate(found) if isinstance(one, str)]
    if faults:
        more = f" {len(faults) - 1} further blocks are at fault." if len(faults) > 1 else ""
        raise ValueError(faults[0] + more)
    filled = {
        k: one for k, one in enumerate(found) if isinstance(one, Summary) and len(one.classes)
    }
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


def _name_features(params: Any, like: dict[str, Any], columns: Any) -> None:
    """Set names like scikit-learn, for a frame whose columns all have names."""
    params.n_features_in_ = like["features"]
    vars(params).pop("feature_names_in_", None)
    names = like["columns"] if columns is None else list(columns)
    if names is not None and all(isinstance(name, str) for name in names):
        params.feature_names_in_ = np.array(names, dtype=object)
