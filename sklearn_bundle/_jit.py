"""The one decorator that compiles, and the rules that every compiled function keeps.

* The interpreter lock is released, so that row blocks run in threads.
* ``error_model="numpy"``: the check for a zero division would keep LLVM from vectorizing.
* Only ``contract``, ``nsz`` and ``arcp``: sums keep their order, and infinities and NaN keep their
  meaning, because certificates are made of them.
* Signatures are lazy: a type that nobody uses is never compiled.
* Results go to numba's disk cache if a cache folder can be written, and nowhere if not.
"""

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba.extending import overload

from sklearn_bundle import _announce  # noqa: F401
from sklearn_bundle._cache import enable_cache

_PACKAGE = Path(__file__).parent
_OPTIONS: dict[str, Any] = {
    "nogil": True,
    "error_model": "numpy",
    "fastmath": {"contract", "nsz", "arcp"},
}


@cache
def source_stamp() -> bytes:
    """Hash of every source file that may hold compiled code.

    numba's own stamp is that of the file in which a function stands: after an edit of a function
    that it calls in another file, old machine code would run.
    """
    files = [_PACKAGE / "_jit.py", *_PACKAGE.glob("_compiled/*.py"), *_PACKAGE.glob("losses/*.py")]
    digest = hashlib.sha256()
    for path in sorted(files):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.digest()


def jit(function: Callable[..., Any], **further: Any) -> Callable[..., Any]:
    """Compile ``function`` on its first call for each combination of argument types."""
    compiled = numba.njit(**_OPTIONS | further)(function)
    enable_cache(compiled, source_stamp())
    return compiled


def frozen(array: np.ndarray) -> np.ndarray:
    """Read-only plain view: one array type for compiled functions, whatever the caller's flags."""
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view


def inner(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same for a function that only compiled code calls.

    It has no wrapper that Python could call: LLVM takes longer for that than for many a function,
    above all where arguments are named tuples of arrays.
    """
    return jit(function, no_cpython_wrapper=True, no_cfunc_wrapper=True)


def inlined(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same for one that is called in one place: it becomes a part of its caller.

    Each function is optimized again together with all that it calls, and that takes the longest.
    """
    return jit(function, inline="always", no_cpython_wrapper=True, no_cfunc_wrapper=True)


def registered(declared: Callable[..., Any], kind: type) -> Callable[..., Any]:
    """Decorates what ``declared`` does, in compiled code, where its first argument is a ``kind``.

    ``kind`` is a class of named tuples that every process can import, since the cache names it. A
    compiled function that calls ``declared`` is compiled for each such type that it is given, and
    cached for it: so it takes the functions of others, which as arguments would be compiled again
    in every process.
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        options = _OPTIONS | {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}

        @overload(declared, jit_options=options, strict=False)
        def choose(first, *further):
            return function if getattr(first, "instance_class", None) is kind else None

        return function

    return register
