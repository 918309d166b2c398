"""Output structures: features, inference and loss; no solver and no data.

Derive your own model from :class:`StructuredModel`.
"""

from sklearn_bundle.structured import models as _models
from sklearn_bundle.structured.models import *  # noqa: F403

__all__: list[str] = []
__all__ += _models.__all__
