"""All public parameters: messages name and show wrong values; numbers of any kind are accepted.

The allowed values are written down here again, not read from the constraints.
"""

import copy
import inspect
from decimal import Decimal
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from sklearn.datasets import load_iris

from sklearn_bundle import (
    SDCACRF,
    SDCACRFCV,
    BMRMClassifier,
    BMRMClassifierCV,
    BMRMNoveltyDetector,
    BMRMRanker,
    BMRMRegressor,
    BMRMRegressorCV,
    StructuredSVM,
    SwapSVC,
    SwapSVCCV,
    bmrm_path,
    losses,
    regularizers,
)
from tests.parameters import (
    ESTIMATORS,
    OPTIONAL,
    SEARCHES,
    WRONG,
    assert_named,
    context,
    fit,
    taken,
)

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


# ---- estimators --------------------------------------------------------------------------------


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


# Where None is allowed, by estimators whose parameters of these names other ones have without it.
NONE_TOO = {
    SDCACRF: {"reg_lambda", "min_frequency"},
    SDCACRFCV: {"min_frequency"},
    StructuredSVM: {"reg_lambda", "cache_size"},
    BMRMNoveltyDetector: {"rho"},
}


@parameters_of(ESTIMATORS)
def test_wrong_value_is_named_and_leaves_no_trace(kind, name):
    for key, value in WRONG.items():
        optional = taken(name, key) or (key == "none" and name in NONE_TOO.get(kind, ()))
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
    "l1_ratio": 0.1,
    "line_search_tol": 0.1,
    "lipschitz": 30.1,
    "max_time": 1e3,
    "nonuniformity": 0.1,
    "nu": 0.1,
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
COUNTS = {(StructuredSVM, "cache_size"): 5}  # an integer here, a real number elsewhere
KINDS = np.float32, np.float16, np.longdouble, Fraction, Decimal


def results(model):
    """Everything that is fitted, bit by bit, but for the time that it took and a model's clone."""
    left_out = "history_", "model_"
    fitted = {k: v for k, v in vars(model).items() if k.endswith("_") and k not in left_out}
    return {k: (type(v), np.asarray(v).dtype, np.asarray(v).tobytes()) for k, v in fitted.items()}


@parameters_of(ESTIMATORS, {*REALS, *INTEGERS}, few=True)
def test_numbers_of_any_kind_are_taken_for_their_values(kind, name):
    real = name in REALS and (kind, name) not in COUNTS
    if real:
        values = [number(REALS[name]) for number in KINDS]
    else:
        count = COUNTS.get((kind, name)) or INTEGERS[name]
        values = [number(count) for number in (np.int64, np.uint8)]
    few = {"max_iter": 5}
    if issubclass(kind, SwapSVC | StructuredSVM | SDCACRF):
        few["random_state"] = 0
    for value in values:
        plain = float(value) if real else int(value)
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
    ids=lambda value: "bmrm_path" if isinstance(value, partial) else str(value),
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
    (losses.NuNovelty, "nu", None, 0.1),
    (losses.Ontology, "cost", BMRMClassifier, None),
    (losses.Ontology, "edges", BMRMClassifier, None),
    (losses.Ordinal, "cost", BMRMRanker, None),
    (losses.PositionMeasure, "discount", BMRMRanker, None),
    (losses.PositionMeasure, "gain", BMRMRanker, None),
    (losses.PositionMeasure, "k", BMRMRanker, None),
    (losses.PrecisionAtK, "k", BMRMRanker, None),
    (losses.Quantile, "quantile", BMRMRegressor, 0.1),
    (losses.SquaredEpsilonInsensitive, "epsilon", BMRMRegressor, 0.1),
    (regularizers.ElasticNet, "l1_ratio", BMRMRegressor, 0.1),
    (regularizers.Lp, "p", BMRMRegressor, 1.3),
    (regularizers.Quadratic, "B", BMRMRegressor, None),
    (regularizers.WeightedL1, "weights", BMRMRegressor, None),
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


@pytest.mark.parametrize(
    ("given", "ending"),
    [
        ({"loss": "hing"}, "Got 'hing' instead. Did you mean 'hinge'?"),
        ({"loss": "logistic"}, "Got 'logistic' instead. Did you mean 'log_loss'?"),
        ({"regularizer": "weighted"}, "Got 'weighted' instead."),
        ({"regularizer": "L2"}, "Got 'L2' instead. Did you mean 'l2'?"),
        ({"loss": losses.Hinge}, " instead. Pass an instance: Hinge(...)."),
        ({"loss": dict}, "Got <class 'dict'> instead."),
    ],
)
def test_an_unknown_name_is_met_with_a_sorted_list_and_the_nearest(given, ending):
    with pytest.raises(ValueError, match="must be a str among") as caught:
        BMRMClassifier(**given).fit(np.eye(4), [0, 1, 0, 1])
    message = str(caught.value)
    offered = message.partition("{")[2].partition("}")[0].split(", ")
    assert offered == sorted(offered)
    assert "'weighted_l1'" not in offered
    assert message.endswith(ending)


def test_an_unknown_loss_of_a_path_is_met_with_the_losses_of_both_kinds():
    with pytest.raises(ValueError, match=r"'fbeta'.*'poisson'.* Did you mean 'squared_error'\?"):
        bmrm_path(np.eye(4), [0, 1, 0, 1], loss="squared_eror")
