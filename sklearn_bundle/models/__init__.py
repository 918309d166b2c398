"""Output structures: features, inference and loss; no solver and no data.

A user's own model derives from :class:`StructuredModel`.
"""

from sklearn_bundle.models.base import StructuredModel
from sklearn_bundle.models.chain_structure import Chain
from sklearn_bundle.models.classes import Multiclass, Ontology
from sklearn_bundle.models.pairwise import PairwiseGraph

__all__ = ["Chain", "Multiclass", "Ontology", "PairwiseGraph", "StructuredModel"]
