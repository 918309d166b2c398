"""Check a source distribution: whatever file the README or pyproject.toml names is in it.

python .ci/sdist.py FILE.tar.gz
"""

import re
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
_NAME = re.compile(r"[\w./-]+")
_BUILT = ("doc/_build/", "doc/generated/", "doc/auto_examples/")  # made from the others


def named(text: str) -> set[str]:
    """Files and folders of the checkout that a text names."""
    names = {name.rstrip("./") for name in _NAME.findall(text)}
    return {name for name in names if name and name[0] != "/" and (ROOT / name).exists()}


def main(archive: str) -> None:
    with tarfile.open(archive) as file:
        members = {name.partition("/")[2] for name in file.getnames()}
    folders = {str(parent) for name in members for parent in Path(name).parents}
    wanted = named((ROOT / "README.rst").read_text(encoding="utf-8")) | {"pyproject.toml", "tests"}
    wanted = {name for name in wanted if not f"{name}/".startswith(_BUILT)}
    missing = sorted(wanted - members - folders)
    if missing or len(wanted) < 8:
        sys.exit(f"the source distribution lacks {missing}; the README names {sorted(wanted)}")
    built = sorted(name for name in members if name.startswith(_BUILT) or "__pycache__" in name)
    if built:
        sys.exit(f"the source distribution has what is built: {built[:5]}")
    print(f"{Path(archive).name}: {len(members)} files, among them {', '.join(sorted(wanted))}")


if __name__ == "__main__":
    main(sys.argv[1])
