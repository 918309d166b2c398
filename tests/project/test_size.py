"""How large each part is: no part may grow beyond what an issue has brought it to.

An issue that makes a part smaller writes the new number down here. A folder that ends in ``_next``,
in which a second edition grows beside the first, does not count while its issue is open.
"""

import ast
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LIMITS = {
    "linear": 7500,
    "kernel": 3196,
    "chain": 2100,
    "structured": 3597,
    "core": 2514,
    "jit": 347,
    "other": 1000,
    "compiled functions": 210,
    "modules": 149,
    "tests": 18000,
    "asv_benchmarks": 5321,
    "doc": 33822,
}
#: Decorators of functions that numba compiles.
COMPILED = {"jit", "inner", "inlined", "njit", "registered", "overload", "intrinsic"}
COMPILED |= {"kernel", "jit_by_kind"}
DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
GENERATED = {"_build", "generated", "auto_examples", "__pycache__"}


def files(folder, ending):
    for path in sorted((ROOT / folder).rglob(f"*{ending}")):
        if not GENERATED.intersection(path.parts):
            yield path, path.read_text(encoding="utf-8")


def code_lines(text, tree):
    """Lines that are neither blank, nor comments, nor docstrings."""
    skipped = set()
    for node in ast.walk(tree):
        first = node.body[0] if isinstance(node, DOCUMENTED) and node.body else None
        value = first.value if isinstance(first, ast.Expr) else None
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            skipped.update(range(value.lineno, (value.end_lineno or value.lineno) + 1))
    lines = enumerate(text.split("\n"), start=1)
    return sum(
        number not in skipped and bool(line.strip()) and not line.strip().startswith("#")
        for number, line in lines
    )


def is_compiled(function):
    """Whether numba compiles it, by the names of its decorators without a module or arguments."""
    names = {ast.unparse(mark).partition("(")[0] for mark in function.decorator_list}
    return bool({name.rpartition(".")[2] for name in names} & COMPILED)


@pytest.fixture(scope="module")
def sizes():
    found = Counter()
    for path, text in files("sklearn_bundle", ".py"):
        tree, (part, *_) = ast.parse(text), path.relative_to(ROOT / "sklearn_bundle").parts
        functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
        found["compiled functions"] += sum(map(is_compiled, functions))
        if not part.endswith("_next"):
            found[part if part in LIMITS else "other"] += code_lines(text, tree)
            found["modules"] += path.name != "__init__.py"
    for folder in ("tests", "asv_benchmarks"):
        found[folder] = sum(text.count("\n") for _, text in files(folder, ".py"))
    found["doc"] = sum(len(text.split()) for _, text in files("doc", ".rst"))
    return found


@pytest.mark.parametrize("part", LIMITS)
def test_no_part_has_grown(sizes, part):
    """Lines of code of a part of the package; lines of all else but words of ``doc``."""
    assert sizes[part] <= LIMITS[part], f"{part} has {sizes[part]}, and {LIMITS[part]} are allowed"


def test_numbers_are_those_that_were_reached(sizes):
    """What was saved is not spent again unseen: limits follow within one percent."""
    loose = {part: sizes[part] for part, most in LIMITS.items() if sizes[part] < 0.99 * most}
    assert not loose, f"write these down as the limits: {loose}"
