"""Chain CRFs with L1: SDCACRF against CRFsuite's OWL-QN at equal c1 and c2, from strings to model.

On 800 sentences ``reg_lambda = (c1 + 2 c2) / n`` and ``l1_ratio = c1 / (c1 + 2 c2)``. CRFsuite has
its default feature set or, in "all", every attribute with every label, which is our model: there
both minimize one objective. Weights that are not 0 are those of attributes and of transitions. F1
is that of the spans of the test part, kB those of the model: a pickle after ``sparsify``, and
CRFsuite's file.
"""

import pickle
import warnings
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

import numpy as np
from _measure import MissingError, Table, cpu_seconds, quiet_single_thread, take_turns

from sklearn_bundle import SDCACRF
from sklearn_bundle.metrics import span_f1_score

TASKS = ("conll2002_ned", "conll2000")
_SENTENCES = 800
_STRENGTHS = ((0.1, 0.1), (0.1, 0.0))  # c1 and c2: elastic net, L1 alone
_ITERATIONS = 100  # of CRFsuite, as its tutorials have it
_ALL = {"feature.possible_states": 1, "feature.possible_transitions": 1}
_CRFSUITE = {
    "CRFsuite, 100 iterations": {"max_iterations": _ITERATIONS},
    "CRFsuite, to its end": {},
    "CRFsuite, all, 100 iterations": {"max_iterations": _ITERATIONS, **_ALL},
}
_MOST_EPOCHS = 400  # of ours, which L1 alone may take


def small_models(tasks: ModuleType | None, repeat: int) -> list[dict[str, Any]]:
    """A table for each task and strength."""
    if tasks is None:
        raise MissingError("the fits with L1 come with --data FOLDER only")
    try:
        import pycrfsuite  # noqa: F401
    except ImportError as error:
        raise MissingError(f"python-crfsuite is not installed ({error})") from error
    print(f"\nL1: {__doc__.strip()}")
    results = []
    for name in TASKS:
        X, y, *test = tasks.sequences(name)
        X, y = list(X[:_SENTENCES]), [[str(label) for label in s] for s in y[:_SENTENCES]]
        for c1, c2 in _STRENGTHS:
            with quiet_single_thread(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                results += _compare(name, X, y, test, c1, c2, repeat)
    return results


def _compare(task: str, X: list, y: list, test: list, c1: float, c2: float, repeat: int) -> list:
    """Ours to two gaps, and CRFsuite's runs."""
    strength = c1 + 2.0 * c2
    settings = {"l1_ratio": c1 / strength, "fit_intercept": False, "random_state": 0}
    settings |= {"reg_lambda": strength / len(X), "max_iter": _MOST_EPOCHS}
    SDCACRF(**settings | {"max_iter": 2}).fit(X[:30], y[:30])  # loads what is compiled

    def ours(tol: float) -> Callable[[], SDCACRF]:
        return lambda: SDCACRF(tol=tol, **settings).fit(X, y)

    def theirs(further: dict[str, float]) -> Callable[[], bytes]:
        return lambda: _crfsuite(X, y, {"c1": c1, "c2": c2, **further})

    runs: dict[str, Callable[[], Any]] = {
        f"SDCACRF, tol {tol:g}": ours(tol) for tol in (1e-2, 1e-3)
    }
    runs |= {name: theirs(further) for name, further in _CRFSUITE.items()}
    firsts = {name: cpu_seconds(run) for name, run in runs.items()}
    seconds = take_turns({name: (run, firsts[name][0]) for name, run in runs.items()}, repeat)
    print(f"\n{task}: {len(X):,} sentences, c1 = {c1:g}, c2 = {c2:g}")
    columns = [("", 30), ("CPU s", 7), ("ratio", 6), ("steps", 6), ("objective", 10), ("gap", 8)]
    table = Table([*columns, ("nonzeros", 9), ("F1", 6), ("kB", 7)])
    own, results = float(np.median(seconds["SDCACRF, tol 0.01"])), []
    for name, (_, model) in firsts.items():
        of_model = _of_ours if isinstance(model, SDCACRF) else _of_theirs
        found = {"task": task, "c1": c1, "c2": c2, "side": name, **of_model(model, test, len(X))}
        found["seconds"] = float(np.median(seconds[name]))
        gap = found["gap"]
        table.row(
            name,
            f"{found['seconds']:.2f}",
            f"{found['seconds'] / own:.2f}",
            f"{found['steps']}",
            f"{found['objective']:.5f}",
            "-" if gap is None else f"{gap:.1e}",
            f"{found['nonzeros']:,}",
            f"{found['score']:.2f}",
            f"{found['kilobytes']:.0f}",
        )
        results.append(found)
    return results


def _of_ours(model: SDCACRF, test: list, n: int) -> dict[str, Any]:
    score = 100.0 * span_f1_score(test[1], model.predict(test[0]))
    sparse = model.sparsify()
    return {
        "nonzeros": len(sparse.state_features_) + len(sparse.transition_features_),
        "objective": model.objective_,
        "gap": model.relative_gap_,
        "steps": model.n_iter_,
        "score": score,
        "kilobytes": len(pickle.dumps(sparse)) / 1e3,
    }


def _crfsuite(X: list, y: list, settings: dict[str, float]) -> tuple[bytes, dict[str, Any]]:
    """The model file, and what the last iteration says."""
    import pycrfsuite

    trainer = pycrfsuite.Trainer(algorithm="lbfgs", verbose=False)
    trainer.set_params(settings)
    for attributes, labels in zip(X, y, strict=True):
        trainer.append(attributes, labels)
    with TemporaryDirectory(prefix="crfsuite_") as folder:
        trainer.train(str(Path(folder, "model")))
        return Path(folder, "model").read_bytes(), trainer.logparser.last_iteration


def _of_theirs(model: tuple[bytes, dict[str, Any]], test: list, n: int) -> dict[str, Any]:
    import pycrfsuite

    content, last = model
    tagger = pycrfsuite.Tagger()
    tagger.open_inmemory(content)
    info = tagger.info()
    predicted = [tagger.tag(attributes) for attributes in test[0]]
    return {
        "nonzeros": len(info.state_features) + len(info.transitions),
        "objective": last["loss"] / n,
        "gap": None,
        "steps": last["num"],
        "score": 100.0 * span_f1_score(test[1], predicted),
        "kilobytes": len(content) / 1e3,
    }
