"""A search over the regularization of chain CRFs: 8 values, 3 folds, F1 of the spans.

``SDCACRFCV`` and ``GridSearchCV(SDCACRF)``, with their default tol, against ``GridSearchCV`` over
sklearn-crfsuite's CRF with L-BFGS, its default feature set and at most 100 iterations. All choose
among the same c2 in the same folds, and fit the chosen value to all sentences. Seconds are from
strings to the last model.
"""

import warnings
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

import numpy as np
from _measure import MissingError, Table, cpu_seconds, quiet_single_thread, take_turns
from sklearn.base import BaseEstimator
from sklearn.model_selection import GridSearchCV, KFold

from sklearn_bundle import SDCACRF, SDCACRFCV
from sklearn_bundle.metrics import span_f1_scorer

TASKS = {"conll2002_ned": 1200, "conll2000": 800}  # sentences
_C2 = np.geomspace(5.0, 0.005, 8)
_FOLDS = 3
_ITERATIONS = 100  # of CRFsuite, as its tutorials have it
_ASKED = {"SDCACRFCV": 10.0, "GridSearchCV(SDCACRF)": 1.5}


class PlainCRFsuite(BaseEstimator):
    """What sklearn-crfsuite's CRF does, on python-crfsuite alone."""

    def __init__(self, c2: float = 1.0, max_iterations: int | None = None):
        self.c2 = c2
        self.max_iterations = max_iterations

    def fit(self, X: list, y: list) -> "PlainCRFsuite":
        import pycrfsuite

        trainer = pycrfsuite.Trainer(algorithm="lbfgs", verbose=False)
        trainer.set_params({"c2": self.c2, "max_iterations": self.max_iterations})
        for attributes, labels in zip(X, y, strict=True):
            trainer.append(attributes, labels)
        with TemporaryDirectory(prefix="crfsuite_") as folder:
            trainer.train(str(Path(folder, "model")))
            self.model_ = Path(folder, "model").read_bytes()
        return self

    def predict(self, X: list) -> list[list[str]]:
        import pycrfsuite

        tagger = pycrfsuite.Tagger()
        tagger.open_inmemory(self.model_)
        return [tagger.tag(attributes) for attributes in X]


def search(tasks: ModuleType | None, repeat: int) -> list[dict[str, Any]]:
    """A table a task."""
    if tasks is None:
        raise MissingError("the searches come with --data FOLDER only")
    print(f"\nsearch: {__doc__.strip()}")
    results = []
    peer_name, peer = _peer()
    for name, n in TASKS.items():
        X, y, *_ = tasks.sequences(name)
        X, y = list(X[:n]), [[str(label) for label in labels] for labels in y[:n]]
        with quiet_single_thread(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results.append(_compare(name, X, y, peer_name, peer, repeat))
    return results


def _peer() -> tuple[str, Any]:
    try:
        from sklearn_crfsuite import CRF
    except ImportError:
        try:
            import pycrfsuite  # noqa: F401
        except ImportError as error:
            raise MissingError(f"python-crfsuite is not installed ({error})") from error
        return "GridSearchCV(python-crfsuite)", PlainCRFsuite(max_iterations=_ITERATIONS)
    return "GridSearchCV(sklearn-crfsuite)", CRF("lbfgs", max_iterations=_ITERATIONS)


def _compare(task: str, X: list, y: list, peer_name: str, peer: Any, repeat: int) -> dict[str, Any]:
    n_train = len(X) * (_FOLDS - 1) / _FOLDS
    reg_lambdas = 2.0 * _C2 / n_train
    shared: dict[str, Any] = {"cv": KFold(_FOLDS), "scoring": span_f1_scorer}

    def grid(model: Any, name: str, values: np.ndarray) -> Callable[[], Any]:
        return lambda: GridSearchCV(model, {name: values}, **shared).fit(X, y)

    runs = {
        "SDCACRFCV": lambda: SDCACRFCV(
            reg_lambdas=reg_lambdas, random_state=0, cv=shared["cv"], scoring="span_f1"
        ).fit(X, y),
        "GridSearchCV(SDCACRF)": grid(SDCACRF(random_state=0), "reg_lambda", reg_lambdas),
        peer_name: grid(peer, "c2", _C2),
    }
    SDCACRF(max_iter=2).fit(X[:30], y[:30])  # loads what is compiled
    firsts = {name: cpu_seconds(search) for name, search in runs.items()}
    timed = {name: (search, firsts[name][0]) for name, search in runs.items()}
    seconds = take_turns(timed, repeat)
    result: dict[str, Any] = {"task": task, "sentences": len(X)}
    print(f"\n{task}: {len(X):,} sentences, c2 from {_C2[0]:g} to {_C2[-1]:g}")
    table = Table([("", 31), ("CPU s", 9), ("c2", 9), ("F1", 7), ("ratio", 7), ("asked", 7)])
    of_peer = float(np.median(seconds[peer_name]))
    for name, (_, search) in firsts.items():
        of_side = float(np.median(seconds[name]))
        if isinstance(search, SDCACRFCV):
            chosen, score = search.reg_lambda_, search.mean_test_scores_.max()
        else:
            (chosen,), score = search.best_params_.values(), search.best_score_
        c2 = chosen if name == peer_name else 0.5 * n_train * chosen
        ratio, asked = of_peer / of_side, _ASKED.get(name)
        cells = [f"{of_side:.2f}", f"{c2:.3g}", f"{100.0 * score:.2f}", f"{ratio:.2f}"]
        table.row(name, *cells, "" if asked is None else f"{asked:g}")
        result[name] = {"seconds": of_side, "c2": float(c2), "score": float(score), "ratio": ratio}
    return result
