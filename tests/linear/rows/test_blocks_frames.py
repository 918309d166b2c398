"""Data frames from parquet files, whose columns dask reads in blocks of its own."""

import warnings

import numpy as np
import pytest

from sklearn_bundle import (
    SDCACRF,
    BMRMClassifier,
    BMRMClassifierCV,
    BMRMNoveltyDetector,
    BMRMRegressor,
    PragamSVC,
    StructuredSVM,
    SwapSVC,
    crf_path,
)
from sklearn_bundle.linear.rows._dask_rows import _cut_again
from tests.contract.blocks import dask
from tests.contract.judge import judge

pd, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
pytest.importorskip("pyarrow")
COLUMNS = list("abcdef")
OF_DASK = pytest.mark.filterwarnings("ignore:Dask currently has limited support for converting")
SIZES = (60, 0, 70, 31, 50, 1)  # rows of the files, over and over again


def table(n_files):
    """Rows of all files; the index starts again in each and is not sorted."""
    rng, frames = np.random.default_rng(0), []
    for k in range(n_files):
        n = SIZES[k % len(SIZES)]
        X = rng.normal(size=(n, 6))
        frame = pd.DataFrame(X, columns=COLUMNS, index=np.arange(n)[::-1])
        noisy = X[:, 0] + 0.5 * rng.normal(size=n)
        frame["y"], frame["t"], frame["w"] = (
            np.where(noisy > 0.6, "high", "low"),
            noisy,
            rng.uniform(0.0, 2.0, n),
        )
        frame["text"] = "a column that nobody needs"
        frames.append(frame)
    return frames


def written(frames, folder):
    for k, frame in enumerate(frames):
        frame.to_parquet(folder / f"part-{k:03d}.parquet")
    return dd.read_parquet(folder)


@pytest.fixture(scope="module")
def twelve(tmp_path_factory):
    """The frame of dask from twelve files, and the same rows in memory."""
    frames = table(12)
    return written(frames, tmp_path_factory.mktemp("twelve")), pd.concat(frames)


def lengths_are_known(ddf):
    """As dask does it if it may not join partitions."""
    with dask.config.set({"optimization.tune.active": False}):
        return tuple(ddf[part].to_dask_array(lengths=True) for part in (COLUMNS, "y"))


WAYS = {
    "frames": lambda ddf: (ddf[COLUMNS], ddf["y"]),
    "a frame of one column": lambda ddf: (ddf[COLUMNS], ddf[["y"]]),
    "persisted": lambda ddf: (ddf[COLUMNS].persist(), ddf["y"].persist()),
    "persisted together": lambda ddf: dask.persist(ddf[COLUMNS], ddf["y"]),
    "persisted before": lambda ddf: (ddf := ddf.persist()) is None or (ddf[COLUMNS], ddf["y"]),
    "one persisted": lambda ddf: (ddf[COLUMNS].persist(), ddf["y"]),
    "values": lambda ddf: (ddf[COLUMNS].values, ddf["y"].values),
    "values of one": lambda ddf: (ddf[COLUMNS], ddf["y"].values),
    "sizes computed": lambda ddf: (ddf[COLUMNS].values.compute_chunk_sizes(), ddf["y"].values),
    "lengths": lengths_are_known,
    "lengths of persisted": lambda ddf: lengths_are_known(ddf.persist()),
    "in memory": lambda ddf: (ddf[COLUMNS], ddf["y"].compute().to_numpy()),
    "lists": lambda ddf: tuple(
        list(ddf.to_delayed()[k][part] for k in range(ddf.npartitions)) for part in (COLUMNS, "y")
    ),
}


@pytest.mark.wide
@OF_DASK
@pytest.mark.parametrize("way", WAYS)
def test_frames_are_read_in_the_same_blocks(twelve, way):
    """dask makes 3 blocks of y alone, and 6 of X."""
    fit_and_judge(*twelve, way)


@pytest.mark.wide
@OF_DASK
@pytest.mark.parametrize("way", ["frames", "persisted", "persisted together", "values"])
def test_more_files(tmp_path, way):
    """dask makes 5 blocks of y alone, and 12 of X."""
    frames = table(24)
    fit_and_judge(written(frames, tmp_path), pd.concat(frames), way)


def fit_and_judge(ddf, rows, way):
    model = BMRMClassifier(reg_lambda=1e-2, tol=1e-3, class_weight="balanced")
    X, y = WAYS[way](ddf)
    model.fit(X, y)
    assert model.converged_ and model.classes_.tolist() == ["high", "low"]
    judge(model, rows[COLUMNS].to_numpy(), rows["y"].to_numpy())
    score = float(model.score(X, y))
    alike = rows[COLUMNS] if hasattr(model, "feature_names_in_") else rows[COLUMNS].to_numpy()
    assert score == pytest.approx(model.score(alike, rows["y"]), rel=1e-12)


@pytest.mark.wide
def test_weights_and_targets_of_a_frame(twelve):
    ddf, rows = twelve
    X, t, w = rows[COLUMNS].to_numpy(), rows["t"].to_numpy(), rows["w"].to_numpy()
    model = BMRMRegressor("huber", reg_lambda=1e-2).fit(ddf[COLUMNS], ddf["t"], ddf["w"])
    judge(model, X, t, w)
    assert list(model.feature_names_in_) == COLUMNS
    lazy = model.predict(ddf[COLUMNS])
    assert lazy.numblocks == (12,)
    np.testing.assert_allclose(lazy.compute(), model.predict(rows[COLUMNS]), rtol=1e-13)
    assert float(model.score(ddf[COLUMNS], ddf["t"], ddf["w"])) == pytest.approx(
        model.score(rows[COLUMNS], t, w), rel=1e-10
    )


@pytest.mark.wide
@OF_DASK
def test_results_do_not_depend_on_how_blocks_were_given(twelve):
    ddf, _ = twelve
    fits = [
        BMRMClassifier("log_loss", reg_lambda=1e-2).fit(*WAYS[way](ddf))
        for way in ("lists", "frames", "persisted before", "in memory", "lengths")
    ]
    for other in fits[1:]:
        np.testing.assert_array_equal(other.coef_, fits[0].coef_)
        np.testing.assert_array_equal(other.lower_bound_, fits[0].lower_bound_)


@pytest.mark.wide
def test_other_estimators_and_joint_losses(twelve):
    ddf, rows = twelve
    X, y = rows[COLUMNS].to_numpy(), rows["y"].to_numpy()
    softmax = BMRMClassifier("softmax", reg_lambda=1e-2).fit(ddf[COLUMNS], ddf["y"], ddf["w"])
    judge(softmax, X, y, rows["w"].to_numpy())
    judge(BMRMNoveltyDetector(rho=1.0).fit(ddf[COLUMNS]), X)
    search = BMRMClassifierCV("log_loss", reg_lambdas=[1e-1, 1e-2], cv=2)
    assert search.fit(ddf[COLUMNS], ddf["y"]).scores_.shape == (2, 2)


def test_delayed_blocks_are_cut_again():
    there, lengths, rows = (5, 0, 7), (3, 0, 6, 3), np.arange(12)
    blocks = [dask.delayed(part) for part in np.split(rows, np.cumsum(there)[:-1])]
    found = dask.compute(*_cut_again("y", blocks, there, lengths))
    wanted = np.split(rows, np.cumsum(lengths)[:-1])
    assert [part.tolist() for part in found] == [part.tolist() for part in wanted]


@pytest.mark.wide
def test_rows_that_differ_are_refused(twelve):
    ddf, rows = twelve
    with pytest.raises(ValueError, match=r"y must have an entry for each of the 424 rows of X"):
        BMRMClassifier().fit(ddf[COLUMNS], rows["y"].to_numpy()[1:])
    with pytest.raises(ValueError, match=r"y has 212 rows in 6 blocks, X has 424 rows in 12 blo"):
        BMRMClassifier().fit(ddf[COLUMNS], ddf["y"].partitions[:6])
    with pytest.raises(ValueError, match=r"Block 0: X has 60 rows, y has 4\..* 7 further"):
        BMRMClassifier().fit(ddf[COLUMNS], ddf["y"].map_partitions(lambda part: part[:4]))
    blocks = [ddf[part].to_delayed() for part in (COLUMNS, "y")]
    with pytest.raises(ValueError, match=r"y has \d blocks of rows, X has 12; they must be cut at"):
        BMRMClassifier().fit(*blocks)


def without(label):
    def spoil(frame):
        return frame.assign(y=[label, *frame["y"][1:]])

    return spoil


@pytest.mark.wide
@pytest.mark.parametrize(
    "spoil, message",
    [
        (without(None), r"Block 2: Input y contains NaN or other missing .* first in row 0 of"),
        (lambda f: f.assign(b=np.nan), r"Block 2: column 'b' of X: Input X contains NaN"),
        (lambda f: f.assign(c="x"), r"Block 2: column 'c' of X: could not convert string"),
    ],
)
def test_faults_name_block_and_column(tmp_path, spoil, message):
    frames = table(4)
    frames[2] = spoil(frames[2])
    ddf = written(frames, tmp_path)
    with pytest.raises(ValueError, match=message):
        BMRMClassifier().fit(ddf[COLUMNS], ddf["y"])


@pytest.mark.wide
def test_columns_that_are_not_there(tmp_path):
    frames = table(4)
    frames[2] = frames[2].rename(columns={"b": "z"})
    ddf = written(frames, tmp_path)
    with pytest.raises(KeyError) as caught:
        BMRMClassifier().fit(ddf[COLUMNS], ddf["y"])
    assert caught.value.__notes__ == ["It came up in block 2 of 4."]
    X = [dask.delayed(frame.drop(columns=["y", "t", "w", "text"])) for frame in frames]
    y = [dask.delayed(frame["y"]) for frame in frames]
    with pytest.raises(ValueError, match=r"Block 2 has columns .*; it lacks 'b'; it has also 'z'"):
        BMRMClassifier().fit(X, y)
    frames[2] = table(4)[2].astype({"a": np.float32})
    X = [dask.delayed(frame[["a"]]) for frame in frames]
    with pytest.raises(ValueError, match=r"Block 2 has a dtype of float32.*; column 'a' is float3"):
        BMRMClassifier().fit(X, y)


@pytest.mark.parametrize("missing", [None, float("nan"), "NA", "NaT"])
def test_missing_labels_of_any_kind(missing):
    missing = getattr(pd, str(missing), missing)
    X, y = np.ones((3, 1)), np.array(["a", missing, "b"], dtype=object)
    with pytest.raises(ValueError, match=r"Block 0: Input y contains NaN .* row 1 of the block"):
        BMRMClassifier().fit([dask.delayed(X)], [dask.delayed(y)])


def crf_models(X, y):
    return crf_path(X, y, reg_lambdas=[0.1], random_state=0)[1][0]


@pytest.mark.wide
@pytest.mark.parametrize(
    "fit",
    [
        PragamSVC().fit,
        SwapSVC().fit,
        SDCACRF(random_state=0).fit,
        StructuredSVM("multiclass", random_state=0).fit,
        crf_models,
    ],
)
def test_estimators_for_rows_in_memory_say_that_they_gather(twelve, fit):
    ddf, rows = twelve
    name = getattr(fit, "__self__", None)
    name = "crf_path" if name is None else type(name).__name__
    ours, theirs = (ddf[COLUMNS], ddf["y"]), (rows[COLUMNS], rows["y"])
    with pytest.warns(UserWarning, match=f"{name} .* gathers the dask collection") as caught:
        gathered = fit(*ours)
    assert [w.filename for w in caught] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        coef = np.ravel(gathered.predict(rows[COLUMNS][:50]))
        np.testing.assert_array_equal(np.ravel(fit(*theirs).predict(rows[COLUMNS][:50])), coef)
