"""Rows in blocks, as collections of dask have them."""

from sklearn_bundle.core_next.misread import is_collection
from sklearn_bundle.linear_next.blocks.cutting import aligned
from sklearn_bundle.linear_next.blocks.lazy import lazily, lazy_accuracy, lazy_r2
from sklearn_bundle.linear_next.blocks.reading import BlockedData, check_blocks
from sklearn_bundle.linear_next.blocks.rounds import ClusterLost, ClusterTimeout

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
