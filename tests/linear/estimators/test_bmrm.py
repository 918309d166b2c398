"""BMRMClassifier as its users see it."""

import warnings

import joblib
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits, load_iris, make_classification
from sklearn.exceptions import ConvergenceWarning

from sklearn_bundle import BMRMClassifier
from sklearn_bundle.core.contract import HISTORY_DTYPE
from sklearn_bundle.core.validation import _two_classes
from sklearn_bundle.losses import BINARY_LOSSES, BinaryLoss, Hinge, SquaredHinge
from tests.contract.interrupts import interrupting
from tests.contract.user_losses import USERS

# ---- certificate, limits, interruption --------------------------------------------------------


def test_history(data):
    model = BMRMClassifier(tol=1e-6).fit(*data)
    h = model.history_
    assert h.dtype.names == (*HISTORY_DTYPE.names, "solver")
    assert len(h) == model.n_iter_ and h["iteration"].tolist() == [*range(1, len(h) + 1)]
    assert (np.diff(h["objective"]) <= 1e-15).all() and (np.diff(h["lower_bound"]) >= -1e-15).all()
    assert (np.diff(h["seconds"]) >= 0).all() and (np.diff(h["passes"]) > 0).all()
    assert h["objective"][-1] == model.objective_ and h["lower_bound"][-1] == model.lower_bound_


def test_one_versus_rest_has_an_entry_a_class():
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"], dtype=object)[y]
    model = BMRMClassifier("log_loss", reg_lambda=1e-2).fit(X, names)
    assert model.coef_.shape == (3, 4) and model.intercept_.shape == (3,)
    for name in ("objective_", "lower_bound_", "dual_gap_", "n_iter_"):
        assert getattr(model, name).shape == (3,)
    assert model.status_ == ["converged"] * 3 and len(model.history_) == 3
    binary = BMRMClassifier("log_loss", reg_lambda=1e-2).fit(X, names == "virginica")
    assert binary.objective_ == model.objective_[2]
    assert set(model.predict(X)) == set(names)


def test_one_warning_with_both_gaps_in_one_unit(data, by_steps):
    with pytest.warns(ConvergenceWarning, match=r"'max_iter' after 2 iter.*gap of .*, above tol="):
        model = BMRMClassifier(max_iter=2, tol=1e-9).fit(*data)
    assert model.status_ == "max_iter" and model.n_iter_ == 2


def test_max_time(data):
    with pytest.warns(ConvergenceWarning, match="'max_time'"):
        model = BMRMClassifier(max_time=1e-9, tol=1e-14).fit(*data)
    assert model.status_ == "max_time" and model.n_iter_ == 1


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_ctrl_c_keeps_the_best_point(n_jobs):
    X, y = load_digits(return_X_y=True)
    model = BMRMClassifier(interrupting(Hinge, 5), tol=1e-12, n_jobs=n_jobs)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert "interrupted" in model.status_
    assert model.coef_.shape == (10, 64) and np.isfinite(model.dual_gap_).all()
    assert model.predict(X).shape == y.shape


# ---- equivalences -----------------------------------------------------------------------------


@pytest.mark.wide
@pytest.mark.parametrize("loss", BINARY_LOSSES)
@given(shift=st.sampled_from([1.0, 20.0, -100.0]), seed=st.integers(0, 1000))
@settings(deadline=None, max_examples=8)
def test_shift_of_the_features_changes_nothing(loss, shift, seed):
    X, y = make_classification(60, 4, random_state=seed, flip_y=0.1)
    a = BMRMClassifier(loss, reg_lambda=1e-2, tol=1e-9, max_iter=5000).fit(X, y)
    b = clone(a).fit(X + shift, y)
    assert b.objective_ == pytest.approx(a.objective_, rel=2e-9)


@pytest.mark.wide
@given(seed=st.integers(0, 1000))
@settings(deadline=None, max_examples=8)
def test_row_order_and_repeated_rows(seed):
    X, y = make_classification(60, 4, random_state=seed, flip_y=0.1)
    rng = np.random.default_rng(seed)
    order, counts = rng.permutation(60), rng.integers(0, 4, size=60)
    model = BMRMClassifier(reg_lambda=1e-2, tol=1e-9, max_iter=5000)
    a = clone(model).fit(X, y).objective_
    assert clone(model).fit(X[order], y[order]).objective_ == pytest.approx(a, rel=2e-9)
    weighted = clone(model).fit(X, y, counts).objective_
    repeated = clone(model).fit(X.repeat(counts, axis=0), y.repeat(counts)).objective_
    assert weighted == pytest.approx(repeated, rel=2e-9)


def test_balanced_weights_use_the_sample_weights(data):
    X, y = data
    counts = np.random.default_rng(0).integers(1, 4, size=len(y))
    model = BMRMClassifier(class_weight="balanced", tol=1e-9, max_iter=5000)
    weighted = clone(model).fit(X, y, counts).objective_
    repeated = clone(model).fit(X.repeat(counts, axis=0), y.repeat(counts)).objective_
    assert weighted == pytest.approx(repeated, rel=2e-9)


@pytest.mark.matrix
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("sparse", [False, True])
def test_n_jobs_does_not_change_a_bit(classes, sparse, monkeypatch):
    monkeypatch.setattr("sklearn_bundle.core.parallel._BLOCK_ENTRIES", 5000)
    X, y = load_digits(return_X_y=True)
    X, y = (sp.csr_matrix(X) if sparse else X), y % classes
    one = BMRMClassifier(tol=1e-2).fit(X, y)
    for n_jobs in (2, 3):
        many = BMRMClassifier(tol=1e-2, n_jobs=n_jobs).fit(X, y)
        assert np.array_equal(one.coef_, many.coef_)
        assert np.array_equal(one.lower_bound_, many.lower_bound_)


@pytest.mark.matrix
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("container", [sp.csr_matrix, sp.csr_array])
def test_csr_equals_dense(data, dtype, index, container):
    X, y = data
    X = X.astype(dtype) * (np.abs(X) > 0.5)
    S = container(X)
    S.indices, S.indptr = S.indices.astype(index), S.indptr.astype(index)
    dense = BMRMClassifier(tol=1e-8, max_iter=5000).fit(X, y)
    sparse = BMRMClassifier(tol=1e-8, max_iter=5000).fit(S, y)
    assert sparse.objective_ == pytest.approx(dense.objective_, rel=2e-8)
    assert sparse.coef_.dtype in (dtype, np.float64)
    scores = sparse.decision_function(X.astype(np.float64))
    # a sum of ten products in single precision is off by its rounding times the largest
    atol = 10 * np.finfo(dtype).eps * np.abs(scores).max()
    np.testing.assert_allclose(sparse.decision_function(S), scores, rtol=1e-5, atol=atol)


@pytest.mark.parametrize("layout", ["fortran", "csc", "integers", "list"])
def test_other_layouts_are_converted(data, layout):
    X, y = np.round(data[0]), data[1]
    other = {
        "fortran": np.asfortranarray(X),
        "csc": sp.csc_matrix(X),
        "integers": X.astype(np.int16),
        "list": X.tolist(),
    }[layout]
    reference = BMRMClassifier().fit(X, y).objective_
    assert BMRMClassifier().fit(other, y).objective_ == pytest.approx(reference, rel=2e-3)


@pytest.mark.parametrize("loss", USERS.values(), ids=USERS)
@pytest.mark.parametrize("solver", ["line-search", "cutting-plane"])
def test_user_loss_in_plain_numpy(data, loss, solver):
    model = BMRMClassifier(loss, solver=solver, reg_lambda=1e-2, max_iter=5000).fit(*data)
    assert model.status_ == "converged"
    assert model.score(*data) > 0.7


def test_user_loss_equals_built_in(data):
    class Mine(BinaryLoss):
        def value(self, scores, y):
            return SquaredHinge().value(scores, y)

        def gradient(self, scores, y):
            return SquaredHinge().gradient(scores, y)

    ours = BMRMClassifier("squared_hinge", tol=1e-6).fit(*data)
    mine = BMRMClassifier(Mine(), tol=1e-6).fit(*data)
    assert mine.objective_ == pytest.approx(ours.objective_, rel=2e-6)


def test_user_loss_reaches_the_optimum(data):
    """Against scipy's BFGS on the same objective, which is differentiable."""
    X, y = data
    loss, signs = USERS["smooth_hinge"], np.where(y == 1, 1.0, -1.0)

    def objective(p):
        scores = X @ p[:-1] + p[-1]
        gradient = loss.gradient(scores, signs) / len(y)
        value = 0.005 * p[:-1] @ p[:-1] + loss.value(scores, signs).mean()
        return value, np.r_[0.01 * p[:-1] + gradient @ X, gradient.sum()]

    best = minimize(objective, np.zeros(11), jac=True, tol=1e-12).fun
    model = BMRMClassifier(loss, reg_lambda=1e-2, tol=1e-8, max_iter=5000).fit(X, y)
    assert model.lower_bound_ <= best * (1 + 1e-10)
    assert model.objective_ == pytest.approx(best, rel=1e-7)


# ---- weights at the edges ---------------------------------------------------------------------


@pytest.mark.parametrize("loss", BINARY_LOSSES)
def test_class_of_weight_zero_is_a_missing_class(loss):
    X, y = load_iris(return_X_y=True)
    model = BMRMClassifier(loss, class_weight={0: 0.0, 1: 1.0, 2: 2.0}, reg_lambda=1e-2).fit(X, y)
    other = BMRMClassifier(loss, class_weight={1: 1.0, 2: 2.0}, reg_lambda=1e-2)
    other.fit(X[y > 0], y[y > 0])
    assert model.classes_.tolist() == [1, 2]
    assert np.array_equal(model.coef_, other.coef_)
    with pytest.raises(ValueError, match="only one class"):
        model.set_params(class_weight={0: 0.0, 1: 0.0, 2: 1.0}).fit(X, y)


@pytest.mark.parametrize("scale", [1e308, 1e-300])
def test_scale_of_the_weights_does_not_matter(data, scale):
    X, y = data
    a = BMRMClassifier("log_loss").fit(X, y)
    b = BMRMClassifier("log_loss").fit(X, y, np.full(len(y), scale))
    assert b.objective_ == pytest.approx(a.objective_, rel=1e-12)


# ---- living with scikit-learn -----------------------------------------------------------------


@pytest.mark.parametrize("sparse", [False, True])
def test_read_only_memory_maps(data, tmp_path, sparse):
    X, y = data
    weight = np.ones(len(y))
    joblib.dump((sp.csr_matrix(X) if sparse else X, y, weight), tmp_path / "data")
    mapped = joblib.load(tmp_path / "data", mmap_mode="r")
    a = BMRMClassifier().fit(*mapped)
    assert np.array_equal(a.coef_, BMRMClassifier().fit(mapped[0].copy(), y, weight).coef_)


def test_fit_writes_to_nothing(data):
    X, y, weight = data[0].copy(), data[1].copy(), np.linspace(0.0, 1.0, 200)
    before = joblib.hash((X, y, weight))
    class_weight = {0: 1.0, 1: 3.0}
    model = BMRMClassifier(class_weight=class_weight)
    parameters = repr(model)
    model.fit(X, y, sample_weight=weight)
    assert joblib.hash((X, y, weight)) == before
    assert class_weight == {0: 1.0, 1: 3.0} and repr(model) == parameters


def test_data_frames(data):
    pd = pytest.importorskip("pandas")
    X, y = data
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(10)])
    model = BMRMClassifier().fit(frame, pd.Series(y).map({0: "no", 1: "yes"}))
    assert model.feature_names_in_.tolist() == frame.columns.tolist()
    assert model.classes_.tolist() == ["no", "yes"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict(frame)


@pytest.mark.wide
def test_calibration_and_processes(data):
    X, y = data
    calibrated = CalibratedClassifierCV(BMRMClassifier(), cv=3).fit(X, y)
    assert calibrated.predict_proba(X).shape == (200, 2)
    fits = joblib.Parallel(n_jobs=2)(
        joblib.delayed(BMRMClassifier(n_jobs=2).fit)(X, y) for _ in range(2)
    )
    assert np.array_equal(fits[0].coef_, BMRMClassifier().fit(X, y).coef_)


def test_verbose_prints_the_gap(data, capsys):
    BMRMClassifier(verbose=1).fit(*data)
    assert "[BMRMClassifier] iteration 1: objective" in capsys.readouterr().out
    BMRMClassifier().fit(*data)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    "values", [[-1, 1], [0.0, 1.0], [False, True], [3, 250], [2**63 - 2, 2**63 - 1], [-0.0, 7.0]]
)
@pytest.mark.parametrize("dtype", [None, np.uint8, np.float32])
def test_two_whole_numbers_are_encoded_as_unique_does(values, dtype):
    y = np.array(values * 15)
    if dtype is not None and min(values) >= 0 and max(values) < 256:
        y = y.astype(dtype)
    classes, labels = np.unique(y, return_inverse=True)
    found = _two_classes(y)
    assert found is not None and found[0].dtype == y.dtype
    assert np.array_equal(found[0], classes) and np.array_equal(found[1], labels)


@pytest.mark.parametrize("values", [[0, 1, 2], [1.5, 0.0], [np.nan, 1.0], [1, 1], ["a", "b"]])
def test_other_labels_are_left_to_scikit_learn(values):
    assert _two_classes(np.array(values * 15)) is None
