"""The tree: imports inside a family go down one list, and no family imports another."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "sklearn_bundle"

# Layers from the bottom. A module imports from its own layer and from those before it.
SHARED = (*(("jit",), ("core",), ("datasets", "metrics")),)
FAMILIES = {
    "linear": (
        *(("_compiled",), ("", "losses", "regularizers"), ("solvers", "blocks")),
        ("estimators",),
    ),
    "kernel": (("_compiled",), ("values",), ("",), ("solvers",), ("estimators",)),
    "chain": (
        ("_compiled",),
        ("",),
        ("readers",),
        ("estimators",),
    ),  # "": in no folder of their own
    "structured": (
        *(("_compiled",), ("models",), ("problems",), ("solvers.inner",), ("solvers",)),
        *(("readers",), ("estimators",)),
    ),
}
# What structured outputs may import of the linear family: products with rows, and checks of costs.
OF_LINEAR = {"_compiled", "losses"}
TOP = ("losses", "regularizers", "projection", "models", "plotting", "conversion", "__init__")

# What is not the public interface of another library comes in here, and nowhere else:
# tests/jit/test_internals.py holds its form.
DOORS = {"numba": "jit", "llvmlite": "jit"}
INTERNAL = ("llvmlite.", "numba.core.", "numba.extending.")  # without an underscore

SOURCES = {
    ".".join(path.relative_to(PACKAGE).with_suffix("").parts): ast.parse(
        path.read_text(encoding="utf-8")
    )
    for path in sorted(PACKAGE.rglob("*.py"))
}


def imports(module):
    """Modules of the package that a module imports, wherever the import stands."""
    found = set()
    for node in ast.walk(SOURCES[module]):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("sklearn_bundle"):
            place = node.module.split(".")[1:]
            for alias in node.names:
                for name in (".".join([*place, alias.name]), ".".join(place)):
                    if name in SOURCES or f"{name}.__init__" in SOURCES:
                        found.add(name if name in SOURCES else f"{name}.__init__")
                        break
        elif isinstance(node, ast.Import):
            names = (alias.name.partition(".")[2] for alias in node.names)
            found |= {name for name in names if name in SOURCES}
    return found


def place(module):
    """The family of a module, "" if it is of none, and its layer there."""
    folder = module.rpartition(".")[0]
    family, _, layer = folder.partition(".")
    if family in FAMILIES:
        return family, layer
    return "", folder if folder.startswith("core") else module.partition(".")[0]


def rank(family, layer):
    (found,) = (k for k, names in enumerate(FAMILIES.get(family, SHARED)) if layer in names)
    return found


def may_import(module, other):
    if module.partition(".")[0] in TOP:
        return True
    if other.partition(".")[0] in TOP:
        return False
    (family, layer), (theirs, lower) = place(module), place(other)
    if family == theirs:
        return rank(family, layer) >= rank(theirs, lower)
    if family == "structured" and theirs == "linear":
        return lower in OF_LINEAR
    return not theirs or (family, theirs) == ("structured", "chain")


@pytest.mark.parametrize("module", SOURCES)
def test_imports_go_down(module):
    wrong = {(module, other) for other in imports(module) if not may_import(module, other)}
    assert not wrong


def test_no_import_is_circular():
    order = TopologicalSorter({module: imports(module) for module in SOURCES}).static_order()
    assert set(order) == set(SOURCES)


def test_only_estimators_and_what_they_share_know_those_of_scikit_learn():
    users = {
        module
        for module, tree in SOURCES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "sklearn.base"
    }
    users.discard("structured.models.base")  # a model has parameters, for clones and searches
    assert {place(name)[1] for name in users} <= {*("core", "estimators", "readers", "plotting")}


def internals(module):
    """Names that a module imports of other libraries' insides, wherever the import stands."""
    for node in ast.walk(SOURCES[module]):
        if isinstance(node, ast.Import | ast.ImportFrom):
            of = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
            for name in (f"{of}{alias.name}" for alias in node.names):
                if not name.startswith("sklearn_bundle") and (
                    f"{name}.".startswith(INTERNAL) or "._" in name
                ):
                    yield name


def test_insides_of_other_libraries_come_in_through_one_module_each():
    for module in SOURCES:
        for name in internals(module):
            door = DOORS.get(name.partition(".")[0], "")
            assert door and f"{module}.".startswith(f"{door}."), f"{module} imports {name}"
