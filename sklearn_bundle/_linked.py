"""Compiled functions that only compiled code calls: optimized once, within what calls them.

numba optimizes each function together with all that it calls and makes machine code of it, and does
the same again for every function that calls it. For one that Python never calls that is in vain.
"""

from typing import Any

from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import FunctionPass, register_pass
from numba.core.typed_passes import NoPythonSupportedFeatureValidation


class _NoEngine:
    """In place of the engine that keeps machine code: there is none."""

    @staticmethod
    def set_env(env_name: str, env: Any) -> None:
        pass


class _Linked(JITCodeLibrary):
    """Code that other libraries take over before it is optimized as a whole.

    What is overridden is not public in numba; tests/test_jit.py fails if a release moves it.
    """

    codegen = _NoEngine()

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        self._ensure_finalized()
        return 0


@register_pass(mutates_CFG=False, analysis_only=False)
class _TakeLibrary(FunctionPass):
    """Before the function is lowered: numba makes a library of its own only if there is none."""

    _name = "sklearn_bundle_take_library"

    def __init__(self) -> None:
        super().__init__()

    def run_pass(self, state: Any) -> bool:
        state.library = _Linked(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        return True


class LinkedCompiler(CompilerBase):
    """numba's own passes, with such a library."""

    def define_pipelines(self) -> list[Any]:
        pipeline = DefaultPassBuilder.define_nopython_pipeline(self.state)
        pipeline.add_pass_after(_TakeLibrary, NoPythonSupportedFeatureValidation)
        pipeline.finalize()
        return [pipeline]
