"""Warnings that point at the line of the user's code that called the package."""

import warnings
from inspect import currentframe
from os import sep
from pathlib import Path

import sklearn

# The package itself, and scikit-learn, whose decorators are around methods.
_FOLDERS = Path(__file__).parents[1], *sklearn.__path__
_OURS = tuple(f"{folder}{sep}" for folder in _FOLDERS)


def warn(message: str, category: type[Warning]) -> None:
    """Warn at the nearest caller outside of the package."""
    frame, level = currentframe(), 1
    while frame is not None and frame.f_code.co_filename.startswith(_OURS):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
