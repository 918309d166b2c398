"""X on disk, as read-only memory maps: the bits of fits in memory, without a copy."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from sklearn_bundle import BMRMClassifier, PragamSVC, SwapSVC

PARTS = "data", "indices", "indptr"


def written(X, folder):
    """The array, or the three arrays of CSR, in files."""
    for name in PARTS if sp.issparse(X) else ():
        np.save(folder / f"{name}.npy", getattr(X, name))
    if not sp.issparse(X):
        np.save(folder / "X.npy", X)


def mapped(folder, shape):
    maps = {path.stem: np.load(path, mmap_mode="r") for path in folder.glob("*.npy")}
    if "X" in maps:
        return maps["X"]
    X = sp.csr_matrix(shape, dtype=maps["data"].dtype)
    for name in PARTS:  # the constructor would copy 64-bit indices that fit into 32 bits
        setattr(X, name, maps[name])
    return X


@pytest.mark.parametrize("kind", ["dense", "csr", "int64"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    "model", [BMRMClassifier(reg_lambda=1e-2), PragamSVC(tol=1e-2), SwapSVC()], ids=repr
)
def test_same_bits_as_in_memory(tmp_path, kind, dtype, model):
    rng = np.random.default_rng(0)
    X = sp.random(60, 40, 0.2, format="csr", dtype=dtype, random_state=0)
    y = X @ rng.normal(size=40) > 0.0
    X = X.toarray() if kind == "dense" else X
    if kind == "int64":
        X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    written(X, tmp_path)
    on_disk = mapped(tmp_path, X.shape)
    part = on_disk if kind == "dense" else on_disk.data
    assert not part.flags.writeable
    expected = model.fit(X, y).objective_, model.lower_bound_, *model.decision_function(X)
    model.fit(on_disk, y)
    found = model.objective_, model.lower_bound_, *model.decision_function(on_disk)
    np.testing.assert_array_equal(found, expected)


_FIT = """
import resource, sys
from pathlib import Path
import numpy as np
from sklearn_bundle import BMRMClassifier
from tests.contract.test_memory_maps import mapped

folder, kind, n_samples, solver = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4]
X, y = mapped(folder, (n_samples, 1700)), np.arange(n_samples) % 2
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
@pytest.mark.parametrize("kind", ["dense", "csr"])
@pytest.mark.parametrize("solver", ["auto", "line-search"])
def test_fit_of_100_mb_in_20_numbers_a_sample(tmp_path, kind, solver):
    """RLIMIT_DATA counts what is allocated, not what is mapped; 48 MB for a sample and planes."""
    rng, n = np.random.default_rng(0), 100_000
    X = rng.normal(size=(n, 128 if kind == "dense" else 85))
    X[:, 0] += 0.5 * (-1.0) ** np.arange(n)
    if kind == "csr":
        columns = 20 * np.arange(85) + rng.integers(0, 20, size=X.shape)
        bounds = 85 * np.arange(n + 1)
        X = sp.csr_matrix((X.ravel(), columns.ravel(), bounds), shape=(n, 1700))
    written(X, tmp_path)
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) > 100e6
    run = subprocess.run(
        [sys.executable, "-c", _FIT, str(tmp_path), kind, str(n), solver],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=Path(__file__).parents[2],
    )
    assert run.returncode == 0, run.stderr
    assert "no room for a copy" in run.stdout
