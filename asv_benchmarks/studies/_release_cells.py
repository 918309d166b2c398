"""The cells of ``release.py``: fits by public names of the package alone, and their data.

So one table runs under any version. A row has an estimator, or a function that fits a path; data;
what is measured beside the fit; loss and parameters. Data are "made", of a kind and rows x columns,
or "conll", or a function of the folder's ``tasks.py`` and a set, and how many of the rows to draw.
"""

import os
import sys
from ast import literal_eval
from collections.abc import Iterator
from functools import lru_cache
from importlib import import_module
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.utils import shuffle

FOLDER = "SKLEARN_BUNDLE_DATA"  # the environment variable with the folder of data sets
# Parts of the table, and the tol of rows that have none: the same, whatever the defaults are.
FAMILIES = {"linear": 1e-3, "kernel": 1e-2, "chain": 1e-2, "structured": 1e-3}
TABLE = """\
BMRMClassifier   | made binary 200x8       | one first   |
BMRMClassifier   | made binary 200x8       | first       | log_loss
BMRMClassifier   | made binary 200x8       | first       | log_loss regularizer=l1
BMRMClassifier   | made classes 600x10     | one first   | softmax
BMRMClassifier   | made binary 50000x1     |             | hinge reg_lambda=1e-3
BMRMClassifier   | made binary 500x1000    |             | hinge reg_lambda=1e-3
BMRMClassifier   | made sparse 9000x50000  | predict one | hinge reg_lambda=1e-3
BMRMClassifier   | made sparse 9000x50000  |             | log_loss regularizer=l1 reg_lambda=1e-4
BMRMClassifier   | made binary 200000x30   | memory      | hinge reg_lambda=1e-4
BMRMClassifier   | linear a9a              | predict     | hinge reg_lambda=1e-4 fit_intercept=False
BMRMClassifier   | linear covtype2         |             | hinge reg_lambda=1e-5 tol=1e-6
BMRMClassifier   | linear news20_bigrams   | memory      | squared_hinge reg_lambda=1e-5
BMRMClassifier   | linear mnist_even       | memory      | log_loss reg_lambda=1e-4
BMRMClassifier   | linear covtype2         |             | log_loss reg_lambda=1e-6 tol=1e-6
BMRMClassifier   | multiclass pendigits    | predict one | hinge reg_lambda=1e-3
BMRMClassifier   | multiclass letter       |             | squared_hinge reg_lambda=1e-3
BMRMClassifier   | multiclass usps         |             | softmax reg_lambda=1e-3
BMRMClassifier   | multiclass news20       |             | softmax reg_lambda=1e-4
BMRMClassifier   | multiclass usps         |             | multiclass_hinge reg_lambda=1e-3
BMRMClassifier   | kernel a1a              |             | hinge regularizer=l1 reg_lambda=1e-2
BMRMClassifier   | kernel a5a              |             | roc_auc reg_lambda=1e-2
BMRMClassifier   | kernel a5a              |             | fbeta reg_lambda=1e-2
BMRMRegressor    | made numbers 200x8      | one first   |
BMRMRegressor    | made numbers 500x1000   |             | squared_error reg_lambda=1e-3
BMRMRegressor    | linear news20_bigrams   |             | squared_error reg_lambda=1e-5
BMRMRegressor    | made numbers 500x1000   |             | regularizer=elasticnet reg_lambda=1e-2
BMRMRegressor    | made counts 50000x10    |             | poisson reg_lambda=1e-4
BMRMRegressor    | regression cadata_cubic | predict     | squared_error reg_lambda=1e-4
BMRMRegressor    | regression cadata_cubic |             | regularizer=l1 reg_lambda=1e-3
BMRMRegressor    | regression casp         |             | absolute_error reg_lambda=1e-4
BMRMRegressor    | regression casp         |             | epsilon_insensitive reg_lambda=1e-4
BMRMRegressor    | regression pol          |             | quantile quantile=0.9 reg_lambda=1e-4
BMRMRegressor    | regression pol          |             | huber delta=0.5 reg_lambda=1e-4
BMRMRanker       | made grades 500x8       |             | ordinal reg_lambda=1e-4
BMRMRanker       | made grades 2000x20     |             | ndcg reg_lambda=1e-2
BMRMNoveltyDetector | made cloud 5000x10   | one         | nu=0.1 reg_lambda=1e-2
PragamSVC        | made binary 200x8       | first       |
PragamSVC        | linear a9a              |             | reg_lambda=1e-4
bmrm_path        | kernel a1a              |             | hinge reg_lambdas=10 eps=1e-4
bmrm_path        | regression cadata_cubic |             | squared_error regularizer=l1
BMRMClassifierCV | made binary 2000x20     |             | reg_lambdas=5
BMRMRegressorCV  | made numbers 2000x20    |             | reg_lambdas=5

SwapSVC          | made binary 200x8       | one first   |
SwapSVC          | made binary 200x8       | first       | hinge
SwapSVC          | kernel usps_odd         |             | squared_hinge C=0.1
SwapSVC          | kernel usps_odd         |             | squared_hinge C=100
SwapSVC          | kernel a5a              |             | hinge C=100
SwapSVC          | kernel ijcnn1           | memory      | hinge C=1
SwapSVC          | made binary 2000x20     |             | squared_hinge kernel=linear C=1
SwapSVC          | made gram 1000x5        |             | squared_hinge kernel=precomputed C=1
SwapSVC          | kernel pendigits        | predict one | squared_hinge C=1
SwapSVC          | kernel letter 5000      | predict     | hinge C=10
SwapSVC          | made many 500x10        | predict one | squared_hinge C=1
SwapSVR          | made numbers 200x8      | one first   |
SwapSVR          | regression abalone      |             | epsilon=0.1 C=1
SwapSVR          | regression abalone      |             | epsilon_insensitive epsilon=0.1 C=1
SwapNoveltyDetector | made binary 2000x20  | one         | C=1
SwapSVCCV        | made binary 500x8       |             | Cs=(0.1,1,10) cv=3
SwapSVRCV        | made numbers 500x8      |             | Cs=(0.1,1,10) cv=3

SDCACRF          | made words 200x8        | one first   |
SDCACRF          | made chains 200x8       | one         |
SDCACRF          | sequences ocr 1000      | predict     | reg_lambda=1e-3
SDCACRF          | sequences ocr 1000      |             | reg_lambda=1e-4
SDCACRF          | sequences ocr 1000      |             | reg_lambda=1e-2 solver=lbfgs
SDCACRF          | conll test 500          | memory      | reg_lambda=2e-3
SDCACRF          | conll test 500          | one         | reg_lambda=2e-4 tol=1e-4
SDCACRF          | conll test 500          |             | reg_lambda=2e-3 l1_ratio=0.5
crf_path         | made words 200x8        |             | reg_lambdas=4
SDCACRFCV        | made words 200x8        |             | reg_lambdas=3 cv=3

StructuredSVM    | made chains 200x8       | one first   | model=chain
StructuredSVM    | made chains 200x8       |             | log model=chain
StructuredSVM    | sequences ocr 1000      | memory      | model=chain reg_lambda=1e-3 tol=1e-2
StructuredSVM    | conll test 500          | one         | model=chain reg_lambda=2e-3 tol=1e-2
StructuredSVM    | multiclass usps 2000    |             | model=multiclass reg_lambda=1e-3
StructuredSVM    | made spans 200x8        | predict     | model=segments reg_lambda=1e-2
StructuredSVM    | structured horses       | predict     | model=graph reg_lambda=1
StructuredSVM    | structured house_50     | one         | model=matching reg_lambda=1e-1
StructuredSVM    | structured scene        | one         | model=multilabel reg_lambda=1e-2
"""


class Cell(NamedTuple):
    """A fit, and what is measured of it."""

    family: str
    made: str
    data: str
    kinds: tuple[str, ...]
    params: tuple[tuple[str, Any], ...]
    name: str


def _cells(family: str, rows: str) -> Iterator[Cell]:
    for line in rows.splitlines():
        made, data, also, texts = map(str.strip, line.split("|"))
        params = [("tol", FAMILIES[family])]
        for name, _, value in (text.rpartition("=") for text in texts.split()):
            is_text = value.isidentifier() and value != "False"
            params.append((name or "loss", value if is_text else literal_eval(value)))
        kinds = ("fit", *also.split())
        yield Cell(family, made, data, kinds, tuple(params), f"{made} ({data}) {texts}".strip())


CELLS = [cell for part in zip(FAMILIES, TABLE.split("\n\n"), strict=True) for cell in _cells(*part)]


@lru_cache(maxsize=2)  # sets in memory at a time
def load(data: str) -> tuple[Any, Any, dict[str, Any]]:
    """X, y and further arguments of fit."""
    kind, name, *rest = data.split()
    if kind == "made":
        make = _chains if name in ("chains", "words", "spans") else _table
        X, y = make(np.random.default_rng(0), *map(int, rest.pop(0).split("x")), name)
    else:
        sys.path.append(os.environ[FOLDER])
        tasks = import_module("tasks")
        X, y = _conll(tasks, name) if kind == "conll" else getattr(tasks, kind)(name)[:2]
    if name == "horses":
        X = [x[:3] for x in X]  # without the shapes of the images
    X, y = shuffle(X, y, n_samples=int(rest[-1]), random_state=0) if rest else (X, y)
    return X, y, {"group": np.arange(len(y)) // 20} if name == "grades" else {}


def _conll(tasks: Any, part: str) -> tuple[list, list]:
    """Words and parts of speech of each token and its neighbors, in a circle."""
    sentences, tags = tasks.load_sequences("conll2000")[part]
    return [
        [[f"{o}{v}" for o in (-1, 0, 1) for v in s[(t + o) % len(s)]] for t in range(len(s))]
        for s in sentences
    ], tags


def _table(rng: np.random.Generator, n: int, d: int, kind: str) -> tuple[Any, Any]:
    """Columns of unequal scales or 50 entries a row, and linear targets with noise."""
    if kind == "sparse":
        X = sp.csr_matrix(sp.random(n, d, 50 / d, random_state=rng))
    else:  # a cloud has the origin outside
        X = rng.normal(size=(n, d)) * np.geomspace(0.5, 2.0, d) + 3.0 * (kind == "cloud")
    scores = X @ rng.normal(size=d)
    y = scores / scores.std() + 0.5 * rng.normal(size=n)
    n_classes = {"binary": 2, "sparse": 2, "gram": 2, "grades": 4, "classes": 5, "many": 100}
    if kind in n_classes:  # of equal size
        y = n_classes[kind] * np.argsort(np.argsort(y)) // n
    y = np.floor(np.exp(y)) if kind == "counts" else y
    return rbf_kernel(X) if kind == "gram" else X, y


def _chains(rng: np.random.Generator, n: int, d: int, kind: str) -> tuple[list, list]:
    """5 to 14 tokens with labels that stay or go to the next of d; spans are those of one label."""
    y = [(np.cumsum(rng.random(rng.integers(5, 15)) < 0.5) + rng.integers(d)) % d for _ in range(n)]
    X = [np.eye(d)[labels] + 0.7 * rng.normal(size=(len(labels), d)) for labels in y]
    if kind == "words":
        X = [[[str(j) for j in row] for row in np.argsort(-rows, axis=1)[:, :3]] for rows in X]
    if kind == "spans":
        ends = [np.flatnonzero(np.diff(labels, prepend=-1, append=-1)) for labels in y]
        y = [[(k[a], a, b) for a, b in pairwise(at)] for k, at in zip(y, ends, strict=True)]
    return X, y
