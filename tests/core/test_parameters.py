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
    PragamSVC,
    StructuredSVM,
    SwapNoveltyDetector,
    SwapSVC,
    SwapSVCCV,
    SwapSVR,
    SwapSVRCV,
    bmrm_path,
    losses,
    reg_lambda_max,
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
    BMRMClassifier: {"reg_lambda", "C"},
    BMRMRegressor: {"reg_lambda", "C", "epsilon", "delta"},
    BMRMRegressorCV: {"Cs", "epsilon", "delta"},
    PragamSVC: {"reg_lambda", "C"},
    SwapSVR: {"epsilon"},
    SwapSVRCV: {"epsilon"},
    BMRMClassifierCV: {"Cs"},
    SDCACRF: {"reg_lambda", "min_frequency"},
    SDCACRFCV: {"min_frequency"},
    StructuredSVM: {"reg_lambda", "n_cached_outputs"},
    BMRMNoveltyDetector: {"rho"},
    SwapNoveltyDetector: {"nu"},
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
    "n_cached_outputs": 5,
    "n_candidates": 5,
    "n_initial": 3,
    "n_jobs": 1,
    "random_state": 3,
    "reg_lambdas": 2,
    "verbose": 0,
}
KINDS = np.float32, np.float16, np.longdouble, Fraction, Decimal


def results(model):
    """Everything that is fitted, bit by bit, but for times and a model's clone."""
    left_out = "history_", "model_", "cv_results_"
    fitted = {k: v for k, v in vars(model).items() if k.endswith("_") and k not in left_out}
    return {k: (type(v), np.asarray(v).dtype, np.asarray(v).tobytes()) for k, v in fitted.items()}


@pytest.mark.wide
@parameters_of(ESTIMATORS, {*REALS, *INTEGERS}, few=True)
def test_numbers_of_any_kind_are_taken_for_their_values(kind, name):
    real = name in REALS
    if real:
        values = [number(REALS[name]) for number in KINDS]
    else:
        values = [number(INTEGERS[name]) for number in (np.int64, np.uint8)]
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


@pytest.mark.wide
@pytest.mark.parametrize(
    "kind, name, estimator", [row[:3] for row in OF_MODELS], ids=lambda x: getattr(x, "__name__", x)
)
def test_wrong_value_of_a_loss_or_regularizer_is_named(kind, name, estimator):
    allowed = {"none"} if name in OPTIONAL and kind is not losses.Ordinal else set()
    allowed |= {"huge"} if name == "k" else set()  # as good as all positions
    allowed -= {"none"} if name == "edges" else set()
    for key in WRONG.keys() - allowed:
        assert_named(name, key, lambda key=key: use(kind, name, estimator, WRONG[key]))


@pytest.mark.wide
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


@pytest.mark.parametrize(
    "kind, loss, taker",
    [
        (BMRMClassifier, "squared_error", "BMRMRegressor"),
        (BMRMClassifier, losses.Ordinal(), "BMRMRanker"),
        (BMRMClassifierCV, "squared_error", "BMRMRegressorCV"),
        (BMRMClassifierCV, "ndcg", "BMRMRanker"),
        (BMRMRegressor, "hinge", "BMRMClassifier"),
        (BMRMRegressor, losses.Softmax(), "BMRMClassifier"),
        (BMRMRegressor, "ordinal", "BMRMRanker"),
        (BMRMRegressorCV, "roc_auc", "BMRMClassifierCV"),
        (BMRMRanker, "hinge", "BMRMClassifier"),
        (BMRMRanker, "quantile", "BMRMRegressor"),
    ],
)
def test_a_loss_of_another_estimator_names_that_estimator(kind, loss, taker):
    model = kind(loss=loss)
    with pytest.raises(ValueError, match=rf" is a loss of {taker}\.$"):
        model.fit(np.eye(4), [0, 1, 0, 1])
    assert not hasattr(model, "n_features_in_")


@pytest.mark.parametrize(
    "kind, solver, hint",
    [
        (BMRMClassifier, "liblinear", "Did you mean 'dual-coordinate'?"),
        (BMRMClassifier, "newton-cholesky", "Did you mean 'newton'?"),
        (BMRMClassifier, "saga", "No solver here is called 'saga'; 'auto' chooses one of them."),
        (BMRMRegressor, "sparse_cg", "Did you mean 'conjugate-gradient'?"),
        (BMRMRanker, "lbfgs", "No solver here is called 'lbfgs'; 'auto' chooses one of them."),
        (SwapSVC, "libsvm", "Did you mean 'decomposition'?"),
        (SDCACRF, "l-bfgs", "Did you mean 'lbfgs'?"),
    ],
)
def test_a_solver_of_another_library_is_met_with_those_here(kind, solver, hint):
    with pytest.raises(ValueError, match=r"'solver' parameter .* a str among {'auto'") as caught:
        kind(solver=solver).fit(np.eye(4), [0, 1, 0, 1])
    assert str(caught.value).endswith(f"Got {solver!r} instead. {hint}")


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_a_tol_above_one_is_refused(kind):
    for tol in (1.5, np.nextafter(1.0, 2.0), np.inf):
        with pytest.raises(ValueError, match=rf"'tol' .*\(0.0, 1.0\]. Got {tol} .* one percent"):
            kind(tol=tol, **SEARCHES.get(kind, {})).fit(np.eye(4), [0, 1, 0, 1])


@pytest.mark.parametrize("function", [bmrm_path, reg_lambda_max])
@pytest.mark.parametrize("given", [{}, {"loss": "softmax"}])
def test_numbers_for_labels_name_the_loss_to_pass(function, given):
    with pytest.raises(ValueError, match=r"numbers, and loss='.*' of .* pass loss='squared_error'"):
        function(np.eye(4), [0.5, 1.25, 0.1, 7.0], **given)
    for kind in (BMRMClassifier, SwapSVC):
        with pytest.raises(ValueError, match=r"^Unknown label type: .* such as BMRMRegressor"):
            kind().fit(np.eye(4), [0.5, 1.25, 0.1, 7.0])


def test_an_unknown_loss_of_a_path_is_met_with_the_losses_of_both_kinds():
    with pytest.raises(ValueError, match=r"'fbeta'.*'poisson'.* Did you mean 'squared_error'\?"):
        bmrm_path(np.eye(4), [0, 1, 0, 1], loss="squared_eror")
