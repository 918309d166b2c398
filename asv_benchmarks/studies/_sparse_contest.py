"""A contest of the study ``sparse``: a problem to two tolerances, which share what was tried."""

from dataclasses import dataclass, field, replace
from math import isinf
from typing import Any

from _cells_contest import CellContest
from _cells_rows import Row
from _contest import Cell
from _linear_kept import SLOW, KeptFits
from _measure import Rung
from _sparse_data import by_columns
from _svm import Data

_MOST_ITER = 100_000  # what max_time is to end


@dataclass
class Tried:
    """The peers' fits to a problem, and our accurate one: no tolerance changes them."""

    rungs: dict[tuple[str, Any], Rung] = field(default_factory=dict)
    reference: Any = None


class SparseContest(CellContest):
    """scikit-learn's Lasso and ElasticNet are timed however slow they are."""

    def __init__(
        self,
        row: Row,
        cell: Cell,
        data: Data,
        kept: KeptFits,
        limit: float,
        solver: str | None,
        tried: Tried,
        same_layout: bool,
    ):
        super().__init__(row, cell, data.X, data.y, kept, limit, solver)
        self._tried = tried
        # Here, and not within a fit that is timed, or once in every child process.
        self._columns = data.X if same_layout else by_columns(data.X)

    def fit_peer(self, name: str, setting: Any) -> Any:
        """Of data as the peer wants them, so that it makes no copy."""
        own = self.X
        try:
            if self.peers[name].by_columns:
                self.X = self._columns
            return super().fit_peer(name, setting)
        finally:
            self.X = own

    def fit_reference(self, model: Any) -> Any:
        if self._tried.reference is None:
            self._tried.reference = super().fit_reference(model)
        reference = self._tried.reference
        self._bound = max(model.lower_bound_, reference.lower_bound_)
        return reference

    def _most_planes(self, max_iter: int) -> dict[str, int]:
        return {"max_iter": _MOST_ITER}

    def _patience(self, ladders: dict[str, list[Rung]], name: str, target: float) -> float:
        if name in ("Lasso", "ElasticNet"):
            return self.longest
        return super()._patience(ladders, name, target)

    def _rung(self, name: str, setting: Any) -> Rung:
        known = self._tried.rungs.get((name, setting))
        if known is None or (isinf(known.objective) and known.first_seconds < self.longest):
            known = self._tried.rungs[name, setting] = super()._rung(name, setting)
        # Its median is that of a contest, but for a slow fit that was kept.
        return replace(known, seconds=known.seconds if known.first_seconds > SLOW else None)

    def _fit_name(self, name: str, setting: Any) -> str:
        return f"l1_ratio {self.part.l1_ratio:g}, {super()._fit_name(name, setting)}"
