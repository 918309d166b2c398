"""Chain conditional random fields beside CRFsuite, through python-crfsuite in the same process.

optimum   all attributes by all labels on both sides, no biases of labels, c2 = 1/2: CRFsuite's
          L-BFGS minimizes our objective over n. It runs once; what counts is its CPU time, with
          the features, until the objective that it logs is within the tolerance of the optimum
fits      c2 as the cell says, weights that occur, our default tol against CRFsuite's own end
          ("fits") or at most 100 iterations ("fits_100"), from strings to the model
search    SDCACRFCV beside GridSearchCV over CRFsuite of 100 iterations: 8 c2 in 3 folds

"one" is the labeling of one sentence, "predict" of 500.
"""

import json
import time
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from _cell import TOL, Cell, Data, Peer, Sides
from _clock import MissingError, cpu_seconds, versions
from _data import Sets
from sklearn.base import BaseEstimator
from sklearn.model_selection import GridSearchCV, KFold
from threadpoolctl import threadpool_limits

from sklearn_bundle import SDCACRF, SDCACRFCV
from sklearn_bundle.metrics import span_f1_score, span_f1_scorer

try:
    import pycrfsuite
    from pycrfsuite._pycrfsuite import BaseTrainer
except ImportError:
    pycrfsuite, BaseTrainer = None, object

_ALL = {"feature.possible_states": 1, "feature.possible_transitions": 1}
_TIGHT = {"epsilon": 1e-12, "delta": 1e-12, "max_iterations": 400}
_C2 = 0.5  # reg_lambda = 1/n
_SEARCHED = np.geomspace(5.0, 0.005, 8)  # values of c2
_TOLS = 1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6
_PREDICTED = 500  # sentences


class _Trainer(BaseTrainer):
    """Its messages are kept with the CPU time at which they come."""

    log: list[tuple[float, str]]

    def message(self, line: str) -> None:
        self.log.append((time.process_time(), line))


class CRFsuite(BaseEstimator):
    """What sklearn-crfsuite's CRF does, on python-crfsuite alone."""

    def __init__(self, c2: float = 1.0, max_iterations: int | None = None, more: Any = None):
        self.c2, self.max_iterations, self.more = c2, max_iterations, more

    def fit(self, X: list, y: list) -> "CRFsuite":
        if pycrfsuite is None:
            raise MissingError("python-crfsuite is not installed")
        trainer = _Trainer()
        trainer.log = []
        trainer.select("lbfgs")
        limit = {} if self.max_iterations is None else {"max_iterations": self.max_iterations}
        trainer.set_params({"c2": self.c2, **limit, **(self.more or {})})
        for attributes, labels in zip(X, y, strict=True):
            trainer.append(pycrfsuite.ItemSequence(_attributes(attributes)), labels)
        start = time.process_time()
        with TemporaryDirectory(prefix="crfsuite_") as folder:
            trainer.train(str(Path(folder, "model")))
            self.model_ = Path(folder, "model").read_bytes()  # which the tagger reads from
        self.tagger_ = pycrfsuite.Tagger()
        self.tagger_.open_inmemory(self.model_)
        self.curve_ = _curve(trainer.log, start)
        return self

    def predict(self, X: list) -> list[list[str]]:
        return [self.tagger_.tag(_attributes(attributes)) for attributes in X]


def _attributes(sequence: Any) -> Any:
    """Strings as they are; a row of numbers as an attribute for each that is not zero."""
    if isinstance(sequence, np.ndarray):
        return [{str(j): float(row[j]) for j in np.flatnonzero(row)} for row in sequence]
    return sequence


def _curve(log: list[tuple[float, str]], start: float) -> list[tuple[float, float]]:
    """CPU seconds since the start, and the objective, after each iteration."""
    losses = [float(line.split()[1]) for _, line in log if line.startswith("Loss: ")]
    ends = [at - start for at, line in log if line.startswith("Seconds required for this iter")]
    return list(zip(ends, losses, strict=False))


def _optimum(tol: float, data: Data) -> Sides:
    n = len(data.y)

    def ours(**changes: Any) -> Any:
        settings = {"reg_lambda": 2.0 * _C2 / n, "fit_intercept": False, "tol": tol, "n_jobs": 1}
        settings |= {"max_iter": 1000, "random_state": 0} | changes
        return SDCACRF(**settings).fit(data.X, data.y)

    def trace(data: Data, _: None) -> list[tuple[float, float]]:
        model = CRFsuite(_C2, more=_ALL | _TIGHT).fit(data.X, data.y)
        return [(seconds, loss / n) for seconds, loss in model.curve_]

    peers = {"CRFsuite": Peer(fit_data=trace, trace=True)}
    return Sides(ours, peers, lambda model: model.objective_)


def _fits(c2: float, iterations: int | None, data: Data) -> Sides:
    def ours(**changes: Any) -> Any:
        settings = {"reg_lambda": 2.0 * c2 / len(data.y), "random_state": 0, "n_jobs": 1}
        return SDCACRF(**settings | changes).fit(data.X, data.y)

    return Sides(ours, {"CRFsuite": Peer(lambda _: CRFsuite(c2, iterations))})


def _search(data: Data) -> Sides:
    n = len(data.y) * 2 / 3
    shared = {"cv": KFold(3), "scoring": span_f1_scorer}

    def ours(**changes: Any) -> Any:
        settings = {"reg_lambdas": 2.0 * _SEARCHED / n, "random_state": 0, "n_jobs": 1} | shared
        return SDCACRFCV(**settings | changes).fit(data.X, data.y)

    def grid(_: None) -> Any:
        return GridSearchCV(CRFsuite(max_iterations=100), {"c2": list(_SEARCHED)}, **shared)

    return Sides(ours, {"GridSearchCV(CRFsuite)": Peer(grid)})


def _scores(ours: Any, peer: Any, data: Data) -> dict[str, Any]:
    few = slice(1500)
    found = [span_f1_score(data.y_test[few], m.predict(data.X_test[few])) for m in (ours, peer)]
    return dict(zip(("score", "peer_score"), found, strict=True))


_ALSO = {
    "one": lambda model, data: model.predict(data.X_test[:1]),
    "predict": lambda model, data: model.predict(data.X_test[:_PREDICTED]),
}


def crf(sets: Sets) -> Iterable[Cell]:
    """To the optimum, single fits, labeling, searches."""
    if sets.tasks is None:
        whole, parts = {"made": None}, {"made": (200,)}
    else:
        whole = {"ocr": None, "conll2002_ned": 3_000, "conll2000": 500}
        parts = {"conll2002_ned": (800, 3_000), "conll2000": (800,)}
    for name, rows in whole.items():
        load = sets("sequences", name, rows)
        yield Cell("optimum", name, TOL, load, partial(_optimum, TOL))
    for name, sizes in parts.items():
        for rows in sizes:
            load, at = sets("sequences", name, rows), f"{name} {rows}"
            for c2 in (1.0, 0.1, 0.01, 0.001):
                for row, iterations in (("fits", None), ("fits_100", 100)):
                    made = partial(_fits, c2, iterations)
                    yield Cell(row, at, c2, load, made, also=_ALSO, figures=_scores)
    for name, sizes in parts.items():
        load = sets("sequences", name, sizes[0])
        yield Cell("search", f"{name} {sizes[0]}", 8.0, load, _search, figures=_scores)


def curves(sets: Sets, path: Path) -> None:
    """Time against gap on names in Dutch, as JSON and beside it a figure of the same name.

    Ours runs over a ladder of tol, and a point is the gap that the fit certified; CRFsuite's gap is
    (J - bound) / J with our best bound.
    """
    data = sets("sequences", "made" if sets.tasks is None else "conll2002_ned")()
    sides = _optimum(1.0, data)
    with threadpool_limits(1):
        sides.ours()  # compiles
        runs = [cpu_seconds(partial(sides.ours, tol=tol)) for tol in _TOLS]
        points = sides.peers["CRFsuite"].fit(data, None)
    bound = max(model.lower_bound_ for _, model in runs)
    gaps = [(seconds, (J - bound) / J) for seconds, J in points]
    shown = sum(gap > _TOLS[-1] for _, gap in gaps) + 1  # below that, our bound is too coarse
    found = {"SDCACRF": [(s, model.relative_gap_) for s, model in runs], "CRFsuite": gaps[:shown]}
    found = {
        side: [(float(f"{s:.4g}"), float(f"{gap:.3g}")) for s, gap in pairs]
        for side, pairs in found.items()
    }
    path.write_text(json.dumps({"versions": versions(), "n": len(data.y), "curves": found}))
    draw(found, path.with_suffix(".png"))


def draw(sides: dict[str, Any], path: Path) -> None:
    """One panel, in letters that are 16 pixels high on a page of 390 pixels."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams |= {"figure.dpi": 72, "font.size": 34, "axes.linewidth": 2}  # a point is a pixel
    figure, ax = plt.subplots(figsize=(780 / 72, 620 / 72), layout="constrained")
    for (name, points), style in zip(sides.items(), ("o-", "-"), strict=True):
        ax.loglog(*zip(*points, strict=True), style, linewidth=6, markersize=15, label=name)
    ax.set(xlabel="CPU seconds", ylabel="gap to the optimum", ylim=(3e-7, 3))
    ax.set_yticks([1, 1e-2, 1e-4, 1e-6])
    ax.xaxis.set_major_formatter("{x:g}")
    ax.grid(alpha=0.4)
    figure.legend(loc="outside upper center", ncols=2, frameon=False, handlelength=1.2)
    figure.savefig(path)
