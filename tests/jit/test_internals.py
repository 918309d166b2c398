"""What this package uses of numba and scikit-learn beyond their public interfaces has its form.

A release that moves such a part fails here first. Then see sklearn_bundle/jit/decorators.py.
"""

import inspect
from typing import NamedTuple

import llvmlite
import numba
import pytest
import sklearn
from numba.core import event
from sklearn.base import BaseEstimator

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
    """For ``max_time``, which does not count them."""
    twice, heard = compiled()
    assert callable(event.register) and {"on_start", "on_end"} <= set(dir(event.Listener))
    assert heard[0].is_start and heard[-1].is_end
    assert heard[0].data is heard[-1].data and heard[0].data["dispatcher"] is twice


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


@pytest.mark.parametrize("part", [events_of_compilations, types_of_named_tuples, callbacks_of_fits])
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
