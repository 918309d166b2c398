"""Rows in blocks on dask's workers: checks of collections, problems and lazy predictions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from sklearn_bundle.core.contract import ABSENT, TimeLimit
from sklearn_bundle.core.limits import MOST_SIDE
from sklearn_bundle.core.validation import check_discrete, class_factors, distinct, refuse_one_class
from sklearn_bundle.core.values import require_y, shown
from sklearn_bundle.linear.estimators._block_reading import (
    Moments,
    ReadBlock,
    Summary,
    prepared_block,
    summary_of,
)
from sklearn_bundle.linear.losses import Loss, RegressionLoss, Target
from sklearn_bundle.linear.losses.samples import SampleLoss
from sklearn_bundle.linear.problems import row_block
from sklearn_bundle.linear.problems.gathered_rows import GatheredProblem
from sklearn_bundle.linear.problems.row_block import Formulation
from sklearn_bundle.linear.problems.row_blocks import RowBlocks, formulation
from sklearn_bundle.linear.rows._dask import current_client, persisted_rows, workers_of
from sklearn_bundle.linear.rows._dask_rows import calls_of
from sklearn_bundle.linear.rows._dask_workers import DaskWorkers, added, in_pairs

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
    classes : ndarray
        For a classifier; ABSENT for others.
    n_targets : int or None
        Number of columns of a regressor's 2-D y.
    extremes : ndarray
        Smallest and largest targets of a regressor, for checks by the loss; ABSENT for others.
    moments : Moments
        Of a regressor's targets.
    total : float
        The sum of the weights before they were normalized.
    mean_square, column_scale
        Statistics of X that problems need.
    time : TimeLimit
        Of all rounds, which began with the check.
    prepared : list of BlockedTarget
    """

    workers: DaskWorkers
    n_samples: int
    n_features: int
    n_entries: int
    classes: NDArray
    n_targets: int | None
    extremes: NDArray
    moments: Moments
    total: float
    mean_square: float
    column_scale: NDArray[np.float64]
    time: TimeLimit
    prepared: list[BlockedTarget] = field(default_factory=list)

    def limit(self, seconds: float | None) -> None:
        """Give all rounds from now on a time limit that starts now."""
        self.time, self.workers = TimeLimit(seconds), self.workers.within(seconds)

    def fingerprint(self) -> tuple:
        """Hash of rows, targets and weights, in one round that reads all of them.

        Dask's names do not change if the array in memory or the file behind them does.
        """
        return tuple(self.workers.map(row_block.digest))

    def spreads(self, centered: bool) -> list[float]:
        """The spread of each target; 1 if it is constant, or zero without centering."""
        spreads, ranges = self.moments.spreads(centered), np.ptp(self.extremes, axis=0)
        constant = centered & (np.ravel(ranges) == 0.0)
        return [1.0 if same else s for s, same in zip(spreads, constant, strict=True)]

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
        self.prepared = list(self._targets(losses))

    def _targets(self, losses: Sequence[Loss]) -> Iterator[BlockedTarget]:
        loss = losses[0]
        if self.classes is not None and loss.joint:
            numbers = np.arange(len(self.classes))
            bound, y = loss.prepare_target(Target(numbers, len(numbers), self.classes))
            yield BlockedTarget(bound, y, formulation(bound, n_outputs=bound.n_outputs(y)))
        elif self.classes is not None:
            loss.check(np.array([-1.0, 1.0]))
            positives = [1] if len(self.classes) == 2 else range(len(self.classes))
            for k in positives:
                yield BlockedTarget(loss, None, formulation(loss, positive=k, n_outputs=None))
        elif self.n_targets is None or (isinstance(loss, RegressionLoss) and loss.multi_output):
            bound, y = loss.prepare_target(Target(self.extremes, self.n_samples))
            yield BlockedTarget(bound, y, formulation(bound, n_outputs=self.n_targets))
        else:
            for k, loss in enumerate(losses):
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
        wide = self.n_features > max(MOST_SIDE, self.n_samples / _MOST_SAMPLES)
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

    It is "labels", "numbers" or "nothing". The rounds end with the ``max_time`` of the estimator.

    Raises
    ------
    ValueError
        With the number of the faulty block, from 0.
    ClusterTimeout
        If a cluster has not answered in time.
    """
    limit = TimeLimit(estimator.max_time)
    if kind != "nothing":
        require_y(type(estimator).__name__, y)
    given = {"X": X, "y": y if kind != "nothing" else None, "sample_weight": sample_weight}
    read, names = _reading(kind, given, limit)
    summaries = read.map(summary_of)
    first = _refuse_faults(summaries)
    classes, factors, total = ABSENT, None, sum(float(s.weights.sum()) for s in summaries)
    _refuse_total(total)
    if kind == "labels":
        classes, sums = _classes_of(estimator, summaries)
        factors = class_factors(class_weight, classes, np.arange(len(classes)), sums)
        present = factors > 0.0
        classes, sums, factors = classes[present], sums[present], factors[present]
        refuse_one_class(estimator, classes)
        total = float(sums @ factors)
        _refuse_total(total)
    loads = [s.n_rows for s in summaries]
    workers = read.kept(prepared_block, classes, factors, total, loads=loads)
    del read  # so that each of its blocks is released as soon as it is prepared
    sizes = workers.map(row_block.sizes)
    filled = [k for k, size in enumerate(sizes) if size[0][0]]
    workers = workers.only(filled)  # blocks without rows are not needed
    sums, scale = in_pairs(added, [sizes[k] for k in filled])
    n_samples, n_entries, mean_square = int(sums[0]), int(sums[1]), float(sums[2])
    extremes = moments = ABSENT
    if kind == "numbers":
        with_targets = [s for s in summaries if s.moments is not None]
        extremes = np.concatenate([s.extremes for s in with_targets])
        moments = reduce(Moments.merged_with, (s.moments for s in with_targets))
    estimator.n_features_in_ = first.n_features
    _name_features(estimator, names or first.names)
    return BlockedData(
        workers=workers,
        n_samples=n_samples,
        n_features=first.n_features,
        n_entries=n_entries,
        classes=classes,
        n_targets=first.n_targets,
        extremes=extremes,
        moments=moments,
        total=total,
        mean_square=mean_square,
        column_scale=scale,
        time=limit,
    )


def _reading(kind: str, given: dict[str, Any], limit: TimeLimit) -> tuple[DaskWorkers, list | None]:
    """Workers that keep checked blocks, and the column names of X."""
    columns = {name: values for name, values in given.items() if values is not None}
    client = current_client()
    rows = None if client is None else persisted_rows(client, columns["X"])
    calls, names = calls_of(ReadBlock(kind, rows is not None), columns, limit)
    what = "reading and checking the blocks of rows"
    return workers_of(calls, what=what, limit=limit, persisted=rows), names


def _refuse_total(total: float) -> None:
    if not 0.0 < total < np.inf:
        raise ValueError(f"sample_weight must have a positive, finite sum, but it is {total:g}.")


def _refuse_faults(summaries: list[Summary]) -> Summary:
    """Raise ValueError for the first faulty block; return the first one that has rows."""
    faults = [f"Block {k}: {s.fault}" for k, s in enumerate(summaries) if s.fault is not None]
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
                which = _which_columns(s, first)
                raise ValueError(f"Block {k} has {what} {here}, block {number} has {there}{which}.")
    kinds = {k: _kind(s.classes) for k, s in filled if s.classes is not None and len(s.classes)}
    for k, kind in kinds.items():
        if kind != next(iter(kinds.values())):
            raise ValueError(f"Block {k} has labels that are {kind}, blocks before it have others.")
    return first


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


def _classes_of(
    estimator: BaseEstimator, summaries: list[Summary]
) -> tuple[NDArray, NDArray[np.float64]]:
    """All classes, and the sample weights of each."""
    classes = distinct(np.concatenate([s.classes for s in summaries]))
    check_discrete(classes)
    sums = np.zeros(len(classes))
    for s in summaries:
        np.add.at(sums, np.searchsorted(classes, s.classes), s.weights)
    refuse_one_class(estimator, classes)
    return classes, sums


def _name_features(estimator: BaseEstimator, names: list | None) -> None:
    """Set names like scikit-learn, for a frame whose columns all have names."""
    vars(estimator).pop("feature_names_in_", None)
    if names is not None and all(isinstance(name, str) for name in names):
        estimator.feature_names_in_ = np.array(names, dtype=object)
