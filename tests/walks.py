"""The calls of a fit, as the walks of the architecture page show them:  python -m tests.walks NAME

A call is a function of the package, compiled ones included, with all functions of the package that
run at that time. NAME is a walk; its calls are printed, each function once, indented by depth.
"""

import sys
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numba.core.registry import CPUDispatcher

import sklearn_bundle
from sklearn_bundle import SDCACRF, BMRMClassifier, StructuredSVM, SwapSVC

PACKAGE = Path(sklearn_bundle.__file__).parent
ROWS = 60
WORDS = [[{"a": 1.0}, {"b": 1.0}, {"a": 0.5}]] * 3
LABELS = [["A", "B", "A"]] * 3


class Call(NamedTuple):
    """A function, as ``path: qualified name``, and those around it from the outermost on."""

    function: str
    within: tuple[str, ...]


def binary(n=ROWS):
    X = np.random.default_rng(0).normal(size=(n, 5))
    return X, (X[:, 0] + X[:, 1] > 0.3).astype(int)


def fit_blocks():
    import dask
    import dask.array as da

    X, y = binary()
    with dask.config.set(scheduler="synchronous"):  # calls in other threads are not recorded
        BMRMClassifier().fit(da.from_array(X, chunks=(20, 5)), da.from_array(y, chunks=20))


FITS = {
    "BMRMClassifier": lambda: BMRMClassifier().fit(*binary(400)),  # fewer are solved at once
    "SwapSVC": lambda: SwapSVC().fit(*binary()),
    "SDCACRF": lambda: SDCACRF().fit(WORDS, LABELS),
    "StructuredSVM": lambda: StructuredSVM().fit(WORDS, LABELS),
    "blocks": fit_blocks,
}


def recorded(fit):
    """All calls of a fit in order, of its second run: by then everything is compiled."""
    fit()
    calls = []

    def note(function, frame):
        within = []
        while frame is not None:
            within.append(_name(frame.f_code))
            frame = frame.f_back
        calls.append(Call(function, tuple(name for name in reversed(within) if name)))

    def profile(frame, event, _):
        name = _name(frame.f_code)
        if event == "call" and name and frame.f_back is not None:
            note(name, frame.f_back)

    def call(dispatcher, *args):
        note(_name(dispatcher.py_func.__code__), sys._getframe(1))
        return compiled_call(dispatcher, *args)

    # Compiled functions have no frame, and numba's versions differ in what a profile sees of them.
    compiled_call = CPUDispatcher.__call__
    CPUDispatcher.__call__ = call
    sys.setprofile(profile)
    try:
        fit()
    finally:
        sys.setprofile(None)
        del CPUDispatcher.__call__
    return calls


@cache
def _name(code):
    """Of a function of the package, else None; a nested one counts as the one around it."""
    path = Path(code.co_filename)
    if not path.is_relative_to(PACKAGE):
        return None
    name = code.co_qualname.partition(".<locals>")[0]
    return f"{path.relative_to(PACKAGE).as_posix()}: {name}"


if __name__ == "__main__":
    seen = set()
    for function, within in recorded(FITS[sys.argv[1]]):
        if function not in seen:
            seen.add(function)
            print("  " * len(within) + function)
