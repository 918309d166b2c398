"""Check that a tag is that of the version, and that the changelog has it:

    python .ci/release.py v0.1.0

The version stands in ``sklearn_bundle/__init__.py`` alone. CHANGES.rst has to begin with its
heading and a date, not with "not released".
"""

import re
import sys
from datetime import date
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def version() -> str:
    """The version of the package, without an import of it."""
    text = (ROOT / "sklearn_bundle" / "__init__.py").read_text(encoding="utf-8")
    (found,) = re.findall(r'^__version__ = "([^"]+)"$', text, re.MULTILINE)
    return found


def main(tag: str) -> None:
    if tag != f"v{version()}":
        raise SystemExit(f"the tag is {tag}, but __version__ is {version()}: tag it v{version()}")
    changes = (ROOT / "CHANGES.rst").read_text(encoding="utf-8")
    heading = re.search(r"^(\S+) \((.+)\)\n-+$", changes, re.MULTILINE)
    if heading is None or heading[1] != version():
        raise SystemExit(f"CHANGES.rst must begin with the heading '{version()} (YYYY-MM-DD)'")
    try:
        date.fromisoformat(heading[2])
    except ValueError:
        raise SystemExit(
            f"CHANGES.rst: {heading[0].splitlines()[0]!r} needs the date of the release, YYYY-MM-DD"
        ) from None
    print(f"{tag}: version and changelog agree")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    main(sys.argv[1])
