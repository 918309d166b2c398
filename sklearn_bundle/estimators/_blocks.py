"""Rows in blocks on dask's workers: checks of collections, problems and lazy predictions."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_array
from sklearn.utils.multiclass import check_classification_targets

from sklearn_bundle._dask import (
    DaskWorkers,
    added,
    beside,
    in_pairs,
    is_collection,
    parts_of,
    workers_of,
)
from sklearn_bundle._sparse import well_formed
from sklearn_bundle._values import shown
from sklearn_bundle.estimators._validation import X_CHECKS, class_factors
from sklearn_bundle.losses import Loss, Target
from sklearn_bundle.losses.samples import SampleLoss
from sklearn_bundle.problems import row_block
from sklearn_bundle.problems.gathered_rows import GatheredProblem
from sklearn_bundle.problems.row_block import Formulation, RowBlock, size_of
from sklearn_bundle.problems.row_blocks import RowBlocks, formulation
from sklearn_bundle.solvers.newton_rounds import MOST_FEATURES

__all__ = [
    "BlockedData",
    "BlockedTarget",
    "blocks_beside",
    "check_blocks",
    "is_collection",
]

# Of this many samples per feature scores are as long as what else travels: w to each worker twice.
_MOST_SAMPLES = 4


class BlockedTarget(NamedTuple):
    """Loss and target of one problem, as in :class:`~.losses.Prepared`, and the problem."""

    loss: Loss
    y: Any
    formulation: Formulation


@dataclass
class BlockedData:
    """Checked training data on workers, without rows of weight zero.

    Attributes
    ----------
    workers : DaskWorkers
        Of :class:`~.row_block.RowBlock`.
    n_samples, n_features, n_entries : int
    classes : ndarray or None
        For a classifier.
    n_targets : int or None
        Number of columns of a regressor's 2-D y.
    extremes : ndarray or None
        Smallest and largest targets of a regressor, for checks by the loss.
    mean_square, column_scale
        Statistics of X that problems need.
    prepared : list of BlockedTarget
    """

    workers: DaskWorkers
    n_samples: int
    n_features: int
    n_entries: int
    classes: NDArray | None
    n_targets: int | None
    extremes: NDArray | None
    mean_square: float
    column_scale: NDArray[np.float64]
    prepared: list[BlockedTarget] = field(default_factory=list)

    def fingerprint(self) -> tuple:
        """Hash of rows, targets and weights, in one round that reads all of them.

        Dask's names do not change if the array in memory or the file behind them does.
        """
        return tuple(self.workers.ask(row_block.digest))

    def prepare(self, loss: Loss, name: Any) -> None:
        """Make the problems: one for a joint loss or one target, else one per class or target.

        Raises
        ------
        ValueError
            If the loss is not a sum over samples, or refuses the targets.
        """
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
        self.prepared = list(self._targets(loss))

    def _targets(self, loss: Loss):
        if self.classes is not None and loss.joint:
            numbers = np.arange(len(self.classes))
            bound, y = loss.prepare_target(Target(numbers, len(numbers), self.classes))
            yield BlockedTarget(bound, y, formulation(bound, n_outputs=bound.n_outputs(y)))
        elif self.classes is not None:
            loss.check(np.array([-1.0, 1.0]))
            positives = [1] if len(self.classes) == 2 else range(len(self.classes))
            for k in positives:
                yield BlockedTarget(loss, None, formulation(loss, positive=k, n_outputs=None))
        elif self.n_targets is None:
            bound, y = loss.prepare_target(Target(self.extremes, self.n_samples))
            yield BlockedTarget(bound, y, formulation(bound, n_outputs=None))
        elif loss.multi_output:
            bound, y = loss.prepare_target(Target(self.extremes, self.n_samples))
            yield BlockedTarget(bound, y, formulation(bound, n_outputs=self.n_targets))
        else:
            for k in range(self.n_targets):
                bound, y = loss.prepare_target(Target(self.extremes[:, k], self.n_samples))
                yield BlockedTarget(bound, y, formulation(bound, column=k, n_outputs=None))

    def problem(
        self, target: BlockedTarget, fit_intercept: bool, *, gather: bool
    ) -> RowBlocks | GatheredProblem:
        """The problem of one target; with ``gather`` scores come to the client if they are short.

        For smooth losses L-BFGS needs fewer rounds than scores that come and derivatives that go.
        """
        of = target.formulation
        smooth = of.newton_loss is not None and of.newton_loss.smooth
        wide = self.n_features > max(MOST_FEATURES, self.n_samples / _MOST_SAMPLES)
        if gather and wide and not smooth and of.n_outputs is None:
            sizes = self.n_features, self.n_entries, self.column_scale
            return GatheredProblem(self.workers, of, *sizes, fit_intercept)
        shape = self.n_samples, self.n_features
        sizes = self.mean_square, self.column_scale
        args = shape, self.n_entries, *sizes, fit_intercept
        return RowBlocks(self.workers, of, *args)


def check_blocks(
    estimator: BaseEstimator,
    X: Any,
    y: Any,
    sample_weight: Any,
    kind: str,
    class_weight: Any = None,
) -> BlockedData:
    """Check collections in three rounds; ``kind`` is the content of y.

    It is "labels", "numbers" or "nothing".

    Raises
    ------
    ValueError
        With the number of the faulty block, from 0.
    """
    parts = parts_of("X", X)
    given = {"y": y if kind != "nothing" else None, "sample_weight": sample_weight}
    if kind != "nothing" and y is None:
        raise ValueError(f"{type(estimator).__name__} needs y, which is None.")
    further = {
        name: None if values is None else beside(name, values, parts)
        for name, values in given.items()
    }
    columns = [parts.blocks]
    for part in further.values():
        columns.append([None] * len(parts.blocks) if part is None else part.blocks)
    read = workers_of(_Read(kind), *columns)
    summaries = read.ask(_summary)
    first = _refuse_faults(summaries)
    classes, factors, total = None, None, sum(float(s.weights.sum()) for s in summaries)
    _refuse_total(total)
    if kind == "labels":
        classes, sums = _classes_of(estimator, summaries)
        factors = class_factors(class_weight, classes, sums)
        present = factors > 0.0
        classes, sums, factors = classes[present], sums[present], factors[present]
        _refuse_one(estimator, classes)
        total = float(sums @ factors)
        _refuse_total(total)
    workers = read.kept(_prepared, classes, factors, total)
    sizes = workers.ask(row_block.sizes)
    filled = [k for k, size in enumerate(sizes) if size[0][0]]
    workers = workers.only(filled)  # blocks without rows are not needed
    sums, scale = in_pairs(added, [sizes[k] for k in filled])
    n_samples, n_entries, mean_square = int(sums[0]), int(sums[1]), float(sums[2])
    extremes = None
    if kind == "numbers":
        extremes = np.concatenate([s.extremes for s in summaries if s.n_rows])
    estimator.n_features_in_ = first.n_features
    _name_features(estimator, parts.names or first.names)
    return BlockedData(
        *(workers, n_samples, first.n_features, n_entries, classes),
        n_targets=first.n_targets,
        extremes=extremes,
        mean_square=mean_square,
        column_scale=scale,
    )


def blocks_beside(columns: dict[str, Any]) -> list[list[Any]]:
    """The blocks of X, y and weights, as delayed objects."""
    parts = parts_of("X", columns["X"])
    further = [beside(name, v, parts).blocks for name, v in columns.items() if name != "X"]
    return [parts.blocks, *further]


# ---- tasks -----------------------------------------------------------------------------------


@dataclass
class _Raw:
    """A block that passed its own checks, or what is wrong with it."""

    kind: str = "nothing"
    X: Any = None
    y: Any = None
    weights: Any = None
    classes: Any = None
    names: Any = None
    fault: str | None = None

    def __sizeof__(self) -> int:
        """As in :class:`~.row_block.RowBlock`."""
        return sum(map(size_of, (self.X, self.y, self.weights)))


class _Summary(NamedTuple):
    """What the client needs to know about a block.

    ``classes`` are its labels with a positive weight, and ``weights`` their sums; without labels
    there is one sum. ``names`` are those of the columns of a frame.
    """

    fault: str | None
    n_rows: int = 0
    n_features: int = 0
    dtype: Any = None
    classes: Any = None
    weights: Any = None
    n_targets: int | None = None
    extremes: Any = None
    names: Any = None


@dataclass(frozen=True)
class _Read:
    """The task that checks a block; it returns a fault, so that the first one is reported."""

    kind: str

    def __call__(self, k: int, X: Any, y: Any, weights: Any) -> _Raw:
        try:
            return self._checked(X, y, weights)
        except (ValueError, TypeError) as error:
            return _Raw(fault=f"Block {k}: {error}")

    def _checked(self, X: Any, y: Any, weights: Any) -> _Raw:
        columns = getattr(X, "columns", None)
        names = None if columns is None else list(columns)
        X = well_formed(X if sp.issparse(X) else np.asarray(X), "X")
        checks = X_CHECKS | {"ensure_min_samples": 0, "input_name": "X"}
        X = check_array(X, **checks)
        n = X.shape[0]
        if self.kind == "nothing":
            y = None
        else:
            y = np.asarray(y)
            if y.ndim == 2 and y.shape[1] == 1:
                y = y.ravel()
            if y.ndim != 1 and not (self.kind == "numbers" and y.ndim == 2):
                raise ValueError(f"y must be of shape (n_samples,), got {y.shape}.")
            if len(y) != n:
                raise ValueError(f"X has {n} rows, y has {len(y)}.")
            if self.kind == "numbers":
                y = check_array(
                    y, dtype=np.float64, ensure_2d=False, ensure_min_samples=0, input_name="y"
                )
        weights = self._checked_weights(weights, n)
        classes = None
        if self.kind == "labels":
            if y.dtype.kind == "f" and np.isnan(y).any():
                raise ValueError("Input y contains NaN.")
            classes = np.unique(y[weights > 0.0])
        return _Raw(self.kind, X, y, weights, classes, names)

    @staticmethod
    def _checked_weights(weights: Any, n: int) -> NDArray[np.float64]:
        if weights is None:
            return np.ones(n)
        weights = check_array(
            np.asarray(weights),
            **{"dtype": np.float64, "ensure_2d": False, "ensure_min_samples": 0},
            input_name="sample_weight",
        )
        if weights.shape != (n,):
            raise ValueError(f"X has {n} rows, sample_weight has shape {weights.shape}.")
        if (weights < 0.0).any():
            raise ValueError(f"sample_weight must not be negative, but has {weights.min():g}.")
        return weights


def _summary(raw: _Raw) -> _Summary:
    if raw.fault is not None:
        return _Summary(raw.fault)
    n, d = raw.X.shape
    common = {"n_rows": n, "n_features": d, "dtype": raw.X.dtype, "names": raw.names}
    kept = raw.weights > 0.0
    total = np.array([raw.weights.sum()])
    if raw.y is None:
        return _Summary(None, **common, weights=total)
    y = raw.y[kept]
    if raw.kind == "labels":
        numbers = np.searchsorted(raw.classes, y)
        sums = np.bincount(numbers, raw.weights[kept], minlength=len(raw.classes))
        return _Summary(None, **common, classes=raw.classes, weights=sums)
    width = y.shape[1] if y.ndim == 2 else None
    extremes = np.array([y.min(axis=0), y.max(axis=0)]) if len(y) else y
    return _Summary(None, **common, weights=total, n_targets=width, extremes=extremes)


def _prepared(raw: _Raw, classes: Any, factors: Any, total: float) -> RowBlock:
    """A block with numbers for labels, normalized weights, and no rows of weight zero."""
    y, weights = raw.y, raw.weights
    if classes is not None:
        numbers = np.searchsorted(classes, y)
        known = numbers < len(classes)  # labels whose rows have no weight do not count
        known[known] = classes[numbers[known]] == y[known]
        weights = np.where(known, weights * factors[np.where(known, numbers, 0)], 0.0)
        y = numbers.astype(np.int64)
    kept = np.flatnonzero(weights)
    if len(kept) == len(weights):
        return RowBlock(raw.X, y, weights / total)
    return RowBlock(raw.X[kept], None if y is None else y[kept], weights[kept] / total)


# ---- on the client ---------------------------------------------------------------------------


def _refuse_total(total: float) -> None:
    if not 0.0 < total < np.inf:
        raise ValueError(f"sample_weight must have a positive, finite sum, but it is {total:g}.")


def _refuse_faults(summaries: list[_Summary]) -> _Summary:
    """Raise ValueError for the first faulty block; return the first one that has rows."""
    faults = [s.fault for s in summaries if s.fault is not None]
    if faults:
        more = f" {len(faults) - 1} further blocks are at fault." if len(faults) > 1 else ""
        raise ValueError(faults[0] + more)
    filled = [(k, s) for k, s in enumerate(summaries) if s.n_rows]
    if not filled:
        raise ValueError("X has no rows in any block.")
    number, first = filled[0]
    for k, s in filled:
        for what, here, there in (
            ("features", s.n_features, first.n_features),
            ("a dtype of", s.dtype, first.dtype),
            ("targets", s.n_targets, first.n_targets),
            ("columns", s.names, first.names),
        ):
            if here != there:
                raise ValueError(f"Block {k} has {what} {here}, block {number} has {there}.")
    kinds = {k: _kind(s.classes) for k, s in filled if s.classes is not None and len(s.classes)}
    for k, kind in kinds.items():
        if kind != next(iter(kinds.values())):
            raise ValueError(f"Block {k} has labels that are {kind}, blocks before it have others.")
    return first


def _kind(classes: Any) -> str:
    """The kind of labels: numpy would convert a mixture of both kinds to strings."""
    return "numbers" if classes.dtype.kind in "biuf" else "text"


def _classes_of(
    estimator: BaseEstimator, summaries: list[_Summary]
) -> tuple[NDArray, NDArray[np.float64]]:
    """All classes, and the sample weights of each."""
    try:
        classes = np.unique(np.concatenate([s.classes for s in summaries]))
    except TypeError as error:
        raise ValueError(f"y must hold labels that can be sorted: {error}.") from None
    check_classification_targets(classes)
    sums = np.zeros(len(classes))
    for s in summaries:
        np.add.at(sums, np.searchsorted(classes, s.classes), s.weights)
    _refuse_one(estimator, classes)
    return classes, sums


def _refuse_one(estimator: BaseEstimator, classes: NDArray) -> None:
    if len(classes) < 2:
        found = f"only one class: {shown(classes[0])}" if len(classes) else "none"
        raise ValueError(
            f"{type(estimator).__name__} needs samples of at least 2 classes in y (with a positive "
            f"weight), but got {found}."
        )


def _name_features(estimator: BaseEstimator, names: list | None) -> None:
    """Set names like scikit-learn, for a frame whose columns all have names."""
    vars(estimator).pop("feature_names_in_", None)
    if names is not None and all(isinstance(name, str) for name in names):
        estimator.feature_names_in_ = np.array(names, dtype=object)
