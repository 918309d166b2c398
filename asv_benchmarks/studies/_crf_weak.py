"""Chain CRFs with weak regularization: all attributes by all labels on both sides.

``SDCACRF`` to a certified relative gap against CRFsuite's L-BFGS to the same excess over the
optimum, features prepared beforehand, on the first sentences of each task. c2 is CRFsuite's
coefficient, ``n reg_lambda / 2``.
"""

from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

import numpy as np
from _chains import ChainTask, Part, load
from _crf_contest import make_ours
from _crfsuite import PEERS, CRFsuite, Run
from _measure import MissingError, Table, cpu_seconds, quiet_single_thread, take_turns
from _parts import geometric_mean

TASKS = "conll2002_ned", "conll2000"
_SENTENCES = 800
_C2 = 0.5, 0.05, 0.005
_TOLS = 1e-2, 1e-3
_EXACT = 1e-5  # relative gap of the fit that says what the optimum is
_ITERATIONS = 200  # of CRFsuite at most
_ASKED = 3.0


class _Cut(ChainTask):
    """The first sentences of a task, with a value of c2."""

    c2 = 1.0

    @property
    def reg_lambda(self) -> float:
        return 2.0 * self.c2 / len(self.train.labels)


def weak(tasks: ModuleType | None, repeat: int) -> list[dict[str, Any]]:
    """A table a task."""
    if tasks is None:
        raise MissingError("weak regularization comes with --data FOLDER only")
    print(f"\nweak: {__doc__.strip()}")
    results = []
    for name in TASKS:
        whole = load(name, tasks)
        part = _first(whole.train, _SENTENCES)
        task = _Cut(name, part, {}, {}, whole.measure)
        print(f"\n{name}: {_SENTENCES} sentences, {part.design.shape[0]:,} tokens")
        columns = [("c2", 7), ("gap", 7), ("ours s", 8), ("epochs", 7), ("solver", 14)]
        table = Table(
            [*columns, ("CRFsuite s", 11), ("iterations", 11), ("ratio", 7), ("asked", 6)]
        )
        with quiet_single_thread():
            for task.c2 in _C2:
                for result in _compare(task, repeat):
                    cells = [f"{result['ours']:.2f}", f"{result['epochs']}", result["solver"]]
                    cells += [f"{result['peer']:.2f}", f"{result['iterations']}"]
                    to = f"{result['c2']:g}", f"{result['tol']:.0e}"
                    table.row(*to, *cells, f"{result['ratio']:.2f}", f"{_ASKED:g}")
                    results.append({"task": name, **result})
    ratios = np.array([result["ratio"] for result in results])
    print(f"ratio: mean {geometric_mean(ratios):.2f}, least {ratios.min():.2f}, asked {_ASKED:g}")
    return results


def _first(part: Part, n: int) -> Part:
    """Without the attributes that only later sentences have."""
    lengths = part.lengths[:n]
    design = part.design[: lengths.sum()]
    used = np.flatnonzero(np.bincount(design.indices, minlength=design.shape[1]))
    cut = replace(part, raw=[], attributes=part.attributes[:n], labels=part.labels[:n])
    return replace(cut, design=design[:, used], lengths=lengths)


def _curve(task: ChainTask) -> Run:
    """Seconds and objectives of CRFsuite's iterations."""
    with TemporaryDirectory(prefix="crfsuite_") as folder:
        return CRFsuite(task).train(PEERS["lbfgs-all"], _ITERATIONS, Path(folder, "model"))


def _compare(task: ChainTask, repeat: int) -> list[dict[str, Any]]:
    part = task.train

    def fit(tol: float) -> Any:
        return make_ours(task, None, tol=tol, max_iter=1000).fit(part.matrices, part.labels)

    fit(1.0)  # loads what is compiled
    peer = _curve(task)
    losses = np.array(peer.losses)
    optimum = min(float(fit(_EXACT).objective_), float(losses.min()))
    firsts = {tol: cpu_seconds(partial(fit, tol)) for tol in _TOLS}
    runs = {tol: (partial(fit, tol), seconds) for tol, (seconds, _) in firsts.items()}
    seconds = take_turns(runs, repeat)
    results = []
    for tol, (_, model) in firsts.items():
        reached = losses <= optimum * (1.0 + tol)
        last = int(np.argmax(reached)) if reached.any() else len(losses) - 1  # a lower bound
        ours, theirs = float(np.median(seconds[tol])), peer.seconds[last]
        own = {"ours": ours, "epochs": int(model.n_iter_), "solver": str(model.solver_)}
        of_peer = {"peer": theirs, "iterations": last + 1, "reached": bool(reached.any())}
        to = {"c2": 0.5 * len(part.labels) * task.reg_lambda, "tol": tol}
        results.append({**to, **own, **of_peer, "ratio": theirs / ours})
    return results
