"""Readers and fetchers of data sets."""

import bz2
import gzip
import io
import lzma
import os
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file

from sklearn_bundle.datasets import load_conll, load_svmlight, save_mapped
from sklearn_bundle.datasets._svmlight import opener


@pytest.mark.realdata
@pytest.mark.parametrize("name", ["conll2000", "conll2002_ned"])
def test_files_of_the_shared_tasks(tasks, name):
    folder = Path(os.environ["SKLEARN_BUNDLE_DATA"])
    for part, (sentences, tags) in tasks.load_sequences(name).items():
        assert load_conll(folder / f"{name}_{part}.txt.xz") == (sentences, tags)


@pytest.mark.realdata
def test_universal_dependencies(tasks):
    path = Path(os.environ["SKLEARN_BUNDLE_DATA"]) / "ud_en_ewt_dev.conllu.xz"
    ours = load_conll(
        path,
        columns=(1, 2, 4),
        target=3,
        separator="\t",
        comment="#",
        keep=lambda fields: fields[0].isdigit(),
    )
    assert ours == tasks.load_sequences("ud_en_ewt")["dev"]


TRAIN = b"+1 1:0.5 3:2 # a comment\n-1 2:1\n3.5\n"
TEST = b"2 1:1 5:0.25\n"
X_TRAIN = [[0.5, 0, 2], [0, 1, 0], [0, 0, 0]]
QUERIES = b"1 qid:7 1:1\n0 qid:7 2:1\n2 qid:9 1:3\n"


@pytest.mark.parametrize("as_path", [str, Path])
@pytest.mark.parametrize(
    "name, compress",
    [
        ("a.txt", bytes),
        ("a", bytes),
        ("a.gz", gzip.compress),
        ("a.bz2", bz2.compress),
        ("a.txt.XZ", lzma.compress),
    ],
)
def test_svmlight_files(tmp_path, name, compress, as_path):
    path = tmp_path / name
    path.write_bytes(compress(TRAIN))
    X, y = load_svmlight(as_path(path))
    assert sp.issparse(X) and X.format == "csr" and X.dtype == np.float64
    assert X.toarray().tolist() == X_TRAIN
    assert y.dtype == np.float64 and y.tolist() == [1.0, -1.0, 3.5]


def test_svmlight_is_what_scikit_learn_writes(tmp_path):
    X = sp.random(50, 30, density=0.2, random_state=0, format="csr")
    X.data = X.data.round(6)  # it writes 16 digits
    y = np.round(np.random.default_rng(0).normal(size=50), 6)
    for zero_based in (False, True):
        dump_svmlight_file(X, y, str(tmp_path / "a"), zero_based=zero_based)
        read, target = load_svmlight(tmp_path / "a", n_features=30, zero_based=zero_based)
        assert np.array_equal(read.toarray(), X.toarray())
        assert np.array_equal(target, y)
        assert read.has_sorted_indices


def test_svmlight_files_that_share_their_features(tmp_path):
    paths = [tmp_path / "a.xz", tmp_path / "a.t"]
    paths[0].write_bytes(lzma.compress(TRAIN))
    paths[1].write_bytes(TEST)
    X, y, X_test, y_test = load_svmlight(paths)
    assert X.shape == (3, 5) and X_test.shape == (1, 5)
    assert X_test.toarray().tolist() == [[1, 0, 0, 0, 0.25]]
    assert y.tolist() == [1.0, -1.0, 3.5] and y_test.tolist() == [2.0]
    assert [len(part) for part in load_svmlight(paths, n_features=9)[0].toarray()] == [9, 9, 9]
    with pytest.raises(ValueError, match="n_features was set to 4"):
        load_svmlight(paths, n_features=4)


def test_svmlight_queries(tmp_path):
    (tmp_path / "a").write_bytes(QUERIES)
    X, y, qid = load_svmlight(tmp_path / "a", query_id=True)
    assert X.toarray().tolist() == [[1, 0], [0, 1], [3, 0]]
    assert y.tolist() == [1, 0, 2] and qid.tolist() == [7, 7, 9]
    both = load_svmlight([tmp_path / "a", tmp_path / "a"], query_id=True)
    assert len(both) == 6 and both[5].tolist() == [7, 7, 9]


def test_svmlight_in_another_format(tmp_path):
    (tmp_path / "a").write_bytes(b"1 2:1 1:1\n")
    with pytest.raises(ValueError, match="sorted"):
        load_svmlight(tmp_path / "a")
    with pytest.raises(FileNotFoundError):
        load_svmlight(tmp_path / "b")


def test_svmlight_of_what_is_no_path(tmp_path):
    with pytest.raises(ValueError, match=r"paths must have at least one file, got \[\]"):
        load_svmlight([])
    for wrong in (io.BytesIO(TRAIN), [io.BytesIO(TRAIN)], b"a", 3, None):
        with pytest.raises(TypeError, match=r"paths must be a str, a path-like .* or a sequence"):
            load_svmlight(wrong)


@pytest.mark.parametrize(
    "line, reason",
    [
        ("abc 1:2", "could not convert string to float"),
        ("1 1:x", "could not convert string to float"),
        ("1 2:1 1:1", "sorted and unique"),
        ("1 1:1 garbage", ""),
        ("1 -1:1", "Invalid index"),
        ("1 0:1", "Invalid index 0"),
    ],
)
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_svmlight_line_that_cannot_be_read(tmp_path, line, reason, suffix):
    good, bad = tmp_path / "good", tmp_path / f"bad{suffix}"
    good.write_text("1 1:1\n")
    lines = ["1 1:2 3:4"] * 999
    lines[613] = line
    with opener(bad)(bad, "wt") as file:
        file.write("\n".join(lines))
    said = rf"^Line 614 of '.*bad{suffix}' cannot be read, .*{reason}.*'{line}'"
    with pytest.raises(ValueError, match=said):
        load_svmlight([good, bad], zero_based=False)
    with pytest.raises(ValueError, match=said):
        save_mapped(tmp_path / "mapped", [good, bad])
