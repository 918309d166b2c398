"""bmrm_path against single fits."""

import pickle
from copy import copy, deepcopy

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import lasso_path

from sklearn_bundle import (
    BMRMClassifier,
    BMRMClassifierCV,
    BMRMRegressor,
    bmrm_path,
    reg_lambda_max,
)
from sklearn_bundle.core.path import PathResult
from tests.contract.subproblems import subproblems

LAMBDAS = [1e-2, 1.0, 1e-1]
DESCENDING = [1.0, 1e-1, 1e-2]


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


@pytest.mark.wide
@pytest.mark.matrix
@pytest.mark.parametrize(
    "loss", ["hinge", "log_loss", "softmax", "roc_auc", "squared_error", "quantile", "poisson"]
)
@pytest.mark.parametrize("regularizer", ["l2", "lp", "l1", "elasticnet"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.filterwarnings("ignore:w is nearly 0")
def test_a_path_is_fits_one_by_one(data, regression, loss, regularizer, weighted):
    regressing = loss in ("squared_error", "quantile", "poisson")
    X, y = regression if regressing else data
    weight = np.random.default_rng(0).integers(0, 3, len(y)) if weighted else None
    common = {"loss": loss, "regularizer": regularizer, "tol": 1e-6, "max_iter": 5000}
    values, coefs, intercepts, gaps, n_iters = bmrm_path(
        X, y, reg_lambdas=LAMBDAS, sample_weight=weight, **common
    )
    assert values.tolist() == DESCENDING
    assert coefs.shape == (X.shape[1], 3) and intercepts.shape == gaps.shape == n_iters.shape
    for k, reg_lambda in enumerate(DESCENDING):
        kind = BMRMRegressor if regressing else BMRMClassifier
        one = kind(reg_lambda=reg_lambda, **common).fit(X, y, weight)
        assert gaps[k] <= 1e-6 * one.objective_ * (1 + 2e-6)
        # two points within a gap of the optimum: (l/2) |difference|^2 <= 2 gap, for l2
        if regularizer == "l2":
            atol = np.sqrt(8e-6 * one.objective_ / reg_lambda)
            np.testing.assert_allclose(coefs[:, k], np.ravel(one.coef_), atol=atol)
        vars(one).update(coef_=coefs[:, k], intercept_=intercepts[k])
        (problem,) = subproblems(one, X, y, weight)
        # at most its gap above the optimum, which is at most another gap above the bound
        above = problem.objective(problem.point) - one.lower_bound_
        assert -problem.rounding <= above <= gaps[k] + one.dual_gap_ + problem.rounding


def test_planes_are_used_again(data, by_steps):
    settings = {"tol": 1e-5, "solver": "line-search"}
    *_, n_iters = bmrm_path(*data, reg_lambdas=np.geomspace(1, 1e-5, 10), **settings)
    alone = BMRMClassifier(reg_lambda=1e-5, **settings).fit(*data).n_iter_
    assert n_iters[-1] < alone and n_iters.sum() < 5 * alone
    *_, n_iters = bmrm_path(*data, reg_lambdas=np.geomspace(1, 1e-5, 10), tol=1e-5)
    assert n_iters[-1] < BMRMClassifier(reg_lambda=1e-5, tol=1e-5).fit(*data).n_iter_


def test_shapes(iris, regression):
    X, y = iris
    several = bmrm_path(X, y, loss="log_loss", reg_lambdas=LAMBDAS)
    assert [a.shape for a in several] == [(3,), (3, 4, 3), (3, 3), (3, 3), (3, 3)]
    joint = bmrm_path(X, y, loss="softmax", reg_lambdas=LAMBDAS)
    assert [a.shape for a in joint] == [(3,), (3, 4, 3), (3, 3), (3,), (3,)]
    X, y = regression
    two = bmrm_path(X, np.c_[y, -y], loss="squared_error", reg_lambdas=LAMBDAS)
    assert [a.shape for a in two] == [(3,), (2, 5, 3), (2, 3), (3,), (3,)]
    values = bmrm_path(X, y > 1, reg_lambdas=7)[0]
    np.testing.assert_allclose(values, np.logspace(0, -6, 7), rtol=1e-12)


def test_the_fields_of_a_path_are_those_of_single_fits(iris):
    X, y = iris
    for loss in ("log_loss", "softmax"):  # a problem per class, and one
        settings = {"loss": loss, "tol": 1e-6}
        path = bmrm_path(X, y, reg_lambdas=LAMBDAS, **settings)
        assert isinstance(path, PathResult) and isinstance(path, tuple)
        fields = [path.reg_lambdas, path.coefs, path.intercepts, path.dual_gaps, path.n_iters]
        assert all(a is b for a, b in zip(path, fields, strict=True))
        assert np.array_equal(path.objectives - path.lower_bounds, path.dual_gaps)
        assert (path.statuses == "converged").all() and path.statuses.shape == path.n_iters.shape
        for k, reg_lambda in enumerate(DESCENDING):
            one = BMRMClassifier(reg_lambda=reg_lambda, **settings).fit(X, y)
            np.testing.assert_allclose(path.objectives[..., k], one.objective_, rtol=2e-6)
            assert (path.lower_bounds[..., k] <= one.objective_).all()


def test_a_path_is_copied_pickled_and_shown(iris):
    path = bmrm_path(*iris, reg_lambdas=LAMBDAS)
    assert not hasattr(path, "models")
    for other in (copy(path), deepcopy(path), pickle.loads(pickle.dumps(path))):
        assert type(other) is type(path) and vars(other).keys() == vars(path).keys()
        for name, value in vars(path).items():
            assert np.array_equal(getattr(other, name), value)
        assert all(map(np.array_equal, other, path))
    assert repr(path).startswith("<LinearPathResult: 3 values of reg_lambda from 1 to 0.01, 3 con")


def test_lasso_path(regression):
    X, y = regression
    X, y = X - X.mean(axis=0), y - y.mean()
    alphas = [0.1, 0.05, 0.01]
    _, theirs, _ = lasso_path(X, y, alphas=alphas, tol=1e-12)
    arguments = {"loss": "squared_error", "regularizer": "l1", "tol": 1e-10}
    _, ours, *_ = bmrm_path(X, y, reg_lambdas=alphas, **arguments)
    np.testing.assert_allclose(ours, theirs, atol=1e-4)


@pytest.mark.wide
@pytest.mark.parametrize("loss", ["squared_error", "huber", "log_loss", "squared_hinge"])
@pytest.mark.parametrize("regularizer", ["l1", "elasticnet"])
@pytest.mark.filterwarnings("ignore:w is nearly 0")
def test_a_sparse_path_is_fits_one_by_one(data, regression, loss, regularizer):
    regressing = loss in ("squared_error", "huber")
    X, y = regression if regressing else data
    common = {"loss": loss, "regularizer": regularizer, "tol": 1e-8}
    values, coefs, _, gaps, _ = bmrm_path(X, y, n_reg_lambdas=8, eps=1e-2, **common)
    assert values[0] == reg_lambda_max(X, y, loss=loss, regularizer=regularizer)
    np.testing.assert_allclose(values, np.geomspace(values[0], values[0] / 100.0, 8), rtol=1e-12)
    assert not coefs[:, 0].any() and np.count_nonzero(coefs[:, 1:], axis=0).all()
    for k, reg_lambda in enumerate(values):
        kind = BMRMRegressor if regressing else BMRMClassifier
        one = kind(reg_lambda=reg_lambda, **common).fit(X, y)
        assert gaps[k] <= 1e-8 * one.objective_ * (1 + 2e-8)
        np.testing.assert_allclose(coefs[:, k], np.ravel(one.coef_), atol=2e-3)


def test_values_where_none_are_given(regression):
    X, y = regression
    squared = {"loss": "squared_error", "regularizer": "elasticnet"}
    values = bmrm_path(X, y, **squared)[0]
    largest = reg_lambda_max(X, y, **squared)
    assert np.array_equal(values, np.geomspace(largest, 1e-3 * largest, 100))
    assert np.array_equal(bmrm_path(X, y, reg_lambdas=100, **squared)[0], values)
    l2 = bmrm_path(X, y, loss="squared_error")[0]
    assert len(l2) == 20 and l2[0] == 1.0 and l2[-1] == 1e-6
    constant = bmrm_path(np.zeros_like(X), y, n_reg_lambdas=2, **squared)
    assert constant[0].tolist() == [1.0, 1e-3] and not constant[1].any()


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"n_reg_lambdas": 5, "reg_lambdas": [0.1]}, "^n_reg_lambdas=5 is for reg_lambdas=None"),
        ({"n_reg_lambdas": 0}, "^n_reg_lambdas must be an integer from 1"),
        ({"eps": 1}, "^eps must be a number greater than 0 and less than 1, got 1"),
        ({"eps": 0.1, "reg_lambdas": [0.1]}, r"^eps=0.1 is for a number of .*reg_lambdas=\[0.1\]"),
    ],
)
def test_values_and_how_many_of_them(data, arguments, message):
    with pytest.raises(ValueError, match=message):
        bmrm_path(*data, **arguments)


@pytest.mark.parametrize("reg_lambdas", [[], [1.0, -1.0], [0.0], [np.nan], [[1.0]], 0, "many", 2.5])
def test_bad_values(data, reg_lambdas):
    with pytest.raises(ValueError, match="reg_lambdas must"):
        bmrm_path(*data, reg_lambdas=reg_lambdas)
    model = BMRMClassifierCV(reg_lambdas=reg_lambdas)
    with pytest.raises(ValueError, match="reg_lambdas"):
        model.fit(*data)
    with pytest.raises(NotFittedError):
        model.predict(data[0])


def test_path_refuses_what_the_estimators_refuse(data):
    with pytest.raises(ValueError, match=r"bmrm_path takes losses of .*, got loss='ordinal'"):
        bmrm_path(*data, loss="ordinal")
    with pytest.raises(ValueError, match="needs samples of at least 2 classes"):
        bmrm_path(data[0], np.ones(len(data[1])))
    with pytest.raises(ValueError, match="takes no weights"):
        bmrm_path(*data, loss="fbeta", sample_weight=np.ones(len(data[1])))


def test_one_warning(data):
    with pytest.warns(ConvergenceWarning, match=r"bmrm_path stopped in 3 of 3 .*'max_iter'") as w:
        bmrm_path(*data, reg_lambdas=LAMBDAS, solver="line-search", max_iter=1, tol=1e-12)
    assert len(w) == 1
