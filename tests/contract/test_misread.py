"""Masked arrays, dates and structured arrays are refused by name, wherever data are taken."""

import numpy as np
import pytest
from sklearn.datasets import load_iris

from sklearn_bundle import (
    SDCACRF,
    BMRMClassifier,
    BMRMNoveltyDetector,
    BMRMRanker,
    BMRMRegressor,
    StructuredSVM,
    SwapNoveltyDetector,
    SwapSVR,
    bmrm_path,
    crf_path,
    datasets,
    metrics,
    reg_lambda_max,
)
from tests.contract.parameters import ESTIMATORS, GROUP, ROWS, SEARCHES

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

X, Y = (array[ROWS] for array in load_iris(return_X_y=True))
W = np.ones(len(Y))
DETECTORS = BMRMNoveltyDetector, SwapNoveltyDetector


def masked(array):
    mask = np.zeros(array.shape, dtype=bool)
    mask.flat[1] = True
    return np.ma.array(array, mask=mask)


def structured(array):
    columns = [array] if array.ndim == 1 else list(array.T)
    return np.rec.fromarrays(columns, names=[f"f{j}" for j in range(len(columns))])


def dates(array):
    return np.asarray(array * 10).astype("M8[D]")


def objects(array):
    """The entries themselves, where astype(object) makes dates of Python."""
    result = np.empty(array.shape, dtype=object)
    result.flat[:] = list(array.flat)
    return result


MISREAD = {
    "masked": (masked, "masked array with 1 masked entries"),
    "rows": (lambda a: list(masked(a)) if a.ndim == 2 else masked(a), "masked"),
    "structured": (structured, r"structured array with the fields \['f0'"),
    "void": (lambda a: structured(a).view(np.ndarray), r"structured array with the fields"),
    "dates": (dates, r"dates or durations \(datetime64\[D\]\)"),
    "durations": (lambda a: dates(a) - dates(a).min(), r"durations \(timedelta64\[D\]\)"),
    "objects": (lambda a: objects(dates(a)), "dates or durations"),
    "list": (lambda a: [list(row) if a.ndim == 2 else row for row in dates(a)], "dates"),
}
LABELS = "masked", "structured", "void"  # labels may be dates


def bad(kind, name, array):
    change, said = MISREAD[kind]
    return change(array), rf"^{name}(\[\d+\])? must .*{said}|^{name}(\[\d+\])? must hold numbers"


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_fit_refuses_by_name(kind):
    numbers = BMRMRegressor, BMRMRanker, SwapSVR
    for key in MISREAD:
        for name, array in (("X", X), ("y", Y), ("sample_weight", W)):
            labels = name == "y" and not issubclass(kind, numbers)
            if name == "y" and (kind in DETECTORS or (labels and key not in LABELS)):
                continue
            wrong, said = bad(key, name, array)
            model = kind(**SEARCHES.get(kind, {}))
            with pytest.raises(ValueError, match=said):
                model.fit(**{"X": X, "y": Y, "sample_weight": W} | {name: wrong})
            assert not [name for name in vars(model) if name.endswith("_")], (key, name)


@pytest.mark.parametrize("function", [bmrm_path, reg_lambda_max, crf_path])
def test_paths_refuse_by_name(function):
    for key in MISREAD:
        for name, array in (("X", X), ("y", Y), ("sample_weight", W)):
            if name == "y" and key not in LABELS:
                continue
            wrong, said = bad(key, name, array)
            with pytest.raises(ValueError, match=said):
                function(**{"X": X, "y": Y, "sample_weight": W} | {name: wrong})


def test_without_a_masked_entry_it_is_an_array():
    plain = BMRMClassifier().fit(X, Y, W)
    model = BMRMClassifier().fit(*(np.ma.array(array, mask=False) for array in (X, Y, W)))
    assert np.array_equal(model.coef_, plain.coef_) and type(model.coef_) is np.ndarray
    assert type(model.predict(np.ma.array(X))) is np.ndarray
    assert model.score(np.ma.array(X), np.ma.array(Y)) == plain.score(X, Y)
    assert set(BMRMClassifier().fit(X, dates(Y)).predict(X)) <= set(dates(Y))  # labels


@pytest.mark.parametrize("key", LABELS)
def test_queries_and_grades(key):
    wrong, said = bad(key, "group", GROUP)
    with pytest.raises(ValueError, match=said):
        BMRMRanker("ndcg").fit(X, Y, group=wrong)
    ranker = BMRMRanker("ndcg").fit(X, Y, group=dates(GROUP))
    with pytest.raises(ValueError, match=said):
        ranker.score(X, Y, group=wrong)


def test_columns_of_a_frame_are_named():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": X[:, 0], "when": pd.date_range("2020", periods=len(X), tz="UTC")})
    frame["since"] = frame["when"] - frame["when"].min()
    frame["month"] = frame["when"].dt.tz_localize(None).dt.to_period("M")
    said = r"^X must hold numbers, but the columns \['when', 'since', 'month'\] hold dates"
    for kind in (BMRMClassifier, SwapNoveltyDetector, StructuredSVM):
        with pytest.raises(ValueError, match=said):
            (kind("multiclass") if kind is StructuredSVM else kind()).fit(frame, Y)
    with pytest.raises(ValueError, match=r"^y must hold numbers, got dates"):
        BMRMRegressor().fit(X, frame["when"])
    with pytest.raises(ValueError, match=r"^Sequence 0 of " + said[1:]):
        SDCACRF().fit([frame], [Y])
    sequences, labels = datasets.sequences_from_frame(frame, "when", "a", columns=["a"][:0])
    assert len(sequences) == len(labels) == len(X)  # dates identify sequences
    with pytest.raises(ValueError, match=r"^The columns \['when', 'month'\] hold dates"):
        datasets.sequences_from_frame(frame, "since", columns=["month", "when", "a"])


def test_sequences():
    sequences, labels = [X[:20], X[20:]], [Y[:20], Y[20:]]
    for key in LABELS:
        wrong, said = bad(key, r"Sequence 1 of X", X[20:])
        with pytest.raises((ValueError, TypeError), match=said if key == "masked" else None):
            SDCACRF().fit([X[:20], wrong], labels)
    with pytest.raises(ValueError, match=r"^y\[1\] must not be masked"):
        SDCACRF().fit(sequences, [Y[:20], masked(Y[20:])])
    with pytest.raises(ValueError, match=r"^Sequence \d of X must not be masked"):
        SDCACRF().fit(masked(X.reshape(2, 25, 4)), Y.reshape(2, 25))
    with pytest.raises(ValueError, match=r"^y must not be masked"):
        SDCACRF().fit(X.reshape(2, 25, 4), masked(Y.reshape(2, 25)))
    model = SDCACRF(tol=1e-1).fit(sequences, labels)
    with pytest.raises(ValueError, match=r"^y\[1\] must not be masked"):
        model.score(sequences, [Y[:20], masked(Y[20:])])
    with pytest.raises(ValueError, match=r"^sample_weight must not be masked"):
        metrics.token_accuracy_score(labels, labels, sample_weight=masked(np.ones(2)))
