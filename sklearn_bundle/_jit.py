"""The only decorator that compiles, and the rules for every compiled function.

* The interpreter lock is released, so that row blocks run in threads.
* ``error_model="numpy"``: the check for a zero division would keep LLVM from vectorizing.
* Only ``contract``, ``nsz`` and ``arcp``: sums keep their order, and infinities and NaN keep their
  meaning, since certificates depend on them.
* Signatures are lazy: types that are not used are never compiled.
* Machine code goes to numba's disk cache if a cache folder is writable.
* Only functions that Python calls get machine code; what they call is part of it.
"""

import hashlib
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numba
import numpy as np
from llvmlite.binding import parse_assembly
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.registry import cpu_target
from numba.core.types import unliteral
from numba.extending import overload

from sklearn_bundle import _announce  # noqa: F401
from sklearn_bundle._cache import enable_cache

_PACKAGE = Path(__file__).parent
_OPTIONS: dict[str, Any] = {
    "nogil": True,
    "error_model": "numpy",
    "fastmath": {"contract", "nsz", "arcp"},
    "no_cfunc_wrapper": True,  # for callbacks from C
}
_ENVIRONMENT = "_ZN08NumbaEnv"  # begins the names of numba's variables for environments


class _Fragment(JITCodeLibrary):
    """Code that is compiled only as part of the functions that call it.

    numba optimizes a function together with all that it calls and translates that to machine code,
    and does the same again for each caller, up to those that Python calls. Only these last results
    are used. A fragment is what numba links into a caller, without the work in between.
    """

    def _optimize_final_module(self) -> None:
        """Left to the callers."""

    def _finalize_final_module(self) -> None:
        """Make machine code only of the variables that numba sets at once: the environments."""
        code, variables = self._final_module, self.create_ir_module(self.name)
        for variable in code.global_variables:
            if variable.name.startswith(_ENVIRONMENT):
                cpu_target.target_context.declare_env_global(variables, variable.name)
        self._final_module = parse_assembly(str(variables))
        super()._finalize_final_module()
        self._final_module = code


class _FragmentCompiler(Compiler):
    """Makes fragments of functions."""

    def define_pipelines(self) -> list[Any]:
        state = self.state
        state.library = _Fragment(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        return super().define_pipelines()


_FRAGMENT: dict[str, Any] = {"no_cpython_wrapper": True, "pipeline_class": _FragmentCompiler}


@cache
def source_stamp() -> bytes:
    """Hash of every source file that may hold compiled code.

    numba's own stamp covers only the file of a function: after an edit of a function that it calls
    in another file, old machine code would run.
    """
    files = [_PACKAGE / "_jit.py", *_PACKAGE.glob("_compiled/*.py"), *_PACKAGE.glob("losses/*.py")]
    digest = hashlib.sha256()
    for path in sorted(files):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.digest()


def _call_template(compiled: Any, args: tuple, kws: dict[str, Any]) -> Any:
    """What numba asks for to infer the type of a call, without the values of literal numbers.

    numba would compile a function anew for each of them: for each 0 in a call, and for variables
    that are 0 at first, before it knows their types.
    """
    args, kws = tuple(map(unliteral, args)), {name: unliteral(kws[name]) for name in kws}
    return type(compiled).get_call_template(compiled, args, kws)


def jit(function: Callable[..., Any], **further: Any) -> Callable[..., Any]:
    """Compile ``function`` on its first call for each combination of argument types."""
    compiled = numba.njit(**_OPTIONS | further)(function)
    compiled.get_call_template = partial(_call_template, compiled)
    enable_cache(compiled, source_stamp())
    return compiled


def frozen(array: np.ndarray) -> np.ndarray:
    """Read-only plain view: one array type for compiled functions, whatever the caller's flags."""
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view


def inner(function: Callable[..., Any]) -> Callable[..., Any]:
    """Like :func:`jit`, for a function that only compiled code calls.

    It has no machine code of its own, and no wrapper for Python, which often takes LLVM longer than
    the function itself, above all if arguments are named tuples of arrays.
    """
    return jit(function, **_FRAGMENT)


def inlined(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same for a function that is called in one place: it is inlined into its caller.

    Types are inferred once for both, and no code is linked.
    """
    return jit(function, inline="always", **_FRAGMENT)


def registered(declared: Callable[..., Any], kind: type) -> Callable[..., Any]:
    """Decorates the compiled implementation of ``declared`` for a first argument of type ``kind``.

    ``kind`` is a class of named tuples that every process can import, since the cache names it. A
    compiled function that calls ``declared`` is compiled and cached for each such type. It can thus
    use functions from other modules; passed as arguments, these would be compiled again in every
    process.
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        options = _OPTIONS | _FRAGMENT

        @overload(declared, jit_options=options, strict=False)
        def choose(first, *further):
            return function if getattr(first, "instance_class", None) is kind else None

        return function

    return register
