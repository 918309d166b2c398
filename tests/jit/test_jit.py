"""The cache of machine code: fresh after an edit elsewhere, absent where it cannot be written."""

import ast
import importlib.util
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest
from numba.core import caching, config

import sklearn_bundle
from sklearn_bundle.jit import announce
from sklearn_bundle.jit.cache import _StampedFile
from sklearn_bundle.jit.decorators import compiled_sources, inner, jit, source_stamp
from sklearn_bundle.linear._compiled.rows import dense_scores

PROGRAM = """
import numpy as np
from sklearn_bundle.linear._compiled import scores
from sklearn_bundle.linear.losses.poisson import PoissonFormula
given = -np.ones(1), np.zeros(1), np.ones(1), 0.0
print(repr(float(scores.risk(PoissonFormula(), *given))))  # exp, of another file
"""


def test_stamp_is_where_numba_looks_for_it():
    assert dense_scores._cache._cache_file._source_stamp == source_stamp()


def test_stamp_is_of_all_that_compiled_code_uses():
    package, others = Path(sklearn_bundle.__file__).parent, set()
    for path in compiled_sources():
        if path.parent.name in ("_compiled", "jit") and path.name != "announce.py":
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ImportFrom) and node.module.startswith("sklearn_bundle"):
                    place = package.joinpath(*node.module.split(".")[1:])
                    of_each = [place / f"{alias.name}.py" for alias in node.names]
                    others.update(f if f.exists() else place.with_suffix(".py") for f in of_each)
    assert others <= set(compiled_sources())


@pytest.mark.wide
def test_edit_in_another_file_is_seen(tmp_path):
    shutil.copytree(
        Path(sklearn_bundle.__file__).parent,
        tmp_path / "sklearn_bundle",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    elementary = tmp_path / "sklearn_bundle" / "jit" / "elementary.py"
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


OWN_LOSS = """
from typing import NamedTuple
from sklearn_bundle.jit.decorators import registered
from sklearn_bundle.linear._compiled import scores

class Formula(NamedTuple):
    pass

@registered(scores.value, Formula)
def value(loss, f, r, y):
    return 3.0 * abs(r)
"""
OWN_VALUE = """
import numpy as np
from sklearn_bundle.linear._compiled import scores
from own_loss import Formula
value = scores.risk(Formula(), np.ones(1), np.zeros(1), np.ones(1), 0.0)
print(value, scores.risk.stats.cache_hits[scores.risk.signatures[0]])
"""
OTHER_VALUE = """
import numpy as np
from sklearn_bundle.linear._compiled import scores
from sklearn_bundle.linear.losses import Exponential
print(scores.risk(Exponential().formula, np.zeros(1), np.ones(1), np.ones(1), 0.0))
"""


@pytest.mark.wide
def test_a_loss_outside_the_package_is_stored_until_its_source_changes(tmp_path):
    """And breaks no other one where its module is missing."""
    source, root = tmp_path / "own_loss.py", str(Path(sklearn_bundle.__file__).parents[1])
    source.write_text(OWN_LOSS)
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": root}

    def run(program):
        command = [sys.executable, "-c", program]
        further = {"capture_output": True, "text": True, "check": True}
        return subprocess.run(command, cwd=tmp_path, env=environment, **further).stdout.split()

    assert [run(OWN_VALUE) for _ in range(2)] == [["3.0", "0"], ["3.0", "1"]]
    source.write_text(OWN_LOSS.replace("3.0", "7.0"))
    assert run(OWN_VALUE) == ["7.0", "0"]
    source.unlink()
    assert run(OTHER_VALUE) == ["1.0"]


def test_no_writable_cache_folder(monkeypatch):
    monkeypatch.setattr(caching.CompileResultCacheImpl, "_locator_classes", [])
    with pytest.raises(RuntimeError, match="no locator"):
        numba.njit(cache=True)(lambda x: x)

    @jit
    def twice(x):
        return 2.0 * x

    with pytest.warns(RuntimeWarning, match="NUMBA_CACHE_DIR"):
        monkeypatch.setattr(announce._ANNOUNCER, "_warned", False)
        monkeypatch.setattr(announce, "_is_ours", lambda event: True)
        assert twice(2.0) == 4.0


def test_folder_that_cannot_be_written_is_read(tmp_path, monkeypatch):
    """As in an image that was filled by its builder and is run by somebody else."""
    monkeypatch.setattr(config, "CACHE_DIR", "")
    source = tmp_path / "kernel.py"
    source.write_text("def twice(x):\n    return 2.0 * x\n")

    def compiled():
        spec = importlib.util.spec_from_file_location("kernel", source)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return jit(module.twice)

    assert compiled()(2.0) == 4.0
    filled = sorted((tmp_path / "__pycache__").iterdir())
    monkeypatch.setattr(caching.CompileResultCacheImpl, "_locator_classes", [])
    again = compiled()
    assert again(3.0) == 6.0
    assert again.stats.cache_hits and not again.stats.cache_misses
    assert again(3) == 6  # integers are not in it, and are not written
    assert again.stats.cache_misses
    assert sorted((tmp_path / "__pycache__").iterdir()) == filled


def test_index_of_other_sources_is_not_unpickled(tmp_path, monkeypatch):
    """It may name classes that the sources no longer have."""
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))

    def doubled():
        return jit(lambda x: 2.0 * x)

    assert doubled()(2.0) == 4.0
    (index,) = tmp_path.rglob("*.nbi")
    index.write_bytes(pickle.dumps(numba.__version__) + b"not a pickle")
    assert doubled()(2.0) == 4.0


def test_code_of_another_signature_is_compiled_again(tmp_path, monkeypatch):
    """Two processes that compile at once may leave it in the file of this one."""
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))

    def doubled():
        return jit(lambda x: 2.0 * x)

    both = doubled()
    assert both(2.0) == 4.0 and both(3) == 6.0
    first, second = sorted(tmp_path.rglob("*.nbc"))
    shutil.copy(first, second)
    again = doubled()
    assert again(2.0) == 4.0 and again(3) == 6.0
    assert [len(seen) for seen in (again.stats.cache_hits, again.stats.cache_misses)] == [1, 1]


def test_code_of_other_sources_is_not_loaded(tmp_path):
    """Another process may have written its index, and not yet the file that this one left."""
    key = (), "code"
    old, new = (_StampedFile(str(tmp_path), "kernel", stamp) for stamp in (b"old", b"new"))
    old.save(key, "of old sources")
    assert old.load(key) == "of old sources"
    new._save_index(old._load_index())
    assert new.load(key) is None
    new.save(key, "of new sources")
    assert new.load(key) == "of new sources"


@inner
def scaled(factor, x):
    return factor * x


@inner
def shifted(x, k):
    return x + k


def test_inner_functions_are_compiled_once_for_all_constants(tmp_path, monkeypatch):
    """By a private method of numba: without it there is one for each constant."""
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))  # empty: it has to be compiled

    @jit
    def with_constants(x):
        return shifted(x, 0) + shifted(x, 1) + shifted(x, 2)

    assert with_constants(1.0) == 6.0
    assert len(shifted.signatures) == 1


def test_functions_of_others_that_ours_call_are_compiled_as_always():
    """A loss or a model of a user's own may call them, and the user may call them too."""

    @numba.njit
    def theirs(x):
        return np.ones(3, dtype=np.uint8).sum() + max(x, 1.0)

    @numba.vectorize
    def doubled(x):
        return 2.0 * x

    @inner
    def within(x):
        return theirs(x) + doubled(x)

    @jit
    def ours(x):
        return within(x)

    assert ours(2.0) == 9.0
    assert theirs(2.0) == 5.0
    np.testing.assert_array_equal(doubled(np.array([1.0, 3.0])), [2.0, 6.0])


def test_inner_functions_are_machine_code_only_within_their_callers(tmp_path, monkeypatch):
    """Also if they come from a cache, to another caller."""
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))
    half = inner(scaled.py_func)

    @jit
    def at_quarter(x):
        return half(0.5, half(0.5, x))

    assert at_quarter(4.0) == 1.0
    ((of_half, code),) = ((c.fndesc.llvm_func_name, c.library) for c in half.overloads.values())
    assert of_half in {function.name for function in code.get_defined_functions()}
    assert of_half.encode() not in code._compiled_object
    half = inner(scaled.py_func)

    @jit
    def at_half(x):
        return half(0.5, x)

    assert at_half(4.0) == 2.0
    assert half.stats.cache_hits and not half.stats.cache_misses


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
        if isinstance(node, ast.FunctionDef) and "jit" in map(ast.unparse, node.decorator_list)
    ]
    names = [(name, node.name) for name, node in functions]
    assert "Dual" in kinds and ("kernel/_compiled/pairs.py", "solve_pairs") in names
    wrong = [
        (name, node.name, ast.unparse(call.func))
        for name, node in functions
        for returned in ast.walk(node)
        if isinstance(returned, ast.Return) and returned.value is not None
        for call in ast.walk(returned.value)
        if isinstance(call, ast.Call) and ast.unparse(call.func).rpartition(".")[2] in kinds
    ]
    assert not wrong


UNTRIED = """
import numba
numba.__version__ = "99.0.0"
from sklearn_bundle.jit.decorators import FRAGMENT, inner, jit
half = inner(lambda x: 0.5 * x)
assert jit(lambda x: half(half(x)))(4.0) == 1.0
print(sorted(FRAGMENT))
"""


@pytest.mark.wide
def test_numba_compiles_as_it_does_by_itself_in_untried_versions():
    command = [sys.executable, "-c", UNTRIED]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    assert answer.stdout == "['no_cpython_wrapper']\n"
