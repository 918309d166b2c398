"""The tree: imports inside a family go down one list, and no family imports another.

Also that no import is circular, and that the walks of the architecture page are true.
"""

import ast
import re
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "sklearn_bundle"
GUIDE = Path(__file__).parents[1] / "doc" / "house.rst"

# Layers from the bottom. A module imports from its own layer and from those before it.
SHARED = (
    *(("jit",), ("core._compiled",), ("core", "callbacks"), ("core.numeric",)),
    ("projection", "datasets", "metrics"),
)
FAMILIES = {
    "linear": (
        *(("_compiled",), ("losses", "regularizers"), ("rows",), ("problems",)),
        *(("solvers.inner",), ("solvers",), ("estimators",)),
    ),
    "kernel": (("_compiled",), ("values",), ("problems",), ("solvers",), ("estimators",)),
    "chain": (  # "": modules in no folder of their own
        *(("_compiled",), ("",), ("solvers",), ("readers",), ("estimators",)),
    ),
    "structured": (
        *(("_compiled",), ("models",), ("problems",), ("solvers.inner",), ("solvers",)),
        *(("readers",), ("estimators",)),
    ),
}
# What structured outputs may import of the linear family: the bundle method for their planes, the
# excessive gap method for marginals, and the costs of joint losses of classes.
OF_LINEAR = {"_compiled", "losses", "problems", "solvers.inner", "solvers"}
TOP = ("losses", "regularizers", "models", "plotting", "onnx", "compile", "__init__")

# The one import against the rules: a line says what compiles, and has to know of progress bars.
EXCEPTIONS = {("jit.announce", "core.bars")}

SOURCES = {
    ".".join(path.relative_to(PACKAGE).with_suffix("").parts): ast.parse(
        path.read_text(encoding="utf-8")
    )
    for path in sorted(PACKAGE.rglob("*.py"))
}
HOP = re.compile(r"^   \* - ``([\w/]+)\.py: ([\w.]+)``$", re.MULTILINE)
WALK = re.compile(r"\n\.\. _(walk-of-\w+):\n(.*?)(?=\n\.\. _|\Z)", re.DOTALL)
WALKS = dict(WALK.findall(GUIDE.read_text(encoding="utf-8")))


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
    assert wrong == {pair for pair in EXCEPTIONS if pair[0] == module}


def test_exceptions_are_of_modules_that_there_are():
    assert {name for pair in EXCEPTIONS for name in pair} <= set(SOURCES)


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
    assert {place(name)[1] for name in users} <= {"core", "estimators", "readers", "plotting"}


# Of layers on a walk; the others are between compiled code and solvers.
HEIGHTS = {"_compiled": 0, "solvers.inner": 2, "solvers": 2, "readers": 3, "estimators": 3}


def defined(tree, name):
    """Whether a module defines ``function``, ``Class`` or ``Class.method``."""
    body = tree.body
    for part in name.split("."):
        found = [node for node in body if getattr(node, "name", None) == part]
        if not found:
            return False
        body = getattr(found[-1], "body", [])
    return True


@pytest.mark.parametrize(
    "walk, family",
    [("bmrm", "linear"), ("swap", "kernel"), ("crf", "chain"), ("structured", "structured")],
)
def test_a_walk_of_the_guide_names_what_there_is_and_turns_once(walk, family):
    hops = HOP.findall(WALKS[f"walk-of-{walk}"])
    hops = [(path.replace("/", "."), name) for path, name in hops]
    assert [hop for hop in hops if not defined(SOURCES[hop[0]], hop[1])] == []
    places = [place(module) for module, _ in hops]
    assert {home for home, _ in places} <= {family, ""}
    heights = [HEIGHTS.get(layer, 1) for home, layer in places if home]
    turn = heights.index(0)
    assert heights[: turn + 1] == sorted(heights[: turn + 1], reverse=True)
    assert heights[turn:] == sorted(heights[turn:])
    assert heights[0] == heights[-1] == 3
