"""Rows in blocks, as collections of dask have them."""

from sklearn_bundle.core.misread import is_collection
from sklearn_bundle.linear.blocks.cutting import aligned
from sklearn_bundle.linear.blocks.lazy import lazily, lazy_accuracy, lazy_r2
from sklearn_bundle.linear.blocks.reading import BlockedData, check_blocks
from sklearn_bundle.linear.blocks.rounds import ClusterLost, ClusterTimeout

__all__ = [
    "BlockedData",
    "ClusterLost",
    "ClusterTimeout",
    "aligned",
    "check_blocks",
    "is_collection",
    "lazily",
    "lazy_accuracy",
    "lazy_r2",
]
