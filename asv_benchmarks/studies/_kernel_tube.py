"""SwapSVR against SVR, SwapNoveltyDetector against OneClassSVM: groups 5 and 6 of ``kernel``.

Squared losses on our side and absolute ones on theirs are different objectives: both sides are
compared over a grid of what they are to be tuned by, each with its best test error or area under
the ROC curve.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import geometric_mean, median
from types import ModuleType
from typing import Any

import numpy as np
from _measure import MissingError, Table, cpu_seconds, quiet_single_thread, take_turns
from _memory import peak_memory
from _svm import Data, relative_gap, scale_gamma, status, warm_up
from benchmarks.common import dataset
from scipy.sparse import issparse
from sklearn.datasets import load_diabetes
from sklearn.metrics import mean_squared_error, roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR, OneClassSVM

import sklearn_bundle

_SETTINGS = {"cache_size": 1000}
_FIRST = {"casp": 20_000}  # rows that take part, where not all do
_MOST_TRAIN, _MOST_TEST = 30_000, 50_000  # rows of a novelty task
# The file of tasks.load, and which label is normal.
_NORMAL = {"shuttle": ("shuttle", 1), "kddcup99": ("kddcup99_10pct", 11), "mnist": ("mnist", 3)}


_FIT = (("fit s", 8), ("predict s", 9))
_RATIOS = (("fit s", 8), ("ratio", 7), ("predict s", 9), ("ratio", 7))
_REGRESSION = (
    *(("C", 5), ("epsilon", 8), ("status", 10), ("gap", 8), ("SV", 6), ("error", 8), *_FIT),
    *(("SVR SV", 7), ("error", 8), *_RATIOS),
)
_BEST_REGRESSION = (
    *(("task", 14), ("fit", 7), ("least", 7), ("asked", 6), ("predict", 8), ("least", 7)),
    *(("asked", 6), ("error", 8), ("SVR", 8), ("larger by", 10), ("asked for", 26)),
)
_NOVELTY = (("side", 12), ("setting", 9), ("status", 10), ("gap", 8), ("SV", 6), ("area", 8), *_FIT)
_BEST_NOVELTY = (
    *(("task", 14), ("ours", 9), ("area", 8), ("OneClassSVM", 12), ("area", 8)),
    *(("fit ratio", 10), ("predict ratio", 14)),
)


@dataclass(frozen=True)
class Regression:
    """Group 5: a fit for every C and epsilon on each side."""

    title: str = "SwapSVR, peer SVR; y has the deviation 1"
    tasks: tuple[str, ...] = ("abalone", "cpusmall", "pol", "casp", "cadata")
    shipped: tuple[str, ...] = ("diabetes",)
    Cs: tuple[float, ...] = (1.0, 10.0, 100.0)
    epsilons: tuple[float, ...] = (0.03, 0.1, 0.3)
    asked: tuple[float, float] = (2.0, 5.0)  # ratios of fit and of predict
    close: float = 0.01  # by how much our smallest error may be larger, relative


@dataclass(frozen=True)
class Novelty:
    """Group 6: each side has a parameter of its own."""

    title: str = "SwapNoveltyDetector, peer OneClassSVM; trained on the normal rows alone"
    tasks: tuple[str, ...] = ("shuttle", "kddcup99", "mnist")
    shipped: tuple[str, ...] = ("breast_cancer",)
    Cs: tuple[float, ...] = (0.1, 1.0, 10.0, 100.0)
    nus: tuple[float, ...] = (0.01, 0.03, 0.1, 0.3)


def run_group(
    group: Regression | Novelty, names: Sequence[str], tasks: ModuleType | None, repeat: int
) -> Iterator[dict[str, Any]]:
    """A row for each setting of each task, printed; at the end a summary of every task."""
    work = _regression if isinstance(group, Regression) else _novelty
    summaries = []
    for name in names:
        try:
            data = (targets if isinstance(group, Regression) else normal_rows)(name, tasks)
        except (MissingError, ValueError, OSError) as error:
            print(f"{name} skipped: {error}")
            continue
        rows = []
        print(f"{name}: {', '.join(f'{key} {size}' for key, size in data.sizes.items())}")
        for row in work(group, data, repeat):
            rows.append(row)
            yield {"task": name, **data.sizes, **row}
        summaries.append((name, rows, data))
    (_sum_regression if isinstance(group, Regression) else _sum_novelty)(group, summaries)


# ---- regression -------------------------------------------------------------------------------


def targets(name: str, tasks: ModuleType | None) -> Data:
    """A quarter of the rows is the test part."""
    X, y = load_diabetes(return_X_y=True) if tasks is None else tasks.regression(name)
    X, y = X[: _FIRST.get(name)], y[: _FIRST.get(name)]
    y = (y - y.mean()) / y.std()
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.25, random_state=0)
    return Data(X, y, X_test, y_test)


def _regression(group: Regression, data: Data, repeat: int) -> Iterator[dict[str, Any]]:
    table = Table(_REGRESSION)
    gamma = scale_gamma(data.X)
    with quiet_single_thread():
        warm_up(partial(_make_svr, 1.0, 0.1, gamma), data)
    for C in group.Cs:
        for epsilon in group.epsilons:
            setting = {"C": C, "epsilon": epsilon, "gamma": gamma}
            makers = {
                "ours": partial(_make_svr, **setting),
                "SVR": partial(SVR, **setting, **_SETTINGS),
            }
            sides = _timed(makers, data, repeat, "predict", _squared_error)
            yield {**setting, "sides": sides}
            own, peer = sides["ours"], sides["SVR"]
            table.row(
                *(f"{C:g}", f"{epsilon:g}", own["status"], f"{own['gap']:.1e}"),
                *(f"{own['n_support']}", f"{own['score']:.4f}"),
                *(f"{own['fit']:.3f}", f"{own['predict']:.4f}"),
                *(f"{peer['n_support']}", f"{peer['score']:.4f}"),
                *(f"{peer['fit']:.3f}", f"{peer['fit'] / own['fit']:.2f}"),
                *(f"{peer['predict']:.4f}", f"{peer['predict'] / own['predict']:.2f}"),
            )


def _make_svr(C: float, epsilon: float, gamma: float) -> Any:
    return sklearn_bundle.SwapSVR(
        C, epsilon=epsilon, gamma=gamma, n_jobs=1, random_state=0, **_SETTINGS
    )


def _squared_error(y: np.ndarray, predicted: np.ndarray) -> float:
    return float(mean_squared_error(y, predicted))


def _sum_regression(group: Regression, summaries: list) -> None:
    """Geometric means of the ratios over the grid, the smallest, and the smallest errors."""
    print()
    table = Table(_BEST_REGRESSION)
    for name, rows, _ in summaries:
        cells, missed = [], []
        if any(row["sides"]["ours"]["status"] != "converged" for row in rows):
            missed.append("gap")
        for what, least in zip(("fit", "predict"), group.asked, strict=True):
            ratios = [row["sides"]["SVR"][what] / row["sides"]["ours"][what] for row in rows]
            ratio = geometric_mean(ratios)
            cells += [f"{ratio:.2f}", f"{min(ratios):.2f}", f"{least:g}"]
            missed += [what] if ratio < least else []
        ours, theirs = (min(row["sides"][k]["score"] for row in rows) for k in ("ours", "SVR"))
        missed += ["error"] if ours > (1.0 + group.close) * theirs else []
        verdict = f"{' and '.join(missed)} missed" if missed else "met"
        if name in group.shipped:
            verdict = "-"
        table.row(
            *(name, *cells, f"{ours:.4f}", f"{theirs:.4f}"), f"{ours / theirs - 1:+.1%}", verdict
        )
    for name, rows, data in summaries:
        best = min(rows, key=lambda row: row["sides"]["ours"]["score"])
        make = partial(_make_svr, best["C"], best["epsilon"], best["gamma"])
        _print_memory(name, make, data)


# ---- novelty ----------------------------------------------------------------------------------


def normal_rows(name: str, tasks: ModuleType | None) -> Data:
    """Normal rows to train on; test rows of which y says whether they are normal."""
    if tasks is None:
        parts, normal = dataset(name), 1.0
    else:
        file, normal = _NORMAL[name]
        parts = tasks.load(file)
    parts = [part.toarray() if issparse(part) else np.asarray(part) for part in parts]
    X, y = parts[:2]
    if name == "mnist":
        X = X[y == normal] / 255.0
        return Data(X, np.ones(len(X)), parts[2] / 255.0, parts[3] == normal)
    order = np.random.default_rng(0).permutation(len(y))
    train, test = np.array_split(order, 2)
    train, test = train[y[train] == normal][:_MOST_TRAIN], test[:_MOST_TEST]
    scaler = StandardScaler().fit(X[train])
    X, X_test = (scaler.transform(X[part]) for part in (train, test))
    return Data(X, np.ones(len(train)), X_test, y[test] == normal)


def _novelty(group: Novelty, data: Data, repeat: int) -> Iterator[dict[str, Any]]:
    table = Table(_NOVELTY)
    gamma = scale_gamma(data.X)
    with quiet_single_thread():
        warm_up(partial(_make_detector, 1.0, gamma), data)
    makers: dict[str, Callable[[], Any]] = {}
    for C in group.Cs:
        makers[f"ours C={C:g}"] = partial(_make_detector, C, gamma)
    for nu in group.nus:
        makers[f"OneClassSVM nu={nu:g}"] = partial(OneClassSVM, nu=nu, gamma=gamma, **_SETTINGS)
    for key, side in _timed(makers, data, repeat, "decision_function", _area).items():
        name, setting = key.split()
        yield {"side": name, "setting": setting, **side}
        gap = side.get("gap")
        table.row(
            *(name, setting, side.get("status", "-"), "-" if gap is None else f"{gap:.1e}"),
            *(f"{side['n_support']}", f"{side['score']:.4f}"),
            *(f"{side['fit']:.3f}", f"{side['predict']:.4f}"),
        )


def _make_detector(C: float, gamma: float) -> Any:
    return sklearn_bundle.SwapNoveltyDetector(
        C=C, gamma=gamma, n_jobs=1, random_state=0, **_SETTINGS
    )


def _area(normal: np.ndarray, scores: np.ndarray) -> float:
    return float(roc_auc_score(normal, scores))


def _sum_novelty(group: Novelty, summaries: list) -> None:
    """Both sides at the setting with the largest area."""
    print()
    table = Table(_BEST_NOVELTY)
    for name, rows, _ in summaries:
        own, peer = (
            max((row for row in rows if row["side"] == side), key=lambda row: row["score"])
            for side in ("ours", "OneClassSVM")
        )
        table.row(
            *(name, own["setting"], f"{own['score']:.4f}"),
            *(peer["setting"], f"{peer['score']:.4f}"),
            *(f"{peer['fit'] / own['fit']:.2f}", f"{peer['predict'] / own['predict']:.2f}"),
        )
    for name, rows, data in summaries:
        C = max((r for r in rows if r["side"] == "ours"), key=lambda row: row["score"])["setting"]
        make = partial(_make_detector, float(C.removeprefix("C=")), scale_gamma(data.X))
        _print_memory(name, make, data)


# ---- both -------------------------------------------------------------------------------------


def _timed(
    makers: dict[str, Callable[[], Any]],
    data: Data,
    repeat: int,
    predict: str,
    score: Callable[[np.ndarray, np.ndarray], float],
) -> dict[str, dict[str, Any]]:
    """Seconds of fit and of the predictions for the test part, by sides; they take turns."""
    sides: dict[str, dict[str, Any]] = {}
    fits, predicts = {}, {}
    with quiet_single_thread():
        for name, make in makers.items():
            fit = partial(_fitted, make, data)
            seconds, model = cpu_seconds(fit)
            scores = partial(getattr(model, predict), data.X_test)
            first, predicted = cpu_seconds(scores)
            fits[name], predicts[name] = (fit, seconds), (scores, first)
            sides[name] = {
                "n_support": len(model.support_),
                "score": score(data.y_test, predicted),
            }
            if hasattr(model, "dual_gap_"):
                sides[name] |= {"status": status(model), "gap": relative_gap(model)}
        for what, runs in (("fit", fits), ("predict", predicts)):
            for name, taken in take_turns(runs, repeat).items():
                sides[name] |= {what: median(taken), f"{what}_runs": taken}
    return sides


def _fitted(make: Callable[[], Any], data: Data) -> Any:
    return make().fit(data.X, data.y)


def _print_memory(name: str, make: Callable[[], Any], data: Data) -> None:
    try:
        memory = peak_memory(make, data)
    except MissingError as error:
        print(f"memory skipped: {error}")
        return
    print(
        f"{name}: memory of our fit with the best score: {memory['peak']:.0f} MiB at its peak, "
        f"{memory['before']:.0f} before it, of which the training data {memory['data']:.0f}",
        flush=True,
    )
