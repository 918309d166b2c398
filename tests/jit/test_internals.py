"""What this package uses of numba and scikit-learn beyond their public interfaces has its form.

A release that moves such a part fails here first. Then see sklearn_bundle/jit (cache, decorators,
announce).
"""

import inspect
from typing import NamedTuple

import llvmlite
import numba
import pytest
import sklearn
from llvmlite.binding import parse_assembly
from numba.core import caching, compiler, config, event
from numba.core.codegen import JITCodeLibrary
from numba.core.registry import cpu_target
from sklearn.base import BaseEstimator

from sklearn_bundle.jit import decorators

LAST_TRIED = {"numba": "0.68.1", "llvmlite": "0.50.0", "scikit-learn": "1.9.1"}


class Pair(NamedTuple):
    first: float
    second: float


def compiled():
    """A dispatcher, without a cache, and what numba said while it compiled."""
    heard = event.RecordingListener()
    with event.install_listener("numba:compile", heard):
        twice = numba.njit(lambda x: 2.0 * x)
        twice(1.0)
    return twice, [passed for _, passed in heard.buffer]


def events_of_compilations():
    """For announce.py."""
    twice, heard = compiled()
    assert callable(event.register) and {"on_start", "on_end"} <= set(dir(event.Listener))
    assert heard[0].is_start and heard[-1].is_end
    assert heard[0].data is heard[-1].data and heard[0].data["dispatcher"] is twice
    assert twice.py_func.__module__ == __name__
    assert isinstance(config.DISABLE_JIT, (bool, int))


def folders_of_machine_code():
    """For cache.py."""
    assert isinstance(config.CACHE_DIR, str)
    ours = {"get_cache_path", "get_source_stamp", "get_disambiguator", "from_function"}
    assert set(caching._CacheLocator.__abstractmethods__) <= ours
    assert callable(caching._CacheLocator.get_suitable_cache_subpath)
    assert isinstance(caching.CompileResultCacheImpl._locator_classes, list)
    assert caching.FunctionCache._impl_class is caching.CompileResultCacheImpl
    ours = {"cache_path", "load_overload", "save_overload", "flush"}
    assert ours <= set(dir(caching.NullCache))


def stamp_of_an_index():
    """For cache.py: the version comes first in the file, and is compared before all else."""
    read = inspect.getsource(caching.IndexDataCacheFile._load_index)
    assert read.index("self._version") < read.index("self._source_stamp")
    file = caching.IndexDataCacheFile("folder", "name", b"stamp")
    assert file._source_stamp == b"stamp" and file._version == numba.__version__
    twice = numba.njit(lambda x: 2.0 * x)
    assert callable(twice.enable_caching) and hasattr(twice, "_cache")


def libraries_of_code():
    """For fragments, where it is used."""
    ours = {"_optimize_final_module", "_finalize_final_module", "create_ir_module"}
    assert ours | {"enable_object_caching"} <= set(dir(JITCodeLibrary))
    assert {"declare_env_global", "codegen"} <= set(dir(cpu_target.target_context))
    library = JITCodeLibrary(cpu_target.target_context.codegen(), "empty")
    assert library.name == "empty" and library._final_module.global_variables is not None
    assert callable(parse_assembly) and callable(compiler.Compiler.define_pipelines)
    twice, _ = compiled()
    assert decorators._ENVIRONMENT in twice.inspect_llvm(twice.signatures[0])


def types_of_named_tuples():
    """For ``decorators.registered``."""
    assert numba.typeof(Pair(1.0, 2.0)).instance_class is Pair
    assert {"jit_options", "strict"} <= set(inspect.signature(numba.extending.overload).parameters)


def callbacks_of_fits():
    """For core/monitor.py, since scikit-learn 1.9."""
    callback = pytest.importorskip("sklearn.callback")

    class Called(callback.CallbackSupportMixin, BaseEstimator):
        pass

    bar = callback.ProgressBar()
    model = Called().set_callbacks(bar)
    assert list(model._skl_callbacks) == [bar] and callable(model._init_callback_context)


@pytest.mark.parametrize(
    "part",
    [
        events_of_compilations,
        folders_of_machine_code,
        stamp_of_an_index,
        libraries_of_code,
        types_of_named_tuples,
        callbacks_of_fits,
    ],
)
def test_private_part_has_the_form_that_we_rely_on(part):
    installed = {
        "numba": numba.__version__,
        "llvmlite": llvmlite.__version__,
        "scikit-learn": sklearn.__version__,
    }
    try:
        part()
    except Exception as error:
        pytest.fail(
            f"{part.__name__.replace('_', ' ')}: {error!r}. The package was last tried with "
            f"{LAST_TRIED}; installed are {installed}."
        )
