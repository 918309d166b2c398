"""Arguments of functions and of fit: messages name and show wrong values."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_iris

from sklearn_bundle import (
    BMRMClassifier,
    BMRMClassifierCV,
    BMRMNoveltyDetector,
    BMRMRanker,
    PragamSVC,
    SwapNoveltyDetector,
    SwapSVC,
    SwapSVCCV,
    bmrm_path,
    datasets,
    metrics,
    reg_lambda_max,
)
from sklearn_bundle.projection import project
from tests.contract.parameters import ESTIMATORS, GROUP, ROWS, SEARCHES, WRONG, assert_named, fit

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


# ---- functions ---------------------------------------------------------------------------------


TRUE, PREDICTED = [["B-NP", "I-NP", "O"], ["O"]], [["B-NP", "O", "O"], ["O"]]
TYPES = {"none", "negative", "negative float", "float64", "huge", "object", "complex", "nan"}
NUMBERS = {*WRONG} - {"none"}
FUNCTIONS = [
    (metrics.spans, {"labels": ["O"]}, {"labels": TYPES - {"none"}, "scheme": {*WRONG}}),
    *(
        (function, {"y_true": TRUE, "y_pred": PREDICTED}, {
            "y_true": TYPES, "y_pred": TYPES, "sample_weight": NUMBERS,
        })
        for function in (metrics.token_accuracy_score, metrics.sequence_accuracy_score)
    ),
    (metrics.span_f1_score, {"y_true": TRUE, "y_pred": PREDICTED},
     {"y_true": TYPES, "y_pred": TYPES, "scheme": {*WRONG}, "labels": NUMBERS - {"dict"},
      "average": NUMBERS, "sample_weight": NUMBERS,
      "zero_division": {*WRONG} - {"nan", "float32"}}),
    (metrics.span_precision_recall_fscore_support, {"y_true": TRUE, "y_pred": PREDICTED},
     {"beta": {*WRONG} - {"infinity"}}),
    (datasets.load_conll, {"path_or_file": ["a b"]},
     {"path_or_file": {*WRONG} - {"string"}, "columns": NUMBERS, "encoding": {*WRONG},
      "target": {*WRONG} - {"negative", "int64"}, "keep": NUMBERS,
      "separator": NUMBERS - {"string"}, "comment": NUMBERS - {"string"}}),
    (project, {"m": [0.5, 0.2]},
     {"m": {*WRONG} - {"infinity"}, "z": {"string", "nan", "infinity", "huge", "float32", "list"},
      "d": {"string", "none", "nan", "infinity", "huge", "list", "float32", "complex"},
      "sigma": {"string", "none", "nan", "infinity", "huge", "list", "float32", "complex"},
      "lower": {"string", "none", "nan", "huge", "list", "float32", "complex"},
      "upper": {"string", "none", "nan", "huge", "list", "float32", "complex"}}),
    (bmrm_path, {"X": load_iris().data, "y": load_iris().target},
     {"reg_lambdas": {*WRONG} - {"none"}, "n_reg_lambdas": {*WRONG} - {"none"},
      "eps": {*WRONG} - {"none"}, "loss": {*WRONG}, "sample_weight": NUMBERS, "tol": {*WRONG}}),
    (reg_lambda_max, {"X": load_iris().data, "y": load_iris().target},
     {"loss": {*WRONG}, "sample_weight": NUMBERS, "regularizer": {*WRONG}, "tol": {*WRONG}}),
]  # fmt: skip


@pytest.mark.parametrize(
    "function, given, name, keys",
    [
        pytest.param(function, given, name, keys, id=f"{function.__name__}-{name}")
        for function, given, wrong in FUNCTIONS
        for name, keys in wrong.items()
    ],
)
def test_wrong_argument_of_a_function_is_named(function, given, name, keys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for key in sorted(keys):
        assert_named(name, key, lambda key=key: function(**given | {name: WRONG[key]}))
    assert not list(tmp_path.iterdir())


# ---- what fit takes ----------------------------------------------------------------------------


N = len(GROUP)
BAD_WEIGHTS = {
    "string": "abc",
    "strings": ["a"] * N,
    "one string": [1.0] * (N - 1) + ["b"],
    "none": [None] * N,
    "complex": np.full(N, 1j),
    "ragged": [[1, 2], [3]],
    "huge": [10**400] * N,
    "nan": np.full(N, np.nan),
    "negative": np.full(N, -1.0),
    "sparse": sp.csr_array(np.ones((1, N))),
}


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_wrong_weights_are_named(kind):
    X, y = load_iris(return_X_y=True)
    for key, weights in BAD_WEIGHTS.items():
        model = kind(**SEARCHES.get(kind, {}))
        with pytest.raises(ValueError, match="sample_weight"):
            model.fit(X[ROWS], y[ROWS], sample_weight=weights)
        assert not [name for name in vars(model) if name.endswith("_")], key


BAD_TARGETS = {
    "mixed": ["a", 1] * (N // 2),
    "none": [None, "a"] * (N // 2),
    "bytes": ["a", b"b"] * (N // 2),
    "unsorted": [object() for _ in range(N)],
}


SUPERVISED = [k for k in ESTIMATORS if k not in (BMRMNoveltyDetector, SwapNoveltyDetector)]


@pytest.mark.parametrize("kind", SUPERVISED)
def test_targets_of_several_kinds_are_named(kind):
    for key, y in BAD_TARGETS.items():
        model = kind(**SEARCHES.get(kind, {}))
        with pytest.raises(ValueError, match=r"y (must|holds|contains|should)|[Ll]abel"):
            model.fit(load_iris().data[ROWS], y)
        assert not [name for name in vars(model) if name.endswith("_")], key


@pytest.mark.parametrize("loss", ["ordinal", "ndcg"])
@pytest.mark.parametrize(
    "group",
    [
        ["a", 1] * (N // 2),
        [None] * N,
        [1.0] * (N - 1) + [np.nan],
        np.array(["2020-01-01", "NaT"] * (N // 2), dtype="datetime64[D]"),
        np.ones((N, 2)),
        [[1], [1, 2]] * (N // 2),
        np.ones(N - 1),
        3,
    ],
    ids=lambda group: str(group)[:10],
)
def test_wrong_group_is_named(loss, group):
    X, y = load_iris(return_X_y=True)
    model = BMRMRanker(loss)
    with pytest.raises(ValueError, match=r"^group must"):
        model.fit(X[ROWS], y[ROWS], group=group)
    assert not [name for name in vars(model) if name.endswith("_")]


@pytest.mark.parametrize("kind", [BMRMClassifier, PragamSVC, SwapSVC, BMRMClassifierCV])
@pytest.mark.parametrize(
    "weight, given", [("a", "'a'"), (None, "None"), ([1], r"\[1\]"), (1j, "1j"), (10**400, "1000"),
                      (np.float64(-1.0), "-1.0"), (np.nan, "nan"), ({}, "{}")]
)  # fmt: skip
def test_wrong_class_weight_is_named(kind, weight, given):
    model = kind(class_weight={0: weight}, **SEARCHES.get(kind, {}))
    with pytest.raises(ValueError, match=f"^class_weight must hold .*, got {{0: {given}"):
        fit(model, None)


@pytest.mark.parametrize("kind", [SwapSVC, SwapSVCCV])
def test_what_a_kernel_returns_may_be_sparse(kind):
    X, y = load_iris(return_X_y=True)
    settings = SEARCHES.get(kind, {})
    dense, sparse = (
        kind(kernel=lambda X, Z, convert=convert: convert(X @ Z.T), **settings).fit(X, y)
        for convert in (np.asarray, sp.csr_array)
    )
    assert (sparse.predict(X) == dense.predict(X)).all()


@pytest.mark.parametrize("kind", [SwapSVC, SwapSVCCV])
@pytest.mark.parametrize(
    "convert",
    [
        lambda K: np.full(K.shape, "a"),
        lambda K: None,
        lambda K: np.vstack([K, K[:1]]),
        lambda K: np.full(K.shape, np.nan),
    ],
    ids=["strings", "none", "a row more", "nan"],
)
def test_what_a_kernel_must_return_is_said(kind, convert):
    with pytest.raises(ValueError, match=r"^The kernel callable must return "):
        fit(kind(kernel=lambda X, Z: convert(X @ Z.T), **SEARCHES.get(kind, {})), None)
