"""Limits on the threads of BLAS: several at once, and what is left after them."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest
import scipy.linalg.cython_blas  # noqa: F401  # loads the BLAS that compiled code calls
from threadpoolctl import ThreadpoolController

from sklearn_bundle.core import parallel
from sklearn_bundle.core.parallel import blas_threads

BLAS = ThreadpoolController().select(user_api="blas")


def numbers():
    return [library.get_num_threads() for library in BLAS.lib_controllers]


@pytest.fixture(autouse=True)
def two_threads():
    with BLAS.limit(limits=2):
        yield


def test_the_smallest_number_counts():
    before = numbers()
    with blas_threads(2):
        with blas_threads(1):
            assert set(numbers()) == {1}
            with blas_threads(2):
                assert set(numbers()) == {1}
        assert numbers() == before
    assert numbers() == before


def test_limits_that_overlap_leave_nothing_behind():
    """The first to enter leaves first, and the last to leave is in another thread."""
    before, entered, left = numbers(), Event(), Event()

    def other():
        with blas_threads(1):
            entered.set()
            assert left.wait(10)
            return numbers()

    with ThreadPoolExecutor() as pool:
        with blas_threads(1):
            inside = pool.submit(other)
            assert entered.wait(10)
        left.set()
        assert set(inside.result()) == {1}
    assert numbers() == before


def test_ctrl_c_while_a_limit_ends(monkeypatch):
    before, setting, calls = numbers(), parallel._set_threads, []

    def interrupted():
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        setting()

    monkeypatch.setattr(parallel, "_set_threads", interrupted)
    with pytest.raises(KeyboardInterrupt), blas_threads(1):
        pass
    assert numbers() == before
