"""Readers of data files, and data that stay on disk."""

from sklearn_bundle.datasets._conll import load_conll
from sklearn_bundle.datasets._frame import sequences_from_frame
from sklearn_bundle.datasets._mapped import open_mapped, save_mapped
from sklearn_bundle.datasets._svmlight import load_svmlight

__all__ = [
    "load_conll",
    "load_svmlight",
    "open_mapped",
    "save_mapped",
    "sequences_from_frame",
]
