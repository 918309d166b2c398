"""Frames of pandas and polars: the same model as of arrays, and columns refused by their names."""

import numpy as np
import pytest
from sklearn.feature_selection import SelectFromModel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_bundle import (
    SDCACRF,
    BMRMClassifier,
    BMRMClassifierCV,
    BMRMRanker,
    BMRMRegressor,
    StructuredSVM,
    SwapSVC,
    SwapSVR,
    datasets,
)

N = 20
DATA = np.random.default_rng(0).normal(size=(N, 2))
NAMES = ["age", "size"]
WORDS = np.array(["no", "yes"])[(DATA[:, 0] > 0.0).astype(int)]


@pytest.fixture(params=["pandas", "polars"])
def library(request):
    return pytest.importorskip(request.param, reason=f"{request.param} is not installed")


def frame_of(library, columns=(), **further):
    return library.DataFrame(dict(zip(NAMES, DATA.T, strict=True)) | dict(columns) | further)


CLASSIFIERS = [
    BMRMClassifier(reg_lambda=0.1),
    BMRMClassifierCV(reg_lambdas=[0.1, 0.01], cv=2),
    SwapSVC(),
    SDCACRF(reg_lambda=0.1, random_state=0),
    StructuredSVM("multiclass", reg_lambda=0.1, random_state=0),
]


@pytest.mark.filterwarnings("ignore:.* of the [0-9]+ values tried")
@pytest.mark.parametrize("model", CLASSIFIERS, ids=lambda model: type(model).__name__)
def test_classifiers_take_frames_and_columns_as_they_take_arrays(library, model):
    X, y = frame_of(library), library.Series(WORDS.tolist())
    of_arrays = model.fit(DATA, WORDS).predict(DATA)
    model.fit(X, y)
    assert list(model.feature_names_in_) == NAMES
    assert np.array_equal(model.predict(X), of_arrays)
    assert model.score(X, y) == np.mean(of_arrays == WORDS)
    with pytest.raises(ValueError, match="Feature names must be in the same order"):
        model.predict(X[NAMES[::-1]])


def test_numbers_weights_and_queries_may_be_columns(library):
    X, column = frame_of(library), library.Series
    t, weights = DATA @ [1.0, 2.0], np.arange(1.0, N + 1.0)
    for model in (BMRMRegressor(reg_lambda=0.1), SwapSVR()):
        expected = model.fit(DATA, t, weights).predict(DATA)
        assert np.array_equal(model.fit(X, column(t), column(weights)).predict(X), expected)
    both = BMRMRegressor(reg_lambda=0.1).fit(X, X)
    assert both.predict(X).shape == (N, 2)
    grades, group = (t > 0.0).astype(int), np.arange(N) // 5
    ranker = BMRMRanker("ndcg", reg_lambda=0.01)
    expected = ranker.fit(DATA, grades, group=group).coef_
    assert np.array_equal(ranker.fit(X, column(grades), group=column(group)).coef_, expected)


def test_frames_come_out_of_what_transforms(library):
    X = frame_of(library)
    model = BMRMClassifier(reg_lambda=0.1)
    steps = make_pipeline(StandardScaler(), model).set_output(transform=library.__name__)
    assert list(steps.fit(X, WORDS)[-1].feature_names_in_) == NAMES
    lasso = BMRMClassifier("log_loss", regularizer="l1", reg_lambda=0.1)
    kept = SelectFromModel(lasso).set_output(transform=library.__name__).fit(X, WORDS).transform(X)
    assert isinstance(kept, library.DataFrame)
    assert list(kept.columns) == ["age"]


@pytest.mark.parametrize("model", CLASSIFIERS[:3:2], ids=lambda model: type(model).__name__)
def test_words_are_no_features_and_categories_may_be_labels(library, model):
    with pytest.raises(ValueError, match="could not convert string to float"):
        model.fit(frame_of(library, {"words": library.Series(WORDS.tolist())}), WORDS)
    kind = "category" if library.__name__ == "pandas" else library.Categorical
    categories = library.Series(WORDS.tolist(), dtype=kind)
    assert list(model.fit(frame_of(library), categories).classes_) == ["no", "yes"]


def test_a_frame_with_a_row_per_token(library):
    frame = library.DataFrame(
        {"sentence": [1, 1, 2], "word": ["Ada", "sleeps", "Bob"], "label": ["N", "V", "N"]}
    )
    X, y = datasets.sequences_from_frame(frame, by="sentence", target="label")
    assert (X[1], y) == ([{"word": "Bob"}], [["N", "V"], ["N"]])
