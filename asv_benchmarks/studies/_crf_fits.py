"""Single fits of chain CRFs as they are used: some thousand sentences, weak regularization too.

``SDCACRF`` with its default tol against CRFsuite's L-BFGS with its default feature set, until it
ends by its own rule and for 100 iterations at most. c2 is CRFsuite's coefficient,
``n reg_lambda / 2``. Seconds are from strings to the model; F1 of the spans is that on the first
test part, in percent.
"""

import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
from _crf_search import PlainCRFsuite
from _measure import MissingError, Table, cpu_seconds, quiet_single_thread, take_turns
from _parts import geometric_mean

from sklearn_bundle import SDCACRF
from sklearn_bundle.metrics import span_f1_score

TASKS = ("conll2002_ned", "conll2000")
_SENTENCES = 800, 3000
_C2 = 1.0, 0.1, 0.01, 0.001
_ITERATIONS = {"CRFsuite": None, "CRFsuite, 100": 100}
_TEST_SENTENCES = 1500
_ASKED, _ASKED_MEAN = 1.0, 3.0


def fits(tasks: ModuleType | None, repeat: int) -> list[dict[str, Any]]:
    """A table a task."""
    if tasks is None:
        raise MissingError("the single fits come with --data FOLDER only")
    try:
        import pycrfsuite  # noqa: F401
    except ImportError as error:
        raise MissingError(f"python-crfsuite is not installed ({error})") from error
    print(f"\nfits: {__doc__.strip()}")
    results: list[dict[str, Any]] = []
    for name in TASKS:
        X, y, X_test, y_test = tasks.sequences(name)
        data = [list(X), _strings(y), list(X_test[:_TEST_SENTENCES])]
        y_test = _strings(y_test[:_TEST_SENTENCES])
        print(f"\n{name}: {len(y_test):,} test sentences")
        sides = ("SDCACRF", *_ITERATIONS)
        columns = [(f"{side} {what}", 17) for side in sides for what in ("s", "F1")]
        table = Table([("n", 6), ("c2", 7), ("gap", 8), *columns, *[("ratio", 7)] * 2])
        for n in _SENTENCES:
            for c2 in _C2:
                with quiet_single_thread(), warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    result = _compare(data, y_test, n, c2, repeat)
                cells = [f"{result[side][what]:.2f}" for side in sides for what in ("s", "F1")]
                ratios = [result[side]["s"] / result["SDCACRF"]["s"] for side in _ITERATIONS]
                table.row(
                    *(f"{n}", f"{c2:g}", f"{result['gap']:.1e}", *cells),
                    *(f"{ratio:.2f}" for ratio in ratios),
                )
                results.append({"task": name, "n": n, "c2": c2, "ratios": ratios, **result})
    for place, side in enumerate(_ITERATIONS):
        ratios = np.array([result["ratios"][place] for result in results])
        print(
            f"{side} over ours: mean {geometric_mean(ratios):.2f} (asked {_ASKED_MEAN:g}), least "
            f"{ratios.min():.2f} (asked {_ASKED:g})"
        )
    return results


def _compare(data: list, y_test: list, n: int, c2: float, repeat: int) -> dict[str, Any]:
    X, y, X_test = data[0][:n], data[1][:n], data[2]
    models: dict[str, Any] = {"SDCACRF": SDCACRF(reg_lambda=2.0 * c2 / n, random_state=0)}
    for side, iterations in _ITERATIONS.items():
        models[side] = PlainCRFsuite(c2, iterations)

    def fit(model: Any) -> Callable[[], Any]:
        return lambda: model.fit(X, y)

    SDCACRF(max_iter=2).fit(X[:30], y[:30])  # loads what is compiled
    runs = {side: (fit(model), cpu_seconds(fit(model))[0]) for side, model in models.items()}
    seconds = take_turns(runs, repeat)
    result: dict[str, Any] = {"gap": models["SDCACRF"].relative_gap_}
    for side, model in models.items():
        score = 100.0 * span_f1_score(y_test, model.predict(X_test))
        result[side] = {"s": float(np.median(seconds[side])), "F1": score}
    return result


def _strings(y: Any) -> list[list[str]]:
    return [[str(label) for label in labels] for labels in y]
