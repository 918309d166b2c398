"""The only decorator that compiles, and the rules for every compiled function.

* The interpreter lock is released, so that row blocks run in threads.
* ``error_model="numpy"``: the check for a zero division would keep LLVM from vectorizing.
* Only ``contract``, ``nsz`` and ``arcp``: sums keep their order, and infinities and NaN keep their
  meaning, since certificates depend on them.
* Signatures are lazy: types that are not used are never compiled.
* Machine code goes to numba's disk cache if a cache folder is writable.
* Only functions that Python calls get machine code; what they call is part of it.
* Arrays are copied in loops. For ``a[:] = b`` numba also compiles the code that formats its error
  message, which takes 3 to 5 s.
* A variable that changes and that a large function takes starts as ``np.int64(0)``, not as 0:
  numba would compile the function a second time, for the literal.
* To Python they return no named tuples. numba makes these by code in Python and does not look for
  errors in it: Ctrl-C, which comes there if it was pressed during the call, would end the process.
"""

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba.core import types
from numba.extending import overload

from sklearn_bundle.jit import announce  # noqa: F401
from sklearn_bundle.jit.cache import enable_cache

_PACKAGE = Path(__file__).parents[1]
# Constants of compiled code are part of it.
_NUMBERS = "core/limits.py"
_OPTIONS: dict[str, Any] = {
    "nogil": True,
    "error_model": "numpy",
    "fastmath": {"contract", "nsz", "arcp"},
    "no_cfunc_wrapper": True,  # for callbacks from C
}


# ---- less to compile -----------------------------------------------------------------------------
# Inner functions are linked into callers, and become machine code only there. This uses parts of
# numba that are not its public interface. It happens with the versions that it was tried with; with
# others every function is compiled on its own, as numba does by itself. The first fit of a CRF then
# takes 41 % more CPU time, of structured outputs 21 %, of a kernel machine 13 %, of a linear model
# nothing. Results do not depend on it.

_ENVIRONMENT = "_ZN08NumbaEnv"  # begins the names of numba's variables for environments
_TRIED = (0, 59), (0, 68)  # the oldest and the newest version of numba
FRAGMENT: dict[str, Any] = {"no_cpython_wrapper": True}  # options for functions that numba calls


def _is_tried() -> bool:
    version = tuple(int(part) for part in numba.__version__.split(".")[:2])
    return _TRIED[0] <= version <= _TRIED[1]


if _is_tried():
    from llvmlite.binding import parse_assembly
    from numba.core.codegen import JITCodeLibrary
    from numba.core.compiler import Compiler
    from numba.core.registry import cpu_target

    class _Fragment(JITCodeLibrary):
        """Code that is compiled only as part of the functions that call it.

        numba optimizes a function together with all that it calls and translates that to machine
        code, and does the same again for each caller, up to those that Python calls. Only these
        last results are used. A fragment is what numba links into a caller, without the work in
        between.
        """

        def _optimize_final_module(self) -> None:
            """Left to the callers."""

        def _finalize_final_module(self) -> None:
            """Make machine code only of the variables that numba sets at once: environments."""
            code, variables = self._final_module, self.create_ir_module(self.name)
            context: Any = cpu_target.target_context
            for variable in code.global_variables:
                if variable.name.startswith(_ENVIRONMENT):
                    context.declare_env_global(variables, variable.name)
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

    FRAGMENT["pipeline_class"] = _FragmentCompiler


# ---- decorators ----------------------------------------------------------------------------------


def compiled_sources() -> list[Path]:
    """Every source file that may hold compiled code, or a number that it uses."""
    patterns = "jit/*.py", "**/_compiled/*.py", "linear/losses/*.py", _NUMBERS
    return sorted(path for pattern in patterns for path in _PACKAGE.glob(pattern))


@cache
def source_stamp() -> bytes:
    """Hash of every source file that may hold compiled code.

    numba's own stamp covers only the file of a function: after an edit of a function that it calls
    in another file, old machine code would run.
    """
    digest = hashlib.sha256()
    for path in compiled_sources():
        name = path.relative_to(_PACKAGE).as_posix()
        digest.update(name.encode() + b"\0" + path.read_bytes())
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
    """Like :func:`jit`, for a function that only compiled code calls.

    It has no machine code of its own, and no wrapper for Python, which often takes LLVM longer than
    the function itself, above all if arguments are named tuples of arrays.
    """
    compiled = jit(function, **FRAGMENT)
    template = compiled.get_call_template
    # numba would compile anew for each constant that is passed; LLVM knows it where it inlines.
    compiled.get_call_template = lambda args, kws: template(
        [types.unliteral(a) if isinstance(a, types.IntegerLiteral) else a for a in args], kws
    )
    return compiled


def inlined(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same for a function that is called in one place: it is inlined into its caller.

    Types are inferred once for both, and no code is linked.
    """
    return jit(function, inline="always", **FRAGMENT)


_KINDS: dict[Callable[..., Any], set[type]] = {}  # that have registered, by what was declared


def fallback(declared: Callable[..., Any]) -> Callable[..., Any]:
    """Decorates a declared function whose own body stands for types that register no other."""

    options: Any = _OPTIONS | FRAGMENT | {"forceinline": True}

    @overload(declared, jit_options=options, strict=False)
    def choose(first, *further):
        kind = getattr(first, "instance_class", None)
        return None if kind is None or is_registered(declared, kind) else declared

    return declared


def is_registered(declared: Callable[..., Any], kind: type) -> bool:
    """Whether there is a function of its own for this type."""
    return kind in _KINDS.get(declared, ())


def registered(declared: Callable[..., Any], kind: type) -> Callable[..., Any]:
    """Decorates the compiled implementation of ``declared`` for a first argument of type ``kind``.

    ``kind`` is a class of named tuples that every process can import, since the cache names it. A
    compiled function that calls ``declared`` is compiled and cached for each such type. It can thus
    use functions from other modules; passed as arguments, these would be compiled again in every
    process.
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        options: Any = _OPTIONS | FRAGMENT | {"forceinline": True}
        _KINDS.setdefault(declared, set()).add(kind)

        @overload(declared, jit_options=options, strict=False)
        def choose(first, *further):
            return function if getattr(first, "instance_class", None) is kind else None

        return function

    return register
