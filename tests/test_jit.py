"""The cache of machine code: fresh after an edit elsewhere, absent where it cannot be written."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest

import sklearn_bundle
from sklearn_bundle._compiled.design import blend
from sklearn_bundle._jit import jit, source_stamp

PROGRAM = """
import numpy as np
from sklearn_bundle.losses import _poisson
slopes = np.empty(1)
_poisson.slopes(-np.ones(1), np.zeros(1), 0.0, slopes)  # exp, compiled in another file
print(repr(slopes[0].item()))
"""


def test_stamp_is_where_numba_looks_for_it():
    assert blend._cache._cache_file._source_stamp == source_stamp()


@pytest.mark.wide
def test_edit_in_another_file_is_seen(tmp_path):
    shutil.copytree(
        Path(sklearn_bundle.__file__).parent,
        tmp_path / "sklearn_bundle",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    elementary = tmp_path / "sklearn_bundle" / "_compiled" / "elementary.py"
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}

    def run():
        output = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        return float(output.stdout)

    assert run() == pytest.approx(np.exp(-1.0))
    elementary.write_text(elementary.read_text().replace("np.inf if x > 709.0 else value", "7.0"))
    assert run() == 7.0


def test_no_writable_cache_folder(monkeypatch):
    from numba.core import caching

    monkeypatch.setattr(caching.CompileResultCacheImpl, "_locator_classes", [])
    with pytest.raises(RuntimeError, match="no locator"):
        numba.njit(cache=True)(lambda x: x)

    @jit
    def twice(x):
        return 2.0 * x

    assert twice(2.0) == 4.0
