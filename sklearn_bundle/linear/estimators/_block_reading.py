"""Blocks of rows as a worker reads and checks them: the tasks that run beside the data."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils import check_array

from sklearn_bundle.core.misread import refuse_misread
from sklearn_bundle.core.sparse import well_formed
from sklearn_bundle.core.validation import X_CHECKS
from sklearn_bundle.core.values import missing_entries
from sklearn_bundle.core.weights import check_sample_weight
from sklearn_bundle.linear.problems.row_block import RowBlock
from sklearn_bundle.linear.rows._dask import release_memory


class Moments(NamedTuple):
    """The weight of targets, and of each column the mean and the weighted sum of squares about it.

    These are finite, or not a number.
    """

    weight: float
    mean: NDArray[np.float64]
    squares: NDArray[np.float64]

    @classmethod
    def of(cls, y: NDArray[np.float64], weights: NDArray[np.float64]) -> Moments:
        columns, weight = y.reshape(len(y), -1), float(weights.sum())
        with np.errstate(over="ignore"):
            first = columns[0]  # from which the mean of a constant column does not differ
            mean = first + weights / weight @ (columns - first)
            return cls(weight, mean, weights @ (columns - mean) ** 2)

    def merged_with(self, other: Moments) -> Moments:
        """Of both parts together."""
        weight, apart = self.weight + other.weight, other.mean - self.mean
        share = other.weight / weight
        squares = self.squares + other.squares + self.weight * share * apart**2
        return Moments(weight, self.mean + share * apart, squares)

    def spreads(self, centered: bool) -> list[float]:
        squares = self.squares / self.weight + (0.0 if centered else self.mean**2)
        return [spread if 0.0 < spread < np.inf else 1.0 for spread in np.sqrt(squares).tolist()]


@dataclass
class RawBlock(RowBlock):
    """A block that passed its own checks, or what is wrong with it.

    X is ``borrowed`` if it is what the caller has persisted: then it is not stored here again.
    """

    X: Any = None
    y: Any = None
    weights: Any = None
    kind: str = "nothing"
    classes: Any = None
    names: Any = None
    dtypes: Any = None
    fault: str | None = None
    borrowed: bool = False

    def owning(self, X: Any) -> RawBlock:
        """The block with this X, which it keeps, if it has none."""
        return replace(self, X=X, borrowed=False) if self.X is None else self


class Summary(NamedTuple):
    """What the client needs to know about a block.

    ``classes`` are its labels with a positive weight, and ``weights`` their sums; without labels
    there is one sum. ``names`` and ``dtypes`` are those of the columns of a frame.
    """

    fault: str | None
    n_rows: int = 0
    n_features: int = 0
    dtype: Any = None
    classes: Any = None
    weights: Any = None
    n_targets: int | None = None
    extremes: Any = None
    moments: Moments | None = None
    names: Any = None
    dtypes: Any = None


@dataclass(frozen=True)
class ReadBlock:
    """The task that checks a block; it returns a fault, so that the first one is reported.

    ``persisted`` says that the client holds X as it is given.
    """

    kind: str
    persisted: bool

    def __call__(self, X: Any, y: Any = None, sample_weight: Any = None) -> RawBlock:
        try:
            raw = self._checked(X, y, sample_weight)
            if self.persisted and _is_same(raw.X, X):
                return replace(raw, X=None, borrowed=True)
            return raw
        except (ValueError, TypeError) as error:
            return RawBlock(fault=str(error))
        finally:
            release_memory()

    def _checked(self, X: Any, y: Any, weights: Any) -> RawBlock:
        names, dtypes = _columns_of(X)
        refuse_misread("X", X)
        X = _checked_rows(X)
        n = X.shape[0]
        if self.kind == "nothing":
            y = None
        else:
            refuse_misread("y", y, dates=self.kind == "labels")
            y = _refuse_missing(np.asarray(y))
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
        weights = check_sample_weight(weights, n, all_zero=True)
        classes = None
        if self.kind == "labels":
            classes = np.unique(y[weights > 0.0])
        return RawBlock(X, y, weights, self.kind, classes, names, dtypes)


def _columns_of(X: Any) -> tuple[list | None, list[str] | None]:
    """Names and dtypes of the columns of a frame."""
    columns = getattr(X, "columns", None)
    return (None, None) if columns is None else (list(columns), [str(kind) for kind in X.dtypes])


def _checked_rows(X: Any) -> Any:
    """X as an array or in CSR; of a frame the faulty column is named."""
    checks = X_CHECKS | {"ensure_min_samples": 0, "input_name": "X"}
    try:
        rows = well_formed(X if sp.issparse(X) else np.asarray(X), "X")
        return check_array(rows, **checks)
    except (ValueError, TypeError):
        for k, name in enumerate(getattr(X, "columns", ())):
            try:
                check_array(np.asarray(X.iloc[:, k])[:, None], **checks)
            except (ValueError, TypeError) as error:
                raise ValueError(f"column {name!r} of X: {error}") from None
        raise


def _refuse_missing(y: NDArray) -> NDArray:
    """Raise ValueError for a target that is NaN, None, NaT or NA."""
    missing = missing_entries(y)
    if missing.any():
        row = int(np.flatnonzero(missing.reshape(len(y), -1).any(axis=1))[0])
        raise ValueError(
            f"Input y contains NaN or other missing values, first in row {row} of the block."
        )
    return y


def _is_same(checked: Any, given: Any) -> bool:
    """Whether the check left X as it was."""
    if not isinstance(given, np.ndarray):
        return checked is given
    same = all(getattr(checked, a) == getattr(given, a) for a in ("shape", "strides", "dtype"))
    return same and np.may_share_memory(checked, given)


def summary_of(raw: RawBlock) -> Summary:
    release_memory()  # of the block as it was read
    if raw.fault is not None:
        return Summary(raw.fault)
    n, d = raw.X.shape
    common = {"n_rows": n, "n_features": d, "dtype": raw.X.dtype}
    common |= {"names": raw.names, "dtypes": raw.dtypes}
    kept = raw.weights > 0.0
    total = np.array([raw.weights.sum()])
    if raw.y is None:
        return Summary(None, **common, weights=total)
    y = raw.y[kept]
    if raw.kind == "labels":
        numbers = np.searchsorted(raw.classes, y)
        sums = np.bincount(numbers, raw.weights[kept], minlength=len(raw.classes))
        return Summary(None, **common, classes=raw.classes, weights=sums)
    width = y.shape[1] if y.ndim == 2 else None
    if len(y):
        common["extremes"] = np.array([y.min(axis=0), y.max(axis=0)])
        common["moments"] = Moments.of(y, raw.weights[kept])
    return Summary(None, **common, weights=total, n_targets=width)


def prepared_block(raw: RawBlock, classes: Any, factors: Any, total: float) -> RowBlock:
    """A block with numbers for labels, normalized weights, and no rows of weight zero."""
    y, weights = raw.y, raw.weights
    if classes is not None:
        numbers = np.searchsorted(classes, y)
        known = numbers < len(classes)  # labels whose rows have no weight do not count
        known &= classes.take(numbers, mode="clip") == y
        if not known.all():
            weights, numbers = np.where(known, weights, 0.0), np.where(known, numbers, 0)
        weights = weights * factors[numbers]
        y = numbers.astype(np.int64, copy=False)
    kept = np.flatnonzero(weights)
    if len(kept) == len(weights):
        return RowBlock(None if raw.borrowed else raw.X, y, weights / total)
    return RowBlock(raw.X[kept], None if y is None else y[kept], weights[kept] / total)
