"""Output structures: features, inference and loss; no solver and no data.

Derive your own model from :class:`StructuredModel`.
"""

from sklearn_bundle.models.base import StructuredModel
from sklearn_bundle.models.chain_structure import Chain
from sklearn_bundle.models.classes import Multiclass, Ontology
from sklearn_bundle.models.graph import Graph, Grid
from sklearn_bundle.models.matching import Matching
from sklearn_bundle.models.multilabel import Multilabel
from sklearn_bundle.models.pairwise import PairwiseGraph
from sklearn_bundle.models.segments import Segments

__all__ = [
    "Chain",
    "Graph",
    "Grid",
    "Matching",
    "Multiclass",
    "Multilabel",
    "Ontology",
    "PairwiseGraph",
    "Segments",
    "StructuredModel",
]
