"""Files that may be compressed."""

import bz2
import gzip
import lzma
import os
from collections.abc import Callable
from typing import Any

# Suffix of a name -> function that opens a file compressed this way.
_OPENERS = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}


def opener(path: str | os.PathLike) -> Callable[..., Any]:
    """The function that opens the file, by its extension."""
    return _OPENERS.get(os.path.splitext(path)[1].lower(), open)
