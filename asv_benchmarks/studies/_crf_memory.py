"""Peak memory of a fit of SDCACRF and of CRFsuite, each in a process of its own.

Neither process has the strings: ours reads prepared matrices, CRFsuite's gets a sequence at a time
from a file.
"""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import joblib
from _chains import ChainTask
from _crf_contest import make_ours
from _crfsuite import PEERS, make_trainer
from _measure import quiet_single_thread
from _memory import high_water, in_new_process

_FEW = 50  # sequences


def our_memory(task: ChainTask, solver: str | None) -> dict[str, float]:
    """MiB at the peak of the fit and before it, when the data are loaded and all is compiled."""
    slim = ChainTask(task.name, task.train.without_strings(), {}, {}, task.measure)
    with TemporaryDirectory(prefix="peak_memory_") as folder:
        path = Path(folder, "task")
        joblib.dump(slim, path)
        return in_new_process(_measure_ours, path, solver)


def _measure_ours(path: Path, solver: str | None) -> dict[str, float]:
    task: ChainTask = joblib.load(path)
    X, y = task.train.matrices, task.train.labels
    with quiet_single_thread():
        make_ours(task, solver, tol=1e-3).fit(X[:_FEW], y[:_FEW])
        before = high_water()
        make_ours(task, solver, tol=1e-3).fit(X, y)
        return {"peak": high_water(), "before": before}


def crfsuite_memory(task: ChainTask, peer: str, max_iter: int = 8) -> dict[str, float]:
    """The same of a training of few iterations: by then L-BFGS has all its vectors."""
    with TemporaryDirectory(prefix="peak_memory_") as folder:
        path = Path(folder, "sequences")
        with path.open("w") as file:
            for pair in zip(task.train.attributes, task.train.labels, strict=True):
                print(json.dumps(pair), file=file)
        return in_new_process(_measure_crfsuite, path, peer, task.reg_lambda, max_iter)


def _measure_crfsuite(path: Path, peer: str, reg_lambda: float, max_iter: int) -> dict[str, float]:
    trainer = make_trainer()
    n = 0
    with path.open() as file:
        for line in file:
            trainer.append(*json.loads(line))
            n += 1
    trainer.select(PEERS[peer].algorithm)
    trainer.set_params(PEERS[peer].settings(n, reg_lambda, max_iter))
    before = high_water()
    trainer.train(str(path.with_name("model")))
    return {"peak": high_water(), "before": before}
