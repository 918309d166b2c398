"""Print the run-time dependencies of pyproject.toml pinned to the oldest supported versions.

``numpy>=1.26.0`` becomes ``numpy==1.26.0``.  The floors stand in pyproject.toml only.
"""

import re
import tomllib
from pathlib import Path

PYPROJECT = Path(__file__).resolve().parent.parent / "pyproject.toml"


def pin(requirement: str) -> str:
    """Turn ``name>=version`` into ``name==version``; refuse anything else."""
    found = re.fullmatch(r"([A-Za-z0-9_.-]+)\s*>=\s*([0-9][0-9A-Za-z.]*)", requirement)
    if found is None:
        raise SystemExit(f"pyproject.toml: {requirement!r} is not of the form 'name>=version'")
    return "==".join(found.groups())


if __name__ == "__main__":
    project = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]
    print("\n".join(pin(requirement) for requirement in project["dependencies"]))
