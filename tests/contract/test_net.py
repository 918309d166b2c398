"""The net knows the public interface, and nothing behind it: so it outlives what it tests."""

import ast
from importlib import import_module
from pathlib import Path

import pytest

import sklearn_bundle

HERE = Path(__file__).parent
SOURCES = [*sorted(HERE.glob("*.py")), *sorted(HERE.parent.glob("reference*.py"))]
PUBLIC = {"losses", "models", "regularizers", "metrics", "datasets", "plotting"}
PUBLIC |= {"projection"}


def imported(tree):
    """Pairs of module and name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield from ((node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_only_public_names(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for module, name in imported(tree):
        package, _, part = module.partition(".")
        if package == "tests":
            stem = part or name or ""
            assert stem.startswith(("contract", "reference")), f"{module} is not of the net"
        if package != "sklearn_bundle":
            continue
        assert not path.stem.startswith("reference"), "a reference has code of its own"
        assert not part or part in PUBLIC, f"{module} is not public"
        home = import_module(module)
        assert name is None or name in getattr(home, "__all__", dir(home)), f"{module}.{name}"


OTHERS = {"_replace", "_gamma", "__notes__", "_repr_html_"}  # of tuples, scikit-learn, Python


@pytest.mark.parametrize("path", sorted(HERE.glob("*.py")), ids=lambda path: path.stem)
def test_no_private_attribute_of_the_package(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    own = {"self", "cls", "super"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr.startswith("_"):
            is_own = isinstance(node.value, ast.Name) and node.value.id in own
            is_special = node.attr.startswith("__") and node.attr.endswith("__")
            assert is_own or is_special or node.attr in OTHERS, f"{path.name}: .{node.attr}"


def test_all_public_estimators_are_in_the_table():
    from tests.contract.cases import CASES

    named = {type(case.model).__name__ for case in CASES}
    kinds = {name for name in sklearn_bundle.__all__ if name[0].isupper()}
    assert kinds == named
