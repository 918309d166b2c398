"""The layers: no import goes up, none is circular, and the walks of the guide are true."""

import ast
import re
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "sklearn_bundle"
GUIDE = Path(__file__).parents[1] / "doc" / "house.rst"
# From the ground up. Rooms of one floor may use each other, as long as nothing goes round.
FLOORS = (
    ("_jit", "_fragments", "_cache", "_announce", "_bars", "_pages", "_roundoff"),
    (
        "_parallel",
        "_blas",
        "_values",
        "_repr",
        "_sparse",
        "_parameters",
        "_weights",
        "_dask",
        "_dask_rows",
        "_misread",
    ),
    ("callbacks",),
    ("_compiled",),
    ("_numeric",),
    ("losses", "regularizers", "projection", "models", "datasets", "metrics"),
    ("problems",),
    ("solvers",),
    ("estimators",),
    ("plotting", "onnx"),
    ("compile",),
    ("__init__",),
)
RANK = {room: rank for rank, rooms in enumerate(FLOORS) for room in rooms}
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
    return found


def rank(module):
    return RANK[module.split(".")[0]]


@pytest.mark.parametrize("module", SOURCES)
def test_no_import_climbs(module):
    assert [other for other in imports(module) if rank(other) > rank(module)] == []


def test_no_import_goes_round():
    order = TopologicalSorter({module: imports(module) for module in SOURCES}).static_order()
    assert set(order) == set(SOURCES)


def test_no_floor_but_the_problems_and_above_knows_scikit_learn_s_estimators():
    users = {
        module
        for module, tree in SOURCES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "sklearn.base"
    }
    users.discard("models.base")  # a model has parameters, for clones and searches
    assert {module.split(".")[0] for module in users} <= {"estimators", "plotting"}


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
    "walk", [f"walk-of-{name}" for name in ("bmrm", "swap", "crf", "structured")]
)
def test_a_walk_of_the_guide_names_what_there_is_and_turns_once(walk):
    hops = [(path.replace("/", "."), name) for path, name in HOP.findall(WALKS[walk])]
    assert [hop for hop in hops if not defined(SOURCES[hop[0]], hop[1])] == []
    ranks = [rank(module) for module, _ in hops]
    turn = ranks.index(RANK["_compiled"])
    assert ranks[: turn + 1] == sorted(ranks[: turn + 1], reverse=True)
    assert ranks[turn:] == sorted(ranks[turn:])
    assert ranks[0] == ranks[-1] == RANK["estimators"]
