"""Fits by the ways to apply RSD that section 3.2 of Yu and Rousu (2007) lists."""

from typing import Any, NamedTuple

import numpy as np
from _rsd_data import Task
from _structured_watch import SVMCurve, watch

TOL = 1e-3  # relative gap at which a fit ends
TARGETS = (1e-1, 1e-2, 1e-3)
ALL = 10**4  # points that are kept where there is to be no limit


class Kind(NamedTuple):
    """What is fitted; ``limit`` is the paper's r, and None what the solver takes by itself."""

    solver: str
    limit: int | None = None
    scaling: str = "margin"
    loss: str = "hinge"

    @property
    def label(self) -> str:
        return _LABELS[self.solver]


_LABELS = {
    "bundle": "cutting planes",
    "rsd-one-simplex": "one simplex",
    "rsd": "product of simplexes",
    "rsd-working-sets": "working sets",
}
PLANES, ONE = Kind("bundle"), Kind("rsd-one-simplex", ALL)
PRODUCT, WORKING = Kind("rsd"), Kind("rsd-working-sets")
METHODS = (PLANES, ONE, WORKING, PRODUCT)
LIMITS = (2, 3, 5, 10, 20, 50)
BY_LIMIT = {
    "one simplex": tuple(Kind("rsd-one-simplex", r) for r in LIMITS),
    "product of simplexes": tuple(Kind("rsd", r) for r in LIMITS),
}
VARIANTS = tuple(
    Kind(solver, limit, scaling, loss)
    for scaling, loss in (("margin", "hinge"), ("slack", "hinge"), ("slack", "squared_hinge"))
    for solver, limit, *_ in (ONE, PRODUCT)
)


class Fit(NamedTuple):
    """How a fit went."""

    kind: Kind
    curve: SVMCurve
    objective: float

    @property
    def gaps(self) -> np.ndarray:
        curve = self.curve
        return np.subtract(curve.objective, curve.lower_bound) / np.abs(curve.objective)

    def calls(self, eps: float) -> float | None:
        """Oracle calls over n to a relative gap; None if the fit did not get there."""
        k = self.curve.at(eps)
        return None if k is None else self.curve.calls[k]

    def seconds(self, eps: float) -> float | None:
        k = self.curve.at(eps)
        return None if k is None else self.curve.seconds[k]

    @property
    def oracle_share(self) -> float:
        """Of the CPU time, what its oracle calls take by the time of passes over all examples."""
        return self.curve.oracle_seconds / self.curve.seconds[-1]

    @property
    def other_per_pass(self) -> float:
        """CPU time beside the oracle's, in passes of the oracle and for each of them."""
        return 1.0 / self.oracle_share - 1.0

    def as_dict(self) -> dict[str, Any]:
        return {**self.kind._asdict(), **self.curve.as_dict()}


def follow(task: Task, kind: Kind, max_seconds: float) -> Fit:
    """A fit to a relative gap of TOL, or of so many CPU seconds."""
    model, curve = watch(
        task.X,
        task.y,
        max_seconds=max_seconds,
        model=task.model,
        reg_lambda=task.strength / task.n,
        solver=kind.solver,
        n_cached_outputs=kind.limit,
        scaling=kind.scaling,
        loss=kind.loss,
        tol=TOL,
    )
    return Fit(kind, curve, model.objective_)
