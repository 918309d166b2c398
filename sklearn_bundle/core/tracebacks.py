"""Which errors are about what a user passed: their message says all, and frames inside nothing."""

import os
from dis import opmap
from types import TracebackType

#: Set to "full", errors keep all frames.
VARIABLE = "SKLEARN_BUNDLE_TRACEBACKS"
# Modules whose frames say nothing of the caller's code: not those of a loss of the caller's own.
_INSIDE = {"sklearn_bundle", "sklearn", "contextlib", "functools", "joblib", "concurrent"}


def is_refusal(error: BaseException) -> bool:
    """Whether this package or scikit-learn has raised it on purpose, with no other code between.

    An error that numpy or Python raises within them is not: all of its frames are needed then. It
    differs by the last instruction, which is not that of a ``raise`` statement.
    """
    if os.environ.get(VARIABLE) == "full":
        return False
    trace, last = error.__traceback__, None
    while trace is not None:
        if trace.tb_frame.f_globals.get("__name__", "").partition(".")[0] not in _INSIDE:
            return False
        last, trace = trace, trace.tb_next
    return last is not None and _is_raise(last)


def _is_raise(trace: TracebackType) -> bool:
    return trace.tb_frame.f_code.co_code[trace.tb_lasti] == opmap["RAISE_VARARGS"]
