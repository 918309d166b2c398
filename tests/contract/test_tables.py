"""Tables of the documentation: a line whose first cell is filled begins a row of a simple table."""

import re
from pathlib import Path

import pytest

DOC = Path(__file__).parents[2] / "doc"
RULE = r"^ *=+(?: +=+)+\n"
TABLE = re.compile(rf"{RULE}.*?{RULE}(?=\n|\Z)", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", sorted(DOC.rglob("*.rst")), ids=lambda path: path.stem)
def test_no_row_of_a_simple_table_is_split(page):
    for table in TABLE.findall(page.read_text("utf-8")):
        top, *lines = table.splitlines()
        first, *_, last = (cell.span() for cell in re.finditer("=+", top))
        rows = [line for line in lines if line[slice(*first)].strip()]
        assert [row for row in rows if not row[last[0] :].strip()] == []
