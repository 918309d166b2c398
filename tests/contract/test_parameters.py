"""All public parameters: messages name and show wrong values; numbers of any kind are accepted.

The allowed values are written down here again, not read from the constraints.
"""

import copy
from fractions import Fraction
from functools import partial
from itertools import product

import numpy as np
import pytest
from sklearn.datasets import load_iris

from sklearn_bundle import (
    SDCACRF,
    SDCACRFCV,
    BMRMClassifier,
    BMRMClassifierCV,
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
from tests.contract.parameters import (
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

# Where None is allowed, by estimators whose parameters of these names other ones have without it.
NONE_TOO = {
    BMRMClassifier: {"reg_lambda", "C"},
    BMRMRegressor: {"reg_lambda", "C", "epsilon", "delta"},
    BMRMRegressorCV: {"Cs", "epsilon", "delta"},
    PragamSVC: {"reg_lambda", "C"},
    SwapSVR: {"epsilon"},
    SwapSVRCV: {"epsilon"},
    BMRMClassifierCV: {"Cs"},
    SDCACRF: {"reg_lambda", "min_frequency", "forbidden"},
    SDCACRFCV: {"min_frequency", "forbidden"},
    StructuredSVM: {"reg_lambda", "n_cached_outputs"},
    SwapNoveltyDetector: {"nu"},
}


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_wrong_value_is_named_and_leaves_no_trace(kind):
    for name, key in product(kind().get_params(), WRONG):
        optional = taken(name, key) or (key == "none" and name in NONE_TOO.get(kind, ()))
        if optional and not (kind is BMRMRanker and name == "cost"):
            continue
        model = kind(**context(kind, name) | {name: WRONG[key]})
        before = copy.copy(vars(model))
        assert_named(name, key, partial(fit, model, name))
        assert vars(model).keys() == before.keys()
        assert all(vars(model)[parameter] is given for parameter, given in before.items())


def results(model):
    """Everything that is fitted, bit by bit, but for times and a model's clone."""
    left_out = "history_", "model_", "cv_results_"
    fitted = {k: v for k, v in vars(model).items() if k.endswith("_") and k not in left_out}
    return {k: (type(v), np.asarray(v).dtype, np.asarray(v).tobytes()) for k, v in fitted.items()}


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


# ---- losses and regularizers -------------------------------------------------------------------

OF_MODELS = [
    (losses.EpsilonInsensitive, "epsilon", BMRMRegressor),
    (losses.FBeta, "beta", BMRMClassifier),
    (losses.Huber, "delta", BMRMRegressor),
    (losses.MulticlassHinge, "cost", BMRMClassifier),
    (losses.NDCG, "gain", BMRMRanker),
    (losses.NDCG, "k", BMRMRanker),
    (losses.Ordinal, "cost", BMRMRanker),
    (losses.Quantile, "quantile", BMRMRegressor),
    (losses.SquaredEpsilonInsensitive, "epsilon", BMRMRegressor),
    (regularizers.ElasticNet, "l1_ratio", BMRMRegressor),
    (regularizers.Quadratic, "B", BMRMRegressor),
    (regularizers.WeightedL1, "weights", BMRMRegressor),
]


def use(kind, name, estimator, value):
    """A fit with a loss or regularizer that has this value."""
    made = kind(**{name: value})
    role = "regularizer" if isinstance(made, regularizers.Regularizer) else "loss"
    return fit(estimator(**{role: made}, max_iter=5), "k" if estimator is BMRMRanker else name)


@pytest.mark.parametrize(
    "kind, name, estimator", OF_MODELS, ids=lambda x: getattr(x, "__name__", x)
)
def test_wrong_value_of_a_loss_or_regularizer_is_named(kind, name, estimator):
    allowed = {"none"} if name in OPTIONAL and kind is not losses.Ordinal else set()
    allowed |= {"huge"} if name == "k" else set()  # as good as all positions
    for key in WRONG.keys() - allowed:
        assert_named(name, key, partial(use, kind, name, estimator, WRONG[key]))


@pytest.mark.parametrize(
    ("given", "ending"),
    [
        ({"loss": "hing"}, "Got 'hing' instead. Did you mean 'hinge'?"),
        ({"loss": "logistic"}, "Got 'logistic' instead. Did you mean 'log_loss'?"),
        ({"regularizer": "weighted"}, "Got 'weighted' instead."),
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
    "kind, solver, hint",
    [
        (BMRMClassifier, "liblinear", "Did you mean 'dual-coordinate'?"),
        (SwapSVC, "libsvm", "Did you mean 'decomposition'?"),
        (SDCACRF, "l-bfgs", "Did you mean 'lbfgs'?"),
    ],
)
def test_a_solver_of_another_library_is_met_with_those_here(kind, solver, hint):
    with pytest.raises(ValueError, match=r"'solver' parameter .* a str among {'auto'") as caught:
        kind(solver=solver).fit(np.eye(4), [0, 1, 0, 1])
    assert str(caught.value).endswith(f"Got {solver!r} instead. {hint}")


ENDS = [("tol", value) for value in (0.0, 1.5, np.nextafter(1.0, 2.0), np.inf)]
ENDS += [("max_iter", 0), ("max_iter", 2.5), ("max_time", 0.0)]


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_values_just_beyond_what_is_allowed(kind):
    for name, value in ENDS:
        if name not in kind().get_params():
            continue
        with pytest.raises(ValueError, match=rf"'{name}' parameter .* Got {value} instead"):
            kind(**{name: value}, **SEARCHES.get(kind, {})).fit(np.eye(4), [0, 1, 0, 1])


@pytest.mark.parametrize("fit", [bmrm_path, reg_lambda_max, BMRMClassifier().fit, SwapSVC().fit])
def test_numbers_for_labels_are_for_a_regressor(fit):
    with pytest.raises(ValueError, match=r"^Unknown label type: .* such as BMRMRegressor"):
        fit(np.eye(4), [0.5, 1.25, 0.1, 7.0])


def test_an_unknown_loss_of_a_path_is_met_with_the_losses_of_both_kinds():
    with pytest.raises(ValueError, match=r"'fbeta'.*'poisson'.* Did you mean 'squared_error'\?"):
        bmrm_path(np.eye(4), [0, 1, 0, 1], loss="squared_eror")
