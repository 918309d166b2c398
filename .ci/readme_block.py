"""Print the literal block of README.rst that stands after the comment ``.. ci: NAME``.

    python .ci/readme_block.py quickstart

The commands that CI runs are those that a reader of the README copies: there is no second list.
"""

import sys
from pathlib import Path
from textwrap import dedent

README = Path(__file__).resolve().parent.parent / "README.rst"


def block(text: str, name: str) -> str:
    """Return the body of the ``code-block`` directive after the only marker with that name."""
    lines = text.splitlines()
    marks = [i for i, line in enumerate(lines) if line.strip() == f".. ci: {name}"]
    if len(marks) != 1:
        raise SystemExit(f"README.rst: {len(marks)} lines read '.. ci: {name}', expected one")
    rest = [line for line in lines[marks[0] + 1 :] if line.strip()]
    if not rest or not rest[0].startswith(".. code-block::"):
        raise SystemExit(f"README.rst: no code-block follows '.. ci: {name}'")
    body = []
    for line in lines[lines.index(rest[0], marks[0]) + 1 :]:
        if line.strip() and not line.startswith(" "):
            break
        body.append(line)
    found = dedent("\n".join(body)).strip()
    if not found:
        raise SystemExit(f"README.rst: the code-block after '.. ci: {name}' is empty")
    return found


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    print(block(README.read_text(encoding="utf-8"), sys.argv[1]))
