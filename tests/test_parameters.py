"""All public parameters: wrong values are named and shown, numbers of any kind are taken.

What a parameter allows is written down here once more, not read off the constraints.
"""

import copy
import inspect
from decimal import Decimal
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.datasets import load_iris

import sklearn_bundle
from sklearn_bundle import (
    SDCACRF,
    BMRMClassifier,
    BMRMClassifierCV,
    BMRMNoveltyDetector,
    BMRMRanker,
    BMRMRegressor,
    BMRMRegressorCV,
    PragamSVC,
    SwapSVC,
    SwapSVCCV,
    bmrm_path,
    datasets,
    losses,
    metrics,
    regularizers,
)
from sklearn_bundle.projection import project

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

ROWS = slice(0, 150, 3)  # of all three classes
TWO = slice(0, 100, 2)
GROUP = np.arange(50) % 3

WRONG = {
    "string": "wrong",
    "none": None,
    "nan": float("nan"),
    "infinity": float("inf"),
    "negative": -1,
    "negative float": -1.5,
    "huge": 10**400,
    "float64": np.float64(-2.5),
    "int64": np.int64(-3),
    "float32": np.float32("nan"),
    "list": [1.5, "a"],
    "numpy list": [np.float64(-0.5), "a"],
    "ragged": [[1], [2, 3]],
    "dict": {"a": "b"},
    "complex": 1j,
    "object": object(),
}
SHOWN = {  # as a message has to have them
    "string": "wrong",
    "none": "None",
    "nan": "nan",
    "infinity": "inf",
    "negative": "-1",
    "negative float": "-1.5",
    "float64": "-2.5",
    "int64": "-3",
    "float32": "nan",
}
OPTIONAL = "active_set bundle_size class_weight cost cv edges k M max_time n_candidates n_jobs"
OPTIONAL = {*OPTIONAL.split(), "random_state", "scoring"}


def assert_named(name, key, call):
    with pytest.raises((ValueError, TypeError)) as error:
        call()
    message = str(error.value)
    assert name in message and SHOWN.get(key, "") in message and "np." not in message, key


def taken(name, key):
    if key == "none":
        return name in OPTIONAL
    return name == "n_jobs" and key in ("negative", "int64")


# ---- estimators --------------------------------------------------------------------------------


CONTEXT = {  # in which a parameter is looked at
    "beta": {"loss": "fbeta"},
    "coef0": {"kernel": "poly"},
    "degree": {"kernel": "poly"},
    "delta": {"loss": "huber"},
    "edges": {"loss": "ontology"},
    "epsilon": {"loss": "epsilon_insensitive"},
    "k": {"loss": "ndcg"},
    "quantile": {"loss": "quantile"},
    "scaling": {"loss": "multiclass_hinge"},
}
SEARCHES = {
    BMRMClassifierCV: {"reg_lambdas": [0.5], "cv": 2},
    BMRMRegressorCV: {"reg_lambdas": [0.5], "cv": 2},
    SwapSVCCV: {"Cs": [0.5], "cv": 2},
}
ESTIMATORS = [
    kind
    for kind in map(partial(getattr, sklearn_bundle), sklearn_bundle.__all__)
    if inspect.isclass(kind) and issubclass(kind, BaseEstimator)
]


def context(kind, name):
    parameters = SEARCHES.get(kind, {}) | CONTEXT.get(name, {})
    if name == "cost" and kind is not BMRMRanker:
        parameters["loss"] = "multiclass_hinge"
    return parameters


def fit(model, name):
    X, y = load_iris(return_X_y=True)
    rows = TWO if name == "beta" else ROWS
    if name == "M":
        return model.fit(X[rows], np.c_[y[rows], X[rows, 0]])
    return model.fit(X[rows], y[rows], **({"group": GROUP} if name == "k" else {}))


def parameters_of(kinds, names=None, few=False):
    """Cases of estimator and parameter; with ``few`` the first estimator's alone are not wide."""
    cases = [(kind, name) for kind in kinds for name in kind().get_params()]
    if names is not None:  # what a search has in common with its estimator is read in one place
        own = {"reg_lambdas", "Cs", "cv", "tol"}
        cases = [
            case for case in cases if case[1] in (names if case[0] not in SEARCHES else own & names)
        ]
    first = {name: kind for kind, name in reversed(cases)}
    return pytest.mark.parametrize(
        "kind, name",
        [
            pytest.param(
                *(kind, name),
                id=f"{kind.__name__}-{name}",
                marks=[pytest.mark.wide] if few and kind is not first[name] else [],
            )
            for kind, name in cases
        ],
    )


@parameters_of(ESTIMATORS)
def test_wrong_value_is_named_and_leaves_no_trace(kind, name):
    for key, value in WRONG.items():
        optional = taken(name, key) or (kind is SDCACRF and name == "reg_lambda" and key == "none")
        if optional and not (kind is BMRMRanker and name == "cost"):
            continue
        model = kind(**context(kind, name) | {name: value})
        before = copy.copy(vars(model))
        assert_named(name, key, partial(fit, model, name))
        assert vars(model).keys() == before.keys()
        assert all(vars(model)[parameter] is given for parameter, given in before.items())


REALS = {
    "C": 0.1,
    "beta": 0.1,
    "cache_size": 0.1,
    "coef0": 0.1,
    "delta": 0.1,
    "epsilon": 0.1,
    "gamma": 0.1,
    "line_search_tol": 0.1,
    "lipschitz": 30.1,
    "max_time": 1e3,
    "nonuniformity": 0.1,
    "quantile": 0.1,
    "reg_lambda": 0.1,
    "rho": 0.1,
    "theta": 0.3,
    "tol": 0.01,
}
INTEGERS = {
    "Cs": 2,
    "active_set": 20,
    "bundle_size": 20,
    "cv": 3,
    "degree": 2,
    "k": 5,
    "max_iter": 7,
    "n_candidates": 5,
    "n_initial": 3,
    "n_jobs": 1,
    "random_state": 3,
    "reg_lambdas": 2,
    "verbose": 0,
}
KINDS = np.float32, np.float16, np.longdouble, Fraction, Decimal


def results(model):
    """Everything that is fitted, bit by bit, but for the time that it took."""
    fitted = {k: v for k, v in vars(model).items() if k.endswith("_") and k != "history_"}
    return {k: (type(v), np.asarray(v).dtype, np.asarray(v).tobytes()) for k, v in fitted.items()}


@parameters_of(ESTIMATORS, {*REALS, *INTEGERS}, few=True)
def test_numbers_of_any_kind_are_taken_for_their_values(kind, name):
    if name in REALS:
        values = [number(REALS[name]) for number in KINDS]
    else:
        values = [number(INTEGERS[name]) for number in (np.int64, np.uint8)]
    few = {"max_iter": 5}
    if issubclass(kind, SwapSVC):
        few["random_state"] = 0
    for value in values:
        plain = float(value) if name in REALS else int(value)
        given = kind(**few | context(kind, name) | {name: value})
        expected = kind(**few | context(kind, name) | {name: plain})
        assert results(fit(given, name)) == results(fit(expected, name))
        assert getattr(given, name) is value  # fit writes to no parameter


def test_every_number_is_in_the_tables():
    for kind in ESTIMATORS:
        for name, value in kind().get_params().items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                assert name in REALS or name in INTEGERS, (kind, name)


def test_numbers_in_lists_are_plain_too():
    X, y = load_iris(return_X_y=True)
    for kind, name in ((BMRMClassifierCV, "reg_lambdas"), (SwapSVCCV, "Cs")):
        given = kind(**{name: [np.float32(0.1), Fraction(1, 2)], "cv": 2})
        expected = kind(**{name: [float(np.float32(0.1)), 0.5], "cv": 2})
        assert results(given.fit(X, y)) == results(expected.fit(X, y))
    weights = {0: np.float16(0.1), 1: Fraction(1, 3), 2: 1}
    given = BMRMClassifier(class_weight=weights).fit(X, y)
    plain = {0: float(np.float16(0.1)), 1: 1 / 3, 2: 1.0}
    assert results(given) == results(BMRMClassifier(class_weight=plain).fit(X, y))


# ---- parameters of a loss, on the estimator ------------------------------------------------------


@pytest.mark.parametrize(
    "kind, parameters, message",
    [
        (
            BMRMClassifier,
            {"loss": losses.FBeta(2), "beta": 5},
            r"^beta=5.0 is for loss='fbeta'; got loss=FBeta\(beta=2.0\): set it there, FBeta\(",
        ),
        (
            BMRMClassifier,
            {"edges": [("a", "b")]},
            r"^edges=\[\('a', 'b'\)\] is for loss='ontology'; got loss='hinge', .* must stay None",
        ),
        (
            BMRMClassifier,
            {"scaling": "slack"},
            "^scaling='slack' is for loss='multiclass_hinge'; got",
        ),
        (
            BMRMClassifier,
            {"loss": "softmax", "cost": [[0]]},
            "'multiclass_hinge' or 'ontology'; got",
        ),
        (BMRMClassifier, {"loss": losses.Hinge(), "beta": 5}, r"got loss=Hinge\(\), .* stay 1.0"),
        (BMRMClassifierCV, {"beta": 5}, "^beta=5.0 is for loss='fbeta'; got loss='hinge'"),
        (
            BMRMRegressor,
            {"quantile": 0.9},
            "^quantile=0.9 is for .*'quantile'; got .*'squared_error'",
        ),
        (
            BMRMRegressor,
            {"loss": "huber", "epsilon": 0.2},
            "^epsilon=0.2 is for .* got loss='huber'",
        ),
        (BMRMRegressor, {"loss": "quantile", "M": np.eye(2)}, "^M=.* is for loss='squared_error'"),
        (
            BMRMRegressorCV,
            {"delta": 2.0},
            "^delta=2.0 is for loss='huber'; got loss='squared_error'",
        ),
        (BMRMRanker, {"k": 5}, "^k=5 is for loss='ndcg'; got loss='ordinal', .* must stay None"),
        (
            BMRMRanker,
            {"loss": "ndcg", "cost": "squared"},
            "^cost='squared' .*'ordinal'; got .*'ndcg'",
        ),
        (
            partial(bmrm_path, None, None),
            {"beta": 5},
            "^beta=5.0 is for loss='fbeta'; got loss='hinge'",
        ),
    ],
    ids=str,
)
def test_a_parameter_of_another_loss_is_refused_before_any_work(kind, parameters, message):
    with pytest.raises(ValueError, match=message):
        kind(**parameters).fit(None, None)


@pytest.mark.parametrize("kind", [BMRMClassifier, BMRMRegressor, BMRMRanker, BMRMNoveltyDetector])
def test_parameters_of_losses_are_in_the_table_with_their_defaults(kind):
    own = inspect.signature(kind).parameters
    for name, make in kind._losses.items():
        taken = inspect.signature(make).parameters.keys() & own.keys()
        assert kind._loss_parameters.get(name, {}) == {key: own[key].default for key in taken}


# ---- losses and regularizers -------------------------------------------------------------------


EDGES = [("root", 0), ("root", 1), ("root", 2)]
OF_MODELS = [
    (losses.EpsilonInsensitive, "epsilon", BMRMRegressor, 0.1),
    (losses.FBeta, "beta", BMRMClassifier, 0.1),
    (losses.Huber, "delta", BMRMRegressor, 0.1),
    (losses.MulticlassHinge, "cost", BMRMClassifier, None),
    (losses.MulticlassHinge, "scaling", BMRMClassifier, None),
    (losses.MultivariateSquaredError, "M", BMRMRegressor, None),
    (losses.NDCG, "discount", BMRMRanker, None),
    (losses.NDCG, "gain", BMRMRanker, None),
    (losses.NDCG, "k", BMRMRanker, None),
    (losses.Novelty, "rho", None, 0.1),
    (losses.Ontology, "cost", BMRMClassifier, None),
    (losses.Ontology, "edges", BMRMClassifier, None),
    (losses.Ordinal, "cost", BMRMRanker, None),
    (losses.PositionMeasure, "discount", BMRMRanker, None),
    (losses.PositionMeasure, "gain", BMRMRanker, None),
    (losses.PositionMeasure, "k", BMRMRanker, None),
    (losses.PrecisionAtK, "k", BMRMRanker, None),
    (losses.Quantile, "quantile", BMRMRegressor, 0.1),
    (regularizers.Lp, "p", BMRMRegressor, 1.3),
    (regularizers.Quadratic, "B", BMRMRegressor, None),
]


def test_every_loss_and_regularizer_is_in_the_table():
    listed = {(kind, name) for kind, name, *_ in OF_MODELS}
    for module in (losses, regularizers):
        for kind in map(partial(getattr, module), module.__all__):
            if inspect.isclass(kind) and issubclass(kind, losses.Loss | regularizers.Regularizer):
                named = inspect.signature(kind).parameters.values()
                free = {p.name for p in named if p.kind is p.POSITIONAL_OR_KEYWORD}
                assert {(kind, name) for name in free} <= listed


def use(kind, name, estimator, value):
    """A fit with a loss or regularizer that has this value."""
    extra = {"edges": EDGES} if kind is losses.Ontology and name == "cost" else {}
    made = kind(**extra | {name: value})
    if estimator is None:
        return made.check(None)
    role = "regularizer" if isinstance(made, regularizers.Regularizer) else "loss"
    case = "k" if isinstance(made, losses.PositionMeasure) else name
    return fit(estimator(**{role: made}, max_iter=5), case)


@pytest.mark.parametrize(
    "kind, name, estimator", [row[:3] for row in OF_MODELS], ids=lambda x: getattr(x, "__name__", x)
)
def test_wrong_value_of_a_loss_or_regularizer_is_named(kind, name, estimator):
    allowed = {"none"} if name in OPTIONAL and kind is not losses.Ordinal else set()
    allowed |= {"huge"} if name == "k" else set()  # as good as all positions
    allowed -= {"none"} if name == "edges" else set()
    for key in WRONG.keys() - allowed:
        assert_named(name, key, lambda key=key: use(kind, name, estimator, WRONG[key]))


@pytest.mark.parametrize(
    "kind, name, estimator, value",
    [row for row in OF_MODELS if row[3] is not None],
    ids=lambda x: getattr(x, "__name__", x),
)
def test_losses_and_regularizers_take_numbers_for_their_values(kind, name, estimator, value):
    for number in (*KINDS, float):
        given, expected = number(value), float(number(value))
        assert type(getattr(kind(given), name)) is float
        if estimator is not None:
            fits = (use(kind, name, estimator, x) for x in (given, expected))
            assert len({str(results(model)) for model in fits}) == 1
    assert type(getattr(kind(2), name)) is float


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
    *(
        (function, {"y_true": TRUE, "y_pred": PREDICTED}, {
            "y_true": TYPES, "y_pred": TYPES, "scheme": {*WRONG}, "labels": NUMBERS - {"dict"},
            "average": NUMBERS, "sample_weight": NUMBERS,
            "zero_division": {*WRONG} - {"nan", "float32"},
        })
        for function in (metrics.span_precision_score, metrics.span_recall_score,
                         metrics.span_f1_score)
    ),
    (metrics.span_precision_recall_fscore_support, {"y_true": TRUE, "y_pred": PREDICTED},
     {"beta": {*WRONG} - {"infinity"}}),
    (datasets.load_svmlight, {"paths": "absent"},
     {"paths": {*WRONG} - {"string"}, "n_features": NUMBERS, "query_id": {*WRONG},
      "zero_based": {*WRONG}}),
    (datasets.load_conll, {"path_or_file": ["a b"]},
     {"path_or_file": {*WRONG} - {"string"}, "columns": NUMBERS, "encoding": {*WRONG},
      "target": {*WRONG} - {"negative", "int64"}, "keep": NUMBERS,
      "separator": NUMBERS - {"string"}, "comment": NUMBERS - {"string"}}),
    (datasets.load_dataset, {"name": "a"},
     {"name": {*WRONG} - {"string"}, "folder": NUMBERS - {"string"}}),
    (datasets.open_mapped, {}, {"folder": {*WRONG} - {"string"}}),
    (datasets.save_mapped, {"folder": "absent", "blocks": []},
     {"folder": {*WRONG} - {"string"}, "n_features": NUMBERS, "zero_based": {*WRONG},
      "dtype": {*WRONG} - {"float64", "float32", "int64"},
      "blocks": TYPES | {"dict"}}),
    (datasets.fetch_openml, {"name": "iris"},
     {"name": {*WRONG} - {"string"}, "version": {*WRONG}, "as_frame": {*WRONG},
      "data_home": NUMBERS - {"string"}, "n_retries": {*WRONG}, "delay": {*WRONG},
      "target_column": NUMBERS - {"string", "list", "numpy list", "ragged"}}),
    (project, {"m": [0.5, 0.2]},
     {"m": {*WRONG} - {"infinity"}, "z": {"string", "nan", "infinity", "huge", "float32", "list"},
      "d": {"string", "none", "nan", "infinity", "huge", "list", "float32", "complex"},
      "sigma": {"string", "none", "nan", "infinity", "huge", "list", "float32", "complex"},
      "lower": {"string", "none", "nan", "huge", "list", "float32", "complex"},
      "upper": {"string", "none", "nan", "huge", "list", "float32", "complex"}}),
    (bmrm_path, {"X": load_iris().data, "y": load_iris().target},
     {"reg_lambdas": {*WRONG}, "loss": {*WRONG}, "sample_weight": NUMBERS, "tol": {*WRONG}}),
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
    "digits": ["1"] * N,
    "one string": [1.0] * (N - 1) + ["b"],
    "none": [None] * N,
    "complex": np.full(N, 1j),
    "dict": {"a": 1},
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
    "mixed objects": np.array(["a", 1] * (N // 2), dtype=object),
    "none": [None, "a"] * (N // 2),
    "bytes": ["a", b"b"] * (N // 2),
    "unsorted": [object() for _ in range(N)],
}


@pytest.mark.parametrize("kind", [kind for kind in ESTIMATORS if kind is not BMRMNoveltyDetector])
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
        np.array(["a", 1] * (N // 2), dtype=object),
        [None] * N,
        [1.0] * (N - 1) + [np.nan],
        np.array([1.0, np.nan] * (N // 2), dtype=object),
        np.array(["2020-01-01", "NaT"] * (N // 2), dtype="datetime64[D]"),
        [object() for _ in range(N)],
        np.ones((N, 2)),
        [[1], [1, 2]] * (N // 2),
        np.ones(N - 1),
        "abc",
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
@pytest.mark.parametrize(
    "convert",
    [
        lambda K: np.full(K.shape, "a"),
        lambda K: K * 1j,
        sp.csr_array,
        lambda K: None,
        lambda K: [[1], [1, 2]],
        lambda K: np.full(K.shape, None),
    ],
    ids=["strings", "complex", "sparse", "none", "ragged", "objects"],
)
def test_what_a_kernel_must_return_is_said(kind, convert):
    with pytest.raises(ValueError, match=r"^The kernel callable (must return|returned) "):
        fit(kind(kernel=lambda X, Z: convert(X @ Z.T), **SEARCHES.get(kind, {})), None)
