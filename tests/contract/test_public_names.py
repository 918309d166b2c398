"""Public names load on first use, and tools that list names see all of them."""

import ast
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import sklearn_bundle

LOADED = """
import sys, sklearn_bundle
print(sorted({"numba", "sklearn", "scipy"} & set(sys.modules)))
"""


def declared():
    """Name -> module, as type checkers read it in the block under TYPE_CHECKING."""
    tree = ast.parse(Path(sklearn_bundle.__file__).read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    return {alias.name: node.module for node in block.body for alias in node.names}


def test_the_import_alone_loads_no_library():
    command = [sys.executable, "-c", LOADED]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "[]\n"


def test_a_star_import_gives_what_type_checkers_see():
    names = {}
    exec("from sklearn_bundle import *", names)
    assert set(declared()) == set(sklearn_bundle.__all__) - {"__version__"}
    assert [name for name in sklearn_bundle.__all__ if name not in names] == []
    assert set(sklearn_bundle.__all__) <= set(dir(sklearn_bundle))


@pytest.mark.parametrize(("name", "module"), declared().items())
def test_a_name_comes_from_the_module_that_type_checkers_are_told(name, module):
    value = getattr(sklearn_bundle, name)
    found = value.__name__ if inspect.ismodule(value) else value.__module__
    assert found == (f"{module}.{name}" if inspect.ismodule(value) else module)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'BMRMClasifier'"):
        sklearn_bundle.BMRMClasifier  # noqa: B018


def test_what_a_library_lacks_is_told(monkeypatch):
    def fail(module):
        raise AttributeError("module 'numba' has no attribute 'njit'")

    monkeypatch.setattr(sklearn_bundle, "import_module", fail)
    monkeypatch.delitem(vars(sklearn_bundle), "BMRMClassifier", raising=False)
    with pytest.raises(ImportError, match=r"bmrm cannot be imported: .* 'njit'"):
        from sklearn_bundle import BMRMClassifier  # noqa: F401


def test_the_docstring_has_a_row_for_each_estimator_and_names_all_else():
    table, _, below = sklearn_bundle.__doc__.partition("Functions:")
    rows = re.findall(r"^(\w+)  +\S", table.split("\n==")[2], re.MULTILINE)
    public = {name: getattr(sklearn_bundle, name) for name in sklearn_bundle.__all__}
    kinds = {name for name, value in public.items() if inspect.isclass(value)}
    assert sorted(rows) == sorted(kinds)
    assert {name for name in public if f"``{name}``" in below} == set(public) - kinds - {
        "__version__"
    }
