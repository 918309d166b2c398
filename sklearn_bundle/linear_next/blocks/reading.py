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

from sklearn_bundle.core_next.contract import TimeLimit
from sklearn_bundle.core_next.misread import refuse_misread
from sklearn_bundle.core_next.validation import (
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
from sklearn_bundle.core_next.values import is_missing, require_y, shown
from sklearn_bundle.linear_next.blocks.cutting import calls_of
from sklearn_bundle.linear_next.blocks.risk import BlockRisk, Problem
from sklearn_bundle.linear_next.blocks.rounds import Rounds
from sklearn_bundle.linear_next.losses import Loss, Prepared, RegressionLoss, Target
from sklearn_bundle.linear_next.losses.base import SampleLoss
from sklearn_bundle.linear_next.rows import rows_of

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

    ``classes`` are its labels, ``counts`` and ``weights`` their numbers of rows and sums of weights;
    without labels there is one of each. ``names`` and ``dtypes`` are those of a frame.
    """

    fault: str | None
    n_features: int = 0
    dtype: Any = None
    names: Any = None
    dtypes: Any = None
    n_targets: int | None = None
    n_entries: int = 0
    column_squares: Any = None
    classes: Any = None
    counts: Any = np.zeros(1)
    weights: Any = np.zeros(1)
    extremes: Any = None
    moments: Any = None
    some: Any = None


class Block:
    """Checked rows of positive weight, with what is computed from them once for a problem."""

    def __init__(self, X: Any, y: Any, weights: Array, given: Any):
        kept = np.flatnonzero(weights)
        if len(kept) < len(weights):
            X, y, weights = X[kept], None if y is None else y[kept], weights[kept]
        self.X, self.y, self.weights, self.fault = X, y, weights, None
        columns = getattr(given, "columns", None)
        self.names = None if columns is None else list(columns)
        self.dtypes = None if columns is None else [str(kind) for kind in given.dtypes]
        self._borrowed, self._risk = X is given, (None, None)

    def risk(self, problem: Problem) -> Any:
        """The problem's part of these rows, kept until another one is asked for."""
        token, risk = self._risk
        if token != problem.token:
            risk = problem.of_rows(self.X, self.y, self.weights)
            self._risk = problem.token, risk
        return risk

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_risk": (None, None), "_borrowed": False}

    def __sizeof__(self) -> int:
        """Bytes of arrays of its own, which dask counts."""
        arrays = [self.y, self.weights]
        if not self._borrowed:
            arrays += [self.X] if not sp.issparse(self.X) else [self.X.data, self.X.indices]
        return sum(array.nbytes for array in arrays if array is not None)


class Fault(NamedTuple):
    """What is wrong with a block, in place of it."""

    fault: str


def read_block(kind: str, X: Any, y: Any = None, sample_weight: Any = None) -> Block | Fault:
    """The task that checks a block; it returns a fault, so that the first one is reported."""
    try:
        refuse_misread("X", X)
        rows = _checked_rows(X)
        n = rows.shape[0]
        y = None if kind == "nothing" else _checked_targets(kind, y, n)
        return Block(rows, y, check_sample_weight(sample_weight, n, all_zero=True), X)
    except (ValueError, TypeError) as error:
        return Fault(str(error))


def _checked_rows(X: Any) -> Any:
    """X as an array or in CSR; of a frame the faulty column is named."""
    checks = X_CHECKS | {"ensure_min_samples": 0, "input_name": "X"}
    try:
        return check_array(well_formed(X if sp.issparse(X) else np.asarray(X), "X"), **checks)
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
        return y
    checks = {"ensure_2d": False, "ensure_min_samples": 0, "input_name": "y"}
    return np.ascontiguousarray(check_array(y, dtype=np.float64, **checks))


def summary_of(block: Block | Fault, kind: str) -> Summary:
    if isinstance(block, Fault):
        return Summary(block.fault)
    X, y, weights = block.X, block.y, block.weights
    found = Summary(None, X.shape[1], X.dtype, block.names, block.dtypes)
    if kind == "numbers":
        found = found._replace(n_targets=y.shape[1] if y.ndim == 2 else None)
    if not len(weights):
        return found
    sizes = X.nnz if sp.issparse(X) else X.size, rows_of(X).squares(np.ones(len(weights)))
    found = found._replace(n_entries=sizes[0], column_squares=sizes[1])
    if kind == "labels":
        classes = distinct(y)
        numbers = np.searchsorted(classes, y)
        counts = np.bincount(numbers), np.bincount(numbers, weights)
        return found._replace(classes=classes, counts=counts[0], weights=counts[1])
    found = found._replace(counts=np.array([len(weights)]), weights=np.array([weights.sum()]))
    if kind == "nothing":
        return found
    every = slice(None, None, -(-len(y) // _SOME_TARGETS))
    return found._replace(
        extremes=np.array([y.min(axis=0), y.max(axis=0)]),
        moments=Moments.of(y, weights),
        some=(y[every], weights[every]),
    )


def digest(block: Block) -> str:
    """A digest that is equal for equal rows, targets and weights."""
    return joblib.hash((arrays_of(block.X), block.y, np.ascontiguousarray(block.weights)))


@dataclass
class BlockedData:
    """Checked training data on workers, without rows of weight zero.

    ``shares`` are the weights of the classes, ``total`` the sum of all weights before they were
    normalized; ``extremes`` are the smallest and largest targets, and ``some`` a few of them. What
    data in memory have too is explained there (``MemoryData``).
    """

    rounds: Rounds
    n_samples: int
    n_features: int
    n_entries: int
    column_norms: Array
    total: float
    classes: Any
    factors: Any
    shares: Any
    n_targets: int | None
    extremes: Any
    moments: Moments | None
    some: tuple[Any, Any]
    names: Sequence[str] = ("",)
    units: Sequence[float] = (1.0,)
    threads: tuple[int, int] = (1, 1)
    prepared: Sequence[Prepared] = ()
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
        assert self.moments is not None
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
        common = {"classes": self.classes, "factors": self.factors, "total": self.total}
        if self.classes is not None and loss.joint:
            numbers = np.arange(len(self.classes))
            found = [(loss.prepare_target(Target(numbers, len(numbers), self.classes)), {})]
        elif self.classes is not None:
            prepared = loss.prepare_target(Target(np.array([-1.0, 1.0]), self.n_samples))
            positives = [1] if len(self.classes) == 2 else range(len(self.classes))
            found = [(prepared, {"positive": k}) for k in positives]
        elif self.extremes is None:
            found = [(loss.prepare_target(Target(None, self.n_samples)), {})]
        elif self.n_targets is None or (isinstance(loss, RegressionLoss) and loss.multi_output):
            found = [(loss.prepare_target(Target(self.extremes, self.n_samples)), {})]
        else:
            columns = enumerate(zip(losses, self.extremes.T, strict=True))
            found = [
                (each.prepare_target(Target(ends, self.n_samples)), {"column": k})
                for k, (each, ends) in columns
            ]
        self.prepared, self.units = [prepared for prepared, _ in found], [1.0] * len(found)
        several = list(map(str, range(len(found)))) if self.classes is None else self.classes
        self.names = names_of(several) if len(found) > 1 else [""]
        self.problems = [
            Problem(uuid4().hex, loss, None if y is None else loss.n_outputs(y), **common, **part)
            for (loss, y), part in found
        ]

    def risk(self, k: int, fit_intercept: bool) -> BlockRisk:
        """The risk of a problem."""
        problem, (y, weights) = self.problems[k], self.some
        if y is not None and problem.n_outputs is None:
            y = y if problem.column is None else y[:, problem.column]
            units = problem.loss.start(y, weights, fit_intercept)
            compiled = problem.loss.formula is not None
            center = problem.loss.center(y, weights) if compiled and fit_intercept else 0.0
            problem = replace(
                problem, units=units, center=center, token=f"{problem.token} {center}"
            )
        shape = self.n_samples, self.n_features
        return BlockRisk(
            *(self.rounds, problem, shape, self.n_entries, self.column_norms),
            *(self.shares, fit_intercept),
        )


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
    limit = TimeLimit(params.max_time)
    if kind != "nothing":
        require_y(type(params).__name__, y)
    calls = calls_of(_Read(kind), X, None if kind == "nothing" else y, sample_weight, limit)
    rounds = Rounds(calls, limit, "reading and checking the blocks of rows")
    summaries = rounds.map(summary_of, kind)
    _refuse_faults(summaries)
    filled = [k for k, s in enumerate(summaries) if s.counts.sum() > 0]
    summaries = [summaries[k] for k in filled]
    total, n = (float(sum(part.sum() for part in parts)) for parts in _weights_of(summaries))
    _refuse_total(total)
    classes = factors = shares = None
    if kind == "labels":
        classes, counts, sums = _classes_of(params, summaries)
        factors = class_factors(class_weight, classes, np.arange(len(classes)), sums)
        present = factors > 0.0
        classes, factors, sums = (
            classes[present],
            factors[present],
            sums[present] * factors[present],
        )
        refuse_one_class(params, classes)
        total, n = float(sums.sum()), int(counts[present].sum())
        _refuse_total(total)
        shares = sums / total
        used = [k for k, s in enumerate(summaries) if np.isin(s.classes, classes).any()]
        filled, summaries = [filled[k] for k in used], [summaries[k] for k in used]
    rounds.only(filled)
    first, numbers = summaries[0], kind == "numbers"
    some = list(zip(*(s.some for s in summaries), strict=True)) if numbers else ()
    _name_features(params, first, getattr(X, "columns", None))
    return BlockedData(
        rounds=rounds,
        n_samples=int(n),
        n_features=first.n_features,
        n_entries=sum(s.n_entries for s in summaries),
        column_norms=np.sqrt(reduce(add, (s.column_squares for s in summaries))),
        total=total,
        classes=classes,
        factors=factors,
        shares=shares,
        n_targets=first.n_targets,
        extremes=np.concatenate([s.extremes for s in summaries]) if numbers else None,
        moments=reduce(add, (s.moments for s in summaries)) if numbers else None,
        some=tuple(map(np.concatenate, some)) if numbers else (None, None),
    )


@dataclass(frozen=True)
class _Read:
    """The task :func:`read_block` of one kind."""

    kind: str

    def __call__(self, X: Any, y: Any = None, sample_weight: Any = None) -> Block | Fault:
        return read_block(self.kind, X, y, sample_weight)


def _weights_of(summaries: list[Summary]) -> tuple[list[Array], list[Array]]:
    return [s.weights for s in summaries], [s.counts for s in summaries]


def _refuse_total(total: float) -> None:
    if not 0.0 < total < np.inf:
        raise ValueError(f"sample_weight must have a positive, finite sum, but it is {total:g}.")


def _refuse_faults(summaries: list[Summary]) -> None:
    """Raise ValueError for the first faulty block, or one that differs from the first."""
    faults = [f"Block {k}: {s.fault}" for k, s in enumerate(summaries) if s.fault is not None]
    if faults:
        more = f" {len(faults) - 1} further blocks are at fault." if len(faults) > 1 else ""
        raise ValueError(faults[0] + more)
    filled = [(k, s) for k, s in enumerate(summaries) if s.column_squares is not None]
    if not filled:
        raise ValueError("X has no rows with a positive weight in any block.")
    number, first = filled[0]
    for k, s in filled:
        for what, here, there in (
            ("features", s.n_features, first.n_features),
            ("a dtype of", s.dtype, first.dtype),
            ("targets", s.n_targets, first.n_targets),
            ("columns", s.names, first.names),
        ):
            if here != there:
                which = _which_columns(s, first)
                raise ValueError(f"Block {k} has {what} {here}, block {number} has {there}{which}.")
        if s.classes is not None and _kind(s.classes) != _kind(first.classes):
            kind = _kind(s.classes)
            raise ValueError(f"Block {k} has labels that are {kind}, blocks before it have others.")


def _which_columns(here: Summary, there: Summary) -> str:
    """The columns by which two frames differ, for a message."""
    if here.names is None or there.names is None:
        return ""
    absent = [shown(name) for name in there.names if name not in here.names]
    further = [shown(name) for name in here.names if name not in there.names]
    if absent or further:
        lacks = f"; it lacks {', '.join(absent)}" if absent else ""
        return lacks + (f"; it has also {', '.join(further)}" if further else "")
    kinds = dict(zip(there.names, there.dtypes, strict=True))
    for name, kind in zip(here.names, here.dtypes, strict=True):
        if kind != kinds[name]:
            return f"; column {shown(name)} is {kind}, not {kinds[name]}"
    return ""


def _kind(classes: Any) -> str:
    """The kind of labels: numpy would convert a mixture of both kinds to strings."""
    return "numbers" if classes.dtype.kind in "biuf" else "text"


def _classes_of(params: Any, summaries: list[Summary]) -> tuple[NDArray, NDArray, Array]:
    """All classes, with the number of rows and the sample weights of each."""
    classes = distinct(np.concatenate([s.classes for s in summaries]))
    check_discrete(classes)
    counts, sums = np.zeros(len(classes)), np.zeros(len(classes))
    for s in summaries:
        places = np.searchsorted(classes, s.classes)
        counts[places] += s.counts
        sums[places] += s.weights
    refuse_one_class(params, classes)
    return classes, counts, sums


def _name_features(params: Any, first: Summary, columns: Any) -> None:
    """Set names like scikit-learn, for a frame whose columns all have names."""
    params.n_features_in_ = first.n_features
    vars(params).pop("feature_names_in_", None)
    names = first.names if columns is None else list(columns)
    if names is not None and all(isinstance(name, str) for name in names):
        params.feature_names_in_ = np.array(names, dtype=object)
