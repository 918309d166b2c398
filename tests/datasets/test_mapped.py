"""Data in memory-mapped files: what is written, fits on them, and their memory."""

import bz2
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from sklearn_bundle import BMRMClassifier, PragamSVC
from sklearn_bundle.datasets import _mapped, open_mapped, save_mapped


@pytest.fixture(scope="module")
def rows():
    """Sparse X of 60 x 40 with an empty row and labels."""
    rng = np.random.default_rng(0)
    X = sp.random(60, 40, 0.2, random_state=0).toarray()
    X[17], X[[0, 30], 39] = 0.0, 1.0  # texts have all features
    X = sp.csr_matrix(X)
    return X, np.where(X @ rng.normal(size=40) > 0.0, 1.0, -1.0)


@pytest.fixture
def texts(rows, tmp_path):
    X, y = rows
    names = [tmp_path / "a.svmlight", tmp_path / "b.txt"]
    dump_svmlight_file(X[:25], y[:25], str(names[0]), zero_based=False)
    dump_svmlight_file(X[25:], y[25:], str(names[1]), zero_based=False)
    return names


def assert_same(X, expected):
    assert X.dtype == expected.dtype and X.shape == expected.shape
    if not sp.issparse(expected):
        np.testing.assert_array_equal(X, expected)
        return
    for name in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(X, name), getattr(expected, name))


@pytest.mark.parametrize("chunk", [100, 1 << 22])
def test_texts_as_scikit_learn_reads_them(texts, tmp_path, monkeypatch, chunk):
    monkeypatch.setattr(_mapped, "_CHUNK", chunk)  # 100 bytes: a line or two at a time
    save_mapped(tmp_path / "mapped", texts)
    X, y = open_mapped(tmp_path / "mapped")
    both = [load_svmlight_file(str(name), n_features=40, zero_based=False) for name in texts]
    assert_same(X, sp.vstack([part for part, _ in both]).tocsr())
    np.testing.assert_array_equal(y, np.concatenate([part for _, part in both]))
    assert X.indices.dtype == X.indptr.dtype == np.int32


def test_compressed_text_with_zero_based_indices(rows, tmp_path):
    X, y = rows
    plain = tmp_path / "plain"
    dump_svmlight_file(X, y, str(plain), zero_based=True)
    (tmp_path / "rows.bz2").write_bytes(bz2.compress(plain.read_bytes()))
    save_mapped(tmp_path / "mapped", tmp_path / "rows.bz2", zero_based=True, n_features=50)
    read = open_mapped(tmp_path / "mapped")[0]
    assert read.shape == (60, 50)
    np.testing.assert_array_equal(
        read[:, :40].toarray(), load_svmlight_file(str(plain))[0].toarray()
    )


def test_text_with_index_0_is_not_one_based(rows, tmp_path):
    dump_svmlight_file(*rows, str(tmp_path / "rows"), zero_based=True)
    with pytest.raises(ValueError, match="Invalid index 0"):
        save_mapped(tmp_path / "mapped", tmp_path / "rows")


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_sparse_arrays_and_files(rows, tmp_path, dtype):
    X, y = rows
    labels = np.where(y > 0.0, "yes", "no")
    sp.save_npz(tmp_path / "X1.npz", X[30:])
    np.save(tmp_path / "y1.npy", labels[30:])
    shuffled = X[:30].tocoo()
    order = np.random.default_rng(1).permutation(shuffled.nnz)
    shuffled = sp.coo_array(
        (shuffled.data[order], (shuffled.row[order], shuffled.col[order])), shape=(30, 40)
    )
    blocks = [(shuffled, labels[:30].tolist()), (tmp_path / "X1.npz", tmp_path / "y1.npy")]
    save_mapped(tmp_path / "mapped", blocks, dtype=dtype)
    read, of_rows = open_mapped(tmp_path / "mapped")
    assert_same(read, X.astype(dtype))
    np.testing.assert_array_equal(of_rows, labels)


def test_dense_arrays_and_files(rows, tmp_path, monkeypatch):
    monkeypatch.setattr(_mapped, "_CHUNK", 1000)  # three rows
    X, y = rows[0].toarray(), rows[1]
    np.save(tmp_path / "X0.npy", np.asfortranarray(X[:20]))
    np.save(tmp_path / "y0.npy", y[:20])
    np.savez(tmp_path / "1.npz", X=X[20:40].astype(np.float32), y=y[20:40])
    blocks = [
        (tmp_path / "X0.npy", str(tmp_path / "y0.npy")),
        str(tmp_path / "1.npz"),
        (X[40:].tolist(), y[40:]),
    ]
    save_mapped(str(tmp_path / "mapped"), (block for block in blocks))
    read, targets = open_mapped(str(tmp_path / "mapped"))
    X[20:40] = X[20:40].astype(np.float32)
    assert_same(read, X)
    np.testing.assert_array_equal(targets, y)
    assert isinstance(read, np.memmap) and not read.flags.writeable and read.flags.c_contiguous


def test_row_starts_beyond_int32(rows, tmp_path, monkeypatch):
    monkeypatch.setattr(_mapped, "_INT32", 100)
    X, y = rows
    save_mapped(tmp_path / "mapped", (block for block in [(X, y)]))
    read = open_mapped(tmp_path / "mapped")[0]
    assert read.indices.dtype == read.indptr.dtype == np.int64
    assert_same(read, X)
    assert sorted(path.name for path in (tmp_path / "mapped").iterdir()) == [
        *("data.npy", "indices.npy", "indptr.npy", "shape.npy", "y.npy")
    ]


@pytest.mark.parametrize("kind", ["dense", "csr", "int64"])
@pytest.mark.parametrize("model", [BMRMClassifier(reg_lambda=1e-2), PragamSVC(tol=1e-2)])
def test_same_bits_as_in_memory(rows, tmp_path, monkeypatch, kind, model):
    X, y = rows
    if kind == "dense":
        X = X.toarray()
    elif kind == "int64":
        monkeypatch.setattr(_mapped, "_INT32", 100)
    save_mapped(tmp_path / "mapped", [(X[:20], y[:20]), (X[20:], y[20:])])
    expected = model.fit(X, y).coef_, model.intercept_, model.objective_, model.lower_bound_
    mapped = open_mapped(tmp_path / "mapped")
    model.fit(*mapped)
    found = model.coef_, model.intercept_, model.objective_, model.lower_bound_
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(model.predict(mapped[0]), model.predict(X))


def test_maps_are_read_only(rows, texts, tmp_path):
    save_mapped(tmp_path / "mapped", texts)
    X, _ = open_mapped(tmp_path / "mapped")
    with pytest.raises(ValueError, match="read-only"):
        X.data[0] = 1.0


@pytest.mark.parametrize(
    ("blocks", "further", "message"),
    [
        ([], {}, "no rows"),
        (
            [(np.ones((2, 3)), [0, 1]), (np.ones((2, 4)), [0, 1])],
            {},
            "block 2 has 4 features, but 3",
        ),
        ([(np.ones((2, 3)), [0, 1])], {"n_features": 4}, "block 1 has 3 features, but 4"),
        ([(np.ones((2, 3)), [0])], {}, r"X of shape \(2, 3\) and y of shape \(1,\)"),
        ([(np.ones(2), [0, 1])], {}, r"X of shape \(2,\)"),
        ([(np.ones((2, 3)), np.array([0, "a"], dtype=object))], {}, "Python objects"),
        (
            [(np.ones((2, 3)), [0, 1]), (sp.csr_matrix(np.ones((2, 3))), [0, 1])],
            {},
            "block 2 is sparse, but dense",
        ),
        (["X.npy"], {}, r"'X.npy' holds one array"),
        ([(np.ones((2, 3)), [0, 1])], {"dtype": np.int64}, "dtype=int64 must be float32 or"),
    ],
)
def test_refusals_leave_nothing(tmp_path, blocks, further, message):
    with pytest.raises(ValueError, match=message):
        save_mapped(tmp_path / "mapped", blocks, **further)
    assert list(tmp_path.iterdir()) == []


def test_texts_of_other_widths(rows, texts, tmp_path):
    X, y = rows
    narrow = (np.ones((1, 3)), [1.0])
    with pytest.raises(ValueError, match="block 1 has 40 features, but 39"):
        save_mapped(tmp_path / "mapped", texts, n_features=39)
    with pytest.raises(ValueError, match="block 2 has 3 features, but 40"):
        save_mapped(tmp_path / "mapped", [texts[0], (sp.csr_matrix(narrow[0]), narrow[1])])
    save_mapped(tmp_path / "mapped", [texts[1], (X[:25], y[:25])])  # a text may be narrower
    assert open_mapped(tmp_path / "mapped")[0].shape == (60, 40)


def test_folders(rows, texts, tmp_path):
    (tmp_path / "there").mkdir()
    with pytest.raises(FileExistsError):
        save_mapped(tmp_path / "there", texts)
    assert (tmp_path / "there").is_dir()
    with pytest.raises(ValueError, match="was not written by save_mapped, or not to its end"):
        open_mapped(tmp_path / "there")
    with pytest.raises(FileNotFoundError, match=r"no folder '.*missing'"):
        open_mapped(tmp_path / "missing")
    with pytest.raises(FileNotFoundError, match=r"missing\.txt"):
        save_mapped(tmp_path / "mapped", [texts[0], tmp_path / "missing.txt"])
    assert not (tmp_path / "mapped").exists()


_FIT = """
import resource, sys
import numpy as np
from sklearn_bundle import BMRMClassifier
from sklearn_bundle.datasets import open_mapped

folder, kind, n_samples, solver = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
X, y = open_mapped(folder)
model = BMRMClassifier(solver=solver, reg_lambda=1e-3, max_iter=20, tol=1e-2)
small = X[:5000].copy() if kind == "csr" else np.array(X[:5000])
model.fit(small, y[:5000])  # compiles

def data():
    with open("/proc/self/status") as lines:
        return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmData"))

used = data()
assert used > 0
allowed = 8 * 20 * n_samples + (48 << 20)
resource.setrlimit(resource.RLIMIT_DATA, (used + allowed, used + allowed))
model.fit(X, y)
assert model.n_iter_ > 1
print(data() - used)
try:
    X.copy()
except MemoryError:
    print("no room for a copy")
"""


@pytest.mark.wide
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="Linux tells what is used")
@pytest.mark.parametrize(
    "kind, solver",
    [("dense", "auto"), ("csr", "auto"), ("dense", "line-search"), ("csr", "line-search")],
)
def test_fit_of_100_mb_in_20_numbers_a_sample(tmp_path, kind, solver):
    """RLIMIT_DATA counts what is allocated, not what is mapped; 48 MB for a sample and planes."""
    rng, n, d = np.random.default_rng(0), 100_000, 128
    blocks = []
    for _ in range(8):
        X = rng.normal(size=(n // 8, d if kind == "dense" else 85))
        y = (X[:, 0] + rng.normal(size=len(X)) > 0.0).astype(np.int64)
        if kind == "csr":
            columns = 20 * np.arange(85) + rng.integers(0, 20, size=X.shape)
            bounds = 85 * np.arange(len(X) + 1)
            X = sp.csr_matrix((X.ravel(), columns.ravel(), bounds), shape=(len(X), 1700))
        blocks.append((X, y))
    save_mapped(tmp_path / "mapped", blocks)
    size = sum(path.stat().st_size for path in (tmp_path / "mapped").iterdir())
    assert size > 100e6
    run = subprocess.run(
        [sys.executable, "-c", _FIT, str(tmp_path / "mapped"), kind, str(n), solver],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr
    assert "no room for a copy" in run.stdout


def test_a_pair_that_is_no_list_of_blocks(tmp_path):
    X, y = np.ones((3, 2)), np.arange(3)
    with pytest.raises(ValueError, match=r"blocks=\[\(X, y\)\]"):
        save_mapped(tmp_path / "folder", (X, y))
    sp.save_npz(tmp_path / "X.npz", sp.csr_matrix(X))
    with pytest.raises(ValueError, match="no arrays X and y"):
        save_mapped(tmp_path / "folder", tmp_path / "X.npz")
    assert not (tmp_path / "folder").exists()


@pytest.mark.parametrize("X", [np.full((3, 2), 1j), np.full((3, 2), "1"), sp.csr_array([[1j]] * 3)])
def test_what_is_no_real_number_is_refused(tmp_path, X):
    with pytest.raises(ValueError, match=r"^X must hold real numbers, got the type (<U1|complex)"):
        save_mapped(tmp_path / "rows", [(X, np.arange(3))])
    assert not (tmp_path / "rows").exists()


def test_a_part_of_a_pair_that_is_text(tmp_path):
    (tmp_path / "X.txt").write_text("1 1:2\n")
    with pytest.raises(ValueError, match=r"^X and y of a pair must be .*X.txt' cannot be read"):
        save_mapped(tmp_path / "rows", [(tmp_path / "X.txt", np.arange(1))])
