"""Files that may be compressed."""

import bz2
import gzip
import lzma
import os
from collections.abc import Callable
from typing import Any

# Suffix of a name -> what opens a file so compressed.
_OPENERS = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}


def opener(path: str | os.PathLike) -> Callable[..., Any]:
    """What opens the file, by the extension of its name."""
    return _OPENERS.get(os.path.splitext(path)[1].lower(), open)
