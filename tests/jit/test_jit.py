"""What is compiled when, and the cache of machine code: fresh after an edit or an upgrade."""

import ast
import gc
import os
import pickle
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest
from numba.core.registry import CPUDispatcher
from sklearn.base import is_regressor

import sklearn_bundle
from sklearn_bundle import SDCACRF, BMRMClassifier, BMRMRegressor, SwapSVR
from sklearn_bundle.jit import decorators
from sklearn_bundle.jit.decorators import compiled_sources, jit, source_stamp
from sklearn_bundle.linear._compiled.rows import dense_scores

PACKAGE = Path(sklearn_bundle.__file__).parent
X = np.random.default_rng(0).normal(size=(30, 2)) + 3.0


def run(program, folder, **environment):
    """What a new process prints, with this folder first on its path."""
    command = [sys.executable, "-c", program]
    environment = os.environ | environment
    further = {"capture_output": True, "text": True, "check": True}
    return subprocess.run(command, cwd=folder, env=environment, **further).stdout


def copy_of_package(folder):
    ignored = shutil.ignore_patterns("__pycache__")
    return Path(shutil.copytree(PACKAGE, folder / "sklearn_bundle", ignore=ignored))


# ---- names of files ------------------------------------------------------------------------------


def test_the_stamp_is_in_the_names_of_files_and_nowhere_else(tmp_path, monkeypatch):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))

    def twice(x):
        return 2.0 * x

    compiled = jit(twice)
    assert compiled(2.0) == 4.0
    found = [path.name for path in tmp_path.rglob("*.nb[ic]")]
    assert len(found) == 2 and all(source_stamp() in name for name in found)
    for function in (compiled, compiled.py_func):
        assert function.__qualname__.endswith("<locals>.twice")
    assert dense_scores.__qualname__ == "dense_scores" and source_stamp() not in repr(dense_scores)
    again = pickle.loads(pickle.dumps(dense_scores))
    out = np.zeros(1)
    again(np.ones((1, 2)), np.ones(2), 0, 1, out)
    assert out[0] == 2.0


def test_stamp_is_of_all_that_compiled_code_uses():
    others = set()
    for path in compiled_sources():
        if path.parent.name in ("_compiled", "jit"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ImportFrom) and node.module.startswith("sklearn_bundle"):
                    place = PACKAGE.joinpath(*node.module.split(".")[1:])
                    of_each = [place / f"{alias.name}.py" for alias in node.names]
                    others.update(f if f.exists() else place.with_suffix(".py") for f in of_each)
    assert others <= set(compiled_sources())


RISK = """
import numpy as np
from sklearn_bundle.linear._compiled import scores
from sklearn_bundle.linear.losses.poisson import PoissonFormula
given = -np.ones(1), np.zeros(1), np.ones(1), np.inf, 0.0, 0.0, np.zeros(1)
print(repr(float(scores.cut(PoissonFormula(), *given)[0])))  # exp, of another file
"""


@pytest.mark.wide
def test_edits_elsewhere_and_upgrades_compile_again(tmp_path):
    """Of an index numba unpickles the types before it looks whether it is of this source."""
    package, cache = copy_of_package(tmp_path), {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    assert float(run(RISK, tmp_path, **cache)) == pytest.approx(np.exp(-1.0))
    exp = package / "jit" / "elementary.py"
    exp.write_text(exp.read_text().replace("np.inf if x > 709.0 else value", "7.0"))
    assert float(run(RISK, tmp_path, **cache)) == 7.0
    poisson = package / "linear" / "losses" / "poisson.py"
    poisson.write_text(poisson.read_text().replace("PoissonFormula", "CountFormula"))
    renamed = RISK.replace("PoissonFormula", "CountFormula")
    assert float(run(renamed, tmp_path, **cache)) == 7.0


OWN_LOSS = """
from typing import NamedTuple
from sklearn_bundle.jit.decorators import registered
from sklearn_bundle.linear._compiled import scores

class Formula(NamedTuple):
    pass

@registered(scores.value, Formula)
def value(loss, f, r, y):
    return 3.0 * abs(r)

@registered(scores.slope, Formula)
def slope(loss, f, r, y, steepness):
    return 0.0

@registered(scores.conjugate, Formula)
def conjugate(loss, u, y, center):
    return 0.0
"""
OWN_VALUE = """
import numpy as np
from sklearn_bundle.jit.decorators import seconds_compiled
from sklearn_bundle.linear._compiled import scores
from own_loss import Formula
given = np.ones(1), np.zeros(1), np.ones(1), np.inf, 0.0, 0.0, np.zeros(1)
print(scores.cut(Formula(), *given)[0], seconds_compiled() > 0.0)
"""
OTHER_VALUE = """
import numpy as np
from sklearn_bundle.linear._compiled import scores
from sklearn_bundle.linear.losses import Hinge
given = np.zeros(1), np.ones(1), np.ones(1), np.inf, 0.0, 0.0, np.zeros(1)
print(scores.cut(Hinge().formula, *given)[0])
"""


@pytest.mark.wide
def test_a_loss_outside_the_package_is_stored_until_its_source_changes(tmp_path):
    """And breaks no other one where its module is missing."""
    source = tmp_path / "own_loss.py"
    environment = {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": str(PACKAGE.parent)}
    source.write_text(OWN_LOSS)
    values = [run(OWN_VALUE, tmp_path, **environment).split() for _ in range(2)]
    assert values == [["3.0", "True"], ["3.0", "False"]]
    source.write_text(OWN_LOSS.replace("3.0", "7.0"))
    assert run(OWN_VALUE, tmp_path, **environment).split() == ["7.0", "True"]
    in_main = OWN_LOSS + OWN_VALUE.replace("from own_loss import Formula", "")
    values = [run(in_main, tmp_path, **environment).split() for _ in range(2)]
    assert values == [["3.0", "True"]] * 2
    source.unlink()
    assert run(OTHER_VALUE, tmp_path, **environment).split() == ["1.0"]


UNWRITABLE = """
import warnings
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("default")
    from sklearn_bundle.jit import sampling
    from sklearn_bundle.linear._compiled import rows
    import numpy as np
    sampling.grow(np.ones(8), False)
print([str(w.message) for w in seen if "NUMBA_CACHE_DIR" in str(w.message)])
"""


def test_without_a_writable_folder_it_works_and_says_so_once(tmp_path):
    package = copy_of_package(tmp_path)
    for folder in [package, *(path for path in package.rglob("*") if path.is_dir())]:
        (folder / "__pycache__").touch()  # a file: so not even root can write into it
    nowhere = {"HOME": os.devnull, "XDG_CACHE_HOME": os.devnull, "NUMBA_CACHE_DIR": os.devnull}
    found = ast.literal_eval(run(UNWRITABLE, tmp_path, **nowhere))
    assert len(found) == 1 and "no writable folder" in found[0]


def test_disabled_compilation_is_refused(monkeypatch):
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    with pytest.raises(ImportError, match="NUMBA_DISABLE_JIT is set"):
        runpy.run_path(decorators.__file__)


# ---- what is compiled ----------------------------------------------------------------------------


FIT = """
import numpy as np
from sklearn_bundle import SwapNoveltyDetector
from sklearn_bundle.jit.decorators import seconds_compiled
SwapNoveltyDetector().fit(np.eye(9)).predict(np.eye(9))
print(seconds_compiled())
"""


@pytest.mark.wide
def test_a_later_process_compiles_nothing(tmp_path):
    seconds = [float(run(FIT, tmp_path, NUMBA_CACHE_DIR=str(tmp_path))) for _ in range(2)]
    assert seconds[0] > 0.0 and seconds[1] == 0.0


@pytest.mark.parametrize(
    "model", [BMRMRegressor(), SwapSVR(), BMRMClassifier(), SDCACRF()], ids=type
)
def test_read_only_arrays_run_the_same_code(model):
    """Those of data frames and of joblib: they need no versions of their own."""
    y = X[:, 0] if is_regressor(model) else X[:, 0] > 3.0
    arrays = [array.copy() for array in (X, y, np.linspace(0.5, 1.0, len(X)))]
    after = []
    for _ in range(2):
        model.fit(*arrays[:2], sample_weight=arrays[2]).predict(arrays[0])
        after.append(versions_of_ours())
        for array in arrays:
            array.flags.writeable = False
    assert after[0] == after[1]


def versions_of_ours():
    """The signatures of every compiled function."""
    found = [d for d in gc.get_objects() if type(d) is CPUDispatcher]
    names = [f"{d.py_func.__module__}.{d.py_func.__qualname__}" for d in found]
    pairs = zip(names, found, strict=True)
    return sorted((n, str(s)) for n, d in pairs if n.startswith("sklearn_b") for s in d.overloads)


def test_python_gets_no_named_tuples():
    """Ctrl-C while numba makes one of them ends the process with a segmentation fault."""
    trees = {
        "/".join(path.parts[-3:]): ast.parse(path.read_text(encoding="utf-8"))
        for path in compiled_sources()
    }
    nodes = [(name, node) for name, tree in trees.items() for node in ast.walk(tree)]
    kinds = {
        node.name
        for _, node in nodes
        if isinstance(node, ast.ClassDef) and "NamedTuple" in map(ast.unparse, node.bases)
    }
    functions = [
        (name, node)
        for name, node in nodes
        if isinstance(node, ast.FunctionDef)
        and any(ast.unparse(mark).startswith("jit") for mark in node.decorator_list)
    ]
    names = [(name, node.name) for name, node in functions]
    assert "Matrix" in kinds and ("kernel/_compiled/pairs.py", "solve_pairs") in names
    wrong = [
        (name, node.name, ast.unparse(call.func))
        for name, node in functions
        for returned in ast.walk(node)
        if isinstance(returned, ast.Return) and returned.value is not None
        for call in ast.walk(returned.value)
        if isinstance(call, ast.Call) and ast.unparse(call.func).rpartition(".")[2] in kinds
    ]
    assert not wrong
