"""Less to compile: inner functions are linked into callers, and become machine code only there.

This uses parts of numba that are not its public interface. It happens with the versions that it was
tried with; with others every function is compiled on its own, as numba does by itself. The first
fit of a CRF then takes 41 % more CPU time, of structured outputs 21 %, of a kernel machine 13 %, of
a linear model nothing. Results do not depend on it.
"""

from typing import Any

import numba

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
