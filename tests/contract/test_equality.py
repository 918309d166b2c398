"""What has to be equal: weights and repeated rows, orders, layouts, strengths, copies of a model.

Two fits have the same problem if neither has a lower bound above the other's objective. At a tol of
1e-6 a change of the problem by that share is seen.
"""

import copy
import pickle
import tempfile
from importlib.util import find_spec

import joblib
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from sklearn_bundle import SDCACRF, BMRMRanker, StructuredSVM
from tests.contract.cases import CASES, Data, fitted
from tests.contract.fits import quiet

TIGHT = {"tol": 1e-6, "max_iter": 10_000}
SLOW = "fw", "lipschitz", "BoundedGrid", "'l1'-numbers"
SINGLE = [case for case in CASES if not case.is_search and not any(p in str(case) for p in SLOW)]
ROWS = [case for case in SINGLE if not isinstance(case.data.X, list) and case.name != "matrix"]
every_single = pytest.mark.parametrize("case", SINGLE, ids=str)
DIFFERENT = 1e-12  # relative: rounding of sums in another order


def refit(case, data, **parameters):
    model = clone(case.model).set_params(**(TIGHT | parameters))
    return quiet(model, data.X, data.y, data.weights, **data.further)


def assert_same_optimum(one, other):
    """Of all subproblems together: their order may differ."""
    for a, b in ((one, other), (other, one)):
        bound, objective = np.sum(a.lower_bound_), np.sum(b.objective_)
        assert bound <= objective + DIFFERENT * abs(objective), (bound, objective)


def taken(values, rows):
    if values is None:
        return None
    return [values[i] for i in rows] if isinstance(values, list) else np.asarray(values)[rows]


def rows_of(data, rows):
    further = {name: taken(value, rows) for name, value in data.further.items()}
    return Data(taken(data.X, rows), taken(data.y, rows), taken(data.weights, rows), further)


# ---- the problem ------------------------------------------------------------------------------


@pytest.mark.parametrize("case", [c for c in SINGLE if c.data.weights is not None], ids=str)
def test_weights_are_repeated_rows(case):
    """Weights are 0 to 3; those of queries belong to more than a row."""
    data = case.data
    if case.name in ("queries", "matrix"):
        pytest.skip("the weights are not those of rows")
    repeated = rows_of(data, np.repeat(np.arange(data.size), data.weights.astype(int)))
    a, b = refit(case, data), refit(case, repeated._replace(weights=None))
    assert_same_optimum(a, b)


@every_single
def test_order_of_rows(case):
    data = case.data
    order = np.random.default_rng(0).permutation(data.size)
    if case.name in ("queries", "matrix"):
        order = np.arange(data.size)[::-1]
    other = rows_of(data, order)
    if case.name == "matrix":
        other = other._replace(X=data.X[np.ix_(order, order)])
    assert_same_optimum(refit(case, data), refit(case, other))


@pytest.mark.parametrize("case", [c for c in ROWS if c.name.startswith(("two,", "three"))], ids=str)
def test_names_and_order_of_classes(case):
    """Classes are sorted: names in the opposite order, and predictions in these names."""
    parameters = case.model.get_params()
    if isinstance(case.model, BMRMRanker):
        pytest.skip("grades have an order")
    if parameters.get("cost") is not None or "Multiclass(cost" in str(case):
        pytest.skip("costs are those of sorted classes")
    if "Nonnegative" in str(case):
        pytest.skip("weights that are not negative are those of the second class")
    names = np.array(["c", "b", "a"])
    data = case.data
    model, other = refit(case, data), refit(case, data._replace(y=names[data.y]))
    assert other.classes_.tolist() == sorted(set(names[data.y].tolist()))
    if parameters.get("loss") != "roc_auc":  # it has no threshold of its own
        same = names[model.predict(data.X)] == other.predict(data.X)
        assert same.mean() > 0.95  # ties and near ties may go either way
    assert_same_optimum(model, other)


LAYOUTS = {
    "fortran": np.asfortranarray,
    "single": lambda X: X.astype(np.float32),
    "csr": sp.csr_array,
    "csc": sp.csc_matrix,
    "wide indices": lambda X: wide(sp.csr_matrix(X)),
    "read-only": lambda X: frozen(X),
    "strided": lambda X: np.repeat(X, 2, axis=0)[::2],
    "list": lambda X: X.tolist(),
}


def wide(X):
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    return X


def frozen(X):
    X = X.copy()
    X.flags.writeable = False
    return X


@pytest.mark.parametrize(
    ("case", "layout"),
    [(case, list(LAYOUTS)[(k + j) % 8]) for k, case in enumerate(ROWS) for j in (0, 3)],
    ids=str,
)
def test_layouts(case, layout):
    """The numbers of the data are exact in single precision."""
    data, few = case.data, {"tol": 1e-3, "max_iter": 2000}
    X = LAYOUTS[layout](data.X)
    model, other = refit(case, data, **few), refit(case, data._replace(X=X), **few)
    assert_same_optimum(model, other)
    for name in ("decision_function", "predict"):
        if hasattr(model, name):
            ours = np.asarray(getattr(model, name)(X))
            if ours.dtype.kind == "f":
                theirs = getattr(model, name)(data.X)
                np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)
    assert model.n_features_in_ == other.n_features_in_


@pytest.mark.parametrize("case", [c for c in ROWS if hasattr(c.model, "reg_lambda")], ids=str)
def test_C_is_one_over_the_weight_and_reg_lambda(case):
    if "C" not in case.model.get_params():
        pytest.skip("no parameter of this estimator")
    data, reg_lambda = case.data, case.model.reg_lambda
    total = data.size if data.weights is None else data.weights.sum()
    model = refit(case, data)
    other = refit(case, data, C=1.0 / (total * reg_lambda), reg_lambda=None)
    assert_same_optimum(model, other)


@every_single
def test_a_fit_changes_no_input_and_no_parameter(case):
    data, before = case.data, pickle.dumps(case.data)
    model = clone(case.model).set_params(max_iter=2)
    parameters = {k: repr(v) for k, v in model.get_params().items()}
    sparse = case in ROWS
    for X in (data.X, sp.csr_array(data.X)) if sparse else (data.X,):
        quiet(model, X, data.y, data.weights, **data.further)
        if hasattr(model, "predict"):
            model.predict(X)
        if hasattr(model, "score"):
            model.score(X, data.y, data.weights, **data.further)
    assert pickle.dumps(data) == before and not (sparse and (X != data.X).sum())
    assert {k: repr(v) for k, v in model.get_params().items()} == parameters


@pytest.mark.parametrize("case", SINGLE[::3], ids=str)
def test_equal_seeds_and_any_threads_give_equal_bits(case):
    one, two = (fitted(case, tol=1e-4, max_iter=500) for _ in range(2))
    assert repr(one.objective_) == repr(two.objective_)
    if "n_jobs" in case.model.get_params() and not isinstance(one, SDCACRF | StructuredSVM):
        two = fitted(case, tol=1e-4, max_iter=500, n_jobs=2)
        assert repr(one.objective_) == repr(two.objective_)


# ---- copies of a model ------------------------------------------------------------------------


def by_skops(model):
    from skops import io

    written = io.dumps(model)
    return io.loads(written, trusted=io.get_untrusted_types(data=written))


def by_joblib(model):
    with tempfile.NamedTemporaryFile() as file:
        joblib.dump(model, file.name)
        return joblib.load(file.name)


COPIES = {
    "pickle": lambda model: pickle.loads(pickle.dumps(model)),
    "deepcopy": copy.deepcopy,
    "joblib": by_joblib,
}
if find_spec("skops") is not None:
    COPIES["skops"] = by_skops
METHODS = "predict", "decision_function", "predict_proba", "predict_marginals", "decision_bounds"


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_copy_is_the_model(case):
    model = fitted(case, max_iter=20)
    X = case.data.X
    if "warm_start" in model.get_params() and case in SINGLE:  # what it keeps is left out
        warm = fitted(case, max_iter=20, warm_start=True)
        assert len(pickle.dumps(warm)) < len(pickle.dumps(model)) + 200
        again = quiet(pickle.loads(pickle.dumps(warm)), *case.data[:3], **case.data.further)
        assert np.array_equal(again.objective_, warm.objective_)
    for name, copied in COPIES.items():
        other = copied(model)
        assert type(other) is type(model) and repr(other) == repr(model)
        assert np.array_equal(other.objective_, model.objective_)
        assert np.array_equal(other.lower_bound_, model.lower_bound_)
        for method in METHODS:
            if hasattr(model, method):
                assert same(asked(model, method, X), asked(other, method, X)), (name, method)


def asked(model, method, X):
    try:
        return getattr(model, method)(X)
    except (ValueError, AttributeError) as error:
        return [type(error).__name__]


def same(a, b):
    if isinstance(a, tuple | list):
        return len(a) == len(b) and all(map(same, a, b))
    return np.array_equal(np.asarray(a), np.asarray(b))
