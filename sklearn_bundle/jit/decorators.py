"""The decorators that compile, and the rules for every compiled function.

* :func:`jit` is for functions that Python calls, :func:`inner` for what only these call.
* The interpreter lock is released, so that row blocks run in threads.
* ``error_model="numpy"``: the check for a zero division would keep LLVM from vectorizing.
* Only ``contract``, ``nsz`` and ``arcp``: sums keep their order, and infinities and NaN keep their
  meaning, since certificates depend on them.
* No wrappers for C, which nobody calls. Functions that call ``vector.load`` are compiled for
  size: LLVM would unroll their loops, which takes most of the time of a first fit.
* Signatures are lazy: types that are not used are never compiled.
* Machine code goes to numba's disk cache if a cache folder is writable.
* Arrays are copied in loops. For ``a[:] = b`` numba also compiles the code that formats its error
  message, which takes 3 to 5 s.
* A variable that changes and that a large function takes starts as ``np.int64(0)``, not as 0:
  numba would compile the function a second time, for the literal.
* To Python they return no named tuples. numba makes these by code in Python and does not look for
  errors in it: Ctrl-C, which comes there if it was pressed during the call, would end the process.
"""

import hashlib
import os
import sys
import warnings
from collections.abc import Callable
from functools import cache, wraps
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba.core import event  # documented: Numba Developer Manual, "Event API"
from numba.extending import overload, register_jitable

import sklearn_bundle

_OPTIONS: dict[str, Any] = {
    "nogil": True,
    "no_cfunc_wrapper": True,
    "error_model": "numpy",
    "fastmath": {"contract", "nsz", "arcp"},
}
# For loops that only sum: where bounds on rounding hold for any order, they may be vectorized.
SUMS: dict[str, Any] = {"fastmath": {"contract", "nsz", "arcp", "reassoc"}}
_ROOT = Path(__file__).parents[1]
_NOT_KEPT = (
    "numba finds no writable folder for compiled code, so every process compiles for seconds "
    "before its first result. Set the environment variable NUMBA_CACHE_DIR to a folder that can "
    "be written."
)
if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
    raise ImportError(
        "sklearn_bundle cannot run while NUMBA_DISABLE_JIT is set: its loops are machine code."
    )


# ---- decorators ----------------------------------------------------------------------------------


def compiled_sources() -> list[Path]:
    """Every source file that may hold compiled code, or a number that it uses."""
    patterns = "jit/*.py", "**/_compiled/*.py", "linear/losses/*.py"
    return sorted(path for p in (*patterns, "core/limits.py") for path in _ROOT.glob(p))


@cache
def source_stamp() -> str:
    """Hash of the version and of every source file that may hold compiled code.

    An archive that Python imports from has no such files: there the version stands for them.
    """
    return _hash(compiled_sources(), sklearn_bundle.__version__)


def _hash(paths: list[Path], version: str = "") -> str:
    digest = hashlib.sha256(version.encode())
    for path in paths:
        digest.update(b"\0" + path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]  # in a file's name: enough for two sources never to share one


def jit(function: Callable[..., Any], stamp: str | None = "", **further: Any) -> Callable[..., Any]:
    """Compile ``function`` on its first call for each combination of argument types.

    numba looks for machine code in files that it names by the function's ``__qualname__``. The
    stamp of all sources is part of that name while it is decorated: after an edit in another file,
    which numba does not see, or an upgrade no old file is read. Reading alone may fail, since it
    imports the types that a file mentions. A ``stamp`` of further sources is added; None keeps
    nothing.
    """
    options, name = _OPTIONS | further, function.__qualname__
    if stamp is None:
        return numba.njit(**options)(function)
    function.__qualname__ = f"{name}-{source_stamp()}{stamp}"
    try:
        compiled = numba.njit(cache=True, **options)(function)
    except RuntimeError:  # no folder is writable
        warnings.warn(_NOT_KEPT, RuntimeWarning, stacklevel=1)  # of one line: shown once
        compiled = numba.njit(**options)(function)
    function.__qualname__ = compiled.__qualname__ = name
    return compiled


def inner(function: Callable[..., Any], **further: Any) -> Callable[..., Any]:
    """For a function that only compiled code calls: its code is part of that of its callers.

    It has no wrapper for Python, which often takes LLVM longer than the function itself, and is
    compiled once for all constants that are passed. That a caller is to be part of its own callers
    is not true of what it calls: numba would compile both kinds.
    """
    return register_jitable(**_OPTIONS | {"forceinline": False} | further)(function)


def frozen(array: np.ndarray) -> np.ndarray:
    """Read-only plain view: one array type for compiled functions, whatever the caller's flags."""
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view


# ---- functions that a type brings along ----------------------------------------------------------

_OF_KINDS: dict[Callable[..., Any], dict[type | None, Callable[..., Any]]] = {}


def _of_kinds(declared: Callable[..., Any]) -> dict[type | None, Callable[..., Any]]:
    """The functions that stand for a declared one, by the type of the first argument."""
    if declared not in _OF_KINDS:
        functions = _OF_KINDS[declared] = {}

        options: Any = _OPTIONS | {"forceinline": True}

        @overload(declared, jit_options=options, strict=False)
        def choose(first, *further):
            return functions.get(getattr(first, "instance_class", None), functions.get(None))

    return _OF_KINDS[declared]


def registered(declared: Callable[..., Any], kind: type | None) -> Callable[..., Any]:
    """Decorates the compiled implementation of ``declared`` for a first argument of type ``kind``.

    ``kind`` is a class of named tuples that every process can import, since the cache names it, or
    None for all that register no other. A compiled function that calls ``declared`` is compiled and
    cached for each such type. It can thus use functions from other modules; passed as arguments,
    these would be compiled again in every process.
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        _of_kinds(declared)[kind] = function
        return function

    return register


def jit_by_kind(function: Callable[..., Any], **further: Any) -> Callable[..., Any]:
    """Like :func:`jit`, for a first argument whose type has registered functions.

    Code for a type from outside the package is kept in files of its own, named after the source of
    that type. In the common ones it would outlive an edit of this source; and where this module is
    missing, no process could read them.
    """
    own = jit(function, **further)

    @cache
    def compiled(kind: type) -> Callable[..., Any]:
        module = kind.__module__
        if module.partition(".")[0] == sklearn_bundle.__name__:
            return own
        path = getattr(sys.modules.get(module), "__file__", None)
        stamp = None if path is None or module == "__main__" else f"-{_hash([Path(path)])}"
        return jit(function, stamp, **further)

    @wraps(function)
    def call(first: Any, *others: Any) -> Any:
        return compiled(type(first))(first, *others)

    return call


# ---- time ----------------------------------------------------------------------------------------


_CLOCK = event.TimingListener()  # numba compiles under one lock: threads do not mix
event.register("numba:compile", _CLOCK)


def seconds_compiled() -> float:
    """Seconds that this process has spent compiling so far: ``max_time`` does not count them."""
    return _CLOCK.duration if _CLOCK.done else 0.0
