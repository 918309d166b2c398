"""Pages of the documentation: whole rows of tables, and examples that need no more than a page."""

import re
from pathlib import Path

import pytest

DOC = Path(__file__).parents[2] / "doc"
RULE = r"^ *=+(?: +=+)+\n"
TABLE = re.compile(rf"{RULE}.*?{RULE}(?=\n|\Z)", re.MULTILINE | re.DOTALL)


every_page = pytest.mark.parametrize("page", sorted(DOC.rglob("*.rst")), ids=lambda path: path.stem)


@every_page
def test_no_example_imports_from_the_tests(page):
    assert not re.search(r"^ *>>> (from|import) tests\b", page.read_text("utf-8"), re.MULTILINE)


@every_page
def test_no_row_of_a_simple_table_is_split(page):
    """A line whose first cell is filled begins a row."""
    for table in TABLE.findall(page.read_text("utf-8")):
        top, *lines = table.splitlines()
        first, *_, last = (cell.span() for cell in re.finditer("=+", top))
        rows = [line for line in lines if line[slice(*first)].strip()]
        assert [row for row in rows if not row[last[0] :].strip()] == []
