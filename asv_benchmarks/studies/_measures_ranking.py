"""Grades and queries, beside regression and classification.

Grades: mean absolute error of predict_grades, beside LogisticRegression and Ridge rounded to the
nearest grade. Queries: NDCG@10 (gains 2^rel - 1; queries with one relevance left out) of the
scores, beside Ridge on the relevances; "pairs" is "preference" over the pairs of a query, each with
the cost (a_i - a_j) (b_i - b_j), which bounds 1 - NDCG@10 as well (a discount and b gain at the
places of the best order, averaged over ties). All sides get the same folds, standardized features
and grid of reg_lambda (C = 1/(n reg_lambda), alpha = n reg_lambda), and each is shown at the one
value with the best mean of its test folds; "s" is a fold's whole grid, ours with tol=1e-3 and warm
starts.
mq2008 has two folds, its two parts; mq2007_agg those it came with, a rank r there becomes log(1+r)
and -1, "not ranked", a column of its own. At most 300 queries are fitted to, by all sides.
"""

from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from _measure import cpu_seconds
from _measures_common import TOL, Measure, MeasureTable, Side, Study
from benchmarks.common import Array
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import ndcg_score
from sklearn.model_selection import GroupKFold, KFold
from sklearn.preprocessing import StandardScaler

from sklearn_bundle import BMRMRanker

TASKS = ("ERA", "ESL", "LEV", "SWD", "abalone", "mq2008_fold1_vali_test", "mq2007_agg")
SHIPPED = ("made_grades", "made_queries")
VALUES = tuple(np.geomspace(10.0, 1e-4, 6))
QUERY_VALUES = tuple(np.geomspace(100.0, 1e-3, 6))

_ERROR = Measure("MAE", -1.0)
_NDCG = Measure("NDCG@10", 1.0)
_MOST_QUERIES = 300
_PLACES = 10  # of the measure


class Part(NamedTuple):
    """Rows of a fold; ``group`` is None for grades."""

    X: Array
    y: Array
    group: Array | None = None


Predict = Callable[[Array], list[Array]]  # predictions or scores, one a value of reg_lambda
Fit = Callable[[Part], Predict]


def compare(study: Study, task: str) -> None:
    """A table of the task, a row for each contestant as it comes."""
    folds = list(_folds(study, task))
    print()
    if folds[0][0].group is None:
        measure, values = _ERROR, VALUES
        ours: dict[str, Fit] = {"ordinal": partial(_ranker, {}, values)}
        peers: dict[str, Fit] = {"LogisticRegression": _logistic, "Ridge rounded": _ridge_rounded}
    else:
        measure, values = _NDCG, QUERY_VALUES
        ours = {
            "ndcg": partial(_ranker, {"loss": "ndcg"}, values),
            "ndcg, k=10": partial(_ranker, {"loss": "ndcg", "k": 10}, values),
            "pairs": _pairs,
            "ordinal": partial(_ranker, {}, values),
        }
        peers = {"Ridge": _ridge_scores}
    table = MeasureTable(task, (measure,), values)
    sides = {}
    for name, fit in (ours | peers).items():
        sides[name] = _cross_validate(name, fit, folds, measure)
        table.add(sides[name])
        study.record("ranking", task, values=values, **asdict(sides[name]))
    for name in ours:
        table.verdict(measure, sides[name], [sides[peer] for peer in peers])


def _cross_validate(name: str, fit: Fit, folds: list[tuple[Part, Part]], measure: Measure) -> Side:
    side = Side(name)
    judge = _mean_error if measure is _ERROR else _mean_ndcg
    for train, test in folds:
        seconds, predict = cpu_seconds(partial(fit, train))
        side.seconds.append(seconds)
        for kept, part in ((side.train, train), (side.test, test)):
            rows = [judge(part, predicted) for predicted in predict(part.X)]
            kept.setdefault(measure.name, []).append(rows)
    return side


def _mean_error(part: Part, grades: Array) -> float:
    return float(np.mean(np.abs(grades - part.y)))


def _mean_ndcg(part: Part, scores: Array) -> float:
    """Queries in rows, filled up with documents of no gain behind all others."""
    number, place = _places(part.group)
    shape = number[-1] + 1, place.max() + 1
    gains, listed = np.zeros(shape), np.full(shape, scores.min() - 1.0)
    gains[number, place] = np.exp2(part.y) - 1.0
    listed[number, place] = scores
    sizes = np.bincount(number)
    least = np.where(np.arange(shape[1]) < sizes[:, None], gains, np.inf).min(axis=1)
    differ = gains.max(axis=1) > least
    return float(ndcg_score(gains[differ], listed[differ], k=_PLACES))


def _places(group: Array) -> tuple[Array, Array]:
    """The query of each row and its place in it; rows of a query stand together."""
    starts = np.flatnonzero(np.r_[True, group[1:] != group[:-1]])
    sizes = np.diff(np.r_[starts, len(group)])
    return np.repeat(np.arange(len(starts)), sizes), np.arange(len(group)) - np.repeat(
        starts, sizes
    )


# ---- contestants ---------------------------------------------------------------------------


def _ranker(parameters: dict[str, Any], values: tuple[float, ...], train: Part) -> Predict:
    """The planes of one value are the start of the next."""
    model = BMRMRanker(**parameters, tol=TOL, warm_start=True)
    rules = []
    for value in values:
        model.set_params(reg_lambda=value).fit(train.X, train.y, group=train.group)
        rules.append((model.coef_, getattr(model, "thresholds_", None)))
    if train.group is not None:
        return lambda X: [X @ coef for coef, _ in rules]
    grades = model.grades_
    return lambda X: [grades[np.searchsorted(cuts, X @ coef)] for coef, cuts in rules]


def _pairs(train: Part) -> Predict:
    """Costs of mean 1, which only moves the grid of reg_lambda."""
    found = []
    for query in np.unique(train.group):
        rows = np.flatnonzero(train.group == query)
        gains = np.exp2(train.y[rows]) - 1.0
        order = np.argsort(-gains, kind="stable")
        rows, gains = rows[order], gains[order]
        position = np.arange(1.0, len(rows) + 1.0)
        discounts = np.where(position <= _PLACES, 1.0 / np.log2(position + 1.0), 0.0)
        if gains[0] == gains[-1]:
            continue
        grade = np.unique(-gains, return_inverse=True)[1]
        mean = (np.bincount(grade, discounts) / np.bincount(grade))[grade]
        i, j = np.nonzero(gains[:, None] > gains)
        cost = (mean[i] - mean[j]) * (gains[i] - gains[j]) / (discounts @ gains)
        found.append(np.column_stack([rows[i], rows[j], cost]))
    pairs = np.concatenate(found)
    pairs[:, 2] /= pairs[:, 2].mean()
    model = BMRMRanker("preference", tol=TOL, warm_start=True)
    rules = [model.set_params(reg_lambda=v).fit(train.X, pairs).coef_ for v in VALUES]
    return lambda X: [X @ coef for coef in rules]


def _logistic(train: Part) -> Predict:
    n = len(train.y)
    models = [
        LogisticRegression(C=1.0 / (n * value), max_iter=10_000).fit(train.X, train.y)
        for value in VALUES
    ]
    return lambda X: [model.predict(X) for model in models]


def _ridge(train: Part, values: tuple[float, ...]) -> list[Ridge]:
    return [Ridge(len(train.y) * value).fit(train.X, train.y) for value in values]


def _ridge_scores(train: Part) -> Predict:
    models = _ridge(train, QUERY_VALUES)
    return lambda X: [model.predict(X) for model in models]


def _ridge_rounded(train: Part) -> Predict:
    models, grades = _ridge(train, VALUES), np.unique(train.y)
    middles = 0.5 * (grades[1:] + grades[:-1])
    return lambda X: [grades[np.searchsorted(middles, model.predict(X))] for model in models]


# ---- data ----------------------------------------------------------------------------------


def _folds(study: Study, task: str) -> Iterator[tuple[Part, Part]]:
    """Training and test parts, standardized by the training part."""
    for train, test in _raw_folds(study, task):
        if train.group is not None:
            train = _few_queries(train)
        scaler = StandardScaler().fit(train.X)
        yield tuple(part._replace(X=scaler.transform(part.X)) for part in (train, test))


def _raw_folds(study: Study, task: str) -> Iterator[tuple[Part, Part]]:
    if task.startswith("mq"):
        extras = study.extras(task)
        if task.startswith("mq2008"):
            X, y, X_test, y_test = study.load(task)
            halves = Part(X, y, extras["qid"]), Part(X_test, y_test, extras["qid_test"])
            yield halves
            yield halves[::-1]
            return
        X, y = study.load(task)
        X = np.column_stack([np.log1p(np.maximum(X, 0.0)), X < 0.0])
        group, fold = extras["qid"], extras["fold"]
        splits = [(fold != k, fold == k) for k in np.unique(fold)]
    elif task == "made_queries":
        X, y, group = _made_queries()
        splits = GroupKFold(study.folds).split(X, y, group)
    else:
        X, y = _made_grades() if study.tasks is None else study.load(task)
        group = None
        splits = KFold(study.folds, shuffle=True, random_state=0).split(X)
    for train, test in splits:
        yield tuple(
            Part(X[rows], y[rows].astype(float), None if group is None else group[rows])
            for rows in (train, test)
        )


def _few_queries(part: Part) -> Part:
    queries = np.unique(part.group)
    kept = np.random.default_rng(0).permutation(queries)[:_MOST_QUERIES]
    rows = np.isin(part.group, kept)
    return Part(part.X[rows], part.y[rows], part.group[rows])


def _made_grades() -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 5))
    truth = X @ rng.standard_normal(5) + rng.standard_normal(400)
    return X, np.digitize(truth, (-2.0, -0.5, 0.5, 2.0))


def _made_queries() -> tuple[Array, Array, Array]:
    """30 queries of 12 documents."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((360, 5))
    truth = X @ rng.standard_normal(5) + rng.standard_normal(360)
    return X, np.digitize(truth, (1.0, 2.5)), np.repeat(np.arange(30), 12)
