"""Readers of sequences."""

from sklearn_bundle.datasets._frame import load_conll, sequences_from_frame

__all__ = ["load_conll", "sequences_from_frame"]
