"""Parameters that the chosen loss, regularizer, kernel or solver does not use are ignored."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_iris

from sklearn_bundle import (
    SDCACRF,
    BMRMClassifier,
    BMRMRanker,
    BMRMRegressor,
    BMRMRegressorCV,
    StructuredSVM,
    SwapSVC,
    bmrm_path,
    losses,
    reg_lambda_max,
)

X, Y = load_iris(return_X_y=True)
X, Y = X[50::4], Y[50::4]


def ignored(model, *args, **kwargs):
    """The messages about ignored parameters, which all point here."""
    with warnings.catch_warnings(record=True) as record:
        warnings.simplefilter("always")
        model(*args, **kwargs) if not hasattr(model, "fit") else model.fit(X, Y, *args, **kwargs)
    record = [w for w in record if " ignores " in str(w.message)]
    assert all(w.filename == __file__ and w.category is UserWarning for w in record)
    return [str(w.message) for w in record]


OTHERS = [
    (BMRMClassifier(), {"l1_ratio": 0.9}, "regularizer='elasticnet', not regularizer='l2'"),
    (BMRMClassifier(), {"cost": [[0, 1], [1, 0]]}, "loss='multiclass_hinge', not loss='hinge'"),
    (BMRMRegressor(), {"quantile": 0.9}, "loss='quantile', not loss='squared_error'"),
    (BMRMRegressor("huber"), {"epsilon": 0.2}, "'squared_epsilon_insensitive', not loss='huber'"),
    (BMRMRanker(), {"k": 5}, "loss='ndcg', not loss='ordinal'"),
    (BMRMRegressorCV(reg_lambdas=[0.1], cv=2), {"quantile": 0.9}, "loss='quantile'"),
    (SwapSVC(kernel="linear"), {"gamma": 2.0}, "kernel='rbf' or 'poly', not kernel='linear'"),
    (SwapSVC(kernel=np.inner), {"degree": 2}, "kernel='poly', not kernel=<function inner"),
    (SDCACRF(solver="lbfgs"), {"sampling": "uniform"}, "not solver='lbfgs'"),
    (StructuredSVM(loss="log"), {"scaling": "slack"}, "not loss='log'"),
    (StructuredSVM("multiclass", solver="rsd"), {"sampling": "uniform"}, "not solver='rsd'"),
]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "model, parameter, message", OTHERS, ids=lambda x: str(x) if isinstance(x, dict) else None
)
def test_the_fit_is_that_without_it_and_says_so_once(model, parameter, message):
    ((name, value),) = parameter.items()
    further = {"group": np.arange(len(Y)) % 3} if model.get_params().get("loss") == "ndcg" else {}
    model.set_params(max_iter=20)
    assert not ignored(model, **further)
    plain = fitted(model)
    (warning,) = ignored(model.set_params(**parameter), **further)
    assert warning.startswith(f"{type(model).__name__} ignores {name}=") and message in warning
    assert fitted(model) == plain and model.get_params()[name] is value


def fitted(model):
    """The solution to the last bit."""
    names = "coef_", "intercept_", "dual_coef_", "w_", "objective_", "lower_bound_"
    return {k: np.asarray(v).tobytes() for k, v in vars(model).items() if k in names}


def test_all_of_them_are_in_one_warning():
    (warning,) = ignored(BMRMRegressor(quantile=0.9, delta=2.0, l1_ratio=0.9))
    assert all(f"{name}=" in warning for name in ("quantile", "delta", "l1_ratio"))


def test_an_instance_has_its_own_parameters():
    (warning,) = ignored(BMRMRegressor(losses.Quantile(0.9), quantile=0.1))
    assert "set it there, Quantile(quantile=0.1)" in warning


def test_paths_say_it_too():
    assert ignored(bmrm_path, X, Y, reg_lambdas=[0.1], beta=3.0)
    assert ignored(reg_lambda_max, X, Y, beta=3.0)


@pytest.mark.parametrize("parameter", [{"l1_ratio": 2.0}, {"beta": -1.0}])
def test_values_that_no_loss_takes_are_still_refused(parameter):
    with pytest.raises(ValueError, match=next(iter(parameter))):
        BMRMClassifier(**parameter).fit(X, Y)
