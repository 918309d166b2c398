"""Output structures: features, inference and loss; no solver and no data.

Derive your own model from :class:`StructuredModel`.
"""

from sklearn_bundle.structured.models.base import StructuredModel
from sklearn_bundle.structured.models.chain_structure import Chain
from sklearn_bundle.structured.models.classes import Multiclass
from sklearn_bundle.structured.models.graph import Graph, Grid
from sklearn_bundle.structured.models.matching import Matching
from sklearn_bundle.structured.models.multilabel import Multilabel
from sklearn_bundle.structured.models.pairwise import PairwiseGraph
from sklearn_bundle.structured.models.segments import Segments

__all__ = [
    "Chain",
    "Graph",
    "Grid",
    "Matching",
    "Multiclass",
    "Multilabel",
    "PairwiseGraph",
    "Segments",
    "StructuredModel",
]
