"""Rows in blocks, as collections of dask have them."""

from sklearn_bundle.linear.blocks.cutting import aligned
from sklearn_bundle.linear.blocks.lazy import lazily, lazy_accuracy, lazy_r2
from sklearn_bundle.linear.blocks.reading import check_blocks
from sklearn_bundle.linear.blocks.rounds import ClusterLost, ClusterTimeout

__all__ = [
    "ClusterLost",
    "ClusterTimeout",
    "aligned",
    "check_blocks",
    "lazily",
    "lazy_accuracy",
    "lazy_r2",
]
