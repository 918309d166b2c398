"""Ctrl-C at a chosen place of a fit, sent to the process as a terminal would."""

import os
import signal
from itertools import count


def ctrl_c():
    """Python acts on it at once; in compiled code, as soon as that has returned."""
    os.kill(os.getpid(), signal.SIGINT)


def interrupt(monkeypatch, call, *places, after=False):
    """Ctrl-C at a call of the functions at ``places``, pairs of owner and name, counted together.

    It comes as the call begins, or ``after`` it.
    """
    numbers = count(1)  # next() is atomic: calls may come from threads

    def interrupted(function):
        def wrapper(*arguments, **named):
            number = next(numbers)
            if number == call and not after:
                ctrl_c()
            result = function(*arguments, **named)
            if number == call and after:
                ctrl_c()
            return result

        return wrapper

    for owner, name in places:
        monkeypatch.setattr(owner, name, interrupted(getattr(owner, name)))


def interrupting(kind, call, rows=None):
    """A loss of that class with Ctrl-C at a line search; of those over so many rows, if given."""
    calls = []

    class Interrupting(kind):
        def line_search(self, scores, *arguments):
            if rows in (None, len(scores)):
                calls.append(None)
                if len(calls) == call:
                    ctrl_c()
            return super().line_search(scores, *arguments)

    return Interrupting()
