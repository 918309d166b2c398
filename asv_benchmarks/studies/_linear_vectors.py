"""The most memory that a fit holds beside its data, in vectors of a number per row."""

from pathlib import Path
from typing import Any

import numpy as np
from _measure import MissingError, Table
from _memory import high_water, in_new_process
from _parts import Session

from sklearn_bundle import BMRMClassifier, BMRMRegressor

TITLE = """\
vectors: peak memory of a fit beside X and y, over 8 n bytes, by the peak that Linux tells of a new
process: 2,000,000 made rows of 6 features, a free intercept, reg_lambda=1e-4, tol=1e-3."""

_ROWS, _FEATURES, _WARM = 2_000_000, 6, 70_000
_ASKED = 9.0
_CLASSIFIERS = ("hinge", "squared_hinge", "log_loss")
_REGRESSORS = ("huber", "absolute_error", "epsilon_insensitive")
_COLUMNS = (("loss", 20), ("solver", 16), ("vectors", 8), ("asked", 6))


def run(session: Session) -> None:
    """The table."""
    print(f"\n{TITLE}")
    table = Table(_COLUMNS)
    for solver in ("newton", "dual-coordinate"):
        for loss in (*_CLASSIFIERS, *_REGRESSORS):
            try:
                vectors = in_new_process(_measure, loss, solver)["vectors"]
            except MissingError as error:
                table.skip(loss, str(error))
                return
            table.row(loss, solver, f"{vectors:.1f}", f"{_ASKED:g}")
            session.record("vectors", loss=loss, solver=solver, vectors=vectors, asked=_ASKED)


def _measure(loss: str, solver: str) -> dict[str, float]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((_ROWS, _FEATURES))
    y: Any = X @ rng.standard_normal(_FEATURES) + rng.standard_normal(_ROWS)
    kind: Any = BMRMRegressor
    if loss in _CLASSIFIERS:
        kind, y = BMRMClassifier, np.where(y > 0.0, 1, -1)
    settings = {"loss": loss, "solver": solver, "reg_lambda": 1e-4}
    kind(**settings).fit(X[:_WARM], y[:_WARM])
    before = _held()
    Path("/proc/self/clear_refs").write_text("5")  # forgets the peak so far
    kind(**settings).fit(X, y)
    return {"vectors": (high_water() - before) * 2**20 / (8 * _ROWS)}


def _held() -> float:
    """MiB that this process holds now."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))
