"""BMRMClassifier as its users see it."""

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning

from sklearn_bundle import BMRMClassifier
from sklearn_bundle.core.validation import _two_classes

# ---- certificate, limits, interruption --------------------------------------------------------


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


# ---- equivalences -----------------------------------------------------------------------------


def test_balanced_weights_use_the_sample_weights(data):
    X, y = data
    counts = np.random.default_rng(0).integers(1, 4, size=len(y))
    model = BMRMClassifier(class_weight="balanced", tol=1e-9, max_iter=5000)
    weighted = clone(model).fit(X, y, counts).objective_
    repeated = clone(model).fit(X.repeat(counts, axis=0), y.repeat(counts)).objective_
    assert weighted == pytest.approx(repeated, rel=2e-9)


# ---- weights at the edges ---------------------------------------------------------------------


# ---- living with scikit-learn -----------------------------------------------------------------


@pytest.mark.wide
def test_calibration_and_processes(data):
    X, y = data
    calibrated = CalibratedClassifierCV(BMRMClassifier(), cv=3).fit(X, y)
    assert calibrated.predict_proba(X).shape == (200, 2)
    fits = joblib.Parallel(n_jobs=2)(
        joblib.delayed(BMRMClassifier(n_jobs=2).fit)(X, y) for _ in range(2)
    )
    assert np.array_equal(fits[0].coef_, BMRMClassifier().fit(X, y).coef_)


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
