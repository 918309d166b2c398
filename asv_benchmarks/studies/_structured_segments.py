"""Segments beside chains: spans that are found, and what a fit takes, on text and on made data."""

import argparse
from dataclasses import dataclass
from statistics import fmean
from types import ModuleType
from typing import Any

import numpy as np
from _chains import load
from _measure import Table
from _structured_watch import WatchedSVM, watch

from sklearn_bundle.metrics import segment_tags, segments, span_f1_score
from sklearn_bundle.models import Chain, Segments, StructuredModel

TOL = 1e-3  # relative gap of all fits
LIMIT = 300.0  # CPU seconds of a fit
FEW = 50  # sequences of the fit that compiles
MOST = 2000  # sentences of the smaller task
SEEDS = range(3)  # draws of the made data

Tags = list[list[str]]


@dataclass
class Task:
    """Tokens and their IOB2 tags, to learn from and to test with."""

    name: str
    X: list
    tags: Tags
    X_test: list
    tags_test: Tags


@dataclass
class Contestant:
    """A model and the loss of its fit."""

    name: str
    model: StructuredModel
    loss: str = "hinge"

    def fit(self, task: Task, most: int | None, limit: float) -> WatchedSVM:
        """At reg_lambda = 1/n."""
        X, y = task.X[:most], task.tags[:most]
        if isinstance(self.model, Segments):
            y = [segments(tags) for tags in y]
        return watch(X, y, model=self.model, loss=self.loss, tol=TOL, max_seconds=limit)

    def f1(self, svm: WatchedSVM, task: Task) -> float:
        """Of the spans of the test part, in percent."""
        found = svm.predict(task.X_test)
        if isinstance(self.model, Segments):
            found = [segment_tags(segments) for segments in found]
        return 100.0 * span_f1_score(task.tags_test, found)


CHAIN = Contestant("chain", Chain())
SEGMENTS = Contestant("segments", Segments())
PLAIN = Contestant("segments, no boundaries", Segments(boundaries=False))
COUNTED = Contestant("segments, whole ones cost", Segments(cost="segments"))
CHAIN_LOG = Contestant("chain, log", Chain(), "log")
SEGMENTS_LOG = Contestant("segments, log", Segments(), "log")


def made(seed: int, n: int = 200, n_test: int = 500) -> Task:
    """Segments of three kinds that differ in length, and in tokens no more than noise does.

    Kinds last 2, 5 and 8 tokens, one less or one more with probability 0.2 each, and follow each
    other at random, equal ones too. A token has a feature of its kind, and the last one of a
    segment another, each of mean 1 in noise of deviation 1.
    """
    rng = np.random.default_rng(seed)
    X, tags = [], []
    for _ in range(n + n_test):
        labels: list[str] = []
        means: list[np.ndarray] = []
        for _ in range(int(rng.integers(4, 10))):
            kind = int(rng.integers(3))
            length = (2, 5, 8)[kind] + int(rng.choice([-1, 0, 1], p=[0.2, 0.6, 0.2]))
            labels += ["B-" + "abc"[kind]] + ["I-" + "abc"[kind]] * (length - 1)
            means += [np.eye(4)[kind]] * (length - 1) + [np.eye(4)[kind] + np.eye(4)[3]]
        X.append(np.array(means) + rng.normal(size=(len(means), 4)))
        tags.append(labels)
    return Task("made", X[:n], tags[:n], X[n:], tags[n:])


def chunks(tasks: ModuleType | None) -> Task:
    """CoNLL-2000, or made sentences where there is no data."""
    task = load("made_sentences" if tasks is None else "conll2000", tasks)
    test = task.tests["test"]
    return Task(task.name, task.train.matrices, task.train.labels, test.matrices, test.labels)


def run(tasks: ModuleType | None, arguments: argparse.Namespace, results: list[dict]) -> None:
    """A table for each task."""
    limit = arguments.max_seconds or LIMIT
    text = chunks(tasks)
    few = Task(text.name, text.X[:MOST], text.tags[:MOST], text.X_test, text.tags_test)
    _table(
        [made(seed) for seed in SEEDS],
        (CHAIN, SEGMENTS, PLAIN, COUNTED, CHAIN_LOG, SEGMENTS_LOG),
        limit,
        results,
    )
    if len(text.X) > MOST:
        _table([few], (CHAIN, SEGMENTS, PLAIN, COUNTED), limit, results)
    _table([text], (CHAIN, SEGMENTS), limit, results)


def _table(
    draws: list[Task], contestants: tuple[Contestant, ...], limit: float, results: list[dict]
) -> None:
    """A row for each contestant, means over draws of a task."""
    task = draws[0]
    n, tokens = len(task.X), sum(map(len, task.tags))
    print(
        f"\n{task.name}, n = {n:,} ({tokens:,} tokens), reg_lambda = 1/n, tol = {TOL:g}; means of "
        f"{len(draws)}; at most {limit:g} s a fit"
    )
    columns = [("model", 26), ("weights", 11), ("s", 8), ("passes", 7), ("pass ms", 8)]
    table = Table([*columns, ("gap", 8), ("F1", 6)])
    for contestant in contestants:
        contestant.fit(task, FEW, limit)  # compiles
        rows = [_figures(contestant, draw, limit) for draw in draws]
        mean = {name: fmean(row[name] for row in rows) for name in rows[0]}
        results.append(
            {"part": "segments", "task": task.name, "n": n, "model": contestant.name, **mean}
        )
        table.row(
            contestant.name,
            f"{mean['weights']:,.0f}",
            f"{mean['seconds']:.2f}",
            f"{mean['passes']:.0f}",
            f"{1e3 * mean['pass']:.2f}",
            f"{mean['gap']:.0e}",
            f"{mean['f1']:.2f}",
        )


def _figures(contestant: Contestant, task: Task, limit: float) -> dict[str, Any]:
    svm = contestant.fit(task, None, limit)
    curve = svm.curve
    return {
        "weights": len(svm.w_),
        "seconds": curve.seconds[-1],
        "passes": curve.calls[-1],
        "pass": curve.oracle_pass,
        "gap": curve.relative_gap,
        "f1": contestant.f1(svm, task),
    }
