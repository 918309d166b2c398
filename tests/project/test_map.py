"""The map of tests/__init__.py against the folders; files of tests do not import each other."""

import ast
import re
from pathlib import Path

import tests

HERE = Path(__file__).parents[1]
PACKAGE = HERE.parent / "sklearn_bundle"
FILES = sorted(HERE.rglob("test_*.py"))
HELPERS = sorted(set(HERE.glob("*.py")) - set(FILES))


def read_map():
    """Patterns of modules of each file of tests, both from their root."""
    modules, folder, name = {}, ".", None
    for line in tests.__doc__.partition("\n.\n")[2].splitlines():
        words = line.split()
        if words and not line.startswith(" "):
            (folder,) = words
        elif words:
            if words[0].startswith("test_"):
                name = str(Path(re.sub(r"(^|/)_", r"\1", folder), words.pop(0)))
                modules[name] = []
            modules[name] += [w[1:] if w[0] == "/" else str(Path(folder, w)) for w in words]
    return modules


def test_every_file_of_tests_is_on_the_map():
    assert sorted(read_map()) == sorted(str(file.relative_to(HERE)) for file in FILES)


def test_every_module_is_on_the_map():
    known = set()
    for name, modules in read_map().items():
        for module in modules:
            found = set(PACKAGE.glob(module))
            assert found, f"{name}: there is no {module}"
            known |= found.union(*(folder.rglob("*.py") for folder in found if folder.is_dir()))
    modules = {file for file in PACKAGE.rglob("*.py") if file.name != "__init__.py"}
    assert not {str(module.relative_to(PACKAGE)) for module in modules - known}


def test_files_of_tests_are_imported_by_none():
    for file in [*FILES, *HELPERS]:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
                assert not any(n.startswith("tests.") and ".test_" in n for n in names), file


def test_what_tests_share_has_no_tests():
    for file in HELPERS:
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            name = getattr(node, "name", "")
            assert not name.startswith(("test_", "Test")), f"{file}: {name}"
